//! Packets of a member's stream that make no sense to some of its readers (`docs/fail-stop.md`): which member is
//! excluded.

use std::time::Duration;

use phalanx_core::wire::Kind;
use phalanx_core::{Order, Uniformity};
use phalanx_sim::{Cell, Weather, blind_channel};
use phalanx_trace::{Event, LeaveReason};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// The reasons for which a process lost a group.
fn lost(cell: &Cell, slot: usize) -> Vec<LeaveReason> {
    let records = cell.traces(slot).iter().flat_map(|trace| &trace.records);
    let why = records.filter_map(|record| match record.event {
        Event::GroupLost { why, .. } => Some(why),
        _ => None,
    });
    why.collect()
}

/// Each of these multicasts some messages, the sender of nonsense first.
fn talk(cell: &mut Cell, slots: &[usize]) {
    for round in 0..4 {
        for &slot in slots {
            let order = [Order::Total, Order::Causal, Order::Fifo][round % 3];
            // Refused by a process that is out of the group for the moment.
            let _ = cell.multicast(slot, "a", order, Uniformity::from_flag(round == 1), 40);
        }
        cell.run_for(20 * MS);
    }
}

fn members(cell: &Cell, slot: usize) -> usize {
    cell.group_view(slot, "a").map_or(0, |(_, members)| members)
}

#[test]
fn one_of_five_takes_the_state_anew() {
    for reader in 1..5 {
        let mut cell = Cell::settled(5, 40 + reader as u64).titled(format!("{reader} cannot read it"));
        let taken = cell.transfers(reader);
        cell.cannot_read(&[reader], 0, "a");
        talk(&mut cell, &[0, 1, 2, 3, 4]);
        cell.settle();
        for slot in 0..5 {
            let expected: &[LeaveReason] = if slot == reader { &[LeaveReason::Anew] } else { &[] };
            assert_eq!((lost(&cell, slot).as_slice(), members(&cell, slot)), (expected, 5), "p{slot}");
            assert_eq!(cell.exclusions(slot), 0);
        }
        assert_eq!(cell.transfers(reader), taken + 1);
        cell.finish_clean();
    }
}

#[test]
fn a_sender_that_most_cannot_read_goes_and_comes_back_as_another() {
    let mut cell = Cell::settled(5, 50);
    cell.cannot_read(&[1, 2, 3], 0, "a");
    talk(&mut cell, &[0, 1, 2, 3, 4]);
    assert!(cell.run_until(5 * SECOND, |cell| cell.exclusions(0) == 1));
    cell.settle();
    assert_eq!(lost(&cell, 0), [LeaveReason::Nonsense]);
    assert!((1..4).all(|slot| lost(&cell, slot).is_empty()));
    assert_eq!(lost(&cell, 4), [LeaveReason::Anew], "it acted upon what the others cannot read");
    // Its membership is over, and it comes back into the group only on request.
    assert_eq!([0, 1, 2, 3, 4].map(|slot| members(&cell, slot)), [0, 4, 4, 4, 4]);
    cell.join(0, "a");
    cell.settle();
    assert!((0..5).all(|slot| members(&cell, slot) == 5));
    cell.finish_clean();
}

/// Only one of them has the packet. The others fetch it for the cut, and find that they cannot read it either: only its
/// sender is excluded.
#[test]
fn what_is_found_in_a_packet_that_was_fetched_counts() {
    let mut cell = Cell::settled(5, 51);
    cell.cannot_read(&[1, 2, 3, 4], 0, "a");
    cell.lose_if(|packet| packet.kind == Kind::Multicast && packet.from == 0 && packet.to != 3);
    talk(&mut cell, &[0, 1, 2, 4]);
    assert!(cell.run_until(5 * SECOND, |cell| cell.exclusions(0) == 1));
    cell.heal();
    cell.settle();
    assert_eq!(lost(&cell, 0), [LeaveReason::Nonsense]);
    assert!((1..5).all(|slot| lost(&cell, slot).is_empty()), "they have acted upon the same");
    cell.finish_clean();
}

#[test]
fn half_against_half_stops_the_group_and_the_cell_goes_on() {
    let mut cell = Cell::settled(4, 52);
    let view = cell.cell_view(0).expect("in a view").0;
    cell.cannot_read(&[2, 3], 0, "a");
    talk(&mut cell, &[0, 1, 2, 3]);
    cell.run_for(2 * SECOND);
    for slot in 0..4 {
        assert_eq!((lost(&cell, slot).as_slice(), members(&cell, slot)), (&[LeaveReason::Stopped][..], 0), "p{slot}");
    }
    assert_eq!(cell.cell_view(0).expect("in a view").0, view);
    // A process that wants the group founds it again, as another one.
    (0..4).for_each(|slot| cell.join(slot, "a"));
    cell.settle();
    talk(&mut cell, &[0, 1, 2, 3]);
    cell.settle();
    assert!((0..4).all(|slot| members(&cell, slot) == 4));
    cell.finish_clean();
}

