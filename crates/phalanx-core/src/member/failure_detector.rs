//! The failure detector: which members are heard, by whom, and which are suspected.
//!
//! In a cell of few members everybody watches everybody, and a heartbeat names the members that its sender hears. In a
//! larger cell some members watch each one, and [`Watch`] holds what they found. In both, a link that is silent in one
//! direction makes its two ends suspects, until it is heard again. A suspicion is never final: only a decided view
//! excludes a member.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::slow::{Slow, SlowReport};
use super::watch::{HeardCount, LinkReport, Targets, Watch};
use crate::id::Rank;
use crate::time::Instant;

/// Without heartbeats, other packets count as a sign of life for this many times the tolerated silence.
const UNBEATEN: u32 = 4;

/// What this process knows of its link with one member.
#[derive(Clone, Debug)]
pub struct Link {
    /// When the last packet of any kind came from it.
    pub last_heard: Instant,
    /// When its last heartbeat came, and how irregular its heartbeats are.
    last_heartbeat: Instant,
    jitter: Duration,
    /// Whom it hears, by rank, according to its last heartbeat in this decree; `None` before the first.
    hears: Option<Vec<bool>>,
    /// Whether it is proved dead, whatever was heard.
    pub dead: bool,
    /// Whether it hears nobody. In a large cell its packets are then no sign of life.
    deaf: bool,
    /// Whether its packets are nonsense here. It then counts as unheard, whatever comes.
    distrusted: bool,
    /// How much longer than others it may be silent.
    gap: Duration,
}

/// The links of a view as one member sees them.
#[derive(Clone, Debug)]
pub struct FailureDetector {
    me: Rank,
    links: Vec<Link>,
    patience: Patience,
    /// `Some` in a large cell, in which not every member watches every other.
    watch: Option<Watch>,
    slow: Slow,
}

/// How long silence is tolerated, and who watches whom.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Silence after which a link is suspected; jitter is added.
    pub suspect_after: Duration,
    /// Interval between heartbeats.
    pub beat: Duration,
    /// Up to this many members, every member watches every other. In a larger cell each has about this many watchers.
    pub watchers: usize,
}

impl FailureDetector {
    /// A detector for a new view, in which every member counts as heard now.
    #[must_use]
    pub fn new(me: Rank, members: usize, now: Instant, patience: Patience) -> Self {
        let link = Link {
            last_heard: now,
            last_heartbeat: now,
            jitter: Duration::ZERO,
            hears: None,
            dead: false,
            deaf: false,
            distrusted: false,
            gap: Duration::ZERO,
        };
        debug_assert!(me.index() < members || members == 0, "this process is a member, or watches nobody");
        let watch = (members > patience.watchers).then(|| Watch::new(me, members, patience.watchers));
        Self { me, links: vec![link; members], patience, watch, slow: Slow::default() }
    }

    /// Sets how much longer each member may be silent, by rank.
    pub fn set_gaps(&mut self, gaps: &[Duration]) {
        for (link, gap) in self.links.iter_mut().zip(gaps) {
            link.gap = *gap;
        }
    }

    /// The longest of the members' gaps.
    #[must_use]
    pub fn longest_gap(&self) -> Duration {
        self.links.iter().map(|link| link.gap).max().unwrap_or_default()
    }

    /// The watch state of a large cell; `None` in a smaller one.
    #[must_use]
    pub fn watch(&self) -> Option<&Watch> {
        self.watch.as_ref()
    }

    /// The watch state, for changes.
    pub fn watch_mut(&mut self) -> Option<&mut Watch> {
        self.watch.as_mut()
    }

    /// Notes that a packet came from `rank`.
    pub fn heard(&mut self, now: Instant, rank: Rank) {
        if let Some(link) = self.links.get_mut(rank.index()) {
            link.last_heard = now;
        }
    }

    /// When the last packet came from `rank`.
    #[must_use]
    pub fn last_heard(&self, rank: Rank) -> Instant {
        self.links.get(rank.index()).map_or(Instant::ZERO, |link| link.last_heard)
    }

    /// The slow-member reports.
    #[must_use]
    pub fn slow(&self) -> &Slow {
        &self.slow
    }

