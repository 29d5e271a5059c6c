//! What a founder knows of the ballots for view 1: whom it met, what it promised and accepted, and the ballot it leads.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use crate::id::{CellInstance, Incarnation, MemberInfo};
use crate::member::{FirstView, FounderRecord, FoundingBallot};
use crate::process::join::lapses_after;
use crate::time::Instant;

/// Time after which the leader of a founding ballot tries again, if the founders are near.
pub(super) const BALLOT_TTL: Duration = Duration::from_secs(1);

/// Each founder waits this much longer than the one before it by name until it leads, if the founders are near. A founder
/// that promised to another one also waits this much longer.
const LEAD_STEP: Duration = Duration::from_millis(700);
/// The longest of these steps. Packets that are held up for seconds say nothing of the distance.
const STEP_MAX: Duration = Duration::from_secs(1);
/// The longest time until the next ballot, beside the steps. A ballot of far founders may go on for longer.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// A leader's time doubles with each ballot of its own that came to nothing, so often at most: to twice. Round trips are
/// known before a ballot begins, so there is little to learn from one that failed; and who waited for eight seconds after a
/// storm was in no cell for as long.
const LEAD_DOUBLINGS_MAX: u32 = 1;

/// The state of a founder.
#[derive(Default)]
pub(in crate::process) struct Foundation {
    /// Founders that answered a fresh challenge.
    pub(super) contacts: BTreeMap<Incarnation, Contact>,
    pub(super) promised: Option<FoundingBallot>,
    /// The list accepted last.
    pub(super) accepted: Option<Accepted>,
    pub(super) led: Option<Led>,
    /// Ballots that this process led and whose time was over before anything was decided.
    pub(super) vain: u32,
    /// Names of the founders that have a bootstrap marker of a list, by the list's instance.
    pub(super) marked: BTreeMap<CellInstance, BTreeSet<String>>,
    pub(super) lead_after: Option<Instant>,
    /// Until when the operator's word is valid that nobody of earlier instances lives.
    pub(super) all_dead: Option<Instant>,
    /// Why founders cannot found the cell, as found out last.
    pub(super) hindrance: Option<String>,
}

/// A founder that answered a fresh challenge.
pub(super) struct Contact {
    pub(super) info: MemberInfo,
    /// When it answered last.
    pub(super) at: Instant,
    /// From the challenge to the answer.
    pub(super) round_trip: Duration,
}

pub(super) struct Accepted {
    pub(super) ballot: FoundingBallot,
    pub(super) first: FirstView,
}

/// A ballot that this process leads.
pub(super) struct Led {
    pub(super) ballot: FoundingBallot,
    pub(super) since: Instant,
    pub(super) asked: Vec<MemberInfo>,
    pub(super) by_command: bool,
    pub(super) reports: BTreeMap<String, FounderRecord>,
    pub(super) proposed: Option<FirstView>,
    pub(super) accepted: BTreeSet<Incarnation>,
    pub(super) decided: bool,
}

impl Led {
    pub(super) fn asked_name(&self, who: Incarnation) -> Option<&str> {
        self.asked.iter().find(|member| member.incarnation == who).map(|member| &*member.name)
    }
}

impl Foundation {
    /// Whether a ballot that this process leads has a list proposed, and is not decided.
    pub(in crate::process) fn has_proposed(&self) -> bool {
        self.led.as_ref().is_some_and(|led| led.proposed.is_some() && !led.decided)
    }

    pub(in crate::process) fn promised(&self) -> Option<FoundingBallot> {
        self.promised
    }

    pub(super) fn forget_silent(&mut self, now: Instant) {
        self.contacts.retain(|_, contact| now.since(contact.at) < lapses_after(contact.round_trip, &contact.info));
    }

    /// The time of one step of a ballot: that of the founder who takes longest to answer.
    pub(super) fn round(&self, me: &MemberInfo) -> Duration {
        let takes = |contact: &Contact| contact.round_trip + contact.info.turn_gap();
        self.contacts.values().map(takes).max().unwrap_or_default() + me.turn_gap()
    }

    /// The time that a ballot has at `now`: three steps, and more with each one that came to nothing.
    ///
    /// A command is valid for a few seconds. So a commanded ballot has three short steps, whatever came to nothing before.
    pub(super) fn ballot_takes(&self, now: Instant, me: &MemberInfo) -> Duration {
        if self.is_commanded(now) {
            return BALLOT_TTL.max(self.round(me).min(STEP_MAX) * 3);
        }
        BALLOT_TTL.max(self.round(me) * 3) * (1 << self.vain.min(LEAD_DOUBLINGS_MAX))
    }

    /// How much longer a founder waits than the one before it.
    pub(super) fn step(&self, me: &MemberInfo) -> Duration {
        LEAD_STEP.max(self.round(me).min(STEP_MAX))
    }

