//! Errors: one for each operation. Each variant says whether anything changed, and what to do.

use phalanx_core::{Domain, DomainMismatch};
use phalanx_life::{NotSubmitted, Refusal};

use crate::domain_name::shown;
use crate::id::LeaveReason;
use crate::reading::Reading;

/// Why a process, a client or a server could not start. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A setting is unknown, has a bad value, or is missing: no way into the cell, no key, no address that others reach. The
    /// text says what would be right.
    #[error("{0}")]
    Setting(String),
    /// A socket, directory or key cannot be used. The text says what to do. A name that a living member has is no such
    /// error: this process waits for that member's end, and a notice says so ([`Cell::notices`](crate::Cell::notices)).
    #[error("{0}")]
    Host(String),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}; raise the limit with `ulimit -u`")]
    Thread(String),
    /// The handle was made before a fork, and this is the child. Start a process of its own here.
    #[error("this handle belongs to the parent process: start a cell of its own in the forked child")]
    Forked,
    /// This thread holds a guard of [`Replica::read`](crate::Replica::read), for which the protocol thread waits.
    /// Nothing was started. Drop the guard first.
    #[error("{}", Reading)]
    Reading,
}

impl StartError {
    pub(crate) fn of(error: &phalanx_runtime::StartError) -> Self {
        use phalanx_runtime::StartError as Below;
        let text = error.to_string();
        match error {
            Below::NoWayIn { .. }
            | Below::NoKey { .. }
            | Below::NoAddress { .. }
            | Below::BadName { .. }
            | Below::Seed { .. } => Self::Setting(text),
            _ => Self::Host(text),
        }
    }
}

/// Why a group was not joined. This process is not in it, and no longer asks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The name is empty, too long, or begins with `phalanx.`, as names of the library's own groups do.
    #[error("bad group name: {0}")]
    BadName(String),
    /// This process is in a group of that name, or joins it. Use that handle, or leave first.
    #[error("this process is a member of group {0}, or joins it already")]
    AlreadyMember(String),
    /// The cell cannot make another group: its numbers are used up. Existing groups go on.
    #[error(
        "group {0} cannot be made: the cell's numbers of groups are used up; have all members leave, and start anew"
    )]
    NoNumbers(String),
    /// The inbox is one of another process. Make one with [`Cell::merged`](crate::Cell::merged) of the same cell.
    #[error("the inbox is one of another process")]
    OtherInbox,
    /// The process left the cell, or was excluded and does not come back. Start another one.
    #[error("this process is no longer in the cell")]
    Over,
    /// The handle was made before a fork, and this is the child. Start a process of its own here.
    #[error("this handle belongs to the parent process: start a cell of its own in the forked child")]
    Forked,
    /// The name of a domain of the state is empty, too long, given twice, or begins with `phalanx.`, as names of the
    /// library's own domains do. Or two domains have the same replica.
    #[error("bad domain: {0}")]
    BadDomain(String),
    /// The group has a state, and this process named none. All members of a group name a state, or none; that is agreed
    /// when it is founded.
    #[error("group {0} has a state, and this process named none: all members must name it")]
    HasState(String),
    /// The group has no state, and this process named one.
    #[error("group {0} has no state, and this process named one: none of the members may")]
    HasNoState(String),
    /// The group's state has a domain, in this version, that this process lacks. No state has travelled. Start the version of the
    /// program that the members run.
    #[error(
        "group {group} has version {version} of {}, and this process does not: start the members' version",
        shown(domain)
    )]
    LacksDomain {
        /// The group.
        group: String,
        /// The domain; empty: the state itself.
        domain: String,
        /// Its version; see [`State::VERSION`](crate::State::VERSION).
        version: u32,
    },
    /// This process needs a domain, in this version, that the group's state lacks. No state has travelled. A domain comes to a
    /// group that goes on when all its members have it as an optional one
    /// ([`GroupBuilder::optional_domain`](crate::GroupBuilder::optional_domain)).
    #[error("group {group} lacks version {version} of {}: name it optional until all members have it", shown(domain))]
    NeedsDomain {
        /// The group.
        group: String,
        /// The domain; empty: the state itself.
        domain: String,
        /// Its version.
        version: u32,
    },
    /// This thread holds a guard of [`Replica::read`](crate::Replica::read), for which the protocol thread waits.
    /// Nothing was asked. Drop the guard first.
    #[error("{}", Reading)]
    Reading,
}

