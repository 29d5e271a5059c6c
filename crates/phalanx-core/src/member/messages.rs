//! The control messages: views are decided and states transferred with them, over the control channel. Encoded with
//! postcard; the channel bounds their length.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::founding::FoundingMessage;
use super::orphan::tails;
use super::{Directory, Return, read_requested_terms, requested_terms};
use crate::api::{GroupTerms, LeaveReason};
use crate::id::{CellInstance, GroupId, Incarnation, MemberInfo, Rank};
use crate::wire::{Malformed, PacketNumber, Space, Tags, put_with_tail, read_with_tail};

/// A try at a decree: later rounds beat earlier ones, ties go to the higher rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
pub struct Ballot {
    /// Grows with each try.
    pub round: u32,
    /// The coordinator's rank in the view in force.
    pub rank: Rank,
}

/// Asks the acceptors of a view to stop and report; with cuts, to report once they hold them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wedge {
    /// The decree to be decided: one above the decree in force.
    pub decree: u64,
    /// This try.
    pub ballot: Ballot,
    /// The groups that may change: those that hold a candidate for leaving, or have a wish pending.
    pub groups: Vec<GroupId>,
    /// Where these groups' views are to end; empty when reports are first asked for. A proposal is made only when
    /// each member of these groups that reported holds its group's cut, so an accepted cut is never out of reach.
    pub cuts: Vec<(GroupId, GroupCut)>,
}

/// An acceptor's promise and what it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The decree.
    pub decree: u64,
    /// The ballot promised.
    pub ballot: Ballot,
    /// The proposal accepted so far, if any, and in which ballot.
    pub accepted: Option<(Ballot, Proposal)>,
    /// Per wedged group the reporter is a member of: the prefix of each stream that it holds, by rank in the group
    /// view.
    #[serde(with = "super::sparse::prefixes")]
    pub prefixes: Vec<(GroupId, Vec<u64>)>,
    /// Wedged groups of which the reporter has not the whole state: it does not come to have it before the decision. Told in
    /// the message's tail, from level 3 on.
    #[serde(skip)]
    pub incomplete: Vec<GroupId>,
    /// Wedged groups whose state the reporter gives to somebody, and does not want to leave before that is done. Told like that.
    #[serde(skip)]
    pub giving: Vec<GroupId>,
    /// Wedged groups whose state the reporter takes, or looks for, without being a member. Told like that.
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
    /// Of each such stream: its sender's rank in the group view, the prefix acted upon, and whether the packet after the
    /// reported prefix is there and makes no sense.
    pub streams: Vec<(Rank, u64, bool)>,
}

impl Unread {
    /// Whether one of them makes no sense.
    #[must_use]
    pub fn has_nonsense(&self) -> bool {
        self.streams.iter().any(|(.., nonsense)| *nonsense)
    }
}

/// A member cannot read on, or says more of what it reports. From level 2 on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreadable {
    /// The decree in force is the one before.
    pub decree: u64,
    /// Belongs to the report that follows, in this ballot. `None`: a reason to begin one.
    pub ballot: Option<Ballot>,
    /// What cannot be read; groups of which all is as reported are not named.
    pub groups: Vec<Unread>,
}

/// Where a group's view ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "super::sparse::SparseCut", into = "super::sparse::SparseCut")]
pub struct GroupCut {
    /// Per rank in the ending group view: the longest prefix reported.
    pub prefixes: Vec<u64>,
    /// Per rank: who reported it, and so holds it; [`Incarnation::NONE`] where there is nothing to hold.
    pub holders: Vec<Incarnation>,
}

/// One group's next view: what changes against the view in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupChange {
    /// The group.
    pub group: GroupId,
    /// Its name.
    pub name: String,
    /// The next view's number.
    pub view: u64,
    /// The packet space of the next view.
    pub space: Space,
    /// How the view in force ends; `None` for a new group.
    pub cut: Option<GroupCut>,
    /// Who comes, to rank after those that stay.
    pub joined: Vec<Incarnation>,
    /// Who goes, and why.
    pub left: Vec<(Incarnation, LeaveReason)>,
    /// What later builds add.
    pub tail: Tags,
}

