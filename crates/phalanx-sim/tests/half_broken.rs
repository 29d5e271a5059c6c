//! Members that are neither whole nor dead: the others hear them, and one of their sockets or channels does not work.
//! The members on no faulty path go on after a bounded time.

use std::time::Duration;

use phalanx_core::wire::Kind;
use phalanx_core::{Order, TrafficClass, Uniformity};
use phalanx_sim::{Cell, Packet, SUSPECT_AFTER, WorldSettings, send_until};
use phalanx_trace::LeaveReason;

/// Bound, in multiples of `suspect_after`, until the others have a view without the faulty member.
const BOUND: u32 = 10;

fn bound() -> Duration {
    SUSPECT_AFTER * BOUND
}

/// Five members. The one with this rank loses the packets for which `is_lost` returns true, given its slot. Returns its
/// slot, and the cell.
fn broken(rank: usize, is_lost: impl Fn(&Packet, usize) -> bool + 'static) -> (Cell, usize) {
    let mut cell = Cell::settled(5, 31 + rank as u64).titled(format!("rank {rank}"));
    let (_, ranks) = cell.cell_view(0).expect("it is in a view");
    let faulty = ranks[rank];
    cell.lose_if(move |packet| is_lost(packet, faulty));
    (cell, faulty)
}

/// Heals the cell, and checks that all are in one view again.
fn mend(mut cell: Cell) {
    cell.lose_if(|_| false);
    cell.settle();
    cell.finish_clean();
}

/// It hears heartbeats, but requests on its control channel do not arrive, or its answers do not. Then another member
/// dies.
#[test]
fn a_half_deaf_member_stops_no_view_change() {
    for rank in 0..5 {
        for is_deaf in [true, false] {
            let (mut cell, faulty) = broken(rank, move |packet, faulty| {
                packet.kind == Kind::Control && faulty == if is_deaf { packet.to } else { packet.from }
            });
            let dead = (0..5).rev().find(|slot| *slot != faulty).expect("there are five");
            cell.crash(dead);
            let others: Vec<usize> = (0..5).filter(|slot| ![faulty, dead].contains(slot)).collect();
            let went_on = cell.run_until(bound(), |cell| cell.are_alone(&others));
            assert!(went_on, "rank {rank}, deaf {is_deaf}: no view without it");
            cell.start(dead);
            cell.join(dead, "a");
            mend(cell);
        }
    }
}

/// Its data socket works, and its control socket does not: both ways, or one way.
#[test]
fn a_member_without_a_control_socket_is_left_out() {
    for rank in 0..5 {
        for ways in [[true, true], [true, false], [false, true]] {
            let (mut cell, faulty) = broken(rank, move |packet, faulty| {
                packet.class == TrafficClass::Control
                    && (ways[0] && packet.to == faulty || ways[1] && packet.from == faulty)
            });
            let others: Vec<usize> = (0..5).filter(|slot| *slot != faulty).collect();
            let went_on = send_until(&mut cell, bound(), |cell| cell.are_alone(&others));
            assert!(went_on, "rank {rank}, to and from it {ways:?}: no view without it");
            mend(cell);
        }
    }
}

/// All iterations are late, as on a starved host. That does not hide the silence of a dead member.
#[test]
fn members_whose_turns_are_all_late_find_who_died() {
    for turn_ms in [160, 200, 250] {
        let mut settings = WorldSettings::quiet(5);
        settings.late = (0..4).map(|slot| (slot, turn_ms * 1_000_000)).collect();
        let mut cell = Cell::new(settings, 71).titled(format!("turns of {turn_ms} ms"));
        (0..5).for_each(|slot| cell.start(slot));
        assert!(
            cell.run_until(Duration::from_secs(60), |cell| cell.are_alone(&[0, 1, 2, 3, 4])),
            "turns of {turn_ms} ms"
        );
        cell.run_for(Duration::from_secs(5));
        let view = cell.cell_view(0).map(|(view, _)| view);
        cell.crash(4);
        let goes_on = |cell: &Cell| cell.cell_view(0).map(|(view, _)| view) > view;
        assert!(cell.run_until(bound(), goes_on), "turns of {turn_ms} ms");
        assert!((0..4).all(|slot| cell.exclusions(slot) == 0));
    }
}

