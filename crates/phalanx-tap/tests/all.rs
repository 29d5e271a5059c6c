//! All integration tests of the crate, as one program.

mod auto_traits;
mod describe;
mod draw;
mod libpcap;
mod meaning;
#[path = "../../phalanx-core/tests/sources/mod.rs"]
mod sources;
mod summary;
mod vectors;
