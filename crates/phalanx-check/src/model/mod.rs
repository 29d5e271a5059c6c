//! A run as the properties see it: processes, views, messages, with names resolved to indices.

pub(crate) mod accepted;
pub(crate) mod call;
pub(crate) mod intern;
mod link;
pub(crate) mod object;
mod owed;
mod query;
pub(crate) mod quiet;
pub(crate) mod span;

use std::collections::BTreeMap;

use phalanx_trace::{LeaveReason, Order, Phase, Trouble};

use crate::Property;
use crate::findings::Place;

/// Indices into the model's tables.
pub(crate) type ProcIx = usize;
pub(crate) type EpochIx = usize;
pub(crate) type InstallIx = usize;
pub(crate) type ViewIx = usize;
pub(crate) type MessageIx = u32;

/// A whole run.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) traces: Vec<TraceInfo>,
    pub(crate) procs: Vec<Proc>,
    /// Of instances that go on with the groups of earlier ones: the first of these.
    pub(crate) lineages: BTreeMap<u64, u64>,
    /// Cell views by instance and number; who installed each.
    pub(crate) cells: BTreeMap<u64, BTreeMap<u64, Vec<InstallIx>>>,
    pub(crate) installs: Vec<CellInstall>,
    pub(crate) groups: Vec<Group>,
    pub(crate) views: Vec<View>,
    pub(crate) epochs: Vec<Epoch>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) messages: Vec<Message>,
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) harness: Harness,
    /// E1 as seen while reading.
    pub(crate) malformed: Vec<(Place, String)>,
    pub(crate) strays: Vec<Stray>,
    /// Records of a process after it was told that it is over.
    pub(crate) after_over: Vec<AfterOver>,
    pub(crate) empty_files: Vec<String>,
    pub(crate) objects: object::Objects,
    pub(crate) calls: call::Calls,
    pub(crate) accepted: accepted::Accepted,
    /// Names of groups that were to wait no more for members that are cut off.
    pub(crate) given_up: Vec<(String, Moment)>,
    /// When a process was told that no member of the cell lives, and asked to found it again.
    pub(crate) anew_asked: Vec<Moment>,
    /// Levels that processes asked their cell to rise to.
    pub(crate) rises_asked: Vec<(u16, Moment)>,
}

/// One trace as read.
#[derive(Debug)]
pub(crate) struct TraceInfo {
    pub(crate) label: String,
    pub(crate) cell: String,
    pub(crate) clock: String,
    pub(crate) format: u16,
    pub(crate) records: u64,
    pub(crate) last_at_ns: u64,
    /// The last time its application sent or asked for something, or was told who is there.
    pub(crate) last_active_ns: u64,
    pub(crate) truncated: bool,
    pub(crate) kinds: Kinds,
}

/// How many records of the kinds that call for properties.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kinds {
    pub(crate) cell_views: u64,
    pub(crate) group_views: u64,
    pub(crate) sends: u64,
    pub(crate) accepts: u64,
    pub(crate) deliveries: u64,
    /// Of these: from another process; not the first of their sender; in total order.
    pub(crate) from_others: u64,
    pub(crate) later: u64,
    pub(crate) replayed: u64,
    pub(crate) total: u64,
    pub(crate) state_ends: u64,
    pub(crate) p2p: u64,
}

/// One process incarnation, with or without a trace.
#[derive(Debug)]
pub(crate) struct Proc {
    pub(crate) incarnation: u64,
    /// Its name, from its header or from a cell view.
    pub(crate) name: Option<String>,
    pub(crate) trace: Option<usize>,
    /// Nothing that mattered is missing at the end of its trace.
    pub(crate) tail_complete: bool,
    pub(crate) started: Option<Moment>,
    pub(crate) join_asked: Option<Moment>,
    pub(crate) leave_asked: Option<Moment>,
    pub(crate) ended: Option<Moment>,
    pub(crate) over: Option<(Over, Moment)>,
    /// It was kept out of its cell: a setting, its value there and here.
    pub(crate) kept_out: Vec<(String, String, String, Moment)>,
    /// Told that it hears no quorum, and neither the contrary nor a view until the trace's end.
    pub(crate) nonprimary: bool,
    /// Each time it was told that it hears no quorum (false), or one again (true).
    pub(crate) primacy: Vec<(bool, Moment)>,
    /// Each time it was told whether its cell view, or a group's view, has enough members for uniform messages.
    pub(crate) adequacy: Vec<Adequacy>,
    /// Each time a view change asked it for silence, and when that was over.
    pub(crate) blocks: Vec<(Moment, Option<Moment>)>,
    /// By the harness, in the experiment.
    pub(crate) crashed: Option<Moment>,
    /// By the harness, after its end.
    pub(crate) killed_after: bool,
    pub(crate) installs: Vec<InstallIx>,
    pub(crate) epochs: Vec<EpochIx>,
    pub(crate) group_joins: Vec<GroupJoin>,
    pub(crate) group_leaves: Vec<(u32, Moment)>,
    /// Groups whose state it began to take, and when.
    pub(crate) begun: Vec<(usize, Moment)>,
    /// States that it kept from an earlier life and could not use.
    pub(crate) forgotten: Vec<Forgotten>,
    pub(crate) p2p: P2p,
    /// Where it is called: it is an endpoint, no member.
    pub(crate) endpoint: Option<String>,
}