/// A process that is gone has no vote. With half against half, the longer prefix counts, and no member stops.
#[test]
fn half_against_half_without_the_sender_goes_on() {
    let mut cell = Cell::settled(5, 53);
    cell.cannot_read(&[1, 2], 0, "a");
    // It does not learn of that, and so decides nothing itself.
    [1, 2].into_iter().for_each(|slot| cell.cut(slot, 0));
    cell.multicast(0, "a", Order::Fifo, Uniformity::Plain, 40).expect("in the group");
    cell.run_for(MS);
    cell.crash(0);
    cell.settle();
    for slot in 1..5 {
        let expected: &[LeaveReason] = if slot < 3 { &[LeaveReason::Anew] } else { &[] };
        assert_eq!((lost(&cell, slot).as_slice(), members(&cell, slot)), (expected, 4), "p{slot}");
    }
    cell.finish_clean();
}

/// In a cell of two no process can know which of them is at fault.
#[test]
fn of_two_the_group_stops() {
    let mut cell = Cell::settled(2, 54);
    cell.cannot_read(&[1], 0, "a");
    talk(&mut cell, &[0, 1]);
    cell.run_for(2 * SECOND);
    assert!((0..2).all(|slot| lost(&cell, slot) == [LeaveReason::Stopped]));
    cell.finish_clean();
}

/// A group that stopped is joined again by a process that asks for it, and by none that comes back as a new
/// incarnation.
#[test]
fn who_comes_back_does_not_join_a_group_that_stopped() {
    let mut cell = Cell::settled(4, 55);
    cell.cannot_read(&[2, 3], 0, "a");
    talk(&mut cell, &[0, 1, 2, 3]);
    cell.run_for(2 * SECOND);
    (0..3).for_each(|slot| cell.join(slot, "a"));
    cell.run_for(2 * SECOND);
    cell.cut_off(&[3]);
    cell.run_for(4 * SECOND);
    cell.heal();
    assert!(cell.run_until(5 * SECOND, |cell| cell.exclusions(3) == 1));
    cell.run_for(5 * SECOND);
    assert!(cell.cell_view(3).is_some_and(|(_, members)| members.len() == 4), "it is back in the cell");
    assert_eq!([0, 1, 2, 3].map(|slot| members(&cell, slot)), [3, 3, 3, 0]);
    cell.finish_clean();
}

/// Its application takes nothing for a while, and asks for the group before it is notified that the group of that name
/// stopped. That notice concerns the old group, and it stays in the new one, as another incarnation too.
#[test]
fn who_asks_anew_before_it_is_told_of_the_stop_is_in_the_new_group() {
    let mut cell = Cell::settled(4, 56);
    cell.set_takes(1, false);
    cell.cannot_read(&[2, 3], 0, "a");
    talk(&mut cell, &[0, 1, 2, 3]);
    cell.run_for(2 * SECOND);
    assert_eq!([0, 1, 2, 3].map(|slot| lost(&cell, slot).len()), [1, 0, 1, 1], "p1 is not told yet");
    (0..4).for_each(|slot| cell.join(slot, "a"));
    cell.run_for(SECOND);
    cell.set_takes(1, true);
    cell.settle();
    assert_eq!([0, 1, 2, 3].map(|slot| (lost(&cell, slot).len(), members(&cell, slot))), [(1, 4); 4]);
    cell.cut_off(&[1]);
    cell.run_for(4 * SECOND);
    cell.heal();
    assert!(cell.run_until(5 * SECOND, |cell| cell.exclusions(1) == 1));
    cell.settle();
    assert_eq!([0, 1, 2, 3].map(|slot| members(&cell, slot)), [4; 4]);
    cell.finish_clean();
}

/// The group stops while a joiner is in it and still takes its state. It comes into the next group like any joiner, with
/// that group's state.
#[test]
fn who_takes_the_state_of_a_group_that_stops_takes_that_of_the_next() {
    let mut cell = Cell::settled(4, 61);
    cell.leave_group(3, "a").expect("in the group");
    cell.settle();
    cell.join(3, "a");
    assert!(cell.run_until(SECOND, |cell| cell.activity(3).transferring));
    // The donor's record ends when its application is told of the view with the joiner.
    assert!(cell.run_until(SECOND, |cell| (0..3).any(|slot| cell.activity(slot).giving)));
    let donor = (0..3).find(|&slot| cell.activity(slot).giving).expect("one gives");
    let others: Vec<usize> = (0..3).filter(|slot| *slot != donor).collect();
    cell.set_takes(donor, false);
    assert!(cell.run_until(SECOND, |cell| members(cell, others[0]) == 4));
    // The others found the next group before the joiner asks for it.
    cell.set_weather_around(3, Weather { base_ns: 50_000_000, ..Weather::FINE });
    cell.cannot_read(&[others[1], donor], others[0], "a");
    cell.multicast(others[0], "a", Order::Fifo, Uniformity::Plain, 40).expect("in the group");
    let is_told = |cell: &Cell| others.iter().all(|&slot| lost(cell, slot) == [LeaveReason::Stopped]);
    assert!(cell.run_until(2 * SECOND, is_told));
    others.iter().for_each(|&slot| cell.join(slot, "a"));
    talk(&mut cell, &others);
    assert!(cell.run_until(2 * SECOND, |cell| others.iter().all(|&slot| members(cell, slot) > 1)));
    cell.set_takes(donor, true);
    cell.run_for(SECOND);
    assert_eq!((lost(&cell, donor), lost(&cell, 3)), (vec![LeaveReason::Stopped], vec![]));
    cell.join(donor, "a");
    cell.settle();
    talk(&mut cell, &[0, 1, 2, 3]);
    cell.settle();
    assert_eq!([0, 1, 2, 3].map(|slot| members(&cell, slot)), [4; 4]);
    cell.finish_clean();
}

