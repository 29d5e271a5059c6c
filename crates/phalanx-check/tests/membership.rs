//! M1 to M8: a good and a broken run for each.

mod common;

use common::{CELL, GROUP, SECOND, World, fifo, id, name, options, total};
use phalanx_check::{Options, Property, Quorum, check};
use phalanx_trace::{Event, Header, LeaveReason, Phase, Trace, Trouble};

const LEFT: LeaveReason = LeaveReason::Left;
const DIED: LeaveReason = LeaveReason::Died;
const UNREACHABLE: LeaveReason = LeaveReason::Unreachable;

#[test]
fn a_whole_small_run_holds() {
    let mut w = World::group(3);
    w.multicast(fifo(0, 1, 1), &[0, 1, 2]);
    w.lose(2, &[0, 1]);
    w.multicast(fifo(1, 2, 1), &[0, 1]);
    w.end(&[0, 1]);
    w.holds(&[Property::E1, Property::M1, Property::M2, Property::M3, Property::M4, Property::M5, Property::M6]);
}

#[test]
fn m1_cell_view_without_its_installer() {
    let mut w = World::cell(3);
    w.cell_view(2, 2, &[0, 1], &[(2, UNREACHABLE)]);
    w.breaks(Property::M1);
}

#[test]
fn m1_group_view_without_its_installer() {
    let mut w = World::group(3);
    w.group_view(2, 2, Some(1), &[0, 1], &[], &[(2, UNREACHABLE)]);
    w.breaks(Property::M1);
}

#[test]
fn m2_the_same_cell_view_twice() {
    let mut w = World::cell(2);
    w.cell_view(0, 1, &[0, 1], &[]);
    w.breaks(Property::M2);
}

#[test]
fn m2_group_view_numbers_shrink() {
    let mut w = World::cell(1);
    w.ask_group(0, false);
    w.group_view(0, 5, None, &[0], &[0], &[]);
    w.group_view(0, 4, Some(5), &[0], &[], &[]);
    w.breaks(Property::M2);
}

#[test]
fn m2_prev_is_not_the_view_before() {
    let mut w = World::group(2);
    w.group_view(0, 2, None, &[0, 1], &[], &[]);
    w.breaks(Property::M2);
}

#[test]
fn m3_two_lists_under_one_number() {
    let mut w = World::cell(3);
    w.cell_view(0, 2, &[0, 1], &[(2, UNREACHABLE)]);
    w.cell_view(1, 2, &[1, 0], &[(2, UNREACHABLE)]);
    w.breaks(Property::M3);
}

#[test]
fn m3_two_group_lists_under_one_number() {
    let mut w = World::group(3);
    w.group_view(0, 2, Some(1), &[0, 1], &[], &[(2, UNREACHABLE)]);
    w.group_view(1, 2, Some(1), &[1, 0], &[], &[(2, UNREACHABLE)]);
    w.breaks(Property::M3);
}

#[test]
fn m4_two_incarnations_of_one_name() {
    let mut w = World::strangers(2);
    w.traces[1].header.node = name(0);
    let members = vec![(id(0), name(0)), (id(1), name(0))];
    w.push(0, Event::CellView { instance: CELL, view: 1, members, left: vec![] });
    w.breaks(Property::M4);
}

#[test]
fn m4_a_group_member_twice() {
    let mut w = World::cell(1);
    w.ask_group(0, false);
    w.group_view(0, 1, None, &[0, 0], &[0], &[]);
    w.breaks(Property::M4);
}

#[test]
fn m5_joins_and_leaves_that_were_asked_for_hold() {
    let mut w = World::group(3);
    w.push(2, Event::GroupLeaveAsked { group: GROUP });
    w.push(2, Event::GroupLeft { group: GROUP });
    w.push(2, Event::LeaveAsked);
    for p in [0, 1] {
        w.group_view(p, 2, Some(1), &[0, 1], &[], &[(2, LEFT)]);
        w.cell_view(p, 2, &[0, 1], &[(2, LEFT)]);
    }
    w.push(2, Event::Left);
    w.end(&[0, 1, 2]);
    w.holds(&[Property::M5, Property::M6]);
}

