//! The session context: the parts of an endpoint that all its sessions use.

use std::time::Duration;

use super::api::EndpointLimits;
use super::path::{Reach, SessionPackets};
use crate::rng::Rng;
use crate::time::Instant;
use crate::truesize::TRUESIZE_MIN;

/// What a session needs of its endpoint.
pub(super) struct SessionContext<'a, F> {
    pub(super) now: Instant,
    pub(super) net: &'a mut SessionPackets,
    pub(super) budget: &'a mut Budget,
    pub(super) held: &'a mut MessageBytes,
    pub(super) intake: &'a mut Intake,
    pub(super) rng: &'a mut Rng,
    pub(super) limits: &'a EndpointLimits,
    /// Nothing is heard of a call for at least its timer before it is asked for.
    pub(super) waits: &'a mut Waits,
    pub(super) fx: &'a mut F,
}

/// What all servers together may send unasked, in bytes as the receive buffer is charged.
#[derive(Debug)]
pub(super) struct Budget {
    /// What calls share.
    bytes: u64,
    /// Of this, what none of them has reserved.
    free: u64,
    /// Of this, what may be on its way through a network.
    far: u64,
    /// Calls hold allowances, and nothing goes beyond the buffer.
    is_kept: bool,
    /// Answers wait that could not be asked for, as nothing was free: from this host, through a network.
    starved: [bool; 2],
}

impl Budget {
    pub(super) fn new(bytes: u64, far: u64, is_kept: bool) -> Self {
        Self { bytes, free: bytes, far, is_kept, starved: [false; 2] }
    }

    fn room(&self, reach: Reach) -> u64 {
        match reach {
            Reach::Host => self.free,
            Reach::Network => self.free.min(self.far),
        }
    }

    fn use_up(&mut self, bytes: u64, reach: Reach) {
        debug_assert!(bytes <= self.room(reach), "more is reserved than is free");
        self.free -= bytes;
        if reach == Reach::Network {
            self.far -= bytes;
        }
    }

    /// Takes `wanted` or, if less is free, what is free, but not less than `least`: then nothing.
    pub(super) fn take(&mut self, wanted: u64, least: u64, reach: Reach) -> u64 {
        if !self.is_kept {
            return u64::from(u32::MAX);
        }
        let room = self.room(reach);
        let got = if room < least { 0 } else { wanted.min(room) };
        self.use_up(got, reach);
        got
    }

    /// Lets `wanted` packets come, or as many as are free, each charged with `each`.
    pub(super) fn take_packets(&mut self, wanted: u32, each: u64, reach: Reach) -> Reserved {
        if !self.is_kept {
            return Reserved { packets: wanted, bytes: 0 };
        }
        let packets = wanted.min(u32::try_from(self.room(reach) / each.max(1)).unwrap_or(u32::MAX));
        let bytes = u64::from(packets) * each;
        self.use_up(bytes, reach);
        Reserved { packets, bytes }
    }

    pub(super) fn give(&mut self, back: u64, reach: Reach) {
        if self.is_kept {
            self.free += back;
            if reach == Reach::Network {
                self.far += back;
            }
            debug_assert!(self.free <= self.bytes, "more comes back than was reserved");
        }
    }

    /// Checks what must always hold, where all calls together have `reserved` bytes.
    pub(super) fn check_invariants(&self, reserved: u64) {
        if self.is_kept {
            assert_eq!(self.free + reserved, self.bytes, "the receive buffer is free or reserved by a call");
        }
    }

    /// An answer waits for room.
    pub(super) fn note_starved(&mut self, reach: Reach) {
        self.starved[reach as usize] = true;
    }

    /// Whether an answer waits that nothing was free for.
    pub(super) fn is_starved(&self, reach: Reach) -> bool {
        self.starved[reach as usize]
    }

    /// Where answers wait for which there is room now, at least for packets charged with `each`: they are to be looked at.
    pub(super) fn feed(&mut self, each: u64) -> [bool; 2] {
        Reach::ALL.map(|reach| {
            let fed = self.is_starved(reach) && self.room(reach) >= each;
            self.starved[reach as usize] &= !fed;
            fed
        })
    }
}

/// Room in this endpoint's buffer that was given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reserved {
    /// So many packets may come.
    pub(super) packets: u32,
    /// So many bytes are kept for them; 0 where nobody counts.
    pub(super) bytes: u64,
}

/// What clients may have under way to this endpoint, in bytes as the receive buffer is charged.
#[derive(Debug)]
pub(super) struct Intake {
    /// Of all together: what the buffer takes, and what is wanted on its way through a network.
    buffer: u64,
    receive_budget: u64,
    /// Sessions whose clients were heard of late.
    active: u64,
    /// What each of them may have.
    shares: [u64; 2],
}

impl Intake {
    pub(super) fn new(buffer: u64, receive_budget: u64) -> Self {
        let mut intake = Self { buffer, receive_budget, active: 0, shares: [0; 2] };
        intake.divide(0);
        intake
    }

    /// So many sessions are active now.
    pub(super) fn divide(&mut self, active: u64) {
        self.active = active;
        let among = active.max(1);
        self.shares = Reach::ALL.map(|reach| match reach {
            Reach::Host => self.buffer / among,
            Reach::Network => (self.receive_budget / among).max(SHARE_LEAST).min(self.buffer / among),
        });
    }

    pub(super) fn share(&self, reach: Reach) -> u64 {
        self.shares[reach as usize]
    }

