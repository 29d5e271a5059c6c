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
    /// A process of this benchmark failed, fell silent or did something else than it was told.
    #[error("{0}")]
    Child(String),
    /// The system refused something.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Some cases gave figures and these did not; each was told of when it failed.
    #[error("without a figure: {}", .0.join(", "))]
    Failed(Vec<String>),
}

/// Says what was being done when the system refused.
pub(crate) trait While<T> {
    /// The error with a word on what was being done.
    fn when(self, doing: impl Display) -> Result<T, BenchError>;
}

impl<T, E: Into<std::io::Error>> While<T> for Result<T, E> {
    fn when(self, doing: impl Display) -> Result<T, BenchError> {
        self.map_err(|error| BenchError::System { doing: doing.to_string(), source: error.into() })
    }
}
