//! A packet that makes no sense, or has to wait: it is read whole or not at all.

use super::*;
use crate::api::Uniformity;
use crate::link::StreamReport;
use crate::order::FragmentKind;
use crate::order::frame::{MessageKind, put_announce, put_message, put_pass, put_past, put_stable};
use crate::wire::PacketNumber;

fn message(
    out: &mut Vec<u8>,
    order: Order,
    sequenced: bool,
    fragment: FragmentKind,
    deps: &[(Rank, u64)],
    body: &[u8],
) {
    let kind = MessageKind { order, sequenced, uniformity: Uniformity::Plain, has_head: false };
    put_message(out, kind, fragment, deps, body.len());
    out.extend_from_slice(body);
}

fn whole(order: Order) -> Vec<u8> {
    let mut out = Vec::new();
    message(&mut out, order, false, FragmentKind::Whole, &[], b"m");
    out
}

/// Delivers `packets` of `from`'s stream, numbered from `first` on, to c.
fn hand(c: &mut (ViewStreams, Port), from: Rank, first: u64, packets: &[&[u8]]) {
    let (view_streams, port) = c;
    for (number, frames) in (first..).zip(packets) {
        view_streams.handle_packet(Instant(1), from, PacketNumber(number), ReceivedFrames::Lent(frames), port);
    }
    while view_streams.poll(Instant(1), port) {}
}

fn ack_for(c: &Port, rank: Rank) -> Option<u64> {
    c.acks.iter().rev().find(|(to, _)| *to == rank).map(|(_, ack)| ack.prefix)
}

#[test]
fn nothing_of_a_packet_that_makes_no_sense_counts_and_nothing_after_it() {
    let mut good_then_bad = whole(Order::Fifo);
    good_then_bad.push(0xff);
    let mut c = view_streams(C, 3);
    hand(&mut c, B, 1, &[&whole(Order::Fifo), &good_then_bad, &whole(Order::Fifo)]);
    assert_eq!((c.1.delivered.as_slice(), c.1.nonsense.as_slice()), (&[(B, 1)][..], &[B][..]));
    assert_eq!(ack_for(&c.1, B), Some(1));
    assert!(
        c.0.has_nonsense()
            && c.0.kept(B, PacketNumber(1)).is_some()
            && c.0.kept(B, PacketNumber(2)).is_none()
            && c.0.kept(B, PacketNumber(3)).is_none()
    );
    // Other streams continue, and the nonsense is reported once.
    hand(&mut c, A, 1, &[&whole(Order::Fifo)]);
    hand(&mut c, B, 4, &[&whole(Order::Fifo)]);
    assert_eq!((c.1.delivered.as_slice(), c.1.nonsense.as_slice()), (&[(B, 1), (A, 1)][..], &[B][..]));
    let said = c.0.wedge(Instant(1), &mut c.1);
    let all = |prefix| StreamReport { prefix, read: prefix, nonsense: false };
    assert_eq!(said, [all(1), StreamReport { nonsense: true, ..all(1) }, all(0)]);
    assert!(c.0.holds(&[1, 4, 0]) && c.0.missing(&[1, 9, 0]).is_empty(), "there is no more to ask for");
    assert_eq!(c.0.finish(&[1, 2, 0], &mut c.1), None, "the cut cannot be reached");
}

#[test]
fn a_view_ends_in_front_of_nonsense() {
    let mut c = view_streams(C, 3);
    hand(&mut c, B, 1, &[&whole(Order::Causal), &[0xff]]);
    c.0.wedge(Instant(1), &mut c.1);
    assert_eq!((c.0.finish(&[0, 1, 0], &mut c.1), c.1.delivered.as_slice()), (Some(0), &[(B, 1)][..]));
}

