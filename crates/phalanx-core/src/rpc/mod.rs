//! Calls from process to process: sessions with slots, each call run at most once, failures that say what is known.
//!
//! An [`Endpoint`] makes calls and answers them. It does no I/O, reads no clock and starts no timer: whoever owns it hands in
//! packets and the time, and its effects go to a statically bound [`CallEffects`]. `docs/rpc.md` is the specification.
//!
//! Sources: `FastTransport` of `RAMCloud` (sessions, slots, hints, implicit receipts; its sources, last in 2016), Birrell and
//! Nelson, "Implementing Remote Procedure Calls" (TOCS 1984: at most once, the next call is the receipt), QUIC (RFC 9002:
//! packet numbers that never come twice), Homa (SIGCOMM 2018: the receiver lets long messages go on, the shortest first).
//! What differs from them: `docs/departures.md`.

mod client;
mod incoming;
mod outgoing;
mod path;
mod plain;
mod server;
mod spare;
mod wire;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::api::{MESSAGE_BYTES_MAX, Packet};
use crate::id::{Incarnation, Lane, Origin};
use crate::rng::Rng;
use crate::seal::{Opener, Security, cell_tag, read_clear_for};
use crate::time::Instant;
use crate::wire::{DropReason, Header, Kind, Reader};
use client::{Budget, ClientSession, Desk};
use path::{Net, Pace, Path};
pub use plain::{Plain, PlainOptions};
use server::{Counter, Held, ServerSession};
pub use wire::Refusal;
use wire::{Frame, Greeting, Opened, Side, read_frame};

/// What an endpoint must know before it begins.
#[derive(Clone, Debug)]
pub struct EndpointOptions {
    /// The cell's name: only endpoints of one cell understand each other.
    pub cell: String,
    /// This life of the endpoint: fresh random bits, never used before.
    pub me: Incarnation,
    /// The longest packet it can receive, in bytes.
    pub packet_bytes_max: u32,
    /// What the buffer may be charged in which the system keeps packets for it until it takes them, in bytes. 0: not known; then
    /// that of an unconfigured Linux is assumed.
    pub receive_bytes: u64,
    /// Whether it answers calls. If not, whoever asks for a session is refused.
    pub serves: bool,
    /// Bounds.
    pub limits: Limits,
}

/// Bounds of an endpoint, and its pace.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Calls under way at once in a session, from 1 to 64. Default 8.
    pub slots: u8,
    /// Sessions that it answers, from all clients. Default 4,096.
    pub sessions: usize,
    /// Of these, sessions of one client. Default 64.
    pub sessions_of_client: usize,
    /// Calls that wait in a session for a slot. Default 1,024.
    pub queued_calls: usize,
    /// The longest request and answer, in bytes. Default and most: [`MESSAGE_BYTES_MAX`].
    pub message_bytes: usize,
    /// Requests that are not complete, all together, in bytes. Default 256 MiB.
    pub requests_bytes: usize,
    /// Answers that are kept until their clients have them, all together, in bytes: with more, no call is begun. Default 256 MiB.
    pub answers_bytes: usize,
    /// Nothing is heard of a call for at least so long before it is asked for. Shorter repairs losses sooner, and asks in vain where
    /// processes are not always turned. Default 5 ms.
    pub timer_min: Duration,
    /// A session whose client is silent for so long is given up, unless a call runs in it. Default 60 s.
    pub idle_max: Duration,
    /// Packets with which the congestion window of a session begins. Default 16.
    pub window_packets: u32,
    /// Delay beyond twice the shortest round trip that is no sign of congestion: receivers are turned, not interrupted. Default 2 ms.
    pub delay_free: Duration,
    /// Whether what all servers may send unasked is kept within the receive buffer. Only measurements of what happens
    /// otherwise turn this off. Default true.
    pub bounds_answers: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            slots: 8,
            sessions: 4096,
            sessions_of_client: 64,
            queued_calls: 1024,
            message_bytes: MESSAGE_BYTES_MAX,
            requests_bytes: 256 << 20,
            answers_bytes: 256 << 20,
            timer_min: Duration::from_millis(5),
            idle_max: Duration::from_secs(60),
            window_packets: 16,
            delay_free: Duration::from_millis(2),
            bounds_answers: true,
        }
    }
}