#[test]
fn m5_left_without_having_asked() {
    let mut w = World::cell(3);
    [0, 1].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1], &[(2, LEFT)]));
    w.breaks(Property::M5);
}

#[test]
fn m5_died_and_lives_on() {
    let mut w = World::cell(3);
    [0, 1].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1], &[(2, DIED)]));
    w.push(2, Event::NonPrimary);
    w.breaks(Property::M5);
}

#[test]
fn m5_joined_without_having_asked() {
    let mut w = World::strangers(2);
    w.traces[1].records.pop();
    w.cell_view(0, 1, &[0, 1], &[]);
    w.cell_view(1, 1, &[0, 1], &[]);
    w.breaks(Property::M5);
}

#[test]
fn m5_joined_a_group_without_having_asked() {
    let mut w = World::cell(1);
    w.group_view(0, 1, None, &[0], &[0], &[]);
    w.breaks(Property::M5);
}

#[test]
fn m5_the_left_list_is_silent() {
    let mut w = World::cell(3);
    [0, 1].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1], &[]));
    w.breaks(Property::M5);
}

#[test]
fn m5_two_views_may_still_list_the_dead_a_third_may_not() {
    let mut w = World::strangers(6);
    let all = [0, 1, 2];
    all.iter().for_each(|&p| w.cell_view(p, 1, &all, &[]));
    w.crash(2);
    [0, 1, 3].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1, 2, 3], &[]));
    [0, 1, 3, 4].iter().for_each(|&p| w.cell_view(p, 3, &[0, 1, 2, 3, 4], &[]));
    w.holds(&[Property::M5]);
    [0, 1, 3, 4, 5].iter().for_each(|&p| w.cell_view(p, 4, &[0, 1, 2, 3, 4, 5], &[]));
    w.breaks(Property::M5);
}

#[test]
fn m5_who_read_nothing_may_install_late_what_was_decided_before_a_death() {
    let run = |reading: bool| {
        let mut w = World::strangers(6);
        [0, 1, 2].iter().for_each(|&p| w.cell_view(p, 1, &[0, 1, 2], &[]));
        let trouble = |begins| Event::Trouble { what: Trouble::NotReading, incarnation: id(0), begins };
        if !reading {
            w.harness_says(trouble(true));
        }
        w.crash(2);
        if !reading {
            w.harness_says(trouble(false));
        }
        w.cell_view(0, 2, &[0, 1, 2, 3], &[]);
        w.cell_view(0, 3, &[0, 1, 2, 3, 4], &[]);
        w.cell_view(0, 4, &[0, 1, 2, 3, 4, 5], &[]);
        w
    };
    run(false).holds(&[Property::M1]);
    run(true).breaks(Property::M5);
}

#[test]
fn m5_asks_for_the_group_when_it_is_in_it() {
    let mut w = World::cell(1);
    w.group_view(0, 1, None, &[0], &[0], &[]);
    w.ask_group(0, false);
    w.breaks(Property::M5);
}

#[test]
fn m5_a_join_withdrawn_half_way_needs_no_request() {
    let run = |told: bool| {
        let mut w = World::cell(2);
        w.ask_group(0, false);
        w.group_view(0, 1, None, &[0], &[0], &[]);
        w.ask_group(1, true);
        w.group_view(0, 2, Some(1), &[0, 1], &[1], &[]);
        if told {
            w.push(1, Event::SnapshotIn { group: GROUP, bytes: 1 });
            w.push(1, Event::StateEnd { group: GROUP, digest: 1 });
            w.group_view(1, 2, None, &[0, 1], &[1], &[]);
        }
        w.group_view(0, 3, Some(2), &[0], &[], &[(1, LEFT)]);
        w
    };
    run(false).holds(&[Property::M5]);
    run(true).breaks(Property::M5);
}

#[test]
fn m6_a_minority_goes_on() {
    let mut w = World::cell(3);
    w.cell_view(2, 2, &[2], &[(0, UNREACHABLE), (1, UNREACHABLE)]);
    w.breaks(Property::M6);
}

