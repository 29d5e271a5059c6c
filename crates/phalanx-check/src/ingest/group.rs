//! Reads records of groups: views, multicasts, state transfer.

use phalanx_trace::{Event, LeaveReason};

use super::Builder;
use crate::findings::Place;
use crate::model::intern::Said;
use crate::model::{
    Digest, Epoch, EpochEnd, Group, MessageIx, Moment, ProcIx, Replayed, SetSum, Snapshot, Step, Stray, StrayKind,
    Transfer, View, ViewIx,
};

impl Builder {
    pub(super) fn group_view(&mut self, me: ProcIx, event: &Event, moment: Moment) {
        let Event::GroupView { group: id, name, view, prev, members, joined, left } = event else { return };
        let group = self.group(*id);
        self.model.groups[group].name.clone_from(name);
        let view = self.view(group, *view);
        let members: Vec<ProcIx> = members.iter().map(|&m| self.proc(m)).collect();
        let joined = joined.iter().map(|&m| self.proc(m)).collect();
        let left = left.iter().map(|&(m, reason)| (self.proc(m), reason)).collect();
        let steps = self.bound_to(*id, self.model.views[view].number);
        let ix = self.model.epochs.len();
        let prev_epoch = self.now.open.insert(*id, ix);
        if let Some(prev) = prev_epoch {
            self.model.epochs[prev].end = EpochEnd::Next(ix);
        }
        let asked = self.now.asked.iter().position(|(n, _)| n == name);
        // A process that lost a group's state rejoins without a new request; its earlier one still counts.
        let inbox = match prev_epoch {
            Some(prev) => self.model.epochs[prev].inbox,
            None => self.now.inboxes.get(name).copied().unwrap_or(0),
        };
        // By name: what an observer comes back to is another group.
        let of_name = |&e: &usize| self.model.groups[self.model.views[self.model.epochs[e].view].group].name == *name;
        let last = self.model.procs[me].epochs.iter().copied().rfind(of_name);
        let lost = |&e: &usize| self.model.epochs[e].lost.is_some_and(|(why, _)| why == LeaveReason::Anew);
        let back = last.filter(lost).filter(|_| prev_epoch.is_none());
        let asked_state = match (back, asked) {
            (Some(before), _) => self.first_of_stay(before).asked_state,
            (None, Some(at)) if prev_epoch.is_none() => self.now.asked.swap_remove(at).1,
            _ => false,
        };
        // Who refused the group's state is in it without, until it has left.
        let refused = self.now.senseless.contains(name);
        let refuses = prev_epoch.is_none() && refused;
        let transfer = self.now.transfers.remove(id).map(|mut transfer| {
            if refuses {
                transfer.ends.clear();
            }
            transfer
        });
        let asked_state = asked_state && !refuses;
        if self.model.views[view].members.is_empty() {
            self.model.views[view].members.clone_from(&members);
        }
        self.model.views[view].epochs.push(ix);
        self.model.procs[me].epochs.push(ix);
        self.model.epochs.push(Epoch {
            proc: me,
            view,
            install: moment,
            prev: *prev,
            terms: None,
            incomplete: Vec::new(),
            observers: Vec::new(),
            prev_epoch,
            inbox,
            members,
            joined,
            left,
            steps,
            deliveries: 0,
            digests: Vec::new(),
            transfer,
            asked_state,
            refused,
            wants_state: asked_state || prev_epoch.is_some_and(|prev| self.model.epochs[prev].wants_state),
            end: EpochEnd::Open,
            left_at: None,
            lost: None,
            came_back: back.is_some(),
            set: SetSum::default(),
            stateful: false,
            diverged: false,
        });
    }

    /// The first view of the group in the stay that contains a view.
    fn first_of_stay(&self, mut epoch: usize) -> &Epoch {
        while let Some(before) = self.model.epochs[epoch].prev_epoch {
            epoch = before;
        }
        &self.model.epochs[epoch]
    }

    pub(super) fn send(&mut self, me: ProcIx, event: &Event, moment: Moment) {
        let &Event::Send { group: id, view, seq, order, uniform, hash } = event else { return };
        let Some(&epoch) = self.now.open.get(&id) else {
            self.stray(StrayKind::Send, id);
            return;
        };
        let in_force = self.number_in_force(epoch);
        let said = Said { seq, order, uniform, hash, sent: Some(moment) };
        let message = self.message(id, view, me, said);
        let step = Step {
            index: moment.place.index,
            at_ns: moment.at_ns,
            hash,
            position: None,
            message,
            sent: true,
            order,
            uniform,
            foreign: view < in_force,
        };
        if view > in_force {
            self.now.early.entry(id).or_default().push((view, step));
        } else {
            self.model.epochs[epoch].steps.push(step);
        }
    }

