//! Queries of the model by the properties.

use std::collections::BTreeMap;

use phalanx_trace::LeaveReason;

use super::{EpochEnd, EpochIx, MessageIx, Model, Moment, ProcIx, SetSum, Step, Stream, ViewIx, intern};
use crate::findings::Place;

impl SetSum {
    /// Adds a message that is not in the set.
    pub(crate) fn add(&mut self, message: MessageIx) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(intern::scramble(u64::from(message) + 1));
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { count: self.count + other.count, sum: self.sum.wrapping_add(other.sum) }
    }
}

impl Model {
    pub(crate) fn stream_of(&self, message: MessageIx) -> &Stream {
        &self.streams[self.messages[message as usize].stream as usize]
    }

    /// Describes a process: name and incarnation.
    pub(crate) fn who(&self, proc: ProcIx) -> String {
        let p = &self.procs[proc];
        format!("{} ({:016x})", p.name.as_deref().unwrap_or("?"), p.incarnation)
    }

    /// Describes a message.
    pub(crate) fn what(&self, message: MessageIx) -> String {
        let stream = self.stream_of(message);
        let (number, seq) = (self.views[stream.view].number, self.messages[message as usize].seq);
        format!(
            "message {seq} of {} in view {number} of group {}",
            self.who(stream.sender),
            self.groups[stream.group].id
        )
    }

    /// Describes a group view.
    pub(crate) fn view_name(&self, view: ViewIx) -> String {
        let view = &self.views[view];
        let group = &self.groups[view.group];
        format!("view {} of group {} {:?}", view.number, group.id, group.name)
    }

    /// The number of a stay's view.
    pub(crate) fn number(&self, epoch: EpochIx) -> u64 {
        self.views[self.epochs[epoch].view].number
    }

    pub(crate) fn place(&self, epoch: EpochIx, index: usize) -> Place {
        Place { trace: self.epochs[epoch].install.place.trace, index }
    }

    /// Whether times of two traces can be compared.
    pub(crate) fn same_clock(&self, a: usize, b: usize) -> bool {
        self.traces[a].clock == self.traces[b].clock
    }

    /// Deliveries of messages of the view itself, in order.
    pub(crate) fn delivered(&self, epoch: EpochIx) -> impl DoubleEndedIterator<Item = &Step> + Clone {
        self.epochs[epoch].steps.iter().filter(|s| !s.sent && !s.foreign)
    }

    /// Sends bound to the view itself, in order.
    pub(crate) fn sent(&self, epoch: EpochIx) -> impl Iterator<Item = &Step> {
        self.epochs[epoch].steps.iter().filter(|s| s.sent && !s.foreign)
    }

    /// The stays in `view`, grouped by the next view their process installed. `None` holds those that installed none.
    pub(crate) fn ways_out(&self, view: ViewIx) -> BTreeMap<Option<u64>, Vec<EpochIx>> {
        let mut ways: BTreeMap<Option<u64>, Vec<EpochIx>> = BTreeMap::new();
        for &e in &self.views[view].epochs {
            let next = match self.epochs[e].end {
                EpochEnd::Next(next) => Some(self.views[self.epochs[next].view].number),
                EpochEnd::GroupLeft | EpochEnd::Over | EpochEnd::Open => None,
            };
            ways.entry(next).or_default().push(e);
        }
        ways
    }

    /// Whether a member was lost on the way out of this stay. A member that merely left does not count.
    pub(crate) fn lost_a_member(&self, epoch: EpochIx) -> bool {
        let EpochEnd::Next(next) = self.epochs[epoch].end else { return false };
        self.epochs[next].left.iter().any(|&(_, reason)| reason != LeaveReason::Left)
    }

    pub(crate) fn seq(&self, step: &Step) -> u64 {
        self.messages[step.message as usize].seq
    }

    /// The last stay of a process in a group.
    pub(crate) fn last_stay(&self, p: ProcIx, group: usize) -> Option<EpochIx> {
        self.procs[p].epochs.iter().copied().rfind(|&e| self.views[self.epochs[e].view].group == group)
    }

    /// Whether an operator gave up the group of that name between the two moments, so that it no longer waits for its
    /// members that are cut off.
    pub(crate) fn was_given_up(&self, name: &str, after: &Moment, at: &Moment) -> bool {
        self.given_up.iter().any(|(of, asked)| of == name && (after.at_ns..=at.at_ns).contains(&asked.at_ns))
    }

    /// Changes of whether a process may send uniform messages to a group, according to the notices for its cell view
    /// and its group view. It may until it is notified otherwise.
    pub(crate) fn adequacy(&self, p: ProcIx, group: u32) -> impl Iterator<Item = (Moment, bool)> {
        let (mut cell, mut own) = (true, true);
        self.procs[p].adequacy.iter().filter_map(move |told| {
            match told.group {
                None => cell = told.adequate,
                Some(of) if of == group => own = told.adequate,
                Some(_) => return None,
            }
            Some((told.moment, cell && own))
        })
    }

    /// Whether it may at some time between two of its records. `apart`: notices for the cell and for the group are in no
    /// order, so that each of the two kinds says so by itself, that for the cell until this time.
    pub(crate) fn is_ever_adequate(&self, of: (ProcIx, u32), from: usize, to: usize, apart: Option<u64>) -> bool {
        let (p, group) = of;
        let Some(until_ns) = apart else { return is_ever(self.adequacy(p, group), from, |at| at.place.index < to) };
        let told = |whose: Option<u32>| {
            let told = self.procs[p].adequacy.iter().filter(move |told| told.group == whose);
            told.map(|told| (told.moment, told.adequate))
        };
        is_ever(told(None), from, |at| at.at_ns <= until_ns)
            && is_ever(told(Some(group)), from, |at| at.place.index < to)
    }

    /// Whether it may not at some time between two moments.
    pub(crate) fn is_ever_inadequate(&self, p: ProcIx, group: u32, from_ns: u64, to_ns: u64) -> bool {
        let mut last = true;
        for (at, adequate) in self.adequacy(p, group).take_while(|(at, _)| at.at_ns <= to_ns) {
            if at.at_ns >= from_ns && !(last && adequate) {
                return true;
            }
            last = adequate;
        }
        !last
    }
}

/// Whether one of these changes, or the state before the first of them, is true from a record on, of those that count.
fn is_ever(changes: impl Iterator<Item = (Moment, bool)>, from: usize, counts: impl Fn(Moment) -> bool) -> bool {
    let mut last = true;
    for (at, adequate) in changes.take_while(|(at, _)| counts(*at)) {
        if at.place.index >= from && (last || adequate) {
            return true;
        }
        last = adequate;
    }
    last
}
