//! Client timers: deadlines, probes (status queries), keep-alive.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::Duration;

use super::slot::{CallState, ClientSlot, Queued, Unreported};
use super::{ClientSession, SILENT_PROBES};
use crate::rng::Rng;
use crate::rpc::api::{CallEffects, Failure, Reason, TracePoint};
use crate::rpc::context::{SessionContext, slot_number};
use crate::rpc::path::{Head, SessionPath};
use crate::rpc::wire::{CallName, FragmentAck, Side, put_ack, put_cancel, put_ping};
use crate::time::Instant;

impl ClientSession {
    /// Checks the timers, and computes when they are due next.
    pub(in crate::rpc) fn evaluate(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
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
        // A server gives up the sessions of silent clients.
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

    /// Fails the calls whose deadline has passed.
    fn end_late(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        let now = context.now;
        let late = |queued: &Queued| queued.terms.deadline <= now;
        if self.queue.iter().any(late) {
            let (gone, stay): (VecDeque<Queued>, _) = std::mem::take(&mut self.queue).into_iter().partition(late);
            self.queue = stay;
            let reason = if self.is_open() { Reason::Deadline } else { Reason::NoAnswer };
            Self::fail_queued(gone, reason, context);
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

    /// Probes for the calls that were silent for too long. If the server was silent too, it probes for all cancelled
    /// calls and one other.
    fn probe_all(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        if self.silent_slot(context).is_none() {
            return;
        }
        let round = Round::of(self.unanswered + 1, context.rng);
        if round.asks_for_calls() {
            self.repeat_notices();
            // Without a word from the server, active calls are probed for one at a time, in turn. Cancelled calls are
            // all probed for, because they are given up after a few probes.
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

    /// When a call is to be probed.
    fn probe_due_at(&self, path: &SessionPath, call: &ClientSlot, timer_min: Duration) -> Instant {
        let waits_since = if self.unanswered > 0 { self.probed_at } else { Instant::ZERO };
        call.quiet_since.max(waits_since) + path.patience(timer_min, call.probes.max(self.unanswered))
    }

    /// The next probe that is due: when, and for which slot. Among several at one time a cancelled call comes first,
    /// because it waits for a few probes only. Then comes the one that was not probed for the longest time.
    fn next_probe(&self, timer_min: Duration) -> Option<(Instant, usize)> {
        let path = self.connection.path()?;
        let busy = self.slots.iter().enumerate().filter(|(_, call)| call.may_be_probed());
        let order = |(slot, call): (usize, &ClientSlot)| {
            (self.probe_due_at(path, call, timer_min), call.state != CallState::Cancelling, call.quiet_since, slot)
        };
        busy.map(order).min().map(|(due, .., slot)| (due, slot))
    }

    /// The slot of the call that is to be probed now, if any.
    fn silent_slot(&self, context: &SessionContext<'_, impl CallEffects>) -> Option<usize> {
        let (due, slot) = self.next_probe(context.waits.timer_min)?;
        (due <= context.now).then_some(slot)
    }

    /// Probes for a call.
    fn probe(&mut self, slot: usize, context: &mut SessionContext<'_, impl CallEffects>) {
        let Some(path) = self.connection.path_mut() else { return };
        context.net.counters.probes += 1;
        path.forget_timing();
        let call = &mut self.slots[slot];
        debug_assert!(call.may_be_probed(), "a server is probed for a call that it cannot know");
        call.probes += 1;
        call.quiet_since = context.now;
        context.fx.mark(TracePoint::Probed, call.terms.call_id.0);
        let name = CallName { slot: slot_number(slot), call: call.call };
        if call.state == CallState::Cancelling {
            if call.probes > CANCELS_MAX {
                self.fail(slot, Failure::Unknown(Reason::Cancelled), context);
                self.slots[slot].unreported = Unreported::GivenUp;
                return;
            }
            put_cancel(&mut path.pending, name);
            path.flush(context);
        } else if call.request.is_whole() && !call.request.has_arrived() && !call.answer.is_begun() {
            // A request of one packet is its own probe.
            let head = Head { side: Side::Request, name, response_credit: call.reserved, refusal: false };
            call.asked_as = path.send_fragment(&mut call.request, 0, &head, (&[], true), context);
            // It is unknown which of the two packets is answered. The later time gives the shorter sample, so that
            // timers do not grow without need.
            call.sent_at = context.now;
        } else {
            self.put_answer_ack(slot, true, context);
            if let Some(path) = self.connection.path_mut() {
                self.slots[slot].asked_as = path.send(context, None);
            }
        }
    }

    /// Repeats which answers have arrived and which calls were given up. After a loss these notices may be lost too:
    /// the server would keep the answers and count them as in flight.
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

    /// When to notify the server that this side exists, and of what it may not know.
    fn tells_at(&self) -> Instant {
        let Some(path) = self.connection.path() else { return Instant(u64::MAX) };
        let owes =
            self.slots.iter().any(|call| call.state == CallState::Free && call.unreported == Unreported::GivenUp);
        let since = if owes { self.asked } else { self.asked.max(path.heard) };
        // A call that waits for response credit sends no probes, and other servers' answers may hold the credit for
        // long.
        let starves = self.slots.iter().any(|call| call.state == CallState::Active && call.starved);
        since + if starves { KEEP_STARVED } else { KEEP_EVERY }
    }

    /// When a session that is not open is requested again.
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

/// The subject of a round of probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    Calls,
    Session,
    Both,
}

impl Round {
    /// The round of silence number `count`.
    ///
    /// Packets sent in the same pattern may be lost in the same pattern: a request that fills the server's receive
    /// buffer makes the system drop the session request behind it. So later rounds are drawn at random.
    fn of(count: u32, rng: &mut Rng) -> Self {
        match count.cmp(&SILENT_PROBES) {
            Ordering::Less => Self::Calls,
            Ordering::Equal => Self::Both,
            Ordering::Greater => match rng.below(3) {
                0 => Self::Calls,
                1 => Self::Session,
                _ => Self::Both,
            },
        }
    }

    fn asks_for_calls(self) -> bool {
        self != Self::Session
    }

    fn asks_for_session(self) -> bool {
        self != Self::Calls
    }
}

/// Upper bound on the bytes of repeated notices. They fit any packet, beside a probe.
const NOTICE_BYTES: usize = 256;
/// Time between two requests for a session. It grows up to 32 times while there is no answer.
const ASK_AGAIN: Duration = Duration::from_millis(20);
const _: () = assert!(CANCELS_MAX > SILENT_PROBES, "a session is asked for before a cancel is given up");
/// Number of cancels sent before a call's outcome is reported as unknown.
const CANCELS_MAX: u32 = 5;
/// Time between two pings of a client whose call waits for response credit: much shorter than a sensible `idle_max` of
/// its server.
const KEEP_STARVED: Duration = Duration::from_secs(1);
/// Time between two pings of a client otherwise.
const KEEP_EVERY: Duration = Duration::from_secs(20);
