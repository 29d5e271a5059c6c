//! S4, M7, I4, U3 and U4: a good and a broken run for each.

mod common;

use common::{SECOND, World, fifo, id, uniform};
use phalanx_check::Property;
use phalanx_trace::{Event, LeaveReason};

const UNREACHABLE: LeaveReason = LeaveReason::Unreachable;

/// `c` leaves the group and comes back in the next view of the others, who list it as joined or not.
fn left_and_came_back(said: bool) -> World {
    let mut w = World::group(3);
    w.push(2, Event::GroupLeaveAsked { group: common::GROUP });
    w.push(2, Event::GroupLeft { group: common::GROUP });
    w.ask_group(2, false);
    let joined: &[usize] = if said { &[2] } else { &[] };
    let left: &[(usize, LeaveReason)] = &[];
    for p in [0, 1] {
        if said {
            w.group_view(p, 2, Some(1), &[0, 1], &[], &[(2, LeaveReason::Left)]);
            w.group_view(p, 3, Some(2), &[0, 1, 2], joined, left);
        } else {
            w.group_view(p, 2, Some(1), &[0, 1, 2], joined, left);
        }
    }
    w.group_view(2, if said { 3 } else { 2 }, None, &[0, 1, 2], &[2], &[]);
    w.end(&[0, 1, 2]);
    w
}

#[test]
fn s4_who_came_back_did_not_come_along() {
    left_and_came_back(true).holds(&[Property::S4]);
    left_and_came_back(false).breaks(Property::S4);
}

#[test]
fn s4_a_joiner_is_told_who_was_there() {
    let run = |joined: &[usize]| {
        let mut w = World::cell(3);
        (0..3).for_each(|p| w.ask_group(p, false));
        for p in [0, 1] {
            w.group_view(p, 1, None, &[0, 1], &[0, 1], &[]);
        }
        for p in [0, 1] {
            w.group_view(p, 2, Some(1), &[0, 1, 2], &[2], &[]);
        }
        w.group_view(2, 2, None, &[0, 1, 2], joined, &[]);
        w.end(&[0, 1, 2]);
        w
    };
    run(&[2]).holds(&[Property::S4]);
    run(&[1, 2]).breaks(Property::S4);
}

/// The others go on without `c`, which delivers its own message as uniform: after their view if `late`, else before.
/// The processes `to` delivered it as well.
fn stale(to: &[usize], late: bool) -> World {
    let m = uniform(fifo(2, 1, 1));
    let mut w = World::group(3);
    w.send(m);
    to.iter().for_each(|&p| w.deliver(p, m));
    if !late {
        w.deliver(2, m);
    }
    for p in [0, 1] {
        w.cell_view(p, 2, &[0, 1], &[(2, UNREACHABLE)]);
        w.group_view(p, 2, Some(1), &[0, 1], &[], &[(2, UNREACHABLE)]);
    }
    if late {
        w.deliver(2, m);
    }
    w.push(2, Event::Excluded { view: 2 });
    w.end(&[0, 1]);
    w
}

#[test]
fn m7_what_a_stale_member_delivers_as_uniform_the_others_have() {
    stale(&[0, 1], true).holds(&[Property::M7]);
    stale(&[], true).breaks(Property::M7);
}

#[test]
fn m7_plain_deliveries_promise_nothing() {
    let m = fifo(2, 1, 1);
    let mut w = World::group(3);
    w.send(m);
    for p in [0, 1] {
        w.cell_view(p, 2, &[0, 1], &[(2, UNREACHABLE)]);
        w.group_view(p, 2, Some(1), &[0, 1], &[], &[(2, UNREACHABLE)]);
    }
    w.deliver(2, m);
    w.push(2, Event::Excluded { view: 2 });
    w.end(&[0, 1]);
    w.holds(&[]);
}

#[test]
fn u4_what_a_sender_knows_to_be_uniform_survives_it() {
    stale(&[0, 1], false).holds(&[Property::U4]);
    stale(&[], false).breaks(Property::U4);
}

/// `before` makes `c` unable to receive when `a` sends a uniform message; all deliver it after `between`.
fn unreachable_receiver(before: impl Fn(&mut World), between: impl Fn(&mut World)) -> World {
    let m = uniform(fifo(0, 1, 1));
    let mut w = World::group(3);
    before(&mut w);
    w.send(m);
    between(&mut w);
    [0, 1, 2].iter().for_each(|&p| w.deliver(p, m));
    w
}

