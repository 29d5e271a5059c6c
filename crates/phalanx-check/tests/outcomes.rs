//! What has to be told: V17, and the parts of S9, V3, V4, V15, U7 and M11 that ask for a notice or a record.

mod common;

use common::{GROUP, SECOND, World, fifo, id, uniform};
use phalanx_check::{Options, Property, Require, check};
use phalanx_trace::{Event, LeaveReason};

fn stable(w: &mut World, p: usize, view: u64, seq: u64) {
    w.push(p, Event::Stable { group: GROUP, view, seq });
}

/// `a` sends a message, and goes on to view 2 without `c`. It is notified that the message is stable, or not.
fn goes_on(told: bool) -> World {
    let mut w = World::group(3);
    w.multicast(fifo(0, 1, 1), &[0, 1, 2]);
    w.multicast(fifo(1, 1, 1), &[0, 1, 2]);
    stable(&mut w, 1, 1, 1);
    if told {
        stable(&mut w, 0, 1, 1);
    }
    w.lose(2, &[0, 1]);
    w.end(&[0, 1]);
    w
}

#[test]
fn v17_who_goes_on_was_told_before() {
    goes_on(true).holds(&[Property::V17]);
    goes_on(false).breaks(Property::V17);
}

#[test]
fn v17_a_notice_that_comes_too_late_is_s10() {
    let mut w = World::group(3);
    w.multicast(fifo(0, 1, 1), &[0, 1, 2]);
    w.lose(2, &[0, 1]);
    stable(&mut w, 0, 1, 1);
    w.end(&[0, 1]);
    w.breaks(Property::S10);
}

#[test]
fn v17_is_evaluated_where_anybody_records_receipts_or_it_is_asked_for() {
    let mut silent = World::group(3);
    silent.multicast(fifo(0, 1, 1), &[0, 1, 2]);
    silent.lose(2, &[0, 1]);
    silent.end(&[0, 1]);
    silent.holds(&[]);
    assert_eq!(silent.report().instances(Property::V17), 0);
    let asked = Options { require: Require::These(vec![Property::V17]), ..common::options() };
    assert_eq!(check(&silent.traces, &asked).violated(), [Property::V17], "told of nothing at all");
    silent.traces.iter_mut().for_each(|trace| trace.header.format = phalanx_trace::FORMAT_STABLE - 1);
    assert_eq!(check(&silent.traces, &asked).violated(), [], "the format has no record of it");
}

/// `a` sends in the view that stays: before the quiet phase, or in it. It is notified after so long; `None`: never.
fn stays(before: bool, told_after_ns: Option<u64>) -> World {
    let mut w = World::group(2);
    w.multicast(fifo(1, 1, 1), &[0, 1]);
    stable(&mut w, 1, 1, 1);
    if before {
        w.multicast(fifo(0, 1, 1), &[0, 1]);
        w.quiet();
        w.wait(10 * SECOND);
    } else {
        w.quiet();
        w.wait(10 * SECOND);
        w.multicast(fifo(0, 1, 1), &[0, 1]);
    }
    if let Some(ns) = told_after_ns {
        w.wait(ns);
        stable(&mut w, 0, 1, 1);
    }
    w.wait(20 * SECOND);
    w.end(&[0, 1]);
    w
}

#[test]
fn v17_in_a_view_that_stays_there_is_a_bound() {
    for before in [false, true] {
        stays(before, Some(SECOND)).holds(&[Property::V17]);
        stays(before, Some(8 * SECOND)).breaks(Property::V17);
        stays(before, None).breaks(Property::V17);
    }
}

#[test]
fn v17_asks_nothing_of_who_dies_or_leaves() {
    let mut dies = World::group(3);
    dies.multicast(fifo(0, 1, 1), &[0, 1, 2]);
    dies.multicast(fifo(1, 1, 1), &[0, 1, 2]);
    stable(&mut dies, 1, 1, 1);
    dies.lose(0, &[1, 2]);
    dies.end(&[1, 2]);
    dies.holds(&[Property::V17]);
    let mut leaves = World::group(2);
    leaves.multicast(fifo(0, 1, 1), &[0, 1]);
    leaves.multicast(fifo(1, 1, 1), &[0, 1]);
    stable(&mut leaves, 1, 1, 1);
    leaves.push(0, Event::GroupLeaveAsked { group: GROUP });
    leaves.push(0, Event::GroupLeft { group: GROUP });
    leaves.group_view(1, 2, Some(1), &[1], &[], &[(0, LeaveReason::Left)]);
    leaves.end(&[0, 1]);
    leaves.holds(&[Property::V17]);
}

