//! The start of a trace file.

use serde::{Deserialize, Serialize};

/// The first eight bytes of every trace file.
pub const MAGIC: [u8; 8] = *b"PHXTRACE";

/// The format version this crate writes. Files of a later version are refused.
///
/// Versions 2 to 20 added events and reasons for leaving, at the end of their lists.
pub const FORMAT_VERSION: u16 = 20;

/// From this version on a process's trace reports accepted multicasts that were not sent ([`crate::Event::Unsent`]).
pub const FORMAT_UNSENT: u16 = 8;

/// From this version on it reports messages to one process that are in doubt ([`crate::Event::InDoubt`]).
pub const FORMAT_IN_DOUBT: u16 = 10;

/// From this version on it reports multicasts that are stable ([`crate::Event::Stable`]).
pub const FORMAT_STABLE: u16 = 11;

/// From this version on it reports that the end of its cell is in doubt ([`crate::Event::EndInDoubt`]).
pub const FORMAT_LEFT_BEHIND: u16 = 14;

/// From this version on it reports the views within a state transfer ([`crate::Event::GroupViewReplayed`]).
pub const FORMAT_REPLAYED_VIEWS: u16 = 15;

/// The oldest format version this crate reads.
pub const FORMAT_VERSION_MIN: u16 = 1;

/// The first record of a file: the process it belongs to, and its clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The cell's name.
    pub cell: String,
    /// The process's name, which stays over restarts.
    pub node: String,
    /// The incarnation, or 0 for the harness.
    pub incarnation: u64,
    /// The clock of `at_ns`. Times compare only between traces with the same text here.
    pub clock: String,
    /// Whether the writer hands its records to the operating system before another process can see their effects. If
    /// so, a file that simply stops holds everything that mattered; otherwise its last records may be lost.
    pub write_ahead: bool,
    /// The format version it was written in. It precedes the header in the file.
    #[serde(skip)]
    pub format: u16,
}

impl Header {
    /// The header of a process's trace.
    #[must_use]
    pub fn process(cell: &str, node: &str, incarnation: u64, clock: &str) -> Self {
        Self {
            cell: cell.into(),
            node: node.into(),
            incarnation,
            clock: clock.into(),
            write_ahead: false,
            format: FORMAT_VERSION,
        }
    }

    /// The header of the harness's trace.
    #[must_use]
    pub fn harness(cell: &str, clock: &str) -> Self {
        Self::process(cell, "harness", 0, clock)
    }

    /// The same header, with [`Self::write_ahead`] set.
    #[must_use]
    pub fn with_write_ahead(self) -> Self {
        Self { write_ahead: true, ..self }
    }

    /// Whether this is the harness's trace.
    #[must_use]
    pub fn is_harness(&self) -> bool {
        self.incarnation == 0
    }
}
