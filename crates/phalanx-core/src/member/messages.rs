//! The control messages: views are decided and states transferred with them, over the control channel. Encoded with
//! postcard; the channel bounds their length.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::founding::FoundingMessage;
use super::orphan::tails;
use super::{Directory, Return, read_requested_terms, requested_terms};
use crate::api::{GroupTerms, LeaveReason};
use crate::id::{CellInstance, DecreeNumber, GroupId, Incarnation, MemberInfo, Rank, Sequence, ViewNumber};
use crate::wire::{Malformed, PacketNumber, Space, Tags, put_with_tail, read_with_tail};

/// The number of an attempt at a decree. A later round wins; of one round, the higher rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
pub struct Ballot {
    /// Grows with each attempt.
    pub round: u32,
    /// The coordinator's rank in the view in force.
    pub rank: Rank,
}

/// Asks the acceptors of a view to stop and report. With cuts, asks them to report once they hold these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wedge {
    /// The decree to decide: the one after the decree in force.
    pub decree: DecreeNumber,
    /// This attempt.
    pub ballot: Ballot,
    /// The groups that may change: those with a candidate for leaving, and those with a pending request.
    pub groups: Vec<GroupId>,
    /// Where these groups' views are to end; empty in the first request for reports.
    ///
    /// A proposal is made only when each member of these groups that reported holds its group's cut. So an accepted cut
    /// can always be completed: it does not depend on a packet that one member alone holds.
    pub cuts: Vec<(GroupId, GroupCut)>,
}

/// The promise of an acceptor, and what it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The decree.
    pub decree: DecreeNumber,
    /// The promised ballot.
    pub ballot: Ballot,
    /// The proposal accepted last, if there is one, and its ballot.
    pub accepted: Option<(Ballot, Proposal)>,
    /// For each wedged group that has the reporter as a member: the prefix of each stream that it holds, by rank in the
    /// group view.
    #[serde(with = "super::sparse::prefixes")]
    pub prefixes: Vec<(GroupId, Vec<u64>)>,
    /// Wedged groups whose state the reporter does not have in full. It does not receive the rest before the decision.
    /// Sent in the message's tail, from level 3 on.
    #[serde(skip)]
    pub incomplete: Vec<GroupId>,
    /// Wedged groups whose state the reporter gives to a joiner. It does not want to leave before that is done. Sent in
    /// the tail, too.
    #[serde(skip)]
    pub giving: Vec<GroupId>,
    /// Wedged groups whose state the reporter takes, or looks for, without being a member. Sent in the tail, too.
    #[serde(skip)]
    pub taking: Vec<GroupId>,
}

impl Report {
    /// Whether the reporter, a member of the group, has its whole state.
    #[must_use]
    pub fn has_state(&self, group: GroupId) -> bool {
        !self.incomplete.contains(&group)
    }
}

/// Streams of a group that a member cannot read as far as it holds them, or had not acted upon as far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// The group.
    pub group: GroupId,
    /// For each such stream: the sender's rank in the group view, the prefix acted upon, and whether the packet after
    /// the reported prefix is held and is nonsense.
    pub streams: Vec<(Rank, u64, bool)>,
}

impl Unread {
    /// Whether any of them has nonsense.
    #[must_use]
    pub fn has_nonsense(&self) -> bool {
        self.streams.iter().any(|(.., nonsense)| *nonsense)
    }
}

/// A report of streams that a member cannot read on, or an addition to its report. From level 2 on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreadable {
    /// The decree to decide; the one in force at the sender is the one before.
    pub decree: DecreeNumber,
    /// The ballot of the report that follows and that this belongs to. `None` if it is a reason to begin a ballot.
    pub ballot: Option<Ballot>,
    /// The streams that cannot be read. Groups that are read as far as reported are absent.
    pub groups: Vec<Unread>,
}

/// Where a group's view ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "super::sparse::SparseCut", into = "super::sparse::SparseCut")]
pub struct GroupCut {
    /// By rank in the ending group view: the longest reported prefix.
    pub prefixes: Vec<u64>,
    /// By rank: a member that reported that prefix, and so holds it; [`Incarnation::NONE`] for an empty prefix.
    pub holders: Vec<Incarnation>,
}

/// The next view of one group, as the difference from the view in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupChange {
    /// The group.
    pub group: GroupId,
    /// Its name.
    pub name: String,
    /// The next view's number.
    pub view: ViewNumber,
    /// The packet space of the next view.
    pub space: Space,
    /// Where the view in force ends; `None` for a new group.
    pub cut: Option<GroupCut>,
    /// Incarnations that enter. They rank after those that stay.
    pub joined: Vec<Incarnation>,
    /// Incarnations that leave, and why.
    pub left: Vec<(Incarnation, LeaveReason)>,
    /// Entries that later builds add.
    pub tail: Tags,
}

