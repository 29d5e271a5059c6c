//! The records of a trace.

use postcard::fixint;
use serde::{Deserialize, Serialize};

use crate::{Action, Outcome};

/// One event with its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Nanoseconds on this machine's clock, from an arbitrary zero. They never decrease within a file.
    pub at_ns: u64,
    /// The event.
    pub event: Event,
}

/// The requested order of a multicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Order {
    /// FIFO: in the order of its sender.
    Fifo,
    /// Causal: after everything its sender had sent or delivered in this group view.
    Causal,
    /// Total: the same order at all members, which extends the causal one.
    Total,
}

/// Why a process is no longer in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LeaveReason {
    /// It asked to leave.
    Left,
    /// It was proved dead by its host.
    Died,
    /// It was not heard, or did not answer a coordinator.
    Unreachable,
    /// It held others back for too long.
    TooSlow,
    /// Most members could not make sense of what it sent.
    Nonsense,
    /// It leaves in order to take the group's state anew.
    Anew,
    /// The group stopped.
    Stopped,
    /// It was heard, but a path to it failed.
    NoProgress,
}

/// Why a membership ended, as an application is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MembershipEnd {
    /// It left, or was put out of the group or the cell.
    Left(LeaveReason),
    /// The process is over.
    Over,
    /// The group cannot be made.
    Refused,
    /// The group has a state and was joined without one, or it has none and was joined with one.
    Differs,
}

/// What became of a message to one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ToOneOutcome {
    /// It has its place among what its receiver's application gets.
    Delivered,
    /// Its receiver never gets it.
    NotDelivered,
    /// One of the two was over before either was known.
    InDoubt,
}

/// A step of an ask. Its asker writes [`AskStep::Opened`], [`AskStep::Heard`] and [`AskStep::Ended`], a member that answers
/// the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AskStep {
    /// The asker delivered it, and waits for answers.
    Opened {
        /// The ranks in the ask's view that are to answer.
        places: Vec<u16>,
        /// How many answers end it.
        want: AskWant,
    },
    /// It was given to the application, which is to fill a place.
    Shown {
        /// The rank whose place it is.
        place: u16,
        /// Its place in the total order of its view, if it has one and comes from the stream.
        position: Option<u64>,
        /// Whether another member forwarded it.
        forwarded: bool,
    },
    /// The application answered. The answer is sent when the process may send.
    Replied {
        /// The rank whose place it fills.
        place: u16,
        /// The answer.
        reply: AskReply,
        /// [`crate::payload_hash`] of the value or reason.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// An answer counts at the asker.
    Heard {
        /// The rank whose place it fills.
        place: u16,
        /// The member that sent it.
        from: u64,
        /// The answer.
        reply: AskReply,
        /// [`crate::payload_hash`] of the value or reason.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// The asker was told how it ended.
    Ended(AskEnd),
}

/// How many answers end an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AskWant {
    /// All of those that are to answer.
    All,
    /// More than half of them.
    Majority,
    /// This number of them.
    Count(u32),
    /// As many as the asker's own test takes.
    Until,
}

/// An answer of an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AskReply {
    /// A value.
    Value,
    /// None.
    Null,
    /// The ask is to end.
    Abort,
    /// The member of that rank is to answer instead.
    Forward(u16),
}

/// How an ask ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AskEnd {
    /// As many answered as it wanted.
    Met,
    /// Nobody can answer any more, or too few.
    Complete,
    /// A member aborted it.
    Aborted,
    /// Its deadline passed.
    Deadline,
    /// Its asker gave it up.
    Cancelled,
    /// Its asker's own inbox stayed full.
    Full,
    /// Its asker's incarnation, or membership, is over.
    Over,
}

