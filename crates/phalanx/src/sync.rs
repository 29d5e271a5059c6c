//! The primitives of lock-free code. Files that import them from here are also compiled by `tests/loom`, which
//! substitutes loom's types and explores every interleaving of two threads.

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicU8, Ordering};
}
