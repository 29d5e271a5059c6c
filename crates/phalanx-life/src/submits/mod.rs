//! Messages to a group's state whose submitter is told what its own copy computed. States and rules: `docs/submit.md`.

mod client;
mod command;
mod records;
mod table;

pub use client::{NotSubmitted, Outgoing, Submitter};
pub use command::ClientId;
pub use records::SubmitLog;
pub use table::{Clients, Decided, Execution, OpenRefused, TableBounds, Taken, Told, Verdict};

/// The domain of a group's state that is the table of the clients of the domain `of`.
#[must_use]
pub fn clients_domain(of: &str) -> String {
    if of.is_empty() { CLIENTS.to_owned() } else { format!("{CLIENTS}.{of}") }
}

const CLIENTS: &str = "phalanx.clients";
