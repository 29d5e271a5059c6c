//! M9, exclusion ends conversations. Let `p` install cell views `u`, then `w`, with `q in M_u` and `q not in M_w`:
//! after `w`, `p` delivers no point-to-point message from `q`.
//!
//! Instances: pairs of processes that had exchanged a message, and of which one installed a view that dropped the other.
//! Source: Birman and Joseph 1987 (fail-stop by agreement: who was removed is not heard again).

use super::Run;
use crate::findings::{Findings, Place};
use crate::model::{Model, ProcIx};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for (p, proc) in model.procs.iter().enumerate() {
        for (&q, delivered) in &proc.p2p.delivered {
            let Some(without) = dropped(model, p, q) else { continue };
            out.instance();
            for &(_, place) in delivered.iter().filter(|(_, place)| place.index > without.index) {
                out.violation(&[without, place], || {
                    let (p, q) = (model.who(p), model.who(q));
                    format!("{p} delivered a point-to-point message from {q} after a cell view without it")
                });
            }
        }
    }
}

/// The place where `p` installed the first view that dropped `q`.
fn dropped(model: &Model, p: ProcIx, q: ProcIx) -> Option<Place> {
    let installs = model.procs[p].installs.iter().map(|&i| &model.installs[i]);
    let from_known = installs.skip_while(|install| !install.members.contains(&q));
    from_known.skip_while(|install| install.members.contains(&q)).map(|install| install.moment.place).next()
}
