//! What the protocol owes after faults: whether the harness left enough of the cell for it to go on, and whether an
//! exclusion was announced before its view was safe from being lost.
//!
//! A view is *held* once a quorum of its members has installed it, because every later quorum of it finds it. A view
//! beyond the last held one may be known to dead processes only. A quorum of the view before then decides anew. So the
//! cell can go on if the harness spared a quorum of the last held view, and of each view after it.
//!
//! A process that was notified of its exclusion counts as spared. The notice may come only when the view without the
//! process is held. A process that is notified earlier would still be there if the protocol had kept that promise.

use std::collections::BTreeSet;

use phalanx_trace::Trouble;

use super::{FaultKind, InstallIx, Model, Moment, Over, ProcIx};
use crate::Options;

impl Model {
    /// Whether the harness left enough of each view in which the cell may be. `last` is the highest view that any
    /// process installed until `end_ns`.
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
        // From the highest view down to the first one that is held: the cell cannot be in an earlier one any more.
        for (&number, installers) in views.range(..=highest).rev() {
            let Some(first) = installers.iter().copied().find(within) else { continue };
            let members = &self.installs[first].members;
            if !self.is_quorum(members, spared, options) {
                return false;
            }
            // The notice came with a view that dead processes may have held without a record. What remains of that view
            // cannot be known.
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

    /// Whether the process, notified by `end_ns` of a view after `number` without it, may have been notified rightly
    /// although no quorum of that view recorded it. That is so if those that may have held it recorded nothing.
    fn is_lost_unseen(&self, told: ProcIx, instance: u64, number: u64, end_ns: u64, options: &Options) -> bool {
        let Some((Over::Excluded(by), at)) = self.procs[told].over else { return false };
        by > number
            && at.at_ns <= end_ns
            && !self.is_held(instance, by, end_ns, &|_| false, options)
            && self.may_be_held(told, instance, by, end_ns, options)
    }

    /// Whether view `by` of the instance, which excluded `told`, may be held at that time. It is if a quorum of its
    /// members installed it; members that may have installed it without a record count.
    pub(crate) fn may_be_held(&self, told: ProcIx, instance: u64, by: u64, at_ns: u64, options: &Options) -> bool {
        let hides = |m: ProcIx| self.hides(m, at_ns, options);
        if self.cells.get(&instance).is_some_and(|views| views.contains_key(&by)) {
            return self.is_held(instance, by, at_ns, &hides, options);
        }
        // No process recorded the view, so its members are unknown. Most of them were in the view before.
        let before =
            self.procs[told].installs.iter().rev().map(|&i| &self.installs[i]).find(|i| i.instance == instance);
        before.is_none_or(|view| view.members.iter().any(|&m| m != told && hides(m)))
            || self.is_left_by_all(told, instance, by, at_ns)
    }

    /// Whether view `by` is the empty view that ended the instance: all members of the last one except `told` went, and
    /// one of them left in order.
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

    /// Whether a quorum of a view's members had installed it, or a later one, at that time. The processes `besides`
    /// count as well.
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

    /// Whether the process may have installed views that are in no trace. This is so if it has no trace, if the trace's
    /// end is missing, or if its application took nothing at that time. Outside of virtual time it is also so if the
    /// process was stopped or killed within an iteration of its event loop.
    fn hides(&self, p: ProcIx, at_ns: u64, options: &Options) -> bool {
        let proc = &self.procs[p];
        let halted = || {
            let before = self.harness.faults.iter().rfind(|f| f.proc == p && f.moment.at_ns <= at_ns);
            // A slack means real time, in which a process can be stopped or killed between an action and its record.
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
