//! The model of a run: processes, views, messages, with names resolved to indices.

pub(crate) mod accepted;
pub(crate) mod call;
pub(crate) mod domains;
pub(crate) mod intern;
mod link;
pub(crate) mod object;
mod owed;
mod query;
pub(crate) mod quiet;
pub(crate) mod span;
pub(crate) mod submits;

use std::collections::{BTreeMap, BTreeSet};

use phalanx_trace::{AskStep, LeaveReason, MembershipEnd, MembershipStep, Order, Phase, ToOneOutcome, Trouble};

use crate::Property;
use crate::findings::Place;

/// Indices into the model's tables.
pub(crate) type ProcIx = usize;
pub(crate) type EpochIx = usize;
pub(crate) type InstallIx = usize;
pub(crate) type ViewIx = usize;
pub(crate) type MessageIx = u32;

/// The model of a whole run.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) traces: Vec<TraceInfo>,
    pub(crate) procs: Vec<Proc>,
    /// Of instances that go on with the groups of earlier ones: the first in the chain.
    pub(crate) lineages: BTreeMap<u64, u64>,
    /// Installations of cell views, by instance and view number.
    pub(crate) cells: BTreeMap<u64, BTreeMap<u64, Vec<InstallIx>>>,
    pub(crate) installs: Vec<CellInstall>,
    pub(crate) groups: Vec<Group>,
    pub(crate) views: Vec<View>,
    pub(crate) epochs: Vec<Epoch>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) messages: Vec<Message>,
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) harness: Harness,
    /// Violations of E1 found while reading.
    pub(crate) malformed: Vec<(Place, String)>,
    pub(crate) strays: Vec<Stray>,
    /// Records of a process after it was notified of its end.
    pub(crate) after_over: Vec<AfterOver>,
    pub(crate) empty_files: Vec<String>,
    pub(crate) objects: object::Objects,
    pub(crate) calls: call::Calls,
    pub(crate) accepted: accepted::Accepted,
    pub(crate) domains: domains::Domains,
    /// Steps of submits, trace by trace.
    pub(crate) submits: Vec<submits::SubmitRecord>,
    /// Names of groups that an operator gave up.
    pub(crate) given_up: Vec<(String, Moment)>,
    /// Times at which a process was told by an operator that no member of the cell lives, and asked to found it again.
    pub(crate) anew_asked: Vec<Moment>,
    /// Levels that processes requested.
    pub(crate) rises_asked: Vec<(u16, Moment)>,
}

/// A trace, as read.
#[derive(Debug)]
pub(crate) struct TraceInfo {
    pub(crate) label: String,
    pub(crate) cell: String,
    pub(crate) clock: String,
    pub(crate) format: u16,
    pub(crate) records: u64,
    pub(crate) last_at_ns: u64,
    /// The last time at which its application sent or requested something, or was notified of a view.
    pub(crate) last_active_ns: u64,
    pub(crate) truncated: bool,
    pub(crate) kinds: Kinds,
}

/// Counts of the kinds of records that make properties mandatory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kinds {
    pub(crate) cell_views: u64,
    pub(crate) group_views: u64,
    pub(crate) sends: u64,
    pub(crate) accepts: u64,
    pub(crate) receipts: u64,
    pub(crate) deliveries: u64,
    /// Deliveries from another process; not the first of their sender; in total order.
    pub(crate) from_others: u64,
    pub(crate) later: u64,
    pub(crate) replayed: u64,
    pub(crate) total: u64,
    pub(crate) state_ends: u64,
    pub(crate) p2p: u64,
}

