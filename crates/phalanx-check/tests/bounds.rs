//! V2 and V5 to V12: a good and a broken run for each.

mod common;

use common::{GROUP, SECOND, World, fifo, id, options, uniform};
use phalanx_check::{Options, Property, check};
use phalanx_trace::{Event, LeaveReason, Trouble};

const UNREACHABLE: LeaveReason = LeaveReason::Unreachable;

/// Ends a run that has been quiet for long.
fn at_last(mut w: World, alive: &[usize]) -> World {
    w.wait(20 * SECOND);
    w.end(alive);
    w
}

#[test]
fn v2_a_silence_ends() {
    let run = |after: u64| {
        let mut w = World::group(2);
        w.quiet();
        w.push(0, Event::Block);
        w.wait(after);
        w.push(0, Event::Unblock);
        at_last(w, &[0, 1])
    };
    run(SECOND).holds(&[Property::V2]);
    run(6 * SECOND).breaks(Property::V2);

    let mut w = World::group(2);
    w.push(0, Event::Block);
    w.quiet();
    at_last(w, &[0, 1]).breaks(Property::V2);
}

#[test]
fn e1_silences_do_not_nest() {
    let mut w = World::group(2);
    w.push(0, Event::Block);
    w.push(0, Event::Block);
    w.end(&[0, 1]);
    w.breaks(Property::E1);
    let mut w = World::group(2);
    w.push(0, Event::Unblock);
    w.end(&[0, 1]);
    w.breaks(Property::E1);
}

/// Counts the packets of `a`, twice, a second apart, long after its last message.
fn counted(packets: [u64; 2]) -> World {
    let mut w = World::group(2);
    w.quiet();
    w.multicast(fifo(0, 1, 1), &[0, 1]);
    w.harness_says(Event::Traffic { incarnation: id(0), packets: 0, idle: 40 });
    w.wait(10 * SECOND);
    for packets in packets {
        w.harness_says(Event::Traffic { incarnation: id(0), packets, idle: 40 });
        w.wait(SECOND);
    }
    at_last(w, &[0, 1])
}

#[test]
fn v5_with_nothing_to_say_little_is_sent() {
    counted([100_000, 100_040]).holds(&[Property::V5]);
    counted([100_000, 100_050]).breaks(Property::V5);
}

#[test]
fn v6_a_group_is_joined_in_time() {
    let run = |after: Option<u64>| {
        let mut w = World::group(2);
        w.quiet();
        w.push(0, Event::GroupJoinAsked { name: "other".into(), with_state: false });
        if let Some(ns) = after {
            w.wait(ns);
            let (name, members, joined) = ("other".into(), vec![id(0)], vec![id(0)]);
            w.push(0, Event::GroupView { group: 9, name, view: 1, prev: None, members, joined, left: vec![] });
        }
        at_last(w, &[0, 1])
    };
    run(Some(SECOND)).holds(&[Property::V6]);
    run(Some(11 * SECOND)).breaks(Property::V6);
    run(None).breaks(Property::V6);
}

/// One of three founds a cell. The last one dies after what `before` does in the quiet phase, and the other comes in a
/// second later.
fn joined_after_a_death(before: impl FnOnce(&mut World)) -> World {
    let mut w = World::strangers(3);
    w.cell_view(0, 1, &[0], &[]);
    w.quiet();
    before(&mut w);
    w.crash(2);
    w.wait(SECOND);
    [0, 1].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1], &[]));
    at_last(w, &[0, 1])
}

#[test]
fn v6_deaths_of_other_joiners_are_no_excuse() {
    let run = |ns: u64| joined_after_a_death(|w| w.wait(ns));
    run(SECOND).holds(&[Property::V6]);
    // V1's bound begins with the death, V6's does not.
    run(11 * SECOND).breaks(Property::V6);
}

/// Founders whose directories were lost wait for an operator's command.
#[test]
fn v6_a_cell_that_is_founded_by_command_is_joined_in_time_after_it() {
    let run = |after: u64| {
        joined_after_a_death(|w| {
            w.wait(9 * SECOND);
            w.push(0, Event::FoundAnew);
            w.wait(after);
        })
    };
    run(8 * SECOND).holds(&[Property::V6]);
    run(10 * SECOND).breaks(Property::V6);
}

#[test]
fn v7_a_minority_knows() {
    let run = |told: Option<u64>| {
        let mut w = World::cell(3);
        w.cut(&[0, 1], 2);
        if let Some(ns) = told {
            w.wait(ns);
            w.push(2, Event::NonPrimary);
        }
        w.wait(10 * SECOND);
        w.end(&[0, 1, 2]);
        w
    };
    run(Some(SECOND)).holds(&[Property::V7]);
    run(Some(6 * SECOND)).breaks(Property::V7);
    run(None).breaks(Property::V7);
}

#[test]
fn v7_stopped_and_dead_members_do_not_reach_either() {
    let mut w = World::cell(3);
    w.crash(0);
    w.harness_says(Event::Stop { incarnation: id(1) });
    w.wait(10 * SECOND);
    w.end(&[1, 2]);
    w.breaks(Property::V7);
}

