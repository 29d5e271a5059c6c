//! What can stand in a trace.

use postcard::fixint;
use serde::{Deserialize, Serialize};

use crate::{Action, Outcome};

/// One thing that happened, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Nanoseconds on this machine's clock, from an arbitrary zero. Never goes backwards within a file.
    pub at_ns: u64,
    /// What happened.
    pub event: Event,
}

/// The order a multicast asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Order {
    /// In the order of its sender.
    Fifo,
    /// After everything its sender had sent or delivered in this group view.
    Causal,
    /// The same order everywhere, extending the causal one.
    Total,
}

/// Why a process is no longer in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LeaveReason {
    /// It asked to leave.
    Left,
    /// It was proved dead.
    Died,
    /// It was not heard, or did not answer.
    Unreachable,
    /// It held others back for too long.
    TooSlow,
    /// What it sent made no sense to most.
    Nonsense,
    /// It takes the group's state anew.
    Anew,
    /// The group stopped.
    Stopped,
    /// It was heard, and a path to it failed.
    NoProgress,
}

/// What the harness does to the processes from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Faults may happen at any time.
    Faulty,
    /// No new fault; what was cut or stopped is being healed.
    Heal,
    /// Healed: no fault from here to the harness's end, and liveness is due.
    Quiet,
}

/// What a harness does to one process, or to the network, short of stopping or cutting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Trouble {
    /// Packets are lost, late, damaged or too many for the links.
    Network,
    /// The application takes no deliveries and no events.
    NotReading,
    /// Turns take long, or the clock jumps.
    Slow,
    /// Its sockets hold little, or it cannot send or take long packets.
    Narrow,
    /// Others cannot read what it sends, or it cannot read what others send, through a defect that is played.
    Nonsense,
}

/// How a call ended for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CallOutcome {
    /// It ran, and this is the answer.
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

