//! The path of a session at either end: addresses, packet numbers and keys, and what is in flight.

use std::net::SocketAddr;
use std::time::Duration;

use super::api::{CallEffects, EndpointLimits};
use super::congestion::Congestion;
use super::context::SessionContext;
use super::fragmentation::{Change, OutgoingMessage, Proof, fragment_bytes};
use super::receive_budget::Reach;
use super::session_packets::SessionPackets;
use super::transmit::{TransmitPath, transmit_message};
use super::wire::{
    CHALLENGE_PACKET_LEN, CallName, DATA_HEAD_MAX, Data, FragmentAck, FragmentPosition, Opened, Side, put_challenge,
    put_credit,
};
use crate::id::Incarnation;
use crate::link::Rtt;
use crate::rng::Rng;
use crate::seal::SessionKey;
use crate::time::Instant;
use crate::truesize::truesize;
use crate::wire::{Header, Kind, PacketNumber, SessionIndex, SessionSecret};

/// Allowance for an unproved address, until its owner returns the challenge (RFC 9000, section 8). Without it, a forged
/// source address would direct answers at a victim.
#[derive(Clone, Copy, Debug)]
struct Unproved {
    challenge: u64,
    /// Bytes of packets: three times those received from there, less those sent there.
    room: u64,
}

/// Bytes that may be sent for each byte received from an unproved address.
const UNPROVED_FACTOR: u64 = 3;

/// One end of an open session.
pub(super) struct SessionPath {
    pub(super) to: SocketAddr,
    pub(super) reach: Reach,
    /// Set while it is not proved that the other side is at `to`, since its packets began to come from there.
    unproved: Option<Unproved>,
    /// The address where the other side was last proved to be.
    proved: Option<SocketAddr>,
    /// Whether the last packet went through memory.
    shares: bool,
    pub(super) peer: Incarnation,
    pub(super) key: SessionKey,
    pub(super) session_secret: SessionSecret,
    peer_session_index: SessionIndex,
    /// Upper and lower half of the next packet's number.
    serial: u32,
    count: u32,
    /// Whether no number is left for a further packet. The session is to end then.
    pub(super) is_used_up: bool,
    /// The greatest packet number received.
    pub(super) seen: PacketNumber,
    /// The longest packet that both sides accept.
    packet_bytes: usize,
    tag_len: usize,
    /// Upper bound on the bytes of a message in one packet.
    pub(super) longest_piece: usize,
    /// Small frames for the next packet. At `pending_due` they go without one.
    pub(super) pending: Vec<u8>,
    pub(super) pending_due: Option<Instant>,
    /// The credit that the next packet grants to the client, at a server.
    pub(super) credit: Option<u64>,
    pub(super) heard: Instant,
    /// Whether the last packet received came through memory.
    pub(super) heard_in_memory: bool,
    pub(super) rtt: Rtt,
    pub(super) congestion: Congestion,
    /// Bytes sent and not acknowledged or lost, as charged.
    pub(super) in_flight: u64,
    /// The packet whose round trip is measured, its slot, and when it was sent.
    timed: Option<(PacketNumber, u8, Instant)>,
}

/// Accounting of a message's fragments in flight, in bytes as a receive buffer is charged.
#[derive(Clone, Copy)]
pub(super) struct Charge {
    /// Charge of each fragment. 0: the receiver has reserved room for all of them.
    pub(super) each: u64,
    /// Bytes that the other side's buffer accepts in all.
    pub(super) credit: u64,
}

impl SessionPath {
    /// A path for a new session, or `None` if no packet numbers are left for it.
    pub(super) fn new(
        net: &mut SessionPackets,
        now: Instant,
        to: SocketAddr,
        peer: Incarnation,
        key: SessionKey,
        opened: &Opened,
    ) -> Option<Self> {
        let packet_bytes = opened.packet_bytes.min(net.packet_bytes).max(PACKET_BYTES_MIN) as usize;
        let serial = net.take_serial()?;
        Some(Self {
            to,
            reach: Reach::of(to),
            unproved: None,
            proved: None,
            shares: false,
            peer,
            key,
            session_secret: opened.session_secret,
            peer_session_index: opened.session_index,
            serial,
            count: 0,
            is_used_up: false,
            seen: PacketNumber(0),
            packet_bytes,
            tag_len: net.tag_len,
            longest_piece: packet_bytes - Header::LEN - net.tag_len - DATA_HEAD_MAX,
            pending: Vec::new(),
            pending_due: None,
            credit: None,
            heard: now,
            heard_in_memory: false,
            rtt: Rtt::default(),
            congestion: Congestion::new(truesize(packet_bytes as u64), net.pace),
            in_flight: 0,
            timed: None,
        })
    }

