//! M10, U6 and X6: what happens to a group, and to the uniform deliveries of its members, when they go.

mod common;

use common::{GROUP, M, World, fifo, id, uniform};
use phalanx_check::Property;
use phalanx_trace::{Event, Header, LeaveReason, Trace};

const LEFT: LeaveReason = LeaveReason::Left;
const UNREACHABLE: LeaveReason = LeaveReason::Unreachable;

/// `c` makes a group of its own, and delivers a message there.
fn alone(m: M) -> World {
    let mut w = World::cell(3);
    w.ask_group(2, true);
    w.group_view(2, 1, None, &[2], &[2], &[]);
    w.multicast(m, &[2]);
    w
}

/// The others go on without `c`.
fn drop_c(w: &mut World, why: LeaveReason) {
    [0, 1].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1], &[(2, why)]));
}

/// `a` asks for a group of the same name, and founds it.
fn found(w: &mut World) {
    w.ask_group(0, true);
    found_next(w, 0);
}

/// `p` founds a group of the same name with another number.
fn found_next(w: &mut World, p: usize) {
    let (members, joined) = (vec![id(p)], vec![id(p)]);
    let (group, name) = (GROUP + 1, "ledger".to_owned());
    w.push(p, Event::GroupView { group, name, view: 1, prev: None, members, joined, left: vec![] });
}

fn ask_to_leave(w: &mut World, p: usize) {
    w.push(p, Event::GroupLeaveAsked { group: GROUP });
}

#[test]
fn m10_a_member_that_lives_is_passed_over() {
    let run = |before: &dyn Fn(&mut World), why| {
        let mut w = alone(fifo(2, 1, 1));
        before(&mut w);
        drop_c(&mut w, why);
        found(&mut w);
        w
    };
    let excluded = |mut w: World| {
        w.push(2, Event::Excluded { view: 2 });
        w.end(&[0, 1]);
        w
    };
    excluded(run(&|_| {}, UNREACHABLE)).breaks(Property::M10);
    // A stopped process is not dead.
    let mut stopped = run(&|w| w.harness_says(Event::Stop { incarnation: id(2) }), UNREACHABLE);
    stopped.harness_says(Event::Cont { incarnation: id(2) });
    excluded(stopped).breaks(Property::M10);
    excluded(run(&|w| ask_to_leave(w, 2), UNREACHABLE)).holds(&[Property::M10]);
    let mut died = run(&|w| w.crash(2), UNREACHABLE);
    died.end(&[0, 1]);
    died.holds(&[Property::M10]);
    let mut left = run(&|w| w.push(2, Event::LeaveAsked), LEFT);
    left.push(2, Event::Left);
    left.end(&[0, 1]);
    left.holds(&[Property::M10]);
}

/// The only member that the others take for one with the state had refused it, so no group can go on from there.
#[test]
fn m10_who_refused_the_state_keeps_no_group() {
    for refuses in [false, true] {
        let mut w = alone(fifo(2, 1, 1));
        drop_c(&mut w, UNREACHABLE);
        found(&mut w);
        w.push(2, Event::Excluded { view: 2 });
        w.end(&[0, 1]);
        if refuses {
            let records = &mut w.traces[2].records;
            let at = records.iter().position(|r| matches!(r.event, Event::GroupView { .. })).expect("it joins");
            let event = Event::ToldSenseless { name: "ledger".into() };
            records.insert(at, phalanx_trace::Record { event, ..records[at - 1].clone() });
        }
        let report = w.report();
        assert_eq!(report.violated().contains(&Property::M10), !refuses, "{report}");
    }
}