/// A state that a process kept from an earlier life and could not use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forgotten {
    pub(crate) group: u32,
    /// The view that the earlier life was in last.
    pub(crate) view: u64,
    /// The group went on from that view.
    pub(crate) went_on: bool,
    pub(crate) moment: Moment,
}

impl Proc {
    /// Whether its cell does not take it because of a setting (M11 judges whether that is so), and it was in no view.
    pub(crate) fn is_kept_out(&self, at_ns: u64) -> bool {
        self.installs.is_empty() && self.kept_out.iter().any(|(.., moment)| moment.at_ns < at_ns)
    }
}

/// Whether a view is adequate, as a process was told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adequacy {
    /// The group; `None`: the cell.
    pub(crate) group: Option<u32>,
    pub(crate) adequate: bool,
    pub(crate) moment: Moment,
}

/// What is agreed for a group.
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
    pub(crate) asked: Moment,
}

/// Point-to-point traffic of one process.
#[derive(Debug, Default)]
pub(crate) struct P2p {
    /// By receiver, in order.
    pub(crate) sent: BTreeMap<ProcIx, Vec<(u64, Place)>>,
    /// By sender, in order.
    pub(crate) delivered: BTreeMap<ProcIx, Vec<(u64, Place)>>,
    /// By receiver, how many of the last it sent are in doubt since its end.
    pub(crate) in_doubt: BTreeMap<ProcIx, (u64, Place)>,
}

/// A record's place and time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) place: Place,
    pub(crate) at_ns: u64,
}

/// How an incarnation was told that it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// By this decided view.
    Excluded(u64),
    /// It gave its cell instance up for a later one.
    Renounced,
    /// It left.
    Left,
}

/// A cell view as one process installed it.
#[derive(Debug)]
pub(crate) struct CellInstall {
    pub(crate) proc: ProcIx,
    pub(crate) instance: u64,
    pub(crate) view: u64,
    pub(crate) members: Vec<ProcIx>,
    pub(crate) names: Vec<String>,
    pub(crate) left: Vec<(ProcIx, LeaveReason)>,
    /// The level in force, and the highest that all members know, if that was told.
    pub(crate) level: Option<(u16, u16)>,
    /// With fewer members it is inadequate, if that was told.
    pub(crate) minimum: Option<u64>,
    /// What the same process had installed before in this instance.
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

/// A group view, whoever installed it.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) group: usize,
    pub(crate) number: u64,
    /// As first seen; empty if nobody installed it.
    pub(crate) members: Vec<ProcIx>,
    /// One for each process that installed it.
    pub(crate) epochs: Vec<EpochIx>,
}

/// One process's stay in one group view.
#[derive(Debug)]
pub(crate) struct Epoch {
    pub(crate) proc: ProcIx,
    pub(crate) view: ViewIx,
    pub(crate) install: Moment,
    /// As the record says.
    pub(crate) prev: Option<u64>,
    /// What is agreed for the group, if that was told.
    pub(crate) terms: Option<Terms>,
    /// Members that were told not to hold the group's state yet.
    pub(crate) incomplete: Vec<ProcIx>,
    /// What the same process was in before, without having left in between.
    pub(crate) prev_epoch: Option<EpochIx>,
    pub(crate) members: Vec<ProcIx>,
    pub(crate) joined: Vec<ProcIx>,
    pub(crate) left: Vec<(ProcIx, LeaveReason)>,
    pub(crate) steps: Vec<Step>,
    pub(crate) deliveries: u64,
    pub(crate) digests: Vec<Digest>,
    pub(crate) transfer: Option<Transfer>,
    pub(crate) asked_state: bool,
    pub(crate) end: EpochEnd,
    /// For [`EpochEnd::GroupLeft`]: when.
    pub(crate) left_at: Option<Moment>,
    /// For the same: why, if it did not ask for it, and where that is said.
    pub(crate) lost: Option<(LeaveReason, Moment)>,
    /// It begins a stay that was not asked for: the process had lost the group's state.
    pub(crate) came_back: bool,
    /// Distinct messages of this view delivered here: how many, and a sum that tells sets apart.
    pub(crate) set: SetSum,
    /// The process holds the group's state as of its founding.
    pub(crate) stateful: bool,
    /// It, or one before it, delivered another set than the first of those that went the same way (S3).
    pub(crate) diverged: bool,
}