#[test]
fn u3_a_stopped_member_is_waited_for() {
    let (stop, cont) = (Event::Stop { incarnation: id(2) }, Event::Cont { incarnation: id(2) });
    let mut w = unreachable_receiver(|w| w.harness_says(stop.clone()), |w| w.harness_says(cont.clone()));
    w.end(&[0, 1, 2]);
    w.holds(&[Property::U3]);

    let m = uniform(fifo(0, 1, 1));
    let mut w = World::group(3);
    w.harness_says(stop);
    w.multicast(m, &[0, 1]);
    w.harness_says(cont);
    w.deliver(2, m);
    w.end(&[0, 1, 2]);
    w.breaks(Property::U3);
}

#[test]
fn u3_a_deaf_member_is_waited_for() {
    let mut w = unreachable_receiver(|w| w.cut(&[0, 1], 2), |_| {});
    w.end(&[0, 1, 2]);
    w.breaks(Property::U3);
    // A member that one other still reaches may have the message from there.
    let mut w = unreachable_receiver(|w| w.cut(&[0], 2), |_| {});
    w.end(&[0, 1, 2]);
    w.holds(&[]);
}

#[test]
fn u3_the_dead_are_excused_by_the_next_view() {
    let m = uniform(fifo(0, 1, 1));
    let run = |early: bool| {
        let mut w = World::group(3);
        w.crash(2);
        w.send(m);
        if early {
            [0, 1].iter().for_each(|&p| w.deliver(p, m));
        }
        w.wait(SECOND);
        // Delivered with the cut: at the very moment of the next view.
        let now = w.now + 1_000;
        for p in [0, 1] {
            if !early {
                w.now = now - 1_000;
                w.deliver(p, m);
            }
            w.now = now - 1_000;
            w.group_view(p, 2, Some(1), &[0, 1], &[], &[(2, UNREACHABLE)]);
        }
        w.end(&[0, 1]);
        w
    };
    run(false).holds(&[Property::U3]);
    run(true).breaks(Property::U3);
}

#[test]
fn i4_nobody_goes_by_the_name_of_another() {
    let m = fifo(2, 1, 1);
    let mut w = World::group(3);
    w.harness_says(Event::Attack { active: true });
    w.multicast(m, &[0, 1, 2]);
    w.end(&[0, 1, 2]);
    w.holds(&[Property::I4]);

    // The same forgery with and without an attacker.
    for (attack, code) in [(true, Property::I4), (false, Property::I1)] {
        let mut w = World::group(3);
        if attack {
            w.harness_says(Event::Attack { active: true });
            w.harness_says(Event::Attack { active: false });
        }
        [0, 1].iter().for_each(|&p| w.deliver(p, m));
        w.end(&[0, 1, 2]);
        w.breaks(code);
    }
}

#[test]
fn u5_who_hears_no_quorum_delivers_nothing_uniform() {
    let run = |events: &[Option<Event>]| {
        let mut w = World::group(3);
        let m = uniform(fifo(0, 1, 1));
        w.send(m);
        for event in events {
            match event {
                Some(event) => w.push(0, event.clone()),
                None => w.deliver(0, m),
            }
        }
        w
    };
    let deliver = None;
    run(&[deliver.clone(), Some(Event::NonPrimary)]).holds(&[Property::U5]);
    run(&[Some(Event::NonPrimary), deliver.clone()]).breaks(Property::U5);
    run(&[Some(Event::NonPrimary), Some(Event::Primary), deliver.clone()]).holds(&[Property::U5]);
    run(&[Some(Event::NonPrimary), Some(Event::Block), deliver.clone(), Some(Event::Unblock)]).holds(&[Property::U5]);
    run(&[Some(Event::NonPrimary), Some(Event::Block), Some(Event::Unblock), deliver]).breaks(Property::U5);
    // An application that reads late has seen the blocked phase and its end before.
    for (waits, holds) in [(0, true), (2_000_000, false)] {
        let mut w = World::group(3);
        let m = uniform(fifo(0, 1, 1));
        w.send(m);
        w.push(0, Event::NonPrimary);
        w.deliver(0, m);
        w.wait(waits);
        for p in 1..3 {
            w.deliver(p, m);
        }
        for p in 0..3 {
            w.group_view(p, 2, Some(1), &[0, 1, 2], &[], &[]);
        }
        if holds { w.holds(&[Property::U5]) } else { drop(w.breaks(Property::U5)) }
    }
}