impl GroupChange {
    /// Whether a member loses the group's state with it.
    #[must_use]
    pub fn is_lost_to(&self, who: Incarnation) -> bool {
        self.left.iter().any(|(left, why)| *left == who && why.is_loss())
    }
}

/// What a decree decides, as the difference from the directory in force: one member of a thousand leaves in a few bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The decree's number.
    pub decree: u64,
    /// The cell view's number after it.
    pub view: u64,
    /// Who comes into the cell, to rank after those that stay.
    pub joined: Vec<MemberInfo>,
    /// Who goes, and why.
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
    /// What later builds add.
    pub tail: Tags,
}

impl Proposal {
    /// Who comes into the cell.
    pub fn joiners(&self) -> impl Iterator<Item = Incarnation> {
        self.joined.iter().map(|member| member.incarnation)
    }

    /// Whether it leaves out a member that did not ask for it.
    #[must_use]
    pub fn leaves_out(&self, who: Incarnation) -> bool {
        self.left.iter().any(|(left, why)| *left == who && *why != LeaveReason::Left)
    }

    /// Where the views of changed groups end.
    pub fn cuts(&self) -> impl Iterator<Item = (GroupId, &GroupCut)> {
        self.groups.iter().filter_map(|change| Some((change.group, change.cut.as_ref()?)))
    }
}

/// What a joiner needs besides the decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The cell instance.
    pub instance: CellInstance,
    /// The directory after the decision.
    pub directory: Directory,
    /// The decision.
    pub proposal: Arc<Proposal>,
}

/// A piece of an encoded message with a [`Welcome`] that is too long for one message, or for others to wait behind it. From level 5
/// on. The pieces of one sender follow each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WelcomePart {
    /// The decree whose directory it is.
    pub decree: u64,
    /// The length of the whole.
    pub len_bytes: u64,
    /// Where in the whole it belongs.
    pub offset: u64,
    /// The bytes.
    #[serde(with = "crate::wire::blob")]
    pub bytes: Vec<u8>,
}

/// A wish about one group, from a member of the cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupRequest {
    /// The group's name.
    pub name: String,
    /// Come (true) or go.
    pub join: bool,
    /// Come only with the making of the group: its state was not taken.
    pub only_new: bool,
    /// What it would be agreed to be if the wisher made it; `None`: an earlier build requests. Told in the message's tail.
    #[serde(skip)]
    pub terms: Option<GroupTerms>,
}

/// All that a member requests and no decree has fulfilled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestList {
    /// The decree in force there: a wish holds until the next.
    pub decree: u64,
    /// About groups.
    pub groups: Vec<GroupRequest>,
    /// The level that the cell is to rise to; 0: no wish.
    pub level: u16,
    /// Groups that wait for the wisher. This and what follows is told in the message's tail, from level 3 on.
    #[serde(skip)]
    pub returns: Vec<Return>,
    /// Names of groups that are to wait no more.
    #[serde(skip)]
    pub given_up: Vec<String>,
    /// Lives that groups wait for, and that are proved dead.
    #[serde(skip)]
    pub dead: Vec<Incarnation>,
}

impl RequestList {
    /// Whether it requests nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { decree: _, groups, level, returns, given_up, dead } = self;
        groups.is_empty() && *level == 0 && returns.is_empty() && given_up.is_empty() && dead.is_empty()
    }
}

