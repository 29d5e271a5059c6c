//! V3, self-delivery: a process that sent `m` in `v` and goes on to a next view has delivered `m` in `v`. In the quiet
//! phase, a running, connected process delivers its own messages within the bound, which counts as in V4 (with others
//! broken for good: V13; while the process does not read another inbox: V16).
//!
//! The first half needs no clock. The second is evaluated only if V1 holds, for sends that are older than the bound at
//! the end.
//!
//! Instances: sends evaluated; *under failure*: those whose view lost a member. Source: Chockler, Keidar, Vitenberg
//! 2001 (self delivery).

use super::{Run, s3, v4, v16};
use crate::findings::Findings;
use crate::model::EpochEnd;
use crate::model::intern::{FastMap, FastSet};
use crate::model::quiet::Quiet;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for (e, epoch) in model.epochs.iter().enumerate().filter(|(_, epoch)| matches!(epoch.end, EpochEnd::Next(_))) {
        if model.sent(e).next().is_none() {
            continue;
        }
        let has: FastSet<_> = model.delivered(e).map(|s| s.message).collect();
        for step in model.sent(e) {
            out.instance_when(model.lost_a_member(e));
            if !has.contains(&step.message) {
                let text = || {
                    format!(
                        "{} went on without having delivered its own {}",
                        model.who(epoch.proc),
                        model.what(step.message)
                    )
                };
                out.violation(&[model.place(e, step.index), s3::leaving(model, e)], text);
            }
        }
    }
    if let Some(quiet) = v4::due(run).filter(|q| !q.broken_outside) {
        judge(run, quiet, out);
    }
}

/// Evaluates the second half.
pub(super) fn judge(run: &Run<'_>, quiet: &Quiet, out: &mut Findings) {
    let model = run.model;
    for e in v4::last_stays(run, quiet) {
        let delivered: FastMap<_, _> = model.delivered(e).map(|s| (s.message, s)).collect();
        for step in model.sent(e) {
            let deadline = v4::deadline_in(run, quiet, model.epochs[e].view, step.at_ns);
            let is_due = deadline <= quiet.end_ns;
            if !is_due || v16::concerns(run, e, (step.at_ns, deadline)) {
                continue;
            }
            out.instance();
            if delivered.get(&step.message).is_none_or(|d| d.at_ns > deadline) {
                let text = || {
                    format!(
                        "{} did not deliver its own {} within the bound",
                        model.who(model.epochs[e].proc),
                        model.what(step.message)
                    )
                };
                out.violation(&[quiet.place, model.place(e, step.index)], text);
            }
        }
    }
}