/// A process incarnation, with or without a trace.
#[derive(Debug)]
pub(crate) struct Proc {
    pub(crate) incarnation: u64,
    /// Its name, from its header or from a cell view.
    pub(crate) name: Option<String>,
    pub(crate) trace: Option<usize>,
    /// Whether its trace lacks nothing relevant at its end.
    pub(crate) tail_complete: bool,
    pub(crate) started: Option<Moment>,
    pub(crate) join_asked: Option<Moment>,
    pub(crate) leave_asked: Option<Moment>,
    pub(crate) ended: Option<Moment>,
    pub(crate) over: Option<(Over, Moment)>,
    /// Whether it was told that its leave may be the end of its cell, and something is lost with it.
    pub(crate) is_in_doubt: bool,
    /// Notices that its cell refuses it: a setting, its value there and here.
    pub(crate) kept_out: Vec<(String, String, String, Moment)>,
    /// Whether its last notice is that it hears no quorum, without a view after that.
    pub(crate) nonprimary: bool,
    /// Notices that it hears no quorum (false), or one again (true).
    pub(crate) primacy: Vec<(bool, Moment)>,
    /// Notices whether its cell view, or a group's view, has enough members for uniform messages.
    pub(crate) adequacy: Vec<Adequacy>,
    /// Times in which a view change blocked its sends: beginning and end.
    pub(crate) blocks: Vec<(Moment, Option<Moment>)>,
    /// Its kill by the harness, within the experiment.
    pub(crate) crashed: Option<Moment>,
    /// Whether the harness killed it after the experiment's end.
    pub(crate) killed_after: bool,
    pub(crate) installs: Vec<InstallIx>,
    pub(crate) epochs: Vec<EpochIx>,
    /// Names of groups for which it named an inbox of their own, at some time.
    pub(crate) own_inboxes: BTreeSet<String>,
    pub(crate) group_joins: Vec<GroupJoin>,
    pub(crate) group_leaves: Vec<(u32, Moment)>,
    /// Groups whose state it began to take, and when.
    pub(crate) begun: Vec<(usize, Moment)>,
    /// States that it kept from an earlier incarnation and could not use.
    pub(crate) forgotten: Vec<Forgotten>,
    pub(crate) p2p: P2p,
    pub(crate) to_one: ToOne,
    /// Steps of asks, its own and those of others, in order.
    pub(crate) asks: Vec<AskRecord>,
    /// Notices that its multicasts are stable.
    pub(crate) receipts: Vec<Receipt>,
    /// What its application was told.
    pub(crate) told: Told,
    /// Address of its endpoint, if it is an endpoint of calls and not a member.
    pub(crate) endpoint: Option<String>,
}

/// A state that a process kept from an earlier incarnation and could not use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forgotten {
    pub(crate) group: u32,
    /// The last view of the earlier incarnation.
    pub(crate) view: u64,
    /// Whether the group went on from that view.
    pub(crate) went_on: bool,
    pub(crate) moment: Moment,
}

impl Proc {
    /// Whether its cell refuses it because of a setting, and it was in no view. M11 evaluates whether the refusal is
    /// right.
    pub(crate) fn is_kept_out(&self, at_ns: u64) -> bool {
        self.installs.is_empty() && self.kept_out.iter().any(|(.., moment)| moment.at_ns < at_ns)
    }
}

/// A notice whether a view is adequate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adequacy {
    /// The group; `None`: the cell.
    pub(crate) group: Option<u32>,
    pub(crate) adequate: bool,
    pub(crate) moment: Moment,
}

/// Terms of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) uniform: bool,
    pub(crate) members_min: u64,
}

/// A request to join a group.
#[derive(Clone, Debug)]
pub(crate) struct GroupJoin {
    pub(crate) name: String,
    pub(crate) with_state: bool,
    /// It waits until there is such a group, and is a member that never holds its state.
    pub(crate) observes: bool,
    pub(crate) asked: Moment,
}

/// Point-to-point messages of one process.
#[derive(Debug, Default)]
pub(crate) struct P2p {
    /// Sent, by receiver, in order.
    pub(crate) sent: BTreeMap<ProcIx, Vec<(u64, Place)>>,
    /// The times of these.
    pub(crate) sent_ns: BTreeMap<ProcIx, Vec<u64>>,
    /// Delivered, by sender, in order.
    pub(crate) delivered: BTreeMap<ProcIx, Vec<(u64, Place)>>,
    /// By receiver, how many of the last messages it sent are in doubt since its end.
    pub(crate) in_doubt: BTreeMap<ProcIx, (u64, Place)>,
}

/// Messages to one member, of one process, by group and the other process, in order.
#[derive(Debug, Default)]
pub(crate) struct ToOne {
    pub(crate) sent: BTreeMap<(u32, ProcIx), Vec<ToOneMessage>>,
    pub(crate) delivered: BTreeMap<(u32, ProcIx), Vec<ToOneMessage>>,
    /// What became of those sent, and of how many.
    pub(crate) settled: BTreeMap<(u32, ProcIx), Vec<Settled>>,
}

