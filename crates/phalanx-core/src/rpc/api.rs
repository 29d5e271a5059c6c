//! The interface of calls: options, effects, outcomes and errors, for callers and handlers.

use std::net::SocketAddr;
use std::time::Duration;

use super::wire::Refusal;
use crate::api::MESSAGE_BYTES_MAX;
use crate::id::{Incarnation, Origin, TrafficClass};
use crate::packet::ClearPacket;
use crate::wire::{SessionIndex, SessionSecret};

/// Construction options of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointOptions {
    /// The cell's name: only endpoints of one cell understand each other.
    pub cell: String,
    /// The incarnation of this endpoint: fresh random bits, never used before.
    pub me: Incarnation,
    /// The longest packet it can receive, in bytes.
    pub packet_bytes_max: u32,
    /// Size of the receive buffer in which the system keeps packets for it, in bytes as the system charges it. 0 stands
    /// for unknown: then that of an unconfigured Linux is assumed.
    pub receive_bytes: u64,
    /// Whether it answers calls. If not, it refuses every session.
    pub serves: bool,
    /// How its driver can be reached beside the network, in the driver's own encoding. The other side of each session
    /// gets it and hands it to [`CallEffects::session_opened`]. At most [`super::OFFER_BYTES_MAX`] bytes; a longer
    /// offer is not sent. Empty: none.
    pub offer: Vec<u8>,
    /// Bounds.
    pub limits: EndpointLimits,
}

/// Bounds and pacing of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointLimits {
    /// Calls under way at once in a session, from 1 to 64. Default 8.
    pub slots: u8,
    /// Sessions that it answers, from all clients. Default 4,096.
    pub sessions: usize,
    /// Sessions of one client among these. Default 64.
    pub sessions_of_client: usize,
    /// Calls that wait in a session for a slot. Default 1,024.
    pub queued_calls: usize,
    /// The longest request and answer, in bytes. Default and most: [`MESSAGE_BYTES_MAX`].
    pub message_bytes: usize,
    /// Bytes of all incomplete requests together. Default 256 MiB.
    pub requests_bytes: usize,
    /// Bytes of all answers kept until their clients have them. Beyond that no call is begun. Default 256 MiB.
    pub answers_bytes: usize,
    /// Minimum silence before the client probes for a call. Default 5 ms.
    ///
    /// If the longest interval between two polls is known, see [`super::Endpoint::note_gap`], twice that interval
    /// replaces this value where it is shorter. A shorter value retransmits sooner, and probes without need where
    /// processes are polled irregularly.
    pub timer_min: Duration,
    /// Time after which the session of a silent client is given up, unless a call runs in it. Default 60 s.
    pub idle_max: Duration,
    /// Initial congestion window of a session, in packets. Default 16.
    pub window_packets: u32,
    /// Delay beyond twice the shortest round trip that is no sign of congestion: receivers are polled, not interrupted.
    /// Default 2 ms.
    pub delay_free: Duration,
    /// Bytes that may be in flight to the endpoint through a network, as receive buffers are charged, for answers and
    /// for requests each. Default 768 KiB.
    ///
    /// It should be what a port of a switch can hold. One answer gets half of it. The receive buffer is always an upper
    /// bound, and the only one for packets from the same host.
    pub receive_budget_bytes: u64,
    /// Whether the response credit of all servers together stays within the receive buffer. Only measurements of the
    /// effect turn this off. Default true.
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

/// Identifies a session of this endpoint as client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    pub(super) session_index: SessionIndex,
    pub(super) stamp: u32,
}

impl SessionId {
    /// No session: every call in it is refused.
    pub const NONE: Self = Self { session_index: SessionIndex::NONE, stamp: u32::MAX };
}

/// Identifies a call to its caller. No two calls of an endpoint have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientCallId(pub u64);

/// Identifies a call to its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    pub(super) session: SessionIndex,
    pub(super) session_secret: SessionSecret,
    pub(super) slot: u8,
    pub(super) call: u64,
}

