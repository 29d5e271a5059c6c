//! Client timers: deadlines, probes (status queries), keep-alive.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::Duration;

use super::{CallState, ClientSession, ClientSlot, Queued, Unreported};
use crate::rng::Rng;
use crate::rpc::api::{CallEffects, Failure, Reason, TracePoint};
use crate::rpc::context::SessionContext;
use crate::rpc::path::{Head, SessionPath};
use crate::rpc::wire::{CallName, FragmentAck, Side, put_ack, put_cancel, put_ping};
use crate::time::Instant;

impl ClientSession {
    /// Judges the timers, and when to look again.
    pub(in crate::rpc) fn judge(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        self.end_late(context);
        if !self.is_open() {
            if self.outstanding() > 0 && context.now >= self.asks_again() {
                self.unanswered += 1;
                self.ask(context);
            }
        } else {
            self.probe_all(context);
        }
        if let Some(path) = self.connection.path_mut()
            && path.pending_due.is_some_and(|due| due <= context.now)
        {
            path.flush(context);
        }
        if self.is_open() && self.tells_at() <= context.now {
            self.asked = context.now;
            self.repeat_notices();
            if let Some(path) = self.connection.path_mut() {
                put_ping(&mut path.pending);
                path.flush(context);
            }
        }
        if self.is_used_up() {
            self.end_used_up(context);
        }
        self.due = self.next_due(context.waits.timer_min);
    }

    /// Ends the calls whose deadline has passed.
    fn end_late(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        let now = context.now;
        let late = |queued: &Queued| queued.terms.deadline <= now;
        if self.queue.iter().any(late) {
            let (gone, stay): (VecDeque<Queued>, _) = std::mem::take(&mut self.queue).into_iter().partition(late);
            self.queue = stay;
            Self::fail_queued(gone, Reason::Deadline, context);
        }
        for slot in 0..self.slots.len() {
            let call = &self.slots[slot];
            if call.state != CallState::Active || call.terms.deadline > now {
                continue;
            }
            let failure = call.failure(Reason::Deadline);
            if call.request.was_sent() {
                self.give_up(slot, failure, context);
            } else {
                self.fail(slot, failure, context);
            }
        }
    }

    /// Asks for the calls that were silent too long; where nothing was heard, for all that were cancelled and one other.
    fn probe_all(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        if self.silent_slot(context).is_none() {
            return;
        }
        let round = Round::of(self.unanswered + 1, context.rng);
        if round.asks_for_calls() {
            self.repeat_notices();
            let mut active_left = if self.unanswered > 0 { 1 } else { self.slots.len() };
            while let Some(slot) = self.silent_slot(context) {
                if self.slots[slot].state == CallState::Active {
                    if active_left == 0 {
                        break;
                    }
                    active_left -= 1;
                }
                self.probe(slot, context);
            }
        }
        self.probed_at = context.now;
        self.unanswered += 1;
        if round.asks_for_session() {
            self.ask(context);
        }
    }

    /// When a call is to be asked for.
    fn probe_due_at(&self, path: &SessionPath, call: &ClientSlot, timer_min: Duration) -> Instant {
        let waits_since = if self.unanswered > 0 { self.probed_at } else { Instant::ZERO };
        call.quiet_since.max(waits_since) + path.patience(timer_min, call.probes.max(self.unanswered))
    }

    /// When a call is to be asked for next, and its slot. Of several at the same time one that was cancelled comes first, which waits
    /// for a few probes only, then the one that was not asked for the longest time.
    fn next_probe(&self, timer_min: Duration) -> Option<(Instant, usize)> {
        let path = self.connection.path()?;
        let busy = self.slots.iter().enumerate().filter(|(_, call)| call.may_be_probed());
        let order = |(slot, call): (usize, &ClientSlot)| {
            (self.probe_due_at(path, call, timer_min), call.state != CallState::Cancelling, call.quiet_since, slot)
        };
        busy.map(order).min().map(|(due, .., slot)| (due, slot))
    }

    /// The slot of the call that is to be asked for now, if there is one.
    fn silent_slot(&self, context: &SessionContext<'_, impl CallEffects>) -> Option<usize> {
        let (due, slot) = self.next_probe(context.waits.timer_min)?;
        (due <= context.now).then_some(slot)
    }

