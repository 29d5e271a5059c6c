//! Derives what requires all traces: ranks, sets, members with the state, whether the ends of traces are complete.

use std::collections::HashSet;

use super::{Epoch, EpochEnd, EpochIx, Model, ViewIx};

impl Model {
    /// Completes the model after the last trace.
    pub(crate) fn link(&mut self) {
        self.judge_tails();
        self.calls.link();
        for stream in &mut self.streams {
            stream.rank = self.views[stream.view].members.iter().position(|&m| m == stream.sender);
        }
        self.sum_sets();
        // In order of their numbers, because the marks of a view follow from those of the view before.
        let mut by_number: Vec<ViewIx> = (0..self.views.len()).collect();
        by_number.sort_by_key(|&v| (self.views[v].group, self.views[v].number));
        for view in by_number {
            self.mark_stateful(view);
            self.mark_diverged(view);
        }
    }

    /// A trace that ends properly, or whose writer writes ahead, is complete at its end.
    fn judge_tails(&mut self) {
        for proc in &mut self.procs {
            proc.tail_complete |= proc.ended.is_some() || proc.over.is_some();
        }
    }

    fn sum_sets(&mut self) {
        // For each message the epoch that counted it last, so that a duplicate (I2) counts once.
        let mut seen = vec![0u32; self.messages.len()];
        for (stamp, epoch) in (1u32..).zip(&mut self.epochs) {
            for step in epoch.steps.iter().filter(|s| !s.sent && !s.foreign) {
                let last = &mut seen[step.message as usize];
                if *last != stamp {
                    *last = stamp;
                    epoch.set.add(step.message);
                }
            }
        }
    }

    /// Marks the members of a view that hold the state. A member has it from the group's founding or from a transfer,
    /// and keeps it from view to view.
    fn mark_stateful(&mut self, view: ViewIx) {
        let all_new = |e: &Epoch| e.prev_epoch.is_none() && e.members.iter().all(|m| e.joined.contains(m));
        let founding = self.views[view].epochs.iter().all(|&e| all_new(&self.epochs[e]));
        for i in 0..self.views[view].epochs.len() {
            let e = self.views[view].epochs[i];
            let epoch = &self.epochs[e];
            let kept = epoch.transfer.as_ref().and_then(|transfer| transfer.kept);
            let stateful = match (epoch.prev_epoch, kept) {
                (Some(prev), _) => self.epochs[prev].stateful,
                (None, Some(kept)) => {
                    let left = self.last_stay(kept.was, self.views[view].group);
                    left.is_some_and(|left| self.epochs[left].stateful)
                }
                (None, None) => founding || epoch.transfer.as_ref().is_some_and(|t| !t.ends.is_empty()),
            };
            self.epochs[e].stateful = stateful;
        }
    }

    /// Marks members that delivered another set than the others: their state differs as well. S3 reports that, so X1
    /// and X4 do not.
    fn mark_diverged(&mut self, view: ViewIx) {
        let mut diverged: HashSet<EpochIx> = HashSet::new();
        for (_, way) in self.ways_out(view).iter().filter(|(next, _)| next.is_some()) {
            let Some(&first) = way.first() else { continue };
            diverged.extend(way.iter().filter(|&&e| self.epochs[e].set != self.epochs[first].set));
        }
        for i in 0..self.views[view].epochs.len() {
            let e = self.views[view].epochs[i];
            let left_wrong = diverged.contains(&e) || self.epochs[e].diverged;
            if let (true, EpochEnd::Next(next)) = (left_wrong, self.epochs[e].end) {
                self.epochs[next].diverged = true;
            }
        }
    }
}
