//! S8: good and broken runs, and multicasts that may be lost.

mod common;

use common::{GROUP, M, SECOND, World, fifo, id, total, uniform};
use phalanx_check::Property;
use phalanx_trace::{Event, LeaveReason, Order};

/// Sends a multicast at once: the send is recorded before the acceptance.
fn at_once(w: &mut World, m: M) {
    w.send(m);
    w.accept(m);
}

/// Notifies `p` that the last `messages` multicasts it accepted will not be sent.
fn unsent(w: &mut World, p: usize, messages: u64) {
    w.push(p, Event::Unsent { group: GROUP, messages });
}

#[test]
fn s8_sent_at_once_later_and_in_the_next_view_holds() {
    let mut w = World::group(3);
    at_once(&mut w, fifo(0, 1, 1));
    w.accept(fifo(0, 1, 2));
    w.accept(fifo(0, 1, 3));
    w.send(fifo(0, 1, 2));
    w.send(fifo(0, 1, 3));
    for seq in 1..=3 {
        [0, 1].iter().for_each(|&p| w.deliver(p, fifo(0, 1, seq)));
    }
    w.accept(uniform(total(0, 2, 1)));
    w.lose(2, &[0, 1]);
    w.send(uniform(total(0, 2, 1)));
    [0, 1].iter().for_each(|&p| w.deliver_at(p, uniform(total(0, 2, 1)), 1));
    w.end(&[0, 1]);
    w.holds(&[Property::S8]);
    assert_eq!(w.report().instances(Property::S8), 4);
}

#[test]
fn s8_dropped_at_a_view_change() {
    let mut w = World::group(3);
    w.accept(fifo(0, 2, 9));
    w.lose(2, &[0, 1]);
    w.accept(fifo(0, 2, 1));
    w.multicast(fifo(0, 2, 1), &[0, 1]);
    w.breaks(Property::S8);
}

#[test]
fn s8_dropped_before_one_that_goes_out_at_once() {
    let mut w = World::group(3);
    w.accept(fifo(0, 2, 9));
    w.lose(2, &[0, 1]);
    at_once(&mut w, fifo(0, 2, 1));
    [0, 1].iter().for_each(|&p| w.deliver(p, fifo(0, 2, 1)));
    w.breaks(Property::S8);
}

#[test]
fn s8_sent_in_another_order() {
    let mut w = World::group(2);
    w.accept(fifo(0, 1, 2));
    w.accept(fifo(0, 1, 1));
    w.multicast(fifo(0, 1, 1), &[0, 1]);
    w.multicast(fifo(0, 1, 2), &[0, 1]);
    w.breaks(Property::S8);
}

#[test]
fn s8_sent_as_another_kind() {
    let mut w = World::group(2);
    w.accept(uniform(fifo(0, 1, 1)));
    w.multicast(fifo(0, 1, 1), &[0, 1]);
    w.end(&[0, 1]);
    w.breaks(Property::S8);
}

#[test]
fn s8_sent_without_having_been_accepted() {
    let mut w = World::group(2);
    at_once(&mut w, fifo(0, 1, 1));
    w.send(fifo(0, 1, 2));
    w.end(&[0, 1]);
    w.breaks(Property::S8);
}

#[test]
fn s8_a_process_that_records_no_acceptance_is_not_judged() {
    let mut w = World::group(2);
    w.send(fifo(0, 1, 1));
    w.send(fifo(0, 1, 2));
    w.end(&[0, 1]);
    let report = w.report();
    assert!(report.violated().is_empty(), "{report}");
    assert_eq!(report.instances(Property::S8), 0);
}

#[test]
fn s8_killed_between_a_send_and_its_acceptance_holds() {
    let mut w = World::group(2);
    at_once(&mut w, fifo(0, 1, 1));
    w.send(fifo(0, 1, 2));
    w.crash(0);
    w.holds(&[Property::S8]);
}

/// In the quiet phase `a` accepts a message, and sends it after `sent_after`; all deliver it.
fn waits(sent_after: Option<u64>) -> World {
    let mut w = World::group(2);
    w.quiet();
    w.wait(20 * SECOND);
    w.accept(fifo(0, 1, 1));
    if let Some(ns) = sent_after {
        w.wait(ns);
        w.multicast(fifo(0, 1, 1), &[0, 1]);
    }
    w.wait(20 * SECOND);
    w.end(&[0, 1]);
    w
}

#[test]
fn s8_sent_in_time_holds() {
    waits(Some(4 * SECOND)).holds(&[Property::S8]);
}

