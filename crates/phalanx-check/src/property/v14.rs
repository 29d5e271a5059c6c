//! V14, partly broken paths: while some paths stay partly broken (one link, one direction, one socket, packets of one
//! kind, long packets), let `C` be the processes on no such path. If they are a quorum of the cell view in force when
//! the first path broke, and of the one that followed it, then with the bound `T`, counted from the quiet phase's
//! begin:
//!
//! - After `T` each of `C` is in a cell view that holds all of `C`, and never again in one that does not.
//! - A cell view that one of `C` has installed is installed by each of `C` within `T`, or a later view of the instance
//!   is. The same holds for groups.
//! - None of `C` considers itself cut off, or may not send, for longer than `T`.
//! - A process of `C` that asks to leave is gone within `T`.
//! - Group views at the end hold all of `C` that are in the group.
//! - A process of `C` delivers its own multicasts within `D`, and so does each of `C` that is in its view. This
//!   includes uniform messages and abcasts, whichever process orders them. `D` is what the faults may cost the others
//!   (`docs/costs.md`), and at most `T`.
//! - Where the harness says that applications continue to multicast, none of `C` is silent in one of its groups for
//!   longer than `T`: a window that stays full is no excuse.
//!
//! A process at the end of a broken path may stay, go, or come and go for ever. In such a quiet phase this replaces V1
//! to V4, V10 and V13, and V6 for joins of the cell. Joins of groups are V6 and V12 as usual.
//!
//! Instances: quiet phases, group stays, pairs of message and receiver. Source: Huang et al. 2017 (gray failure: one
//! part of a system sees a fault that another does not); here with a bound.

use std::collections::BTreeSet;

use super::{Run, v1, v4};
use crate::findings::{Findings, Place};
use crate::model::intern::FastMap;
use crate::model::quiet::{NotDue, Quiet};
use crate::model::{Epoch, EpochEnd, EpochIx, Model, ProcIx};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let quiet = match &run.quiet {
        Ok(quiet) => quiet,
        // Without a quorum among `C`, V14 demands nothing.
        Err(why) if run.model.harness.impaired.is_some() && *why != NotDue::NoQuorum => {
            return v1::in_vain(run, *why, out);
        }
        Err(_) => return,
    };
    let Some(impaired_ns) = quiet.impaired_ns else { return };
    membership(run, quiet, out);
    if out.violations > 0 {
        return;
    }
    let due = due(run.model, quiet);
    groups(run, quiet, &due, out);
    for &p in &due {
        multicasts(run, quiet, (p, impaired_ns), &due, out);
        silence(run, quiet, p, out);
    }
}

/// Processes of `C` that have not asked to leave, with complete traces.
fn due(model: &Model, quiet: &Quiet) -> BTreeSet<ProcIx> {
    let stays = |&p: &ProcIx| model.procs[p].leave_asked.is_none() && model.procs[p].tail_complete;
    quiet.running.iter().copied().filter(stays).collect()
}

/// Evaluates the first four clauses.
pub(super) fn membership(run: &Run<'_>, quiet: &Quiet, out: &mut Findings) {
    let (model, bound_ns) = (run.model, run.options.impaired_bound_ns);
    out.instance();
    for &p in &quiet.running {
        let Some(asked) = model.procs[p].leave_asked else { continue };
        if asked.at_ns.max(quiet.from_ns).saturating_add(bound_ns) <= quiet.end_ns {
            out.violation(&[asked.place], || format!("{} asked to leave and is still there", model.who(p)));
        }
    }
    let due = due(model, quiet);
    // Whether every process has had time to install it.
    let old = |at_ns: u64| at_ns.saturating_add(bound_ns) <= quiet.end_ns;
    let installs = due.iter().flat_map(|&p| &model.procs[p].installs).map(|&i| &model.installs[i]);
    let newest = installs.filter(|i| old(i.moment.at_ns)).max_by_key(|i| (i.instance, i.view));
    for &p in &due {
        let proc = &model.procs[p];
        let own: Vec<_> = proc.installs.iter().map(|&i| &model.installs[i]).collect();
        let Some(last) = own.iter().rfind(|i| i.moment.at_ns <= quiet.end_ns) else {
            out.violation(&[quiet.place], || format!("{} never came into a cell view", model.who(p)));
            continue;
        };
        if let Some(newest) = newest
            && (newest.instance != last.instance || newest.view > last.view)
        {
            let text =
                || format!("{} is still in cell view {}, others are in {}", model.who(p), last.view, newest.view);
            out.violation(&[last.moment.place, newest.moment.place], text);
        }
        let mut in_force = false;
        for (i, view) in own.iter().enumerate() {
            let until_ns = own.get(i + 1).map_or(quiet.end_ns, |next| next.moment.at_ns);
            if until_ns <= quiet.settled_ns || view.moment.at_ns > quiet.end_ns {
                continue;
            }
            in_force |= view.moment.at_ns <= quiet.settled_ns;
            let missing: Vec<String> =
                due.iter().filter(|q| !view.members.contains(q)).map(|&q| model.who(q)).collect();
            if !missing.is_empty() {
                let text = || {
                    let (who, missing) = (model.who(p), missing.join(", "));
                    format!("cell view {} at {who} lacks {missing}, on no broken path", view.view)
                };
                out.violation(&[quiet.place, view.moment.place], text);
                break;
            }
        }
        if !in_force {
            out.violation(&[quiet.place, last.moment.place], || format!("{} came in after the bound", model.who(p)));
        }
        let told = proc.primacy.iter().filter(|(primary, _)| !primary).map(|(_, from)| {
            let again = proc.primacy.iter().find(|(primary, m)| *primary && m.place.index > from.place.index);
            let view = own.iter().map(|i| i.moment).find(|m| m.place.index > from.place.index);
            let to = [again.map(|(_, m)| *m), view].into_iter().flatten().map(|m| m.at_ns).min();
            (*from, to, "holds itself cut off")
        });
        let blocked = proc.blocks.iter().map(|(from, to)| (*from, to.map(|m| m.at_ns), "may not send"));
        for (from, to, what) in told.chain(blocked) {
            let (begin, end) = (from.at_ns.max(quiet.from_ns), to.unwrap_or(quiet.end_ns).min(quiet.end_ns));
            if end.saturating_sub(begin) > bound_ns {
                out.violation(&[from.place], || format!("{} {what} for longer than the bound", model.who(p)));
            }
        }
    }
}

