//! The Rust sources of the workspace, for tests that read them.

#![allow(dead_code, reason = "each test uses a part")]

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All Rust sources below `dir`, without those that a build made.
pub(crate) fn below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("readable").path()) {
        if entry.is_dir() {
            if entry.file_name().is_some_and(|name| name != "target") {
                found.extend(below(&entry));
            }
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
    found
}

/// All Rust sources below the folders `src` of the crates.
pub(crate) fn of_crates() -> Vec<PathBuf> {
    let crates = fs::read_dir(root().join("crates")).expect("a directory");
    let folders = crates.map(|entry| entry.expect("readable").path().join("src")).filter(|src| src.is_dir());
    folders.flat_map(|src| below(&src)).collect()
}