#[test]
fn s8_sent_too_late() {
    waits(Some(6 * SECOND)).breaks(Property::S8);
}

#[test]
fn s8_never_sent() {
    waits(None).breaks(Property::S8);
}

#[test]
fn s8_accepted_before_the_quiet_phase_and_never_sent() {
    let mut w = World::group(2);
    w.accept(fifo(0, 1, 1));
    w.quiet();
    w.wait(20 * SECOND);
    w.end(&[0, 1]);
    w.breaks(Property::S8);
}

#[test]
fn s8_accepted_at_the_very_end_is_not_judged() {
    let mut w = World::group(2);
    w.quiet();
    w.wait(20 * SECOND);
    w.accept(fifo(0, 1, 1));
    w.end(&[0, 1]);
    w.holds(&[Property::S8]);
}

#[test]
fn s8_whoever_dies_or_is_excluded_may_lose_it() {
    let mut w = World::group(4);
    w.accept(fifo(2, 1, 1));
    w.accept(fifo(3, 1, 1));
    w.crash(2);
    for p in [0, 1] {
        let left = [(2, LeaveReason::Died), (3, LeaveReason::Unreachable)];
        w.cell_view(p, 2, &[0, 1], &left);
        w.group_view(p, 2, Some(1), &[0, 1], &[], &left);
    }
    unsent(&mut w, 3, 1);
    w.push(3, Event::Excluded { view: 2 });
    w.push(3, Event::End);
    w.quiet();
    w.wait(20 * SECOND);
    w.end(&[0, 1]);
    w.holds(&[Property::S8]);
}

/// `c` sends one message, accepts three more, and is notified for each number in `told` that so many will not be sent;
/// then its stay ends.
fn ends_with_three_unsent(told: &[u64], end: Event) -> World {
    let mut w = World::group(3);
    w.accept(fifo(2, 1, 1));
    w.multicast(fifo(2, 1, 1), &[0, 1, 2]);
    w.push(2, Event::LeaveAsked);
    (2..5).for_each(|seq| w.accept(fifo(2, 1, seq)));
    told.iter().for_each(|&messages| unsent(&mut w, 2, messages));
    let why = if end == Event::Left { LeaveReason::Left } else { LeaveReason::Unreachable };
    for p in [0, 1] {
        w.cell_view(p, 2, &[0, 1], &[(2, why)]);
        w.group_view(p, 2, Some(1), &[0, 1], &[], &[(2, why)]);
    }
    let leaves_group = matches!(end, Event::GroupLeft { .. });
    w.push(2, end);
    if leaves_group {
        w.push(2, Event::Excluded { view: 2 });
    }
    w.push(2, Event::End);
    w.end(&[0, 1]);
    w
}

fn ends() -> [Event; 3] {
    [Event::Excluded { view: 2 }, Event::Left, Event::GroupLeft { group: GROUP }]
}

#[test]
fn s8_told_of_all_that_was_not_sent_before_the_end_holds() {
    for end in ends() {
        for told in [&[3][..], &[1, 2]] {
            ends_with_three_unsent(told, end.clone()).holds(&[Property::S8]);
        }
    }
}

#[test]
fn s8_told_of_none_of_fewer_or_of_more_than_was_not_sent() {
    for end in ends() {
        for told in [&[][..], &[2], &[1, 1], &[4], &[3, 1], &[3, 0]] {
            ends_with_three_unsent(told, end.clone()).breaks(Property::S8);
        }
    }
}

#[test]
fn s8_told_that_it_will_not_be_sent_and_sent() {
    let mut w = World::group(2);
    w.accept(fifo(0, 1, 1));
    unsent(&mut w, 0, 1);
    w.multicast(fifo(0, 1, 1), &[0, 1]);
    w.end(&[0, 1]);
    w.breaks(Property::S8);
}

#[test]
fn s8_a_trace_of_an_earlier_format_has_no_word_for_what_was_not_sent() {
    for end in ends() {
        let mut w = ends_with_three_unsent(&[], end);
        w.traces[2].header.format = phalanx_trace::FORMAT_UNSENT - 1;
        w.holds(&[Property::S8]);
    }
}

#[test]
fn s8_killed_before_it_is_told_holds() {
    let mut w = World::group(2);
    w.accept(fifo(1, 1, 1));
    w.lose(1, &[0]);
    w.end(&[0]);
    w.holds(&[Property::S8]);
}

