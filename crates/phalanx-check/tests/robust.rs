//! The checker gives a verdict on any traces: they are input from outside, and may be malformed in any way.

mod common;

use common::{GROUP, World, causal, fifo, options, total, uniform};
use phalanx_check::{Options, Property, Report, check};
use phalanx_trace::{Action, Event, Outcome, Trouble};
use proptest::prelude::*;

/// A run with records of most kinds.
fn rich() -> World {
    let mut w = World::group(3);
    w.accept(fifo(0, 1, 1));
    w.multicast(fifo(0, 1, 1), &[0, 1, 2]);
    w.accept(uniform(causal(1, 1, 1)));
    w.multicast(uniform(causal(1, 1, 1)), &[0, 1, 2]);
    w.send(total(2, 1, 1));
    w.accept(total(2, 1, 1));
    [0, 1, 2].iter().for_each(|&p| w.deliver_at(p, total(2, 1, 1), 1));
    w.push(0, Event::SnapshotOut { group: GROUP, view: 1, digest: 3 });
    w.push(0, Event::P2pSend { to: 2, k: 1, hash: 9 });
    w.push(1, Event::P2pDeliver { from: 1, k: 1, hash: 9 });
    w.push(1, Event::NonPrimary);
    w.push(1, Event::Primary);
    w.push(1, Event::Block);
    w.push(1, Event::Unblock);
    w.harness_says(Event::Attack { active: true });
    w.harness_says(Event::Trouble { what: Trouble::Slow, incarnation: 2, begins: true });
    w.harness_says(Event::Stop { incarnation: 1 });
    w.cut(&[0, 1], 2);
    w.harness_says(Event::Cont { incarnation: 1 });
    w.harness_says(Event::Mend { links: vec![("a".into(), "c".into())] });
    w.harness_says(Event::Gauge { incarnation: 1, name: "outbox".into(), value: 1, limit: 2, idle: 0 });
    w.push(2, Event::Invoke { group: GROUP, op: 1, action: Action::Write { key: 0, value: 3 } });
    w.push(0, Event::Invoke { group: GROUP, op: 1, action: Action::Read { key: 0 } });
    w.push(0, Event::Return { op: 1, outcome: Outcome::Value(3) });
    // c is granted the lock and gives it back, then b is granted it.
    w.push(2, Event::Invoke { group: GROUP, op: 2, action: Action::Acquire { lock: 0 } });
    w.push(2, Event::Return { op: 2, outcome: Outcome::Granted { token: 7 } });
    w.push(2, Event::Guard { resource: 0, serial: 1, token: 7, accepted: true });
    w.push(2, Event::Invoke { group: GROUP, op: 3, action: Action::Release { lock: 0, token: 7 } });
    w.push(1, Event::Invoke { group: GROUP, op: 1, action: Action::Acquire { lock: 0 } });
    w.push(1, Event::Return { op: 1, outcome: Outcome::Granted { token: 8 } });
    w.push(1, Event::Guard { resource: 0, serial: 2, token: 8, accepted: true });
    w.push(1, Event::Invoke { group: GROUP, op: 2, action: Action::Transfer { from: 0, to: 1, amount: 2 } });
    [0, 1].iter().for_each(|&p| w.push(p, Event::Balance { group: GROUP, sum: 800 }));
    w.lose(2, &[0, 1]);
    [0, 1].iter().for_each(|&p| w.digest(p, 2, 0, 5));
    w.accept(fifo(0, 2, 1));
    w.multicast(fifo(0, 2, 1), &[0, 1]);
    w.quiet();
    w.wait(20 * common::SECOND);
    w.accept(fifo(1, 2, 1));
    w.multicast(fifo(1, 2, 1), &[0, 1]);
    w.wait(10 * common::SECOND);
    w.harness_says(Event::Traffic { incarnation: 1, packets: 10, idle: 20 });
    w.wait(10 * common::SECOND);
    w.harness_says(Event::Traffic { incarnation: 1, packets: 30, idle: 20 });
    w.end(&[0, 1]);
    w
}

/// One change to a run: a trace, a record, and the change.
#[derive(Clone, Copy, Debug)]
struct Change {
    trace: usize,
    record: usize,
    how: u8,
    number: u64,
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let number = prop_oneof![0u64..6, Just(u64::MAX), Just(u64::MAX - 1), any::<u64>()];
    let one = (0usize..4, 0usize..40, 0u8..6, number);
    let change = one.prop_map(|(trace, record, how, number)| Change { trace, record, how, number });
    prop::collection::vec(change, 1..12)
}

