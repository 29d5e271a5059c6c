//! What an application is told, step by step.

use std::sync::Arc;

use phalanx_core::{
    CommandError, Delivery, Domain, DomainMismatch, GroupView, Incarnation, LeaveReason, MessageToOne, Sequence,
    Snapshot, ToOneOutcome, ViewNumber,
};

use crate::asks::{Answer, AskEnd, AskId, Asked, Reply};

/// A membership of this process in a group: its slot, and which membership of that slot it is. It stands for the
/// membership through exclusions and returns, and for nothing once that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The slot. A slot is used again when its membership is over.
    pub slot: u32,
    /// Grows with each membership of the slot.
    pub membership: u32,
}

/// Who hands the steps to an application. The calls about one group come in the order in which all members see what
/// they tell. A call cannot reach the [`Lives`](crate::Lives) that makes it.
pub trait Front {
    /// What the front keeps for each membership.
    type Group;
    /// What waits for the outcome of a queued message.
    type Receipt;

    /// Whether it wants to know how many of this process's own messages were delivered. If not, those alone are counted that
    /// went to one domain of the group's state.
    const COUNTS_DELIVERED: bool;

    /// A message was delivered.
    fn deliver(&mut self, key: Key, group: &mut Self::Group, delivery: &Delivery<'_>);

    /// The next accepted message was bound to a view. `sent` is the view, and the number of the message among those that this
    /// process sent in it. If `is_awaited`, a receipt waits for the message, and [`Front::answer`] is called next.
    fn sent(&mut self, _key: Key, _group: &mut Self::Group, _sent: (ViewNumber, Sequence), _is_awaited: bool) {}

    /// Something else happened in a group.
    fn step(&mut self, key: Key, group: &mut Self::Group, step: Step<'_>);

    /// A message to this process alone, at its place among what else is told of the group.
    fn to_one(&mut self, _key: Key, _group: &mut Self::Group, _message: &MessageToOne<'_>) {}

    /// The queued message to one member for which that waits was sent, in that view.
    fn sent_to_one(&mut self, _group: &mut Self::Group, _receipt: &Self::Receipt, _view: ViewNumber) {}

    /// The next messages of this process to `to` have this outcome. [`Self::settled_one`] follows for those that something
    /// waits for.
    fn settled(
        &mut self,
        _key: Key,
        _group: &mut Self::Group,
        _to: Incarnation,
        _outcome: ToOneOutcome,
        _messages: u64,
    ) {
    }

    /// The message to one member for which that waits has this outcome.
    fn settled_one(&mut self, _group: &mut Self::Group, _receipt: Self::Receipt, _outcome: ToOneOutcome) {}

    /// An ask that this process is to answer, at its place among the deliveries, or one that another member forwarded to
    /// it. If it is answered at once, the value or reason is put into `value`; else [`Asking::answer`](crate::Asking::answer)
    /// follows. By default it has no answer.
    fn asked(&mut self, key: Key, group: &mut Self::Group, asked: &Asked<'_>, _value: &mut Vec<u8>) -> Option<Reply> {
        if let Some(delivery) = asked.delivery {
            self.deliver(key, group, delivery);
        }
        Some(Reply::Null)
    }

    /// The asker waits for no answer any more to this ask, which was not answered.
    fn given_up(&mut self, _key: Key, _group: &mut Self::Group, _id: AskId) {}

    /// An answer came for an ask of this process. True: the asker has as many as it wants, where the ask leaves that to it.
    fn answered(&mut self, _group: &mut Self::Group, _receipt: &Self::Receipt, _answer: &Answer<'_>) -> bool {
        false
    }

    /// An ask of this process ended. One that was not sent is refused by [`Front::answer`] instead.
    fn ask_ended(&mut self, _group: &mut Self::Group, _receipt: Self::Receipt, _end: AskEnd) {}

    /// Whether the application takes nothing of the group now.
    fn is_full(&mut self, _key: Key, _group: &mut Self::Group) -> bool {
        false
    }

    /// A queued multicast, or a flush, has its place in a view. Or one of them, an ask, or a message to one member, is
    /// refused.
    fn answer(&mut self, group: &mut Self::Group, receipt: Self::Receipt, outcome: Result<Bound, Refusal>);

    /// A queued multicast takes up no memory any more.
    fn release(&mut self, _group: &mut Self::Group, _bytes: usize) {}

    /// A queued message to that member takes up no memory any more.
    fn release_to_one(&mut self, _group: &mut Self::Group, _to: Incarnation, _bytes: usize) {}

    /// The incarnation is over, and so are its messages in all groups; told before any group is told.
    fn excluded(&mut self, _was: Incarnation) {}

    /// A membership is over for good. [`Step::Ending`] and [`Step::Over`] came before.
    fn ended(&mut self, key: Key, group: Self::Group, end: End);

    /// The present state, for a member that joins. `is_sound`: it is the group's. `None`: there is none now.
    fn snapshot(
        &mut self,
        key: Key,
        group: &mut Self::Group,
        name: &Arc<str>,
        is_sound: bool,
    ) -> Option<Box<dyn Snapshot>>;

    /// The next bytes of another member's state.
    ///
    /// # Errors
    /// The text says why they make no sense. The group is left.
    fn restore(&mut self, key: Key, group: &mut Self::Group, chunk: &[u8]) -> Result<(), String>;

    /// All of another member's state, and the messages that belong to it, came.
    ///
    /// # Errors
    /// The text says why it makes no sense. The group is left.
    fn complete(&mut self, key: Key, group: &mut Self::Group) -> Result<(), String>;

    /// Whether the state that was held at an exclusion is kept.
    fn keeps_state(&mut self, _key: Key, _group: &mut Self::Group) -> bool {
        true
    }

    /// A digest of the present state, for a trace. `None`: the application gives none.
    fn digest(&mut self, _key: Key, _group: &mut Self::Group) -> Option<u64> {
        None
    }

    /// For the operator.
    fn notice(&mut self, text: String);
}

/// What happened in a group.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// A view was installed.
    View(ShownView<'a>),
    /// A view that belongs to the state that comes: the members installed it after that was frozen, and this process is not in
    /// it. Told of groups that were joined with a state.
    ViewReplayed(ShownView<'a>),
    /// Within the view, enough members have the group's state now, or too few.
    Adequate(bool),
    /// What may be told of this life's messages. No outcome is told while too few members hold the group's state: a message
    /// may be held by this process alone, whose death would undo what somebody was told.
    Reached {
        /// The views in which messages became stable since the last time, and up to which number in each.
        latest: &'a [(ViewNumber, Sequence)],
        /// The stable messages, counted over all views of this life.
        stable: u64,
        /// This process's messages that were delivered here, counted likewise.
        delivered: u64,
    },
    /// A life ends: what was handed over is to be settled before anything else is told.
    Ending {
        /// The membership ends with it. No message is accepted any more.
        is_final: bool,
    },
    /// A life is over: messages of the next one are counted anew.
    Over {
        /// The number of the next life.
        next: u64,
        /// Accepted messages that nobody has.
        not_sent: u64,
        /// Sent messages that the others may have or not.
        in_doubt: u64,
    },
    /// Queued messages were refused within a life: nobody awaits them, or they were asked for in an earlier one. Messages to
    /// one count, too, here and where queued ones are counted as not sent at the end of a life.
    Unsent {
        /// How many.
        messages: u64,
    },
    /// The incarnation is over, and this process was in the group.
    Excluded {
        /// The incarnation.
        was: Incarnation,
    },
    /// This process is out of the group, and comes back by itself.
    Anew(LeaveReason),
    /// The join waits for these members, which have the group's state and are cut off.
    Waiting(&'a [(Incarnation, String)]),
    /// What only this process had of the group's state is lost to the others.
    Forgotten,
    /// The group goes on with the state that this process kept.
    Kept,
    /// Another member's state begins.
    Taking {
        /// Its bytes.
        bytes: u64,
        /// The domains of it that the group lists in the view in which it was frozen, if it keeps a list.
        domains: Option<&'a Arc<[Domain]>>,
    },
    /// The members that had the state are gone while this process sought it. What came of it is dropped, and this process
    /// founds the group anew with its own state. Its first view follows.
    OwnState,
    /// The state is complete.
    Current,
    /// The state that came makes no sense. The group is left, and no further multicast of it is handed over. Messages to this
    /// process alone are: their senders are told so.
    Senseless,
}

/// A view of a group.
#[derive(Clone, Copy, Debug)]
pub struct ShownView<'a> {
    /// The view.
    pub view: &'a Arc<GroupView>,
    /// This process.
    pub me: Incarnation,
}

/// Where a message belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The view in which it is sent.
    pub view: ViewNumber,
    /// Its number among this process's messages in that view, from 1.
    pub seq: Sequence,
    /// Its number among the messages of this life, from 1. [`Step::Reached`] counts the same.
    pub number: u64,
}

/// Why a queued message is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The life in which it was asked for ended first.
    NotSent,
    /// It named a view, and another one is in force.
    OtherView,
    /// It is too long, with its length in bytes.
    TooLong(usize),
    /// Its receiver is not in the view in force.
    NoSuchMember(ViewNumber),
    /// It is an ask, and as many as may wait for answers do.
    TooManyAsks,
    /// It is an ask whose deadline passed before it was sent.
    Late,
    /// It is an ask, and the inbox stayed full behind which its answers would wait.
    Full,
    /// It is an ask that was given up before it was sent.
    GivenUp,
    /// It names a domain that the group does not list.
    NoSuchDomain,
    /// It names a domain, and is not in total order.
    NotToDomain,
    /// The cell is at this level, and it takes a higher one.
    BelowLevel {
        /// The level of the cell.
        level: u16,
        /// The level that is needed.
        needed: u16,
    },
}

impl Refusal {
    /// Why the core refuses a message for good. `None`: it has to wait. Between two incarnations the end of the life refuses it.
    #[must_use]
    pub fn of(error: &CommandError) -> Option<Self> {
        match error {
            CommandError::NoCredit | CommandError::NoWindow | CommandError::NotMember | CommandError::Over => None,
            CommandError::OtherView => Some(Self::OtherView),
            CommandError::NoSuchDomain => Some(Self::NoSuchDomain),
            CommandError::NotToDomain => Some(Self::NotToDomain),
            CommandError::TooLong(bytes) => Some(Self::TooLong(*bytes)),
            CommandError::NoSuchMember { view } => Some(Self::NoSuchMember(*view)),
            CommandError::BelowLevel { level, needed } => Some(Self::BelowLevel { level: *level, needed: *needed }),
            _ => Some(Self::NotSent),
        }
    }
}

/// How a membership ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It was in the group, or wanted to be, and is not any more.
    Left(LeaveReason),
    /// The process is over: its thread ended, or it does not come back after an exclusion that came while it left.
    Over,
    /// The group cannot be made.
    Refused,
    /// The group has a state and was joined without one, or it has none and was joined with one.
    Differs {
        /// The group has one.
        has_state: bool,
    },
    /// The group has a domain that this process lacks, or lacks one that it needs.
    Domains(DomainMismatch),
}
