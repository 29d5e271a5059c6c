//! What lock-free code is made of. Files that take it from here are also compiled by `tests/loom`, which puts loom's
//! pieces in its place and tries every order in which two threads can meet.

pub(crate) use crate::words;

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};
}