fn apply(w: &mut World, change: Change) {
    let other = (change.number % 4) as usize;
    let records = &mut w.traces[change.trace].records;
    if records.is_empty() {
        return;
    }
    let at = change.record % records.len();
    match change.how {
        0 => drop(records.remove(at)),
        1 => records.insert(at, records[at].clone()),
        2 => {
            let last = records.len() - 1;
            records.swap(at, last);
        }
        3 => records[at].at_ns = change.number,
        4 => {
            let moved = records[at].clone();
            w.traces[other].records.push(moved);
        }
        _ => renumber(&mut records[at].event, change.number),
    }
}

/// Replaces a number in the record.
fn renumber(event: &mut Event, n: u64) {
    match event {
        Event::CellView { view, .. } | Event::Excluded { view } => *view = n,
        Event::GroupView { view, prev, .. } => {
            *view = n;
            *prev = Some(n);
        }
        Event::Send { seq, view, .. } => {
            *seq = n;
            *view = (*view).max(n & 1);
        }
        Event::Deliver { sender, position, seq, .. } => {
            *position = Some(n);
            *seq = n;
            *sender = n & 3;
        }
        Event::Digest { view, delivered, .. } => {
            *delivered = n;
            *view = n & 3;
        }
        Event::Crash { incarnation } | Event::Stop { incarnation } | Event::Cont { incarnation } => *incarnation = n,
        Event::Trouble { incarnation, .. } => *incarnation = n,
        Event::Gauge { value, incarnation, .. } => {
            *value = n;
            *incarnation = n & 3;
        }
        Event::Traffic { packets, .. } => *packets = n,
        Event::P2pSend { k, .. } | Event::P2pDeliver { k, .. } => *k = n,
        Event::Invoke { op, .. } => *op = n,
        Event::Return { outcome, .. } => *outcome = Outcome::Value(n),
        Event::Guard { serial, token, .. } => {
            *serial = n & 3;
            *token = n;
        }
        Event::Balance { sum, .. } => *sum = n,
        _ => {}
    }
}

fn judge(w: &World) -> Report {
    for lenient in [Options::default(), Options { complete: false, membership_bound_ns: u64::MAX, ..options() }] {
        let _ = check(&w.traces, &lenient);
    }
    w.report()
}

#[test]
fn the_run_itself_holds() {
    rich().holds(&[Property::V4, Property::U1, Property::L1, Property::L2, Property::R7, Property::BANK]);
}

/// One in some hundred thousand random runs: it takes three changes to bring a last instant into a message's order.
#[test]
fn a_delivery_at_the_last_instant_that_a_number_can_name_gets_a_verdict() {
    for (record, how, number) in (0..40).flat_map(|record| (0..6).map(move |how| (record, how, u64::MAX))) {
        let mut w = rich();
        apply(&mut w, Change { trace: 1, record: 36, how: 3, number: u64::MAX });
        apply(&mut w, Change { trace: 1, record: 11, how: 4, number: 1 });
        apply(&mut w, Change { trace: 1, record: 3, how: 2, number: 0 });
        apply(&mut w, Change { trace: 1, record, how, number });
        judge(&w);
    }
}

proptest! {
    #[test]
    fn every_run_gets_a_verdict(changes in changes()) {
        let mut w = rich();
        changes.iter().for_each(|&c| apply(&mut w, c));
        let report = judge(&w);
        prop_assert_eq!(report.passed, report.violated().is_empty() && report.missing.is_empty());
        prop_assert!(report.to_string().contains("tested"));
        let json: Result<serde_json::Value, _> = serde_json::from_str(&report.to_json());
        prop_assert!(json.is_ok());
    }

    #[test]
    fn the_order_of_the_traces_does_not_matter(changes in changes(), by in 1usize..4) {
        let mut w = rich();
        changes.iter().for_each(|&c| apply(&mut w, c));
        let mut turned = w.clone();
        turned.traces.rotate_left(by);
        let (one, other) = (judge(&w), judge(&turned));
        prop_assert_eq!(one.passed, other.passed);
        prop_assert_eq!(one.violated().is_empty(), other.violated().is_empty());
        // If a view has two contents, other violations depend on which is taken for the right one.
        if !one.violated().contains(&Property::M3) {
            prop_assert_eq!(one.violated(), other.violated());
        }
    }
}
