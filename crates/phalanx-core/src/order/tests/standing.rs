//! What a member's stream owes to others, and what it says of itself.

use super::{A, B, C, Port, Three, ViewStreams, view_streams};
use crate::api::{Order, Uniformity};
use crate::frames::ReceivedFrames;
use crate::id::Rank;
use crate::link::{Ack, Arrival};
use crate::order::Backpressure;
use crate::order::frame::{StreamFrame, read_frame};
use crate::time::Instant;
use crate::wire::PacketNumber;
use crate::wire::codec::Reader;

const WINDOW: u64 = 64;
const NOW: Instant = Instant(1);

/// Polls as long as there is something to do.
fn settle((view_streams, port): &mut (ViewStreams, Port)) {
    while view_streams.poll(NOW, port) {}
}

/// Sends until the window of `member` is used up and one message waits.
fn block(member: &mut (ViewStreams, Port)) {
    while !member.0.is_blocked() {
        assert!(
            member.0.multicast(NOW, (Order::Fifo, Uniformity::Plain).into(), &[&[0; 600]], &mut member.1).is_some()
        );
        settle(member);
    }
}

fn told(member: &mut (ViewStreams, Port), rank: Rank, prefix: u64, limit: u64) {
    let ack = Ack { prefix, limit, gaps: Vec::new() };
    member.0.handle_ack(NOW, rank, &ack, false, &mut member.1);
    settle(member);
}

#[test]
fn outside_the_primary_nothing_uniform_is_delivered() {
    let mut t = Three::new();
    t.group_streams[A.index()].0.set_primary(false);
    t.cast(B, Order::Fifo, Uniformity::Uniform);
    t.carry(B, &[A, C]);
    t.tell();
    t.tell();
    assert_eq!((t.delivered(A), t.delivered(B)), (&[][..], &[(B, 1)][..]));
    t.group_streams[A.index()].0.set_primary(true);
    settle(&mut t.group_streams[A.index()]);
    assert_eq!(t.delivered(A), [(B, 1)]);
}

#[test]
fn no_packet_is_longer_than_its_room_whatever_its_headers_say() {
    for len in 1100..1200 {
        let mut all: Vec<_> = Rank::all(8).map(|me| view_streams(me, 8)).collect();
        let mut said = Vec::new();
        for (rank, member) in Rank::enumerate(&mut all).skip(1) {
            assert!(member.0.multicast(NOW, (Order::Fifo, Uniformity::Plain).into(), &[b"m"], &mut member.1).is_some());
            settle(member);
            said.push((rank, member.1.packets[0].1.clone()));
        }
        let sender = &mut all[0];
        for (rank, frames) in &said {
            sender.0.handle_packet(NOW, *rank, PacketNumber(1), ReceivedFrames::Lent(frames), &mut sender.1);
        }
        settle(sender);
        assert!(
            sender
                .0
                .multicast(NOW, (Order::Causal, Uniformity::Plain).into(), &[&vec![0; len]], &mut sender.1)
                .is_some()
        );
        settle(sender);
        let longest = sender.1.packets.iter().map(|(_, frames)| frames.len()).max();
        assert!(longest.is_some_and(|longest| longest <= 1200), "{longest:?} bytes for a message of {len}");
    }
}

#[test]
fn a_packet_that_comes_again_is_acknowledged_again_and_ones_own_is_not() {
    let mut t = Three::new();
    t.cast(B, Order::Fifo, Uniformity::Plain);
    t.carry(B, &[A]);
    t.group_streams[A.index()].1.acks.clear();
    t.carry(B, &[A]);
    let (_, port) = &mut t.group_streams[A.index()];
    assert_eq!(port.acks.iter().map(|(to, ack)| (*to, ack.prefix)).collect::<Vec<_>>(), [(B, 1)]);
    port.acks.clear();
    t.cast(A, Order::Fifo, Uniformity::Plain);
    let (view_streams, port) = &mut t.group_streams[A.index()];
    let own = port.packets[0].1.clone();
    assert_eq!(
        view_streams.handle_packet(NOW, A, PacketNumber(1), ReceivedFrames::Lent(&own), port),
        Arrival::Duplicate
    );
    settle(&mut t.group_streams[A.index()]);
    assert_eq!(t.group_streams[A.index()].1.acks.len(), 0);
}

