//! Stories of three members that a person can check by hand: a, b and c have ranks 0, 1 and 2.

use std::time::Duration;

use super::{Backpressure, Deliverable, Hold, Status, StreamOutput, ViewStreams, ViewStreamsSettings};
use crate::api::{Order, Uniformity};
use crate::frames::ReceivedFrames;
use crate::id::{GroupId, Incarnation, Rank, Sequence, ViewNumber};
use crate::link::Ack;
use crate::time::Instant;
use crate::wire::{PacketNumber, Space};

mod nonsense;
mod standing;

#[derive(Default)]
pub(super) struct Port {
    packets: Vec<(u64, Vec<u8>)>,
    acks: Vec<(Rank, Ack)>,
    statuses: Vec<Status>,
    delivered: Vec<(Rank, u64)>,
    positions: Vec<u64>,
    pub(super) bounds: Vec<Backpressure>,
    /// Whether the application takes nothing.
    pub(super) full: bool,
    /// Receipts for this member's messages.
    stable: Vec<u64>,
    /// Packets that this member cannot read, by the sender's rank; and the ranks whose streams were nonsense.
    cannot_read: Vec<(Rank, u64)>,
    nonsense: Vec<Rank>,
}

impl StreamOutput for Port {
    fn multicast(&mut self, _space: Space, number: PacketNumber, frames: &[u8]) {
        self.packets.push((number.0, frames.to_vec()));
    }
    fn is_congested(&mut self) -> bool {
        false
    }
    fn retransmit(&mut self, _rank: Rank, _space: Space, _number: PacketNumber, _frames: &[u8]) {}
    fn ack(&mut self, _space: Space, rank: Rank, ack: &Ack, _wants_stable: bool) {
        self.acks.push((rank, ack.clone()));
    }
    fn status(&mut self, _space: Space, _rank: Option<Rank>, status: &Status) {
        self.statuses.push(*status);
    }
    fn deliver(&mut self, message: Deliverable<'_>) -> bool {
        self.delivered.push((message.rank, message.seq.0));
        self.positions.extend(message.position);
        !self.full
    }
    fn sent(&mut self, _seq: Sequence, _order: Order, _uniformity: Uniformity, _payload: &[u8]) {}
    fn stable(&mut self, seq: Sequence) {
        self.stable.push(seq.0);
    }
    fn stable_at_end(&mut self, seq: Sequence) {
        self.stable.push(seq.0);
    }
    fn backpressure(&mut self, bound: Backpressure) {
        self.bounds.push(bound);
    }
    fn can_read(&mut self, _space: Space, rank: Rank, number: PacketNumber) -> bool {
        !self.cannot_read.contains(&(rank, number.0))
    }
    fn nonsense(&mut self, rank: Rank) {
        self.nonsense.push(rank);
    }
}

struct Three {
    now: Instant,
    group_streams: Vec<(ViewStreams, Port)>,
}

const A: Rank = Rank(0);
const B: Rank = Rank(1);
const C: Rank = Rank(2);

/// The streams of a view of `members`, at `me`.
pub(super) fn view_streams(me: Rank, members: u64) -> (ViewStreams, Port) {
    let settings = ViewStreamsSettings {
        group: GroupId(1),
        view: ViewNumber(1),
        space: Space(1),
        members: (1..=members).map(Incarnation).collect(),
        me,
        packet_room: 1200,
        window: 64,
        ack_delay: Duration::ZERO,
        outbox_bytes: 10_000,
        token_tally: 1024,
    };
    (ViewStreams::new(settings, Instant::ZERO), Port::default())
}

impl Three {
    fn new() -> Self {
        Self { now: Instant(1), group_streams: Rank::all(3).map(|me| view_streams(me, 3)).collect() }
    }

    fn cast(&mut self, from: Rank, order: Order, uniformity: Uniformity) {
        let (view_streams, port) = &mut self.group_streams[from.index()];
        assert!(view_streams.multicast(self.now, (order, uniformity).into(), &[b"m"], port).is_some());
        while view_streams.poll(self.now, port) {}
    }

