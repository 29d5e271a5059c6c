//! The client end of a session: each call from its first packet to its outcome, and the outcomes when the session is
//! lost.

mod answers;
mod connection;
mod session;
mod slot;
mod timers;

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

use super::api::{CallEffects, CallError, CallOptions, ClientCallId, Failure, GivenUp, Outcome, Reason, TracePoint};
use super::context::{SLOTS_MAX, SessionContext, slot_number};
use super::fragmentation::Proof;
use super::path::{Charge, Head, SessionPath, recount, shortest_first};
use super::wire::{ALL, CallName, FragmentAck, Side, put_cancel, put_proof};
use crate::time::Instant;
use crate::wire::{PacketNumber, SessionIndex};
use connection::Connection;
use slot::{CallState, ClientSlot, Queued, SlotEvent, Terms, Unreported, per_fragment};

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
        let CallOptions { deadline, idempotent, waits_for_server } = *options;
        let deadline = context.now + deadline;
        let terms = Terms { call_id, deadline, idempotent, waits_for_server, may_have_run: false };
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
        let name = CallName { slot: slot_number(slot), call: call.call };
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
        let change = path.take_ack(&mut call.request, (slot_number(slot), each), (ack, proves), context);
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
            path.stop_timing(slot_number(slot));
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
        debug_assert!(!self.free.contains(&slot_number(slot)), "a slot is freed once");
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
        self.free.push(slot_number(slot));
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
            put_cancel(&mut path.pending, CallName { slot: slot_number(slot), call: self.slots[slot].call });
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

    /// Gives a call up. If its callee left, its outcome is reported at once. Otherwise it is reported when the server has
    /// said whether it ran, or was asked often enough.
    pub(super) fn cancel(
        &mut self,
        call_id: ClientCallId,
        by: GivenUp,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) -> bool {
        if let Some(at) = self.queue.iter().position(|queued| queued.terms.call_id == call_id) {
            Self::fail_queued(self.queue.remove(at), by.reason(), context);
            return true;
        }
        let found = self.slots.iter().position(|call| call.terms.call_id == call_id && call.state == CallState::Active);
        let Some(slot) = found else { return false };
        let failure = self.slots[slot].failure(by.reason());
        if !self.slots[slot].request.was_sent() {
            self.fail(slot, failure, context);
            return true;
        }
        if by == GivenUp::ByLeave {
            self.give_up(slot, failure, context);
            return true;
        }
        self.request_arrived(slot);
        let call = &mut self.slots[slot];
        call.enter(SlotEvent::Cancel, CallState::Cancelling);
        call.probes = 0;
        call.quiet_since = context.now;
        let name = CallName { slot: slot_number(slot), call: call.call };
        if let Some(path) = self.connection.path_mut() {
            put_cancel(&mut path.pending, name);
            path.flush(context);
        }
        true
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

/// Bytes of an answer that a response credit covers at least, if there is room.
const ANSWER_BYTES_LEAST: usize = 1024;

/// Rounds of unanswered probes after which the session is requested as well.
const SILENT_PROBES: u32 = 3;