/// Each of these is right up to its end, and has changed much by then.
#[test]
fn what_a_packet_began_is_undone() {
    let begins = |total| {
        let mut out = Vec::new();
        message(&mut out, Order::Total, false, FragmentKind::First(total), &[], b"ab");
        out
    };
    let mut middle = Vec::new();
    put_past(&mut middle, &[(Rank(0), 3)]);
    message(&mut middle, Order::Causal, false, FragmentKind::Whole, &[(Rank(2), 7)], b"x");
    message(&mut middle, Order::Total, false, FragmentKind::Last, &[(Rank(0), 1)], b"cd");
    message(&mut middle, Order::Total, false, FragmentKind::First(9), &[], b"efg");
    put_past(&mut middle, &[(Rank(2), 1)]);
    middle.push(0xff);
    let mut c = view_streams(C, 3);
    hand(&mut c, B, 1, &[&begins(4), &middle]);
    let mut fresh = view_streams(C, 3);
    hand(&mut fresh, B, 1, &[&begins(4)]);
    // The stream's own count of changes may differ, and entries of 0 equal absent ones.
    let state = |c: &(ViewStreams, Port)| {
        let stream = format!("{:?}", c.0.streams[B.index()]).replace("vector: [0, 0, 0]", "vector: []");
        let fragment = |from: &str, to: &str| {
            let after = stream.split(from).nth(1).expect("a field");
            after.split(to).next().map(str::to_owned)
        };
        (fragment("queue: ", "parsed: "), fragment("context: ", "before: "), fragment("assembled: ", "nonsense: "))
    };
    assert_eq!(state(&c), state(&fresh));
    let stream = &c.0.streams[B.index()];
    assert_eq!((stream.queue.len(), stream.parsed, c.0.total.front()), (0, 0, None));
}

#[test]
fn frames_are_judged_in_the_light_of_those_before_them() {
    let framed = |put: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        put(&mut out);
        out
    };
    let bad: [(&str, Vec<u8>); 12] = [
        ("a piece of nothing", framed(&|o| message(o, Order::Fifo, false, FragmentKind::Last, &[], b"m"))),
        (
            "a message begun in another",
            framed(&|o| {
                (0..2).for_each(|_| message(o, Order::Fifo, false, FragmentKind::First(9), &[], b"m"));
            }),
        ),
        (
            "a message of another length",
            framed(&|o| {
                message(o, Order::Fifo, false, FragmentKind::First(9), &[], b"m");
                message(o, Order::Fifo, false, FragmentKind::Last, &[], b"m");
            }),
        ),
        ("a longer message", framed(&|o| message(o, Order::Fifo, false, FragmentKind::First(1), &[], b"mm"))),
        (
            "another order in its middle",
            framed(&|o| {
                message(o, Order::Fifo, false, FragmentKind::First(2), &[], b"m");
                message(o, Order::Causal, false, FragmentKind::Last, &[], b"m");
            }),
        ),
        (
            "dependencies before the end",
            framed(&|o| message(o, Order::Causal, false, FragmentKind::First(2), &[(Rank(0), 1)], b"m")),
        ),
        (
            "a rank that is not there",
            framed(&|o| message(o, Order::Causal, false, FragmentKind::Whole, &[(Rank(3), 1)], b"m")),
        ),
        (
            "a count beyond all counts",
            framed(&|o| {
                message(o, Order::Causal, false, FragmentKind::Whole, &[(Rank(0), u64::MAX)], b"m");
                message(o, Order::Causal, false, FragmentKind::Whole, &[(Rank(0), 1)], b"m");
            }),
        ),
        ("a mark in a packet that it covers", framed(&|o| put_stable(o, 1))),
        ("an order without the token", framed(&|o| put_announce(o, 0, false, &[(Rank(0), 1)]))),
        (
            "an abcast sequenced without the token",
            framed(&|o| message(o, Order::Total, true, FragmentKind::Whole, &[], b"m")),
        ),
        ("a pass of somebody else's token", framed(&|o| put_pass(o, 0, Rank(2)))),
    ];
    for (what, packet) in bad {
        let mut c = view_streams(C, 3);
        hand(&mut c, B, 1, &[&packet]);
        assert_eq!((c.1.nonsense.as_slice(), c.1.delivered.len()), (&[B][..], 0), "{what}");
    }
    for (what, packet) in [
        ("a pass to itself", framed(&|o| put_pass(o, 0, Rank(0)))),
        (
            "orders after the pass",
            framed(&|o| {
                put_pass(o, 0, Rank(1));
                put_announce(o, 0, false, &[(Rank(1), 1)]);
            }),
        ),
        ("a pass to nobody", framed(&|o| put_pass(o, 0, Rank(3)))),
        ("an order for nobody", framed(&|o| put_announce(o, 0, false, &[(Rank(3), 1)]))),
    ] {
        let mut c = view_streams(C, 3);
        hand(&mut c, A, 1, &[&packet]);
        assert_eq!((c.1.nonsense.as_slice(), c.0.total.tenure()), (&[A][..], 0), "{what}");
    }
}