    /// Sends answers to `from` from now on, because the other side's latest packet came from there.
    ///
    /// An attacker that forwards a packet faster than its sender can divert answers until the next packet, and cannot
    /// read them (RFC 9000, section 9.3). It diverts few bytes, because it cannot return the challenge.
    #[inline]
    pub(super) fn answer_at(&mut self, from: SocketAddr, rng: &mut Rng) {
        if self.to != from {
            // The former address counts as proved, unless it was in doubt.
            self.proved = self.proved.or_else(|| self.unproved.is_none().then_some(self.to));
            self.to = from;
            self.reach = Reach::of(from);
            self.unproved = None;
            // It may return to the address that it proved last without a new proof.
            if self.proved != Some(from) {
                self.doubt(rng);
            }
        }
    }

    /// Starts to doubt that the other side is where answers go. It has to prove it.
    pub(super) fn doubt(&mut self, rng: &mut Rng) {
        self.unproved.get_or_insert_with(|| Unproved { challenge: rng.next_u64(), room: 0 });
    }

    /// Counts `len` bytes received from where answers go.
    #[inline]
    pub(super) fn came(&mut self, len: usize) {
        if let Some(unproved) = &mut self.unproved {
            unproved.room = unproved.room.saturating_add(UNPROVED_FACTOR * len as u64);
        }
    }

    /// Checks a returned challenge: it proves that the other side receives at this address.
    pub(super) fn prove(&mut self, bits: u64) -> bool {
        let proves = self.unproved.is_some_and(|unproved| unproved.challenge == bits);
        if proves {
            (self.unproved, self.proved) = (None, Some(self.to));
        }
        proves
    }

    #[inline]
    pub(super) fn is_proved(&self) -> bool {
        self.unproved.is_none()
    }

    /// Sends the challenge in a packet of its own, for which there is always room.
    pub(super) fn challenge(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        if let Some(Unproved { challenge, .. }) = self.unproved {
            // Pending frames stay behind: with them the packet might exceed the allowance of the address.
            let pending = std::mem::take(&mut self.pending);
            put_challenge(&mut self.pending, challenge);
            self.send(context, None);
            self.pending = pending;
        }
    }

    /// Whether a packet with `bytes` bytes of a message may go to the other side's address.
    #[inline]
    pub(super) fn may_send(&self, bytes: usize) -> bool {
        self.unproved.is_none_or(|unproved| {
            // The allowance must still cover a challenge afterwards, or nothing could be proved any more.
            let len = Header::LEN + self.pending.len() + DATA_HEAD_MAX + bytes + self.tag_len;
            unproved.room >= (len + CHALLENGE_PACKET_LEN) as u64
        })
    }

    /// Leaves this many numbers under its serial, for tests.
    #[cfg(test)]
    pub(super) fn use_up(&mut self, numbers_left: u32) {
        self.count = u32::MAX - numbers_left;
    }

    /// Charge of a packet with `bytes` bytes of a message in the other side's buffer.
    #[inline]
    pub(super) fn truesize_of(&self, bytes: usize) -> u64 {
        truesize((bytes + Header::LEN + self.tag_len + DATA_HEAD_MAX).min(self.packet_bytes) as u64)
    }

    /// Length of the fragments of a message of `len` bytes, except the last.
    #[inline]
    pub(super) fn fragment_bytes(&self, len: usize) -> usize {
        fragment_bytes(self.longest_piece, len)
    }

    /// Charge of each such fragment in the other side's buffer.
    #[inline]
    pub(super) fn truesize_each(&self, len: usize) -> u64 {
        self.truesize_of(self.fragment_bytes(len))
    }

    /// Upper bound on one answer in flight to this side, in bytes as charged, so that other answers need not wait
    /// behind it. Through memory or a network less is better, because it stays in the caches. The system's sockets move
    /// more at once in less time.
    pub(super) fn receive_budget_of_one(&self, limits: &EndpointLimits) -> u64 {
        if self.reach == Reach::Host && !self.shares { SOCKET_RECEIVE_BUDGET } else { limits.receive_budget_bytes / 2 }
    }

