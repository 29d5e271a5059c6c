//! A state of the model of leaving.

use super::{DECREES, Leaving, PROCESSES};

/// What a directory holds of the first instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Record {
    /// The bootstrap marker.
    pub mark: bool,
    /// Its process left the instance.
    pub left: bool,
    /// The instance ended.
    pub ended: bool,
    /// Former members that may still live in it, a bit each.
    pub but: u8,
}

/// A slot, and the process that runs in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Process {
    /// It runs.
    pub lives: bool,
    /// The count of its incarnation, from 1.
    pub life: u8,
    /// The view of the first instance that it installed last; 0: none.
    pub view: u8,
    /// Whether it accepted what follows that view.
    pub accepted: bool,
    /// It requested to leave.
    pub wants: bool,
    /// It knows that it is out, and stays for the others' sake.
    pub out: bool,
    /// It left in order.
    pub gone: bool,
    /// It is a member of a cell that was founded again.
    pub anew: bool,
    /// Its directory.
    pub record: Record,
}

/// A view of the first instance, and the acceptances by which it follows the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct View {
    /// It is decided.
    pub decided: bool,
    /// By slot: the member's incarnation; 0: none.
    pub members: [u8; PROCESSES],
    /// Slots in order of rank; unused beyond the members.
    pub ranks: [u8; PROCESSES],
    /// Slots that accepted it.
    pub accepters: u8,
    /// Slots that installed it.
    pub installed: u8,
    /// Slots whose members left in order.
    pub gone: u8,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// By slot.
    pub processes: [Process; PROCESSES],
    /// By number, less one.
    pub views: [View; DECREES + 1],
    /// A decree was decided in two ways.
    pub split: bool,
    /// An empty view was decided although a living member of the one before had not requested to leave.
    pub dropped: bool,
    /// Crashes so far.
    pub crashes: u8,
    /// Starts so far.
    pub starts: u8,
}

/// One atomic step. Each names the code that performs it in `crates/phalanx-core/src`, where there is some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A member requests to leave. (`Process::ask_to_leave`)
    Ask(usize),
    /// A coordinator decides with a quorum (slots, a bit each) that leavers leave, one process joins, and silent
    /// members are excluded. (`Process::drive_ballot`)
    Decide(usize, u8, u8, Option<usize>),
    /// A member learns what follows its view. (`Process::try_install`)
    Learn(usize),
    /// A leaver that knows that it is out stops. (`Process::leave_step`)
    Go(usize),
    /// A process stops for good.
    Crash(usize),
    /// A process starts again in its directory.
    Start(usize),
    /// The holder of a record that the instance ended hears a process named there, which is no member any more.
    Excuse(usize, usize),
    /// A process in no view reads the record that the instance ended, and clears its marker.
    See(usize, usize),
    /// Founders without markers found again. (`Process::lead_founding`)
    Found,
}

impl View {
    /// Its members, a bit each.
    #[must_use]
    pub fn set(&self) -> u8 {
        (0..PROCESSES).filter(|&at| self.members[at] != 0).fold(0, |set, at| set | 1 << at)
    }

    /// Whether the present ones among `of`, a set of its members, are a quorum of `of`.
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

    /// The view after the one a process is in, if it is decided.
    #[must_use]
    pub fn following(&self, at: usize) -> Option<&View> {
        let view = usize::from(self.processes[at].view);
        self.views.get(view).filter(|next| view > 0 && next.decided)
    }

    /// Whether a process lives in the first instance, to its own knowledge.
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

    /// The index of the last decided view.
    #[must_use]
    pub fn last(&self) -> usize {
        self.views.iter().take_while(|view| view.decided).count() - 1
    }
}
