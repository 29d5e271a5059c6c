//! U5, nothing uniform in a minority: a process that was told that it hears no quorum delivers nothing as uniform until it is
//! told that it does again, or that a view followed. What comes while a view change asks for silence, or right before the next view,
//! is of the cut that ends the view: that is decided, and so delivered whoever hears what.
//!
//! Instances: uniform messages delivered by a process that heard no quorum in its life. Source: the primary partition model
//! (Chockler, Keidar, Vitenberg 2001, section 3.2): what is delivered outside the primary component is not what it goes on from.

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

/// Whether the message is of the cut that ends the view: a view change has begun, or the next view follows at once. An application
/// that reads late hears of the view change's beginning and end before it reads what came between them.
fn ends_its_view(model: &Model, stay: &Epoch, step: &Step) -> bool {
    let within = |(since, until): &(Moment, Option<Moment>)| {
        since.place.index < step.index && until.is_none_or(|until| step.index < until.place.index)
    };
    let next = match stay.end {
        EpochEnd::Next(next) => Some(model.epochs[next].install),
        EpochEnd::GroupLeft => stay.left_at,
        EpochEnd::Over | EpochEnd::Open => None,
    };
    model.procs[stay.proc].blocks.iter().any(within) || next.is_some_and(|next| next.at_ns <= step.at_ns + AT_ONCE_NS)
}

/// From one item that waits for the application to the next.
const AT_ONCE_NS: u64 = 1_000_000;