    /// Takes a slow-member report of `rank`, which replaces its earlier one. True if it differs.
    pub fn note_slow_report(&mut self, now: Instant, rank: Rank, slow_report: SlowReport) -> bool {
        rank.index() < self.links.len() && self.slow.say(now, rank, slow_report)
    }

    /// Evaluates the slow-member reports.
    pub fn evaluate_slow(&mut self, now: Instant) {
        // The common case: nothing was reported.
        if self.slow.is_silent() {
            return;
        }
        // Reports of members that are to leave do not count (`docs/flow.md`).
        let out = self.candidates(now, &BTreeSet::new());
        self.slow.evaluate(now, self.patience.suspect_after, self.links.len(), &out);
    }

    /// Takes a heartbeat of this decree. `hears` is by rank. It clears the sender's slow-member report; a new one
    /// follows it in the same packet.
    pub fn beat(&mut self, now: Instant, rank: Rank, hears: Vec<bool>) {
        let patience = self.patience;
        if let Some(link) = self.links.get_mut(rank.index()) {
            link.beat(now, &patience);
            link.hears = Some(hears);
            // A report counts only as long as heartbeats repeat it.
            self.slow.say(now, rank, SlowReport::default());
        }
    }

    /// Takes a heartbeat of this decree in a large cell; see [`Watch::depth`]. True if its sender knows other
    /// link-state reports.
    pub fn watch_heartbeat(&mut self, now: Instant, rank: Rank, depth: u64, asks: bool, digest: u64) -> bool {
        let patience = self.patience;
        let (Some(link), Some(watch)) = (self.links.get_mut(rank.index()), self.watch.as_mut()) else { return false };
        link.beat(now, &patience);
        watch.beat(now, rank, depth, asks);
        watch.digest() != digest
    }

    /// Evaluates the watched links, updates this member's link-state report, and evaluates all reports.
    pub fn evaluate(&mut self, now: Instant) {
        let Self { me, links, patience, watch, .. } = self;
        let Some(watch) = watch else { return };
        let link = |rank: Rank| links.get(rank.index());
        let silent = |rank: Rank, since: Instant| {
            link(rank).is_some_and(|l| l.dead || l.deaf || now.since(l.last_heard.max(since)) >= l.bears(patience))
        };
        // Neighbours owe heartbeats. Who is watched besides sends some when asked.
        let unheard = |rank: &Rank| link(*rank).is_some_and(|l| l.dead || l.deaf || l.is_silent(now, patience));
        let mut suspected: BTreeSet<Rank> = watch.neighbours().iter().copied().filter(unheard).collect();
        // A member that is out of reach already need not be suspected by every member that waits for its answer. A
        // member that was suspected stays so:
        //
        // 1. It is out of reach, and this member drops its own suspicion.
        // 2. Another member's report brings it back into reach.
        // 3. It would count as heard until this member evaluates its links again.
        let counts = |rank: Rank| watch.reaches(rank) || watch.suspects(*me, rank);
        suspected.extend(watch.watchees().filter(|&(rank, since)| counts(rank) && silent(rank, since)).map(|w| w.0));
        let besides = watch.besides(now, patience.suspect_after);
        watch.set_own(suspected.into_iter().collect(), besides);
        watch.refresh(|rank| links.get(rank.index()).is_some_and(|l| l.dead));
    }

    /// The members to which the next heartbeat of a large cell goes. Those in `waited_for` owe this member an answer.
    pub fn targets(&mut self, now: Instant, waited_for: BTreeSet<Rank>) -> Targets {
        let Self { links, patience, watch, .. } = self;
        let Some(watch) = watch else { return Targets::default() };
        let silent =
            |rank: Rank| links.get(rank.index()).is_some_and(|l| now.since(l.last_heard) > patience.beat * 3 / 2);
        let is_dead = |rank: Rank| links.get(rank.index()).is_some_and(|l| l.dead);
        watch.targets(now, patience.beat, waited_for, silent, is_dead)
    }

    /// Notes that a member of a large cell is heard and hears nobody itself, until its next heartbeat of this decree.
    pub fn hears_nobody(&mut self, rank: Rank) {
        if let Some(link) = self.links.get_mut(rank.index()) {
            link.deaf = true;
        }
    }

