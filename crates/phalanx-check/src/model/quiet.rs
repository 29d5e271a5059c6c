//! The quiet phase at the end of a run: its begin, its processes, and whether liveness is due.
//!
//! It ends with the harness's end. What processes do after that, while they leave and are ended, does not belong to it.

use std::collections::BTreeSet;

use phalanx_trace::Phase;

use super::{EpochEnd, EpochIx, FaultKind, InstallIx, Model, Moment, Over, Proc, ProcIx};
use crate::Options;

/// A quiet phase in which liveness is due.
#[derive(Debug)]
pub(crate) struct Quiet {
    /// Beginning of the phase.
    pub(crate) begun_ns: u64,
    /// Time of the last disturbance.
    pub(crate) from_ns: u64,
    /// Time by which one cell view of all is to be in force (V1).
    pub(crate) settled_ns: u64,
    /// The harness's end.
    pub(crate) end_ns: u64,
    /// The record of the phase.
    pub(crate) place: crate::findings::Place,
    /// Processes that must be in the view: running and connected.
    pub(crate) running: BTreeSet<ProcIx>,
    /// Whether other processes exist that need not be in the view, because they are not connected.
    pub(crate) broken_outside: bool,
    /// Time at which paths broke in part, if some stay so. Then `running` holds the processes on none of them.
    pub(crate) impaired_ns: Option<u64>,
    /// A record of the highest cell view that any process installed.
    pub(crate) last: InstallIx,
}

/// Why liveness is not due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotDue {
    #[error("no quiet phase at the end")]
    NoQuietPhase,
    #[error("the traces come from several clocks")]
    SeveralClocks,
    #[error("the quiet phase is shorter than the bound")]
    TooShort,
    #[error("no cell view was installed")]
    NoView,
    #[error("no quorum of the last view remains")]
    NoQuorum,
}

impl Model {
    /// Returns the quiet phase, or why liveness is not due.
    pub(crate) fn quiet(&self, options: &Options) -> Result<Quiet, NotDue> {
        let (Some(harness), Some((Phase::Quiet, connected, begun))) = (self.harness.trace, self.harness.phases.last())
        else {
            return Err(NotDue::NoQuietPhase);
        };
        // The bounds compare times of different traces.
        if self.traces.iter().any(|t| t.clock != self.traces[harness].clock) {
            return Err(NotDue::SeveralClocks);
        }
        let end_ns = self.harness.ended.map_or(self.traces[harness].last_at_ns, |m| m.at_ns);
        let impaired = self.harness.impaired.as_ref();
        let at_an_end = |name: &str| impaired.is_some_and(|i| i.ends.iter().any(|end| end == name));
        let inside = |proc: ProcIx| {
            let name = self.procs[proc].name.as_deref();
            let named = connected.is_empty() || name.is_some_and(|n| connected.iter().any(|c| c == n));
            named && !name.is_some_and(at_an_end)
        };
        let from_ns = self.last_disturbance(begun.at_ns, end_ns, &inside);
        let bound_ns = if impaired.is_some() { options.impaired_bound_ns } else { options.membership_bound_ns };
        let settled_ns = from_ns.saturating_add(bound_ns);
        if settled_ns > end_ns {
            return Err(NotDue::TooShort);
        }
        let stopped = self.stopped();
        let running: BTreeSet<ProcIx> =
            (0..self.procs.len()).filter(|&p| inside(p) && !stopped.contains(&p) && self.runs_at(p, end_ns)).collect();
        let last = self.last_view(end_ns).ok_or(NotDue::NoView)?;
        let impaired_ns = impaired.map(|impaired| impaired.moment.at_ns);
        // With partly broken paths, the view in which the first one broke decides: a cell that erodes after that has no
        // excuse.
        let enough = match impaired_ns {
            Some(at_ns) => self.quorum_at(at_ns, &stopped, &inside, options),
            None => self.can_go_on(last, end_ns, &|m| self.is_spared(m, end_ns, &stopped, &inside), options),
        };
        if !enough {
            return Err(NotDue::NoQuorum);
        }
        Ok(Quiet {
            broken_outside: impaired.is_some() || self.others_stay_broken(),
            impaired_ns,
            begun_ns: begun.at_ns,
            from_ns,
            settled_ns,
            end_ns,
            place: begun.place,
            running,
            last,
        })
    }

