//! How a process means to come into its cell.

use std::net::{IpAddr, SocketAddr};

use phalanx_core::Founding;
use phalanx_core::member::FounderRecord;

use super::Options;
use super::error::StartError;
use crate::local::{Intent, LocalCell, RecordFile, Standing};

/// How a process means to come in, and what keeps it from founding twice.
#[derive(Debug)]
pub(crate) enum Plan {
    /// The lock of this host decides.
    ByLock,
    /// As its owner said.
    Told {
        founding: Founding,
        seeds: Vec<SocketAddr>,
        /// For a fixed founder: where it keeps its record, and what that holds.
        record: Option<(RecordFile, FounderRecord)>,
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
        Self::told(founding, local, name, seeds, config.bind)
    }

    fn told(
        founding: Founding,
        local: &LocalCell,
        name: &str,
        seeds: Vec<SocketAddr>,
        bind: IpAddr,
    ) -> Result<Self, StartError> {
        let file = matches!(founding, Founding::Named(_)).then(|| local.record_file(name));
        let record = file.map(|file| file.read().map(|record| (file, record))).transpose()?;
        Ok(Self::Told { founding, seeds, record, loopback: bind.is_loopback() })
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

    /// Where a fixed founder keeps its record.
    pub(crate) fn record_file(&self) -> Option<&RecordFile> {
        match self {
            Self::ByLock => None,
            Self::Told { record, .. } => record.as_ref().map(|(file, _)| file),
        }
    }

    /// What a fixed founder left there before.
    pub(super) fn record(&self) -> FounderRecord {
        match self {
            Self::ByLock => FounderRecord::default(),
            Self::Told { record, .. } => record.as_ref().map(|(_, record)| record.clone()).unwrap_or_default(),
        }
    }

    pub(super) fn notices(&self) -> Vec<String> {
        match self {
            Self::Told { record: Some((file, record)), .. } if record.mark.is_some() => vec![format!(
                "this founder was a member of the cell before ({}): it founds no other, unless `phalanx reform --all-dead` says that the cell is no more",
                file.path().display()
            )],
            Self::ByLock | Self::Told { .. } => Vec::new(),
        }
    }
}
