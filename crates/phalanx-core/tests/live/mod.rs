//! A cell of three real processes in one thread, and what a hostile network and a hostile member do to it, as a list
//! of [`Step`]s made from bytes. The property test `hostile` draws the bytes at random, the fuzz target `live` lets a
//! fuzzer choose them.
//!
//! Whatever the steps, no process panics, requests polls without end, or holds more than its bounds allow, and its
//! invariants hold. As long as no step speaks for a member with that member's key, the guarantees are checked too:
//! one order of abcasts, and the same bytes wherever a message is delivered.

mod cell;
mod forge;
mod member;
#[allow(unsafe_code)]
pub(crate) mod memory;
pub(crate) mod steps;

pub(crate) use cell::{Account, LiveCell};
pub(crate) use steps::Step;

/// Upper bound on the steps of one input. More would find nothing new, and cost time.
const STEPS_MAX: usize = 400;
/// Upper bound on the bytes that three processes, the network between them and the records here hold at any moment. The
/// bounds of one process add up to a tenth of it: windows of two channels with each peer, and of one group.
const HELD_BYTES_MAX: i64 = 24 << 20;

/// Runs the steps that `bytes` encode. The first byte selects how packets are protected.
///
/// # Panics
/// When a process violates an invariant.
pub(crate) fn run(bytes: &[u8]) -> Account {
    let Some((&first, rest)) = bytes.split_first() else { return Account::default() };
    let before = memory::start();
    let mut cell = LiveCell::found(first & 1 == 0);
    for step in Step::read_all(rest).iter().take(STEPS_MAX) {
        cell.take(step);
        let held = memory::peak() - before;
        assert!(held < HELD_BYTES_MAX, "three processes hold {held} bytes after {step:?}");
    }
    cell.settle();
    cell.account()
}