    fn runs_at(&self, proc: ProcIx, at_ns: u64) -> bool {
        let p = &self.procs[proc];
        let before = |m: Option<Moment>| m.is_some_and(|m| m.at_ns < at_ns);
        let over = before(p.over.map(|(_, m)| m));
        p.trace.is_some()
            && p.endpoint.is_none()
            && p.started.is_some_and(|m| m.at_ns <= at_ns)
            && p.crashed.is_none()
            && !over
            && !p.is_kept_out(at_ns)
            && !before(p.ended)
    }

    fn stopped(&self) -> BTreeSet<ProcIx> {
        let mut stopped = BTreeSet::new();
        for fault in &self.harness.faults {
            match fault.kind {
                FaultKind::Stop => stopped.insert(fault.proc),
                FaultKind::Cont => stopped.remove(&fault.proc),
                FaultKind::Crash => false,
            };
        }
        stopped
    }

    /// The last disturbance of the phase. These are faults after its begin, and voluntary changes of the cell: leaves,
    /// and starts of processes that do not return from an exclusion.
    fn last_disturbance(&self, begun_ns: u64, end_ns: u64, inside: &dyn Fn(ProcIx) -> bool) -> u64 {
        let faults = self.harness.faults.iter().filter(|f| inside(f.proc)).map(|f| f.moment.at_ns);
        let own = self.procs.iter().enumerate().flat_map(|(i, p)| {
            // A return from an exclusion is the protocol's doing, so it does not postpone the phase.
            let came_back = self.procs.iter().any(|o| {
                o.name == p.name && o.incarnation != p.incarnation && matches!(o.over, Some((Over::Excluded(_), _)))
            });
            let start = p.started.filter(|_| inside(i) && !came_back);
            // The trace of an excluded process ends when its application closes it, which disturbs no other process.
            let ended = p.ended.filter(|_| p.over.is_none());
            let all = [start, p.leave_asked, ended].into_iter().flatten().filter(move |_| inside(i));
            all.filter(|_| p.endpoint.is_none()).map(|m| m.at_ns)
        });
        faults.chain(own).filter(|&at| at < end_ns).fold(begun_ns, u64::max)
    }

    /// Whether the quiet phase names its processes, and there are others.
    pub(crate) fn others_stay_broken(&self) -> bool {
        let Some((Phase::Quiet, connected, _)) = self.harness.phases.last() else { return false };
        let named = |name: &Option<String>| name.as_ref().is_some_and(|n| connected.contains(n));
        let is_member = |p: &Proc| p.trace.is_some() && p.endpoint.is_none();
        !connected.is_empty() && self.procs.iter().any(|p| is_member(p) && !named(&p.name))
    }

    /// The highest view by then, in the instance in which a view was installed last. An instance of a later generation
    /// goes before: an application that reads late records views of one that was over by then.
    fn last_view(&self, until_ns: u64) -> Option<InstallIx> {
        let within = |i: &InstallIx| self.installs[*i].moment.at_ns <= until_ns;
        let age = |i: &InstallIx| (self.installs[*i].instance >> 48, self.installs[*i].moment.at_ns);
        let newest = (0..self.installs.len()).filter(within).max_by_key(age)?;
        let views = self.cells.get(&self.installs[newest].instance)?;
        views.values().rev().find_map(|installers| installers.iter().copied().find(within))
    }

    /// The cell view in which the process was at that time.
    pub(crate) fn install_at(&self, p: ProcIx, at_ns: u64) -> Option<InstallIx> {
        self.procs[p].installs.iter().copied().rfind(|&i| self.installs[i].moment.at_ns <= at_ns)
    }

