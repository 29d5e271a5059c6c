//! The calling end of a session.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use super::incoming::{Arrival, Incoming};
use super::outgoing::{Outgoing, Proof};
use super::path::{Net, PENDING_MAX, Path};
use super::wire::{
    ALL, CallName, Data, Greeting, Opened, Part, Receipt, Refusal, Side, put_cancel, put_close, put_ping, put_receipt,
};
use super::{CallEffects, CallError, CallOptions, Failure, Limits, Outcome, Reason, Ticket};
use crate::rng::Rng;
use crate::time::Instant;

/// What a client's part needs of its endpoint.
pub(super) struct Desk<'a, F> {
    pub(super) now: Instant,
    pub(super) net: &'a mut Net,
    pub(super) budget: &'a mut Budget,
    pub(super) rng: &'a mut Rng,
    pub(super) limits: &'a Limits,
    pub(super) fx: &'a mut F,
}

/// What all servers together may send unasked, in bytes as the receive buffer is charged.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) free: u64,
    /// Calls hold allowances, and nothing goes beyond the buffer.
    pub(super) is_kept: bool,
    /// Answers wait that could not be asked for, as nothing was free.
    pub(super) starved: bool,
}

impl Budget {
    /// Takes `wanted` or, if less is free, what is free, but not less than `least`: then nothing.
    fn take(&mut self, wanted: u64, least: u64) -> u64 {
        if !self.is_kept {
            return u64::from(u32::MAX);
        }
        let got = if self.free < least { 0 } else { wanted.min(self.free) };
        self.free -= got;
        got
    }

    /// Takes as many times `each` as are free, at most `wanted`.
    fn take_packets(&mut self, wanted: u32, each: u64) -> u32 {
        if !self.is_kept {
            return wanted;
        }
        let got = wanted.min(u32::try_from(self.free / each.max(1)).unwrap_or(u32::MAX));
        self.free -= u64::from(got) * each;
        got
    }

    fn give(&mut self, back: u64) {
        if self.is_kept {
            self.free += back;
        }
    }
}

/// A session as its client keeps it.
pub(super) struct ClientSession {
    pub(super) server: SocketAddr,
    hint: u32,
    nonce: u64,
    pub(super) path: Option<Path>,
    slots: Vec<ClientSlot>,
    /// Slots that the server offers.
    offered: usize,
    free: Vec<u8>,
    queue: VecDeque<Queued>,
    credit: u64,
    /// Calls with something left to send.
    unsent: u32,
    /// Length of answers, smoothed, in bytes.
    answer_bytes: u64,
    /// Questions since anything was heard.
    unanswered: u32,
    /// When the last of them was asked.
    questioned: Instant,
    /// When to look at the timers.
    pub(super) due: Instant,
    /// When it was last asked for, or pinged.
    asked: Instant,
}

#[derive(Default)]
struct ClientSlot {
    call: u64,
    state: State,
    ticket: Ticket,
    request: Outgoing,
    answer: Incoming,
    /// Reserved for its answer.
    reserved: u64,
    deadline: Instant,
    idempotent: bool,
    /// In a session that was lost, from which it was taken over into this one.
    may_have_run: bool,
    /// Since then nothing was heard of it or sent for it.
    quiet_since: Instant,
    sent_at: Instant,
    questions: u32,
    /// The packet that asked for it last.
    asked_as: u64,
    /// A receipt for its answer is due with the next turn.
    receipt_due: bool,
    /// The server may send nothing of its answer for now: no room was left for it.
    starved: bool,
    /// Fragments of the answer to the slot's last call, whose receipt may not have come: the server counts them as under way.
    released: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    Active,
    Cancelling,
}

impl ClientSlot {
    /// Whether the server may know of the call, so that it can be asked.
    fn is_questionable(&self) -> bool {
        self.state != State::Free && self.request.was_sent()
    }
}

/// A call that waits for a slot or for the session.
struct Queued {
    ticket: Ticket,
    request: Vec<u8>,
    deadline: Instant,
    idempotent: bool,
    may_have_run: bool,
}

/// What to do about a client's session after something happened to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Aftermath {
    /// It is to be looked at in this turn.
    pub(super) touched: bool,
}

impl ClientSession {
    pub(super) fn new(server: SocketAddr, hint: u32, nonce: u64, now: Instant) -> Self {
        Self {
            server,
            hint,
            nonce,
            path: None,
            slots: Vec::new(),
            offered: 0,
            free: Vec::new(),
            queue: VecDeque::new(),
            credit: 0,
            unsent: 0,
            answer_bytes: 0,
            unanswered: 0,
            questioned: now,
            due: now,
            asked: now,
        }
    }

