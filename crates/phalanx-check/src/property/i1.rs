//! I1, no creation: every delivered message was sent, by its sender, in its group and view, and before: at the
//! sender itself earlier in its trace, elsewhere not later by the clock (within the slack).
//!
//! A sender without a trace cannot be judged, and neither can what its trace may have lost at the end. The same holds
//! for point-to-point messages: the k-th delivered from `p` was sent by `p` as the k-th.
//!
//! Instances: delivered messages whose send is known. Source: Hadzilacos and Toueg, "A Modular Approach to
//! Fault-Tolerant Broadcasts" (1994), integrity.

use super::{Run, peer};
use crate::findings::{Findings, Place};
use crate::model::{ProcIx, Step};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    // Each message is judged where it is met first.
    let mut seen = vec![false; model.messages.len()];
    let slack = run.options.clock_slack_ns;
    let mut judge = |receiver: ProcIx, step: &Step, place: Place| {
        let message = &model.messages[step.message as usize];
        let sender = model.stream_of(step.message).sender;
        let first = !std::mem::replace(&mut seen[step.message as usize], true);
        let Some(sent) = message.sent else {
            let absent = run.options.complete && model.procs[sender].trace.is_none();
            let knowable = absent || run.unsent.would_be_known(model, step.message);
            // What was sent in another view is a matter of S2.
            if first && knowable && run.unsent.elsewhere(model, step).is_none() {
                out.violation(&[place], || format!("{} was never sent", model.what(step.message)));
            }
            return;
        };
        out.instances += u64::from(first);
        let late = if receiver == sender {
            sent.place.index > place.index
        } else {
            model.same_clock(sent.place.trace, place.trace) && step.at_ns.saturating_add(slack) < sent.at_ns
        };
        if late {
            out.violation(&[place, sent.place], || {
                format!("{} was delivered before it was sent", model.what(step.message))
            });
        }
    };
    for (e, epoch) in model.epochs.iter().enumerate() {
        model.delivered(e).for_each(|step| judge(epoch.proc, step, model.place(e, step.index)));
        let replayed = epoch.transfer.iter().flat_map(|t| &t.replayed);
        replayed.for_each(|r| judge(epoch.proc, &r.step, r.place));
    }
    for (from, to, messages) in peer::channels(model) {
        for m in messages {
            match m.sent {
                Some(_) => out.instance(),
                None if model.procs[from].tail_complete => {
                    let text =
                        || format!("message {} from {} to {} was never sent", m.k, model.who(from), model.who(to));
                    out.violation(&[m.delivered.1], text);
                }
                None => {}
            }
        }
    }
}
