//! The quiet phase at the end of a run: from when, for whom, and whether liveness is due.

use std::collections::BTreeSet;

use phalanx_trace::Phase;

use super::{FaultKind, InstallIx, Model, Moment, Over, ProcIx};
use crate::Options;

/// A quiet phase in which liveness is due.
#[derive(Debug)]
pub(crate) struct Quiet {
    /// When the phase began.
    pub(crate) begun_ns: u64,
    /// From here on nothing disturbs.
    pub(crate) from_ns: u64,
    /// From here on one cell view of all is in force (V1).
    pub(crate) settled_ns: u64,
    /// The harness's end.
    pub(crate) end_ns: u64,
    /// The phase's record.
    pub(crate) place: crate::findings::Place,
    /// Who must be in the view: running and connected.
    pub(crate) running: BTreeSet<ProcIx>,
    /// Processes are there that need not be in the view, because they are not connected.
    pub(crate) broken_outside: bool,
    /// When paths broke in part, if some stay so: then `running` are those on none of them.
    pub(crate) impaired_ns: Option<u64>,
    /// A record of the highest cell view that anybody installed.
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
    /// The quiet phase, or why liveness is not due.
    pub(crate) fn quiet(&self, options: &Options) -> Result<Quiet, NotDue> {
        let (Some(harness), Some((Phase::Quiet, connected, begun))) = (self.harness.trace, self.harness.phases.last())
        else {
            return Err(NotDue::NoQuietPhase);
        };
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
        let last = self.last_view().ok_or(NotDue::NoView)?;
        if let Some(impaired) = impaired {
            if !self.quorum_at(impaired.moment.at_ns, &stopped, &inside, options) {
                return Err(NotDue::NoQuorum);
            }
            return Ok(Quiet {
                broken_outside: true,
                impaired_ns: Some(impaired.moment.at_ns),
                begun_ns: begun.at_ns,
                from_ns,
                settled_ns,
                end_ns,
                place: begun.place,
                running,
                last,
            });
        }
        // A view that only the gone have installed is found again by a quorum of the view before.
        let known = running.iter().filter_map(|&p| self.procs[p].installs.last().copied());
        let known = known.max_by_key(|&i| self.installs[i].view);
        let views = [Some(last), known.filter(|&i| self.installs[i].view < self.installs[last].view)];
        if !views.into_iter().flatten().all(|view| self.quorum_remains(view, &stopped, &inside, options)) {
            return Err(NotDue::NoQuorum);
        }
        let broken_outside = (0..self.procs.len()).any(|p| self.procs[p].trace.is_some() && !inside(p));
        Ok(Quiet {
            broken_outside,
            impaired_ns: None,
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
            && p.started.is_some_and(|m| m.at_ns <= at_ns)
            && p.crashed.is_none()
            && !over
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

    /// Faults after the phase's begin put its start off, and so does what changes the cell by somebody's own will:
    /// leaves, and starts of processes that do not come back from an exclusion.
    fn last_disturbance(&self, begun_ns: u64, end_ns: u64, inside: &dyn Fn(ProcIx) -> bool) -> u64 {
        let faults = self.harness.faults.iter().filter(|f| inside(f.proc)).map(|f| f.moment.at_ns);
        let own = self.procs.iter().enumerate().flat_map(|(i, p)| {
            let came_back = self.procs.iter().any(|o| {
                o.name == p.name && o.incarnation != p.incarnation && matches!(o.over, Some((Over::Excluded(_), _)))
            });
            let start = p.started.filter(|_| inside(i) && !came_back);
            // The file of an excluded process ends when the application closes it; that disturbs nobody.
            let ended = p.ended.filter(|_| p.over.is_none());
            let all = [start, p.leave_asked, ended].into_iter().flatten().filter(move |_| inside(i));
            all.map(|m| m.at_ns)
        });
        faults.chain(own).filter(|&at| at < end_ns).fold(begun_ns, u64::max)
    }

    /// The highest view of the instance in which a view was installed last.
    fn last_view(&self) -> Option<InstallIx> {
        let newest = self.installs.iter().max_by_key(|i| i.moment.at_ns)?;
        let (_, installers) = self.cells.get(&newest.instance)?.last_key_value()?;
        installers.first().copied()
    }

    /// Whether those `inside` that the harness spared are a quorum of the view in force at `at_ns`, and of the one that
    /// followed it. What becomes of them later is the cell's own doing.
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

    /// Whether enough of the view's members were spared by the harness. An excluded process counts as spared: if
    /// all were excluded, that is what liveness is about.
    fn quorum_remains(
        &self,
        last: InstallIx,
        stopped: &BTreeSet<ProcIx>,
        inside: &dyn Fn(ProcIx) -> bool,
        options: &Options,
    ) -> bool {
        let view = &self.installs[last];
        let crashes = view.members.iter().any(|&m| self.procs[m].crashed.is_some());
        let unseen = |over: Over| matches!(over, Over::Excluded(by) if by > view.view);
        // A view decided, told and lost with those that knew it: what remains of it cannot be known.
        if crashes && view.members.iter().any(|&m| self.procs[m].over.is_some_and(|(over, _)| unseen(over))) {
            return false;
        }
        let spared = |m: ProcIx| {
            let p = &self.procs[m];
            let gone = p.ended.is_some_and(|e| self.harness.ended.is_none_or(|h| e.at_ns < h.at_ns));
            let left = matches!(p.over, Some((Over::Left, _)));
            inside(m) && !stopped.contains(&m) && p.crashed.is_none() && !left && (!gone || p.over.is_some())
        };
        let present = view.members.iter().filter(|&&m| spared(m)).count();
        options.quorum.holds(view.members.len(), present, view.members.first().is_some_and(|&m| spared(m)))
    }
}