    /// Delivers `from`'s packets to those in `to`, now and only there.
    fn carry(&mut self, from: Rank, to: &[Rank]) {
        let packets = self.group_streams[from.index()].1.packets.clone();
        for &r in to {
            let (view_streams, port) = &mut self.group_streams[r.index()];
            for (number, frames) in &packets {
                view_streams.handle_packet(self.now, from, PacketNumber(*number), ReceivedFrames::Lent(frames), port);
            }
            while view_streams.poll(self.now, port) {}
        }
    }

    /// Delivers every pending ack and status to its receivers.
    fn tell(&mut self) {
        for from in Rank::all(3) {
            let acks = std::mem::take(&mut self.group_streams[from.index()].1.acks);
            for (to, ack) in acks {
                let (view_streams, port) = &mut self.group_streams[to.index()];
                view_streams.handle_ack(self.now, from, &ack, false, port);
                while view_streams.poll(self.now, port) {}
            }
        }
        for from in Rank::all(3) {
            let statuses = std::mem::take(&mut self.group_streams[from.index()].1.statuses);
            for to in Rank::all(3).filter(|&to| to != from) {
                let (view_streams, port) = &mut self.group_streams[to.index()];
                statuses.iter().for_each(|s| view_streams.handle_status(self.now, from, s));
                while view_streams.poll(self.now, port) {}
            }
        }
    }

    fn delivered(&self, at: Rank) -> &[(Rank, u64)] {
        &self.group_streams[at.index()].1.delivered
    }
}

#[test]
fn a_causal_message_waits_for_what_its_sender_had_delivered() {
    let mut t = Three::new();
    t.cast(C, Order::Fifo, Uniformity::Plain);
    t.carry(C, &[B]);
    t.cast(B, Order::Causal, Uniformity::Plain);
    t.carry(B, &[A]);
    assert_eq!(t.delivered(A), []);
    t.carry(C, &[A]);
    assert_eq!(t.delivered(A), [(C, 1), (B, 1)]);
}

#[test]
fn a_sender_gets_a_receipt_when_every_member_has_its_message() {
    let mut t = Three::new();
    t.cast(A, Order::Fifo, Uniformity::Plain);
    t.carry(A, &[B]);
    t.tell();
    assert_eq!(t.group_streams[A.index()].1.stable, [], "c lacks it");
    t.carry(A, &[C]);
    t.tell();
    t.cast(A, Order::Fifo, Uniformity::Plain);
    assert_eq!(t.group_streams[A.index()].1.stable, [1], "nobody has the second");

    // Outside the primary partition the receipt waits.
    t.group_streams[A.index()].0.set_primary(false);
    t.carry(A, &[B, C]);
    t.tell();
    assert_eq!(t.group_streams[A.index()].1.stable, [1]);
    let (view_streams, port) = &mut t.group_streams[A.index()];
    view_streams.set_primary(true);
    while view_streams.poll(t.now, port) {}
    assert_eq!(port.stable, [1, 2]);
}

/// Who holds a causal message and not its past discards it at the end of the view.
#[test]
fn a_message_gives_no_receipt_while_a_member_lacks_what_it_rests_on() {
    for order in [Order::Causal, Order::Total] {
        let mut t = Three::new();
        t.cast(C, Order::Fifo, Uniformity::Plain);
        t.carry(C, &[B]);
        t.cast(B, order, Uniformity::Plain);
        t.cast(B, Order::Fifo, Uniformity::Plain);
        t.carry(B, &[A, C]);
        t.tell();
        assert_eq!(
            t.group_streams[B.index()].1.stable,
            [],
            "a lacks the past of the first, and so cannot deliver the second"
        );

        let (a, port) = &mut t.group_streams[A.index()];
        a.wedge(t.now, port);
        let cut = [a.next_packet().prefix_before(), 2, 0];
        assert!(a.finish(&cut, port).is_some());
        assert_eq!(t.delivered(A), [], "{order:?}");

        let mut t = Three::new();
        t.cast(C, Order::Fifo, Uniformity::Plain);
        t.carry(C, &[B]);
        t.cast(B, order, Uniformity::Plain);
        t.carry(C, &[A]);
        t.carry(B, &[A, C]);
        t.tell();
        t.tell();
        assert_eq!(t.group_streams[B.index()].1.stable, [1]);
    }
}

