//! Calls from process to process: sessions with slots, each call run at most once, failures that say what is known.
//!
//! An [`Endpoint`] makes calls and answers them. It does no I/O, reads no clock and starts no timer: whoever owns it hands in
//! packets and the time, and its effects go to a statically bound [`CallEffects`]. `docs/rpc.md` is the specification.
//!
//! Sources: `FastTransport` of `RAMCloud` (sessions, slots, hints, implicit receipts; its sources, last in 2016), Birrell and
//! Nelson, "Implementing Remote Procedure Calls" (TOCS 1984: at most once, the next call is the receipt), QUIC (RFC 9002:
//! packet numbers that never come twice), Homa (SIGCOMM 2018: the receiver lets long messages go on, the shortest first).
//! What differs from them: `docs/departures.md`.

mod api;
mod client;
mod counters;
mod desk;
mod endpoint;
mod incoming;
mod leave;
mod outgoing;
mod path;
mod plain;
mod server;
mod spare;
mod wire;

pub use api::{
    AnswerError, CallEffects, CallError, CallId, CallOptions, EndpointOptions, Failure, Limits, Mark, OFFER_BYTES_MAX,
    Outcome, Reason, Served, SessionId, Ticket,
};
pub use counters::Counters;
pub use endpoint::Endpoint;
pub use plain::{Plain, PlainOptions};
pub use wire::Refusal;

#[cfg(test)]
mod tests;
