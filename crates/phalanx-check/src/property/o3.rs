//! O3, total order in prefix form: let `seq_p(v)` be the total messages that `p` delivered in `v`. If `v -> w` at `p`
//! and at `q`, then `seq_p(v)` is a prefix of `seq_q(v)` or the reverse. If no process went on from `v`, that holds for
//! those that are still there.
//!
//! A process that did not go on may have delivered messages, before it was cut off, in another order than the
//! survivors. That is allowed for plain messages and forbidden for uniform ones (U2). O5 evaluates numbers.
//!
//! Instances: comparisons of two sequences that are not empty. Source: Hadzilacos and Toueg 1994, total order; Birman,
//! Schiper, Stephenson 1991, abcast.

use super::Run;
use crate::findings::Findings;
use crate::model::{EpochEnd, EpochIx, Model, Step};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for view in 0..model.views.len() {
        let ways = model.ways_out(view);
        let last_view = ways.keys().all(Option::is_none);
        for (_, way) in ways.iter().filter(|(next, _)| next.is_some() || last_view) {
            let there = |e: &EpochIx| !last_view || still_there(model, *e);
            let sequences: Vec<(EpochIx, Vec<&Step>)> =
                way.iter().copied().filter(there).map(|e| (e, total(model, e))).collect();
            let Some((longest, reference)) = sequences.iter().max_by_key(|(_, s)| s.len()) else { continue };
            for (other, sequence) in sequences.iter().filter(|(e, s)| e != longest && !s.is_empty()) {
                out.instance_when(model.lost_a_member(*longest));
                let parting = reference.iter().zip(sequence).find(|(a, b)| a.message != b.message);
                let Some((a, b)) = parting else { continue };
                let text = || {
                    let [p, q] = [*longest, *other].map(|e| model.who(model.epochs[e].proc));
                    format!("in total order {p} has {} where {q} has {}", model.what(a.message), model.what(b.message))
                };
                out.violation(&[model.place(*longest, a.index), model.place(*other, b.index)], text);
            }
        }
    }
}

/// Whether the process is in the view to the end and, as far as is known, alive.
fn still_there(model: &Model, epoch: EpochIx) -> bool {
    let proc = &model.procs[model.epochs[epoch].proc];
    model.epochs[epoch].end == EpochEnd::Open && proc.crashed.is_none() && proc.tail_complete
}

fn total(model: &Model, epoch: EpochIx) -> Vec<&Step> {
    model.delivered(epoch).filter(|s| s.order == phalanx_trace::Order::Total).collect()
}
