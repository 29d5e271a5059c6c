//! What can be wrong with a configuration, and where.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
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
        /// What the system said.
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
        /// What the parser expected.
        message: String,
    },
    /// A key that is not known.
    #[error("{origin}: there is no key '{key}'{}", suggestion(nearest.as_deref()))]
    UnknownKey {
        /// Where it stands.
        origin: Origin,
        /// The key as written.
        key: String,
        /// The known key that looks most like it.
        nearest: Option<String>,
    },
    /// A value that its key cannot take.
    #[error("{origin}: {key}: {problem}")]
    BadValue {
        /// Where it stands.
        origin: Origin,
        /// The key.
        key: String,
        /// What is wrong and what would be right.
        problem: String,
    },
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
}
