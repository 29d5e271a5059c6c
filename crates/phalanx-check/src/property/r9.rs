//! R9, one place: an ask in total order is handled at one place of that order, at all members that answer it: let it be shown to
//! `q` for its own place, with a position.
//!
//! - All members that are shown it so, and go on to the same next view or stay, have the same position. One that is left behind may
//!   have delivered it at another place, as any message that is not uniform (O3).
//! - `q` delivered a message of the asker with that number and position in that view.
//! - One without a position was delivered all the same.
//!
//! Instances: asks that were shown; *under failure*: those whose asker was killed by the harness. Source: the definition of a
//! group call in total order.

use std::collections::BTreeMap;

use phalanx_trace::AskStep;

use super::{Run, stays_in};
use crate::findings::{Findings, Place};
use crate::model::{AskName, AskRecord, EpochEnd, EpochIx, ProcIx};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    // By ask and the next view of who was shown it.
    let mut places: BTreeMap<(AskName, Option<u64>), (Option<u64>, Place)> = BTreeMap::new();
    for (q, proc) in model.procs.iter().enumerate() {
        for AskRecord { ask, what, moment } in &proc.asks {
            let AskStep::Shown { position, forwarded: false, .. } = what else { continue };
            out.instance_when(model.procs[ask.1].crashed.is_some());
            let who = || format!("{} was shown the ask {}.{} of {}", model.who(q), ask.2, ask.3, model.who(ask.1));
            let Some(stay) = delivered_in(run, q, ask, *position) else {
                out.violation(&[moment.place], || format!("{}, and did not deliver it so", who()));
                continue;
            };
            let way = match model.epochs[stay].end {
                EpochEnd::Next(next) => Some(model.views[model.epochs[next].view].number),
                EpochEnd::Open if model.procs[q].crashed.is_none() => None,
                EpochEnd::Open | EpochEnd::Over | EpochEnd::GroupLeft => continue,
            };
            let (first, at) = *places.entry((*ask, way)).or_insert((*position, moment.place));
            if first != *position {
                out.violation(&[at, moment.place], || {
                    format!("{} as {position:?} of the total order, and another member as {first:?}", who())
                });
            }
        }
    }
}

/// The stay in which a process delivered the ask with that position.
fn delivered_in(
    run: &Run<'_>,
    q: ProcIx,
    (group, asker, view, seq): &AskName,
    position: Option<u64>,
) -> Option<EpochIx> {
    let model = run.model;
    stays_in(model, q, *group, *view).find(|stay| {
        model.epochs[*stay].steps.iter().any(|step| {
            let message = &model.messages[step.message as usize];
            let stream = model.stream_of(step.message);
            stream.sender == *asker && message.seq == *seq && step.position == position
        })
    })
}