impl GroupChange {
    /// Whether `who` loses the group's state by this change.
    #[must_use]
    pub fn is_lost_to(&self, who: Incarnation) -> bool {
        self.left.iter().any(|(left, why)| *left == who && why.is_loss())
    }
}

/// The content of a decree, as the difference from the directory in force. So one leaver of a thousand members costs a
/// few bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The decree's number.
    pub decree: DecreeNumber,
    /// The number of the cell view after the decree.
    pub view: ViewNumber,
    /// Processes that enter the cell. They rank after those that stay.
    pub joined: Vec<MemberInfo>,
    /// Incarnations that leave the cell, and why.
    pub left: Vec<(Incarnation, LeaveReason)>,
    /// Groups whose view changes.
    pub groups: Vec<GroupChange>,
    /// The next unused group number and packet space.
    pub next_group: u32,
    /// See `next_group`.
    pub next_space: Space,
    /// The level in force after it.
    pub level: u16,
    /// The agreed settings that a rise to `level` brings; otherwise empty.
    pub settings: Tags,
    /// Entries that later builds add.
    pub tail: Tags,
}

impl Proposal {
    /// The incarnations that enter the cell.
    pub fn joiners(&self) -> impl Iterator<Item = Incarnation> {
        self.joined.iter().map(|member| member.incarnation)
    }

    /// Whether it leaves `who` out without that member's request.
    #[must_use]
    pub fn leaves_out(&self, who: Incarnation) -> bool {
        self.left.iter().any(|(left, why)| *left == who && *why != LeaveReason::Left)
    }

    /// The cuts of the groups that change.
    pub fn cuts(&self) -> impl Iterator<Item = (GroupId, &GroupCut)> {
        self.groups.iter().filter_map(|change| Some((change.group, change.cut.as_ref()?)))
    }
}

/// What a joiner needs beside the decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The cell instance.
    pub instance: CellInstance,
    /// The directory after the decision.
    pub directory: Directory,
    /// The decision.
    pub proposal: Arc<Proposal>,
}

/// A part of an encoded message with a [`Welcome`] that is too long for one message, or would make other messages wait
/// too long. From level 5 on. The parts of one sender come in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WelcomePart {
    /// The decree whose directory it is.
    pub decree: DecreeNumber,
    /// Length of the whole message, in bytes.
    pub len_bytes: u64,
    /// The part's offset in the whole message.
    pub offset: u64,
    /// The bytes.
    #[serde(with = "crate::wire::blob")]
    pub bytes: Vec<u8>,
}

/// A request of a cell member about one group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupRequest {
    /// The group's name.
    pub name: String,
    /// True to join, false to leave.
    pub join: bool,
    /// Join only if the group is made by that: the member has not taken its state.
    pub only_new: bool,
    /// The terms of the group if the member makes it. `None` from an earlier build. Sent in the message's tail.
    #[serde(skip)]
    pub terms: Option<GroupTerms>,
}

/// All requests of a member that no decree has fulfilled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestList {
    /// The decree in force at the member. A request holds until the next decree.
    pub decree: DecreeNumber,
    /// Requests about groups.
    pub groups: Vec<GroupRequest>,
    /// The level to which the cell is to rise; 0 for no request.
    pub level: u16,
    /// Groups that wait for this member. This and the following fields are sent in the message's tail, from level 3 on.
    #[serde(skip)]
    pub returns: Vec<Return>,
    /// Names of groups that are to wait no longer.
    #[serde(skip)]
    pub given_up: Vec<String>,
    /// Incarnations for which groups wait, and that are proved dead.
    #[serde(skip)]
    pub dead: Vec<Incarnation>,
}

impl RequestList {
    /// Whether it requests nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Every field is named, so that a new one cannot be forgotten here.
        let Self { decree: _, groups, level, returns, given_up, dead } = self;
        groups.is_empty() && *level == 0 && returns.is_empty() && given_up.is_empty() && dead.is_empty()
    }
}

/// A packet of another member's stream, sent by a member that holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveredPacket {
    /// The stream's packet space.
    pub space: Space,
    /// The rank of the stream's sender in that group view.
    pub rank: Rank,
    /// The packet's number.
    pub number: PacketNumber,
    /// Its frames.
    #[serde(with = "crate::wire::blob")]
    pub frames: Vec<u8>,
}

