//! V14: partly broken paths. `a` to `d` are on no such path, `e` is at the end of one.

mod common;

use common::{SECOND, World, fifo, id, name, uniform};
use phalanx_check::{Options, Property};
use phalanx_trace::{Event, LeaveReason};

const WHOLE: [usize; 4] = [0, 1, 2, 3];
const GONE: [(usize, LeaveReason); 1] = [(4, LeaveReason::Unreachable)];

fn impaired(ends: &[usize], sends_every_ns: u64) -> Event {
    let ends = ends.iter().map(|&p| name(p)).collect();
    Event::Impaired { ends, what: "data socket".to_owned(), sends_every_ns }
}

/// Five members in a view and a group; a path to `e` breaks, and the quiet phase begins.
fn broken(sends_every_ns: u64) -> World {
    let mut w = World::group(5);
    w.harness_says(impaired(&[4], sends_every_ns));
    w.quiet_for(&WHOLE);
    w
}

/// `e` goes: all others, or `those`, install a view without it.
fn without_e(w: &mut World, those: &[usize]) {
    for &p in those {
        w.cell_view(p, 2, &WHOLE, &GONE);
        w.group_view(p, 2, Some(1), &WHOLE, &[], &GONE);
    }
}

fn end(mut w: World) -> World {
    w.wait(40 * SECOND);
    w.end(&[0, 1, 2, 3, 4]);
    w
}

#[test]
fn who_is_at_the_broken_end_may_stay() {
    let mut w = broken(0);
    w.wait(SECOND);
    w.multicast(fifo(0, 1, 1), &[0, 1, 2, 3]);
    let w = end(w);
    w.holds(&[Property::V14]);
    assert_eq!(w.report().instances(Property::V13) + w.report().instances(Property::V1), 0);
}

#[test]
fn who_is_at_the_broken_end_may_go() {
    let mut w = broken(0);
    w.wait(8 * SECOND);
    without_e(&mut w, &WHOLE);
    w.multicast(uniform(fifo(0, 2, 1)), &WHOLE);
    w.push(4, Event::NonPrimary);
    end(w).holds(&[Property::V14]);
}

/// No process need come into a group whose members are all at the ends of broken paths.
#[test]
fn who_asks_for_a_group_that_nobody_whole_is_in_is_not_waited_for() {
    let join = |after_ns: Option<u64>, holder: usize, property| {
        let mut w = World::group(5);
        let group = |w: &mut World, p: usize, view, members: &[usize], joined: &[usize]| {
            let [members, joined] = [members, joined].map(|all| all.iter().map(|p| id(*p)).collect::<Vec<_>>());
            let prev = (view > 1 && p == holder).then_some(view - 1);
            w.push(p, Event::GroupView { group: 9, name: "other".into(), view, prev, members, joined, left: vec![] });
        };
        w.push(holder, Event::GroupJoinAsked { name: "other".into(), with_state: false });
        group(&mut w, holder, 1, &[holder], &[holder]);
        if property == Property::V12 {
            w.push(0, Event::GroupJoinAsked { name: "other".into(), with_state: true });
        }
        w.harness_says(impaired(&[4], 0));
        w.quiet_for(&WHOLE);
        if property == Property::V6 {
            w.push(0, Event::GroupJoinAsked { name: "other".into(), with_state: false });
        }
        if let Some(after_ns) = after_ns {
            w.wait(after_ns);
            [holder, 0].iter().for_each(|&p| group(&mut w, p, 2, &[holder, 0], &[0]));
        }
        end(w)
    };
    for property in [Property::V6, Property::V12] {
        let judged = |after_ns, holder| {
            let report = join(after_ns, holder, property).report();
            (report.instances(property), report.violated().contains(&property))
        };
        assert_eq!(judged(Some(24 * SECOND), 1), (1, false), "{property:?}");
        assert_eq!(judged(Some(27 * SECOND), 1), (1, true), "{property:?}");
        assert_eq!(judged(None, 1), (1, true), "{property:?}");
        assert_eq!(judged(None, 4), (0, false), "{property:?}");
    }
}