/// A packet of a holder whose pass has not come waits and is not acknowledged. It is read when the pass comes.
#[test]
fn orders_wait_for_the_pass_that_allows_them() {
    let (mut orders, mut pass) = (Vec::new(), Vec::new());
    put_announce(&mut orders, 1, false, &[]);
    message(&mut orders, Order::Total, true, FragmentKind::Whole, &[], b"m");
    put_pass(&mut pass, 0, Rank(1));
    let mut c = view_streams(C, 3);
    hand(&mut c, B, 1, &[&orders, &whole(Order::Fifo)]);
    assert_eq!((c.1.delivered.len(), c.1.nonsense.len(), c.0.token_counts().overtaken), (0, 0, 0));
    assert_eq!(ack_for(&c.1, B), Some(0));
    hand(&mut c, A, 1, &[&pass]);
    assert_eq!((c.1.delivered.as_slice(), c.0.token_counts().overtaken), (&[(B, 1), (B, 2)][..], 1));
    assert_eq!(ack_for(&c.1, B), Some(2));
}

/// At the end of a view the pass may be outside the cut. Then its holder's orders do not count, and its messages are
/// delivered all the same. That also holds in a stream that speaks for later tenures.
#[test]
fn orders_whose_pass_is_lost_do_not_count_at_the_end() {
    let packet = |tenure: u32| {
        let mut out = Vec::new();
        put_announce(&mut out, tenure, false, &[(Rank(2), 5)]);
        message(&mut out, Order::Total, true, FragmentKind::Whole, &[], b"m");
        out
    };
    for cut in [[0, 3, 0], [1, 3, 0]] {
        let mut c = view_streams(C, 3);
        hand(&mut c, B, 1, &[&packet(1), &packet(2), &packet(70)]);
        let said = c.0.wedge(Instant(1), &mut c.1);
        assert_eq!(said[B.index()], StreamReport { prefix: 3, read: 0, nonsense: false });
        let mut pass = Vec::new();
        put_pass(&mut pass, 0, Rank(1));
        c.0.handle_recovered(A, PacketNumber(1), crate::frames::Frames::from(pass));
        assert_eq!(c.0.finish(&cut, &mut c.1), Some(0));
        assert_eq!(c.1.delivered, [(B, 1), (B, 2), (B, 3)]);
        assert_eq!(c.1.positions, [1, 2, 3]);
    }
}

/// A fetched packet is read before the member reports that it holds it, and nothing of it is applied.
#[test]
fn what_is_held_is_read_ahead() {
    let mut c = view_streams(C, 3);
    c.1.cannot_read.push((B, 3));
    hand(&mut c, B, 1, &[&whole(Order::Fifo)]);
    c.0.wedge(Instant(1), &mut c.1);
    for number in 2..=4 {
        c.0.handle_recovered(B, PacketNumber(number), crate::frames::Frames::from(whole(Order::Fifo)));
    }
    let said = c.0.wedge(Instant(1), &mut c.1);
    assert_eq!(said[B.index()], StreamReport { prefix: 2, read: 1, nonsense: true });
    assert_eq!(c.1.delivered, [(B, 1)]);
    assert_eq!((c.0.finish(&[0, 2, 0], &mut c.1), c.1.delivered.len()), (Some(0), 2));
}

/// An order that its sender had no right to give is found by each member that holds the pass, also if it fetched the
/// pass for a cut.
#[test]
fn a_wrong_order_is_found_with_the_pass_that_was_fetched() {
    let (mut wrong, mut pass) = (Vec::new(), Vec::new());
    put_announce(&mut wrong, 1, false, &[(Rank(2), 1)]);
    put_pass(&mut pass, 0, Rank(2));
    let mut c = view_streams(C, 3);
    hand(&mut c, B, 1, &[&wrong]);
    assert!(!c.0.wedge(Instant(1), &mut c.1)[B.index()].nonsense, "it may be right");
    c.0.handle_recovered(A, PacketNumber(1), crate::frames::Frames::from(pass));
    assert_eq!(c.0.wedge(Instant(1), &mut c.1)[B.index()], StreamReport { prefix: 0, read: 0, nonsense: true });
}