    /// The sends bound to this view. Sends bound to an earlier view that was never installed are strays.
    fn bound_to(&mut self, group: u32, number: u64) -> Vec<Step> {
        let waiting = self.now.early.remove(&group).unwrap_or_default();
        let (due, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(view, _)| *view <= number);
        if !later.is_empty() {
            self.now.early.insert(group, later);
        }
        due.into_iter().map(|(view, step)| Step { foreign: view != number, ..step }).collect()
    }

    pub(super) fn deliver(&mut self, event: &Event, moment: Moment) {
        let &Event::Deliver { group: id, view, sender, seq, order, uniform, position, hash, replayed } = event else {
            return;
        };
        let sender = self.proc(sender);
        let message = self.message(id, view, sender, Said { seq, order, uniform, hash, sent: None });
        let index = moment.place.index;
        let mut step =
            Step { index, at_ns: moment.at_ns, hash, position, message, sent: false, order, uniform, foreign: false };
        match (self.now.open.get(&id).copied(), replayed) {
            (Some(epoch), false) => {
                step.foreign = self.number_in_force(epoch) != view;
                let epoch = &mut self.model.epochs[epoch];
                epoch.deliveries += 1;
                epoch.steps.push(step);
            }
            (None, true) => {
                let transfer = self.now.transfers.entry(id).or_default();
                transfer.replayed.push(Replayed { step, place: moment.place });
            }
            (Some(_), true) => self.stray(StrayKind::Replay, id),
            (None, false) => self.stray(StrayKind::Delivery, id),
        }
    }

    pub(super) fn snapshot_out(&mut self, group: u32, view: u64) {
        if let Some(&epoch) = self.now.open.get(&group).filter(|&&e| self.number_in_force(e) == view) {
            let steps = self.model.epochs[epoch].steps.len();
            self.model.snapshots.push(Snapshot { epoch, steps });
        }
    }

    pub(super) fn snapshot_in(&mut self, me: ProcIx, group: u32, bytes: u64, moment: Moment) {
        let place = moment.place;
        let begun = (self.group(group), moment);
        self.model.procs[me].begun.push(begun);
        if let Some(&epoch) = self.now.open.get(&group) {
            self.model.epochs[epoch].transfer.get_or_insert_default().misplaced.push(place);
            return;
        }
        // A new donor's snapshot replaces everything that came from the previous donor.
        let Transfer { ends, .. } = self.now.transfers.remove(&group).unwrap_or_default();
        self.now.transfers.insert(group, Transfer { snapshot: Some((bytes, place)), ends, ..Transfer::default() });
    }

    pub(super) fn state_end(&mut self, group: u32, digest: u64, place: Place) {
        match self.now.open.get(&group) {
            Some(&epoch) => self.model.epochs[epoch].transfer.get_or_insert_default().misplaced.push(place),
            None => self.now.transfers.entry(group).or_default().ends.push((digest, place)),
        }
    }

    pub(super) fn digest(&mut self, (group, view): (u32, u64), delivered: u64, digest: u64, place: Place) {
        if let Some(&epoch) = self.now.open.get(&group).filter(|&&e| self.number_in_force(e) == view) {
            let epoch = &mut self.model.epochs[epoch];
            epoch.digests.push(Digest { delivered, digest, place, steps: epoch.steps.len() });
        }
    }

    fn message(&mut self, id: u32, view: u64, sender: ProcIx, said: Said) -> MessageIx {
        // Most records belong to the view in force; for these no search is needed.
        let in_force = self.now.open.get(&id).map(|&e| self.model.epochs[e].view);
        let (group, view) = match in_force.filter(|&v| self.model.views[v].number == view) {
            Some(v) => (self.model.views[v].group, v),
            None => {
                let group = self.group(id);
                (group, self.view(group, view))
            }
        };
        self.messages.note(&mut self.model.streams, &mut self.model.messages, (group, view, sender), said)
    }

    fn number_in_force(&self, epoch: usize) -> u64 {
        self.model.views[self.model.epochs[epoch].view].number
    }

    pub(super) fn group(&mut self, id: u32) -> usize {
        let instance = self.now.lineage;
        *self.groups.entry((instance, id)).or_insert_with(|| {
            let (name, views) = (String::new(), std::collections::BTreeMap::new());
            self.model.groups.push(Group { instance, id, name, views });
            self.model.groups.len() - 1
        })
    }

    pub(super) fn view(&mut self, group: usize, number: u64) -> ViewIx {
        *self.model.groups[group].views.entry(number).or_insert_with(|| {
            self.model.views.push(View { group, number, members: Vec::new(), epochs: Vec::new() });
            self.model.views.len() - 1
        })
    }

    fn stray(&mut self, kind: StrayKind, group: u32) {
        let place = self.place();
        self.model.strays.push(Stray { kind, group, place });
    }
}