/// Why a message has no receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The incarnation ended, or this process left the group, before the message was bound to a view: nobody has it,
    /// and nobody will. Look at the state when it is current again, and send it again if it still makes sense. Sends that
    /// are begun before the next view wait for it, so a retry is no busy loop.
    #[error("not sent: the incarnation ended before the message was bound to a view")]
    NotSent,
    /// Longer than 64 MiB, or, if it names a view, than a packet. To one member, 64 KiB less. It was not sent.
    #[error(
        "a message of {0} bytes is too long: 64 MiB at most, to one member 64 KiB less, and a packet if it names a view"
    )]
    TooLong(usize),
    /// Too much waits to be sent, and this call does not wait. Nothing was queued. Try again.
    #[error("too much waits to be sent: try again, or wait")]
    Full,
    /// This process has left the group. Nothing was queued.
    #[error("this process has left the group")]
    NotMember,
    /// The message names a view, and another one is in force, or that one is ending. Nobody has it. Look at the group's
    /// view, and decide again.
    #[error("not sent: another view of the group is in force")]
    OtherView,
    /// The value cannot be encoded. Nothing was queued.
    #[error("the value cannot be encoded")]
    Unencodable,
    /// The process left the cell, or was excluded and does not come back. Nothing was queued.
    #[error("this process is no longer in the cell")]
    Over,
    /// Of [`Inline`](crate::Inline) only: the process is in no view of the group, because it joins it, or comes back after
    /// an exclusion. Nothing was queued. Go on polling, and try again after the next view.
    #[error("this process is in no view of the group now: poll, and try again after the next view")]
    NoView,
    /// The handle was made before a fork, and this is the child. Nothing was queued.
    #[error("this handle belongs to the parent process: start a cell of its own in the forked child")]
    Forked,
    /// Of messages to one member: the receiver is not in that view of the group, which is the one in force here. Nothing was
    /// sent. An incarnation that left does not come back; its process may, with another id. Look at the group's view, and send
    /// to one of its members if it still makes sense.
    #[error("that member is not in view {view} of the group: choose a member of the view, or send to all")]
    NotInView {
        /// The number of the view.
        view: u64,
    },
    /// Of messages to one member and asks: the cell is at a level that has none. Nothing was sent. Raise the level when all members are
    /// of a version that knows it.
    #[error(
        "the cell is at level {level}, and this takes level {needed}: `phalanx level --raise` when all members know it"
    )]
    BelowLevel {
        /// The level of the cell.
        level: u16,
        /// The level that is needed.
        needed: u16,
    },
    /// Of asks: 4,096 asks of the group wait for answers already. Nothing was sent. Wait for some of them, or give each a
    /// deadline.
    #[error("too many asks of this group wait for answers: wait for some, or give each a deadline")]
    TooManyAsks,
    /// Of asks: the deadline passed before it was sent, because earlier messages, or the next view, had to be waited for. Nobody
    /// has it.
    #[error("not sent: its deadline passed before it could be")]
    Late,
    /// Of asks: this process's own inbox of the group was full for a second, so that nothing was sent to the group. Nobody has it. Read
    /// the inbox while you ask, in another thread or task.
    #[error("not sent: this process's own inbox of the group stays full: read it while you ask")]
    InboxFull,
    /// Of messages to a domain: the group lists none of that name ([`View::domains`](crate::View::domains)). Nobody has it. A domain
    /// that is on its way comes with a later view.
    #[error("not sent: the group lists no such domain")]
    NoSuchDomain,
    /// Of messages to a domain: only those in total order may name one. Nobody has it.
    #[error("not sent: only a message in total order may name a domain")]
    NotToDomain,
    /// Of [`Inline::unicast`](crate::Inline::unicast) only: the receiver is not another member of the cell view, or this
    /// process is in no view of the cell. Nothing was queued. An incarnation that left a view does not come back; its process
    /// may, with another id.
    #[error("no such member is in the cell view")]
    NoSuchMember,
    /// This thread holds a guard of [`Replica::read`](crate::Replica::read), for which the protocol thread waits. Of
    /// calls that wait in a thread alone: nothing was queued. Drop the guard first.
    #[error("{}", Reading)]
    Reading,
}

impl JoinError {
    pub(crate) fn of_domains(group: &str, mismatch: &DomainMismatch) -> Self {
        let group = group.to_owned();
        match mismatch.clone() {
            DomainMismatch::Lacks(Domain { name: domain, version }) => Self::LacksDomain { group, domain, version },
            DomainMismatch::Needs(Domain { name: domain, version }) => Self::NeedsDomain { group, domain, version },
        }
    }
}

