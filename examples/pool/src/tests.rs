//! The pool's state in simulated cells: all members give each item to the same member, whenever they joined.

use phalanx::simulate::{Sender, Simulation};

use super::*;

/// Adds items in the name of some member, and says that others are done. Only what a worker says of itself counts.
fn work(sender: &mut Sender<'_, Pool>) {
    let count = sender.state().members.len() as u64;
    let (submitter, worker) = (sender.below(count), sender.below(count));
    let member = |at: u64| sender.state().members.iter().nth(at as usize).map(|(id, item)| (*id, item.clone()));
    let (Some((submitter, _)), Some((worker, given))) = (member(submitter), member(worker)) else { return };
    let number = sender.state().numbers.get(&submitter).map_or(1, |last| last + 1);
    sender.send_value(&Change::Add((submitter, number, format!("item {number}"))));
    given.into_iter().for_each(|item| sender.send_value(&Change::Done(worker, item)));
}

#[test]
fn every_member_gives_the_same_item_to_the_same_worker() {
    let given_twice = |pool: &Pool| {
        let given: Vec<&Item> = pool.members.values().flatten().collect();
        given.iter().enumerate().any(|(at, item)| given[..at].contains(item))
    };
    let simulation = Simulation::of(Pool::default).invariant(move |pool| assert!(!given_twice(pool)));
    let report = simulation.seeds(0..50).run(work).expect("every seed holds");
    assert!(report.transfers > 250 && report.views > 500, "{report:?}");
}
