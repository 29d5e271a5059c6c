//! V1, V3 and V4: a good and a broken run for each, and runs in which nothing is due.

mod common;

use common::{CELL, SECOND, World, fifo, id, name, options};
use phalanx_check::{Options, Property, check};
use phalanx_trace::{Event, Header, LeaveReason, Phase, Trace, Trouble};

/// A whole run: quiet, settled, a message from `a` that `to` deliver, and the end long after.
fn quiet_run(mut w: World, members: &[usize], view: u64, to: &[usize]) -> World {
    w.quiet();
    w.wait(20 * SECOND);
    w.multicast(fifo(members[0], view, 1), to);
    w.wait(20 * SECOND);
    w.end(members);
    w
}

#[test]
fn a_healed_group_talks() {
    let mut w = World::group(3);
    w.lose(2, &[0, 1]);
    quiet_run(w, &[0, 1], 2, &[0, 1]).holds(&[Property::V1, Property::V3, Property::V4]);
}

#[test]
fn v1_one_stays_behind() {
    let mut w = World::cell(3);
    [0, 1].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1, 2], &[]));
    w.quiet();
    w.wait(20 * SECOND);
    w.end(&[0, 1, 2]);
    w.breaks(Property::V1);
}

#[test]
fn v1_a_ghost_stays() {
    let mut w = World::cell(3);
    w.crash(2);
    w.quiet();
    w.wait(20 * SECOND);
    w.end(&[0, 1]);
    w.breaks(Property::V1);
}

#[test]
fn v1_a_ghost_stays_in_a_group() {
    let mut w = World::group(3);
    w.crash(2);
    [0, 1].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1], &[(2, LeaveReason::Died)]));
    w.quiet();
    w.wait(20 * SECOND);
    w.end(&[0, 1]);
    w.breaks(Property::V1);
}

#[test]
fn v1_settles_too_late() {
    let mut w = World::cell(3);
    w.crash(2);
    w.quiet();
    w.wait(20 * SECOND);
    [0, 1].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1], &[(2, LeaveReason::Unreachable)]));
    w.end(&[0, 1]);
    w.breaks(Property::V1);
}

#[test]
fn v1_holds_itself_cut_off() {
    let mut w = World::cell(3);
    w.push(1, Event::NonPrimary);
    w.quiet();
    w.wait(20 * SECOND);
    w.end(&[0, 1, 2]);
    w.breaks(Property::V1);
}

#[test]
fn v1_never_comes_in() {
    let mut w = World::strangers(2);
    w.cell_view(0, 1, &[0], &[]);
    w.quiet();
    w.wait(20 * SECOND);
    w.end(&[0, 1]);
    let report = w.breaks(Property::V1);
    assert!(report.to_string().contains("b (0000000000000002) never came into a cell view"), "{report}");
}

#[test]
fn v13_is_due_for_the_connected_alone() {
    let mut w = World::cell(3);
    [0, 1].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1], &[(2, LeaveReason::Unreachable)]));
    w.push(2, Event::NonPrimary);
    w.quiet_for(&[0, 1]);
    w.wait(20 * SECOND);
    w.end(&[0, 1, 2]);
    w.holds(&[Property::V13]);
    assert_eq!(w.report().instances(Property::V1), 0);
}

/// `c` is cut off for good, and comes and goes. None of that excuses `a` and `b`.
fn others_stay_broken(to: &[usize]) -> World {
    let mut w = World::group(3);
    let gone = [(2, LeaveReason::Unreachable)];
    w.cut(&[0, 1], 2);
    for p in [0, 1] {
        w.cell_view(p, 2, &[0, 1], &gone);
        w.group_view(p, 2, Some(1), &[0, 1], &[], &gone);
    }
    w.push(2, Event::NonPrimary);
    w.quiet_for(&[0, 1]);
    w.wait(15 * SECOND);
    w.push(2, Event::LeaveAsked);
    w.crash(2);
    for incarnation in [98, 99] {
        let header = Header::process("cell", &name(2), incarnation, "clock");
        let mut again = Trace::new(header);
        w.now += 10;
        again.push(w.now, Event::Start);
        again.push(w.now + 1, Event::JoinAsked { cell: "cell".into() });
        w.traces.insert(3, again);
        w.harness_says(Event::Stop { incarnation });
        w.wait(SECOND);
        w.harness_says(Event::Crash { incarnation });
    }
    w.multicast(fifo(0, 2, 1), to);
    w.wait(20 * SECOND);
    w.end(&[0, 1]);
    w
}

