//! `docs/GLOSSARY.md` covers every word of the code's public names: types, traits and files of all crates.
//!
//! A word is covered if the first or the third column has it, or if [`PLAIN`] lists it because it means what it means
//! everywhere. The third column names what is in the code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::sources::{of_crates, root};

/// Words that a systems engineer needs no page for, in order.
const PLAIN: &str = "\
    about absent accepted action activity address aim alloc anew answer api app application arithmetic arrival \
    arriving asked attached attachment attacker axis bad bank batch believed bench bind blob bottleneck bound boxed \
    breach break buffer build builder burst busy by call caller calling carried carry cat chain change changed check \
    checksum child choice churn clear client clock closed codec command commanding compiler config conformance \
    contents context control core count counter counting course coverage crowd crowded cursor cycle data death \
    decided declared decode deliver deliverable delivery demand demo dep departed describe description destination \
    device diagram disk doctor draw drop each effect emitter emptied ending entropy entry erosion error escape \
    estranged evaluation execution executor exit explore explored extreme failed family far field file filled finding \
    first fit flag floor flow forked form found founding fragmentation frame frozen gathering guard hand handler \
    happened hash head header health heard here histogram hold holding hook hostile id ideal identity info ingest \
    input install instant instruction interface interrupt item join joined joining journal judge judged kernel known \
    lag last late latency layer layout leave leaving legend lexer lib limit line linear list listed live load long \
    loss lossy machine main malformed map mapping mark measure measured merge merged message mismatch missing mixed \
    mod mode model monitor name named namespace nearby network news next node note noted notice observe one open \
    opened operation option origin outcome outgoing output own pace pack packer packing pair panic paper parked \
    parser part partner party past payload pending picture place plot point poison pool position progress protocol \
    provoke publishes query queue queued rare raw reach read reader reading reason receiving recorded recorder \
    recovered reduction refusal refused register remaining render replica reporter requested require resolved \
    resource restore restored result rival rng room row rpc rule run runner said scale scene script sealed search \
    security select selection send sender sending sent serve server service serving settled setup shape shm shown \
    shrunk side signal silence silent sim simulate simulation sink size socket sorted source span sparse spent spread \
    stage starting stat status step stop store style subject submitted submitting summary suspicion svg sweep switch \
    sync syntax table taken tally tapped target task tcp tenth test text thread tick timeline timeout timer to told \
    torture total touched traced transmit trouble try typed udp unit unknown unread unreadable unreliable unsent vain \
    validate validation validator value variant violation visit vote wait waiting want wanted watcher way what when \
    where wire wish woken word work workload world writer";

/// The words of a name: `CamelCase`, `snake_case` and `kebab-case` are split, numbers are left out.
fn words(name: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut before = ' ';
    for (at, c) in name.char_indices() {
        let next_is_small = name[at..].chars().nth(1).is_some_and(char::is_lowercase);
        if !c.is_alphabetic() || c.is_uppercase() && (before.is_lowercase() || next_is_small) {
            found.push(String::new());
        }
        if let Some(word) = found.last_mut().filter(|_| c.is_alphabetic()) {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    found.retain(|word| word.len() > 1);
    found
}

/// A word without its plural ending. Both sides of a comparison lose it.
fn singular(word: &str) -> String {
    if let Some(stem) = word.strip_suffix("ies") {
        return format!("{stem}y");
    }
    if let Some(stem) = word.strip_suffix("es").filter(|stem| stem.ends_with("ss")) {
        return stem.to_owned();
    }
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 2 && !stem.ends_with(['s', 'u', 'i']) => stem.to_owned(),
        _ => word.to_owned(),
    }
}

/// The rows of the glossary: the words, what they mean, and the names in the code.
fn rows() -> Vec<[String; 3]> {
    let doc = fs::read_to_string(root().join("docs/GLOSSARY.md")).expect("docs/GLOSSARY.md");
    let rows = doc.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| word |"));
    let rows = rows.filter(|line| !line.starts_with("| ---"));
    rows.map(|line| {
        let cells: Vec<String> = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        <[String; 3]>::try_from(cells).unwrap_or_else(|cells| panic!("three columns: {cells:?}"))
    })
    .collect()
}

/// The words between backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn every_word_of_a_public_name_is_in_the_glossary_or_plain() {
    let mut covered: BTreeSet<String> = PLAIN.split_whitespace().map(singular).collect();
    for [terms, _, code] in rows() {
        let names = quoted(&code).flat_map(words);
        covered.extend(words(&terms).into_iter().chain(names).map(|word| singular(&word)));
    }
    // Each word with one name that contains it.
    let mut used = BTreeMap::new();
    for file in of_crates() {
        let name = file.strip_prefix(root().join("crates")).expect("below").display().to_string();
        let inside = name.split_once("/src/").map_or(name.as_str(), |(_, inside)| inside).trim_end_matches(".rs");
        for word in words(inside) {
            used.entry(word).or_insert_with(|| name.clone());
        }
        for line in fs::read_to_string(&file).expect("readable").lines().map(str::trim_start) {
            let item =
                ["pub struct ", "pub enum ", "pub trait ", "pub type "].iter().find_map(|kind| line.strip_prefix(kind));
            let Some(item) = item.and_then(|rest| rest.split(|c: char| !c.is_alphanumeric()).next()) else { continue };
            for word in words(item) {
                used.entry(word).or_insert_with(|| format!("{item} in {name}"));
            }
        }
    }
    assert!(used.len() > 400, "the sources were read: {}", used.len());
    let missing: Vec<String> = used
        .iter()
        .filter(|(word, _)| !covered.contains(&singular(word)))
        .map(|(word, name)| format!("{word}: {name}"))
        .collect();
    assert!(missing.is_empty(), "neither in docs/GLOSSARY.md nor in PLAIN of this test:\n{}", missing.join("\n"));
}

#[test]
fn a_word_of_the_glossary_has_one_row() {
    let mut seen = BTreeSet::new();
    for [terms, meaning, _] in rows() {
        assert!(!meaning.is_empty(), "{terms} has no meaning");
        assert!(seen.insert(terms.clone()), "{terms} has two meanings");
    }
    assert!(seen.len() > 100, "the page was read");
}

#[test]
fn what_the_glossary_names_is_in_the_code() {
    let code: Vec<String> = of_crates().iter().map(|file| fs::read_to_string(file).expect("readable")).collect();
    let files: BTreeSet<String> =
        of_crates().iter().filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned())).collect();
    for [terms, _, names] in rows() {
        for name in quoted(&names) {
            // The last part of a setting is a field.
            let last = name.rsplit('.').next().unwrap_or(name);
            let is_whole = |text: &str, at: usize| {
                let part = |c: char| c.is_alphanumeric() || c == '_';
                !text[..at].ends_with(part) && !text[at + last.len()..].starts_with(part)
            };
            let there = files.contains(last)
                || code.iter().any(|text| text.match_indices(last).any(|(at, _)| is_whole(text, at)));
            assert!(there, "{terms}: nothing in crates/ is called `{name}`");
        }
    }
}

#[test]
fn plain_words_are_in_order_and_not_in_the_glossary() {
    let plain: Vec<&str> = PLAIN.split_whitespace().collect();
    assert!(plain.is_sorted(), "PLAIN is in order");
    let terms: BTreeSet<String> = rows().into_iter().map(|[terms, ..]| terms).collect();
    let twice: Vec<&&str> = plain.iter().filter(|word| terms.contains(**word)).collect();
    assert!(twice.is_empty(), "the glossary gives these a meaning of their own: {twice:?}");
}