    pub(super) fn begin(&mut self) {
        self.divide(self.active + 1);
    }

    pub(super) fn active(&self) -> u64 {
        self.active
    }

    pub(super) fn end(&mut self) {
        debug_assert!(self.active > 0, "a session that is active is counted");
        self.divide(self.active.saturating_sub(1));
    }
}

/// A few short packets, as charged.
const SHARE_LEAST: u64 = 8 * TRUESIZE_MIN;

/// How long packets wait of late, as far as it is known, and so how long a timer should run.
#[derive(Debug)]
pub(super) struct Waits {
    /// The longest timer that was called for in the present period, and in the one before.
    longest: [Duration; 2],
    until: Instant,
    most: Duration,
    /// The least time that a timer should run. The other side is taken to look about as often; if it does not, round trips tell.
    pub(super) timer_min: Duration,
}

impl Waits {
    /// Nothing is known yet: timers run for `most`.
    pub(super) fn new(most: Duration) -> Self {
        Self { longest: [Duration::ZERO; 2], until: Instant::ZERO, most, timer_min: most }
    }

    /// So long packets waited until this process looked. Longer than is remembered, it did something else, and nothing is known.
    pub(super) fn note_gap(&mut self, now: Instant, gap: Duration) {
        if gap <= PERIOD {
            self.note(now, gap * GAPS_OF_TIMER);
        }
    }

    /// So long nothing was heard of a call, and then something without having been asked for: what comes of others waits in
    /// the same queues. Means nothing before something is known of gaps.
    #[inline]
    pub(super) fn note_silence(&mut self, now: Instant, silence: Duration) {
        if self.timer_min < self.most {
            self.note(now, silence * SILENCES_OF_TIMER);
        }
    }

    #[inline]
    fn note(&mut self, now: Instant, timer: Duration) {
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

/// What was noted is remembered for as long as this, and up to twice.
const PERIOD: Duration = Duration::from_millis(200);
/// A probe too early costs a packet, and proves nothing.
const GAPS_OF_TIMER: u32 = 2;
const SILENCES_OF_TIMER: u32 = 2;
/// A timer below this would ask for packets that are on their way through the system.
const TIMER_LEAST: Duration = Duration::from_micros(200);
const _: () = assert!(TIMER_LEAST.as_nanos() < PERIOD.as_nanos(), "a timer ends while what it follows is remembered");

/// What all sessions hold together, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MessageBytes {
    /// Of requests that are not complete.
    pub(super) requests: usize,
    /// Of answers that are kept.
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

    /// What servers are let send is taken from what is free of the receive buffer, and nothing beyond that is let come.
    #[test]
    fn no_more_packets_are_let_come_than_there_is_room_for() {
        let mut budget = Budget::new(1_000, 500, true);
        assert_eq!(budget.take_packets(7, 100, Reach::Host), Reserved { packets: 7, bytes: 700 });
        assert_eq!(budget.take_packets(7, 100, Reach::Network), Reserved { packets: 3, bytes: 300 }, "of all together");
        assert_eq!(budget.take_packets(7, 100, Reach::Host), Reserved { packets: 0, bytes: 0 });
        budget.give(1_000 - 300, Reach::Host);
        assert_eq!(
            budget.take_packets(7, 100, Reach::Network),
            Reserved { packets: 2, bytes: 200 },
            "of what may be on its way through a network"
        );
        let mut unbounded = Budget::new(1_000, 500, false);
        assert_eq!(unbounded.take_packets(70, 100, Reach::Host), Reserved { packets: 70, bytes: 0 });
    }

    /// Who waits for room is looked at when there is some, once, and not in each turn.
    #[test]
    fn answers_are_fed_that_wait_when_there_is_room_for_a_packet() {
        let mut budget = Budget::new(1_000, 1_000, true);
        assert_eq!(budget.feed(100), [false; 2], "nobody waits");
        assert_eq!(budget.take(950, 100, Reach::Host), 950);
        budget.note_starved(Reach::Host);
        assert_eq!(budget.feed(100), [false; 2], "there is no room");
        assert!(budget.is_starved(Reach::Host), "it still waits");
        budget.give(50, Reach::Host);
        assert_eq!(budget.feed(100), [true, false]);
        assert!(!budget.is_starved(Reach::Host));
        assert_eq!(budget.feed(100), [false; 2], "once");
    }

    /// Clients share what there is among those that are active, and each of many has a few short packets, as far as the buffer goes.
    #[test]
    fn sessions_have_equal_shares_and_those_left_have_more() {
        let (buffer, receive_budget) = (1 << 20, 256 << 10);
        let mut intake = Intake::new(buffer, receive_budget);
        assert_eq!(
            [intake.share(Reach::Host), intake.share(Reach::Network)],
            [buffer, receive_budget],
            "the first to come has all"
        );
        for active in 1..=4 {
            intake.begin();
            assert_eq!(
                [intake.share(Reach::Host), intake.share(Reach::Network)],
                [buffer / active, receive_budget / active]
            );
        }
        for active in (1..4).rev() {
            intake.end();
            assert_eq!(
                [intake.share(Reach::Host), intake.share(Reach::Network)],
                [buffer / active, receive_budget / active]
            );
        }
        intake.divide(32);
        assert_eq!(intake.share(Reach::Network), 8 * TRUESIZE_MIN, "more than a part of the receive budget");
        intake.divide(1_000);
        assert_eq!(intake.share(Reach::Network), buffer / 1_000, "never more than a part of the buffer");
    }
}
