//! Makes the calls of a load, and records the figures.

use std::collections::VecDeque;

use super::end::{End, Heard, LOOK, bytes};
use super::plan::{Load, Next, Plan};
use super::role::{CallRole, Carrier};
use crate::choice::Waiting;
use crate::error::BenchError;
use crate::histogram::Times;
use crate::measure::now_ns;
use crate::protocol::Called;

/// An endpoint that makes calls.
struct Caller<'a, E> {
    end: &'a mut E,
    heard: Heard,
    pending: Pending,
    answered: u64,
}

/// Figures of all callers together.
struct Tally {
    times: Times,
    bytes: u64,
    failed: u64,
}

/// Runs a load for `nanos`, then waits until the calls under way have ended.
pub(super) fn offer<E: End>(role: &CallRole, ends: &mut [E], load: &Load, nanos: u64) -> Result<Called, BenchError> {
    let request = bytes(load.longest());
    let drops = |ends: &[E]| ends.iter().map(End::kernel_drops).sum::<u64>();
    let drops_before = drops(ends);
    let mut callers: Vec<Caller<'_, E>> = ends.iter_mut().map(Caller::new).collect();
    let mut tally = Tally { times: Times::new(), bytes: 0, failed: 0 };
    let mut now = now_ns();
    let mut plan = Plan::new(load, role.servers.len(), now, nanos);
    loop {
        let (mut busy, mut over) = (false, true);
        for caller in &mut callers {
            busy |= caller.end.poll(&mut caller.heard)?;
            if plan.is_clocked() || !caller.heard.ended.is_empty() {
                now = now_ns();
            }
            caller.settle(now, &plan, role.answer, &mut tally)?;
            busy |= caller.call(now, &mut plan, &request, &mut tally.times)?;
            over &= caller.pending.is_empty();
        }
        if over && plan.is_over(now) {
            break;
        }
        if busy {
            continue;
        }
        if role.wait == Waiting::Block && !plan.is_clocked() {
            callers[0].end.sleep(LOOK)?;
        }
        // The answer to a call without guarantees may be lost for good, so such calls are given up after a time.
        if role.carrier == Carrier::Plain {
            now = now_ns();
            for caller in &mut callers {
                tally.failed += caller.pending.give_up(now.saturating_sub(LOST_AFTER_NS));
            }
        }
    }
    let answered = callers.iter().map(|caller| caller.answered).collect();
    let Tally { mut times, bytes, failed } = tally;
    Ok(Called { times: times.take(), nanos, answered, bytes, failed, kernel_drops: drops(ends) - drops_before })
}

impl<'a, E: End> Caller<'a, E> {
    fn new(end: &'a mut E) -> Self {
        Self { end, heard: Heard::default(), pending: Pending::default(), answered: 0 }
    }

    /// Records the calls that ended.
    fn settle(
        &mut self,
        now: u64,
        plan: &Plan<'_>,
        answer: Option<usize>,
        tally: &mut Tally,
    ) -> Result<(), BenchError> {
        for ended in self.heard.ended.drain(..) {
            // The call was given up as lost, and its answer arrived after that.
            let Some(call) = self.pending.end(ended.number) else { continue };
            let Some(answer_bytes) = ended.answer_bytes else {
                tally.failed += 1;
                continue;
            };
            let expected = answer.unwrap_or(call.size);
            if answer_bytes != expected {
                return Err(BenchError::Child(format!("an answer has {answer_bytes} bytes instead of {expected}")));
            }
            if plan.timed() == Some(call.size) {
                tally.times.note(now - call.since);
            }
            if plan.counts(now) {
                self.answered += 1;
                tally.bytes += answer_bytes as u64;
            }
        }
        Ok(())
    }

    /// Makes the calls that are due. Returns whether there was one.
    fn call(&mut self, now: u64, plan: &mut Plan<'_>, request: &[u8], times: &mut Times) -> Result<bool, BenchError> {
        for made in 0..BURST {
            let Some(next) = plan.next(now, self.pending.count, times) else { return Ok(made > 0) };
            if next.fresh {
                self.end.renew(&mut self.heard);
            }
            let called = self.end.call(next.server, &request[..next.size], &mut self.heard)?;
            let Some(number) = called else { return Ok(made > 0) };
            self.pending.begin(number, &next);
            plan.note_made();
        }
        Ok(true)
    }
}

/// Calls under way, indexed by their consecutive numbers.
#[derive(Default)]
struct Pending {
    /// Number of the first entry.
    first: u64,
    calls: VecDeque<Option<Begun>>,
    count: usize,
}

#[derive(Clone, Copy)]
struct Begun {
    since: u64,
    size: usize,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn begin(&mut self, number: u64, call: &Next) {
        if self.calls.is_empty() {
            self.first = number;
        }
        assert_eq!(number, self.first + self.calls.len() as u64, "numbers of calls are one after the other");
        self.calls.push_back(Some(Begun { since: call.since, size: call.size }));
        self.count += 1;
    }

    /// Removes a call that ended. `None`: it is not under way.
    fn end(&mut self, number: u64) -> Option<Begun> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let call = self.calls.get_mut(at)?.take()?;
        self.count -= 1;
        while let Some(None) = self.calls.front() {
            self.calls.pop_front();
            self.first += 1;
        }
        Some(call)
    }

    /// Gives up the calls made up to the time `until`, and returns their number.
    fn give_up(&mut self, until: u64) -> u64 {
        let mut given_up = 0;
        while let Some(Some(call)) = self.calls.front()
            && call.since <= until
        {
            let ended = self.end(self.first);
            given_up += u64::from(ended.is_some());
        }
        given_up
    }
}

/// Calls that an endpoint makes in one poll. The bound ensures that answers are read even when many calls are overdue.
const BURST: usize = 64;
/// A call without guarantees counts as lost after this long without an answer.
const LOST_AFTER_NS: u64 = 300_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_end_in_any_order() {
        let mut pending = Pending::default();
        for number in 7..11 {
            pending.begin(number, &Next { server: 0, size: 1, since: number, fresh: false });
        }
        assert!(pending.end(9).is_some() && pending.end(9).is_none());
        assert!(pending.end(6).is_none() && pending.end(11).is_none());
        assert_eq!((pending.give_up(8), pending.count), (2, 1));
        assert!(pending.end(7).is_none() && pending.end(10).is_some() && pending.is_empty());
        pending.begin(11, &Next { server: 0, size: 1, since: 11, fresh: false });
        assert!(pending.end(11).is_some());
    }
}
