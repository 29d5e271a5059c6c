//! `docs/rules.md` has a row for each rule of five pages, with the mutants that break it. A rule has an anchor on its page,
//! such as [o3].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The pages, with the letter of their anchors.
const PAGES: [(&str, char); 5] =
    [("orphans", 'o'), ("founding", 'f'), ("fail-stop", 'n'), ("progress", 'p'), ("levels", 'l')];

/// Parts of the pages in which each item is a rule: from this line to the next heading.
const WHOLE: [(&str, &str); 9] = [
    ("orphans", "A decree strikes a holder off when"),
    ("orphans", "## Leaving"),
    ("founding", "The processes that were asked may hold a marker"),
    ("founding", "## When all members left"),
    ("founding", "## When the quorum is lost and somebody is left"),
    ("fail-stop", "## Reading"),
    ("fail-stop", "## What members report"),
    ("fail-stop", "## The ballot"),
    ("progress", "| rule | what it says | code |"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    let path = root().join(format!("docs/{name}.md"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The anchors in a text, in their order.
fn anchors(text: &str) -> Vec<String> {
    let parts = text.split('[').skip(1).filter_map(|rest| rest.split_once(']'));
    let is_anchor = |word: &str| {
        let mut letters = word.chars();
        let letter = letters.next();
        PAGES.iter().any(|(_, of)| Some(*of) == letter)
            && word.len() > 1
            && letters.all(|letter| letter.is_ascii_digit())
    };
    parts.map(|(word, _)| word.to_owned()).filter(|word| is_anchor(word)).collect()
}

/// The rows of the page of rules: the anchor, and the mutants.
fn rows() -> BTreeMap<String, Vec<String>> {
    let page = page("rules");
    let mut rows = BTreeMap::new();
    for row in page.lines().filter(|line| line.starts_with("| [")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [anchor, _, mutants] = cells[..] else { panic!("three cells: {row}") };
        let mutants = mutants.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        let before = rows.insert(anchor.trim_matches(['[', ']']).to_owned(), mutants);
        assert!(before.is_none(), "{anchor} has two rows");
    }
    rows
}

#[test]
fn each_rule_has_a_row_and_each_row_a_rule() {
    let mut said = BTreeSet::new();
    for (name, letter) in PAGES {
        let found = anchors(&page(name));
        let in_order: Vec<String> = (1..=found.len()).map(|number| format!("{letter}{number}")).collect();
        let numbered: BTreeSet<&String> = found.iter().collect();
        assert_eq!(numbered, in_order.iter().collect(), "docs/{name}.md numbers its rules from 1, each once");
        said.extend(found);
    }
    assert!(said.len() > 80, "the pages were read: {}", said.len());
    assert_eq!(rows().into_keys().collect::<BTreeSet<_>>(), said, "rows of docs/rules.md, and rules on the pages");
}

#[test]
fn no_item_of_a_list_of_rules_is_without_an_anchor() {
    for (name, from) in WHOLE {
        let page = page(name);
        let (_, after) = page.split_once(from).unwrap_or_else(|| panic!("docs/{name}.md has no line {from:?}"));
        let lines = after.lines().skip(1).take_while(|line| !line.starts_with('#'));
        let is_item = |line: &&str| {
            let numbered = line.split_once(". ").is_some_and(|(number, _)| number.parse::<u8>().is_ok());
            let head = line.starts_with("|---") || line.contains("| purpose |") || line.contains("| who goes |");
            let head = head || line.contains("what the process does |") || line.contains("what the reader does |");
            (line.starts_with("- ") || numbered || line.starts_with("| ")) && !head
        };
        let bare: Vec<&str> = lines.filter(is_item).filter(|line| anchors(line).is_empty()).collect();
        assert!(bare.is_empty(), "docs/{name}.md, {from:?}: items without an anchor: {bare:#?}");
    }
}

/// Each rule has a mutant that seeds recognise, or a story. A unit test of the line that the mutant breaks is not enough.
#[test]
fn each_rule_has_a_mutant_that_seeds_or_a_story_recognise() {
    let mut open = Vec::new();
    for (rule, mutants) in rows() {
        let by_more = mutants.iter().filter(|name| {
            let path = root().join(format!("mutants/{name}.mutant"));
            let mutant =
                fs::read_to_string(&path).unwrap_or_else(|error| panic!("{rule}: {}: {error}", path.display()));
            let has = |field: &str| mutant.lines().any(|line| line.starts_with(field));
            !has("unit:") || has("stories:")
        });
        if by_more.count() == 0 {
            open.push(rule);
        }
    }
    assert!(open.is_empty(), "no seeds and no story hold {open:?}");
}