#[test]
fn v7_what_is_read_late_happened_before() {
    // It is cut off, heard for a moment, and cut off again, while the application reads nothing; then it reads.
    let run = |later: u64, says_so: bool| {
        let mut w = World::cell(3);
        let not_reading = |begins| Event::Trouble { what: Trouble::NotReading, incarnation: id(2), begins };
        w.harness_says(not_reading(true));
        w.cut(&[0, 1], 2);
        w.wait(9 * SECOND);
        w.harness_says(not_reading(false));
        w.now -= 1_000;
        w.push(2, Event::NonPrimary);
        w.now -= 1_000;
        w.push(2, Event::Primary);
        w.wait(later);
        if says_so {
            w.push(2, Event::NonPrimary);
        }
        w.wait(10 * SECOND);
        w.end(&[0, 1, 2]);
        w
    };
    run(SECOND, true).holds(&[Property::V7]);
    run(SECOND, false).breaks(Property::V7);
    run(6 * SECOND, true).breaks(Property::V7);
}

#[test]
fn v7_silence_noticed_late_is_a_reason_to_take_it_back_for_a_while() {
    // Of four, a is dead; d hears only c, which is stopped, and some time later only b.
    let run = |silent_ns: u64, says_again: bool| {
        let mut w = World::cell(4);
        w.crash(0);
        w.cut(&[1], 3);
        w.wait(2 * SECOND);
        w.push(3, Event::NonPrimary);
        w.wait(6 * SECOND);
        w.harness_says(Event::Stop { incarnation: id(2) });
        w.push(1, Event::NonPrimary);
        w.wait(silent_ns);
        w.harness_says(Event::Mend { links: vec![("b".into(), "d".into())] });
        w.push(3, Event::Primary);
        w.wait(SECOND);
        if says_again {
            w.push(3, Event::NonPrimary);
        }
        w.wait(6 * SECOND);
        w.end(&[1, 2, 3]);
        w
    };
    run(SECOND, true).holds(&[Property::V7]);
    run(SECOND, false).breaks(Property::V7);
    run(6 * SECOND, true).breaks(Property::V7);
}

#[test]
fn v7_is_not_due_for_who_does_not_look_or_is_reached_in_between() {
    let mut w = World::cell(3);
    w.cut(&[0, 1], 2);
    w.harness_says(Event::Trouble { what: Trouble::NotReading, incarnation: id(2), begins: true });
    w.wait(10 * SECOND);
    w.end(&[0, 1, 2]);
    w.holds(&[]);

    let mut w = World::cell(3);
    for _ in 0..4 {
        w.cut(&[0, 1], 2);
        w.wait(4 * SECOND);
        let links = vec![("a".into(), "c".into()), ("b".into(), "c".into())];
        w.harness_says(Event::Mend { links });
    }
    w.end(&[0, 1, 2]);
    w.holds(&[]);
    assert_eq!(w.report().instances(Property::V7), 0);
}

/// Fill levels of the outbox of `a` during activity, and in the calm.
fn gauged(busy: u64, calm: u64) -> World {
    let gauge = |value| Event::Gauge { incarnation: id(0), name: "outbox".into(), value, limit: 100, idle: 10 };
    let mut w = World::group(2);
    w.quiet();
    w.multicast(fifo(0, 1, 1), &[0, 1]);
    w.harness_says(gauge(busy));
    w.wait(10 * SECOND);
    w.harness_says(gauge(calm));
    at_last(w, &[0, 1])
}

#[test]
fn v8_buffers_keep_their_bounds() {
    gauged(100, 10).holds(&[Property::V8]);
    gauged(101, 10).breaks(Property::V8);
    gauged(100, 11).breaks(Property::V8);
}

/// `c` is stopped for long; the others go on without it after a while, and `a` delivers what it sent.
fn hostage(view_after: u64, delivered: bool) -> World {
    let m = uniform(fifo(0, 1, 1));
    let mut w = World::group(3);
    w.harness_says(Event::Stop { incarnation: id(2) });
    w.send(m);
    w.wait(view_after);
    let now = w.now;
    for p in [0, 1] {
        if delivered {
            w.now = now;
            w.deliver(p, m);
        }
        w.now = now;
        w.cell_view(p, 2, &[0, 1], &[(2, UNREACHABLE)]);
        w.now = now;
        w.group_view(p, 2, Some(1), &[0, 1], &[], &[(2, UNREACHABLE)]);
    }
    w.wait(10 * SECOND);
    w.harness_says(Event::Cont { incarnation: id(2) });
    w.push(2, Event::Excluded { view: 2 });
    w.end(&[0, 1]);
    w
}

#[test]
fn v9_a_stopped_member_holds_nobody_up() {
    hostage(2 * SECOND, true).holds(&[Property::V9]);
    hostage(5 * SECOND, true).breaks(Property::V9);
    // A process that goes on without its own message also violates V3.
    let report = hostage(2 * SECOND, false).report();
    assert_eq!(report.violated(), [Property::V3, Property::V9], "{report}");
}