#[test]
fn v13_the_connected_agree_while_others_stay_broken() {
    others_stay_broken(&[0, 1]).holds(&[Property::V13]);
}

#[test]
fn v13_a_connected_member_never_delivers() {
    others_stay_broken(&[0]).breaks(Property::V13);
}

#[test]
fn v13_the_broken_stay_in_the_view() {
    let mut w = World::cell(3);
    w.cut(&[0, 1], 2);
    w.push(2, Event::NonPrimary);
    w.quiet_for(&[0, 1]);
    w.wait(20 * SECOND);
    w.end(&[0, 1, 2]);
    w.breaks(Property::V13);
}

#[test]
fn v1_is_not_due_without_a_quorum() {
    let mut w = World::cell(3);
    w.crash(0);
    w.crash(1);
    w.push(2, Event::NonPrimary);
    w.quiet();
    w.wait(20 * SECOND);
    w.end(&[2]);
    // A harness that leaves no quorum says so, or begins no quiet phase.
    let report = w.breaks(Property::V1);
    assert!(report.stats.quiet.contains("no quorum"), "{report}");
    assert!(report.to_string().contains("nothing is due in the quiet phase: no quorum"), "{report}");
    let report = check(&w.traces, &Options { hopeless: true, ..options() });
    assert!(report.passed, "{report}");
    assert_eq!(report.instances(Property::V1), 0, "{report}");
    let quiet = |record: &phalanx_trace::Record| matches!(record.event, Event::Phase { phase: Phase::Quiet, .. });
    w.traces[3].records.retain(|record| !quiet(record));
    w.holds(&[]);
}

#[test]
fn v1_a_quiet_phase_in_vain() {
    // Too short.
    let mut w = World::cell(3);
    w.quiet();
    w.wait(9 * SECOND);
    w.end(&[0, 1, 2]);
    let report = w.breaks(Property::V1);
    assert!(report.to_string().contains("nothing is due in the quiet phase: the quiet phase is shorter"), "{report}");
    // The phase ends with the harness. Records of the harness after that do not belong to it, and its end may be
    // missing.
    let mut w = World::cell(3);
    w.quiet();
    w.wait(20 * SECOND);
    w.breaks(Property::V1);
    // No process is in a view.
    let mut w = World::strangers(2);
    w.quiet();
    w.wait(20 * SECOND);
    w.end(&[0, 1]);
    w.breaks(Property::V1);
    // The times cannot be compared.
    let mut w = World::cell(3);
    w.quiet();
    w.wait(20 * SECOND);
    w.end(&[0, 1, 2]);
    w.holds(&[Property::V1]);
    w.traces[1].header.clock = "another".into();
    w.breaks(Property::V1);
    // Only of the connected processes.
    let mut w = World::cell(3);
    w.quiet_for(&[0, 1]);
    w.wait(9 * SECOND);
    w.end(&[0, 1, 2]);
    w.breaks(Property::V13);
}

/// A quiet phase like that of `quiet_run`, after which all leave one by one, as they are ended.
fn parted(to: &[usize], view_at_end: bool) -> World {
    let mut w = World::group(3);
    if view_at_end {
        [0, 1].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1, 2], &[]));
    }
    w.quiet();
    w.wait(20 * SECOND);
    w.multicast(fifo(0, 1, 1), to);
    w.wait(20 * SECOND);
    w.harness_says(Event::End);
    let number = if view_at_end { 3 } else { 2 };
    (0..3).for_each(|p| w.push(p, Event::LeaveAsked));
    let gone = [(2, LeaveReason::Left)];
    for p in [0, 1] {
        w.cell_view(p, number, &[0, 1], &gone);
    }
    w.push(2, Event::Left);
    w.cell_view(0, number + 1, &[0], &[(1, LeaveReason::Left)]);
    w.push(1, Event::Left);
    w.push(0, Event::Left);
    (0..3).for_each(|p| w.push(p, Event::End));
    w
}