    /// Takes a link-state report that another member made or forwarded. True if it is news.
    pub fn take_link_report(&mut self, rank: Rank, link_report: LinkReport) -> bool {
        self.watch.as_mut().is_some_and(|watch| watch.take_link_report(rank, link_report))
    }

    /// Notes that `rank`'s packets are nonsense here. It counts as unheard for the rest of this view.
    pub fn distrust(&mut self, rank: Rank) {
        if let Some(link) = self.links.get_mut(rank.index()) {
            link.distrusted = true;
        }
    }

    /// Notes that the operating system proved `rank` dead.
    pub fn died(&mut self, rank: Rank) {
        if let Some(link) = self.links.get_mut(rank.index()) {
            link.dead = true;
        }
        if let Some(watch) = &mut self.watch {
            // A dead member leads to no other, so who is reached is evaluated again.
            watch.touch();
        }
    }

    /// The other members that are not proved dead.
    pub fn not_proved_dead(&self) -> impl Iterator<Item = Rank> {
        Rank::all(self.links.len()).filter(|rank| *rank != self.me && !self.is_dead(*rank))
    }

    /// Whether `rank` is proved dead.
    #[must_use]
    pub fn is_dead(&self, rank: Rank) -> bool {
        self.links.get(rank.index()).is_some_and(|l| l.dead)
    }

    /// Forgives the silence of `gap`, during which this process was away (stopped, starved, clock jump). Otherwise a
    /// process that was stopped would suspect all others when it continues.
    pub fn forgive(&mut self, now: Instant, gap: Duration) {
        // Not beyond now: packets that waited in the socket were read in this iteration.
        for link in &mut self.links {
            link.last_heard = now.min(link.last_heard + gap);
            link.last_heartbeat = now.min(link.last_heartbeat + gap);
        }
    }

    /// Members that are proved dead.
    #[must_use]
    pub fn dead(&self) -> BTreeSet<Rank> {
        Rank::all(self.links.len()).filter(|rank| self.is_dead(*rank)).collect()
    }

    /// Whether any member is proved dead.
    #[must_use]
    pub fn has_dead(&self) -> bool {
        self.links.iter().any(|link| link.dead)
    }

    /// Whether this process hears `rank`, directly or over other members.
    #[must_use]
    pub fn hears(&self, now: Instant, rank: Rank) -> bool {
        let link = self.links.get(rank.index());
        rank == self.me
            || link.is_some_and(|l| {
                !l.dead
                    && !l.distrusted
                    && match &self.watch {
                        None => !l.is_silent(now, &self.patience),
                        Some(watch) => watch.reaches(rank) && !watch.suspects(self.me, rank),
                    }
            })
    }

    /// How many members `rank` hears.
    #[must_use]
    pub fn heard_count(&self, now: Instant, rank: Rank) -> HeardCount {
        match &self.watch {
            Some(watch) => watch.heard_count(rank),
            None => {
                let hears = |other: &Rank| self.says_it_hears(now, rank, *other);
                HeardCount {
                    members: Rank::all(self.links.len()).filter(hears).count(),
                    with_rank_0: hears(&Rank::FIRST),
                }
            }
        }
    }

    /// Which members this process hears, by rank.
    #[must_use]
    pub fn heard_by_me(&self, now: Instant) -> Vec<bool> {
        Rank::all(self.links.len()).map(|r| self.hears(now, r)).collect()
    }

    /// Whether `a` hears `b`, as far as is known here. True where `a` has reported nothing: a new view suspects nobody.
    fn says_it_hears(&self, now: Instant, a: Rank, b: Rank) -> bool {
        if a == self.me {
            return self.hears(now, b);
        }
        let said = self.links.get(a.index()).and_then(|link| link.hears.as_ref());
        said.is_none_or(|h| h.get(b.index()).copied().unwrap_or(true))
    }

    /// The other members that do not hear `rank`, or that it holds back, as far as they told this process; this one
    /// among them.
    pub fn accusers(&self, now: Instant, rank: Rank) -> impl Iterator<Item = Rank> {
        Rank::all(self.links.len()).filter(move |by| {
            let hears = match &self.watch {
                None => self.says_it_hears(now, *by, rank),
                Some(watch) => !watch.suspects(*by, rank),
            };
            *by != rank && (!hears || self.slow.said(*by).is_some_and(|said| said.slow.contains(&rank)))
        })
    }