impl SendError {
    pub(crate) fn of(refusal: Refusal) -> Self {
        match refusal {
            // Nobody waits for one that was given up.
            Refusal::NotSent | Refusal::GivenUp => Self::NotSent,
            Refusal::TooManyAsks => Self::TooManyAsks,
            Refusal::Late => Self::Late,
            Refusal::Full => Self::InboxFull,
            Refusal::OtherView => Self::OtherView,
            Refusal::TooLong(bytes) => Self::TooLong(bytes),
            Refusal::NoSuchMember(view) => Self::NotInView { view: view.0 },
            Refusal::NoSuchDomain => Self::NoSuchDomain,
            Refusal::NotToDomain => Self::NotToDomain,
            Refusal::BelowLevel { level, needed } => Self::BelowLevel { level, needed },
        }
    }
}

/// The message was sent, and this incarnation ended before it was known that every member has it: the survivors may
/// have delivered it or not. After the return the group's state tells: whatever the survivors delivered is in it, and
/// nothing of an ended incarnation is delivered later. Number your messages in the state if a retry must be safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("in doubt: the incarnation ended before every member was known to have the message")]
pub struct InDoubt;

/// Why a thread did not learn that a message is stable, or was delivered ([`Sent::blocking_stable`](crate::Sent::blocking_stable)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutcomeError {
    /// See [`InDoubt`].
    #[error(transparent)]
    InDoubt(#[from] InDoubt),
    /// This thread holds a guard of [`Replica::read`](crate::Replica::read), for which the protocol thread waits. The
    /// message takes its way nevertheless. Drop the guard first.
    #[error("{}", Reading)]
    Reading,
}

/// Why a message to one member ([`Group::send_to`](crate::Group::send_to)) is not known to be with its receiver. The numbers are
/// the same in every version and language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Undelivered {
    /// The receiver goes on and never gets it, because one of the two was out of the group before it came. Send it again, to a
    /// member of the view, if it still makes sense.
    #[error("not delivered: its receiver, or this process, was out of the group before it came")]
    NotDelivered,
    /// The receiver is out of the group, or this incarnation is over, before it was known: it may have it or not. If a second one
    /// must do no harm, number your messages.
    #[error("in doubt: its receiver is gone, or this incarnation is over, and it may have it or not")]
    InDoubt,
    /// This thread holds a guard of [`Replica::read`](crate::Replica::read), for which the protocol thread waits. The
    /// message takes its way nevertheless; [`SentTo::outcome`](crate::SentTo::outcome) tells without waiting what became
    /// of it. Drop the guard first.
    #[error("{}", Reading)]
    Reading,
}

/// Why an ask ([`Group::ask`](crate::Group::ask)) gave no answers. The numbers are the same in every version and language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// It was not sent, for this reason: nobody handled it, and nobody will. Its number is that of the reason.
    #[error("{0}")]
    Refused(SendError),
    /// It was sent, and this incarnation, or this membership, was over before it ended: members may have handled it or not, and nothing is
    /// known of their answers.
    #[error("unknown: this incarnation ended before the ask did, and members may have handled it")]
    Unknown,
}

/// Why an answer of this process ([`Asked`](crate::Asked)) is not sent. The numbers are the same in every version and language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// This ask was answered before, here or by a clone.
    #[error("this ask was answered before")]
    Answered,
    /// Nobody waits for it: the asker gave the ask up, or this process left the group or the cell.
    #[error("nobody waits for this answer any more")]
    GivenUp,
    /// It cannot be forwarded to a member that is not to answer the ask, nor when the view of the ask is over. Answer it otherwise.
    #[error("that member is not among those that are to answer this ask")]
    NotExpected,
    /// Longer than 64 MiB less 128 KiB. It may be answered still.
    #[error("an answer of {0} bytes is too long: 64 MiB less 128 KiB at most")]
    TooLong(usize),
    /// The value cannot be encoded. It may be answered still.
    #[error("the value cannot be encoded")]
    Unencodable,
    /// The handle was made before a fork, and this is the child. The parent can answer still.
    #[error("this handle belongs to the parent process")]
    Forked,
}

