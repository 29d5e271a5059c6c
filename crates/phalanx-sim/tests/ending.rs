//! Cells that all members leave, and that begin again by themselves (`docs/founding.md`, *When all members left*).

mod founders;

use std::time::Duration;

use founders::{nobody_is_in, says, start};
use phalanx_core::member::End;
use phalanx_core::wire::Kind;
use phalanx_core::{CellInstance, Incarnation};
use phalanx_sim::{Cell, WorldSettings};
use phalanx_trace::{Event, LeaveReason};

const SECOND: Duration = Duration::from_secs(1);

/// Starts `members` processes, the first `founders` of which are founders, in one view and one group.
fn cell_of(members: usize, founders: usize, seed: u64) -> Cell {
    let mut settings = WorldSettings::quiet(members);
    settings.founders = founders;
    let mut cell = Cell::new(settings, seed);
    start(&mut cell, &(0..members).collect::<Vec<_>>());
    cell.settle();
    cell
}

fn leave(cell: &mut Cell, slots: &[usize]) {
    slots.iter().for_each(|slot| cell.leave(*slot));
    assert!(cell.run_until(30 * SECOND, |cell| slots.iter().all(|slot| !cell.runs(*slot))), "they do not get out");
}

/// The processes that, according to a process's record, may live in the instance that ended.
fn but_for(cell: &Cell, slot: usize) -> Option<Vec<String>> {
    let ended = cell.record(slot).end.as_ref()?.ended()?;
    Some(ended.but_for.iter().map(|lost| lost.name.clone()).collect())
}

/// All leave, at once or one after the other in any order, and all start again. No operator acts, and the new instance
/// is of the next generation.
#[test]
fn a_cell_that_all_left_begins_again_by_itself() {
    for seed in 0..24 {
        let mut cell = cell_of(4, 3, seed);
        let before = cell.instance(0).expect("it is in a view");
        let mut order = [0, 1, 2, 3];
        if seed < 8 {
            leave(&mut cell, &order);
        } else {
            let by = usize::try_from(seed).expect("small");
            order.rotate_left(by % 4);
            if by % 2 == 0 {
                order.reverse();
            }
            order.iter().for_each(|slot| leave(&mut cell, &[*slot]));
            let ended = order.map(|slot| but_for(&cell, slot));
            assert_eq!(ended, [None, None, None, Some(Vec::new())], "the last one knows that all others are out");
        }
        start(&mut cell, &[0, 1, 2, 3]);
        cell.settle();
        assert_eq!(cell.instance(0).map(CellInstance::generation), Some(before.generation() + 1));
        assert!((0..3).all(|slot| cell.record(slot).instance() == cell.instance(0).expect("it is in a view")));
        cell.finish_clean();
    }
}

/// All founders left, and one other process stayed. The founders found nothing, and join it.
#[test]
fn who_left_before_the_others_founds_nothing() {
    let mut cell = cell_of(4, 3, 1);
    let before = cell.instance(3);
    leave(&mut cell, &[0, 1, 2]);
    cell.pause(3);
    start(&mut cell, &[0, 1, 2]);
    cell.run_for(8 * SECOND);
    assert!(nobody_is_in(&cell, &[0, 1, 2]), "the cell was founded while p3 lives in it");
    cell.resume(3);
    cell.settle();
    assert_eq!(cell.instance(0), before);
    assert!((0..3).all(|slot| cell.record(slot).end.is_none()), "they are in it again");
    cell.finish_clean();
}

/// A member is cut off and excluded, and the others leave. They may not found the cell while it lives in the old
/// instance without knowing.
#[test]
fn who_is_cut_off_keeps_the_others_from_founding_until_it_is_heard() {
    for seed in 0..8 {
        let mut cell = cell_of(4, 3, seed);
        let before = cell.instance(0).expect("it is in a view");
        let cut_off = 2 + usize::try_from(seed % 2).expect("small");
        cell.cut_off(&[cut_off]);
        cell.run_for(3 * SECOND);
        let others: Vec<usize> = (0..4).filter(|slot| *slot != cut_off).collect();
        leave(&mut cell, &others);
        let last = others.iter().find_map(|slot| but_for(&cell, *slot)).expect("one of them was the last");
        assert_eq!(last, [format!("p{cut_off}")]);
        start(&mut cell, &others);
        cell.run_for(8 * SECOND);
        assert!(nobody_is_in(&cell, &others), "the cell was founded while p{cut_off} lives in it");
        if cut_off == 3 {
            let all = others.iter().all(|slot| says(&cell, *slot, "nobody knows that they ended: p3"));
            assert!(all, "{:?}", cell.searching(0));
        }
        cell.heal();
        cell.settle();
        assert!(cell.exclusions(cut_off) > 0, "nobody told it that it is out");
        assert_eq!(cell.instance(cut_off).map(CellInstance::generation), Some(before.generation() + 1));
        cell.finish_clean();
    }
}

