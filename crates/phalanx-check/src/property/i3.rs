//! I3, same body: a message is delivered with the hash, the order and the uniformity with which it was sent. If the
//! send is not known, all deliveries agree. The same holds for the hashes of point-to-point messages.
//!
//! Instances: deliveries of messages whose send is known. Source: Hadzilacos and Toueg 1994, integrity.

use super::{Run, peer};
use crate::findings::{Findings, Place};
use crate::model::Step;
use crate::model::intern::FastMap;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    // For messages whose send is not known: the content of their first delivery.
    let mut unsent = FastMap::default();
    let mut judge = |step: &Step, place: Place| {
        let message = &model.messages[step.message as usize];
        let said = (step.hash, step.order, step.uniform);
        let (expected, known) = match message.sent {
            Some(sent) => ((message.hash, message.order, message.uniform), sent.place),
            None => *unsent.entry(step.message).or_insert((said, place)),
        };
        out.instances += u64::from(message.sent.is_some());
        if said != expected {
            let text = || {
                format!("{} is delivered as another than it was sent, or delivered elsewhere", model.what(step.message))
            };
            out.violation(&[known, place], text);
        }
    };
    for (e, epoch) in model.epochs.iter().enumerate() {
        // In whatever view: a late message (S1) must have its body all the same.
        epoch.steps.iter().filter(|s| !s.sent).for_each(|step| judge(step, model.place(e, step.index)));
        let replayed = epoch.transfer.iter().flat_map(|t| &t.replayed);
        replayed.for_each(|r| judge(&r.step, r.place));
    }
    for (from, to, messages) in peer::channels(model) {
        let sent = peer::sent_to(model, from, to);
        for m in messages {
            let Some((hash, place)) = m.sent else { continue };
            out.instance();
            // A body that was sent under another number is a violation of order (O1).
            if hash != m.delivered.0 && sent.iter().all(|s| s.0 != m.delivered.0) {
                let text = || format!("message {} from {} to {} has another body", m.k, model.who(from), model.who(to));
                out.violation(&[place, m.delivered.1], text);
            }
        }
    }
}
