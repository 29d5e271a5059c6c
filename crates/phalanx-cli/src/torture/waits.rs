//! Measures how long members were without new messages during a fault.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Times for which the members that a fault does not affect waited for uniform abcasts of each other.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Incarnations of these members.
    whole: BTreeSet<u64>,
    /// For each of them, by host: the beginning of its current wait, and the last number from each sender.
    members: BTreeMap<usize, (Instant, BTreeMap<u64, u64>)>,
    longest: Duration,
}

impl Waits {
    /// Begins with a fault. `whole`: host and incarnation of each unaffected member.
    pub(super) fn begin(whole: &[(usize, u64)], now: Instant) -> Self {
        Self {
            whole: whole.iter().map(|(_, life)| *life).collect(),
            members: whole.iter().map(|(host, _)| (*host, (now, BTreeMap::new()))).collect(),
            longest: Duration::ZERO,
        }
    }

    /// Notes the last number that the member on `host` received from each sender.
    pub(super) fn note(&mut self, host: usize, came: &[(u64, u64)], own: u64, now: Instant) {
        let Some((since, last)) = self.members.get_mut(&host) else { return };
        let of_others = came.iter().filter(|(who, _)| *who != own && self.whole.contains(who));
        let mut is_new = false;
        for (who, number) in of_others {
            let before = last.insert(*who, *number);
            // The first report shows messages from before the fault.
            is_new |= before.is_some_and(|before| *number > before);
        }
        if is_new {
            self.longest = self.longest.max(now.duration_since(*since));
            *since = now;
        }
    }

    /// Ends with the fault. Returns the longest wait, including current ones.
    pub(super) fn end(&self, now: Instant) -> Duration {
        let last = self.members.values().map(|(since, _)| now.duration_since(*since)).max();
        self.longest.max(last.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A member's report: its host, the last number from each sender, and the time in seconds.
    type Told = (usize, &'static [(u64, u64)], u64);

    #[test]
    fn a_wait_ends_with_a_new_message_of_another_whole_member() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        // The member on host 3, with incarnation 30, suffers.
        let waits = || Waits::begin(&[(1, 10), (2, 20)], begin);
        let told = |told: &[Told]| {
            let mut waits = waits();
            for (host, came, second) in told {
                waits.note(*host, came, *host as u64 * 10, at(*second));
            }
            waits.end(at(9)).as_secs()
        };
        assert_eq!(told(&[]), 9);
        let other: Told = (2, &[(10, 1)], 1);
        assert_eq!(
            told(&[(1, &[(20, 1)], 1), (1, &[(20, 2)], 4), (1, &[(20, 3)], 8), other]),
            9,
            "the other one waits"
        );
        let goes_on: [Told; 3] = [(2, &[(10, 1)], 1), (2, &[(10, 2)], 3), (2, &[(10, 3)], 9)];
        let with = |mine: &[Told]| told(&[mine, &goes_on[..]].concat());
        assert_eq!(
            with(&[(1, &[(20, 1)], 1), (1, &[(20, 2)], 4), (1, &[(20, 3)], 8)]),
            6,
            "from the third second to the ninth"
        );
        assert_eq!(with(&[(1, &[(20, 1)], 1), (1, &[(30, 2), (10, 5)], 4)]), 9, "of the sufferer, and its own");
        assert_eq!(with(&[(1, &[(20, 7)], 1), (1, &[(20, 7)], 4)]), 9, "nothing new");
    }
}
