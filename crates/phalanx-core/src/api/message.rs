//! What a sender requests for a message, what a group agrees on for its messages, and a message as it is delivered.

use super::domain::DomainIndex;
use crate::id::{GroupId, Incarnation, Sequence, ViewNumber};

/// The order that a multicast requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// In the order of its sender (fbcast).
    Fifo,
    /// After all messages that it may depend on (cbcast; Birman, Schiper and Stephenson 1991, section 5).
    Causal,
    /// In the same order at all members, which extends the causal one (abcast).
    Total,
}

/// What a multicast asks the streams of its view for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The order.
    pub order: Order,
    /// Whether it is delivered only when stable.
    pub uniformity: Uniformity,
    /// Whether it is an ask: it carries who is to answer it.
    pub asks: bool,
    /// The domain of the group's state to which it goes. An ask names none.
    pub domain: Option<DomainIndex>,
}

impl From<(Order, Uniformity)> for Request {
    fn from((order, uniformity): (Order, Uniformity)) -> Self {
        Self { order, uniformity, asks: false, domain: None }
    }
}

/// The members of a view that are to answer an ask: a bit for each rank, rank 0 in the lowest bit of the first byte. What is
/// beyond the end is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected<'a>(pub(crate) &'a [u8]);

impl<'a> Expected<'a> {
    /// Of bits as they travel.
    #[must_use]
    pub const fn of(bits: &'a [u8]) -> Self {
        Self(bits)
    }

    /// The bits as they travel.
    #[must_use]
    pub const fn bits(self) -> &'a [u8] {
        self.0
    }

    /// Whether the member of that rank is among them.
    #[must_use]
    pub fn contains(self, rank: usize) -> bool {
        self.0.get(rank / 8).is_some_and(|byte| byte >> (rank % 8) & 1 == 1)
    }

    /// The ranks, in order.
    pub fn ranks(self) -> impl Iterator<Item = usize> + use<'a> {
        (0..self.0.len() * 8).filter(move |rank| self.contains(*rank))
    }
}

/// Whether a multicast is uniform: delivered only when every member has received it. So if one member delivers it,
/// every survivor does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stability {
    /// As the group was founded; see [`GroupTerms::uniformity`].
    #[default]
    GroupDefault,
    /// Delivered as soon as its order allows. A member that delivers it may die, and then no other may ever see it.
    Plain,
    /// Delivered only when every member has received it.
    Uniform,
}

impl Stability {
    /// What the multicast is in a group with this default.
    #[inline]
    #[must_use]
    pub const fn or(self, default: Uniformity) -> Uniformity {
        match self {
            Self::GroupDefault => default,
            Self::Plain => Uniformity::Plain,
            Self::Uniform => Uniformity::Uniform,
        }
    }
}

impl From<Uniformity> for Stability {
    fn from(uniformity: Uniformity) -> Self {
        match uniformity {
            Uniformity::Plain => Self::Plain,
            Uniformity::Uniform => Self::Uniform,
        }
    }
}

/// How a multicast is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendOptions {
    /// The order.
    pub order: Order,
    /// Whether it is uniform.
    pub stability: Stability,
    /// The only view in which it may be sent.
    pub in_view: Option<ViewNumber>,
    /// Whether members are to answer it.
    pub asks: bool,
    /// The domain of the group's state to which alone it goes: of [`super::GroupView::domains`]. In total order only.
    pub domain: Option<DomainIndex>,
}

impl SendOptions {
    /// A multicast of this order and stability, of which nobody is asked anything, in whichever view, to the whole group.
    #[must_use]
    pub const fn new(order: Order, stability: Stability) -> Self {
        Self { order, stability, in_view: None, asks: false, domain: None }
    }
}

/// A multicast that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// What it is: as its [`Stability`] names it, else as agreed for the group.
    pub uniformity: Uniformity,
    /// Where it belongs, if it could be packed at once. Else it waits, and [`crate::Effects::sent`] reports that later.
    pub sent: Option<Sent>,
}

