//! I2, no duplication: a process delivers a message at most once, across views and replays alike.
//!
//! Instances: deliveries, replayed ones included. Source: Hadzilacos and Toueg 1994, integrity.

use super::Run;
use crate::findings::{Findings, Place};
use crate::model::MessageIx;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    // For each message: the last process that delivered it, counted from 1, and the epoch.
    let mut seen = vec![(0u32, 0usize); model.messages.len()];
    for (stamp, proc) in (1u32..).zip(&model.procs) {
        for &e in &proc.epochs {
            let mut judge = |message: MessageIx, place: Place| {
                out.instance();
                let last = &mut seen[message as usize];
                if last.0 == stamp {
                    let before = first_delivery(run, last.1, message);
                    let text =
                        || format!("{} delivered {} twice", model.who(model.epochs[e].proc), model.what(message));
                    out.violation(&before.into_iter().chain([place]).collect::<Vec<_>>(), text);
                }
                *last = (stamp, e);
            };
            let epoch = &model.epochs[e];
            epoch.transfer.iter().flat_map(|t| &t.replayed).for_each(|r| judge(r.step.message, r.place));
            epoch.steps.iter().filter(|s| !s.sent).for_each(|s| judge(s.message, model.place(e, s.index)));
        }
    }
}

fn first_delivery(run: &Run<'_>, epoch: usize, message: MessageIx) -> Option<Place> {
    let model = run.model;
    let replayed = model.epochs[epoch].transfer.iter().flat_map(|t| &t.replayed);
    let replayed = replayed.filter(|r| r.step.message == message).map(|r| r.place);
    let delivered = model.epochs[epoch].steps.iter().filter(|s| !s.sent && s.message == message);
    replayed.chain(delivered.map(|s| model.place(epoch, s.index))).next()
}