    /// Calls that are not over.
    pub(super) fn outstanding(&self) -> usize {
        self.queue.len() + self.slots.len() - self.free.len()
    }

    pub(super) fn is_open(&self) -> bool {
        self.path.is_some()
    }

    /// Begins a call: at once if there is a slot, else when there is one.
    pub(super) fn call(
        &mut self,
        ticket: Ticket,
        request: &[u8],
        options: &CallOptions,
        desk: &mut Desk<'_, impl CallEffects>,
    ) -> Result<(), CallError> {
        let deadline = desk.now + options.deadline;
        if self.queue.is_empty()
            && self.path.is_some()
            && let Some(slot) = self.take_slot()
        {
            self.slots[slot].request.empty(request.len(), &mut desk.net.spare).extend_from_slice(request);
            self.begin(slot, ticket, deadline, options.idempotent, desk);
            return Ok(());
        }
        if self.queue.len() >= desk.limits.queued_calls {
            return Err(CallError::QueueFull);
        }
        self.due = self.due.min(deadline);
        if self.path.is_none() {
            self.due = self.due.min(self.asks_again());
        }
        let idempotent = options.idempotent;
        let request = request.to_vec();
        self.queue.push_back(Queued { ticket, request, deadline, idempotent, may_have_run: false });
        Ok(())
    }

    fn take_slot(&mut self) -> Option<usize> {
        if let Some(slot) = self.free.pop() {
            return Some(usize::from(slot));
        }
        (self.slots.len() < self.offered).then(|| {
            self.slots.push(ClientSlot::default());
            self.slots.len() - 1
        })
    }

    /// Begins the call whose request the slot holds.
    fn begin(
        &mut self,
        slot: usize,
        ticket: Ticket,
        deadline: Instant,
        idempotent: bool,
        desk: &mut Desk<'_, impl CallEffects>,
    ) {
        let Some(path) = &self.path else { return };
        let call = &mut self.slots[slot];
        call.call += 1;
        call.state = State::Active;
        call.ticket = ticket;
        call.deadline = deadline;
        call.idempotent = idempotent;
        call.may_have_run = false;
        call.quiet_since = desk.now;
        (call.questions, call.asked_as, call.receipt_due) = (0, 0, false);
        call.request.begin(path.fragment_bytes, u32::MAX);
        let expected =
            usize::try_from(self.answer_bytes.saturating_mul(2)).unwrap_or(usize::MAX).max(ANSWER_BYTES_LEAST);
        let wanted = if expected <= path.fragment_bytes {
            path.charge_of(expected)
        } else {
            path.charge_full().saturating_mul(expected.div_ceil(path.fragment_bytes) as u64).min(ALLOWANCE_MAX)
        };
        call.reserved = desk.budget.take(wanted, path.charge_of(ANSWER_BYTES_LEAST));
        (call.starved, call.released) = (false, 0);
        self.unsent += 1;
        self.due = self.due.min(deadline).min(desk.now + path.patience(desk.limits.timer_min, 0));
        self.send_from(slot, desk);
    }

    /// Sends what a call has to send and may.
    fn send_from(&mut self, slot: usize, desk: &mut Desk<'_, impl CallEffects>) {
        let Some(path) = &mut self.path else { return };
        let call = &mut self.slots[slot];
        let name = CallName { slot: slot as u8, call: call.call };
        while let Some(index) = call.request.next() {
            let bytes = call.request.fragment(index);
            // What was lost is no longer under way: it goes again within the credit, whatever the window has become.
            let room = if call.request.is_again(index) {
                path.has_credit(bytes.len(), self.credit)
            } else {
                path.has_room(bytes.len(), self.credit)
            };
            if !room {
                return;
            }
            path.in_flight += path.charge_of(bytes.len());
            let part = (!call.request.is_whole()).then(|| Part { message_len: call.request.len() as u64, index });
            let mut data = Data {
                side: Side::Request,
                name,
                wants_receipt: false,
                refusal: false,
                allowance: call.reserved,
                part,
                bytes,
            };
            // The last that may go asks for what lets more go.
            data.wants_receipt = part.is_some() && !path.has_room(bytes.len(), self.credit);
            let number = path.send(desk.net, desk.now, bytes.len(), |packet| data.write(packet, true), desk.fx);
            if index == 0 && !call.request.was_sent() {
                call.sent_at = desk.now;
            }
            if part.is_some() {
                path.time(number, desk.now);
            }
            call.request.sent(index, number);
            call.quiet_since = desk.now;
        }
        self.unsent -= 1;
    }

