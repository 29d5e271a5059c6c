//! Messages to one member of a group: once or told (S13), after their past (O7).

mod common;

use common::{GROUP, World, fifo, id};
use phalanx_check::Property;
use phalanx_trace::{Event, LeaveReason, ToOneOutcome};

fn send(w: &mut World, from: usize, to: usize, view: u64, hash: u64) {
    w.push(from, Event::ToOneSend { group: GROUP, view, to: id(to), is_answer: false, hash });
}

fn deliver(w: &mut World, to: usize, from: usize, view: u64, hash: u64) {
    w.push(to, Event::ToOneDeliver { group: GROUP, view, from: id(from), is_answer: false, hash });
}

fn settled(w: &mut World, from: usize, to: usize, outcome: ToOneOutcome, messages: u64) {
    w.push(from, Event::ToOneSettled { group: GROUP, to: id(to), outcome, messages });
}

#[test]
fn s13_each_comes_once_and_in_order() {
    let run = |delivered: &[u64]| {
        let mut w = World::group(3);
        [1, 2, 3].iter().for_each(|hash| send(&mut w, 0, 1, 1, *hash));
        delivered.iter().for_each(|hash| deliver(&mut w, 1, 0, 1, *hash));
        settled(&mut w, 0, 1, ToOneOutcome::Delivered, 3);
        w.end(&[0, 1, 2]);
        w
    };
    run(&[1, 2, 3]).holds(&[Property::S13]);
    for wrong in [&[1, 1, 2, 3][..], &[2, 1, 3], &[1, 3], &[1, 2, 9], &[1, 2]] {
        run(wrong).breaks(Property::S13);
    }
}

#[test]
fn s13_nobody_delivers_what_was_not_sent_to_it() {
    let mut w = World::group(3);
    send(&mut w, 0, 1, 1, 7);
    deliver(&mut w, 2, 0, 1, 7);
    w.breaks(Property::S13);
}

/// Both are in the group anew, so that what was on its way is lost.
#[test]
fn s13_one_that_was_on_its_way_when_a_partner_came_anew_may_be_passed_over() {
    let run = |joined: &[usize]| {
        let mut w = World::group(2);
        send(&mut w, 0, 1, 1, 1);
        settled(&mut w, 0, 1, ToOneOutcome::NotDelivered, 1);
        if joined.is_empty() {
            w.group_view(0, 2, Some(1), &[0, 1], joined, &[]);
            w.group_view(1, 2, Some(1), &[0, 1], joined, &[]);
        } else {
            w.group_view(0, 2, Some(1), &[0], &[], &[(1, LeaveReason::Left)]);
            w.push(1, Event::GroupLeaveAsked { group: GROUP });
            w.push(1, Event::GroupLeft { group: GROUP });
            w.ask_group(1, false);
            w.group_view(0, 3, Some(2), &[0, 1], &[1], &[]);
            w.group_view(1, 3, None, &[0, 1], &[1], &[]);
        }
        let view = if joined.is_empty() { 2 } else { 3 };
        send(&mut w, 0, 1, view, 2);
        deliver(&mut w, 1, 0, view, 2);
        w
    };
    run(&[1]).holds(&[Property::S13]);
    run(&[]).breaks(Property::S13);
}

#[test]
fn s13_what_is_told_is_so() {
    let run = |outcome: ToOneOutcome, comes: bool| {
        let mut w = World::group(2);
        send(&mut w, 0, 1, 1, 1);
        if comes {
            deliver(&mut w, 1, 0, 1, 1);
        }
        settled(&mut w, 0, 1, outcome, 1);
        w.end(&[0, 1]);
        w
    };
    run(ToOneOutcome::Delivered, true).holds(&[Property::S13]);
    run(ToOneOutcome::NotDelivered, false).holds(&[Property::S13]);
    run(ToOneOutcome::InDoubt, false).holds(&[Property::S13]);
    run(ToOneOutcome::InDoubt, true).holds(&[Property::S13]);
    run(ToOneOutcome::Delivered, false).breaks(Property::S13);
    run(ToOneOutcome::NotDelivered, true).breaks(Property::S13);
    let mut of_none = World::group(2);
    settled(&mut of_none, 0, 1, ToOneOutcome::Delivered, 1);
    send(&mut of_none, 0, 1, 1, 1);
    deliver(&mut of_none, 1, 0, 1, 1);
    of_none.breaks(Property::S13);
}

#[test]
fn s13_at_the_end_of_a_life_all_is_told() {
    let run = |told: bool| {
        let mut w = World::group(2);
        send(&mut w, 0, 1, 1, 1);
        if told {
            settled(&mut w, 0, 1, ToOneOutcome::InDoubt, 1);
        }
        w.push(0, Event::Excluded { view: 2 });
        w.push(0, Event::End);
        w.report()
    };
    assert!(!run(true).violated().contains(&Property::S13), "{}", run(true));
    assert!(run(false).violated().contains(&Property::S13), "{}", run(false));
}

#[test]
fn o7_it_comes_after_what_its_sender_had_delivered_and_sent() {
    let run = |at_receiver: &[usize]| {
        let mut w = World::group(3);
        let others = fifo(2, 1, 1);
        w.send(others);
        w.deliver(0, others);
        let own = fifo(0, 1, 1);
        w.send(own);
        send(&mut w, 0, 1, 1, 5);
        // Sent behind it, so no part of its past.
        w.send(fifo(0, 1, 2));
        for of in at_receiver {
            w.deliver(1, if *of == 0 { own } else { others });
        }
        deliver(&mut w, 1, 0, 1, 5);
        w
    };
    run(&[2, 0]).holds(&[Property::O7]);
    run(&[2]).breaks(Property::O7);
    run(&[0]).breaks(Property::O7);
}

#[test]
fn o7_it_comes_in_no_view_before_it_and_in_none_without_its_sender() {
    let mut early = World::group(2);
    early.group_view(0, 2, Some(1), &[0, 1], &[], &[]);
    send(&mut early, 0, 1, 2, 5);
    deliver(&mut early, 1, 0, 2, 5);
    early.breaks(Property::O7);
    let later = |stays: bool| {
        let mut w = World::group(3);
        w.multicast(fifo(0, 1, 1), &[0, 1, 2]);
        send(&mut w, 0, 1, 1, 5);
        let (members, left): (&[usize], &[_]) =
            if stays { (&[0, 1], &[(2, LeaveReason::Died)]) } else { (&[1, 2], &[(0, LeaveReason::Died)]) };
        w.crash(if stays { 2 } else { 0 });
        for p in members {
            w.cell_view(*p, 2, members, left);
            w.group_view(*p, 2, Some(1), members, &[], left);
        }
        deliver(&mut w, 1, 0, 1, 5);
        w
    };
    later(true).holds(&[Property::O7]);
    let report = later(false).report();
    assert!(report.violated().contains(&Property::O7), "{report}");
}
