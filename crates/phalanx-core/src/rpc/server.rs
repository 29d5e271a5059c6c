//! The server end of a session. It has no timers: the client finds losses.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::api::{CallEffects, CallId, HandlerResult, TracePoint};
use super::context::{MessageBytes, SLOTS_MAX, SessionContext, slot_number};
use super::fragmentation::{OutgoingMessage, Proof};
use super::path::{Charge, Head, SessionPath, recount, shortest_first};
use super::reassembly::{FragmentArrival, Reassembly};
use super::wire::{
    ALL, CallName, Data, FragmentAck, FragmentPosition, Refusal, Side, put_ack, put_cancelled, put_pong, put_ready,
};
use crate::transitions::transitions;

use crate::wire::{PacketNumber, SessionIndex};

/// A session on the side of its server.
pub(super) struct ServerSession {
    pub(super) path: SessionPath,
    pub(super) nonce: u64,
    session_index: SessionIndex,
    slots: Vec<ServerSlot>,
    /// Handlers that have not answered, including those of calls that were given up.
    running: u32,
    /// Slot and number of the calls among these that were given up.
    detached: Vec<(u8, u64)>,
    /// The credit that the client was last granted.
    told: u64,
    /// Whether that differs from the credit granted with the session.
    tells: bool,
    /// The server's knowledge about the client.
    state: ServerSessionState,
    /// Answers with something to send.
    unsent: u32,
    /// Answers started so far.
    begun: u64,
}

transitions! {
    /// A server's knowledge about a session's client.
    states ServerSessionState {
        /// The client requested the session recently, and has not spoken in it.
        Unused,
        /// It has not spoken in it, and nothing arrived recently.
        UnusedIdle,
        /// It has spoken, and recently.
        Active,
        /// It has spoken, but not recently.
        Idle,
        /// The session is gone.
        Over,
    }
    begin Unused; end [Over];
    events ServerSessionEvent {
        /// A frame of the client arrived.
        Speak (Unused | UnusedIdle | Idle => Active),
        /// A sweep finds that a packet arrived recently, though without a readable frame.
        Wake (UnusedIdle => Unused, Idle => Active),
        /// A sweep finds that nothing arrived recently.
        Rest (Unused => UnusedIdle, Active => Idle),
        /// The client closes it or was silent for too long, or no number is left for its packets.
        End (Unused | UnusedIdle | Active | Idle => Over),
    }
}

#[derive(Default)]
struct ServerSlot {
    /// The greatest call number received.
    call: u64,
    state: ServerSlotState,
    request: Reassembly,
    answer: OutgoingMessage,
    response_credit: u64,
    refusal: bool,
    ack_due: bool,
    /// Length of the last answer, in bytes.
    answered_bytes: usize,
    /// Number of answers started before this one.
    age: u64,
    /// The packet that carried a fragment once more, to learn what has arrived. 0: none.
    probed_as: PacketNumber,
}

transitions! {
    /// The state of a server's slot.
    #[derive(Default)]
    states ServerSlotState {
        /// Nothing arrived, or the client has the answer, or the call was given up after its handler began.
        #[default]
        Released,
        /// A part of the request has arrived.
        Receiving,
        /// The handler has not answered yet.
        Running,
        /// The answer is kept until the client has it.
        Answered,
        /// The call was given up before its handler began. The handler never will.
        Prevented,
    }
    begin Released; end [];
    events ServerSlotEvent {
        /// The first of several fragments of a new request arrived.
        Receive (Released | Prevented => Receiving),
        /// The request is complete, and its handler runs.
        Run (Released | Prevented | Receiving => Running),
        /// The handler has answered.
        Answer (Running => Answered),
        /// A refusal replaces the answer, before the handler runs or after it.
        Refuse (Released | Prevented | Receiving | Running => Answered),
        /// The client has the answer.
        Acknowledge (Answered => Released),
        /// The client gives the call up, or starts the next one in the slot, or the session ends.
        GiveUp (Receiving | Running | Answered => Released),
        /// A call that did not run was given up.
        Prevent (Released | Prevented => Prevented),
    }
}