#[test]
fn m6_half_with_the_oldest_may_go_on_and_half_without_may_not() {
    let mut w = World::cell(2);
    w.cell_view(0, 2, &[0], &[(1, UNREACHABLE)]);
    w.holds(&[Property::M6]);
    let mut w = World::cell(2);
    w.cell_view(1, 2, &[1], &[(0, UNREACHABLE)]);
    w.breaks(Property::M6);
    let witness = Options { quorum: Quorum::AnyHalf, ..options() };
    assert!(check(&w.traces, &witness).passed);
}

#[test]
fn m6_who_leaves_willingly_counts_for_the_quorum() {
    let mut w = World::cell(2);
    w.push(0, Event::LeaveAsked);
    w.cell_view(1, 2, &[1], &[(0, LEFT)]);
    w.holds(&[Property::M6]);
}

#[test]
fn m6_who_came_with_a_view_tells_who_left_with_it() {
    // Of three, c left and b is silent. a is dead before it reads of the next view, in which only d joins.
    let run = |why: LeaveReason| {
        let mut w = World::strangers(4);
        (0..3).for_each(|p| w.cell_view(p, 1, &[0, 1, 2], &[]));
        w.push(2, Event::LeaveAsked);
        w.cell_view(3, 2, &[0, 3], &[(1, UNREACHABLE), (2, why)]);
        w.crash(0);
        w
    };
    let report = run(LEFT).report();
    assert!(!report.violated().contains(&Property::M6), "{report}");
    let report = run(UNREACHABLE).report();
    assert!(report.violated().contains(&Property::M6), "{report}");
}

#[test]
fn m6_joiners_outnumber_survivors() {
    let mut w = World::strangers(3);
    w.cell_view(0, 1, &[0], &[]);
    (0..3).for_each(|p| w.cell_view(p, 2, &[0, 1, 2], &[]));
    w.breaks(Property::M6);
}

#[test]
fn m6_a_fork() {
    let mut w = World::cell(4);
    w.cell_view(0, 2, &[0, 1, 2], &[(3, UNREACHABLE)]);
    w.cell_view(1, 3, &[0, 1, 2], &[(3, UNREACHABLE)]);
    w.breaks(Property::M6);
}

#[test]
fn m6_a_number_nobody_installed() {
    let mut w = World::cell(3);
    w.cell_view(0, 3, &[0, 1, 2], &[]);
    w.breaks(Property::M6);
}

#[test]
fn m6_a_number_that_one_installed_who_never_read_of_it() {
    let run = |reads_again: bool| {
        let mut w = World::strangers(3);
        [0, 1].iter().for_each(|&p| w.cell_view(p, 1, &[0, 1], &[]));
        w.push(1, Event::LeaveAsked);
        let not_reading = |begins| Event::Trouble { what: Trouble::NotReading, incarnation: id(0), begins };
        w.harness_says(not_reading(true));
        w.cell_view(2, 3, &[0, 2], &[]);
        if reads_again {
            w.harness_says(not_reading(false));
        }
        w
    };
    run(false).holds(&[Property::M6]);
    run(true).breaks(Property::M6);
}

#[test]
fn m6_the_first_view_of_a_joiner() {
    let run = |told: bool| {
        let mut w = World::strangers(3);
        [0, 1].iter().for_each(|&p| w.cell_view(p, 1, &[0, 1], &[]));
        [0, 1].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1, 2], &[]));
        if told {
            w.cell_view(2, 2, &[0, 1, 2], &[]);
        }
        w.crash(0);
        [1, 2].iter().for_each(|&p| w.cell_view(p, 3, &[1, 2], &[(0, LeaveReason::Died)]));
        w
    };
    run(true).holds(&[Property::M6]);
    run(false).breaks(Property::M6);
}

#[test]
fn m6_founded_twice() {
    let mut w = World::strangers(2);
    w.cell_view(0, 1, &[0], &[]);
    w.push(1, Event::CellView { instance: 7, view: 1, members: vec![(id(1), name(1))], left: vec![] });
    w.holds(&[Property::M1]);
    let one = Options { one_instance: true, ..options() };
    assert_eq!(check(&w.traces, &one).violated(), [Property::M6]);
}

