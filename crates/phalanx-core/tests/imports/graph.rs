//! The imports between the files of a crate: every `use`, and every path in the code that begins with `crate`, `self`,
//! `super` or the name of a child module.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Module, tokens};
use super::types::Declared;

/// The contents of one file.
#[derive(Default)]
struct Source {
    /// Names brought in by a `use`, with the modules that they stand for.
    imports: BTreeMap<String, Module>,
    /// Modules imported by a glob.
    globs: Vec<Module>,
    /// Names of the items declared here.
    items: BTreeSet<String>,
    /// Absolute paths that the code names.
    named: Vec<Module>,
    declared: Declared,
}

/// The files of a crate with their imports, by module.
pub(crate) struct Graph {
    modules: BTreeSet<Module>,
    sources: BTreeMap<Module, Source>,
}

impl Graph {
    /// Reads the text of each file.
    pub(crate) fn of(files: &BTreeMap<Module, String>) -> Self {
        let modules: BTreeSet<Module> = files.keys().cloned().collect();
        let sources = files.iter().map(|(module, text)| (module.clone(), parse(module, &modules, &tokens(text))));
        Self { sources: sources.collect(), modules }
    }

    /// Number of files.
    pub(crate) fn len(&self) -> usize {
        self.sources.len()
    }

    /// The imports of each file from the others.
    pub(crate) fn edges(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let imported = |module: &Module, source: &Source| {
            source.named.iter().map(|path| self.home(path, 0)).filter(|to| to != module).collect()
        };
        self.sources.iter().map(|(module, source)| (module.clone(), imported(module, source))).collect()
    }

    /// The file that declares the item at `path`. Re-exports are followed.
    fn home(&self, path: &[String], depth: usize) -> Module {
        let mut module = Module::new();
        for (index, segment) in path.iter().enumerate() {
            let mut child = module.clone();
            child.push(segment.clone());
            if self.sources.contains_key(&child) {
                module = child;
                continue;
            }
            let source = &self.sources[&module];
            if source.items.contains(segment) || depth > 8 {
                break;
            }
            if let Some(import) = source.imports.get(segment) {
                let rest = path.get(index + 1..).unwrap_or_default();
                return self.home(&[import, rest].concat(), depth + 1);
            }
            let from = source.globs.iter().map(|glob| self.home(glob, depth + 1));
            if let Some(glob) = from.into_iter().find(|glob| self.sources[glob].items.contains(segment)) {
                return glob;
            }
            break;
        }
        module
    }

    /// What each file says of types.
    pub(crate) fn declared(&self) -> impl Iterator<Item = (&Module, &Declared)> {
        self.sources.iter().map(|(module, source)| (module, &source.declared))
    }

    /// The file that declares the type that `module` calls `path`, and the type's name there.
    pub(crate) fn declares(&self, module: &Module, path: &[String]) -> (Module, String) {
        let source = &self.sources[module];
        let (first, rest) = path.split_first().expect("a type has a name");
        let full = match source.imports.get(first) {
            Some(import) => [import, rest].concat(),
            None => absolute(module, &self.modules, path).unwrap_or_else(|| [module, path].concat()),
        };
        let name = full.last().expect("a type has a name").clone();
        (self.home(&full, 0), name)
    }

    /// Groups of files that import each other in a circle, each group in order.
    pub(crate) fn circles(&self) -> Vec<Vec<Module>> {
        let edges = self.edges();
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            edges.keys().map(|from| (from, reach(&edges, from))).collect();
        let mut circles = BTreeSet::new();
        for (from, to) in &reached {
            let circle: Vec<Module> =
                to.iter().filter(|other| reached[**other].contains(*from)).map(|other| (*other).clone()).collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }
}

fn reach<'a>(edges: &'a BTreeMap<Module, BTreeSet<Module>>, from: &'a Module) -> BTreeSet<&'a Module> {
    let (mut found, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(module) = left.pop() {
        left.extend(edges[module].iter().filter(|to| found.insert(*to)));
    }
    found
}

fn parse(module: &Module, modules: &BTreeSet<Module>, words: &[String]) -> Source {
    const ITEMS: [&str; 9] = ["struct", "enum", "trait", "fn", "const", "static", "type", "macro_rules", "union"];
    let tokens: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut source = Source { declared: Declared::read(words), ..Source::default() };
    let mut at = 0;
    while let Some(&token) = tokens.get(at) {
        let before = at.checked_sub(1).and_then(|before| tokens.get(before)).copied().unwrap_or_default();
        if token == "use" {
            // A re-export of a module's own parts is not an import.
            let exported = before == "pub" || before == ")";
            let end = tokens[at..].iter().position(|token| *token == ";").map_or(tokens.len(), |length| at + length);
            let mut place = at + 1;
            for (path, name) in tree(&tokens, &mut place, end) {
                let Some(path) = absolute(module, modules, &path) else { continue };
                if !(exported && path.starts_with(module)) {
                    source.named.push(path.clone());
                }
                match name.as_str() {
                    "*" => source.globs.push(path),
                    _ => drop(source.imports.insert(name, path)),
                }
            }
            at = end;
            continue;
        }
        if ITEMS.contains(&token) {
            source.items.extend(tokens.get(at + 1).filter(|name| **name != "!").map(|name| (*name).to_owned()));
        }
        if before != "::" && tokens.get(at + 1) == Some(&"::") {
            // `pub(in crate::a)` says who may import, and imports nothing.
            let is_visibility = at > 2 && tokens[at - 3..at] == ["pub", "(", "in"];
            let mut path = vec![token.to_owned()];
            while tokens.get(at + 1) == Some(&"::") {
                path.extend(tokens.get(at + 2).filter(|next| **next != "<" && **next != "{").map(|t| (*t).to_owned()));
                at += 2;
            }
            if !is_visibility {
                source.named.extend(absolute(module, modules, &path));
            }
        }
        at += 1;
    }
    source
}

/// The paths of a `use`, each with the name that it brings in.
fn tree(tokens: &[&str], at: &mut usize, end: usize) -> Vec<(Vec<String>, String)> {
    let mut path: Vec<String> = Vec::new();
    while *at < end {
        let token = tokens[*at];
        *at += 1;
        match token {
            "::" => {}
            "*" => return vec![(path, "*".to_owned())],
            "{" => {
                let mut found = Vec::new();
                while *at < end && tokens[*at] != "}" {
                    for (rest, name) in tree(tokens, at, end) {
                        let rest = if rest == ["self"] { Vec::new() } else { rest };
                        let full = [path.clone(), rest].concat();
                        let name = if name == "self" { full.last().cloned().unwrap_or_default() } else { name };
                        found.push((full, name));
                    }
                    if tokens[*at] == "," {
                        *at += 1;
                    }
                }
                *at += 1;
                return found;
            }
            name => {
                path.push(name.to_owned());
                match tokens.get(*at).copied() {
                    Some("::") => {}
                    Some("as") => {
                        let other = tokens[*at + 1].to_owned();
                        *at += 2;
                        return vec![(path, other)];
                    }
                    _ => {
                        let name = name.to_owned();
                        return vec![(path, name)];
                    }
                }
            }
        }
    }
    Vec::new()
}

/// The path from the root, if it lies in this crate.
fn absolute(module: &Module, modules: &BTreeSet<Module>, path: &[String]) -> Option<Module> {
    let mut base = module.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = &path[1..];
        }
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|first| first == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        first => {
            let child = [module.clone(), vec![first.to_owned()]].concat();
            if !modules.contains(&child) {
                return None;
            }
        }
    }
    base.extend(rest.iter().cloned());
    Some(base)
}