/// What happened at a process, or what the harness did. New kinds are added at the end: the format names them by their
/// position.
///
/// Processes are named by their incarnation, groups by their number in the cell, group views by their number, and
/// multicasts by (group, sender, group view, seq).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The process began. First in its file.
    Start,
    /// It asked to join its cell (or to found it). Before its first cell view.
    JoinAsked {
        /// The cell's name.
        cell: String,
    },
    /// It asked to leave the cell.
    LeaveAsked,
    /// A cell view was installed.
    CellView {
        /// The cell instance.
        instance: u64,
        /// The view's number.
        view: u64,
        /// Members in rank order: incarnation and name.
        members: Vec<(u64, String)>,
        /// Who went with this view, and why.
        left: Vec<(u64, LeaveReason)>,
    },
    /// It asked to join a group.
    GroupJoinAsked {
        /// The group's name.
        name: String,
        /// Whether it asked for the group's state.
        with_state: bool,
    },
    /// It asked to leave a group.
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
        /// Who came with this view.
        joined: Vec<u64>,
        /// Who went with this view, and why.
        left: Vec<(u64, LeaveReason)>,
    },
    /// It left the group; nothing more of the group is delivered.
    GroupLeft {
        /// The group.
        group: u32,
    },
    /// A multicast of this process was bound to a group view: what the process had delivered before is its past.
    ///
    /// The view is the one in force; where the application takes its events late, it may be one that follows.
    Send {
        /// The group.
        group: u32,
        /// The group view it belongs to.
        view: u64,
        /// Its number among this process's messages in that view, from 1.
        seq: u64,
        /// The order asked for.
        order: Order,
        /// Whether it was sent as uniform.
        uniform: bool,
        /// [`crate::payload_hash`] of the payload.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// A multicast was given to the application.
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
        /// Delivered only because every member has received it.
        uniform: bool,
        /// For [`Order::Total`]: its number in the group view's total order, from 1.
        position: Option<u64>,
        /// [`crate::payload_hash`] of the payload.
        #[serde(with = "fixint::le")]
        hash: u64,
        /// Part of a state transfer: it belongs to views before this process's first one of the group.
        replayed: bool,
    },
    /// This process, a donor, froze its state for a joiner.
    SnapshotOut {
        /// The group.
        group: u32,
        /// The group view in force.
        view: u64,
        /// The application's digest of the frozen state.
        #[serde(with = "fixint::le")]
        digest: u64,
    },
    /// This process, a joiner, began to take a donor's snapshot; whatever it took before is forgotten.
    SnapshotIn {
        /// The group.
        group: u32,
        /// The snapshot's length.
        bytes: u64,
    },
    /// The joiner's state is complete up to its first view of the group, which is installed next.
    StateEnd {
        /// The group.
        group: u32,
        /// The application's digest of the state now.
        #[serde(with = "fixint::le")]
        digest: u64,
    },
    /// The application's digest of its state at this point.
    ///
    /// Digests at the start of a view (`delivered` = 0) must be a function of the *set* of messages delivered so
    /// far; later ones may depend on their sequence.
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
    /// The process was told that it hears no quorum.
    NonPrimary,
    /// The process was told that it hears a quorum again.
    Primary,
    /// The process was told that a decided view does not hold it: this incarnation is over.
    Excluded {
        /// A cell view without it: the one that it was told of.
        view: u64,
    },
    /// The graceful leave is done: this incarnation is over.
    Left,
    /// A point-to-point message was accepted.
    P2pSend {
        /// To whom.
        to: u64,
        /// Its number among the messages from this process to that one, from 1.
        k: u64,
        /// [`crate::payload_hash`] of the payload.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// A point-to-point message was given to the application.
    P2pDeliver {
        /// From whom.
        from: u64,
        /// Its number among the messages delivered here from that process, from 1.
        k: u64,
        /// [`crate::payload_hash`] of the payload.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// Harness: the process is stopped (it lives, but does not run).
    Stop {
        /// Which process.
        incarnation: u64,
    },
    /// Harness: the process runs again.
    Cont {
        /// Which process.
        incarnation: u64,
    },
    /// Harness: the process has been killed. Written when it is certainly dead.
    Crash {
        /// Which process.
        incarnation: u64,
    },
    /// Harness: a phase begins.
    Phase {
        /// Which.
        phase: Phase,
        /// For [`Phase::Quiet`]: names of the processes that are connected with each other, new incarnations
        /// included. Empty: all that run.
        connected: Vec<String>,
    },
    /// Clean end of the file. In the harness's file: the experiment is over, processes are ended after this.
    End,
    /// This process may send nothing new in its groups: a view change asks for silence.
    Block,
    /// It may send again, in a new view or in the one before.
    Unblock,
    /// Harness: these links carry nothing any more, by names of processes: from, to.
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
        /// From here on, or no more.
        active: bool,
    },
    /// Harness: something is made hard for a process or for all.
    Trouble {
        /// What.
        what: Trouble,
        /// Which process; 0: all.
        incarnation: u64,
        /// From here on, or no more. Troubles of a kind do not nest.
        begins: bool,
    },
    /// Harness: how full a bounded buffer of a process is now.
    Gauge {
        /// Which process.
        incarnation: u64,
        /// Which buffer; one name and limit may stand for several alike, the fullest is told.
        name: String,
        /// What it holds.
        value: u64,
        /// What it may hold at most.
        limit: u64,
        /// What it holds at most when nothing is sent and nobody comes or goes.
        idle: u64,
    },
    /// Harness: how much a process has sent since its start.
    Traffic {
        /// Which process.
        incarnation: u64,
        /// Packets, one for each receiver.
        packets: u64,
        /// How many a second are plenty when nothing is sent and nobody comes or goes.
        idle: u64,
    },
    // Objects that the members of a group replicate.
    /// The application asked for an operation on an object of a group it is a member of. If it is not returned, it may
    /// or may not have happened, or happen later.
    Invoke {
        /// The group.
        group: u32,
        /// Its number among the operations of this process, from 1.
        op: u64,
        /// What it asked for.
        action: Action,
    },
    /// The application has the answer to an operation.
    Return {
        /// The operation's number.
        op: u64,
        /// What came of it.
        outcome: Outcome,
    },
    /// A process that counts itself as the holder of a lock used what the lock guards.
    Guard {
        /// The guarded thing, which is none of the cell's: there is one for each lock's number.
        resource: u32,
        /// Its own count of the times it was used, from 1.
        serial: u64,
        /// The token the process showed.
        token: u64,
        /// Whether the resource let it in.
        accepted: bool,
    },
    /// What all accounts of a group's bank hold together, in this process's state at this point.
    Balance {
        /// The group.
        group: u32,
        /// The sum.
        sum: u64,
    },
    /// Harness: from here to the end some paths are broken in part: a link or a direction of one, a socket, packets of one
    /// kind, or long packets. Whatever else there is passes.
    Impaired {
        /// Names of the processes at the broken ends. All paths between others are whole.
        ends: Vec<String>,
        /// What does not pass, for people.
        what: String,
        /// The applications of the others go on to multicast, in each of their groups at least so often; 0: nothing is said.
        sends_every_ns: u64,
    },
    /// Harness: the experiment is about these guarantees, by the checker's codes. One of them that is never put to the
    /// test fails it.
    About {
        /// Like `"S3"`.
        codes: Vec<String>,
    },
    // Calls.
    /// This process makes or answers calls, and is no member of the cell. Right after its start.
    Endpoint {
        /// Where it is called.
        address: String,
    },
    /// A call of this process was accepted. To be judged, no two of its requests are alike.
    CallMade {
        /// Its number among this process's calls, from 1.
        call: u64,
        /// The address it was made to.
        to: String,
        /// It may run more than once.
        idempotent: bool,
        /// [`crate::payload_hash`] of the request.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// The caller was told how a call ended.
    CallEnded {
        /// The call's number.
        call: u64,
        /// How.
        outcome: CallOutcome,
    },
    /// A handler of this process was begun.
    CallRan {
        /// Its number among the runs of this process, from 1.
        run: u64,
        /// Whose call it is.
        #[serde(with = "fixint::le")]
        from: u64,
        /// [`crate::payload_hash`] of the request.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// A handler said what came of a call. Written before its caller can be told.
    CallAnswered {
        /// The run's number.
        run: u64,
        /// [`crate::payload_hash`] of the answer; `None`: it did nothing.
        answer: Option<u64>,
    },
    /// A multicast was accepted from the application: it is queued, and goes out now or later.
    ///
    /// Written when the library has accepted it. If it went out at once, its [`Event::Send`] stands right before.
    Accept {
        /// The group.
        group: u32,
        /// The order asked for.
        order: Order,
        /// Whether it is to be uniform.
        uniform: bool,
        /// [`crate::payload_hash`] of the payload.
        #[serde(with = "fixint::le")]
        hash: u64,
    },
    /// The caller of a call is to be told how it ended within this time. Right after the call was made.
    CallDeadline {
        /// The call's number.
        call: u64,
        /// From when it was made.
        within_ns: u64,
    },
    /// What goes with the cell view just installed: right after it.
    Level {
        /// The level in force: what its members may send to each other.
        level: u16,
        /// The highest level that all of its members know.
        known: u16,
    },
    /// It asked its cell to rise to a level.
    RiseAsked {
        /// The level.
        level: u16,
    },
    /// The cell takes this process only once one of its settings is the cell's.
    Differs {
        /// The setting, or "level".
        setting: String,
        /// Its value in the cell, for people.
        cell: String,
        /// And in this process.
        own: String,
    },
    /// It is not in the group any more, and did not ask for it: right before [`Event::GroupLeft`].
    GroupLost {
        /// The group.
        group: u32,
        /// Why: nonsense, taken anew, or stopped.
        why: LeaveReason,
    },
    /// What goes with the cell view just installed, after its level: with fewer members it is inadequate, and nothing uniform is
    /// sent in it.
    CellMinimum {
        /// The least members.
        members: u64,
    },
    /// What goes with the group view just installed: right after it.
    GroupTerms {
        /// The group.
        group: u32,
        /// Whether a multicast that asks for neither is uniform.
        uniform: bool,
        /// With fewer members that hold the group's state it is inadequate, where the level in force has such minima.
        members_min: u64,
        /// Whether it is adequate, as far as the group goes.
        adequate: bool,
    },
    /// Whether the group view in force is adequate, as far as the group goes, has changed.
    GroupAdequacy {
        /// The group.
        group: u32,
        /// Its view.
        view: u64,
        /// It is, from here on.
        adequate: bool,
    },
    /// The process was told that the last so many of the multicasts that it accepted for the group will not be sent. Before the
    /// record of what ends its stay there.
    Unsent {
        /// The group.
        group: u32,
        /// How many.
        messages: u64,
    },
    /// Of a group whose members with its state were all cut off: it goes on with the state that this process kept since an earlier
    /// life. What is replayed next belongs to it too, then comes the first view.
    StateKept {
        /// The group.
        group: u32,
        /// The earlier life.
        #[serde(with = "fixint::le")]
        was: u64,
        /// The last view of the group that is part of the state, with what is replayed.
        view: u64,
        /// The application's digest of the state as it was kept.
        #[serde(with = "fixint::le")]
        digest: u64,
    },
    /// The state that this process kept of a group since an earlier life is not what the group went on from, or the group is over.
    Forgotten {
        /// The group.
        group: u32,
        /// The view that the earlier life was in last.
        view: u64,
        /// Of each member of that view how many of its messages the group went on from, if that is known.
        kept: Option<Vec<(u64, u64)>>,
    },
    /// It asked that a group waits no more for members that are cut off.
    GivenUp {
        /// Its name.
        name: String,
    },
    /// The process was told that the last so many of the messages that it accepted for another one may be received or not. Before the
    /// record of its end.
    InDoubt {
        /// Whom they are for.
        #[serde(with = "fixint::le")]
        to: u64,
        /// How many.
        messages: u64,
    },
    /// What goes with the group view just installed, after its terms, if there are any: members that do not hold the group's state yet.
    GroupIncomplete {
        /// The group.
        group: u32,
        /// Who.
        who: Vec<u64>,
    },
    /// It was told that no member of its cell lives anywhere, and asked to found it again.
    FoundAnew,
    /// It asked to found the next instance of its cell from here, as the quorum is gone for good.
    ReformAsked,
    /// The cell view just told is of an instance that goes on with the groups of earlier ones.
    Ancestors {
        /// These, latest first.
        instances: Vec<u64>,
    },
    /// It gave its cell instance up for a later one: this incarnation is over.
    Renounced {
        /// The generation of the later one.
        generation: u16,
    },
}
