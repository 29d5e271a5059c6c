//! What can be wrong with a trace file.

use std::io;

/// Why a trace could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file could not be opened, read or written.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// The file does not begin like a trace.
    #[error("{file}: not a trace file (it does not begin with PHXTRACE)")]
    NotATrace {
        /// The file.
        file: String,
    },
    /// The file ends inside its header: its writer was killed before it recorded anything.
    #[error("{file}: the file ends inside its header; nothing was recorded")]
    Empty {
        /// The file.
        file: String,
    },
    /// The file has a format version this program does not know.
    #[error("{file}: trace format version {found}, this program reads {min} to {max}", min = crate::FORMAT_VERSION_MIN, max = crate::FORMAT_VERSION)]
    Version {
        /// The file.
        file: String,
        /// The version found.
        found: u16,
    },
    /// Bytes that are no record, and not merely cut off at the end.
    #[error("{file}: malformed at byte {offset}: {what}")]
    Malformed {
        /// The file.
        file: String,
        /// Where the record begins.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A record longer than [`crate::RECORD_BYTES_MAX`]; it was not written.
    #[error("{file}: a record of {len_bytes} bytes is too long")]
    TooLong {
        /// The file.
        file: String,
        /// Its length.
        len_bytes: usize,
    },
}
