//! V1, membership: if a quorum of the last cell view runs and is connected in the quiet phase then, the bound after its
//! begin, every running, connected process is in one cell view that holds exactly these, knows to be primary, and
//! installs no other until the end.
//!
//! The group views in force at the end hold nobody outside of that cell view.
//!
//! A process that was dropped without being told is M8's. Faults within the phase, and leaves and fresh processes,
//! put its begin off. With processes outside of the connected ones it is V13.
//!
//! Instances: quiet phases in which this is due. Source: Chockler, Keidar, Vitenberg 2001 (membership precision), with
//! a bound.

use std::collections::BTreeSet;

use super::{Run, m8};
use crate::findings::Findings;
use crate::model::quiet::Quiet;
use crate::model::{EpochEnd, ProcIx};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    if let Some(quiet) = run.quiet.as_ref().ok().filter(|q| !q.broken_outside) {
        judge(run, quiet, out);
    }
}

pub(super) fn judge(run: &Run<'_>, quiet: &Quiet, out: &mut Findings) {
    let model = run.model;
    out.instance();
    let last = &model.installs[quiet.last];
    let due: BTreeSet<ProcIx> =
        quiet.running.iter().copied().filter(|&p| m8::dropped_untold(model, p).is_none()).collect();
    for &p in &due {
        let proc = &model.procs[p];
        if !proc.tail_complete {
            continue;
        }
        let before_end = proc.installs.iter().map(|&i| &model.installs[i]).rfind(|i| i.moment.at_ns <= quiet.end_ns);
        let Some(own) = before_end else {
            out.violation(&[quiet.place], || format!("{} never came into a cell view", model.who(p)));
            continue;
        };
        let members: BTreeSet<ProcIx> = own.members.iter().copied().collect();
        let evidence = [quiet.place, own.moment.place];
        if (own.instance, own.view) != (last.instance, last.view) {
            let text = || format!("{} is still in cell view {}, others are in {}", model.who(p), own.view, last.view);
            out.violation(&evidence, text);
        } else if members != due {
            let text = || {
                let name = |ps: Vec<&ProcIx>| ps.iter().map(|&&p| model.who(p)).collect::<Vec<_>>().join(", ");
                let ghosts = name(members.difference(&due).collect());
                let missing = name(due.difference(&members).collect());
                format!("cell view {} lacks [{missing}] and holds [{ghosts}], which do not run", own.view)
            };
            out.violation(&evidence, text);
        } else if own.moment.at_ns > quiet.settled_ns {
            out.violation(&evidence, || format!("{} installed cell view {} after the bound", model.who(p), own.view));
        } else if proc.nonprimary {
            out.violation(&evidence, || format!("{} still holds itself cut off", model.who(p)));
        }
        for epoch in proc.epochs.iter().map(|&e| &model.epochs[e]).filter(|e| e.end == EpochEnd::Open) {
            if let Some(&ghost) = epoch.members.iter().find(|m| !members.contains(m)) {
                let text = || {
                    format!(
                        "{} still holds {}, which is not in the cell",
                        model.view_name(epoch.view),
                        model.who(ghost)
                    )
                };
                out.violation(&[own.moment.place, epoch.install.place], text);
            }
        }
    }
}
