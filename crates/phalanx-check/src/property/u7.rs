//! U7, too few send nothing uniform: a process that was notified that its cell view, or its group view, has fewer
//! members than agreed sends no uniform message to the group before it is notified that there are enough, or of a view
//! with enough.
//!
//! A message is bound to a view before the application is notified of the next one, or after. The notices at the time
//! of the send are a lower bound on the views in force, and those at the delivery of its own message are an upper
//! bound. A message violates this property if neither of them, and nothing in between, was adequate. A message that its
//! sender does not deliver is not evaluated. If the group has an inbox of its own, the notices for the cell and those
//! for the group are in no order. Then each kind is evaluated by itself, and for the cell those at the moment of the
//! delivery count.
//!
//! The notices must also be true. A group view that is reported as adequate, in a cell of a level with such minima, has
//! at least that many members, and that many of them can hold the group's state. A process that never came into the
//! view, and later into another one of the group, did not have the state. And in the quiet phase a process in a view with
//! enough members that hold the state is notified of that within the bound of V3 and V4.
//!
//! Instances: uniform messages that their sender delivered, by processes that were notified of a minimum above 1,
//! and last views with enough such members;
//! *under failure*: those accepted after there were too few at some time. Source: none of the classical properties; it
//! is the primary partition model with a least size (Chockler, Keidar, Vitenberg 2001, section 3.2), for uniform
//! messages alone.

use super::{Run, v4, v16};
use crate::findings::{Findings, Place};
use crate::model::intern::FastMap;
use crate::model::quiet::Quiet;
use crate::model::{Epoch, EpochIx, Model, Moment, ProcIx};

/// The level from which on minima of groups are in force.
pub(super) const GROUP_MINIMA_LEVEL: u16 = 2;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for e in 0..model.epochs.len() {
        sends(model, e, out);
        is_so(model, e, out);
    }
    if let Some(quiet) = v4::due(run).filter(|quiet| quiet.impaired_ns.is_none()) {
        v4::last_stays(run, quiet).for_each(|e| enough(run, quiet, e, out));
    }
}

/// In the quiet phase, a member of a view with enough members that hold the state is notified of that within the bound.
fn enough(run: &Run<'_>, quiet: &Quiet, e: EpochIx, out: &mut Findings) {
    let (model, epoch) = (run.model, &run.model.epochs[e]);
    let Some(terms) = epoch.terms.filter(|terms| terms.members_min > 1) else { return };
    let view = &model.views[epoch.view];
    let stays: Vec<&Epoch> = view.epochs.iter().map(|&o| &model.epochs[o]).collect();
    let holders = stays.iter().filter(|stay| stay.stateful && quiet.running.contains(&stay.proc)).count();
    let since_ns = stays.iter().map(|stay| stay.install.at_ns).fold(0, u64::max);
    let deadline = v4::deadline_in(run, quiet, epoch.view, since_ns);
    if deadline > quiet.end_ns || v16::concerns(run, e, (since_ns, deadline)) || (holders as u64) < terms.members_min {
        return;
    }
    out.instance();
    let group = model.groups[view.group].id;
    let mut told = model.procs[epoch.proc].adequacy.iter().filter(|told| told.group == Some(group));
    let last = told.rfind(|told| told.moment.at_ns <= deadline);
    if let Some(last) = last.filter(|last| !last.adequate) {
        out.violation(&[quiet.place, last.moment.place], || {
            let (who, asked) = (model.who(epoch.proc), terms.members_min);
            format!("{who} was not notified that group {group} has {holders} members with its state, of {asked}")
        });
    }
}

/// Whether a record names a minimum that a view may fall short of.
fn has_minimum(model: &Model, e: EpochIx) -> bool {
    let epoch = &model.epochs[e];
    let asks = |minimum: Option<u64>| minimum.is_some_and(|members| members > 1);
    asks(epoch.terms.map(|terms| terms.members_min))
        || model.procs[epoch.proc].installs.iter().any(|&i| asks(model.installs[i].minimum))
}