    /// The time from one ballot to the next, beside the steps.
    pub(super) fn wait(&self, now: Instant, me: &MemberInfo) -> Duration {
        self.ballot_takes(now, me).min(WAIT_MAX)
    }

    /// Whether the operator's command is still valid.
    pub(super) fn is_commanded(&self, now: Instant) -> bool {
        self.all_dead.is_some_and(|until| now < until)
    }

    /// Leads no ballot for `wait`. A command is valid for a few seconds only, and meanwhile no other founder's ballot
    /// founds anything. So a commanded founder waits no longer than its own ballot takes; otherwise such ballots could put
    /// the command off until it lapses.
    pub(super) fn lead_later(&mut self, now: Instant, me: &MemberInfo, wait: Duration) {
        let wait = if self.is_commanded(now) { wait.min(self.ballot_takes(now, me)) } else { wait };
        self.lead_after = Some(now + wait);
    }

    /// The address of another living process with this name.
    pub(super) fn namesake(&self, me: &MemberInfo) -> Option<SocketAddr> {
        let is_other = |info: &&MemberInfo| info.name == me.name && info.incarnation != me.incarnation;
        self.contacts.values().map(|contact| &contact.info).find(is_other).map(|info| info.control)
    }

    /// One process for each founder's name that is present.
    ///
    /// # Errors
    /// A message for people, if two processes have the same founder's name.
    pub(super) fn present(&self, me: &MemberInfo, names: &[String]) -> Result<Vec<MemberInfo>, String> {
        let mut all: BTreeMap<&str, &MemberInfo> = BTreeMap::from([(&*me.name, me)]);
        for info in self.contacts.values().map(|contact| &contact.info).filter(|info| names.contains(&info.name)) {
            if let Some(other) = all.insert(&info.name, info) {
                let (name, a, b) = (&info.name, other.control, info.control);
                return Err(format!("founder {name} runs twice, at {a} and at {b}: end one of them"));
            }
        }
        Ok(all.into_values().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::member;

    #[test]
    fn a_founding_ballot_has_three_rounds_and_twice_as_much_after_a_vain_one() {
        let (me, now) = (member(), Instant(1_000_000_000));
        let mut founding = Foundation::default();
        assert_eq!(founding.ballot_takes(now, &me), BALLOT_TTL);
        let round_trip = Duration::from_secs(1);
        let mut late = member();
        late.turns_within(round_trip);
        founding.contacts.insert(Incarnation(9), Contact { info: late, at: now, round_trip });
        for doubled in [1, 2, 2] {
            assert_eq!(founding.ballot_takes(now, &me), (round_trip * 6) * doubled);
            founding.vain += 1;
        }
        // It counts as present for three round trips and a gap.
        founding.forget_silent(now + round_trip * 4 - Duration::from_nanos(1));
        assert_eq!(founding.contacts.len(), 1);
        founding.forget_silent(now + round_trip * 4);
        assert!(founding.contacts.is_empty());
    }

    /// Ballots of its own that came to nothing, because nobody had given the command, do not count against it.
    #[test]
    fn a_commanded_founder_leads_again_soon() {
        let (me, now) = (member(), Instant(1_000_000_000));
        let mut founding = Foundation { vain: 3, ..Foundation::default() };
        for (all_dead, waits_s) in [(None, 2), (Some(now + BALLOT_TTL * 5), 1), (Some(now), 2)] {
            founding.all_dead = all_dead;
            founding.lead_later(now, &me, Duration::from_secs(2));
            assert_eq!(founding.lead_after, Some(now + Duration::from_secs(waits_s)), "{all_dead:?}");
        }
        // What was held up for seconds says nothing of the distance.
        let contact = Contact { info: member(), at: now, round_trip: Duration::from_secs(3) };
        founding.contacts.insert(Incarnation(9), contact);
        assert_eq!(founding.ballot_takes(now, &me), Duration::from_secs(18));
        founding.all_dead = Some(now + BALLOT_TTL * 5);
        assert_eq!(founding.ballot_takes(now, &me), Duration::from_secs(3));
    }

    #[test]
    fn a_founder_waits_no_longer_than_it_may() {
        let (me, now) = (member(), Instant(1));
        let mut founding = Foundation::default();
        assert_eq!((founding.step(&me), founding.wait(now, &me)), (LEAD_STEP, BALLOT_TTL));
        for (ms, step, wait) in [(900, 900, 2_000), (500, 700, 1_500), (1_000, 1_000, 2_000), (1_001, 1_000, 2_000)] {
            let contact = Contact { info: member(), at: Instant(1), round_trip: Duration::from_millis(ms) };
            founding.contacts.insert(Incarnation(9), contact);
            let expected = (Duration::from_millis(step), Duration::from_millis(wait));
            assert_eq!((founding.step(&me), founding.wait(now, &me)), expected);
        }
    }
}