/// A session of this endpoint as client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    hint: u32,
    stamp: u32,
}

/// Names a call to its caller. No two calls of an endpoint have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Names a call to its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    session: u32,
    token: u64,
    slot: u8,
    call: u64,
}

/// How a call is made.
#[derive(Clone, Copy, Debug)]
pub struct CallOptions {
    /// From now; then the call fails, and says whether it may have run. Default 10 s.
    pub deadline: Duration,
    /// It does no harm if it runs more than once: made again where its outcome would be unknown because the session was lost.
    /// Default false.
    pub idempotent: bool,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self { deadline: Duration::from_secs(10), idempotent: false }
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// It ran once, and this is the answer. Borrowed for the length of the call.
    Answer(&'a [u8]),
    /// There is no answer.
    Failed(Failure),
}

/// Why there is no answer, and what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It did not run and never will.
    #[error("not executed: {0}")]
    NotExecuted(Reason),
    /// It may have run, once, or may still.
    #[error("unknown whether it was executed: {0}")]
    Unknown(Reason),
}

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Its deadline passed.
    #[error("the deadline has passed")]
    Deadline,
    /// It was cancelled, or its session closed.
    #[error("cancelled")]
    Cancelled,
    /// The server refused it.
    #[error("refused by the server: {0:?}")]
    Refused(Refusal),
    /// The server forgot the session, or was started anew.
    #[error("the server has lost the session")]
    SessionLost,
    /// The request is longer than this side sends.
    #[error("the request is too long")]
    RequestTooLong,
    /// The answer is longer than this side takes.
    #[error("the answer is longer than is taken")]
    AnswerTooLong,
}

/// Why a call was not made. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The session was closed.
    #[error("no such session")]
    NoSession,
    /// Longer than [`Limits::message_bytes`].
    #[error("request of {0} bytes is too long")]
    TooLong(usize),
    /// [`Limits::queued_calls`] wait already: call again when one has ended.
    #[error("too many calls wait in this session")]
    QueueFull,
}

/// Why an answer was not taken. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// Its caller gave it up, or the session is over, or it was answered before.
    #[error("nobody waits for this answer")]
    NotWanted,
    /// Longer than [`Limits::message_bytes`].
    #[error("answer of {0} bytes is too long")]
    TooLong(usize),
}

/// What a handler did with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// The answer is complete.
    Answered,
    /// The answer comes later, see [`Endpoint::answer`].
    Later,
    /// There is no such service: it did nothing.
    Refused,
    /// There is too much to do: it did nothing, and may be asked later.
    Busy,
}

/// Where an endpoint's effects go. Bound at compile time; it cannot re-enter the endpoint.
pub trait CallEffects {
    /// As [`crate::Effects::share`].
    fn share(&mut self, _lane: Lane, _to: &[SocketAddr], _head: &[u8], _frames: &[u8]) -> usize {
        0
    }

    /// As [`crate::Effects::transmit`].
    fn transmit(&mut self, lane: Lane, to: &[SocketAddr], packet: &[u8]);

    /// Runs a call. The answer, if there is one at once, is appended to `answer`, which is empty.
    fn request(&mut self, call: CallId, from: Incarnation, request: &[u8], answer: &mut Vec<u8>) -> Served;

    /// A call ended. Told once for each.
    fn outcome(&mut self, ticket: Ticket, outcome: Outcome<'_>);
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What an endpoint did. Numbers only grow.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
            /// Packets dropped, by reason, in the order of [`DropReason::ALL`].
            pub drops: [u64; DropReason::ALL.len()],
        }

        impl Counters {
            /// Each counter with its name, in a fixed order; of drops, those that are not 0.
            pub fn each(&self, mut each: impl FnMut(&'static str, u64)) {
                $(each(stringify!($name), self.$name);)*
                for (reason, count) in DropReason::ALL.iter().zip(self.drops) {
                    if count > 0 {
                        each(reason.name(), count);
                    }
                }
            }
        }
    };
}

