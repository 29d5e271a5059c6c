//! The state from which a group goes on, where no process recorded that it brought the state along: the state with
//! which joiners came to the group's next view.

use super::{Run, x1};
use crate::findings::Place;
use crate::model::intern::FastSet;
use crate::model::{EpochIx, MessageIx, Model, ProcIx, Step};

/// A joiner that came with a state to a view to which no process recorded to have brought it.
pub(super) struct Carrier {
    /// Its first stay in the group.
    pub(super) stay: EpochIx,
    /// Whether its view holds members that had been there before. They brought the state and were killed before they
    /// recorded it. Or it holds the last incarnation's state of a member that no view had left out.
    pub(super) followed: bool,
    replayed: FastSet<MessageIx>,
    /// For each donor's snapshot that it may have taken: the number of its view, and the donor's deliveries in that
    /// view.
    snapshots: Vec<(u64, FastSet<MessageIx>)>,
}

impl Carrier {
    /// Whether the message is in the joiner's state.
    pub(super) fn holds(&self, model: &Model, message: MessageIx) -> bool {
        let view = model.views[model.stream_of(message).view].number;
        let in_snapshot = |(number, delivered): &(u64, FastSet<MessageIx>)| {
            view < *number || view == *number && delivered.contains(&message)
        };
        self.replayed.contains(&message) || self.snapshots.iter().any(in_snapshot)
    }

    pub(super) fn place(&self, model: &Model) -> Place {
        model.epochs[self.stay].install.place
    }
}

/// All such joiners. If a process recorded that it brought the state to a joiner's first view, X1 and X2 compare the
/// joiner with it instead.
pub(super) fn carriers(run: &Run<'_>) -> Vec<Carrier> {
    let model = run.model;
    let alone = |&joiner: &EpochIx| {
        let view = &model.views[model.epochs[joiner].view];
        view.epochs.iter().all(|&e| model.epochs[e].prev_epoch.is_none())
    };
    let kept = (0..model.epochs.len()).filter_map(|e| from_kept(model, e));
    x1::joiners(model).filter(alone).filter_map(|joiner| carrier(model, joiner)).chain(kept).collect()
}

/// A group that was cut off goes on with the state that an earlier incarnation of the process kept.
fn from_kept(model: &Model, e: EpochIx) -> Option<Carrier> {
    let stay = &model.epochs[e];
    let transfer = stay.transfer.as_ref()?;
    let kept = transfer.kept?;
    let snapshots = model.last_stay(kept.was, model.views[stay.view].group).into_iter();
    let snapshots = snapshots.map(|left| (model.number(left), model.delivered(left).map(|s| s.message).collect()));
    Some(Carrier {
        stay: e,
        followed: !is_left_out(model, kept.was, e),
        replayed: transfer.replayed.iter().map(|r| r.step.message).collect(),
        snapshots: snapshots.collect(),
    })
}

/// Whether a cell view had left out the process whose state goes on at this stay, in another instance, by command. All of
/// that view are lost by then, unless they live. What they delivered with it, and later, that process cannot have.
fn is_left_out(model: &Model, was: ProcIx, e: EpochIx) -> bool {
    let stay = &model.epochs[e];
    let Some(last) = model.procs[was].installs.last().map(|&i| &model.installs[i]) else { return false };
    let goes_on = model.procs[stay.proc].installs.iter().any(|&i| model.installs[i].instance == last.instance);
    let commanded = || model.anew_asked.iter().any(|at| (last.moment.at_ns..=stay.install.at_ns).contains(&at.at_ns));
    let views = model.cells.get(&last.instance).into_iter().flat_map(|views| views.range(last.view + 1..));
    let mut later = views.flat_map(|(_, installs)| installs).map(|&i| &model.installs[i]);
    !goes_on && commanded() && later.any(|install| !install.members.contains(&was))
}

fn carrier(model: &Model, joiner: EpochIx) -> Option<Carrier> {
    let stay = &model.epochs[joiner];
    let (group, first) = (model.views[stay.view].group, model.number(joiner));
    let transfer = stay.transfer.as_ref()?;
    let (bytes, _) = transfer.snapshot?;
    // An empty snapshot is no member's state.
    let given = model.snapshots.iter().filter(|s| {
        bytes > 0 && model.views[model.epochs[s.epoch].view].group == group && model.number(s.epoch) < first
    });
    let snapshots = given.map(|s| {
        let steps = model.epochs[s.epoch].steps[..s.steps].iter().filter(|step| !step.sent && !step.foreign);
        (model.number(s.epoch), steps.map(|step| step.message).collect())
    });
    Some(Carrier {
        stay: joiner,
        followed: stay.members.iter().any(|m| !stay.joined.contains(m)),
        replayed: transfer.replayed.iter().map(|r| r.step.message).collect(),
        snapshots: snapshots.collect(),
    })
}

/// Deliveries as uniform in views of the group before the carrier's.
pub(super) fn uniform_before<'a>(
    model: &'a Model,
    carrier: &Carrier,
) -> impl Iterator<Item = (EpochIx, &'a Step)> + use<'a> {
    let stay = &model.epochs[carrier.stay];
    let (group, first) = (model.views[stay.view].group, model.number(carrier.stay));
    let views = model.groups[group].views.range(..first);
    let stays = views.flat_map(|(_, &view)| model.views[view].epochs.iter().copied());
    stays.flat_map(|e| model.delivered(e).filter(|step| step.uniform).map(move |step| (e, step)))
}