/// A step of a submit. Its submitter writes [`SubmitStep::Sent`], and at most one of the last four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SubmitStep {
    /// It is handed over to be sent, in this incarnation of its membership. A submit that never is has no record.
    Sent {
        /// [`crate::payload_hash`] of the message.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// The state of this process executed it, also as part of a state transfer. Follows the delivery.
    Executed {
        /// The group view of the message that was delivered.
        view: u64,
        /// Its place in the total order of that view.
        position: u64,
        /// [`crate::payload_hash`] of the result.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// The application is told that it was executed, with this result.
    Told {
        /// [`crate::payload_hash`] of the result.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// The application is told that it is not executed.
    NotExecuted,
    /// The application is told that it was executed once, or never. Follows the record of the end that is the reason
    /// ([`Event::ToldLost`]).
    Unknown,
    /// The application is told that it was executed, and that its result is too long to be kept.
    TooLong,
}

/// What an application is told of a membership that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MembershipStep {
    /// What only this process had of the group's state is lost to the others.
    Forgotten,
    /// The group goes on with the state that this process kept.
    Kept,
    /// Another member's state of so many bytes begins.
    Taking(u64),
    /// That state is complete.
    Current,
    /// Nobody has the state any more, and the group begins with this process's own.
    OwnState,
    /// A view with this number.
    View(u64),
    /// It is out of the group, and comes back by itself.
    Anew,
}

/// The harness's phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Faults may happen at any time.
    Faulty,
    /// No new fault; existing ones are being healed.
    Heal,
    /// Healed: no fault from here to the harness's end, and liveness properties apply.
    Quiet,
}

/// A disturbance of one process, or of the network, that neither stops nor cuts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Trouble {
    /// Packets are lost, late or damaged, or exceed the links' capacity.
    Network,
    /// The application takes no deliveries and no events.
    NotReading,
    /// Iterations of the event loop take long, or the clock jumps.
    Slow,
    /// Its sockets hold little, or it cannot send or receive long packets.
    Narrow,
    /// Others cannot read what it sends, or it cannot read what others send, through an injected defect.
    Nonsense,
}

/// How a call ended, as reported to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CallOutcome {
    /// It ran and was answered.
    Answer {
        /// [`crate::payload_hash`] of the answer.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// It did not run and never will.
    NotExecuted,
    /// It may have run.
    Unknown,
}

