//! The client end of a session: each call from its first packet to its outcome, and the outcomes when the session is
//! lost.

mod answers;
mod timers;

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

use super::api::{CallEffects, CallError, CallOptions, ClientCallId, Failure, Outcome, Reason, TracePoint};
use super::context::{SLOTS_MAX, SessionContext};
use super::fragmentation::{OutgoingMessage, Proof};
use super::path::{Charge, Head, SessionPath, recount, shortest_first};
use super::reassembly::Reassembly;
use super::session_packets::SessionPackets;
use super::wire::{
    ALL, CallName, FragmentAck, Opened, Refusal, SessionHandshake, Side, put_cancel, put_close, put_proof,
};
use crate::time::Instant;
use crate::transitions::transitions;
use crate::wire::{PacketNumber, SessionIndex};
use timers::SILENT_PROBES;

/// A session on the side of its client.
pub(super) struct ClientSession {
    pub(super) server: SocketAddr,
    session_index: SessionIndex,
    nonce: u64,
    connection: Connection,
    slots: Vec<ClientSlot>,
    /// Number of slots that the server offers.
    offered: usize,
    free: Vec<u8>,
    queue: VecDeque<Queued>,
    credit: u64,
    /// The packet that granted `credit`. A grant in an earlier packet that arrives later is out of date.
    credited_by: PacketNumber,
    /// Number of calls with something to send.
    unsent: u32,
    /// Smoothed length of answers, in bytes.
    answer_bytes: u64,
    /// Rounds of probes since the server was last heard.
    unanswered: u32,
    /// When the last such round was sent.
    probed_at: Instant,
    /// When the timers are due.
    pub(super) due: Instant,
    /// When the session was last requested, or pinged.
    asked: Instant,
    /// Whether the server may be waiting for pending notices. They go out in this iteration.
    tells: bool,
}

/// The state of a session at its client.
#[allow(clippy::large_enum_variant, reason = "a session is mostly open; a box would cost each packet a load")]
enum Connection {
    Asking,
    Open(SessionPath),
    Closed,
}

transitions! {
    /// [`Connection`] without its data.
    states SessionState {
        /// The server is asked for a session for as long as there are calls to make.
        Asking,
        /// The server has opened it, and calls run in it.
        Open,
        /// The application closed it.
        Closed,
    }
    begin Asking; end [Closed];
    events SessionEvent {
        /// The server opens it.
        Open (Asking => Open),
        /// The server does not know it any more, or this endpoint has no number left for its packets.
        Lose (Open => Asking),
        /// The application closes it.
        Close (Asking | Open => Closed),
    }
}

impl Connection {
    fn state(&self) -> SessionState {
        match self {
            Self::Asking => SessionState::Asking,
            Self::Open(_) => SessionState::Open,
            Self::Closed => SessionState::Closed,
        }
    }

    #[inline]
    fn path(&self) -> Option<&SessionPath> {
        match self {
            Self::Open(path) => Some(path),
            Self::Asking | Self::Closed => None,
        }
    }

    #[inline]
    fn path_mut(&mut self) -> Option<&mut SessionPath> {
        match self {
            Self::Open(path) => Some(path),
            Self::Asking | Self::Closed => None,
        }
    }
}

/// The part of a call that is kept until it is over, wherever it waits.
#[derive(Clone, Copy, Debug, Default)]
struct Terms {
    call_id: ClientCallId,
    deadline: Instant,
    idempotent: bool,
    /// Whether it may have run in a lost session, from which it was taken over into this one.
    may_have_run: bool,
}

impl Terms {
    /// How the call fails. `begun`: this session has sent something of it.
    fn failure(&self, begun: bool, reason: Reason) -> Failure {
        if begun || self.may_have_run { Failure::Unknown(reason) } else { Failure::NotExecuted(reason) }
    }
}

#[derive(Default)]
struct ClientSlot {
    call: u64,
    state: CallState,
    terms: Terms,
    request: OutgoingMessage,
    answer: Reassembly,
    /// Bytes reserved for its answer.
    reserved: u64,
    /// Since when nothing was heard of it or sent for it.
    quiet_since: Instant,
    /// When something of its request was last sent.
    sent_at: Instant,
    probes: u32,
    /// The packet that probed for it last.
    asked_as: PacketNumber,
    /// Whether an ack for its answer is due in this iteration.
    ack_due: bool,
    /// Whether the server may send nothing more of its answer for now, because no room was left.
    starved: bool,
    /// News of the slot's last call that the server may lack.
    unreported: Unreported,
}