    /// Whether another packet charged with `each` may go out, within the congestion window and the `credit` of the
    /// other side's buffer.
    #[inline]
    pub(super) fn has_room(&self, each: u64, credit: u64) -> bool {
        self.has_credit(each, credit.min(self.congestion.window))
    }

    /// Whether the other side's buffer allows it, whatever the congestion window.
    #[inline]
    pub(super) fn has_credit(&self, each: u64, credit: u64) -> bool {
        // One packet may always be in flight, however short the other side's buffer is.
        self.in_flight == 0 || self.in_flight.saturating_add(each) <= credit
    }

    /// Sends a packet with the pending frames and a piece of a message, if there is one, and returns its number.
    ///
    /// If no number is left, nothing is sent any more, and the session ends with this iteration of the event loop.
    pub(super) fn send(
        &mut self,
        context: &mut SessionContext<'_, impl CallEffects>,
        data: Option<&Data<'_>>,
    ) -> PacketNumber {
        let bytes = data.map_or(&[][..], |data| data.bytes);
        let longest = self.pending.len() + DATA_HEAD_MAX + bytes.len();
        if data.is_some() && !self.pending.is_empty() && longest > self.packet_bytes - Header::LEN - self.tag_len {
            self.flush(context);
        }
        let (net, fx) = (&mut *context.net, &mut *context.fx);
        self.pending_due = None;
        // The lower half of the numbers is used up. Another serial gives as many again, if one is left.
        if self.count == u32::MAX {
            let Some(serial) = net.take_serial() else {
                self.is_used_up = true;
                self.pending.clear();
                return self.newest();
            };
            (self.serial, self.count) = (serial, 0);
        }
        let before = self.newest();
        self.count += 1;
        let number = self.newest();
        debug_assert!(number > before, "a repeated packet number would repeat a nonce");
        let packet = &mut net.packet;
        packet.clear();
        net.sealer.header(Kind::Session, self.peer_session_index.space(), number).write(packet);
        if !self.pending.is_empty() {
            packet.extend_from_slice(&self.pending);
            self.pending.clear();
        }
        if let Some(credit) = self.credit.take() {
            // It uses the room that the head of a request has for a response credit, which an answer does not need.
            put_credit(packet, credit);
        }
        if let Some(data) = data {
            data.write_head(packet);
        }
        let len = packet.len() + bytes.len() + self.tag_len;
        debug_assert!(len <= self.packet_bytes, "{len} bytes");
        if let Some(unproved) = &mut self.unproved {
            let Some(room) = unproved.room.checked_sub(len as u64) else {
                // Treated like a lost packet: what it carries is probed for again.
                net.counters.unproved += 1;
                return number;
            };
            unproved.room = room;
        }
        net.counters.packets_sent += 1;
        let way = transmit_message(&mut net.sealer, self.session_secret.destination(), self.to, packet, bytes, fx);
        self.shares = way == TransmitPath::Memory;
        net.counters.packets_shared += u64::from(self.shares);
        number
    }

    /// Number of the latest packet.
    fn newest(&self) -> PacketNumber {
        PacketNumber(u64::from(self.serial) << 32 | u64::from(self.count))
    }

    /// Sends the pending frames, if there are any.
    pub(super) fn flush(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        if !self.pending.is_empty() {
            self.send(context, None);
        }
    }

    /// Sends the pending frames if they are many.
    pub(super) fn flush_many(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        if self.pending.len() > PENDING_MAX {
            self.flush(context);
        }
    }

    /// Sends of a message what may be sent, at the cost that `charge` gives. `piece`: the only bytes that may be sent,
    /// if they were announced and are not in the message yet. Returns whether everything went that its receiver allows.
    pub(super) fn send_message(
        &mut self,
        message: &mut OutgoingMessage,
        head: &Head,
        piece: &[u8],
        Charge { each, credit }: Charge,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) -> bool {
        while let Some(index) = message.next() {
            // A lost fragment is no longer in flight. Its retransmission is bound by the credit alone, however small
            // the window has become.
            let again = message.is_retransmission(index);
            let room = if again { self.has_credit(each, credit) } else { self.has_room(each, credit) };
            // The receiver has reserved room for fragments that are charged nothing.
            debug_assert!(piece.is_empty() || !again, "a piece that is announced was never sent");
            if each > 0 && !room || !self.may_send(message.fragment_bytes().min(message.len())) {
                return false;
            }
            self.in_flight += each;
            // The last fragment that may go asks for the ack that lets more go.
            let wants_ack = each > 0 && !self.has_room(each, credit);
            let number = self.send_fragment(message, index, head, (piece, wants_ack), context);
            if !message.is_whole() {
                self.time(number, head.name.slot, context.now);
            }
        }
        true
    }

