//! M7, harmless stale primary: for neighbours `u`, `w` of the cell's chain and `p in M_u \ M_w`: if `p` delivers a
//! message as uniform after `w` is installed anywhere, every survivor of the group view delivers it too. So the cell
//! that went on without `p` lacks nothing on which `p` may act, its own messages included.
//!
//! Plain deliveries promise nothing to other processes. Records of such a process after its notice are M8; that it
//! forms no view of its own is M6.
//!
//! Instances: uniform messages that a process delivered after a view without it, and after which others went on.
//! Source: Birman, "Reliable Distributed Systems" (Springer 2005), primary partition.

use super::{Run, u1};
use crate::findings::{Findings, Place};
use crate::model::{Model, ProcIx, Step};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    u1::judge(run, out, |e, step| run.dropped.before(run, run.model.epochs[e].proc, step).map(Some));
}

/// For each process: the first cell view without it that followed one with it, at its first installation.
#[derive(Debug)]
pub(super) struct Dropped(Vec<Option<(u64, Place)>>);

impl Dropped {
    pub(super) fn of(model: &Model) -> Self {
        let mut dropped = vec![None; model.procs.len()];
        for views in model.cells.values() {
            let mut before: &[ProcIx] = &[];
            for installers in views.values() {
                let first = installers.iter().map(|&i| &model.installs[i]).min_by_key(|i| i.moment.at_ns);
                let Some(first) = first else { continue };
                for &gone in before.iter().filter(|p| !first.members.contains(p)) {
                    dropped[gone].get_or_insert((first.moment.at_ns, first.moment.place));
                }
                before = &first.members;
            }
        }
        Self(dropped)
    }

    /// The record of the view that had dropped `p` before it took this step, by the clock.
    pub(super) fn before(&self, run: &Run<'_>, p: ProcIx, step: &Step) -> Option<Place> {
        self.at(run, p, step.at_ns)
    }

    /// The time of that view, by the clock of its record.
    pub(super) fn first_ns(&self, p: ProcIx) -> Option<u64> {
        self.0[p].map(|(at_ns, _)| at_ns)
    }

    /// The same for a moment of `p`'s clock.
    pub(super) fn at(&self, run: &Run<'_>, p: ProcIx, moment_ns: u64) -> Option<Place> {
        let (at_ns, place) = self.0[p]?;
        let trace = run.model.procs[p].trace?;
        let after = at_ns.saturating_add(run.options.clock_slack_ns) < moment_ns;
        (after && run.model.same_clock(place.trace, trace)).then_some(place)
    }
}
