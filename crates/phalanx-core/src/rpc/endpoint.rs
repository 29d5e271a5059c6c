//! An endpoint: all client and server sessions of one process.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::api::{
    AnswerError, CallEffects, CallError, CallId, CallOptions, ClientCallId, EndpointLimits, EndpointOptions, GivenUp,
    SessionId,
};
use super::client::ClientSession;
use super::congestion::Pace;
use super::context::{MessageBytes, SLOTS_MAX, SessionContext, Waits};
use super::counters::Counters;
use super::path::SessionPath;
use super::receive_budget::{Budget, Intake, Reach};
use super::server::ServerSession;
use super::session_packets::SessionPackets;
use super::wire::{Opened, Refusal, SessionHandshake};
use crate::api::MESSAGE_BYTES_MAX;
use crate::id::Incarnation;
use crate::rng::Rng;
use crate::seal::{Opener, Security, cell_tag};
use crate::time::Instant;
use crate::truesize::truesize;
use crate::wire::{DropReason, SessionIndex, SessionSecret};

/// An endpoint, which makes calls and answers them.
pub struct Endpoint {
    me: Incarnation,
    cell_tag: u32,
    serves: bool,
    limits: EndpointLimits,
    opener: Opener,
    net: SessionPackets,
    rng: Rng,
    sessions: Vec<Entry>,
    free: Vec<SessionIndex>,
    /// Sessions as server, by the client and nonce of the request.
    asked: BTreeMap<(Incarnation, u64), SessionIndex>,
    /// Number of sessions as client.
    clients: usize,
    /// Sessions to be polled in this iteration.
    touched: Vec<SessionIndex>,
    budget: Budget,
    intake: Intake,
    held: MessageBytes,
    waits: Waits,
    /// Buffer for packets that came header first and whose remaining payload has no place yet.
    whole: Vec<u8>,
    next_call_id: u64,
    loss: bool,
    due: Instant,
    sweep_at: Instant,
}

struct Entry {
    role: Role,
    stamp: u32,
    touched: bool,
}

enum Role {
    Free,
    Client(Box<ClientSession>),
    Server(Box<ServerSession>),
}

/// The parts of an endpoint that its sessions use.
macro_rules! context {
    ($endpoint:ident, $now:expr, $fx:expr) => {
        SessionContext {
            now: $now,
            net: &mut $endpoint.net,
            budget: &mut $endpoint.budget,
            held: &mut $endpoint.held,
            intake: &mut $endpoint.intake,
            rng: &mut $endpoint.rng,
            limits: &$endpoint.limits,
            waits: &mut $endpoint.waits,
            fx: $fx,
        }
    };
}

mod receive;

impl Endpoint {
    /// An endpoint without sessions. `seed` must be random bits: session secrets and challenges come from it.
    #[must_use]
    pub fn new(now: Instant, options: &EndpointOptions, security: &Security, seed: u64) -> Self {
        let EndpointOptions { cell, me, packet_bytes_max, receive_bytes, serves, limits, offer: _ } = options;
        let receive_bytes = if *receive_bytes == 0 { RECEIVE_BYTES_ASSUMED } else { *receive_bytes };
        // A quarter is left for packets that are not accounted for: handshakes, acks, retransmissions.
        let usable = receive_bytes / 4 * 3;
        // An endpoint that serves shares its receive buffer between the requests to it and the answers to its own
        // calls.
        let (requests, answers) = if *serves { (usable / 2, usable / 2) } else { (0, usable) };
        let answers = answers.max(truesize(u64::from(*packet_bytes_max)));
        let far = limits.receive_budget_bytes.max(truesize(u64::from(*packet_bytes_max)));
        let mut limits = limits.clone();
        limits.slots = limits.slots.clamp(1, SLOTS_MAX);
        limits.message_bytes = limits.message_bytes.min(MESSAGE_BYTES_MAX);
        Self {
            me: *me,
            cell_tag: cell_tag(cell),
            serves: *serves,
            opener: Opener::new(security, cell, *me),
            net: SessionPackets::new(security, options, Pace::new(&limits)),
            rng: Rng::new(seed).fork("calls"),
            sessions: Vec::new(),
            free: Vec::new(),
            asked: BTreeMap::new(),
            clients: 0,
            touched: Vec::new(),
            budget: Budget::new(answers, far, limits.bounds_answers),
            intake: Intake::new(requests, limits.receive_budget_bytes),
            held: MessageBytes::default(),
            waits: Waits::new(limits.timer_min),
            whole: Vec::new(),
            next_call_id: 1,
            loss: false,
            due: Instant(u64::MAX),
            sweep_at: now + SWEEP_EVERY,
            limits,
        }
    }

