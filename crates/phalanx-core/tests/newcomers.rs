//! The questions of a newcomer in `docs/ARCHITECTURE.md`: the search that the page names finds the file that it names.

use std::fs;

use crate::sources::{of_crates, root};

/// More results than this are no answer.
const RESULTS_MAX: usize = 12;

#[test]
fn the_word_of_each_question_finds_its_answer() {
    let page = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).expect("the page");
    let table = page.split("## Ten questions of a newcomer").nth(1).expect("the section");
    let rows = table.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let heads = module_heads();
    let mut questions = 0;
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [_, question, word, answer, ..] = cells[..] else { panic!("not a row of four cells: {row}") };
        let found: Vec<&String> =
            heads.iter().filter(|(_, line)| line.contains(&word.to_lowercase())).map(|(file, _)| file).collect();
        assert!(found.iter().any(|file| *file == answer), "{question} \"{word}\" is not in the head of {answer}");
        assert!(found.len() <= RESULTS_MAX, "{question} \"{word}\" is in {} lines: {found:?}", found.len());
        questions += 1;
    }
    assert_eq!(questions, 10);
}

/// The lines of module docs, in small letters, with their files as the page names them.
fn module_heads() -> Vec<(String, String)> {
    let crates = root().join("crates");
    let mut heads = Vec::new();
    for path in of_crates() {
        let text = fs::read_to_string(&path).expect("a source file");
        let name = path.strip_prefix(&crates).expect("below crates/").to_string_lossy().into_owned();
        let docs = text.lines().filter(|line| line.starts_with("//!"));
        heads.extend(docs.map(|line| (name.clone(), line.to_lowercase())));
    }
    heads
}
