//! S13, a message to one member is delivered once, or its sender is told: what `q` delivers of the messages that `p` sent
//! to it alone in a group are messages that `p` sent so, each once, in the order in which they were sent. One is passed
//! over only if a view between it and the next delivered one took one of the two in anew.
//!
//! The messages of `p` that are no answers have outcomes, in the order in which they were sent:
//!
//! - Each has at most one, after its send. All have one when the incarnation of `p` ends by a leave, an exclusion or a
//!   renunciation.
//! - `q` delivers those that are told to be delivered, if it lives on in the cell to the end of the run and takes its
//!   events, or if its incarnation ends in one of these ways.
//! - `q` delivers none of those that are told not to be delivered.
//! - In the quiet phase, between running, connected processes that are in one view of the group to its end, each is told
//!   to be delivered within the bound of V3 and V4. Evaluated only if V1 holds.
//!
//! Instances: messages to one; *under failure*: those that are told not to be delivered, or to be in doubt. Source: S8,
//! S9 and S10 for the messages of a group to one of its members.

use phalanx_trace::ToOneOutcome;

use super::{Run, group_of, s9, v4};
use crate::findings::{Findings, Place};
use crate::model::{Model, Moment, ProcIx, ToOneMessage};

/// A process in a group, as the other end.
type Partner = (u32, ProcIx);

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for (p, proc) in model.procs.iter().enumerate() {
        for (&partner, sent) in &proc.to_one.sent {
            let delivered = match_delivered(run, p, partner, sent, out);
            outcomes(run, p, partner, sent, &delivered, out);
        }
        // What was never sent has no sender's list.
        for (&(group, from), delivered) in &proc.to_one.delivered {
            let is_sent = model.procs[from].to_one.sent.contains_key(&(group, p));
            if !is_sent && (run.options.complete || model.procs[from].trace.is_some()) {
                out.violation(&places(delivered.first()), || {
                    format!("{} delivered a message to it alone that {} never sent", model.who(p), model.who(from))
                });
            }
        }
    }
}

/// Which of the messages were delivered, and where.
fn match_delivered(
    run: &Run<'_>,
    p: ProcIx,
    (group, q): Partner,
    sent: &[ToOneMessage],
    out: &mut Findings,
) -> Vec<Option<Moment>> {
    let model = run.model;
    let mut found = vec![None; sent.len()];
    let delivered = model.procs[q].to_one.delivered.get(&(group, p)).map_or(&[][..], Vec::as_slice);
    let mut next = 0;
    for message in delivered {
        let Some(skipped) = sent[next..].iter().position(|of| of.is(message)) else {
            out.violation(&[message.moment.place], || {
                let (q, p) = (model.who(q), model.who(p));
                format!(
                    "{q} delivered a message to it alone from {p} a second time, out of order, or as it was not sent"
                )
            });
            continue;
        };
        let at = next + skipped;
        if let Some(over) = sent[next..at].iter().find(|over| !parted(model, (group, p, q), over.view, message.view)) {
            out.violation(&[over.moment.place, message.moment.place], || {
                format!("{} passed over a message to it alone from {}", model.who(q), model.who(p))
            });
        }
        found[at] = Some(message.moment);
        next = at + 1;
    }
    found
}

/// Whether a view of the group after `first`, up to `last`, took one of the two in anew.
fn parted(model: &Model, (group, p, q): (u32, ProcIx, ProcIx), first: u64, last: u64) -> bool {
    let stays = [p, q].into_iter().flat_map(|who| &model.procs[who].epochs);
    let of_group = stays.filter(|&&stay| group_of(model, stay) == group).map(|&stay| &model.epochs[stay]);
    of_group
        .filter(|stay| (first + 1..=last).contains(&model.views[stay.view].number))
        .any(|stay| stay.prev.is_none() || [p, q].iter().any(|who| stay.joined.contains(who)))
}

fn outcomes(
    run: &Run<'_>,
    p: ProcIx,
    partner: Partner,
    sent: &[ToOneMessage],
    delivered: &[Option<Moment>],
    out: &mut Findings,
) {
    let (model, (_, q)) = (run.model, partner);
    let proc = &model.procs[p];
    let told = proc.to_one.settled.get(&partner).map_or(&[][..], Vec::as_slice);
    let told = told.iter().flat_map(|&(outcome, messages, at)| (0..messages).map(move |_| (outcome, at)));
    let mut told = told.peekable();
    let has_to = s9::lives_on(model, q) || model.procs[q].over.is_some() && model.procs[q].tail_complete;
    for (message, came) in sent.iter().zip(delivered).filter(|(message, _)| !message.is_answer) {
        let outcome = told.next_if(|(_, at)| at.place.index > message.moment.place.index);
        out.instance_when(outcome.is_some_and(|(outcome, _)| outcome != ToOneOutcome::Delivered));
        let evidence = [Some(message.moment.place), outcome.map(|(_, at)| at.place), came.map(|at| at.place)];
        let evidence: Vec<Place> = evidence.into_iter().flatten().collect();
        let who = || format!("{} sent a message to {} alone", model.who(p), model.who(q));
        match outcome.map(|(outcome, _)| outcome) {
            Some(ToOneOutcome::Delivered) if came.is_none() && has_to => {
                out.violation(&evidence, || format!("{}, was told that it is delivered, and it was not", who()));
            }
            Some(ToOneOutcome::NotDelivered) if came.is_some() => {
                out.violation(&evidence, || format!("{}, was told that it is not delivered, and it was", who()));
            }
            None if proc.over.is_some() && proc.tail_complete => {
                out.violation(&evidence, || format!("{}, and its life ended without a word about it", who()));
            }
            outcome => overdue(run, p, partner, message.moment, outcome, out),
        }
    }
    if let Some((_, at)) = told.next() {
        out.violation(&[at.place], || {
            format!("{} was told the outcome of a message to {} alone that it had not sent", model.who(p), model.who(q))
        });
    }
}

/// In the quiet phase a message is told to be delivered within the bound.
fn overdue(
    run: &Run<'_>,
    p: ProcIx,
    (group, q): Partner,
    sent: Moment,
    outcome: Option<ToOneOutcome>,
    out: &mut Findings,
) {
    if outcome == Some(ToOneOutcome::Delivered) {
        return;
    }
    if let Some(quiet) = v4::is_overdue(run, group, (p, q), sent) {
        let model = run.model;
        out.violation(&[quiet.place, sent.place], || {
            let (p, q) = (model.who(p), model.who(q));
            format!("{p} sent a message to {q} alone, and was not told within the bound that it is delivered")
        });
    }
}

fn places(message: Option<&ToOneMessage>) -> Vec<Place> {
    message.iter().map(|message| message.moment.place).collect()
}