/// Where a multicast belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The view in which it is delivered, by all that go on from there or by none.
    pub view: ViewNumber,
    /// Its number in its sender's stream of that view.
    pub seq: Sequence,
}

/// Whether a message is uniform. A multicast requests it as a [`Stability`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Uniformity {
    /// It is delivered as soon as its order allows.
    Plain,
    /// It is delivered only when every member has received it.
    Uniform,
}

impl Uniformity {
    /// The uniformity that a flag of a frame, a record or a configuration states: [`Self::Uniform`] if it is set.
    #[inline]
    #[must_use]
    pub const fn from_flag(is_set: bool) -> Self {
        if is_set { Self::Uniform } else { Self::Plain }
    }

    /// Whether it is [`Self::Uniform`]. This is the flag that [`Self::from_flag`] reads.
    #[inline]
    #[must_use]
    pub const fn is_uniform(self) -> bool {
        matches!(self, Self::Uniform)
    }
}

/// Terms of a group, agreed when it is made: those that rank 0 of its first view requested. Later joiners take the
/// group's terms, whatever they requested; see [`super::GroupView::terms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupTerms {
    /// What a multicast with [`Stability::GroupDefault`] is. Default [`Uniformity::Uniform`].
    pub uniformity: Uniformity,
    /// The least members with the group's state in an adequate view of it. In another view no uniform message is sent.
    /// Members that still take the state do not count. In force from level 2 of the cell on. 0 means 1. Default 1.
    pub members_min: u16,
    /// What happens to the group when no member in the primary partition has its state, and members that have it are
    /// cut off. False: its name waits for them ([`super::Event::GroupOrphaned`]). True: it ends, and may be made again without
    /// its state. In force from level 3 of the cell on. Default false.
    pub ends_alone: bool,
}

impl Default for GroupTerms {
    fn default() -> Self {
        Self { uniformity: Uniformity::Uniform, members_min: 1, ends_alone: false }
    }
}

/// A message for the application, borrowed for the length of the call.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// The group it was sent to.
    pub group: GroupId,
    /// The group view in which it was sent and is delivered.
    pub view: ViewNumber,
    /// Its sender.
    pub sender: Incarnation,
    /// Its number among its sender's messages in this group view, from 1.
    pub seq: Sequence,
    /// The order that its sender requested.
    pub order: Order,
    /// Whether it was delivered only when every member had received it, or as soon as its order allowed.
    pub uniformity: Uniformity,
    /// For [`Order::Total`]: its position in the group's total order, from 1 in each group view.
    pub position: Option<u64>,
    /// Whether it is part of a state transfer: it belongs to views before this process's first.
    pub replayed: bool,
    /// If it is an ask: who is to answer it. A replayed message asks nobody.
    pub asked: Option<Expected<'a>>,
    /// The domain of the group's state to which alone it goes; see [`super::GroupView::domains`].
    pub domain: Option<DomainIndex>,
    /// The payload.
    pub payload: &'a [u8],
}

/// Whether a message to one member answers something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToOneKind {
    /// It was sent by itself. Its receiver's window bounds how many are under way, and its sender learns its outcome.
    Message,
    /// Its receiver asked for it. What that asked for bounds how many there are, and there is no outcome.
    Answer,
}

impl ToOneKind {
    /// Whether it is an answer.
    #[must_use]
    pub fn is_answer(self) -> bool {
        self == Self::Answer
    }
}

/// What became of a message to one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToOneOutcome {
    /// It has its place among what its receiver's application gets.
    Delivered,
    /// Its receiver never gets it: one of the two was out of the group before.
    NotDelivered,
    /// The receiver's incarnation, or this one, or this membership of the group, was over before either was known.
    InDoubt,
}

/// A message to this member of a group alone, borrowed for the length of the call.
#[derive(Clone, Copy, Debug)]
pub struct MessageToOne<'a> {
    /// The group.
    pub group: GroupId,
    /// The group's view in which it was sent. This member may be in a later one.
    pub view: ViewNumber,
    /// Its sender.
    pub sender: Incarnation,
    /// Whether it is an answer.
    pub kind: ToOneKind,
    /// The payload.
    pub payload: &'a [u8],
}