/// A cell whose first member lost group "a" just now, because no other could read its packet.
fn with_a_sender_of_nonsense(members: usize, seed: u64) -> Cell {
    let mut cell = Cell::settled(members, seed);
    let others: Vec<usize> = (1..members).collect();
    cell.cannot_read(&others, 0, "a");
    cell.multicast(0, "a", Order::Fifo, Uniformity::Plain, 40).expect("in the group");
    assert!(cell.run_until(2 * SECOND, |cell| lost(cell, 0) == [LeaveReason::Nonsense]));
    cell
}

/// The sender is excluded from the cell only if the others are a quorum. Here one of them dies before, and the two that
/// are left need it.
#[test]
fn a_sender_of_nonsense_stays_while_the_others_are_no_quorum() {
    let mut cell = with_a_sender_of_nonsense(4, 53);
    cell.crash(3);
    let drops_it = |cell: &Cell| cell.cell_view(1).is_some_and(|(_, members)| !members.contains(&3));
    assert!(cell.run_until(5 * SECOND, drops_it), "they go on");
    cell.start(3);
    cell.settle();
    assert_eq!(cell.exclusions(0), 1, "then the others are a quorum");
    cell.finish_clean();
}

/// Likewise where the other one lives and is heard, and has to go because it hears nobody.
#[test]
fn a_sender_of_nonsense_stays_while_another_one_goes_that_is_heard() {
    let mut cell = with_a_sender_of_nonsense(3, 59);
    (0..2).for_each(|slot| cell.cut(slot, 2));
    let drops_it = |cell: &Cell| cell.cell_view(1).is_some_and(|(_, members)| !members.contains(&2));
    assert!(cell.run_until(10 * SECOND, drops_it), "they go on");
    cell.heal();
    cell.settle();
    assert_eq!(cell.exclusions(0), 1, "then the others are a quorum");
    cell.finish_clean();
}

/// Processes that join while it stays learn of it with the directory, because those that saw it happen may be gone when
/// it can be excluded.
#[test]
fn who_joins_beside_a_sender_of_nonsense_knows_of_it() {
    let mut cell = with_a_sender_of_nonsense(3, 54);
    for gone in [2, 1] {
        cell.crash(gone);
        let pair = |cell: &Cell| cell.cell_view(0).is_some_and(|(_, members)| members.len() == 2);
        assert!(cell.run_until(5 * SECOND, pair), "without p{gone}");
        assert_eq!(cell.exclusions(0), 0, "the other alone is no quorum");
        cell.start(gone);
        if gone == 2 {
            let three =
                |cell: &Cell| cell.cell_view(0).is_some_and(|(_, members)| members.contains(&2) && members.len() == 3);
            assert!(cell.run_until(5 * SECOND, three), "p2 is back");
        }
    }
    assert!(
        cell.run_until(10 * SECOND, |cell| cell.exclusions(0) == 1),
        "p1 and p2 are a quorum, and both joined beside it"
    );
    cell.settle();
    cell.finish_clean();
}

/// Each of three cannot read another one. In each stream they are the fewer, so all three would take the state anew.
#[test]
fn a_group_of_which_nobody_keeps_the_state_stops() {
    let mut cell = Cell::settled(3, 57);
    for (reader, sender) in [(1, 0), (2, 1), (0, 2)] {
        cell.cannot_read(&[reader], sender, "a");
    }
    for slot in 0..3 {
        cell.multicast(slot, "a", Order::Fifo, Uniformity::Plain, 40).expect("in the group");
    }
    cell.run_for(2 * SECOND);
    assert!((0..3).all(|slot| lost(&cell, slot) == [LeaveReason::Stopped]));
    cell.finish_clean();
}

/// A message from one member to another makes no sense there. The reader counts the other as unheard from then on, so
/// one of the two is out before silence would be noticed.
#[test]
fn who_cannot_be_read_on_its_channel_goes_as_soon_as_who_is_not_heard() {
    for (reader, sender) in [(1, 0), (0, 4), (3, 2)] {
        let mut cell = Cell::settled(5, 58).titled(format!("{reader} cannot read {sender}"));
        blind_channel(&mut cell, reader, sender);
        let is_decided = |cell: &Cell| {
            [reader, sender].iter().any(|slot| cell.cell_view(*slot).is_some_and(|(_, members)| members.len() == 4))
        };
        assert!(cell.run_until(SECOND, is_decided), "both count as heard");
        cell.settle();
    }
}
