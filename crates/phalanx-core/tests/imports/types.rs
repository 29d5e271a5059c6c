//! The sizes of a crate's types: fields, inherent methods, and the files in which these methods stand.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::Graph;
use super::source::Module;

/// How large a type is. Tests are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Size {
    /// Fields, if it is a struct.
    pub(crate) fields: usize,
    /// Functions in its `impl` blocks. Those of traits are not counted.
    pub(crate) methods: usize,
    /// Files with such `impl` blocks.
    pub(crate) files: usize,
}

/// What one file says of types.
#[derive(Default)]
pub(crate) struct Declared {
    /// Structs, with the number of their fields.
    structs: Vec<(String, usize)>,
    /// Inherent `impl` blocks: the type as named there, and the number of functions.
    blocks: Vec<(Vec<String>, usize)>,
}

impl Declared {
    /// Reads the words of one file.
    pub(crate) fn read(tokens: &[String]) -> Self {
        let mut declared = Self::default();
        let word = |at: usize| tokens.get(at).map_or("", String::as_str);
        for at in 0..tokens.len() {
            match word(at) {
                "struct" => declared.structs.push((word(at + 1).to_owned(), fields(tokens, at + 2))),
                // Elsewhere `impl` is part of a type.
                "impl" if at == 0 || matches!(word(at - 1), "}" | "{" | ";" | "]") => {
                    declared.blocks.extend(block(tokens, at + 1));
                }
                _ => {}
            }
        }
        declared
    }
}

/// The sizes of all types of a crate, by module and name.
pub(crate) fn sizes(graph: &Graph) -> BTreeMap<(Module, String), Size> {
    let mut found: BTreeMap<(Module, String), Size> = BTreeMap::new();
    let mut files: BTreeSet<(Module, String, &Module)> = BTreeSet::new();
    for (module, declared) in graph.declared() {
        for (name, fields) in &declared.structs {
            found.entry((module.clone(), name.clone())).or_default().fields = *fields;
        }
        for (path, functions) in &declared.blocks {
            let (home, name) = graph.declares(module, path);
            let size = found.entry((home.clone(), name.clone())).or_default();
            size.methods += functions;
            if *functions > 0 && files.insert((home, name, module)) {
                size.files += 1;
            }
        }
    }
    found
}

/// Steps over a `<...>`, if there is one at `at`.
fn after_generics(tokens: &[String], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "<" => depth += 1,
            ">" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if token == ">" { at + 1 } else { at };
        }
        at += 1;
    }
    at
}

/// Number of fields of the struct whose generics begin at `at`.
fn fields(tokens: &[String], at: usize) -> usize {
    let begin = after_generics(tokens, at);
    let opened = tokens[begin..].iter().position(|token| matches!(token.as_str(), "{" | "(" | ";"));
    let Some(open) = opened.map(|after| begin + after).filter(|open| tokens[*open] != ";") else { return 0 };
    let is_tuple = tokens[open] == "(";
    let (mut depth, mut count, mut is_empty) = (0_usize, 0, true);
    for token in &tokens[open..] {
        match token.as_str() {
            "{" | "(" | "[" | "<" => depth += 1,
            "}" | ")" | "]" | ">" => depth -= 1,
            ":" if depth == 1 && !is_tuple => count += 1,
            "," if depth == 1 && is_tuple => (count, is_empty) = (count + 1, true),
            _ => {}
        }
        if depth == 0 {
            break;
        }
        is_empty &= token == "(" || token == ",";
    }
    count + usize::from(is_tuple && !is_empty)
}

/// The type and the number of functions of the block after the word `impl`; nothing if it implements a trait.
fn block(tokens: &[String], at: usize) -> Option<(Vec<String>, usize)> {
    let mut at = after_generics(tokens, at);
    let mut path = Vec::new();
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "<" => {
                at = after_generics(tokens, at);
                continue;
            }
            "for" => return None,
            "where" | "{" => break,
            "::" => {}
            name => path.push(name.to_owned()),
        }
        at += 1;
    }
    // A macro's block names its type by a parameter.
    if path.is_empty() || path.iter().any(|name| name.starts_with(|c: char| !c.is_alphabetic() && c != '_')) {
        return None;
    }
    let open = tokens[at..].iter().position(|token| token == "{").map(|after| at + after)?;
    let (mut depth, mut functions) = (0_usize, 0);
    for (token, next) in tokens[open..].iter().zip(&tokens[open + 1..]) {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            "fn" if depth == 1 && next != "(" => functions += 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    Some((path, functions))
}
