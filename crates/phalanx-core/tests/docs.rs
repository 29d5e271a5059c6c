//! The numbers and names of the core on the pages are those of the code: the wire version, message kinds, counters.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use phalanx_core::rpc::Counters;
use phalanx_core::wire::{DropReason, Header};

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_wire_version_is_the_one_of_the_page() {
    let (page, version) = (read("docs/wire.md"), Header::VERSION);
    for said in [
        format!("in version {version} of the format"),
        format!("version in the high 4 bits: {version};"),
        format!("| version {version} | `version` |"),
    ] {
        assert!(page.contains(&said), "docs/wire.md does not say '{said}'");
    }
    let said = format!("**The wire version** ({version})");
    assert!(read("docs/semver.md").contains(&said), "docs/semver.md does not say '{said}'");
}

/// The variants of an enumeration in a file of the core, in order.
fn variants(file: &str, name: &str) -> Vec<String> {
    let text = read(&format!("crates/phalanx-core/src/{file}"));
    let (_, after) = text.split_once(&format!("pub enum {name} {{\n")).unwrap_or_else(|| panic!("no {name} in {file}"));
    let (body, _) = after.split_once("\n}").expect("it ends");
    let first =
        |line: &str| line.strip_prefix("    ").filter(|rest| rest.starts_with(char::is_uppercase)).map(str::to_owned);
    let variants = body.lines().filter_map(first);
    variants.map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()).collect()
}

/// The rows of the table in `docs/wire.md` whose second column has this head: the numbers, and their text.
fn kinds(head: &str) -> Vec<(usize, String)> {
    let page = read("docs/wire.md");
    let (_, after) =
        page.split_once(&format!("| kind | {head}")).unwrap_or_else(|| panic!("no table of kinds of {head}"));
    let mut found = Vec::new();
    for row in after.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let (numbers, said) = row.trim_matches('|').split_once('|').expect("columns");
        for number in numbers.split(',') {
            found.push((number.trim().parse().expect("a number"), said.to_lowercase()));
        }
    }
    found.sort();
    found
}

/// The parts of a name in camel case, in lower case.
fn parts(name: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for c in name.chars() {
        if c.is_uppercase() || found.is_empty() {
            found.push(String::new());
        }
        found.last_mut().expect("there is one").extend(c.to_lowercase());
    }
    found
}

#[test]
fn kinds_of_messages_have_the_numbers_of_the_page() {
    for (file, name, head) in [
        ("member/messages.rs", "Control", "control message"),
        ("member/founding.rs", "FoundingMessage", "message of founding"),
        ("member/messages.rs", "StateMessage", "message of a state transfer"),
    ] {
        let (variants, kinds) = (variants(file, name), kinds(head));
        assert_eq!(variants.len(), kinds.len(), "{name} has {variants:?}, docs/wire.md {kinds:#?}");
        for (number, (variant, (kind, said))) in variants.iter().zip(&kinds).enumerate() {
            assert_eq!(*kind, number, "docs/wire.md leaves out a kind of {name}: {variant}");
            // The page may use `refusal` for `Refuse`, so four letters of one part have to match.
            let begins =
                |part: &String| said.split([' ', '(', '`']).any(|word| word.starts_with(&part[..part.len().min(4)]));
            assert!(
                parts(variant).iter().any(begins),
                "docs/wire.md says of kind {number} of {name}, {variant}: {said}"
            );
        }
    }
}

/// The words between backquotes.
fn quoted(page: &str) -> BTreeSet<&str> {
    page.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn every_counter_has_a_meaning_on_the_page() {
    let (page, source) = (read("docs/counters.md"), read("crates/phalanx-core/src/process/counters.rs"));
    let (_, after) = source.split_once("\ncounters! {\n").expect("the list of the counters");
    let (list, _) = after.split_once("\n}").expect("it ends");
    let mut names: BTreeSet<&str> = list
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('/'))
        .map(|line| line.trim_end_matches(','))
        .collect();
    assert!(names.len() > 80, "the list was read: {}", names.len());
    names.extend(DropReason::ALL.iter().map(|reason| reason.name()));
    Counters::default().each(|name, _| {
        names.insert(name);
    });
    let said = quoted(&page);
    let missing: Vec<&&str> = names.iter().filter(|name| !said.contains(**name)).collect();
    assert!(missing.is_empty(), "counters without a row in docs/counters.md: {missing:?}");
}
