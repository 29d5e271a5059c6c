//! X4, convergence: members that hold the group's state and record a digest at the start of one view record the same
//! one. Later in a view, those that delivered the same sequence in it up to their digests record the same one. If all
//! traces are given and one member of a group records digests, every member that holds the state does.
//!
//! A member that asked for the state counts as one that holds it, whether or not a transfer is recorded: nobody who asked
//! for a state may go on without it.
//!
//! Left out are members that neither asked for the state nor hold it, those that delivered another set before (S3), and joiners whose transfer was
//! wrong (X1) with what follows from it.
//!
//! Instances: digests compared. Source: Schneider, "Implementing Fault-Tolerant Services Using the State Machine
//! Approach" (ACM Computing Surveys 22:4, 1990).

use std::collections::{BTreeSet, HashMap};

use super::Run;
use crate::findings::{Findings, Place};
use crate::model::intern::scramble;
use crate::model::{Digest, Epoch, EpochEnd, EpochIx, Model};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    if run.options.complete {
        silent(run, out);
    }
    let mut known: HashMap<(usize, u64), (u64, Place, EpochIx)> = HashMap::new();
    for (e, epoch) in model.epochs.iter().enumerate() {
        if run.wrong_state.contains(&e) || !epoch.is_judged() || epoch.diverged {
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

impl Epoch {
    /// Whether the states of its process and of others are compared.
    fn is_judged(&self) -> bool {
        self.stateful || self.wants_state
    }
}

/// Members that hold the state and record no digest, though others record theirs at the start of the same view.
fn silent(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let at_start = |e: &EpochIx| model.epochs[*e].digests.iter().find(|digest| digest.delivered == 0);
    for (p, proc) in model.procs.iter().enumerate() {
        let mut told = BTreeSet::new();
        // A process that is killed may be killed before it records one.
        let goes_on = |e: &EpochIx| model.epochs[*e].end != EpochEnd::Open || proc.ended.is_some();
        for &e in proc.epochs.iter().filter(|e| goes_on(e) && model.epochs[**e].is_judged()) {
            let view = &model.views[model.epochs[e].view];
            let others = view.epochs.iter().filter(|&&o| model.epochs[o].stateful);
            let Some(other) = others.filter_map(at_start).next() else { continue };
            let of_group = |e: &&EpochIx| model.views[model.epochs[**e].view].group == view.group;
            let never = proc.epochs.iter().filter(of_group).all(|&e| model.epochs[e].digests.is_empty());
            if never && told.insert(view.group) {
                out.violation(&[other.place, model.epochs[e].install.place], || {
                    format!(
                        "{} gives no digest of its state, as others in {} do",
                        model.who(p),
                        model.view_name(model.epochs[e].view)
                    )
                });
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
