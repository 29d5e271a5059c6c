//! Spans of time in which the harness prevented something.

use phalanx_trace::Trouble;

use super::{EpochIx, FaultKind, Model, Moment, ProcIx, Span, ViewIx};
use crate::findings::Place;

impl Span {
    /// Begins a span, or ends the last of `spans`. A second begin, and an end without a begin, have no effect.
    pub(crate) fn note(spans: &mut Vec<Self>, begins: bool, moment: Moment) {
        match spans.last_mut().filter(|last| last.to.is_none()) {
            Some(open) if !begins => open.to = Some(moment),
            None if begins => spans.push(Self { from: moment, to: None }),
            _ => {}
        }
    }

    /// The intersection of both lists. Both are in order of time and do not overlap.
    pub(crate) fn both(one: &[Self], other: &[Self]) -> Vec<Self> {
        let later = |a: Moment, b: Moment| if a.at_ns >= b.at_ns { a } else { b };
        let earlier = |a: Option<Moment>, b: Option<Moment>| match (a, b) {
            (Some(a), Some(b)) => Some(if a.at_ns <= b.at_ns { a } else { b }),
            (end, None) | (None, end) => end,
        };
        let pairs = one.iter().flat_map(|a| other.iter().map(move |b| (a, b)));
        let met = pairs.map(|(a, b)| Self { from: later(a.from, b.from), to: earlier(a.to, b.to) });
        met.filter(|s| s.to.is_none_or(|to| to.at_ns > s.from.at_ns)).collect()
    }

    /// Whether it contains all of `from_ns..=to_ns`.
    pub(crate) fn covers(&self, from_ns: u64, to_ns: u64) -> bool {
        self.from.at_ns <= from_ns && self.to.is_none_or(|to| to.at_ns >= to_ns)
    }

    /// Whether the two have a moment in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.meets(other.from.at_ns, other.to.map_or(u64::MAX, |to| to.at_ns))
    }

    /// Whether it contains a moment of `from_ns..=to_ns`.
    pub(crate) fn meets(&self, from_ns: u64, to_ns: u64) -> bool {
        self.from.at_ns <= to_ns && self.to.is_none_or(|to| to.at_ns >= from_ns)
    }
}

impl Model {
    /// Times in which nothing passed from `from` to `to`, according to the harness.
    pub(crate) fn cut(&self, from: ProcIx, to: ProcIx) -> &[Span] {
        let name = |p: ProcIx| self.procs[p].name.clone();
        let (Some(from), Some(to)) = (name(from), name(to)) else { return &[] };
        self.harness.cuts.get(&(from, to)).map_or(&[], Vec::as_slice)
    }

    /// Times in which the process took nothing of the group of this stay, though it took what concerns itself.
    pub(crate) fn unread(&self, stay: EpochIx) -> &[Span] {
        let epoch = &self.epochs[stay];
        self.harness.unread.get(&(epoch.proc, epoch.inbox)).map_or(&[], Vec::as_slice)
    }

    /// Whether the group of this stay has another inbox than the process itself. Then its records and those of the
    /// process are in no order.
    pub(crate) fn is_apart(&self, stay: EpochIx) -> bool {
        self.epochs[stay].inbox != 0
    }

    /// Whether a member of a group view took the group from another inbox than its own, or may have. A member that never
    /// recorded the view may have had it in an inbox that it did not read.
    pub(crate) fn may_be_apart(&self, view: ViewIx, member: ProcIx) -> bool {
        let view = &self.views[view];
        match view.epochs.iter().find(|&&e| self.epochs[e].proc == member) {
            Some(&stay) => self.is_apart(stay),
            None => self.procs[member].own_inboxes.contains(&self.groups[view.group].name),
        }
    }

    /// Times in which each process did not run: stopped or, to the end, dead.
    pub(crate) fn absences(&self) -> Vec<Vec<Span>> {
        let mut absences = vec![Vec::new(); self.procs.len()];
        for fault in &self.harness.faults {
            Span::note(&mut absences[fault.proc], fault.kind != FaultKind::Cont, fault.moment);
        }
        absences
    }

    /// Whether the process neither died nor was stopped for good, and its application read all events.
    pub(crate) fn reads_to_the_end(&self, p: ProcIx) -> bool {
        let reading = self.harness.troubles.get(&(Trouble::NotReading, Some(p)));
        let stopped = self.harness.faults.iter().rfind(|f| f.proc == p).is_some_and(|f| f.kind != FaultKind::Cont);
        !stopped && self.procs[p].crashed.is_none() && reading.and_then(|r| r.last()).is_none_or(|r| r.to.is_some())
    }

    /// Whether there is a harness, and its clock is that of all processes.
    pub(crate) fn one_clock(&self) -> Option<Place> {
        let harness = self.harness.trace?;
        let same = self.traces.iter().all(|t| t.clock == self.traces[harness].clock);
        same.then_some(Place { trace: harness, index: 0 })
    }
}
