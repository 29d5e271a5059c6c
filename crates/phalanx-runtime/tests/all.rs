//! All tests of the crate beside its unit tests, as one program: what they share, the core above all, is compiled once.
//! Each subject is a file: `cargo test -p phalanx-runtime --test all rpc::`.

mod common;
#[path = "../../phalanx-core/tests/sources/mod.rs"]
mod sources;

mod auto_traits;
mod call_traces;
mod forks;
mod inline;
mod rpc;
mod tap;