/// Why a submit ([`Replica::submit`](crate::Replica::submit)) gave no result. The numbers are the same in every version and language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// It was not submitted, for this reason, and is never executed. Its number is that of the reason. [`SendError::NoSuchDomain`]: not
    /// all members of the group take submits yet.
    #[error("{0}")]
    Refused(SendError),
    /// It was executed once, or never, and never will be later: the group, or this process's membership, was over before it was known, or
    /// the group forgot the client while its process was away. The state tells.
    #[error("unknown: it was executed once, or never, before the group, the membership or the client was over")]
    Unknown,
    /// It was executed, and its result is longer than 256 KiB, which no member keeps. The state tells.
    #[error("it was executed, and its result is too long to be kept: 256 KiB at most")]
    ResultTooLong,
    /// It was executed, and its result cannot be encoded, or is of another type. The state tells.
    #[error("it was executed, and its result cannot be decoded")]
    Undecodable,
    /// It was not executed: the group has 1,024 clients that submit to this state, and no process of them is away. Submit by fewer
    /// processes, or call one that submits for others.
    #[error("not executed: as many clients submit to this state as may, and none is away")]
    TooManyClients,
    /// It was not executed: the group keeps as many bytes of results as it may, for clients that did not take them yet. Try again later.
    #[error("not executed: the group keeps as many results as it may: try again later")]
    TooManyResults,
    /// It was not executed: the group does not know the name of this client. Choose another name.
    #[error("not executed: the group does not know the name of this client: choose another one")]
    UnknownName,
    /// It was not executed: the name used a later number than it was begun with ([`Replica::client`](crate::Replica::client)). Begin it with
    /// this one, or choose another name.
    #[error("not executed: the name has used number {last} already: record each number before it is submitted")]
    Behind {
        /// The last number that was executed.
        last: u64,
    },
    /// It was not executed: another process goes on with the name.
    #[error("not executed: another process goes on with the name of this client")]
    TakenOver,
    /// It was not submitted: its number is under way, or was used by this client.
    #[error("not submitted: its number was used before")]
    NumberUsed,
    /// The name of a client has 1 to 64 bytes.
    #[error("the name of a client has 1 to 64 bytes")]
    BadName,
}

impl SubmitError {
    pub(crate) fn of(why: NotSubmitted) -> Self {
        match why {
            NotSubmitted::Unknown => Self::Unknown,
            NotSubmitted::TooLong => Self::ResultTooLong,
            NotSubmitted::Refused(refusal) => Self::Refused(SendError::of(refusal)),
            NotSubmitted::Over => Self::Refused(SendError::NotMember),
            NotSubmitted::AnswersFull => Self::TooManyResults,
            NotSubmitted::ClientsFull => Self::TooManyClients,
            NotSubmitted::NotKnown => Self::UnknownName,
            NotSubmitted::Behind(last) => Self::Behind { last },
            NotSubmitted::TakenOver => Self::TakenOver,
        }
    }
}

/// Why a flush failed. Messages that it waited for may be missing at others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlushError {
    /// Some messages of this process were not sent or are in doubt, since the last flush of this handle.
    #[error("{not_sent} messages were not sent, and {in_doubt} are in doubt")]
    Lost {
        /// Messages that nobody has, those to one member that were not delivered among them.
        not_sent: u64,
        /// Messages that the others may have or not.
        in_doubt: u64,
    },
    /// This process has left the group, or the cell.
    #[error("this process has left the group")]
    Over,
    /// The handle was made before a fork, and this is the child.
    #[error("this handle belongs to the parent process: start a cell of its own in the forked child")]
    Forked,
    /// This thread holds a guard of [`Replica::read`](crate::Replica::read), for which the protocol thread waits.
    /// Nothing is known, and nothing was forgotten. Drop the guard first.
    #[error("{}", Reading)]
    Reading,
}

/// Why a leave was not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaveError {
    /// The cell did not answer in time. The process is stopped; the others see its death.
    #[error("the cell did not answer in time; this process was stopped, and the others see a death")]
    Timeout,
    /// The group was over before, for this reason, or the process was.
    #[error("already left: {0}")]
    Already(LeaveReason),
    /// The protocol thread panicked. The process is dead; the others see that.
    #[error("the protocol thread panicked")]
    Panicked,
    /// The handle was made before a fork, and this is the child.
    #[error("this handle belongs to the parent process: start a cell of its own in the forked child")]
    Forked,
    /// The process left, as one of the last of its cell, and something may be lost with the cell: a group waits for members
    /// that are cut off, or a member was left out since the leave was asked for. A notice names them. The process waited
    /// for them (`timing.end_wait`).
    #[error(
        "left as one of the last members, and in doubt: what members have that are cut off may be lost; see the notices"
    )]
    InDoubt,
    /// This thread holds a guard of [`Replica::read`](crate::Replica::read), for which the protocol thread waits. No
    /// leave was asked for. A [`Cell`](crate::Cell) that was to leave is dropped with this, as any handle is: if it is
    /// the last one, the drop leaves, and waits for at most two seconds. Drop the guard first.
    #[error("{}", Reading)]
    Reading,
}

