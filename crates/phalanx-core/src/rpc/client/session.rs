//! The session of a client as a whole: it is asked for, opened, refused, lost and closed.

use std::collections::VecDeque;

use super::connection::{Connection, SessionEvent};
use super::slot::{CallState, Queued, SlotEvent};
use super::{ClientSession, SILENT_PROBES};
use crate::rpc::api::{CallEffects, Failure, Reason};
use crate::rpc::context::SessionContext;
use crate::rpc::path::SessionPath;
use crate::rpc::session_packets::SessionPackets;
use crate::rpc::wire::{Opened, Refusal, SessionHandshake, put_close};
use crate::wire::PacketNumber;

impl ClientSession {
    /// Handles the answer to a session request. An open session whose secret differs now is lost.
    pub(in crate::rpc) fn handle_opened(
        &mut self,
        path: impl FnOnce(&mut SessionPackets) -> Option<SessionPath>,
        nonce: u64,
        opened: &Opened,
        offer: &[u8],
        context: &mut SessionContext<'_, impl CallEffects>,
    ) -> bool {
        if nonce != self.nonce {
            return false;
        }
        if let Some(open) = self.connection.path_mut() {
            if open.session_secret == opened.session_secret {
                open.heard = context.now;
                self.unanswered = 0;
                return false;
            }
            // The server does not know this session any more. An answer to the nonce may be old, so another session is
            // requested.
            self.lose(context);
            return true;
        }
        let Some(mut path) = path(context.net) else {
            self.end_used_up(context);
            return false;
        };
        if self.unanswered == 0 {
            path.rtt.sample(context.now.since(self.asked));
        }
        context.fx.session_opened(path.peer, path.to, offer);
        debug_assert!(self.slots.is_empty(), "no call is under way in a session that only begins");
        self.connection.enter(SessionEvent::Open, Connection::Open(path));
        self.offered = usize::from(opened.slots.min(context.limits.slots).max(1));
        (self.credit, self.credited_by) = (opened.credit, PacketNumber(0));
        self.unanswered = 0;
        context.net.counters.sessions_opened += 1;
        true
    }

    /// Handles the server's refusal of a session.
    pub(in crate::rpc) fn handle_refused(
        &mut self,
        nonce: u64,
        reason: Refusal,
        context: &mut SessionContext<'_, impl CallEffects>,
    ) {
        if nonce != self.nonce {
            return;
        }
        if !self.is_open() {
            Self::fail_queued(self.queue.drain(..), Reason::Refused(reason), context);
        } else if self.unanswered >= SILENT_PROBES {
            // The server was probed for the session and refuses it, so it does not know it. An old refusal arrives when
            // nothing was probed.
            self.lose(context);
        }
    }

    /// Handles the system's report that a packet for the server reached no socket.
    ///
    /// The report may be late or forged, so an open session is not lost by the first: the server is asked for it, and a
    /// server that lives answers. One that does not causes the second report.
    pub(in crate::rpc) fn handle_unreachable(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        if !self.is_open() {
            let waits = |queued: &Queued| queued.terms.waits_for_server;
            let (stay, gone): (VecDeque<Queued>, _) = std::mem::take(&mut self.queue).into_iter().partition(waits);
            self.queue = stay;
            Self::fail_queued(gone, Reason::Unreachable, context);
        } else if self.unanswered < SILENT_PROBES {
            self.unanswered = SILENT_PROBES;
            self.probed_at = context.now;
            self.ask(context);
        } else {
            self.lose(context);
        }
    }

    /// Ends the session that the server lost. What was under way is in doubt. What was never sent goes on in the next
    /// session.
    pub(super) fn lose(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        context.net.counters.sessions_lost += 1;
        let mut again: Vec<Queued> = Vec::new();
        for slot in 0..self.slots.len() {
            let call = &mut self.slots[slot];
            let (mut terms, begun) = (call.terms, call.request.was_sent());
            match call.state {
                CallState::Free => {}
                // Only a call of which nothing was sent, or that may run twice, can go on in another session.
                CallState::Active if terms.idempotent || !begun => {
                    terms.may_have_run |= begun;
                    again.push(Queued { terms, request: call.request.bytes().to_vec() });
                    self.end(slot, SlotEvent::Requeue, context);
                }
                CallState::Active | CallState::Cancelling => {
                    self.fail(slot, Failure::Unknown(Reason::SessionLost), context);
                }
            }
        }
        // Pushed to the front newest first, so that the calls keep their order.
        again.sort_by_key(|queued| std::cmp::Reverse(queued.terms.call_id));
        for queued in again {
            self.queue.push_front(queued);
        }
        self.part(context);
        // Under the old nonce, a late answer for the lost session would open the next one.
        self.nonce = context.rng.next_u64();
        self.unanswered = 0;
        self.ask(context);
    }

    /// Ends the session and all its calls, because this endpoint has no packet number left for it. No other session is
    /// requested.
    pub(in crate::rpc) fn end_used_up(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        self.fail_all(Reason::NumbersUsedUp, context);
        context.net.counters.sessions_lost += u64::from(self.is_open());
        self.part(context);
    }

    /// Fails all calls for `reason`.
    pub(super) fn fail_all(&mut self, reason: Reason, context: &mut SessionContext<'_, impl CallEffects>) {
        Self::fail_queued(std::mem::take(&mut self.queue), reason, context);
        for slot in 0..self.slots.len() {
            if self.slots[slot].state != CallState::Free {
                let failure = self.slots[slot].failure(reason);
                self.fail(slot, failure, context);
            }
        }
    }

    /// Returns to the state without a session, with nothing under way.
    pub(super) fn part(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        if let Some(path) = self.connection.path() {
            context.fx.session_closed(path.peer);
            self.connection.enter(SessionEvent::Lose, Connection::Asking);
        }
        debug_assert_eq!(self.free.len(), self.slots.len(), "a session ends after its calls");
        debug_assert!(self.slots.iter().all(|call| call.reserved == 0), "a session ends with room reserved");
        self.slots.clear();
        self.free.clear();
        self.unsent = 0;
    }

    /// Whether [`Self::end_used_up`] is due.
    pub(in crate::rpc) fn is_used_up(&self) -> bool {
        self.connection.path().is_some_and(|path| path.is_used_up)
    }

    /// Requests a session, or asks whether it still exists.
    pub(in crate::rpc) fn ask(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        self.asked = context.now;
        let (session_index, nonce, packet_bytes) = (self.session_index, self.nonce, context.net.packet_bytes);
        context.net.send_handshake(
            self.server,
            |offer| SessionHandshake::Ask { session_index, nonce, packet_bytes, offer },
            context.fx,
        );
    }

    /// Closes the session: gives up the calls that are not over, and notifies the server.
    pub(in crate::rpc) fn close(&mut self, context: &mut SessionContext<'_, impl CallEffects>) {
        self.fail_all(Reason::Cancelled, context);
        if let Some(path) = self.connection.path_mut() {
            put_close(&mut path.pending);
            path.flush(context);
            context.fx.session_closed(path.peer);
        }
        self.connection.enter(SessionEvent::Close, Connection::Closed);
    }
}
