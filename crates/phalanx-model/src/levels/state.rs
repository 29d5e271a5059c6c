//! A state of the model of levels.

use super::{BALLOTS, DECREES, Levels, PROCESSES};

/// The value of one decree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct View {
    /// The ballot in which it was built; 0 in view 1.
    pub origin: u8,
    /// Members, a bit each.
    pub members: u8,
    /// The level.
    pub level: u8,
    /// Settings that come with the level, as the coordinator of that rank (from 1) has them. Build 1 does not know
    /// them.
    pub settings: u8,
    /// Joiners in whose records build 2 put an entry that build 1 does not know, a bit each.
    pub records: u8,
    /// The view in which the command to raise the level was given; 0: the level does not rise. Not part of any message.
    pub wished: u8,
}

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Process {
    /// It runs, and has not learned that it is excluded.
    pub lives: bool,
    /// The view it installed last; 0: it has not joined.
    pub view: u8,
    /// In that view: the ballot promised; 0: none.
    pub promised: u8,
    /// The ballot in which it accepted; 0: none.
    pub accepted: u8,
    /// The ballot that it coordinates; 0: none.
    pub current: u8,
    /// The view in which the request to raise the level that it knows was made; 0: it knows none.
    pub wish: u8,
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
    /// Decided.
    Decided,
}

/// One ballot: its coordinator's memory, and all messages of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Try {
    /// Its progress.
    pub phase: Phase,
    /// Members that were asked.
    pub asked: u8,
    /// Members that reported.
    pub reported: u8,
    /// Members that ever accepted in it.
    pub accepters: u8,
    /// By process: the ballot in which the reporter had accepted a proposal.
    pub had_accepted: [u8; PROCESSES],
    /// The proposal.
    pub proposal: View,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// By process number, which is also its index in `builds` and its bit in every view.
    pub processes: [Process; PROCESSES],
    /// By decree, and by ballot number less one.
    pub tries: [[Try; BALLOTS]; DECREES],
    /// View 1.
    pub first: View,
    /// By view, less one: the view of the request that was announced in it; 0: none was.
    pub told: [u8; DECREES + 1],
    /// Commands so far.
    pub commands: u8,
    /// Crashes so far.
    pub crashes: u8,
}

/// One atomic step. Each names the code that performs it in `crates/phalanx-core/src`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// An operator commands a process to raise the level. (`Process::raise_level`)
    Command(usize),
    /// A process that knows of the request announces it in its view.
    Tell(usize),
    /// A process learns of a request that was announced in that view.
    Hear(usize, u8),
    /// A member begins a ballot and asks this set. (`Process::start_ballot`)
    Start(usize, u8),
    /// A member promises and reports, in a ballot of the decree after its view. (`Process::handle_wedge`)
    Report(usize, u8),
    /// A coordinator with all reports proposes, with these joiners if the proposal is its own. (`build_proposal`)
    Propose(usize, u8),
    /// A member accepts. (`Process::handle_propose`)
    Accept(usize, u8),
    /// A coordinator counts a quorum of acceptances. (`Process::handle_accepted`)
    Decide(usize),
    /// A process learns the decision after its view, or the one by which it joins. (`Process::handle_decide`)
    Learn(usize, usize),
    /// A process stops for good.
    Crash(usize),
}

impl State {
    pub(super) fn new(model: &Levels) -> Self {
        let mut processes = [Process::default(); PROCESSES];
        for (r, process) in processes.iter_mut().enumerate().take(model.processes()) {
            process.lives = true;
            process.view = u8::from(model.founders & 1 << r != 0);
        }
        Self {
            processes,
            tries: [[Try::default(); BALLOTS]; DECREES],
            first: View { members: model.founders, level: 1, ..View::default() },
            told: [0; DECREES + 1],
            commands: 0,
            crashes: 0,
        }
    }

    /// The decided values of a decree (from 1). More than one means that an invariant is broken.
    pub fn decisions(&self, decree: usize) -> impl Iterator<Item = &View> {
        self.tries[decree - 1].iter().filter(|t| t.phase == Phase::Decided).map(|t| &t.proposal)
    }

    /// The view of that number (from 1), if it is decided.
    #[must_use]
    pub fn view(&self, number: u8) -> Option<&View> {
        match number {
            0 => None,
            1 => Some(&self.first),
            _ => self.decisions(usize::from(number) - 1).next(),
        }
    }
}
