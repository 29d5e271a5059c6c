//! What this process knows of members that leave, when it installs the view without them.

use super::OrphanRecovery;
use crate::api::{Departed, LeaveReason};
use crate::member::{Directory, FailureDetector, Proposal, SUSPECTERS_MAX};
use crate::time::Instant;

impl OrphanRecovery {
    /// Those that `proposal` leaves out of the cell. `directory` and `failure_detector`: of the view before.
    pub(in crate::process) fn departed(
        &self,
        now: Instant,
        directory: &Directory,
        failure_detector: &FailureDetector,
        proposal: &Proposal,
    ) -> Vec<Departed> {
        let departed = proposal.left.iter().filter_map(|(who, why)| {
            let rank = directory.rank(*who)?;
            let member = directory.members.get(rank.index())?.clone();
            let mut found_by = Vec::new();
            if !matches!(why, LeaveReason::Left | LeaveReason::Died) {
                let by = failure_detector.accusers(now, rank).take(SUSPECTERS_MAX);
                found_by.extend(by.filter_map(|by| Some(directory.members.get(by.index())?.incarnation)));
            }
            let proof = self.kept.deaths.of(*who).filter(|_| *why != LeaveReason::Left);
            Some(Departed { member, why: *why, proof, found_by })
        });
        departed.collect()
    }
}