#[test]
fn a_sender_whose_window_is_full_still_orders_when_the_token_comes_to_it() {
    const MESSAGES: u64 = 1500;
    let mut t = Three::new();
    let mut sent = 0;
    for _ in 0..60 {
        // A's packets reach B last. By then B has used up its window with messages that no holder has ordered.
        for _ in 0..2 {
            let (view_streams, port) = &mut t.group_streams[B.index()];
            let (order, uniformity) = (Order::Total, Uniformity::Plain);
            while sent < MESSAGES
                && view_streams.multicast(t.now, (order, uniformity).into(), &[&[7; 600]], port).is_some()
            {
                sent += 1;
            }
            while view_streams.poll(t.now, port) {}
            t.carry(A, &[C]);
            t.tell();
            t.carry(B, &[A, C]);
        }
        t.carry(A, &[B, C]);
        t.tell();
    }
    assert_eq!(sent, MESSAGES, "all found room");
    let seen = [A, B, C].map(|at| (t.group_streams[at.index()].0.token_holder(), t.delivered(at).len() as u64));
    assert_eq!(seen, [(B, MESSAGES); 3], "the token moves to who sends all, and all is ordered");
}

#[test]
fn who_takes_the_token_orders_what_comes_after_all_that_was_ordered() {
    let mut t = Three::new();
    t.group_streams[A.index()].0.set.token_tally = 5;
    t.cast(C, Order::Total, Uniformity::Plain);
    t.carry(C, &[A]); // b lacks c:1
    (0..4).for_each(|_| t.cast(B, Order::Total, Uniformity::Plain));
    t.carry(B, &[A]); // a places c:1 and these, and passes the token
    t.cast(B, Order::Total, Uniformity::Plain);
    t.carry(A, &[B]);
    assert_eq!((t.group_streams[B.index()].0.token_holder(), t.delivered(B)), (B, &[][..]));
    t.carry(C, &[B]);
    t.carry(B, &[A, C]);
    t.carry(A, &[C]);
    for at in [A, B, C] {
        assert_eq!(t.delivered(at), [(C, 1), (B, 1), (B, 2), (B, 3), (B, 4), (B, 5)]);
    }
}

#[test]
fn abcasts_wait_for_the_holder_whose_own_cost_no_announcement() {
    let mut t = Three::new();
    t.cast(B, Order::Total, Uniformity::Plain);
    t.carry(B, &[C]);
    assert_eq!((t.delivered(B), t.delivered(C)), (&[][..], &[][..]));
    t.cast(A, Order::Total, Uniformity::Plain);
    t.carry(B, &[A]);
    t.carry(A, &[B, C]);
    for at in [A, B, C] {
        assert_eq!(t.delivered(at), [(A, 1), (B, 1)]);
        assert_eq!(t.group_streams[at.index()].1.positions, [1, 2]);
    }
}

#[test]
fn once_the_token_has_come_what_its_new_holder_sends_costs_no_announcement() {
    const MESSAGES: u64 = 1200;
    let mut t = Three::new();
    for _ in 0..MESSAGES {
        t.cast(B, Order::Total, Uniformity::Plain);
        t.carry(B, &[A, C]);
        t.carry(A, &[B, C]);
        t.carry(B, &[A, C]);
        t.tell();
        t.group_streams.iter_mut().for_each(|(_, port)| port.packets.clear());
    }
    assert_eq!(t.group_streams[B.index()].0.token_holder(), B);
    t.cast(B, Order::Total, Uniformity::Plain);
    t.carry(B, &[A, C]);
    let sent = &t.group_streams[B.index()].1.packets;
    assert_eq!(sent.len(), 1, "the message and its order are one packet");
    assert_eq!([A, B, C].map(|at| t.delivered(at).len() as u64), [MESSAGES + 1; 3], "all could deliver by it");
}

#[test]
fn a_uniform_message_waits_until_all_have_it() {
    let mut t = Three::new();
    t.cast(B, Order::Fifo, Uniformity::Uniform);
    t.carry(B, &[A]);
    t.tell();
    assert!([A, B, C].iter().all(|&at| t.delivered(at).is_empty()));
    t.carry(B, &[C]);
    t.tell();
    assert!([A, B, C].iter().all(|&at| t.delivered(at) == [(B, 1)]));
}