    /// Sends what all calls have to send, the shortest first.
    pub(super) fn pump(&mut self, desk: &mut Desk<'_, impl CallEffects>) {
        while self.path.is_some() && self.free_slot_waits() {
            let Some(queued) = self.queue.pop_front() else { break };
            let Some(slot) = self.take_slot() else { break };
            *self.slots[slot].request.empty(0, &mut desk.net.spare) = queued.request;
            self.begin(slot, queued.ticket, queued.deadline, queued.idempotent, desk);
            self.slots[slot].may_have_run = queued.may_have_run;
        }
        if self.unsent == 0 {
            return;
        }
        let mut waiting: Vec<(u32, usize)> = self
            .slots
            .iter()
            .enumerate()
            .filter(|(_, call)| call.state == State::Active && call.request.next().is_some())
            .map(|(slot, call)| (call.request.left(), slot))
            .collect();
        waiting.sort_unstable();
        for (_, slot) in waiting {
            self.send_from(slot, desk);
        }
    }

    fn free_slot_waits(&self) -> bool {
        !self.queue.is_empty() && (!self.free.is_empty() || self.slots.len() < self.offered)
    }

    /// A piece of an answer, or all of it.
    #[inline]
    pub(super) fn handle_answer(&mut self, data: &Data<'_>, desk: &mut Desk<'_, impl CallEffects>) -> Aftermath {
        let Some(slot) = self.slot_of(data.name) else {
            desk.net.counters.stale += 1;
            return Aftermath::default();
        };
        self.unanswered = 0;
        self.request_arrived(slot);
        let Some(path) = &mut self.path else { return Aftermath::default() };
        let call = &mut self.slots[slot];
        call.quiet_since = desk.now;
        call.questions = 0;
        let Some(part) = data.part else {
            if call.request.is_whole() {
                path.rtt.sample(desk.now.since(call.sent_at));
            }
            let outcome = if data.refusal {
                let reason = Refusal::from_code(data.bytes.first().copied().unwrap_or_default());
                Outcome::Failed(failure(call.may_have_run, Reason::Refused(reason)))
            } else {
                self.answer_bytes = (self.answer_bytes * 7 + data.bytes.len() as u64) / 8;
                Outcome::Answer(data.bytes)
            };
            let ticket = call.ticket;
            self.end(slot, desk);
            desk.fx.outcome(ticket, outcome);
            return Aftermath { touched: !self.queue.is_empty() || self.unsent > 0 };
        };
        if !call.answer.is_begun() && !self.begin_answer(slot, part.message_len, desk) {
            return Aftermath { touched: true };
        }
        let Some(path) = &mut self.path else { return Aftermath::default() };
        let call = &mut self.slots[slot];
        match call.answer.accept(part, data.bytes) {
            Arrival::New => {}
            Arrival::Duplicate => {
                desk.net.counters.duplicates += 1;
                call.receipt_due |= data.wants_receipt;
                return Aftermath { touched: call.receipt_due };
            }
            Arrival::Nonsense => {
                desk.net.counters.malformed += 1;
                return Aftermath::default();
            }
        }
        let back = call.reserved.min(path.charge_full());
        call.reserved -= back;
        desk.budget.give(back);
        if !call.answer.is_complete() {
            // With the last that was allowed, the server waits for more.
            let stops = call.answer.highest() >= call.answer.limit;
            call.receipt_due |= data.wants_receipt || stops || call.answer.unacknowledged >= RECEIPT_PACKETS;
            return Aftermath { touched: call.receipt_due };
        }
        // The server keeps an answer until it knows that it came: told with the next packet, or soon.
        let receipt = Receipt { seen: path.seen, limit: 0, prefix: call.answer.fragments(), beyond: Vec::new() };
        put_receipt(&mut path.pending, Side::Answer, data.name, false, &receipt);
        call.released = call.answer.fragments();
        if path.pending.len() > PENDING_MAX {
            path.flush(desk.net, desk.now, desk.fx);
        }
        let due = desk.now + RELEASE_AFTER;
        path.pending_due.get_or_insert(due);
        self.due = self.due.min(due);
        let answer = std::mem::take(&mut call.answer);
        self.answer_bytes = (self.answer_bytes * 7 + answer.bytes().len() as u64) / 8;
        let ticket = call.ticket;
        self.end(slot, desk);
        desk.fx.outcome(ticket, Outcome::Answer(answer.bytes()));
        self.slots[slot].answer = answer;
        self.slots[slot].answer.release(&mut desk.net.spare);
        Aftermath { touched: !self.queue.is_empty() || self.unsent > 0 }
    }