impl ServerSlot {
    #[inline]
    fn enter(&mut self, event: ServerSlotEvent, state: ServerSlotState) {
        event.check(self.state, state);
        self.state = state;
    }

    /// The call in it, which is slot number `slot` of a session.
    fn id(&self, session: SessionIndex, path: &SessionPath, slot: usize) -> CallId {
        CallId { session, session_secret: path.session_secret, slot: slot_number(slot), call: self.call }
    }

    fn check_invariants(&self) {
        self.request.check_invariants();
        self.answer.check_invariants();
        let is_receiving = self.state == ServerSlotState::Receiving;
        let is_answered = self.state == ServerSlotState::Answered;
        assert_eq!(self.request.is_begun(), is_receiving, "a request is kept for as long as it is received");
        assert!(!self.request.is_complete(), "a request is complete, and its handler was not run");
        assert!(is_answered || self.answer.len() == 0, "an answer is kept that no caller waits for");
        assert!(!is_answered || !self.answer.has_arrived(), "an answer is kept that the client has");
        assert!(self.call > 0 || self.state == ServerSlotState::Released, "calls are numbered from 1");
    }
}

impl ServerSession {
    pub(super) fn new(path: SessionPath, session_index: SessionIndex, nonce: u64, told: u64) -> Self {
        Self {
            path,
            nonce,
            session_index,
            slots: Vec::new(),
            running: 0,
            detached: Vec::new(),
            told,
            tells: false,
            state: ServerSessionState::Unused,
            unsent: 0,
            begun: 0,
        }
    }

    #[inline]
    fn enter(&mut self, event: ServerSessionEvent, state: ServerSessionState) {
        event.check(self.state, state);
        self.state = state;
    }

    /// Whether the client has spoken in this session.
    pub(super) fn is_used(&self) -> bool {
        matches!(self.state, ServerSessionState::Active | ServerSessionState::Idle)
    }