/// A member dies before the others leave. The cell begins again when it is started where it ran, and not before.
#[test]
fn who_died_is_waited_for_where_it_ran() {
    for (seed, dead) in (0..8).zip([0, 1, 2, 3].into_iter().cycle()) {
        let mut cell = cell_of(4, 3, seed);
        cell.crash(dead);
        cell.run_for(3 * SECOND);
        let others: Vec<usize> = (0..4).filter(|slot| *slot != dead).collect();
        leave(&mut cell, &others);
        start(&mut cell, &others);
        cell.run_for(6 * SECOND);
        assert!(nobody_is_in(&cell, &others));
        start(&mut cell, &[dead]);
        cell.settle();
        cell.finish_clean();
    }
}

/// The same, and its directory is emptied. No process can know that it is the same one, so a command is needed.
#[test]
fn who_comes_from_another_directory_is_not_the_one_that_is_waited_for() {
    let mut cell = cell_of(3, 3, 3);
    cell.crash(2);
    cell.empty_directory(2);
    cell.run_for(3 * SECOND);
    leave(&mut cell, &[0, 1]);
    start(&mut cell, &[0, 1, 2]);
    cell.run_for(8 * SECOND);
    assert!(nobody_is_in(&cell, &[0, 1, 2]), "p2 may live elsewhere");
    assert!(says(&cell, 0, "nobody knows that they ended: p2"), "{:?}", cell.searching(0));
    cell.found_anew(0).expect("it looks for the cell");
    cell.settle();
    cell.finish_clean();
}

/// All die, so none has the record of an end.
#[test]
fn a_cell_whose_last_members_died_needs_a_command() {
    let mut cell = cell_of(3, 3, 4);
    leave(&mut cell, &[0]);
    [1, 2].into_iter().for_each(|slot| cell.crash(slot));
    assert!(matches!(cell.record(0).end, Some(End::Left { .. })));
    start(&mut cell, &[0, 1, 2]);
    cell.run_for(8 * SECOND);
    assert!(nobody_is_in(&cell, &[0, 1, 2]));
    assert!(says(&cell, 0, "the whole cell died"), "{:?}", cell.searching(0));
    cell.found_anew(0).expect("it looks for the cell");
    cell.settle();
    cell.finish_clean();
}

/// A founder left, and its directory was emptied. Restarted it hears a member, and does not join. Then the others
/// leave, and it is notified that the instance it heard is over. While another member may live in that instance, it is
/// not.
#[test]
fn what_was_heard_of_an_instance_that_ended_does_not_count() {
    for is_lost in [false, true] {
        let mut cell = cell_of(4, 3, 5).titled(format!("p3 is lost: {is_lost}"));
        leave(&mut cell, &[2]);
        cell.empty_directory(2);
        // It hears members, and its own packets are lost after that.
        start(&mut cell, &[2]);
        assert!(cell.run_until(2 * SECOND, |cell| cell.record(2).heard.is_some()), "it heard nobody");
        cell.cut_off(&[2]);
        assert!(cell.cell_view(2).is_none());
        cell.run_for(SECOND);
        cell.crash(2);
        if is_lost {
            cell.crash(3);
            cell.run_for(3 * SECOND);
            leave(&mut cell, &[0, 1]);
        } else {
            leave(&mut cell, &[0, 1, 3]);
        }
        cell.heal();
        start(&mut cell, &[0, 1, 2]);
        if is_lost {
            cell.run_for(8 * SECOND);
            assert!(nobody_is_in(&cell, &[0, 1, 2]));
            assert!(says(&cell, 0, "nobody knows that they ended: p3"), "{:?}", cell.searching(0));
        }
        start(&mut cell, &[3]);
        cell.settle();
        cell.finish_clean();
    }
}