/// Its data socket does not work, both ways or one way; the cell has nothing to send, or much.
#[test]
fn a_member_without_a_data_socket_is_left_out() {
    for rank in 0..5 {
        for (sends, ways) in
            [(true, [true, true]), (true, [true, false]), (true, [false, true]), (false, [true, false])]
        {
            let (mut cell, faulty) = broken(rank, move |packet, faulty| {
                packet.class == TrafficClass::Data
                    && (ways[0] && packet.to == faulty || ways[1] && packet.from == faulty)
            });
            let others: Vec<usize> = (0..5).filter(|slot| *slot != faulty).collect();
            let is_over = |cell: &Cell| cell.are_alone(&others);
            let went_on =
                if sends { send_until(&mut cell, bound(), is_over) } else { cell.run_until(bound(), is_over) };
            assert!(went_on, "rank {rank}, to and from it {ways:?}, traffic {sends}: no view without it");
            assert_eq!(cell.reasons(others[0]), [LeaveReason::NoProgress]);
            mend(cell);
        }
    }
}

/// Heartbeats and short messages pass, and long packets do not, on either socket.
#[test]
fn a_member_that_loses_long_packets_is_left_out() {
    for class in [TrafficClass::Data, TrafficClass::Control] {
        for rank in [0, 2, 4] {
            let (mut cell, faulty) = broken(rank, move |packet, faulty| {
                packet.class == class && packet.to == faulty && packet.len_bytes > 1000
            });
            let others: Vec<usize> = (0..5).filter(|slot| *slot != faulty).collect();
            let went_on = cell.run_until(bound(), |cell| cell.are_alone(&others));
            assert!(went_on, "rank {rank}, {class:?}: no view without it");
            mend(cell);
        }
    }
}

/// All packets of one kind from it, or to it, are lost: its multicasts, or its control channel, on which the token of
/// abcasts travels, too. Probes pass, and missing acknowledgements show which end is at fault. The others go on,
/// without it if need be.
#[test]
fn a_member_of_which_packets_of_one_kind_are_lost_holds_up_nobody() {
    for kind in [Kind::Control, Kind::Multicast] {
        for rank in 0..5 {
            for is_deaf in [false, true] {
                let (mut cell, faulty) = broken(rank, move |packet, faulty| {
                    packet.kind == kind && faulty == if is_deaf { packet.to } else { packet.from }
                });
                let others: Vec<usize> = (0..5).filter(|slot| *slot != faulty).collect();
                // The sender changes, so that the token moves.
                let mut turn = 0;
                let mut send_for = |cell: &mut Cell, time: Duration| {
                    let until = cell.now() + time;
                    while cell.now() < until {
                        turn = (turn + 1) % 5;
                        for _ in 0..3 {
                            let _ = cell.multicast(turn, "a", Order::Total, Uniformity::Uniform, 20);
                            cell.run_for(Duration::from_millis(30));
                        }
                    }
                };
                send_for(&mut cell, bound());
                let before: Vec<u64> = others.iter().map(|slot| cell.delivered(*slot)).collect();
                send_for(&mut cell, Duration::from_secs(2));
                for (slot, before) in others.iter().zip(before) {
                    let delivered = cell.delivered(*slot) - before;
                    assert!(delivered > 30, "{kind:?}, rank {rank}, deaf {is_deaf}: {delivered} in 2 s at slot {slot}");
                }
                mend(cell);
            }
        }
    }
}

/// Only one path loses data, one way. Whichever member probes it finds the younger end at fault, and the older one
/// stays.
#[test]
fn of_a_path_that_loses_data_the_younger_end_goes() {
    for (older, younger) in [(0, 1), (1, 3), (3, 4)] {
        for back in [false, true] {
            let mut cell =
                Cell::settled(5, 71 + older as u64).titled(format!("ranks {older} and {younger}, back {back}"));
            let (_, ranks) = cell.cell_view(0).expect("it is in a view");
            let (from, to) = if back { (ranks[younger], ranks[older]) } else { (ranks[older], ranks[younger]) };
            cell.lose_if(move |packet| packet.class == TrafficClass::Data && (packet.from, packet.to) == (from, to));
            let others: Vec<usize> = (0..5).filter(|slot| *slot != ranks[younger]).collect();
            assert!(cell.run_until(bound(), |cell| cell.are_alone(&others)), "no view without the younger end");
            mend(cell);
        }
    }
}