/// `b` is stopped while the view admits `c`, which dies, or while a process outside of the view dies. The two that are
/// gone are most of three.
#[test]
fn v9_is_not_due_if_a_joiner_goes_too() {
    let run = |dead: Option<usize>| {
        let mut w = World::strangers(4);
        (0..2).for_each(|p| w.cell_view(p, 1, &[0, 1], &[]));
        w.harness_says(Event::Stop { incarnation: id(1) });
        [0, 2].into_iter().for_each(|p| w.cell_view(p, 2, &[0, 1, 2], &[]));
        dead.into_iter().for_each(|p| w.crash(p));
        if dead == Some(2) {
            w.push(0, Event::NonPrimary);
        }
        w.wait(10 * SECOND);
        let alive: Vec<usize> = [0, 2].into_iter().filter(|p| Some(*p) != dead).collect();
        w.end(&alive);
        w
    };
    let joiner_died = run(Some(2)).report();
    assert_eq!((joiner_died.violated(), joiner_died.instances(Property::V9)), (vec![], 0), "{joiner_died}");
    run(None).breaks(Property::V9);
    run(Some(3)).breaks(Property::V9);
}

/// `c` is stopped, and `a` does not deliver what it sent, because it lost the group after `lost_after`. The cell goes
/// on in time.
fn hostage_that_loses_its_group(lost_after: u64, why: LeaveReason) -> World {
    let mut w = World::group(3);
    for begins in [true, false] {
        w.harness_says(Event::Trouble { what: Trouble::Nonsense, incarnation: id(0), begins });
    }
    w.harness_says(Event::Stop { incarnation: id(2) });
    w.send(uniform(fifo(0, 1, 1)));
    let stopped = w.now;
    w.wait(2 * SECOND);
    for p in [0, 1] {
        w.cell_view(p, 2, &[0, 1], &[(2, UNREACHABLE)]);
    }
    w.now = stopped + lost_after;
    for p in [0, 1] {
        w.push(p, Event::GroupLost { group: GROUP, why });
        w.push(p, Event::GroupLeft { group: GROUP });
    }
    w.wait(10 * SECOND);
    w.harness_says(Event::Cont { incarnation: id(2) });
    w.push(2, Event::Excluded { view: 2 });
    w.end(&[0, 1]);
    w
}

/// A message is not due if its sender loses the group in time; M12 evaluates whether it may. A process that loses it
/// later, or leaves it without having lost it, was held up.
#[test]
fn v9_asks_for_no_message_of_a_group_that_was_lost() {
    for why in [LeaveReason::Stopped, LeaveReason::Anew, LeaveReason::Nonsense] {
        let broken = |lost_after| hostage_that_loses_its_group(lost_after, why).report().violated();
        assert_eq!((broken(3 * SECOND), broken(5 * SECOND)), (vec![], vec![Property::V9]), "{why}");
    }
    let mut left = hostage_that_loses_its_group(3 * SECOND, LeaveReason::Stopped);
    left.traces[0].records.retain(|record| !matches!(record.event, Event::GroupLost { .. }));
    assert!(left.report().violated().contains(&Property::V9));
}

#[test]
fn v9_is_not_due_in_trouble() {
    let mut w = hostage(5 * SECOND, true);
    let harness = w.harness();
    let trouble = Event::Trouble { what: Trouble::Network, incarnation: 0, begins: true };
    w.traces[harness].records.insert(0, phalanx_trace::Record { at_ns: 0, event: trouble });
    w.holds(&[]);
}

#[test]
fn v10_few_views() {
    let run = |views: u64| {
        let mut w = World::cell(3);
        w.quiet();
        for view in 2..2 + views {
            (0..3).for_each(|p| w.cell_view(p, view, &[0, 1, 2], &[]));
        }
        at_last(w, &[0, 1, 2])
    };
    run(3).holds(&[Property::V10]);
    run(4).breaks(Property::V10);
}

#[test]
fn v12_a_pending_transfer_ends() {
    let run = |whole: bool| {
        let mut w = World::cell(2);
        w.ask_group(0, false);
        w.group_view(0, 1, None, &[0], &[0], &[]);
        w.ask_group(1, true);
        w.push(1, Event::SnapshotIn { group: GROUP, bytes: 10 });
        w.quiet();
        if whole {
            w.push(1, Event::StateEnd { group: GROUP, digest: 5 });
            w.group_view(0, 2, Some(1), &[0, 1], &[1], &[]);
            w.group_view(1, 2, None, &[0, 1], &[1], &[]);
        }
        at_last(w, &[0, 1])
    };
    run(true).holds(&[Property::V12]);
    run(false).breaks(Property::V12);
}

#[test]
fn bounds_are_the_callers() {
    let w = counted([0, 5_000]);
    let lax = Options { calm_bound_ns: 60 * SECOND, ..options() };
    assert!(check(&w.traces, &lax).passed);
}
