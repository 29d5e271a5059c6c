//! The sources of a crate as words and signs, without comments, strings and tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A module's path below the crate: empty for the root.
pub(crate) type Module = Vec<String>;

/// The text of each file below `src`, by module. Files and folders named `tests` are left out.
pub(crate) fn files(src: &Path) -> BTreeMap<Module, String> {
    let mut found = BTreeMap::new();
    find(src, &mut Vec::new(), &mut found);
    found
}

fn find(dir: &Path, module: &mut Module, found: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("readable").path()) {
        let stem = entry.file_stem().and_then(|stem| stem.to_str()).expect("UTF-8").to_owned();
        if stem == "tests" {
            continue;
        }
        if entry.is_dir() {
            module.push(stem);
            find(&entry, module, found);
            module.pop();
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let mut name = module.clone();
            if !matches!(stem.as_str(), "mod" | "lib" | "main") {
                name.push(stem);
            }
            *found.entry(name).or_default() += &fs::read_to_string(&entry).expect("readable");
        }
    }
}

/// The words and signs of a file. A path separator is one sign. Items behind `#[cfg(test)]` are left out.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    const FOR_TESTS: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let all = words(&code(text));
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < all.len() {
        if all.len() - at >= FOR_TESTS.len() && FOR_TESTS.iter().zip(&all[at..]).all(|(word, token)| token == word) {
            at = after_item(&all, at + FOR_TESTS.len());
        } else {
            kept.push(all[at].clone());
            at += 1;
        }
    }
    kept
}

/// The text without comments, and without the contents of strings and characters.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    let skip_past = |rest: &str, end: &str| rest.find(end).map_or(rest.len(), |at| at + end.len());
    while let Some(first) = rest.chars().next() {
        let is_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let raw = rest.trim_start_matches(['b', 'r']);
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            skip_past(rest, "*/")
        } else if !is_word && (rest.starts_with('r') || rest.starts_with("br")) && raw[hashes..].starts_with('"') {
            let begin = rest.len() - raw.len() + hashes + 1;
            begin + skip_past(&rest[begin..], &format!("\"{}", "#".repeat(hashes)))
        } else if first == '"' {
            literal(rest, '"')
        } else if first == '\'' && (rest[1..].starts_with('\\') || rest[1..].chars().nth(1) == Some('\'')) {
            literal(rest, '\'')
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        code.push(' ');
        rest = &rest[skipped..];
    }
    code
}

/// Length of the string or character that `text` begins with, quotes included.
fn literal(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

fn words(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            c if c.is_alphanumeric() || c == '_' => {
                rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
            }
            _ if rest.starts_with("::") || rest.starts_with("->") || rest.starts_with("=>") => 2,
            c => c.len_utf8(),
        };
        found.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    found
}

/// The place after the item, field or variant that begins at `at`.
fn after_item(tokens: &[String], mut at: usize) -> usize {
    const ITEMS: [&str; 9] = ["fn", "impl", "mod", "use", "struct", "enum", "trait", "const", "static"];
    let (mut depth, mut is_item) = (0_usize, false);
    while let Some(token) = tokens.get(at) {
        is_item |= ITEMS.contains(&token.as_str());
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            "}" if depth == 0 => return at,
            "}" if depth == 1 && is_item => return at + 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            ";" if depth == 0 => return at + 1,
            "," if depth == 0 && !is_item => return at + 1,
            _ => {}
        }
        at += 1;
    }
    at
}
