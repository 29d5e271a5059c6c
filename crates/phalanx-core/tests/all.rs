//! All tests of the crate beside its unit tests, as one program: what they share, the core above all, is compiled once.
//! Each subject is a file: `cargo test -p phalanx-core --test all golden::`.

mod net;
mod sources;

mod adequacy;
mod auto_traits;
mod bounds;
mod cell;
mod docs;
mod domains;
mod glossary;
mod golden;
mod hostile;
mod imports;
mod levels;
mod newcomers;
mod observers;
mod to_one;
mod unsent;
