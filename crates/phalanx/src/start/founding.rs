//! How a process means to come into its cell.

use std::net::{IpAddr, SocketAddr};

use phalanx_core::Founding;

use super::Options;
use super::error::StartError;
use crate::local::{FoundingMark, Intent, LocalCell, Standing};

/// How a process means to come in, and what keeps it from founding twice.
#[derive(Debug)]
pub(crate) enum Plan {
    /// The lock of this host decides.
    ByLock,
    /// As its owner said.
    Told {
        founding: Founding,
        seeds: Vec<SocketAddr>,
        /// For a fixed founder.
        mark: Option<FoundingMark>,
        /// A founder that founded before: it only joins.
        marked: bool,
        /// Everybody of this host who lives can be reached.
        loopback: bool,
    },
}

impl Plan {
    pub(super) fn new(
        options: &Options,
        local: &LocalCell,
        name: &str,
        seeds: Vec<SocketAddr>,
    ) -> Result<Self, StartError> {
        let config = &options.config;
        let founders = &config.founders;
        let founding = match &options.founding {
            Some(founding) => founding.clone(),
            None if founders.iter().any(|founder| founder == name) => Founding::Named(founders.clone()),
            None if !seeds.is_empty() || !founders.is_empty() => Founding::Join,
            None if config.bind.is_loopback() => return Ok(Self::ByLock),
            None => return Err(StartError::NoWayIn { bind: config.bind }),
        };
        Ok(Self::told(founding, local, name, seeds, config.bind))
    }

    fn told(founding: Founding, local: &LocalCell, name: &str, seeds: Vec<SocketAddr>, bind: IpAddr) -> Self {
        let mark = matches!(founding, Founding::Named(_)).then(|| local.founding_mark(name));
        let marked = mark.as_ref().is_some_and(FoundingMark::is_set);
        let founding = match mark.as_ref().filter(|_| marked) {
            Some(mark) => mark.instance().map_or(Founding::Join, Founding::Marked),
            None => founding,
        };
        Self::Told { founding, seeds, mark, marked, loopback: bind.is_loopback() }
    }

    pub(super) fn intent(&self) -> Intent {
        match self {
            Self::ByLock => Intent::ByLock,
            Self::Told { .. } => Intent::AsTold,
        }
    }

    /// What the lock decided, in the core's terms.
    pub(super) fn resolve(&self, standing: Standing) -> (Founding, Vec<SocketAddr>) {
        match (self, standing) {
            (Self::ByLock, Standing::Found) => (Founding::Alone, Vec::new()),
            (Self::ByLock, Standing::Join(seeds)) => (Founding::Join, seeds),
            (Self::Told { founding, seeds, loopback, .. }, standing) => {
                let mut seeds = seeds.clone();
                if let (Standing::Join(living), true) = (standing, *loopback) {
                    seeds.extend(living);
                }
                (founding.clone(), seeds)
            }
        }
    }

    /// Whether the living of this host are places to look for the cell.
    pub(crate) fn looks_here(&self) -> bool {
        match self {
            Self::ByLock => true,
            Self::Told { loopback, .. } => *loopback,
        }
    }

    pub(crate) fn mark(&self) -> Option<&FoundingMark> {
        match self {
            Self::ByLock => None,
            Self::Told { mark, .. } => mark.as_ref(),
        }
    }

    pub(super) fn notices(&self) -> Vec<String> {
        match self {
            Self::Told { marked: true, mark: Some(mark), .. } => vec![format!(
                "this founder took part in a founding before, so it only joins; if the cell is no more anywhere, \
                 remove {} at each founder",
                mark.path().display()
            )],
            Self::ByLock | Self::Told { .. } => Vec::new(),
        }
    }
}
