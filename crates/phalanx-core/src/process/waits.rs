//! How long ballots wait for each other: since when a decree is needed, what members took to answer, and whose ballots
//! came to nothing (`docs/ARCHITECTURE.md`, *Waits of ballots*).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::id::{Incarnation, Rank};
use crate::member::Ballot;
use crate::time::Instant;

/// The number of round trips that a step of a ballot may take, or a donor for an answer.
pub(super) const ROUNDS: u32 = 3;

/// The longest time that counts as one answer. How long a member was away says nothing of its distance, and not each
/// absence is noticed.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// The number of a member's last answers that are kept.
const ANSWERS_MAX: usize = 4;

/// The number of ballots without a proposal after which no member waits for their coordinator.
const VAIN_MAX: u32 = 2;

/// Waits double with each proposal that a later ballot superseded, so often at most: to eight times.
const DOUBLINGS_MAX: u32 = 3;

/// An answer that is due.
struct Due {
    since: Instant,
    /// Its member was heard all the time since then, as far as was looked.
    was_heard: bool,
}

/// A ballot of another member, the last one that was promised.
struct Rival {
    ballot: Ballot,
    since: Instant,
    has_proposed: bool,
}

/// What this member knows of the ballots for the next decree, and of the time that they take.
pub(super) struct Waits {
    /// Since when a new decree is needed.
    pub(super) need_since: Option<Instant>,
    /// The earliest time at which this process may start a ballot (again).
    pub(super) try_after: Instant,
    /// The answers that members owe this coordinator.
    unanswered: BTreeMap<Incarnation, Due>,
    /// What members took for their last answers.
    took: BTreeMap<Incarnation, VecDeque<Duration>>,
    rival: Option<Rival>,
    /// Proposals of others that were accepted here for the next decree.
    contested: u32,
    /// The latest decrees, in a row, that changed nothing: somebody superseded the ballot of who knew what to change.
    empty: u32,
    /// Ballots that took longer than their steps may and proposed nothing, by the rank of their coordinator.
    vain: BTreeMap<Rank, u32>,
    /// Members whose requests the last decree left open, and until when they have time to repeat them.
    repeats: Option<(BTreeSet<Incarnation>, Instant)>,
}