    /// Starts a session with the endpoint at `server`. Calls may be made at once; they go out when the session is open.
    pub fn connect(&mut self, now: Instant, server: SocketAddr, fx: &mut impl CallEffects) -> SessionId {
        // The client recognises the answer by these bits and the seal. A source address proves nothing.
        let nonce = self.rng.next_u64();
        let session_index = self.place();
        let mut session = Box::new(ClientSession::new(server, session_index, nonce, now));
        session.ask(&mut context!(self, now, fx));
        self.sessions[session_index.index()].role = Role::Client(session);
        self.clients += 1;
        SessionId { session_index, stamp: self.sessions[session_index.index()].stamp }
    }

    /// Closes a session. Calls that are not over fail, and the server is notified.
    pub fn close(&mut self, now: Instant, session: SessionId, fx: &mut impl CallEffects) {
        if self.client(session).is_none() {
            return;
        }
        let entry = &mut self.sessions[session.session_index.index()];
        if let Role::Client(mut client) = std::mem::replace(&mut entry.role, Role::Free) {
            client.close(&mut context!(self, now, fx));
            self.vacate(session.session_index);
            self.clients -= 1;
        }
    }

    /// Makes a call. Accepted means that its outcome will be reported once. It goes out at once if a slot is free.
    ///
    /// The request is kept until the server has it. A request given as a `Vec` is not copied for that.
    ///
    /// # Errors
    /// See [`CallError`]; nothing changed.
    pub fn call<'r>(
        &mut self,
        now: Instant,
        session: SessionId,
        request: impl Into<Cow<'r, [u8]>>,
        options: &CallOptions,
        fx: &mut impl CallEffects,
    ) -> Result<ClientCallId, CallError> {
        let request = request.into();
        if request.len() > self.limits.message_bytes {
            return Err(CallError::TooLong(request.len()));
        }
        let call_id = ClientCallId(self.next_call_id);
        let Some(Entry { role: Role::Client(client), stamp, .. }) =
            self.sessions.get_mut(session.session_index.index())
        else {
            return Err(CallError::NoSession);
        };
        if *stamp != session.stamp {
            return Err(CallError::NoSession);
        }
        client.call(call_id, request, options, &mut context!(self, now, fx))?;
        self.due = self.due.min(client.due);
        self.next_call_id += 1;
        self.net.counters.calls += 1;
        Ok(call_id)
    }

    /// Gives up a call, and returns false if it is over or was given up before.
    ///
    /// The outcome is reported as always: not executed, if the server confirms that the call had not begun; the answer,
    /// if it was on its way; else unknown.
    pub fn cancel(
        &mut self,
        now: Instant,
        session: SessionId,
        call_id: ClientCallId,
        fx: &mut impl CallEffects,
    ) -> bool {
        self.give_up(now, (session, call_id), GivenUp::ByCaller, fx)
    }

    /// Ends a call whose callee has left the cell, and returns false if it is over or was given up before. The session
    /// knows nothing of that: whoever finds servers by their members tells it.
    ///
    /// The outcome is reported at once, for [`Reason::Left`](super::Reason::Left): not executed, if nothing of the call
    /// was sent; else unknown. A callee that lives nevertheless learns that the call was given up.
    pub fn callee_left(
        &mut self,
        now: Instant,
        session: SessionId,
        call_id: ClientCallId,
        fx: &mut impl CallEffects,
    ) -> bool {
        self.give_up(now, (session, call_id), GivenUp::ByLeave, fx)
    }

    fn give_up(
        &mut self,
        now: Instant,
        (session, call_id): (SessionId, ClientCallId),
        by: GivenUp,
        fx: &mut impl CallEffects,
    ) -> bool {
        if self.client(session).is_none() {
            return false;
        }
        let entry = &mut self.sessions[session.session_index.index()];
        let Role::Client(client) = &mut entry.role else { return false };
        let found = client.cancel(call_id, by, &mut context!(self, now, fx));
        self.due = self.due.min(now + self.waits.timer_min);
        self.touch(session.session_index);
        found
    }

    /// The bounds in force.
    #[must_use]
    pub fn limits(&self) -> &EndpointLimits {
        &self.limits
    }

    /// Answers a call whose handler returned [`HandlerResult::Later`](super::HandlerResult::Later). `None` refuses it:
    /// there is no such service. An owned answer is not copied.
    ///
    /// # Errors
    /// See [`AnswerError`]. Nothing changed, except that the handler no longer counts as running.
    pub fn answer(
        &mut self,
        now: Instant,
        call: CallId,
        answer: Option<Cow<'_, [u8]>>,
        fx: &mut impl CallEffects,
    ) -> Result<(), AnswerError> {
        if let Some(answer) = &answer
            && answer.len() > self.limits.message_bytes
        {
            return Err(AnswerError::TooLong(answer.len()));
        }
        let wanted = match self.sessions.get_mut(call.session.index()) {
            Some(Entry { role: Role::Server(server), .. }) if server.path.session_secret == call.session_secret => {
                server.answer(call.slot, call.call, answer, &mut context!(self, now, fx))
            }
            _ => false,
        };
        if !wanted {
            self.net.counters.answers_unwanted += 1;
            return Err(AnswerError::NotWanted);
        }
        self.touch(call.session);
        Ok(())
    }

    fn handle_handshake(
        &mut self,
        now: Instant,
        from: SocketAddr,
        sender: Incarnation,
        handshake: &SessionHandshake<'_>,
        fx: &mut impl CallEffects,
    ) -> Result<(), DropReason> {
        match *handshake {
            SessionHandshake::Ask { session_index, nonce, packet_bytes, offer } => {
                self.open(now, from, sender, (session_index, nonce, packet_bytes), offer, fx);
                Ok(())
            }
            SessionHandshake::Opened { session_index, nonce, opened, offer } => {
                if opened.session_secret.0 == 0 {
                    return Err(DropReason::Malformed);
                }
                let entry = self.sessions.get_mut(session_index.index()).ok_or(DropReason::UnknownSpace)?;
                let Role::Client(client) = &mut entry.role else { return Err(DropReason::UnknownSpace) };
                // The seal and the nonce prove that this answers the request, wherever it comes from: a server on all
                // addresses of its host answers from the one that its system chooses. Later packets go where the
                // request went.
                let (key, to) = (self.opener.session_key(sender), client.server);
                let path = |net: &mut SessionPackets| SessionPath::new(net, now, to, sender, key, &opened);
                if client.handle_opened(path, nonce, &opened, offer, &mut context!(self, now, fx)) {
                    self.touch(session_index);
                }
                self.due = self.due.min(now);
                Ok(())
            }
            SessionHandshake::Refused { session_index, nonce, reason } => {
                let entry = self.sessions.get_mut(session_index.index()).ok_or(DropReason::UnknownSpace)?;
                let Role::Client(client) = &mut entry.role else { return Err(DropReason::UnknownSpace) };
                client.handle_refused(nonce, reason, &mut context!(self, now, fx));
                Ok(())
            }
        }
    }

    /// Handles a repeated session request of a client.
    ///
    /// If the client writes through memory, only such a request shows where it is. Otherwise an old request that was
    /// replayed would divert the answers. A client that has not spoken in the session may be at either address, if it
    /// asked from several.
    fn ask_again(&mut self, session_index: SessionIndex, from: SocketAddr) {
        if let Some(Entry { role: Role::Server(server), .. }) = self.sessions.get_mut(session_index.index()) {
            if server.path.heard_in_memory {
                server.path.answer_at(from, &mut self.rng);
            } else if !server.is_used() && server.path.to != from {
                server.path.doubt(&mut self.rng);
            }
        }
    }

    /// Opens a session for a client. A repeated request gets the same session.
    fn open(
        &mut self,
        now: Instant,
        from: SocketAddr,
        client: Incarnation,
        (peer_session_index, nonce, packet_bytes): (SessionIndex, u64, u32),
        offer: &[u8],
        fx: &mut impl CallEffects,
    ) {
        let known = self.asked.get(&(client, nonce)).copied();
        let session_index = match known {
            Some(session_index) => {
                self.ask_again(session_index, from);
                session_index
            }
            None => {
                // Bounded in all and for each client, because any process with the cell key may ask (`docs/rpc.md`,
                // hazard 8).
                let of_client = self.asked.range((client, 0)..=(client, u64::MAX)).count();
                let reason = if !self.serves {
                    Some(Refusal::NoService)
                } else if self.asked.len() >= self.limits.sessions || of_client >= self.limits.sessions_of_client {
                    Some(Refusal::Busy)
                } else if self.net.is_used_up() {
                    Some(Refusal::NumbersUsedUp)
                } else {
                    None
                };
                if let Some(reason) = reason {
                    self.net.counters.refused += 1;
                    self.net.send_handshake(
                        from,
                        |_| SessionHandshake::Refused { session_index: peer_session_index, nonce, reason },
                        fx,
                    );
                    return;
                }
                self.intake.begin();
                let told = self.intake.share(Reach::of(from));
                // Not 0, which readers refuse.
                let session_secret = SessionSecret(self.rng.next_u64().max(1));
                // The offer in the client's terms, as this side sees them.
                let slots = self.limits.slots;
                let theirs =
                    Opened { session_index: peer_session_index, session_secret, slots, packet_bytes, credit: told };
                let key = self.opener.session_key(client);
                let path = SessionPath::new(&mut self.net, now, from, client, key, &theirs);
                let Some(path) = path else { return self.intake.end() };
                let session_index = self.place();
                self.asked.insert((client, nonce), session_index);
                let session = ServerSession::new(path, session_index, nonce, told);
                self.sessions[session_index.index()].role = Role::Server(Box::new(session));
                self.net.counters.sessions_taken += 1;
                fx.session_opened(client, from, offer);
                self.due = self.due.min(self.sweep_at);
                session_index
            }
        };
        let Some(Entry { role: Role::Server(session), .. }) = self.sessions.get(session_index.index()) else { return };
        let opened = Opened {
            session_index,
            session_secret: session.path.session_secret,
            slots: self.limits.slots,
            packet_bytes: self.net.packet_bytes,
            credit: session.told(),
        };
        self.net.send_handshake(
            from,
            |offer| SessionHandshake::Opened { session_index: peer_session_index, nonce, opened, offer },
            fx,
        );
    }

    /// Notes that the driver lost packets of this process. Gaps count as losses then, and are reported at once.
    pub fn handle_loss(&mut self) {
        self.loss = true;
    }

    /// Notes the system's report that packets to `server` reach no socket: calls to it fail at once, unless they wait for
    /// a server.
    pub fn handle_unreachable(&mut self, now: Instant, server: SocketAddr, fx: &mut impl CallEffects) {
        for entry in &mut self.sessions {
            if let Role::Client(client) = &mut entry.role
                && client.server == server
            {
                client.handle_unreachable(&mut context!(self, now, fx));
            }
        }
        self.due = self.due.min(now);
    }

    /// Sends acks and what may be sent, and checks the timers. Call it after packets were handled, and when
    /// [`Self::deadline`] has come.
    pub fn poll(&mut self, now: Instant, fx: &mut impl CallEffects) {
        let loss = std::mem::take(&mut self.loss);
        // The driver cannot tell whose packets were lost, so every session reports what it has.
        if loss {
            for session_index in 0..self.sessions.len() {
                self.touch(SessionIndex(u32::try_from(session_index).unwrap_or(u32::MAX)));
            }
        }
        while let Some(session_index) = self.touched.pop() {
            let Some(entry) = self.sessions.get_mut(session_index.index()) else { continue };
            entry.touched = false;
            match &mut entry.role {
                Role::Client(client) => {
                    client.work(loss, &mut context!(self, now, fx));
                    self.due = self.due.min(client.due);
                }
                Role::Server(server) => {
                    server.work(loss, &mut context!(self, now, fx));
                    if server.path.is_used_up {
                        self.end_server(now, session_index, fx);
                    }
                }
                Role::Free => {}
            }
        }
        self.feed(now, fx);
        if now >= self.due {
            self.evaluate(now, fx);
        }
    }

    /// Continues answers that wait for room: those with the fewest fragments left first.
    fn feed(&mut self, now: Instant, fx: &mut impl CallEffects) {
        let fed = self.budget.feed(truesize(u64::from(self.net.packet_bytes)));
        if fed == [false; 2] {
            return;
        }
        let mut hungry: Vec<(u32, usize, u8)> = Vec::new();
        for (session_index, entry) in self.sessions.iter().enumerate() {
            if let Role::Client(client) = &entry.role
                && client.path().is_some_and(|path| fed[path.reach as usize])
            {
                hungry.extend(client.starved().map(|(left, slot)| (left, session_index, slot)));
            }
        }
        hungry.sort_unstable();
        for (_, session_index, slot) in hungry {
            if let Role::Client(client) = &mut self.sessions[session_index].role
                && client.path().is_some_and(|path| !self.budget.is_starved(path.reach))
            {
                client.feed(slot, &mut context!(self, now, fx));
                self.due = self.due.min(client.due);
            }
        }
    }

    fn evaluate(&mut self, now: Instant, fx: &mut impl CallEffects) {
        let mut due = Instant(u64::MAX);
        for session_index in 0..self.sessions.len() {
            if let Role::Client(client) = &mut self.sessions[session_index].role {
                if client.due <= now {
                    client.evaluate(&mut context!(self, now, fx));
                    if client.is_open() && client.outstanding() > 0 {
                        self.touch(SessionIndex(u32::try_from(session_index).unwrap_or(u32::MAX)));
                    }
                }
                if let Role::Client(client) = &self.sessions[session_index].role {
                    due = due.min(client.due);
                }
            }
        }
        if now >= self.sweep_at {
            self.sweep(now, fx);
        }
        if !self.asked.is_empty() {
            due = due.min(self.sweep_at);
        }
        self.due = due;
    }

    /// Gives up sessions of silent clients.
    fn sweep(&mut self, now: Instant, fx: &mut impl CallEffects) {
        self.sweep_at = now + SWEEP_EVERY;
        let is_over = |entry: &Entry| match &entry.role {
            Role::Server(server) => {
                let idle_max =
                    if server.is_used() { self.limits.idle_max } else { UNUSED_MAX.min(self.limits.idle_max) };
                now.since(server.path.heard) > idle_max && !server.is_running()
            }
            Role::Client(_) | Role::Free => false,
        };
        let over: Vec<SessionIndex> =
            (0..).map(SessionIndex).zip(&self.sessions).filter(|(_, entry)| is_over(entry)).map(|(at, _)| at).collect();
        for session_index in over {
            self.end_server(now, session_index, fx);
            self.net.counters.sessions_idle += 1;
        }
        let mut active = 0;
        for entry in &mut self.sessions {
            if let Role::Server(server) = &mut entry.role {
                server.sweep(now.since(server.path.heard) <= SWEEP_EVERY);
                active += u64::from(server.is_active());
            }
        }
        self.intake.divide(active);
    }

    fn end_server(&mut self, now: Instant, session_index: SessionIndex, fx: &mut impl CallEffects) {
        let Some(entry) = self.sessions.get_mut(session_index.index()) else { return };
        if let Role::Server(mut server) = std::mem::replace(&mut entry.role, Role::Free) {
            let was_active = server.is_active();
            server.end(&mut context!(self, now, fx));
            self.asked.remove(&(server.path.peer, server.nonce));
            if was_active {
                self.intake.end();
            }
            self.vacate(session_index);
        }
    }

    /// Reports an interval between polls: the owner polled for packets at `now`, and before that at most `gap` earlier.
    /// It shortens the timers for missing packets. Without any report, [`EndpointLimits::timer_min`] is the minimum.
    pub fn note_gap(&mut self, now: Instant, gap: Duration) {
        self.waits.note_gap(now, gap);
    }

    /// When [`Self::poll`] is due if nothing comes sooner.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if !self.touched.is_empty() || self.loss {
            return Some(Instant::ZERO);
        }
        (self.due != Instant(u64::MAX)).then_some(self.due)
    }

    /// Counters of this endpoint since its start.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.net.counters
    }

    /// The incarnation of this endpoint.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.me
    }

    /// Number of calls of a session that are not over, or `None` if there is no such session.
    #[must_use]
    pub fn outstanding(&self, session: SessionId) -> Option<usize> {
        self.client(session).map(ClientSession::outstanding)
    }

    /// Whether a session is open.
    #[must_use]
    pub fn is_open(&self, session: SessionId) -> bool {
        self.client(session).is_some_and(ClientSession::is_open)
    }

    /// Number of sessions that it answers.
    #[must_use]
    pub fn sessions_taken(&self) -> usize {
        self.asked.len()
    }

    /// Bytes of incomplete messages, and of messages kept until they have arrived.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held.requests + self.held.answers
    }

    fn client(&self, session: SessionId) -> Option<&ClientSession> {
        match self.sessions.get(session.session_index.index()) {
            Some(Entry { role: Role::Client(client), stamp, .. }) if *stamp == session.stamp => Some(client),
            _ => None,
        }
    }

    fn place(&mut self) -> SessionIndex {
        debug_assert!(
            self.free.last().is_none_or(|free| matches!(self.sessions[free.index()].role, Role::Free)),
            "a place is given to two sessions"
        );
        self.free.pop().unwrap_or_else(|| {
            self.sessions.push(Entry { role: Role::Free, stamp: 0, touched: false });
            SessionIndex(
                u32::try_from(self.sessions.len() - 1).expect("sessions are bounded, and clients' calls by memory"),
            )
        })
    }

    fn vacate(&mut self, session_index: SessionIndex) {
        debug_assert!(!self.free.contains(&session_index), "a place is vacated once");
        let entry = &mut self.sessions[session_index.index()];
        debug_assert!(matches!(entry.role, Role::Free), "a place is vacated with a session in it");
        // A stale `SessionId` must not reach the next session at this index.
        entry.stamp = entry.stamp.wrapping_add(1);
        self.free.push(session_index);
    }

    fn touch(&mut self, session_index: SessionIndex) {
        if let Some(entry) = self.sessions.get_mut(session_index.index())
            && !entry.touched
            && !matches!(entry.role, Role::Free)
        {
            entry.touched = true;
            self.touched.push(session_index);
        }
    }

    /// Leaves `serials_left` serials for further sessions, and `numbers_left` numbers in each session, for tests.
    #[cfg(test)]
    pub(super) fn use_up(&mut self, serials_left: u32, numbers_left: u32) {
        self.net.use_up(serials_left);
        for entry in &mut self.sessions {
            if let Some(path) = entry.role.path() {
                path.use_up(numbers_left);
            }
        }
    }

    /// Checks invariants, for tests and the simulator.
    ///
    /// # Panics
    /// When an invariant is violated.
    pub fn check_invariants(&self) {
        let (mut clients, mut servers, mut free, mut active) = (0, 0, 0, 0);
        let (mut reserved, mut held) = (0, MessageBytes::default());
        for entry in &self.sessions {
            match &entry.role {
                Role::Client(client) => {
                    clients += 1;
                    reserved += client.reserved();
                    client.check_invariants();
                }
                Role::Server(server) => {
                    servers += 1;
                    active += u64::from(server.is_active());
                    held.requests += server.held().requests;
                    held.answers += server.held().answers;
                    server.check_invariants();
                }
                Role::Free => free += 1,
            }
        }
        assert_eq!(clients, self.clients, "sessions as client are miscounted");
        assert_eq!(servers, self.asked.len(), "a session as server was asked for by one client");
        assert_eq!(free, self.free.len(), "free places are miscounted");
        assert!(
            self.free.iter().all(|at| matches!(self.sessions[at.index()].role, Role::Free)),
            "a place is free that has a session"
        );
        for (&(client, nonce), &at) in &self.asked {
            let Role::Server(server) = &self.sessions[at.index()].role else {
                panic!("a client asked for a session that does not exist")
            };
            assert_eq!((server.path.peer, server.nonce), (client, nonce), "a session belongs to another client");
        }
        assert_eq!(held.requests, self.held.requests, "bytes of incomplete requests are miscounted");
        assert_eq!(held.answers, self.held.answers, "bytes of answers that are kept are miscounted");
        assert_eq!(active, self.intake.active(), "active sessions are miscounted");
        self.budget.check_invariants(reserved);
    }
}

/// A packet this far behind the greatest number seen is dropped: it is later than any network reorders. A newer packet
/// may be processed twice, because all it says is absolute. So no replay window is needed.
const OLD_PACKETS: u64 = 65_536;

/// `net.core.rmem_default` of an unconfigured Linux.
const RECEIVE_BYTES_ASSUMED: u64 = 212_992;
/// Interval between checks for silent clients. A client that was heard within it is active.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// A session whose client never spoke in it goes after this time: an old request may have been replayed.
const UNUSED_MAX: Duration = Duration::from_secs(5);