impl ToOne {
    /// The messages that this process, `from`, sent to another one alone in a group, and when each was delivered there.
    pub(crate) fn arrivals(
        &self,
        from: ProcIx,
        (group, to): (u32, ProcIx),
        there: &Self,
    ) -> Vec<(&ToOneMessage, Option<Moment>)> {
        let sent = self.sent.get(&(group, to)).map_or(&[][..], Vec::as_slice);
        let mut messages: Vec<_> = sent.iter().map(|message| (message, None)).collect();
        let mut next = 0;
        for message in there.delivered.get(&(group, from)).map_or(&[][..], Vec::as_slice) {
            // One that was not sent so is reported by S13.
            if let Some(skipped) = sent[next..].iter().position(|of| of.is(message)) {
                messages[next + skipped].1 = Some(message.moment);
                next += skipped + 1;
            }
        }
        messages
    }
}

/// What became of messages to one, of how many, and when that was known.
pub(crate) type Settled = (ToOneOutcome, u64, Moment);

/// An ask: its group, who asks, the number of its view, and its number there.
pub(crate) type AskName = (u32, ProcIx, u64, u64);

/// A step of an ask at one process.
#[derive(Clone, Debug)]
pub(crate) struct AskRecord {
    pub(crate) ask: AskName,
    pub(crate) what: AskStep,
    pub(crate) moment: Moment,
}

/// A message to one member, at one of its ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToOneMessage {
    /// The group view in which it was sent.
    pub(crate) view: u64,
    pub(crate) is_answer: bool,
    pub(crate) hash: u64,
    pub(crate) moment: Moment,
}

impl ToOneMessage {
    /// Whether the other end recorded this message.
    pub(crate) fn is(&self, there: &Self) -> bool {
        (self.view, self.is_answer, self.hash) == (there.view, there.is_answer, there.hash)
    }
}

/// A notice to a process that its multicasts in a view are stable up to a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receipt {
    pub(crate) view: ViewIx,
    pub(crate) seq: u64,
    /// The stay in force in that group.
    pub(crate) stay: Option<EpochIx>,
    /// Whether its last notice was that it hears no quorum, without a view after that.
    pub(crate) outside: bool,
    pub(crate) moment: Moment,
}

/// What one process's application was told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) stable: Vec<ToldStable>,
    /// Ends of lives, one for each incarnation of a membership that was in a view.
    pub(crate) lives: Vec<LifeEnd>,
    /// Ends of memberships, by the group's name.
    pub(crate) ended: Vec<(String, MembershipEnd, Moment)>,
    /// Names of groups whose state made no sense.
    pub(crate) senseless: Vec<(String, Moment)>,
    /// Steps of memberships, by the group's name, but for those after a state that made no sense.
    pub(crate) steps: Vec<(String, MembershipStep, Moment)>,
}

/// Messages in a view were told to be stable, up to a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToldStable {
    pub(crate) view: ViewIx,
    pub(crate) seq: u64,
    pub(crate) moment: Moment,
}

/// A life is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LifeEnd {
    pub(crate) group: u32,
    /// Messages that its records say were accepted, sent, and told to be stable.
    pub(crate) accepted: u64,
    pub(crate) sent: u64,
    pub(crate) stable: u64,
    /// What it was told of the others.
    pub(crate) not_sent: u64,
    pub(crate) in_doubt: u64,
    pub(crate) moment: Moment,
}

/// Position and time of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) place: Place,
    pub(crate) at_ns: u64,
}

/// The notice with which an incarnation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// Excluded by this view.
    Excluded(u64),
    /// It renounced its cell instance in favour of a later one.
    Renounced,
    /// It left.
    Left,
}

/// An installation of a cell view by one process.
#[derive(Debug)]
pub(crate) struct CellInstall {
    pub(crate) proc: ProcIx,
    pub(crate) instance: u64,
    pub(crate) view: u64,
    pub(crate) members: Vec<ProcIx>,
    pub(crate) names: Vec<String>,
    pub(crate) left: Vec<(ProcIx, LeaveReason)>,
    /// The level in force, and the highest that all members know, if recorded.
    pub(crate) level: Option<(u16, u16)>,
    /// Members below which the view is inadequate, if recorded.
    pub(crate) minimum: Option<u64>,
    /// The process's previous installation in this instance.
    pub(crate) prev: Option<InstallIx>,
    pub(crate) moment: Moment,
}