/// A packet of somebody's stream, handed on by a holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveredPacket {
    /// The stream's packet space.
    pub space: Space,
    /// The origin's rank in that group view.
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
    /// The joiner asks a member for the group's state.
    Ask {
        /// The group.
        group: GroupId,
        /// Its view as the joiner knows it.
        view: u64,
        /// Names this try.
        transfer: u64,
    },
    /// The donor's snapshot begins. `None`: the group has no state.
    Begin {
        /// See `Ask`.
        transfer: u64,
        /// Bytes of the snapshot.
        bytes: Option<u64>,
    },
    /// A piece of the snapshot, in order.
    Chunk {
        /// See `Ask`.
        transfer: u64,
        /// Where it belongs.
        offset: u64,
        /// The bytes.
        #[serde(with = "crate::wire::blob")]
        bytes: Vec<u8>,
    },
    /// A delivery at the donor after the snapshot was taken.
    Replay {
        /// See `Ask`.
        transfer: u64,
        /// The group view it was delivered in.
        view: u64,
        /// Its sender.
        sender: Incarnation,
        /// Its number in its sender's stream.
        seq: u64,
        /// Order as on the wire (0 fifo, 1 causal, 2 total), uniform as bit 2.
        order: u8,
        /// Its place in the total order.
        position: Option<u64>,
        /// The bytes.
        #[serde(with = "crate::wire::blob")]
        payload: Vec<u8>,
    },
    /// The joiner has everything sent so far; it may be made a member.
    CaughtUp {
        /// See `Ask`.
        transfer: u64,
    },
    /// The donor installed the view that holds the joiner: its state is complete.
    Done {
        /// See `Ask`.
        transfer: u64,
        /// The group view installed.
        view: u64,
    },
    /// The donor cannot go on (left the group, overtaken): ask another.
    Abort {
        /// See `Ask`.
        transfer: u64,
    },
    /// The joiner has taken everything up to here, in bytes of chunks and replays sent.
    Taken {
        /// See `Ask`.
        transfer: u64,
        /// Bytes.
        bytes: u64,
    },
}

/// Everything the control channel carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Control {
    /// See [`Wedge`].
    Wedge(Wedge),
    /// See [`Report`].
    Report(Report),
    /// The ballot asked for is below one promised already.
    Refuse {
        /// The decree.
        decree: u64,
        /// The ballot promised.
        promised: Ballot,
    },
    /// Asks acceptors to accept.
    Propose {
        /// The ballot.
        ballot: Ballot,
        /// The proposal.
        proposal: Arc<Proposal>,
    },
    /// The acceptor holds the whole cut and accepts.
    Accepted {
        /// The decree.
        decree: u64,
        /// The ballot.
        ballot: Ballot,
    },
    /// A quorum accepted.
    Decide(Arc<Proposal>),
    /// The same to a joiner.
    Welcome(Box<Welcome>),
    /// Asks a holder for packets of a stream.
    Fetch {
        /// The stream's packet space.
        space: Space,
        /// The origin's rank in that group view.
        rank: Rank,
        /// First and last number wanted.
        from: u64,
        /// See `from`.
        to: u64,
    },
    /// See [`RecoveredPacket`].
    Recovered(RecoveredPacket),
    /// See [`RequestList`].
    MembershipRequests(RequestList),
    /// The sender wants to leave the cell.
    Leave,
    /// One of two of builds that founded in another way; see [`FoundingMessage`].
    FormerFoundList,
    /// Says nothing: is it acknowledged? Builds that know it for a third one of those do nothing with it either.
    Ping,
    /// See `FormerFoundList`.
    FormerFoundDecide,
    /// See [`Unreadable`].
    Unreadable(Unreadable),
    /// From level 2 on, where a group's terms ask for more than one member: the sender, of its view, holds its state.
    HoldsState {
        /// The group.
        group: GroupId,
        /// Its view, or an earlier one since which the sender is a member.
        view: u64,
    },
    /// Among processes that are in no view: see [`FoundingMessage`].
    Founding(FoundingMessage),
    /// From level 3 on: the sender asked to leave, and knows that it is out.
    Out,
    /// See [`WelcomePart`].
    WelcomePart(WelcomePart),
}

impl Control {
    /// As it travels, with what its tail tells.
    ///
    /// # Errors
    /// When it cannot be encoded.
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

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// [`Malformed`] when it makes no sense.
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