#[test]
fn what_comes_after_the_end_does_not_count() {
    parted(&[0, 1, 2], false).holds(&[Property::V1, Property::V3, Property::V4]);
    parted(&[0, 1], false).breaks(Property::V4);
    parted(&[1, 2], false).breaks(Property::V3);
    let report = parted(&[0, 1, 2], true).report();
    assert_eq!(report.violated(), [Property::V1], "{report}");
    // A process that is notified before the end, and one that is notified after it.
    let told = |after: bool| {
        let mut w = World::cell(4);
        w.quiet();
        (0..3).for_each(|p| w.cell_view(p, 2, &[0, 1, 2], &[(3, LeaveReason::Unreachable)]));
        let told = |w: &mut World| w.push(3, Event::Excluded { view: 2 });
        if !after {
            told(&mut w);
        }
        w.wait(20 * SECOND);
        w.harness_says(Event::End);
        if after {
            told(&mut w);
        }
        (0..4).for_each(|p| w.push(p, Event::End));
        w
    };
    told(false).holds(&[Property::V1, Property::M8]);
    told(true).breaks(Property::M8);
}

#[test]
fn v1_what_it_said_after_the_end_does_not_count() {
    let cut_off = |last: Option<Event>| {
        let mut w = World::cell(3);
        w.push(1, Event::NonPrimary);
        w.quiet();
        if last.is_none() {
            w.push(1, Event::Primary);
        }
        w.wait(20 * SECOND);
        w.harness_says(Event::End);
        w.push(1, last.unwrap_or(Event::NonPrimary));
        (0..3).for_each(|p| w.push(p, Event::End));
        w
    };
    cut_off(None).holds(&[Property::V1]);
    cut_off(Some(Event::Primary)).breaks(Property::V1);
}

/// `a` and `b` die and found the cell again by command. `c`, which is cut off for good, reads its last view of the
/// instance before only then.
#[test]
fn v13_is_due_in_the_latest_instance_whatever_is_read_late_of_an_earlier_one() {
    let run = |spared: bool| {
        let mut w = World::cell(3);
        let not_reading = |begins| Event::Trouble { what: Trouble::NotReading, incarnation: id(2), begins };
        w.harness_says(not_reading(true));
        w.crash(0);
        w.cell_view(1, 2, &[1, 2], &[(0, LeaveReason::Died)]);
        w.crash(1);
        let again = [(88, "a"), (89, "b")];
        let members: Vec<_> = again.iter().map(|(who, name)| (*who, (*name).to_owned())).collect();
        let first = w.harness();
        for (at, (who, name)) in (first..).zip(again) {
            w.traces.insert(at, Trace::new(Header::process("cell", name, who, "clock")));
            w.push(at, Event::Start);
            w.push(at, Event::JoinAsked { cell: "cell".into() });
            w.push(at, Event::FoundAnew);
        }
        for at in [first, first + 1] {
            let members = members.clone();
            w.push(at, Event::CellView { instance: CELL + (1 << 48), view: 1, members, left: vec![] });
        }
        if !spared {
            w.harness_says(Event::Crash { incarnation: 88 });
            w.push(4, Event::NonPrimary);
        }
        w.quiet_for(&[0, 1]);
        w.harness_says(not_reading(false));
        w.cell_view(2, 2, &[1, 2], &[(0, LeaveReason::Died)]);
        w.push(2, Event::NonPrimary);
        w.wait(20 * SECOND);
        w.end(if spared { &[3, 4] } else { &[4] });
        w
    };
    run(true).holds(&[Property::V13]);
    let report = run(false).breaks(Property::V13);
    assert!(report.to_string().contains("no quorum of the last view remains"), "{report}");
}

#[test]
fn v6_a_join_that_is_withdrawn_after_the_end() {
    let mut w = World::group(3);
    w.quiet();
    w.push(0, Event::GroupJoinAsked { name: "other".into(), with_state: false });
    w.wait(20 * SECOND);
    w.harness_says(Event::End);
    w.push(0, Event::LeaveAsked);
    w.push(0, Event::Left);
    (0..3).for_each(|p| w.push(p, Event::End));
    w.breaks(Property::V6);
}

