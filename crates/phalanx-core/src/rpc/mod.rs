//! Remote procedure calls: sessions with slots, at-most-once execution, and failures that say what is known.
//!
//! An [`Endpoint`] makes calls and answers them. It does no I/O, reads no clock and starts no timer: its owner passes
//! packets and the time in, and its effects go to a statically bound [`CallEffects`]. `docs/rpc.md` is the
//! specification.
//!
//! Sources: `FastTransport` of `RAMCloud` (sessions, slots, session indexes, implicit acks; its sources, last in 2016),
//! Birrell and Nelson, "Implementing Remote Procedure Calls" (TOCS 1984: at most once, the next call is the ack), QUIC
//! (RFC 9002: packet numbers that never come twice), Homa (SIGCOMM 2018: the receiver lets long messages go on, the
//! shortest first). What differs from them: `docs/departures.md`.

mod api;
mod buffer_pool;
mod client;
mod congestion;
mod context;
mod counters;
mod endpoint;
mod fragmentation;
pub mod frames;
mod path;
mod reassembly;
mod receive_budget;
mod server;
mod session_packets;
mod transmit;
mod unreliable;
mod wire;

pub use api::{
    AnswerError, CallEffects, CallError, CallId, CallOptions, ClientCallId, EndpointLimits, EndpointOptions, Failure,
    HandlerResult, Outcome, Reason, SessionId, TracePoint,
};
pub use counters::Counters;
pub use endpoint::Endpoint;
pub use unreliable::{UnreliableEndpoint, UnreliableOptions};
pub use wire::{OFFER_BYTES_MAX, Refusal};

#[cfg(test)]
mod tests;
