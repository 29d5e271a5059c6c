//! Messages as they are delivered.

use bytes::Bytes;
use phalanx_core::{Delivery, DomainIndex};
use serde::de::DeserializeOwned;

use crate::error::DecodeError;
use crate::id::{MemberId, Order};

/// A delivered message.
///
/// A small payload shares a block of memory with its neighbours, so copy a payload that is kept for long.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Message {
    /// The number of the view in which it was sent and is delivered.
    pub view: u64,
    /// Its sender.
    pub sender: MemberId,
    /// Its number among its sender's messages in this view, from 1.
    pub seq: u64,
    /// The order it was sent with.
    pub order: Order,
    /// Whether it was delivered only when every member had it.
    pub uniform: bool,
    /// For [`Order::Total`]: its place in the view's total order, from 1.
    pub position: Option<u64>,
    /// Part of a state transfer: it belongs to views before this process's first.
    pub replayed: bool,
    /// The payload.
    pub payload: Bytes,
    /// The domain of the group's state to which alone it goes, by its place in the group's list.
    pub(crate) domain: Option<DomainIndex>,
}

impl Message {
    pub(crate) fn of(delivery: &Delivery<'_>, payload: Bytes) -> Self {
        Self {
            view: delivery.view.0,
            sender: MemberId::of(delivery.sender),
            seq: delivery.seq.0,
            order: Order::of(delivery.order),
            uniform: delivery.uniformity.is_uniform(),
            position: delivery.position,
            replayed: delivery.replayed,
            payload,
            domain: delivery.domain,
        }
    }

    /// Whether its sender named one domain of the state ([`Multicast::to_domain`](crate::Multicast::to_domain)): the one that
    /// applies it, and no other.
    #[must_use]
    pub fn is_to_domain(&self) -> bool {
        self.domain.is_some()
    }

    /// An ask that another member forwarded.
    pub(crate) fn forwarded(view: u64, sender: MemberId, seq: u64, payload: Bytes) -> Self {
        let (order, uniform, position, replayed, domain) = (Order::Fifo, false, None, false, None);
        Self { view, sender, seq, order, uniform, position, replayed, payload, domain }
    }

    /// The payload as a value; see [`Group::send_value`](crate::Group::send_value).
    ///
    /// # Errors
    /// [`DecodeError`] if it is not of that type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        postcard::from_bytes(&self.payload).map_err(DecodeError::of_type)
    }
}

/// A message that a member of the group sent to this process alone ([`Group::send_to`](crate::Group::send_to)). It comes
/// after all multicasts of the group that its sender had delivered or sent before it. No state sees it.
///
/// A small payload shares a block of memory with its neighbours, so copy a payload that is kept for long.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MessageToOne {
    /// The number of the view in which it was sent. A later one may be in force here.
    pub view: u64,
    /// Its sender.
    pub sender: MemberId,
    /// The payload.
    pub payload: Bytes,
}

impl MessageToOne {
    pub(crate) fn new(view: u64, sender: MemberId, payload: Bytes) -> Self {
        Self { view, sender, payload }
    }

    /// The payload as a value; see [`Group::send_value_to`](crate::Group::send_value_to).
    ///
    /// # Errors
    /// [`DecodeError`] if it is not of that type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        postcard::from_bytes(&self.payload).map_err(DecodeError::of_type)
    }
}
