//! What applications are told of their messages (S11, S12), of the ends of their memberships (M15) and of
//! states (X9).

mod common;

use common::{GROUP, World, fifo, uniform};
use phalanx_check::Property;
use phalanx_trace::{Event, LeaveReason, MembershipEnd, MembershipStep, Phase};

fn stable(w: &mut World, p: usize, view: u64, seq: u64) {
    w.push(p, Event::Stable { group: GROUP, view, seq });
}

fn told(w: &mut World, p: usize, view: u64, seq: u64) {
    w.push(p, Event::ToldStable { group: GROUP, view, seq });
}

/// A group of the first two members of a cell of three, of level 2, which is to have `least` members.
fn pair(least: u64) -> World {
    let mut w = World::cell(3);
    for p in [0, 1] {
        w.ask_group(p, false);
        w.group_view(p, 1, None, &[0, 1], &[0, 1], &[]);
        w.push(p, Event::Level { level: 2, known: 2 });
        w.push(p, Event::CellMinimum { members: 1 });
        w.push(p, Event::GroupTerms { group: GROUP, uniform: true, members_min: least, adequate: true });
    }
    w
}

#[test]
fn s11_what_was_notified_may_be_told_later_and_once() {
    let mut w = pair(1);
    [1, 2].iter().for_each(|&seq| w.multicast(uniform(fifo(0, 1, seq)), &[0, 1]));
    stable(&mut w, 0, 1, 2);
    told(&mut w, 0, 1, 1);
    told(&mut w, 0, 1, 2);
    w.end(&[0, 1]);
    w.holds(&[Property::S11]);
    let again = |seq: u64| {
        let mut w = pair(1);
        w.multicast(uniform(fifo(0, 1, 1)), &[0, 1]);
        w.multicast(uniform(fifo(0, 1, 2)), &[0, 1]);
        told(&mut w, 0, 1, 1);
        stable(&mut w, 0, 1, 1);
        told(&mut w, 0, 1, seq);
        w
    };
    again(1).breaks(Property::S11);
    let mut more = pair(1);
    more.multicast(uniform(fifo(0, 1, 1)), &[0, 1]);
    stable(&mut more, 0, 1, 1);
    told(&mut more, 0, 1, 2);
    more.breaks(Property::S11);
}

#[test]
fn s11_nothing_is_told_in_a_view_that_was_reported_as_too_small() {
    for few in [Event::GroupAdequacy { group: GROUP, view: 1, adequate: false }, Event::CellMinimum { members: 4 }] {
        let mut w = pair(1);
        w.multicast(uniform(fifo(0, 1, 1)), &[0, 1]);
        w.push(0, few);
        stable(&mut w, 0, 1, 1);
        told(&mut w, 0, 1, 1);
        assert!(w.report().violated().contains(&Property::S11), "{}", w.report());
    }
}

/// The other member was dead before the message was sent. Its sender alone has it, whatever it believes.
#[test]
fn s11_as_many_as_agreed_can_have_what_is_told() {
    for (least, dead) in [(2, false), (2, true), (1, true)] {
        let mut w = pair(least);
        w.harness_says(Event::Phase { phase: Phase::Faulty, connected: Vec::new() });
        if dead {
            w.crash(1);
            w.wait(1_000_000);
        }
        w.multicast(uniform(fifo(0, 1, 1)), if dead { &[0] } else { &[0, 1] });
        w.wait(1_000_000);
        stable(&mut w, 0, 1, 1);
        told(&mut w, 0, 1, 1);
        let report = w.report();
        assert_eq!(report.violated().contains(&Property::S11), dead && least > 1, "{least} {dead}: {report}");
    }
}

/// The third member comes after the message was sent. It counts from the view on that has it, dead before that or not.
#[test]
fn s11_who_came_in_a_later_view_can_have_what_is_told() {
    for (comes, dead) in [(true, false), (true, true), (false, false)] {
        let mut w = pair(3);
        w.harness_says(Event::Phase { phase: Phase::Faulty, connected: Vec::new() });
        w.multicast(uniform(fifo(0, 1, 1)), &[0, 1]);
        w.wait(1_000_000);
        if dead {
            w.crash(2);
            w.wait(1_000_000);
        }
        if comes {
            w.group_view(0, 2, Some(1), &[0, 1, 2], &[2], &[]);
        }
        stable(&mut w, 0, 1, 1);
        told(&mut w, 0, 1, 1);
        let report = w.report();
        assert_eq!(report.violated().contains(&Property::S11), dead || !comes, "{comes} {dead}: {report}");
    }
}

