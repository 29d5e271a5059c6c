//! Arbitrary steps of a live cell of three processes: what a network does to packets, what applications do, crashes
//! and restarts, and frames of a member that is wrong or hostile, correctly sealed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use live::memory::Counting;

#[allow(dead_code, reason = "what makes inputs is for the tests that share it")]
#[path = "../../crates/phalanx-core/tests/live/mod.rs"]
mod live;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fuzz_target!(|bytes: &[u8]| {
    live::run(bytes);
});