/// No trace contains the last view of the group, because its only member was killed before. A process that came back
/// was notified that there was one.
#[test]
fn m10_a_view_that_nobody_told_of_was_the_last() {
    let run = |kept: Option<Vec<(u64, u64)>>, group, view| {
        let mut w = alone(fifo(2, 1, 1));
        drop_c(&mut w, UNREACHABLE);
        w.push(1, Event::Forgotten { group, view, kept });
        found(&mut w);
        w.push(2, Event::Excluded { view: 2 });
        w.end(&[0, 1]);
        w
    };
    for judged in [run(Some(vec![(1, 1)]), GROUP, 1), run(None, GROUP, 2)] {
        assert_eq!(judged.report().instances(Property::M10), 0);
        judged.holds(&[]);
    }
    run(None, GROUP, 1).breaks(Property::M10);
    run(Some(vec![(1, 1)]), GROUP + 7, 1).breaks(Property::M10);
}

#[test]
fn m10_a_member_that_no_view_dropped_is_passed_over() {
    let mut w = alone(fifo(2, 1, 1));
    found(&mut w);
    w.end(&[0, 1, 2]);
    w.breaks(Property::M10);
}

#[test]
fn m10_who_reads_late_may_have_asked_to_leave_after_it_was_dropped() {
    let run = |asks: bool| {
        let mut w = World::cell(3);
        w.ask_group(2, true);
        drop_c(&mut w, UNREACHABLE);
        if asks {
            ask_to_leave(&mut w, 2);
        }
        w.group_view(2, 1, None, &[2], &[2], &[]);
        found(&mut w);
        w.push(2, Event::Excluded { view: 2 });
        w.end(&[0, 1]);
        w
    };
    run(true).holds(&[Property::M10]);
    run(false).breaks(Property::M10);
}

/// A cell of three, and a group of `b` and `c`.
fn held_by_two() -> World {
    let mut w = World::cell(3);
    for p in [1, 2] {
        w.ask_group(p, true);
        w.group_view(p, 1, None, &[1, 2], &[1, 2], &[]);
    }
    w
}

/// Asserts that M10 evaluates the new group, and that the old one had not ended with `c`.
fn is_judged_to_go_on(mut w: World) {
    w.end(&[0]);
    let report = w.report();
    assert!(!report.violated().contains(&Property::M10), "{report}");
    assert_eq!(report.instances(Property::M10), 1);
}

#[test]
fn m10_a_group_goes_on_in_one_that_leaves_later() {
    let mut w = held_by_two();
    // b was in the view without c, and left before it was notified of it.
    w.cell_view(0, 2, &[0, 1], &[(2, UNREACHABLE)]);
    w.push(1, Event::LeaveAsked);
    w.cell_view(0, 3, &[0], &[(1, LEFT)]);
    w.push(1, Event::Left);
    found(&mut w);
    w.push(2, Event::Excluded { view: 2 });
    is_judged_to_go_on(w);
}

#[test]
fn m10_a_group_goes_on_in_one_that_a_later_view_drops() {
    let mut w = held_by_two();
    // b was in the view without c, was not notified of it, and was dropped by the next one. Its next incarnation
    // leaves.
    w.cell_view(0, 2, &[0, 1], &[(2, UNREACHABLE)]);
    w.cell_view(0, 3, &[0], &[(1, UNREACHABLE)]);
    w.push(1, Event::Excluded { view: 3 });
    let at = w.traces.len() - 1;
    w.traces.insert(at, Trace::new(Header::process("cell", "b", 77, "clock")));
    w.push(at, Event::Start);
    w.push(at, Event::JoinAsked { cell: "cell".into() });
    w.push(at, Event::LeaveAsked);
    found(&mut w);
    w.push(2, Event::Excluded { view: 2 });
    is_judged_to_go_on(w);
}

