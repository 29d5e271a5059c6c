//! Asks of a group: an end for its reason (R3), each place filled once by whom the ask names (R8), one place in the total order
//! (R9).

mod common;

use common::{GROUP, World, id, total};
use phalanx_check::Property;
use phalanx_trace::{AskEnd, AskReply, AskStep, AskWant, Event, MembershipStep};

/// A step of the ask that member 0 sent as its first message in view 1.
fn step(w: &mut World, p: usize, what: AskStep) {
    w.push(p, Event::Ask { group: GROUP, asker: id(0), view: 1, seq: 1, what });
}

fn shown(w: &mut World, p: usize, place: u16, position: Option<u64>, forwarded: bool) {
    step(w, p, AskStep::Shown { place, position, forwarded });
}

fn replied(w: &mut World, p: usize, place: u16, reply: AskReply) {
    step(w, p, AskStep::Replied { place, reply, hash: 7 });
}

fn heard(w: &mut World, from: usize, place: u16, reply: AskReply) {
    step(w, 0, AskStep::Heard { place, from: id(from), reply, hash: 7 });
}

/// Member 0 of three asks all of them, and all deliver it. The other two are shown it.
fn asked(want: AskWant) -> World {
    let mut w = World::group(3);
    w.push(0, Event::ToldStep { name: "ledger".into(), what: MembershipStep::View(1) });
    let ask = total(0, 1, 1);
    w.send(ask);
    for p in 0..3 {
        w.deliver_at(p, ask, 1);
    }
    step(&mut w, 0, AskStep::Opened { places: vec![1, 2], want });
    (1..3).for_each(|p| shown(&mut w, p, u16::try_from(p).expect("small"), Some(1), false));
    w
}

fn answers(w: &mut World, p: usize, reply: AskReply) {
    let place = u16::try_from(p).expect("small");
    replied(w, p, place, reply);
    heard(w, p, place, reply);
}

#[test]
fn r3_an_end_is_that_which_the_answers_give() {
    let run = |want, replies: &[AskReply], end| {
        let mut w = asked(want);
        replies.iter().enumerate().for_each(|(at, reply)| answers(&mut w, at + 1, *reply));
        step(&mut w, 0, AskStep::Ended(end));
        w.end(&[0, 1, 2]);
        w
    };
    let (value, null, abort) = (AskReply::Value, AskReply::Null, AskReply::Abort);
    for (want, replies, end) in [
        (AskWant::All, &[value, null][..], AskEnd::Met),
        (AskWant::Majority, &[value, value], AskEnd::Met),
        (AskWant::Majority, &[value, null], AskEnd::Complete),
        (AskWant::Count(1), &[value], AskEnd::Met),
        (AskWant::All, &[abort], AskEnd::Aborted),
        (AskWant::Until, &[value], AskEnd::Met),
        (AskWant::All, &[value], AskEnd::Deadline),
        (AskWant::All, &[], AskEnd::Cancelled),
    ] {
        run(want, replies, end).holds(&[Property::R3, Property::R9]);
    }
    for (want, replies, end) in [
        (AskWant::All, &[value][..], AskEnd::Met),
        (AskWant::Majority, &[value], AskEnd::Met),
        (AskWant::Majority, &[value, null], AskEnd::Met),
        (AskWant::Count(2), &[value], AskEnd::Complete),
        (AskWant::All, &[value], AskEnd::Complete),
        (AskWant::All, &[value], AskEnd::Aborted),
        (AskWant::Until, &[], AskEnd::Met),
    ] {
        run(want, replies, end).breaks(Property::R3);
    }
}

/// A member that leaves counts when the application is told of the view without it, and not before.
#[test]
fn r3_a_member_has_left_when_the_view_without_it_was_told() {
    let run = |told: bool, end| {
        let mut w = asked(AskWant::All);
        answers(&mut w, 1, AskReply::Value);
        w.lose(2, &[0, 1]);
        if told {
            w.push(0, Event::ToldStep { name: "ledger".into(), what: MembershipStep::View(2) });
        }
        step(&mut w, 0, AskStep::Ended(end));
        w.end(&[0, 1]);
        w.report().violated().contains(&Property::R3)
    };
    assert!(!run(true, AskEnd::Complete));
    assert!(run(true, AskEnd::Met), "one that left did not answer");
    assert!(run(false, AskEnd::Complete), "it may answer yet");
}

