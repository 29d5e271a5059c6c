//! Why a process could not start.

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
    #[error("bad {what} name {name:?}: it must have 1 to 200 bytes")]
    BadName {
        /// Whose name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The list of founders makes no sense.
    #[error("founders: {problem}")]
    BadFounders {
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A founder has no name of its own.
    #[error("a founder is known by its name, also after it was started again: set `name` to one of the `founders`")]
    NamelessFounder,
    /// A seed is no address, or its host is not known.
    #[error("seed {seed:?}: {source}; a seed is the control address of a member, as host:port")]
    Seed {
        /// What was given.
        seed: String,
        /// What the system said.
        source: io::Error,
    },
    /// Other hosts can reach this process, and nothing says how the cell is founded.
    #[error(
        "{bind} is reached from other hosts, so this host's lock cannot decide who founds the cell: \
             name `seeds` to join at, or the `founders`"
    )]
    NoWayIn {
        /// The address to bind.
        bind: IpAddr,
    },
    /// Other hosts can reach this process, and no key was named.
    #[error("{bind} is reached from other hosts, so all need one `cell_key`: copy {} to every host and name it", local.display())]
    NoKey {
        /// The address to bind.
        bind: IpAddr,
        /// This host's own key.
        local: PathBuf,
    },
    /// All interfaces were bound, and which address others should use is not known.
    #[error("{bind} stands for all interfaces: bind the one address other members reach this host by")]
    NoAddress {
        /// The address to bind.
        bind: IpAddr,
    },
    /// The trace directory cannot be used.
    #[error("cannot write traces to {}: {source}", path.display())]
    Trace {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system gives no random bits.
    #[error("the system gives no random bits: {0}")]
    Entropy(io::Error),
    /// No thread could be started.
    #[error("cannot start the protocol thread: {0}; raise the limit with `ulimit -u`")]
    Thread(io::Error),
}