    /// An answer of several packets begins. If it is longer than is taken, the call ends.
    fn begin_answer(&mut self, slot: usize, message_len: u64, desk: &mut Desk<'_, impl CallEffects>) -> bool {
        let Some(path) = &self.path else { return false };
        let call = &mut self.slots[slot];
        let len = usize::try_from(message_len).unwrap_or(usize::MAX);
        if len > desk.limits.message_bytes {
            let ticket = call.ticket;
            self.end(slot, desk);
            desk.fx.outcome(ticket, Outcome::Failed(Failure::Unknown(Reason::AnswerTooLong)));
            return false;
        }
        let allowed = u32::try_from(call.reserved / path.charge_full().max(1)).unwrap_or(u32::MAX);
        call.answer.grow(len, &mut desk.net.spare);
        call.answer.begin(len, path.fragment_bytes, allowed);
        // What is over of the allowance pays for no further packet.
        let needed = u64::from(call.answer.limit).saturating_mul(path.charge_full());
        let over = call.reserved.saturating_sub(needed);
        call.reserved -= over;
        desk.budget.give(over);
        true
    }

    /// The server has an answer that the allowance did not cover.
    pub(super) fn handle_ready(
        &mut self,
        name: CallName,
        message_len: u64,
        desk: &mut Desk<'_, impl CallEffects>,
    ) -> Aftermath {
        let Some(slot) = self.slot_of(name) else { return Aftermath::default() };
        self.unanswered = 0;
        self.request_arrived(slot);
        let call = &mut self.slots[slot];
        call.quiet_since = desk.now;
        call.questions = 0;
        let begun = call.answer.is_begun() || self.begin_answer(slot, message_len, desk);
        if begun {
            self.slots[slot].receipt_due = true;
        }
        Aftermath { touched: true }
    }

    /// A receipt for a request.
    pub(super) fn handle_receipt(
        &mut self,
        name: CallName,
        receipt: &Receipt,
        desk: &mut Desk<'_, impl CallEffects>,
    ) -> Aftermath {
        let Some(slot) = self.slot_of(name) else { return Aftermath::default() };
        let Some(path) = &mut self.path else { return Aftermath::default() };
        self.unanswered = 0;
        let call = &mut self.slots[slot];
        call.quiet_since = desk.now;
        if receipt.prefix == ALL {
            self.request_arrived(slot);
            return Aftermath { touched: true };
        }
        let had = call.state == State::Active && call.request.next().is_some();
        let proves = if call.asked_as != 0 && receipt.seen >= call.asked_as { Proof::Seen } else { Proof::Reordered };
        let change = call.request.take(receipt, proves);
        path.in_flight = path.in_flight.saturating_sub(u64::from(change.ended) * per_fragment(path, &call.request));
        path.learn(receipt.seen, change.arrived, change.lost, desk.now);
        desk.net.counters.lost += u64::from(change.lost);
        if change.arrived > 0 {
            call.questions = 0;
        }
        match (had, call.state == State::Active && call.request.next().is_some()) {
            (false, true) => self.unsent += 1,
            (true, false) => self.unsent -= 1,
            _ => {}
        }
        Aftermath { touched: true }
    }

    /// The server confirms a cancel.
    pub(super) fn handle_cancelled(
        &mut self,
        name: CallName,
        may_have_run: bool,
        desk: &mut Desk<'_, impl CallEffects>,
    ) -> Aftermath {
        let Some(slot) = self.slot_of(name) else { return Aftermath::default() };
        self.unanswered = 0;
        if self.slots[slot].state != State::Cancelling {
            return Aftermath::default();
        }
        let ticket = self.slots[slot].ticket;
        self.end(slot, desk);
        let failed = failure(may_have_run || self.slots[slot].may_have_run, Reason::Cancelled);
        desk.fx.outcome(ticket, Outcome::Failed(failed));
        Aftermath { touched: true }
    }

    pub(super) fn handle_credit(&mut self, credit: u64) -> Aftermath {
        self.credit = credit;
        Aftermath { touched: self.unsent > 0 }
    }

