//! A state of the model of levels.

use super::{BALLOTS, DECREES, Levels, PROCESSES};

/// What one decree decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct View {
    /// The ballot in which it was built; 0 in view 1.
    pub origin: u8,
    /// Members, a bit each.
    pub members: u8,
    /// The level.
    pub level: u8,
    /// Settings that come with the level, as the coordinator of that rank (from 1) has them: unknown to build 1.
    pub settings: u8,
    /// Joiners in whose records build 2 put an entry that build 1 does not know, a bit each.
    pub records: u8,
    /// The view in which the command to raise the level was given; 0: the level does not rise. No part of what is sent.
    pub wished: u8,
}

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Process {
    /// It runs, and was not told that it is excluded.
    pub lives: bool,
    /// The view it installed last; 0: it has not joined.
    pub view: u8,
    /// In that view: the ballot promised; 0: none.
    pub promised: u8,
    /// The ballot accepted in; 0: none.
    pub accepted: u8,
    /// The ballot that it coordinates; 0: none.
    pub current: u8,
    /// It knows of a wish to raise the level, given in that view; 0: it does not.
    pub wish: u8,
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
    /// Decided.
    Decided,
}

/// One ballot: its coordinator's memory, and all messages about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Try {
    /// How far it is.
    pub phase: Phase,
    /// Who was asked.
    pub asked: u8,
    /// Who reported.
    pub reported: u8,
    /// Who ever accepted in it.
    pub accepters: u8,
    /// By process: the ballot in which the reporter had accepted a proposal.
    pub had_accepted: [u8; PROCESSES],
    /// What is proposed.
    pub proposal: View,
}

/// Everything there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// By number: build, and place in every view.
    pub processes: [Process; PROCESSES],
    /// By decree, and by ballot number less one.
    pub tries: [[Try; BALLOTS]; DECREES],
    /// View 1.
    pub first: View,
    /// By view, less one: the wish was told in it, given in that view; 0: it was not.
    pub told: [u8; DECREES + 1],
    /// Commands given.
    pub commands: u8,
    /// Crashes.
    pub crashes: u8,
}

/// One atomic step. Each names the code that does it in `crates/phalanx-core/src`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Somebody asks a process to raise the level. (`Process::raise_level`)
    Command(usize),
    /// A process that knows of the wish tells it, in its view.
    Tell(usize),
    /// A process hears of a wish that was told in that view.
    Hear(usize, u8),
    /// A member begins a ballot and asks these. (`Process::start_ballot`)
    Start(usize, u8),
    /// A member promises and reports in a ballot of the decree after its view. (`Process::handle_wedge`)
    Report(usize, u8),
    /// A coordinator has all reports and proposes, with these joiners if the proposal is its own. (`build_proposal`)
    Propose(usize, u8),
    /// A member accepts. (`Process::handle_propose`)
    Accept(usize, u8),
    /// A coordinator counts a quorum of acceptances. (`Process::handle_accepted`)
    Decide(usize),
    /// A process learns the decision after its view, or the one that takes it in. (`Process::handle_decide`)
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

    /// The decided values of a decree (1..): one, or the model is broken.
    pub fn decisions(&self, decree: usize) -> impl Iterator<Item = &View> {
        self.tries[decree - 1].iter().filter(|t| t.phase == Phase::Decided).map(|t| &t.proposal)
    }

    /// The view of that number (1..), if it is decided.
    #[must_use]
    pub fn view(&self, number: u8) -> Option<&View> {
        match number {
            0 => None,
            1 => Some(&self.first),
            _ => self.decisions(usize::from(number) - 1).next(),
        }
    }
}
