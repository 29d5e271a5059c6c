//! How a process enters its cell.

use std::net::SocketAddr;

use phalanx_core::Founding;
use phalanx_core::member::{End, FounderRecord};

use super::Options;
use super::error::StartError;
use crate::config::founders_problem;
use crate::local::{Advert, Founder, Intent, LocalCell, LocalError, Standing};

/// How a process enters its cell, and what keeps it from founding the cell twice.
#[derive(Debug)]
pub(crate) enum Plan {
    /// The lock of this host decides. One that only joins never founds, and keeps nobody from founding.
    ByLock { joins_only: bool },
    /// As configured.
    Configured {
        founding: Founding,
        seeds: Vec<SocketAddr>,
        /// The record of a process with a name of its own. `None`: another process holds the name here.
        founder: Option<Box<Founder>>,
        /// It has a name of its own, and another process holds that here.
        doubled: bool,
        /// All living processes of this host can be reached from its address.
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
        let is_local = seeds.is_empty() && founders.is_empty() && config.bind.is_loopback();
        let founding = match &options.founding {
            Some(Founding::Join) if is_local => return Ok(Self::ByLock { joins_only: true }),
            Some(founding) => founding.clone(),
            None if founders.contains(&advert.name) => Founding::Named(founders.clone()),
            None if !seeds.is_empty() || !founders.is_empty() => Founding::Join,
            None if is_local => return Ok(Self::ByLock { joins_only: false }),
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
                // Not fatal: either the cell refuses the name as taken, or the other process is in another network.
                Err(LocalError::NameInUse { .. }) => {
                    doubled = true;
                    None
                }
                Err(other) => return Err(other.into()),
            },
            Founding::Alone | Founding::Join | Founding::Reform(_) => None,
        };
        Ok(Self::Configured { founding, seeds, founder, doubled, loopback: config.bind.is_loopback() })
    }

    pub(super) fn intent(&self) -> Intent {
        match self {
            Self::ByLock { joins_only: false } => Intent::ByLock,
            Self::ByLock { joins_only: true } => Intent::JoinOnly,
            Self::Configured { .. } => Intent::AsConfigured,
        }
    }

    /// The founding mode and seeds that follow from the lock's decision.
    pub(super) fn resolve(&self, standing: Standing) -> (Founding, Vec<SocketAddr>) {
        match (self, standing) {
            (Self::ByLock { .. }, Standing::Found) => (Founding::Alone, Vec::new()),
            (Self::ByLock { .. }, Standing::Join(seeds)) => (Founding::Join, seeds),
            (Self::Configured { founding, seeds, loopback, .. }, standing) => {
                let mut seeds = seeds.clone();
                if let (Standing::Join(living), true) = (standing, *loopback) {
                    seeds.extend(living);
                }
                (founding.clone(), seeds)
            }
        }
    }

    /// Whether the living processes of this host are seeds.
    pub(crate) fn looks_here(&self) -> bool {
        match self {
            Self::ByLock { .. } => true,
            Self::Configured { loopback, .. } => *loopback,
        }
    }

    /// Whether it holds the lock of its name.
    pub(super) fn has_name(&self) -> bool {
        matches!(self, Self::Configured { founder: Some(_), .. })
    }

    /// Whether a later start with its name on this host proves that this process ended, because only one at a time
    /// holds the name.
    pub(super) fn is_only_one(&self) -> bool {
        !matches!(self, Self::Configured { doubled: true, .. })
    }

    /// Its name and record, if it holds the lock of its name. The caller keeps them for as long as the process lives.
    pub(crate) fn take_founder(&mut self) -> Option<Box<Founder>> {
        match self {
            Self::ByLock { .. } => None,
            Self::Configured { founder, .. } => founder.take(),
        }
    }

    /// The record it wrote earlier; empty if it has none.
    pub(super) fn record(&self) -> FounderRecord {
        match self {
            Self::Configured { founder: Some(founder), .. } => founder.record().clone(),
            Self::ByLock { .. } | Self::Configured { .. } => FounderRecord::default(),
        }
    }

    pub(super) fn notices(&self) -> Vec<String> {
        match self {
            Self::Configured { founder: Some(founder), .. } if may_live(founder.record()) => vec![format!(
                "this founder was a member of the cell before ({}): it founds no other, unless it learns that all members left, or `phalanx reform --all-dead` says that the cell is no more",
                founder.path().display()
            )],
            Self::ByLock { .. } | Self::Configured { .. } => Vec::new(),
        }
    }
}

/// Whether the instance that a founder belonged to may still live, judging by its record.
fn may_live(record: &FounderRecord) -> bool {
    let ended = record.end.as_ref().and_then(End::ended);
    let is_over = ended.is_some_and(|ended| ended.instance == record.instance() && ended.but_for.is_empty());
    record.mark.is_some() && !is_over
}