    /// The slot in which the named call is under way.
    fn slot_of(&self, name: CallName) -> Option<usize> {
        let slot = usize::from(name.slot);
        let call = self.slots.get(slot)?;
        (call.call == name.call && call.state != State::Free).then_some(slot)
    }

    /// The server has all of a request: it answers.
    #[inline]
    fn request_arrived(&mut self, slot: usize) {
        let call = &mut self.slots[slot];
        if call.request.has_arrived() {
            return;
        }
        self.unsent -= u32::from(call.state == State::Active && call.request.next().is_some());
        let each = self.path.as_ref().map_or(0, |path| per_fragment(path, &call.request));
        let ended = call.request.complete();
        if let Some(path) = &mut self.path {
            path.in_flight = path.in_flight.saturating_sub(u64::from(ended) * each);
        }
    }

    /// A call is over: its slot is free.
    fn end(&mut self, slot: usize, desk: &mut Desk<'_, impl CallEffects>) {
        self.request_arrived(slot);
        let call = &mut self.slots[slot];
        desk.budget.give(std::mem::take(&mut call.reserved));
        call.request.release(&mut desk.net.spare);
        call.answer.release(&mut desk.net.spare);
        call.state = State::Free;
        call.receipt_due = false;
        self.free.push(slot as u8);
    }

    /// Gives a call up. Whether it ran is told when the server has said so, or has been asked often enough.
    pub(super) fn cancel(&mut self, ticket: Ticket, desk: &mut Desk<'_, impl CallEffects>) -> bool {
        if let Some(at) = self.queue.iter().position(|queued| queued.ticket == ticket) {
            let may_have_run = self.queue.remove(at).is_some_and(|queued| queued.may_have_run);
            desk.fx.outcome(ticket, Outcome::Failed(failure(may_have_run, Reason::Cancelled)));
            return true;
        }
        let found = self.slots.iter().position(|call| call.ticket == ticket && call.state == State::Active);
        let Some(slot) = found else { return false };
        if !self.slots[slot].request.was_sent() {
            let failed = failure(self.slots[slot].may_have_run, Reason::Cancelled);
            self.end(slot, desk);
            desk.fx.outcome(ticket, Outcome::Failed(failed));
            return true;
        }
        self.request_arrived(slot);
        let call = &mut self.slots[slot];
        call.state = State::Cancelling;
        call.questions = 0;
        call.quiet_since = desk.now;
        let name = CallName { slot: slot as u8, call: call.call };
        if let Some(path) = &mut self.path {
            put_cancel(&mut path.pending, name);
            path.flush(desk.net, desk.now, desk.fx);
        }
        true
    }

    /// An answer to an ask. A session that was open and has another token now is lost.
    pub(super) fn handle_opened(
        &mut self,
        path: impl FnOnce(&mut Net) -> Path,
        nonce: u64,
        opened: &Opened,
        desk: &mut Desk<'_, impl CallEffects>,
    ) -> Aftermath {
        if nonce != self.nonce {
            return Aftermath::default();
        }
        if let Some(open) = &mut self.path {
            if open.token == opened.token {
                open.heard = desk.now;
                self.unanswered = 0;
                return Aftermath::default();
            }
            // The server knows nothing of this session any more. An answer to the nonce may be old: another is asked for.
            self.lose(desk);
            return Aftermath { touched: true };
        }
        self.path = Some(path(desk.net));
        self.offered = usize::from(opened.slots.min(desk.limits.slots).max(1));
        self.credit = opened.credit;
        self.unanswered = 0;
        desk.net.counters.sessions_opened += 1;
        Aftermath { touched: true }
    }

    /// The server opens no session.
    pub(super) fn handle_refused(&mut self, nonce: u64, reason: Refusal, desk: &mut Desk<'_, impl CallEffects>) {
        if nonce == self.nonce && self.path.is_none() {
            for queued in self.queue.drain(..) {
                let failed = failure(queued.may_have_run, Reason::Refused(reason));
                desk.fx.outcome(queued.ticket, Outcome::Failed(failed));
            }
        }
    }