/// Two members; those in `gone` die, the other one reads again, and another process founds the next instance without a
/// command.
fn founded_again(asked: bool, unread: bool, gone: &[usize]) -> World {
    let mut w = World::cell(2);
    w.traces.insert(2, Trace::new(Header::process("cell", &name(2), id(2), "clock")));
    for p in [0, 1] {
        if asked {
            w.push(p, Event::LeaveAsked);
        }
        if unread {
            w.harness_says(Event::Trouble { what: Trouble::NotReading, incarnation: id(p), begins: true });
        }
    }
    gone.iter().for_each(|&p| w.crash(p));
    for p in [0, 1].into_iter().filter(|p| !gone.contains(p)) {
        w.harness_says(Event::Trouble { what: Trouble::NotReading, incarnation: id(p), begins: false });
    }
    w.push(2, Event::Start);
    w.push(2, Event::JoinAsked { cell: "cell".into() });
    w.push(2, Event::CellView { instance: 1 << 48 | 7, view: 1, members: vec![(id(2), name(2))], left: vec![] });
    w
}

#[test]
fn m6_who_left_without_reading_of_it_lets_the_cell_begin_again() {
    let one = Options { one_instance: true, ..options() };
    let breaks = |w: World| check(&w.traces, &one).violated().contains(&Property::M6);
    assert!(!breaks(founded_again(true, true, &[0, 1])));
    assert!(breaks(founded_again(true, false, &[0, 1])), "who read was not told that it left");
    assert!(breaks(founded_again(false, true, &[0, 1])), "nobody asked to leave");
    assert!(breaks(founded_again(true, true, &[0])), "the other one reads again, lives, and was not told that it left");
}

#[test]
fn m6_who_is_stopped_is_not_told_that_its_quorum_died() {
    let one = Options { one_instance: true, ..options() };
    let breaks = |by_command: bool, stop: &[Event]| {
        let mut w = World::cell(3);
        w.traces.insert(3, Trace::new(Header::process("cell", &name(3), id(3), "clock")));
        stop.iter().for_each(|event| w.harness_says(event.clone()));
        for p in [1, 2] {
            if by_command {
                w.crash(p);
            } else {
                [Event::LeaveAsked, Event::Left, Event::End].into_iter().for_each(|event| w.push(p, event));
            }
        }
        w.push(3, Event::Start);
        w.push(3, Event::JoinAsked { cell: "cell".into() });
        if by_command {
            w.push(3, Event::FoundAnew);
        }
        w.push(3, Event::CellView { instance: 1 << 48 | 7, view: 1, members: vec![(id(3), name(3))], left: vec![] });
        check(&w.traces, &one).violated().contains(&Property::M6)
    };
    let (stopped, goes_on) = (Event::Stop { incarnation: id(0) }, Event::Cont { incarnation: id(0) });
    assert!(!breaks(true, std::slice::from_ref(&stopped)));
    assert!(breaks(true, &[stopped.clone(), goes_on]), "it runs, and was in the primary partition");
    assert!(breaks(true, &[]));
    assert!(breaks(false, &[stopped]), "the others left, and it lives in that instance");
}

#[test]
fn m6_who_was_let_go_and_left_its_groups_lets_the_cell_begin_again() {
    let one = Options { one_instance: true, ..options() };
    // Both asked to leave. The first went by view 2, and waits for somebody to confirm that; the other one is gone.
    let breaks = |asks: bool, why: LeaveReason, leaves_group: bool| {
        let mut w = World::group(2);
        w.traces.insert(2, Trace::new(Header::process("cell", &name(2), id(2), "clock")));
        if asks {
            w.push(0, Event::LeaveAsked);
        }
        w.push(1, Event::LeaveAsked);
        w.cell_view(1, 2, &[1], &[(0, why)]);
        if leaves_group {
            w.push(0, Event::GroupLeft { group: GROUP });
        }
        [Event::Left, Event::End].into_iter().for_each(|event| w.push(1, event));
        w.push(2, Event::Start);
        w.push(2, Event::JoinAsked { cell: "cell".into() });
        w.push(2, Event::CellView { instance: 1 << 48 | 7, view: 1, members: vec![(id(2), name(2))], left: vec![] });
        check(&w.traces, &one).violated().contains(&Property::M6)
    };
    assert!(!breaks(true, LEFT, true));
    assert!(breaks(true, LEFT, false), "it may not have learned that it is out");
    assert!(breaks(false, LEFT, true), "it did not ask to leave the cell");
    assert!(breaks(true, UNREACHABLE, true), "it was dropped");
}