counters! {
    /// Packets handed to the driver, those through memory included.
    packets_sent,
    /// Of these, through memory.
    packets_shared,
    /// Packets that came.
    packets_received,
    /// Calls made.
    calls,
    /// Handlers begun.
    served,
    /// Calls and sessions refused as server.
    refused,
    /// Calls given up by their clients while their handlers ran.
    detached,
    /// Answers that nobody waited for.
    answers_unwanted,
    /// Answers that the client's allowance did not cover, and which it pulled.
    answers_not_allowed,
    /// Fragments known to be lost, and sent again.
    lost,
    /// Questions to servers, where something was silent for too long.
    questions,
    /// Frames of calls that are over.
    stale,
    /// Requests and fragments that came again.
    duplicates,
    /// Frames that made no sense.
    malformed,
    /// Sessions opened, as client.
    sessions_opened,
    /// Sessions lost, as client.
    sessions_lost,
    /// Sessions taken in, as server.
    sessions_taken,
    /// Sessions given up because their clients were silent.
    sessions_idle,
}

/// Makes calls, and answers them.
pub struct Endpoint {
    me: Incarnation,
    cell_tag: u32,
    serves: bool,
    limits: Limits,
    opener: Opener,
    net: Net,
    rng: Rng,
    sessions: Vec<Entry>,
    free: Vec<u32>,
    /// Sessions as server, by who asked for them.
    asked: BTreeMap<(Incarnation, u64), u32>,
    /// Sessions as client.
    clients: usize,
    /// To be looked at in this turn.
    touched: Vec<u32>,
    budget: Budget,
    /// What the requests of all clients may be charged together.
    requests_budget: u64,
    held: Held,
    next_ticket: u64,
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

/// The parts of an endpoint that its sessions use, as a client's or a server's desk.
macro_rules! desk {
    ($endpoint:ident, $now:expr, $fx:expr) => {
        Desk {
            now: $now,
            net: &mut $endpoint.net,
            budget: &mut $endpoint.budget,
            rng: &mut $endpoint.rng,
            limits: &$endpoint.limits,
            fx: $fx,
        }
    };
}
macro_rules! counter {
    ($endpoint:ident, $now:expr, $share:expr, $fx:expr) => {
        Counter {
            now: $now,
            net: &mut $endpoint.net,
            held: &mut $endpoint.held,
            limits: &$endpoint.limits,
            share: $share,
            fx: $fx,
        }
    };
}

impl Endpoint {
    /// An endpoint that knows nobody. `seed`: random bits, for what must not be guessed.
    #[must_use]
    pub fn new(now: Instant, options: &EndpointOptions, security: &Security, seed: u64) -> Self {
        let EndpointOptions { cell, me, packet_bytes_max, receive_bytes, serves, limits } = options;
        let receive_bytes = if *receive_bytes == 0 { RECEIVE_BYTES_ASSUMED } else { *receive_bytes };
        // A quarter is left for what nobody counts: greetings, receipts, what is sent again.
        let usable = receive_bytes / 4 * 3;
        let (requests, answers) = if *serves { (usable / 2, usable / 2) } else { (0, usable) };
        let mut limits = limits.clone();
        limits.slots = limits.slots.clamp(1, SLOTS_MAX);
        limits.message_bytes = limits.message_bytes.min(MESSAGE_BYTES_MAX);
        Self {
            me: *me,
            cell_tag: cell_tag(cell),
            serves: *serves,
            opener: Opener::new(security, cell, *me),
            net: Net::new(security, cell, *me, *packet_bytes_max, Pace::new(&limits)),
            rng: Rng::new(seed).fork("calls"),
            sessions: Vec::new(),
            free: Vec::new(),
            asked: BTreeMap::new(),
            clients: 0,
            touched: Vec::new(),
            budget: Budget {
                free: answers.max(charge(*packet_bytes_max as usize)),
                is_kept: limits.bounds_answers,
                starved: false,
            },
            requests_budget: requests,
            held: Held::default(),
            next_ticket: 1,
            loss: false,
            due: Instant(u64::MAX),
            sweep_at: now + SWEEP_EVERY,
            limits,
        }
    }