/// Simulated seed 4281:
///
/// 1. b's causal message depends on c's message, which a lacks.
/// 2. b's next message is uniform, and reaches all members.
/// 3. If b and c are left out now, a must discard both. So b must not have delivered the uniform one.
#[test]
fn a_uniform_message_waits_for_the_past_of_its_senders_earlier_ones() {
    let mut t = Three::new();
    t.cast(C, Order::Fifo, Uniformity::Plain);
    t.carry(C, &[B]);
    t.cast(B, Order::Causal, Uniformity::Plain);
    t.cast(B, Order::Fifo, Uniformity::Uniform);
    t.carry(B, &[A, C]);
    t.tell();
    assert_eq!(t.delivered(B), [(C, 1), (B, 1)]);
    t.carry(C, &[A]);
    t.tell();
    t.tell();
    assert_eq!(t.delivered(B), [(C, 1), (B, 1), (B, 2)]);
}

/// b's abcast has its place after a's. As long as a member lacks a's, b's may still get another place.
#[test]
fn a_uniform_abcast_waits_for_the_abcasts_before_it() {
    let mut t = Three::new();
    t.cast(B, Order::Total, Uniformity::Plain);
    t.carry(B, &[A]); // a places it; c lacks it
    t.cast(A, Order::Total, Uniformity::Uniform);
    t.carry(A, &[B, C]);
    t.tell();
    assert_eq!(t.delivered(A), [(B, 1)]);
    t.carry(B, &[C]);
    t.tell();
    t.tell();
    assert!([A, B, C].iter().all(|&at| t.delivered(at) == [(B, 1), (A, 1)]));
}

/// All members have a's first packet, but not its second, on which b's message rests. Stability ends with the first.
#[test]
fn what_rests_on_the_first_packet_after_those_known_to_be_stable_waits() {
    for order in [Order::Fifo, Order::Causal, Order::Total] {
        let mut t = Three::new();
        t.cast(A, Order::Fifo, Uniformity::Uniform);
        t.carry(A, &[B, C]);
        t.cast(A, order, Uniformity::Plain);
        t.carry(A, &[B]); // c lacks a:2, and b has it before it hears what is stable
        t.tell();
        t.cast(B, Order::Causal, Uniformity::Uniform);
        t.carry(B, &[A, C]);
        (0..3).for_each(|_| t.tell());
        assert_eq!([A, B, C].map(|at| t.delivered(at).len()), [2, 2, 1], "{order:?}: all but b:1, and c lacks a:2");
        t.carry(A, &[C]);
        (0..3).for_each(|_| t.tell());
        assert!([A, B, C].iter().all(|&at| t.delivered(at) == [(A, 1), (A, 2), (B, 1)]), "{order:?}");
    }
}

/// Only a and b know that the token passed to b. Without them c, which has all other packets, would order by rank.
#[test]
fn a_uniform_abcast_waits_for_the_pass_that_let_its_holder_order_it() {
    let mut t = Three::new();
    t.group_streams[A.index()].0.set.token_tally = 5;
    (0..4).for_each(|_| t.cast(B, Order::Total, Uniformity::Plain));
    t.carry(B, &[A]);
    t.cast(A, Order::Total, Uniformity::Uniform); // the fifth, in its place already: the pass goes alone
    let pass = t.group_streams[A.index()].1.packets.pop();
    t.carry(B, &[C]);
    t.carry(A, &[B, C]);
    (0..3).for_each(|_| t.tell());
    assert_eq!([A, B, C].map(|at| t.delivered(at).len()), [4, 5, 5], "a awaits the pass even for what was before it");
    t.group_streams[A.index()].1.packets.extend(pass);
    t.carry(A, &[B]);
    assert_eq!([A, B, C].map(|at| t.group_streams[at.index()].0.token_holder()), [B, B, A], "c has not heard of it");
    t.cast(B, Order::Total, Uniformity::Uniform);
    t.carry(B, &[A, C]);
    (0..3).for_each(|_| t.tell());
    assert_eq!([A, B, C].map(|at| t.delivered(at).len()), [4, 5, 5], "its place rests on the pass");
    t.carry(A, &[C]);
    (0..3).for_each(|_| t.tell());
    assert!([A, B, C].iter().all(|&at| t.delivered(at).len() == 6));
}

