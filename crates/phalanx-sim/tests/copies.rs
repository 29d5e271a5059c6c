//! Two processes with the same keys and random numbers: a forked child that goes on, or a machine that was cloned.

use std::time::Duration;

use phalanx_sim::{Cell, WorldSettings};

/// Both seal under one incarnation from the first packet on, so one nonce names two packets. Only the harness can see
/// that. Nothing in the core distinguishes a copy from its original, so whoever runs a process must not let a copy of
/// it go on.
#[test]
fn a_copy_of_a_process_uses_its_nonces_again() {
    let mut settings = WorldSettings::quiet(4);
    settings.copies = vec![(3, 2)];
    let mut cell = Cell::new(settings, 1);
    for slot in 0..3 {
        cell.start(slot);
        cell.join(slot, "a");
    }
    cell.settle();
    let seen = |cell: &Cell| cell.violations().iter().any(|violation| violation.code == "nonce");
    assert!(!seen(&cell), "one process, one nonce for each packet");
    cell.start(3);
    cell.join(3, "a");
    assert!(cell.run_until(Duration::from_secs(2), seen));
}
