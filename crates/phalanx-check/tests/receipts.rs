//! S10: what a sender is notified of as stable. And what it is notified of as not sent is delivered by nobody.

mod common;

use common::{GROUP, M, SECOND, World, fifo};
use phalanx_check::Property;
use phalanx_trace::{Event, LeaveReason};

/// Notifies `p` that its messages in the view are stable up to `seq`.
fn stable(w: &mut World, p: usize, view: u64, seq: u64) {
    w.push(p, Event::Stable { group: GROUP, view, seq });
}

/// A group of three in which `a` sent two messages that these delivered.
fn sent(to: &[usize]) -> World {
    let mut w = World::group(3);
    [1, 2].iter().for_each(|&seq| w.multicast(fifo(0, 1, seq), to));
    w
}

#[test]
fn s10_stable_in_its_view_and_at_its_end_holds() {
    let mut w = sent(&[0, 1, 2]);
    stable(&mut w, 0, 1, 1);
    stable(&mut w, 0, 1, 2);
    w.lose(2, &[0, 1]);
    w.multicast(fifo(0, 2, 1), &[0, 1]);
    stable(&mut w, 0, 2, 1);
    w.end(&[0, 1]);
    w.holds(&[Property::S10]);
    let report = w.report();
    let s10 = report.properties.iter().find(|p| p.property == Property::S10).expect("in every report");
    assert_eq!(
        (s10.instances, s10.under_failure),
        (3 + 2, 2),
        "three messages, two of which b delivered as a survivor"
    );
}

#[test]
fn s10_a_message_that_was_not_sent() {
    for (view, seq) in [(1, 3), (1, 0), (1, u64::MAX), (2, 1)] {
        let mut w = sent(&[0, 1, 2]);
        stable(&mut w, 0, view, seq);
        w.end(&[0, 1, 2]);
        w.breaks(Property::S10);
    }
    let mut w = World::group(2);
    stable(&mut w, 0, 1, 1);
    w.multicast(fifo(0, 1, 1), &[0, 1]);
    w.breaks(Property::S10);
}

#[test]
fn s10_of_another_process() {
    let mut w = sent(&[0, 1, 2]);
    stable(&mut w, 1, 1, 1);
    w.breaks(Property::S10);
}

#[test]
fn s10_twice_or_backwards() {
    for again in [1, 2] {
        let mut w = sent(&[0, 1, 2]);
        stable(&mut w, 0, 1, 2);
        stable(&mut w, 0, 1, again);
        w.breaks(Property::S10);
    }
}

#[test]
fn s10_after_the_view() {
    let mut w = sent(&[0, 1, 2]);
    w.lose(2, &[0, 1]);
    stable(&mut w, 0, 1, 2);
    w.breaks(Property::S10);
}

#[test]
fn s10_no_quorum() {
    let outside = |back: Option<Event>| {
        let mut w = sent(&[0, 1, 2]);
        w.push(0, Event::NonPrimary);
        back.into_iter().for_each(|event| w.push(0, event));
        stable(&mut w, 0, 1, 2);
        w.wait(SECOND);
        w
    };
    outside(None).breaks(Property::S10);
    outside(Some(Event::Primary)).holds(&[Property::S10]);
    let mut w = outside(None);
    w.lose(2, &[0, 1]);
    w.breaks(Property::S10);
}

/// The cut that ends a view is decided, whether its member hears a quorum or not.
#[test]
fn s10_no_quorum_at_the_end_of_a_view_holds() {
    let mut w = sent(&[0, 1, 2]);
    w.push(0, Event::NonPrimary);
    stable(&mut w, 0, 1, 2);
    w.lose(2, &[0, 1]);
    w.end(&[0, 1]);
    w.holds(&[Property::S10]);
}

#[test]
fn s10_a_survivor_lacks_it_and_its_sender_died() {
    let mut w = sent(&[0]);
    stable(&mut w, 0, 1, 2);
    w.lose(0, &[1, 2]);
    let report = w.breaks(Property::S10);
    let s10 = report.properties.iter().find(|p| p.property == Property::S10).expect("in every report");
    assert_eq!(s10.violations, 2, "one for each survivor");
}