/// b receives the pass before it can deliver what a ordered earlier. Also then, what b orders waits until c has the
/// pass.
#[test]
fn a_pass_is_awaited_though_what_was_ordered_before_it_is_delivered_after_it() {
    let mut t = Three::new();
    t.group_streams[A.index()].0.set.token_tally = 10;
    t.cast(C, Order::Total, Uniformity::Plain);
    t.carry(C, &[A]); // b lacks c:1, the first of all
    (0..8).for_each(|_| t.cast(B, Order::Total, Uniformity::Plain));
    t.carry(B, &[A, C]);
    t.cast(A, Order::Total, Uniformity::Uniform); // the tenth: the pass goes alone
    let pass = t.group_streams[A.index()].1.packets.pop();
    t.carry(A, &[C]);
    t.group_streams[A.index()].1.packets.extend(pass);
    t.carry(A, &[B]);
    assert_eq!([A, B, C].map(|at| t.group_streams[at.index()].0.token_holder()), [B, B, A], "c has not heard of it");
    assert_eq!(t.delivered(B), []);
    t.carry(C, &[B]);
    t.cast(B, Order::Total, Uniformity::Uniform);
    t.carry(B, &[A, C]);
    (0..3).for_each(|_| t.tell());
    assert_eq!(t.delivered(B)[..2], [(C, 1), (B, 1)]);
    assert!([A, B, C].iter().all(|&at| !t.delivered(at).contains(&(B, 9))), "its place rests on the pass");
    t.carry(A, &[C]);
    (0..3).for_each(|_| t.tell());
    assert!([A, B, C].iter().all(|&at| t.delivered(at).len() == 11 && t.delivered(at).last() == Some(&(B, 9))));
}

/// How far one member holds each stream when the view ends.
fn end(view_streams: &mut ViewStreams, now: Instant, port: &mut Port) -> Vec<u64> {
    view_streams.wedge(now, port).iter().map(|said| said.prefix).collect()
}

#[test]
fn at_the_end_all_deliver_the_same_rest_in_the_same_order() {
    let mut t = Three::new();
    t.cast(C, Order::Fifo, Uniformity::Plain); // c:1 reaches nobody but b
    t.carry(C, &[B]);
    t.cast(B, Order::Causal, Uniformity::Plain); // b:1 needs c:1
    t.cast(A, Order::Total, Uniformity::Plain); // a:1 is sequenced
    t.carry(B, &[A]);
    t.carry(A, &[B]);
    // a lacks c's message. If b goes with c, the cut of a alone lacks c:1, so b:1 is discarded.
    let (view_streams, port) = &mut t.group_streams[A.index()];
    let cut = end(view_streams, t.now, port);
    assert_eq!(cut, [1, 1, 0]);
    assert_eq!(view_streams.finish(&cut, port), Some(1));
    assert_eq!(t.delivered(A), [(A, 1)]);
    // b holds c:1 and would have kept it. With b's report the cut is longer, and b:1 stays.
    let (view_streams, port) = &mut t.group_streams[B.index()];
    let cut = end(view_streams, t.now, port);
    assert_eq!(cut, [1, 1, 1]);
    assert_eq!(view_streams.finish(&cut, port), Some(0));
    assert_eq!(t.delivered(B), [(C, 1), (B, 1), (A, 1)]);
}

