//! The answering end of a session. It has no timers: what is lost is the client's to notice.

use std::borrow::Cow;

use super::api::{CallEffects, CallId, Mark, Served};
use super::desk::Desk;
use super::incoming::{Arrival, Incoming};
use super::outgoing::{Outgoing, Proof};
use super::path::{Head, Path, recount, shortest_first};
use super::wire::{ALL, CallName, Data, Part, Receipt, Refusal, Side, put_cancelled, put_pong, put_ready, put_receipt};

/// A session as its server keeps it.
pub(super) struct ServerSession {
    pub(super) path: Path,
    pub(super) nonce: u64,
    hint: u32,
    slots: Vec<ServerSlot>,
    /// Handlers that have not answered, those of calls given up since included.
    running: u32,
    /// Of these, the calls that were given up: slot and number.
    detached: Vec<(u8, u64)>,
    /// What the client was last told that it may have under way.
    told: u64,
    /// It is not what the client was told with the session.
    tells: bool,
    /// The client has spoken in this session.
    pub(super) is_used: bool,
    /// It has spoken of late.
    pub(super) is_active: bool,
    /// Answers with something left to send.
    unsent: u32,
    /// Answers begun.
    begun: u64,
}

#[derive(Default)]
struct ServerSlot {
    /// The greatest number that came.
    call: u64,
    state: State,
    request: Incoming,
    answer: Outgoing,
    allowance: u64,
    refusal: bool,
    receipt_due: bool,
    /// Length of the last answer.
    answered_bytes: usize,
    /// Answers that were begun before this one.
    age: u64,
    /// The packet with a fragment that went once more, to be told what has come; 0: there was none.
    probed_as: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing came, or the answer has come to the client, or the call was given up after its handler had begun.
    #[default]
    Released,
    Receiving,
    Running,
    Answered,
    /// It was given up before its handler had begun, which it never will.
    Prevented,
}

impl ServerSession {
    pub(super) fn new(path: Path, hint: u32, nonce: u64, told: u64) -> Self {
        Self {
            path,
            nonce,
            hint,
            slots: Vec::new(),
            running: 0,
            detached: Vec::new(),
            told,
            tells: false,
            is_used: false,
            is_active: true,
            unsent: 0,
            begun: 0,
        }
    }

    /// What [`super::wire::Opened`] told, and is told again.
    pub(super) fn told(&self) -> u64 {
        self.told
    }

    /// Where a piece of a request belongs that is under way, of so many bytes.
    pub(super) fn place(&mut self, name: CallName, part: Part, len: usize) -> Option<&mut [u8]> {
        let call = self.slots.get_mut(usize::from(name.slot))?;
        let comes = call.call == name.call && call.state == State::Receiving;
        if comes { call.request.place(part, len) } else { None }
    }