/// A broken path may have to be detected before a process comes into the cell, so the longer bound of V14 applies.
#[test]
fn a_join_takes_as_much_longer_as_a_path_may_hold_up() {
    let run = |after_ns: u64| {
        let mut w = World::strangers(6);
        (0..5).for_each(|p| w.cell_view(p, 1, &[0, 1, 2, 3, 4], &[]));
        w.harness_says(impaired(&[4], 0));
        w.quiet_for(&[0, 1, 2, 3, 5]);
        w.wait(after_ns);
        [0, 1, 2, 3, 5].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1, 2, 3, 5], &GONE));
        w.wait(40 * SECOND);
        w.end(&[0, 1, 2, 3, 4, 5]);
        assert_eq!(w.report().instances(Property::V6), 0);
        w
    };
    run(14 * SECOND).holds(&[Property::V14]);
    run(16 * SECOND).breaks(Property::V14);
}

/// A removal that comes late: what waits for it is delivered after what the fault may cost, and before V14's other bound.
#[test]
fn deliveries_have_a_bound_of_their_own() {
    let mut w = broken(0);
    let late = uniform(fifo(0, 1, 1));
    w.send(late);
    w.wait(12 * SECOND);
    WHOLE.iter().for_each(|&p| w.deliver(p, late));
    without_e(&mut w, &WHOLE);
    let w = end(w);
    let within = |seconds: u64| {
        phalanx_check::check(&w.traces, &Options { impaired_delivery_bound_ns: seconds * SECOND, ..common::options() })
    };
    assert!(within(13).passed);
    assert_eq!(within(11).violated(), [Property::V14]);
}

/// A multicast may have to wait until a broken path is detected, so S8 applies V14's bound.
#[test]
fn what_is_accepted_is_sent_as_late_as_a_path_may_hold_it_up() {
    let run = |after_ns: u64| {
        let mut w = broken(0);
        w.wait(20 * SECOND);
        w.accept(fifo(0, 1, 1));
        w.wait(after_ns);
        w.multicast(fifo(0, 1, 1), &[0, 1, 2, 3]);
        end(w)
    };
    run(14 * SECOND).holds(&[Property::S8]);
    assert!(run(16 * SECOND).report().violated().contains(&Property::S8));
}

#[test]
fn one_stays_behind() {
    let mut w = broken(0);
    w.wait(8 * SECOND);
    without_e(&mut w, &[0, 1, 2]);
    end(w).breaks(Property::V14);
}

#[test]
fn one_that_is_whole_is_dropped() {
    let mut w = broken(0);
    w.wait(18 * SECOND);
    for p in [0, 1, 2] {
        w.cell_view(p, 2, &[0, 1, 2, 4], &[(3, LeaveReason::Unreachable)]);
    }
    w.push(3, Event::NonPrimary);
    w.wait(20 * SECOND);
    for p in [0, 1, 2] {
        w.cell_view(p, 3, &[0, 1, 2], &GONE);
    }
    w.end(&[0, 1, 2, 3, 4]);
    let report = w.report();
    assert!(report.violated().contains(&Property::V14), "{report}");
    assert!(report.to_string().contains("on no broken path"), "{report}");
}

#[test]
fn one_that_is_whole_comes_in_too_late() {
    let mut w = World::strangers(3);
    [0, 1].iter().for_each(|&p| w.cell_view(p, 1, &[0, 1], &[]));
    w.harness_says(impaired(&[4], 0));
    w.quiet_for(&[0, 1, 2]);
    w.wait(20 * SECOND);
    [0, 1, 2].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1, 2], &[]));
    w.wait(20 * SECOND);
    w.end(&[0, 1, 2]);
    w.breaks(Property::V14);
}

#[test]
fn one_holds_itself_cut_off_for_long() {
    let mut w = broken(0);
    w.push(1, Event::NonPrimary);
    w.wait(16 * SECOND);
    w.push(1, Event::Primary);
    end(w).breaks(Property::V14);
}

#[test]
fn one_may_not_send_for_long() {
    let mut w = broken(0);
    w.push(1, Event::Block);
    w.wait(14 * SECOND);
    w.push(1, Event::Unblock);
    w.wait(SECOND);
    w.push(1, Event::Block);
    end(w).breaks(Property::V14);
}

#[test]
fn short_waits_are_no_fault() {
    let mut w = broken(0);
    w.push(1, Event::Block);
    w.push(2, Event::NonPrimary);
    w.wait(14 * SECOND);
    w.push(1, Event::Unblock);
    w.push(2, Event::Primary);
    end(w).holds(&[Property::V14]);
}

