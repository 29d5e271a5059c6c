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

/// What a file says of futures: the types that are some (`impl Future for`, `impl IntoFuture for`), and each public item
/// with its documentation.
fn items(source: &str) -> (Vec<String>, Vec<(String, String)>) {
    let is_future = |line: &&str| line.starts_with("impl") && line.contains("Future for ");
    let named = |line: &str| {
        let name = line.rsplit("Future for ").next().unwrap_or_default();
        name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
    };
    let types = source.lines().filter(is_future).map(named).collect();
    let (mut found, mut docs) = (Vec::new(), String::new());
    for line in source.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            docs.push_str(text);
            docs.push('\n');
        } else if line.starts_with("pub ") {
            found.push((line.to_owned(), std::mem::take(&mut docs)));
        } else if !line.starts_with("#[") {
            docs.clear();
        }
    }
    (types, found)
}

/// Whether an item has to say what dropping its future does. `types`: the types that are futures, and those that become
/// one; these say it themselves.
fn owes_cancel_safety(item: &str, futures: &[String], becomes: &[String]) -> bool {
    let word = |text: &str| text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned();
    let is_named = |names: &[String], end: &str| names.contains(&word(end));
    let gives = item.split("-> ").nth(1).unwrap_or_default();
    item.starts_with("pub async fn")
        || item.starts_with("pub fn") && (gives.starts_with("impl Future") || is_named(futures, gives))
        || item.strip_prefix("pub struct ").is_some_and(|name| is_named(becomes, name))
}

/// Who awaits in a `select!` has to know what is lost with a future that is dropped.
#[test]
fn each_future_says_what_dropping_it_does() {
    let files = sources::below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let sources: Vec<String> = files.iter().map(|path| fs::read_to_string(path).expect("readable")).collect();
    let becoming = |line: &str| line.contains("IntoFuture for ");
    let types = |becomes: bool| -> Vec<String> {
        let of = |source: &String| {
            items(&source.lines().filter(|l| becoming(l) == becomes).collect::<Vec<_>>().join("\n")).0
        };
        sources.iter().flat_map(of).collect()
    };
    let (futures, becomes) = (types(false), types(true));
    let mut count = 0;
    for (item, docs) in sources.iter().flat_map(|source| items(source).1) {
        if owes_cancel_safety(&item, &futures, &becomes) {
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
