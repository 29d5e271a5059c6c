//! The control messages: views are decided and states transferred with them, over the control channel. Encoded with
//! postcard; the channel bounds their length.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ballot::{Ballot, Report, Unreadable, Wedge};
use super::decree::Proposal;
use super::directory::Directory;
use super::founding::FoundingMessage;
use super::request_list::RequestList;
use super::terms::{read_requested_terms, requested_terms};
use crate::id::{CellInstance, DecreeNumber, GroupId, Incarnation, Rank, Sequence, ViewNumber};
use crate::wire::{Malformed, PacketNumber, Space, Tags, put_with_tail, read_with_tail};

/// Tag in the tail of a request to leave the cell: its sender waits.
const LEAVE_WAITS: u64 = 1;

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
    Leave {
        /// Whether it waits: if all members leave, not before something is back that it would lose. Sent in the tail, from
        /// level 6 on.
        #[serde(skip)]
        waits: bool,
    },
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
                list.put_tail(&mut tail);
            }
            Self::Report(report) => report.put_tail(&mut tail),
            Self::Founding(message) => message.put_tail(&mut tail),
            Self::Leave { waits: true } => tail.put(LEAVE_WAITS, &[]),
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
                list.read_tail(&tail)?;
            }
            Self::Report(report) => report.read_tail(&tail)?,
            Self::Founding(message) => message.read_tail(&tail)?,
            Self::Leave { waits } => *waits = tail.get(LEAVE_WAITS).is_some(),
            _ => {}
        }
        Ok(message)
    }
}