/// The stay of each process in each of its groups at the end.
fn open_stays<'a>(model: &'a Model, due: &'a BTreeSet<ProcIx>) -> impl Iterator<Item = (EpochIx, &'a Epoch)> {
    let all = due.iter().flat_map(|&p| model.procs[p].epochs.iter());
    all.map(|&e| (e, &model.epochs[e])).filter(|(_, epoch)| epoch.end == EpochEnd::Open)
}

fn groups(run: &Run<'_>, quiet: &Quiet, due: &BTreeSet<ProcIx>, out: &mut Findings) {
    let model = run.model;
    let old = |epoch: &Epoch| epoch.install.at_ns.saturating_add(run.options.impaired_bound_ns) <= quiet.end_ns;
    for (_, own) in open_stays(model, due) {
        out.instance();
        let here = &model.views[own.view];
        let same = |epoch: &Epoch| model.views[epoch.view].group == here.group;
        for (_, other) in open_stays(model, due).filter(|(_, other)| same(other) && old(other)) {
            let there = &model.views[other.view];
            if there.number > here.number {
                let text = || {
                    let (who, here, there) =
                        (model.who(own.proc), model.view_name(own.view), model.view_name(other.view));
                    format!("{who} is still in {here}, others are in {there}")
                };
                out.violation(&[own.install.place, other.install.place], text);
            } else if !own.members.contains(&other.proc) {
                let text = || {
                    let (who, here) = (model.who(other.proc), model.view_name(own.view));
                    format!("{here} lacks {who}, on no broken path")
                };
                out.violation(&[own.install.place, other.install.place], text);
            }
        }
    }
}

/// Evaluates whether the multicasts of `p` are delivered.
fn multicasts(
    run: &Run<'_>,
    quiet: &Quiet,
    (p, impaired_ns): (ProcIx, u64),
    due: &BTreeSet<ProcIx>,
    out: &mut Findings,
) {
    let model = run.model;
    let deadline = |at_ns: u64| v4::deadline(run, quiet, at_ns);
    let judged = |at_ns: u64| at_ns >= impaired_ns && deadline(at_ns) <= quiet.end_ns;
    let gone = |e: EpochIx| matches!(model.epochs[e].end, EpochEnd::GroupLeft | EpochEnd::Over);
    for &e in &model.procs[p].epochs {
        if gone(e) || !model.sent(e).any(|s| judged(s.at_ns)) {
            continue;
        }
        let epoch = &model.epochs[e];
        for &q in epoch.members.iter().filter(|q| due.contains(q)) {
            let there = model.views[epoch.view].epochs.iter().copied().find(|&o| model.epochs[o].proc == q);
            // A process that has never come into the group is reported by V6. One that skipped the view came with a
            // state.
            let group = |&o: &EpochIx| model.views[model.epochs[o].view].group == model.views[epoch.view].group;
            let never = !model.procs[q].epochs.iter().any(group);
            if there.map_or(epoch.end != EpochEnd::Open || never, gone) {
                continue;
            }
            let delivered: FastMap<_, _> =
                there.iter().flat_map(|&o| model.delivered(o)).map(|s| (s.message, s.at_ns)).collect();
            for step in model.sent(e).filter(|s| judged(s.at_ns)) {
                out.instance();
                if delivered.get(&step.message).is_none_or(|&at| at > deadline(step.at_ns)) {
                    let text =
                        || format!("{} did not deliver {} within the bound", model.who(q), model.what(step.message));
                    out.violation(&[quiet.place, model.place(e, step.index)], text);
                }
            }
        }
    }
}

/// Evaluates whether `p` continues to send in each of its groups.
fn silence(run: &Run<'_>, quiet: &Quiet, p: ProcIx, out: &mut Findings) {
    let model = run.model;
    let every_ns = model.harness.impaired.as_ref().map_or(0, |i| i.sends_every_ns);
    if every_ns == 0 {
        return;
    }
    let most_ns = run.options.impaired_bound_ns.saturating_add(every_ns);
    for (open, epoch) in open_stays(model, &BTreeSet::from([p])) {
        let mut stays = vec![open];
        while let Some(before) = stays.last().and_then(|&e| model.epochs[e].prev_epoch) {
            stays.push(before);
        }
        let since_ns = stays.last().map_or(0, |&e| model.epochs[e].install.at_ns).max(quiet.from_ns);
        let sent = stays.iter().flat_map(|&e| model.sent(e)).map(|s| s.at_ns);
        let mut times: Vec<u64> = sent.filter(|at| (since_ns..=quiet.end_ns).contains(at)).collect();
        times.extend([since_ns, quiet.end_ns]);
        times.sort_unstable();
        out.instance();
        let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        if longest > most_ns {
            let evidence: [Place; 2] = [quiet.place, epoch.install.place];
            let text = || {
                let (who, view, s) = (model.who(p), model.view_name(epoch.view), longest / 1_000_000_000);
                format!("{who} could send nothing in {view} or the views before it for {s} s")
            };
            out.violation(&evidence, text);
        }
    }
}
