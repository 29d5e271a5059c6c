//! Groups with an inbox of their own: V16, and what U5, U7 and S10 ask of records that are in no order.

mod common;

use common::{CELL, GROUP, M, SECOND, World, fifo, id, name, total, uniform};
use phalanx_check::Property;
use phalanx_trace::{Event, LeaveReason, ToOneOutcome};

/// The inbox of the group, if it has one of its own.
const OWN: u32 = 1;
const OTHER: u32 = 2;

/// Processes in cell view 1 and group view 1, whose group has this inbox at the last of them.
fn group(n: usize, inbox: u32) -> World {
    let mut w = World::cell(n);
    let all: Vec<usize> = (0..n).collect();
    for p in 0..n {
        if p == n - 1 {
            w.push(p, Event::Inbox { name: "ledger".into(), inbox });
        }
        w.ask_group(p, false);
        w.group_view(p, 1, None, &all, &all, &[]);
    }
    w
}

fn unread(w: &mut World, p: usize, inbox: u32, begins: bool) {
    w.harness_says(Event::Unread { incarnation: id(p), inbox, begins });
}

/// In the quiet phase, 1 does not read an inbox for a while, in which 0 sends; 1 delivers that so much later.
fn sends_meanwhile(inbox: u32, late_ns: u64) -> World {
    let (mut w, m) = (group(2, OWN), fifo(0, 1, 1));
    w.quiet();
    w.wait(20 * SECOND);
    unread(&mut w, 1, inbox, true);
    w.send(m);
    w.deliver(0, m);
    let begun = w.now;
    w.wait(SECOND);
    if late_ns < 8 * SECOND {
        w.wait(late_ns - SECOND);
        w.deliver(1, m);
    }
    w.wait((8 * SECOND).saturating_sub(w.now - begun));
    unread(&mut w, 1, inbox, false);
    if late_ns >= 8 * SECOND {
        w.wait(late_ns - 8 * SECOND);
        w.deliver(1, m);
    }
    w.wait(20 * SECOND);
    w.end(&[0, 1]);
    w
}

#[test]
fn another_inbox_that_is_not_read_holds_nothing_up() {
    sends_meanwhile(OTHER, 2 * SECOND).holds(&[Property::V16, Property::V3]);
    sends_meanwhile(OTHER, 7 * SECOND).breaks(Property::V16);
    sends_meanwhile(OTHER, 9 * SECOND).breaks(Property::V16);
}

/// Likewise, of a message to 1 alone. It waits for no other message.
fn sends_to_one_meanwhile(late_ns: u64) -> World {
    let mut w = group(2, OWN);
    w.quiet();
    w.wait(20 * SECOND);
    unread(&mut w, 1, OTHER, true);
    w.push(0, Event::ToOneSend { group: GROUP, view: 1, to: id(1), is_answer: false, hash: 7 });
    let deliver = Event::ToOneDeliver { group: GROUP, view: 1, from: id(0), is_answer: false, hash: 7 };
    w.wait(late_ns);
    w.push(1, deliver);
    w.wait(8 * SECOND - late_ns);
    unread(&mut w, 1, OTHER, false);
    w.push(0, Event::ToOneSettled { group: GROUP, to: id(1), outcome: ToOneOutcome::Delivered, messages: 1 });
    w.wait(20 * SECOND);
    w.end(&[0, 1]);
    w
}

#[test]
fn another_inbox_that_is_not_read_holds_no_message_to_one_up() {
    sends_to_one_meanwhile(2 * SECOND).holds(&[Property::V16]);
    sends_to_one_meanwhile(7 * SECOND).breaks(Property::V16);
}

#[test]
fn the_own_inbox_that_is_not_read_may_hold_up_its_group_until_it_is_read() {
    sends_meanwhile(OWN, 9 * SECOND).holds(&[Property::V4]);
    sends_meanwhile(OWN, 14 * SECOND).breaks(Property::V4);
}

