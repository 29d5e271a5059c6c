//! How far a search has come: that for a cell, and that for others before the next instance is founded.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use crate::process::founding::Foundation;
use crate::process::join::COOKIE_TTL;
use crate::time::Instant;

/// Where this process asks for its cell.
pub(in crate::process) struct Probing {
    pub(in crate::process) seed_turn: usize,
    /// Nonces of the probes of the last [`ANSWER_TTL`], with the time of each. Answers with other nonces are replays, or come
    /// too late.
    nonces: VecDeque<(Instant, u64)>,
    /// When a member last asked around.
    pub(in crate::process) asked_at: Instant,
    /// The coordinator's address as last reported. A process that is not in the cell's newest view asks there first.
    pub(in crate::process) coordinator: Option<SocketAddr>,
}

/// Time for which an answer to a probe is taken. As long as a challenge is valid: a process from which answers take
/// longer could not join either.
const ANSWER_TTL: Duration = COOKIE_TTL;

/// Upper bound on the nonces that are remembered: those of 4 s at the default interval of 100 ms, and as many again for
/// probes that a challenge hastens. Later ones displace the earliest.
const NONCES_MAX: usize = 80;

/// The search for a cell.
pub(in crate::process) struct Search {
    pub(in crate::process) next_probe: Instant,
    pub(in crate::process) probes: u64,
    pub(in crate::process) answers: u64,
    /// Answers that came when their probe was forgotten.
    pub(in crate::process) late_answers: u64,
    pub(in crate::process) refused: Option<String>,
    /// When the coordinator last answered. Before it did, when a member first did.
    pub(in crate::process) coordinator_answered: Option<Instant>,
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
        Self { seed_turn: 0, nonces: VecDeque::new(), asked_at: now, coordinator: None }
    }

    /// Notes the nonce of a probe.
    pub(in crate::process) fn asks(&mut self, now: Instant, nonce: u64) {
        self.nonces.retain(|(at, _)| now.since(*at) < ANSWER_TTL);
        if self.nonces.len() == NONCES_MAX {
            self.nonces.pop_front();
        }
        self.nonces.push_back((now, nonce));
    }

    /// Whether an answer with this nonce is one to a recent probe of this process.
    pub(in crate::process) fn is_answer(&self, now: Instant, nonce: u64) -> bool {
        self.nonces.iter().any(|(at, asked)| *asked == nonce && now.since(*at) < ANSWER_TTL)
    }

    #[cfg(test)]
    pub(in crate::process) fn last_nonce(&self) -> u64 {
        self.nonces.back().map_or(0, |(_, nonce)| *nonce)
    }
}

impl Search {
    pub(in crate::process) fn new(now: Instant) -> Self {
        Self {
            next_probe: now,
            probes: 0,
            answers: 0,
            late_answers: 0,
            refused: None,
            coordinator_answered: None,
            differs: false,
            held_back: None,
            next_report: now + REPORT_EVERY,
            founding: Foundation::default(),
        }
    }

    pub(in crate::process) fn deadline(&self) -> Instant {
        self.next_probe
    }

    /// Whether members answer and the coordinator has not for `patience`: then any member is asked to take this process
    /// in. The coordinator may not be able to talk with processes that are no members.
    pub(in crate::process) fn asks_anybody(&self, now: Instant, patience: Duration) -> bool {
        self.coordinator_answered.is_some_and(|at| now.since(at) >= patience)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_count_for_four_seconds_and_for_so_many_probes() {
        let start = Instant(1_000_000_000);
        let mut probing = Probing::new(start);
        probing.asks(start, 7);
        assert!(probing.is_answer(start + ANSWER_TTL - Duration::from_nanos(1), 7));
        assert!(!probing.is_answer(start + ANSWER_TTL, 7) && !probing.is_answer(start, 8));
        for nonce in 0..NONCES_MAX as u64 {
            probing.asks(start, 100 + nonce);
        }
        assert!(!probing.is_answer(start, 7), "the earliest is displaced");
        assert!(probing.is_answer(start, 100));
        probing.asks(start + ANSWER_TTL, 8);
        assert_eq!((probing.nonces.len(), probing.last_nonce()), (1, 8));
    }
}
