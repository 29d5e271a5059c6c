//! Reads what is said of submits.

use phalanx_trace::{Event, SubmitStep};

use super::Builder;
use crate::model::submits::SubmitRecord;
use crate::model::{MessageIx, Moment, ProcIx, Step};

/// Reads a step of a submit.
pub(super) fn read(builder: &mut Builder, me: ProcIx, event: &Event, moment: Moment) {
    let Event::Submit { group, client, number, what } = event else { return };
    let message = match what {
        SubmitStep::Executed { view, position, .. } => delivered_at(builder, me, *group, (*view, *position)),
        _ => None,
    };
    let (group, submit) = (builder.group(*group), (*client, *number));
    builder.model.submits.push(SubmitRecord { proc: me, group, submit, what: *what, message, moment });
}

/// The message that the process delivered last at that position of the total order of that view, also within a state transfer.
fn delivered_at(builder: &Builder, me: ProcIx, group: u32, (view, position): (u64, u64)) -> Option<MessageIx> {
    let model = &builder.model;
    let is_it = |step: &Step| {
        let of = &model.views[model.stream_of(step.message).view];
        let is_there = step.position == Some(position) && of.number == view && model.groups[of.group].id == group;
        (!step.sent && is_there).then_some(step.message)
    };
    let comes = builder.now.transfers.get(&group);
    let stays = model.procs[me].epochs.iter().rev().map(|stay| &model.epochs[*stay]);
    let came = stays.clone().filter_map(|stay| stay.transfer.as_ref());
    let replayed = comes.into_iter().chain(came).flat_map(|transfer| transfer.replayed.iter().rev());
    let in_views = stays.flat_map(|stay| stay.steps.iter().rev());
    in_views.chain(replayed.map(|replayed| &replayed.step)).find_map(is_it)
}