#[test]
fn s10_a_survivor_lacks_the_last_of_them() {
    let mut w = World::group(3);
    w.multicast(fifo(0, 1, 1), &[0, 1, 2]);
    w.multicast(fifo(0, 1, 2), &[0]);
    let mut held = w.clone();
    stable(&mut held, 0, 1, 1);
    held.lose(0, &[1, 2]);
    held.end(&[1, 2]);
    held.holds(&[Property::S10]);
    stable(&mut w, 0, 1, 2);
    w.lose(0, &[1, 2]);
    w.breaks(Property::S10);
}

#[test]
fn s10_a_member_that_cannot_have_it() {
    let away = |stopped: bool| {
        let mut w = World::group(3);
        if stopped {
            w.harness_says(Event::Stop { incarnation: 3 });
        }
        w.multicast(fifo(0, 1, 1), &[0, 1]);
        stable(&mut w, 0, 1, 1);
        if stopped {
            w.harness_says(Event::Cont { incarnation: 3 });
        }
        w
    };
    away(true).breaks(Property::S10);
    away(false).holds(&[Property::S10]);
}

#[test]
fn s10_the_group_goes_on_from_a_state_without_it() {
    // `b` gave its state to `c` in view 1, and was killed before it recorded view 2.
    let went_on = |message: Option<M>| {
        let mut w = World::cell(3);
        for p in [0, 1] {
            w.ask_group(p, false);
            w.group_view(p, 1, None, &[0, 1], &[0, 1], &[]);
        }
        w.ask_group(2, true);
        w.push(1, Event::SnapshotOut { group: GROUP, view: 1, digest: 1 });
        w.push(2, Event::SnapshotIn { group: GROUP, bytes: 8 });
        w.multicast(fifo(0, 1, 1), &[0, 1]);
        stable(&mut w, 0, 1, 1);
        w.crash(0);
        w.crash(1);
        w.cell_view(2, 2, &[1, 2], &[(0, LeaveReason::Died)]);
        message.into_iter().for_each(|m| w.replay(2, m));
        w.push(2, Event::StateEnd { group: GROUP, digest: 1 });
        w.group_view(2, 2, None, &[1, 2], &[2], &[]);
        w
    };
    let violated = |w: World| w.report().violated().contains(&Property::S10);
    assert!(violated(went_on(None)));
    assert!(!violated(went_on(Some(fifo(0, 1, 1)))));
}

#[test]
fn s10_after_the_end_is_reported_as_such() {
    let mut w = sent(&[0, 1, 2]);
    w.push(0, Event::Excluded { view: 2 });
    stable(&mut w, 0, 1, 2);
    let report = w.report();
    assert!(!report.violated().contains(&Property::S10) && report.violated().contains(&Property::M8), "{report}");
}

/// Whoever is told that a message is not sent may send it elsewhere: nobody may have delivered it.
#[test]
fn what_is_not_sent_is_delivered_by_nobody() {
    let mut w = World::group(2);
    w.accept(fifo(1, 1, 1));
    w.deliver(0, fifo(1, 1, 1));
    w.push(1, Event::Unsent { group: GROUP, messages: 1 });
    w.push(1, Event::Excluded { view: 2 });
    w.cell_view(0, 2, &[0], &[(1, LeaveReason::Unreachable)]);
    w.group_view(0, 2, Some(1), &[0], &[], &[(1, LeaveReason::Unreachable)]);
    let report = w.report();
    assert!(report.violated().contains(&Property::I1), "{report}");
    assert_eq!(report.stats.outcomes.not_sent, 1);
}

#[test]
fn outcomes_are_counted() {
    let mut w = sent(&[0, 1, 2]);
    stable(&mut w, 0, 1, 1);
    w.lose(0, &[1, 2]);
    let outcomes = w.report().stats.outcomes;
    assert_eq!((outcomes.stable, outcomes.not_sent, outcomes.in_doubt), (1, 0, 1));
}
