//! What was explained, counted.

use super::record::Fixed;

/// How many steps of which kind were explained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Turns looked at.
    pub turns: u64,
    /// Ballots begun.
    pub started: u64,
    /// Of them, begun while another's was under way: take-overs.
    pub take_overs: u64,
    /// Promises of acceptors.
    pub promised: u64,
    /// Proposals that wait for their cuts.
    pub filling: u64,
    /// Proposals made.
    pub proposed: u64,
    /// Of them, with more than was filled: what was judged of groups with a packet that makes no sense.
    pub judged: u64,
    /// Of them, what another ballot had proposed.
    pub adopted: u64,
    /// Of the proposals, made and gone within one turn: not all that was reported is seen, and what hangs on that not judged.
    pub blind: u64,
    /// Members that asked to leave and were not let go.
    pub held: u64,
    /// Acceptances.
    pub accepted: u64,
    /// Decrees decided.
    pub decided: u64,
    /// Of them, within a turn that went through several decrees: not judged.
    pub unseen: u64,
    /// Groups that began to wait for members that are cut off.
    pub orphaned: u64,
    /// Of them, back with one of these.
    pub revived: u64,
    /// Changes by which a group waits for fewer.
    pub struck: u64,
    /// Decisions learned, one for each process.
    pub installed: u64,
    /// Turns of a wedged process in which its gate stayed shut.
    pub gates: u64,
}

impl Steps {
    /// Each count, with its name.
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

    /// Differences that were explained.
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

    /// Adds those of another run.
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