/// State transfer between a member and a joiner of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateMessage {
    /// The joiner requests a group's state from a member.
    Ask {
        /// The group.
        group: GroupId,
        /// The group's view that the joiner knows.
        view: ViewNumber,
        /// Identifies this attempt.
        transfer: u64,
    },
    /// The donor's snapshot begins. `None`: the group has no state.
    Begin {
        /// See `Ask`.
        transfer: u64,
        /// Bytes of the snapshot.
        bytes: Option<u64>,
    },
    /// A chunk of the snapshot, in order.
    Chunk {
        /// See `Ask`.
        transfer: u64,
        /// Its offset in the snapshot.
        offset: u64,
        /// The bytes.
        #[serde(with = "crate::wire::blob")]
        bytes: Vec<u8>,
    },
    /// A delivery at the donor after the snapshot.
    Replay {
        /// See `Ask`.
        transfer: u64,
        /// The group view in which it was delivered.
        view: ViewNumber,
        /// Its sender.
        sender: Incarnation,
        /// Its number in its sender's stream.
        seq: Sequence,
        /// The order as in stream frames (0 fifo, 1 causal, 2 total), with uniform as bit 2.
        order: u8,
        /// Its position in the total order.
        position: Option<u64>,
        /// The bytes.
        #[serde(with = "crate::wire::blob")]
        payload: Vec<u8>,
    },
    /// The joiner has all that was sent so far, and may become a member.
    CaughtUp {
        /// See `Ask`.
        transfer: u64,
    },
    /// The donor installed the view that contains the joiner: the state is complete.
    Done {
        /// See `Ask`.
        transfer: u64,
        /// The group view installed.
        view: ViewNumber,
    },
    /// The donor cannot continue (it left the group, or the joiner was outrun). The joiner asks another.
    Abort {
        /// See `Ask`.
        transfer: u64,
    },
    /// The joiner has taken chunks and replayed deliveries up to this number of bytes.
    Taken {
        /// See `Ask`.
        transfer: u64,
        /// Bytes.
        bytes: u64,
    },
}

/// A message on the control channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Control {
    /// See [`Wedge`].
    Wedge(Wedge),
    /// See [`Report`].
    Report(Report),
    /// The requested ballot is below a promised one.
    Refuse {
        /// The decree.
        decree: DecreeNumber,
        /// The ballot promised.
        promised: Ballot,
    },
    /// Asks the acceptors to accept a proposal.
    Propose {
        /// The ballot.
        ballot: Ballot,
        /// The proposal.
        proposal: Arc<Proposal>,
    },
    /// The sender accepts.
    Accepted {
        /// The decree.
        decree: DecreeNumber,
        /// The ballot.
        ballot: Ballot,
    },
    /// A quorum accepted: the proposal is decided.
    Decide(Arc<Proposal>),
    /// The decision, for a joiner.
    Welcome(Box<Welcome>),
    /// Requests packets of a stream from a member that holds them.
    Fetch {
        /// The stream's packet space.
        space: Space,
        /// The rank of the stream's sender in that group view.
        rank: Rank,
        /// The first and the last number.
        from: u64,
        /// See `from`.
        to: u64,
    },
    /// See [`RecoveredPacket`].
    Recovered(RecoveredPacket),
    /// See [`RequestList`].
    MembershipRequests(RequestList),
    /// The sender requests to leave the cell.
    Leave,
    /// Reserved: one of two messages of builds that founded in another way; see [`FoundingMessage`].
    FormerFoundList,
    /// An empty message, sent only to see whether it is acknowledged. In former builds this number was another message
    /// of founding, and they ignore it, too.
    Ping,
    /// Reserved; see `FormerFoundList`.
    FormerFoundDecide,
    /// See [`Unreadable`].
    Unreadable(Unreadable),
    /// The sender, a member of the group's view, has its state. From level 2 on, where a group's terms ask for more
    /// than one member.
    HoldsState {
        /// The group.
        group: GroupId,
        /// Its view, or an earlier one; the sender is a member since then.
        view: ViewNumber,
    },
    /// Between processes that are in no view; see [`FoundingMessage`].
    Founding(FoundingMessage),
    /// The sender requested to leave, and knows that it is out. From level 3 on.
    Out,
    /// See [`WelcomePart`].
    WelcomePart(WelcomePart),
}

impl Control {
    /// The encoded message, with its tail.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        let mut tail = Tags::default();
        match self {
            Self::MembershipRequests(list) => {
                tail = requested_terms(list.groups.iter().map(|wish| wish.terms));
                tails::put_requests(&mut tail, list);
            }
            Self::Report(report) => tails::put_report(&mut tail, report),
            _ => {}
        }
        put_with_tail(self, &tail, Vec::new())
    }

    /// Reads the bytes of [`Self::encode`].
    ///
    /// # Errors
    /// [`Malformed`] if they are no such message.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (mut message, tail) = read_with_tail(bytes)?;
        match &mut message {
            Self::MembershipRequests(list) => {
                read_requested_terms(&tail, list.groups.iter_mut().map(|wish| &mut wish.terms))?;
                tails::read_requests(&tail, list)?;
            }
            Self::Report(report) => tails::read_report(&tail, report)?,
            _ => {}
        }
        Ok(message)
    }
}
