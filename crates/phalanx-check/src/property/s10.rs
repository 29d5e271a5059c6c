//! S10, a receipt is true: let `p` be notified that its multicasts in the group view `v` are stable up to number `k`.
//!
//! - Each of them was sent by this incarnation of `p` in `v`, before the notice. The notice comes before `p`
//!   is notified of a later view or leaves the group, and notices for a view grow.
//! - Each `q` with `v -> w` has them in `del_q(v)`, whatever becomes of `p`. If no process records that it brought the
//!   state along to a later view of the group, they are in the state from which the group goes on.
//! - If the notice comes before any member left `v`, every member of `v` could have received them: no member was out of
//!   reach from the send to the notice (as in U3).
//! - A process that was notified that it hears no quorum gets no such notice until it is notified that it does again,
//!   or of a view. Notices right before the next view are exempt: they belong to the cut that ends the view, and the
//!   cut is decided. For a group with an inbox of its own a cell view may stand for the next view, which may wait there.
//!   While that inbox is not read, the last notice of a view may be that of its cut: a decree that changes no cell view
//!   shows nowhere else, and its process need not hear a quorum to learn of it.
//!
//! A notice after the incarnation's end is M8. What is sent and never reported as stable when the incarnation ends is
//! in doubt, and nothing is asked of it here.
//!
//! Instances: messages reported as stable, and the same for each other process that went on from their view; *under
//! failure*: of the latter, those whose way out lost a member. Source: stability and safe messages (Chockler, Keidar, Vitenberg 2001); Birman and
//! Joseph 1987 (flush: all survivors have what the view holds).

use std::collections::BTreeMap;

use super::u3::{first_left, out_of_reach};
use super::{Run, carried, s3, u5};
use crate::findings::{Findings, Place};
use crate::model::intern::{FastMap, FastSet};
use crate::model::{EpochEnd, EpochIx, MessageIx, Model, Moment, ProcIx, Receipt, ViewIx};

/// What one process was notified of in one view.
struct Stream {
    sender: ProcIx,
    /// Its messages there in the order of their numbers, with their sends.
    sends: Vec<(MessageIx, Moment)>,
    /// Notices that name messages that were sent: the number of messages, and the notice.
    receipts: Vec<(usize, Moment)>,
}

impl Stream {
    fn stable(&self) -> usize {
        self.receipts.iter().map(|(count, _)| *count).max().unwrap_or(0)
    }

    /// The first notice of the message at that position.
    fn told(&self, position: usize) -> Option<Moment> {
        self.receipts.iter().find(|(count, _)| position < *count).map(|(_, told)| *told)
    }
}

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let mut sends = sends(model);
    let mut views: BTreeMap<ViewIx, Vec<Stream>> = BTreeMap::new();
    for (p, proc) in model.procs.iter().enumerate() {
        let mut of: BTreeMap<ViewIx, Stream> = BTreeMap::new();
        for receipt in &proc.receipts {
            let view = receipt.view;
            // An application that takes its events late may be notified before it knows of the view.
            let is_over = |stay| model.number(stay) > model.views[view].number;
            if receipt.stay.is_none_or(is_over) {
                out.violation(&[receipt.moment.place], || {
                    format!("{} was notified of messages in {}, which is over", model.who(p), model.view_name(view))
                });
                continue;
            }
            let stream = of.entry(view).or_insert_with(|| Stream {
                sender: p,
                sends: sends.remove(&(p, view)).unwrap_or_default(),
                receipts: Vec::new(),
            });
            notice(run, p, receipt, stream, out);
        }
        of.into_iter().for_each(|(view, stream)| views.entry(view).or_default().push(stream));
    }
    for (&view, streams) in &views {
        survivors(model, view, streams, out);
        if model.one_clock().is_some() {
            reception(run, view, streams, out);
        }
    }
    carriers(run, &views, out);
}

/// The sends of each process in each view, by their numbers.
pub(super) fn sends(model: &Model) -> FastMap<(ProcIx, ViewIx), Vec<(MessageIx, Moment)>> {
    let mut sends: FastMap<(ProcIx, ViewIx), Vec<(MessageIx, Moment)>> = FastMap::default();
    for (ix, message) in (0..).zip(&model.messages) {
        let stream = &model.streams[message.stream as usize];
        if let Some(sent) = message.sent.filter(|_| !model.procs[stream.sender].receipts.is_empty()) {
            sends.entry((stream.sender, stream.view)).or_default().push((ix, sent));
        }
    }
    sends.values_mut().for_each(|sends| sends.sort_by_key(|(ix, _)| model.messages[*ix as usize].seq));
    sends
}

