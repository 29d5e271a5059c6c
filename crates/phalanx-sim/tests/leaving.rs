//! Messages to one process from a member that leaves the cell (`docs/orphans.md`, *Leaving*).

use std::time::Duration;

use phalanx_core::ViewNumber;
use phalanx_core::wire::Kind;
use phalanx_sim::{Cell, Packet, Workload, WorldSettings};
use phalanx_trace::Event;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Number of messages of which a process was notified that they are in doubt.
fn in_doubt(cell: &Cell, slot: usize) -> u64 {
    let records = cell.traces(slot).iter().flat_map(|trace| &trace.records);
    let messages = records.filter_map(|record| match &record.event {
        Event::InDoubt { messages, .. } => Some(*messages),
        _ => None,
    });
    messages.sum()
}

/// Number of point-to-point messages that a process delivered.
fn received(cell: &Cell, slot: usize) -> usize {
    let records = cell.traces(slot).iter().flat_map(|trace| &trace.records);
    records.filter(|record| matches!(record.event, Event::P2pDeliver { .. })).count()
}

fn of_the_first(packet: &Packet) -> bool {
    packet.from == 0 && packet.to == 1 && packet.kind == Kind::Data
}

/// None of its packets arrives for a moment. It leaves when the receiver has the message.
#[test]
fn a_leave_waits_for_what_was_sent_to_one() {
    let mut cell = Cell::settled(3, 1);
    cell.lose_if(of_the_first);
    for _ in 0..5 {
        cell.send_to(0, 1, 100).expect("it is accepted");
    }
    cell.leave(0);
    cell.run_for(2 * SECOND);
    assert!(cell.runs(0) && received(&cell, 1) == 0);
    cell.heal();
    assert!(cell.run_until(2 * SECOND, |cell| !cell.runs(0)));
    assert_eq!((received(&cell, 1), in_doubt(&cell, 0)), (5, 0));
    cell.settle();
    cell.finish_clean();
}

/// The message never arrives. The leave is bounded, and reports how many are in doubt.
#[test]
fn what_is_never_acknowledged_is_in_doubt() {
    let mut cell = Cell::settled(3, 2);
    cell.send_to(0, 1, 100).expect("it is accepted");
    cell.run_for(20 * MS);
    cell.lose_if(of_the_first);
    for _ in 0..3 {
        cell.send_to(0, 1, 100).expect("it is accepted");
    }
    cell.leave(0);
    cell.run_for(9 * SECOND);
    assert!(cell.runs(0));
    assert!(cell.run_until(3 * SECOND, |cell| !cell.runs(0)));
    assert_eq!((received(&cell, 1), in_doubt(&cell, 0)), (1, 3));
    cell.settle();
    cell.finish_clean();
}

/// No leave waits for the acks of a process that is out of the view.
#[test]
fn a_leave_does_not_wait_for_one_that_is_gone() {
    let mut cell = Cell::settled(4, 3);
    cell.cut_off(&[1]);
    cell.send_to(0, 1, 100).expect("it is accepted");
    cell.leave(0);
    assert!(cell.run_until(3 * SECOND, |cell| !cell.runs(0)));
    assert_eq!((received(&cell, 1), in_doubt(&cell, 0)), (0, 0), "it was told that the receiver is gone");
    cell.heal();
    cell.settle();
    cell.finish_clean();
}

/// It continues to send while the others let it go. A member that knows it to be out drops such messages, so they are
/// in doubt.
#[test]
fn what_comes_after_the_leave_is_in_doubt() {
    let (mut doubted, mut arrived) = (0, 0);
    for step in 0..40 {
        let mut cell = Cell::settled(4, 10 + step);
        // It does not hear that the others have installed the view without it, and stays for a while.
        cell.lose_if(|packet| packet.to == 3 && packet.kind == Kind::BestEffortMulticast);
        cell.leave(3);
        cell.run_for(Duration::from_micros(20 * step));
        let mut sent = 0;
        for _ in 0..40 {
            sent += usize::from(cell.runs(3) && cell.send_to(3, 1, 100).is_ok());
            cell.run_for(Duration::from_micros(50));
        }
        assert!(cell.run_until(15 * SECOND, |cell| !cell.runs(3)));
        cell.heal();
        let doubt = usize::try_from(in_doubt(&cell, 3)).expect("a few");
        assert!(received(&cell, 1) + doubt >= sent, "{} and {doubt} of {sent}", received(&cell, 1));
        doubted += doubt;
        arrived += received(&cell, 1);
        cell.settle();
        cell.finish_clean();
    }
    assert!(doubted > 0 && arrived > 0, "{doubted} in doubt, {arrived} received");
}

/// A joiner gets only the beginning of a group's state, and is heard all the same. It is given up after a while, and
/// holds up no leave.
#[test]
fn a_leave_does_not_wait_for_a_joiner_that_comes_no_farther() {
    for seed in 60..64 {
        let quiet = Workload { gap_ns: 1_000_000_000_000, second_group_ppm: 0, reply_ppm: 0, ..Workload::USUAL };
        let workload = Workload { state_bytes: 100_000, ..quiet };
        let mut cell = Cell::new(WorldSettings { workload: Some(workload), ..WorldSettings::quiet(5) }, seed);
        (0..5).for_each(|slot| cell.start(slot));
        cell.settle();
        for slot in [2, 3] {
            cell.join(slot, "two");
            cell.settle();
        }
        let mut passed = 0;
        cell.lose_if(move |packet| {
            let is_state = packet.to == 1 && packet.kind == Kind::Data && packet.len_bytes > 600;
            passed += u64::from(is_state);
            // Its request to another donor is lost, too.
            packet.kind == Kind::Data && (is_state || packet.from == 1) && passed > 2
        });
        cell.join(1, "two");
        let donor = |cell: &Cell| [2, 3].into_iter().find(|&slot| cell.activity(slot).giving);
        assert!(cell.run_until(SECOND, |cell| donor(cell).is_some()));
        let Some(donor) = donor(&cell) else { continue };
        cell.run_for(9 * SECOND);
        assert!(cell.activity(donor).giving);
        cell.run_for(2 * SECOND);
        assert!(!cell.activity(donor).giving);
        cell.leave(donor);
        assert!(cell.run_until(SECOND, |cell| !cell.runs(donor)));
        cell.heal();
        cell.settle();
        assert!(cell.group_view(1, "two").is_some_and(|(view, _)| view > ViewNumber(2)));
        cell.finish_clean();
    }
}
