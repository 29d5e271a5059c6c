//! The session context: the parts of an endpoint that all its sessions use.

use std::time::Duration;

use super::api::EndpointLimits;
use super::receive_budget::{Budget, Intake};
use super::session_packets::SessionPackets;
use crate::rng::Rng;
use crate::time::Instant;

/// Upper bound on the slots of a session: a slot's number is one byte, and acks for all slots must fit a packet.
pub(super) const SLOTS_MAX: u8 = 64;

/// A slot's number as packets carry it.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a session has at most `SLOTS_MAX` slots")]
pub(super) fn slot_number(slot: usize) -> u8 {
    debug_assert!(slot < usize::from(SLOTS_MAX), "a slot that no session has");
    slot as u8
}

/// The parts of its endpoint that a session uses.
pub(super) struct SessionContext<'a, F> {
    pub(super) now: Instant,
    pub(super) net: &'a mut SessionPackets,
    pub(super) budget: &'a mut Budget,
    pub(super) held: &'a mut MessageBytes,
    pub(super) intake: &'a mut Intake,
    pub(super) rng: &'a mut Rng,
    pub(super) limits: &'a EndpointLimits,
    /// Minimum timers: how long a call may be silent before it is probed.
    pub(super) waits: &'a mut Waits,
    pub(super) fx: &'a mut F,
}

/// How long packets waited recently, as far as known, and the timers that follow from it.
#[derive(Debug)]
pub(super) struct Waits {
    /// The longest timer required in the present period, and in the one before.
    longest: [Duration; 2],
    until: Instant,
    most: Duration,
    /// The minimum of a timer. The other side is assumed to poll about as often; if it does not, round trips show it.
    pub(super) timer_min: Duration,
}

impl Waits {
    /// Nothing is known yet, so timers run for `most`.
    pub(super) fn new(most: Duration) -> Self {
        Self { longest: [Duration::ZERO; 2], until: Instant::ZERO, most, timer_min: most }
    }

    /// Notes an interval for which packets waited until this process polled. A longer one than is remembered is a
    /// pause, in which it did something else: it says nothing.
    pub(super) fn note_gap(&mut self, now: Instant, gap: Duration) {
        if gap <= PERIOD {
            self.note(now, gap * GAPS_OF_TIMER);
        }
    }

    /// Notes the silence of a call that ended without a probe. Other packets wait in the same queues for as long.
    /// Ignored before an interval between polls is known.
    #[inline]
    pub(super) fn note_silence(&mut self, now: Instant, silence: Duration) {
        if self.timer_min < self.most {
            self.note(now, silence * SILENCES_OF_TIMER);
        }
    }

    #[inline]
    fn note(&mut self, now: Instant, timer: Duration) {
        // Two periods overlap, so that a long wait is remembered for 200 to 400 ms.
        if now >= self.until {
            self.longest = [Duration::ZERO, self.longest[0]];
            self.until = now + PERIOD;
        } else if timer <= self.longest[0] {
            return;
        }
        self.longest[0] = self.longest[0].max(timer);
        let longest = self.longest[0].max(self.longest[1]);
        self.timer_min = if longest.is_zero() { self.most } else { longest.max(TIMER_LEAST).min(self.most) };
        debug_assert!(self.timer_min <= self.most, "a timer runs longer than the endpoint bears");
    }
}

/// A value is remembered for this time, and up to twice.
const PERIOD: Duration = Duration::from_millis(200);
/// Factor between an interval and its timer. An early probe costs a packet, and proves nothing.
const GAPS_OF_TIMER: u32 = 2;
const SILENCES_OF_TIMER: u32 = 2;
/// A shorter timer would probe for packets that are on their way through the system.
const TIMER_LEAST: Duration = Duration::from_micros(200);
const _: () = assert!(TIMER_LEAST.as_nanos() < PERIOD.as_nanos(), "a timer ends while its measure is remembered");

/// Bytes of messages held by all sessions together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MessageBytes {
    /// Bytes of incomplete requests.
    pub(super) requests: usize,
    /// Bytes of kept answers.
    pub(super) answers: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_follow_the_longest_waits_of_late() {
        let (ms, most) = (Duration::from_millis, Duration::from_millis(5));
        let mut waits = Waits::new(most);
        let mut now = Instant(1);
        assert_eq!(waits.timer_min, most, "nothing is known");
        waits.note_gap(now, Duration::from_micros(3));
        assert_eq!(waits.timer_min, TIMER_LEAST);
        waits.note_gap(now, Duration::from_micros(400));
        waits.note_gap(now, Duration::from_micros(3));
        assert_eq!(waits.timer_min, Duration::from_micros(800));
        waits.note_silence(now, ms(1));
        assert_eq!(waits.timer_min, ms(2));
        waits.note_gap(now, Duration::from_secs(2));
        assert_eq!(waits.timer_min, ms(2), "a pause is no gap between looks");
        waits.note_gap(now, ms(40));
        assert_eq!(waits.timer_min, most);
        for _ in 0..2 {
            assert_eq!(waits.timer_min, most, "it is remembered for a while");
            now += PERIOD;
            waits.note_gap(now, Duration::from_micros(400));
        }
        assert_eq!(waits.timer_min, Duration::from_micros(800));
    }
}
