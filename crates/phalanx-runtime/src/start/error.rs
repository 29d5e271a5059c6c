//! Errors of starting a process.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use phalanx_driver::BindError;

use crate::local::LocalError;

/// Why a process could not start. Nothing is left behind. Each text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A socket could not be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The runtime directory, the state directory or a key file cannot be used, or another process of this name lives.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// A name is empty or too long.
    #[error("bad {what} name {name:?}: {}", phalanx_core::BadName)]
    BadName {
        /// The kind of name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The list of founders is invalid.
    #[error("founders: {problem}")]
    BadFounders {
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A founder has no configured name.
    #[error("a founder is recognised by its name after a restart: set `name` to one of the `founders`")]
    NamelessFounder,
    /// A seed is no address, or its host name cannot be resolved.
    #[error("seed {seed:?}: {source}; a seed is the control address of a member, as host:port")]
    Seed {
        /// The seed as configured.
        seed: String,
        /// The system's error.
        source: io::Error,
    },
    /// Other hosts can reach this process, and neither seeds nor founders are configured.
    #[error(
        "{bind} is reached from other hosts, so this host's lock cannot decide who founds the cell: \
             name `seeds` to join at, or the `founders`"
    )]
    NoWayIn {
        /// The configured address.
        bind: IpAddr,
    },
    /// Other hosts can reach this process, and no key is configured.
    #[error("{bind} is reached from other hosts, so all need one `cell_key`: copy {} to every host and name it", local.display())]
    NoKey {
        /// The configured address.
        bind: IpAddr,
        /// The file of this host's own key.
        local: PathBuf,
    },
    /// All interfaces are bound, and no seed shows which address others should use.
    #[error("{bind} stands for all interfaces: bind the one address other members reach this host by")]
    NoAddress {
        /// The configured address.
        bind: IpAddr,
    },
    /// The trace directory cannot be used.
    #[error("cannot write traces to {}: {source}", path.display())]
    Trace {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system's random generator failed.
    #[error("the system gives no random bits: {0}")]
    Entropy(io::Error),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}; raise the limit with `ulimit -u`")]
    Thread(io::Error),
}