impl Waits {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            need_since: None,
            try_after: now,
            unanswered: BTreeMap::new(),
            took: BTreeMap::new(),
            rival: None,
            contested: 0,
            empty: 0,
            vain: BTreeMap::new(),
            repeats: None,
        }
    }

    /// A decree is installed: its ballots are over. `is_empty`: it changed no view. `is_member` tells whose distance is
    /// still of interest.
    pub(super) fn install(&mut self, now: Instant, is_empty: bool, is_member: impl Fn(Incarnation) -> bool) {
        let mut took = std::mem::take(&mut self.took);
        took.retain(|who, _| is_member(*who));
        let empty = if is_empty { self.empty.saturating_add(1) } else { 0 };
        *self = Self { took, empty, ..Self::new(now) };
    }

    /// Requests of these members are open after a decree. They repeat them once they have installed it, a round trip from
    /// now, and no ballot begins without them meanwhile, unless somebody has to go. Otherwise requests that come sooner,
    /// this process's own above all, keep those of far members out for ever.
    pub(super) fn await_repeats(&mut self, now: Instant, of: BTreeSet<Incarnation>, round: Duration) {
        self.repeats = (!of.is_empty()).then(|| (of, now + round * 2));
    }

    /// Whether requests of earlier are still to be repeated. `is_repeated` tells whose have come.
    pub(super) fn awaits_repeats(&mut self, now: Instant, is_repeated: impl Fn(Incarnation) -> bool) -> bool {
        self.repeats =
            self.repeats.take().filter(|(of, until)| now < *until && !of.iter().all(|who| is_repeated(*who)));
        self.repeats.is_some()
    }

    /// An answer is due from a member from now on, if none is yet.
    pub(super) fn asks(&mut self, now: Instant, who: Incarnation) {
        self.unanswered.entry(who).or_insert(Due { since: now, was_heard: true });
    }

    /// Looks whether the members that owe an answer are heard. One that is not was cut off. It answers when it is back, and
    /// how long it was away says nothing of its distance.
    pub(super) fn look_at(&mut self, is_heard: impl Fn(Incarnation) -> bool) {
        for (who, due) in &mut self.unanswered {
            due.was_heard &= is_heard(*who);
        }
    }

    /// A member answered, in whatever ballot.
    pub(super) fn answered(&mut self, now: Instant, who: Incarnation) {
        let Some(Due { since, .. }) = self.unanswered.remove(&who).filter(|due| due.was_heard) else { return };
        let took = self.took.entry(who).or_default();
        if took.len() == ANSWERS_MAX {
            took.pop_front();
        }
        took.push_back(now.since(since).min(ANSWER_MAX));
    }

    /// Who owes this coordinator an answer, and since when. The time runs on from ballot to ballot. Ballots of rivals are
    /// shorter than the patience with a silent member, so it would never end if each began it anew.
    pub(super) fn owing(&self) -> impl Iterator<Item = (Incarnation, Instant)> {
        self.unanswered.iter().map(|(who, due)| (*who, due.since))
    }

    /// This process did not run for `late`, and could hear no answer.
    pub(super) fn forgive(&mut self, late: Duration) {
        self.unanswered.values_mut().for_each(|due| due.since += late);
    }

    /// What a member takes to answer this coordinator, if it ever did. The longest one of several answers is left out: it
    /// was cut off, or stopped.
    pub(super) fn took(&self, who: Incarnation) -> Duration {
        let mut took: Vec<Duration> = self.took.get(&who).into_iter().flatten().copied().collect();
        took.sort_unstable();
        took.get(took.len().saturating_sub(2)).copied().unwrap_or_default()
    }

    /// Another member's ballot was promised. `round` is the time that one of its steps takes.
    pub(super) fn yields_to(&mut self, now: Instant, ballot: Ballot, round: Duration) {
        self.need_since = Some(now);
        if self.rival.as_ref().is_some_and(|rival| rival.ballot == ballot) {
            return;
        }
        self.count_vain(now, round);
        self.rival = Some(Rival { ballot, since: now, has_proposed: false });
    }

    /// This process begins a ballot, which supersedes that of any rival. Nobody waits for that one any more.
    pub(super) fn begins(&mut self, now: Instant, round: Duration) {
        self.count_vain(now, round);
    }

    /// A member refused a ballot of this process, because it promised to a later one.
    pub(super) fn refused_for(&mut self, now: Instant, promised: Ballot) {
        if self.rival.as_ref().is_none_or(|rival| rival.ballot < promised) {
            self.rival = Some(Rival { ballot: promised, since: now, has_proposed: false });
        }
    }

    /// A proposal of another member's ballot was accepted.
    pub(super) fn accepts(&mut self, now: Instant, ballot: Ballot) {
        self.need_since = Some(now);
        self.contested = self.contested.saturating_add(1);
        self.rival = Some(Rival { ballot, since: now, has_proposed: true });
    }

    /// Counts the rival's ballot as vain, if its time is over and it proposed nothing. One that was superseded early, or
    /// began again without a silent member, does not count.
    fn count_vain(&mut self, now: Instant, round: Duration) {
        let is_vain = |rival: &Rival| !rival.has_proposed && now.since(rival.since) >= round * ROUNDS;
        if let Some(rival) = self.rival.take().filter(is_vain) {
            let vain = self.vain.entry(rival.ballot.rank).or_default();
            *vain = vain.saturating_add(1);
        }
    }

    /// Whether nobody waits for that member's ballots any more.
    pub(super) fn is_given_up(&self, rank: Rank) -> bool {
        self.vain.get(&rank).is_some_and(|vain| *vain >= VAIN_MAX)
    }

    /// The time that ballots have from each other: `base`, or three of their round trips, and more with each proposal and
    /// each decree in a row that came to nothing.
    pub(super) fn length(&self, base: Duration, round: Duration) -> Duration {
        base.max(round * ROUNDS) * (1 << self.contested.saturating_add(self.empty).min(DOUBLINGS_MAX))
    }

    /// Until when the last ballot of another member has its time, and that member's rank. It is a `step` at least: what goes
    /// through a slow interface takes longer than a round trip of short packets.
    pub(super) fn rival_until(&self, step: Duration, round: Duration) -> Option<(Rank, Instant)> {
        self.rival.as_ref().map(|rival| (rival.ballot.rank, rival.since + self.length(step, round)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(1_000_000_000);
    const ROUND: Duration = Duration::from_millis(100);
    const FAR: Incarnation = Incarnation(7);

    fn ballot(round: u32, rank: u16) -> Ballot {
        Ballot { round, rank: Rank(rank) }
    }

    #[test]
    fn the_longest_of_several_answers_says_nothing_and_none_is_longer_than_it_may_be() {
        let mut waits = Waits::new(NOW);
        let mut answers = |took: Duration| {
            waits.asks(NOW, FAR);
            waits.answered(NOW + took, FAR);
            waits.took(FAR)
        };
        assert_eq!(answers(Duration::from_secs(60)), ANSWER_MAX);
        assert_eq!(answers(ROUND), ROUND);
        assert_eq!(answers(ROUND * 2), ROUND * 2);
        for _ in 0..ANSWERS_MAX {
            answers(ROUND);
        }
        assert_eq!((answers(ROUND), waits.took[&FAR].len()), (ROUND, ANSWERS_MAX));
        // Who left is of no interest any more.
        waits.install(NOW, false, |_| false);
        assert_eq!(waits.took(FAR), Duration::ZERO);
    }

    /// Rivals' ballots are shorter than the patience with a member that does not answer.
    #[test]
    fn an_answer_is_due_since_the_first_ballot_that_asked_for_it() {
        let mut waits = Waits::new(NOW);
        [NOW, NOW + ROUND].into_iter().for_each(|now| waits.asks(now, FAR));
        assert_eq!(waits.owing().collect::<Vec<_>>(), [(FAR, NOW)]);
        waits.answered(NOW + ROUND * 2, FAR);
        assert_eq!((waits.owing().count(), waits.took(FAR)), (0, ROUND * 2));
    }

    #[test]
    fn the_time_in_which_a_member_was_cut_off_does_not_count() {
        let mut waits = Waits::new(NOW);
        let mut answers = |heard: [bool; 2]| {
            waits.asks(NOW, FAR);
            heard.into_iter().for_each(|is_heard| waits.look_at(|who| is_heard || who != FAR));
            waits.answered(NOW + ROUND, FAR);
            waits.took(FAR)
        };
        assert_eq!((answers([false, true]), answers([true, false])), (Duration::ZERO, Duration::ZERO));
        assert_eq!(answers([true, true]), ROUND);
    }

    #[test]
    fn ballots_have_three_rounds_and_twice_as_much_with_each_proposal_up_to_eight_times() {
        let mut waits = Waits::new(NOW);
        assert_eq!(waits.length(ROUND * 4, ROUND), ROUND * 4);
        for doubled in [1, 2, 4, 8, 8] {
            assert_eq!(waits.length(ROUND, ROUND), ROUND * 3 * doubled);
            waits.accepts(NOW, ballot(1, 1));
        }
        waits.install(NOW, false, |_| true);
        assert_eq!(waits.length(ROUND, ROUND), ROUND * 3);
    }

    /// Who supersedes a ballot without its requests brings about a decree that changes nothing. The next one's ballots have
    /// more time.
    #[test]
    fn ballots_have_twice_as_much_time_after_each_decree_that_changed_nothing_up_to_eight_times() {
        let mut waits = Waits::new(NOW);
        for doubled in [1, 2, 4, 8, 8] {
            assert_eq!(waits.length(ROUND, ROUND), ROUND * 3 * doubled);
            waits.install(NOW, true, |_| true);
        }
        waits.install(NOW, false, |_| true);
        assert_eq!(waits.length(ROUND, ROUND), ROUND * 3);
    }

    #[test]
    fn requests_that_a_decree_left_open_have_two_rounds_to_be_repeated() {
        let (late, away) = (Incarnation(8), Incarnation(9));
        let mut waits = Waits::new(NOW);
        assert!(!waits.awaits_repeats(NOW, |_| false), "nothing was open");
        waits.await_repeats(NOW, BTreeSet::from([late, away]), ROUND);
        assert!(waits.awaits_repeats(NOW + ROUND, |who| who == late));
        assert!(!waits.awaits_repeats(NOW + ROUND, |_| true), "all have come");
        waits.await_repeats(NOW, BTreeSet::from([late, away]), ROUND);
        assert!(waits.awaits_repeats(NOW + ROUND * 2 - Duration::from_nanos(1), |who| who == late));
        assert!(!waits.awaits_repeats(NOW + ROUND * 2, |who| who == late), "one is gone");
        waits.await_repeats(NOW, BTreeSet::from([away]), ROUND);
        waits.install(NOW, false, |_| true);
        assert!(!waits.awaits_repeats(NOW, |_| false), "another decree");
    }

    #[test]
    fn nobody_waits_for_who_proposed_nothing_twice_in_all_its_time() {
        let mut waits = Waits::new(NOW);
        let mut now = NOW;
        let mut promise = |waits: &mut Waits, number, rank, after: Duration| {
            now += after;
            waits.yields_to(now, ballot(number, rank), ROUND);
        };
        promise(&mut waits, 1, 0, ROUND);
        assert_eq!(waits.rival_until(ROUND, ROUND), Some((Rank(0), NOW + ROUND * 4)));
        // The same ballot again, and one that was superseded early.
        promise(&mut waits, 1, 0, ROUND);
        promise(&mut waits, 2, 1, ROUND);
        promise(&mut waits, 3, 0, ROUND * 3);
        promise(&mut waits, 4, 0, ROUND * 3);
        assert!(!waits.is_given_up(Rank(0)));
        promise(&mut waits, 5, 1, ROUND * 3);
        assert_eq!((waits.is_given_up(Rank(0)), waits.is_given_up(Rank(1))), (true, false));
        // One that proposed has its time for the decision.
        waits.accepts(NOW + ROUND * 12, ballot(5, 1));
        promise(&mut waits, 6, 2, ROUND * 30);
        assert!(!waits.is_given_up(Rank(1)));
        waits.refused_for(NOW, ballot(5, 1));
        assert_eq!(waits.rival_until(ROUND, ROUND).map(|(rank, _)| rank), Some(Rank(2)));
        waits.refused_for(NOW, ballot(7, 1));
        assert_eq!(waits.rival_until(ROUND, ROUND).map(|(rank, _)| rank), Some(Rank(1)));
        // One's own ballot supersedes it, and counts it as vain where its time was over.
        for (after, is_given_up) in [(ROUND, false), (ROUND * 3, true)] {
            waits.yields_to(NOW, ballot(8, 1), ROUND);
            waits.begins(NOW + after, ROUND);
            assert_eq!((waits.rival_until(ROUND, ROUND), waits.is_given_up(Rank(1))), (None, is_given_up));
        }
    }
}
