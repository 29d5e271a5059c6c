//! X4, convergence: members that hold the group's state and give a digest at the start of one view give the same; later in
//! a view, those that delivered the same sequence in it up to their digests give the same.
//!
//! Left out are members without the state, those that delivered another set before (S3), and joiners whose transfer
//! was wrong (X1) with what follows from it.
//!
//! Instances: digests compared. Source: Schneider, "Implementing Fault-Tolerant Services Using the State Machine
//! Approach" (ACM Computing Surveys 22:4, 1990).

use std::collections::HashMap;

use super::Run;
use crate::findings::{Findings, Place};
use crate::model::intern::scramble;
use crate::model::{Digest, EpochIx, Model};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let mut known: HashMap<(usize, u64), (u64, Place, EpochIx)> = HashMap::new();
    for (e, epoch) in model.epochs.iter().enumerate() {
        if run.wrong_state.contains(&e) || !epoch.stateful || epoch.diverged {
            continue;
        }
        for digest in &epoch.digests {
            let key = (epoch.view, sequence(model, e, digest));
            let Some(&(first, place, other)) = known.get(&key) else {
                known.insert(key, (digest.digest, digest.place, e));
                continue;
            };
            if model.epochs[other].proc == epoch.proc {
                continue;
            }
            out.instance();
            if first != digest.digest {
                let text = || {
                    let [a, b] = [other, e].map(|e| model.who(model.epochs[e].proc));
                    format!("{a} and {b} have different states at the same point of {}", model.view_name(epoch.view))
                };
                out.violation(&[place, digest.place], text);
            }
        }
    }
}

/// A fingerprint of the sequence delivered in the view before the digest.
fn sequence(model: &Model, epoch: EpochIx, digest: &Digest) -> u64 {
    let steps = &model.epochs[epoch].steps[..digest.steps];
    let delivered = steps.iter().filter(|s| !s.sent && !s.foreign);
    delivered.fold(0, |sum, step| scramble(sum ^ scramble(u64::from(step.message) + 1)))
}
