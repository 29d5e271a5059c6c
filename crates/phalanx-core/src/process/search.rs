//! The search for a cell: whom a process asks, and what it reports meanwhile. Members ask around, too: for others that
//! lost sight of the cell, and for the cell.

mod progress;

use std::net::SocketAddr;
use std::time::Duration;

use super::join::{JoinHandshake, PROBE_PADDING, REFORMING};
use super::{Process, Stage};
use crate::api::{Effects, Event, Founding};
use crate::id::{CellInstance, Rank, ViewNumber};
use crate::rng::Rng;
use crate::time::Instant;
use crate::wire::Tags;
use progress::REPORT_EVERY;

pub(super) use progress::{Probing, ReformWait, Search};

/// Number of seeds asked with one probe, in turn.
const SEEDS_AT_ONCE: usize = 4;

/// A member that hears no quorum asks around once in this many probe intervals.
const LONE_PROBE_EVERY: u32 = 5;

/// A coordinator asks at seeds where no member is once in this many probe intervals.
const STRANGER_PROBE_EVERY: u32 = 20;

/// A process that was refused for a setting asks once in this many probe intervals.
const DIFFERING_PROBE_EVERY: u32 = 10;

/// Upper bound on unheard members asked at a time: half of a large cell may ask about the other half.
const LONE_TARGETS_MAX: usize = 64;

const _: () = assert!(SEEDS_AT_ONCE > 0, "a probe goes somewhere");

const _: () = assert!(LONE_PROBE_EVERY < STRANGER_PROBE_EVERY, "a lone member looks for others more often");

/// Keeps as many random targets as may be asked at a time.
fn keep_some(targets: &mut Vec<SocketAddr>, rng: &mut Rng) {
    if targets.len() > LONE_TARGETS_MAX {
        let first = usize::try_from(rng.below(targets.len() as u64)).unwrap_or(0);
        targets.rotate_left(first);
        targets.truncate(LONE_TARGETS_MAX);
    }
}

impl Process {
    /// Takes one step of the search.
    pub(super) fn search(&mut self, now: Instant, fx: &mut dyn Effects) {
        if let Some(stop) = &self.leaving
            && now.since(stop.since) > Duration::ZERO
        {
            return self.end(Event::Left);
        }
        let mut targets = match self.set.founding {
            Founding::Alone => return self.found_alone(now, fx),
            Founding::Reform(_) => self.found_next(now, fx),
            Founding::Join | Founding::Named(_) => Vec::new(),
        };
        let Stage::Searching(search) = &mut self.stage else { return };
        if now < search.next_probe {
            return;
        }
        // Jitter keeps processes that start together from probing in step.
        let every = if search.differs { DIFFERING_PROBE_EVERY } else { 1 };
        search.next_probe = now + self.set.timing.probe * every + Duration::from_micros(self.rng.below(20_000));
        // Members that suspected it have to hear it first. It asks them, and they report with their heartbeats that
        // they can talk with it.
        targets.extend_from_slice(search.away_at(now).unwrap_or_default());
        targets.extend(self.probing.coordinator.filter(|told| !targets.contains(told)));
        let asked = self.probe(targets, None, fx);
        if let Stage::Searching(search) = &mut self.stage {
            search.probes += asked;
        }
        self.lead_founding(now, fx);
        self.report_search(now);
    }

    /// Asks `targets` and the next few seeds whether they are in the cell. Returns the number of addresses asked.
    pub(super) fn probe(
        &mut self,
        mut targets: Vec<SocketAddr>,
        member_of: Option<(CellInstance, ViewNumber)>,
        fx: &mut dyn Effects,
    ) -> u64 {
        for _ in 0..self.set.seeds.len().min(SEEDS_AT_ONCE) {
            let seed = self.set.seeds[self.probing.seed_turn % self.set.seeds.len()];
            self.probing.seed_turn += 1;
            // In the primary only addresses without a member are asked: a process that lost sight of the cell may be
            // there.
            let is_member = self.primary && self.directory.members.iter().any(|m| m.control == seed);
            if !targets.contains(&seed) && seed != self.set.me.control && !is_member {
                targets.push(seed);
            }
        }
        if targets.is_empty() {
            return 0;
        }
        let asked = targets.len() as u64;
        self.counters.probes += asked;
        let mut tail = Tags::default();
        if let Some((instance, _)) = self.reformed() {
            tail.put(REFORMING, &instance.0.to_le_bytes());
        }
        self.announce_end(&mut tail);
        let nonce = self.rng.next_u64();
        self.probing.asks(self.last_poll, nonce);
        let info = self.set.me.clone();
        let probe = JoinHandshake::Probe { info, nonce, member_of, padding: vec![0; PROBE_PADDING] };
        self.send_handshake_with(&targets, &probe, &tail, fx);
        asked
    }