/// `c` accepts a message and leaves the group, or asks to leave before it accepts.
fn leaves_the_group(asks_first: bool) -> World {
    let mut w = World::group(3);
    if asks_first {
        w.push(2, Event::GroupLeaveAsked { group: GROUP });
    }
    w.accept(fifo(2, 1, 1));
    if !asks_first {
        w.push(2, Event::GroupLeaveAsked { group: GROUP });
    }
    for p in [0, 1] {
        w.group_view(p, 2, Some(1), &[0, 1], &[], &[(2, LeaveReason::Left)]);
    }
    unsent(&mut w, 2, 1);
    w.push(2, Event::GroupLeft { group: GROUP });
    w.end(&[0, 1, 2]);
    w
}

#[test]
fn s8_leaves_the_group_without_having_sent_it() {
    leaves_the_group(false).breaks(Property::S8);
}

#[test]
fn s8_accepted_after_the_wish_to_leave_the_group_may_be_lost() {
    leaves_the_group(true).holds(&[Property::S8]);
}

#[test]
fn s8_an_application_that_reads_late_asks_twice_before_it_is_told() {
    let mut w = leaves_the_group(true);
    let c = &mut w.traces[2].records;
    let told = c.iter().rposition(|r| r.event == Event::GroupLeft { group: GROUP }).expect("it leaves");
    let again = phalanx_trace::Record { at_ns: c[told].at_ns, event: Event::GroupLeaveAsked { group: GROUP } };
    c.insert(told, again);
    w.holds(&[Property::S8]);
}

/// `c` observes, and the last member with the state leaves. It waits, comes to the group that is made next under the
/// name, and leaves that one. Later it asks for it once more.
fn observer_leaves_the_next_group(asks_first: bool) -> World {
    let next = GROUP + 1;
    let mut w = World::group(3);
    w.push(2, Event::GroupLost { group: GROUP, why: LeaveReason::Anew });
    w.push(2, Event::GroupLeft { group: GROUP });
    let (name, members) = ("ledger".to_owned(), vec![id(0), id(2)]);
    let joined = members.clone();
    w.push(2, Event::GroupView { group: next, name, view: 7, prev: None, members, joined, left: vec![] });
    let asks = |w: &mut World| w.push(2, Event::GroupLeaveAsked { group: next });
    if asks_first {
        asks(&mut w);
    }
    w.push(2, Event::Accept { group: next, order: Order::Fifo, uniform: false, hash: 9 });
    if !asks_first {
        asks(&mut w);
    }
    w.push(2, Event::Unsent { group: next, messages: 1 });
    w.push(2, Event::GroupLeft { group: next });
    w.ask_group(2, false);
    w
}

#[test]
fn s8_an_observer_that_came_to_the_next_group_did_not_ask_for_it() {
    let breaks = |asks_first| observer_leaves_the_next_group(asks_first).report().violated().contains(&Property::S8);
    assert!(!breaks(true) && breaks(false));
}

/// `c` leaves the group, joins it again, leaves it again, and so once more. Its application is notified of all that
/// late. It asks the second time before it is notified that it left once, or only after it accepted a message in its
/// second stay.
fn leaves_again_and_reads_late(asks_first: bool) -> World {
    let mut w = World::group(3);
    let asks = |w: &mut World| w.push(2, Event::GroupLeaveAsked { group: GROUP });
    asks(&mut w);
    for p in [0, 1] {
        w.group_view(p, 2, Some(1), &[0, 1], &[], &[(2, LeaveReason::Left)]);
        w.group_view(p, 3, Some(2), &[0, 1, 2], &[2], &[]);
    }
    w.ask_group(2, false);
    if asks_first {
        asks(&mut w);
    }
    w.push(2, Event::GroupLeft { group: GROUP });
    w.group_view(2, 3, None, &[0, 1, 2], &[2], &[]);
    w.accept(fifo(2, 3, 1));
    if !asks_first {
        asks(&mut w);
    }
    for p in [0, 1] {
        w.group_view(p, 4, Some(3), &[0, 1], &[], &[(2, LeaveReason::Left)]);
        w.group_view(p, 5, Some(4), &[0, 1, 2], &[2], &[]);
        w.group_view(p, 6, Some(5), &[0, 1], &[], &[(2, LeaveReason::Left)]);
    }
    w.ask_group(2, false);
    asks(&mut w);
    unsent(&mut w, 2, 1);
    w.push(2, Event::GroupLeft { group: GROUP });
    w.group_view(2, 5, None, &[0, 1, 2], &[2], &[]);
    w.push(2, Event::GroupLeft { group: GROUP });
    w.end(&[0, 1, 2]);
    w
}