#[test]
fn m6_a_group_fork() {
    let mut w = World::group(3);
    w.group_view(0, 2, Some(1), &[0, 1], &[], &[(2, UNREACHABLE)]);
    w.group_view(1, 3, Some(1), &[0, 1], &[], &[(2, UNREACHABLE)]);
    w.breaks(Property::M6);
}

#[test]
fn m6_a_group_begins_anew_beside_a_living_member() {
    let mut w = World::cell(2);
    w.ask_group(0, false);
    w.group_view(0, 1, None, &[0], &[0], &[]);
    w.ask_group(1, false);
    w.group_view(1, 2, None, &[1], &[1], &[]);
    w.end(&[0, 1]);
    w.breaks(Property::M6);
}

#[test]
fn m6_a_group_may_begin_anew_when_all_left() {
    let mut w = World::cell(2);
    w.ask_group(0, false);
    w.group_view(0, 1, None, &[0], &[0], &[]);
    w.push(0, Event::GroupLeaveAsked { group: GROUP });
    w.push(0, Event::GroupLeft { group: GROUP });
    w.ask_group(1, false);
    w.group_view(1, 3, None, &[1], &[1], &[]);
    w.end(&[0, 1]);
    w.holds(&[Property::M6]);
}

fn excluded() -> World {
    let mut w = World::group(3);
    [0, 1].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1], &[(2, UNREACHABLE)]));
    [0, 1].iter().for_each(|&p| w.group_view(p, 2, Some(1), &[0, 1], &[], &[(2, UNREACHABLE)]));
    w
}

#[test]
fn m8_told_and_silent_holds() {
    let mut w = excluded();
    w.push(2, Event::Excluded { view: 2 });
    w.push(2, Event::End);
    w.holds(&[Property::M8]);
}

#[test]
fn m8_told_before_a_quorum_of_the_view_installed_it() {
    let mut w = World::cell(4);
    let lost = [(3, UNREACHABLE)];
    w.cell_view(0, 2, &[0, 1, 2], &lost);
    w.push(3, Event::Excluded { view: 2 });
    [1, 2].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1, 2], &lost));
    w.push(3, Event::End);
    w.end(&[0, 1, 2]);
    w.breaks(Property::M8);
}

#[test]
fn m8_told_by_a_view_that_nobody_installed() {
    let mut w = World::cell(3);
    w.push(2, Event::Excluded { view: 2 });
    w.push(2, Event::End);
    w.end(&[0, 1]);
    w.breaks(Property::M8);
}

#[test]
fn m8_told_when_a_quorum_installed_the_view_or_a_later_one_holds() {
    let mut w = World::cell(5);
    w.cell_view(0, 2, &[0, 1, 2, 3], &[(4, UNREACHABLE)]);
    w.cell_view(1, 2, &[0, 1, 2, 3], &[(4, UNREACHABLE)]);
    w.push(4, Event::Excluded { view: 2 });
    w.push(4, Event::End);
    [2, 3].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1, 2, 3], &[(4, UNREACHABLE)]));
    w.end(&[0, 1, 2, 3]);
    w.holds(&[Property::M8]);
}

#[test]
fn m8_who_reads_nothing_may_have_installed_the_view() {
    let mut w = World::cell(4);
    w.cell_view(0, 2, &[0, 1, 2], &[(3, UNREACHABLE)]);
    let not_reading = |begins| Event::Trouble { what: Trouble::NotReading, incarnation: id(1), begins };
    w.harness_says(not_reading(true));
    w.push(3, Event::Excluded { view: 2 });
    w.harness_says(not_reading(false));
    [1, 2].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1, 2], &[(3, UNREACHABLE)]));
    w.push(3, Event::End);
    w.end(&[0, 1, 2]);
    w.holds(&[Property::M8]);
}

