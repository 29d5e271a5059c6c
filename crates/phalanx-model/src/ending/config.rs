//! The bounds of a model of an end, and the rule that is missing in it.

/// Most processes.
pub const PROCESSES: usize = 4;
/// Most instances: generations from 1.
pub const INSTANCES: usize = 3;

/// A rule of the end that is missing or replaced by a wrong one. Each variant states the wrong behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The record of the end does not name the group that waits.
    ListNotRecorded,
    /// The next instance begins without the groups of the record.
    ListNotPassedOn,
    /// A group is founded although its name belongs to one that waits since an earlier instance.
    NameIsFree,
    /// Of several founders' records of an end, that of the first founder counts.
    FirstRecord,
    /// A founding by command knows no groups if the last instance did not end in order.
    CommandForgets,
    /// A founding by command takes the groups of the latest end that is recorded, also of an earlier instance.
    CommandTakesLastEnd,
    /// Only the processes that found an instance record with which group it began; those that it takes in do not.
    JoinsWithoutList,
    /// A survivor that founds the next instance does not record with which group it began.
    ReformsWithoutList,
    /// A group that is passed on skips numbers once, however many instances passed it on since its last view.
    OneStep,
    /// A holder that is a founder of the next instance, started again without the state, stays on the list.
    FounderNotStruck,
    /// The last members end without a word.
    LastNotTold,
    /// The last members end in doubt only if a group waits.
    OnlyWaitingDoubted,
    /// A member that was left out and said that it knows counts as if it were dead.
    OnlyLostDoubted,
    /// A leaver that no decree lets go ends without a word.
    OverdueNotTold,
    /// A leaver that was left out ends without a word.
    ExcludedNotTold,
    /// The last members wait for as long as a group waits.
    WaitsForEver,
    /// The last members do not wait. Allowed.
    DoesNotWait,
    /// Not a rule but the assumption of the command: a process keeps a state that the last instance made, and looks for
    /// the cell.
    CommandDespiteHolder,
}

impl Missing {
    /// All variants.
    pub const ALL: [Self; 18] = [
        Self::ListNotRecorded,
        Self::ListNotPassedOn,
        Self::NameIsFree,
        Self::FirstRecord,
        Self::CommandForgets,
        Self::CommandTakesLastEnd,
        Self::JoinsWithoutList,
        Self::ReformsWithoutList,
        Self::OneStep,
        Self::FounderNotStruck,
        Self::LastNotTold,
        Self::OnlyWaitingDoubted,
        Self::OnlyLostDoubted,
        Self::OverdueNotTold,
        Self::ExcludedNotTold,
        Self::WaitsForEver,
        Self::DoesNotWait,
        Self::CommandDespiteHolder,
    ];

    /// The variant's name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ListNotRecorded => "list_not_recorded",
            Self::ListNotPassedOn => "list_not_passed_on",
            Self::NameIsFree => "name_is_free",
            Self::FirstRecord => "first_record",
            Self::CommandForgets => "command_forgets",
            Self::CommandTakesLastEnd => "command_takes_last_end",
            Self::JoinsWithoutList => "joins_without_list",
            Self::ReformsWithoutList => "reforms_without_list",
            Self::OneStep => "one_step",
            Self::FounderNotStruck => "founder_not_struck",
            Self::LastNotTold => "last_not_told",
            Self::OnlyWaitingDoubted => "only_waiting_doubted",
            Self::OnlyLostDoubted => "only_lost_doubted",
            Self::OverdueNotTold => "overdue_not_told",
            Self::ExcludedNotTold => "excluded_not_told",
            Self::WaitsForEver => "waits_for_ever",
            Self::DoesNotWait => "does_not_wait",
            Self::CommandDespiteHolder => "command_despite_holder",
        }
    }
}

/// One bounded model.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Number of processes.
    pub processes: usize,
    /// Number of founders: the first ones.
    pub founders: usize,
    /// Members of the group in the first view, a bit each.
    pub group: u8,
    /// Processes that the view in force has left out when the model begins, and that do not know it, a bit each.
    pub cut: u8,
    /// Processes that do not run when the model begins, a bit each.
    pub off: u8,
    /// If not empty, the model begins after the end of the first instance, when all look for the cell: those that were
    /// among its last members, a bit each. Others left before, and those that are cut off know that they are out.
    pub last: u8,
    /// Instances.
    pub instances: u8,
    /// Decrees in all.
    pub decrees: u8,
    /// Crashes in all.
    pub crashes: u8,
    /// Starts in all.
    pub starts: u8,
    /// Leavers that end without a decree, in all.
    pub overdue: u8,
    /// Foundings by command, of whichever kind, in all.
    pub commands: u8,
    /// The rule that is missing, if any.
    pub missing: Option<Missing>,
}

impl Ending {
    /// A model of `processes`, the first of which are `founders`, with a group of these members.
    #[must_use]
    pub fn new(processes: usize, founders: usize, group: u8) -> Self {
        Self {
            processes,
            founders,
            group,
            cut: 0,
            off: 0,
            last: 0,
            instances: 2,
            decrees: 3,
            crashes: 0,
            starts: 0,
            overdue: 0,
            commands: 0,
            missing: None,
        }
    }

    /// The same model with this many instances and decrees.
    #[must_use]
    pub fn bounds(self, instances: u8, decrees: u8) -> Self {
        Self { instances, decrees, ..self }
    }

    /// The same model with this many crashes and starts.
    #[must_use]
    pub fn faults(self, crashes: u8, starts: u8) -> Self {
        Self { crashes, starts, ..self }
    }

    /// The same model with this many leavers that no decree lets go, and foundings by command.
    #[must_use]
    pub fn beyond(self, overdue: u8, commands: u8) -> Self {
        Self { overdue, commands, ..self }
    }

    /// A description of the model for reports.
    #[must_use]
    pub fn describe(&self) -> String {
        format!(
            "ending: processes {} founders {} group {:04b} cut {:04b} off {:04b} last {:04b} instances {} decrees {} crashes {} starts {} overdue {} commands {}",
            self.processes,
            self.founders,
            self.group,
            self.cut,
            self.off,
            self.last,
            self.instances,
            self.decrees,
            self.crashes,
            self.starts,
            self.overdue,
            self.commands
        )
    }

    pub(super) fn lacks(&self, missing: Missing) -> bool {
        self.missing == Some(missing)
    }
}
