//! A state of the model of leaving.

use super::{DECREES, Leaving, PROCESSES};

/// What a directory holds of the first instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Record {
    /// The mark.
    pub mark: bool,
    /// Its process left the instance.
    pub left: bool,
    /// The instance ended.
    pub ended: bool,
    /// But for these, which may live in it, a bit each.
    pub but: u8,
}

/// A place, and the process that runs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Process {
    /// It runs.
    pub lives: bool,
    /// Its life, counted from 1.
    pub life: u8,
    /// The view of the first instance that it installed last; 0: none.
    pub view: u8,
    /// It accepted what follows that view.
    pub accepted: bool,
    /// It asked to leave.
    pub wants: bool,
    /// It knows that it is out, and stays for the others.
    pub out: bool,
    /// It went in order.
    pub gone: bool,
    /// It is a member of a cell that was founded again.
    pub anew: bool,
    /// Its directory.
    pub record: Record,
}

/// A view of the first instance, and what was accepted to follow the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct View {
    /// It is decided.
    pub decided: bool,
    /// By place: the life that is a member; 0: none.
    pub members: [u8; PROCESSES],
    /// Places in order of rank; beyond the members nothing.
    pub ranks: [u8; PROCESSES],
    /// Places that accepted it.
    pub accepters: u8,
    /// Places that installed it.
    pub installed: u8,
    /// Places whose members went in order.
    pub gone: u8,
}

/// Everything there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// By place.
    pub processes: [Process; PROCESSES],
    /// By number, less one.
    pub views: [View; DECREES + 1],
    /// A decree decided twice.
    pub split: bool,
    /// A view of nobody was decided though somebody that lived in the one before had not asked to leave.
    pub dropped: bool,
    /// Crashes.
    pub crashes: u8,
    /// Starts.
    pub starts: u8,
}

/// One atomic step. Each names the code that does it in `crates/phalanx-core/src`, as far as there is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A member asks to leave. (`Process::ask_to_leave`)
    Ask(usize),
    /// A coordinator decides with a quorum (places, a bit each) that leavers go, one joins, and whoever is silent is left out.
    /// (`Process::drive_ballot`)
    Decide(usize, u8, u8, Option<usize>),
    /// A member learns what follows its view. (`Process::try_install`)
    Learn(usize),
    /// A leaver that knows that it is out ends. (`Process::leave_step`)
    Go(usize),
    /// A process stops for good.
    Crash(usize),
    /// A process starts again in its directory.
    Start(usize),
    /// One that holds the record that the instance ended hears a process that it names, which is no member any more.
    Excuse(usize, usize),
    /// A process that is in no view sees the record that the instance ended, and clears its mark.
    See(usize, usize),
    /// Founders without marks found again. (`Process::lead_founding`)
    Found,
}

impl View {
    /// Its members, a bit each.
    #[must_use]
    pub fn set(&self) -> u8 {
        (0..PROCESSES).filter(|&at| self.members[at] != 0).fold(0, |set, at| set | 1 << at)
    }

    /// Whether so many of `of`, some of its members, are a quorum of these.
    #[must_use]
    pub fn is_quorum(&self, of: u8, present: u8) -> bool {
        let (of, count) = (of & self.set(), (self.set().count_ones()) as usize);
        let first = self.ranks[..count].iter().find(|at| of & 1 << **at != 0);
        let has_first = first.is_some_and(|at| present & 1 << *at != 0);
        super::rule::RULES.is_quorum((present & of).count_ones() as usize, of.count_ones() as usize, has_first)
    }
}

impl State {
    pub(super) fn new(model: &Leaving) -> Self {
        let mut processes = [Process::default(); PROCESSES];
        let mut first = View { decided: true, ..View::default() };
        for at in 0..model.processes {
            let p = &mut processes[at];
            (p.lives, p.life) = (true, 1);
            if at < model.members {
                (p.view, p.record.mark) = (1, true);
                (first.members[at], first.ranks[at]) = (1, at as u8);
                first.installed |= 1 << at;
            }
        }
        let mut views = [View::default(); DECREES + 1];
        views[0] = first;
        Self { processes, views, split: false, dropped: false, crashes: 0, starts: 0 }
    }

    /// The view that a process is in.
    #[must_use]
    pub fn view_of(&self, at: usize) -> Option<&View> {
        usize::from(self.processes[at].view).checked_sub(1).map(|index| &self.views[index])
    }

    /// What follows the view that a process is in, if it is decided.
    #[must_use]
    pub fn following(&self, at: usize) -> Option<&View> {
        let view = usize::from(self.processes[at].view);
        self.views.get(view).filter(|next| view > 0 && next.decided)
    }

    /// Whether a process lives in the first instance, as far as it knows.
    #[must_use]
    pub fn lives_in_it(&self, at: usize) -> bool {
        let p = &self.processes[at];
        p.lives && p.view != 0 && !p.out
    }

    /// Whether a process runs and is in no view.
    #[must_use]
    pub fn searches(&self, at: usize) -> bool {
        let p = &self.processes[at];
        p.lives && p.view == 0 && !p.anew
    }

    /// The last view that was decided.
    #[must_use]
    pub fn last(&self) -> usize {
        self.views.iter().take_while(|view| view.decided).count() - 1
    }
}
