//! The control messages: views are decided and states transferred with them, over the control channel. Encoded with
//! postcard; the channel bounds their length.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ballot::{Ballot, Report, Unreadable, Wedge};
use super::decree::Proposal;
use super::directory::Directory;
use super::founding::FoundingMessage;
use super::request_list::RequestList;
use super::terms::{read_requested_terms, requested_terms};
use crate::api::{Domain, DomainIndex, GroupTerms, GroupView, LeaveReason, Uniformity, are_domains};
use crate::id::{CellInstance, DecreeNumber, GroupId, Incarnation, MemberInfo, Rank, Sequence, ViewNumber};
use crate::wire::{Malformed, PacketNumber, Space, Tags, put_with_tail, read_with_tail};

/// Tag in the tail of a request to leave the cell: its sender waits.
const LEAVE_WAITS: u64 = 1;

/// Tag in the tail of the begin of a state: the view in which the donor froze it.
const SNAPSHOT_VIEW: u64 = 1;

/// Tag in the same: the domains that the group lists in it.
const SNAPSHOT_DOMAINS: u64 = 2;

/// Tag in the tail of a replayed delivery: the domain to which it goes.
const REPLAY_DOMAIN: u64 = 1;

/// Tag in the tail of a replayed view: the domains of the group's state.
const VIEW_DOMAINS: u64 = 1;

/// The level from which on views are replayed to a joiner.
pub const REPLAYED_VIEWS_LEVEL: u16 = 7;

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
        /// The view in which it was frozen. The views after it are replayed. In the tail, from level 7 on.
        #[serde(skip)]
        view: Option<ViewNumber>,
        /// The domains that the group lists in that view. In the tail, from level 10 on.
        #[serde(skip)]
        domains: Option<Vec<Domain>>,
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
        /// The domain to which alone it goes. In the tail, from level 10 on.
        #[serde(skip)]
        domain: Option<DomainIndex>,
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
    /// A view that the donor installed after the snapshot, at its place between the replayed deliveries. From level 7 on.
    ReplayView {
        /// See `Ask`.
        transfer: u64,
        /// The view.
        view: Box<ReplayedView>,
    },
}

/// A view of a group as it is replayed: what is the same at all its members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayedView {
    /// Its number.
    pub view: ViewNumber,
    /// The records of its members, in rank order.
    pub members: Vec<MemberInfo>,
    /// Members that entered with it.
    pub joined: Vec<Incarnation>,
    /// Incarnations that left with it, and why.
    pub left: Vec<(Incarnation, LeaveReason)>,
    /// Members without the whole state; see [`GroupView::incomplete`].
    pub incomplete: Vec<Incarnation>,
    /// Members that observe.
    pub observers: Vec<Incarnation>,
    /// Whether the group has a state, if that is agreed.
    pub has_state: Option<bool>,
    /// The group's terms: whether a multicast that asks for neither kind is uniform.
    pub uniform: bool,
    /// The group's terms: the least members with its state in an adequate view.
    pub members_min: u16,
    /// The group's terms: whether it ends rather than wait for members that are cut off.
    pub ends_alone: bool,
    /// The domains of the group's state, if there is a list. In the tail, from level 10 on.
    #[serde(skip)]
    pub domains: Option<Vec<Domain>>,
}

/// Bytes that the record of a member counts for beside its name and its tail, and those of an incarnation in a list.
const MEMBER_BYTES: usize = 128;
const LISTED_BYTES: usize = 16;

impl ReplayedView {
    /// The view as a donor sends it.
    #[must_use]
    pub fn of(view: &GroupView) -> Self {
        Self {
            view: view.view,
            members: view.infos.clone(),
            joined: view.joined.clone(),
            left: view.left.clone(),
            incomplete: view.incomplete.clone(),
            observers: view.observers.clone(),
            has_state: view.has_state,
            domains: view.domains.as_ref().map(|list| list.to_vec()),
            uniform: view.terms.uniformity.is_uniform(),
            members_min: view.terms.members_min,
            ends_alone: view.terms.ends_alone,
        }
    }