#[test]
fn v1_is_due_when_all_were_excluded() {
    let mut w = World::cell(3);
    (0..3).for_each(|p| w.push(p, Event::Excluded { view: 2 }));
    // They come back as new incarnations and found nothing.
    let mut again = Trace::new(Header::process("cell", &name(0), 99, "clock"));
    again.push(w.now + 1, Event::Start);
    again.push(w.now + 2, Event::JoinAsked { cell: "cell".into() });
    w.traces.insert(0, again);
    w.now += 10;
    w.quiet();
    w.wait(20 * SECOND);
    w.end(&[]);
    let report = w.report();
    assert_eq!(report.violated(), [Property::M8, Property::V1], "{report}");
}

/// `d` of four was notified that view 2 excludes it, by `a`, which the harness crashed. `recorded`: `a` recorded view 2
/// before. `b` and `c` are no quorum without `a` or `d`.
fn told_and_lost(mut w: World, recorded: bool) -> World {
    if recorded {
        w.cell_view(0, 2, &[0, 1, 2], &[(3, LeaveReason::Unreachable)]);
    }
    w.push(3, Event::Excluded { view: 2 });
    w.push(3, Event::End);
    w.crash(0);
    [1, 2].iter().for_each(|&p| w.push(p, Event::NonPrimary));
    w.quiet();
    w.wait(20 * SECOND);
    w.end(&[1, 2]);
    w
}

#[test]
fn v1_is_due_when_an_exclusion_was_told_too_early_and_its_view_was_lost() {
    for recorded in [true, false] {
        let report = told_and_lost(World::cell(4), recorded).report();
        assert_eq!(report.violated(), [Property::M8, Property::V1], "{report}");
    }
}

#[test]
fn v1_is_due_when_the_early_told_are_many_and_one_crash_did_it() {
    let mut w = World::cell(5);
    w.cell_view(0, 2, &[0, 1, 2], &[(3, LeaveReason::Unreachable), (4, LeaveReason::Unreachable)]);
    [3, 4].iter().for_each(|&p| w.push(p, Event::Excluded { view: 2 }));
    w.crash(0);
    w.quiet();
    w.wait(20 * SECOND);
    w.end(&[1, 2, 3, 4]);
    let report = w.report();
    assert_eq!(report.violated(), [Property::M8, Property::V1], "{report}");
}

/// Asserts that nothing is broken, and that liveness was not evaluated for lack of a quorum, as the harness says.
fn is_not_due(w: &World) {
    let report = check(&w.traces, &Options { hopeless: true, ..options() });
    assert!(report.violated().is_empty(), "{report}");
    assert_eq!(report.instances(Property::V1), 0, "{report}");
    assert!(report.stats.quiet.contains("no quorum"), "{report}");
}

#[test]
fn v1_is_not_due_when_a_held_view_lost_its_quorum() {
    let mut w = World::cell(5);
    for p in [0, 1] {
        w.cell_view(p, 2, &[0, 1, 2], &[(3, LeaveReason::Unreachable), (4, LeaveReason::Unreachable)]);
    }
    [3, 4].iter().for_each(|&p| w.push(p, Event::Excluded { view: 2 }));
    [0, 1].iter().for_each(|&p| w.crash(p));
    w.push(2, Event::NonPrimary);
    w.quiet();
    w.wait(20 * SECOND);
    w.end(&[2, 3, 4]);
    is_not_due(&w);
}

#[test]
fn v1_is_not_due_when_the_view_before_a_lost_one_has_no_quorum_left_either() {
    // No process was notified of anything: a alone installed view 2, and died, and so did d.
    let mut w = World::cell(4);
    w.cell_view(0, 2, &[0, 1, 2], &[(3, LeaveReason::Unreachable)]);
    [0, 3].iter().for_each(|&p| w.crash(p));
    [1, 2].iter().for_each(|&p| w.push(p, Event::NonPrimary));
    w.quiet();
    w.wait(20 * SECOND);
    w.end(&[1, 2]);
    is_not_due(&w);
}