/// A group of a cell instance.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) instance: u64,
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) views: BTreeMap<u64, ViewIx>,
}

/// A group view.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) group: usize,
    pub(crate) number: u64,
    /// Members according to the first record of an installation; empty if there is none.
    pub(crate) members: Vec<ProcIx>,
    /// The stay of each process that installed it.
    pub(crate) epochs: Vec<EpochIx>,
}

/// The stay of one process in one group view.
#[derive(Debug)]
pub(crate) struct Epoch {
    pub(crate) proc: ProcIx,
    pub(crate) view: ViewIx,
    pub(crate) install: Moment,
    /// The previous view, according to the record.
    pub(crate) prev: Option<u64>,
    /// Terms of the group, if recorded.
    pub(crate) terms: Option<Terms>,
    /// Members that do not hold the group's state yet, according to the record.
    pub(crate) incomplete: Vec<ProcIx>,
    /// Those of them that observe: they never hold it.
    pub(crate) observers: Vec<ProcIx>,
    /// The process's previous stay, if it did not leave the group in between.
    pub(crate) prev_epoch: Option<EpochIx>,
    /// The inbox from which the process takes the group's records; 0: that of the process itself.
    pub(crate) inbox: u32,
    pub(crate) members: Vec<ProcIx>,
    pub(crate) joined: Vec<ProcIx>,
    pub(crate) left: Vec<(ProcIx, LeaveReason)>,
    pub(crate) steps: Vec<Step>,
    pub(crate) deliveries: u64,
    pub(crate) digests: Vec<Digest>,
    pub(crate) transfer: Option<Transfer>,
    pub(crate) asked_state: bool,
    /// Whether the application refused the state with which the process came, so that it is in the group without it.
    pub(crate) refused: bool,
    /// Whether the process asked for the state when it came into the group.
    pub(crate) wants_state: bool,
    pub(crate) end: EpochEnd,
    /// For [`EpochEnd::GroupLeft`]: time.
    pub(crate) left_at: Option<Moment>,
    /// For the same: the reason and its record, if the process had not asked to leave.
    pub(crate) lost: Option<(LeaveReason, Moment)>,
    /// Whether the process rejoined without a request because it had lost the group's state.
    pub(crate) came_back: bool,
    /// Distinct messages of this view delivered here: their number, and a sum that distinguishes sets.
    pub(crate) set: SetSum,
    /// Whether the process holds the group's state as of its founding.
    pub(crate) stateful: bool,
    /// Whether in it, or in an earlier stay, the process delivered another set than the first of those that took the
    /// same way out (S3).
    pub(crate) diverged: bool,
}

/// How a stay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EpochEnd {
    /// By the next view.
    Next(EpochIx),
    /// By a leave of the group.
    GroupLeft,
    /// By the process's exclusion, its leave of the cell, or its move to another cell instance.
    Over,
    /// By the end of the trace.
    Open,
}

/// Summary of a set of messages. Equal sums mean equal sets, except with probability 2^-64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SetSum {
    pub(crate) count: u64,
    pub(crate) sum: u64,
}

/// A send or delivery in a view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) index: usize,
    pub(crate) at_ns: u64,
    pub(crate) hash: u64,
    pub(crate) position: Option<u64>,
    pub(crate) message: MessageIx,
    pub(crate) sent: bool,
    pub(crate) order: Order,
    pub(crate) uniform: bool,
    /// Whether the record names another view than the one in force.
    pub(crate) foreign: bool,
}

/// A digest recorded by the application.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digest {
    pub(crate) delivered: u64,
    pub(crate) digest: u64,
    pub(crate) place: Place,
    /// Number of steps of the epoch before it.
    pub(crate) steps: usize,
}

/// State taken before a first view.
#[derive(Debug, Default)]
pub(crate) struct Transfer {
    pub(crate) snapshot: Option<(u64, Place)>,
    /// The view in which the donor froze it, if that is said.
    pub(crate) frozen_in: Option<u64>,
    pub(crate) replayed: Vec<Replayed>,
    /// Views within it, in order.
    pub(crate) views: Vec<ReplayedView>,
    pub(crate) ends: Vec<(u64, Place)>,
    /// The state is one that an earlier incarnation of the process kept.
    pub(crate) kept: Option<Kept>,
    /// Records of a snapshot, or of its end, while the process was a member.
    pub(crate) misplaced: Vec<Place>,
}

