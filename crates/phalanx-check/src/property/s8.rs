//! S8, what is accepted is sent: each multicast that was accepted from the application is sent once, and the multicasts of
//! a process in one group are sent in the order in which they were accepted.
//!
//! - None is sent before one that was accepted earlier in the same group.
//! - Whoever leaves a group, by its own will, has sent what it had accepted before it asked to leave; and so has whoever
//!   leaves the cell, if a view says that it left.
//! - In the quiet phase, a running, connected process sends what it accepts within V3's bound, and what it accepted before
//!   within the bound from V1's deadline.
//! - Nothing is sent that was not accepted, by a process that records what it accepts.
//!
//! What waits when a process dies, is excluded, or goes from a cell that did not let it go, is lost. The first two rules need
//! no clock; the third is judged only if V1 holds.
//!
//! Instances: multicasts accepted; *under failure*: those that did not go out at once. Source: the queue of a reliable
//! channel (Cachin, Guerraoui, Rodrigues 2011, validity of a broadcast begins with its request); none of the classical
//! properties speaks of messages before they are bound to a view.

use phalanx_trace::LeaveReason;

use super::{Run, v4};
use crate::findings::Findings;
use crate::model::accepted::{Wait, WaitEnd};
use crate::model::{Epoch, Moment};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let accepted = &run.model.accepted;
    out.instances += accepted.count;
    out.under_failure += accepted.waits.len() as u64;
    for &(proc, sent) in &accepted.unasked {
        out.violation(&[sent.place], || format!("{} sent what it had not accepted", run.model.who(proc)));
    }
    for wait in &accepted.waits {
        judge(run, wait, out);
    }
}

fn judge(run: &Run<'_>, wait: &Wait, out: &mut Findings) {
    let model = run.model;
    let who = || format!("{} accepted a multicast to group {}", model.who(wait.proc), wait.group);
    let proc = &model.procs[wait.proc];
    let accepted = wait.accepted;
    match wait.end {
        WaitEnd::Overtaken(by) => out.violation(&[accepted.place, by.place], || {
            format!("{}, and sent one that it accepted later without having sent it", who())
        }),
        WaitEnd::GroupLeft(left) => {
            let since = stay_asked_for(run, wait, left);
            let asks = proc.group_leaves.iter().filter(|(group, _)| *group == wait.group).map(|(_, asked)| *asked);
            let mut asks = asks.filter(|asked| (since..left.place.index).contains(&asked.place.index));
            if let Some(asked) = asks.next().filter(|asked| asked.place.index > accepted.place.index) {
                out.violation(&[accepted.place, asked.place, left.place], || {
                    format!("{}, and left the group without having sent it", who())
                });
            }
        }
        WaitEnd::Left(left) => {
            // A leaver that was excluded meanwhile, or that no quorum let go, may lose what waits.
            let let_go = model.installs.iter().find(|i| i.left.contains(&(wait.proc, LeaveReason::Left)));
            let asked = proc.leave_asked.filter(|asked| accepted.place.index < asked.place.index);
            if let (Some(without), Some(asked)) = (let_go, asked) {
                out.violation(&[accepted.place, asked.place, without.moment.place, left.place], || {
                    format!("{}, and left the cell without having sent it", who())
                });
            }
        }
        WaitEnd::Sent(_) | WaitEnd::Open => {
            let Some(quiet) = v4::due(run).filter(|quiet| quiet.running.contains(&wait.proc)) else { return };
            let deadline = v4::deadline(run, quiet, accepted.at_ns);
            if deadline > quiet.end_ns || !proc.tail_complete {
                return;
            }
            let sent = match wait.end {
                WaitEnd::Sent(sent) => Some(sent),
                _ => None,
            };
            if sent.is_none_or(|sent| sent.at_ns > deadline) {
                out.violation(&[quiet.place, accepted.place], || {
                    format!("{}, and did not send it within the bound", who())
                });
            }
        }
        WaitEnd::Over => {}
    }
}

/// The record from which on a wish to leave means the stay that `left` ended: the request for that stay. An application that
/// takes nothing for a while may leave, join and leave again before it is told that it left once.
fn stay_asked_for(run: &Run<'_>, wait: &Wait, left: Moment) -> usize {
    let model = run.model;
    let proc = &model.procs[wait.proc];
    let name = |e: &Epoch| model.groups[model.views[e.view].group].name.as_str();
    let stays = || proc.epochs.iter().map(|&e| &model.epochs[e]);
    let Some(ended) = stays().find(|e| e.left_at.is_some_and(|at| at.place == left.place)) else { return 0 };
    // Each request that is granted is one stay: nobody asks again before the process has left.
    let before = stays().filter(|e| e.prev_epoch.is_none() && name(e) == name(ended));
    let begun = before.filter(|e| e.install.place.index < left.place.index).count();
    let mut requests = proc.group_joins.iter().filter(|join| join.name == name(ended));
    begun.checked_sub(1).and_then(|stay| requests.nth(stay)).map_or(0, |join| join.asked.place.index)
}