    /// The session is over at the server. What was under way is in doubt; what was never sent goes on in the next session.
    fn lose(&mut self, desk: &mut Desk<'_, impl CallEffects>) {
        desk.net.counters.sessions_lost += 1;
        let mut again: Vec<Queued> = Vec::new();
        for slot in 0..self.slots.len() {
            let call = &mut self.slots[slot];
            if call.state == State::Free {
                continue;
            }
            let ticket = call.ticket;
            if call.state == State::Active && (call.idempotent || !call.request.was_sent()) {
                let request = call.request.bytes().to_vec();
                let may_have_run = call.may_have_run || call.request.was_sent();
                let (deadline, idempotent) = (call.deadline, call.idempotent);
                again.push(Queued { ticket, request, deadline, idempotent, may_have_run });
                self.end(slot, desk);
            } else {
                self.end(slot, desk);
                desk.fx.outcome(ticket, Outcome::Failed(Failure::Unknown(Reason::SessionLost)));
            }
        }
        again.sort_by_key(|queued| std::cmp::Reverse(queued.ticket));
        for queued in again {
            self.queue.push_front(queued);
        }
        self.path = None;
        self.slots.clear();
        self.free.clear();
        self.unsent = 0;
        self.nonce = desk.rng.next_u64();
        self.unanswered = 0;
        self.ask(desk);
    }

    /// Asks for a session, or whether it is still there.
    pub(super) fn ask(&mut self, desk: &mut Desk<'_, impl CallEffects>) {
        self.asked = desk.now;
        let greeting = Greeting::Ask { hint: self.hint, nonce: self.nonce, packet_bytes: desk.net.packet_bytes };
        desk.net.greet(self.server, |packet| greeting.write(packet), desk.fx);
    }

    /// What is due in a turn after something came: receipts, and what may be sent because of it.
    pub(super) fn work(&mut self, loss: bool, desk: &mut Desk<'_, impl CallEffects>) {
        self.pump(desk);
        for slot in 0..self.slots.len() {
            let call = &self.slots[slot];
            if call.answer.is_begun() && (call.receipt_due || loss && call.answer.has_gap()) {
                self.put_answer_receipt(slot, false, desk);
                if let Some(path) = &mut self.path {
                    path.flush(desk.net, desk.now, desk.fx);
                }
            }
        }
    }

    /// Says what is there of an answer, and lets the server send more of it.
    fn put_answer_receipt(&mut self, slot: usize, asks: bool, desk: &mut Desk<'_, impl CallEffects>) {
        let Some(path) = &mut self.path else { return };
        let call = &mut self.slots[slot];
        let answer = &mut call.answer;
        if answer.is_begun() {
            let each = path.charge_full();
            let left = answer.fragments() - answer.limit;
            let open = answer.limit.saturating_sub(answer.count());
            let most = u32::try_from(GRANT_MAX / each.max(1)).unwrap_or(u32::MAX).max(2);
            let packets = desk.budget.take_packets(left.min(most.saturating_sub(open)), each);
            answer.limit += packets;
            if desk.budget.is_kept {
                call.reserved += u64::from(packets) * each;
            }
            answer.unacknowledged = 0;
            call.starved = left > 0 && answer.limit == answer.count();
            desk.budget.starved |= call.starved;
        }
        call.receipt_due = false;
        let receipt =
            Receipt { seen: path.seen, limit: answer.limit, prefix: answer.prefix(), beyond: answer.beyond() };
        let name = CallName { slot: slot as u8, call: call.call };
        put_receipt(&mut path.pending, Side::Answer, name, asks, &receipt);
    }