/// The cell ends twice: the second record takes the place of the first.
#[test]
fn a_cell_can_end_again_and_again() {
    let mut cell = cell_of(3, 3, 6);
    for generations in 2..6 {
        leave(&mut cell, &[0, 1, 2]);
        start(&mut cell, &[0, 1, 2]);
        cell.settle();
        assert_eq!(cell.instance(0).map(CellInstance::generation), Some(generations));
    }
    cell.finish_clean();
}

/// One of the founders has a bootstrap marker of an instance that was superseded by command, and that all left later.
#[test]
fn marks_of_instances_before_the_one_that_ended_do_not_count() {
    let mut cell = cell_of(3, 3, 7);
    [0, 1, 2].into_iter().for_each(|slot| cell.crash(slot));
    start(&mut cell, &[0, 1]);
    cell.run_for(2 * SECOND);
    cell.found_anew(0).expect("two of three look for the cell");
    cell.settle();
    assert_eq!(cell.instance(0).map(CellInstance::generation), Some(2));
    leave(&mut cell, &[0, 1]);
    start(&mut cell, &[0, 1, 2]);
    cell.settle();
    assert_eq!(cell.instance(2).map(CellInstance::generation), Some(3));
    cell.finish_clean();
}

/// A member knows that it is let go, and stays for three seconds because nobody confirms the view without it. The others
/// are gone by then. It is out, so they need not wait for it.
#[test]
fn a_leaver_that_knows_it_is_out_keeps_nobody_from_founding() {
    let mut beside = 0;
    for seed in 0..8 {
        let mut cell = cell_of(4, 3, seed);
        let before = cell.instance(0);
        cell.lose_if(|packet| packet.to == 3 && packet.kind == Kind::BestEffortMulticast);
        cell.leave(3);
        assert!(cell.run_until(SECOND, |cell| cell.group_view(3, "a").is_none()), "it is let go");
        leave(&mut cell, &[0, 1, 2]);
        assert!((0..3).all(|slot| but_for(&cell, slot).is_none_or(|lost| lost.is_empty())), "nobody is missed");
        cell.heal();
        start(&mut cell, &[0, 1, 2]);
        let is_founded = |cell: &Cell| cell.instance(0).is_some_and(|now| Some(now) != before);
        assert!(cell.run_until(2 * SECOND, is_founded), "they wait for it");
        beside += usize::from(cell.runs(3));
        assert!(cell.run_until(4 * SECOND, |cell| !cell.runs(3)), "it does not go");
        start(&mut cell, &[3]);
        cell.settle();
        cell.finish_clean();
    }
    assert!(beside > 0, "it was always gone before");
}

/// A member that is no founder leaves, and stops before it is notified that it is let go. The others leave too. It
/// lives in the instance, so they wait for it.
#[test]
fn a_leaver_that_was_not_told_keeps_the_others_from_founding() {
    let mut waited = 0;
    for step in 0..60 {
        let mut cell = cell_of(4, 3, 1).titled(format!("{step} steps"));
        cell.leave(3);
        cell.run_for(Duration::from_micros(10 * step));
        cell.pause(3);
        cell.run_for(3 * SECOND);
        let was_let_go = |event: &Event| {
            let Event::CellView { left, .. } = event else { return false };
            left.iter().any(|(who, why)| *why == LeaveReason::Left && Some(Incarnation(*who)) == cell.incarnation(3))
        };
        let mut records = cell.traces(0).iter().flat_map(|trace| &trace.records);
        if !cell.runs(3) || !records.any(|record| was_let_go(&record.event)) {
            continue;
        }
        leave(&mut cell, &[0, 1, 2]);
        let named = (0..3).filter_map(|slot| but_for(&cell, slot)).any(|lost| lost == ["p3"]);
        if !named {
            continue; // it was notified, and stopped before it went
        }
        waited += 1;
        start(&mut cell, &[0, 1, 2]);
        cell.run_for(8 * SECOND);
        assert!(nobody_is_in(&cell, &[0, 1, 2]), "the cell was founded while p3 lives in it");
        cell.resume(3);
        assert!(cell.run_until(30 * SECOND, |cell| !cell.runs(3)), "it does not go");
        start(&mut cell, &[3]);
        cell.settle();
        cell.finish_clean();
    }
    assert!(waited > 0, "no leaver missed its decree");
}
