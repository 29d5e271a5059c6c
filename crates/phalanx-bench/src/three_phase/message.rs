//! What members call each other for, and what they answer.

use std::fmt;

use bytes::Bytes;
use phalanx::MemberId;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a message or an answer holds.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Payload(pub(crate) Bytes);

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0.len())
    }
}

/// In one piece: a list would be encoded number by number.
impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOnePiece;

        impl Visitor<'_> for InOnePiece {
            type Value = Payload;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Payload, E> {
                Ok(Payload(Bytes::copy_from_slice(bytes)))
            }
        }

        deserializer.deserialize_bytes(InOnePiece)
    }
}

/// A message's name: its sender, and which of its messages it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Id {
    pub(crate) sender: MemberId,
    pub(crate) number: u64,
}

/// A message, and whom it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Message {
    pub(crate) id: Id,
    /// The members when it was sent, its sender included. Who takes over has to know them.
    pub(crate) to: Vec<MemberId>,
    pub(crate) payload: Payload,
}

/// A call to one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// Who calls: the sender, or who took over.
    pub(crate) from: MemberId,
    pub(crate) step: Step,
}

/// What a member is called for. Done twice, each does what it does once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// First phase: keep this.
    Offer(Message),
    /// Second phase: deliver this.
    Deliver(Id),
    /// Third phase: all have delivered this.
    Forget(Id),
    /// Take-over: say what you have of these members, which left, and refuse them from now on.
    Report { gone: Vec<MemberId> },
    /// Take-over: nothing of these members is left to be done.
    Settle { gone: Vec<MemberId> },
}

/// A member's answer to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Done,
    /// The application's answer, if it was delivered just now.
    Delivered(Option<Payload>),
    Reported(Vec<Held>),
    /// Nothing was done: the caller is taken for gone, or its message before this one is still under way.
    Refused,
}

/// A message that a member has and was not told to forget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) id: Id,
    pub(crate) to: Vec<MemberId>,
    /// `None`: it was delivered, so that all have it.
    pub(crate) pending: Option<Payload>,
}
