//! M8, exclusion is announced and final. Let `p in M_u`, `p not in M_w` for neighbours `u`, `w` of the cell's chain:
//!
//! - No later view of the instance lists `p`: it comes back only as a new incarnation.
//! - After *excluded* `p` records nothing but its end.
//! - *Excluded by w* is told only when `w` does not hold `p`.
//! - If `p` runs, connected, at the end of a quiet phase, it was told (*excluded* or *left*).
//!
//! Instances: processes told to be excluded. Source: Ricciardi and Birman 1991 (no re-instatement); the
//! announcement answers a defect of field systems where a resumed process never learnt that it had been excluded.

use std::ops::Bound;

use super::Run;
use crate::findings::Findings;
use crate::model::{Model, Over, ProcIx};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for after in &model.after_over {
        if matches!(after.over, Over::Excluded(_)) {
            out.violation(&[after.told, after.place], || {
                "a record after the process was told to be excluded".to_owned()
            });
        }
    }
    for (p, proc) in model.procs.iter().enumerate() {
        let Some((Over::Excluded(view), told)) = proc.over else { continue };
        out.instance();
        let instance = proc.installs.last().map(|&i| model.installs[i].instance);
        let named = instance.and_then(|i| model.cells.get(&i)?.get(&view)?.first());
        if let Some(named) = named.map(|&i| &model.installs[i]).filter(|i| i.members.contains(&p)) {
            let text = || format!("{} is told to be excluded by cell view {view}, which holds it", model.who(p));
            out.violation(&[told.place, named.moment.place], text);
        }
    }
    reinstated(model, out);
    if let Ok(quiet) = &run.quiet {
        for &p in &quiet.running {
            if let Some(without) = dropped_untold(model, p) {
                let text = || {
                    format!(
                        "cell view {} does not hold {}, which was never told",
                        model.installs[without].view,
                        model.who(p)
                    )
                };
                out.violation(&[model.installs[without].moment.place, quiet.place], text);
            }
        }
    }
}

/// A view that dropped a process which runs on without knowing.
pub(super) fn dropped_untold(model: &Model, p: ProcIx) -> Option<usize> {
    let proc = &model.procs[p];
    let last = proc.installs.last().filter(|_| proc.over.is_none() && proc.tail_complete)?;
    let last = &model.installs[*last];
    let (_, next) = model.cells.get(&last.instance)?.range((Bound::Excluded(last.view), Bound::Unbounded)).next()?;
    let next = *next.first()?;
    (last.members.contains(&p) && !model.installs[next].members.contains(&p)).then_some(next)
}

fn reinstated(model: &Model, out: &mut Findings) {
    for views in model.cells.values() {
        // Of each process: the view that dropped it.
        let mut dropped = std::collections::BTreeMap::new();
        let mut before: Option<&Vec<ProcIx>> = None;
        for installers in views.values() {
            let Some(install) = installers.first().map(|&i| &model.installs[i]) else { continue };
            for &gone in before.into_iter().flatten().filter(|p| !install.members.contains(p)) {
                dropped.entry(gone).or_insert(install);
            }
            for p in &install.members {
                let Some(by) = dropped.remove(p) else { continue };
                let text =
                    || format!("cell view {} takes {} back, dropped by view {}", install.view, model.who(*p), by.view);
                out.violation(&[by.moment.place, install.moment.place], text);
            }
            before = Some(&install.members);
        }
    }
}
