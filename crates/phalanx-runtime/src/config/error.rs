//! Errors of a configuration, and where each value came from.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// No source set it.
    Default,
    /// A line of a file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A variable of the environment.
    Environment {
        /// The variable's name.
        variable: String,
    },
    /// A flag of the command line.
    Flag {
        /// The flag as it is typed.
        flag: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment { variable } => write!(f, "environment {variable}"),
            Self::Flag { flag } => write!(f, "flag {flag}"),
        }
    }
}

/// Why a configuration was refused. Nothing was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// The file is not TOML.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The parser's message.
        message: String,
    },
    /// An unknown key.
    #[error("{origin}: there is no key '{key}'{}", suggestion(nearest.as_deref()))]
    UnknownKey {
        /// The origin of the key.
        origin: Origin,
        /// The key as written.
        key: String,
        /// The known key that is most similar.
        nearest: Option<String>,
    },
    /// A value that its key cannot take.
    #[error("{origin}: {key}: {problem}")]
    BadValue {
        /// The origin of the value.
        origin: Origin,
        /// The key.
        key: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
}