    /// Begins a session with the endpoint at `server`. Calls may be made at once; they go out when it is open.
    pub fn connect(&mut self, now: Instant, server: SocketAddr, fx: &mut impl CallEffects) -> SessionId {
        let nonce = self.rng.next_u64();
        let hint = self.place();
        let mut session = Box::new(ClientSession::new(server, hint, nonce, now));
        session.ask(&mut desk!(self, now, fx));
        self.sessions[hint as usize].role = Role::Client(session);
        self.clients += 1;
        SessionId { hint, stamp: self.sessions[hint as usize].stamp }
    }

    /// Ends a session. Calls that are not over fail, and the server is told.
    pub fn close(&mut self, now: Instant, session: SessionId, fx: &mut impl CallEffects) {
        if self.client(session).is_none() {
            return;
        }
        let entry = &mut self.sessions[session.hint as usize];
        if let Role::Client(mut client) = std::mem::replace(&mut entry.role, Role::Free) {
            client.close(&mut desk!(self, now, fx));
            self.vacate(session.hint);
            self.clients -= 1;
        }
    }

    /// Makes a call. Accepted means that its outcome will be told once; it goes out at once if there is a slot for it.
    ///
    /// # Errors
    /// See [`CallError`]; nothing changed.
    pub fn call(
        &mut self,
        now: Instant,
        session: SessionId,
        request: &[u8],
        options: &CallOptions,
        fx: &mut impl CallEffects,
    ) -> Result<Ticket, CallError> {
        if request.len() > self.limits.message_bytes {
            return Err(CallError::TooLong(request.len()));
        }
        let ticket = Ticket(self.next_ticket);
        let Some(Entry { role: Role::Client(client), stamp, .. }) = self.sessions.get_mut(session.hint as usize) else {
            return Err(CallError::NoSession);
        };
        if *stamp != session.stamp {
            return Err(CallError::NoSession);
        }
        client.call(ticket, request, options, &mut desk!(self, now, fx))?;
        self.due = self.due.min(client.due);
        self.next_ticket += 1;
        self.net.counters.calls += 1;
        Ok(ticket)
    }

    /// Gives up a call. Its outcome is told as always: not executed, if the server confirms that it had not begun; the answer, if
    /// that was on its way; else unknown. False: it is over already, or was given up before.
    pub fn cancel(&mut self, now: Instant, session: SessionId, ticket: Ticket, fx: &mut impl CallEffects) -> bool {
        if self.client(session).is_none() {
            return false;
        }
        let entry = &mut self.sessions[session.hint as usize];
        let Role::Client(client) = &mut entry.role else { return false };
        let found = client.cancel(ticket, &mut desk!(self, now, fx));
        self.due = self.due.min(now + self.limits.timer_min);
        self.touch(session.hint);
        found
    }

