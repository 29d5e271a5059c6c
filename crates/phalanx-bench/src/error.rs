//! Why a measurement ended without a figure.

use std::fmt::Display;

/// Why a benchmark, or one of its cases, gave no figure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The command line makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A process of this benchmark failed, fell silent, or sent something unexpected.
    #[error("{0}")]
    Child(String),
    /// A system call failed.
    #[error("{doing}: {source}")]
    System {
        /// The attempted operation.
        doing: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// These cases gave no figures, though others did. Each was reported when it failed.
    #[error("without a figure: {}", .0.join(", "))]
    Failed(Vec<String>),
}

/// Adds the attempted operation to a system error.
pub(crate) trait While<T> {
    /// Converts the error, with `doing` as the attempted operation.
    fn when(self, doing: impl Display) -> Result<T, BenchError>;
}

impl<T, E: Into<std::io::Error>> While<T> for Result<T, E> {
    fn when(self, doing: impl Display) -> Result<T, BenchError> {
        self.map_err(|error| BenchError::System { doing: doing.to_string(), source: error.into() })
    }
}