#[test]
fn r3_each_ask_has_one_end_and_hears_nothing_after_it() {
    let ended = || {
        let mut w = asked(AskWant::Count(1));
        answers(&mut w, 1, AskReply::Value);
        step(&mut w, 0, AskStep::Ended(AskEnd::Met));
        w
    };
    let mut twice = ended();
    step(&mut twice, 0, AskStep::Ended(AskEnd::Cancelled));
    twice.breaks(Property::R3);
    let mut late = ended();
    answers(&mut late, 2, AskReply::Value);
    late.breaks(Property::R3);
    let mut of_another = asked(AskWant::Count(1));
    replied(&mut of_another, 1, 1, AskReply::Value);
    heard(&mut of_another, 1, 2, AskReply::Value);
    assert!(of_another.report().violated().contains(&Property::R3), "the place of another member");
    let life_ends = |told: bool| {
        let mut w = asked(AskWant::All);
        if told {
            step(&mut w, 0, AskStep::Ended(AskEnd::Over));
        }
        w.push(0, Event::Excluded { view: 2 });
        w.push(0, Event::End);
        w.report().violated().contains(&Property::R3)
    };
    assert!(!life_ends(true) && life_ends(false));
}

#[test]
fn r3_no_quorum_no_end() {
    let run = |back: bool| {
        let mut w = asked(AskWant::Count(1));
        answers(&mut w, 1, AskReply::Value);
        w.push(0, Event::NonPrimary);
        if back {
            w.push(0, Event::Primary);
        }
        step(&mut w, 0, AskStep::Ended(AskEnd::Met));
        w
    };
    run(true).holds(&[Property::R3]);
    run(false).breaks(Property::R3);
}

#[test]
fn r8_a_place_is_answered_once_by_whom_it_was_shown() {
    let mut plain = asked(AskWant::All);
    answers(&mut plain, 1, AskReply::Value);
    plain.holds(&[Property::R8]);
    let mut twice = plain.clone();
    replied(&mut twice, 1, 1, AskReply::Null);
    twice.breaks(Property::R8);
    let mut unshown = asked(AskWant::All);
    replied(&mut unshown, 1, 2, AskReply::Value);
    unshown.breaks(Property::R8);
    let mut unexpected = asked(AskWant::All);
    shown(&mut unexpected, 0, 0, Some(1), false);
    unexpected.breaks(Property::R8);
    let mut unsent = asked(AskWant::All);
    heard(&mut unsent, 1, 1, AskReply::Value);
    unsent.breaks(Property::R8);
}

#[test]
fn r8_a_forwarded_place_is_filled_by_whom_it_was_forwarded_to() {
    let run = |to: u16| {
        let mut w = asked(AskWant::All);
        answers(&mut w, 1, AskReply::Forward(to));
        shown(&mut w, 2, 1, None, true);
        replied(&mut w, 2, 1, AskReply::Value);
        w
    };
    let mut right = run(2);
    heard(&mut right, 2, 1, AskReply::Value);
    answers(&mut right, 2, AskReply::Value);
    step(&mut right, 0, AskStep::Ended(AskEnd::Met));
    right.holds(&[Property::R3, Property::R8]);
    run(1).breaks(Property::R8);
}

#[test]
fn r9_an_ask_is_handled_where_it_was_delivered() {
    let run = |position: Option<u64>| {
        let mut w = World::group(3);
        let ask = total(0, 1, 1);
        w.send(ask);
        (0..3).for_each(|p| w.deliver_at(p, ask, 1));
        step(&mut w, 0, AskStep::Opened { places: vec![1, 2], want: AskWant::All });
        shown(&mut w, 1, 1, Some(1), false);
        shown(&mut w, 2, 2, position, false);
        w
    };
    run(Some(1)).holds(&[Property::R9]);
    run(Some(2)).breaks(Property::R9);
    run(None).breaks(Property::R9);
}
