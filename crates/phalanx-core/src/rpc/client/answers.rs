//! Responses at the client: reassembly, and the credit that lets servers send them.

use std::time::Duration;

use super::ClientSession;
use super::slot::{ClientSlot, SlotEvent, Unreported};
use crate::rpc::api::{CallEffects, Failure, Outcome, Reason, TracePoint};
use crate::rpc::context::{SessionContext, slot_number};
use crate::rpc::reassembly::FragmentArrival;
use crate::rpc::wire::{CallName, Data, FragmentAck, FragmentPosition, Refusal, Side, put_ack};

impl ClientSession {
    /// The place for a fragment of an answer under way.
    pub(in crate::rpc) fn place(&mut self, name: CallName, part: FragmentPosition, len: usize) -> Option<&mut [u8]> {
        let slot = self.slot_of(name)?;
        self.slots[slot].answer.place(part, len)
    }

    /// Handles an answer, or a fragment of one. Returns whether the session has to be polled in this iteration.
    #[inline]
    pub(in crate::rpc) fn handle_answer(
        &mut self,
        data: &Data<'_>,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) -> bool {
        let Some(slot) = self.slot_of(data.name) else {
            context.net.counters.stale += 1;
            return false;
        };
        self.unanswered = 0;
        let is_timed = ends_round_trip(&self.slots[slot]);
        self.request_arrived(slot);
        let Some(path) = self.connection.path_mut() else { return false };
        let call = &mut self.slots[slot];
        if is_timed {
            path.rtt.sample(context.now.since(call.sent_at));
        }
        call.heard(self.probed_at, context);
        let Some(part) = data.part else {
            let outcome = if data.refusal {
                let reason = Refusal::from_code(data.bytes.first().copied().unwrap_or_default());
                Outcome::Failed(call.terms.failure(false, Reason::Refused(reason)))
            } else {
                self.note_length(data.bytes.len());
                Outcome::Answer(data.bytes)
            };
            let call_id = self.end(slot, SlotEvent::Answer, context);
            context.fx.outcome(call_id, outcome);
            self.report_answer_came(data, 1, context);
            return self.has_work();
        };
        if !call.answer.is_begun() && !self.begin_answer(slot, part.message_len, context) {
            return true;
        }
        let Some(path) = self.connection.path_mut() else { return false };
        let call = &mut self.slots[slot];
        match call.answer.accept(part, data.bytes, data.placed) {
            FragmentArrival::New => {}
            FragmentArrival::Duplicate => {
                context.net.counters.duplicates += 1;
                call.ack_due |= data.wants_ack;
                return call.ack_due;
            }
            FragmentArrival::Nonsense => {
                context.net.counters.malformed += 1;
                return false;
            }
        }
        let back = call.reserved.min(path.truesize_each(call.answer.len()));
        call.reserved -= back;
        context.budget.give(back, path.reach);
        if !call.answer.is_complete() {
            // The last allowed fragment arrived: the server waits for permission to send more.
            let stops = call.answer.highest() >= call.answer.limit;
            call.ack_due |= data.wants_ack || stops || call.answer.is_to_be_told(part.index);
            return call.ack_due;
        }
        let mut answer = std::mem::take(&mut call.answer);
        self.note_length(answer.bytes().len());
        let call_id = self.end(slot, SlotEvent::Answer, context);
        let fragments = answer.fragments();
        context.fx.long_answer(call_id, answer.bytes_mut());
        answer.release(&mut context.net.buffer_pool);
        self.slots[slot].answer = answer;
        self.report_answer_came(data, fragments, context);
        self.has_work()
    }

    /// Notes that an answer has arrived, until the server knows. For a long answer the server is notified with the next
    /// packet, or soon. For a short one the next call in the slot does it, or a late notice.
    fn report_answer_came(
        &mut self,
        data: &Data<'_>,
        fragments: u32,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) {
        let Some(path) = self.connection.path_mut() else { return };
        let call = &mut self.slots[usize::from(data.name.slot)];
        debug_assert_eq!(call.call, data.name.call, "another call took the slot meanwhile");
        call.unreported = Unreported::Came(fragments);
        if data.part.is_none() && data.bytes.len() <= KEPT_SHORT {
            return;
        }
        put_ack(&mut path.pending, Side::Answer, data.name, false, &FragmentAck::late(fragments));
        path.flush_many(context);
        // Other answers may wait until the server knows that this one is no longer in flight.
        self.tells |= data.part.is_some() && self.free.len() < self.slots.len();
        let due = context.now + RELEASE_AFTER;
        path.pending_due.get_or_insert(due);
        self.due = self.due.min(due);
    }

    /// Smooths the length of answers: most are as long as those before.
    fn note_length(&mut self, bytes: usize) {
        self.answer_bytes = (self.answer_bytes * 7 + bytes as u64) / 8;
    }

