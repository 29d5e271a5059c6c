//! What a client does when nothing happens: deadlines, questions, signs of life.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::Duration;

use super::{ClientSession, ClientSlot, Queued, State, Untold};
use crate::rng::Rng;
use crate::rpc::api::{CallEffects, Failure, Mark, Reason};
use crate::rpc::desk::Desk;
use crate::rpc::path::{Head, Path};
use crate::rpc::wire::{CallName, Receipt, Side, put_cancel, put_ping, put_receipt};
use crate::time::Instant;

impl ClientSession {
    /// Judges the timers, and when to look again.
    pub(in crate::rpc) fn judge(&mut self, desk: &mut Desk<'_, impl CallEffects>) {
        self.end_late(desk);
        if self.path.is_none() {
            if self.outstanding() > 0 && desk.now >= self.asks_again() {
                self.unanswered += 1;
                self.ask(desk);
            }
        } else {
            self.question_all(desk);
        }
        if let Some(path) = &mut self.path
            && path.pending_due.is_some_and(|due| due <= desk.now)
        {
            path.flush(desk);
        }
        if self.path.is_some() && self.tells_at() <= desk.now {
            self.asked = desk.now;
            self.tell_again();
            if let Some(path) = &mut self.path {
                put_ping(&mut path.pending);
                path.flush(desk);
            }
        }
        if self.is_used_up() {
            self.end_used_up(desk);
        }
        self.due = self.next_due(desk.waits.timer_min);
    }

    /// Ends the calls whose deadline has passed.
    fn end_late(&mut self, desk: &mut Desk<'_, impl CallEffects>) {
        let now = desk.now;
        let late = |queued: &Queued| queued.terms.deadline <= now;
        if self.queue.iter().any(late) {
            let (gone, stay): (VecDeque<Queued>, _) = std::mem::take(&mut self.queue).into_iter().partition(late);
            self.queue = stay;
            Self::fail_queued(gone, Reason::Deadline, desk);
        }
        for slot in 0..self.slots.len() {
            let call = &self.slots[slot];
            if call.state != State::Active || call.terms.deadline > now {
                continue;
            }
            let failure = call.failure(Reason::Deadline);
            if call.request.was_sent() {
                self.give_up(slot, failure, desk);
            } else {
                self.fail(slot, failure, desk);
            }
        }
    }

    /// Asks for the calls that were silent too long; where nothing was heard, for all that were cancelled and one other.
    fn question_all(&mut self, desk: &mut Desk<'_, impl CallEffects>) {
        if self.silent_slot(desk).is_none() {
            return;
        }
        let round = Round::of(self.unanswered + 1, desk.rng);
        if round.asks_for_calls() {
            self.tell_again();
            let mut active_left = if self.unanswered > 0 { 1 } else { self.slots.len() };
            while let Some(slot) = self.silent_slot(desk) {
                if self.slots[slot].state == State::Active {
                    if active_left == 0 {
                        break;
                    }
                    active_left -= 1;
                }
                self.question(slot, desk);
            }
        }
        self.questioned = desk.now;
        self.unanswered += 1;
        if round.asks_for_session() {
            self.ask(desk);
        }
    }

    /// When a call is to be asked for.
    fn questioned_at(&self, path: &Path, call: &ClientSlot, timer_min: Duration) -> Instant {
        let waits_since = if self.unanswered > 0 { self.questioned } else { Instant::ZERO };
        call.quiet_since.max(waits_since) + path.patience(timer_min, call.questions.max(self.unanswered))
    }

    /// When a call is to be asked for next, and its slot. Of several at the same time one that was cancelled comes first, which waits
    /// for a few questions only, then the one that was not asked for the longest time.
    fn next_question(&self, timer_min: Duration) -> Option<(Instant, usize)> {
        let path = self.path.as_ref()?;
        let busy = self.slots.iter().enumerate().filter(|(_, call)| call.is_questionable());
        let order = |(slot, call): (usize, &ClientSlot)| {
            (self.questioned_at(path, call, timer_min), call.state != State::Cancelling, call.quiet_since, slot)
        };
        busy.map(order).min().map(|(due, .., slot)| (due, slot))
    }

