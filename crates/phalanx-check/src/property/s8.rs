//! S8, acceptance leads to a send: each multicast that was accepted from the application is sent once, and the
//! multicasts of a process in one group are sent in the order in which they were accepted.
//!
//! - No multicast is sent before one that was accepted earlier in the same group.
//! - A process that leaves a group by its own will has sent what it had accepted before it asked to leave. The same
//!   holds for a process that leaves the cell, if it is notified that it left its group with that, if a view says that
//!   it left, or if its last view holds no other process.
//! - A process that leaves a group or the cell, or is excluded, is notified right before of the number of multicasts
//!   that it accepted and did not send. They are the last that it accepted. It is notified once and of no others, and
//!   sends none of them afterwards. Evaluated for traces whose format has this record.
//! - In the quiet phase, a running, connected process sends what it accepts within V3's bound, and what it accepted
//!   before within the bound from V1's deadline, whatever it leaves afterwards. While paths stay partly broken the
//!   bound is V14's. While a member does not read the inbox of the group, the bound counts from the end of that.
//! - Nothing is sent that was not accepted, by a process that records acceptances. If all traces are given and one
//!   process records acceptances, all do.
//!
//! While there are too few members for uniform messages (U7), those wait, and so do the messages behind them. Neither
//! the rule about the quiet phase nor the one about leaving applies to what a process accepted and did not send in that
//! time.
//!
//! A multicast that waits when a process dies, is excluded, or goes from a cell that did not let it go, is lost. Only
//! the rule about the quiet phase needs a clock; it is evaluated only if V1 holds.
//!
//! Instances: multicasts accepted; *under failure*: those that were not sent at once. Source: the queue of a reliable
//! channel (Cachin, Guerraoui, Rodrigues 2011, validity of a broadcast begins with its request); none of the classical
//! properties speaks of messages before they are bound to a view.

use phalanx_trace::{FORMAT_UNSENT, LeaveReason};

use super::{Run, group_of, v4};
use crate::findings::Findings;
use crate::model::accepted::{Wait, WaitEnd};
use crate::model::quiet::Quiet;
use crate::model::{Epoch, EpochIx, Model, Moment, ProcIx};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let accepted = &run.model.accepted;
    out.instances += accepted.count;
    out.under_failure += accepted.waits.len() as u64;
    for &(proc, sent, records) in &accepted.unasked {
        // If only some traces are given, it is no violation that others record no acceptances.
        if !records && (accepted.count == 0 || !run.options.complete) {
            continue;
        }
        out.violation(&[sent.place], || format!("{} sent what it had not accepted", run.model.who(proc)));
    }
    for &(proc, told) in &accepted.told_of_none {
        out.violation(&[told.place], || {
            format!("{} was notified of more unsent multicasts than it had", run.model.who(proc))
        });
    }
    for wait in &accepted.waits {
        judge(run, wait, out);
    }
}

fn judge(run: &Run<'_>, wait: &Wait, out: &mut Findings) {
    let model = run.model;
    let who = || format!("{} accepted a multicast to group {}", model.who(wait.proc), wait.group);
    let accepted = wait.accepted;
    match (wait.end, wait.told) {
        (WaitEnd::Sent(sent), Some(told)) => {
            return out.violation(&[accepted.place, told.place, sent.place], || {
                format!("{}, was notified that it will not be sent, and sent it", who())
            });
        }
        (WaitEnd::GroupLeft(end) | WaitEnd::Left(end) | WaitEnd::Excluded(end), None) if tells(run, wait) => {
            return out.violation(&[accepted.place, end.place], || {
                format!("{}, did not send it, and was not notified of that before its stay was over", who())
            });
        }
        _ => {}
    }
    let (leave, what) = match wait.end {
        WaitEnd::Excluded(_) | WaitEnd::Over => return,
        WaitEnd::Overtaken(by) => {
            return out.violation(&[accepted.place, by.place], || {
                format!("{}, and sent one that it accepted later without having sent it", who())
            });
        }
        WaitEnd::Sent(_) | WaitEnd::Open => (None, ""),
        WaitEnd::GroupLeft(left) if has_lost(model, wait, left) => return,
        WaitEnd::GroupLeft(left) => (Some(group_leave(run, wait, left)), "group"),
        WaitEnd::Left(left) => (Some(cell_leave(run, wait, left)), "cell"),
    };
    // A multicast accepted after the request to leave may be lost.
    let asked = leave.and_then(|leave| leave.asked);
    if asked.is_some_and(|asked| asked.place.index < accepted.place.index) {
        return;
    }
    let had_too_few = |from: Moment, to: Moment| model.is_ever_inadequate(wait.proc, wait.group, from.at_ns, to.at_ns);
    if let Some(quiet) = overdue(run, wait) {
        out.violation(&[quiet.place, accepted.place], || format!("{}, and did not send it within the bound", who()));
    } else if let Some(leave) = leave.filter(|leave| leave.let_go)
        && !had_too_few(leave.asked.unwrap_or(leave.left), leave.left)
    {
        let evidence = [Some(accepted), leave.asked, leave.without, Some(leave.left)].into_iter().flatten();
        let evidence: Vec<_> = evidence.map(|moment| moment.place).collect();
        out.violation(&evidence, || format!("{}, and left the {what} without having sent it", who()));
    }
}

/// Whether the group was lost, and with it what waited.
fn has_lost(model: &Model, wait: &Wait, left: Moment) -> bool {
    let is_it = |stay: &Epoch| stay.left_at.is_some_and(|at| at.place == left.place) && stay.lost.is_some();
    model.procs[wait.proc].epochs.iter().any(|&stay| is_it(&model.epochs[stay]))
}

