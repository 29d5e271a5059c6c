//! U5, nothing uniform in a minority: a process that was notified that it hears no quorum delivers nothing as uniform
//! until it is notified that it does again, or of a view. Deliveries while a view change blocks sends, or right before
//! the next view, are exempt. They belong to the cut that ends the view. The cut is decided, so it is delivered whether
//! a quorum is heard or not.
//!
//! Instances: uniform messages delivered by a process that heard no quorum at some time in its incarnation. Source: the
//! primary partition model (Chockler, Keidar, Vitenberg 2001, section 3.2): what is delivered outside the primary
//! component is not what it goes on from.

use super::Run;
use crate::findings::Findings;
use crate::model::{Epoch, EpochEnd, Model, Moment, Step};

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
            let view_since = proc.installs.iter().map(|&install| model.installs[install].moment.place.index);
            let is_back = view_since.into_iter().any(|index| told.place.index < index && index < step.index);
            if !is_back && !ends_its_view(model, stay, step) {
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
fn ends_its_view(model: &Model, stay: &Epoch, step: &Step) -> bool {
    let begun = |(since, until): &(Moment, Option<Moment>)| {
        since.place.index < step.index && until.is_none_or(|until| step.index < until.place.index)
    };
    model.procs[stay.proc].blocks.iter().any(begun) || is_at_end(model, stay, step.at_ns)
}

/// Whether the next view, or the end of the stay, follows at once.
pub(super) fn is_at_end(model: &Model, stay: &Epoch, at_ns: u64) -> bool {
    let next = match stay.end {
        EpochEnd::Next(next) => Some(model.epochs[next].install),
        EpochEnd::GroupLeft => stay.left_at,
        EpochEnd::Over | EpochEnd::Open => None,
    };
    next.is_some_and(|next| next.at_ns <= at_ns + AT_ONCE_NS)
}

/// Bound on the time between two events that waited for the application together.
const AT_ONCE_NS: u64 = 1_000_000;
