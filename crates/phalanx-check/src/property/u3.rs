//! U3, honest stability: if `p` delivers `m` as uniform in `v` before any member left `v`, then every member of `v` had
//! received `m`: it ran, and was reachable, at some moment between the send of `m` and that delivery.
//!
//! Reception is not recorded, so it is refuted instead. A member cannot have received `m` if the harness kept it
//! stopped, dead, or cut off from all other members from the send to the delivery (with no attacker to carry packets
//! around the cut). Once a member has left `v`, a decided view may have excused such a member, and its cut delivers
//! without it (U1).
//!
//! Instances: uniform deliveries and members that were out of reach when the message was sent. Source: Chockler,
//! Keidar, Vitenberg 2001 (safe messages, stability).

use std::ops::Bound;

use super::Run;
use crate::findings::{Findings, Place};
use crate::model::{EpochEnd, Model, ProcIx, Span, ViewIx};

/// A span of time in which one process could receive nothing.
pub(super) struct OutOfReach {
    pub(super) proc: ProcIx,
    pub(super) from: (u64, Place),
    pub(super) to_ns: u64,
}

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    if model.one_clock().is_none() {
        return;
    }
    let absences = model.absences();
    let slack = run.options.clock_slack_ns;
    for view in 0..model.views.len() {
        let Some(first_ns) = model.views[view].epochs.iter().map(|&e| model.epochs[e].install.at_ns).min() else {
            continue;
        };
        let left_ns = first_left(run, view);
        let members = model.views[view].members.iter();
        let away: Vec<OutOfReach> = members
            .flat_map(|&q| out_of_reach(model, view, q, &absences[q]))
            .filter(|a| a.from.0 <= left_ns && a.to_ns >= first_ns)
            .collect();
        if away.is_empty() {
            continue;
        }
        for &e in &model.views[view].epochs {
            let p = model.epochs[e].proc;
            for step in model.delivered(e).filter(|s| s.uniform) {
                let sender = model.stream_of(step.message).sender;
                let Some(sent) = model.messages[step.message as usize].sent else { continue };
                for a in away.iter().filter(|a| a.proc != p && a.proc != sender) {
                    if a.from.0.saturating_add(slack) >= sent.at_ns || a.to_ns < sent.at_ns {
                        continue;
                    }
                    out.instance();
                    if step.at_ns.saturating_add(slack) < left_ns && a.to_ns > step.at_ns.saturating_add(slack) {
                        let text = || {
                            let (p, q) = (model.who(p), model.who(a.proc));
                            format!(
                                "{p} delivered {} as uniform, which {q} cannot have received",
                                model.what(step.message)
                            )
                        };
                        out.violation(&[a.from.1, sent.place, model.place(e, step.index)], text);
                    }
                }
            }
        }
    }
}

/// Time at which the first member was no longer in the view, by its own record or by its installation of a later one. A
/// process that takes the group from an inbox of its own may learn of both long after. Then the first cell view without
/// a member counts as well.
pub(super) fn first_left(run: &Run<'_>, view: ViewIx) -> u64 {
    let model = run.model;
    let group = &model.groups[model.views[view].group];
    let later = group
        .views
        .range((Bound::Excluded(model.views[view].number), Bound::Unbounded))
        .flat_map(|(_, &v)| &model.views[v].epochs);
    let installed = later.map(|&e| model.epochs[e].install.at_ns);
    let ended = model.views[view].epochs.iter().filter_map(|&e| {
        let epoch = &model.epochs[e];
        match epoch.end {
            EpochEnd::GroupLeft => epoch.left_at.map(|m| m.at_ns),
            EpochEnd::Over => model.procs[epoch.proc].over.map(|(_, m)| m.at_ns),
            EpochEnd::Next(_) | EpochEnd::Open => None,
        }
    });
    let members = &model.views[view].members;
    let is_apart = members.iter().any(|&q| model.may_be_apart(view, q));
    let dropped = members.iter().filter(|_| is_apart).filter_map(|&q| run.dropped.first_ns(q));
    installed.chain(ended).chain(dropped).min().unwrap_or(u64::MAX)
}

/// Times in which `q` did not run, or heard none of the other members.
pub(super) fn out_of_reach(model: &Model, view: ViewIx, q: ProcIx, absences: &[Span]) -> Vec<OutOfReach> {
    let mut spans: Vec<Span> = absences.to_vec();
    let mut others = model.views[view].members.iter().filter(|&&r| r != q);
    if let Some(&first) = others.next() {
        let all = model.cut(first, q).to_vec();
        let deaf = others.fold(all, |cut, &r| Span::both(&cut, model.cut(r, q)));
        // An attacker that replays old packets carries them around a cut, both ways.
        let carried = |s: &Span| model.harness.attacks.iter().any(|a| a.overlaps(s));
        spans.extend(deaf.into_iter().filter(|s| !carried(s)));
    }
    let away =
        |s: Span| OutOfReach { proc: q, from: (s.from.at_ns, s.from.place), to_ns: s.to.map_or(u64::MAX, |m| m.at_ns) };
    spans.into_iter().map(away).collect()
}
