//! The removal budget: members that were excluded lately without proof of death, how many more may be, and which of
//! them wait before they return.
//!
//! From level 5 on the record is part of the directory, so all members and joiners share it. Below level 5 each member
//! keeps its own, and the decree that rises to it brings that of its coordinator. `docs/progress.md` has the rules.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Directory;
use super::decree::Proposal;
use crate::api::LeaveReason;
use crate::id::{Incarnation, fits_name};
use crate::time::Instant;
use crate::wire::Tags;

/// Time for which a removal counts.
pub const BUDGET_WINDOW: Duration = Duration::from_secs(600);
/// Time for which a process waits after its first removal.
const BACK_AFTER: Duration = Duration::from_secs(1);
/// The longest wait, however often the process was removed.
const BACK_WITHIN: Duration = Duration::from_secs(60);
const _: () = assert!(BACK_AFTER.as_nanos() <= BACK_WITHIN.as_nanos(), "the waits are an interval");
const _: () =
    assert!(BACK_WITHIN.as_nanos() < BUDGET_WINDOW.as_nanos(), "a removal is on record for as long as it waits");
/// Time for which a process that may come and go has to be heard, for each removal before the last.
const STEADY_EACH: Duration = Duration::from_secs(15);
/// Views closer together than this count as one, with the size of the largest.
const VIEWS_EVERY: Duration = Duration::from_secs(10);
/// The most names in the record. Beyond it the earliest removals are forgotten.
pub const REMOVALS_MAX: usize = 64;
/// The most suspecters that are remembered for a removed member.
pub const SUSPECTERS_MAX: usize = 8;
/// Tag in a directory's tail: the record of removals.
const REMOVALS: u64 = 5;
/// The level from which on the record is part of the directory.
const RECORD_LEVEL: u16 = 5;

/// The record of one name, in its encoded form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// The name.
    pub name: String,
    /// The incarnation that was removed last.
    pub who: Incarnation,
    /// Number of removals within the window.
    pub times: u32,
    /// Milliseconds since the last removal, when the ballot of the decree began. An age and not a time, because members'
    /// clocks have different zeros.
    pub age_ms: u64,
    /// Whether members that stayed heard it, so that it counts against the budget.
    pub counts: bool,
    /// Members that did not hear it or that it did not hear, while others did.
    pub suspecters: Vec<Incarnation>,
}

impl Removal {
    /// The whole time for which it waits.
    fn back_off(&self) -> Duration {
        BACK_AFTER.saturating_mul(1 << self.times.saturating_sub(1).min(16)).min(BACK_WITHIN)
    }

    /// Time for which it must be heard without a break before it comes back.
    ///
    /// Zero after the first removal. From the second on, it is as long as the wait; 15 s, 30 s and so on if a path
    /// failed or the same process is back. So what comes and goes stays out, however slowly it does, and a process that
    /// was started anew does not wait for that.
    #[must_use]
    pub fn steady_for(&self, lives: &[Incarnation]) -> Duration {
        let again = self.times.saturating_sub(1);
        let may_flap = !self.suspecters.is_empty() || lives.contains(&self.who);
        let longer = if may_flap { STEADY_EACH.saturating_mul(again) } else { Duration::ZERO };
        if again > 0 { self.back_off().max(longer).min(BACK_WITHIN) } else { Duration::ZERO }
    }
}

/// What a coordinator knows of a member that it is about to leave out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovalEvidence {
    /// See [`Removal::counts`].
    pub counts: bool,
    /// See [`Removal::suspecters`].
    pub suspecters: Vec<Incarnation>,
}

/// The record by this process's clock, and what the budget is computed from.
///
/// Within [`BUDGET_WINDOW`], at most a minority of the largest view in that time is removed although members hear them,
/// counted by names. So paths that break one after the other do not erode a cell.
#[derive(Clone, Debug, Default)]
pub struct Removals {
    /// Sizes of views by when they were installed. The first is the view in force when the window began.
    views: VecDeque<(Instant, usize)>,
    /// Removals, each with the time at which it had its age. A removal may be older than this process's clock.
    removed: Vec<(Instant, Removal)>,
}

/// The age of a removal at `now`.
fn age(now: Instant, (noted, removal): &(Instant, Removal)) -> Duration {
    // Saturating, because another member reports the age.
    Duration::from_millis(removal.age_ms).saturating_add(now.since(*noted))
}

