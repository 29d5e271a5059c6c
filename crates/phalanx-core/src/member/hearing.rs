//! Who hears whom: the evidence for suspicion.
//!
//! Heartbeats name whom their sender hears. A link unheard either way accuses both ends, and the accusation
//! lapses when it is heard again: nothing here is final, only a decided view excludes.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::time::Instant;

/// What this process knows of the link from and to one member.
#[derive(Clone, Debug)]
pub struct Link {
    /// When anything was last heard from it.
    pub last_heard: Instant,
    /// When its last heartbeat came, and how irregular they are.
    last_beat: Instant,
    jitter: Duration,
    /// Whom it hears, by rank, as of its last heartbeat in this decree; `None` before the first.
    hears: Option<Vec<bool>>,
    /// It proved dead, whatever was heard.
    pub dead: bool,
}

/// The view's links as seen from one member.
#[derive(Clone, Debug)]
pub struct Hearing {
    me: usize,
    links: Vec<Link>,
    suspect_after: Duration,
    beat: Duration,
}

impl Hearing {
    /// A fresh view: everybody counts as heard now.
    #[must_use]
    pub fn new(me: usize, members: usize, now: Instant, suspect_after: Duration, beat: Duration) -> Self {
        let link = Link { last_heard: now, last_beat: now, jitter: Duration::ZERO, hears: None, dead: false };
        Self { me, links: vec![link; members], suspect_after, beat }
    }

    /// Something was heard from `rank`.
    pub fn heard(&mut self, now: Instant, rank: usize) {
        if let Some(link) = self.links.get_mut(rank) {
            link.last_heard = now;
        }
    }

    /// A heartbeat of this decree: `hears` by rank.
    pub fn beat(&mut self, now: Instant, rank: usize, hears: Vec<bool>) {
        if let Some(link) = self.links.get_mut(rank) {
            let off = now.since(link.last_beat).abs_diff(self.beat);
            link.jitter = (link.jitter * 7 + off.min(self.suspect_after)) / 8;
            link.last_beat = now;
            link.hears = Some(hears);
        }
    }

    /// The operating system proved `rank` dead.
    pub fn died(&mut self, rank: usize) {
        if let Some(link) = self.links.get_mut(rank) {
            link.dead = true;
        }
    }

    /// Whether `rank` was proved dead.
    #[must_use]
    pub fn is_dead(&self, rank: usize) -> bool {
        self.links.get(rank).is_some_and(|l| l.dead)
    }

    /// This process was away for `gap` (stopped, starved, its clock jumped): what it did not hear meanwhile
    /// accuses nobody.
    pub fn forgive(&mut self, gap: Duration) {
        for link in &mut self.links {
            link.last_heard += gap;
            link.last_beat += gap;
        }
    }

    /// How long silence on this link is bearable: the setting, and more where heartbeats come irregularly.
    fn patience(&self, link: &Link) -> Duration {
        self.suspect_after + (link.jitter * 4).min(self.suspect_after)
    }

    /// Whether this process hears `rank`.
    #[must_use]
    pub fn hears(&self, now: Instant, rank: usize) -> bool {
        rank == self.me || self.links.get(rank).is_some_and(|l| !l.dead && now.since(l.last_heard) < self.patience(l))
    }

    /// Whom this process hears, by rank.
    #[must_use]
    pub fn heard_by_me(&self, now: Instant) -> Vec<bool> {
        (0..self.links.len()).map(|r| self.hears(now, r)).collect()
    }

    /// Whether `a` hears `b`, as far as is known here; what `a` has not said counts as yes.
    fn says_it_hears(&self, now: Instant, a: usize, b: usize) -> bool {
        if a == self.me {
            return self.hears(now, b);
        }
        self.links[a].hears.as_ref().is_none_or(|h| h.get(b).copied().unwrap_or(true))
    }

    /// Whom `rank` says it hears.
    #[must_use]
    pub fn heard_by(&self, now: Instant, rank: usize) -> Vec<bool> {
        (0..self.links.len()).map(|b| self.says_it_hears(now, rank, b)).collect()
    }

    /// Candidates for leaving: those proved dead or in `leaving`; those not heard here; then, while accused links
    /// remain among the others, whoever has most (ties: the younger).
    #[must_use]
    pub fn candidates(&self, now: Instant, leaving: &BTreeSet<usize>) -> BTreeSet<usize> {
        let n = self.links.len();
        let mut out: BTreeSet<usize> =
            (0..n).filter(|&r| leaving.contains(&r) || (r != self.me && !self.hears(now, r))).collect();
        loop {
            let rest: Vec<usize> = (0..n).filter(|r| !out.contains(r)).collect();
            let accused = |p: usize| {
                rest.iter()
                    .filter(|&&q| q != p && !(self.says_it_hears(now, p, q) && self.says_it_hears(now, q, p)))
                    .count()
            };
            let worst = rest.iter().map(|&p| (accused(p), p)).filter(|&(a, p)| a > 0 && p != self.me).max();
            match worst {
                Some((_, p)) => out.insert(p),
                None => return out,
            };
        }
    }

    /// When the next link may fall silent.
    #[must_use]
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        (0..self.links.len())
            .filter(|&r| r != self.me && self.hears(now, r))
            .map(|r| self.links[r].last_heard + self.patience(&self.links[r]))
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn hearing(n: usize) -> Hearing {
        Hearing::new(0, n, at(0), Duration::from_millis(900), Duration::from_millis(100))
    }

    /// Everybody but `silent` beats, and hears all but those in `deaf_to` (pairs listener, speaker).
    fn after(n: usize, silent: &[usize], deaf_to: &[(usize, usize)]) -> Hearing {
        let mut h = hearing(n);
        for r in (0..n).filter(|r| !silent.contains(r)) {
            let hears = (0..n).map(|s| !silent.contains(&s) && !deaf_to.contains(&(r, s))).collect();
            h.heard(at(2000), r);
            h.beat(at(2000), r, hears);
        }
        h
    }

    fn candidates(h: &Hearing) -> Vec<usize> {
        h.candidates(at(2001), &BTreeSet::new()).into_iter().collect()
    }

    #[test]
    fn the_silent_one_goes() {
        assert_eq!(candidates(&after(5, &[3], &[])), [3]);
        assert_eq!(candidates(&after(5, &[], &[])), [0usize; 0]);
    }

    #[test]
    fn a_deaf_member_goes_not_those_it_accuses() {
        assert_eq!(candidates(&after(5, &[], &[(2, 0), (2, 1), (2, 3), (2, 4)])), [2]);
    }

    #[test]
    fn one_cut_cable_costs_the_younger_end() {
        assert_eq!(candidates(&after(4, &[], &[(1, 2), (2, 1)])), [2]);
    }

    #[test]
    fn a_dead_one_goes_at_once() {
        let mut h = after(3, &[], &[]);
        h.died(1);
        assert_eq!(candidates(&h), [1]);
    }

    #[test]
    fn own_absence_accuses_nobody() {
        let mut h = hearing(3);
        h.forgive(Duration::from_secs(30));
        assert_eq!(h.candidates(at(30_100), &BTreeSet::new()).len(), 0);
    }
}