/// What was sent before the quiet phase, in the view that stays, is delivered as well.
#[test]
fn v3_and_v4_ask_for_what_was_sent_before_the_quiet_phase() {
    let run = |to: &[usize]| {
        let mut w = World::group(2);
        w.multicast(fifo(0, 1, 1), to);
        w.quiet();
        w.wait(30 * SECOND);
        w.end(&[0, 1]);
        w
    };
    run(&[0, 1]).holds(&[Property::V3, Property::V4]);
    run(&[0]).breaks(Property::V4);
    run(&[1]).breaks(Property::V3);
}

/// `c` sends to `a`, from which nothing passes to it from then on, and is excluded.
fn excluded_behind_a_cut(received: bool, doubt: Option<u64>) -> World {
    let mut w = World::cell(3);
    w.push(2, Event::P2pSend { to: id(0), k: 1, hash: 1 });
    w.push(0, Event::P2pDeliver { from: id(2), k: 1, hash: 1 });
    w.wait(SECOND);
    w.cut(&[0, 1], 2);
    w.wait(SECOND);
    w.push(2, Event::P2pSend { to: id(0), k: 2, hash: 2 });
    if received {
        w.push(0, Event::P2pDeliver { from: id(2), k: 2, hash: 2 });
    }
    w.wait(SECOND);
    w.push(2, Event::NonPrimary);
    for p in 0..2 {
        w.cell_view(p, 2, &[0, 1], &[(2, LeaveReason::Unreachable)]);
    }
    w.wait(SECOND);
    if let Some(messages) = doubt {
        w.push(2, Event::InDoubt { to: id(0), messages });
    }
    w.push(2, Event::Excluded { view: 2 });
    w.end(&[0, 1]);
    w
}

#[test]
fn s9_what_cannot_be_acknowledged_is_in_doubt_received_or_not() {
    for received in [false, true] {
        excluded_behind_a_cut(received, Some(1)).holds(&[Property::S9]);
        excluded_behind_a_cut(received, Some(2)).holds(&[Property::S9]);
    }
    excluded_behind_a_cut(true, None).breaks(Property::S9);
    // Not received and not told is broken on both counts.
    excluded_behind_a_cut(false, None).breaks(Property::S9);
}

#[test]
fn s9_what_is_sent_to_the_dead_is_in_doubt() {
    let run = |doubt: Option<u64>| {
        let mut w = World::cell(3);
        w.crash(0);
        w.wait(SECOND);
        w.push(2, Event::P2pSend { to: id(0), k: 1, hash: 1 });
        w.push(2, Event::LeaveAsked);
        w.cell_view(1, 2, &[1], &[(0, LeaveReason::Died), (2, LeaveReason::Left)]);
        if let Some(messages) = doubt {
            w.push(2, Event::InDoubt { to: id(0), messages });
        }
        w.push(2, Event::Left);
        w.end(&[1]);
        w.report().violated().contains(&Property::S9)
    };
    assert!(!run(Some(1)) && run(None));
}

/// Two members of a group that asks for two, each of which records what it is told.
fn minima(records: impl Fn(&Event) -> bool, told: Option<bool>) -> World {
    let mut w = World::strangers(2);
    for p in [0, 1] {
        w.cell_view(p, 1, &[0, 1], &[]);
        w.push(p, Event::Level { level: 2, known: 2 });
        w.push(p, Event::CellMinimum { members: 2 });
        w.ask_group(p, false);
        w.group_view(p, 1, None, &[0, 1], &[0, 1], &[]);
        let adequate = p == 0 || told.is_none();
        w.push(p, Event::GroupTerms { group: GROUP, uniform: true, members_min: 2, adequate });
    }
    if told == Some(true) {
        w.push(1, Event::GroupAdequacy { group: GROUP, view: 1, adequate: true });
    }
    w.quiet();
    w.wait(SECOND);
    w.multicast(uniform(fifo(0, 1, 1)), &[0, 1]);
    w.wait(40 * SECOND);
    w.end(&[0, 1]);
    w.traces[1].records.retain(|record| records(&record.event));
    w
}

#[test]
fn m11_who_records_what_others_do_not() {
    minima(|_| true, None).holds(&[Property::M11]);
    minima(|event| !matches!(event, Event::CellMinimum { .. }), None).breaks(Property::M11);
    minima(|event| !matches!(event, Event::Level { .. }), None).breaks(Property::M11);
    minima(|event| !matches!(event, Event::GroupTerms { .. }), None).breaks(Property::M11);
}

#[test]
fn m11_a_process_may_be_killed_at_a_view() {
    let mut w = minima(|_| true, None);
    let at = w.traces[1].records.iter().position(|r| matches!(r.event, Event::CellView { .. })).expect("it has one");
    w.traces[1].records.truncate(at + 1);
    assert!(!w.report().violated().contains(&Property::M11));
}

#[test]
fn u7_enough_members_are_told() {
    minima(|_| true, Some(true)).holds(&[Property::U7]);
    minima(|_| true, Some(false)).breaks(Property::U7);
}
