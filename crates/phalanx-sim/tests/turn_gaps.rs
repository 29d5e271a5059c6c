//! Members that poll seldom, as an application that polls its process itself may, and declare that
//! (`timing.turn_gap_max`).

use std::time::Duration;

use phalanx_core::ViewNumber;
use phalanx_sim::{Cell, WorldSettings};

const SUSPECT_AFTER: Duration = Duration::from_millis(300);
/// Time between two polls of the late member. It declares more.
const TURNS_EVERY: Duration = Duration::from_millis(500);
const DECLARED: Duration = Duration::from_millis(600);

/// Starts processes of which one is always late, declared or not. `suspect_after` is shorter than the time between its
/// polls.
fn started(members: usize, late: usize, declares: bool) -> Cell {
    let turn_ns = u64::try_from(TURNS_EVERY.as_nanos()).expect("small");
    let settings = WorldSettings {
        late: vec![(late, turn_ns)],
        turn_gaps: if declares { vec![(late, DECLARED)] } else { Vec::new() },
        patience: Some((Duration::from_millis(60), SUSPECT_AFTER)),
        ..WorldSettings::quiet(members)
    };
    let mut cell = Cell::new(settings, 5).titled(format!("{members} members, late: {late}, declares: {declares}"));
    (0..members).for_each(|slot| cell.start(slot));
    cell
}

/// Whether all of these are in a view of this many members.
fn are_together(cell: &Cell, members: usize) -> bool {
    (0..members).all(|slot| cell.cell_view(slot).is_some_and(|(_, view)| view.len() == members))
}

/// Whether these are in the view of this number.
fn are_in(cell: &Cell, slots: &[usize], view: ViewNumber) -> bool {
    slots.iter().all(|&slot| cell.cell_view(slot).is_some_and(|(number, _)| number == view))
}

#[test]
fn a_member_that_declared_how_seldom_it_turns_is_not_left_out() {
    let mut cell = started(4, 3, true);
    assert!(cell.run_until(Duration::from_secs(20), |cell| are_together(cell, 4)));
    let view = cell.cell_view(0).map(|(view, _)| view);
    cell.run_for(Duration::from_secs(60));
    assert_eq!(cell.cell_view(0).map(|(view, _)| view), view);
    assert!((0..4).all(|slot| cell.exclusions(slot) == 0));
    // It takes part in views, and they wait for its polls.
    let (view, _) = cell.cell_view(0).expect("it is in one");
    cell.crash(2);
    assert!(cell.run_until(Duration::from_secs(5), |cell| are_in(cell, &[0, 1, 3], view.next())));
    assert_eq!(cell.exclusions(3), 0);
    // Its own death is detected too, after the declared time in addition to the usual one.
    let died = cell.now();
    cell.crash(3);
    assert!(cell.run_until(Duration::from_secs(5), |cell| are_in(cell, &[0, 1], view.next().next())));
    let took = cell.now() - died;
    assert!(took > DECLARED - TURNS_EVERY + SUSPECT_AFTER, "{took:?}");
}

/// The same without the declaration, as a member whose configuration is wrong. The view that it comes into bears it,
/// because it looks like one that is far. The next one does not.
#[test]
fn a_member_that_turns_seldom_and_does_not_say_so_is_left_out() {
    let mut cell = started(4, 3, false);
    cell.run_for(Duration::from_secs(60));
    cell.crash(2);
    cell.run_for(Duration::from_secs(60));
    assert!(cell.exclusions(3) > 0);
}

/// Of two members the late one is the quorum. It detects the other's death itself, though all of its polls are late by
/// others' measure.
#[test]
fn a_member_that_turns_seldom_finds_who_died() {
    let mut cell = started(2, 0, true);
    assert!(cell.run_until(Duration::from_secs(20), |cell| are_together(cell, 2)));
    cell.run_for(Duration::from_secs(10));
    assert_eq!(cell.exclusions(1), 0);
    let (view, _) = cell.cell_view(0).expect("it is in one");
    cell.crash(1);
    // `suspect_after` doubles where heartbeats come irregularly. Two polls see the silence, and two more decide.
    let bound = SUSPECT_AFTER * 2 + TURNS_EVERY * 4;
    assert!(cell.run_until(bound, |cell| are_in(cell, &[0], view.next())), "not within {bound:?}");
}

/// A member that polls less often than others probe it, are patient with a ballot, or notice silence. It declared that,
/// and is in each view.
#[test]
fn a_declared_gap_is_borne_by_probes_ballots_and_silence() {
    let every = SUSPECT_AFTER * 7;
    let turn_ns = u64::try_from(every.as_nanos()).expect("small");
    let settings = WorldSettings {
        late: vec![(3, turn_ns)],
        turn_gaps: vec![(3, every + SUSPECT_AFTER)],
        patience: Some((Duration::from_millis(60), SUSPECT_AFTER)),
        ..WorldSettings::quiet(4)
    };
    let mut cell = Cell::new(settings, 6);
    (0..4).for_each(|slot| cell.start(slot));
    assert!(cell.run_until(Duration::from_secs(60), |cell| are_together(cell, 4)));
    cell.run_for(Duration::from_secs(30));
    assert!((0..4).all(|slot| cell.exclusions(slot) == 0));
    cell.crash(2);
    assert!(cell.run_until(Duration::from_secs(30), |cell| cell.are_alone(&[0, 1, 3])));
    assert_eq!(cell.exclusions(3), 0);
}

/// A member of three polls a little less often than the patience of the second in rank, and did not say so. Others found
/// a group, and it joins. Only the first knew what was asked for. The second superseded each ballot just before the late
/// one answered, and decided that nothing changes: for ever, because the next ballot began when the late one had read
/// that.
#[test]
fn who_turns_seldom_keeps_nobody_out_of_a_group() {
    for every_ms in (600..900).step_by(20) {
        let settings = WorldSettings { late: vec![(2, every_ms * 1_000_000)], ..WorldSettings::quiet(3) };
        let mut cell = Cell::new(settings, 1);
        for slot in 0..3 {
            cell.start(slot);
            let is_in = |cell: &Cell| are_together(cell, slot + 1);
            assert!(cell.run_until(Duration::from_secs(20), is_in), "{every_ms} ms: {slot} is not in the cell");
        }
        cell.run_for(Duration::from_secs(10));
        for slot in 0..3 {
            cell.join(slot, "a");
            let is_in = |cell: &Cell| cell.group_view(slot, "a").is_some_and(|(_, members)| members == slot + 1);
            assert!(cell.run_until(Duration::from_secs(20), is_in), "{every_ms} ms: {slot} is not in the group");
        }
    }
}