    /// Sends a fragment, and returns the number of its packet. Its bytes are `piece`, unless that is empty.
    #[inline]
    pub(super) fn send_fragment(
        &mut self,
        message: &mut OutgoingMessage,
        index: u32,
        head: &Head,
        (piece, wants_ack): (&[u8], bool),
        context: &mut SessionContext<'_, impl CallEffects>,
    ) -> PacketNumber {
        let part = (!message.is_whole()).then(|| FragmentPosition { message_len: message.len() as u64, index });
        let bytes = if piece.is_empty() { message.fragment(index) } else { piece };
        let data = head.data(part, wants_ack, bytes);
        let number = self.send(context, Some(&data));
        message.sent(index, number);
        number
    }

    /// Applies an ack to a slot's message, whose fragments are each charged `each`.
    pub(super) fn take_ack(
        &mut self,
        message: &mut OutgoingMessage,
        (slot, each): (u8, u64),
        (ack, proves): (&FragmentAck, Proof),
        context: &mut SessionContext<'_, impl CallEffects>,
    ) -> Change {
        let change = message.take(ack, proves);
        self.in_flight = self.in_flight.saturating_sub(u64::from(change.ended) * each);
        if message.has_arrived() {
            self.stop_timing(slot);
        }
        self.learn(ack.seen, change.arrived, change.lost, context.now);
        context.net.counters.lost += u64::from(change.lost);
        change
    }

    /// Starts to measure the round trip of packet `number`, unless another one is being measured.
    fn time(&mut self, number: PacketNumber, slot: u8, now: Instant) {
        self.timed.get_or_insert((number, slot, now));
    }

    /// Stops measuring a slot's round trip, because its message has arrived: an ack for it may have waited for a packet
    /// to go with.
    pub(super) fn stop_timing(&mut self, slot: u8) {
        self.timed = self.timed.filter(|(_, timed, _)| *timed != slot);
    }

    /// Stops measuring, because the next news may have waited for a probe.
    pub(super) fn forget_timing(&mut self) {
        self.timed = None;
    }

    /// Learns from news of the other side: it has seen packets up to `seen`, `lost` of them are lost, `arrived`
    /// fragments are new there. A round trip that ends with this is no longer than the way, because the other side
    /// answered at once.
    fn learn(&mut self, seen: PacketNumber, arrived: u32, lost: u32, now: Instant) {
        if let Some((number, _, at)) = self.timed
            && seen >= number
        {
            self.timed = None;
            let took = now.since(at);
            self.rtt.sample(took);
            self.congestion.sample(took);
        }
        if arrived > 0 {
            self.congestion.arrived(arrived, self.in_flight);
        }
        if lost > 0 {
            self.congestion.lost(seen, self.newest());
        }
    }

    /// Silence of a call after which it is probed, after `probes` probes. Doubled with each.
    pub(super) fn patience(&self, least: Duration, probes: u32) -> Duration {
        let first = (self.rtt.smoothed() * 2 + self.rtt.deviation() * 4).max(least);
        (first * (1 << probes.min(5))).min(PATIENCE_MAX.max(least))
    }
}

/// Fields that every packet of a message repeats.
pub(super) struct Head {
    pub(super) side: Side,
    pub(super) name: CallName,
    /// Response credit of a request.
    pub(super) response_credit: u64,
    /// Whether an answer is a refusal.
    pub(super) refusal: bool,
}

impl Head {
    fn data<'a>(&self, part: Option<FragmentPosition>, wants_ack: bool, bytes: &'a [u8]) -> Data<'a> {
        let Self { side, name, response_credit, refusal } = *self;
        Data { side, name, wants_ack, refusal, response_credit, part, bytes, placed: 0 }
    }
}

