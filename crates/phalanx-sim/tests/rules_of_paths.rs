//! Stories each of which is about one rule of `docs/progress.md`: who is checked, who goes, and for what nobody goes.

use std::cell::Cell as Shared;
use std::rc::Rc;
use std::time::Duration;

use phalanx_core::wire::Kind;
use phalanx_core::{Order, TrafficClass, Uniformity};
use phalanx_sim::{Cell, SUSPECT_AFTER, WorldSettings, send_until};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A member gets no control message from the moment on in which the others accepted a view. It is heard, and it never
/// installs that view. It goes as soon as a silent one, which is long before its missing acknowledgements would show.
#[test]
fn who_never_installs_the_view_goes_like_one_that_is_not_heard() {
    let suspect_after = 450 * MS;
    let settings = WorldSettings { patience: Some((100 * MS, suspect_after)), ..WorldSettings::quiet(5) };
    let mut cell = Cell::new(settings, 21);
    (0..5).for_each(|slot| cell.start(slot));
    cell.settle();
    let (_, ranks) = cell.cell_view(0).expect("in a view");
    let (faulty, leaver) = (ranks[2], ranks[4]);
    let deaf = Rc::new(Shared::new(false));
    let is_deaf = Rc::clone(&deaf);
    cell.lose_if(move |packet| is_deaf.get() && packet.kind == Kind::Control && packet.to == faulty);
    cell.leave(leaver);
    assert!(cell.run_until(SECOND, |cell| cell.accepted(ranks[1]).is_some()));
    deaf.set(true);
    let without_leaver = |cell: &Cell| !cell.cell_view(ranks[0]).is_some_and(|(_, members)| members.contains(&leaver));
    assert!(cell.run_until(SECOND, without_leaver));
    let others = [ranks[0], ranks[1], ranks[3]];
    let is_out = |cell: &Cell| {
        let (_, members) = cell.cell_view(ranks[0]).unwrap_or_default();
        others.iter().all(|slot| members.contains(slot)) && members.len() == 3
    };
    assert!(cell.run_until(suspect_after * 2 + 600 * MS, is_out), "it counts as heard");
    cell.lose_if(|_| false);
    cell.start(leaver);
    cell.settle();
    cell.finish_clean();
}

/// A member sends more than its interface takes, and what goes to one of the others is lost at first. Nothing is sent
/// again before the interface has room, which takes longer than others are given to acknowledge.
#[test]
fn a_full_interface_is_not_the_fault_of_the_others() {
    for sender in 0..3 {
        let settings = WorldSettings { egress: Some(6), ..WorldSettings::quiet(3) };
        let mut cell = Cell::new(settings, 23).titled(format!("slot {sender} sends"));
        for slot in 0..3 {
            cell.start(slot);
            cell.join(slot, "a");
        }
        cell.settle();
        let view = cell.cell_view(0).map(|(view, _)| view);
        let other = (sender + 1) % 3;
        cell.lose_if(move |packet| packet.kind == Kind::Multicast && (packet.from, packet.to) == (sender, other));
        for _ in 0..40 {
            let _ = cell.multicast(sender, "a", Order::Fifo, Uniformity::Plain, 1_200);
        }
        cell.run_for(200 * MS);
        cell.lose_if(|_| false);
        cell.run_for(SUSPECT_AFTER * 10);
        assert_eq!(cell.cell_view(0).map(|(view, _)| view), view, "somebody went");
        cell.run_for(20 * SECOND);
        cell.finish_clean();
    }
}

/// The data socket of the oldest member fails. That it has to go is a reason for a ballot, and it is the first of those
/// that may coordinate one.
#[test]
fn who_is_to_go_does_not_coordinate() {
    let mut cell = Cell::settled(5, 24);
    let (_, ranks) = cell.cell_view(0).expect("in a view");
    let oldest = ranks[0];
    cell.lose_if(move |packet| packet.class == TrafficClass::Data && [packet.from, packet.to].contains(&oldest));
    let others: Vec<usize> = (0..5).filter(|slot| *slot != oldest).collect();
    assert!(send_until(&mut cell, SUSPECT_AFTER * 10, |cell| cell.are_alone(&others)), "its ballots change nothing");
    cell.heal();
    cell.settle();
    cell.finish_clean();
}