/// Of four accepted messages two are sent and one is told to be stable.
fn life(not_sent: u64, in_doubt: u64) -> World {
    let mut w = World::group(2);
    for seq in 1..=4 {
        w.accept(fifo(0, 1, seq));
        if seq <= 2 {
            w.multicast(fifo(0, 1, seq), &[0, 1]);
        }
    }
    stable(&mut w, 0, 1, 1);
    told(&mut w, 0, 1, 1);
    w.push(0, Event::ToldLost { group: GROUP, not_sent, in_doubt });
    w
}

#[test]
fn s12_each_accepted_multicast_has_one_outcome() {
    for (not_sent, in_doubt, holds) in [(2, 1, true), (1, 2, false), (2, 0, false), (2, 2, false), (0, 0, false)] {
        let report = life(not_sent, in_doubt).report();
        assert_eq!(!report.violated().contains(&Property::S12), holds, "{not_sent} {in_doubt}: {report}");
    }
}

/// Who went on to a later view has all that was sent in those before, so the latest notice stands for them.
#[test]
fn s12_what_was_sent_in_earlier_views_is_stable_with_what_came_later() {
    let mut w = World::group(3);
    w.accept(fifo(0, 1, 1));
    w.multicast(fifo(0, 1, 1), &[0, 1, 2]);
    w.lose(2, &[0, 1]);
    w.accept(fifo(0, 2, 1));
    w.multicast(fifo(0, 2, 1), &[0, 1]);
    stable(&mut w, 0, 2, 1);
    told(&mut w, 0, 2, 1);
    w.push(0, Event::ToldLost { group: GROUP, not_sent: 0, in_doubt: 0 });
    assert!(!w.report().violated().contains(&Property::S12), "{}", w.report());
    // The next life counts from the start.
    w.push(0, Event::ToldLost { group: GROUP, not_sent: 0, in_doubt: 1 });
    assert!(w.report().violated().contains(&Property::S12), "{}", w.report());
}

#[test]
fn m15_a_membership_ends_for_a_reason() {
    let leave = || Event::GroupLeaveAsked { group: GROUP };
    let left = MembershipEnd::Left(LeaveReason::Left);
    let cases: [(Option<Event>, MembershipEnd, bool); 8] = [
        (None, left, false),
        (Some(leave()), left, true),
        (Some(Event::LeaveAsked), left, true),
        (Some(Event::ToldSenseless { name: "ledger".into() }), left, true),
        (Some(Event::ToldSenseless { name: "other".into() }), left, false),
        (Some(leave()), MembershipEnd::Left(LeaveReason::Stopped), false),
        (None, MembershipEnd::Left(LeaveReason::Unreachable), false),
        (None, MembershipEnd::Refused, true),
    ];
    for (before, why, holds) in cases {
        let mut w = World::group(2);
        before.iter().for_each(|event| w.push(0, event.clone()));
        w.push(0, Event::MembershipEnded { name: "ledger".into(), why });
        let report = w.report();
        assert_eq!(!report.violated().contains(&Property::M15), holds, "{before:?} {why:?}: {report}");
    }
}

#[test]
fn x9_a_state_is_told_in_one_order() {
    use MembershipStep::{Anew, Current, Forgotten, Kept, OwnState, Taking, View};
    // Member 0 takes a state of 9 bytes and comes into view 2.
    fn joiner() -> World {
        World::taker(2, false)
    }
    fn founder() -> World {
        World::group(2)
    }
    type Case<'a> = (fn() -> World, &'a [MembershipStep], bool);
    let cases: [Case<'_>; 15] = [
        (founder, &[View(1), View(2)], true),
        (founder, &[Forgotten, View(1)], true),
        (founder, &[Kept, View(1)], true),
        (founder, &[Forgotten, Taking(9), OwnState, View(1)], true),
        (founder, &[Taking(9), Taking(9), Anew], true),
        (joiner, &[Taking(9), Taking(9), Current, View(2)], true),
        (founder, &[View(1), Anew, Forgotten, OwnState, View(1)], true),
        (founder, &[View(1), Forgotten], false),
        (founder, &[Taking(9), View(1)], false),
        (founder, &[Current, View(1)], false),
        (founder, &[Kept, Taking(9)], false),
        (founder, &[Taking(9), Forgotten], false),
        (founder, &[Taking(9), Current, View(1)], false),
        (joiner, &[Taking(8), Current, View(2)], false),
        (joiner, &[View(2)], false),
    ];
    for (world, steps, holds) in cases {
        let mut w = world();
        for what in steps {
            w.push(0, Event::ToldStep { name: "ledger".into(), what: *what });
        }
        let report = w.report();
        assert_eq!(!report.violated().contains(&Property::X9), holds, "{steps:?}: {report}");
    }
}