/// Options of one call.
#[derive(Clone, Copy, Debug)]
pub struct CallOptions {
    /// Time until the call fails, counted from now. The failure says whether it may have run. Default 10 s.
    pub deadline: Duration,
    /// Whether it may run more than once. If so, it is repeated in the next session where its outcome would be unknown
    /// because the session was lost. Default false.
    pub idempotent: bool,
    /// Whether it waits for a server at an address where none is. If not, it fails at once when the system reports that
    /// the address has no socket, or cannot be reached. Default false.
    pub waits_for_server: bool,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self { deadline: Duration::from_secs(10), idempotent: false, waits_for_server: false }
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// It ran once, and this is the answer, borrowed for the length of the callback.
    Answer(&'a [u8]),
    /// There is no answer.
    Failed(Failure),
}

impl Outcome<'_> {
    /// Copies the answer, for callers that keep it.
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

/// Why there is no answer, and whether the call ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It did not run and never will.
    #[error("not executed: {0}")]
    NotExecuted(Reason),
    /// It may have run once, or may still run.
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
    /// Its deadline passed, and no server at that address has opened a session. Either the server's host is down or cut
    /// off, or its process is stopped, or it is of another cell or has another key: who cannot open a packet does not
    /// answer it.
    #[error("nothing at that address answered: is its host up, and does it have this cell's name and key?")]
    NoAnswer,
    /// The system reports that the address has no socket, or cannot be reached; see [`CallOptions::waits_for_server`].
    #[error("no server is at that address")]
    Unreachable,
    /// It was cancelled, or its session closed.
    #[error("cancelled")]
    Cancelled,
    /// The server refused it.
    #[error("refused by the server: {0:?}")]
    Refused(Refusal),
    /// The server forgot the session, or was restarted.
    #[error("the server has lost the session")]
    SessionLost,
    /// Its callee is out of the cell, as the owner of the endpoint knows; see
    /// [`Endpoint::callee_left`](super::Endpoint::callee_left).
    #[error("its server's process has left the cell")]
    Left,
    /// Too many calls wait in the session. Reported by code that makes calls for others, see [`CallError::QueueFull`].
    #[error("too many calls wait already")]
    QueueFull,
    /// See [`CallError::NumbersUsedUp`]: reported for calls that were made before.
    #[error("this endpoint has used up its packet numbers: start another")]
    NumbersUsedUp,
    /// The request is longer than this side may send.
    #[error("the request is too long")]
    RequestTooLong,
    /// The answer is longer than this side accepts.
    #[error("the answer is longer than is taken")]
    AnswerTooLong,
    /// The handle was made before a fork, and this is the child. The call goes on in the parent. Start another handle
    /// in the child.
    #[error("this handle belongs to the parent process: start one of its own in the forked child")]
    Forked,
}

/// Why a call is given up before its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivenUp {
    /// Its caller does not wait for it. The server is asked whether it ran.
    ByCaller,
    /// Its callee left the cell. Nobody is there to be asked.
    ByLeave,
}

impl GivenUp {
    /// The reason that its caller is told.
    pub(super) const fn reason(self) -> Reason {
        match self {
            Self::ByCaller => Reason::Cancelled,
            Self::ByLeave => Reason::Left,
        }
    }
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
    /// [`EndpointLimits::queued_calls`] calls wait already. Call again when one has ended.
    #[error("too many calls wait in this session")]
    QueueFull,
    /// The session is not open, and this incarnation of the endpoint has no packet numbers left for it: 4 billion
    /// sessions, or as many times 4 billion packets, used them up.
    ///
    /// Numbers never repeat under one key, because a nonce must not. Start another endpoint. Open sessions go on for as
    /// long as they have numbers.
    #[error("this endpoint has used up its packet numbers: start another")]
    NumbersUsedUp,
    /// The endpoint was started before a fork, and this is the child. It goes on in the parent. Start another in the
    /// child. Reported by the owner of an [`Endpoint`](super::Endpoint), which itself knows nothing of forks.
    #[error("this handle belongs to the parent process: start one of its own in the forked child")]
    Forked,
}

/// Why an answer was not taken. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// Its caller gave it up, the session is over, or it was answered before.
    #[error("nobody waits for this answer")]
    NotWanted,
    /// Longer than [`EndpointLimits::message_bytes`].
    #[error("answer of {0} bytes is too long")]
    TooLong(usize),
    /// See [`CallError::Forked`]; the parent can still answer.
    #[error("this handle belongs to the parent process: start one of its own in the forked child")]
    Forked,
}

/// A handler's response to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerResult {
    /// The answer is complete.
    Answered,
    /// The answer comes later, see [`Endpoint::answer`](super::Endpoint::answer).
    Later,
    /// There is no such service. The handler did nothing.
    Refused,
    /// There is too much to do. The handler did nothing, and the client may ask again later.
    Busy,
}