/// News of a call that is over, which the server may lack and keeps something for. The next call in the slot settles
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Unreported {
    #[default]
    Nothing,
    /// The answer has arrived, with this many fragments.
    Came(u32),
    /// It was given up.
    GivenUp,
}

transitions! {
    /// The state of a client's slot.
    #[derive(Default)]
    states CallState {
        /// It carries no call.
        #[default]
        Free,
        /// Its call waits for the answer.
        Active,
        /// The application gave its call up, and the server is asked whether it ran.
        Cancelling,
    }
    begin Free; end [];
    events SlotEvent {
        /// A call begins.
        Begin (Free => Active),
        /// The application gives up a call of which something was sent.
        Cancel (Active => Cancelling),
        /// The answer, or a refusal, has arrived.
        Answer (Active | Cancelling => Free),
        /// The call is over without an answer.
        Fail (Active | Cancelling => Free),
        /// The session is lost, and the call goes on in the next one.
        Requeue (Active => Free),
    }
}

impl ClientSlot {
    #[inline]
    fn enter(&mut self, event: SlotEvent, state: CallState) {
        event.check(self.state, state);
        self.state = state;
    }

    /// Whether the server may know of the call, so that it can be probed.
    fn may_be_probed(&self) -> bool {
        match self.state {
            CallState::Free => false,
            // A server that may send nothing of its answer is silent for that reason.
            CallState::Active => self.request.was_sent() && !self.starved,
            CallState::Cancelling => self.request.was_sent(),
        }
    }

    /// Notes that something of its answer arrived. `probed_at`: when the session was last probed.
    #[inline]
    fn heard(&mut self, probed_at: Instant, context: &mut SessionContext<'_, impl CallEffects>) {
        // A silence measures queues only if no probe fell into it: after one, the answer to the probe may have ended
        // it.
        if self.probes == 0 && self.quiet_since > probed_at {
            context.waits.note_silence(context.now, context.now.since(self.quiet_since));
        }
        self.quiet_since = context.now;
        self.probes = 0;
    }

    /// Whether something of the request may be sent.
    fn has_more(&self) -> bool {
        self.state == CallState::Active && self.request.next().is_some()
    }

    /// How the call fails for `reason`.
    fn failure(&self, reason: Reason) -> Failure {
        self.terms.failure(self.request.was_sent(), reason)
    }

    fn check_invariants(&self) {
        self.request.check_invariants();
        self.answer.check_invariants();
        match self.state {
            CallState::Free => {
                assert_eq!(self.request.len(), 0, "a free slot keeps a request");
                assert!(!self.answer.is_begun(), "a free slot keeps an answer");
                assert_eq!(self.reserved, 0, "a free slot has room reserved");
                assert!(!self.ack_due, "a free slot owes an ack");
            }
            CallState::Active => {
                assert!(self.call > 0, "calls are numbered from 1");
                assert!(!self.answer.is_complete(), "a call goes on whose answer is here");
            }
            CallState::Cancelling => {
                assert!(self.request.has_arrived(), "a call that was given up still sends its request");
                assert!(!self.has_more(), "a call that was given up sends more");
            }
        }
    }
}

/// A call that waits for a slot or for the session.
struct Queued {
    terms: Terms,
    request: Vec<u8>,
}

impl ClientSession {
    pub(super) fn new(server: SocketAddr, session_index: SessionIndex, nonce: u64, now: Instant) -> Self {
        Self {
            server,
            session_index,
            nonce,
            connection: Connection::Asking,
            slots: Vec::new(),
            offered: 0,
            free: Vec::new(),
            queue: VecDeque::new(),
            credit: 0,
            credited_by: PacketNumber(0),
            unsent: 0,
            answer_bytes: 0,
            unanswered: 0,
            probed_at: now,
            due: now,
            asked: now,
            tells: false,
        }
    }

    /// Number of calls that are not over.
    pub(super) fn outstanding(&self) -> usize {
        self.queue.len() + self.slots.len() - self.free.len()
    }

    pub(super) fn is_open(&self) -> bool {
        self.path().is_some()
    }

    pub(super) fn path(&self) -> Option<&SessionPath> {
        self.connection.path()
    }

    pub(super) fn path_mut(&mut self) -> Option<&mut SessionPath> {
        self.connection.path_mut()
    }