    /// Which members `rank` reports to hear, by rank.
    #[must_use]
    pub fn heard_by(&self, now: Instant, rank: Rank) -> Vec<bool> {
        Rank::all(self.links.len()).map(|b| self.says_it_hears(now, rank, b)).collect()
    }

    /// Candidates for leaving, below level 5. First the members in `leaving`, and those that are not heard here. Then,
    /// while suspected links remain among the others, the member with most of them (ties: the younger).
    #[must_use]
    pub fn candidates(&self, now: Instant, leaving: &BTreeSet<Rank>) -> BTreeSet<Rank> {
        let n = self.links.len();
        let mut out = self.unheard(now, leaving);
        if let Some(watch) = &self.watch {
            self.settle_links(watch.suspected_links(), &mut out);
            return out;
        }
        loop {
            let rest: Vec<Rank> = Rank::all(n).filter(|r| !out.contains(r)).collect();
            // A link counts if either end does not hear the other: the two cannot work together, and nobody knows which
            // is at fault.
            let suspected = |p: Rank| {
                rest.iter()
                    .filter(|&&q| q != p && !(self.says_it_hears(now, p, q) && self.says_it_hears(now, q, p)))
                    .count()
            };
            let worst = rest.iter().map(|&p| (suspected(p), p)).filter(|&(a, p)| a > 0 && p != self.me).max();
            match worst {
                Some((_, p)) => out.insert(p),
                None => return out,
            };
        }
    }

    /// Members in `leaving`, and those that are not heard here.
    fn unheard(&self, now: Instant, leaving: &BTreeSet<Rank>) -> BTreeSet<Rank> {
        let n = self.links.len();
        Rank::all(n).filter(|&r| leaving.contains(&r) || (r != self.me && !self.hears(now, r))).collect()
    }

    /// Adds the member with most suspected links to `out`, until none remain among the others.
    fn settle_links(&self, mut links: BTreeSet<(Rank, Rank)>, out: &mut BTreeSet<Rank>) {
        loop {
            links.retain(|(a, b)| !out.contains(a) && !out.contains(b));
            let mut suspected: BTreeMap<Rank, usize> = BTreeMap::new();
            for rank in links.iter().flat_map(|(a, b)| [*a, *b]).filter(|rank| *rank != self.me) {
                *suspected.entry(rank).or_default() += 1;
            }
            let Some((_, worst)) = suspected.into_iter().map(|(rank, count)| (count, rank)).max() else { return };
            out.insert(worst);
        }
    }

    /// Whether no candidate is one only because of a suspected link. Otherwise other link-state reports, about it or
    /// about its suspecters, may be under way, and the choice would be premature.
    #[must_use]
    pub fn is_settled(&self, now: Instant) -> bool {
        let Some(watch) = &self.watch else { return true };
        let unheard = self.unheard(now, &BTreeSet::new());
        watch.suspected_links().iter().all(|(a, b)| unheard.contains(a) || unheard.contains(b))
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If one is violated.
    pub fn check_invariants(&self, members: usize) {
        assert_eq!(self.links.len(), members, "a member has no link");
        assert!(self.me.index() < members, "this process is a member");
        assert!(!self.links[self.me.index()].dead, "this process is proved dead to itself");
        let is_large = members > self.patience.watchers;
        assert_eq!(self.watch.is_some(), is_large, "not everybody watches everybody in a large cell, and only there");
        let jitter = self.links.iter().map(|link| link.jitter).max().unwrap_or_default();
        assert!(jitter <= self.patience.suspect_after, "jitter exceeds the tolerated silence");
        self.slow.check_invariants(members);
        if let Some(watch) = &self.watch {
            watch.check_invariants(members);
        }
    }

    /// When the next link may be suspected.
    #[must_use]
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        Rank::all(self.links.len())
            .filter(|&r| r != self.me && self.hears(now, r))
            .map(|r| self.links[r.index()].silent_from(&self.patience))
            .min()
    }
}

impl Link {
    fn beat(&mut self, now: Instant, patience: &Patience) {
        // Weighted as in the round-trip estimate: an irregular network raises the tolerated silence, one late heartbeat
        // hardly does.
        let off = now.since(self.last_heartbeat).abs_diff(patience.beat);
        self.jitter = (self.jitter * 7 + off.min(patience.suspect_after)) / 8;
        self.last_heartbeat = now;
        self.deaf = false;
    }

