//! E1: records that stand where they may not.

mod common;

use common::{GROUP, World, causal, fifo, id};
use phalanx_check::Property;
use phalanx_trace::Event;

#[test]
fn e1_time_goes_backwards() {
    let mut w = World::cell(2);
    w.traces[0].push(1, Event::NonPrimary);
    w.breaks(Property::E1);
}

#[test]
fn e1_sends_skip_a_number() {
    let mut w = World::group(2);
    w.send(fifo(0, 1, 2));
    w.breaks(Property::E1);
}

#[test]
fn e1_records_stand_where_they_may_not() {
    let broken: [fn(&mut World); 12] = [
        |w| w.push(0, Event::Start),
        |w| w.push(0, Event::Crash { incarnation: id(1) }),
        |w| w.push(0, Event::Primary),
        |w| w.push(0, Event::GroupLeft { group: 99 }),
        |w| w.digest(0, 1, 1, 5),
        |w| w.digest(0, 2, 0, 5),
        |w| w.push(0, Event::SnapshotOut { group: GROUP, view: 9, digest: 1 }),
        |w| w.push(0, Event::P2pSend { to: id(1), k: 2, hash: 3 }),
        |w| {
            w.push(0, Event::End);
            w.push(0, Event::NonPrimary);
        },
        |w| {
            w.push(0, Event::LeaveAsked);
            w.push(0, Event::Left);
            w.push(0, Event::NonPrimary);
        },
        |w| {
            let harness = w.harness();
            w.push(harness, Event::NonPrimary);
        },
        |w| {
            let again = w.traces[0].clone();
            w.traces.push(again);
        },
    ];
    for (i, break_it) in broken.iter().enumerate() {
        let mut w = World::group(2);
        break_it(&mut w);
        let report = w.report();
        assert!(report.violated().contains(&Property::E1), "case {i}: {report}");
        assert!(i == 11 || report.violated().len() == 1, "case {i}: {report}");
    }
}

#[test]
fn e1_a_position_without_total_order() {
    let mut w = World::group(2);
    w.send(causal(0, 1, 1));
    w.deliver_at(1, causal(0, 1, 1), 1);
    w.breaks(Property::E1);
}

#[test]
fn e1_holds_for_primary_after_nonprimary() {
    let mut w = World::group(2);
    w.push(0, Event::NonPrimary);
    w.push(0, Event::Primary);
    w.push(0, Event::P2pSend { to: id(1), k: 1, hash: 3 });
    w.push(1, Event::P2pDeliver { from: id(0), k: 1, hash: 3 });
    w.push(0, Event::P2pSend { to: id(1), k: 2, hash: 3 });
    w.holds(&[Property::E1, Property::I1, Property::I3]);
}
