//! V1, V3 and V4: a good and a broken run for each, and runs in which nothing is due.

mod common;

use common::{CELL, SECOND, World, fifo, id, name};
use phalanx_check::Property;
use phalanx_trace::{Event, LeaveReason};

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

/// `c` is cut off for good, and comes and goes: nothing of that excuses `a` and `b`.
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
        let header = phalanx_trace::Header::process("cell", &name(2), incarnation, "clock");
        let mut again = phalanx_trace::Trace::new(header);
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
    let report = w.report();
    assert!(report.passed, "{report}");
    assert_eq!(report.instances(Property::V1), 0, "{report}");
    assert!(report.stats.quiet.contains("no quorum"), "{report}");
}

#[test]
fn v1_is_due_when_all_were_excluded() {
    let mut w = World::cell(3);
    (0..3).for_each(|p| w.push(p, Event::Excluded { view: 2 }));
    // They come back as new incarnations and found nothing.
    let mut again = phalanx_trace::Trace::new(phalanx_trace::Header::process("cell", &name(0), 99, "clock"));
    again.push(w.now + 1, Event::Start);
    again.push(w.now + 2, Event::JoinAsked { cell: "cell".into() });
    w.traces.insert(0, again);
    w.now += 10;
    w.quiet();
    w.wait(20 * SECOND);
    w.end(&[]);
    w.breaks(Property::V1);
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
    let mut again = phalanx_trace::Trace::new(phalanx_trace::Header::process("cell", &name(2), 99, "clock"));
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