/// Orders messages with something to send: those with the fewest fragments left first, then by age. The fields are the
/// fragments left, a number that grows with each message, and the slot. Short messages are done soon, and delay a long
/// one little.
pub(super) fn shortest_first(waiting: impl Iterator<Item = (u32, u64, usize)>) -> Vec<(u32, u64, usize)> {
    let mut waiting: Vec<(u32, u64, usize)> = waiting.collect();
    waiting.sort_unstable();
    debug_assert!(waiting.iter().all(|(left, ..)| *left > 0), "a message waits that has arrived");
    waiting
}

/// Adjusts `unsent`, the number of messages with something to send, after one of them changed.
pub(super) fn recount(unsent: &mut u32, had: bool, has: bool) {
    match (had, has) {
        (false, true) => *unsent += 1,
        (true, false) => {
            debug_assert!(*unsent > 0, "a message with something to send is counted");
            *unsent -= 1;
        }
        _ => {}
    }
}

/// Lower bound on the packets that a side must accept. An announced shorter one counts as this.
const PACKET_BYTES_MIN: u32 = 576;
const _: () = assert!(
    PACKET_BYTES_MIN as usize > Header::LEN + DATA_HEAD_MAX + PENDING_MAX,
    "the shortest packet has room for pending frames and a piece of a message"
);

/// Bytes of one answer in flight through the sockets of this host.
const SOCKET_RECEIVE_BUDGET: u64 = 2 << 20;

/// Bytes of pending frames beyond which they go in a packet of their own. With the longest frame except data they fit
/// any packet.
const PENDING_MAX: usize = 256;

/// Upper bound on the time between two probes.
const PATIENCE_MAX: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::api::EndpointOptions;
    use crate::rpc::congestion::Pace;
    use crate::seal::Security;

    fn path_to(ip: [u8; 4]) -> SessionPath {
        let options = EndpointOptions {
            cell: "test".to_owned(),
            me: Incarnation(1),
            packet_bytes_max: 1472,
            receive_bytes: 0,
            serves: true,
            offer: Vec::new(),
            limits: EndpointLimits::default(),
        };
        let mut net = SessionPackets::new(&Security::None, &options, Pace::new(&options.limits));
        let key = crate::seal::Opener::new(&Security::None, "test", Incarnation(1)).session_key(Incarnation(2));
        let opened = Opened {
            session_index: SessionIndex(0),
            session_secret: SessionSecret(5),
            slots: 8,
            packet_bytes: 1472,
            credit: 0,
        };
        SessionPath::new(&mut net, Instant(1), SocketAddr::from((ip, 1)), Incarnation(2), key, &opened)
            .expect("the first")
    }

    /// One answer through a network or through memory gets half of the budget, so that another fits.
    #[test]
    fn one_answer_takes_half_of_the_receive_budget_but_through_the_sockets_of_one_host() {
        let limits = EndpointLimits::default();
        assert_eq!(path_to([10, 0, 0, 1]).receive_budget_of_one(&limits), limits.receive_budget_bytes / 2);
        let mut near = path_to([127, 0, 0, 1]);
        assert_eq!(near.receive_budget_of_one(&limits), SOCKET_RECEIVE_BUDGET);
        near.shares = true;
        assert_eq!(near.receive_budget_of_one(&limits), limits.receive_budget_bytes / 2);
    }

    #[test]
    fn a_round_trip_ends_when_its_packet_was_seen_and_a_loss_makes_the_window_smaller() {
        let mut path = path_to([127, 0, 0, 1]);
        let ms = Duration::from_millis;
        let unknown = path.rtt.smoothed();
        path.time(PacketNumber(7), 0, Instant(1));
        path.learn(PacketNumber(6), 1, 0, Instant(1) + ms(2));
        assert_eq!((path.timed.is_some(), path.rtt.smoothed()), (true, unknown), "it may still be on its way");
        path.learn(PacketNumber(8), 1, 0, Instant(1) + ms(3));
        assert_eq!((path.timed.is_some(), path.rtt.smoothed()), (false, ms(3)));
        let window = path.congestion.window;
        path.learn(PacketNumber(9), 0, 0, Instant(1) + ms(3));
        assert_eq!(path.congestion.window, window);
        path.learn(PacketNumber(10), 0, 1, Instant(1) + ms(3));
        assert_eq!(path.congestion.window, window / 2);
    }
}
