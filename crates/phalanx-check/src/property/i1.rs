//! I1, no creation: every delivered message was sent, by its sender, in its group and view, and before its delivery. At
//! the sender itself "before" means earlier in its trace; elsewhere not later by the clock (within the slack).
//!
//! A message is not evaluated if its sender has no trace, or if the end of that trace may have lost the send. The same
//! holds for point-to-point messages: the k-th message delivered from `p` was the k-th that `p` sent. (From the first
//! attack on, multicasts of other processes are evaluated by I4.)
//!
//! Instances: delivered messages whose send is known. Source: Hadzilacos and Toueg, "A Modular Approach to
//! Fault-Tolerant Broadcasts" (1994), integrity.

use super::{Run, i4, peer};
use crate::findings::{Findings, Place};
use crate::model::{ProcIx, Step};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    // Each message is evaluated at its first delivery.
    let mut seen = vec![false; model.messages.len()];
    let attack = i4::first_attack(run);
    deliveries(run, |receiver, step, place| {
        let sender = model.stream_of(step.message).sender;
        let attacked = || attack.is_some_and(|a| step.at_ns >= a.at_ns && model.same_clock(place.trace, a.place.trace));
        if receiver != sender && attacked() {
            return;
        }
        let first = !std::mem::replace(&mut seen[step.message as usize], true);
        out.instances += u64::from(first && model.messages[step.message as usize].sent.is_some());
        if let Some((evidence, what)) = creation(run, receiver, step, place, first) {
            out.violation(&evidence, || format!("{} {what}", model.what(step.message)));
        }
    });
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

/// Every delivery of a multicast, replayed ones included.
pub(super) fn deliveries(run: &Run<'_>, mut each: impl FnMut(ProcIx, &Step, Place)) {
    let model = run.model;
    for (e, epoch) in model.epochs.iter().enumerate() {
        model.delivered(e).for_each(|step| each(epoch.proc, step, model.place(e, step.index)));
        let replayed = epoch.transfer.iter().flat_map(|t| &t.replayed);
        replayed.for_each(|r| each(epoch.proc, &r.step, r.place));
    }
}

/// What is wrong with the creation of a delivered message. Whether it was sent at all is evaluated only at its first
/// delivery.
pub(super) fn creation(
    run: &Run<'_>,
    receiver: ProcIx,
    step: &Step,
    place: Place,
    first: bool,
) -> Option<(Vec<Place>, &'static str)> {
    let model = run.model;
    let Some(sent) = model.messages[step.message as usize].sent else {
        return (first && never_sent(run, step)).then(|| (vec![place], "was never sent"));
    };
    let late = if receiver == model.stream_of(step.message).sender {
        sent.place.index > place.index
    } else {
        model.same_clock(sent.place.trace, place.trace)
            && step.at_ns.saturating_add(run.options.clock_slack_ns) < sent.at_ns
    };
    late.then(|| (vec![place, sent.place], "was delivered before it was sent"))
}

/// Whether the named sender certainly did not send what is delivered here.
fn never_sent(run: &Run<'_>, delivery: &Step) -> bool {
    let model = run.model;
    let sender = model.stream_of(delivery.message).sender;
    let absent = run.options.complete && model.procs[sender].trace.is_none();
    let knowable = absent || run.unsent.would_be_known(model, delivery.message);
    // A message sent in another view is reported by S2.
    knowable && run.unsent.elsewhere(model, delivery).is_none()
}
