//! Nothing of the crates below is in a public signature: they promise nothing, and this crate does.

use std::fs;
use std::path::Path;

use crate::sources;

/// Words that a file imports from the crates below.
fn imported(source: &str) -> Vec<String> {
    let below = |line: &&str| line.starts_with("use phalanx_");
    let words = source.lines().filter(below).flat_map(|line| {
        let names = line.rsplit("::").next().unwrap_or(line);
        names.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect::<Vec<_>>()
    });
    words.filter(|word| !word.is_empty() && word != "self").collect()
}

/// Public signatures: each from its `pub` to the brace, semicolon or end of the field.
fn signatures(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<String> = None;
    for line in source.lines().map(str::trim) {
        // The fields of a tuple are private unless they say otherwise.
        let private = |line: &str| line.starts_with("pub struct") && line.contains('(') && !line.contains("(pub ");
        let text = match open.take() {
            Some(begun) => format!("{begun} {line}"),
            None if line.starts_with("pub ") && !line.starts_with("pub use") && !private(line) => line.to_owned(),
            None => continue,
        };
        if text.ends_with(['{', ';', '}', ',']) && text.matches('(').count() == text.matches(')').count() {
            found.push(text);
        } else {
            open = Some(text);
        }
    }
    found
}

#[test]
fn no_public_signature_names_a_crate_below() {
    let mut count = 0;
    for path in sources::below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let source = fs::read_to_string(&path).expect("readable");
        let foreign = imported(&source);
        for signature in signatures(&source) {
            count += 1;
            let words = signature.split(|c: char| !c.is_alphanumeric() && c != '_');
            let leak = words.into_iter().find(|word| {
                word.starts_with("phalanx_") || *word == "core" || foreign.iter().any(|name| name == word)
            });
            assert_eq!(leak, None, "{}: {signature}", path.display());
        }
    }
    assert!(count > 100, "only {count} signatures were found");
}

/// The first word of a text.
fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()
}

/// The types for which a file implements a trait.
fn implementors<'a>(source: &'a str, name: &str) -> Vec<&'a str> {
    let of =
        |line: &'a str| line.strip_prefix("impl")?.split_once(&format!(" {name} for ")).map(|(_, kind)| word(kind));
    source.lines().filter_map(of).collect()
}

/// Public items, each with its documentation.
fn documented(source: &str) -> Vec<(&str, String)> {
    let (mut found, mut docs) = (Vec::new(), String::new());
    for line in source.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            docs.push_str(text);
            docs.push('\n');
        } else if line.starts_with("pub ") {
            found.push((line, std::mem::take(&mut docs)));
        } else if !line.starts_with("#[") {
            docs.clear();
        }
    }
    found
}

/// A `select!` drops the futures that are not ready first. Their documentation says what is lost with them: that of the
/// function, or that of the type which becomes a future.
#[test]
fn each_future_says_what_dropping_it_does() {
    let files = sources::below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let sources: Vec<String> = files.iter().map(|path| fs::read_to_string(path).expect("readable")).collect();
    let all = |name: &str| sources.iter().flat_map(|source| implementors(source, name)).collect::<Vec<_>>();
    let (futures, becoming) = (all("Future"), all("IntoFuture"));
    let mut count = 0;
    for (item, docs) in sources.iter().flat_map(|source| documented(source)) {
        let gives = item.split("-> ").nth(1).unwrap_or_default();
        let gives_one = gives.starts_with("impl Future") || futures.contains(&word(gives));
        let becomes_one = item.strip_prefix("pub struct ").is_some_and(|kind| becoming.contains(&word(kind)));
        if item.starts_with("pub async fn") || item.starts_with("pub fn") && gives_one || becomes_one {
            count += 1;
            assert!(docs.contains("# Cancel safety"), "{item} does not say what dropping its future does");
        }
    }
    assert!(count > 15, "only {count} futures were found");
}

#[test]
fn a_leak_would_be_seen() {
    let source = "use phalanx_core::{GroupId, Other};\npub fn a(\n    id: GroupId,\n) -> u8 {\n}\npub struct B {\n    pub c: u8,\n}";
    assert_eq!(imported(source), ["GroupId", "Other"]);
    assert_eq!(signatures(source), ["pub fn a( id: GroupId, ) -> u8 {", "pub struct B {", "pub c: u8,"]);
}
