//! The interface of calls: options, effects, outcomes and errors, for callers and handlers.

use std::net::SocketAddr;
use std::time::Duration;

use super::wire::Refusal;
use crate::api::MESSAGE_BYTES_MAX;
use crate::id::{Incarnation, TrafficClass};
use crate::wire::{SessionIndex, SessionSecret};

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
    /// How it can be reached beside the network, in its driver's words: told to the other side of each session, which hands it to
    /// [`CallEffects::session_opened`]. At most [`super::OFFER_BYTES_MAX`] bytes, of longer ones nothing is told; empty: not at all.
    pub offer: Vec<u8>,
    /// Bounds.
    pub limits: EndpointLimits,
}

/// Bounds of an endpoint, and its pace.
#[derive(Clone, Debug)]
pub struct EndpointLimits {
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
    /// Nothing is heard of a call for at least so long before it is asked for, or for twice the longest time between two looks
    /// for packets of late if that is shorter and known, see [`super::Endpoint::note_gap`]. Shorter retransmits sooner, and asks in
    /// vain where processes are not always turned. Default 5 ms.
    pub timer_min: Duration,
    /// A session whose client is silent for so long is given up, unless a call runs in it. Default 60 s.
    pub idle_max: Duration,
    /// Packets with which the congestion window of a session begins. Default 16.
    pub window_packets: u32,
    /// Delay beyond twice the shortest round trip that is no sign of congestion: receivers are turned, not interrupted. Default 2 ms.
    pub delay_free: Duration,
    /// What may be on its way to the endpoint at once through a network, in bytes as receive buffers are charged, of answers and of
    /// requests each: what a port of a switch holds. Of one answer half of it. Never more than the receive buffer takes, which
    /// alone bounds what comes from the same host. Default 768 KiB.
    pub receive_budget_bytes: u64,
    /// Whether what all servers may send unasked is kept within the receive buffer. Only measurements of what happens
    /// otherwise turn this off. Default true.
    pub bounds_answers: bool,
}

impl Default for EndpointLimits {
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
            receive_budget_bytes: 768 << 10,
            bounds_answers: true,
        }
    }
}

/// A session of this endpoint as client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    pub(super) session_index: SessionIndex,
    pub(super) stamp: u32,
}

impl SessionId {
    /// No session: every call in it is refused.
    pub const NONE: Self = Self { session_index: SessionIndex::NONE, stamp: u32::MAX };
}

/// Names a call to its caller. No two calls of an endpoint have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientCallId(pub u64);

/// Names a call to its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    pub(super) session: SessionIndex,
    pub(super) session_secret: SessionSecret,
    pub(super) slot: u8,
    pub(super) call: u64,
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

impl Outcome<'_> {
    /// The same with the answer copied, for whoever keeps it.
    ///
    /// # Errors
    /// The failure, if there is no answer.
    pub fn to_result(self) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Answer(answer) => Ok(answer.to_vec()),
            Self::Failed(failure) => Err(failure),
        }
    }
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
    /// As many calls wait in the session as may: told by those who make calls for others, see [`CallError::QueueFull`].
    #[error("too many calls wait already")]
    QueueFull,
    /// See [`CallError::NumbersUsedUp`]: told of calls that were made before.
    #[error("this endpoint has used up its packet numbers: start another")]
    NumbersUsedUp,
    /// The request is longer than this side sends.
    #[error("the request is too long")]
    RequestTooLong,
    /// The answer is longer than this side takes.
    #[error("the answer is longer than is taken")]
    AnswerTooLong,
    /// Its maker was started before a fork, and this is the child: in the parent it goes on. Start one in the child.
    #[error("this handle belongs to the parent process: start one of its own in the forked child")]
    Forked,
}

/// Why a call was not made. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The session was closed.
    #[error("no such session")]
    NoSession,
    /// Longer than [`EndpointLimits::message_bytes`].
    #[error("request of {0} bytes is too long")]
    TooLong(usize),
    /// [`EndpointLimits::queued_calls`] wait already: call again when one has ended.
    #[error("too many calls wait in this session")]
    QueueFull,
    /// The session is not open, and this life of the endpoint has no packet numbers left for it: they were for 4 billion sessions, or
    /// as many times 4 billion packets. Numbers never come again under one key. Start another endpoint; sessions that are open
    /// go on for as long as they have numbers.
    #[error("this endpoint has used up its packet numbers: start another")]
    NumbersUsedUp,
    /// The endpoint was started before a fork, and this is the child: in the parent it goes on. Start one in the child. Told by
    /// whoever runs an [`Endpoint`](super::Endpoint), which knows nothing of forks itself.
    #[error("this handle belongs to the parent process: start one of its own in the forked child")]
    Forked,
}