impl Removals {
    /// Notes that a view with `members` members is installed.
    pub fn install(&mut self, now: Instant, members: usize) {
        self.pass(now);
        match self.views.back_mut() {
            // Bounds the list: views may follow each other quickly.
            Some((at, most)) if now.since(*at) < VIEWS_EVERY => *most = members.max(*most),
            _ => self.views.push_back((now, members)),
        }
    }

    /// Notes that a member with this name is removed.
    pub fn remove(&mut self, now: Instant, name: &str, who: Incarnation, evidence: RemovalEvidence) {
        self.pass(now);
        // By name, not by incarnation: a process that comes back is another incarnation, and must not use up the budget
        // again.
        let place = self.removed.iter().position(|(_, removal)| removal.name == name);
        let before = place.map(|place| self.removed.remove(place).1);
        let RemovalEvidence { counts, mut suspecters } = evidence;
        suspecters.truncate(SUSPECTERS_MAX);
        let (times, counted) = before.map_or((0, false), |before| (before.times, before.counts));
        // A name that counted once counts for the whole window, whatever its last removal was.
        let (times, counts) = (times.saturating_add(1), counts || counted);
        self.removed.push((now, Removal { name: name.to_owned(), who, times, age_ms: 0, counts, suspecters }));
        self.removed.drain(..self.removed.len().saturating_sub(REMOVALS_MAX));
        debug_assert!(self.of(name).is_some_and(|removal| removal.who == who), "the last removal is not on record");
    }

    /// Replaces the record by the decided one, whose ages are those at `since`: when this process heard of the ballot. The
    /// time of the ballot counts, because ballots may follow each other without a pause.
    pub fn adopt(&mut self, now: Instant, since: Instant, decided: Vec<Removal>) {
        debug_assert!(since <= now, "a decree is installed after its ballot has begun");
        self.removed = decided.into_iter().map(|removal| (since, removal)).collect();
        self.pass(now);
    }

    /// The record in its encoded form, as of `now`.
    #[must_use]
    pub fn record(&self, now: Instant) -> Vec<Removal> {
        let aged = self.removed.iter().map(|removed| (age(now, removed), &removed.1));
        let in_force = aged.filter(|(age, _)| *age < BUDGET_WINDOW);
        let age_ms = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        in_force.map(|(age, removal)| Removal { age_ms: age_ms(age), ..removal.clone() }).collect()
    }

    /// How many members of other names may be removed now although they are heard.
    pub fn left(&mut self, now: Instant) -> usize {
        self.pass(now);
        let members = self.views.iter().map(|(_, members)| *members).max().unwrap_or(0);
        budget_of(members).saturating_sub(self.removed.iter().filter(|(_, removal)| removal.counts).count())
    }

    /// Whether a removal of this name counts against the budget within the window.
    #[must_use]
    pub fn has_removed(&self, name: &str) -> bool {
        self.removed.iter().any(|(_, removal)| removal.name == name && removal.counts)
    }

    /// The record of this name.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<&Removal> {
        self.removed.iter().find(|(_, removal)| removal.name == name).map(|(_, removal)| removal)
    }

    /// How much longer a process of this name must wait: 1 s since its removal, doubled each time, at most 60 s.
    #[must_use]
    pub fn waits(&self, now: Instant, name: &str) -> Duration {
        let removed = self.removed.iter().find(|(_, removal)| removal.name == name);
        removed.map_or(Duration::ZERO, |removed| removed.1.back_off().saturating_sub(age(now, removed)))
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If one is violated.
    pub fn check_invariants(&self) {
        assert!(self.removed.len() <= REMOVALS_MAX, "the record exceeds its bound");
        let names: BTreeSet<&str> = self.removed.iter().map(|(_, removal)| removal.name.as_str()).collect();
        assert_eq!(names.len(), self.removed.len(), "a name is on record twice");
        let suspecters = self.removed.iter().map(|(_, removal)| removal.suspecters.len()).max();
        assert!(suspecters.is_none_or(|most| most <= SUSPECTERS_MAX), "too many suspecters are remembered");
        let most = BUDGET_WINDOW.as_nanos() / VIEWS_EVERY.as_nanos() + 2;
        assert!(self.views.len() as u128 <= most, "views are remembered beyond the window");
    }

    fn pass(&mut self, now: Instant) {
        self.removed.retain(|removed| age(now, removed) < BUDGET_WINDOW);
        while self.views.get(1).is_some_and(|(at, _)| now.since(*at) >= BUDGET_WINDOW) {
            self.views.pop_front();
        }
    }
}