#[test]
fn unordered_abcasts_follow_lowest_rank_first() {
    let mut t = Three::new();
    t.cast(C, Order::Total, Uniformity::Plain);
    t.cast(B, Order::Total, Uniformity::Plain);
    t.carry(B, &[C]);
    t.carry(C, &[B]);
    for at in [B, C] {
        let (view_streams, port) = &mut t.group_streams[at.index()];
        let cut = end(view_streams, t.now, port);
        assert_eq!(cut, [0, 1, 1]);
        assert_eq!(view_streams.finish(&cut, port), Some(0));
        assert_eq!(t.delivered(at), [(B, 1), (C, 1)]);
    }
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of members take the interpreter many minutes")]
fn in_a_group_of_hundreds_dependencies_that_fit_in_no_header_go_ahead() {
    // A sender, and its packets by number.
    type Said = (Rank, Vec<(u64, Vec<u8>)>);
    const MEMBERS: u64 = 1000;
    let now = Instant(1);
    let others: Vec<Said> = (2..1000)
        .map(Rank)
        .map(|me| {
            let (mut other, mut port) = view_streams(me, MEMBERS);
            assert!(other.multicast(now, (Order::Fifo, Uniformity::Plain).into(), &[b"m"], &mut port).is_some());
            other.poll(now, &mut port);
            (me, port.packets)
        })
        .collect();
    let hear = |(listener, port): &mut (ViewStreams, Port), all: &[Said]| {
        for (from, packets) in all {
            for (number, frames) in packets {
                listener.handle_packet(now, *from, PacketNumber(*number), ReceivedFrames::Lent(frames), port);
            }
        }
        listener.poll(now, port);
    };
    // A short message, which has all of them in its past, and one in fragments.
    let mut sender = view_streams(Rank(0), MEMBERS);
    hear(&mut sender, &others);
    assert_eq!(sender.1.delivered.len(), 998);
    let long = vec![7; 5000];
    for payload in [&b"short"[..], &long] {
        assert!(
            sender.0.multicast(now, (Order::Causal, Uniformity::Plain).into(), &[payload], &mut sender.1).is_some()
        );
        sender.0.poll(now, &mut sender.1);
    }
    assert!(sender.1.packets.iter().all(|(_, frames)| frames.len() <= 1200));
    // A member that lacks one of them waits for it; a member that has all delivers.
    let mut late = view_streams(Rank(1), MEMBERS);
    hear(&mut late, &[(Rank(0), sender.1.packets.clone())]);
    hear(&mut late, &others[1..]);
    assert_eq!(late.1.delivered.len(), 997);
    hear(&mut late, &others[..1]);
    assert_eq!(late.1.delivered.len(), 1000);
    assert_eq!(late.1.delivered[998..], [(Rank(0), 1), (Rank(0), 2)]);
}

#[test]
fn while_the_system_takes_nothing_messages_wait_and_orders_go_out() {
    let mut t = Three::new();
    t.group_streams[A.index()].0.set_congested(true);
    let (view_streams, port) = &mut t.group_streams[A.index()];
    assert!(view_streams.multicast(t.now, (Order::Fifo, Uniformity::Plain).into(), &[b"m"], port).is_some(), "kept");
    while view_streams.poll(t.now, port) {}
    assert!(!view_streams.is_packing() && port.packets.is_empty(), "nothing to do");
    assert_eq!(view_streams.hold(), Some(Hold::System));
    // The oldest member still orders what another sends.
    t.cast(B, Order::Total, Uniformity::Plain);
    t.carry(B, &[A, C]);
    t.carry(A, &[B, C]);
    assert_eq!(t.delivered(C), [(B, 1)]);
    t.group_streams[A.index()].0.set_congested(false);
    assert!(t.group_streams[A.index()].0.is_packing());
    let (view_streams, port) = &mut t.group_streams[A.index()];
    while view_streams.poll(t.now, port) {}
    t.carry(A, &[B, C]);
    assert_eq!((t.delivered(C), t.group_streams[A.index()].0.hold()), (&[(B, 1), (A, 1)][..], None));
}

#[test]
fn what_waits_for_members_or_a_quorum_does_not_wait_for_the_system() {
    let mut t = Three::new();
    let (view_streams, port) = &mut t.group_streams[A.index()];
    view_streams.set_adequate(false);
    assert!(
        view_streams.multicast(t.now, (Order::Fifo, Uniformity::Uniform).into(), &[b"m"], port).is_some(),
        "accepted"
    );
    view_streams.set_congested(true);
    assert_eq!(view_streams.hold(), Some(Hold::Inadequate));
    view_streams.set_primary(false);
    assert_eq!(view_streams.hold(), Some(Hold::Outside));
    view_streams.set_primary(true);
    view_streams.set_adequate(true);
    assert_eq!(view_streams.hold(), Some(Hold::System), "nothing but the full socket is left");
}

#[test]
fn in_an_inadequate_view_uniform_messages_wait_and_what_is_behind_them() {
    let mut t = Three::new();
    let (view_streams, port) = &mut t.group_streams[A.index()];
    view_streams.set_adequate(false);
    for uniformity in [Uniformity::Plain, Uniformity::Uniform, Uniformity::Plain] {
        assert!(view_streams.multicast(t.now, (Order::Fifo, uniformity).into(), &[b"m"], port).is_some(), "accepted");
    }
    while view_streams.poll(t.now, port) {}
    assert!(!view_streams.is_packing(), "nothing to do");
    assert_eq!((view_streams.hold(), view_streams.queued().messages), (Some(Hold::Inadequate), 2));
    assert_eq!(port.bounds, [Backpressure::Members], "said once");
    assert!(
        view_streams.is_sent() && !view_streams.is_drained(),
        "a leaver waits for these no longer than for what is unstable"
    );
    view_streams.set_primary(false);
    assert!(!view_streams.is_sent(), "a leaver waits until they can be sent");
    view_streams.set_primary(true);
    t.carry(A, &[B, C]);
    assert_eq!(t.delivered(C), [(A, 1)]);
    let (view_streams, port) = &mut t.group_streams[A.index()];
    view_streams.set_adequate(true);
    assert!(view_streams.is_packing());
    while view_streams.poll(t.now, port) {}
    assert_eq!((view_streams.hold(), view_streams.queued().messages), (None, 0));
    // A message in many packets that has begun continues only when enough members are there again.
    assert!(view_streams.multicast(t.now, (Order::Fifo, Uniformity::Uniform).into(), &[&[0; 200_000]], port).is_some());
    while view_streams.poll(t.now, port) {}
    assert!(view_streams.is_cut_off(), "it is longer than the window");
    view_streams.set_adequate(false);
    let sent = port.packets.len();
    t.carry(A, &[B, C]);
    t.tell();
    let (view_streams, port) = &mut t.group_streams[A.index()];
    assert_eq!(
        (port.packets.len(), view_streams.hold(), view_streams.is_blocked()),
        (sent, Some(Hold::Inadequate), false)
    );
    view_streams.set_adequate(true);
    while view_streams.poll(t.now, port) {}
    assert!(port.packets.len() > sent);
}

#[test]
fn more_runs_than_one_announcement_holds_are_announced_one_after_the_other() {
    // A sender, and its packets by number.
    type Said = (Rank, Vec<(u64, Vec<u8>)>);
    const MEMBERS: usize = 80;
    let now = Instant(1);
    let mut group_streams: Vec<(ViewStreams, Port)> =
        Rank::all(MEMBERS).map(|me| view_streams(me, MEMBERS as u64)).collect();
    let mut said: Vec<Said> = Vec::new();
    for (rank, (view_streams, port)) in Rank::enumerate(&mut group_streams).skip(1) {
        assert!(view_streams.multicast(now, (Order::Total, Uniformity::Plain).into(), &[b"m"], port).is_some());
        while view_streams.poll(now, port) {}
        said.push((rank, std::mem::take(&mut port.packets)));
    }
    // The holder receives all of them before it announces anything.
    let hear = |(view_streams, port): &mut (ViewStreams, Port), said: &[Said], me: Rank| {
        for (from, packets) in said.iter().filter(|(from, _)| *from != me) {
            for (number, frames) in packets {
                view_streams.handle_packet(now, *from, PacketNumber(*number), ReceivedFrames::Lent(frames), port);
            }
        }
        while view_streams.poll(now, port) {}
    };
    hear(&mut group_streams[0], &said, Rank(0));
    said.push((Rank(0), std::mem::take(&mut group_streams[0].1.packets)));
    hear(&mut group_streams[1], &said, Rank(1));
    assert_eq!(group_streams[0].1.delivered.len(), MEMBERS - 1, "one run for each, and 32 in an announcement");
    assert_eq!(group_streams[0].1.delivered, group_streams[1].1.delivered);
}