    /// Asks for a call.
    fn probe(&mut self, slot: usize, context: &mut SessionContext<'_, impl CallEffects>) {
        let Some(path) = self.connection.path_mut() else { return };
        context.net.counters.probes += 1;
        path.forget_timing();
        let call = &mut self.slots[slot];
        debug_assert!(call.may_be_probed(), "a server is asked for what it may not know");
        call.probes += 1;
        call.quiet_since = context.now;
        context.fx.mark(TracePoint::Probed, call.terms.call_id.0);
        let name = CallName { slot: slot as u8, call: call.call };
        if call.state == CallState::Cancelling {
            if call.probes > CANCELS_MAX {
                self.fail(slot, Failure::Unknown(Reason::Cancelled), context);
                self.slots[slot].unreported = Unreported::GivenUp;
                return;
            }
            put_cancel(&mut path.pending, name);
            path.flush(context);
        } else if call.request.is_whole() && !call.request.has_arrived() && !call.answer.is_begun() {
            // The request is its own probe.
            let head = Head { side: Side::Request, name, response_credit: call.reserved, refusal: false };
            call.asked_as = path.send_fragment(&mut call.request, 0, &head, (&[], true), context);
            // Which of the two is answered is not known: the shorter time makes timers no longer than they have to be.
            call.sent_at = context.now;
        } else {
            self.put_answer_ack(slot, true, context);
            if let Some(path) = self.connection.path_mut() {
                self.slots[slot].asked_as = path.send(context, None);
            }
        }
    }

    /// Says once more which answers have come, and which calls were given up. Where something was lost, that may have been, and then
    /// the server would keep those answers, and count them as under way.
    fn repeat_notices(&mut self) {
        let Some(path) = self.connection.path_mut() else { return };
        for (call, slot) in self.slots.iter().zip(0..) {
            let name = CallName { slot, call: call.call };
            if call.state != CallState::Free || path.pending.len() >= NOTICE_BYTES {
                continue;
            }
            match call.unreported {
                Unreported::Nothing => {}
                Unreported::Came(prefix) => {
                    let ack = FragmentAck::late(prefix);
                    put_ack(&mut path.pending, Side::Answer, name, false, &ack);
                }
                Unreported::GivenUp => put_cancel(&mut path.pending, name),
            }
        }
    }

    /// When the server is to be told that this side is there, and what it may not know.
    fn tells_at(&self) -> Instant {
        let Some(path) = self.connection.path() else { return Instant(u64::MAX) };
        let owes =
            self.slots.iter().any(|call| call.state == CallState::Free && call.unreported == Unreported::GivenUp);
        let since = if owes { self.asked } else { self.asked.max(path.heard) };
        since + KEEP_EVERY
    }

    /// When a session that is not open is asked for again.
    pub(super) fn asks_again(&self) -> Instant {
        self.asked + ASK_AGAIN * (1 << self.unanswered.min(5))
    }

    fn next_due(&self, timer_min: Duration) -> Instant {
        let active = self.slots.iter().filter(|call| call.state == CallState::Active);
        let deadlines = self.queue.iter().map(|queued| &queued.terms).chain(active.map(|call| &call.terms));
        let mut due = deadlines.map(|terms| terms.deadline).min().unwrap_or(Instant(u64::MAX));
        let Some(path) = self.connection.path() else {
            return if self.outstanding() > 0 { due.min(self.asks_again()) } else { due };
        };
        due = due.min(path.pending_due.unwrap_or(due)).min(self.tells_at());
        self.next_probe(timer_min).map_or(due, |(asks, _)| due.min(asks))
    }
}

/// What a round of probes asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    Calls,
    Session,
    Both,
}

impl Round {
    /// The round of silence `count`. What goes in the same way each time may be lost the same way each time: behind a request that
    /// fills the server's buffer the system drops what asks for the session.
    fn of(count: u32, rng: &mut Rng) -> Self {
        match count.cmp(&SILENT_PROBES) {
            Ordering::Less => Self::Calls,
            Ordering::Equal => Self::Both,
            Ordering::Greater => [Self::Calls, Self::Session, Self::Both][rng.below(3) as usize],
        }
    }

    fn asks_for_calls(self) -> bool {
        self != Self::Session
    }

    fn asks_for_session(self) -> bool {
        self != Self::Calls
    }
}

/// What says so again is no longer than this, in bytes: it fits any packet, beside a probe.
const NOTICE_BYTES: usize = 256;
/// Between two asks for a session; longer when there was no answer, up to 32 times as long.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// Rounds of probes without a word after which the session is asked for as well.
pub(super) const SILENT_PROBES: u32 = 3;
const _: () = assert!(CANCELS_MAX > SILENT_PROBES, "a session is asked for before a cancel is given up");
/// Cancels sent until the call's outcome is given as unknown.
const CANCELS_MAX: u32 = 5;
/// Between two signs of a client that it is there.
const KEEP_EVERY: Duration = Duration::from_secs(20);
