//! What the streams of a view tell their owner: packets to send, messages to deliver, and the bounds that they meet.

use super::stream::Deliverable;
use crate::api::{Order, Uniformity};
use crate::id::{Rank, Sequence};
use crate::link::Ack;
use crate::wire::{PacketNumber, Space};

/// Output of a view's streams.
pub trait StreamOutput {
    /// Sends packet `number` of `space`, holding `frames`, to all other members.
    fn multicast(&mut self, space: Space, number: PacketNumber, frames: &[u8]);
    /// Whether the data socket takes no more packets for now.
    fn is_congested(&mut self) -> bool;
    /// Retransmits a packet, with the same frames, to one member.
    fn retransmit(&mut self, rank: Rank, space: Space, number: PacketNumber, frames: &[u8]);
    /// Sends an ack for `rank`'s stream.
    fn ack(&mut self, space: Space, rank: Rank, ack: &Ack, wants_stable: bool);
    /// Sends this member's stream status to one member, or to all others (`None`).
    fn status(&mut self, space: Space, rank: Option<Rank>, status: &Status);
    /// Delivers a message. True if the application took it at once; otherwise [`super::ViewStreams::consumed`] follows.
    fn deliver(&mut self, message: Deliverable<'_>) -> bool;
    /// Notes that a message of ours that waited in the outbox is bound to this view.
    fn sent(&mut self, seq: Sequence, order: Order, uniformity: Uniformity, payload: &[u8]);
    /// Notes that every member of the view has our messages up to number `seq`.
    fn stable(&mut self, seq: Sequence);
    /// The same, because the view ended and every survivor has them. Deliveries of the cut may wait before it.
    fn stable_at_end(&mut self, seq: Sequence);
    /// Notes that our stream met a bound.
    fn backpressure(&mut self, bound: Backpressure);
    /// Whether this member can read packet `number` of `rank`'s stream. Always true, except where a simulation plays a
    /// defect.
    fn can_read(&mut self, space: Space, rank: Rank, number: PacketNumber) -> bool;
    /// Notes that a packet of `rank`'s stream is nonsense: the stream is read no further.
    fn nonsense(&mut self, rank: Rank);
}

/// State of a member's own stream, sent when others may wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The last packet that was sent.
    pub highest: u64,
    /// Every member has the stream up to here.
    pub stable: u64,
    /// Whether messages wait for credit.
    pub blocked: bool,
}

/// Why a member's messages wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// A member acknowledged all that was sent, and its application has not taken it.
    Credit,
    /// A member does not acknowledge what was sent.
    Ack,
    /// A new view is being decided.
    Change,
    /// The data socket takes no more packets for now.
    System,
    /// The first message is uniform, and this process hears no quorum of the cell.
    Outside,
    /// The first message is uniform, and the view has fewer members than agreed.
    Inadequate,
}

/// A bound at which a stream waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backpressure {
    /// The outbox is full: multicasts are refused.
    Outbox,
    /// The window is full: messages wait in the outbox.
    Window,
    /// The window is still full at a heartbeat, because a member has all that was sent and gives no credit.
    Credit,
    /// The window is still full at a heartbeat, because a member does not acknowledge.
    Acks,
    /// The view has fewer members than agreed: a uniform message waits, and all messages behind it.
    Members,
    /// No quorum is heard: a uniform message waits, and all messages behind it.
    Quorum,
    /// The window and what may be announced beyond it are full: abcasts of others wait for their order.
    Orders,
}