/// An event at a process, or an action of the harness. The format identifies events by their position, so new ones are
/// added at the end.
///
/// Processes are identified by their incarnation, groups by their number in the cell, group views by their number, and
/// multicasts by (group, sender, group view, seq).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The process began. First in its file.
    Start,
    /// It requested to join its cell (or to found it). Before its first cell view.
    JoinAsked {
        /// The cell's name.
        cell: String,
    },
    /// It requested to leave the cell.
    LeaveAsked,
    /// A cell view was installed.
    CellView {
        /// The cell instance.
        instance: u64,
        /// The view's number.
        view: u64,
        /// Members in rank order: incarnation and name.
        members: Vec<(u64, String)>,
        /// The members that left with this view, and why.
        left: Vec<(u64, LeaveReason)>,
    },
    /// It requested to join a group.
    GroupJoinAsked {
        /// The group's name.
        name: String,
        /// Whether it requested the group's state.
        with_state: bool,
    },
    /// It requested to leave a group.
    GroupLeaveAsked {
        /// The group.
        group: u32,
    },
    /// A group view was installed.
    GroupView {
        /// The group.
        group: u32,
        /// Its name.
        name: String,
        /// The view's number.
        view: u64,
        /// The view this process was in before, if any.
        prev: Option<u64>,
        /// Members in rank order.
        members: Vec<u64>,
        /// The members that joined with this view.
        joined: Vec<u64>,
        /// The members that left with this view, and why.
        left: Vec<(u64, LeaveReason)>,
    },
    /// It left the group; no more messages of the group are delivered.
    GroupLeft {
        /// The group.
        group: u32,
    },
    /// A multicast of this process was assigned to a group view. Everything that the process had delivered before
    /// precedes it causally.
    ///
    /// The view is the one in force. If the application takes its events late, it may be a later one.
    Send {
        /// The group.
        group: u32,
        /// The group view it belongs to.
        view: u64,
        /// Its number among this process's messages in that view, from 1.
        seq: u64,
        /// The requested order.
        order: Order,
        /// Whether it was sent as uniform.
        uniform: bool,
        /// [`crate::payload_hash`] of the payload.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// A multicast was delivered to the application.
    Deliver {
        /// The group.
        group: u32,
        /// The group view it was sent in.
        view: u64,
        /// Its sender.
        #[serde(with = "fixint::le")]
        sender: u64,
        /// Its number among its sender's messages in that view.
        seq: u64,
        /// The order it was sent with.
        order: Order,
        /// Whether it was delivered only after every member had received it.
        uniform: bool,
        /// For [`Order::Total`]: its number in the group view's total order, from 1.
        position: Option<u64>,
        /// [`crate::payload_hash`] of the payload.
        #[serde(with = "fixint::le")]
        hash: u64,
        /// Part of a state transfer: it belongs to views before this process's first view of the group.
        replayed: bool,
    },
    /// This process, as donor, froze its state for a joiner.
    SnapshotOut {
        /// The group.
        group: u32,
        /// The group view in force.
        view: u64,
        /// The application's digest of the frozen state.
        #[serde(with = "fixint::le")]
        digest: u64,
    },
    /// This process, as joiner, began to receive a donor's snapshot. Earlier partial state is discarded.
    SnapshotIn {
        /// The group.
        group: u32,
        /// The snapshot's length in bytes.
        bytes: u64,
    },
    /// The joiner's state is complete up to its first view of the group, which is installed next.
    StateEnd {
        /// The group.
        group: u32,
        /// The application's digest of the state; of one that follows from views, together with that view.
        #[serde(with = "fixint::le")]
        digest: u64,
    },
    /// The application's digest of its state at this point.
    ///
    /// Digests at the start of a view (`delivered` = 0) must depend only on that and earlier views, on the *set* of messages
    /// delivered so far, and on the sequence of those in total order; later ones may depend on the sequence of all.
    Digest {
        /// The group.
        group: u32,
        /// The group view in force.
        view: u64,
        /// Messages delivered in this view before this point.
        delivered: u64,
        /// The digest.
        #[serde(with = "fixint::le")]
        digest: u64,
    },
    /// The process learned that it hears no quorum.
    NonPrimary,
    /// The process learned that it hears a quorum again.
    Primary,
    /// The process learned that a decided view does not hold it; this incarnation ends.
    Excluded {
        /// The cell view without it that it was notified of.
        view: u64,
    },
    /// The graceful leave is done; this incarnation ends.
    Left,
    /// A point-to-point message was accepted.
    P2pSend {
        /// The receiver.
        to: u64,
        /// Its number among the messages from this process to that one, from 1.
        k: u64,
        /// [`crate::payload_hash`] of the payload.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// A point-to-point message was delivered to the application.
    P2pDeliver {
        /// The sender.
        from: u64,
        /// Its number among the messages delivered here from that process, from 1.
        k: u64,
        /// [`crate::payload_hash`] of the payload.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// Harness: the process is stopped (it exists, but does not run).
    Stop {
        /// The process.
        incarnation: u64,
    },
    /// Harness: the process runs again.
    Cont {
        /// The process.
        incarnation: u64,
    },
    /// Harness: the process was killed. Written when it is certainly dead.
    Crash {
        /// The process.
        incarnation: u64,
    },
    /// Harness: a phase begins.
    Phase {
        /// The phase.
        phase: Phase,
        /// For [`Phase::Quiet`]: names of the processes that are connected with each other, new incarnations
        /// included. Empty: all that run.
        connected: Vec<String>,
    },
    /// Clean end of the file. In the harness's file: the experiment is over, and processes end after this.
    End,
    /// This process may start no multicast in its groups, because a view change waits for silence.
    Block,
    /// It may multicast again, in a new view or in the previous one.
    Unblock,
    /// Harness: these links carry no packets any more, as pairs of process names: from, to.
    Cut {
        /// The links.
        links: Vec<(String, String)>,
    },
    /// Harness: these links carry packets again.
    Mend {
        /// The links.
        links: Vec<(String, String)>,
    },
    /// Harness: an attacker without the key sends old, forged or damaged packets.
    Attack {
        /// Whether the attack begins or ends here.
        active: bool,
    },
    /// Harness: a disturbance of one process or of all begins or ends.
    Trouble {
        /// Its kind.
        what: Trouble,
        /// The process; 0: all.
        incarnation: u64,
        /// Whether it begins or ends here. Disturbances of one kind do not nest.
        begins: bool,
    },
    /// Harness: the current fill of a bounded buffer of a process.
    Gauge {
        /// The process.
        incarnation: u64,
        /// The buffer. One name and limit may stand for several like buffers; the fullest is reported.
        name: String,
        /// Its current content.
        value: u64,
        /// The most it may hold.
        limit: u64,
        /// The most it holds while nothing is sent and membership does not change.
        idle: u64,
    },
    /// Harness: the packets that a process has sent since its start.
    Traffic {
        /// The process.
        incarnation: u64,
        /// Packets; one for each receiver.
        packets: u64,
        /// An ample number per second while nothing is sent and membership does not change.
        idle: u64,
    },
    // Objects that the members of a group replicate.
    /// The application started an operation on an object of a group it is a member of. Without a matching
    /// [`Event::Return`] it may have happened, or happen later, or never.
    Invoke {
        /// The group.
        group: u32,
        /// Its number among the operations of this process, from 1.
        op: u64,
        /// The operation.
        action: Action,
    },
    /// The application received the outcome of an operation.
    Return {
        /// The operation's number.
        op: u64,
        /// The outcome.
        outcome: Outcome,
    },
    /// A process that counts itself as the holder of a lock used the resource that the lock guards.
    Guard {
        /// The guarded resource, which is outside the cell. There is one for each lock, with the lock's number.
        resource: u32,
        /// The resource's own count of its uses, from 1.
        serial: u64,
        /// The token that the process presented.
        token: u64,
        /// Whether the resource accepted the token.
        accepted: bool,
    },
    /// The sum of all accounts of a group's bank, in this process's state at this point.
    Balance {
        /// The group.
        group: u32,
        /// The sum.
        sum: u64,
    },
    /// Harness: from here to the end some paths are partly broken: a link or one direction of it, a socket, packets of
    /// one kind, or long packets. Everything else passes.
    Impaired {
        /// The names of the processes at the broken ends. All paths between others are intact.
        ends: Vec<String>,
        /// What does not pass, for people.
        what: String,
        /// The applications of the other processes keep multicasting, in each of their groups at least at this
        /// interval; 0: no claim.
        sends_every_ns: u64,
    },
    /// Harness: the experiment tests these guarantees, by the checker's codes. The check fails if one of them is never
    /// exercised.
    About {
        /// Codes, for example `"S3"`.
        codes: Vec<String>,
    },
    // Calls.
    /// This process makes or answers calls, and is no member of the cell. Follows its start at once.
    Endpoint {
        /// The address where it is called.
        address: String,
    },
    /// A call of this process was accepted. The checker requires that no two of its requests are alike.
    CallMade {
        /// Its number among this process's calls, from 1.
        call: u64,
        /// The address it was made to.
        to: String,
        /// Whether it may run more than once.
        idempotent: bool,
        /// [`crate::payload_hash`] of the request.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// The caller learned how a call ended.
    CallEnded {
        /// The call's number.
        call: u64,
        /// Its outcome.
        outcome: CallOutcome,
    },
    /// A handler of this process started.
    CallRan {
        /// Its number among the runs of this process, from 1.
        run: u64,
        /// The caller's incarnation.
        #[serde(with = "fixint::le")]
        from: u64,
        /// [`crate::payload_hash`] of the request.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// A handler produced the outcome of a call. Written before its caller can learn it.
    CallAnswered {
        /// The run's number.
        run: u64,
        /// [`crate::payload_hash`] of the answer; `None`: the handler did not run the call.
        answer: Option<u64>,
    },
    /// A multicast was accepted from the application: it is queued, and is sent now or later.
    ///
    /// Written when the library has accepted it. If it was sent at once, its [`Event::Send`] directly precedes this
    /// record.
    Accept {
        /// The group.
        group: u32,
        /// The requested order.
        order: Order,
        /// Whether it is to be uniform.
        uniform: bool,
        /// [`crate::payload_hash`] of the payload.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// The caller must learn how a call ended within this time. Follows the call at once.
    CallDeadline {
        /// The call's number.
        call: u64,
        /// The time from the call's start, in nanoseconds.
        within_ns: u64,
    },
    /// The level of the cell view just installed. Follows it at once.
    Level {
        /// The level in force: the features that its members may use with each other.
        level: u16,
        /// The highest level that all of its members support.
        known: u16,
    },
    /// It requested that its cell rises to a level.
    RiseAsked {
        /// The level.
        level: u16,
    },
    /// The cell takes this process only once one of its settings equals the cell's.
    Differs {
        /// The setting, or "level".
        setting: String,
        /// The setting's value in the cell, for people.
        cell: String,
        /// The setting's value in this process.
        own: String,
    },
    /// It is not in the group any more, without its own request. Directly precedes [`Event::GroupLeft`].
    GroupLost {
        /// The group.
        group: u32,
        /// The reason: nonsense, taken anew, or stopped.
        why: LeaveReason,
    },
    /// The minimum of the cell view just installed, after its level. With fewer members the view is inadequate, and no
    /// uniform message is sent in it.
    CellMinimum {
        /// The least members.
        members: u64,
    },
    /// The terms of the group view just installed. Follows it at once.
    GroupTerms {
        /// The group.
        group: u32,
        /// Whether a multicast that leaves it open is uniform.
        uniform: bool,
        /// With fewer members that hold the group's state the view is inadequate, where the level in force has such
        /// minima.
        members_min: u64,
        /// Whether the view is adequate by the group's own terms.
        adequate: bool,
    },
    /// The adequacy of the group view in force, by the group's own terms, has changed.
    GroupAdequacy {
        /// The group.
        group: u32,
        /// Its view.
        view: u64,
        /// Whether it is adequate from here on.
        adequate: bool,
    },
    /// The process learned that this many of the last multicasts it accepted for the group will not be sent. Precedes
    /// the record that ends its stay there.
    Unsent {
        /// The group.
        group: u32,
        /// Their number.
        messages: u64,
    },
    /// All members with the state of a group were cut off, and the group continues with the state that this process
    /// kept since an earlier incarnation. Messages replayed next belong to that state too; then follows the first view.
    StateKept {
        /// The group.
        group: u32,
        /// The earlier incarnation.
        #[serde(with = "fixint::le")]
        was: u64,
        /// The last view of the group that the state includes, together with what is replayed.
        view: u64,
        /// The application's digest of the state as it was kept.
        #[serde(with = "fixint::le")]
        digest: u64,
    },
    /// The state that this process kept of a group since an earlier incarnation is not the one that the group continued
    /// from, or the group is over.
    Forgotten {
        /// The group.
        group: u32,
        /// The last view of the earlier incarnation.
        view: u64,
        /// For each member of that view, how many of its messages the group continued from, if known.
        kept: Option<Vec<(u64, u64)>>,
    },
    /// It requested that a group stops waiting for members that are cut off.
    GivenUp {
        /// The group's name.
        name: String,
    },
    /// The process learned that the last messages it accepted for another process may or may not be received. Precedes
    /// the record of that process's end.
    InDoubt {
        /// The receiver.
        #[serde(with = "fixint::le")]
        to: u64,
        /// Their number.
        messages: u64,
    },
    /// The incomplete members of the group view just installed, after its terms, if there are any: those that do not
    /// hold the group's state yet.
    GroupIncomplete {
        /// The group.
        group: u32,
        /// Their incarnations.
        who: Vec<u64>,
    },
    /// An operator stated that no member of its cell lives anywhere, and it requested to found the cell again.
    FoundAnew,
    /// It requested to found the next instance of its cell from here, because the quorum is gone for good.
    ReformAsked,
    /// The cell view just reported is of an instance that continues the groups of earlier ones.
    Ancestors {
        /// The earlier instances, latest first.
        instances: Vec<u64>,
    },
    /// It gave up its cell instance for a later one; this incarnation ends.
    Renounced {
        /// The generation of the later one.
        generation: u16,
    },
    /// The process learned that its multicasts in a group view, up to this number, are stable: every member of the view
    /// has them, or the view ended and every member that goes on has them.
    ///
    /// What was sent and not reported so when the incarnation is over is in doubt.
    Stable {
        /// The group.
        group: u32,
        /// The view to which they were bound.
        view: u64,
        /// The number of the last of them.
        seq: u64,
    },
    /// From the next time on that the process comes into the group of this name, the application takes what concerns it
    /// from the inbox of this number; 0: from that of the process itself. Without this record it is 0.
    ///
    /// Each inbox has one order. Between two there is none, but the end of the incarnation comes last.
    Inbox {
        /// The group's name.
        name: String,
        /// The inbox.
        inbox: u32,
    },
    /// Harness: the application of a process takes nothing from one of its inboxes.
    Unread {
        /// The process.
        incarnation: u64,
        /// The inbox.
        inbox: u32,
        /// Whether this begins or ends here.
        begins: bool,
    },
    /// The request for membership of the group of this name, just recorded, is that of an observer: it waits until there
    /// is such a group.
    Observes {
        /// The group's name.
        name: String,
    },
    /// The members that observe in the group view just installed, after its incomplete members, if there are any: those
    /// that never hold the group's state.
    GroupObservers {
        /// The group.
        group: u32,
        /// Their incarnations.
        who: Vec<u64>,
    },
    /// The process was told that its leave may be the end of its cell, and that something may be lost with it. Its leave is
    /// recorded next.
    EndInDoubt {
        /// The names of groups that wait for former members.
        groups: Vec<String>,
        /// The names of members that were left out since it asked to leave, and that may live.
        members: Vec<String>,
    },
    /// The application was told that its multicasts in a group view, up to this number, are stable. It is told later than
    /// [`Event::Stable`] while too few members hold the group's state.
    ToldStable {
        /// The group.
        group: u32,
        /// The view to which they were bound.
        view: u64,
        /// The number of the last of them.
        seq: u64,
    },
    /// The application was told what became of all multicasts of an incarnation of its membership that it was not told
    /// are stable. They are the last that it had accepted. Precedes the record of the end.
    ToldLost {
        /// The group.
        group: u32,
        /// How many nobody has.
        not_sent: u64,
        /// How many the others may have or not.
        in_doubt: u64,
    },
    /// The application was told that a state that came makes no sense. The group is left.
    ToldSenseless {
        /// The group's name.
        name: String,
    },
    /// The application was told that it is out of the group of this name for good.
    MembershipEnded {
        /// The group's name.
        name: String,
        /// Why.
        why: MembershipEnd,
    },
    /// The view in which the donor froze the snapshot whose begin was just recorded. The views after it are replayed.
    SnapshotView {
        /// The group.
        group: u32,
        /// The view.
        view: u64,
    },
    /// Within a state transfer: a view that the members installed after the snapshot, at its place between the replayed
    /// deliveries. The process was not in it.
    GroupViewReplayed {
        /// The group.
        group: u32,
        /// The view.
        view: u64,
        /// Members by rank.
        members: Vec<u64>,
        /// Members that were not in the view before.
        joined: Vec<u64>,
        /// Members of the view before that are not in it, and why.
        left: Vec<(u64, LeaveReason)>,
    },
    /// The application was told of its membership in the group of this name, at this place between its messages.
    ToldStep {
        /// The group's name.
        name: String,
        /// What it was told.
        what: MembershipStep,
    },
    /// A message to one member of a group was sent. Those of one process to another one in a group come in the order in which
    /// they were sent, for as long as both are in the group.
    ToOneSend {
        /// The group.
        group: u32,
        /// The group view in which it was sent.
        view: u64,
        /// The receiver.
        to: u64,
        /// Whether it is an answer, of which the sender learns no outcome.
        is_answer: bool,
        /// [`crate::payload_hash`] of the payload.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// A message to this member of a group was given to the application.
    ToOneDeliver {
        /// The group.
        group: u32,
        /// The group view in which it was sent.
        view: u64,
        /// The sender.
        from: u64,
        /// As in [`Event::ToOneSend`].
        is_answer: bool,
        /// [`crate::payload_hash`] of the payload.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// The outcome of the next messages of this process to one member of a group became known. Answers do not count.
    ToOneSettled {
        /// The group.
        group: u32,
        /// The receiver.
        to: u64,
        /// What became of them.
        outcome: ToOneOutcome,
        /// How many.
        messages: u64,
    },
    /// A step of an ask, which is named by its asker, the view in which it was sent, and its number among the asker's
    /// messages there.
    Ask {
        /// The group.
        group: u32,
        /// Who asks.
        asker: u64,
        /// The group view in which it was sent.
        view: u64,
        /// Its number.
        seq: u64,
        /// The step.
        what: AskStep,
    },
    /// What the process has for the state of the group that it just requested: the name and version of each domain, and
    /// whether it may do without it. A process that says nothing has the state itself, the domain without a name, in version 1.
    OwnDomains {
        /// The group's name.
        name: String,
        /// The domains.
        own: Vec<(String, u32, bool)>,
    },
    /// The domains of a group's state in a view, by name and version: of the view just installed or replayed, or in which the
    /// snapshot was frozen whose begin was just recorded.
    GroupDomains {
        /// The group.
        group: u32,
        /// The view.
        view: u64,
        /// The group's list.
        list: Vec<(String, u32)>,
    },
    /// The message just delivered goes to one domain of the group's state alone.
    DeliveredTo {
        /// The group.
        group: u32,
        /// The group view it was sent in.
        view: u64,
        /// Its sender.
        sender: u64,
        /// Its number among its sender's messages in that view.
        seq: u64,
        /// The place of the domain in the group's list.
        domain: u8,
    },
    /// A step of a submit to the state of a group.
    Submit {
        /// The group.
        group: u32,
        /// [`crate::payload_hash`] of its client's name in the table.
        #[serde(with = "fixint::le")]
        client: u64,
        /// Its number among those of the client.
        number: u64,
        /// The step.
        what: SubmitStep,
    },
}