/// The removal budget of a cell whose largest view within [`BUDGET_WINDOW`] has this many members: a minority of it. Of two
/// members one may go, as half with rank 0 is a quorum.
#[must_use]
pub fn budget_of(members: usize) -> usize {
    if members == 2 { 1 } else { members.saturating_sub(1) / 2 }
}

/// Whether a member that leaves for this reason is recorded: not if it requested to leave, nor if it is proved dead.
fn is_recorded(why: LeaveReason) -> bool {
    matches!(why, LeaveReason::Unreachable | LeaveReason::NoProgress | LeaveReason::TooSlow)
}

impl Directory {
    /// The decided record, oldest first. Empty if it is malformed: all members read the same.
    #[must_use]
    pub fn removals(&self) -> Vec<Removal> {
        read(&self.tail)
    }

    /// Writes the record into a proposal, with the members that it leaves out.
    pub(super) fn note_removals(
        &self,
        proposal: &mut Proposal,
        removals: Option<&(Instant, Removals)>,
        evidence: &BTreeMap<Incarnation, RemovalEvidence>,
    ) {
        // The decree that rises to that level brings what its coordinator knows. Without it the cell would forget.
        let Some((now, mut removals)) = removals.filter(|_| proposal.level >= RECORD_LEVEL).cloned() else { return };
        for (who, _) in proposal.left.iter().filter(|(_, why)| is_recorded(*why)) {
            let Some(rank) = self.rank(*who) else { continue };
            removals.remove(
                now,
                &self.members[rank.index()].name,
                *who,
                evidence.get(who).cloned().unwrap_or_default(),
            );
        }
        let record = removals.record(now);
        if !(record.is_empty() && self.removals().is_empty()) {
            proposal.tail.put_value(REMOVALS, &record);
        }
    }

    /// The members that `proposal` leaves out because a path failed, each with the members that stay and to which it
    /// failed.
    #[must_use]
    pub fn apart(&self, proposal: &Proposal) -> Vec<(Incarnation, Vec<Incarnation>)> {
        let record = read(&proposal.tail);
        let suspecters = |who: &Incarnation| {
            let name = &self.members[self.rank(*who)?.index()].name;
            record.iter().find(|removal| removal.name == *name).map(|removal| removal.suspecters.clone())
        };
        let left = proposal.left.iter().filter(|(_, why)| is_recorded(*why));
        left.filter_map(|(who, _)| Some((*who, suspecters(who)?))).filter(|(_, by)| !by.is_empty()).collect()
    }

    /// Removes the record for a new instance: its members have removed nobody.
    pub(super) fn forget_removals(&mut self) {
        self.tail.remove(REMOVALS);
    }
}

