//! Accepted messages that are not sent are reported before the event that ends their sender's stay.

use std::time::Duration;

use crate::net::Net;
use phalanx_core::{Order, Uniformity};

/// A cell of three whose last member is cut off, and accepts multicasts until no more fit. Returns the number accepted.
fn cut_off(seed: u64) -> (Net, u64) {
    let mut net = Net::found(seed, 0, 3);
    net.cut = vec![(0, 2), (2, 0), (1, 2), (2, 1)];
    let mut accepted = 0;
    while net.cast(2, Order::Fifo, Uniformity::Plain, &[7; 5_000]) {
        accepted += 1;
    }
    (net, accepted)
}

/// Checks that the last member is over, and was notified of exactly what it had accepted and not sent.
#[track_caller]
fn evaluate(net: &Net, accepted: u64, end: &str) {
    let (process, seen, _) = &net.nodes[2];
    assert!(seen.ended.as_ref().is_some_and(|ended| ended.contains(end)), "{:?}", seen.ended);
    let [(group, unsent)] = seen.unsent[..] else { panic!("reported {:?}", seen.unsent) };
    assert_eq!((Some(group), seen.sent + unsent), (seen.group, accepted));
    assert!(seen.sent > 0 && unsent > 0, "{} sent, {unsent} not", seen.sent);
    assert_eq!(process.unsent().count(), 0, "everything was reported");
}

#[test]
fn an_excluded_process_is_told_what_it_did_not_send() {
    let (mut net, accepted) = cut_off(1);
    net.run_until(20, |net| net.nodes[0].1.cell_views.last().is_some_and(|view| view.1 == 2));
    let waiting: Vec<_> = net.nodes[2].0.unsent().collect();
    net.cut.clear();
    net.run_until(20, |net| net.nodes[2].1.ended.is_some());
    evaluate(&net, accepted, "Excluded");
    assert_eq!(net.nodes[2].1.unsent, waiting, "the messages that would be lost if it were given up");
}

#[test]
fn a_leaver_that_hears_no_quorum_is_told_what_it_did_not_send() {
    let (mut net, accepted) = cut_off(2);
    net.run(Duration::from_secs(2));
    let now = net.now;
    net.nodes[2].0.leave(now);
    net.run_until(30, |net| net.nodes[2].1.ended.is_some());
    evaluate(&net, accepted, "Left");
}

#[test]
fn who_has_sent_all_is_told_nothing() {
    let mut net = Net::found(3, 0, 3);
    assert!(net.cast(2, Order::Fifo, Uniformity::Plain, b"one"));
    let now = net.now;
    net.nodes[2].0.leave(now);
    net.run_until(30, |net| net.nodes[2].1.ended.is_some());
    assert_eq!((net.nodes[2].1.sent, &net.nodes[2].1.unsent), (1, &Vec::new()));
}