/// Whether the format of the process's trace has a record of unsent multicasts.
fn tells(run: &Run<'_>, wait: &Wait) -> bool {
    let trace = run.model.procs[wait.proc].trace;
    trace.is_some_and(|trace| run.model.traces[trace].format >= FORMAT_UNSENT)
}

/// How a process went from a group or from the cell.
#[derive(Clone, Copy)]
struct Leave {
    asked: Option<Moment>,
    /// The cell view that lists it as left, if one does.
    without: Option<Moment>,
    left: Moment,
    /// Whether it left by its own will, with effect. Otherwise it was excluded meanwhile, or went from a cell without a
    /// quorum, and may lose what waits.
    let_go: bool,
}

/// How the process left the group. A process that leaves the cell leaves its groups first, so either request may be the
/// reason.
fn group_leave(run: &Run<'_>, wait: &Wait, left: Moment) -> Leave {
    let proc = &run.model.procs[wait.proc];
    let since = stay_asked_for(run, wait, left);
    let asks = proc.group_leaves.iter().filter(|(group, _)| *group == wait.group).map(|(_, asked)| *asked);
    let group = asks.filter(|asked| (since..left.place.index).contains(&asked.place.index)).min_by_key(place);
    let cell = proc.leave_asked.filter(|asked| asked.place.index < left.place.index);
    let asked = group.into_iter().chain(cell).min_by_key(place);
    // A notice that the group is left means that the process was let go, even if no process remains to record it.
    let (dropped, without) = dropped(run, wait.proc);
    Leave { asked, without: without.filter(|_| group.is_none()), left, let_go: group.is_some() || !dropped }
}

fn cell_leave(run: &Run<'_>, wait: &Wait, left: Moment) -> Leave {
    let model = run.model;
    let proc = &model.procs[wait.proc];
    let (dropped, without) = dropped(run, wait.proc);
    // The last process of a cell needs no other to let it go.
    let last = proc.installs.last().map(|&i| &model.installs[i]);
    let alone = last.filter(|view| view.members == [wait.proc]).map(|view| view.moment);
    let without = without.or(alone);
    Leave {
        asked: proc.leave_asked,
        without,
        left,
        let_go: !dropped && without.is_some() && proc.leave_asked.is_some(),
    }
}

/// Whether a cell view shows that the process went against its will, and the view that shows that it left.
fn dropped(run: &Run<'_>, proc: ProcIx) -> (bool, Option<Moment>) {
    let reasons = run.model.installs.iter().flat_map(|i| i.left.iter().map(move |left| (i.moment, left)));
    let of_it: Vec<_> = reasons.filter(|(_, (who, _))| *who == proc).map(|(at, (_, reason))| (at, *reason)).collect();
    let left = of_it.iter().find(|(_, reason)| *reason == LeaveReason::Left).map(|(at, _)| *at);
    (left.is_none() && !of_it.is_empty(), left)
}

fn place(moment: &Moment) -> usize {
    moment.place.index
}

/// The quiet phase, if the multicast waited in it for longer than its bound.
fn overdue<'a>(run: &'a Run<'_>, wait: &Wait) -> Option<&'a Quiet> {
    let quiet = v4::due(run).filter(|quiet| quiet.running.contains(&wait.proc))?;
    let deadline = deadline(run, quiet, wait);
    if deadline > quiet.end_ns || !run.model.procs[wait.proc].tail_complete {
        return None;
    }
    // The bound counts from the moment at which there are enough members.
    let since = deadline.saturating_sub(v4::bound_ns(run, quiet));
    if run.model.is_ever_inadequate(wait.proc, wait.group, since, deadline) {
        return None;
    }
    let ended = match wait.end {
        WaitEnd::Sent(moment) | WaitEnd::GroupLeft(moment) | WaitEnd::Left(moment) => Some(moment),
        WaitEnd::Overtaken(_) | WaitEnd::Excluded(_) | WaitEnd::Over | WaitEnd::Open => None,
    };
    ended.is_none_or(|ended| ended.at_ns > deadline).then_some(quiet)
}

/// Deadline of its send. A member that does not read the inbox of the group holds the sender back.
fn deadline(run: &Run<'_>, quiet: &Quiet, wait: &Wait) -> u64 {
    let model = run.model;
    let is_it = |&e: &EpochIx| group_of(model, e) == wait.group;
    match model.procs[wait.proc].epochs.iter().copied().rfind(is_it) {
        Some(last) => v4::deadline_in(run, quiet, model.epochs[last].view, wait.accepted.at_ns),
        None => v4::deadline(run, quiet, wait.accepted.at_ns),
    }
}

/// The record from which on a request to leave refers to the stay that `left` ended: the request to join for that stay.
/// An application that takes nothing for a while may leave, join and leave again before it is notified that it left
/// once.
fn stay_asked_for(run: &Run<'_>, wait: &Wait, left: Moment) -> usize {
    let model = run.model;
    let proc = &model.procs[wait.proc];
    let name = |e: &Epoch| model.groups[model.views[e.view].group].name.as_str();
    let stays = || proc.epochs.iter().map(|&e| &model.epochs[e]);
    let Some(ended) = stays().find(|e| e.left_at.is_some_and(|at| at.place == left.place)) else { return 0 };
    // Each granted request is one stay: no process asks again before it has left.
    let before = stays().filter(|e| e.prev_epoch.is_none() && !e.came_back && name(e) == name(ended));
    let begun = before.filter(|e| e.install.place.index < left.place.index).count();
    let mut requests = proc.group_joins.iter().filter(|join| join.name == name(ended));
    begun.checked_sub(1).and_then(|stay| requests.nth(stay)).map_or(0, |join| join.asked.place.index)
}
