//! A client's slot: the call that it carries, from its first fragment until the server needs no news of it.

use crate::rpc::api::{CallEffects, ClientCallId, Failure, Reason};
use crate::rpc::context::SessionContext;
use crate::rpc::fragmentation::OutgoingMessage;
use crate::rpc::path::SessionPath;
use crate::rpc::reassembly::Reassembly;
use crate::time::Instant;
use crate::transitions::transitions;
use crate::wire::PacketNumber;

/// The part of a call that is kept until it is over, wherever it waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Terms {
    pub(super) call_id: ClientCallId,
    pub(super) deadline: Instant,
    pub(super) idempotent: bool,
    pub(super) waits_for_server: bool,
    /// Whether it may have run in a lost session, from which it was taken over into this one.
    pub(super) may_have_run: bool,
}

impl Terms {
    /// How the call fails. `begun`: this session has sent something of it.
    pub(super) fn failure(&self, begun: bool, reason: Reason) -> Failure {
        if begun || self.may_have_run { Failure::Unknown(reason) } else { Failure::NotExecuted(reason) }
    }
}

#[derive(Default)]
pub(super) struct ClientSlot {
    pub(super) call: u64,
    pub(super) state: CallState,
    pub(super) terms: Terms,
    pub(super) request: OutgoingMessage,
    pub(super) answer: Reassembly,
    /// Bytes reserved for its answer.
    pub(super) reserved: u64,
    /// Since when nothing was heard of it or sent for it.
    pub(super) quiet_since: Instant,
    /// When something of its request was last sent.
    pub(super) sent_at: Instant,
    pub(super) probes: u32,
    /// The packet that probed for it last.
    pub(super) asked_as: PacketNumber,
    /// Whether an ack for its answer is due in this iteration.
    pub(super) ack_due: bool,
    /// Whether the server may send nothing more of its answer for now, because no room was left.
    pub(super) starved: bool,
    /// News of the slot's last call that the server may lack.
    pub(super) unreported: Unreported,
}

/// News of a call that is over, which the server may lack and keeps something for. The next call in the slot settles
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Unreported {
    #[default]
    Nothing,
    /// The answer has arrived, with this many fragments.
    Came(u32),
    /// It was given up.
    GivenUp,
}

transitions! {
    /// The state of a client's slot.
    #[derive(Default)]
    pub(super) states CallState {
        /// It carries no call.
        #[default]
        Free,
        /// Its call waits for the answer.
        Active,
        /// The application gave its call up, and the server is asked whether it ran.
        Cancelling,
    }
    begin Free; end [];
    pub(super) events SlotEvent {
        /// A call begins.
        Begin (Free => Active),
        /// The application gives up a call of which something was sent.
        Cancel (Active => Cancelling),
        /// The answer, or a refusal, has arrived.
        Answer (Active | Cancelling => Free),
        /// The call is over without an answer.
        Fail (Active | Cancelling => Free),
        /// The session is lost, and the call goes on in the next one.
        Requeue (Active => Free),
    }
}

impl ClientSlot {
    #[inline]
    pub(super) fn enter(&mut self, event: SlotEvent, state: CallState) {
        event.check(self.state, state);
        self.state = state;
    }

    /// Whether the server may know of the call, so that it can be probed.
    pub(super) fn may_be_probed(&self) -> bool {
        match self.state {
            CallState::Free => false,
            // A server that may send nothing of its answer is silent for that reason.
            CallState::Active => self.request.was_sent() && !self.starved,
            CallState::Cancelling => self.request.was_sent(),
        }
    }

    /// Notes that something of its answer arrived. `probed_at`: when the session was last probed.
    #[inline]
    pub(super) fn heard(&mut self, probed_at: Instant, context: &mut SessionContext<'_, impl CallEffects>) {
        // A silence measures queues only if no probe fell into it: after one, the answer to the probe may have ended
        // it.
        if self.probes == 0 && self.quiet_since > probed_at {
            context.waits.note_silence(context.now, context.now.since(self.quiet_since));
        }
        self.quiet_since = context.now;
        self.probes = 0;
    }

    /// Whether something of the request may be sent.
    pub(super) fn has_more(&self) -> bool {
        self.state == CallState::Active && self.request.next().is_some()
    }

    /// How the call fails for `reason`.
    pub(super) fn failure(&self, reason: Reason) -> Failure {
        self.terms.failure(self.request.was_sent(), reason)
    }

    pub(super) fn check_invariants(&self) {
        self.request.check_invariants();
        self.answer.check_invariants();
        match self.state {
            CallState::Free => {
                assert_eq!(self.request.len(), 0, "a free slot keeps a request");
                assert!(!self.answer.is_begun(), "a free slot keeps an answer");
                assert_eq!(self.reserved, 0, "a free slot has room reserved");
                assert!(!self.ack_due, "a free slot owes an ack");
            }
            CallState::Active => {
                assert!(self.call > 0, "calls are numbered from 1");
                assert!(!self.answer.is_complete(), "a call goes on whose answer is here");
            }
            CallState::Cancelling => {
                assert!(self.request.has_arrived(), "a call that was given up still sends its request");
                assert!(!self.has_more(), "a call that was given up sends more");
            }
        }
    }
}

/// A call that waits for a slot or for the session.
pub(super) struct Queued {
    pub(super) terms: Terms,
    pub(super) request: Vec<u8>,
}

/// Charge of a fragment of a request. The last counts as much as the others, so that an ack need not tell them
/// apart.
pub(super) fn per_fragment(path: &SessionPath, message: &OutgoingMessage) -> u64 {
    if message.is_whole() { path.truesize_of(message.len()) } else { path.truesize_each(message.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transitions::kept::hold;

    #[test]
    fn the_table_of_a_clients_slot_is_the_one_that_is_kept() {
        hold::<SlotEvent>("client-slot");
    }
}