    /// Whether something of the client arrived recently.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        matches!(self.state, ServerSessionState::Unused | ServerSessionState::Active)
    }

    /// Notes a frame of the client. Returns whether the session was not active before.
    #[inline]
    pub(super) fn handle_speech(&mut self) -> bool {
        let was_active = self.is_active();
        if self.state != ServerSessionState::Active {
            self.enter(ServerSessionEvent::Speak, ServerSessionState::Active);
        }
        !was_active
    }

    /// Updates the state in a sweep, by whether something of the client arrived recently.
    pub(super) fn sweep(&mut self, came_of_late: bool) {
        if came_of_late == self.is_active() {
            return;
        }
        let event = if came_of_late { ServerSessionEvent::Wake } else { ServerSessionEvent::Rest };
        let state = match (self.is_used(), came_of_late) {
            (false, true) => ServerSessionState::Unused,
            (false, false) => ServerSessionState::UnusedIdle,
            (true, true) => ServerSessionState::Active,
            (true, false) => ServerSessionState::Idle,
        };
        self.enter(event, state);
    }

    /// The credit last granted, which a repeated [`super::wire::Opened`] carries too.
    pub(super) fn told(&self) -> u64 {
        self.told
    }

    /// The place for a fragment of a request under way.
    pub(super) fn place(&mut self, name: CallName, part: FragmentPosition, len: usize) -> Option<&mut [u8]> {
        let call = self.slots.get_mut(usize::from(name.slot))?;
        let comes = call.call == name.call && call.state == ServerSlotState::Receiving;
        if comes { call.request.place(part, len) } else { None }
    }

    /// Handles a request, or a fragment of one. Returns whether the session has to be polled in this iteration.
    #[inline]
    pub(super) fn handle_request(
        &mut self,
        data: &Data<'_>,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) -> bool {
        let slot = usize::from(data.name.slot);
        if slot >= usize::from(context.limits.slots) || data.name.call == 0 {
            context.net.counters.malformed += 1;
            return false;
        }
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, ServerSlot::default);
        }
        let call = &mut self.slots[slot];
        // A call runs only if its number is greater than all before in its slot. A smaller one is a late packet.
        if data.name.call < call.call {
            context.net.counters.stale += 1;
            return false;
        }
        if data.name.call == call.call {
            return self.handle_retransmission(slot, data, context);
        }
        // A greater number ends the call before it, in any state. So a lost cancel cannot block the slot.
        self.give_up(slot, context);
        let call = &mut self.slots[slot];
        debug_assert!(!call.request.is_begun(), "a request of an earlier call is in the slot");
        call.call = data.name.call;
        call.refusal = false;
        call.ack_due = false;
        let Some(part) = data.part else {
            call.response_credit = data.response_credit;
            self.run(slot, Some(data.bytes), data.wants_ack, context);
            return self.slots[slot].ack_due || self.unsent > 0 || !self.path.pending.is_empty();
        };
        let len = usize::try_from(part.message_len).unwrap_or(usize::MAX);
        if len > context.limits.message_bytes {
            self.refuse(slot, Refusal::TooLong, context);
            return true;
        }
        if context.held.requests.saturating_add(len) > context.limits.requests_bytes {
            self.refuse(slot, Refusal::Busy, context);
            return true;
        }
        context.held.requests += len;
        call.enter(ServerSlotEvent::Receive, ServerSlotState::Receiving);
        call.response_credit = 0;
        context.fx.mark(TracePoint::Receiving, call.call);
        call.request.begin(len, self.path.longest_piece, u32::MAX, &mut context.net.buffer_pool);
        self.handle_retransmission(slot, data, context)
    }

    /// Handles a packet of a request whose call number arrived before.
    fn handle_retransmission(
        &mut self,
        slot: usize,
        data: &Data<'_>,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) -> bool {
        let call = &mut self.slots[slot];
        match call.state {
            ServerSlotState::Receiving => {}
            ServerSlotState::Running => {
                context.net.counters.duplicates += 1;
                call.ack_due |= data.wants_ack;
                return call.ack_due;
            }
            ServerSlotState::Answered => {
                context.net.counters.duplicates += 1;
                if data.wants_ack {
                    self.prompt(slot, context);
                }
                return data.wants_ack;
            }
            // The call is over here, and must not run a second time. The client gets no answer to this: it has the
            // answer, or gave the call up.
            ServerSlotState::Released | ServerSlotState::Prevented => {
                context.net.counters.duplicates += 1;
                return false;
            }
        }
        let Some(part) = data.part else {
            context.net.counters.malformed += 1;
            return false;
        };
        if part.index == 0 {
            call.response_credit = data.response_credit;
        }
        match call.request.accept(part, data.bytes, data.placed) {
            FragmentArrival::New => {}
            FragmentArrival::Duplicate => context.net.counters.duplicates += 1,
            FragmentArrival::Nonsense => {
                context.net.counters.malformed += 1;
                return false;
            }
        }
        if call.request.is_complete() {
            debug_assert!(context.held.requests >= call.request.len(), "an incomplete request is counted");
            context.held.requests -= call.request.bytes().len();
            // Acknowledge now: until the answer comes, the client would count the request as in flight.
            self.run(slot, None, true, context);
            return true;
        }
        call.ack_due |= data.wants_ack || call.request.is_to_be_told(part.index);
        call.ack_due
    }

    /// Runs the request's handler. `whole`: the request, if it came in one packet. `wants_ack`: whether an ack is due
    /// if the answer comes later.
    #[inline]
    fn run(
        &mut self,
        slot: usize,
        whole: Option<&[u8]>,
        wants_ack: bool,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) {
        self.slots[slot].ack_due = false;
        // Handlers of calls that were given up count as well, so that calls and cancels in turn cannot pile up work.
        let busy =
            self.running >= u32::from(context.limits.slots) * 2 || context.held.answers > context.limits.answers_bytes;
        if busy {
            self.slots[slot].request.release(&mut context.net.buffer_pool);
            self.refuse(slot, Refusal::Busy, context);
            return;
        }
        let call = &mut self.slots[slot];
        debug_assert!(whole.is_some() || call.request.is_complete(), "a handler runs on part of a request");
        call.enter(ServerSlotEvent::Run, ServerSlotState::Running);
        let id = call.id(self.session_index, &self.path, slot);
        // Most answers are as long as the one before.
        let answer = call.answer.empty(call.answered_bytes, &mut context.net.buffer_pool);
        context.fx.mark(TracePoint::Runs, call.call);
        let served = match whole {
            Some(request) => context.fx.request(id, self.path.peer, request, answer),
            None => context.fx.long_request(id, self.path.peer, call.request.bytes_mut(), answer),
        };
        context.fx.mark(TracePoint::Ran, call.call);
        if whole.is_none() {
            call.request.release(&mut context.net.buffer_pool);
        }
        context.net.counters.served += 1;
        match served {
            HandlerResult::Answered => self.begin_answer(slot, ServerSlotEvent::Answer, context),
            HandlerResult::Later => {
                call.ack_due = wants_ack;
                self.running += 1;
            }
            HandlerResult::Refused => self.refuse(slot, Refusal::NoService, context),
            HandlerResult::Busy => self.refuse(slot, Refusal::Busy, context),
        }
    }

    fn refuse(&mut self, slot: usize, reason: Refusal, context: &mut SessionContext<'_, impl CallEffects>) {
        context.net.counters.refused += 1;
        let call = &mut self.slots[slot];
        call.refusal = true;
        // A refusal is short, and is sent whatever the response credit.
        call.response_credit = u64::MAX;
        let answer = call.answer.empty(0, &mut context.net.buffer_pool);
        answer.push(reason.code());
        self.begin_answer(slot, ServerSlotEvent::Refuse, context);
    }

    /// Starts the answer in the slot, and sends what is allowed of it.
    #[inline]
    fn begin_answer(
        &mut self,
        slot: usize,
        event: ServerSlotEvent,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) {
        let path = &mut self.path;
        let call = &mut self.slots[slot];
        call.enter(event, ServerSlotState::Answered);
        call.answer.begin(path.longest_piece, 0);
        call.probed_as = PacketNumber(0);
        context.held.answers += call.answer.len();
        call.answered_bytes = call.answer.len();
        (call.age, self.begun) = (self.begun, self.begun + 1);
        let allowed = if call.answer.is_whole() {
            u32::from(call.response_credit >= path.truesize_of(call.answer.len()))
        } else {
            u32::try_from(call.response_credit / path.truesize_each(call.answer.len()).max(1)).unwrap_or(u32::MAX)
        };
        // The client gets the length, and allows the answer when it has room.
        if allowed == 0 {
            let name = CallName { slot: slot_number(slot), call: call.call };
            put_ready(&mut path.pending, name, call.answer.len() as u64);
            context.net.counters.answers_beyond_credit += 1;
            return;
        }
        call.answer.allow(allowed);
        self.advertise_credit(context);
        let call = &mut self.slots[slot];
        self.unsent += 1;
        if self.unsent > 1 && !call.answer.is_whole() {
            // Other answers wait for room. What is free now may be theirs.
            self.send_waiting(context);
        } else {
            self.send_from(slot, context);
        }
    }

    /// Puts the credit of the client into the next packet, unless it is the one granted with the session. Each answer
    /// and each ack repeats it: the packet that carried it may be lost.
    #[inline]
    fn advertise_credit(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        let share = context.intake.share(self.path.reach);
        if self.told > share || self.told < share / 2 {
            (self.told, self.tells) = (share, true);
        }
        if self.tells {
            self.path.credit = Some(self.told);
        }
    }

    fn send_waiting(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        let answered = self.slots.iter().enumerate().filter(|(_, call)| call.state == ServerSlotState::Answered);
        let waiting = answered.filter(|(_, call)| call.answer.next().is_some());
        for (_, _, slot) in shortest_first(waiting.map(|(slot, call)| (call.answer.left(), call.age, slot))) {
            self.send_from(slot, context);
        }
    }

    fn send_from(&mut self, slot: usize, context: &mut SessionContext<'_, impl CallEffects>) {
        let call = &mut self.slots[slot];
        let name = CallName { slot: slot_number(slot), call: call.call };
        let head = Head { side: Side::Answer, name, response_credit: 0, refusal: call.refusal };
        let each = per_fragment(&self.path, &call.answer);
        let is_done = self.path.send_message(&mut call.answer, &head, &[], Charge { each, credit: u64::MAX }, context);
        debug_assert!(!is_done || self.unsent > 0, "an answer with something to send is counted");
        self.unsent -= u32::from(is_done);
        context.fx.mark(if is_done { TracePoint::Answered } else { TracePoint::AnswerHeld }, call.call);
    }

    /// Retransmits the first fragment in flight, because the client asks for an answer that exists. What is in flight
    /// may be lost, or may wait in a queue. The ack for this packet shows which earlier ones are lost (tail loss probe,
    /// RFC 8985, section 7).
    fn prompt(&mut self, slot: usize, context: &mut SessionContext<'_, impl CallEffects>) {
        let call = &mut self.slots[slot];
        let name = CallName { slot: slot_number(slot), call: call.call };
        if !call.answer.was_sent() {
            // It is not allowed, or nothing more may be in flight. The client learns that the answer exists.
            put_ready(&mut self.path.pending, name, call.answer.len() as u64);
        } else if let Some(index) = call.answer.first_under_way()
            && self.path.may_send(call.answer.fragment_bytes().min(call.answer.len()))
        {
            let head = Head { side: Side::Answer, name, response_credit: 0, refusal: call.refusal };
            self.advertise_credit(context);
            let call = &mut self.slots[slot];
            call.probed_as = self.path.send_fragment(&mut call.answer, index, &head, (&[], true), context);
        }
    }

    /// Handles an ack for an answer, or a probe for the state of a call.
    pub(super) fn handle_ack(
        &mut self,
        name: CallName,
        ack: &FragmentAck,
        asks: bool,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) -> bool {
        let slot = usize::from(name.slot);
        let known = self.slots.get(slot).map_or(0, |call| call.call);
        if name.call > known && asks && slot < usize::from(context.limits.slots) {
            // Nothing of the call has arrived. An ack for nothing makes the client retransmit.
            let nothing = FragmentAck { seen: self.path.seen, limit: u32::MAX, prefix: 0, beyond: Vec::new() };
            put_ack(&mut self.path.pending, Side::Request, name, false, &nothing);
            return true;
        }
        if name.call != known {
            return false;
        }
        let Some(call) = self.slots.get_mut(slot) else { return false };
        match call.state {
            ServerSlotState::Receiving | ServerSlotState::Running => {
                call.ack_due |= asks;
                return call.ack_due;
            }
            ServerSlotState::Released | ServerSlotState::Prevented => return false,
            ServerSlotState::Answered => {}
        }
        let had = call.answer.next().is_some();
        let each = per_fragment(&self.path, &call.answer);
        if asks {
            self.path.forget_timing();
        }
        let is_probed = call.probed_as.0 != 0 && ack.seen >= call.probed_as;
        // A client's probe proves nothing by itself: the whole answer may still wait in the network. Only the fragment
        // that was retransmitted for a probe went out after it.
        let proves = if is_probed { Proof::Seen } else { Proof::Reordered };
        let change = self.path.take_ack(&mut call.answer, (name.slot, each), (ack, proves), context);
        recount(&mut self.unsent, had, call.answer.next().is_some());
        if call.answer.has_arrived() {
            self.release(slot, ServerSlotEvent::Acknowledge, context);
        } else if asks && change.lost == 0 {
            self.prompt(slot, context);
        }
        true
    }

    /// Handles a cancel, and reports whether the call's handler may have begun.
    pub(super) fn handle_cancel(&mut self, name: CallName, context: &mut SessionContext<'_, impl CallEffects>) -> bool {
        let slot = usize::from(name.slot);
        if slot >= usize::from(context.limits.slots) {
            context.net.counters.malformed += 1;
            return false;
        }
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, ServerSlot::default);
        }
        let mut may_have_run = true;
        if name.call >= self.slots[slot].call {
            let is_new = name.call > self.slots[slot].call;
            let state = self.slots[slot].state;
            may_have_run = !is_new && !matches!(state, ServerSlotState::Receiving | ServerSlotState::Prevented);
            self.give_up(slot, context);
            let call = &mut self.slots[slot];
            call.call = name.call;
            if !may_have_run {
                call.enter(ServerSlotEvent::Prevent, ServerSlotState::Prevented);
            }
            debug_assert_eq!(call.state == ServerSlotState::Released, may_have_run);
        }
        put_cancelled(&mut self.path.pending, name, may_have_run);
        true
    }

    /// Releases what a slot holds. A running handler goes on, and its answer is not wanted.
    fn give_up(&mut self, slot: usize, context: &mut SessionContext<'_, impl CallEffects>) {
        let call = &mut self.slots[slot];
        match call.state {
            ServerSlotState::Receiving => {
                context.held.requests -= call.request.bytes().len();
                call.request.release(&mut context.net.buffer_pool);
                call.enter(ServerSlotEvent::GiveUp, ServerSlotState::Released);
            }
            ServerSlotState::Answered => self.release(slot, ServerSlotEvent::GiveUp, context),
            ServerSlotState::Running => {
                context.net.counters.detached += 1;
                self.detached.push((slot_number(slot), call.call));
                call.enter(ServerSlotEvent::GiveUp, ServerSlotState::Released);
                context.fx.given_up(call.id(self.session_index, &self.path, slot));
            }
            ServerSlotState::Released | ServerSlotState::Prevented => {}
        }
        let state = self.slots[slot].state;
        debug_assert!(
            matches!(state, ServerSlotState::Released | ServerSlotState::Prevented),
            "a call that was given up keeps its slot"
        );
    }

    /// Releases an answer that the client has, or does not want.
    fn release(&mut self, slot: usize, event: ServerSlotEvent, context: &mut SessionContext<'_, impl CallEffects>) {
        let call = &mut self.slots[slot];
        debug_assert_eq!(call.state, ServerSlotState::Answered, "only an answer is released");
        debug_assert!(context.held.answers >= call.answer.len(), "an answer that is kept is counted");
        let each = per_fragment(&self.path, &call.answer);
        self.unsent -= u32::from(call.answer.next().is_some());
        let under_way = u64::from(call.answer.under_way()) * each;
        self.path.in_flight = self.path.in_flight.saturating_sub(under_way);
        context.held.answers -= call.answer.len();
        context.fx.mark(TracePoint::Released, call.call);
        call.answer.release(&mut context.net.buffer_pool);
        call.enter(event, ServerSlotState::Released);
    }

    /// Takes an answer that a handler gives later. Returns false if it is not wanted: its call was given up or answered
    /// before.
    pub(super) fn answer(
        &mut self,
        slot: u8,
        call: u64,
        served: Option<Cow<'_, [u8]>>,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) -> bool {
        if let Some(at) = self.detached.iter().position(|&given_up| given_up == (slot, call)) {
            self.detached.swap_remove(at);
            debug_assert!(self.running > 0, "a handler that was given up counts as running");
            self.running -= 1;
            return false;
        }
        let slot = usize::from(slot);
        let wanted =
            self.slots.get(slot).is_some_and(|held| held.call == call && held.state == ServerSlotState::Running);
        if !wanted {
            return false;
        }
        self.running -= 1;
        match served {
            Some(bytes) => {
                let answer = &mut self.slots[slot].answer;
                match bytes {
                    Cow::Owned(bytes) => answer.give(bytes, &mut context.net.buffer_pool),
                    Cow::Borrowed(bytes) => {
                        answer.empty(bytes.len(), &mut context.net.buffer_pool).extend_from_slice(bytes);
                    }
                }
                self.begin_answer(slot, ServerSlotEvent::Answer, context);
            }
            None => self.refuse(slot, Refusal::NoService, context),
        }
        true
    }

    pub(super) fn handle_ping(&mut self) {
        put_pong(&mut self.path.pending);
    }

    /// Does what is due after packets arrived.
    pub(super) fn work(&mut self, loss: bool, context: &mut SessionContext<'_, impl CallEffects>) {
        self.path.challenge(context);
        for slot in 0..self.slots.len() {
            let call = &mut self.slots[slot];
            let incomplete = call.state == ServerSlotState::Receiving;
            if call.ack_due || loss && incomplete && call.request.has_gap() {
                call.ack_due = false;
                let name = CallName { slot: slot_number(slot), call: call.call };
                let ack = if incomplete {
                    let (prefix, beyond) = (call.request.prefix(), call.request.beyond());
                    FragmentAck { seen: self.path.seen, limit: u32::MAX, prefix, beyond }
                } else if call.state == ServerSlotState::Running {
                    FragmentAck { seen: self.path.seen, limit: u32::MAX, prefix: ALL, beyond: Vec::new() }
                } else {
                    continue;
                };
                call.request.unacknowledged = 0;
                put_ack(&mut self.path.pending, Side::Request, name, false, &ack);
                self.path.flush_many(context);
            }
        }
        if self.unsent > 0 {
            self.send_waiting(context);
        }
        if !self.path.pending.is_empty() {
            self.advertise_credit(context);
            self.path.flush(context);
        }
    }

    /// Whether some handler runs, even if its answer is not wanted.
    pub(super) fn is_running(&self) -> bool {
        self.running > 0
    }

    /// Releases everything, because the session ends.
    pub(super) fn end(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        for slot in 0..self.slots.len() {
            self.give_up(slot, context);
        }
        context.fx.session_closed(self.path.peer);
        self.enter(ServerSessionEvent::End, ServerSessionState::Over);
    }

    pub(super) fn check_invariants(&self) {
        for call in &self.slots {
            call.check_invariants();
            assert!(call.state != ServerSlotState::Answered || call.age < self.begun, "an answer was never begun");
        }
        assert!(self.slots.len() <= usize::from(SLOTS_MAX), "more slots than a byte and a packet of acks allow");
        let answered = self.slots.iter().filter(|call| call.state == ServerSlotState::Answered);
        let unsent = answered.filter(|call| call.answer.next().is_some()).count();
        assert_eq!(self.unsent as usize, unsent, "answers with something to send are miscounted");
        let running = self.slots.iter().filter(|call| call.state == ServerSlotState::Running).count();
        assert_eq!(running + self.detached.len(), self.running as usize, "running handlers are miscounted");
        let distinct: BTreeSet<&(u8, u64)> = self.detached.iter().collect();
        assert_eq!(distinct.len(), self.detached.len(), "a call was given up twice");
        for &(slot, call) in &self.detached {
            let latest = self.slots.get(usize::from(slot)).map_or(0, |slot| slot.call);
            assert!(call <= latest, "a call was given up that did not arrive");
        }
        let under_way = |call: &ServerSlot| u64::from(call.answer.under_way()) * per_fragment(&self.path, &call.answer);
        let under_way: u64 = self.slots.iter().map(under_way).sum();
        assert!(self.path.in_flight <= under_way, "more is counted in flight than is under way");
    }

    /// Bytes of requests and answers that it holds.
    pub(super) fn held(&self) -> MessageBytes {
        let of = |state| self.slots.iter().filter(move |call| call.state == state);
        let requests = of(ServerSlotState::Receiving).map(|call| call.request.len()).sum();
        let answers = of(ServerSlotState::Answered).map(|call| call.answer.len()).sum();
        MessageBytes { requests, answers }
    }
}

/// Charge of a fragment of an answer in the congestion window.
///
/// An answer of one packet counts nothing: the client reserved room for it, and only the next call in the slot
/// acknowledges it. If such answers counted until then, idle slots would fill the window (departures, *One-packet
/// answers and the congestion window*).
fn per_fragment(path: &SessionPath, message: &OutgoingMessage) -> u64 {
    if message.is_whole() { 0 } else { path.truesize_each(message.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transitions::kept::hold;

    #[test]
    fn the_table_of_a_servers_slot_is_the_one_that_is_kept() {
        hold::<ServerSlotEvent>("server-slot");
    }

    #[test]
    fn the_table_of_a_servers_session_is_the_one_that_is_kept() {
        hold::<ServerSessionEvent>("server-session");
    }
}
