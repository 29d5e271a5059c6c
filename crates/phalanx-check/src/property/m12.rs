//! M12, no process loses a group without cause. A member that did not ask to leave a group is out of it, by its own
//! record, only after some process could not make sense of a packet (the harness injected a defect). An observer, and a
//! process that refused the state, is out too when no member that has it stays. All survivors record the same reason. If one member is notified that the
//! group stopped, no member of that view goes on to a next view of it. No process ends its incarnation by itself without
//! having asked to leave, except in a view of level 1 after such a packet, because below level 2 members cannot agree on
//! who is at fault.
//!
//! Instances: stays that ended so; *under failure*: those of a group that stopped.

use phalanx_trace::{LeaveReason, Trouble};

use super::Run;
use crate::findings::{Findings, Place};
use crate::model::{EpochEnd, Model, Over};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    ends_by_itself(model, out);
    for stay in &model.epochs {
        let Some((why, told)) = stay.lost else { continue };
        out.instance_when(why == LeaveReason::Stopped);
        let group = model.view_name(stay.view);
        // Who has no state goes with the last member that has it. An observer comes back when there is one.
        let has_none = stay.refused || stay.observers.contains(&stay.proc);
        let goes_with_others = why == LeaveReason::Anew && has_none;
        if model.one_clock().is_some() && !goes_with_others && !was_nonsense(model, told.at_ns) {
            out.violation(&[told.place], || {
                format!("{} lost {group} ({why}), and nothing made no sense to anybody", model.who(stay.proc))
            });
        }
        for other in model.views[stay.view].epochs.iter().map(|&e| &model.epochs[e]) {
            let EpochEnd::Next(next) = other.end else { continue };
            let next = &model.epochs[next];
            let said = next.left.iter().find(|(who, _)| *who == stay.proc).map(|(_, reason)| *reason);
            if why == LeaveReason::Stopped || said != Some(why) {
                let evidence: [Place; 2] = [told.place, next.install.place];
                out.violation(&evidence, || {
                    let (lost, on) = (model.who(stay.proc), model.who(other.proc));
                    format!("{lost} lost {group} ({why}), and {on} went on with another word of it")
                });
            }
        }
    }
}

/// Processes that ended their incarnation by themselves.
fn ends_by_itself(model: &Model, out: &mut Findings) {
    for (p, proc) in model.procs.iter().enumerate() {
        let Some((Over::Left, told)) = proc.over else { continue };
        let level = proc.installs.last().and_then(|&i| model.installs[i].level);
        let cannot_judge = level.is_some_and(|(level, _)| level < 2) && was_nonsense(model, told.at_ns);
        if proc.leave_asked.is_none() && !cannot_judge && model.one_clock().is_some() {
            out.violation(&[told.place], || format!("{} left the cell, and had not asked to", model.who(p)));
        }
    }
}

/// Whether a defect was injected before that time.
fn was_nonsense(model: &Model, at_ns: u64) -> bool {
    let mut spans = model.harness.troubles.iter().filter(|((what, _), _)| *what == Trouble::Nonsense);
    spans.any(|(_, spans)| spans.iter().any(|span| span.from.at_ns <= at_ns))
}
