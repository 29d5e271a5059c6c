//! X7, missing state is agreed: those that install a group view are given the same list of members that do not hold its
//! state, and of observers among them, which never hold it. These are members of the view. Another listed member that
//! was in the view before sent nothing in that one, because it was not notified of it before the next was decided, unless
//! its application refused the state.
//! Evaluated for traces whose format has this record.
//!
//! Instances: installed group views for which a member is listed. Source: the agreement of views (M2) for what is
//! decided with them.

use phalanx_trace::FORMAT_IN_DOUBT;

use super::Run;
use crate::findings::Findings;
use crate::model::{EpochIx, Model};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for view in &model.views {
        let mut told = view.epochs.iter().copied().filter(|&e| has_word(model, e));
        let Some(first) = told.next() else { continue };
        for e in std::iter::once(first).chain(told) {
            let (epoch, other) = (&model.epochs[e], &model.epochs[first]);
            if epoch.incomplete.is_empty() && other.incomplete.is_empty() {
                continue;
            }
            out.instance();
            let name = || model.view_name(epoch.view);
            if epoch.incomplete != other.incomplete || epoch.observers != other.observers {
                out.violation(&[epoch.install.place, other.install.place], || {
                    format!(
                        "{} and {} are given different lists of members that lack the state in {}",
                        model.who(epoch.proc),
                        model.who(other.proc),
                        name()
                    )
                });
            }
            if let Some(&stranger) = epoch.incomplete.iter().find(|who| !epoch.members.contains(who)) {
                out.violation(&[epoch.install.place], || {
                    format!("{} lacks the state of {}, and is no member", model.who(stranger), name())
                });
            }
            let lacks = epoch.incomplete.contains(&epoch.proc) && !epoch.observers.contains(&epoch.proc);
            let takes = lacks && !epoch.refused;
            let Some(before) = epoch.prev_epoch.filter(|_| takes) else { continue };
            if let Some(step) = model.sent(before).next() {
                out.violation(&[model.place(before, step.index), epoch.install.place], || {
                    format!(
                        "{} is listed as lacking the state in {}, and had sent in the view before",
                        model.who(epoch.proc),
                        name()
                    )
                });
            }
        }
    }
}

fn has_word(model: &Model, e: EpochIx) -> bool {
    let trace = model.procs[model.epochs[e].proc].trace;
    trace.is_some_and(|trace| model.traces[trace].format >= FORMAT_IN_DOUBT)
}
