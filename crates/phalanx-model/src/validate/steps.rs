//! Counts of the explained steps.

use super::record::Fixed;

/// The number of explained steps of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Polls observed.
    pub turns: u64,
    /// Ballots begun.
    pub started: u64,
    /// Take-overs: ballots begun while another process's was under way.
    pub take_overs: u64,
    /// Promises of acceptors.
    pub promised: u64,
    /// Proposals that wait until their cuts are recovered.
    pub filling: u64,
    /// Proposals made.
    pub proposed: u64,
    /// Proposals changed after recovery, by the resolution of nonsense.
    pub judged: u64,
    /// Proposals adopted from another ballot.
    pub adopted: u64,
    /// Proposals made and replaced within one poll. Not all of their reports are observed, and what depends on those is
    /// not checked.
    pub blind: u64,
    /// Members that asked to leave and were kept.
    pub held: u64,
    /// Acceptances.
    pub accepted: u64,
    /// Decrees decided.
    pub decided: u64,
    /// Decrees within a poll that went through several; these are not checked.
    pub unseen: u64,
    /// Groups that began to wait for members that are cut off.
    pub orphaned: u64,
    /// Orphans that returned with one of these members.
    pub revived: u64,
    /// Changes by which a group waits for fewer members.
    pub struck: u64,
    /// Decisions learned, counted for each process.
    pub installed: u64,
    /// Polls of a wedged process in which its gate stayed shut.
    pub gates: u64,
}

impl Steps {
    /// Each count with its name.
    #[must_use]
    pub fn each(&self) -> [(&'static str, u64); 18] {
        [
            ("turns", self.turns),
            ("started", self.started),
            ("take_overs", self.take_overs),
            ("promised", self.promised),
            ("filling", self.filling),
            ("proposed", self.proposed),
            ("judged", self.judged),
            ("adopted", self.adopted),
            ("blind", self.blind),
            ("held", self.held),
            ("accepted", self.accepted),
            ("decided", self.decided),
            ("unseen", self.unseen),
            ("orphaned", self.orphaned),
            ("revived", self.revived),
            ("struck", self.struck),
            ("installed", self.installed),
            ("gates", self.gates),
        ]
    }

    /// The number of explained differences.
    #[must_use]
    pub fn explained(&self) -> u64 {
        self.started + self.promised + self.filling + self.proposed + self.accepted + self.installed + self.gates
    }

    /// Counts how a proposal was fixed.
    pub(super) fn fix(&mut self, fixed: Fixed) {
        self.adopted += u64::from(fixed.adopted);
        self.blind += u64::from(fixed.blind);
        self.held += fixed.held as u64;
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        self.turns += other.turns;
        self.started += other.started;
        self.take_overs += other.take_overs;
        self.promised += other.promised;
        self.filling += other.filling;
        self.proposed += other.proposed;
        self.judged += other.judged;
        self.adopted += other.adopted;
        self.blind += other.blind;
        self.held += other.held;
        self.accepted += other.accepted;
        self.decided += other.decided;
        self.unseen += other.unseen;
        self.orphaned += other.orphaned;
        self.revived += other.revived;
        self.struck += other.struck;
        self.installed += other.installed;
        self.gates += other.gates;
    }
}