    /// The view as a joiner has it.
    #[must_use]
    pub fn into_view(self, group: GroupId, name: Arc<str>) -> GroupView {
        let whole = self.members.len().saturating_sub(self.incomplete.len());
        GroupView {
            group,
            name,
            view: self.view,
            prev: None,
            members: self.members.iter().map(|info| info.incarnation).collect(),
            infos: self.members,
            joined: self.joined,
            left: self.left,
            incomplete: self.incomplete,
            observers: self.observers,
            has_state: self.has_state,
            domains: self.domains.map(Into::into),
            terms: GroupTerms {
                uniformity: Uniformity::from_flag(self.uniform),
                members_min: self.members_min,
                ends_alone: self.ends_alone,
            },
            // What each member knows of the others' states differs. This follows from the view alone.
            adequate: whole >= usize::from(self.members_min),
        }
    }

    /// Whether it can be a view of other processes than `me`: its lists name members, each once, and no leaver is one.
    #[must_use]
    pub fn is_sound(&self, me: Incarnation) -> bool {
        let members: BTreeSet<Incarnation> = self.members.iter().map(|info| info.incarnation).collect();
        let lists = [&self.joined, &self.incomplete, &self.observers];
        let named = lists.into_iter().all(|list| {
            let once: BTreeSet<&Incarnation> = list.iter().collect();
            once.len() == list.len() && once.into_iter().all(|who| members.contains(who))
        });
        !members.is_empty()
            && members.len() == self.members.len()
            && !members.contains(&me)
            && named
            && self.left.iter().all(|(who, _)| !members.contains(who))
    }
}

/// Bytes that a replayed view counts for, at the donor as at the joiner.
#[must_use]
pub fn replayed_bytes(view: &GroupView) -> usize {
    let info = |info: &MemberInfo| MEMBER_BYTES + info.name.len() + info.tail.as_bytes().len();
    let listed = view.joined.len() + view.left.len() + view.incomplete.len() + view.observers.len();
    let domains = view.domains.iter().flat_map(|list| list.iter());
    let domains = domains.map(|domain| LISTED_BYTES + domain.name.len()).sum::<usize>();
    view.infos.iter().map(info).sum::<usize>() + LISTED_BYTES * listed + domains
}

/// Checks a list that came from another process.
fn read_list(list: Option<Vec<Domain>>) -> Result<Option<Vec<Domain>>, Malformed> {
    if list.as_ref().is_none_or(|list| are_domains(list.iter())) { Ok(list) } else { Err(Malformed) }
}

impl StateMessage {
    /// Appends the encoded message, with its tail, to `out`.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub fn encode(&self, out: Vec<u8>) -> Result<Vec<u8>, postcard::Error> {
        let mut tail = Tags::default();
        match self {
            Self::Begin { view, domains, .. } => {
                view.iter().for_each(|view| tail.put_number(SNAPSHOT_VIEW, view.0));
                domains.iter().for_each(|list| tail.put_value(SNAPSHOT_DOMAINS, list));
            }
            Self::Replay { domain: Some(domain), .. } => tail.put_number(REPLAY_DOMAIN, u64::from(domain.0)),
            Self::ReplayView { view, .. } => view.domains.iter().for_each(|list| tail.put_value(VIEW_DOMAINS, list)),
            _ => {}
        }
        put_with_tail(self, &tail, out)
    }

    /// Reads what [`Self::encode`] appended.
    ///
    /// # Errors
    /// [`Malformed`] if it is no such message.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (mut message, tail) = read_with_tail(bytes)?;
        match &mut message {
            Self::Begin { view, domains, .. } => {
                *view = tail.number(SNAPSHOT_VIEW)?.map(ViewNumber);
                *domains = read_list(tail.value(SNAPSHOT_DOMAINS)?)?;
            }
            Self::Replay { domain, .. } => {
                let at = tail.number(REPLAY_DOMAIN)?.map(u8::try_from).transpose().map_err(|_too_large| Malformed)?;
                *domain = at.map(DomainIndex);
            }
            Self::ReplayView { view, .. } => view.domains = read_list(tail.value(VIEW_DOMAINS)?)?,
            _ => {}
        }
        Ok(message)
    }
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