    fn enter(&mut self, event: SessionEvent, connection: Connection) {
        event.check(self.connection.state(), connection.state());
        self.connection = connection;
    }

    /// Starts a call: now if a slot is free, else when one is.
    pub(super) fn call(
        &mut self,
        call_id: ClientCallId,
        request: Cow<'_, [u8]>,
        options: &CallOptions,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) -> Result<(), CallError> {
        if !self.is_open() && context.net.is_used_up() {
            return Err(CallError::NumbersUsedUp);
        }
        let CallOptions { deadline, idempotent } = *options;
        let terms = Terms { call_id, deadline: context.now + deadline, idempotent, may_have_run: false };
        let slot = if self.queue.is_empty() && self.is_open() { self.take_slot() } else { None };
        if slot.is_none() && self.queue.len() >= context.limits.queued_calls {
            return Err(CallError::QueueFull);
        }
        context.fx.mark(TracePoint::Called, call_id.0);
        if let Some(slot) = slot {
            self.begin(slot, terms, request, context);
            return Ok(());
        }
        self.due = self.due.min(terms.deadline);
        if !self.is_open() {
            self.due = self.due.min(self.asks_again());
        }
        self.queue.push_back(Queued { terms, request: request.into_owned() });
        Ok(())
    }

    fn take_slot(&mut self) -> Option<usize> {
        if let Some(slot) = self.free.pop() {
            debug_assert!(usize::from(slot) < self.slots.len(), "a slot is free that there is not");
            return Some(usize::from(slot));
        }
        (self.slots.len() < self.offered).then(|| {
            self.slots.push(ClientSlot::default());
            self.slots.len() - 1
        })
    }

    /// Starts a call in a slot.
    fn begin(
        &mut self,
        slot: usize,
        terms: Terms,
        request: Cow<'_, [u8]>,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) {
        let Some(path) = self.connection.path() else { return };
        let call = &mut self.slots[slot];
        debug_assert_eq!(call.state, CallState::Free, "a slot carries one call at a time");
        debug_assert_eq!(call.reserved, 0, "a call that ends returns its reservation");
        debug_assert!(!call.answer.is_begun(), "an answer of an earlier call is in the slot");
        // A number never comes again in a slot: the server tells new calls from old ones by it.
        call.call += 1;
        call.enter(SlotEvent::Begin, CallState::Active);
        call.terms = terms;
        context.fx.mark(TracePoint::Begun, terms.call_id.0);
        call.quiet_since = context.now;
        (call.probes, call.asked_as, call.ack_due) = (0, PacketNumber(0), false);
        let rest = match request {
            Cow::Owned(request) => {
                call.request.give(request, &mut context.net.buffer_pool);
                call.request.begin(path.longest_piece, u32::MAX);
                &[]
            }
            Cow::Borrowed(request) => {
                call.request.empty(request.len(), &mut context.net.buffer_pool);
                call.request.begin_with(request.len(), path.longest_piece);
                request
            }
        };
        let expected =
            usize::try_from(self.answer_bytes.saturating_mul(2)).unwrap_or(usize::MAX).max(ANSWER_BYTES_LEAST);
        let fragment_bytes = path.fragment_bytes(expected);
        let wanted = if expected <= fragment_bytes {
            path.truesize_of(expected)
        } else {
            path.truesize_of(fragment_bytes)
                .saturating_mul(expected.div_ceil(fragment_bytes) as u64)
                .min(path.receive_budget_of_one(context.limits))
        };
        call.reserved = context.budget.take(wanted, path.truesize_of(ANSWER_BYTES_LEAST), path.reach);
        (call.starved, call.unreported) = (false, Unreported::Nothing);
        self.due = self.due.min(terms.deadline);
        // A call is never probed sooner. Mostly the timers are due earlier anyway, because of other calls.
        if self.due > context.now + context.waits.timer_min {
            self.due = self.due.min(context.now + path.patience(context.waits.timer_min, 0));
        }
        if self.unsent > 0 {
            // Other calls wait for room. What is free now may be theirs.
            self.slots[slot].request.append(rest);
            self.unsent += 1;
            self.send_waiting(context);
        } else {
            self.send_as_copied(slot, rest, context);
        }
    }

