//! Members that the others go on without.

use std::time::Duration;

use phalanx_core::{Order, Uniformity};
use phalanx_sim::{Cell, WorldSettings};
use phalanx_trace::{Event, LeaveReason};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Its application takes deliveries when the others have long gone on. None of them may contradict what the others
/// have.
#[test]
fn what_a_slow_reader_takes_after_it_was_left_behind_the_others_have() {
    let mut cell = Cell::settled(5, 1);
    cell.set_takes(2, false);
    cell.multicast(2, "a", Order::Total, Uniformity::Uniform, 100).expect("in the group");
    cell.run_for(100 * MS);
    cell.cut_off(&[2]);
    cell.multicast(2, "a", Order::Fifo, Uniformity::Uniform, 100).expect("it does not know yet");
    let left_behind =
        cell.run_until(5 * SECOND, |cell| cell.cell_view(0).is_some_and(|(_, members)| members.len() == 4));
    assert!(left_behind, "the others go on");
    cell.run_for(100 * MS);
    cell.set_takes(2, true);
    cell.run_for(SECOND);
    cell.heal();
    cell.settle();
    let result = cell.finish();
    assert_eq!(result.violations, [], "{}", result.story.unwrap_or_default());
    assert!(result.counters.checked["M7"] > 0, "the first message was taken late");
}

/// The members that excluded it are gone, and the current ones are at addresses where it would never look: only they
/// can find it.
#[test]
fn who_knows_no_address_of_the_cell_any_more_is_found_by_it() {
    let mut cell = Cell::settled(5, 2);
    cell.pause(4);
    let left_out = cell.run_until(5 * SECOND, |cell| cell.cell_view(0).is_some_and(|(_, members)| members.len() == 4));
    assert!(left_out, "the others go on");
    for slot in 0..4 {
        cell.crash(slot);
        cell.start_moved(slot);
        let back = |cell: &Cell| cell.cell_view(slot).is_some_and(|(_, members)| members.len() == 4);
        assert!(cell.run_until(10 * SECOND, back), "{slot} came back");
    }
    cell.resume(4);
    cell.settle();
    assert_eq!(cell.exclusions(4), 1);
    cell.finish_clean();
}

/// A member that asks to leave while no quorum is heard waits a while for one, and leaves in order.
#[test]
fn a_leaver_waits_for_a_quorum_to_leave_in_order() {
    let mut cell = Cell::settled(3, 21);
    cell.cut_all();
    assert!(cell.run_until(5 * SECOND, |cell| !cell.is_primary(2)));
    cell.leave(2);
    cell.run_for(2 * SECOND);
    assert!(cell.runs(2), "it waits for three seconds");
    cell.heal();
    assert!(cell.run_until(5 * SECOND, |cell| !cell.runs(2)));
    cell.settle();
    let views = cell.traces(0).last().expect("it runs").records.iter();
    let left = views.filter_map(|record| match &record.event {
        Event::CellView { left, .. } => Some(left.clone()),
        _ => None,
    });
    assert_eq!(left.flatten().map(|(_, why)| why).collect::<Vec<_>>(), [LeaveReason::Left]);
    cell.finish_clean();
}

/// Outside the primary for good, a member that asks to leave goes after three seconds, and not only when it has given
/// up on its messages.
#[test]
fn a_leaver_without_a_quorum_goes_by_itself() {
    let mut cell = Cell::settled(3, 22);
    cell.cut_off(&[2]);
    assert!(cell.run_until(5 * SECOND, |cell| !cell.is_primary(2)));
    cell.run_for(7 * MS); // not in step with its heartbeats
    cell.leave(2);
    assert!(cell.run_until(4 * SECOND, |cell| !cell.runs(2)), "it does not wait any longer");
    cell.finish_clean();
}

/// The member that was to welcome a joiner hears no other and knows of no such view, and the others are no quorum
/// without the joiner. Any member that it asks tells it that it is in.
#[test]
fn who_was_taken_in_hears_of_it_from_any_member() {
    for (seed, after) in (0..20).map(|seed| (seed, 100 * seed)) {
        let after = Duration::from_micros(after);
        let mut cell = Cell::new(WorldSettings::quiet(4), seed).titled(format!("deaf {after:?} after it proposed"));
        (0..3).for_each(|slot| cell.start(slot));
        cell.settle();
        let oldest = cell.cell_view(0).expect("in a view").1[0];
        cell.start(3);
        assert!(cell.run_until(5 * SECOND, |cell| cell.activity(oldest).proposing));
        cell.run_for(after);
        (0..4).filter(|slot| *slot != oldest).for_each(|slot| cell.cut(slot, oldest));
        let taken_in = cell.run_until(5 * SECOND, |cell| {
            (0..4).filter(|slot| *slot != oldest).all(|slot| cell.cell_view(slot).is_some_and(|(_, m)| m.len() == 3))
        });
        assert!(taken_in, "the others go on with the joiner, {after:?}");
        cell.heal();
        cell.settle();
        cell.finish_clean();
    }
}