/// Evaluates one notice by what its process knew.
fn notice(run: &Run<'_>, p: ProcIx, receipt: &Receipt, stream: &mut Stream, out: &mut Findings) {
    let model = run.model;
    let &Receipt { seq, outside, moment, .. } = receipt;
    let who = || {
        format!("{} was notified that its message {seq} in {} is stable", model.who(p), model.view_name(receipt.view))
    };
    let count = usize::try_from(seq).unwrap_or(usize::MAX);
    let is_sent = |(_, sent): &(MessageIx, Moment)| sent.place.index < moment.place.index;
    let last = count.checked_sub(1).and_then(|last| stream.sends.get(last));
    if !last.is_some_and(is_sent) {
        let evidence: Vec<Place> =
            [Some(moment.place), last.map(|(_, sent)| sent.place)].into_iter().flatten().collect();
        return out.violation(&evidence, || format!("{}, and had not sent it", who()));
    }
    if let Some((_, before)) = stream.receipts.last().filter(|(before, _)| *before >= count) {
        return out.violation(&[before.place, moment.place], || format!("{}, and knew that", who()));
    }
    out.instances += (count - stream.stable()) as u64;
    stream.receipts.push((count, moment));
    let at_end = |stay| u5::is_at_end(model, stay, moment.at_ns) || next_may_wait(model, p, receipt, stay, stream);
    if outside && !receipt.stay.is_some_and(at_end) {
        let told = model.procs[p].primacy.iter().rfind(|(_, told)| told.place.index < moment.place.index);
        let evidence: Vec<Place> = told.map(|(_, told)| told.place).into_iter().chain([moment.place]).collect();
        out.violation(&evidence, || format!("{} while it heard no quorum", who()));
    }
}

/// Whether the next view may have followed at once and waited in an inbox of the group's own: that was not read at the
/// time, and nothing of the process belongs to the view any more, neither a later notice nor a later send.
fn next_may_wait(model: &Model, p: ProcIx, receipt: &Receipt, stay: EpochIx, stream: &Stream) -> bool {
    let at_ns = receipt.moment.at_ns;
    let is_unread = || model.unread(stay).iter().any(|span| span.covers(at_ns, at_ns));
    let of_the_view = model.procs[p].receipts.iter().filter(|other| other.view == receipt.view);
    let is_last = of_the_view.map(|other| other.moment.at_ns).chain(stream.sends.iter().map(|(_, sent)| sent.at_ns));
    model.is_apart(stay) && is_unread() && is_last.fold(0, u64::max) <= at_ns.saturating_add(u5::AT_ONCE_NS)
}

/// Who went on from the view has delivered what was reported as stable.
fn survivors(model: &Model, view: ViewIx, streams: &[Stream], out: &mut Findings) {
    for &q in &model.views[view].epochs {
        let epoch = &model.epochs[q];
        if !matches!(epoch.end, EpochEnd::Next(_)) {
            continue;
        }
        let has: FastSet<MessageIx> = model.delivered(q).map(|step| step.message).collect();
        let lost = model.lost_a_member(q);
        for stream in streams {
            let stable = &stream.sends[..stream.stable()];
            if stream.sender != epoch.proc {
                out.instances += stable.len() as u64;
                out.under_failure += if lost { stable.len() as u64 } else { 0 };
            }
            let Some(lacks) = stable.iter().position(|(message, _)| !has.contains(message)) else { continue };
            let told = stream.told(lacks).map(|told| told.place);
            let evidence: Vec<Place> = told.into_iter().chain([s3::leaving(model, q)]).collect();
            out.violation(&evidence, || {
                let (p, q, what) = (model.who(stream.sender), model.who(epoch.proc), model.what(stable[lacks].0));
                format!("{p} was notified that {what} is stable, which survivor {q} did not deliver")
            });
        }
    }
}

/// No member was out of reach from the send of a message to the notice.
fn reception(run: &Run<'_>, view: ViewIx, streams: &[Stream], out: &mut Findings) {
    let model = run.model;
    let slack = run.options.clock_slack_ns;
    let (left_ns, absences) = (first_left(run, view), model.absences());
    let members = model.views[view].members.iter();
    let away: Vec<_> = members.flat_map(|&q| out_of_reach(model, view, q, &absences[q])).collect();
    for stream in streams {
        for a in away.iter().filter(|a| a.proc != stream.sender) {
            let after = stream.sends.partition_point(|(_, sent)| sent.at_ns <= a.from.0.saturating_add(slack));
            let until = stream.sends.partition_point(|(_, sent)| sent.at_ns <= a.to_ns);
            let Some(told) = stream.told(after).filter(|_| after < until) else { continue };
            let reached_ns = told.at_ns.saturating_add(slack);
            if reached_ns < left_ns && a.to_ns > reached_ns {
                let (message, sent) = stream.sends[after];
                out.violation(&[a.from.1, sent.place, told.place], || {
                    let (p, q) = (model.who(stream.sender), model.who(a.proc));
                    format!("{p} was notified that {} is stable, which {q} cannot have received", model.what(message))
                });
            }
        }
    }
}

/// Where no process recorded that it brought the state along, it holds what was reported as stable before.
fn carriers(run: &Run<'_>, views: &BTreeMap<ViewIx, Vec<Stream>>, out: &mut Findings) {
    let model = run.model;
    for carrier in carried::carriers(run).iter().filter(|carrier| carrier.followed) {
        let stay = &model.epochs[carrier.stay];
        let (group, first) = (model.views[stay.view].group, model.number(carrier.stay));
        for (_, view) in model.groups[group].views.range(..first) {
            for stream in views.get(view).into_iter().flatten() {
                let stable = &stream.sends[..stream.stable()];
                let lacks = stable.iter().position(|(message, _)| !carrier.holds(model, *message));
                let Some(lacks) = lacks else { continue };
                let told = stream.told(lacks).map(|told| told.place);
                let evidence: Vec<Place> = told.into_iter().chain([carrier.place(model)]).collect();
                out.violation(&evidence, || {
                    let (p, q, what) = (model.who(stream.sender), model.who(stay.proc), model.what(stable[lacks].0));
                    format!("{p} was notified that {what} is stable; {q} went on with a state without it")
                });
            }
        }
    }
}