    /// Answers a call whose handler said [`Served::Later`]; `None`: there is no such service.
    ///
    /// # Errors
    /// See [`AnswerError`]; nothing changed but that the handler no longer counts as running.
    pub fn answer(
        &mut self,
        now: Instant,
        call: CallId,
        answer: Option<&[u8]>,
        fx: &mut impl CallEffects,
    ) -> Result<(), AnswerError> {
        if let Some(answer) = answer
            && answer.len() > self.limits.message_bytes
        {
            return Err(AnswerError::TooLong(answer.len()));
        }
        let share = self.share();
        let wanted = match self.sessions.get_mut(call.session as usize) {
            Some(Entry { role: Role::Server(server), .. }) if server.path.token == call.token => {
                server.answer(call.slot, call.call, answer, &mut counter!(self, now, share, fx))
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

    /// A packet arrived. A sealed one is opened in place; what makes no sense is counted and dropped.
    pub fn handle_packet(&mut self, now: Instant, origin: Origin, mut packet: Packet<'_>, fx: &mut impl CallEffects) {
        self.net.counters.packets_received += 1;
        if let Err(reason) = self.take_packet(now, origin, &mut packet, fx) {
            self.net.counters.drops[reason.index()] += 1;
        }
    }

    #[inline]
    fn take_packet(
        &mut self,
        now: Instant,
        origin: Origin,
        packet: &mut [u8],
        fx: &mut impl CallEffects,
    ) -> Result<(), DropReason> {
        let header = Header::parse(packet)?;
        if header.cell_tag != self.cell_tag {
            return Err(DropReason::OtherCell);
        }
        match header.kind {
            Kind::Session => self.handle_session(now, &header, origin, packet, fx),
            Kind::Open => {
                let (header, frames) = self.opener.open(packet)?;
                let from = origin.address().ok_or(DropReason::UnknownPeer)?;
                let greeting = Greeting::read(frames)?;
                self.handle_greeting(now, from, header.sender, &greeting, fx)
            }
            _ => Err(DropReason::Kind),
        }
    }

    fn handle_session(
        &mut self,
        now: Instant,
        header: &Header,
        origin: Origin,
        packet: &mut [u8],
        fx: &mut impl CallEffects,
    ) -> Result<(), DropReason> {
        let share = self.share();
        let hint = header.space;
        let entry = self.sessions.get_mut(hint as usize).ok_or(DropReason::UnknownSpace)?;
        let path = match &mut entry.role {
            Role::Client(client) => client.path.as_mut().ok_or(DropReason::UnknownSpace)?,
            Role::Server(server) => &mut server.path,
            Role::Free => return Err(DropReason::UnknownSpace),
        };
        if path.peer != header.sender {
            return Err(DropReason::UnknownPeer);
        }
        if header.number.saturating_add(OLD_PACKETS) < path.seen {
            return Err(DropReason::Replayed);
        }
        let frames = match origin {
            Origin::Network(_) => path.key.open(header, path.token, packet)?,
            Origin::Memory => read_clear_for(path.token, packet)?,
        };
        path.heard = now;
        path.seen = path.seen.max(header.number);
        let mut from = Reader::new(frames);
        let mut touched = false;
        let mut closed = false;
        while !from.is_empty() && !closed {
            let frame = read_frame(&mut from)?;
            match &mut entry.role {
                Role::Client(client) => {
                    let desk = &mut desk!(self, now, fx);
                    let after = match &frame {
                        Frame::Data(data) if data.side == Side::Answer => client.handle_answer(data, desk),
                        Frame::Receipt { side: Side::Request, name, receipt, .. } => {
                            client.handle_receipt(*name, receipt, desk)
                        }
                        Frame::Cancelled { name, may_have_run } => client.handle_cancelled(*name, *may_have_run, desk),
                        Frame::Credit(credit) => client.handle_credit(*credit),
                        Frame::Ready { name, message_len } => client.handle_ready(*name, *message_len, desk),
                        Frame::Pong | Frame::Unknown => client::Aftermath::default(),
                        Frame::Data(_) | Frame::Receipt { .. } | Frame::Cancel(_) | Frame::Close | Frame::Ping => {
                            return Err(DropReason::Malformed);
                        }
                    };
                    touched |= after.touched;
                    self.due = self.due.min(client.due);
                }
                Role::Server(server) => {
                    let desk = &mut counter!(self, now, share, fx);
                    server.is_used = true;
                    touched |= match &frame {
                        Frame::Data(data) if data.side == Side::Request => server.handle_request(data, desk),
                        Frame::Receipt { side: Side::Answer, name, receipt, asks } => {
                            server.handle_receipt(*name, receipt, *asks, desk)
                        }
                        Frame::Cancel(name) => server.handle_cancel(*name, desk),
                        Frame::Ping => {
                            server.handle_ping();
                            true
                        }
                        Frame::Close => {
                            closed = true;
                            false
                        }
                        Frame::Unknown => false,
                        Frame::Data(_)
                        | Frame::Receipt { .. }
                        | Frame::Cancelled { .. }
                        | Frame::Credit(_)
                        | Frame::Ready { .. }
                        | Frame::Pong => return Err(DropReason::Malformed),
                    };
                }
                Role::Free => break,
            }
        }
        if closed {
            self.end_server(now, hint, fx);
        } else if touched && !entry.touched {
            entry.touched = true;
            self.touched.push(hint);
        }
        Ok(())
    }

    fn handle_greeting(
        &mut self,
        now: Instant,
        from: SocketAddr,
        sender: Incarnation,
        greeting: &Greeting,
        fx: &mut impl CallEffects,
    ) -> Result<(), DropReason> {
        match *greeting {
            Greeting::Ask { hint, nonce, packet_bytes } => {
                self.open(now, from, sender, (hint, nonce, packet_bytes), fx)
            }
            Greeting::Opened { hint, nonce, opened } => {
                if opened.token == 0 {
                    return Err(DropReason::Malformed);
                }
                let entry = self.sessions.get_mut(hint as usize).ok_or(DropReason::UnknownSpace)?;
                let Role::Client(client) = &mut entry.role else { return Err(DropReason::UnknownSpace) };
                if client.server != from {
                    return Err(DropReason::UnknownPeer);
                }
                let key = self.opener.session_key(sender);
                let path = |net: &mut Net| Path::new(net, now, from, sender, key, &opened);
                let after = client.handle_opened(path, nonce, &opened, &mut desk!(self, now, fx));
                self.due = self.due.min(now);
                if after.touched {
                    self.touch(hint);
                }
                Ok(())
            }
            Greeting::Refused { hint, nonce, reason } => {
                let entry = self.sessions.get_mut(hint as usize).ok_or(DropReason::UnknownSpace)?;
                let Role::Client(client) = &mut entry.role else { return Err(DropReason::UnknownSpace) };
                if client.server != from {
                    return Err(DropReason::UnknownPeer);
                }
                client.handle_refused(nonce, reason, &mut desk!(self, now, fx));
                Ok(())
            }
        }
    }

    /// A client wants a session. The same ask gets the same session.
    fn open(
        &mut self,
        now: Instant,
        from: SocketAddr,
        client: Incarnation,
        (their_hint, nonce, packet_bytes): (u32, u64, u32),
        fx: &mut impl CallEffects,
    ) -> Result<(), DropReason> {
        let known = self.asked.get(&(client, nonce)).copied();
        let hint = match known {
            Some(hint) => hint,
            None => {
                let of_client = self.asked.range((client, 0)..=(client, u64::MAX)).count();
                let reason = if !self.serves {
                    Some(Refusal::NoService)
                } else if self.asked.len() >= self.limits.sessions || of_client >= self.limits.sessions_of_client {
                    Some(Refusal::Busy)
                } else {
                    None
                };
                if let Some(reason) = reason {
                    self.net.counters.refused += 1;
                    let greeting = Greeting::Refused { hint: their_hint, nonce, reason };
                    self.net.greet(from, |packet| greeting.write(packet), fx);
                    return Ok(());
                }
                let hint = self.place();
                self.asked.insert((client, nonce), hint);
                let token = self.rng.next_u64().max(1);
                let told = self.share();
                // What the client is told, as it is seen from here.
                let slots = self.limits.slots;
                let theirs = Opened { hint: their_hint, token, slots, packet_bytes, credit: told };
                let key = self.opener.session_key(client);
                let path = Path::new(&mut self.net, now, from, client, key, &theirs);
                let session = ServerSession::new(path, hint, nonce, told);
                self.sessions[hint as usize].role = Role::Server(Box::new(session));
                self.net.counters.sessions_taken += 1;
                self.due = self.due.min(self.sweep_at);
                hint
            }
        };
        let Some(Entry { role: Role::Server(session), .. }) = self.sessions.get(hint as usize) else { return Ok(()) };
        let opened = Opened {
            hint,
            token: session.path.token,
            slots: self.limits.slots,
            packet_bytes: self.net.packet_bytes,
            credit: session.told(),
        };
        let greeting = Greeting::Opened { hint: their_hint, nonce, opened };
        self.net.greet(from, |packet| greeting.write(packet), fx);
        Ok(())
    }

    /// The driver lost something that came for this process: gaps are losses, and are told of at once.
    pub fn handle_loss(&mut self) {
        self.loss = true;
    }

    /// Says what came, sends what may be sent, judges the timers. Call it after packets were handled, and when
    /// [`Self::deadline`] has come.
    pub fn turn(&mut self, now: Instant, fx: &mut impl CallEffects) {
        let loss = std::mem::take(&mut self.loss);
        if loss {
            for hint in 0..self.sessions.len() {
                self.touch(u32::try_from(hint).unwrap_or(u32::MAX));
            }
        }
        let share = self.share();
        while let Some(hint) = self.touched.pop() {
            let Some(entry) = self.sessions.get_mut(hint as usize) else { continue };
            entry.touched = false;
            match &mut entry.role {
                Role::Client(client) => {
                    client.work(loss, &mut desk!(self, now, fx));
                    self.due = self.due.min(client.due);
                }
                Role::Server(server) => server.work(loss, &mut counter!(self, now, share, fx)),
                Role::Free => {}
            }
        }
        if self.budget.starved {
            self.feed(now, fx);
        }
        if now >= self.due {
            self.judge(now, fx);
        }
    }

    /// Lets answers go on that wait for room, those first of which the least is left.
    fn feed(&mut self, now: Instant, fx: &mut impl CallEffects) {
        if self.budget.free < charge(self.net.packet_bytes as usize) {
            return;
        }
        self.budget.starved = false;
        let mut hungry: Vec<(u32, usize, u8)> = Vec::new();
        for (hint, entry) in self.sessions.iter().enumerate() {
            if let Role::Client(client) = &entry.role {
                hungry.extend(client.starved().map(|(left, slot)| (left, hint, slot)));
            }
        }
        hungry.sort_unstable();
        for (_, hint, slot) in hungry {
            if let Role::Client(client) = &mut self.sessions[hint].role {
                client.feed(slot, &mut desk!(self, now, fx));
            }
            if self.budget.starved {
                break;
            }
        }
    }

    fn judge(&mut self, now: Instant, fx: &mut impl CallEffects) {
        let mut due = Instant(u64::MAX);
        for hint in 0..self.sessions.len() {
            if let Role::Client(client) = &mut self.sessions[hint].role {
                if client.due <= now {
                    client.judge(&mut desk!(self, now, fx));
                    if client.is_open() && client.outstanding() > 0 {
                        self.touch(u32::try_from(hint).unwrap_or(u32::MAX));
                    }
                }
                if let Role::Client(client) = &self.sessions[hint].role {
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

    /// Gives up sessions whose clients are silent.
    fn sweep(&mut self, now: Instant, fx: &mut impl CallEffects) {
        self.sweep_at = now + SWEEP_EVERY;
        let is_over = |entry: &Entry| match &entry.role {
            Role::Server(server) => {
                let idle_max = if server.is_used { self.limits.idle_max } else { UNUSED_MAX.min(self.limits.idle_max) };
                now.since(server.path.heard) > idle_max && !server.is_running()
            }
            Role::Client(_) | Role::Free => false,
        };
        let over: Vec<u32> = (0..).zip(&self.sessions).filter(|(_, entry)| is_over(entry)).map(|(at, _)| at).collect();
        for hint in over {
            self.end_server(now, hint, fx);
            self.net.counters.sessions_idle += 1;
        }
    }

    fn end_server(&mut self, now: Instant, hint: u32, fx: &mut impl CallEffects) {
        let share = self.share();
        let Some(entry) = self.sessions.get_mut(hint as usize) else { return };
        if let Role::Server(mut server) = std::mem::replace(&mut entry.role, Role::Free) {
            server.end(&mut counter!(self, now, share, fx));
            self.asked.remove(&(server.path.peer, server.nonce));
            self.vacate(hint);
        }
    }

    /// When [`Self::turn`] is due if nothing comes sooner.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if !self.touched.is_empty() || self.loss {
            return Some(Instant::ZERO);
        }
        (self.due != Instant(u64::MAX)).then_some(self.due)
    }

    /// What it did.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.net.counters
    }

    /// This life of the endpoint.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.me
    }

    /// Calls of a session that are not over; `None`: there is no such session.
    #[must_use]
    pub fn outstanding(&self, session: SessionId) -> Option<usize> {
        self.client(session).map(ClientSession::outstanding)
    }

    /// Whether a session is open.
    #[must_use]
    pub fn is_open(&self, session: SessionId) -> bool {
        self.client(session).is_some_and(ClientSession::is_open)
    }

    /// Sessions that it answers.
    #[must_use]
    pub fn sessions_taken(&self) -> usize {
        self.asked.len()
    }

    /// What messages take that are not complete, or kept until they have come, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held.requests + self.held.answers
    }

    fn client(&self, session: SessionId) -> Option<&ClientSession> {
        match self.sessions.get(session.hint as usize) {
            Some(Entry { role: Role::Client(client), stamp, .. }) if *stamp == session.stamp => Some(client),
            _ => None,
        }
    }

    /// What each client may have under way to this endpoint.
    #[inline]
    fn share(&self) -> u64 {
        self.requests_budget / (self.asked.len() as u64).max(1)
    }

    fn place(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.sessions.push(Entry { role: Role::Free, stamp: 0, touched: false });
            u32::try_from(self.sessions.len() - 1).expect("sessions are bounded, and clients' calls by memory")
        })
    }

