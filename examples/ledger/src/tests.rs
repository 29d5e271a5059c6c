//! The ledger in simulated cells.

use phalanx::simulate::{Sender, Simulation};

use super::*;

fn work(sender: &mut Sender<'_, Ledger>) {
    let entry = format!("account {}={}", sender.below(10), sender.below(100));
    sender.send(entry);
}

#[test]
fn every_copy_has_the_same_balances() {
    let simulation = Simulation::of(Ledger::default).invariant(|ledger| assert!(ledger.0.len() <= 10));
    let report = simulation.seeds(0..10).run(work).expect("every seed holds");
    assert!(report.transfers > 40, "{report:?}");
}
