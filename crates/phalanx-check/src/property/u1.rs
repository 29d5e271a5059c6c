//! U1, uniform agreement: if any process delivers a uniform `m` of another in `v`, even one that dies or is excluded
//! right after, then every `q` with `v -> w` has `m in del_q(v)`. (That a joiner's state includes it is X1. Among
//! those that went on together it is S3 already. A sender's own messages are U4, and what is delivered after a cell
//! view without the process is M7.)
//!
//! Instances: uniform messages delivered in `v` by a process that did not go on, when others did; *under failure*
//! counts those whose way out lost a member. Source: Hadzilacos and Toueg 1994, uniform agreement; Schiper and
//! Sandoz, "Uniform Reliable Multicast in a Virtually Synchronous Environment" (ICDCS 1993).

use super::s3::leaving;
use super::{Property, Run, x6};
use crate::findings::{Findings, Place};
use crate::model::intern::FastSet;
use crate::model::{EpochIx, Step};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    judge(run, out, |e, step| {
        let p = run.model.epochs[e].proc;
        let own = run.model.stream_of(step.message).sender == p;
        (!own && run.dropped.before(run, p, step).is_none()).then_some(None)
    });
}

/// Compares what the processes that did not go on delivered as uniform with what the survivors delivered, for the
/// deliveries that `which` selects. `which` may name one more record that proves a violation.
pub(super) fn judge(run: &Run<'_>, out: &mut Findings, which: impl Fn(EpochIx, &Step) -> Option<Option<Place>>) {
    let model = run.model;
    for view in 0..model.views.len() {
        let ways = model.ways_out(view);
        let Some(stayed) = ways.get(&None) else { continue };
        let survivors: Vec<usize> =
            ways.iter().filter(|(next, _)| next.is_some()).flat_map(|(_, w)| w.iter().copied()).collect();
        let uniform = |&e: &usize| model.delivered(e).any(|s| s.uniform);
        if survivors.is_empty() || !stayed.iter().any(uniform) {
            continue;
        }
        for &q in &survivors {
            let has: FastSet<_> = model.delivered(q).filter(|s| s.uniform).map(|s| s.message).collect();
            let lost = model.lost_a_member(q);
            for &p in stayed {
                let left = x6::left_gracefully(model, p);
                for step in model.delivered(p).filter(|s| s.uniform) {
                    let Some(more) = which(p, step) else { continue };
                    out.instance_when(lost);
                    // Deliveries of a process that left by its own will are reported by X6, whichever of the properties
                    // they also count for.
                    let ours = left == (out.property == Property::X6);
                    if ours && !has.contains(&step.message) {
                        let text = || {
                            let [p, q] = [p, q].map(|e| model.who(model.epochs[e].proc));
                            format!(
                                "{p} delivered the uniform {}, which survivor {q} did not",
                                model.what(step.message)
                            )
                        };
                        let evidence: Vec<Place> =
                            more.into_iter().chain([model.place(p, step.index), leaving(model, q)]).collect();
                        out.violation(&evidence, text);
                    }
                }
            }
        }
    }
}
