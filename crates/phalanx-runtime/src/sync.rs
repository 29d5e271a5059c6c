//! The primitives of lock-free code. Files that import them from here are also compiled by `tests/loom`, which
//! substitutes loom's types and explores every interleaving of two threads.

pub(crate) use std::sync::{Condvar, Mutex, PoisonError};

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
}