macro_rules! trace_points {
    ($($(#[$doc:meta])* $mark:ident = $name:literal,)*) => {
        /// A step on a call's way, to find out where it spent its time.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum TracePoint {
            $($(#[$doc])* $mark,)*
        }

        impl TracePoint {
            /// The name for people to read.
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
    /// It got a slot.
    Begun = "has a slot",
    /// The rest of the request was sent.
    Sent = "sent",
    /// Some of the request waits for room.
    Held = "waits for room",
    /// Fragments of the request were lost, and are retransmitted.
    Lost = "lost fragments",
    /// It was silent for too long and is probed.
    Probed = "probed",
    /// The first of several packets of the answer arrived.
    Answering = "is answered",
    /// Its outcome is reported.
    Ended = "ended",
    /// Server: the first of several packets of the request arrived.
    Receiving = "request comes",
    /// Server: its handler begins.
    Runs = "handler begins",
    /// Server: its handler is done.
    Ran = "handler is done",
    /// Server: the rest of the answer was sent.
    Answered = "answered",
    /// Server: some of the answer waits for room.
    AnswerHeld = "answer waits for room",
    /// Server: the client has the answer.
    Released = "answer has come",
}

/// Receiver of an endpoint's effects, bound at compile time. It cannot re-enter the endpoint.
pub trait CallEffects {
    /// Writes a packet in clear, given in parts, for those of `to` that read this process's memory. Returns their
    /// count.
    fn write_shared(&mut self, _lane: TrafficClass, _to: &[SocketAddr], _parts: [&[u8]; 3]) -> usize {
        0
    }

    /// Sends a packet, given in parts, at once and without a copy. Returns false if the system did not take it: then
    /// the same packet is passed to [`Self::transmit`].
    fn send_unbuffered(&mut self, _lane: TrafficClass, _to: SocketAddr, _parts: [&[u8]; 3]) -> bool {
        false
    }

    /// Shows a handshake before it is sealed for nobody in particular and passed to [`Self::transmit`]. All other packets
    /// are shown by [`Self::write_shared`].
    #[inline]
    fn sealing(&mut self, _lane: TrafficClass, _to: SocketAddr, _packet: ClearPacket<'_>) {}

    /// Shows a packet that was received and opened, before anything else looks at it. It may be a repetition.
    #[inline]
    fn opened(&mut self, _lane: TrafficClass, _origin: Origin, _packet: ClearPacket<'_>) {}

    /// A session with `peer` at `at` was opened, and `offer` says how the peer can be reached beside the network; see
    /// [`EndpointOptions::offer`]. Each session is reported once, and followed once by [`Self::session_closed`].
    fn session_opened(&mut self, _peer: Incarnation, _at: SocketAddr, _offer: &[u8]) {}

    /// A session with `peer` is over.
    fn session_closed(&mut self, _peer: Incarnation) {}

    /// As [`crate::Effects::transmit`], but always as a datagram, also to a process that reads this one's memory.
    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]);

    /// A call reached a step. `of` is the call id at the client, and the call's number in its slot at the server.
    #[inline]
    fn mark(&mut self, _mark: TracePoint, _of: u64) {}

    /// Runs a call. An immediate answer is appended to `answer`, which is empty before.
    fn request(&mut self, call: CallId, from: Incarnation, request: &[u8], answer: &mut Vec<u8>) -> HandlerResult;

    /// Runs a call whose request came in several packets. The implementation may take the buffer: whatever it leaves in
    /// its place is ignored. Calls [`Self::request`] by default.
    fn long_request(
        &mut self,
        call: CallId,
        from: Incarnation,
        request: &mut Vec<u8>,
        answer: &mut Vec<u8>,
    ) -> HandlerResult {
        self.request(call, from, request, answer)
    }

    /// The caller gave up a call whose handler runs: it was cancelled, its deadline passed, or its session is over. The
    /// answer is not wanted any more; the handler still has to give one, or none, so that it no longer counts as running.
    fn given_up(&mut self, _call: CallId) {}

    /// A call ended. Each call is reported once, here or by [`Self::long_answer`].
    fn outcome(&mut self, call_id: ClientCallId, outcome: Outcome<'_>);

    /// A call ended with an answer that came in several packets. The implementation may take the buffer. Calls
    /// [`Self::outcome`] by default.
    fn long_answer(&mut self, call_id: ClientCallId, answer: &mut Vec<u8>) {
        self.outcome(call_id, Outcome::Answer(answer));
    }
}