    /// The slot of the call that is to be asked for now, if there is one.
    fn silent_slot(&self, desk: &Desk<'_, impl CallEffects>) -> Option<usize> {
        let (due, slot) = self.next_question(desk.waits.timer_min)?;
        (due <= desk.now).then_some(slot)
    }

    /// Asks for a call.
    fn question(&mut self, slot: usize, desk: &mut Desk<'_, impl CallEffects>) {
        let Some(path) = &mut self.path else { return };
        desk.net.counters.questions += 1;
        path.forget_timing();
        let call = &mut self.slots[slot];
        call.questions += 1;
        call.quiet_since = desk.now;
        desk.fx.mark(Mark::Questioned, call.terms.ticket.0);
        let name = CallName { slot: slot as u8, call: call.call };
        if call.state == State::Cancelling {
            if call.questions > CANCELS_MAX {
                self.fail(slot, Failure::Unknown(Reason::Cancelled), desk);
                self.slots[slot].untold = Untold::GivenUp;
                return;
            }
            put_cancel(&mut path.pending, name);
            path.flush(desk);
        } else if call.request.is_whole() && !call.request.has_arrived() && !call.answer.is_begun() {
            // The request is its own question.
            let head = Head { side: Side::Request, name, allowance: call.reserved, refusal: false };
            call.asked_as = path.send_fragment(&mut call.request, 0, &head, (&[], true), desk);
            // Which of the two is answered is not known: the shorter time makes timers no longer than they have to be.
            call.sent_at = desk.now;
        } else {
            self.put_answer_receipt(slot, true, desk);
            if let Some(path) = &mut self.path {
                self.slots[slot].asked_as = path.send(desk, None);
            }
        }
    }

    /// Says once more which answers have come, and which calls were given up. Where something was lost, that may have been, and then
    /// the server would keep those answers, and count them as under way.
    fn tell_again(&mut self) {
        let Some(path) = &mut self.path else { return };
        for (call, slot) in self.slots.iter().zip(0..) {
            let name = CallName { slot, call: call.call };
            if call.state != State::Free || path.pending.len() >= TOLD_BYTES {
                continue;
            }
            match call.untold {
                Untold::Nothing => {}
                Untold::Came(prefix) => {
                    let receipt = Receipt::late(prefix);
                    put_receipt(&mut path.pending, Side::Answer, name, false, &receipt);
                }
                Untold::GivenUp => put_cancel(&mut path.pending, name),
            }
        }
    }

    /// When the server is to be told that this side is there, and what it may not know.
    fn tells_at(&self) -> Instant {
        let Some(path) = &self.path else { return Instant(u64::MAX) };
        let owes = self.slots.iter().any(|call| call.state == State::Free && call.untold == Untold::GivenUp);
        let since = if owes { self.asked } else { self.asked.max(path.heard) };
        since + KEEP_EVERY
    }

    /// When a session that is not open is asked for again.
    pub(super) fn asks_again(&self) -> Instant {
        self.asked + ASK_AGAIN * (1 << self.unanswered.min(5))
    }

    fn next_due(&self, timer_min: Duration) -> Instant {
        let active = self.slots.iter().filter(|call| call.state == State::Active);
        let deadlines = self.queue.iter().map(|queued| &queued.terms).chain(active.map(|call| &call.terms));
        let mut due = deadlines.map(|terms| terms.deadline).min().unwrap_or(Instant(u64::MAX));
        let Some(path) = &self.path else {
            return if self.outstanding() > 0 { due.min(self.asks_again()) } else { due };
        };
        due = due.min(path.pending_due.unwrap_or(due)).min(self.tells_at());
        self.next_question(timer_min).map_or(due, |(asks, _)| due.min(asks))
    }
}

/// What a round of questions asks for.
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
        match count.cmp(&SILENT_QUESTIONS) {
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

/// What says so again is no longer than this, in bytes: it fits any packet, beside a question.
const TOLD_BYTES: usize = 256;
/// Between two asks for a session; longer when there was no answer, up to 32 times as long.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// Rounds of questions without a word after which the session is asked for as well.
pub(super) const SILENT_QUESTIONS: u32 = 3;
/// Cancels sent until the call's outcome is given as unknown.
const CANCELS_MAX: u32 = 5;
/// Between two signs of a client that it is there.
const KEEP_EVERY: Duration = Duration::from_secs(20);
