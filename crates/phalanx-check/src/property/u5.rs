//! U5, nothing uniform in a minority: a process that was notified that it hears no quorum delivers nothing as uniform
//! until it is notified that it does again, or of a view. Deliveries while a view change blocks sends, or right before
//! the next view, are exempt. They belong to the cut that ends the view. The cut is decided, so it is delivered whether
//! a quorum is heard or not. If the group has an inbox of its own, two more kinds are exempt: what comes at the same moment
//! as the later notice, and what may have waited there when the process was notified. That came at the same moment, or
//! the inbox was not read meanwhile.
//!
//! Instances: uniform messages delivered by a process that heard no quorum at some time in its incarnation. Source: the
//! primary partition model (Chockler, Keidar, Vitenberg 2001, section 3.2): what is delivered outside the primary
//! component is not what it goes on from.

use super::Run;
use crate::findings::Findings;
use crate::model::{EpochEnd, EpochIx, Model, Moment, Step};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for (epoch, stay) in model.epochs.iter().enumerate() {
        let proc = &model.procs[stay.proc];
        if proc.primacy.is_empty() {
            continue;
        }
        for step in model.delivered(epoch).filter(|step| step.uniform) {
            out.instance();
            let told = proc.primacy.iter().rfind(|(_, moment)| moment.place.index < step.index);
            let Some((false, told)) = told else { continue };
            if model.is_apart(epoch) && is_back_at_once(model, epoch, told, step) {
                continue;
            }
            let view_since = proc.installs.iter().map(|&install| model.installs[install].moment.place.index);
            let is_back = view_since.into_iter().any(|index| told.place.index < index && index < step.index);
            if !is_back && !ends_its_view(model, epoch, step) && !may_have_waited(model, epoch, told, step) {
                out.violation(&[told.place, model.place(epoch, step.index)], || {
                    format!(
                        "{} delivered the uniform {} while it heard no quorum",
                        model.who(stay.proc),
                        model.what(step.message)
                    )
                });
            }
        }
    }
}

/// Whether the message belongs to the cut that ends the view: a view change has begun, or the next view follows at
/// once. An application that reads late sees the view change's beginning and end before the deliveries between them.
fn ends_its_view(model: &Model, stay: EpochIx, step: &Step) -> bool {
    let begun = |(since, until): &(Moment, Option<Moment>)| {
        since.place.index < step.index && until.is_none_or(|until| step.index < until.place.index)
    };
    model.procs[model.epochs[stay].proc].blocks.iter().any(begun) || is_at_end(model, stay, step.at_ns)
}

/// Whether the notice that a quorum is heard again, or a view, comes at the same moment: from another inbox, so before or
/// after.
fn is_back_at_once(model: &Model, stay: EpochIx, told: &Moment, step: &Step) -> bool {
    let proc = &model.procs[model.epochs[stay].proc];
    let back = proc.primacy.iter().filter(|(primary, _)| *primary).map(|(_, moment)| *moment);
    let views = proc.installs.iter().map(|&install| model.installs[install].moment);
    let is_then = |moment: Moment| moment.place.index > told.place.index && moment.at_ns <= step.at_ns;
    back.chain(views).any(is_then)
}

/// Whether the message may have been handed over before the notice, and waited in an inbox of its own.
fn may_have_waited(model: &Model, stay: EpochIx, told: &Moment, step: &Step) -> bool {
    let unread = || model.unread(stay).iter().any(|span| span.meets(told.at_ns, step.at_ns));
    model.is_apart(stay) && (step.at_ns <= told.at_ns || unread())
}

/// Whether the next view, or the end of the stay, follows at once. If the group has an inbox of its own, a cell view
/// shows it as well: the group view may have to wait.
pub(super) fn is_at_end(model: &Model, stay_ix: EpochIx, at_ns: u64) -> bool {
    let stay = &model.epochs[stay_ix];
    let until_ns = at_ns.saturating_add(AT_ONCE_NS);
    let at_once = |moment: Moment| (at_ns..=until_ns).contains(&moment.at_ns);
    let mut cell = model.procs[stay.proc].installs.iter().map(|&install| model.installs[install].moment);
    if model.is_apart(stay_ix) && cell.any(at_once) {
        return true;
    }
    let next = match stay.end {
        EpochEnd::Next(next) => Some(model.epochs[next].install),
        EpochEnd::GroupLeft => stay.left_at,
        EpochEnd::Over | EpochEnd::Open => None,
    };
    next.is_some_and(|next| next.at_ns <= until_ns)
}

/// Bound on the time between two events that waited for the application together.
pub(super) const AT_ONCE_NS: u64 = 1_000_000;