/// Handshakes to the coordinator are lost, or its own, or both, and everything else passes. Another member takes in a
/// process that comes, and all members stay.
#[test]
fn a_coordinator_without_handshakes_keeps_nobody_out() {
    for ways in [[true, true], [true, false], [false, true]] {
        let (mut cell, first) = broken(0, move |packet, faulty| {
            packet.kind == Kind::Handshake && (ways[0] && packet.to == faulty || ways[1] && packet.from == faulty)
        });
        let (_, ranks) = cell.cell_view(first).expect("it is in a view");
        let comes = ranks[4];
        cell.leave(comes);
        assert!(cell.run_until(bound(), |cell| !cell.runs(comes)), "it has left");
        cell.start(comes);
        let is_in = |cell: &Cell| cell.are_alone(&[0, 1, 2, 3, 4]);
        assert!(cell.run_until(SUSPECT_AFTER * 4, is_in), "to and from the coordinator {ways:?}: nobody takes it in");
        let view = cell.cell_view(first);
        cell.run_for(SUSPECT_AFTER * 10);
        assert_eq!(cell.cell_view(first), view, "to and from the coordinator {ways:?}: the view has changed");
        mend(cell);
    }
}

/// Heartbeats alone are lost from one member to another, and a view begins. So the other never learns that the first one
/// has installed it, and hears it all the same. The younger end goes, whichever member looks at it.
#[test]
fn of_a_path_that_loses_heartbeats_the_younger_end_goes() {
    for (from, to) in [(0, 2), (2, 0), (1, 3), (3, 1)] {
        let mut cell = Cell::settled(5, 83 + from as u64).titled(format!("from rank {from} to rank {to}"));
        let (_, ranks) = cell.cell_view(0).expect("it is in a view");
        let path = (ranks[from], ranks[to]);
        cell.lose_if(move |packet| packet.kind == Kind::BestEffortMulticast && (packet.from, packet.to) == path);
        cell.leave(ranks[4]);
        let younger = ranks[from.max(to)];
        let others: Vec<usize> = (0..5).filter(|slot| ![younger, ranks[4]].contains(slot)).collect();
        assert!(cell.run_until(bound(), |cell| cell.are_alone(&others)), "from {from} to {to}: no view without it");
        assert!(others.iter().all(|slot| cell.exclusions(*slot) == 0), "from {from} to {to}: another one went");
        cell.start(ranks[4]);
        cell.join(ranks[4], "a");
        mend(cell);
    }
}

/// No data passes anywhere, for long: all members are late, and all of them stay.
#[test]
fn a_cell_without_any_data_loses_nobody() {
    let mut cell = Cell::settled(5, 3).titled("no data passes");
    let before = cell.cell_view(0).map(|(view, _)| view);
    cell.lose_if(|packet| packet.class == TrafficClass::Data);
    cell.run_for(SUSPECT_AFTER * 30);
    for slot in 0..5 {
        assert_eq!(cell.cell_view(slot).map(|(view, _)| view), before, "slot {slot} has another view");
    }
    mend(cell);
}

/// A member that stops for less than `suspect_after`, again and again, at any moment between two probes, stays.
#[test]
fn short_stops_exclude_nobody() {
    let mut cell = Cell::settled(5, 9).titled("short stops");
    let before = cell.cell_view(0).map(|(view, _)| view);
    for stop in 0..40 {
        let slot = stop % 5;
        cell.pause(slot);
        cell.run_for(SUSPECT_AFTER - Duration::from_millis(150));
        cell.resume(slot);
        cell.run_for(Duration::from_millis(1_030));
    }
    for slot in 0..5 {
        assert_eq!(cell.cell_view(slot).map(|(view, _)| view), before, "slot {slot} has another view");
    }
    cell.finish_clean();
}