    /// Answers that wait for room: how much of each is left, and their slots.
    pub(super) fn starved(&self) -> impl Iterator<Item = (u32, u8)> + '_ {
        let waits = |call: &&ClientSlot| call.starved && call.answer.is_begun();
        let slots = self.slots.iter().zip(0..).filter(move |(call, _)| waits(call));
        slots.map(|(call, slot)| (call.answer.fragments() - call.answer.count(), slot))
    }

    /// There is room for a starved answer.
    pub(super) fn feed(&mut self, slot: u8, desk: &mut Desk<'_, impl CallEffects>) {
        self.put_answer_receipt(usize::from(slot), false, desk);
        if let Some(path) = &mut self.path {
            path.flush(desk.net, desk.now, desk.fx);
        }
    }

    /// Judges the timers. Returns when to look again.
    pub(super) fn judge(&mut self, desk: &mut Desk<'_, impl CallEffects>) -> Instant {
        self.end_late(desk);
        if self.path.is_none() {
            if self.outstanding() > 0 && desk.now >= self.asks_again() {
                self.unanswered += 1;
                self.ask(desk);
            }
        } else {
            self.question_all(desk);
        }
        if let Some(path) = &mut self.path {
            if path.pending_due.is_some_and(|due| due <= desk.now) {
                path.flush(desk.net, desk.now, desk.fx);
            }
            if self.asked.max(path.heard) + KEEP_EVERY <= desk.now {
                self.asked = desk.now;
                put_ping(&mut path.pending);
                path.flush(desk.net, desk.now, desk.fx);
            }
        }
        self.due = self.next_due(desk.limits.timer_min);
        self.due
    }

    /// Ends the calls whose deadline has passed.
    fn end_late(&mut self, desk: &mut Desk<'_, impl CallEffects>) {
        let now = desk.now;
        let late = |queued: &Queued| queued.deadline <= now;
        if self.queue.iter().any(late) {
            let (gone, stay) = std::mem::take(&mut self.queue).into_iter().partition(late);
            self.queue = stay;
            let gone: VecDeque<Queued> = gone;
            for queued in gone {
                let failed = failure(queued.may_have_run, Reason::Deadline);
                desk.fx.outcome(queued.ticket, Outcome::Failed(failed));
            }
        }
        for slot in 0..self.slots.len() {
            let call = &self.slots[slot];
            if call.state != State::Active || call.deadline > now {
                continue;
            }
            let ticket = call.ticket;
            let failed = failure(call.may_have_run || call.request.was_sent(), Reason::Deadline);
            let name = CallName { slot: slot as u8, call: call.call };
            if call.request.was_sent()
                && let Some(path) = &mut self.path
            {
                // So that the server does not begin it, and keeps nothing. Whether it hears of it changes nothing here.
                put_cancel(&mut path.pending, name);
                path.flush(desk.net, desk.now, desk.fx);
            }
            self.end(slot, desk);
            desk.fx.outcome(ticket, Outcome::Failed(failed));
        }
    }

    /// Asks for the calls that were silent too long; where nothing was heard, for one of them.
    fn question_all(&mut self, desk: &mut Desk<'_, impl CallEffects>) {
        for _ in 0..self.slots.len() {
            if !self.question(desk) || self.unanswered > SILENT_AT_ONCE {
                return;
            }
        }
    }

    /// Asks for the call that was silent longest, if it was silent too long.
    fn question(&mut self, desk: &mut Desk<'_, impl CallEffects>) -> bool {
        let Some(path) = &mut self.path else { return false };
        let (least, unanswered) = (desk.limits.timer_min, self.unanswered);
        let waits_since = if unanswered > SILENT_AT_ONCE { self.questioned } else { Instant::ZERO };
        let due = |call: &ClientSlot| {
            call.quiet_since.max(waits_since) + path.patience(least, call.questions.max(unanswered))
        };
        let busy = self.slots.iter().enumerate().filter(|(_, call)| call.is_questionable());
        let Some((due, slot)) = busy.map(|(slot, call)| (due(call), slot)).min() else { return false };
        if due > desk.now {
            return false;
        }
        self.questioned = desk.now;
        desk.net.counters.questions += 1;
        self.unanswered += 1;
        self.release_again();
        let Some(path) = &mut self.path else { return false };
        let call = &mut self.slots[slot];
        call.questions += 1;
        call.quiet_since = desk.now;
        let name = CallName { slot: slot as u8, call: call.call };
        if call.state == State::Cancelling {
            if call.questions > CANCELS_MAX {
                let ticket = call.ticket;
                self.end(slot, desk);
                desk.fx.outcome(ticket, Outcome::Failed(Failure::Unknown(Reason::Cancelled)));
                return true;
            }
            put_cancel(&mut path.pending, name);
            path.flush(desk.net, desk.now, desk.fx);
        } else if call.request.is_whole() && !call.request.has_arrived() && !call.answer.is_begun() {
            // The request is its own question.
            let bytes = call.request.fragment(0);
            let data = Data {
                side: Side::Request,
                name,
                wants_receipt: true,
                refusal: false,
                allowance: call.reserved,
                part: None,
                bytes,
            };
            let number = path.send(desk.net, desk.now, bytes.len(), |packet| data.write(packet, true), desk.fx);
            call.request.sent(0, number);
            call.asked_as = number;
        } else {
            self.put_answer_receipt(slot, true, desk);
            if let Some(path) = &mut self.path {
                let number = path.send(desk.net, desk.now, 0, |_| {}, desk.fx);
                self.slots[slot].asked_as = number;
            }
        }
        if self.unanswered >= SILENT_QUESTIONS {
            self.ask(desk);
        }
        true
    }

    /// Says once more which answers have come. Where something was lost, the receipts may have been, and then the server would
    /// go on counting those answers as under way.
    fn release_again(&mut self) {
        let Some(path) = &mut self.path else { return };
        for (call, slot) in self.slots.iter().zip(0..) {
            if call.state == State::Free && call.released > 0 && path.pending.len() < RELEASES_BYTES {
                let receipt = Receipt { seen: path.seen, limit: 0, prefix: call.released, beyond: Vec::new() };
                put_receipt(&mut path.pending, Side::Answer, CallName { slot, call: call.call }, false, &receipt);
            }
        }
    }

    /// When a session that is not open is asked for again.
    fn asks_again(&self) -> Instant {
        self.asked + ASK_AGAIN * (1 << self.unanswered.min(5))
    }

    fn next_due(&self, timer_min: Duration) -> Instant {
        let mut due = Instant(u64::MAX);
        for queued in &self.queue {
            due = due.min(queued.deadline);
        }
        let Some(path) = &self.path else {
            return if self.outstanding() > 0 { due.min(self.asks_again()) } else { due };
        };
        due = due.min(path.pending_due.unwrap_or(due)).min(self.asked.max(path.heard) + KEEP_EVERY);
        let waits_since = if self.unanswered > SILENT_AT_ONCE { self.questioned } else { Instant::ZERO };
        for call in self.slots.iter().filter(|call| call.state != State::Free) {
            if call.state == State::Active {
                due = due.min(call.deadline);
            }
            if call.is_questionable() {
                let patience = path.patience(timer_min, call.questions.max(self.unanswered));
                due = due.min(call.quiet_since.max(waits_since) + patience);
            }
        }
        due
    }

    /// Ends the session: calls that are not over are given up, and the server is told.
    pub(super) fn close(&mut self, desk: &mut Desk<'_, impl CallEffects>) {
        for queued in std::mem::take(&mut self.queue) {
            desk.fx.outcome(queued.ticket, Outcome::Failed(failure(queued.may_have_run, Reason::Cancelled)));
        }
        for slot in 0..self.slots.len() {
            let call = &self.slots[slot];
            if call.state == State::Free {
                continue;
            }
            let ticket = call.ticket;
            let failed = failure(call.may_have_run || call.request.was_sent(), Reason::Cancelled);
            self.end(slot, desk);
            desk.fx.outcome(ticket, Outcome::Failed(failed));
        }
        if let Some(path) = &mut self.path {
            put_close(&mut path.pending);
            path.flush(desk.net, desk.now, desk.fx);
        }
    }

    pub(super) fn check_invariants(&self) {
        let active = self.slots.iter().filter(|call| call.state == State::Active);
        for call in &self.slots {
            call.request.check_invariants();
        }
        assert_eq!(self.unsent as usize, active.filter(|call| call.request.next().is_some()).count());
        assert_eq!(self.free.len(), self.slots.iter().filter(|call| call.state == State::Free).count());
        assert!(self.path.is_some() || self.slots.is_empty());
    }
}

