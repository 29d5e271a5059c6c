//! What the protocol owes after faults: whether the harness left enough of the cell for it to go on, and whether an exclusion
//! was told before the view that excludes could no longer be lost.
//!
//! A view counts as held once a quorum of its members has installed it: whoever makes a quorum of it later finds it. Views
//! beyond may be known to the dead alone, and are then found again by a quorum of the view before. So the cell can go on if
//! of the last held view, and of each view after it, a quorum was spared by the harness. Who was told of its exclusion
//! counts as spared: an exclusion is told only when the view without it is held, so whoever was told earlier would be there
//! still, had the protocol kept its word.

use std::collections::BTreeSet;

use phalanx_trace::Trouble;

use super::{FaultKind, InstallIx, Model, Moment, Over, ProcIx};
use crate::Options;

impl Model {
    /// Whether the harness left enough of each view in which the cell may be. `last` is the highest view anybody installed
    /// until `end_ns`.
    pub(crate) fn can_go_on(
        &self,
        last: InstallIx,
        end_ns: u64,
        spared: &dyn Fn(ProcIx) -> bool,
        options: &Options,
    ) -> bool {
        let (instance, highest) = (self.installs[last].instance, self.installs[last].view);
        let Some(views) = self.cells.get(&instance) else { return false };
        let within = |&i: &InstallIx| self.installs[i].moment.at_ns <= end_ns;
        for (&number, installers) in views.range(..=highest).rev() {
            let Some(first) = installers.iter().copied().find(within) else { continue };
            let members = &self.installs[first].members;
            if !self.is_quorum(members, spared, options) {
                return false;
            }
            // Told by a view that the dead may have held without a record of it: what remains of it cannot be known.
            let hidden = |m: &ProcIx| self.is_lost_unseen(*m, instance, number, end_ns, options);
            if members.iter().any(hidden) {
                return false;
            }
            let installed: BTreeSet<ProcIx> =
                installers.iter().copied().filter(within).map(|i| self.installs[i].proc).collect();
            if self.is_quorum(members, &|m| installed.contains(&m), options) {
                return true;
            }
        }
        true
    }

    /// Whether the process, told until `end_ns` that a view after `number` left it out, may have been told rightly though no
    /// quorum of that view recorded it: because those that may have held it recorded nothing.
    fn is_lost_unseen(&self, told: ProcIx, instance: u64, number: u64, end_ns: u64, options: &Options) -> bool {
        let Some((Over::Excluded(by), at)) = self.procs[told].over else { return false };
        by > number
            && at.at_ns <= end_ns
            && !self.is_held(instance, by, end_ns, &|_| false, options)
            && self.may_be_held(told, instance, by, end_ns, options)
    }

    /// Whether view `by` of the instance, which excluded `told`, may be held at that time: installed by a quorum of its
    /// members, where those count who may have installed it without a record.
    pub(crate) fn may_be_held(&self, told: ProcIx, instance: u64, by: u64, at_ns: u64, options: &Options) -> bool {
        let hides = |m: ProcIx| self.hides(m, at_ns, options);
        if self.cells.get(&instance).is_some_and(|views| views.contains_key(&by)) {
            return self.is_held(instance, by, at_ns, &hides, options);
        }
        // Nobody recorded it, so who is in it is unknown; most of them were in the view before.
        let before =
            self.procs[told].installs.iter().rev().map(|&i| &self.installs[i]).find(|i| i.instance == instance);
        before.is_none_or(|view| view.members.iter().any(|&m| m != told && hides(m)))
            || self.is_left_by_all(told, instance, by, at_ns)
    }

    /// Whether view `by` is the view of nobody with which the instance ended: all members of the last one but `told` went, and one of them
    /// left in order.
    fn is_left_by_all(&self, told: ProcIx, instance: u64, by: u64, at_ns: u64) -> bool {
        let last = self.cells.get(&instance).and_then(|views| views.last_key_value()?.1.first());
        let Some(last) = last.map(|&i| &self.installs[i]).filter(|last| last.view < by) else { return false };
        let is_past = |moment: Option<Moment>| moment.is_some_and(|moment| moment.at_ns <= at_ns);
        let left = |m: ProcIx| {
            let over = self.procs[m].over.as_ref().filter(|(over, _)| *over == Over::Left);
            is_past(over.map(|(_, moment)| *moment))
        };
        let others = || last.members.iter().copied().filter(|&m| m != told);
        others().any(left) && others().all(|m| left(m) || is_past(self.procs[m].crashed))
    }

    /// Whether a quorum of the members of a view had installed it, or a later one, at that time; `besides` them these count.
    fn is_held(
        &self,
        instance: u64,
        view: u64,
        at_ns: u64,
        besides: &dyn Fn(ProcIx) -> bool,
        options: &Options,
    ) -> bool {
        let Some(views) = self.cells.get(&instance) else { return false };
        let Some(first) = views.get(&view).and_then(|installers| installers.first()) else { return false };
        let later = views.range(view..).flat_map(|(_, installers)| installers).map(|&i| &self.installs[i]);
        let installed: BTreeSet<ProcIx> = later.filter(|i| i.moment.at_ns <= at_ns).map(|i| i.proc).collect();
        self.is_quorum(&self.installs[*first].members, &|m| installed.contains(&m) || besides(m), options)
    }

    /// Whether the process may have installed views that are in no trace: it has none, its end is missing, its application
    /// took nothing at that time, or, outside of virtual time, it was stopped or killed in the middle of a turn.
    fn hides(&self, p: ProcIx, at_ns: u64, options: &Options) -> bool {
        let proc = &self.procs[p];
        let halted = || {
            let before = self.harness.faults.iter().rfind(|f| f.proc == p && f.moment.at_ns <= at_ns);
            options.clock_slack_ns > 0 && before.is_some_and(|f| f.kind != FaultKind::Cont)
        };
        let lost = proc.trace.is_none() || !proc.tail_complete || halted();
        let reading = self.harness.troubles.get(&(Trouble::NotReading, Some(p)));
        lost || reading.into_iter().flatten().any(|span| span.meets(at_ns, at_ns))
    }

    fn is_quorum(&self, members: &[ProcIx], counts: &dyn Fn(ProcIx) -> bool, options: &Options) -> bool {
        let present = members.iter().filter(|&&m| counts(m)).count();
        options.quorum.holds(members.len(), present, members.first().is_some_and(|&m| counts(m)))
    }
}
