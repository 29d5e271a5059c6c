//! S1 to S7, I1 to I3, U1 and U2: a good and a broken run for each.

mod common;

use common::{World, causal, fifo, id, options, total, uniform};
use phalanx_check::{Options, Property, check};
use phalanx_trace::{Event, LeaveReason};

#[test]
fn plain_traffic_over_a_view_change_holds() {
    let mut w = World::group(3);
    w.multicast(fifo(0, 1, 1), &[0, 1, 2]);
    w.multicast(fifo(2, 1, 1), &[0, 1]);
    w.lose(2, &[0, 1]);
    w.multicast(fifo(0, 2, 1), &[0, 1]);
    w.end(&[0, 1]);
    w.holds(&[
        Property::S1,
        Property::S2,
        Property::S3,
        Property::S5,
        Property::S6,
        Property::S7,
        Property::I1,
        Property::I2,
        Property::I3,
        Property::V3,
    ]);
}

#[test]
fn s1_delivered_a_view_late() {
    let mut w = World::group(3);
    w.send(fifo(2, 1, 1));
    w.lose(2, &[0, 1]);
    w.deliver(0, fifo(2, 1, 1));
    w.breaks(Property::S1);
}

#[test]
fn s2_sent_in_a_view_that_is_over() {
    let mut w = World::group(3);
    w.lose(2, &[0, 1]);
    w.send(fifo(0, 1, 1));
    w.breaks(Property::S2);
}

#[test]
fn s2_bound_to_the_view_that_comes_next_holds() {
    let mut w = World::group(3);
    w.send(fifo(0, 2, 1));
    w.send(fifo(0, 2, 2));
    w.lose(2, &[0, 1]);
    for seq in 1..=2 {
        w.deliver(0, fifo(0, 2, seq));
        w.deliver(1, fifo(0, 2, seq));
    }
    w.send(fifo(0, 2, 3));
    w.holds(&[Property::S2, Property::O1]);
}

#[test]
fn s2_bound_to_a_view_that_is_passed_over() {
    let mut w = World::cell(1);
    w.ask_group(0, false);
    w.group_view(0, 1, None, &[0], &[0], &[]);
    w.send(fifo(0, 2, 1));
    w.group_view(0, 3, Some(1), &[0], &[], &[]);
    w.breaks(Property::S2);
}

#[test]
fn s2_delivered_in_another_view_than_sent() {
    let mut w = World::group(3);
    w.send(fifo(2, 1, 1));
    w.lose(2, &[0, 1]);
    // The same message, presented as one of view 2, whose members consider its sender a member.
    let report = {
        let common::M { sender, seq, order, uniform, .. } = fifo(2, 1, 1);
        let hash = match w.traces[2].records.last().map(|r| &r.event) {
            Some(&Event::Send { hash, .. }) => hash,
            other => panic!("the last record is the send, not {other:?}"),
        };
        let sender = id(sender);
        w.push(
            0,
            Event::Deliver {
                group: common::GROUP,
                view: 2,
                sender,
                seq,
                order,
                uniform,
                position: None,
                hash,
                replayed: false,
            },
        );
        w.report()
    };
    // The sender is no member of view 2 either.
    assert_eq!(report.violated(), [Property::S2, Property::S5], "{report}");
}

#[test]
fn s3_a_survivor_lacks_a_message_of_the_dead() {
    let mut w = World::group(3);
    w.multicast(fifo(2, 1, 1), &[0]);
    w.lose(2, &[0, 1]);
    let report = w.breaks(Property::S3);
    assert!(report.to_string().contains("only a"), "{report}");
}

#[test]
fn s3_all_survivors_or_none_holds() {
    let mut w = World::group(3);
    w.multicast(fifo(2, 1, 1), &[0, 1, 2]);
    w.multicast(fifo(2, 1, 2), &[2]);
    w.lose(2, &[0, 1]);
    w.holds(&[Property::S3]);
    assert_eq!(w.report().properties.iter().find(|p| p.property == Property::S3).map(|p| p.under_failure), Some(1));
}

#[test]
fn s5_a_sender_from_outside() {
    let mut w = World::cell(3);
    for p in [0, 1] {
        w.ask_group(p, false);
        w.group_view(p, 1, None, &[0, 1], &[0, 1], &[]);
    }
    w.deliver(0, fifo(2, 1, 1));
    w.deliver(1, fifo(2, 1, 1));
    // Whether it was sent cannot be known: its sender's trace is not given.
    w.traces.remove(2);
    let some = Options { complete: false, ..options() };
    assert_eq!(check(&w.traces, &some).violated(), [Property::S5]);
}

#[test]
fn s6_a_send_before_the_first_view() {
    let mut w = World::cell(2);
    w.send(fifo(0, 1, 1));
    w.breaks(Property::S6);
}

#[test]
fn s7_a_delivery_before_the_first_view() {
    let mut w = World::cell(2);
    w.ask_group(0, false);
    w.group_view(0, 1, None, &[0], &[0], &[]);
    w.send(fifo(0, 1, 1));
    w.deliver(1, fifo(0, 1, 1));
    w.breaks(Property::S7);
}

#[test]
fn s7_a_delivery_after_leaving() {
    let mut w = World::group(2);
    w.send(fifo(0, 1, 1));
    w.push(1, Event::GroupLeaveAsked { group: common::GROUP });
    w.push(1, Event::GroupLeft { group: common::GROUP });
    w.deliver(1, fifo(0, 1, 1));
    w.breaks(Property::S7);
}

#[test]
fn i1_delivered_and_never_sent() {
    let mut w = World::group(2);
    w.deliver(1, fifo(0, 1, 1));
    w.breaks(Property::I1);
}

