//! Causal pasts, rebuilt offline: for each causal or total message, how many messages of each member its sender had
//! delivered when the message was bound to its view.
//!
//! Deliveries of one sender come in order and without gaps (O1), so a count per rank is the whole past within the view.
//! Everything of earlier views is delivered before the view anyway (S1, S3). Pasts count what the sender *delivered*;
//! they do not follow chains. That is the definition for mixed orders: a fifo message carries no past of its own, so it
//! does not pass on that of its sender.

use phalanx_trace::Order;

use super::Run;
use crate::findings::Findings;
use crate::model::intern::FastMap;
use crate::model::{EpochIx, MessageIx, Model, Step};

/// All pasts.
#[derive(Debug)]
pub(super) struct Pasts {
    counts: Vec<u64>,
    /// Offset of the counts of each causal or total message whose send is known.
    of: FastMap<MessageIx, usize>,
}

impl Pasts {
    pub(super) fn of(model: &Model) -> Self {
        let mut pasts = Self { counts: Vec::new(), of: FastMap::default() };
        for (e, epoch) in model.epochs.iter().enumerate() {
            let mut counts = Counts::new(model, e);
            // Sends without a delivery in between share their counts.
            let mut written = None;
            for step in epoch.steps.iter().filter(|s| !s.foreign) {
                if !step.sent {
                    counts.deliver(model, step);
                    written = None;
                } else if step.order != Order::Fifo {
                    let at = *written.get_or_insert_with(|| {
                        pasts.counts.extend_from_slice(&counts.by_rank);
                        pasts.counts.len() - counts.by_rank.len()
                    });
                    pasts.of.entry(step.message).or_insert(at);
                }
            }
        }
        pasts
    }

    fn get(&self, message: MessageIx, members: usize) -> Option<&[u64]> {
        let at = *self.of.get(&message)?;
        self.counts.get(at..at + members)
    }
}

/// Messages delivered so far in an epoch, by the sender's rank.
struct Counts {
    by_rank: Vec<u64>,
}

impl Counts {
    fn new(model: &Model, epoch: EpochIx) -> Self {
        Self { by_rank: vec![0; model.views[model.epochs[epoch].view].members.len()] }
    }

    fn deliver(&mut self, model: &Model, step: &Step) {
        if let Some(count) = model.stream_of(step.message).rank.and_then(|r| self.by_rank.get_mut(r)) {
            // The maximum, so that a duplicate or a late message does not lower the count.
            *count = (*count).max(model.seq(step));
        }
    }
}

/// Checks all deliveries of messages of one order against their pasts.
pub(super) fn check_order(run: &Run<'_>, order: Order, out: &mut Findings) {
    let model = run.model;
    for (e, epoch) in model.epochs.iter().enumerate() {
        let members = &model.views[epoch.view].members;
        let mut counts = Counts::new(model, e);
        for step in model.delivered(e) {
            if model.messages[step.message as usize].order == order {
                let stream = model.stream_of(step.message);
                let past = run.pasts.get(step.message, members.len()).unwrap_or(&[]);
                // Earlier messages in its own sender's stream are evaluated by O1.
                let others = || past.iter().zip(&counts.by_rank).enumerate().filter(|&(r, _)| stream.rank != Some(r));
                out.instances += u64::from(stream.sender != epoch.proc && others().any(|(_, (&needed, _))| needed > 0));
                if let Some((rank, (&needed, &have))) = others().find(|&(_, (needed, have))| needed > have) {
                    let text = || {
                        let (who, what, of) =
                            (model.who(epoch.proc), model.what(step.message), model.who(members[rank]));
                        format!(
                            "{who} delivered {what}, whose sender had seen {needed} messages of {of}, after only {have} of them"
                        )
                    };
                    let sent = model.messages[step.message as usize].sent.map(|m| m.place);
                    let evidence: Vec<_> = sent.into_iter().chain([model.place(e, step.index)]).collect();
                    out.violation(&evidence, text);
                }
            }
            counts.deliver(model, step);
        }
    }
}