/// `c` is excluded, and its next incarnation dies before the group is founded anew.
fn excluded_and_killed(later: bool, next: bool) -> World {
    let mut w = alone(fifo(2, 1, 1));
    if later {
        // a and b read the view without c late; d came with the one after it.
        w.traces.insert(3, Trace::new(Header::process("cell", "d", id(3), "clock")));
        w.push(3, Event::Start);
        w.push(3, Event::JoinAsked { cell: "cell".into() });
        w.cell_view(3, 3, &[0, 1, 3], &[]);
    } else {
        drop_c(&mut w, UNREACHABLE);
    }
    w.push(2, Event::Excluded { view: 2 });
    if next {
        let at = w.traces.len() - 1;
        w.traces.insert(at, Trace::new(Header::process("cell", "c", 77, "clock")));
        w.push(at, Event::Start);
        w.push(at, Event::JoinAsked { cell: "cell".into() });
        w.push(at, Event::GroupJoinAsked { name: "ledger".into(), with_state: true });
    }
    w.harness_says(Event::Crash { incarnation: 77 });
    let at = w.traces.len() - 1;
    w.traces.insert(at, Trace::new(Header::process("cell", "c", 78, "clock")));
    w.push(at, Event::Start);
    w.push(at, Event::JoinAsked { cell: "cell".into() });
    w.push(at, Event::GroupJoinAsked { name: "ledger".into(), with_state: true });
    found(&mut w);
    if later {
        drop_c(&mut w, UNREACHABLE);
        [0, 1].iter().for_each(|&p| w.cell_view(p, 3, &[0, 1, 3], &[]));
    }
    w
}

/// `a` dropped `c` and then `b` in views that no process recorded, and was killed. `d` came with the view after. The
/// next incarnation of `b` leaves.
#[test]
fn m10_a_group_goes_on_in_one_while_nobody_records_views() {
    let run = |view: u64| {
        let mut w = held_by_two();
        w.traces.insert(3, Trace::new(Header::process("cell", "d", id(3), "clock")));
        w.push(3, Event::Start);
        w.push(3, Event::JoinAsked { cell: "cell".into() });
        w.cell_view(3, view, &[0, 3], &[(1, UNREACHABLE), (2, UNREACHABLE)]);
        w.push(1, Event::Excluded { view });
        w.traces.insert(4, Trace::new(Header::process("cell", "b", 77, "clock")));
        w.push(4, Event::Start);
        w.push(4, Event::JoinAsked { cell: "cell".into() });
        w.push(4, Event::LeaveAsked);
        w.crash(0);
        w.ask_group(3, true);
        found_next(&mut w, 3);
        w.push(2, Event::Excluded { view: 2 });
        w.end(&[3]);
        let report = w.report();
        assert_eq!(report.instances(Property::M10), 1);
        report.violated().contains(&Property::M10)
    };
    assert!(!run(4), "either may have been the last");
    assert!(run(2), "one view left out both");
}

#[test]
fn m10_who_was_excluded_may_have_died_since() {
    for (later, next) in [(false, false), (false, true), (true, true)] {
        let report = excluded_and_killed(later, next).report();
        assert!(!report.violated().contains(&Property::M10), "later {later}, next {next}: {report}");
        assert_eq!(report.instances(Property::M10), 1);
    }
}

#[test]
fn m10_an_application_that_reads_late_may_have_asked_to_leave_before() {
    let run = |asks: usize| {
        let mut w = World::cell(3);
        w.ask_group(2, true);
        w.group_view(2, 1, None, &[2], &[2], &[]);
        (0..asks).for_each(|_| ask_to_leave(&mut w, 2));
        found(&mut w);
        w.push(2, Event::GroupLeft { group: GROUP });
        w.ask_group(2, true);
        w.group_view(2, 3, None, &[2], &[2], &[]);
        w.end(&[0, 1, 2]);
        w
    };
    run(2).holds(&[Property::M10]);
    run(1).breaks(Property::M10);
}

#[test]
fn m10_a_group_goes_on_in_those_that_are_left() {
    let mut w = held_by_two();
    drop_c(&mut w, UNREACHABLE);
    // b went on in view 2 of the group, and was killed before it recorded it.
    w.crash(1);
    w.cell_view(0, 3, &[0], &[(1, UNREACHABLE)]);
    found(&mut w);
    w.push(2, Event::Excluded { view: 2 });
    is_judged_to_go_on(w);
}