    /// Sends the rest of a request and copies it into its slot, piece by piece. Each piece travels while the next is
    /// copied.
    fn send_as_copied(&mut self, slot: usize, mut rest: &[u8], context: &mut SessionContext<'_, impl CallEffects>) {
        let mut sends = true;
        loop {
            let request = &mut self.slots[slot].request;
            let most = if sends { request.fragment_bytes() } else { usize::MAX };
            let (piece, after) = rest.split_at(rest.len().min(most));
            if sends {
                request.announce(piece.len());
                self.unsent += 1;
                sends = self.send_from(slot, piece, context);
            }
            self.slots[slot].request.append(piece);
            rest = after;
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Sends what a call may send. `piece` is the part that is not in its slot yet. Returns whether that was
    /// everything.
    fn send_from(&mut self, slot: usize, piece: &[u8], context: &mut SessionContext<'_, impl CallEffects>) -> bool {
        let Some(path) = self.connection.path_mut() else { return false };
        let call = &mut self.slots[slot];
        let name = CallName { slot: slot as u8, call: call.call };
        let head = Head { side: Side::Request, name, response_credit: call.reserved, refusal: false };
        let next = call.request.next();
        let each = per_fragment(path, &call.request);
        debug_assert_eq!(call.state, CallState::Active, "only a wanted call is sent");
        let is_done = path.send_message(&mut call.request, &head, piece, Charge { each, credit: self.credit }, context);
        debug_assert!(!is_done || self.unsent > 0, "a call with something to send is counted");
        self.unsent -= u32::from(is_done);
        if !is_done {
            context.fx.mark(TracePoint::Held, call.terms.call_id.0);
        } else if call.request.is_allowed() {
            context.fx.mark(TracePoint::Sent, call.terms.call_id.0);
        }
        if call.request.next() != next {
            (call.quiet_since, call.sent_at) = (context.now, context.now);
        }
        is_done
    }

    /// Sends what all calls may send, the shortest first.
    fn pump(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        while self.is_open() && self.free_slot_waits() {
            let Some(queued) = self.queue.pop_front() else { break };
            let Some(slot) = self.take_slot() else { break };
            self.begin(slot, queued.terms, Cow::Owned(queued.request), context);
        }
        if self.unsent > 0 {
            self.send_waiting(context);
        }
    }

    fn send_waiting(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        let waiting = self.slots.iter().enumerate().filter(|(_, call)| call.has_more());
        let waiting = waiting.map(|(slot, call)| (call.request.left(), call.terms.call_id.0, slot));
        for (_, _, slot) in shortest_first(waiting) {
            self.send_from(slot, &[], context);
        }
    }

    fn free_slot_waits(&self) -> bool {
        !self.queue.is_empty() && (!self.free.is_empty() || self.slots.len() < self.offered)
    }

    /// Handles an ack for a request.
    pub(super) fn handle_ack(
        &mut self,
        name: CallName,
        ack: &FragmentAck,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) -> bool {
        let Some(slot) = self.slot_of(name) else { return false };
        let Some(path) = self.connection.path_mut() else { return false };
        self.unanswered = 0;
        let call = &mut self.slots[slot];
        call.quiet_since = context.now;
        if ack.prefix == ALL {
            self.request_arrived(slot);
            return true;
        }
        let had = call.has_more();
        // A probe was sent after the other packets. If it was seen and they were not, they are lost.
        let proves = if call.asked_as.0 != 0 && ack.seen >= call.asked_as { Proof::Seen } else { Proof::Reordered };
        let each = per_fragment(path, &call.request);
        let change = path.take_ack(&mut call.request, (slot as u8, each), (ack, proves), context);
        if change.lost > 0 {
            context.fx.mark(TracePoint::Lost, call.terms.call_id.0);
        }
        if change.arrived > 0 || change.lost > 0 {
            call.probes = 0;
        }
        recount(&mut self.unsent, had, call.has_more());
        true
    }

    /// Handles the server's confirmation of a cancel.
    pub(super) fn handle_cancelled(
        &mut self,
        name: CallName,
        may_have_run: bool,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) -> bool {
        let Some(slot) = self.slot_of(name) else { return false };
        self.unanswered = 0;
        if self.slots[slot].state != CallState::Cancelling {
            return false;
        }
        let failure = self.slots[slot].terms.failure(may_have_run, Reason::Cancelled);
        self.fail(slot, failure, context);
        true
    }

    /// Handles the grant in packet `number` of what may be in flight.
    pub(super) fn handle_credit(&mut self, credit: u64, number: PacketNumber) -> bool {
        // Grants may overtake each other. The one in the later packet counts.
        if number <= self.credited_by {
            return false;
        }
        (self.credit, self.credited_by) = (credit, number);
        self.unsent > 0
    }

    /// Handles a challenge: the server asks whether this side is at its address.
    pub(super) fn handle_challenge(&mut self, bits: u64) -> bool {
        let Some(path) = self.connection.path_mut() else { return false };
        put_proof(&mut path.pending, bits);
        self.tells = true;
        true
    }

    /// The slot in which the named call is under way.
    fn slot_of(&self, name: CallName) -> Option<usize> {
        let slot = usize::from(name.slot);
        let call = self.slots.get(slot)?;
        (call.call == name.call && call.state != CallState::Free).then_some(slot)
    }

    /// Notes that the server has all of a request, because it answers.
    #[inline]
    fn request_arrived(&mut self, slot: usize) {
        let call = &mut self.slots[slot];
        if call.request.has_arrived() {
            return;
        }
        self.unsent -= u32::from(call.has_more());
        if let Some(path) = self.connection.path_mut() {
            let each = per_fragment(path, &call.request);
            path.stop_timing(slot as u8);
            path.in_flight = path.in_flight.saturating_sub(u64::from(call.request.complete()) * each);
        }
    }

    /// Ends a call, and frees its slot.
    fn end(
        &mut self,
        slot: usize,
        event: SlotEvent,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) -> ClientCallId {
        debug_assert_ne!(self.slots[slot].state, CallState::Free, "a call ends once");
        debug_assert!(!self.free.contains(&(slot as u8)), "a slot is freed once");
        self.request_arrived(slot);
        let call = &mut self.slots[slot];
        if let Some(path) = self.connection.path() {
            context.budget.give(std::mem::take(&mut call.reserved), path.reach);
        }
        call.request.release(&mut context.net.buffer_pool);
        if call.answer.is_begun() {
            call.answer.release(&mut context.net.buffer_pool);
        }
        call.enter(event, CallState::Free);
        call.ack_due = false;
        context.fx.mark(TracePoint::Ended, call.terms.call_id.0);
        self.free.push(slot as u8);
        call.terms.call_id
    }

    /// Ends a call without an answer.
    fn fail(&mut self, slot: usize, failure: Failure, context: &mut SessionContext<'_, impl CallEffects>) {
        let call_id = self.end(slot, SlotEvent::Fail, context);
        context.fx.outcome(call_id, Outcome::Failed(failure));
    }

    /// Fails a call that the server may know of, and notifies the server, so that it does not begin the call. Otherwise
    /// the server would keep the answer, which would count as in flight. Whether the notice arrives changes nothing
    /// here.
    fn give_up(&mut self, slot: usize, failure: Failure, context: &mut SessionContext<'_, impl CallEffects>) {
        self.fail(slot, failure, context);
        if let Some(path) = self.connection.path_mut() {
            put_cancel(&mut path.pending, CallName { slot: slot as u8, call: self.slots[slot].call });
            path.flush(context);
            self.slots[slot].unreported = Unreported::GivenUp;
        }
    }

    /// Fails calls that wait in the queue.
    fn fail_queued(
        queued: impl IntoIterator<Item = Queued>,
        reason: Reason,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) {
        for Queued { terms, .. } in queued {
            context.fx.mark(TracePoint::Ended, terms.call_id.0);
            context.fx.outcome(terms.call_id, Outcome::Failed(terms.failure(false, reason)));
        }
    }

    /// Gives a call up. Its outcome is reported when the server has said whether it ran, or was asked often enough.
    pub(super) fn cancel(&mut self, call_id: ClientCallId, context: &mut SessionContext<'_, impl CallEffects>) -> bool {
        if let Some(at) = self.queue.iter().position(|queued| queued.terms.call_id == call_id) {
            Self::fail_queued(self.queue.remove(at), Reason::Cancelled, context);
            return true;
        }
        let found = self.slots.iter().position(|call| call.terms.call_id == call_id && call.state == CallState::Active);
        let Some(slot) = found else { return false };
        if !self.slots[slot].request.was_sent() {
            let failure = self.slots[slot].failure(Reason::Cancelled);
            self.fail(slot, failure, context);
            return true;
        }
        self.request_arrived(slot);
        let call = &mut self.slots[slot];
        call.enter(SlotEvent::Cancel, CallState::Cancelling);
        call.probes = 0;
        call.quiet_since = context.now;
        let name = CallName { slot: slot as u8, call: call.call };
        if let Some(path) = self.connection.path_mut() {
            put_cancel(&mut path.pending, name);
            path.flush(context);
        }
        true
    }

    /// Handles the answer to a session request. An open session whose secret differs now is lost.
    pub(super) fn handle_opened(
        &mut self,
        path: impl FnOnce(&mut SessionPackets) -> Option<SessionPath>,
        nonce: u64,
        opened: &Opened,
        offer: &[u8],
        context: &mut SessionContext<'_, impl CallEffects>,
    ) -> bool {
        if nonce != self.nonce {
            return false;
        }
        if let Some(open) = self.connection.path_mut() {
            if open.session_secret == opened.session_secret {
                open.heard = context.now;
                self.unanswered = 0;
                return false;
            }
            // The server does not know this session any more. An answer to the nonce may be old, so another session is
            // requested.
            self.lose(context);
            return true;
        }
        let Some(mut path) = path(context.net) else {
            self.end_used_up(context);
            return false;
        };
        if self.unanswered == 0 {
            path.rtt.sample(context.now.since(self.asked));
        }
        context.fx.session_opened(path.peer, path.to, offer);
        debug_assert!(self.slots.is_empty(), "no call is under way in a session that only begins");
        self.enter(SessionEvent::Open, Connection::Open(path));
        self.offered = usize::from(opened.slots.min(context.limits.slots).max(1));
        (self.credit, self.credited_by) = (opened.credit, PacketNumber(0));
        self.unanswered = 0;
        context.net.counters.sessions_opened += 1;
        true
    }

    /// Handles the server's refusal of a session.
    pub(super) fn handle_refused(
        &mut self,
        nonce: u64,
        reason: Refusal,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) {
        if nonce != self.nonce {
            return;
        }
        if !self.is_open() {
            Self::fail_queued(self.queue.drain(..), Reason::Refused(reason), context);
        } else if self.unanswered >= SILENT_PROBES {
            // The server was probed for the session and refuses it, so it does not know it. An old refusal arrives when
            // nothing was probed.
            self.lose(context);
        }
    }

    /// Ends the session that the server lost. What was under way is in doubt. What was never sent goes on in the next
    /// session.
    fn lose(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        context.net.counters.sessions_lost += 1;
        let mut again: Vec<Queued> = Vec::new();
        for slot in 0..self.slots.len() {
            let call = &mut self.slots[slot];
            let (mut terms, begun) = (call.terms, call.request.was_sent());
            match call.state {
                CallState::Free => {}
                // Only a call of which nothing was sent, or that may run twice, can go on in another session.
                CallState::Active if terms.idempotent || !begun => {
                    terms.may_have_run |= begun;
                    again.push(Queued { terms, request: call.request.bytes().to_vec() });
                    self.end(slot, SlotEvent::Requeue, context);
                }
                CallState::Active | CallState::Cancelling => {
                    self.fail(slot, Failure::Unknown(Reason::SessionLost), context);
                }
            }
        }
        // Pushed to the front newest first, so that the calls keep their order.
        again.sort_by_key(|queued| std::cmp::Reverse(queued.terms.call_id));
        for queued in again {
            self.queue.push_front(queued);
        }
        self.part(context);
        // Under the old nonce, a late answer for the lost session would open the next one.
        self.nonce = context.rng.next_u64();
        self.unanswered = 0;
        self.ask(context);
    }

    /// Ends the session and all its calls, because this endpoint has no packet number left for it. No other session is
    /// requested.
    pub(super) fn end_used_up(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        self.fail_all(Reason::NumbersUsedUp, context);
        context.net.counters.sessions_lost += u64::from(self.is_open());
        self.part(context);
    }

    /// Fails all calls for `reason`.
    fn fail_all(&mut self, reason: Reason, context: &mut SessionContext<'_, impl CallEffects>) {
        Self::fail_queued(std::mem::take(&mut self.queue), reason, context);
        for slot in 0..self.slots.len() {
            if self.slots[slot].state != CallState::Free {
                let failure = self.slots[slot].failure(reason);
                self.fail(slot, failure, context);
            }
        }
    }

    /// Returns to the state without a session, with nothing under way.
    fn part(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        if let Some(path) = self.connection.path() {
            context.fx.session_closed(path.peer);
            self.enter(SessionEvent::Lose, Connection::Asking);
        }
        debug_assert_eq!(self.free.len(), self.slots.len(), "a session ends after its calls");
        debug_assert!(self.slots.iter().all(|call| call.reserved == 0), "a session ends with room reserved");
        self.slots.clear();
        self.free.clear();
        self.unsent = 0;
    }

    /// Whether [`Self::end_used_up`] is due.
    pub(super) fn is_used_up(&self) -> bool {
        self.connection.path().is_some_and(|path| path.is_used_up)
    }

    /// Requests a session, or asks whether it still exists.
    pub(super) fn ask(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        self.asked = context.now;
        let (session_index, nonce, packet_bytes) = (self.session_index, self.nonce, context.net.packet_bytes);
        context.net.send_handshake(
            self.server,
            |offer| SessionHandshake::Ask { session_index, nonce, packet_bytes, offer },
            context.fx,
        );
    }

    /// Does what is due after packets arrived: acks, and what may be sent because of them.
    pub(super) fn work(&mut self, loss: bool, context: &mut SessionContext<'_, impl CallEffects>) {
        self.pump(context);
        if std::mem::take(&mut self.tells)
            && let Some(path) = self.connection.path_mut()
        {
            path.flush(context);
        }
        for slot in 0..self.slots.len() {
            let call = &self.slots[slot];
            if call.answer.is_begun() && (call.ack_due || loss && call.answer.has_gap()) {
                self.put_answer_ack(slot, false, context);
                if let Some(path) = self.connection.path_mut() {
                    path.flush(context);
                }
            }
        }
        if self.is_used_up() {
            self.end_used_up(context);
        }
    }

    /// Closes the session: gives up the calls that are not over, and notifies the server.
    pub(super) fn close(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        self.fail_all(Reason::Cancelled, context);
        if let Some(path) = self.connection.path_mut() {
            put_close(&mut path.pending);
            path.flush(context);
            context.fx.session_closed(path.peer);
        }
        self.enter(SessionEvent::Close, Connection::Closed);
    }

    /// Bytes that its calls have reserved for their answers.
    pub(super) fn reserved(&self) -> u64 {
        self.slots.iter().map(|call| call.reserved).sum()
    }

    pub(super) fn check_invariants(&self) {
        for call in &self.slots {
            call.check_invariants();
        }
        let count = |state| self.slots.iter().filter(|call| call.state == state).count();
        let unsent = self.slots.iter().filter(|call| call.has_more()).count();
        assert_eq!(self.unsent as usize, unsent, "calls with something to send are miscounted");
        assert_eq!(self.free.len(), count(CallState::Free), "free slots are miscounted");
        let is_free = |slot: &u8| self.slots.get(usize::from(*slot)).is_some_and(|call| call.state == CallState::Free);
        assert!(self.free.iter().all(is_free), "a slot is free that carries a call");
        let distinct: BTreeSet<&u8> = self.free.iter().collect();
        assert_eq!(distinct.len(), self.free.len(), "a slot is free twice");
        assert!(self.slots.len() <= self.offered, "more slots are used than the server offers");
        assert!(self.offered <= usize::from(SLOTS_MAX), "more slots than a byte and a packet of acks allow");
        assert!(self.is_open() || self.slots.is_empty(), "calls are under way without a session");
        if let Some(path) = self.connection.path() {
            let under_way = |call: &ClientSlot| u64::from(call.request.under_way()) * per_fragment(path, &call.request);
            let under_way: u64 = self.slots.iter().map(under_way).sum();
            assert!(path.in_flight <= under_way, "more is counted in flight than is under way");
        }
    }
}

/// Charge of a fragment of a request. The last counts as much as the others, so that an ack need not tell them
/// apart.
fn per_fragment(path: &SessionPath, message: &OutgoingMessage) -> u64 {
    if message.is_whole() { path.truesize_of(message.len()) } else { path.truesize_each(message.len()) }
}

/// Bytes of an answer that a response credit covers at least, if there is room.
const ANSWER_BYTES_LEAST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transitions::kept::hold;

    #[test]
    fn the_table_of_a_clients_slot_is_the_one_that_is_kept() {
        hold::<SlotEvent>("client-slot");
    }

    #[test]
    fn the_table_of_a_clients_session_is_the_one_that_is_kept() {
        hold::<SessionEvent>("client-session");
    }
}
