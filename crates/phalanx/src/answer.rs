//! The answers of an ask, and how it ended.

use bytes::Bytes;
use phalanx_life as life;
use serde::de::DeserializeOwned;

use crate::error::DecodeError;
use crate::id::MemberId;

/// How an ask ended that was sent; `None`: this life was over, and nothing is known of it.
pub(crate) type Ended = Option<AskEnd>;

/// What came for a member's place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// A value.
    Value(Bytes),
    /// It has no answer.
    Null,
    /// It ends the ask, for this reason.
    Abort(Bytes),
    /// It left the group without an answer: this process was told of the view without it.
    Left,
}

/// One answer of an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The number of the view in which the ask was sent.
    pub view: u64,
    /// The rank, in that view, of the member whose place it fills.
    pub rank: usize,
    /// That member.
    pub member: MemberId,
    /// The member that answered, or left: another one if the ask was forwarded.
    pub by: MemberId,
    /// What came.
    pub reply: Reply,
}

impl Answer {
    pub(crate) fn of(answer: &life::Answer<'_>) -> Self {
        Self {
            view: answer.ask.0.0,
            rank: answer.place.index(),
            member: MemberId::of(answer.of),
            by: MemberId::of(answer.by),
            reply: match answer.filled {
                life::Filled::Value(value) => Reply::Value(Bytes::copy_from_slice(value)),
                life::Filled::Null => Reply::Null,
                life::Filled::Abort(reason) => Reply::Abort(Bytes::copy_from_slice(reason)),
                life::Filled::Left => Reply::Left,
            },
        }
    }

    /// The value, if it is one.
    #[must_use]
    pub fn value(&self) -> Option<&Bytes> {
        match &self.reply {
            Reply::Value(value) => Some(value),
            Reply::Null | Reply::Abort(_) | Reply::Left => None,
        }
    }

    /// The value, decoded; `None`: the answer is none. See [`Asked::answer_value`](crate::Asked::answer_value).
    ///
    /// # Errors
    /// [`DecodeError`] if it is not of that type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<Option<T>, DecodeError> {
        self.value().map(|value| postcard::from_bytes(value).map_err(DecodeError::of_type)).transpose()
    }
}

/// How an ask ended. The numbers are the same in every version and language.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AskEnd {
    /// As many answered as it wanted.
    Met,
    /// All have answered or left, or too few are left for what it wanted.
    Complete,
    /// A member aborted it.
    Aborted {
        /// The member.
        by: MemberId,
        /// Why.
        reason: Bytes,
    },
    /// Its deadline passed. Members may handle it yet; they are told.
    Deadline,
    /// The asker gave it up. Members may handle it yet; they are told.
    Cancelled,
    /// This process's own inbox of the group was full for a second: answers come behind its items. Members may handle the ask yet; they
    /// are told. Read the inbox while you wait for answers, in another thread or task.
    InboxFull,
}

impl AskEnd {
    /// Its number, the same in every version and language.
    #[must_use]
    pub const fn number(&self) -> u16 {
        match self {
            Self::Met => 1,
            Self::Complete => 2,
            Self::Aborted { .. } => 3,
            Self::Deadline => 4,
            Self::Cancelled => 5,
            Self::InboxFull => 6,
        }
    }

    /// Of the machine's; `None`: nothing is known of it. `reason`: what came with an abort.
    pub(crate) fn of(end: life::AskEnd, reason: impl FnOnce() -> Bytes) -> Ended {
        Some(match end {
            life::AskEnd::Met => Self::Met,
            life::AskEnd::Complete => Self::Complete,
            life::AskEnd::Aborted(by) => Self::Aborted { by: MemberId::of(by), reason: reason() },
            life::AskEnd::Deadline => Self::Deadline,
            life::AskEnd::Cancelled => Self::Cancelled,
            life::AskEnd::Full => Self::InboxFull,
            life::AskEnd::Over => return None,
        })
    }
}
