//! O7, a message to one after its past: let `q` deliver a message that `p` sent to it alone in view `v` of a group. Before
//! that `q` installed `v`. If `v` is the view of the group in force at `q`, it had delivered all multicasts of `v` that
//! `p` had delivered or sent before. If a later view is in force there, `p` is a member of it.
//!
//! What `p` delivered in `v`, and `q` in earlier views than its own, is the business of S3.
//!
//! Instances: messages to one that were delivered and whose past in `v` is not empty; *under failure*: those delivered in a
//! later view. Source: causal delivery (Birman, Schiper, Stephenson 1991, section 3) for messages to one member.

use std::collections::BTreeMap;

use super::{Run, group_of};
use crate::findings::Findings;
use crate::model::{EpochIx, Model, ProcIx, Step, ToOneMessage};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for (q, proc) in model.procs.iter().enumerate() {
        for (&(group, p), delivered) in &proc.to_one.delivered {
            let sent = model.procs[p].to_one.sent.get(&(group, q)).map_or(&[][..], Vec::as_slice);
            let mut next = 0;
            for message in delivered {
                // One that was not sent so is reported by S13.
                let Some(skipped) = sent[next..].iter().position(|of| of.is(message)) else { continue };
                next += skipped + 1;
                judge(model, group, (p, &sent[next - 1]), (q, message), out);
            }
        }
    }
}

fn judge(
    model: &Model,
    group: u32,
    (p, sent): (ProcIx, &ToOneMessage),
    (q, delivered): (ProcIx, &ToOneMessage),
    out: &mut Findings,
) {
    let evidence = [sent.moment.place, delivered.moment.place];
    let who = || format!("{} delivered a message to it alone from {}", model.who(q), model.who(p));
    let Some(here) = stay_at(model, q, group, delivered) else {
        return out.violation(&evidence, || format!("{} in no view of the group", who()));
    };
    let view = model.number(here);
    let past = past(model, p, group, sent);
    if past.is_empty() && view == sent.view {
        return;
    }
    out.instance_when(view > sent.view);
    if view < sent.view {
        return out.violation(&evidence, || format!("{} before the view in which it was sent", who()));
    }
    if view > sent.view {
        if !model.epochs[here].members.contains(&p) {
            out.violation(&evidence, || format!("{} in a view without that one", who()));
        }
        return;
    }
    let before = model.delivered(here).take_while(|step| step.index < delivered.moment.place.index);
    let mut had = counts(model, before);
    let lacks = past.into_iter().find(|(sender, count)| *count > had.remove(sender).unwrap_or(0));
    if let Some((sender, _)) = lacks {
        out.violation(&evidence, || format!("{} before a multicast of {} that is its past", who(), model.who(sender)));
    }
}

/// What the sender had delivered and sent in the view before, by sender.
fn past(model: &Model, p: ProcIx, group: u32, sent: &ToOneMessage) -> BTreeMap<ProcIx, u64> {
    let there = model.procs[p]
        .epochs
        .iter()
        .copied()
        .find(|&stay| group_of(model, stay) == group && model.number(stay) == sent.view);
    // Its application was not told of the view yet, so it had delivered nothing of it.
    let Some(there) = there else { return BTreeMap::new() };
    let is_before = |step: &&Step| step.index < sent.moment.place.index;
    let others = model.delivered(there).take_while(is_before);
    let mut past = counts(model, others.filter(|step| model.stream_of(step.message).sender != p));
    let own = model.sent(there).take_while(is_before).count() as u64;
    if own > 0 {
        past.insert(p, own);
    }
    past
}

fn counts<'a>(model: &Model, steps: impl Iterator<Item = &'a Step>) -> BTreeMap<ProcIx, u64> {
    let mut counts = BTreeMap::new();
    for step in steps {
        *counts.entry(model.stream_of(step.message).sender).or_default() += 1;
    }
    counts
}

/// The stay of the receiver in the group's view that was in force.
fn stay_at(model: &Model, q: ProcIx, group: u32, at: &ToOneMessage) -> Option<EpochIx> {
    model.procs[q]
        .epochs
        .iter()
        .copied()
        .rfind(|&stay| group_of(model, stay) == group && model.epochs[stay].install.place.index < at.moment.place.index)
}