/// Why a call gave no answer. Its text says whether the handler ran.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The handler did not run, and never will. Calling again does no harm.
    #[error("not executed: {0}")]
    NotExecuted(Reason),
    /// The handler may have run once, or may still run; an idempotent call more than once. Look at what it would have
    /// changed before calling again.
    #[error("unknown whether it was executed: {0}")]
    Unknown(Reason),
    /// The handler began, and ended without an answer: it dropped the request, or panicked.
    #[error("the handler ended without an answer")]
    Abandoned,
    /// The request cannot be encoded. Nothing was sent.
    #[error("the request cannot be encoded")]
    Unencodable,
    /// The handler ran, and its answer cannot be encoded or is longer than 64 MiB.
    #[error("the handler ran, and its answer cannot be encoded or is too long")]
    UnencodableAnswer,
    /// The handler ran, and its answer is of another type. Both sides must use the same types.
    #[error("the handler ran, and its answer is of another type: {0}")]
    Answer(DecodeError),
    /// It is to be hedged ([`Call::hedge_after`](crate::Call::hedge_after)) and is not marked
    /// [`idempotent`](crate::Call::idempotent): two servers could run it. Nothing was sent.
    #[error("a hedged call may run at two servers: mark it idempotent, or do not hedge it")]
    NotIdempotent,
}

/// Why a call was not executed, or why it is unknown. The numbers are the same in every version and language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// No server is there: the system says so of its address at once, or the directory has none of that member or group. If
    /// the call waited for one, none came before its deadline.
    #[error("no such server is there, and none came while the call waited")]
    Nobody,
    /// Nothing at the address answered before the deadline. Its process is stopped, or its host is down or cut off, or it
    /// is of another cell or has another key: who cannot open a packet does not answer it. A call to a group is not passed
    /// on to another server then, because its time is over.
    #[error("no answer before the deadline: a stopped process, a host that is down, or another cell name or key")]
    Silent,
    /// The deadline passed.
    #[error("the deadline has passed")]
    Deadline,
    /// The server has too much to do. Call again later. A call to a group is passed on to its next server first.
    #[error("the server is busy")]
    Busy,
    /// It serves no such requests, or stops, or its handler refused ([`Request::refuse`](crate::Request::refuse)). A call to
    /// a group is passed on to its next server first.
    #[error("the server refused it")]
    Refused,
    /// The request is longer than the server takes: 64 MiB at most.
    #[error("the request is too long")]
    TooLong,
    /// The answer is longer than 64 MiB.
    #[error("the answer is too long")]
    AnswerTooLong,
    /// The server restarted, or was gone, while the call was under way.
    #[error("the server was restarted or is gone")]
    Restarted,
    /// 1,024 calls of this client wait for that server already. Call again when one has ended.
    #[error("too many calls wait for that server")]
    QueueFull,
    /// The client has used up its packet numbers. Start another one.
    #[error("this client has used up its packet numbers: start another")]
    UsedUp,
    /// The server has used up its packet numbers. It has to be started again.
    #[error("the server has used up its packet numbers: start it again")]
    ServerUsedUp,
    /// The client, or its process, has ended.
    #[error("this client has ended")]
    Over,
    /// The client was made before a fork, and this is the child. Start another one here.
    #[error("this client belongs to the parent process: start one in the forked child")]
    Forked,
    /// The member that was called has left the cell, or the member whose server of the group was called: a view without it
    /// was decided. A call to a group is passed on to its next server first, if it did not run or is idempotent.
    #[error("the member that was called has left the cell, with view {view}")]
    Left {
        /// The first view of the cell without it, as far as this process knows.
        view: u64,
    },
    /// This thread holds a guard of [`Replica::read`](crate::Replica::read), for which the protocol thread waits. The
    /// call was not made. Drop the guard first.
    #[error("{}", Reading)]
    Reading,
    /// Another reason, of a later version.
    #[error("for another reason")]
    Other,
}

impl Reason {
    /// The reason's number, the same in every version and language.
    #[must_use]
    pub const fn number(&self) -> u8 {
        match self {
            Self::Nobody => 1,
            Self::Silent => 2,
            Self::Deadline => 3,
            Self::Busy => 4,
            Self::Refused => 5,
            Self::TooLong => 6,
            Self::AnswerTooLong => 7,
            Self::Restarted => 8,
            Self::QueueFull => 9,
            Self::UsedUp => 10,
            Self::ServerUsedUp => 11,
            Self::Over => 12,
            Self::Forked => 13,
            Self::Left { .. } => 14,
            Self::Reading => 15,
            Self::Other => 255,
        }
    }
}

