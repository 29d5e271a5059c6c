//! Cells in which only some members watch each one, and paths of which one socket, or one kind of packets, does not
//! work. The members on no faulty path go on after a bounded time, as they do where everybody watches everybody.

use std::time::Duration;

use phalanx_core::wire::Kind;
use phalanx_core::{Order, TrafficClass, Uniformity};
use phalanx_sim::{Cell, Packet, SUSPECT_AFTER, WorldSettings};
use phalanx_trace::LeaveReason;

/// Bound, in multiples of `suspect_after`, until the others have a view without the faulty member.
const BOUND: u32 = 12;

fn bound() -> Duration {
    SUSPECT_AFTER * BOUND
}

/// A cell of this many members, each with this many watchers. It loses the packets for which `is_lost` returns true,
/// given the slots by rank.
fn broken(
    members: usize,
    watchers: usize,
    is_lost: impl Fn(&Packet, &[usize]) -> bool + 'static,
) -> (Cell, Vec<usize>) {
    let settings = WorldSettings { watchers, ..WorldSettings::quiet(members) };
    let mut cell = Cell::new(settings, 31).titled(format!("{members} members, {watchers} watchers"));
    for slot in 0..members {
        cell.start(slot);
        cell.join(slot, "a");
    }
    cell.settle();
    let (_, ranks) = cell.cell_view(0).expect("it is in a view");
    let slots = ranks.clone();
    cell.lose_if(move |packet| is_lost(packet, &slots));
    (cell, ranks)
}

/// All members multicast until those of these ranks are alone, or the time is over. Returns whether they are.
fn are_alone(cell: &mut Cell, ranks: &[usize], sends: bool, is_out: impl Fn(usize) -> bool) -> bool {
    let mut stay: Vec<usize> = (0..ranks.len()).filter(|rank| !is_out(*rank)).map(|rank| ranks[rank]).collect();
    stay.sort_unstable();
    let until = cell.now() + bound();
    while cell.now() < until {
        for slot in ranks.iter().filter(|_| sends) {
            let _ = cell.multicast(*slot, "a", Order::Fifo, Uniformity::Plain, 20);
        }
        if cell.run_until(Duration::from_millis(100), |cell| cell.are_alone(&stay)) {
            return true;
        }
    }
    false
}

fn mend(mut cell: Cell) {
    cell.lose_if(|_| false);
    cell.settle();
    cell.finish_clean();
}

/// Its data socket does not work, both ways or one way; the cell has nothing to send, or much.
#[test]
fn watched_by_some_a_member_without_a_data_socket_is_left_out() {
    for (members, watchers, faulty) in [(5, 2, 0), (5, 2, 4), (7, 4, 2), (20, 16, 11)] {
        for (sends, to, from) in [(true, true, true), (true, true, false), (true, false, true), (false, true, false)] {
            let (mut cell, ranks) = broken(members, watchers, move |packet, slots| {
                packet.class == TrafficClass::Data
                    && (to && packet.to == slots[faulty] || from && packet.from == slots[faulty])
            });
            let title = format!("rank {faulty} of {members}, to it {to}, from it {from}, traffic {sends}");
            assert!(are_alone(&mut cell, &ranks, sends, |rank| rank == faulty), "{title}: no view without it");
            let other = ranks[usize::from(faulty == 0)];
            assert_eq!(cell.reasons(other), [LeaveReason::NoProgress], "{title}");
            mend(cell);
        }
    }
}

/// Heartbeats and short messages pass, and long packets do not, on either socket.
#[test]
fn watched_by_some_a_member_that_loses_long_packets_is_left_out() {
    for (members, watchers, faulty) in [(5, 2, 4), (7, 4, 0), (20, 6, 13)] {
        for class in [TrafficClass::Data, TrafficClass::Control] {
            let (mut cell, ranks) = broken(members, watchers, move |packet, slots| {
                packet.class == class && packet.to == slots[faulty] && packet.len_bytes > 1000
            });
            let went_on = are_alone(&mut cell, &ranks, false, |rank| rank == faulty);
            assert!(went_on, "rank {faulty} of {members}, {class:?}: no view without it");
            mend(cell);
        }
    }
}

/// Only one path loses data, one way, between neighbours of the watch graph or others. The younger end goes.
#[test]
fn watched_by_some_the_younger_end_of_a_path_goes() {
    for (members, watchers, pairs) in [(6, 2, &[(0, 1), (0, 3), (2, 5)][..]), (9, 4, &[(1, 4)]), (20, 6, &[(0, 5)])] {
        for &(older, younger) in pairs {
            for back in [false, true] {
                let (from, to) = if back { (younger, older) } else { (older, younger) };
                let (mut cell, ranks) = broken(members, watchers, move |packet, slots| {
                    packet.class == TrafficClass::Data && (packet.from, packet.to) == (slots[from], slots[to])
                });
                let went_on = are_alone(&mut cell, &ranks, true, |rank| rank == younger);
                assert!(went_on, "{members} members, from rank {from} to rank {to}: no view without the younger end");
                mend(cell);
            }
        }
    }
}

/// The coordinator cannot reach one member on its control channel. A rival finishes each of its ballots without the
/// change it was to bring, and the next one follows. Such decrees must not restart the search for the path.
#[test]
fn decrees_that_change_nothing_hide_no_broken_path() {
    for (members, watchers) in [(7, 2), (9, 4)] {
        let (mut cell, ranks) = broken(members, watchers, |packet, slots| {
            packet.kind == Kind::Control && (packet.from, packet.to) == (slots[0], slots[3])
        });
        cell.join(ranks[4], "b");
        let went_on = are_alone(&mut cell, &ranks, false, |rank| rank == 3);
        assert!(went_on, "{members} members: no view without the younger end");
        assert!(cell.run_until(SUSPECT_AFTER * 2, |cell| cell.group_view(ranks[4], "b").is_some()));
        mend(cell);
    }
}

/// No data passes anywhere, for long: all members are late, and all of them stay.
#[test]
fn watched_by_some_a_cell_without_any_data_loses_nobody() {
    for (members, watchers) in [(6, 2), (9, 4), (20, 6)] {
        let (mut cell, ranks) = broken(members, watchers, |packet, _| packet.class == TrafficClass::Data);
        let before = cell.cell_view(0).map(|(view, _)| view);
        for _ in 0..30 {
            for slot in &ranks {
                let _ = cell.multicast(*slot, "a", Order::Fifo, Uniformity::Plain, 20);
            }
            cell.run_for(SUSPECT_AFTER);
        }
        for slot in ranks {
            assert_eq!(cell.cell_view(slot).map(|(view, _)| view), before, "slot {slot} of {members} has another view");
        }
        mend(cell);
    }
}
