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