    /// Looks for members that lost sight of the cell, and for the cell if this member did.
    ///
    /// A member that hears no quorum asks whether the cell went on without it. The members that left it out, and would
    /// have notified it, may be gone. A coordinator asks at seeds where no member is: a process that lost sight of the
    /// cell may be there, and may look for it at addresses where nobody is any more.
    pub(super) fn ask_around(&mut self, now: Instant, fx: &mut dyn Effects) {
        let every = if self.primary { STRANGER_PROBE_EVERY } else { LONE_PROBE_EVERY };
        if now.since(self.probing.asked_at) < self.set.timing.probe * every {
            return;
        }
        self.probing.asked_at = now;
        let member_of = Some((self.instance, self.directory.view));
        if !self.primary {
            let targets = self.lone_targets(now);
            self.probe(targets, member_of, fx);
        } else if self.lowest_eligible(now) == Some(self.my_rank()) {
            self.probe(Vec::new(), member_of, fx);
        }
    }

    /// Addresses to ask as a member without a quorum: those of unheard members, where another process may run now, and
    /// that of a process that reported a later view.
    fn lone_targets(&mut self, now: Instant) -> Vec<SocketAddr> {
        let me = self.me();
        let unheard = Rank::enumerate(&self.directory.members)
            .filter(|(rank, m)| m.incarnation != me && !self.failure_detector.hears(now, *rank));
        let mut targets: Vec<SocketAddr> = unheard.map(|(_, m)| m.control).collect();
        keep_some(&mut targets, &mut self.rng);
        targets.extend(self.probing.coordinator.filter(|told| !targets.contains(told)));
        targets
    }

    /// Whether this process looks for its cell and was recently notified that it was excluded and has to wait.
    #[must_use]
    pub fn must_wait_to_rejoin(&self) -> bool {
        matches!(&self.stage, Stage::Searching(search) if search.away_at(self.last_poll).is_some())
    }

    fn report_search(&mut self, now: Instant) {
        let Stage::Searching(search) = &mut self.stage else { return };
        if now < search.next_report {
            return;
        }
        search.next_report = now + REPORT_EVERY;
        let (refused, answers, probes) = (search.refused.clone(), search.answers, search.probes);
        let comes_late = search.late_answers > 0;
        let why = match (refused.or_else(|| self.founding_hindrance()), answers) {
            (Some(why), _) => why,
            (None, 0) if self.set.seeds.is_empty() => "no address of a member is known: name seeds".to_owned(),
            (None, 0) if comes_late => {
                "answers come later than 4 seconds after the question: the network or a process is too slow".to_owned()
            }
            (None, 0) => format!(
                "none of {} addresses answers: no member runs there, or its cell name, cell key or version differs",
                self.set.seeds.len()
            ),
            (None, _) => "a member answers, and the cell has not taken this process in yet".to_owned(),
        };
        self.app.event(Event::Searching { probes, why });
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::api::{Limits, Timing};
    use crate::process::tests::by_hand::{NOW, Out};
    use crate::process::tests::member;
    use crate::process::{Security, Settings};

    #[test]
    fn a_lone_member_asks_a_bounded_number_at_a_time_and_everybody_in_time() {
        let all = |count: u16| (1..=count).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect::<Vec<_>>();
        let bound = u16::try_from(LONE_TARGETS_MAX).expect("small");
        let mut rng = Rng::new(1);
        let mut kept = all(bound);
        keep_some(&mut kept, &mut rng);
        assert_eq!(kept, all(bound));
        let mut asked = BTreeSet::new();
        for _ in 0..50 {
            let mut kept = all(bound + 100);
            keep_some(&mut kept, &mut rng);
            assert_eq!(kept.len(), LONE_TARGETS_MAX);
            asked.extend(kept);
        }
        assert_eq!(asked.len(), LONE_TARGETS_MAX + 100);
    }

    /// A process that looks for its cell at ten addresses and at its own.
    pub(in crate::process) fn searching() -> (Process, Vec<SocketAddr>) {
        let seeds: Vec<SocketAddr> = (1..=10).map(|port| SocketAddr::from(([127, 0, 0, 2], port))).collect();
        let (me, founding, timing, limits) = (member(), Founding::Join, Timing::default(), Limits::default());
        let settings = Settings {
            cell: "test".into(),
            me,
            founding,
            record: crate::member::FounderRecord::default(),
            seeds: seeds.clone(),
            timing,
            limits,
        };
        (Process::new(NOW, settings, &Security::None, 1), seeds)
    }

    #[test]
    fn a_search_asks_at_all_addresses_in_turn() {
        let (mut process, seeds) = searching();
        let mut fx = Out::default();
        for turn in 0..5 {
            process.search(NOW + Duration::from_secs(turn), &mut fx);
        }
        let asked: Vec<SocketAddr> = fx.sent.into_iter().flat_map(|(_, to)| to).collect();
        assert_eq!(asked, [&seeds[..], &seeds[..]].concat());
        assert_eq!((process.counters.probes, process.counters.datagrams_sent), (20, 20));
        // Its own address is not asked.
        process.set.seeds = vec![process.set.me.control];
        assert_eq!(process.probe(Vec::new(), None, &mut Out::default()), 0);
    }
}
