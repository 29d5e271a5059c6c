//! The parts of an endpoint that its sessions share, as each of them is handed them.

use std::time::Duration;

use super::api::Limits;
use super::path::Net;
use crate::rng::Rng;
use crate::time::Instant;

/// What a session needs of its endpoint.
pub(super) struct Desk<'a, F> {
    pub(super) now: Instant,
    pub(super) net: &'a mut Net,
    pub(super) budget: &'a mut Budget,
    pub(super) held: &'a mut Held,
    /// What each client may have under way to this endpoint.
    pub(super) share: u64,
    pub(super) rng: &'a mut Rng,
    pub(super) limits: &'a Limits,
    /// Nothing is heard of a call for at least so long before it is asked for.
    pub(super) timer_min: Duration,
    pub(super) fx: &'a mut F,
}

/// What all servers together may send unasked, in bytes as the receive buffer is charged.
#[derive(Debug)]
pub(super) struct Budget {
    free: u64,
    /// Calls hold allowances, and nothing goes beyond the buffer.
    is_kept: bool,
    /// Answers wait that could not be asked for, as nothing was free.
    pub(super) starved: bool,
}

impl Budget {
    pub(super) fn new(bytes: u64, is_kept: bool) -> Self {
        Self { free: bytes, is_kept, starved: false }
    }

    pub(super) fn free(&self) -> u64 {
        self.free
    }

    /// Takes `wanted` or, if less is free, what is free, but not less than `least`: then nothing.
    pub(super) fn take(&mut self, wanted: u64, least: u64) -> u64 {
        if !self.is_kept {
            return u64::from(u32::MAX);
        }
        let got = if self.free < least { 0 } else { wanted.min(self.free) };
        self.free -= got;
        got
    }

    /// Lets `wanted` packets come, or as many as are free, each charged with `each`. Gives how many, and what is reserved for them.
    pub(super) fn take_packets(&mut self, wanted: u32, each: u64) -> (u32, u64) {
        if !self.is_kept {
            return (wanted, 0);
        }
        let packets = wanted.min(u32::try_from(self.free / each.max(1)).unwrap_or(u32::MAX));
        let reserved = u64::from(packets) * each;
        self.free -= reserved;
        (packets, reserved)
    }

    pub(super) fn give(&mut self, back: u64) {
        if self.is_kept {
            self.free += back;
        }
    }
}

/// How long packets wait until this process looks, as far as it knows: the longest time between two looks of late.
#[derive(Debug)]
pub(super) struct Gaps {
    /// Of the present period, and of the one before.
    longest: [Duration; 2],
    until: Instant,
    most: Duration,
    /// The least time that a timer should run. The other side is taken to look about as often; if it does not, round trips tell.
    pub(super) timer_min: Duration,
}

impl Gaps {
    /// Nothing is known yet: timers run for `most`.
    pub(super) fn new(most: Duration) -> Self {
        Self { longest: [Duration::ZERO; 2], until: Instant::ZERO, most, timer_min: most }
    }

    pub(super) fn note(&mut self, now: Instant, gap: Duration) {
        if now >= self.until {
            self.longest = [Duration::ZERO, self.longest[0]];
            self.until = now + GAP_PERIOD;
        }
        self.longest[0] = self.longest[0].max(gap);
        let longest = self.longest[0].max(self.longest[1]);
        self.timer_min =
            if longest.is_zero() { self.most } else { (longest * GAPS_OF_TIMER).max(TIMER_LEAST).min(self.most) };
    }
}

/// A gap is remembered for as long as this, and up to twice.
const GAP_PERIOD: Duration = Duration::from_millis(200);
const GAPS_OF_TIMER: u32 = 8;
/// A timer below this would ask for packets that are on their way through the system.
const TIMER_LEAST: Duration = Duration::from_micros(200);

/// What all sessions hold together, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    /// Of requests that are not complete.
    pub(super) requests: usize,
    /// Of answers that are kept.
    pub(super) answers: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_follow_the_longest_gap_of_late() {
        let (ms, most) = (Duration::from_millis, Duration::from_millis(5));
        let mut gaps = Gaps::new(most);
        let mut now = Instant(1);
        assert_eq!(gaps.timer_min, most, "nothing is known");
        gaps.note(now, Duration::from_micros(3));
        assert_eq!(gaps.timer_min, TIMER_LEAST);
        gaps.note(now, Duration::from_micros(100));
        gaps.note(now, Duration::from_micros(3));
        assert_eq!(gaps.timer_min, Duration::from_micros(800));
        gaps.note(now, ms(40));
        assert_eq!(gaps.timer_min, most);
        for _ in 0..2 {
            assert_eq!(gaps.timer_min, most, "it is remembered for a while");
            now += GAP_PERIOD;
            gaps.note(now, Duration::from_micros(100));
        }
        assert_eq!(gaps.timer_min, Duration::from_micros(800));
    }
}