#[test]
fn who_asks_to_leave_goes() {
    let mut w = broken(0);
    w.push(3, Event::LeaveAsked);
    end(w).breaks(Property::V14);
}

#[test]
fn a_uniform_message_waits_for_ever() {
    let mut w = broken(0);
    w.send(uniform(fifo(0, 1, 1)));
    end(w).breaks(Property::V14);
}

#[test]
fn a_message_sent_when_the_path_broke_counts_from_the_quiet_phase() {
    let mut w = World::group(5);
    w.harness_says(impaired(&[4], 0));
    w.wait(2 * SECOND);
    let m = uniform(fifo(0, 1, 1));
    w.send(m);
    w.wait(2 * SECOND);
    w.quiet_for(&WHOLE);
    w.wait(14 * SECOND);
    WHOLE.iter().for_each(|&p| w.deliver(p, m));
    end(w).holds(&[Property::V14]);
}

#[test]
fn one_delivers_too_late() {
    let mut w = broken(0);
    let m = fifo(0, 1, 1);
    w.send(m);
    [0, 1, 2].iter().for_each(|&p| w.deliver(p, m));
    w.wait(16 * SECOND);
    w.deliver(3, m);
    end(w).breaks(Property::V14);
}

#[test]
fn a_message_late_in_the_run_is_not_judged() {
    let mut w = broken(0);
    w.wait(30 * SECOND);
    w.send(fifo(0, 1, 1));
    w.wait(10 * SECOND);
    w.end(&[0, 1, 2, 3, 4]);
    w.holds(&[Property::V14]);
}

#[test]
fn a_window_that_stays_full_is_silence() {
    let spoken = |members: &[usize]| {
        let mut w = broken(SECOND);
        for seq in 1..=30 {
            w.wait(SECOND);
            members.iter().for_each(|&p| w.multicast(fifo(p, 1, seq), &WHOLE));
        }
        w.wait(5 * SECOND);
        w.end(&[0, 1, 2, 3, 4]);
        w
    };
    spoken(&WHOLE).holds(&[Property::V14]);
    let report = spoken(&[0, 1, 2]).breaks(Property::V14);
    assert!(report.to_string().contains("could send nothing"), "{report}");
}

#[test]
fn a_group_view_that_lacks_one_is_no_common_view() {
    let mut w = World::group(5);
    for p in [0, 1, 2, 4] {
        w.group_view(p, 2, Some(1), &[0, 1, 2, 4], &[], &[(3, LeaveReason::Left)]);
    }
    w.harness_says(impaired(&[4], 0));
    w.quiet_for(&WHOLE);
    w.wait(40 * SECOND);
    w.end(&[0, 1, 2, 3, 4]);
    let report = w.report();
    assert!(report.violated().contains(&Property::V14), "{report}");
    assert!(report.to_string().contains("lacks d"), "{report}");
}

#[test]
fn nothing_is_due_without_a_quorum_on_whole_paths() {
    let mut w = World::group(5);
    w.crash(3);
    w.harness_says(impaired(&[1, 4], 0));
    w.push(0, Event::Block);
    w.quiet_for(&[0, 2]);
    w.wait(40 * SECOND);
    w.end(&[0, 1, 2, 4]);
    assert_eq!(w.report().instances(Property::V14), 0);
}

/// The quorum is that of the view in which the path broke: a cell that erodes to one member has no excuse.
#[test]
fn views_that_drop_the_whole_one_by_one_excuse_nothing() {
    let mut w = broken(0);
    for (view, members, left) in [(2, &[0, 1, 2, 4][..], 3), (3, &[0, 1, 4], 2), (4, &[0, 4], 1)] {
        w.wait(SECOND);
        for &p in members {
            w.cell_view(p, view, members, &[(left, LeaveReason::Unreachable)]);
        }
        w.push(left, Event::Excluded { view });
        w.push(left, Event::End);
    }
    w.wait(40 * SECOND);
    w.end(&[0, 4]);
    let report = w.report();
    assert!(report.instances(Property::V14) > 0, "{report}");
}

#[test]
fn the_harness_alone_says_so() {
    let mut w = World::group(2);
    w.push(0, impaired(&[1], 0));
    w.end(&[0, 1]);
    w.breaks(Property::E1);
}
