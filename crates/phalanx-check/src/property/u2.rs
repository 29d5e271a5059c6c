//! U2, uniform order: for a process `p` that did not go on from `v` and a survivor `q`, the uniform total messages that
//! both delivered in `v` are the first uniform total messages of `q`, in the same order and with the same numbers.
//!
//! (Uniform messages that `q` lacks altogether are U1. For processes that went on together, O3 and O5 say more.)
//!
//! Instances: comparisons with at least one such message. Source: Hadzilacos and Toueg 1994, uniform total order.

use phalanx_trace::Order;

use super::Run;
use crate::findings::Findings;
use crate::model::intern::FastSet;
use crate::model::{EpochIx, Step};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let uniform = |e: EpochIx| model.delivered(e).filter(|s| s.uniform && s.order == Order::Total);
    for view in 0..model.views.len() {
        let ways = model.ways_out(view);
        let Some(stayed) = ways.get(&None) else { continue };
        let survivor = ways.iter().find(|(next, _)| next.is_some()).and_then(|(_, way)| way.first());
        let Some(&q) = survivor.filter(|_| stayed.iter().any(|&p| uniform(p).next().is_some())) else { continue };
        let reference: Vec<&Step> = uniform(q).collect();
        let has: FastSet<_> = reference.iter().map(|s| s.message).collect();
        for &p in stayed {
            let common = || uniform(p).filter(|s| has.contains(&s.message));
            if common().next().is_none() {
                continue;
            }
            out.instance_when(model.lost_a_member(q));
            let parting = common().zip(&reference).find(|(a, b)| (a.message, a.position) != (b.message, b.position));
            let Some((a, b)) = parting else { continue };
            let text = || {
                let [p, q] = [p, q].map(|e| model.who(model.epochs[e].proc));
                let [at_p, at_q] = [a, b].map(|s| (model.what(s.message), s.position.unwrap_or(0)));
                format!(
                    "{p} delivered the uniform {} as number {}, where survivor {q} has {} as number {}",
                    at_p.0, at_p.1, at_q.0, at_q.1
                )
            };
            out.violation(&[model.place(p, a.index), model.place(q, b.index)], text);
        }
    }
}
