//! The trace format: what each process of a run observed, in the order of observation.
//!
//! Every incarnation writes one append-only file, and the program that runs the experiment (the *harness*) writes one
//! more with the faults it made. A file is a [`Header`] followed by length-prefixed [`Record`]s. The checker evaluates
//! the files of one run and knows nothing else about it. This crate depends on no other of the project, so that a
//! mistake in the protocol cannot hide in a shared definition.
//!
//! Each variant of [`Event`] says when it is written. Two rules hold for all of them:
//!
//! - Records are in the order in which the *application* of that process observed or did the things.
//! - `at_ns` comes from one clock per machine. Headers with the same clock text can be compared.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod action;
mod codec;
mod error;
mod event;
mod hash;
mod header;
mod reader;
mod text;
mod trace;
mod writer;

pub use action::{Action, Outcome};
pub use error::TraceError;
pub use event::{
    AskEnd, AskReply, AskStep, AskWant, CallOutcome, Event, LeaveReason, MembershipEnd, MembershipStep, Order, Phase,
    Record, SubmitStep, ToOneOutcome, Trouble,
};
pub use hash::payload_hash;
pub use header::{
    FORMAT_IN_DOUBT, FORMAT_LEFT_BEHIND, FORMAT_REPLAYED_VIEWS, FORMAT_STABLE, FORMAT_UNSENT, FORMAT_VERSION,
    FORMAT_VERSION_MIN, Header, MAGIC,
};
pub use reader::TraceReader;
pub use trace::Trace;
pub use writer::TraceWriter;

/// The longest record or header, in bytes: 1 MiB. A cell view of 1,024 members with the longest names fits.
pub const RECORD_BYTES_MAX: usize = 1 << 20;
