//! States that answer the asks of their group.

use serde::Serialize;

use crate::message::Message;
use crate::replica::State;

/// A state that answers asks ([`Group::ask`](crate::Group::ask)) by itself, at their place among the messages: no inbox is between, and what it
/// answers holds every message before the ask and none after it. [`GroupBuilder::answers`](crate::GroupBuilder::answers) turns it on.
///
/// ```
/// use phalanx::{Answering, DecodeError, Message, Snapshot, State};
///
/// struct Load(u64);
///
/// impl State for Load {
///     fn apply(&mut self, _message: &Message) {
///         self.0 += 1;
///     }
///     fn snapshot(&self) -> Snapshot {
///         Snapshot::encode(&self.0)
///     }
///     fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
///         snapshot.decode().map(Self)
///     }
/// }
///
/// impl Answering for Load {
///     type Answer = u64;
///     fn answer(&self, asked: &Message) -> Option<u64> {
///         (asked.payload == "load").then_some(self.0)
///     }
/// }
/// ```
pub trait Answering: State {
    /// What it answers; see [`Answers::decode`](crate::Answers::decode).
    type Answer: Serialize;

    /// The answer to an ask that the state has applied ([`State::apply`]) as the last message. `None`: it has none (*null*). Called on the
    /// protocol thread, at the members that are to answer alone, so it changes nothing. Members may answer differently.
    fn answer(&self, asked: &Message) -> Option<Self::Answer>;
}

pub(crate) fn answer<S: Answering>(state: &S, asked: &Message) -> Option<Vec<u8>> {
    // What cannot be encoded is no answer.
    state.answer(asked).and_then(|answer| postcard::to_allocvec(&answer).ok())
}
