//! How a process means to come into its cell.

use std::net::SocketAddr;

use phalanx_core::Founding;
use phalanx_core::member::FounderRecord;

use super::Options;
use super::error::StartError;
use crate::config::founders_problem;
use crate::local::{Card, Founder, Intent, LocalCell, Standing};

/// How a process means to come in, and what keeps it from founding twice.
#[derive(Debug)]
pub(crate) enum Plan {
    /// The lock of this host decides.
    ByLock,
    /// As its owner said.
    Told {
        founding: Founding,
        seeds: Vec<SocketAddr>,
        /// For a fixed founder: its name and its record.
        founder: Option<Box<Founder>>,
        /// Everybody of this host who lives can be reached.
        loopback: bool,
    },
}

impl Plan {
    pub(super) fn new(
        options: &Options,
        local: &LocalCell,
        card: &Card,
        seeds: Vec<SocketAddr>,
    ) -> Result<Self, StartError> {
        let config = &options.config;
        let founders = &config.founders;
        let founding = match &options.founding {
            Some(founding) => founding.clone(),
            None if founders.contains(&card.name) => Founding::Named(founders.clone()),
            None if !seeds.is_empty() || !founders.is_empty() => Founding::Join,
            None if config.bind.is_loopback() => return Ok(Self::ByLock),
            None => return Err(StartError::NoWayIn { bind: config.bind }),
        };
        let founder = match &founding {
            Founding::Named(names) => {
                founders_problem(names).map_or(Ok(()), |problem| Err(StartError::BadFounders { problem }))?;
                if config.name.is_none() {
                    return Err(StartError::NamelessFounder);
                }
                Some(Box::new(local.take_founder(&card.name, card)?))
            }
            Founding::Alone | Founding::Join | Founding::Reform(_) => None,
        };
        Ok(Self::Told { founding, seeds, founder, loopback: config.bind.is_loopback() })
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

    pub(super) fn is_founder(&self) -> bool {
        matches!(self, Self::Told { founder: Some(_), .. })
    }

    /// For a fixed founder: its name and its record. Whoever takes it keeps it for as long as the process lives.
    pub(crate) fn take_founder(&mut self) -> Option<Box<Founder>> {
        match self {
            Self::ByLock => None,
            Self::Told { founder, .. } => founder.take(),
        }
    }

    /// What a fixed founder wrote down before.
    pub(super) fn record(&self) -> FounderRecord {
        match self {
            Self::Told { founder: Some(founder), .. } => founder.record().clone(),
            Self::ByLock | Self::Told { .. } => FounderRecord::default(),
        }
    }

    pub(super) fn notices(&self) -> Vec<String> {
        match self {
            Self::Told { founder: Some(founder), .. } if founder.record().mark.is_some() => vec![format!(
                "this founder was a member of the cell before ({}): it founds no other, unless `phalanx reform --all-dead` says that the cell is no more",
                founder.path().display()
            )],
            Self::ByLock | Self::Told { .. } => Vec::new(),
        }
    }
}