/// The state of an earlier incarnation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// That incarnation.
    pub(crate) was: ProcIx,
    /// The last view whose messages it includes, together with the replay.
    pub(crate) view: u64,
    pub(crate) digest: u64,
    pub(crate) place: Place,
}

/// A delivery within a state transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replayed {
    pub(crate) step: Step,
    pub(crate) place: Place,
}

/// A view within a state transfer.
#[derive(Debug)]
pub(crate) struct ReplayedView {
    pub(crate) number: u64,
    pub(crate) members: Vec<ProcIx>,
    pub(crate) joined: Vec<ProcIx>,
    pub(crate) left: Vec<(ProcIx, LeaveReason)>,
    pub(crate) place: Place,
}

/// A donor's frozen state.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) epoch: EpochIx,
    /// Number of steps of the epoch before it.
    pub(crate) steps: usize,
}

/// All messages of one sender in one group view.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) group: usize,
    pub(crate) view: ViewIx,
    pub(crate) sender: ProcIx,
    /// The sender's rank in the view, if it is a member.
    pub(crate) rank: Option<usize>,
}

/// One multicast.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) stream: u32,
    pub(crate) seq: u64,
    /// The order at its send, or at its first delivery if the send is unknown.
    pub(crate) order: Order,
    pub(crate) uniform: bool,
    pub(crate) hash: u64,
    /// Its send: place, time, and the epoch of the step if there was a view.
    pub(crate) sent: Option<Moment>,
}

/// A send or delivery at a place where none may be.
#[derive(Debug)]
pub(crate) struct Stray {
    pub(crate) kind: StrayKind,
    pub(crate) group: u32,
    pub(crate) place: Place,
}

/// Kind of a stray.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StrayKind {
    /// A send outside of all views of the group.
    Send,
    /// A delivery outside of all views of the group.
    Delivery,
    /// A replayed delivery to a member.
    Replay,
}

/// A record after the end of an incarnation.
#[derive(Debug)]
pub(crate) struct AfterOver {
    pub(crate) over: Over,
    pub(crate) told: Place,
    pub(crate) place: Place,
}

/// Records of the harness.
#[derive(Debug, Default)]
pub(crate) struct Harness {
    pub(crate) trace: Option<usize>,
    /// Properties that it names.
    pub(crate) about: Vec<Property>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) phases: Vec<(Phase, Vec<String>, Moment)>,
    pub(crate) ended: Option<Moment>,
    /// Times in which each directed link, by names, carried nothing.
    pub(crate) cuts: BTreeMap<(String, String), Vec<Span>>,
    /// Times in which attackers were active.
    pub(crate) attacks: Vec<Span>,
    /// Troubles of one process, or (`None`) of all.
    pub(crate) troubles: BTreeMap<(Trouble, Option<ProcIx>), Vec<Span>>,
    /// Times in which a process took nothing from an inbox.
    pub(crate) unread: BTreeMap<(ProcIx, u32), Vec<Span>>,
    pub(crate) gauges: Vec<Gauge>,
    pub(crate) traffic: BTreeMap<ProcIx, Vec<Traffic>>,
    pub(crate) impaired: Option<Impaired>,
}

/// Paths that stay broken in part.
#[derive(Clone, Debug)]
pub(crate) struct Impaired {
    /// Names of the processes at their ends.
    pub(crate) ends: Vec<String>,
    /// Interval within which the other processes multicast at least once in each of their groups; 0: unknown.
    pub(crate) sends_every_ns: u64,
    /// Time at which the first of them broke.
    pub(crate) moment: Moment,
}

/// A span of time. Without an end it lasts to the end of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) from: Moment,
    pub(crate) to: Option<Moment>,
}

/// Fill level of a buffer.
#[derive(Clone, Debug)]
pub(crate) struct Gauge {
    pub(crate) proc: ProcIx,
    pub(crate) name: String,
    pub(crate) value: u64,
    pub(crate) limit: u64,
    pub(crate) idle: u64,
    pub(crate) moment: Moment,
}

/// Packets that a process had sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    pub(crate) packets: u64,
    pub(crate) idle: u64,
    pub(crate) moment: Moment,
}

/// A fault injected by the harness.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) proc: ProcIx,
    pub(crate) moment: Moment,
}

/// Kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    Stop,
    Cont,
    Crash,
}