#[test]
fn s8_accepted_after_a_wish_to_leave_that_came_before_the_last_departure_was_told_may_be_lost() {
    leaves_again_and_reads_late(true).holds(&[Property::S8]);
}

#[test]
fn s8_the_wish_to_leave_an_earlier_stay_excuses_nothing() {
    leaves_again_and_reads_late(false).breaks(Property::S8);
}

/// `c` accepts a message, or asks to leave before that, and leaves the cell; a view without it gives the reason `why`.
/// `told`: it is notified that it is let go, as any process that leaves by its own will.
fn leaves_the_cell(why: Option<LeaveReason>, told: bool, asks_first: bool) -> World {
    let mut w = World::group(3);
    if asks_first {
        w.push(2, Event::LeaveAsked);
    }
    w.accept(fifo(2, 1, 1));
    if !asks_first {
        w.push(2, Event::LeaveAsked);
    }
    w.push(2, Event::Block);
    for p in (0..2).filter(|_| why.is_some()) {
        let left: Vec<_> = why.map(|why| (2, why)).into_iter().collect();
        w.cell_view(p, 2, &[0, 1], &left);
        w.group_view(p, 2, Some(1), &[0, 1], &[], &left);
    }
    unsent(&mut w, 2, 1);
    if told {
        w.push(2, Event::GroupLeft { group: GROUP });
    }
    w.push(2, Event::Unblock);
    w.push(2, Event::Left);
    w.push(2, Event::End);
    w.end(&[0, 1]);
    w
}

#[test]
fn s8_leaves_the_cell_without_having_sent_it() {
    for told in [true, false] {
        leaves_the_cell(Some(LeaveReason::Left), told, false).breaks(Property::S8);
    }
}

#[test]
fn s8_leaves_the_cell_unseen_without_having_sent_it() {
    leaves_the_cell(None, true, false).breaks(Property::S8);
}

#[test]
fn s8_accepted_after_the_wish_to_leave_the_cell_may_be_lost() {
    leaves_the_cell(Some(LeaveReason::Left), true, true).holds(&[Property::S8]);
    leaves_the_cell(None, true, true).holds(&[Property::S8]);
}

#[test]
fn s8_whoever_is_excluded_while_it_leaves_may_lose_it() {
    for told in [true, false] {
        leaves_the_cell(Some(LeaveReason::Unreachable), told, false).holds(&[Property::S8]);
    }
    leaves_the_cell(None, false, false).holds(&[Property::S8]);
}

/// The last process of the cell accepts a message, and leaves.
#[test]
fn s8_leaves_alone_without_having_sent_it() {
    let mut w = World::group(1);
    w.accept(fifo(0, 1, 1));
    w.push(0, Event::LeaveAsked);
    w.push(0, Event::Left);
    w.push(0, Event::End);
    w.end(&[]);
    w.breaks(Property::S8);
}

/// `b` waits in the quiet phase for longer than the bound, and leaves after that.
#[test]
fn s8_a_leave_after_the_quiet_phase_ends_no_wait_in_it() {
    for leaves_group in [true, false] {
        let mut w = World::group(3);
        w.quiet();
        w.wait(20 * SECOND);
        w.accept(fifo(1, 1, 1));
        w.wait(20 * SECOND);
        w.harness_says(Event::End);
        w.push(1, Event::LeaveAsked);
        unsent(&mut w, 1, 1);
        if leaves_group {
            w.push(1, Event::GroupLeft { group: GROUP });
        }
        w.push(1, Event::Left);
        [0, 1, 2].iter().for_each(|&p| w.push(p, Event::End));
        let report = w.breaks(Property::S8);
        assert!(report.to_string().contains("did not send it within the bound"), "{report}");
    }
}

/// One process of a run has no record of its acceptances, where another has.
fn one_tells_of_none() -> World {
    let mut w = World::group(2);
    w.accept(fifo(0, 1, 1));
    w.multicast(fifo(0, 1, 1), &[0, 1]);
    w.multicast(fifo(1, 1, 1), &[0, 1]);
    w
}

#[test]
fn s8_all_acceptances_of_one_process_are_gone() {
    let mut w = one_tells_of_none();
    w.end(&[0, 1]);
    w.breaks(Property::S8);
    let some = phalanx_check::check(&w.traces, &phalanx_check::Options::default());
    assert!(some.violated().is_empty(), "without all traces, not all may be records of one kind of process\n{some}");
}

#[test]
fn s8_killed_between_its_only_send_and_the_acceptance_holds() {
    let mut w = one_tells_of_none();
    w.crash(1);
    w.end(&[0]);
    w.holds(&[Property::S8]);
}
