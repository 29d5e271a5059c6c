//! V16, inboxes are apart: in the quiet phase, let a running, connected process take nothing from one of its inboxes for a
//! while. Then it delivers what the members of its other groups, and itself, send meanwhile, within the bound of V3 and
//! V4: multicasts, and messages to it alone. A message is sent meanwhile if the inbox is not read at some time between its
//! send and its deadline.
//!
//! A group with two members that each do not read an inbox, one of them the group's own, waits for that one: the bound
//! counts as in V4. Evaluated only if V1 holds.
//!
//! Instances: pairs of such a multicast and a process that does not read another inbox; *under failure*: such messages to
//! one. Source: none of the classical properties, in which a process has one queue; V3 and V4 where it has several.

use super::{Run, group_of, v4};
use crate::findings::Findings;
use crate::model::EpochIx;
use crate::model::intern::FastMap;
use crate::model::quiet::Quiet;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let (model, Some(quiet)) = (run.model, v4::due(run)) else { return };
    if quiet.impaired_ns.is_some() || model.harness.unread.is_empty() {
        return;
    }
    for there in v4::last_stays(run, quiet) {
        let (receiver, view) = (model.epochs[there].proc, model.epochs[there].view);
        let delivered: FastMap<_, _> = model.delivered(there).map(|s| (s.message, s.at_ns)).collect();
        let senders = || {
            let all = model.views[view].epochs.iter().copied();
            all.filter(|&e| quiet.running.contains(&model.epochs[e].proc) && model.stays(e, quiet.end_ns))
        };
        for sender in senders() {
            judge_to_one(run, quiet, sender, there, out);
        }
        for step in senders().flat_map(|e| model.sent(e)) {
            let deadline = v4::deadline_in(run, quiet, view, step.at_ns);
            let is_due = step.at_ns >= quiet.from_ns && deadline <= quiet.end_ns;
            if !is_due || !concerns(run, there, (step.at_ns, deadline)) {
                continue;
            }
            out.instance();
            if delivered.get(&step.message).is_none_or(|&at| at > deadline) {
                let sent = model.messages[step.message as usize].sent.map(|m| m.place);
                let evidence: Vec<_> = [Some(quiet.place), sent].into_iter().flatten().collect();
                out.violation(&evidence, || {
                    let (who, what) = (model.who(receiver), model.what(step.message));
                    format!("{who} did not read another inbox, and did not deliver {what} within the bound")
                });
            }
        }
    }
}

/// Judges the messages of one member to another alone.
fn judge_to_one(run: &Run<'_>, quiet: &Quiet, sender: EpochIx, there: EpochIx, out: &mut Findings) {
    let model = run.model;
    let (from, to, view) = (model.epochs[sender].proc, model.epochs[there].proc, model.epochs[there].view);
    let receiver = &model.procs[to].to_one;
    for (message, came) in model.procs[from].to_one.arrivals(from, (group_of(model, there), to), receiver) {
        let sent = message.moment;
        let deadline = v4::deadline_in(run, quiet, view, sent.at_ns);
        let is_due =
            message.view == model.views[view].number && sent.at_ns >= quiet.from_ns && deadline <= quiet.end_ns;
        if !is_due || !concerns(run, there, (sent.at_ns, deadline)) {
            continue;
        }
        out.instance_when(true);
        if came.is_none_or(|came| came.at_ns > deadline) {
            let (from, to) = (model.who(from), model.who(to));
            out.violation(&[quiet.place, sent.place], || {
                format!("{to} did not read another inbox, and did not deliver a message of {from} to it alone in time")
            });
        }
    }
}

/// Whether the process of this stay took nothing from another inbox at some time in that span.
pub(super) fn concerns(run: &Run<'_>, stay: EpochIx, (from_ns, to_ns): (u64, u64)) -> bool {
    let (model, epoch) = (run.model, &run.model.epochs[stay]);
    let others = model.harness.unread.range((epoch.proc, 0)..=(epoch.proc, u32::MAX));
    let meets = |spans: &[crate::model::Span]| spans.iter().any(|span| span.meets(from_ns, to_ns));
    others.into_iter().any(|((_, inbox), spans)| *inbox != epoch.inbox && meets(spans))
}