/// How a stay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EpochEnd {
    /// With the next view.
    Next(EpochIx),
    /// The process left the group.
    GroupLeft,
    /// The process was excluded, left the cell or went to another cell instance.
    Over,
    /// With the trace.
    Open,
}

/// A set of messages in brief. Equal sums mean equal sets, but for a chance of 2^-64.
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
    /// The record names another view than the one in force.
    pub(crate) foreign: bool,
}

/// An application's digest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digest {
    pub(crate) delivered: u64,
    pub(crate) digest: u64,
    pub(crate) place: Place,
    /// Steps of the epoch before it.
    pub(crate) steps: usize,
}

/// State taken before a first view.
#[derive(Debug, Default)]
pub(crate) struct Transfer {
    pub(crate) snapshot: Option<(u64, Place)>,
    pub(crate) replayed: Vec<Replayed>,
    pub(crate) ends: Vec<(u64, Place)>,
    /// It is the state that an earlier life of the process left.
    pub(crate) kept: Option<Kept>,
    /// A snapshot, or its end, that came while the process was a member.
    pub(crate) misplaced: Vec<Place>,
}

/// The state of an earlier life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// That life.
    pub(crate) was: ProcIx,
    /// The last view that is part of it, with what is replayed.
    pub(crate) view: u64,
    pub(crate) digest: u64,
    pub(crate) place: Place,
}

/// A delivery that is part of a state transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replayed {
    pub(crate) step: Step,
    pub(crate) place: Place,
}

/// A donor's frozen state.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) epoch: EpochIx,
    /// Steps of the epoch before it.
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
    /// As sent; as first delivered if the send is unknown.
    pub(crate) order: Order,
    pub(crate) uniform: bool,
    pub(crate) hash: u64,
    /// Where it was sent: place, time, and the step's epoch if there was a view.
    pub(crate) sent: Option<Moment>,
}

/// A send or delivery where none may be.
#[derive(Debug)]
pub(crate) struct Stray {
    pub(crate) kind: StrayKind,
    pub(crate) group: u32,
    pub(crate) place: Place,
}

/// What kind of stray.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StrayKind {
    /// A send outside of all views of the group.
    Send,
    /// A delivery outside of all views of the group.
    Delivery,
    /// A replayed delivery to a member.
    Replay,
}

/// Something recorded after the end of an incarnation.
#[derive(Debug)]
pub(crate) struct AfterOver {
    pub(crate) over: Over,
    pub(crate) told: Place,
    pub(crate) place: Place,
}

/// What the harness did.
#[derive(Debug, Default)]
pub(crate) struct Harness {
    pub(crate) trace: Option<usize>,
    /// What it says that it is about.
    pub(crate) about: Vec<Property>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) phases: Vec<(Phase, Vec<String>, Moment)>,
    pub(crate) ended: Option<Moment>,
    /// When each directed link, by names, carried nothing.
    pub(crate) cuts: BTreeMap<(String, String), Vec<Span>>,
    /// When attackers were active.
    pub(crate) attacks: Vec<Span>,
    /// Troubles of all (`None`) or of one process.
    pub(crate) troubles: BTreeMap<(Trouble, Option<ProcIx>), Vec<Span>>,
    pub(crate) gauges: Vec<Gauge>,
    pub(crate) traffic: BTreeMap<ProcIx, Vec<Traffic>>,
    pub(crate) impaired: Option<Impaired>,
}

/// Paths that stay broken in part.
#[derive(Clone, Debug)]
pub(crate) struct Impaired {
    /// Names of those at the broken ends.
    pub(crate) ends: Vec<String>,
    /// The others multicast in each of their groups at least so often; 0: nobody says so.
    pub(crate) sends_every_ns: u64,
    /// When the first of them broke.
    pub(crate) moment: Moment,
}

/// From one moment to another; to the end if that is missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) from: Moment,
    pub(crate) to: Option<Moment>,
}

/// How full a buffer was.
#[derive(Clone, Debug)]
pub(crate) struct Gauge {
    pub(crate) proc: ProcIx,
    pub(crate) name: String,
    pub(crate) value: u64,
    pub(crate) limit: u64,
    pub(crate) idle: u64,
    pub(crate) moment: Moment,
}

/// How much a process had sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    pub(crate) packets: u64,
    pub(crate) idle: u64,
    pub(crate) moment: Moment,
}

/// A fault of the harness.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) proc: ProcIx,
    pub(crate) moment: Moment,
}

/// What kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    Stop,
    Cont,
    Crash,
}