#[test]
fn a_heartbeat_tells_where_streams_stand_while_somebody_may_wait() {
    let mut t = Three::new();
    let beat = |t: &mut Three, at: Rank| {
        let (view_streams, port) = &mut t.group_streams[at.index()];
        port.statuses.clear();
        port.acks.clear();
        view_streams.heartbeat(port);
        (port.statuses.len(), port.acks.iter().map(|(to, _)| *to).collect::<Vec<_>>())
    };
    assert_eq!(beat(&mut t, B), (0, vec![]), "nothing was sent");
    t.cast(B, Order::Fifo, Uniformity::Plain);
    t.carry(B, &[A, C]);
    assert_eq!(beat(&mut t, A), (0, vec![B]), "what it holds may be stable: it asks");
    assert_eq!(beat(&mut t, B), (1, vec![]), "what it sent may be lost: it tells");
    for from in [A, C] {
        told(&mut t.group_streams[B.index()], from, 1, WINDOW);
    }
    assert_eq!(beat(&mut t, B), (0, vec![]), "all have it");
    // All packets are acknowledged, and a message waits for credit.
    let mut sender = view_streams(A, 3);
    block(&mut sender);
    [B, C].into_iter().for_each(|rank| told(&mut sender, rank, WINDOW, WINDOW));
    sender.1.statuses.clear();
    sender.0.heartbeat(&mut sender.1);
    assert_eq!((sender.0.unstable_packets(), sender.1.statuses.len()), (0, 1));
    assert!(sender.1.statuses[0].blocked);
}

#[test]
fn who_owes_an_ack_is_told_until_it_came() {
    let mut t = Three::new();
    assert_eq!((t.group_streams[A.index()].0.late().count(), t.group_streams[A.index()].0.waits_for()), (0, None));
    t.cast(A, Order::Fifo, Uniformity::Plain);
    assert_eq!(t.group_streams[A.index()].0.late().collect::<Vec<_>>(), [B, C]);
    told(&mut t.group_streams[A.index()], B, 1, WINDOW);
    assert_eq!(t.group_streams[A.index()].0.late().collect::<Vec<_>>(), [C]);
    assert_eq!(t.group_streams[A.index()].0.waits_for(), Some(C));
    let (view_streams, port) = &mut t.group_streams[A.index()];
    view_streams.wedge(NOW, port);
    assert_eq!(view_streams.late().count(), 0, "a view that is being left waits for nobody");
}

#[test]
fn a_turn_tells_whether_it_packed_something() {
    let (mut view_streams, mut port) = view_streams(A, 3);
    assert!(!view_streams.poll(NOW, &mut port));
    assert!(view_streams.multicast(NOW, (Order::Fifo, Uniformity::Uniform).into(), &[b"m"], &mut port).is_some());
    assert!(view_streams.poll(NOW, &mut port), "it cannot be delivered yet, and went out");
    assert_eq!((port.packets.len(), port.delivered.len()), (1, 0));
    assert!(!view_streams.poll(NOW, &mut port));
}

#[test]
fn an_order_of_uniform_messages_asks_for_prompt_acks() {
    for uniform in 0..4_usize {
        let mut t = Three::new();
        (0..3).for_each(|at| t.cast(B, Order::Total, Uniformity::from_flag(at < uniform)));
        t.carry(B, &[A]);
        let mut prompt = None;
        for (_, frames) in &t.group_streams[A.index()].1.packets {
            let mut r = Reader::new(frames);
            while !r.is_empty() {
                if let Some(StreamFrame::Announce { prompt: asks, runs, .. }) = read_frame(&mut r).expect("ours") {
                    assert_eq!(runs.iter().collect::<Vec<_>>(), [(Rank(1), 3)], "one run");
                    prompt = Some(asks);
                }
            }
        }
        assert_eq!(prompt, Some(uniform > 0), "{uniform} of 3 uniform");
    }
}

#[test]
fn a_message_is_cut_off_once_packets_of_it_went_out() {
    let mut sender = view_streams(A, 3);
    assert!(!sender.0.is_cut_off());
    assert!(
        sender.0.multicast(NOW, (Order::Fifo, Uniformity::Plain).into(), &[&vec![7; 200_000]], &mut sender.1).is_some()
    );
    assert!(!sender.0.is_cut_off(), "nothing went out yet");
    settle(&mut sender);
    assert!(sender.0.is_cut_off() && sender.1.packets.len() as u64 == WINDOW);
    let mut sender = view_streams(A, 3);
    block(&mut sender);
    assert!(!sender.0.is_cut_off(), "the one that waits waits whole");
}

