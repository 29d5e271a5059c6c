//! A state of the model of ends with waiting groups.

use super::config::{Ending, INSTANCES, PROCESSES};

/// A group that waits. Without holders there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Waiting {
    /// Its last view; see `view_number`.
    pub view: u8,
    /// The processes that may have its state, a bit each.
    pub holders: u8,
}

/// The entry of the group's name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Group {
    /// There is no group, and the name is free.
    #[default]
    Free,
    /// The view in force, and its members.
    Live(u8, u8),
    /// No member of the cell has the state.
    Waits(Waiting),
}

impl Group {
    /// The group that waits, if it does.
    #[must_use]
    pub fn waiting(self) -> Waiting {
        match self {
            Self::Waits(waiting) => waiting,
            Self::Free | Self::Live(..) => Waiting::default(),
        }
    }

    pub(super) fn of(waiting: Waiting) -> Self {
        if waiting.holders == 0 { Self::Free } else { Self::Waits(waiting) }
    }
}

/// A view's number: the founding of the group, the generation of the cell instance, and a count.
pub(super) fn view_number(founding: u8, generation: u8, count: u8) -> u8 {
    debug_assert!(founding < 4 && generation < 4 && count < 16, "it fits");
    founding << 6 | generation << 4 | count
}

/// The founding of the group to which a view belongs.
pub(super) fn founding_of(view: u8) -> u8 {
    view >> 6
}

/// The generation of the instance that made a view.
pub(super) fn generation_of(view: u8) -> u8 {
    view >> 4 & 3
}

/// What a directory holds. Instances are numbered from 1; 0: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Record {
    /// The bootstrap marker.
    pub mark: u8,
    /// The group that waited when the marker was set.
    pub begun: Waiting,
    /// The instance whose end it records.
    pub end: u8,
    /// Its process was among the last of that instance; otherwise others stayed.
    pub ended: bool,
    /// Former members that may not know that they are out.
    pub lost: u8,
    /// The group that waited at that end.
    pub waits: Waiting,
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Stage {
    /// It does not run.
    #[default]
    Off,
    /// It is in no view, and looks for the cell.
    Searching,
    /// To its knowledge it is a member.
    Member,
    /// It knows that a decree let it go.
    Going,
}

/// A slot, and the process that runs in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Process {
    /// What it does.
    pub stage: Stage,
    /// The instance in which it is a member, or from which it goes.
    pub instance: u8,
    /// It requested to leave.
    pub wants: bool,
    /// A decree let it go.
    pub released: bool,
    /// The view of the group whose state it has; 0: none.
    pub has: u8,
    /// Members that were left out since it requested to leave, and that are neither proved dead nor back, a bit each.
    pub behind: u8,
    /// Its directory.
    pub record: Record,
}

/// An instance, as its decrees have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Instance {
    /// It was founded.
    pub exists: bool,
    /// Members of the last view.
    pub members: u8,
    /// The last view has no members.
    pub over: bool,
    /// Its last members have waited for those that may come back.
    pub waited: bool,
    /// Former members that may not know that they are out.
    pub lost: u8,
    /// The group.
    pub group: Group,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// By slot.
    pub processes: [Process; PROCESSES],
    /// By generation, less one.
    pub instances: [Instance; INSTANCES],
    /// The latest view of the group.
    pub last: u8,
    /// Views of the group since it was founded last, by generation and count, a bit each.
    pub views: u64,
    /// The group was founded anew while a process lived that had its state.
    pub usurped: bool,
    /// Two views of the group had one number.
    pub twice: bool,
    /// A process was told that it left as usual, although it left somebody behind with the group's state.
    pub silent: bool,
    /// A holder came back while all other members had requested to leave.
    pub returned: bool,
    /// A process that was not among the last members ended in doubt.
    pub doubted: bool,
    /// Decrees, crashes, starts, leaves without a decree, and foundings by command so far.
    pub spent: Spent,
}

/// What is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Spent {
    /// Decrees.
    pub decrees: u8,
    /// Crashes.
    pub crashes: u8,
    /// Starts.
    pub starts: u8,
    /// Leavers whose wait was over before a decree let them go.
    pub overdue: u8,
    /// Foundings by command.
    pub commands: u8,
}

/// One atomic step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A member requests to leave.
    Ask(usize),
    /// A decree of an instance. Sets of processes are bit sets.
    Decree {
        /// The instance.
        of: u8,
        /// Members that take part.
        present: u8,
        /// Those of them that are let go.
        go: u8,
        /// Silent members that are known to have requested to leave.
        asked: u8,
        /// Silent members that are proved dead.
        dead: u8,
        /// The process that joins, if any.
        joins: Option<usize>,
    },
    /// The last members of an instance have waited for long enough.
    WaitOver(u8),
    /// A leaver learns that a decree let it go.
    LearnGone(usize),
    /// A process learns that it is out.
    LearnOut(usize),
    /// A process that knows that it was let go ends.
    Go(usize),
    /// A leaver ends because no decree let it go for long.
    Overdue(usize),
    /// A process crashes.
    Crash(usize),
    /// A process starts again in its directory.
    Start(usize),
    /// Members of an instance get a proof that a former member is dead.
    Prove(u8, usize),
    /// A returned holder brings the group back.
    Revive(usize),
    /// A returned holder cannot bring the group back, and says so.
    Decline(usize),
    /// A member founds the group.
    FoundGroup(usize),
    /// The founders found the next instance; the flag: they hear the other processes that look for the cell.
    Found(bool),
    /// The same by command, with these founders.
    Command(u8, bool),
    /// A survivor founds the next instance.
    Reform(usize),
}

