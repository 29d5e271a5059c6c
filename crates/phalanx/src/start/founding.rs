//! How a process means to come into its cell.

use std::net::SocketAddr;

use phalanx_core::Founding;
use phalanx_core::member::{End, FounderRecord};

use super::Options;
use super::error::StartError;
use crate::config::founders_problem;
use crate::local::{Advert, Founder, Intent, LocalCell, LocalError, Standing};

/// How a process means to come in, and what keeps it from founding twice.
#[derive(Debug)]
pub(crate) enum Plan {
    /// The lock of this host decides.
    ByLock,
    /// As its owner said.
    Told {
        founding: Founding,
        seeds: Vec<SocketAddr>,
        /// Of a process with a name of its own: the name, and its record. `None`: another process has the name here.
        founder: Option<Box<Founder>>,
        /// It has a name of its own, and another process has it here.
        doubled: bool,
        /// Everybody of this host who lives can be reached.
        loopback: bool,
    },
}

impl Plan {
    pub(super) fn new(
        options: &Options,
        local: &LocalCell,
        advert: &Advert,
        seeds: Vec<SocketAddr>,
    ) -> Result<Self, StartError> {
        let config = &options.config;
        let founders = &config.founders;
        let founding = match &options.founding {
            Some(founding) => founding.clone(),
            None if founders.contains(&advert.name) => Founding::Named(founders.clone()),
            None if !seeds.is_empty() || !founders.is_empty() => Founding::Join,
            None if config.bind.is_loopback() => return Ok(Self::ByLock),
            None => return Err(StartError::NoWayIn { bind: config.bind }),
        };
        let mut doubled = false;
        let founder = match &founding {
            Founding::Named(names) => {
                founders_problem(names).map_or(Ok(()), |problem| Err(StartError::BadFounders { problem }))?;
                if config.name.is_none() {
                    return Err(StartError::NamelessFounder);
                }
                Some(Box::new(local.take_founder(&advert.name, advert)?))
            }
            Founding::Join if config.name.is_some() => match local.take_founder(&advert.name, advert) {
                Ok(founder) => Some(Box::new(founder)),
                // The cell says that its name is taken, or the other one is of another network.
                Err(LocalError::NameInUse { .. }) => {
                    doubled = true;
                    None
                }
                Err(other) => return Err(other.into()),
            },
            Founding::Alone | Founding::Join | Founding::Reform(_) => None,
        };
        Ok(Self::Told { founding, seeds, founder, doubled, loopback: config.bind.is_loopback() })
    }

    pub(super) fn intent(&self) -> Intent {
        match self {
            Self::ByLock => Intent::ByLock,
            Self::Told { .. } => Intent::AsConfigured,
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

    /// Whether it has the lock of its name.
    pub(super) fn has_name(&self) -> bool {
        matches!(self, Self::Told { founder: Some(_), .. })
    }

    /// Whether a later start of its name here shows that this process ended: one at a time has the name.
    pub(super) fn is_only_one(&self) -> bool {
        !matches!(self, Self::Told { doubled: true, .. })
    }

    /// Its name and its record, if it has the lock of its name. Whoever takes it keeps it for as long as the process lives.
    pub(crate) fn take_founder(&mut self) -> Option<Box<Founder>> {
        match self {
            Self::ByLock => None,
            Self::Told { founder, .. } => founder.take(),
        }
    }

    /// What it wrote down before.
    pub(super) fn record(&self) -> FounderRecord {
        match self {
            Self::Told { founder: Some(founder), .. } => founder.record().clone(),
            Self::ByLock | Self::Told { .. } => FounderRecord::default(),
        }
    }

    pub(super) fn notices(&self) -> Vec<String> {
        match self {
            Self::Told { founder: Some(founder), .. } if may_live(founder.record()) => vec![format!(
                "this founder was a member of the cell before ({}): it founds no other, unless it learns that all members left, or `phalanx reform --all-dead` says that the cell is no more",
                founder.path().display()
            )],
            Self::ByLock | Self::Told { .. } => Vec::new(),
        }
    }
}

/// Whether the instance that a founder was in may live, for all that it wrote down.
fn may_live(record: &FounderRecord) -> bool {
    let ended = record.end.as_ref().and_then(End::ended);
    let is_over = ended.is_some_and(|ended| ended.instance == record.instance() && ended.but_for.is_empty());
    record.mark.is_some() && !is_over
}
