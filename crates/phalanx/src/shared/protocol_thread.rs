//! Which threads run a protocol. They carry every message of their process and its signs of life, so they wait for no program.

use std::cell::Cell;

thread_local! {
    static IS_HERE: Cell<bool> = const { Cell::new(false) };
}

/// This thread runs the protocol of a process from now on.
pub(crate) fn enter() {
    IS_HERE.set(true);
}

/// Whether this thread runs the protocol of some process.
pub(crate) fn is_here() -> bool {
    IS_HERE.get()
}