#[test]
fn i1_delivered_before_it_was_sent() {
    let mut w = World::group(2);
    w.deliver(0, fifo(0, 1, 1));
    w.send(fifo(0, 1, 1));
    w.breaks(Property::I1);
    let mut w = World::group(2);
    w.deliver(1, fifo(0, 1, 1));
    w.send(fifo(0, 1, 1));
    w.breaks(Property::I1);
    let slack = Options { clock_slack_ns: 1_000, ..options() };
    assert!(check(&w.traces, &slack).passed);
}

#[test]
fn i1_what_a_killed_writer_may_have_lost_is_not_judged() {
    let mut w = World::group(2);
    w.deliver(1, fifo(0, 1, 1));
    w.traces[0].header.write_ahead = false;
    let report = w.report();
    assert!(report.violated().is_empty(), "{report}");
    assert_eq!(report.missing, [Property::I1, Property::I3], "nothing else was sent, and that is said");
    // A send before one that is in the trace cannot have been lost.
    w.send(fifo(0, 1, 1));
    w.send(fifo(0, 1, 2));
    w.traces[0].records.swap_remove(5);
    let report = w.report();
    assert!(report.violated().contains(&Property::I1), "{report}");
}

#[test]
fn i1_a_sender_without_a_trace_is_judged_only_if_all_traces_are_given() {
    let mut w = World::group(2);
    w.send(fifo(0, 1, 1));
    w.deliver(1, fifo(0, 1, 1));
    w.traces.remove(0);
    assert_eq!(w.report().violated(), [Property::E1, Property::I1]);
    let some = Options { complete: false, ..options() };
    let report = check(&w.traces, &some);
    assert!(report.violated().is_empty(), "{report}");
    assert!(report.missing.contains(&Property::I1), "nothing could be judged, and that is said");
    assert_eq!(report.stats.missing_traces.len(), 1);
}

#[test]
fn i1_a_point_to_point_message_from_nowhere() {
    let mut w = World::cell(2);
    w.push(1, Event::P2pDeliver { from: id(0), k: 1, hash: 5 });
    w.breaks(Property::I1);
}

#[test]
fn i2_delivered_twice() {
    let mut w = World::group(2);
    w.multicast(fifo(0, 1, 1), &[0, 1, 1]);
    w.breaks(Property::I2);
}

#[test]
fn i3_another_body() {
    let mut w = World::group(2);
    w.send(fifo(0, 1, 1));
    w.deliver(1, fifo(0, 1, 1));
    if let Some(Event::Deliver { hash, .. }) = w.traces[1].records.last_mut().map(|r| &mut r.event) {
        *hash += 1;
    }
    w.breaks(Property::I3);
}

#[test]
fn i3_another_order_than_sent() {
    let mut w = World::group(2);
    w.send(causal(0, 1, 1));
    w.deliver(1, fifo(0, 1, 1));
    w.breaks(Property::I3);
}

#[test]
fn i3_another_point_to_point_body() {
    let mut w = World::cell(2);
    w.push(0, Event::P2pSend { to: id(1), k: 1, hash: 6 });
    w.push(1, Event::P2pDeliver { from: id(0), k: 1, hash: 5 });
    w.breaks(Property::I3);
}

#[test]
fn u1_survivors_deliver_what_the_dead_delivered_as_uniform() {
    let m = uniform(fifo(3, 1, 1));
    let run = |to: &[usize]| {
        let mut w = World::group(4);
        w.multicast(m, to);
        let gone = [(2, LeaveReason::Died), (3, LeaveReason::Died)];
        [2, 3].iter().for_each(|&p| w.crash(p));
        for p in [0, 1] {
            w.cell_view(p, 2, &[0, 1], &gone);
            w.group_view(p, 2, Some(1), &[0, 1], &[], &gone);
        }
        w
    };
    run(&[2, 0, 1]).holds(&[Property::U1]);
    run(&[2]).breaks(Property::U1);
}

#[test]
fn u1_the_excluded_count_too() {
    let m = uniform(fifo(1, 1, 1));
    let mut w = World::group(3);
    w.send(m);
    w.deliver(2, m);
    let gone = [(2, LeaveReason::Unreachable)];
    for p in [0, 1] {
        if p == 1 {
            w.deliver(1, m);
        }
        w.cell_view(p, 2, &[0, 1], &gone);
        w.group_view(p, 2, Some(1), &[0, 1], &[], &gone);
    }
    w.push(2, Event::Excluded { view: 2 });
    let report = w.report();
    assert_eq!(report.violated(), [Property::S3, Property::U1], "{report}");
}

#[test]
fn u2_the_dead_had_the_survivors_order() {
    let (x, y) = (uniform(total(0, 1, 1)), uniform(total(1, 1, 1)));
    let run = |at_dead: [common::M; 2]| {
        let mut w = World::group(3);
        w.send(x);
        w.send(y);
        for p in [0, 1] {
            w.deliver_at(p, x, 1);
            w.deliver_at(p, y, 2);
        }
        w.deliver_at(2, at_dead[0], 1);
        w.deliver_at(2, at_dead[1], 2);
        w.lose(2, &[0, 1]);
        w
    };
    run([x, y]).holds(&[Property::U2, Property::O3, Property::O5]);
    run([y, x]).breaks(Property::U2);
}

#[test]
fn u2_the_dead_had_another_number() {
    let (plain, m) = (total(2, 1, 1), uniform(total(0, 1, 1)));
    let mut w = World::group(3);
    w.send(plain);
    w.send(m);
    w.deliver_at(2, plain, 1);
    w.deliver_at(2, m, 2);
    [0, 1].iter().for_each(|&p| w.deliver_at(p, m, 1));
    w.lose(2, &[0, 1]);
    w.breaks(Property::U2);
}