impl State {
    pub(super) fn new(model: &Ending) -> Self {
        let all = (1 << model.processes) - 1;
        let members = all & !model.cut;
        let mut processes = [Process::default(); PROCESSES];
        // The group went on without those that are cut off, unless it waits for them.
        let (there, first) = (model.group & members, view_number(1, 1, 1));
        let view = if there == 0 { first } else { first + u8::from(model.group != there) };
        for (p, process) in processes.iter_mut().enumerate().take(model.processes) {
            let has = match 1 << p {
                bit if there & bit != 0 => view,
                bit if model.group & bit != 0 => first,
                _ => 0,
            };
            let record = Record { mark: u8::from(p < model.founders), ..Record::default() };
            *process = Process { stage: Stage::Member, instance: 1, has, record, ..Process::default() };
            if model.off & 1 << p != 0 {
                *process = Process { record, ..Process::default() };
            }
        }
        let group = match there {
            0 => Group::of(Waiting { view, holders: model.group }),
            there => Group::Live(view, there),
        };
        let mut instances = [Instance::default(); INSTANCES];
        instances[0] = Instance { exists: true, members, lost: model.cut, group, ..Instance::default() };
        if model.last != 0 {
            instances[0] = Instance { exists: true, over: true, group, ..Instance::default() };
            for (p, process) in processes.iter_mut().enumerate().take(model.processes) {
                let (mut record, bit) = (process.record, 1 << p);
                if members & bit != 0 {
                    (record.end, record.ended) = (1, model.last & bit != 0);
                    record.waits = if record.ended { group.waiting() } else { Waiting::default() };
                }
                *process = Process { stage: Stage::Searching, has: process.has, record, ..Process::default() };
            }
        }
        Self {
            processes,
            instances,
            last: view,
            views: 1 << (first & 63) | 1 << (view & 63),
            usurped: false,
            twice: false,
            silent: false,
            returned: false,
            doubted: false,
            spent: Spent::default(),
        }
    }

    /// An instance.
    #[must_use]
    pub fn of(&self, instance: u8) -> &Instance {
        &self.instances[usize::from(instance) - 1]
    }

    pub(super) fn of_mut(&mut self, instance: u8) -> &mut Instance {
        &mut self.instances[usize::from(instance) - 1]
    }

    /// The latest instance.
    #[must_use]
    pub fn latest(&self) -> u8 {
        self.instances.iter().filter(|instance| instance.exists).count() as u8
    }

    /// Whether a process runs.
    #[must_use]
    pub fn lives(&self, p: usize) -> bool {
        self.processes[p].stage != Stage::Off
    }

    /// Whether a process looks for the cell.
    #[must_use]
    pub fn searches(&self, p: usize) -> bool {
        self.processes[p].stage == Stage::Searching
    }

    /// Whether a process is a member of the view in force of its instance, and knows it.
    #[must_use]
    pub fn is_present(&self, p: usize) -> bool {
        let process = &self.processes[p];
        process.stage == Stage::Member && self.of(process.instance).members & 1 << p != 0
    }

    /// The members of the view in force of an instance that run.
    #[must_use]
    pub fn present(&self, instance: u8) -> u8 {
        set(|p| self.processes[p].instance == instance && self.is_present(p))
    }

    /// The processes that requested to leave.
    #[must_use]
    pub fn leavers(&self) -> u8 {
        set(|p| self.processes[p].wants)
    }

    /// Whether a process that ends leaves another behind, outside of any cell, that has the group's state and did not
    /// request to leave: the last state, or an earlier one if it was left out since the leaver's request. What later
    /// instances made does not concern the leaver. Nobody is left behind while a member that does not ask to leave has
    /// the last state.
    #[must_use]
    pub fn leaves_behind(&self, p: usize) -> bool {
        let goes_on = |q: usize| self.is_present(q) && !self.processes[q].wants && self.processes[q].has == self.last;
        let away = |q: &usize| *q != p && self.lives(*q) && !self.is_present(*q);
        !(0..PROCESSES).any(goes_on)
            && (0..PROCESSES).filter(away).any(|q| {
                let other = &self.processes[q];
                let relied = self.processes[p].behind & 1 << q != 0;
                let has = other.has == self.last || relied && founding_of(other.has) == founding_of(self.last);
                let concerns = generation_of(other.has) <= self.processes[p].instance;
                !other.wants && other.has != 0 && has && concerns
            })
    }
}

/// The set of processes for which this holds.
pub(super) fn set(holds: impl Fn(usize) -> bool) -> u8 {
    (0..PROCESSES).filter(|&p| holds(p)).fold(0, |set, p| set | 1 << p)
}
