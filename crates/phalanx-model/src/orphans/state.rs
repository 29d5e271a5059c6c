//! A state of the model of orphans.

use super::{MESSAGES, Orphans, PROCESSES, VIEWS};

/// A view of the group, as decided. Sets of processes and of messages have a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct View {
    /// Which group of the name it is a view of, from 1: one more whenever the name was free and is taken again.
    pub life: u8,
    /// Members.
    pub members: u8,
    /// Those of them that joined with it; the others were in the view before, or founded the group.
    pub joined: u8,
    /// Those of them that said that they were incomplete, or joined.
    pub incomplete: u8,
    /// What ended it: the messages that all who go on from it deliver.
    pub cut: u8,
    /// What the group's state holds at its start.
    pub start: u8,
    /// It was made by a donor that returned: the holders there were. 0: it was not.
    pub holders: u8,
    /// That donor had not installed the orphaned view.
    pub late: bool,
}

/// The name's entry in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Entry {
    /// The last view is in force.
    #[default]
    Live,
    /// Nobody in the cell has the state; these may.
    Orphan(u8),
    /// There is no group, and the name is free.
    Free,
}

/// One process, dead or alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Process {
    /// It runs.
    pub lives: bool,
    /// Its death was proved.
    pub proved: bool,
    /// By the last decree, its incarnation is in the cell.
    pub in_cell: bool,
    /// It left the group at its own wish.
    pub left: bool,
    /// It takes no part in the view it installed last: it knows that it is out, or it came back.
    pub frozen: bool,
    /// It reported for a decree that it has not learned.
    pub wedged: bool,
    /// The view it installed last; 0: none, or the state was thrown away.
    pub view: u8,
    /// The view it joined and has not installed; 0: none.
    pub joins: u8,
    /// Its state is complete.
    pub complete: bool,
    /// Its state comes from that member.
    pub donor: u8,
    /// It was left out of the cell again since it has been back. Told apart only where a rule is missing.
    pub again: bool,
    /// It installed its view when it was back.
    pub late: bool,
    /// What its state held when its view began.
    pub base: u8,
    /// Messages of its view: received.
    pub received: u8,
    /// Delivered; while the state is incomplete, waiting behind it.
    pub delivered: u8,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Message {
    /// The view it was sent in; 0: not yet.
    pub view: u8,
    /// The causal past: what of that view its sender had delivered or sent before.
    pub past: u8,
    /// Who acknowledged it.
    pub acked: u8,
}

/// Everything there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The processes.
    pub processes: [Process; PROCESSES],
    /// Decided views, by number less one.
    pub views: [View; VIEWS],
    /// How many are decided.
    pub decided: u8,
    /// The entry.
    pub entry: Entry,
    /// The messages.
    pub messages: [Message; MESSAGES],
    /// Uniform messages that anybody delivered to its application.
    pub uniform: u8,
    /// Messages that somebody was told to forget, of a group that goes on.
    pub forgotten: u8,
    /// A group was founded while the name was not free.
    pub usurped: bool,
    /// Crashes, new starts, returns, and leaves at wish.
    pub crashes: u8,
    /// See above.
    pub starts: u8,
    /// See above.
    pub returns: u8,
    /// See above.
    pub leaves: u8,
}

/// One atomic step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The sender of that message sends it, in the view it has installed.
    Send(usize),
    /// A member receives a message, and acknowledges it if its gate is open. What is plain is delivered at once.
    Receive(usize, usize),
    /// A member knows that a uniform message is stable, and delivers it.
    Deliver(usize, usize),
    /// A decree: of the members these stay, that one leaves at its wish (or none), and that one joins (or none).
    Decree {
        /// Who stays. They reported.
        stay: u8,
        /// Who leaves at its wish.
        leaves: u8,
        /// Who joins, with its donor.
        joins: Option<(usize, usize)>,
    },
    /// A process learns the decree after its view, which it is in.
    Learn(usize),
    /// A process learns that it is out: excluded from the cell, or no more in the group.
    LearnOut(usize),
    /// The rest of a joiner's state arrives.
    Complete(usize),
    /// A process stops.
    Crash(usize),
    /// The death of a process is proved.
    Prove(usize),
    /// A process that stopped starts anew, without its state.
    Start(usize),
    /// A process is admitted to the cell, as a new incarnation.
    Return(usize),
    /// A decree leaves a process out of the cell that is in no view of the group.
    Drop(usize),
    /// A holder that is back delivers to the cut before the orphaned view, which it is in, and has then installed it.
    CatchUp(usize),
    /// A decree: a holder that is back is the only member of the next view.
    Revive(usize),
    /// A holder that is back says that it cannot be the donor, and is struck off.
    Decline(usize),
    /// A group is founded.
    Found(usize),
    /// What a missing rule allows.
    Wrong(usize),
}

impl State {
    pub(super) fn new(model: &Orphans) -> Self {
        let mut processes = [Process::default(); PROCESSES];
        for (p, process) in processes.iter_mut().enumerate().take(model.processes) {
            let member = model.members & 1 << p != 0;
            let joined = model.incomplete & 1 << p != 0;
            process.lives = true;
            process.in_cell = true;
            process.frozen = !member;
            process.view = u8::from(member);
            process.complete = member && !joined;
        }
        let mut views = [View::default(); VIEWS];
        let incomplete = model.incomplete;
        views[0] = View { life: 1, members: model.members, joined: incomplete, incomplete, ..View::default() };
        Self {
            processes,
            views,
            decided: 1,
            entry: Entry::Live,
            messages: [Message::default(); MESSAGES],
            uniform: 0,
            forgotten: 0,
            usurped: false,
            crashes: 0,
            starts: 0,
            returns: 0,
            leaves: 0,
        }
    }

    /// A decided view.
    #[must_use]
    pub fn view(&self, number: u8) -> Option<&View> {
        (1..=self.decided).contains(&number).then(|| &self.views[usize::from(number) - 1])
    }

    /// The last view that was decided.
    #[must_use]
    pub fn last(&self) -> &View {
        &self.views[usize::from(self.decided) - 1]
    }

    /// A member of the view in force, by the last decree.
    #[must_use]
    pub fn is_member(&self, p: usize) -> bool {
        self.entry == Entry::Live && self.last().members & 1 << p != 0
    }

    /// Whether a process has what it takes to bring the group back, whatever anybody knows of it: it lives, was in the
    /// last view, and its state is the group's at the start of that view, or becomes it with what it holds.
    #[must_use]
    pub fn has_state(&self, p: usize) -> bool {
        let process = &self.processes[p];
        if !process.lives || process.left || !process.complete || process.view == 0 {
            return false;
        }
        let (mut view, mut holds) = (process.view, process.received);
        while view < self.decided {
            let next = &self.views[usize::from(view)];
            let cut = self.views[usize::from(view) - 1].cut;
            if next.members & !next.joined & 1 << p == 0 || cut & !holds != 0 {
                return false;
            }
            (view, holds) = (view + 1, 0);
        }
        self.last().members & 1 << p != 0
    }
}
