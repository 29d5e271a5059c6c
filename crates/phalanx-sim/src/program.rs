//! The domains of the simulated applications' states: which of them a process has follows from the version of its program,
//! and that rises.

use std::collections::BTreeMap;

use phalanx_core::{Delivery, Domain, DomainIndex, DomainMismatch, OwnDomain};

use crate::oracle::hash_bytes;

/// The names of the domains; the first is the state itself.
pub(crate) const DOMAINS: [&str; 3] = ["", "x", "y"];

/// The domain of the clients who submit to the state.
pub(crate) const CLIENTS: &str = "phalanx.clients";

/// The last version of the program.
const LAST: u8 = 2;

/// One of this number of messages in total order names a domain.
const NAMED_EVERY: u64 = 4;

/// The program of one process.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// Whether its versions have further domains; else it has the state itself in all of them.
    pub(crate) has_domains: bool,
    version: u8,
    /// In groups for which another version was needed: their lists differ.
    versions: BTreeMap<String, u8>,
    moments: BTreeMap<&'static str, u64>,
}

impl Program {
    /// The program of a process at its first start.
    pub(crate) fn new(version: u8) -> Self {
        Self { has_domains: true, version, ..Self::default() }
    }

    /// The next start has a later version, if there is one.
    pub(crate) fn rise(&mut self) {
        self.version = LAST.min(self.version + 1);
        self.versions.values_mut().for_each(|version| *version = LAST.min(*version + 1));
    }

    /// What it has for the state of each group: the first version has the state alone, the next one another domain that a group
    /// may lack, and the last one needs that and has a third. From the second on groups may have clients.
    pub(crate) fn own(&self, group: &str) -> Vec<OwnDomain> {
        let own = |name: &str, is_optional| OwnDomain { domain: Domain { name: name.into(), version: 1 }, is_optional };
        match self.versions.get(group).unwrap_or(&self.version) {
            _ if !self.has_domains => vec![OwnDomain::unnamed()],
            0 => vec![own("", false)],
            1 => vec![own("", false), own("x", true), own(CLIENTS, true)],
            _ => vec![own("y", true), own("x", false), own("", false), own(CLIENTS, true)],
        }
    }

    /// It was refused, and is started again in the version that suits, as an operator would do.
    pub(crate) fn refused(&mut self, group: &str, mismatch: &DomainMismatch) {
        let version = *self.versions.get(group).unwrap_or(&self.version);
        let suits = match mismatch {
            DomainMismatch::Lacks(_) => {
                self.note("processes refused because they lack a domain");
                LAST.min(version + 1)
            }
            DomainMismatch::Needs(_) => {
                self.note("processes refused because they need a domain");
                version.saturating_sub(1)
            }
        };
        self.versions.insert(group.to_owned(), suits);
    }

    pub(crate) fn note(&mut self, moment: &'static str) {
        *self.moments.entry(moment).or_default() += 1;
    }

    pub(crate) fn take_moments(&mut self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut self.moments)
    }

    /// The domain that a message in total order is to name, if any. Its payload decides, so that no other draw of the seed
    /// changes.
    pub(crate) fn names(&self, payload: &[u8]) -> Option<&'static str> {
        let hash = hash_bytes(payload).rotate_left(48);
        let is_named = self.has_domains && hash.is_multiple_of(NAMED_EVERY);
        let at = usize::try_from(hash / NAMED_EVERY % DOMAINS.len() as u64).unwrap_or(0);
        is_named.then(|| DOMAINS[at])
    }
}

/// The place of the clients in a group's list.
pub(crate) fn place_of_clients(list: &[Domain]) -> Option<DomainIndex> {
    DomainIndex::of(list, CLIENTS)
}

/// The place of each of [`DOMAINS`] in a group's list.
pub(crate) fn places(list: &[Domain]) -> [Option<DomainIndex>; DOMAINS.len()] {
    DOMAINS.map(|name| DomainIndex::of(list, name))
}

/// Whether a message is one to the clients of its group.
pub(crate) fn is_of_clients(list: &[Domain], delivery: &Delivery<'_>) -> bool {
    delivery.domain.is_some() && delivery.domain == place_of_clients(list)
}
