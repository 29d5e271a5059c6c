//! A state of the model of founding.

use super::{BALLOTS, Founding, JOINER, NAMES, SLOTS};

/// One incarnation of a process: its slot and its count; 0 for none.
pub(super) type Life = u8;

/// The incarnation with that count (from 1) in a slot.
pub(super) fn life(slot: usize, number: u8) -> Life {
    slot as u8 * 4 + number + 1
}

/// The slot of an incarnation.
pub(super) fn slot_of(life: Life) -> usize {
    usize::from((life - 1) / 4)
}

/// The content of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Disk {
    /// Drawn when the directory is made, so that an emptied one gets another.
    pub id: u8,
    /// The list in the marker, by the ballot in which it was made (from 1); 0: no marker.
    pub mark: u8,
    /// The ballot in which the marker was written.
    pub marked_in: u8,
    /// A member of its cell, of any name, that was heard; 0: none.
    pub heard: Life,
    /// It would hold a marker or a record if the missing rule were there.
    pub due: bool,
}

/// A slot, and the process that runs in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Process {
    /// It runs.
    pub lives: bool,
    /// The count of its incarnation, from 1; 0: never started.
    pub life: u8,
    /// Its directory, whether it runs or not.
    pub disk: Disk,
    /// Its memory of the directory's content.
    pub memory: Disk,
    /// Its name is damaged: it lost its directory, or a second process has the name, and it has been in no view since.
    pub lost: bool,
    /// The number of the ballot promised; 0: none.
    pub promised: u8,
    /// The ballot in which it accepted (from 1); 0: none.
    pub accepted: u8,
    /// The ballot that it leads (from 1); 0: none.
    pub current: u8,
    /// The list of the cell that it is a member of (from 1); 0: none.
    pub instance: u8,
    /// The view it installed last; 0: none.
    pub view: u8,
}

/// The progress of a ballot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub enum Phase {
    /// Not begun.
    #[default]
    None,
    /// Waiting for reports.
    Gathering,
    /// Proposed.
    Proposing,
    /// All accepted, and the leader's marker is synced.
    Decided,
}

/// One ballot: its leader's memory, all messages of it, and the cell of the list made in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Try {
    /// Its progress.
    pub phase: Phase,
    /// The number by which ballots are compared.
    pub number: u8,
    /// Its founders' names, a bit each.
    pub names: u8,
    /// By name: the incarnation that was asked.
    pub asked: [Life; NAMES],
    /// By name: the id of that incarnation's directory.
    pub disks: [u8; NAMES],
    /// Names that reported.
    pub reported: u8,
    /// By name: the list in the reported marker, and the ballot in which that was written.
    pub had: [(u8, u8); NAMES],
    /// The proposed list, by the ballot in which it was made (from 1).
    pub proposal: u8,
    /// Names that accepted.
    pub accepted: u8,
    /// Of the list made in this ballot: the names that reported a marker of it.
    pub confirmed: u8,
    /// Of the cell with that list: the number of its last view; 0: no process installed the first.
    pub view: u8,
    /// The members of that view, in order of rank.
    pub members: [Life; SLOTS],
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// By slot.
    pub processes: [Process; SLOTS],
    /// In the order in which they began.
    pub tries: [Try; BALLOTS],
    /// Crashes so far.
    pub crashes: u8,
    /// Directories emptied so far.
    pub emptied: u8,
}

/// One atomic step. Each names the code that performs it in `crates/phalanx-core/src`, where there is some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A founder begins a ballot in a round and asks one living process of each name; of the doubled name, the second
    /// process or the first. (`Process::lead_founding` sends `FoundingMessage::Ask`)
    Lead(usize, u8, bool),
    /// A founder promises in a ballot and reports its marker. (`Process::answer_ask` sends `FoundingMessage::Report`)
    Report(usize, usize),
    /// A leader with all reports proposes. (`Process::take_report` sends `FoundingMessage::Propose`)
    Propose(usize),
    /// A founder accepts. (`Process::answer_proposal` sends `FoundingMessage::Accept`)
    Accept(usize, usize),
    /// A leader with all acceptances syncs its marker. (`Process::take_acceptance` sends `FoundingMessage::Decide`)
    Decide(usize),
    /// A founder learns that all accepted, syncs its marker and announces it. (`Process::confirm`, then
    /// `FoundingMessage::Marked`)
    Confirm(usize, usize),
    /// A listed process learns that its list is confirmed, and installs view 1. (`Process::install_confirmed`,
    /// `Process::install_first`)
    Install(usize, usize),
    /// A quorum of a cell's members (slots, a bit each) decides the next view: these members, and a joiner if there is
    /// one.
    Change(usize, u8, Option<usize>),
    /// A member leaves its cell: the present ones decide the next view without it.
    Leave(usize, usize),
    /// A process without a marker is answered by a member of its cell, of any name, and records that.
    Hear(usize, usize),
    /// A process learns that the member it heard is dead. Only where the model takes that for enough.
    Bury(usize),
    /// A process stops for good.
    Crash(usize),
    /// It is started again in its directory.
    Restart(usize),
    /// A second process is started under a founder's name.
    Twin,
    /// A directory is emptied.
    Empty(usize),
    /// A living process restores what its directory must hold.
    Restore(usize),
}

impl Disk {
    /// Whether it keeps its owner from founding, or would if the missing rule were there.
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

    /// The incarnation that runs, or last ran, in a slot.
    #[must_use]
    pub fn life(&self, slot: usize) -> Life {
        life(slot, self.processes[slot].life)
    }

    /// Whether an incarnation runs.
    #[must_use]
    pub fn runs(&self, who: Life) -> bool {
        who != 0 && self.processes[slot_of(who)].lives && self.life(slot_of(who)) == who
    }

    /// The number of ballots begun.
    #[must_use]
    pub fn begun(&self) -> usize {
        self.tries.iter().filter(|t| t.phase != Phase::None).count()
    }
}

impl Try {
    /// View 1 of the list made in this ballot.
    #[must_use]
    pub fn first_members(&self) -> [Life; SLOTS] {
        let mut members = [0; SLOTS];
        members[..NAMES].copy_from_slice(&self.asked);
        members
    }
}