    /// Whether something waits for a free slot, or for the room that its call took.
    fn has_work(&self) -> bool {
        !self.queue.is_empty() || self.unsent > 0 || self.tells
    }

    /// Starts the reception of an answer of several packets. Ends the call if the answer is too long.
    fn begin_answer(
        &mut self,
        slot: usize,
        message_len: u64,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) -> bool {
        let Some(path) = self.connection.path() else { return false };
        let call = &mut self.slots[slot];
        let len = usize::try_from(message_len).unwrap_or(usize::MAX);
        // The server has to learn of it. Otherwise the answer would count there as in flight, and leave no room for
        // others.
        if len > context.limits.message_bytes {
            self.give_up(slot, Failure::Unknown(Reason::AnswerTooLong), context);
            return false;
        }
        let each = path.truesize_each(len);
        let allowed = u32::try_from(call.reserved / each.max(1)).unwrap_or(u32::MAX);
        context.fx.mark(TracePoint::Answering, call.terms.call_id.0);
        call.answer.begin(len, path.longest_piece, allowed, &mut context.net.buffer_pool);
        // Unused response credit goes back: it pays for no further packet.
        let needed = u64::from(call.answer.limit).saturating_mul(each);
        let over = call.reserved.saturating_sub(needed);
        call.reserved -= over;
        context.budget.give(over, path.reach);
        true
    }

    /// Handles the notice that the server has an answer that the response credit did not cover.
    pub(in crate::rpc) fn handle_ready(
        &mut self,
        name: CallName,
        message_len: u64,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) -> bool {
        let Some(slot) = self.slot_of(name) else { return false };
        self.unanswered = 0;
        self.request_arrived(slot);
        self.slots[slot].heard(self.probed_at, context);
        let call = &self.slots[slot];
        let begun = call.answer.is_begun() || self.begin_answer(slot, message_len, context);
        if begun {
            self.slots[slot].ack_due = true;
        }
        true
    }

    /// Acknowledges what has arrived of an answer, and lets the server send more of it.
    pub(super) fn put_answer_ack(
        &mut self,
        slot: usize,
        asks: bool,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) {
        let Some(path) = self.connection.path_mut() else { return };
        let call = &mut self.slots[slot];
        let answer = &mut call.answer;
        if answer.is_begun() {
            let each = path.truesize_each(answer.len());
            let left = answer.fragments() - answer.limit;
            let open = answer.limit.saturating_sub(answer.count());
            let most =
                u32::try_from(path.receive_budget_of_one(context.limits) / each.max(1)).unwrap_or(u32::MAX).max(2);
            let reserved = context.budget.take_packets(left.min(most.saturating_sub(open)), each, path.reach);
            answer.limit += reserved.packets;
            call.reserved += reserved.bytes;
            debug_assert!(answer.limit <= answer.fragments(), "more is let come than there is of the answer");
            answer.unacknowledged = 0;
            call.starved = left > 0 && answer.limit == answer.count();
            if call.starved {
                context.budget.note_starved(path.reach);
            }
        }
        call.ack_due = false;
        let ack =
            FragmentAck { seen: path.seen, limit: answer.limit, prefix: answer.prefix(), beyond: answer.beyond() };
        let name = CallName { slot: slot_number(slot), call: call.call };
        put_ack(&mut path.pending, Side::Answer, name, asks, &ack);
    }

    /// Answers that wait for room: fragments left of each, and its slot.
    pub(in crate::rpc) fn starved(&self) -> impl Iterator<Item = (u32, u8)> + '_ {
        let waits = |call: &&ClientSlot| call.starved && call.answer.is_begun();
        let slots = self.slots.iter().zip(0..).filter(move |(call, _)| waits(call));
        slots.map(|(call, slot)| (call.answer.fragments() - call.answer.count(), slot))
    }

    /// Continues an answer that waited for room.
    pub(in crate::rpc) fn feed(&mut self, slot: u8, context: &mut SessionContext<'_, impl CallEffects>) {
        self.put_answer_ack(usize::from(slot), false, context);
        self.slots[usize::from(slot)].quiet_since = context.now;
        if let Some(path) = self.connection.path_mut() {
            path.flush(context);
            self.due = self.due.min(context.now + path.patience(context.waits.timer_min, 0));
        }
    }
}

/// Whether an answer ends a round trip that began with the last packet of the request. After an ack of the whole
/// request, or after a probe, it would measure the handler, or nothing.
fn ends_round_trip(call: &ClientSlot) -> bool {
    !call.request.has_arrived() && (call.request.is_whole() || call.probes == 0)
}

/// A longer answer of one packet is acknowledged without waiting for the next call, because a server would keep one for
/// each slot of each session.
const KEPT_SHORT: usize = 2048;
/// Longest time for which a server is left to keep an answer that has arrived.
const RELEASE_AFTER: Duration = Duration::from_millis(10);
