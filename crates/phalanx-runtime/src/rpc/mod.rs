//! Calls between processes: of members, of outside clients, and of programs without a cell that share its key.
//!
//! [`Port`] makes and answers calls on its application's thread. [`Client`] makes them one after another and blocks.
//! [`Caller`] makes them for any number of threads and tasks. [`phalanx_core::rpc`] and `docs/rpc.md` describe outcomes
//! and guarantees.

mod call_trace;
mod caller;
mod client;
mod nearby;
mod pending;
mod port;
mod routed;
mod time_trace;

pub use caller::{Callees, Caller};
pub use client::Client;
pub use pending::Pending;
pub use phalanx_core::rpc::{
    AnswerError, CallError, CallId, CallOptions, ClientCallId, Counters, EndpointLimits, Failure, HandlerResult,
    Outcome, Reason, Refusal, SessionId, TracePoint,
};
pub use port::{Port, PortOptions, Service};
pub use routed::{AfterFailure, RoutedAttempt, RoutedCall, Step};
pub use time_trace::{Happened, Recorded, TimeTrace, slowest, story};
