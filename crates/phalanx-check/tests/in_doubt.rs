//! S9: a message to one process was received, or its sender was notified.

mod common;

use common::{World, id};
use phalanx_check::Property;
use phalanx_trace::{Event, LeaveReason};

/// The third member of a cell sends three messages to the first, which delivers `received` of them, and leaves. It is
/// notified that `doubt` are in doubt.
fn leaves(received: u64, doubt: Option<u64>) -> World {
    let mut w = World::cell(3);
    for k in 1..=3 {
        w.push(2, Event::P2pSend { to: id(0), k, hash: k });
    }
    for k in 1..=received {
        w.push(0, Event::P2pDeliver { from: id(2), k, hash: k });
    }
    w.push(2, Event::LeaveAsked);
    for p in 0..2 {
        w.cell_view(p, 2, &[0, 1], &[(2, LeaveReason::Left)]);
    }
    if let Some(messages) = doubt {
        w.push(2, Event::InDoubt { to: id(0), messages });
    }
    w.push(2, Event::Left);
    w.push(2, Event::End);
    w
}

#[test]
fn s9_received_or_in_doubt_holds() {
    for (received, doubt) in [(3, None), (2, Some(1)), (0, Some(3)), (3, Some(2))] {
        let mut w = leaves(received, doubt);
        w.end(&[0, 1]);
        w.holds(&[Property::S9]);
        assert_eq!(w.report().instances(Property::S9), 1);
    }
}

#[test]
fn s9_not_received_and_not_told() {
    for (received, doubt) in [(2, None), (1, Some(1))] {
        let mut w = leaves(received, doubt);
        w.end(&[0, 1]);
        w.breaks(Property::S9);
    }
}

#[test]
fn s9_asks_nothing_of_a_receiver_that_crashed() {
    let mut w = leaves(1, None);
    w.crash(0);
    w.end(&[1]);
    assert_eq!(w.report().instances(Property::S9), 0);
}

#[test]
fn s9_asks_nothing_where_traces_have_no_word_for_it() {
    let mut w = leaves(1, None);
    w.end(&[0, 1]);
    w.traces.iter_mut().for_each(|trace| trace.header.format = phalanx_trace::FORMAT_IN_DOUBT - 1);
    assert_eq!(w.report().instances(Property::S9), 0);
}

#[test]
fn e1_more_in_doubt_than_was_sent() {
    for doubt in [0, 4] {
        let mut w = leaves(3, Some(doubt));
        w.end(&[0, 1]);
        w.breaks(Property::E1);
    }
}
