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

#[test]
fn a_leak_would_be_seen() {
    let source = "use phalanx_core::{GroupId, Other};\npub fn a(\n    id: GroupId,\n) -> u8 {\n}\npub struct B {\n    pub c: u8,\n}";
    assert_eq!(imported(source), ["GroupId", "Other"]);
    assert_eq!(signatures(source), ["pub fn a( id: GroupId, ) -> u8 {", "pub struct B {", "pub c: u8,"]);
}
