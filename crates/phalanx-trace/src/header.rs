//! How a trace file begins.

use serde::{Deserialize, Serialize};

/// The first eight bytes of every trace file.
pub const MAGIC: [u8; 8] = *b"PHXTRACE";

/// The format version this crate writes. Files of a later version are refused.
///
/// Versions 2 to 10 added events, and reasons for leaving, at the end of their lists.
pub const FORMAT_VERSION: u16 = 10;

/// Since this version the trace of a process tells which multicasts were accepted and not sent.
pub const FORMAT_UNSENT: u16 = 8;

/// Since this version it tells which messages to one process are in doubt.
pub const FORMAT_IN_DOUBT: u16 = 10;

/// The oldest format version this crate reads.
pub const FORMAT_VERSION_MIN: u16 = 1;

/// Whose trace it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The cell's name.
    pub cell: String,
    /// The process's name; survives its restarts.
    pub node: String,
    /// The incarnation, or 0 for the harness.
    pub incarnation: u64,
    /// Which clock `at_ns` is read from. Times are compared only between traces with the same text here.
    pub clock: String,
    /// The writer hands its records to the operating system before anything they tell of can be seen by another
    /// process. Then a file that simply stops still holds all that mattered; otherwise its last records may be lost.
    pub write_ahead: bool,
    /// The format version it was written in. Stands before the header.
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

    /// The same, with [`Self::write_ahead`] promised.
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
