//! S3, agreement on the cut (virtual synchrony): if `v -> w` at `p` and at `q` then `del_p(v) = del_q(v)`.
//!
//! Instances: pairs of neighbouring views that two or more processes crossed together, with something delivered in
//! the first; *under failure* counts those that lost a member. Source: Birman and Joseph 1987; Chockler, Keidar,
//! Vitenberg 2001 (virtual synchrony).

use std::collections::HashSet;

use super::Run;
use crate::findings::{Findings, Place};
use crate::model::{EpochIx, Model};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for view in 0..model.views.len() {
        for (next, way) in model.ways_out(view) {
            let (Some(next), [first, others @ ..]) = (next, way.as_slice()) else { continue };
            // A comparison of empty sets would put nothing to the test.
            if others.is_empty() || way.iter().all(|&e| model.epochs[e].set.count == 0) {
                continue;
            }
            out.instance_when(model.lost_a_member(*first));
            for &other in others.iter().filter(|&&o| model.epochs[o].set != model.epochs[*first].set) {
                let Some((has, lacks, proof)) = difference(model, *first, other) else { continue };
                let text = || {
                    let [has, lacks] = [has, lacks].map(|e| model.who(model.epochs[e].proc));
                    let from = model.view_name(view);
                    format!("{has} and {lacks} went from {from} to view {next}, but only {has} delivered {}", proof.1)
                };
                out.violation(&[proof.0, leaving(model, lacks)], text);
            }
        }
    }
}

/// A message that one process delivered and the other did not: the process that has it, the one that lacks it, the
/// delivery and its description.
fn difference(model: &Model, a: EpochIx, b: EpochIx) -> Option<(EpochIx, EpochIx, (Place, String))> {
    for (has, lacks) in [(a, b), (b, a)] {
        let lacking: HashSet<_> = model.delivered(lacks).map(|s| s.message).collect();
        if let Some(step) = model.delivered(has).find(|s| !lacking.contains(&s.message)) {
            return Some((has, lacks, (model.place(has, step.index), model.what(step.message))));
        }
    }
    None
}

/// The record with which a process left the view.
pub(super) fn leaving(model: &Model, epoch: EpochIx) -> Place {
    match model.epochs[epoch].end {
        crate::model::EpochEnd::Next(next) => model.epochs[next].install.place,
        _ => model.epochs[epoch].install.place,
    }
}