/// A payload or a state is not of the expected type. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct DecodeError(Why);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Why {
    #[error("the payload is of another type: {0}")]
    Type(postcard::Error),
    #[error("{0}")]
    Other(String),
}

impl DecodeError {
    /// The error of a [`State`](crate::State) with a format of its own. `why` is what the notice about it says.
    #[must_use]
    pub fn new(why: impl Into<String>) -> Self {
        Self(Why::Other(why.into()))
    }

    pub(crate) const fn of_type(error: postcard::Error) -> Self {
        Self(Why::Type(error))
    }
}

/// Why an inbox has no descriptor. Nothing changed: it can be waited for as before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// The system or this process has no descriptor left. Close some, or raise the limit, and ask again.
    #[error("no descriptor is left: {0}; raise the limit with `ulimit -n`")]
    Exhausted(String),
    /// The inbox was made before a fork, and this is the child.
    #[error("this handle belongs to the parent process: start a cell of its own in the forked child")]
    Forked,
}

/// Why a wait failed. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The system's poll failed, as when it has no memory. Poll the process, and wait again.
    #[error("cannot wait: {0}")]
    Host(String),
    /// The process was started before a fork, and this is the child. Start another one here.
    #[error("this process belongs to the parent: start one of its own in the forked child")]
    Forked,
    /// This thread holds a guard of [`Replica::read`](crate::Replica::read), for which the protocol thread waits. The
    /// process waited for nothing. Drop the guard first.
    #[error("{}", Reading)]
    Reading,
}

/// Why a wait in a thread, with a limit, ended without what it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// Nothing came in time.
    #[error("nothing came in time")]
    Timeout,
    /// This thread holds a guard of [`Replica::read`](crate::Replica::read), for which the protocol thread waits.
    /// Nothing was begun, and nothing was taken. Drop the guard first.
    #[error("{}", Reading)]
    Reading,
}

/// Why a wait for a member's leaving ended without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// This process is over, so it learns nothing of the member any more. [`Cell::end`](crate::Cell::end) says how.
    #[error("this process is no longer in the cell, and learns of no other")]
    Over,
    /// The handle was made before a fork, and this is the child.
    #[error("this handle belongs to the parent process: start a cell of its own in the forked child")]
    Forked,
    /// This thread holds a guard of [`Replica::read`](crate::Replica::read), for which the protocol thread waits. Ask
    /// again. Drop the guard first.
    #[error("{}", Reading)]
    Reading,
}

macro_rules! reading {
    ($($error:ident => $as:expr,)*) => {
        $(
            impl From<Reading> for $error {
                fn from(Reading: Reading) -> Self {
                    $as
                }
            }
        )*
    };
}

// Of each call that waits in a thread.
reading! {
    StartError => Self::Reading,
    JoinError => Self::Reading,
    SendError => Self::Reading,
    OutcomeError => Self::Reading,
    Undelivered => Self::Reading,
    AskError => Self::Refused(SendError::Reading),
    SubmitError => Self::Refused(SendError::Reading),
    FlushError => Self::Reading,
    LeaveError => Self::Reading,
    CallError => Self::NotExecuted(Reason::Reading),
    LimitError => Self::Reading,
    WaitError => Self::Reading,
    WatchError => Self::Reading,
}

macro_rules! numbers {
    ($($error:ident { $($pattern:pat => $number:literal,)* })*) => {
        $(
            impl $error {
                /// The error's number, the same in every version and language. No two errors share one.
                #[must_use]
                pub const fn number(&self) -> u16 {
                    match self {
                        $($pattern => $number,)*
                    }
                }
            }
        )*
    };
}

impl SubmitError {
    /// The error's number, the same in every version and language: that of the reason, if it was refused.
    #[must_use]
    pub const fn number(&self) -> u16 {
        match self {
            Self::Refused(why) => why.number(),
            Self::Unknown => 405,
            Self::ResultTooLong => 1401,
            Self::Undecodable => 1402,
            Self::TooManyClients => 1403,
            Self::TooManyResults => 1404,
            Self::UnknownName => 1405,
            Self::Behind { .. } => 1406,
            Self::TakenOver => 1407,
            Self::NumberUsed => 1408,
            Self::BadName => 1409,
        }
    }
}

