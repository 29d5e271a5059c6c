//! Every bound of the core stands in `docs/bounds.md`, with a test that meets it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::sources::{below, root};

/// The constants that are bounds, each with its file relative to the sources of the core.
fn constants() -> BTreeSet<(String, String)> {
    let src = root().join("crates/phalanx-core/src");
    let mut found = BTreeSet::new();
    for file in below(&src) {
        let name = file.strip_prefix(&src).expect("below").to_str().expect("UTF-8").to_owned();
        for line in fs::read_to_string(&file).expect("readable").lines() {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let mut after = words.skip_while(|word| *word != "const").skip(1);
            if let Some(constant) =
                after.next().filter(|constant| constant.ends_with("_MAX") || constant.contains("_MAX_"))
            {
                found.insert((name.clone(), constant.to_owned()));
            }
        }
    }
    found
}

/// The text between backquotes.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_bound_of_the_core_is_listed_with_a_test_that_is_there() {
    let doc = fs::read_to_string(root().join("docs/bounds.md")).expect("docs/bounds.md");
    let mut rows = BTreeMap::new();
    for line in doc.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let [constant, file, what, tests] = cells[..] else { panic!("four columns: {line}") };
        let (constant, file) = (quoted(constant).concat(), quoted(file).concat());
        assert!(!what.trim().is_empty(), "what happens at {constant}?");
        let again = rows.insert((file, constant), quoted(tests));
        assert!(again.is_none(), "twice: {line}");
    }
    let known = constants();
    assert!(known.len() > 40, "the sources were read: {}", known.len());
    let listed: BTreeSet<_> = rows.keys().cloned().collect();
    assert_eq!(known, listed, "constants of the sources, and rows of docs/bounds.md");
    let files = below(&root().join("crates"));
    let text: String = files.iter().map(|file| fs::read_to_string(file).expect("readable")).collect();
    for ((file, constant), tests) in rows {
        assert!(!tests.is_empty(), "{constant} of {file} has no test");
        for test in tests {
            let there = text.match_indices(&format!("fn {test}(")).any(|(at, _)| {
                // Attributes and doc comments precede it, back to the end of the item before.
                let before = &text[at.saturating_sub(600)..at];
                let own = before.rfind("}\n").map_or(before, |end| &before[end..]);
                own.contains("#[test]")
            });
            assert!(there, "{constant} of {file}: no test is called {test}");
        }
    }
}