#[test]
fn v1_is_due_when_a_lost_view_can_be_found_again() {
    let mut w = World::cell(5);
    w.cell_view(0, 2, &[0, 1, 2, 3], &[(4, LeaveReason::Unreachable)]);
    w.crash(0);
    w.quiet();
    w.wait(20 * SECOND);
    w.end(&[1, 2, 3, 4]);
    // A process that it excluded and that never learnt it is reported by M8.
    let report = w.report();
    assert_eq!(report.violated(), [Property::M8, Property::V1], "{report}");
}

#[test]
fn v1_is_not_due_when_who_held_the_lost_view_read_nothing() {
    let not_reading = Event::Trouble { what: Trouble::NotReading, incarnation: id(0), begins: true };
    let mut w = World::cell(4);
    w.harness_says(not_reading);
    is_not_due(&told_and_lost(w, false));
    // Liveness is not due either when the end of its trace is missing.
    let mut w = World::cell(4);
    w.traces[0].header.write_ahead = false;
    is_not_due(&told_and_lost(w, false));
}

#[test]
fn v1_endless_exclusion_and_return_is_no_excuse() {
    let mut w = World::cell(3);
    w.quiet();
    w.wait(14 * SECOND);
    let gone = [(2, LeaveReason::Unreachable)];
    [0, 1].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1], &gone));
    w.push(2, Event::Excluded { view: 2 });
    w.push(2, Event::End);
    let mut again = Trace::new(Header::process("cell", &name(2), 99, "clock"));
    again.push(w.now + 1, Event::Start);
    again.push(w.now + 2, Event::JoinAsked { cell: "cell".into() });
    let members = vec![(id(0), name(0)), (id(1), name(1)), (99, name(2))];
    w.now += 10;
    let install = Event::CellView { instance: CELL, view: 3, members, left: vec![] };
    again.push(w.now, install.clone());
    [0, 1].iter().for_each(|&p| w.push(p, install.clone()));
    w.traces.insert(3, again);
    w.end(&[0, 1, 3]);
    w.breaks(Property::V1);
}

#[test]
fn v3_goes_on_without_its_own_message() {
    let mut w = World::group(3);
    w.send(fifo(0, 1, 1));
    w.lose(2, &[0, 1]);
    w.breaks(Property::V3);
}

#[test]
fn v3_never_delivers_its_own_message() {
    quiet_run(World::group(2), &[0, 1], 1, &[1]).breaks(Property::V3);
}

#[test]
fn v4_a_member_never_delivers() {
    quiet_run(World::group(2), &[0, 1], 1, &[0]).breaks(Property::V4);
}

#[test]
fn v4_a_member_delivers_too_late() {
    let mut w = World::group(2);
    w.quiet();
    w.wait(20 * SECOND);
    w.multicast(fifo(0, 1, 1), &[0]);
    w.wait(6 * SECOND);
    w.deliver(1, fifo(0, 1, 1));
    w.end(&[0, 1]);
    w.breaks(Property::V4);
}

#[test]
fn v4_a_member_never_installs_the_view() {
    let mut w = World::group(2);
    w.group_view(0, 2, Some(1), &[0, 1], &[], &[]);
    quiet_run(w, &[0, 1], 2, &[0]).breaks(Property::V4);
}

#[test]
fn v6_a_member_never_installs_its_first_view() {
    let mut w = World::cell(2);
    for p in [0, 1] {
        w.ask_group(p, false);
    }
    w.group_view(0, 1, None, &[0, 1], &[0, 1], &[]);
    quiet_run(w, &[0, 1], 1, &[0]).breaks(Property::V6);
}

#[test]
fn v4_what_is_sent_at_the_very_end_is_not_judged() {
    let mut w = World::group(2);
    w.quiet();
    w.wait(20 * SECOND);
    w.send(fifo(0, 1, 1));
    w.end(&[0, 1]);
    let report = w.report();
    assert!(report.violated().is_empty(), "{report}");
    assert_eq!(report.instances(Property::V4), 0, "{report}");
}