fn read(tail: &Tags) -> Vec<Removal> {
    let mut told: Vec<Removal> = tail.value(REMOVALS).ok().flatten().unwrap_or_default();
    told.retain(|removal| fits_name(&removal.name) && removal.suspecters.len() <= SUSPECTERS_MAX);
    told.truncate(REMOVALS_MAX);
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn counted() -> RemovalEvidence {
        RemovalEvidence { counts: true, suspecters: Vec::new() }
    }

    /// In five members, at most two of other names are removed within the window. A member that comes back and goes
    /// again is one of them.
    #[test]
    fn no_more_than_a_minority_is_removed_within_the_window() {
        let mut removals = Removals::default();
        removals.install(at(0), 5);
        assert_eq!(removals.left(at(0)), 2);
        removals.remove(at(1_000), "a", Incarnation(7), counted());
        removals.install(at(20_000), 4);
        removals.remove(at(30_000), "a", Incarnation(7), RemovalEvidence::default());
        assert_eq!(removals.left(at(30_000)), 1, "it counted the first time");
        removals.remove(at(30_000), "c", Incarnation(7), RemovalEvidence::default());
        assert_eq!(removals.left(at(30_000)), 1, "nobody heard it");
        assert!(removals.has_removed("a") && !removals.has_removed("b") && !removals.has_removed("c"));
        removals.remove(at(40_000), "b", Incarnation(7), counted());
        removals.install(at(40_000), 3);
        assert_eq!(removals.left(at(629_999)), 0);
        assert_eq!(removals.left(at(640_000)), 1, "both are forgotten, and no view had more than three members since");
        let mut grows = Removals::default();
        for (ms, members) in [(0, 1), (1_000, 4), (2_000, 3), (11_000, 2)] {
            grows.install(at(ms), members);
        }
        assert_eq!(grows.left(at(11_000)), 1, "the largest view counts, though others came soon before and after");
        let mut two = Removals::default();
        two.install(at(0), 2);
        assert_eq!(two.left(at(0)), 1);
        assert_eq!(Removals::default().left(at(0)), 0);
    }

    #[test]
    fn who_is_removed_again_waits_twice_as_long_and_a_minute_at_most() {
        let mut removals = Removals::default();
        let waits = |removals: &Removals, ms| removals.waits(at(ms), "a").as_millis();
        removals.remove(at(0), "a", Incarnation(7), RemovalEvidence::default());
        assert_eq!((waits(&removals, 0), waits(&removals, 999), waits(&removals, 1_000)), (1_000, 1, 0));
        removals.remove(at(5_000), "a", Incarnation(7), RemovalEvidence::default());
        assert_eq!((waits(&removals, 5_500), removals.waits(at(5_500), "b")), (1_500, Duration::ZERO));
        let steady = |removals: &Removals, life| {
            removals.of("a").map(|removal| removal.steady_for(&[Incarnation(life)]).as_millis())
        };
        assert_eq!((steady(&removals, 6), steady(&removals, 7)), (Some(2_000), Some(15_000)));
        (0..40).for_each(|_| removals.remove(at(5_000), "a", Incarnation(7), RemovalEvidence::default()));
        assert_eq!(waits(&removals, 5_000), 60_000);
        removals.remove(at(605_000), "a", Incarnation(7), RemovalEvidence::default());
        assert_eq!(
            (waits(&removals, 605_000), steady(&removals, 7)),
            (1_000, Some(0)),
            "what went before is forgotten"
        );
    }

    /// A process that adopts the record knows what its sender knew, with the time that passed.
    #[test]
    fn the_record_is_the_same_for_all() {
        let mut told = Removals::default();
        told.remove(
            at(10_000),
            "a",
            Incarnation(7),
            RemovalEvidence { counts: true, suspecters: (0..20).map(Incarnation).collect() },
        );
        told.remove(at(12_000), "b", Incarnation(7), RemovalEvidence::default());
        let record = told.record(at(12_500));
        assert_eq!(record.iter().map(|removal| removal.age_ms).collect::<Vec<_>>(), [2_500, 500]);
        assert_eq!(record[0].suspecters.len(), SUSPECTERS_MAX);
        let mut adopted = Removals::default();
        adopted.remove(at(1), "c", Incarnation(7), RemovalEvidence::default());
        adopted.adopt(at(500_000), at(500_000), record.clone());
        assert_eq!((adopted.record(at(500_000)), adopted.of("c")), (record, None));
        assert_eq!(adopted.waits(at(500_000), "b"), Duration::from_millis(500));
        let old = Removal {
            name: "d".into(),
            who: Incarnation(7),
            times: 1,
            age_ms: u64::MAX,
            counts: true,
            suspecters: Vec::new(),
        };
        adopted.adopt(at(700_000), at(700_000), vec![old]);
        assert_eq!(adopted.record(at(700_000)), [], "of a time before this process knew of");
    }

    /// A record is handed on from ballot to ballot, each of 0.3 s, at hosts that were booted just now. No time is lost.
    #[test]
    fn removals_grow_older_in_ballots_and_at_hosts_that_were_just_booted() {
        let mut told = Removals::default();
        told.remove(at(300_000), "a", Incarnation(7), counted());
        let mut record = told.record(at(400_000));
        let mut last = Removals::default();
        for round in 0..3 {
            let heard = 10 + 100 * round;
            last = Removals::default();
            last.adopt(at(heard + 300), at(heard), record);
            record = last.record(at(heard + 400));
            assert_eq!(record[0].age_ms, 100_000 + 400 * (round + 1));
        }
        assert_eq!(last.record(at(610)).len(), 1);
        assert_eq!(last.record(at(210 + BUDGET_WINDOW.as_millis() as u64 - 100_800)), [], "its time is over");
    }

    #[test]
    fn the_record_has_a_bound() {
        let mut removals = Removals::default();
        for n in 0..REMOVALS_MAX + 5 {
            removals.remove(at(n as u64), &format!("m{n}"), Incarnation(7), RemovalEvidence::default());
        }
        let record = removals.record(at(1_000));
        assert_eq!((record.len(), record[0].name.as_str()), (REMOVALS_MAX, "m5"), "those removed first are forgotten");
    }
}