#[test]
fn u6_who_lives_has_delivered_what_the_next_group_does_not_know() {
    let run = |m: M, dies: bool| {
        let mut w = alone(m);
        if dies {
            w.crash(2);
        }
        drop_c(&mut w, UNREACHABLE);
        found(&mut w);
        if !dies {
            w.push(2, Event::Excluded { view: 2 });
        }
        w.end(&[0, 1]);
        w
    };
    let m = fifo(2, 1, 1);
    let report = run(uniform(m), false).report();
    assert_eq!(report.violated(), [Property::M10, Property::U6], "{report}");
    run(m, false).breaks(Property::M10);
    run(uniform(m), true).holds(&[Property::U6]);
}

/// `a` and `b` have a group, and `c` takes its state from `a`, which delivers one more message. Then `a` dies; `b` goes
/// on, and dies before it records that.
fn taken_from_the_dead(m: M, replayed: bool) -> World {
    let mut w = World::cell(3);
    for p in [0, 1] {
        w.ask_group(p, true);
        w.group_view(p, 1, None, &[0, 1], &[0, 1], &[]);
    }
    w.multicast(uniform(fifo(1, 1, 1)), &[0, 1]);
    w.ask_group(2, true);
    w.push(0, Event::SnapshotOut { group: GROUP, view: 1, digest: 1 });
    w.push(2, Event::SnapshotIn { group: GROUP, bytes: 10 });
    w.multicast(m, &[0]);
    if replayed {
        w.replay(2, m);
    }
    [0, 1].iter().for_each(|&p| w.crash(p));
    w.push(2, Event::StateEnd { group: GROUP, digest: 2 });
    w.group_view(2, 2, None, &[1, 2], &[2], &[(0, UNREACHABLE)]);
    w.end(&[2]);
    w
}

#[test]
fn u6_a_joiner_goes_on_with_a_state_without_it() {
    let m = fifo(0, 1, 1);
    taken_from_the_dead(uniform(m), true).holds(&[Property::U6]);
    taken_from_the_dead(m, false).holds(&[Property::U6]);
    taken_from_the_dead(uniform(m), false).breaks(Property::U6);
}

#[test]
fn x6_what_a_leaver_delivered_those_deliver_who_go_on() {
    let m = uniform(fifo(0, 1, 1));
    let run = |to: &[usize], cell: bool| {
        let mut w = World::group(3);
        w.multicast(m, to);
        if cell {
            w.push(0, Event::LeaveAsked);
            [1, 2].iter().for_each(|&p| w.cell_view(p, 2, &[1, 2], &[(0, LEFT)]));
        } else {
            ask_to_leave(&mut w, 0);
        }
        [1, 2].iter().for_each(|&p| w.group_view(p, 2, Some(1), &[1, 2], &[], &[(0, LEFT)]));
        w.push(0, if cell { Event::Left } else { Event::GroupLeft { group: GROUP } });
        w.end(if cell { &[1, 2] } else { &[0, 1, 2] });
        w
    };
    for cell in [false, true] {
        run(&[0, 1, 2], cell).holds(&[Property::X6, Property::U4]);
        run(&[0], cell).breaks(Property::X6);
    }
}

/// `a` delivers a message, and leaves while `c` takes its state, which has `bytes` bytes in the end; `c` goes on alone.
fn left_with_the_state(bytes: u64) -> World {
    let m = uniform(fifo(0, 1, 1));
    let mut w = World::cell(3);
    w.ask_group(0, true);
    w.group_view(0, 1, None, &[0], &[0], &[]);
    w.multicast(m, &[0]);
    w.ask_group(2, true);
    w.push(0, Event::SnapshotOut { group: GROUP, view: 1, digest: 1 });
    w.push(2, Event::SnapshotIn { group: GROUP, bytes });
    ask_to_leave(&mut w, 0);
    w.push(0, Event::GroupLeft { group: GROUP });
    w
}

