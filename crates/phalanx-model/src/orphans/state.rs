//! A state of the model of orphans.

use super::{MESSAGES, Orphans, PROCESSES, VIEWS};

/// A decided view of the group. Sets of processes and of messages are bit sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct View {
    /// The number of the group among those of its name, from 1: one more each time the free name is taken again.
    pub life: u8,
    /// Members.
    pub members: u8,
    /// Members that joined with it; the others were in the view before, or founded the group.
    pub joined: u8,
    /// Members that reported to be incomplete, or joined.
    pub incomplete: u8,
    /// The cut that ended it: the messages that all continuing members deliver.
    pub cut: u8,
    /// The messages in the group's state at its start.
    pub start: u8,
    /// If a returned donor made it: the holders at that time. Otherwise 0.
    pub holders: u8,
    /// That donor had not installed the orphaned view.
    pub late: bool,
}

/// The entry of the group's name in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Entry {
    /// The last view is in force.
    #[default]
    Live,
    /// No member of the cell has the state; the processes in this set may.
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
    /// It left the group at its own request.
    pub left: bool,
    /// It takes no part in the view it installed last, because it knows that it is out or has returned.
    pub frozen: bool,
    /// It reported for a decree that it has not learned yet.
    pub wedged: bool,
    /// The view it installed last; 0: none, or the state was discarded.
    pub view: u8,
    /// The view it joined and has not installed; 0: none.
    pub joins: u8,
    /// Its state is complete.
    pub complete: bool,
    /// The member from which its state comes.
    pub donor: u8,
    /// It was excluded from the cell again since its return. Distinguished only where a rule is missing.
    pub again: bool,
    /// It installed its view after its return.
    pub late: bool,
    /// The messages in its state when its view began.
    pub base: u8,
    /// Messages of its view that it received.
    pub received: u8,
    /// Messages that it delivered, or, while the state is incomplete, that wait for it.
    pub delivered: u8,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Message {
    /// The view it was sent in; 0: not yet.
    pub view: u8,
    /// The causal past: the messages of that view that its sender had delivered or sent before.
    pub past: u8,
    /// The processes that acknowledged it.
    pub acked: u8,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The processes.
    pub processes: [Process; PROCESSES],
    /// Decided views, by number less one.
    pub views: [View; VIEWS],
    /// The number of decided views.
    pub decided: u8,
    /// The entry of the group's name.
    pub entry: Entry,
    /// The messages.
    pub messages: [Message; MESSAGES],
    /// Uniform messages that some process delivered to its application.
    pub uniform: u8,
    /// Messages of a continuing group that some process was told to forget.
    pub forgotten: u8,
    /// A group was founded while its name was not free.
    pub usurped: bool,
    /// Crashes, starts, returns and requested leaves so far.
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
    /// A member receives a message, and acknowledges it if its gate is open. A plain message is delivered at once.
    Receive(usize, usize),
    /// A member learns that a uniform message is stable, and delivers it.
    Deliver(usize, usize),
    /// A decree: these members stay, one leaves at its request (or none), and one joins (or none).
    Decree {
        /// The members that stay. They reported.
        stay: u8,
        /// The members that leave at their request.
        leaves: u8,
        /// The joiner, with its donor.
        joins: Option<(usize, usize)>,
    },
    /// A process learns the decree after its own view.
    Learn(usize),
    /// A process learns that it is out: excluded from the cell, or no longer in the group.
    LearnOut(usize),
    /// The remaining state of a joiner arrives.
    Complete(usize),
    /// A process stops.
    Crash(usize),
    /// The death of a process is proved.
    Prove(usize),
    /// A stopped process starts again without its state.
    Start(usize),
    /// A process is admitted to the cell, as a new incarnation.
    Return(usize),
    /// A decree excludes a process from the cell that is in no view of the group.
    Drop(usize),
    /// A returned holder that is in the view before the orphaned one delivers to the cut, and so has installed the
    /// orphaned one.
    CatchUp(usize),
    /// A decree makes a returned holder the only member of the next view.
    Revive(usize),
    /// A returned holder declines to be the donor, and is struck off.
    Decline(usize),
    /// A group is founded.
    Found(usize),
    /// A step that only a missing rule allows.
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
            process.complete = member && !joined && !model.observes(p);
        }
        let mut views = [View::default(); VIEWS];
        let (joined, incomplete) = (model.incomplete, model.incomplete | model.observers & model.members);
        views[0] = View { life: 1, members: model.members, joined, incomplete, ..View::default() };
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

    /// The view of that number, if it is decided.
    #[must_use]
    pub fn view(&self, number: u8) -> Option<&View> {
        (1..=self.decided).contains(&number).then(|| &self.views[usize::from(number) - 1])
    }

    /// The last decided view.
    #[must_use]
    pub fn last(&self) -> &View {
        &self.views[usize::from(self.decided) - 1]
    }

    /// Whether it is a member of the view in force, by the last decree.
    #[must_use]
    pub fn is_member(&self, p: usize) -> bool {
        self.entry == Entry::Live && self.last().members & 1 << p != 0
    }

    /// Whether a process could bring the group back, whether any other knows that or not. It lives and was in the last
    /// view, and its state is the group's at the start of that view, or becomes that with the messages it holds.
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
