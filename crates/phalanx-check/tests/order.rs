//! O1 to O5: a good and a broken run for each.

mod common;

use common::{CELL, GROUP, M, World, causal, fifo, id, total};
use phalanx_check::Property;
use phalanx_trace::{Event, Header, Trace};

#[test]
fn o1_in_order_holds_and_a_gap_does_not() {
    let mut w = World::group(2);
    w.multicast(fifo(0, 1, 1), &[0, 1]);
    w.multicast(causal(0, 1, 2), &[0, 1]);
    w.holds(&[Property::O1]);
    let mut w = World::group(2);
    w.multicast(fifo(0, 1, 1), &[0]);
    w.multicast(fifo(0, 1, 2), &[0, 1]);
    w.breaks(Property::O1);
}

#[test]
fn o1_swapped() {
    let mut w = World::group(2);
    w.send(fifo(0, 1, 1));
    w.send(fifo(0, 1, 2));
    w.deliver(1, fifo(0, 1, 2));
    w.deliver(1, fifo(0, 1, 1));
    w.breaks(Property::O1);
}

#[test]
fn o1_point_to_point_messages_change_places() {
    let mut w = World::cell(2);
    for (k, hash) in [(1, 5), (2, 6)] {
        w.push(0, Event::P2pSend { to: id(1), k, hash });
    }
    for (k, hash) in [(1, 6), (2, 5)] {
        w.push(1, Event::P2pDeliver { from: id(0), k, hash });
    }
    w.breaks(Property::O1);
}

/// `a` sends `first`; `b` delivers it and answers; `c` delivers the answer first, or last.
fn answer(first: M, answer: M, in_order: bool, positions: [Option<u64>; 2]) -> World {
    let mut w = World::group(3);
    w.send(first);
    w.deliver_at(1, first, positions[0]);
    w.send(answer);
    if in_order {
        w.deliver_at(2, first, positions[0]);
    }
    w.deliver_at(2, answer, positions[1]);
    if !in_order {
        w.deliver_at(2, first, positions[0]);
    }
    w
}

#[test]
fn o2_an_answer_before_its_question() {
    answer(fifo(0, 1, 1), causal(1, 1, 1), true, [None, None]).holds(&[Property::O2]);
    answer(fifo(0, 1, 1), causal(1, 1, 1), false, [None, None]).breaks(Property::O2);
    answer(causal(0, 1, 1), causal(1, 1, 1), false, [None, None]).breaks(Property::O2);
}

#[test]
fn o2_a_fifo_answer_need_not_wait() {
    answer(causal(0, 1, 1), fifo(1, 1, 1), false, [None, None]).holds(&[Property::S5]);
}

#[test]
fn o2_concurrent_messages_come_in_any_order() {
    let mut w = World::group(3);
    let (x, y) = (causal(0, 1, 1), causal(1, 1, 1));
    w.send(x);
    w.send(y);
    w.deliver(2, x);
    w.deliver(2, y);
    w.deliver(0, y);
    w.holds(&[]);
}

#[test]
fn o2_a_past_that_died_with_its_sender() {
    // c sent x, which only a received; a answered with y and both died: b has y without x.
    let mut w = World::group(3);
    let (x, y) = (causal(2, 1, 1), causal(0, 1, 1));
    w.send(x);
    w.deliver(0, x);
    w.send(y);
    w.deliver(1, y);
    w.breaks(Property::O2);
}

#[test]
fn o4_a_total_answer_before_its_question() {
    answer(causal(0, 1, 1), total(1, 1, 1), true, [None, Some(1)]).holds(&[Property::O4]);
    answer(causal(0, 1, 1), total(1, 1, 1), false, [None, Some(1)]).breaks(Property::O4);
}

#[test]
fn o3_two_orders() {
    let run = |at_b: [M; 2]| {
        let mut w = World::group(2);
        w.send(total(0, 1, 1));
        w.send(total(1, 1, 1));
        w.deliver_at(0, total(0, 1, 1), 1);
        w.deliver_at(0, total(1, 1, 1), 2);
        w.deliver_at(1, at_b[0], 1);
        w.deliver_at(1, at_b[1], 2);
        w
    };
    run([total(0, 1, 1), total(1, 1, 1)]).holds(&[Property::O3, Property::O5]);
    run([total(1, 1, 1), total(0, 1, 1)]).breaks(Property::O3);
}

