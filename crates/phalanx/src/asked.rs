//! Asks of others, as a program answers them.

use std::sync::Arc;

use bytes::Bytes;
use phalanx_core::Rank;
use phalanx_life::Reply;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{AnswerError, DecodeError};
use crate::id::MemberId;
use crate::message::Message;
use crate::shared::asks::Answerer;

/// A member asks its group, and this process is to answer ([`Group::ask`](crate::Group::ask)).
///
/// It is a message like any other, at its place among the group's items; a state has applied it. Answer at once, or later from any
/// thread or task. Of its clones one answers. When the last one is dropped unanswered, the asker is told that there is no
/// answer (*null*), in a panic too.
///
/// ```no_run
/// # fn serve(mut inbox: phalanx::Inbox) -> Result<(), Box<dyn std::error::Error>> {
/// while let Some(next) = inbox.blocking_next() {
///     if let phalanx::Next::Asked(asked) = next {
///         let load = 17_u32;
///         match asked.decode::<String>()?.as_str() {
///             "load" => asked.answer_value(&load)?,
///             _ => asked.null()?,
///         }
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Asked {
    /// The message. Of one that was forwarded: the view in which it was sent, the asker, and its number there; it has no position,
    /// and its order and guarantee are not known here (they read as fifo, and not uniform).
    pub message: Message,
    /// The member whose place the answer fills: another one than this process if that one forwarded the ask.
    pub place: MemberId,
    /// Whether another member forwarded it to this process.
    pub is_forwarded: bool,
    answerer: Arc<Answerer>,
}

impl Asked {
    pub(crate) fn new(message: Message, place: MemberId, is_forwarded: bool, answerer: Arc<Answerer>) -> Self {
        Self { message, place, is_forwarded, answerer }
    }

    /// What is asked, as a value; see [`Group::ask_value`](crate::Group::ask_value).
    ///
    /// # Errors
    /// [`DecodeError`] if it is not of that type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        self.message.decode()
    }

    /// The members that are to answer, this one among them unless the ask was forwarded to it. Empty if the view of the ask is over.
    #[must_use]
    pub fn expected(&self) -> Vec<MemberId> {
        self.answerer.expected.iter().map(|(_, member)| *member).collect()
    }

    /// Whether the asker waits for the answer no more: it gave the ask up, or its deadline passed.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.answerer.is_given_up()
    }

    /// Answers with a value. It comes after all that this process has delivered in the group, and waits while no quorum is heard.
    ///
    /// # Errors
    /// See [`AnswerError`]; nothing is sent.
    pub fn answer(&self, value: impl AsRef<[u8]>) -> Result<(), AnswerError> {
        self.answer_bytes(Bytes::copy_from_slice(value.as_ref()))
    }

    /// Like [`Asked::answer`], without a copy of the value.
    ///
    /// # Errors
    /// See [`AnswerError`]; nothing is sent.
    pub fn answer_bytes(&self, value: Bytes) -> Result<(), AnswerError> {
        if value.len() > ANSWER_BYTES {
            return Err(AnswerError::TooLong(value.len()));
        }
        self.answerer.answer(Reply::Value, value)
    }

    /// Answers with a value that the asker [decodes](crate::Answer::decode).
    ///
    /// # Errors
    /// See [`AnswerError`]; nothing is sent.
    pub fn answer_value<T: Serialize>(&self, value: &T) -> Result<(), AnswerError> {
        let bytes = postcard::to_allocvec(value).map_err(|_unencodable| AnswerError::Unencodable)?;
        self.answer_bytes(bytes.into())
    }

    /// Says that this process has no answer.
    ///
    /// # Errors
    /// See [`AnswerError`]; nothing is sent.
    pub fn null(&self) -> Result<(), AnswerError> {
        self.answerer.answer(Reply::Null, Bytes::new())
    }

    /// Ends the ask, with a reason for its asker.
    ///
    /// # Errors
    /// See [`AnswerError`]; nothing is sent.
    pub fn abort(&self, reason: impl AsRef<[u8]>) -> Result<(), AnswerError> {
        let reason = reason.as_ref();
        if reason.len() > ANSWER_BYTES {
            return Err(AnswerError::TooLong(reason.len()));
        }
        self.answerer.answer(Reply::Abort, Bytes::copy_from_slice(reason))
    }

    /// Has another [expected](Asked::expected) member answer in this process's place. The asker asks it, so this process may leave.
    ///
    /// # Errors
    /// [`AnswerError::NotExpected`]; else see [`AnswerError`]. Nothing is sent, and it may be answered still.
    pub fn forward(&self, to: MemberId) -> Result<(), AnswerError> {
        let found = self.answerer.expected.iter().find(|(_, member)| *member == to);
        let (rank, _) = found.ok_or(AnswerError::NotExpected)?;
        self.answerer.answer(Reply::Forward(Rank(*rank)), Bytes::new())
    }
}

/// The longest answer, in bytes.
pub(crate) const ANSWER_BYTES: usize = phalanx_core::MESSAGE_BYTES_MAX - 128 * 1024;