    /// When its silence exceeds what is tolerated.
    fn silent_from(&self, patience: &Patience) -> Instant {
        let bears = self.bears(patience);
        (self.last_heard + bears).min(self.last_heartbeat + bears * UNBEATEN)
    }

    /// Whether its silence exceeds what is tolerated. Any packet is a sign of life, because a member under load sends
    /// its heartbeats late. But only heartbeats show that its control socket works, so without them for much longer it
    /// counts as unheard.
    fn is_silent(&self, now: Instant, patience: &Patience) -> bool {
        now >= self.silent_from(patience)
    }

    /// The tolerated silence: the setting, more where heartbeats are irregular, and the gap that the member declared.
    fn bears(&self, patience: &Patience) -> Duration {
        patience.suspect_after + (self.jitter * 4).min(patience.suspect_after) + self.gap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn patience(watchers: usize) -> Patience {
        Patience { suspect_after: Duration::from_millis(900), beat: Duration::from_millis(100), watchers }
    }

    fn failure_detector(n: usize) -> FailureDetector {
        FailureDetector::new(Rank(0), n, at(0), patience(16))
    }

    /// All but `silent` send heartbeats, and hear all but those in `deaf_to`, which holds pairs (listener, speaker).
    fn after(n: usize, silent: &[usize], deaf_to: &[(usize, usize)]) -> FailureDetector {
        let mut h = failure_detector(n);
        for r in (0..n).filter(|r| !silent.contains(r)) {
            let hears = (0..n).map(|s| !silent.contains(&s) && !deaf_to.contains(&(r, s))).collect();
            h.heard(at(2000), Rank::from_index(r));
            h.beat(at(2000), Rank::from_index(r), hears);
        }
        h
    }

    fn candidates(h: &FailureDetector) -> Vec<usize> {
        h.candidates(at(2001), &BTreeSet::new()).into_iter().map(Rank::index).collect()
    }

    /// Only a member that declared a gap may be silent for so much longer.
    #[test]
    fn a_gap_that_was_declared_is_borne_beside_the_rest() {
        let mut h = failure_detector(3);
        h.set_gaps(&[Duration::ZERO, Duration::from_millis(600), Duration::ZERO]);
        let heard = |at_ms| h.heard_by_me(at(at_ms));
        assert_eq!(heard(899), [true, true, true]);
        assert_eq!(heard(900), [true, true, false]);
        assert_eq!((heard(1499), heard(1500)), (vec![true, true, false], vec![true, false, false]));
        assert_eq!((h.longest_gap(), h.deadline(at(1000))), (Duration::from_millis(600), Some(at(1500))));
    }

    /// What is told of an exclusion here: who said so, and what this process found itself.
    #[test]
    fn who_does_not_hear_a_member_or_waits_for_it_accuses_it() {
        let accusers = |h: &FailureDetector, of| h.accusers(at(2001), Rank(of)).map(Rank::index).collect::<Vec<_>>();
        let mut h = after(5, &[4], &[(2, 3)]);
        assert_eq!((accusers(&h, 4), accusers(&h, 3), accusers(&h, 1)), (vec![0, 1, 2, 3], vec![2], vec![]));
        h.note_slow_report(at(2000), Rank(1), SlowReport { excused: false, slow: vec![Rank(3)] });
        assert_eq!((accusers(&h, 3), accusers(&h, 1)), (vec![1, 2], vec![]));
        // In a large cell the watchers' reports say it.
        let mut h = FailureDetector::new(Rank(0), 5, at(0), patience(3));
        assert!(h.watch().is_some() && accusers(&h, 4).is_empty());
        let report = LinkReport { version: 9, suspected: vec![Rank(4)], besides: Vec::new() };
        assert!(h.take_link_report(Rank(2), report));
        assert_eq!((accusers(&h, 4), accusers(&h, 3)), (vec![2], vec![]));
    }

    /// Packets without heartbeats are a sign of life for four times the tolerated silence.
    #[test]
    fn who_sends_no_heartbeats_is_not_heard_for_good() {
        let patience =
            Patience { suspect_after: Duration::from_millis(900), beat: Duration::from_millis(200), watchers: 16 };
        let mut failure_detector = FailureDetector::new(Rank(0), 2, at(0), patience);
        for ms in 1..3_600 {
            failure_detector.heard(at(ms), Rank(1));
            assert!(failure_detector.hears(at(ms), Rank(1)), "{ms} ms");
        }
        assert_eq!(failure_detector.deadline(at(3_599)), Some(at(3_600)));
        failure_detector.heard(at(3_600), Rank(1));
        assert!(!failure_detector.hears(at(3_600), Rank(1)));
        failure_detector.beat(at(3_600), Rank(1), vec![true; 2]);
        assert!(failure_detector.hears(at(3_600), Rank(1)));
    }

    #[test]
    fn the_silent_one_goes() {
        assert_eq!(candidates(&after(5, &[3], &[])), [3]);
        assert_eq!(candidates(&after(5, &[], &[])), [0usize; 0]);
    }

    #[test]
    fn a_rank_beyond_the_view_is_nobody() {
        let mut h = after(3, &[], &[]);
        assert_eq!(h.heard_by(at(2001), Rank(3)), [true; 3], "it has said nothing");
        assert_eq!(h.heard_count(at(2001), Rank(3)), HeardCount { members: 3, with_rank_0: true });
        h.heard(at(2001), Rank(3));
        h.beat(at(2001), Rank(3), vec![false; 4]);
        h.died(Rank(3));
        assert!(!h.hears(at(2001), Rank(3)) && !h.is_dead(Rank(3)));
        // A member that left has no view any more.
        let none = FailureDetector::new(Rank(0), 0, at(0), patience(16));
        assert_eq!(none.heard_by(at(1), Rank(4)), [false; 0]);
    }

    #[test]
    fn a_deaf_member_goes_not_those_it_suspects() {
        assert_eq!(candidates(&after(5, &[], &[(2, 0), (2, 1), (2, 3), (2, 4)])), [2]);
    }

    #[test]
    fn one_cut_cable_costs_the_younger_end() {
        assert_eq!(candidates(&after(4, &[], &[(1, 2), (2, 1)])), [2]);
    }

    #[test]
    fn a_dead_one_goes_at_once() {
        let mut h = after(3, &[], &[]);
        h.died(Rank(1));
        assert_eq!(candidates(&h), [1]);
    }

    #[test]
    fn what_was_read_after_an_absence_was_not_heard_in_the_future() {
        let mut h = failure_detector(3);
        h.heard(at(30_000), Rank(1));
        h.forgive(at(30_000), Duration::from_secs(30));
        assert!(h.hears(at(30_100), Rank(1)) && h.hears(at(30_100), Rank(2)));
        assert!(!h.hears(at(32_000), Rank(1)) && !h.hears(at(32_000), Rank(2)));
    }

    #[test]
    fn silence_is_borne_for_longer_where_heartbeats_come_irregularly() {
        let (mut regular, mut irregular, mut away) = (failure_detector(2), failure_detector(2), failure_detector(2));
        for beat in 1..=40 {
            let [even, odd] = [at(100 * beat), at(100 * beat + 80 * (beat % 2))];
            for (h, now) in [(&mut regular, even), (&mut irregular, odd), (&mut away, even)] {
                h.heard(now, Rank(1));
                h.beat(now, Rank(1), vec![true; 2]);
            }
        }
        // About 80 ms of jitter, counted four times.
        assert!(!regular.hears(at(4000 + 950), Rank(1)));
        assert!(irregular.hears(at(4000 + 1150), Rank(1)) && !irregular.hears(at(4000 + 1300), Rank(1)));
        // A gap of this process adds no jitter to the other's link.
        away.forgive(at(9100), Duration::from_secs(5));
        away.heard(at(9100), Rank(1));
        away.beat(at(9100), Rank(1), vec![true; 2]);
        assert!(!away.hears(at(9100 + 950), Rank(1)));
    }

    #[test]
    fn own_absence_suspects_nobody() {
        let mut h = failure_detector(3);
        h.forgive(at(30_100), Duration::from_secs(30));
        assert_eq!(h.candidates(at(30_100), &BTreeSet::new()).len(), 0);
    }
}