/// The data socket of a member fails one way: for one younger member at first, and a second later for all. Where the
/// faulty one `is_deaf`, it alone sends, and gets acknowledgements: the other one suspects it. Otherwise the others send,
/// and it suspects the other one. One of the two is known to have a failed path, and the younger one is healthy.
fn fails_for_one_first(faulty: usize, first: usize, is_deaf: bool) {
    let mut cell = Cell::settled(5, 26).titled(format!("rank {faulty} fails for rank {first} first, deaf {is_deaf}"));
    let (_, ranks) = cell.cell_view(0).expect("in a view");
    let (faulty, first) = (ranks[faulty], ranks[first]);
    let others: Vec<usize> = (0..5).filter(|slot| *slot != faulty).collect();
    let fails_for_all = Rc::new(Shared::new(false));
    let for_all = Rc::clone(&fails_for_all);
    cell.lose_if(move |packet| {
        let (end, other) = if is_deaf { (packet.to, packet.from) } else { (packet.from, packet.to) };
        packet.class == TrafficClass::Data && end == faulty && (for_all.get() || other == first)
    });
    let senders = if is_deaf { vec![faulty] } else { others.clone() };
    let send_for = |cell: &mut Cell, time: Duration| {
        let until = cell.now() + time;
        while cell.now() < until && !cell.are_alone(&others) {
            for slot in &senders {
                let _ = cell.multicast(*slot, "a", Order::Fifo, Uniformity::Plain, 20);
            }
            cell.run_for(50 * MS);
        }
    };
    send_for(&mut cell, SECOND);
    fails_for_all.set(true);
    send_for(&mut cell, SUSPECT_AFTER * 12);
    assert!(cell.are_alone(&others), "the faulty member stays");
    assert!(others.iter().all(|slot| cell.exclusions(*slot) == 0), "a healthy member went");
    cell.lose_if(|_| false);
    cell.settle();
    cell.finish_clean();
}

/// Pairs of ranks, the older one first.
const PAIRS: [(usize, usize); 4] = [(0, 1), (0, 4), (1, 3), (3, 4)];

#[test]
fn nobody_goes_before_the_suspecting_end_was_checked() {
    PAIRS.into_iter().for_each(|(faulty, first)| fails_for_one_first(faulty, first, false));
}

#[test]
fn nobody_goes_before_the_suspected_end_was_checked() {
    PAIRS.into_iter().for_each(|(faulty, first)| fails_for_one_first(faulty, first, true));
}

/// Runs until these are in a later view; false: they are not within `limit`.
fn next_view(cell: &mut Cell, limit: Duration, slots: &[usize]) -> bool {
    let views = |cell: &Cell| slots.iter().filter_map(|slot| Some(cell.cell_view(*slot)?.0)).min();
    let before = views(cell);
    cell.run_until(limit, |cell| views(cell) > before)
}

/// The links from one member to the others fail and work by turns, each for longer than a silence is borne. There is
/// always a suspicion that not all have checked. A member that dies meanwhile goes all the same.
#[test]
fn suspicions_that_change_faster_than_they_are_checked_hold_up_nobody() {
    let settings = WorldSettings { patience: Some((100 * MS, 450 * MS)), ..WorldSettings::quiet(7) };
    let mut cell = Cell::new(settings, 27);
    (0..7).for_each(|slot| cell.start(slot));
    cell.settle();
    let (_, ranks) = cell.cell_view(0).expect("in a view");
    let (dead, faulty, others) = (ranks[2], ranks[6], [ranks[0], ranks[1], ranks[3], ranks[4], ranks[5]]);
    let (every_ms, fails_for_ms) = (1_500, 1_300);
    let mut fails = [false; 5];
    let mut changes = |cell: &mut Cell, from_ms: u64, to_ms: u64| {
        (from_ms..to_ms).step_by(10).any(|at_ms| {
            for (turn, (other, fails)) in (0..).zip(others.into_iter().zip(&mut fails)) {
                let is_due = (at_ms + turn * every_ms / 5) % every_ms < fails_for_ms;
                match std::mem::replace(fails, is_due) {
                    false if is_due => cell.cut(faulty, other),
                    true if !is_due => cell.mend(faulty, other),
                    _ => {}
                }
            }
            next_view(cell, 10 * MS, &others)
        })
    };
    assert!(!changes(&mut cell, 0, 900), "somebody went for links that failed for a moment");
    cell.crash(dead);
    assert!(changes(&mut cell, 900, 3_900), "the dead member stays");
    assert!(cell.runs(faulty));
    cell.heal();
    cell.start(dead);
    cell.settle();
    cell.finish_clean();
}
