//! V4, multicast liveness: let a running, connected process send `m` in the quiet phase, in the group view that is its
//! last. Then every other running, connected member of that view delivers `m` within the bound.
//!
//! The bound counts from the send, or from V1's deadline if that is later. Evaluated only if V1 holds, for sends that
//! are older than the bound at the end. While a member does not read the inbox of the group, the bound counts from the
//! end of that. (Own deliveries are V3; a member that never came into the group is V6; with others broken for good it is
//! V13; at a member that does not read another inbox it is V16.)
//!
//! Instances: pairs of message and receiver. Source: Chockler, Keidar, Vitenberg 2001 (liveness of delivery), with a
//! bound.

use super::{Run, group_of, v16};
use crate::findings::Findings;
use crate::model::intern::FastMap;
use crate::model::quiet::Quiet;
use crate::model::{EpochIx, Moment, ProcIx, ViewIx};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    if let Some(quiet) = due(run).filter(|q| !q.broken_outside) {
        judge(run, quiet, out);
    }
}

pub(super) fn judge(run: &Run<'_>, quiet: &Quiet, out: &mut Findings) {
    let model = run.model;
    for e in last_stays(run, quiet) {
        let view = model.epochs[e].view;
        for &q in model.epochs[e].members.iter().filter(|&&q| q != model.epochs[e].proc && quiet.running.contains(&q)) {
            let there = model.views[view].epochs.iter().copied().find(|&o| model.epochs[o].proc == q);
            // A process that has never come into the group is reported by V6.
            if model.procs[q].epochs.iter().all(|&o| model.views[model.epochs[o].view].group != model.views[view].group)
            {
                continue;
            }
            let moved_on = there.is_some_and(|o| !model.stays(o, quiet.end_ns));
            if moved_on || !model.procs[q].tail_complete {
                continue;
            }
            let delivered: FastMap<_, _> =
                there.iter().flat_map(|&o| model.delivered(o)).map(|s| (s.message, s.at_ns)).collect();
            for step in model.sent(e) {
                let deadline = deadline_in(run, quiet, view, step.at_ns);
                let is_due = deadline <= quiet.end_ns;
                if !is_due || there.is_some_and(|there| v16::concerns(run, there, (step.at_ns, deadline))) {
                    continue;
                }
                out.instance();
                if delivered.get(&step.message).is_none_or(|&at| at > deadline) {
                    let text =
                        || format!("{} did not deliver {} within the bound", model.who(q), model.what(step.message));
                    out.violation(&[quiet.place, model.place(e, step.index)], text);
                }
            }
        }
    }
}

/// The quiet phase, if all are in one view in time.
pub(super) fn due<'a>(run: &'a Run<'_>) -> Option<&'a Quiet> {
    run.quiet.as_ref().ok().filter(|_| run.settled)
}

/// The last stays of the running processes.
pub(super) fn last_stays<'a>(run: &'a Run<'_>, quiet: &'a Quiet) -> impl Iterator<Item = EpochIx> + use<'a> {
    let whole = quiet.running.iter().copied().filter(|&p| run.model.procs[p].tail_complete);
    whole.flat_map(|p| run.model.stays_at(p, quiet.end_ns))
}

/// The quiet phase, if what `p` said there to `q` at that time is overdue at its end: both run, connected, and are in one view
/// of the group from then on. Not if some inbox was not read.
pub(super) fn is_overdue<'a>(
    run: &'a Run<'_>,
    group: u32,
    (p, q): (ProcIx, ProcIx),
    since: Moment,
) -> Option<&'a Quiet> {
    let model = run.model;
    let quiet = due(run)?;
    let is_late = deadline(run, quiet, since.at_ns) <= quiet.end_ns && !quiet.broken_outside;
    let runs = [p, q].iter().all(|who| quiet.running.contains(who) && model.procs[*who].tail_complete);
    let are_together = |stay: EpochIx| {
        let epoch = &model.epochs[stay];
        let is_it = epoch.proc == p && group_of(model, stay) == group && epoch.install.at_ns <= since.at_ns;
        is_it && epoch.members.contains(&q)
    };
    let is_read = model.harness.unread.is_empty();
    (is_late && runs && is_read && last_stays(run, quiet).any(are_together)).then_some(quiet)
}

/// Deadline of a delivery in a group view. A member that does not read the group's inbox holds its senders back, so that
/// the bound counts from the end of that.
pub(super) fn deadline_in(run: &Run<'_>, quiet: &Quiet, view: ViewIx, sent_ns: u64) -> u64 {
    let model = run.model;
    let mut deadline = deadline(run, quiet, sent_ns);
    if model.harness.unread.is_empty() {
        return deadline;
    }
    let mut spans: Vec<_> = model.views[view].epochs.iter().flat_map(|&e| model.unread(e)).collect();
    spans.sort_by_key(|span| span.from.at_ns);
    for span in spans.into_iter().filter(|span| span.to.is_none_or(|to| to.at_ns > sent_ns)) {
        if span.from.at_ns > deadline {
            break;
        }
        let read_ns = span.to.map_or(u64::MAX, |to| to.at_ns);
        deadline = deadline.max(self::deadline(run, quiet, read_ns));
    }
    deadline
}

/// Deadline of its delivery.
pub(super) fn deadline(run: &Run<'_>, quiet: &Quiet, sent_ns: u64) -> u64 {
    let from_ns = if quiet.impaired_ns.is_some() { quiet.from_ns } else { quiet.settled_ns };
    sent_ns.max(from_ns).saturating_add(bound_ns(run, quiet))
}

/// Bound on the time of a delivery. While paths stay partly broken it is longer: a broken path may first have to be
/// detected, and again after a process at its end has come back.
pub(super) fn bound_ns(run: &Run<'_>, quiet: &Quiet) -> u64 {
    if quiet.impaired_ns.is_some() { run.options.impaired_delivery_bound_ns } else { run.options.delivery_bound_ns }
}
