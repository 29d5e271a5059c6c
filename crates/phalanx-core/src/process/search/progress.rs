//! How far a search has come: that for a cell, and that for others before the next instance is founded.

use std::net::SocketAddr;
use std::time::Duration;

use crate::process::founding::Foundation;
use crate::time::Instant;

/// Where this process asks for its cell.
pub(in crate::process) struct Probing {
    pub(in crate::process) seed_turn: usize,
    /// Nonces of the last two probes. Answers with other nonces are replays.
    pub(in crate::process) nonces: [u64; 2],
    /// When a member last asked around.
    pub(in crate::process) asked_at: Instant,
    /// The coordinator's address as last reported. A process that is not in the cell's newest view asks there first.
    pub(in crate::process) coordinator: Option<SocketAddr>,
}

/// The search for a cell.
pub(in crate::process) struct Search {
    pub(in crate::process) next_probe: Instant,
    pub(in crate::process) probes: u64,
    pub(in crate::process) answers: u64,
    pub(in crate::process) refused: Option<String>,
    /// Whether it was refused for a setting, which only a restart of some process changes.
    pub(in crate::process) differs: bool,
    /// Set while it is held back after an exclusion: when it was notified, and the members that it must be able to talk
    /// with first.
    pub(in crate::process) held_back: Option<(Instant, Vec<SocketAddr>)>,
    pub(in crate::process) next_report: Instant,
    pub(in crate::process) founding: Foundation,
}

impl Probing {
    pub(in crate::process) fn new(now: Instant) -> Self {
        Self { seed_turn: 0, nonces: [0; 2], asked_at: now, coordinator: None }
    }
}

impl Search {
    pub(in crate::process) fn new(now: Instant) -> Self {
        Self {
            next_probe: now,
            probes: 0,
            answers: 0,
            refused: None,
            differs: false,
            held_back: None,
            next_report: now + REPORT_EVERY,
            founding: Foundation::default(),
        }
    }

    pub(in crate::process) fn deadline(&self) -> Instant {
        self.next_probe
    }

    /// Addresses of the members that it must be able to talk with, while it is held back.
    pub(in crate::process) fn away_at(&self, now: Instant) -> Option<&[SocketAddr]> {
        let (told, away) = self.held_back.as_ref()?;
        (now.since(*told) < HELD_BACK_FOR).then_some(away)
    }
}

/// Time for which a process that was notified to wait does so, unless it is notified again.
pub(in crate::process) const HELD_BACK_FOR: Duration = Duration::from_secs(3);

/// Interval between reports of a search without result.
pub(in crate::process) const REPORT_EVERY: Duration = Duration::from_secs(3);

/// The search for others before the next instance is founded.
pub(in crate::process) struct ReformWait {
    pub(in crate::process) until: Instant,
    /// When the search last ran.
    pub(in crate::process) last: Instant,
}

impl ReformWait {
    pub(in crate::process) fn new(now: Instant, length: Duration) -> Self {
        Self { until: now + length, last: now }
    }

    /// Whether it has run for `length`. A process that did not run for half of that has missed what others did, so it
    /// searches anew.
    pub(in crate::process) fn is_over(&mut self, now: Instant, length: Duration) -> bool {
        if now.since(self.last) > length / 2 {
            self.until = now + length;
        }
        self.last = now;
        now >= self.until
    }
}