/// 1 delivers something uniform after it was notified that it hears no quorum. Its inbox is unread before, or not.
fn outside(inbox: u32, unread_before: bool, after_ns: u64) -> World {
    let (mut w, m) = (group(2, inbox), uniform(total(0, 1, 1)));
    if unread_before {
        unread(&mut w, 1, OWN, true);
    }
    w.send(m);
    w.deliver_at(0, m, 1);
    w.wait(SECOND);
    w.push(1, Event::NonPrimary);
    w.wait(after_ns);
    if unread_before {
        unread(&mut w, 1, OWN, false);
    }
    w.deliver_at(1, m, 1);
    w
}

#[test]
fn what_waited_in_an_own_inbox_may_come_after_the_notice_of_no_quorum() {
    outside(OWN, true, SECOND).holds(&[Property::U5]);
    outside(OWN, false, SECOND).breaks(Property::U5);
    outside(0, true, SECOND).breaks(Property::U5);
}

#[test]
fn a_quorum_that_is_heard_again_at_that_moment_may_be_told_after() {
    for (inbox, holds) in [(OWN, true), (0, false)] {
        let mut w = outside(inbox, false, SECOND);
        w.traces[1].push(w.now, Event::Primary);
        if holds { w.holds(&[Property::U5]) } else { drop(w.breaks(Property::U5)) }
    }
}

/// 1 sends something uniform, and delivers it at the moment at which its cell view has enough members.
fn enough_at_that_moment(inbox: u32, later_ns: u64) -> World {
    let mut w = group(2, inbox);
    let view = |view| {
        let members = [0, 1].map(|m| (id(m), name(m))).to_vec();
        Event::CellView { instance: CELL, view, members, left: Vec::new() }
    };
    let m: M = uniform(fifo(1, 1, 1));
    w.push(1, view(2));
    w.push(1, Event::CellMinimum { members: 3 });
    w.push(0, view(2));
    w.send(m);
    w.deliver(1, m);
    w.now += later_ns;
    w.traces[1].push(w.now, view(3));
    w.traces[1].push(w.now, Event::CellMinimum { members: 2 });
    w
}

#[test]
fn enough_members_at_that_moment_may_be_told_after() {
    enough_at_that_moment(OWN, 0).holds(&[Property::U7]);
    enough_at_that_moment(OWN, SECOND).breaks(Property::U7);
    enough_at_that_moment(0, 0).breaks(Property::U7);
}

/// 1 hears no quorum when it is notified that its message is stable. The next group view waits in an inbox that is not
/// read, and no cell view shows it. `then` is what follows the notice.
fn end_of_a_view_without_a_cell_view(inbox: u32, not_read: u32, then: impl FnOnce(&mut World)) -> World {
    let mut w = group(2, inbox);
    let m = fifo(1, 1, 1);
    w.multicast(m, &[0, 1]);
    unread(&mut w, 1, not_read, true);
    w.wait(SECOND);
    w.push(1, Event::NonPrimary);
    w.wait(SECOND);
    w.push(1, Event::Stable { group: GROUP, view: 1, seq: 1 });
    then(&mut w);
    w.wait(SECOND);
    unread(&mut w, 1, not_read, false);
    w.push(0, Event::GroupLeaveAsked { group: GROUP });
    w.push(0, Event::GroupLeft { group: GROUP });
    w.group_view(1, 2, Some(1), &[1], &[], &[(0, LeaveReason::Left)]);
    w
}

#[test]
fn the_last_receipt_of_a_view_may_come_while_the_next_view_waits_in_an_inbox() {
    let ends = |inbox, not_read| end_of_a_view_without_a_cell_view(inbox, not_read, |_| ());
    ends(OWN, OWN).holds(&[Property::S10]);
    ends(OWN, OTHER).breaks(Property::S10);
    ends(0, 0).breaks(Property::S10);
}

#[test]
fn a_receipt_after_which_the_view_goes_on_is_not_that_of_its_end() {
    let sends_again = end_of_a_view_without_a_cell_view(OWN, OWN, |w| {
        w.wait(SECOND);
        w.multicast(fifo(1, 1, 2), &[0, 1]);
        w.push(1, Event::Primary);
        w.push(1, Event::Stable { group: GROUP, view: 1, seq: 2 });
    });
    sends_again.breaks(Property::S10);
    let told_again = end_of_a_view_without_a_cell_view(OWN, OWN, |w| {
        w.send(fifo(1, 1, 2));
        w.deliver(0, fifo(1, 1, 2));
        w.deliver(1, fifo(1, 1, 2));
        w.wait(SECOND);
        w.push(1, Event::Stable { group: GROUP, view: 1, seq: 2 });
    });
    let report = told_again.breaks(Property::S10);
    let s10 = report.properties.iter().find(|p| p.property == Property::S10).expect("in every report");
    assert_eq!(s10.violations, 1, "the second is the last");
}

