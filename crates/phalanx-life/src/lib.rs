//! The life of a process's memberships, messages and calls, as its application is told of it.
//!
//! The core reports what is decided: views, deliveries, bound and stable multicasts, states that begin and end. An
//! application wants more: a membership that goes on through exclusions, one outcome for each message, no outcome while
//! too few members hold the group's state, and an end that says why. [`Lives`] turns the one into the other. It has no
//! thread, socket, clock or inbox: it takes what the core reports, and gives ordered steps to a [`Front`], which hands
//! them to the application its own way. What the application reads by itself is shown in the order of a
//! [`Publication`].
//!
//! The protocol thread and the inline process of the crate `phalanx` are such fronts, and so is the simulated application.
//! A call for a server that a directory names is decided here, too: [`Route`] says whom to ask next and what the caller is
//! told, and [`Servers`] is the directory. So is what becomes of a message that is submitted to a group's state: [`Clients`] is the
//! table in the state, and [`Submitter`] is the side of who submits.
//!
//! [`Lives::record`] turns on records of what is told about messages and memberships, which `phalanx check` judges.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod asks;
mod front;
mod lives;
mod membership;
mod messages;
mod publication;
mod records;
mod route;
mod servers;
mod submits;
mod tally;
mod to_one;

pub use asks::{Answer, Ask, AskEnd, AskId, AskNumber, Asked, Filled, Reply, Want};
pub use front::{Bound, End, Front, Key, Refusal, ShownView, Step};
pub use lives::{Asking, CoreNotes, Lives, MessagesToOne};
pub use messages::{Batch, Message, NextMessage, Payloads, Queued};
pub use publication::{Publication, Publishes, Shown};
pub use records::Reason;
pub use route::{Attempt, CallStep, Route, split_request, with_deadline};
pub use servers::{Destination, Entry, Found, Known, Servers, Silent};
pub use submits::{
    ClientId, Clients, Decided, Execution, NotSubmitted, OpenRefused, Outgoing, SubmitLog, Submitter, TableBounds,
    Taken, Told, Verdict, clients_domain,
};
pub use to_one::{MessageTo, NextToOne};