#[test]
fn a_holder_beyond_its_window_says_that_orders_wait() {
    let mut t = Three::new();
    let holder = &mut t.group_streams[A.index()];
    while (holder.1.packets.len() as u64) < WINDOW {
        assert!(
            holder.0.multicast(NOW, (Order::Fifo, Uniformity::Plain).into(), &[&[0; 600]], &mut holder.1).is_some()
        );
        settle(holder);
    }
    assert_eq!((holder.0.hold(), &holder.1.bounds[..]), (None, &[][..]), "the window is full, and nothing waits");
    for sent in 1..=4 {
        t.cast(B, Order::Total, Uniformity::Plain);
        t.carry(B, &[A]);
        let ordered = sent.min(2);
        let bounds = if sent > 2 { &[Backpressure::Orders][..] } else { &[][..] };
        assert_eq!(t.delivered(A).iter().filter(|(from, _)| *from == B).count(), ordered, "after {sent}");
        assert_eq!(t.group_streams[A.index()].1.bounds, bounds, "after {sent}: told once");
    }
    // A member that is no holder has no orders to announce.
    let mut t = Three::new();
    block(&mut t.group_streams[C.index()]);
    (0..4).for_each(|_| t.cast(B, Order::Total, Uniformity::Plain));
    t.carry(B, &[C]);
    assert_eq!(t.group_streams[C.index()].1.bounds, [Backpressure::Window]);
}

/// Announcements beyond the window would push it on with each abcast of another member, and a message of the holder's own
/// would wait for as long as others send.
#[test]
fn a_holder_whose_messages_wait_announces_orders_beside_them() {
    let mut t = Three::new();
    block(&mut t.group_streams[A.index()]);
    for _ in 0..4 {
        t.cast(B, Order::Total, Uniformity::Plain);
        t.carry(B, &[A]);
    }
    let of_b = |t: &Three| t.delivered(A).iter().filter(|(from, _)| *from == B).count();
    let holder = &t.group_streams[A.index()];
    assert_eq!((of_b(&t), holder.1.packets.len() as u64), (0, WINDOW), "nothing goes beyond the window");
    assert_eq!(holder.1.bounds, [Backpressure::Window, Backpressure::Orders]);
    for rank in [B, C] {
        told(&mut t.group_streams[A.index()], rank, 1, WINDOW + 1);
    }
    let holder = &t.group_streams[A.index()];
    assert_eq!((of_b(&t), holder.1.packets.len() as u64), (4, WINDOW + 1), "one packet holds all that waited");
    assert!(!holder.0.is_blocked());
}

/// A holder that always has more to send than its window takes would otherwise order nobody else's abcasts: each window
/// that opens would be full of its own messages before it orders.
#[test]
fn a_window_that_opens_takes_the_orders_that_wait_first() {
    let mut t = Three::new();
    let holder = &mut t.group_streams[A.index()];
    block(holder);
    // As many as fill another packet. They wait with the one that waits.
    for _ in 0..2 {
        assert!(
            holder.0.multicast(NOW, (Order::Fifo, Uniformity::Plain).into(), &[&[0; 600]], &mut holder.1).is_some()
        );
    }
    t.cast(B, Order::Total, Uniformity::Plain);
    t.carry(B, &[A]);
    let holder = &mut t.group_streams[A.index()];
    assert_eq!(holder.1.bounds, [Backpressure::Window, Backpressure::Orders]);
    for rank in [B, C] {
        let ack = Ack { prefix: 1, limit: WINDOW + 1, gaps: Vec::new() };
        holder.0.handle_ack(NOW, rank, &ack, false, &mut holder.1);
    }
    assert!(holder.0.is_packing());
    holder.0.flush(NOW, &mut holder.1);
    settle(holder);
    assert!(holder.0.is_blocked(), "its own messages still wait");
    let of_b = holder.1.delivered.iter().filter(|(from, _)| *from == B).count();
    assert_eq!((of_b, holder.1.packets.len() as u64), (1, WINDOW + 1), "the packet that fits orders what waited");
}
