//! All tests of the crate beside its unit tests, as one program: what they share, the core above all, is compiled once.
//! Each subject is a file: `cargo test -p phalanx --test all groups::`.

#[path = "../../phalanx-core/tests/sources/mod.rs"]
mod sources;

mod asks;
mod auto_traits;
mod calls;
mod cells;
mod common;
mod descriptors;
mod domains;
mod emptied;
mod endings;
mod events;
mod forks;
mod groups;
mod inline_submits;
mod inlines;
mod merged;
mod processes;
mod reading;
mod signatures;
mod simulate;
mod states;
mod submits;
mod to_one;
mod too_few;
mod tools;
mod traces;
mod watching;
