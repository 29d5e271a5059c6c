//! The store in simulated cells.

use phalanx::simulate::{Sender, Simulation};

use super::*;

fn work(sender: &mut Sender<'_, Store>) {
    let key = format!("key {}", sender.below(20));
    let value = if sender.below(4) > 0 { Some(vec![7; sender.below(30) as usize]) } else { None };
    let request = if sender.below(5) == 0 { Request::Get } else { Request::Set(key, value) };
    sender.send_value(&request);
}

#[test]
fn every_copy_holds_the_same() {
    let simulation = Simulation::of(Store::default).invariant(|store| assert!(store.0.len() <= 20));
    let report = simulation.seeds(0..10).run(work).expect("every seed holds");
    assert!(report.transfers > 40, "{report:?}");
}