    fn vacate(&mut self, hint: u32) {
        let entry = &mut self.sessions[hint as usize];
        entry.stamp = entry.stamp.wrapping_add(1);
        self.free.push(hint);
    }

    fn touch(&mut self, hint: u32) {
        if let Some(entry) = self.sessions.get_mut(hint as usize)
            && !entry.touched
            && !matches!(entry.role, Role::Free)
        {
            entry.touched = true;
            self.touched.push(hint);
        }
    }

    /// Panics where the endpoint contradicts itself; for tests and the simulator.
    ///
    /// # Panics
    /// If it does.
    pub fn check_invariants(&self) {
        let mut clients = 0;
        for entry in &self.sessions {
            match &entry.role {
                Role::Client(client) => {
                    clients += 1;
                    client.check_invariants();
                }
                Role::Server(server) => server.check_invariants(),
                Role::Free => {}
            }
        }
        assert_eq!(clients, self.clients);
        assert!(self.held.answers == 0 || !self.asked.is_empty());
    }
}

/// What the kernel charges a receive buffer for a packet of this many bytes, at most; `docs/udp.md` has the figures.
#[inline]
fn charge(packet_bytes: usize) -> u64 {
    let len = packet_bytes as u64;
    let block = if len <= CHARGE_BLOCK_MAX { (len + CHARGE_AROUND).next_power_of_two() } else { len + CHARGE_PAGED };
    block.max(CHARGE_LEAST) + CHARGE_RECORD
}

/// Headers of all layers around a packet in its block of memory.
const CHARGE_AROUND: u64 = 384;
/// Longer ones lie in pages of their own.
const CHARGE_BLOCK_MAX: u64 = 16_000;
const CHARGE_PAGED: u64 = 1_024;
/// The kernel's own record of a packet.
const CHARGE_RECORD: u64 = 256;
/// Half a page, as network cards' drivers set aside.
const CHARGE_LEAST: u64 = 2_048;

/// A packet so many numbers behind the greatest seen does nothing: it is late by more than any network's reordering. What is
/// newer may come twice: it says nothing that is not absolute.
const OLD_PACKETS: u64 = 65_536;

/// `net.core.rmem_default` of an unconfigured Linux.
const RECEIVE_BYTES_ASSUMED: u64 = 212_992;
/// A slot has a byte for its number, and receipts for all of them must fit a packet.
const SLOTS_MAX: u8 = 64;
/// Between two looks for silent clients.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// A session in which its client never spoke goes after this: it may be an old ask that was sent again.
const UNUSED_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