    /// A piece of a request, or all of it. Whether the session is to be looked at in this turn.
    #[inline]
    pub(super) fn handle_request(&mut self, data: &Data<'_>, desk: &mut Desk<'_, impl CallEffects>) -> bool {
        let slot = usize::from(data.name.slot);
        if slot >= usize::from(desk.limits.slots) || data.name.call == 0 {
            desk.net.counters.malformed += 1;
            return false;
        }
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, ServerSlot::default);
        }
        let call = &mut self.slots[slot];
        if data.name.call < call.call {
            desk.net.counters.stale += 1;
            return false;
        }
        if data.name.call == call.call {
            return self.handle_again(slot, data, desk);
        }
        self.give_up(slot, desk);
        let call = &mut self.slots[slot];
        call.call = data.name.call;
        call.refusal = false;
        call.receipt_due = false;
        let Some(part) = data.part else {
            call.allowance = data.allowance;
            self.run(slot, Some(data.bytes), data.wants_receipt, desk);
            return self.slots[slot].receipt_due || self.unsent > 0 || !self.path.pending.is_empty();
        };
        let len = usize::try_from(part.message_len).unwrap_or(usize::MAX);
        if len > desk.limits.message_bytes {
            self.refuse(slot, Refusal::TooLong, desk);
            return true;
        }
        if desk.held.requests.saturating_add(len) > desk.limits.requests_bytes {
            self.refuse(slot, Refusal::Busy, desk);
            return true;
        }
        desk.held.requests += len;
        call.state = State::Receiving;
        call.allowance = 0;
        desk.fx.mark(Mark::Receiving, call.call);
        call.request.begin(len, self.path.longest_piece, u32::MAX, &mut desk.net.spare);
        self.handle_again(slot, data, desk)
    }

    /// Something of a request whose number came before.
    fn handle_again(&mut self, slot: usize, data: &Data<'_>, desk: &mut Desk<'_, impl CallEffects>) -> bool {
        let call = &mut self.slots[slot];
        match call.state {
            State::Receiving => {}
            State::Running => {
                desk.net.counters.duplicates += 1;
                call.receipt_due |= data.wants_receipt;
                return call.receipt_due;
            }
            State::Answered => {
                desk.net.counters.duplicates += 1;
                if data.wants_receipt {
                    self.prompt(slot, desk);
                }
                return data.wants_receipt;
            }
            State::Released | State::Prevented => {
                desk.net.counters.duplicates += 1;
                return false;
            }
        }
        let Some(part) = data.part else {
            desk.net.counters.malformed += 1;
            return false;
        };
        if part.index == 0 {
            call.allowance = data.allowance;
        }
        match call.request.accept(part, data.bytes, data.placed) {
            Arrival::New => {}
            Arrival::Duplicate => desk.net.counters.duplicates += 1,
            Arrival::Nonsense => {
                desk.net.counters.malformed += 1;
                return false;
            }
        }
        if call.request.is_complete() {
            desk.held.requests -= call.request.bytes().len();
            // Until it answers, the client would count the request as under way.
            self.run(slot, None, true, desk);
            return true;
        }
        call.receipt_due |= data.wants_receipt || call.request.is_to_be_told(part.index);
        call.receipt_due
    }

    /// Has the request's handler run. `whole`: the request, if it came in one packet. `wants_receipt`: if the answer comes later.
    #[inline]
    fn run(&mut self, slot: usize, whole: Option<&[u8]>, wants_receipt: bool, desk: &mut Desk<'_, impl CallEffects>) {
        self.slots[slot].receipt_due = false;
        let busy = self.running >= u32::from(desk.limits.slots) * 2 || desk.held.answers > desk.limits.answers_bytes;
        if busy {
            self.slots[slot].request.release(&mut desk.net.spare);
            self.refuse(slot, Refusal::Busy, desk);
            return;
        }
        let call = &mut self.slots[slot];
        call.state = State::Running;
        let id = CallId { session: self.hint, token: self.path.token, slot: slot as u8, call: call.call };
        // Answers are mostly as long as the one before.
        let answer = call.answer.empty(call.answered_bytes, &mut desk.net.spare);
        desk.fx.mark(Mark::Runs, call.call);
        let served = match whole {
            Some(request) => desk.fx.request(id, self.path.peer, request, answer),
            None => desk.fx.long_request(id, self.path.peer, call.request.bytes_mut(), answer),
        };
        desk.fx.mark(Mark::Ran, call.call);
        if whole.is_none() {
            call.request.release(&mut desk.net.spare);
        }
        desk.net.counters.served += 1;
        match served {
            Served::Answered => self.begin_answer(slot, desk),
            Served::Later => {
                call.receipt_due = wants_receipt;
                self.running += 1;
            }
            Served::Refused => self.refuse(slot, Refusal::NoService, desk),
            Served::Busy => self.refuse(slot, Refusal::Busy, desk),
        }
    }

    fn refuse(&mut self, slot: usize, reason: Refusal, desk: &mut Desk<'_, impl CallEffects>) {
        desk.net.counters.refused += 1;
        let call = &mut self.slots[slot];
        call.refusal = true;
        // A refusal is short, and wanted whatever the allowance.
        call.allowance = u64::MAX;
        let answer = call.answer.empty(0, &mut desk.net.spare);
        answer.push(reason.code());
        self.begin_answer(slot, desk);
    }

    /// The answer is in the slot: sends of it what is allowed.
    #[inline]
    fn begin_answer(&mut self, slot: usize, desk: &mut Desk<'_, impl CallEffects>) {
        let path = &mut self.path;
        let call = &mut self.slots[slot];
        call.state = State::Answered;
        call.answer.begin(path.longest_piece, 0);
        call.probed_as = 0;
        desk.held.answers += call.answer.len();
        call.answered_bytes = call.answer.len();
        (call.age, self.begun) = (self.begun, self.begun + 1);
        let allowed = if call.answer.is_whole() {
            u32::from(call.allowance >= path.charge_of(call.answer.len()))
        } else {
            u32::try_from(call.allowance / path.charge_each(call.answer.len()).max(1)).unwrap_or(u32::MAX)
        };
        if allowed == 0 {
            let name = CallName { slot: slot as u8, call: call.call };
            put_ready(&mut path.pending, name, call.answer.len() as u64);
            desk.net.counters.answers_not_allowed += 1;
            return;
        }
        call.answer.allow(allowed);
        self.tell_credit(desk);
        let call = &mut self.slots[slot];
        self.unsent += 1;
        if self.unsent > 1 && !call.answer.is_whole() {
            // Others wait for room: what there is now may be theirs.
            self.send_waiting(desk);
        } else {
            self.send_from(slot, desk);
        }
    }

    /// Lets the next packet say what the client may have under way, unless that is what it was told with the session. It is said
    /// again with each answer and each receipt: whatever said it may be lost, and then the next one does.
    #[inline]
    fn tell_credit(&mut self, desk: &mut Desk<'_, impl CallEffects>) {
        let share = desk.intake.share(self.path.reach);
        if self.told > share || self.told < share / 2 {
            (self.told, self.tells) = (share, true);
        }
        if self.tells {
            self.path.credit = Some(self.told);
        }
    }

    fn send_waiting(&mut self, desk: &mut Desk<'_, impl CallEffects>) {
        let answered = self.slots.iter().enumerate().filter(|(_, call)| call.state == State::Answered);
        let waiting = answered.filter(|(_, call)| call.answer.next().is_some());
        for (_, _, slot) in shortest_first(waiting.map(|(slot, call)| (call.answer.left(), call.age, slot))) {
            self.send_from(slot, desk);
        }
    }

    fn send_from(&mut self, slot: usize, desk: &mut Desk<'_, impl CallEffects>) {
        let call = &mut self.slots[slot];
        let name = CallName { slot: slot as u8, call: call.call };
        let head = Head { side: Side::Answer, name, allowance: 0, refusal: call.refusal };
        let each = per_fragment(&self.path, &call.answer);
        let is_done = self.path.send_message(&mut call.answer, &head, &[], (each, u64::MAX), desk);
        self.unsent -= u32::from(is_done);
        desk.fx.mark(if is_done { Mark::Answered } else { Mark::AnswerHeld }, call.call);
    }

    /// The client asks for an answer that is there. What is under way may be lost, or wait somewhere: the first fragment of it goes
    /// once more, and the receipt for that says what is lost of those before (the tail loss probe of RFC 8985, section 7).
    fn prompt(&mut self, slot: usize, desk: &mut Desk<'_, impl CallEffects>) {
        let call = &mut self.slots[slot];
        let name = CallName { slot: slot as u8, call: call.call };
        if !call.answer.was_sent() {
            // Not allowed, or nothing more may be under way: the client knows that it is there.
            put_ready(&mut self.path.pending, name, call.answer.len() as u64);
        } else if let Some(index) = call.answer.first_under_way()
            && self.path.may_send(call.answer.fragment_bytes().min(call.answer.len()))
        {
            let head = Head { side: Side::Answer, name, allowance: 0, refusal: call.refusal };
            self.tell_credit(desk);
            let call = &mut self.slots[slot];
            call.probed_as = self.path.send_fragment(&mut call.answer, index, &head, (&[], true), desk);
        }
    }

    /// A receipt for an answer, or a question where the call stands.
    pub(super) fn handle_receipt(
        &mut self,
        name: CallName,
        receipt: &Receipt,
        asks: bool,
        desk: &mut Desk<'_, impl CallEffects>,
    ) -> bool {
        let slot = usize::from(name.slot);
        let known = self.slots.get(slot).map_or(0, |call| call.call);
        if name.call > known && asks && slot < usize::from(desk.limits.slots) {
            // Nothing of it has come.
            let nothing = Receipt { seen: self.path.seen, limit: u32::MAX, prefix: 0, beyond: Vec::new() };
            put_receipt(&mut self.path.pending, Side::Request, name, false, &nothing);
            return true;
        }
        if name.call != known {
            return false;
        }
        let Some(call) = self.slots.get_mut(slot) else { return false };
        match call.state {
            State::Receiving | State::Running => {
                call.receipt_due |= asks;
                return call.receipt_due;
            }
            State::Released | State::Prevented => return false,
            State::Answered => {}
        }
        let had = call.answer.next().is_some();
        let each = per_fragment(&self.path, &call.answer);
        if asks {
            self.path.forget_timing();
        }
        let is_probed = call.probed_as != 0 && receipt.seen >= call.probed_as;
        let proves = if is_probed { Proof::Seen } else { Proof::Reordered };
        let change = self.path.take_receipt(&mut call.answer, (name.slot, each), (receipt, proves), desk);
        recount(&mut self.unsent, had, call.answer.next().is_some());
        if call.answer.has_arrived() {
            self.release(slot, desk);
        } else if asks && change.lost == 0 {
            self.prompt(slot, desk);
        }
        true
    }

    /// The client gives a call up. Whether its handler has begun is told.
    pub(super) fn handle_cancel(&mut self, name: CallName, desk: &mut Desk<'_, impl CallEffects>) -> bool {
        let slot = usize::from(name.slot);
        if slot >= usize::from(desk.limits.slots) {
            desk.net.counters.malformed += 1;
            return false;
        }
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, ServerSlot::default);
        }
        let mut may_have_run = true;
        if name.call >= self.slots[slot].call {
            let is_new = name.call > self.slots[slot].call;
            let state = self.slots[slot].state;
            may_have_run = !is_new && !matches!(state, State::Receiving | State::Prevented);
            self.give_up(slot, desk);
            self.slots[slot].call = name.call;
            self.slots[slot].state = if may_have_run { State::Released } else { State::Prevented };
        }
        put_cancelled(&mut self.path.pending, name, may_have_run);
        true
    }

    /// Lets go of what a slot holds; a handler that still runs goes on, and its answer is not wanted.
    fn give_up(&mut self, slot: usize, desk: &mut Desk<'_, impl CallEffects>) {
        let call = &mut self.slots[slot];
        match call.state {
            State::Receiving => {
                desk.held.requests -= call.request.bytes().len();
                call.request.release(&mut desk.net.spare);
                call.state = State::Released;
            }
            State::Answered => self.release(slot, desk),
            State::Running => {
                desk.net.counters.detached += 1;
                self.detached.push((slot as u8, call.call));
                call.state = State::Released;
            }
            State::Released | State::Prevented => {}
        }
    }

    /// The client has the answer, or does not want it.
    fn release(&mut self, slot: usize, desk: &mut Desk<'_, impl CallEffects>) {
        let call = &mut self.slots[slot];
        debug_assert_eq!(call.state, State::Answered);
        let each = per_fragment(&self.path, &call.answer);
        self.unsent -= u32::from(call.answer.next().is_some());
        let under_way = u64::from(call.answer.under_way()) * each;
        self.path.in_flight = self.path.in_flight.saturating_sub(under_way);
        desk.held.answers -= call.answer.len();
        desk.fx.mark(Mark::Released, call.call);
        call.answer.release(&mut desk.net.spare);
        call.state = State::Released;
    }

    /// A handler's answer that comes later. Whether it is wanted: its call was not given up, nor answered before.
    pub(super) fn answer(
        &mut self,
        slot: u8,
        call: u64,
        served: Option<Cow<'_, [u8]>>,
        desk: &mut Desk<'_, impl CallEffects>,
    ) -> bool {
        if let Some(at) = self.detached.iter().position(|&given_up| given_up == (slot, call)) {
            self.detached.swap_remove(at);
            self.running -= 1;
            return false;
        }
        let slot = usize::from(slot);
        let wanted = self.slots.get(slot).is_some_and(|held| held.call == call && held.state == State::Running);
        if !wanted {
            return false;
        }
        self.running -= 1;
        match served {
            Some(bytes) => {
                let answer = &mut self.slots[slot].answer;
                match bytes {
                    Cow::Owned(bytes) => answer.give(bytes, &mut desk.net.spare),
                    Cow::Borrowed(bytes) => answer.empty(bytes.len(), &mut desk.net.spare).extend_from_slice(bytes),
                }
                self.begin_answer(slot, desk);
            }
            None => self.refuse(slot, Refusal::NoService, desk),
        }
        true
    }

    pub(super) fn handle_ping(&mut self) {
        put_pong(&mut self.path.pending);
    }

    /// What is due in a turn after something came.
    pub(super) fn work(&mut self, loss: bool, desk: &mut Desk<'_, impl CallEffects>) {
        self.path.challenge(desk);
        for slot in 0..self.slots.len() {
            let call = &mut self.slots[slot];
            let incomplete = call.state == State::Receiving;
            if call.receipt_due || loss && incomplete && call.request.has_gap() {
                call.receipt_due = false;
                let name = CallName { slot: slot as u8, call: call.call };
                let receipt = if incomplete {
                    let (prefix, beyond) = (call.request.prefix(), call.request.beyond());
                    Receipt { seen: self.path.seen, limit: u32::MAX, prefix, beyond }
                } else if call.state == State::Running {
                    Receipt { seen: self.path.seen, limit: u32::MAX, prefix: ALL, beyond: Vec::new() }
                } else {
                    continue;
                };
                call.request.unacknowledged = 0;
                put_receipt(&mut self.path.pending, Side::Request, name, false, &receipt);
                self.path.flush_many(desk);
            }
        }
        if self.unsent > 0 {
            self.send_waiting(desk);
        }
        if !self.path.pending.is_empty() {
            self.tell_credit(desk);
            self.path.flush(desk);
        }
    }

    /// Whether a handler runs whose answer is still wanted, or not.
    pub(super) fn is_running(&self) -> bool {
        self.running > 0
    }

    /// Lets go of everything: the session ends.
    pub(super) fn end(&mut self, desk: &mut Desk<'_, impl CallEffects>) {
        for slot in 0..self.slots.len() {
            self.give_up(slot, desk);
        }
        desk.fx.parted(self.path.peer);
    }

    pub(super) fn check_invariants(&self) {
        for call in &self.slots {
            call.answer.check_invariants();
        }
        let answered = self.slots.iter().filter(|call| call.state == State::Answered);
        assert_eq!(self.unsent as usize, answered.filter(|call| call.answer.next().is_some()).count());
        let running = self.slots.iter().filter(|call| call.state == State::Running).count();
        assert_eq!(running + self.detached.len(), self.running as usize);
    }
}

/// What a fragment of an answer counts in the congestion window. Nothing, if it is the whole: it was allowed for by the
/// client, and that it came is only told by the next call.
fn per_fragment(path: &Path, message: &Outgoing) -> u64 {
    if message.is_whole() { 0 } else { path.charge_each(message.len()) }
}