#[test]
fn x6_who_takes_a_leavers_state_goes_on_with_it() {
    for (bytes, holds) in [(10, true), (0, false)] {
        let mut w = left_with_the_state(bytes);
        w.push(2, Event::StateEnd { group: GROUP, digest: 1 });
        w.group_view(2, 2, None, &[2], &[2], &[(0, LEFT)]);
        w.end(&[0, 1, 2]);
        if holds { w.holds(&[Property::X6]) } else { drop(w.breaks(Property::X6)) }
    }
}

#[test]
fn x6_who_took_a_leavers_state_does_not_begin_anew() {
    let run = |founder: usize| {
        let mut w = left_with_the_state(10);
        if founder == 1 {
            w.ask_group(1, true);
        }
        found_next(&mut w, founder);
        w.end(&[0, 1, 2]);
        w
    };
    run(2).breaks(Property::X6);
    run(1).holds(&[Property::M10]);
}

/// `a` leaves, and `b`, which has the state as well, is killed before `c` has it, so no process can go on.
#[test]
fn x6_others_that_had_the_state_may_die_with_it() {
    let run = |dies: bool| {
        let m = uniform(fifo(0, 1, 1));
        let mut w = World::cell(3);
        for p in [0, 1] {
            w.ask_group(p, true);
            w.group_view(p, 1, None, &[0, 1], &[0, 1], &[]);
        }
        w.multicast(m, &[0, 1]);
        w.ask_group(2, true);
        w.push(0, Event::SnapshotOut { group: GROUP, view: 1, digest: 1 });
        w.push(2, Event::SnapshotIn { group: GROUP, bytes: 10 });
        ask_to_leave(&mut w, 0);
        w.push(0, Event::GroupLeft { group: GROUP });
        if dies {
            w.crash(1);
        } else {
            ask_to_leave(&mut w, 1);
            w.push(1, Event::GroupLeft { group: GROUP });
        }
        found_next(&mut w, 2);
        w.end(if dies { &[0, 2] } else { &[0, 1, 2] });
        w.report()
    };
    let died = run(true);
    assert!(!died.violated().contains(&Property::X6), "{died}");
    assert!(run(false).violated().contains(&Property::X6));
}

/// `a` leaves. `b` was listed without the state in their last view, had it when it installed that view, and is killed.
/// Without that installation it never had the state.
#[test]
fn x6_a_joiner_has_the_state_once_it_installs_its_view() {
    let run = |installs: bool| {
        let mut w = World::cell(3);
        w.ask_group(0, true);
        w.group_view(0, 1, None, &[0], &[0], &[]);
        w.ask_group(1, true);
        w.push(0, Event::SnapshotOut { group: GROUP, view: 1, digest: 1 });
        w.push(1, Event::SnapshotIn { group: GROUP, bytes: 10 });
        w.group_view(0, 2, Some(1), &[0, 1], &[1], &[]);
        w.push(0, Event::GroupIncomplete { group: GROUP, who: vec![id(1)] });
        if installs {
            w.push(1, Event::StateEnd { group: GROUP, digest: 1 });
            w.group_view(1, 2, None, &[0, 1], &[1], &[]);
            w.push(1, Event::GroupIncomplete { group: GROUP, who: vec![id(1)] });
        }
        w.multicast(uniform(fifo(0, 2, 1)), if installs { &[0, 1] } else { &[0] });
        w.ask_group(2, true);
        w.push(0, Event::SnapshotOut { group: GROUP, view: 2, digest: 1 });
        w.push(2, Event::SnapshotIn { group: GROUP, bytes: 10 });
        ask_to_leave(&mut w, 0);
        w.push(0, Event::GroupLeft { group: GROUP });
        w.crash(1);
        found_next(&mut w, 2);
        w.end(&[0, 2]);
        w.report()
    };
    let had_it = run(true);
    assert!(!had_it.violated().contains(&Property::X6), "{had_it}");
    assert!(run(false).violated().contains(&Property::X6));
}
