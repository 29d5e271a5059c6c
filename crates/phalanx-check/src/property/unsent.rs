//! Messages whose send is not in the traces: whether it would have to be, and whether it is recorded elsewhere.

use crate::findings::Place;
use crate::model::intern::FastMap;
use crate::model::{MessageIx, Model, ProcIx, Step};

/// What senders' traces show about messages that they do not contain.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    /// The last recorded send of each sender in each group, by view number and sequence number.
    last: FastMap<(usize, ProcIx), (u64, u64)>,
    /// Sends by group, sender, sequence number and hash.
    sends: FastMap<(usize, ProcIx, u64, u64), Place>,
}

impl Unsent {
    pub(super) fn of(model: &Model) -> Self {
        let mut unsent = Self::default();
        if model.messages.iter().all(|m| m.sent.is_some()) {
            return unsent;
        }
        for (e, epoch) in model.epochs.iter().enumerate() {
            let group = model.views[epoch.view].group;
            for step in model.sent(e) {
                let at = (model.number(e), model.seq(step));
                let last = unsent.last.entry((group, epoch.proc)).or_insert(at);
                *last = (*last).max(at);
                let key = (group, epoch.proc, at.1, step.hash);
                unsent.sends.entry(key).or_insert_with(|| model.place(e, step.index));
            }
        }
        unsent
    }

    /// Whether the send of this message, if there had been one, would be in its sender's trace. It would if the trace's
    /// end is complete, or if the trace goes on beyond it.
    pub(super) fn would_be_known(&self, model: &Model, message: MessageIx) -> bool {
        let stream = model.stream_of(message);
        let sender = &model.procs[stream.sender];
        let at = (model.views[stream.view].number, model.messages[message as usize].seq);
        let beyond = || self.last.get(&(stream.group, stream.sender)).is_some_and(|&last| last > at);
        sender.trace.is_some() && (sender.tail_complete || beyond())
    }

    /// For a message that was certainly not sent in its view: the send in another view of the group that can only be
    /// this message.
    pub(super) fn elsewhere(&self, model: &Model, delivery: &Step) -> Option<Place> {
        let message = &model.messages[delivery.message as usize];
        if message.sent.is_some() || !self.would_be_known(model, delivery.message) {
            return None;
        }
        let stream = model.stream_of(delivery.message);
        self.sends.get(&(stream.group, stream.sender, message.seq, delivery.hash)).copied()
    }
}
