//! Messages to one member of a group, as the front and the core see them.

use phalanx_core::{GroupId, Incarnation, MessageToOne, ToOneOutcome, ViewNumber};

use super::Lives;
use crate::front::{Front, Key, Refusal};
use crate::to_one::NextToOne;

/// The messages to one member of all groups of a process; see [`Lives::to_one`].
#[derive(Debug)]
pub struct MessagesToOne<'a, G, R>(pub(super) &'a mut Lives<G, R>);

impl<G, R> MessagesToOne<'_, G, R> {
    /// What is held back in a group for a receiver without room may be tried again. Call it once before each run of
    /// [`Self::due`] and [`Lives::due`].
    pub fn begin_turn(&mut self, key: Key) {
        if let Some(held) = self.0.held(key) {
            held.begin_turn();
        }
    }

    /// The message to one member that may be sent now. `None`: it is the turn of [`Lives::due`].
    pub fn due<F: Front<Group = G, Receipt = R>>(&mut self, key: Key, front: &mut F) -> Option<NextToOne> {
        self.0.held(key)?.due_to_one(key, front)
    }

    /// The core accepted the message to one that was due, in that view.
    pub fn sent<F: Front<Group = G, Receipt = R>>(&mut self, key: Key, view: ViewNumber, front: &mut F) {
        if let Some(held) = self.0.held(key) {
            held.sent_to_one(view, front);
        }
    }

    /// The core accepted a message to one that was not queued here.
    pub fn sent_at_once(&mut self, key: Key, to: Incarnation) {
        if let Some(held) = self.0.held(key) {
            held.sent_to_one_at_once(to);
        }
    }

    /// The receiver of the message to one that was due has no room. It waits for the next turn, and only what goes to the same
    /// receiver waits with it.
    pub fn hold_back(&mut self, key: Key) {
        if let Some(held) = self.0.held(key) {
            held.hold_back();
        }
    }

    /// The core refused the message to one that was due, for good.
    pub fn refused<F: Front<Group = G, Receipt = R>>(&mut self, key: Key, why: Refusal, front: &mut F) {
        if let Some(held) = self.0.held(key) {
            held.refuse_to_one(key, why, front);
        }
    }

    /// The next messages of this process to a member of a group have an outcome.
    pub fn settled<F: Front<Group = G, Receipt = R>>(
        &mut self,
        group: GroupId,
        to: Incarnation,
        outcome: ToOneOutcome,
        messages: u64,
        front: &mut F,
    ) {
        if let Some((key, held)) = self.0.numbered(group) {
            held.settle(key, to, outcome, messages, front);
        }
    }

    /// A message to this process alone. What is about an ask goes to its table, and not to the group's inbox.
    pub fn deliver<F: Front<Group = G, Receipt = R>>(&mut self, message: &MessageToOne<'_>, front: &mut F) {
        if message.kind.is_answer() {
            return self.0.asks().hear(message, front);
        }
        if let Some((key, held)) = self.0.numbered(message.group) {
            front.to_one(key, &mut held.own, message);
        }
    }
}
