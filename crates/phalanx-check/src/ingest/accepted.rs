//! Matches accepted multicasts with their sends, in order: in each group the first accepted is the first sent.

use std::collections::VecDeque;

use super::Builder;
use crate::model::accepted::{Wait, WaitEnd, What};
use crate::model::{Moment, Over, ProcIx};

/// Multicasts of one group at the process whose trace is being read.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    /// A send whose acceptance is the next record: the multicast was sent at once.
    ahead: Option<(What, Moment)>,
}

/// A multicast that was accepted and not yet sent.
#[derive(Debug)]
struct Waiting {
    what: What,
    accepted: Moment,
    /// Time from which the process knows that it will not be sent.
    told: Option<Moment>,
}

impl Waiting {
    fn new(what: What, accepted: Moment) -> Self {
        Self { what, accepted, told: None }
    }
}

impl Builder {
    pub(super) fn accept(&mut self, me: ProcIx, group: u32, what: What, moment: Moment) {
        self.now.accepts = true;
        self.model.accepted.count += 1;
        let queue = self.now.queues.entry(group).or_default();
        match queue.ahead.take() {
            Some((sent, at)) if sent == what => {
                let overtaken: Vec<_> = queue.waiting.drain(..).collect();
                for waiting in overtaken {
                    self.waited(me, group, &waiting, WaitEnd::Overtaken(at));
                }
            }
            Some((_, at)) => {
                queue.waiting.push_back(Waiting::new(what, moment));
                self.now.unasked.push(at);
            }
            None => queue.waiting.push_back(Waiting::new(what, moment)),
        }
    }

    pub(super) fn sent(&mut self, me: ProcIx, group: u32, what: What, moment: Moment) {
        let queue = self.now.queues.entry(group).or_default();
        if let Some(spot) = queue.waiting.iter().position(|waiting| waiting.what == what) {
            let done: Vec<_> = queue.waiting.drain(..=spot).collect();
            for (i, waiting) in done.into_iter().enumerate() {
                let end = if i == spot { WaitEnd::Sent(moment) } else { WaitEnd::Overtaken(moment) };
                self.waited(me, group, &waiting, end);
            }
        } else if let Some((_, unasked)) = queue.ahead.replace((what, moment)) {
            self.now.unasked.push(unasked);
        }
    }

    /// Records a notice that the last `messages` accepted multicasts will not be sent.
    pub(super) fn unsent(&mut self, me: ProcIx, group: u32, messages: u64, moment: Moment) {
        let queue = self.now.queues.entry(group).or_default();
        let mut untold: Vec<_> = queue.waiting.iter_mut().filter(|waiting| waiting.told.is_none()).collect();
        let last = usize::try_from(messages).ok().and_then(|messages| untold.len().checked_sub(messages));
        match last {
            Some(first) if messages > 0 => untold[first..].iter_mut().for_each(|waiting| waiting.told = Some(moment)),
            _ => self.model.accepted.told_of_none.push((me, moment)),
        }
    }

    /// Records that the process left the group, which ends all waiting there.
    pub(super) fn forsake(&mut self, me: ProcIx, group: u32, moment: Moment) {
        if let Some(queue) = self.now.queues.remove(&group) {
            self.close_queue(me, group, queue, WaitEnd::GroupLeft(moment));
        }
    }

    /// Ends all waiting: the incarnation, or its stay in a cell instance, is over.
    pub(super) fn forsake_all(&mut self, me: ProcIx, over: Option<(Over, Moment)>) {
        let end = match over {
            Some((Over::Left, moment)) => WaitEnd::Left(moment),
            Some((Over::Excluded(_) | Over::Renounced, moment)) => WaitEnd::Excluded(moment),
            None => WaitEnd::Over,
        };
        self.close_queues(me, end);
    }

    /// Ends the trace. A final send may lack its acceptance only if the process was killed between the two.
    pub(super) fn end_accepts(&mut self) {
        let Some(me) = self.now.proc else { return };
        if !self.now.ended {
            self.now.queues.values_mut().for_each(|queue| queue.ahead = None);
        }
        self.close_queues(me, WaitEnd::Open);
        let unasked = std::mem::take(&mut self.now.unasked);
        let accepts = self.now.accepts;
        self.model.accepted.unasked.extend(unasked.into_iter().map(|moment| (me, moment, accepts)));
    }

    fn close_queues(&mut self, me: ProcIx, end: WaitEnd) {
        let queues: Vec<_> = self.now.queues.drain().collect();
        for (group, queue) in queues {
            self.close_queue(me, group, queue, end);
        }
    }

    fn close_queue(&mut self, me: ProcIx, group: u32, queue: Queue, end: WaitEnd) {
        self.now.unasked.extend(queue.ahead.map(|(_, at)| at));
        for waiting in queue.waiting {
            self.waited(me, group, &waiting, end);
        }
    }

    fn waited(&mut self, proc: ProcIx, group: u32, &Waiting { accepted, told, .. }: &Waiting, end: WaitEnd) {
        self.model.accepted.waits.push(Wait { proc, group, accepted, told, end });
    }
}
