//! The core allocates nothing for a message, on either side.

use phalanx_bench::{Counting, core_allocations};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_packed_message_costs_no_allocation() {
    const MESSAGES: usize = 100_000;
    assert!(core_allocations(2_000).expect("the core takes it") > 0, "what there is is counted: packets cost some");
    let taken = core_allocations(MESSAGES).expect("the core takes it");
    // Packets, acks and timers may allocate a little. One packet carries about three hundred of these messages.
    assert!(taken < MESSAGES as u64 / 50, "{taken} allocations for {MESSAGES} messages");
}