/// Why an answer was not taken. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// Its caller gave it up, or the session is over, or it was answered before.
    #[error("nobody waits for this answer")]
    NotWanted,
    /// Longer than [`EndpointLimits::message_bytes`].
    #[error("answer of {0} bytes is too long")]
    TooLong(usize),
    /// See [`CallError::Forked`]; the parent can still answer.
    #[error("this handle belongs to the parent process: start one of its own in the forked child")]
    Forked,
}

/// What a handler did with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerResult {
    /// The answer is complete.
    Answered,
    /// The answer comes later, see [`Endpoint::answer`](super::Endpoint::answer).
    Later,
    /// There is no such service: it did nothing.
    Refused,
    /// There is too much to do: it did nothing, and may be asked later.
    Busy,
}

macro_rules! trace_points {
    ($($(#[$doc:meta])* $mark:ident = $name:literal,)*) => {
        /// A step of a call's way, for those who want to know where it spent its time.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum TracePoint {
            $($(#[$doc])* $mark,)*
        }

        impl TracePoint {
            /// For people.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$mark => $name,)*
                }
            }
        }
    };
}

trace_points! {
    /// It was made.
    Called = "called",
    /// It has a slot.
    Begun = "has a slot",
    /// All of the request that was left has been sent.
    Sent = "sent",
    /// Some of the request waits for room.
    Held = "waits for room",
    /// Some of it is lost, and goes again.
    Lost = "lost fragments",
    /// Nothing was heard for too long.
    Probed = "probed",
    /// The first of several packets of the answer came.
    Answering = "is answered",
    /// Its outcome is told.
    Ended = "ended",
    /// Server: the first of several packets of the request came.
    Receiving = "request comes",
    /// Server: its handler begins.
    Runs = "handler begins",
    /// Server: its handler is done.
    Ran = "handler is done",
    /// Server: all of the answer that was left has been sent.
    Answered = "answered",
    /// Server: some of the answer waits for room.
    AnswerHeld = "answer waits for room",
    /// Server: the client has the answer.
    Released = "answer has come",
}

/// Where an endpoint's effects go. Bound at compile time; it cannot re-enter the endpoint.
pub trait CallEffects {
    /// Hands a packet in clear, given in parts, to those of `to` that read this process's memory, and gives their count.
    fn write_shared(&mut self, _lane: TrafficClass, _to: &[SocketAddr], _parts: [&[u8]; 3]) -> usize {
        0
    }

    /// Hands a packet, given in parts, to the system at once, without a copy. False: it did not take it, and the same packet is
    /// transmitted.
    fn send_unbuffered(&mut self, _lane: TrafficClass, _to: SocketAddr, _parts: [&[u8]; 3]) -> bool {
        false
    }

    /// A session with `peer` at `at` is open, which can be reached as `offer` says; see [`EndpointOptions::offer`]. Told for each
    /// session, followed once by [`Self::session_closed`].
    fn session_opened(&mut self, _peer: Incarnation, _at: SocketAddr, _offer: &[u8]) {}

    /// A session with `peer` is over.
    fn session_closed(&mut self, _peer: Incarnation) {}

    /// As [`crate::Effects::transmit`].
    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]);

    /// Something happened to a call: of its client's, `of` is the call id; of its server's, its number in its slot.
    #[inline]
    fn mark(&mut self, _mark: TracePoint, _of: u64) {}

    /// Runs a call. The answer, if there is one at once, is appended to `answer`, which is empty.
    fn request(&mut self, call: CallId, from: Incarnation, request: &[u8], answer: &mut Vec<u8>) -> HandlerResult;

    /// As [`Self::request`], which it calls by default, with a request that came in several packets. It may be taken: whatever
    /// is left in its place is not looked at.
    fn long_request(
        &mut self,
        call: CallId,
        from: Incarnation,
        request: &mut Vec<u8>,
        answer: &mut Vec<u8>,
    ) -> HandlerResult {
        self.request(call, from, request, answer)
    }

    /// A call ended. Told once for each, here or by [`Self::long_answer`].
    fn outcome(&mut self, call_id: ClientCallId, outcome: Outcome<'_>);

    /// A call ended with an answer that came in several packets. It may be taken. By default [`Self::outcome`] is told.
    fn long_answer(&mut self, call_id: ClientCallId, answer: &mut Vec<u8>) {
        self.outcome(call_id, Outcome::Answer(answer));
    }
}
