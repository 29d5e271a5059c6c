//! I4, no impersonation: with an attacker in the run, no delivered multicast names a sender that did not issue it.
//!
//! From the first attack on, a delivered message of another process that was never sent, or sent only later, is
//! reported here instead of under I1. Whoever made it, it bears the sender's name. (Other bytes under a real message's
//! name are I3. A real message that an attacker sent once more is I2.)
//!
//! Instances: messages delivered after an attack began, by a process other than their sender. Source: the threat model
//! of the project; Dolev and Yao, "On the Security of Public Key Protocols" (1983).

use super::{Run, i1};
use crate::findings::Findings;
use crate::model::Moment;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let (model, Some(attack)) = (run.model, first_attack(run)) else { return };
    let mut seen = vec![false; model.messages.len()];
    i1::deliveries(run, |receiver, step, place| {
        let sender = model.stream_of(step.message).sender;
        let attacked = step.at_ns >= attack.at_ns && model.same_clock(place.trace, attack.place.trace);
        if receiver == sender || !attacked {
            return;
        }
        let first = !std::mem::replace(&mut seen[step.message as usize], true);
        out.instances += u64::from(first && model.messages[step.message as usize].sent.is_some());
        if let Some((evidence, what)) = i1::creation(run, receiver, step, place, first) {
            let evidence: Vec<_> = std::iter::once(attack.place).chain(evidence).collect();
            out.violation(&evidence, || {
                format!("{} {what}: somebody goes by the name of its sender", model.what(step.message))
            });
        }
    });
}

/// Begin of the first attack.
pub(super) fn first_attack(run: &Run<'_>) -> Option<Moment> {
    run.model.harness.attacks.first().map(|attack| attack.from)
}
