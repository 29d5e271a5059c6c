//! What goes wrong between a tap and the process that it looks at.

use std::io;

use crate::local::LocalError;

/// Why a tap cannot be attached, or shows no more. The process that it looks at is not affected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TapError {
    /// The runtime directory cannot be used.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// The process refused: its filter, its form, or too many readers. The text says what to do.
    #[error("{0}")]
    Refused(String),
    /// The process belongs to another user.
    #[error("process {pid} belongs to user {owner}: only that user can look at its packets, not even root")]
    OtherUser {
        /// The process.
        pid: u32,
        /// The number of its user.
        owner: u32,
    },
    /// The process is not polled.
    #[error("process {pid} does not answer: it is stopped, or its program does not poll it")]
    Silent {
        /// The process.
        pid: u32,
    },
    /// The process ended, or detached this reader.
    #[error("process {pid} ended, or detached this reader")]
    Ended {
        /// The process.
        pid: u32,
    },
    /// It said what this build does not understand.
    #[error("process {pid} is of another build, and says what this one does not understand: {what}")]
    Unknown {
        /// The process.
        pid: u32,
        /// What it said.
        what: String,
    },
    /// The system refused.
    #[error("cannot {what}: {source}")]
    System {
        /// What failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl TapError {
    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