/// A failure that says what is known.
fn failure(may_have_run: bool, reason: Reason) -> Failure {
    if may_have_run { Failure::Unknown(reason) } else { Failure::NotExecuted(reason) }
}

/// What one fragment of a message was charged.
fn per_fragment(path: &Path, message: &Outgoing) -> u64 {
    if message.is_whole() { path.charge_of(message.len()) } else { path.charge_full() }
}

/// An allowance covers at least an answer of so many bytes, if there is room for it.
const ANSWER_BYTES_LEAST: usize = 1024;
/// Of an allowance, in bytes as charged.
const ALLOWANCE_MAX: u64 = 1 << 20;
/// The most that a server may have under way of one answer, in bytes as charged.
const GRANT_MAX: u64 = 2 << 20;
/// So many fragments that came, and a turn ends with a receipt.
pub(super) const RECEIPT_PACKETS: u32 = 2;
/// The longest that a server is left to keep an answer that has come.
const RELEASE_AFTER: Duration = Duration::from_millis(10);
/// What says so again is no longer than this, in bytes: it fits any packet, beside a question.
const RELEASES_BYTES: usize = 256;
/// Between two asks for a session; longer when there was no answer, up to 32 times as long.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// With more questions without a word, one is asked at a time.
const SILENT_AT_ONCE: u32 = 2;
/// Silent questions after which the session is asked for as well.
const SILENT_QUESTIONS: u32 = 3;
/// Cancels sent until the call's outcome is given as unknown.
const CANCELS_MAX: u32 = 5;
/// Between two signs of a client that it is there.
const KEEP_EVERY: Duration = Duration::from_secs(20);