/// A member of the group that takes it from an inbox of its own, or not, and never recorded a view of it, is cut off;
/// another one's message is stable when the cell has gone on without it.
fn stable_without_one_that_never_read(inbox: u32) -> World {
    let mut w = World::cell(3);
    w.push(2, Event::Inbox { name: "ledger".into(), inbox });
    for p in 0..3 {
        w.ask_group(p, false);
        if p < 2 {
            w.group_view(p, 1, None, &[0, 1, 2], &[0, 1, 2], &[]);
        }
    }
    w.cut(&[0, 1], 2);
    w.wait(SECOND);
    w.multicast(fifo(0, 1, 1), &[0, 1]);
    let without = [(2, LeaveReason::Unreachable)];
    w.cell_view(1, 2, &[0, 1], &without);
    w.push(0, Event::Stable { group: GROUP, view: 1, seq: 1 });
    w.cell_view(0, 2, &[0, 1], &without);
    w.group_view(0, 2, Some(1), &[0, 1], &[], &without);
    w.group_view(1, 2, Some(1), &[0, 1], &[], &without);
    w.push(2, Event::Excluded { view: 2 });
    w
}

#[test]
fn a_member_that_never_read_its_group_may_have_left_it_with_a_cell_view() {
    let breaks = |inbox| stable_without_one_that_never_read(inbox).report().violated().contains(&Property::S10);
    assert!(!breaks(OWN));
    assert!(breaks(0));
}

#[test]
fn a_receipt_at_the_end_of_a_view_may_come_long_before_the_next_group_view() {
    for (inbox, holds) in [(OWN, true), (0, false)] {
        let mut w = group(2, inbox);
        let m = fifo(1, 1, 1);
        w.multicast(m, &[1]);
        w.crash(0);
        w.wait(SECOND);
        w.push(1, Event::NonPrimary);
        w.push(1, Event::Stable { group: GROUP, view: 1, seq: 1 });
        w.cell_view(1, 2, &[1], &[(0, LeaveReason::Died)]);
        w.wait(SECOND);
        w.group_view(1, 2, Some(1), &[1], &[], &[(0, LeaveReason::Died)]);
        let report = w.report();
        assert_eq!(report.violated().contains(&Property::S10), !holds, "{report}");
    }
}

/// 1 is stopped, and 2 sends. It takes its message when it reads this inbox again, long after the others went on.
fn stopped_beside_unread(inbox: u32) -> World {
    let (mut w, m) = (group(3, OWN), fifo(2, 1, 1));
    w.harness_says(Event::Stop { incarnation: id(1) });
    unread(&mut w, 2, inbox, true);
    w.send(m);
    w.deliver(0, m);
    w.wait(2 * SECOND);
    for p in [0, 2] {
        w.cell_view(p, 2, &[0, 2], &[(1, LeaveReason::Unreachable)]);
    }
    w.group_view(0, 2, Some(1), &[0, 2], &[], &[(1, LeaveReason::Unreachable)]);
    w.wait(8 * SECOND);
    unread(&mut w, 2, inbox, false);
    w.deliver(2, m);
    w.group_view(2, 2, Some(1), &[0, 2], &[], &[(1, LeaveReason::Unreachable)]);
    w.harness_says(Event::Cont { incarnation: id(1) });
    w.push(1, Event::Excluded { view: 2 });
    w.end(&[0, 2]);
    w
}

#[test]
fn who_does_not_read_is_not_held_up_by_a_stopped_member() {
    stopped_beside_unread(OWN).holds(&[Property::V9]);
    assert_eq!(stopped_beside_unread(OTHER).report().violated(), [Property::V9]);
}