#[test]
fn o3_a_prefix_holds() {
    let mut w = World::group(2);
    w.send(total(0, 1, 1));
    w.send(total(1, 1, 1));
    w.deliver_at(0, total(0, 1, 1), 1);
    w.deliver_at(0, total(1, 1, 1), 2);
    w.deliver_at(1, total(0, 1, 1), 1);
    w.holds(&[Property::O3]);
}

#[test]
fn o3_the_dead_may_have_ordered_otherwise_where_nobody_went_on() {
    let run = |crash: bool| {
        let mut w = World::group(2);
        w.send(total(0, 1, 1));
        w.send(total(1, 1, 1));
        w.deliver_at(0, total(0, 1, 1), 1);
        w.deliver_at(1, total(1, 1, 1), 1);
        if crash {
            w.crash(0);
            w.crash(1);
        }
        w
    };
    run(true).holds(&[Property::O5]);
    run(false).breaks(Property::O3);
}

#[test]
fn o3_survivors_order_the_rest_alike() {
    let run = |swap: bool| {
        let mut w = World::group(3);
        let (x, y) = (total(0, 1, 1), total(1, 1, 1));
        w.send(x);
        w.send(y);
        // The dead process had its own order of plain messages, which is allowed.
        w.deliver_at(2, y, 1);
        w.deliver_at(0, x, 1);
        w.deliver_at(0, y, 2);
        let (first, second) = if swap { (y, x) } else { (x, y) };
        w.deliver_at(1, first, 1);
        w.deliver_at(1, second, 2);
        w.lose(2, &[0, 1]);
        w
    };
    run(false).holds(&[Property::O3]);
    run(true).breaks(Property::O3);
}

#[test]
fn o5_a_number_is_skipped() {
    let mut w = World::group(2);
    w.send(total(0, 1, 1));
    w.deliver_at(0, total(0, 1, 1), 2);
    w.deliver_at(1, total(0, 1, 1), 2);
    w.breaks(Property::O5);
}

#[test]
fn o5_numbers_begin_anew_in_each_view() {
    let run = |position: u64| {
        let mut w = World::group(3);
        w.send(total(0, 1, 1));
        [0, 1].iter().for_each(|&p| w.deliver_at(p, total(0, 1, 1), 1));
        w.lose(2, &[0, 1]);
        w.send(total(0, 2, 1));
        w.deliver_at(0, total(0, 2, 1), position);
        w
    };
    run(1).holds(&[Property::O5]);
    run(2).breaks(Property::O5);
}

/// The others went on by a decree that `c` does not know, and are gone. `c` reforms the cell, and goes on from what it
/// holds.
#[test]
fn o5_a_survivor_that_reforms_does_not_know_the_order_of_the_last_cut() {
    let breaks = |kept: u64, numbers: [u64; 2]| {
        let mut w = World::group(3);
        let ordered = [total(0, 1, 1), total(1, 1, 1)];
        ordered.iter().for_each(|&m| w.send(m));
        for p in [0, 1] {
            ordered.iter().zip(1..).for_each(|(&m, number)| w.deliver_at(p, m, number));
        }
        w.lose(2, &[0, 1]);
        [0, 1].iter().for_each(|&p| w.crash(p));
        w.traces.insert(3, Trace::new(Header::process("cell", "c", 77, "clock")));
        w.push(3, Event::Start);
        w.push(3, Event::JoinAsked { cell: "cell".into() });
        w.push(3, Event::CellView { instance: 1 << 48, view: 1, members: vec![(77, "c".into())], left: vec![] });
        w.push(3, Event::Ancestors { instances: vec![CELL] });
        w.push(3, Event::StateKept { group: GROUP, was: id(2), view: kept, digest: 1 });
        w.replay_at(3, total(1, 1, 1), numbers[0]);
        w.replay_at(3, total(0, 1, 1), numbers[1]);
        let (name, members) = ("ledger".to_owned(), vec![77]);
        w.push(
            3,
            Event::GroupView {
                group: GROUP,
                name,
                view: 9,
                prev: None,
                joined: members.clone(),
                members,
                left: vec![],
            },
        );
        w.report().violated().contains(&Property::O5)
    };
    assert!(!breaks(1, [1, 2]));
    assert!(breaks(2, [1, 2]), "what it goes on from holds the view that followed, so it knows the cut");
    assert!(breaks(1, [2, 1]), "numbers fall");
}

#[test]
fn o5_a_total_message_without_a_number() {
    let mut w = World::group(2);
    w.send(total(0, 1, 1));
    w.deliver_at(0, total(0, 1, 1), None);
    w.breaks(Property::O5);
}
