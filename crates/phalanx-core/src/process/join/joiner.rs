//! A process that asks to come in, and the cookies that were used up to ask.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::api::GroupTerms;
use crate::id::{Incarnation, MemberInfo};
use crate::time::Instant;
use crate::wire::DropReason;

/// Agreed terms of groups, by name and by the joiner that would found the group.
pub(super) type RequestedTerms = BTreeMap<(String, Incarnation), GroupTerms>;

/// A process that asks to come in.
pub(in crate::process) struct Joiner {
    pub(in crate::process) info: MemberInfo,
    pub(in crate::process) groups: Vec<String>,
    /// Terms of each group if the joiner founds it.
    pub(in crate::process) terms: Vec<Option<GroupTerms>>,
    pub(in crate::process) first: Instant,
    pub(in crate::process) last: Instant,
    /// From the challenge to the request.
    pub(in crate::process) round_trip: Duration,
}

impl Joiner {
    /// Time without a request after which it is not proposed.
    pub(in crate::process) fn lapses_after(&self) -> Duration {
        lapses_after(self.round_trip, &self.info)
    }

    /// Its round trip, as far as that counts.
    pub(in crate::process) fn distance(&self) -> Duration {
        self.round_trip.min(LONGEST_ROUND_TRIP)
    }
}

/// The round trip to a process that was measured again. It falls at once, and at most doubles: a packet that was held up
/// says nothing of the distance.
pub(in crate::process) fn steady(known: Option<Duration>, measured: Duration) -> Duration {
    known.map_or(measured, |known| measured.min((known * 2).max(JOINER_TTL / 8)))
}

/// Time without a request after which a process that asks to come in, or to found the cell, counts as gone. One loop of
/// its search takes a round trip, and begins when the process runs.
pub(in crate::process) fn lapses_after(round_trip: Duration, info: &MemberInfo) -> Duration {
    JOINER_TTL.max(round_trip.min(LONGEST_ROUND_TRIP) * 3) + info.turn_gap()
}

/// The longest round trip that lets a process count as present for longer. What was held up for seconds says nothing of
/// the distance, and a process that ended would be waited for.
const LONGEST_ROUND_TRIP: Duration = Duration::from_secs(1);

/// Time for which a challenge is valid, beside the joiner's longest interval between polls.
pub(in crate::process) const COOKIE_TTL: Duration = Duration::from_secs(4);

/// Upper bound on used cookies that are remembered. More joins within a cookie's validity are refused.
pub(super) const USED_MAX: usize = 4096;

/// Cookies that were already used. Each is valid for one join.
#[derive(Debug, Default)]
pub(in crate::process) struct UsedCookies(VecDeque<(Instant, [u8; 16])>);

impl UsedCookies {
    /// Uses up a cookie that is valid until `end`. Fails if it was used before, or if too many valid ones were.
    pub(super) fn take(&mut self, now: Instant, end: Instant, cookie: [u8; 16]) -> Result<(), DropReason> {
        self.0.retain(|(end, _)| now < *end);
        if self.0.iter().any(|(_, used)| *used == cookie) {
            return Err(DropReason::Replayed);
        }
        if self.0.len() >= USED_MAX {
            return Err(DropReason::Overload);
        }
        debug_assert!(now < end, "a challenge that is met is not stale");
        self.0.push_back((end, cookie));
        Ok(())
    }
}

/// [`lapses_after`] where round trips are short.
pub(super) const JOINER_TTL: Duration = Duration::from_millis(800);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::member;

    #[test]
    fn who_was_held_up_for_seconds_does_not_count_as_present_for_longer() {
        let (me, ms) = (member(), Duration::from_millis);
        for (round_trip, lapses) in [(0, 800), (266, 800), (500, 1_500), (1_000, 3_000), (3_000, 3_000)] {
            assert_eq!(lapses_after(ms(round_trip), &me), ms(lapses));
        }
    }

    #[test]
    fn joins_beyond_those_remembered_are_refused_until_the_oldest_is_stale() {
        let mut used = UsedCookies::default();
        let cookie = |n: usize| (n as u128).to_le_bytes();
        let now = Instant(1_000);
        for n in 0..USED_MAX {
            assert_eq!(used.take(now, now + COOKIE_TTL, cookie(n)), Ok(()));
        }
        assert_eq!(used.take(now, now + COOKIE_TTL, cookie(USED_MAX)), Err(DropReason::Overload));
        assert_eq!(used.take(now, now + COOKIE_TTL, cookie(0)), Err(DropReason::Replayed));
        let later = now + COOKIE_TTL;
        assert_eq!(used.take(later, later + COOKIE_TTL, cookie(USED_MAX)), Ok(()));
        assert_eq!(used.take(later, later + COOKIE_TTL, cookie(USED_MAX)), Err(DropReason::Replayed));
    }
}
