//! Arbitrary text as a configuration file, and, behind a line of dashes, as environment and flags.
//!
//! What is understood can be written again and is then understood alike; what is not gives an error with a text.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use phalanx_runtime::config::{Config, Resolved, parse_duration, parse_size, show_duration, show_size};

/// One file, written again and again: in memory where the system has such a folder.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() { memory } else { std::env::temp_dir() };
    folder.join(format!("phalanx-fuzz-{}.toml", std::process::id()))
});

fuzz_target!(|text: &str| {
    let (file, others) = text.split_once("\n---\n").unwrap_or((text, ""));
    std::fs::write(&*FILE, file).expect("a small file can be written");
    let pairs = |mark: char| {
        others
            .lines()
            .filter_map(move |line| line.strip_prefix(mark)?.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect::<Vec<_>>()
    };
    let variables = pairs('$').into_iter().map(|(name, value)| (format!("PHALANX_{name}"), value));
    match Config::load(&pairs('-'), variables, Some(&FILE)) {
        Ok(resolved) => written_again(&resolved),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(duration) = parse_duration(text) {
        assert_eq!(parse_duration(&show_duration(duration)), Ok(duration));
    }
    if let Ok(size) = parse_size(text) {
        assert_eq!(parse_size(&show_size(size)), Ok(size));
    }
});

/// What is shown of a configuration is the same configuration, given as a file.
fn written_again(resolved: &Resolved) {
    let shown = resolved.shown();
    let (mut plain, mut tables) = (String::new(), String::new());
    for line in &shown {
        let Some(value) = &line.value else { continue };
        match line.key.split_once('.') {
            Some((table, key)) => tables.push_str(&format!("[{table}]\n{key} = {value}\n")),
            None => plain.push_str(&format!("{} = {value}\n", line.key)),
        }
    }
    // One table for each key is no TOML: they are put together.
    let mut by_table = std::collections::BTreeMap::<&str, String>::new();
    let mut lines = tables.lines();
    while let (Some(table), Some(line)) = (lines.next(), lines.next()) {
        let text = by_table.entry(table).or_default();
        text.push_str(line);
        text.push('\n');
    }
    let text = by_table.iter().fold(plain, |text, (table, lines)| format!("{text}{table}\n{lines}"));
    std::fs::write(&*FILE, &text).expect("a small file can be written");
    let again = Config::load(&[], [], Some(&FILE)).unwrap_or_else(|error| panic!("{error}\n{text}"));
    for (first, second) in shown.iter().zip(again.shown()) {
        assert_eq!((first.key, &first.value), (second.key, &second.value));
    }
}
