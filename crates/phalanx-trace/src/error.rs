//! Errors of trace files.

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
        /// The system's error.
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
    /// Bytes that are no record, other than a record that is cut off at the end.
    #[error("{file}: malformed at byte {offset}: {what}")]
    Malformed {
        /// The file.
        file: String,
        /// The offset at which the record begins.
        offset: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A record longer than [`crate::RECORD_BYTES_MAX`]. It was not written, and the writer can go on.
    #[error("{file}: a record of {len_bytes} bytes is too long")]
    TooLong {
        /// The file.
        file: String,
        /// The record's length.
        len_bytes: usize,
    },
}