    /// The group views in which the process was at that time.
    pub(crate) fn stays_at(&self, p: ProcIx, at_ns: u64) -> impl Iterator<Item = EpochIx> {
        self.procs[p].epochs.iter().copied().filter(move |&e| self.stays(e, at_ns))
    }

    /// Whether this stay had begun by that time, and not ended.
    pub(crate) fn stays(&self, e: EpochIx, at_ns: u64) -> bool {
        self.epochs[e].install.at_ns <= at_ns && self.end_of(e).is_none_or(|end| end.at_ns > at_ns)
    }

    /// The end of a stay, if it ended.
    fn end_of(&self, e: EpochIx) -> Option<Moment> {
        let epoch = &self.epochs[e];
        let proc = &self.procs[epoch.proc];
        match epoch.end {
            EpochEnd::Open => None,
            EpochEnd::Next(next) => Some(self.epochs[next].install),
            EpochEnd::GroupLeft => epoch.left_at,
            EpochEnd::Over => {
                let all = || proc.installs.iter().map(|&i| &self.installs[i]);
                let begun = |i: &&super::CellInstall| i.moment.place.index < epoch.install.place.index;
                let instance = all().rfind(begun).map(|i| i.instance);
                let elsewhere = all().find(|i| !begun(i) && Some(i.instance) != instance).map(|i| i.moment);
                elsewhere.or(proc.over.map(|(_, m)| m))
            }
        }
    }

    /// Whether the process considered itself cut off at that time.
    pub(crate) fn nonprimary_at(&self, p: ProcIx, at_ns: u64) -> bool {
        let told = self.procs[p].primacy.iter().rfind(|(_, m)| m.at_ns <= at_ns);
        let view = self.install_at(p, at_ns).map(|i| self.installs[i].moment.place.index);
        told.is_some_and(|(primary, m)| !primary && view.is_none_or(|view| view < m.place.index))
    }

    /// Whether the processes `inside` that the harness spared are a quorum of the view in force at `at_ns`, and of the
    /// one that followed it. What happens to them later is the protocol's doing.
    fn quorum_at(
        &self,
        at_ns: u64,
        stopped: &BTreeSet<ProcIx>,
        inside: &dyn Fn(ProcIx) -> bool,
        options: &Options,
    ) -> bool {
        let before = self.installs.iter().filter(|i| i.moment.at_ns <= at_ns);
        let Some(view) = before.max_by_key(|i| (i.moment.at_ns, i.view)) else { return false };
        let following = self.cells.get(&view.instance).into_iter().flat_map(|views| views.range(view.view..));
        let spared = |&m: &ProcIx| {
            let p = &self.procs[m];
            let left = p.leave_asked.is_some();
            inside(m) && !stopped.contains(&m) && p.crashed.is_none() && !left
        };
        let quorum = |members: &[ProcIx]| {
            let present = members.iter().filter(|m| spared(m)).count();
            options.quorum.holds(members.len(), present, members.first().is_some_and(&spared))
        };
        let first = |installers: &Vec<InstallIx>| installers.first().map(|&i| &self.installs[i]);
        following.take(2).filter_map(|(_, installers)| first(installers)).all(|i| quorum(&i.members))
    }

    /// Whether the harness spared the process, and the process did not leave. An excluded process counts as spared,
    /// whatever happened to it afterwards: liveness also fails if all are excluded.
    fn is_spared(&self, m: ProcIx, end_ns: u64, stopped: &BTreeSet<ProcIx>, inside: &dyn Fn(ProcIx) -> bool) -> bool {
        let p = &self.procs[m];
        let gone = p.ended.is_some_and(|e| self.harness.ended.is_none_or(|h| e.at_ns < h.at_ns));
        let left = p.over.is_some_and(|(over, at)| over == Over::Left && at.at_ns <= end_ns);
        inside(m) && !stopped.contains(&m) && p.crashed.is_none() && !left && (!gone || p.over.is_some())
    }
}
