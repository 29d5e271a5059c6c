//! A state of the model of founding.

use super::{BALLOTS, Founding, JOINER, NAMES, SLOTS};

/// One life of a process: its place and which life, or 0 for nobody.
pub(super) type Life = u8;

/// The life of that number (1..) at a place.
pub(super) fn life(slot: usize, number: u8) -> Life {
    slot as u8 * 4 + number + 1
}

/// Where a life runs.
pub(super) fn slot_of(life: Life) -> usize {
    usize::from((life - 1) / 4)
}

/// What a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Disk {
    /// Drawn when the directory is made: an emptied one has another.
    pub id: u8,
    /// The list marked, by the ballot it was made in (1..); 0: none.
    pub mark: u8,
    /// The ballot it was marked in.
    pub marked_in: u8,
    /// A member of its cell, of whatever name, that was heard; 0: none.
    pub heard: Life,
    /// It would hold a mark or a record, but for the rule that is missing.
    pub due: bool,
}

/// A place, and the process that runs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Process {
    /// It runs.
    pub lives: bool,
    /// Its life, counted from 1; 0: never started.
    pub life: u8,
    /// Its directory, whether it runs or not.
    pub disk: Disk,
    /// What it remembers of its directory.
    pub memory: Disk,
    /// Its name is damaged: it lost its directory, or there are two of it, and it has not been in a view since.
    pub lost: bool,
    /// The number of the ballot promised; 0: none.
    pub promised: u8,
    /// The ballot accepted in (1..); 0: none.
    pub accepted: u8,
    /// The ballot that it leads (1..); 0: none.
    pub current: u8,
    /// The list of the cell that it is a member of (1..); 0: of none.
    pub instance: u8,
    /// The view it installed last; 0: none.
    pub view: u8,
}

/// How far a ballot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub enum Phase {
    /// Not begun.
    #[default]
    None,
    /// Waiting for reports.
    Gathering,
    /// Proposed.
    Proposing,
    /// All accepted, and the leader's mark is synced.
    Decided,
}

/// One ballot: its leader's memory, all messages about it, and the cell whose list was made in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Try {
    /// How far it is.
    pub phase: Phase,
    /// What it is compared by.
    pub number: u8,
    /// The names of its founders, a bit each.
    pub names: u8,
    /// By name: who was asked.
    pub asked: [Life; NAMES],
    /// By name: whose directory that is.
    pub disks: [u8; NAMES],
    /// Names that reported.
    pub reported: u8,
    /// By name: the list marked, and the ballot it was marked in.
    pub had: [(u8, u8); NAMES],
    /// The list proposed, by the ballot it was made in (1..).
    pub proposal: u8,
    /// Names that accepted.
    pub accepted: u8,
    /// Of the list made in it: the names that said that they have a mark of it.
    pub confirmed: u8,
    /// Of the cell with that list: the number of its last view; 0: nobody installed the first.
    pub view: u8,
    /// Its members, in order of rank.
    pub members: [Life; SLOTS],
}

/// Everything there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// By place.
    pub processes: [Process; SLOTS],
    /// In the order they were begun.
    pub tries: [Try; BALLOTS],
    /// Crashes.
    pub crashes: u8,
    /// Directories emptied.
    pub emptied: u8,
}

/// One atomic step. Each names the code that does it in `crates/phalanx-core/src`, as far as there is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A founder begins a ballot in a round and asks one living process of each name, that at the second place or not.
    /// (`Process::lead_founding`)
    Lead(usize, u8, bool),
    /// A founder promises, and reports its mark, in the ballot of that place in the order.
    Report(usize, usize),
    /// A leader has all reports and proposes. (`Control::FoundList`)
    Propose(usize),
    /// A founder accepts. (`Control::FoundAccept`)
    Accept(usize, usize),
    /// A leader has all acceptances and syncs its mark. (`Process::finish_founding`)
    Decide(usize),
    /// A founder hears that all accepted, syncs its mark and says so. (`Control::FoundDecide`)
    Confirm(usize, usize),
    /// A listed process hears that its list is confirmed, and installs view 1. (`Process::install_first`)
    Install(usize, usize),
    /// Members of a cell (places, a bit each), a quorum, decide the next view: they, and a process that joins.
    Change(usize, u8, Option<usize>),
    /// A member of a cell leaves it: those that are there decide the next view without it.
    Leave(usize, usize),
    /// A process without a mark is answered by a member of its cell, of whatever name, and records that.
    Hear(usize, usize),
    /// A process learns that the one it heard is dead. Only where that is taken for enough.
    Bury(usize),
    /// A process stops for good.
    Crash(usize),
    /// It is started again, in its directory.
    Restart(usize),
    /// A second process is started under a founder's name.
    Twin,
    /// A directory is emptied.
    Empty(usize),
    /// A living process writes again what its directory must hold.
    Restore(usize),
}

impl Disk {
    /// It keeps its owner from founding, or would, but for the rule that is missing.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.mark != 0 || self.heard != 0 || self.due
    }
}

impl State {
    pub(super) fn new(model: &Founding) -> Self {
        let mut processes = [Process::default(); SLOTS];
        for (slot, process) in processes.iter_mut().enumerate() {
            let starts = slot < model.names() || (slot == JOINER && model.joiner);
            (process.lives, process.life) = (starts, u8::from(starts));
        }
        Self { processes, tries: [Try::default(); BALLOTS], crashes: 0, emptied: 0 }
    }

    /// The life of whoever runs, or ran, at a place.
    #[must_use]
    pub fn life(&self, slot: usize) -> Life {
        life(slot, self.processes[slot].life)
    }

    /// Whether a life runs.
    #[must_use]
    pub fn runs(&self, who: Life) -> bool {
        who != 0 && self.processes[slot_of(who)].lives && self.life(slot_of(who)) == who
    }

    /// The ballots begun.
    #[must_use]
    pub fn begun(&self) -> usize {
        self.tries.iter().filter(|t| t.phase != Phase::None).count()
    }
}

impl Try {
    /// View 1 of the list made in it.
    #[must_use]
    pub fn first_members(&self) -> [Life; SLOTS] {
        let mut members = [0; SLOTS];
        members[..NAMES].copy_from_slice(&self.asked);
        members
    }
}