impl OutcomeError {
    /// The error's number, the same in every version and language: that of [`InDoubt`], if it is that.
    #[must_use]
    pub const fn number(&self) -> u16 {
        match self {
            Self::InDoubt(why) => why.number(),
            Self::Reading => 407,
        }
    }
}

impl AskError {
    /// The error's number, the same in every version and language: that of the reason, if it was not sent.
    #[must_use]
    pub const fn number(&self) -> u16 {
        match self {
            Self::Refused(why) => why.number(),
            Self::Unknown => 404,
        }
    }
}

numbers! {
    StartError {
        Self::Setting(_) => 101,
        Self::Host(_) => 102,
        Self::Thread(_) => 103,
        Self::Forked => 104,
        Self::Reading => 105,
    }
    JoinError {
        Self::BadName(_) => 201,
        Self::AlreadyMember(_) => 202,
        Self::NoNumbers(_) => 203,
        Self::Over => 204,
        Self::Forked => 205,
        Self::OtherInbox => 206,
        Self::BadDomain(_) => 207,
        Self::HasState(_) => 208,
        Self::HasNoState(_) => 209,
        Self::LacksDomain { .. } => 210,
        Self::NeedsDomain { .. } => 211,
        Self::Reading => 212,
    }
    SendError {
        Self::NotSent => 301,
        Self::TooLong(_) => 302,
        Self::Full => 303,
        Self::NotMember => 304,
        Self::Unencodable => 305,
        Self::Over => 306,
        Self::Forked => 307,
        Self::OtherView => 308,
        Self::NoView => 309,
        Self::NoSuchMember => 310,
        Self::NotInView { .. } => 311,
        Self::BelowLevel { .. } => 312,
        Self::TooManyAsks => 313,
        Self::Late => 314,
        Self::InboxFull => 315,
        Self::NoSuchDomain => 316,
        Self::NotToDomain => 317,
        Self::Reading => 318,
    }
    InDoubt {
        Self => 401,
    }
    LimitError {
        Self::Timeout => 901,
        Self::Reading => 902,
    }
    Undelivered {
        Self::NotDelivered => 402,
        Self::InDoubt => 403,
        Self::Reading => 406,
    }
    AnswerError {
        Self::Answered => 1301,
        Self::GivenUp => 1302,
        Self::NotExpected => 1303,
        Self::TooLong(_) => 1304,
        Self::Unencodable => 1305,
        Self::Forked => 1306,
    }
    FlushError {
        Self::Lost { .. } => 501,
        Self::Over => 502,
        Self::Forked => 503,
        Self::Reading => 504,
    }
    LeaveError {
        Self::Timeout => 601,
        Self::Already(_) => 602,
        Self::Panicked => 603,
        Self::Forked => 604,
        Self::InDoubt => 605,
        Self::Reading => 606,
    }
    CallError {
        Self::NotExecuted(_) => 701,
        Self::Unknown(_) => 702,
        Self::Abandoned => 703,
        Self::Unencodable => 704,
        Self::UnencodableAnswer => 705,
        Self::Answer(_) => 706,
        Self::NotIdempotent => 707,
    }
    DecodeError {
        Self { .. } => 801,
    }
    DescriptorError {
        Self::Exhausted(_) => 1001,
        Self::Forked => 1002,
    }
    WaitError {
        Self::Host(_) => 1101,
        Self::Forked => 1102,
        Self::Reading => 1103,
    }
    WatchError {
        Self::Over => 1201,
        Self::Forked => 1202,
        Self::Reading => 1203,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs in other languages keep these numbers. A new variant gets the next number of its error.
    #[test]
    fn numbers_never_change() {
        let text = String::new;
        let decode = || DecodeError::of_type(postcard::Error::DeserializeBadBool);
        let start = [
            StartError::Setting(text()),
            StartError::Host(text()),
            StartError::Thread(text()),
            StartError::Forked,
            StartError::Reading,
        ];
        assert_eq!(start.map(|error| error.number()), [101, 102, 103, 104, 105]);
        let join = [
            JoinError::BadName(text()),
            JoinError::AlreadyMember(text()),
            JoinError::NoNumbers(text()),
            JoinError::Over,
            JoinError::Forked,
            JoinError::OtherInbox,
            JoinError::BadDomain(text()),
            JoinError::HasState(text()),
            JoinError::HasNoState(text()),
            JoinError::LacksDomain { group: text(), domain: text(), version: 1 },
            JoinError::NeedsDomain { group: text(), domain: text(), version: 1 },
            JoinError::Reading,
        ];
        assert!(join.map(|error| error.number()).into_iter().eq(201..=212));
        let send = [
            SendError::NotSent,
            SendError::TooLong(0),
            SendError::Full,
            SendError::NotMember,
            SendError::Unencodable,
            SendError::Over,
            SendError::Forked,
            SendError::OtherView,
            SendError::NoView,
            SendError::NoSuchMember,
            SendError::NotInView { view: 7 },
            SendError::BelowLevel { level: 7, needed: 8 },
            SendError::TooManyAsks,
            SendError::Late,
            SendError::InboxFull,
            SendError::NoSuchDomain,
            SendError::NotToDomain,
            SendError::Reading,
        ];
        assert!(send.map(|error| error.number()).into_iter().eq(301..=318));
        let undelivered = [Undelivered::NotDelivered, Undelivered::InDoubt, Undelivered::Reading];
        assert_eq!(undelivered.map(|error| error.number()), [402, 403, 406]);
        assert_eq!([OutcomeError::InDoubt(InDoubt), OutcomeError::Reading].map(|error| error.number()), [401, 407]);
        let lost = FlushError::Lost { not_sent: 1, in_doubt: 0 };
        let flush = [lost, FlushError::Over, FlushError::Forked, FlushError::Reading];
        assert_eq!(flush.map(|error| error.number()), [501, 502, 503, 504]);
        let left = LeaveError::Already(LeaveReason::Left);
        let leave = [
            LeaveError::Timeout,
            left,
            LeaveError::Panicked,
            LeaveError::Forked,
            LeaveError::InDoubt,
            LeaveError::Reading,
        ];
        assert_eq!(leave.map(|error| error.number()), [601, 602, 603, 604, 605, 606]);
        let call = [
            CallError::NotExecuted(Reason::Nobody),
            CallError::Unknown(Reason::Deadline),
            CallError::Abandoned,
            CallError::Unencodable,
            CallError::UnencodableAnswer,
            CallError::Answer(decode()),
            CallError::NotIdempotent,
        ];
        assert_eq!(call.map(|error| error.number()), [701, 702, 703, 704, 705, 706, 707]);
        assert_eq!((InDoubt.number(), decode().number()), (401, 801));
        assert_eq!([LimitError::Timeout, LimitError::Reading].map(|error| error.number()), [901, 902]);
        let descriptor = [DescriptorError::Exhausted(text()), DescriptorError::Forked];
        assert_eq!(descriptor.map(|error| error.number()), [1001, 1002]);
        let wait = [WaitError::Host(text()), WaitError::Forked, WaitError::Reading];
        assert_eq!(wait.map(|error| error.number()), [1101, 1102, 1103]);
        let watch = [WatchError::Over, WatchError::Forked, WatchError::Reading];
        assert_eq!(watch.map(|error| error.number()), [1201, 1202, 1203]);
        let submit = [
            SubmitError::Refused(SendError::NotMember),
            SubmitError::Unknown,
            SubmitError::ResultTooLong,
            SubmitError::Undecodable,
            SubmitError::TooManyClients,
            SubmitError::TooManyResults,
            SubmitError::UnknownName,
            SubmitError::Behind { last: 1 },
            SubmitError::TakenOver,
            SubmitError::NumberUsed,
            SubmitError::BadName,
        ];
        let numbers = [304, 405, 1401, 1402, 1403, 1404, 1405, 1406, 1407, 1408, 1409];
        assert_eq!(submit.map(|error| error.number()), numbers);
        let ask = [AskError::Refused(SendError::Late), AskError::Unknown];
        assert_eq!(ask.map(|error| error.number()), [314, 404]);
        let answer = [
            AnswerError::Answered,
            AnswerError::GivenUp,
            AnswerError::NotExpected,
            AnswerError::TooLong(0),
            AnswerError::Unencodable,
            AnswerError::Forked,
        ];
        assert!(answer.map(|error| error.number()).into_iter().eq(1301..=1306));
        let reasons = [
            Reason::Nobody,
            Reason::Silent,
            Reason::Deadline,
            Reason::Busy,
            Reason::Refused,
            Reason::TooLong,
            Reason::AnswerTooLong,
            Reason::Restarted,
            Reason::QueueFull,
            Reason::UsedUp,
            Reason::ServerUsedUp,
            Reason::Over,
            Reason::Forked,
            Reason::Left { view: 7 },
            Reason::Reading,
            Reason::Other,
        ];
        assert!(reasons.map(|reason| reason.number()).into_iter().eq((1..=15).chain([255])));
    }
}
