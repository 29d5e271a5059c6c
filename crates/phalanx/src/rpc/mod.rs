//! Calls between processes: of members, of outside clients, of programs that have no cell at all but share its key.
//!
//! [`Port`] makes calls and answers them on its application's thread; [`Client`] makes them one after the other and blocks; [`Caller`] makes
//! them for any number of threads and tasks.
//! What a call may end with, and what is guaranteed: [`phalanx_core::rpc`] and `docs/rpc.md`.

mod call_trace;
mod caller;
mod client;
mod nearby;
mod pending;
mod port;
mod time_trace;
mod typed;

pub use caller::Caller;
pub use client::Client;
pub use pending::Pending;
pub use phalanx_core::rpc::{
    AnswerError, CallError, CallId, CallOptions, ClientCallId, Counters, EndpointLimits, Failure, HandlerResult,
    Outcome, Reason, Refusal, SessionId, TracePoint,
};
pub use port::{Port, PortOptions, Service};
pub use time_trace::{Happened, Recorded, TimeTrace, slowest, story};
pub use typed::{TypedError, answer_typed};