/// The clocks may differ by a second, so it cannot be known when a quorum had installed a view.
#[test]
fn m8_told_of_the_view_in_which_it_comes_back() {
    let run = |told: u64| {
        let mut w = World::cell(3);
        for p in [0, 1] {
            w.cell_view(p, 2, &[0, 1], &[(2, UNREACHABLE)]);
        }
        w.push(2, Event::Excluded { view: told });
        w.push(2, Event::End);
        let heir = Trace::new(Header::process("cell", &name(2), id(3), "clock"));
        let harness = w.harness();
        w.traces.insert(harness, heir);
        w.push(3, Event::Start);
        w.push(3, Event::JoinAsked { cell: "cell".into() });
        for p in [0, 1, 3] {
            let members = vec![(id(0), name(0)), (id(1), name(1)), (id(3), name(2))];
            w.push(p, Event::CellView { instance: CELL, view: 3, members, left: vec![] });
        }
        w.end(&[0, 1, 3]);
        check(&w.traces, &Options { complete: true, ..Options::default() })
    };
    assert!(run(2).passed, "{}", run(2));
    assert_eq!(run(3).violated(), [Property::M8], "{}", run(3));
}

#[test]
fn m8_delivers_after_exclusion() {
    let mut w = excluded();
    w.push(2, Event::Excluded { view: 2 });
    w.send(total(0, 2, 1));
    w.deliver_at(2, total(0, 2, 1), 1);
    w.breaks(Property::M8);
}

#[test]
fn m8_excluded_by_a_view_that_holds_it() {
    let mut w = World::cell(3);
    w.push(2, Event::Excluded { view: 1 });
    w.breaks(Property::M8);
}

#[test]
fn m8_taken_back() {
    let mut w = World::cell(3);
    [0, 1].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1], &[(2, UNREACHABLE)]));
    [0, 1].iter().for_each(|&p| w.cell_view(p, 3, &[0, 1, 2], &[]));
    w.breaks(Property::M8);
}

#[test]
fn m8_never_told() {
    let mut w = excluded();
    w.quiet();
    w.wait(60 * SECOND);
    w.end(&[0, 1, 2]);
    w.breaks(Property::M8);
}

#[test]
fn faults_after_the_quiet_phase_began_put_it_off() {
    let mut w = World::group(3);
    w.quiet();
    w.wait(8 * SECOND);
    let harness = w.harness();
    w.push(harness, Event::Cont { incarnation: id(0) });
    w.wait(8 * SECOND);
    w.end(&[0, 1, 2]);
    let report = w.report();
    assert_eq!(report.instances(Property::V1), 0, "{report}");
    assert!(report.stats.quiet.contains("shorter"), "{report}");
}

#[test]
fn phases_other_than_quiet_make_nothing_due() {
    let mut w = World::group(2);
    let harness = w.harness();
    w.push(harness, Event::Phase { phase: Phase::Heal, connected: vec![] });
    w.wait(100 * SECOND);
    w.end(&[0, 1]);
    assert_eq!(w.report().instances(Property::V1), 0);
}

#[test]
fn m9_a_message_of_a_process_that_a_view_dropped() {
    let run = |late: bool| {
        let mut w = World::cell(3);
        let say = |w: &mut World, k| {
            w.push(2, Event::P2pSend { to: id(0), k, hash: k });
        };
        let hear = |w: &mut World, k| w.push(0, Event::P2pDeliver { from: id(2), k, hash: k });
        say(&mut w, 1);
        hear(&mut w, 1);
        say(&mut w, 2);
        if !late {
            hear(&mut w, 2);
        }
        [0, 1].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1], &[(2, UNREACHABLE)]));
        if late {
            hear(&mut w, 2);
        }
        w
    };
    run(false).holds(&[Property::M9]);
    run(true).breaks(Property::M9);
}

#[test]
fn m9_who_is_in_no_view_yet_may_be_heard() {
    let mut w = World::strangers(2);
    w.cell_view(0, 1, &[0], &[]);
    w.push(1, Event::P2pSend { to: id(0), k: 1, hash: 1 });
    w.push(0, Event::P2pDeliver { from: id(1), k: 1, hash: 1 });
    w.cell_view(0, 2, &[0, 1], &[]);
    w.holds(&[Property::I1]);
}
