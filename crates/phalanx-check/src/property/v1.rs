//! V1, membership: let a quorum of the last cell view run and be connected in the quiet phase. Then, one bound after
//! the phase's begin, every running, connected process is in one cell view that holds exactly these, knows to be
//! primary, and installs no other until the end.
//!
//! The group views in force at the end hold no process outside of that cell view.
//!
//! A process that was dropped without a notice is reported by M8. Faults within the phase, and leaves and fresh
//! processes, postpone its begin. With processes outside of the connected ones it is V13.
//!
//! A quiet phase in which nothing is due is a violation too, whatever the reason: too short, no quorum spared, no view,
//! several clocks. A harness that leaves no quorum begins no quiet phase, or says so (`Options::hopeless`).
//!
//! Instances: quiet phases in which this is due. Source: Chockler, Keidar, Vitenberg 2001 (membership precision), with
//! a bound.

use std::collections::BTreeSet;

use phalanx_trace::Phase;

use super::{Run, m8};
use crate::findings::Findings;
use crate::model::ProcIx;
use crate::model::quiet::{NotDue, Quiet};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    match &run.quiet {
        Ok(quiet) if !quiet.broken_outside => judge(run, quiet, out),
        Err(why) if !run.model.others_stay_broken() && run.model.harness.impaired.is_none() => in_vain(run, *why, out),
        _ => {}
    }
}

/// Reports a quiet phase in which nothing is due: a harness that begins one states that liveness is due from then on.
pub(super) fn in_vain(run: &Run<'_>, why: NotDue, out: &mut Findings) {
    let Some((Phase::Quiet, _, begun)) = run.model.harness.phases.last() else { return };
    if !run.options.hopeless {
        out.violation(&[begun.place], || format!("nothing is due in the quiet phase: {why}"));
    }
}

pub(super) fn judge(run: &Run<'_>, quiet: &Quiet, out: &mut Findings) {
    let model = run.model;
    out.instance();
    let last = &model.installs[quiet.last];
    let due: BTreeSet<ProcIx> =
        quiet.running.iter().copied().filter(|&p| m8::dropped_untold(model, p, quiet.end_ns).is_none()).collect();
    for &p in &due {
        let proc = &model.procs[p];
        if !proc.tail_complete {
            continue;
        }
        let Some(own) = model.install_at(p, quiet.end_ns).map(|i| &model.installs[i]) else {
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
        } else if model.nonprimary_at(p, quiet.end_ns) {
            out.violation(&evidence, || format!("{} still holds itself cut off", model.who(p)));
        }
        for epoch in model.stays_at(p, quiet.end_ns).map(|e| &model.epochs[e]) {
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