fn sends(model: &Model, e: EpochIx, out: &mut Findings) {
    if !has_minimum(model, e) {
        return;
    }
    let (p, group) = (model.epochs[e].proc, model.views[model.epochs[e].view].group);
    let group = model.groups[group].id;
    let deliveries: FastMap<_, _> = model.delivered(e).map(|step| (step.message, (step.index, step.at_ns))).collect();
    for sent in model.sent(e).filter(|step| step.uniform) {
        let Some(&(delivered, at_ns)) = deliveries.get(&sent.message) else { continue };
        out.instance_when(model.adequacy(p, group).any(|(at, adequate)| !adequate && at.place.index < sent.index));
        if !model.is_ever_adequate((p, group), sent.index, delivered, model.is_apart(e).then_some(at_ns)) {
            let text = || {
                format!(
                    "{} sent {} as uniform where there were too few members",
                    model.who(p),
                    model.what(sent.message)
                )
            };
            let mut evidence = vec![model.place(e, sent.index), model.place(e, delivered)];
            evidence.extend(told_before(model, p, group, sent.index));
            out.violation(&evidence, text);
        }
    }
}

/// The record of that.
fn told_before(model: &Model, p: ProcIx, group: u32, index: usize) -> Option<Place> {
    let told = model.adequacy(p, group).take_while(|(at, _)| at.place.index < index);
    told.last().map(|(at, _)| at.place)
}

fn is_so(model: &Model, e: EpochIx, out: &mut Findings) {
    let epoch = &model.epochs[e];
    let Some(terms) = epoch.terms else { return };
    let (p, view) = (epoch.proc, &model.views[epoch.view]);
    let group = model.groups[view.group].id;
    let next = model.procs[p].epochs.iter().map(|&o| model.epochs[o].install.place.index);
    let end = next.filter(|index| *index > epoch.install.place.index).min().unwrap_or(usize::MAX);
    let stay = epoch.install.place.index..end;
    let told = model.procs[p].adequacy.iter().filter(|told| told.group == Some(group) && told.adequate);
    for at in told.map(|told| told.moment).filter(|at| stay.contains(&at.place.index)) {
        // What came from an inbox of its own may be of an earlier level, and so may a view that waited behind a state.
        let by = if model.is_apart(e) || epoch.transfer.is_some() { first_view(model, p).unwrap_or(at) } else { at };
        if !has_minima(model, p, by) {
            continue;
        }
        let holders = epoch.members.iter().filter(|&&q| !cannot_hold(model, q, e)).count();
        if (holders as u64) < terms.members_min {
            let text = || {
                let (asked, who) = (terms.members_min, model.who(p));
                format!("{who} was notified that a view of group {group} is adequate with {holders} members of {asked}")
            };
            out.violation(&[epoch.install.place, at.place], text);
        }
    }
}

/// The moment right after the process's first cell view.
fn first_view(model: &Model, p: ProcIx) -> Option<Moment> {
    let first = model.installs[*model.procs[p].installs.first()?].moment;
    Some(Moment { place: Place { index: first.place.index + 1, ..first.place }, ..first })
}

/// Whether minima of groups were in force for a process.
fn has_minima(model: &Model, p: ProcIx, at: Moment) -> bool {
    let mut installs = model.procs[p].installs.iter().map(|&i| &model.installs[i]);
    let last = installs.rfind(|install| install.moment.place.index < at.place.index);
    last.and_then(|install| install.level).is_some_and(|(level, _)| level >= GROUP_MINIMA_LEVEL)
}

/// Whether a member never had the state in that view: it was notified of the group only with a later one.
fn cannot_hold(model: &Model, q: ProcIx, e: EpochIx) -> bool {
    let view = &model.views[model.epochs[e].view];
    let own = model.procs[q].epochs.iter().map(|&o| &model.views[model.epochs[o].view]);
    let mut later = false;
    for other in own.filter(|other| other.group == view.group) {
        if other.number == view.number {
            return false;
        }
        later |= other.number > view.number;
    }
    later
}
