//! The congestion window of a session's path: how it starts, and how it follows delays and losses.

use std::time::Duration;

use super::api::EndpointLimits;
use crate::wire::PacketNumber;

/// The congestion window of one path. It follows the delay (after Swift, Kumar et al., SIGCOMM 2020) and the losses.
#[derive(Clone, Debug)]
pub(super) struct Congestion {
    /// The window in bytes as charged.
    pub(super) window: u64,
    packet: u64,
    delay_free: Duration,
    shortest: Duration,
    /// Whether it still grows by what arrives, as at its start.
    starting: bool,
    /// Losses among packets up to this number belong to one event, which halves the window once.
    event: PacketNumber,
}

impl Congestion {
    pub(super) fn new(packet: u64, pace: Pace) -> Self {
        let Pace { window_packets, delay_free } = pace;
        let window = packet * window_packets;
        Self { window, packet, delay_free, shortest: Duration::MAX, starting: true, event: PacketNumber(0) }
    }

    pub(super) fn sample(&mut self, took: Duration) {
        self.shortest = self.shortest.min(took);
        let target = self.shortest.saturating_mul(2).saturating_add(self.delay_free);
        if took <= target {
            return;
        }
        self.starting = false;
        // It shrinks by the share of the delay that is too long. One round trip is measured at a time, so this happens
        // once in each.
        let excess = (took - target).as_nanos();
        let share = excess * 1024 / took.as_nanos().max(1);
        let less = u128::from(self.window) * share.min(512) / 1024;
        debug_assert!(less <= u128::from(self.window) / 2, "delay takes half of the window at most");
        self.window =
            self.window.saturating_sub(u64::try_from(less).unwrap_or(u64::MAX)).max(self.packet * WINDOW_LEAST);
    }

    pub(super) fn arrived(&mut self, packets: u32, in_flight: u64) {
        let came = u64::from(packets) * self.packet;
        // Only a window that was full may have been too small.
        if in_flight.saturating_add(came).saturating_add(self.packet) < self.window {
            return;
        }
        // It first grows by what arrives. After the first long delay or loss, a window that was full for a round trip
        // grows by one packet.
        let more = if self.starting {
            came
        } else {
            let more = u128::from(self.packet) * u128::from(came) / u128::from(self.window.max(1));
            u64::try_from(more).unwrap_or(u64::MAX)
        };
        self.window = self.window.saturating_add(more).min(WINDOW_MAX);
    }

    pub(super) fn lost(&mut self, seen: PacketNumber, newest: PacketNumber) {
        // These packets were sent before the last event was known, so their loss is part of it.
        if seen < self.event {
            return;
        }
        debug_assert!(newest >= self.event, "losses are reported in the order of packets");
        self.event = newest;
        self.starting = false;
        self.window = (self.window / 2).max(self.packet * WINDOW_LEAST);
    }
}

/// Lower bound in packets. With fewer in flight, acks come too seldom to show losses.
const WINDOW_LEAST: u64 = 4;

/// Upper bound in bytes as charged. No receiver's buffer holds as much.
const WINDOW_MAX: u64 = 1 << 30;

const _: () = assert!(WINDOW_LEAST > 0, "something may always be under way");

/// How fast sessions start, and when they slow down.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    window_packets: u64,
    delay_free: Duration,
}

impl Pace {
    pub(super) fn new(limits: &EndpointLimits) -> Self {
        Self { window_packets: u64::from(limits.window_packets).max(WINDOW_LEAST), delay_free: limits.delay_free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_grows_up_to_what_no_buffer_holds() {
        let mut congestion = Congestion::new(1 << 16, Pace { window_packets: 64, delay_free: Duration::ZERO });
        for _ in 0..64 {
            congestion.arrived(u32::MAX, u64::MAX);
        }
        assert_eq!(congestion.window, WINDOW_MAX);
        congestion.starting = false;
        congestion.arrived(u32::MAX, u64::MAX);
        assert_eq!(congestion.window, WINDOW_MAX);
    }

    fn begins_with(window_packets: u64) -> Congestion {
        Congestion::new(1_000, Pace { window_packets, delay_free: Duration::ZERO })
    }

    /// Losses among packets that were sent before the last event was known belong to that event.
    #[test]
    fn a_window_is_halved_once_for_what_was_lost_together_and_never_below_its_least() {
        let mut congestion = begins_with(32);
        congestion.lost(PacketNumber(10), PacketNumber(20));
        assert_eq!(congestion.window, 16_000);
        for seen in [11, 15, 19] {
            congestion.lost(PacketNumber(seen), PacketNumber(30));
            assert_eq!(congestion.window, 16_000, "{seen} was sent before");
        }
        congestion.lost(PacketNumber(20), PacketNumber(30));
        assert_eq!(congestion.window, 8_000);
        for seen in [30, 40, 50, 60] {
            congestion.lost(PacketNumber(seen), PacketNumber(seen + 10));
            assert_eq!(congestion.window, WINDOW_LEAST * 1_000);
        }
    }

    #[test]
    fn a_window_grows_by_what_comes_until_something_is_lost_and_then_by_a_packet_a_round_trip() {
        let mut congestion = begins_with(8);
        congestion.arrived(8, 0);
        assert_eq!(congestion.window, 16_000);
        congestion.arrived(2, 1_000);
        assert_eq!(congestion.window, 16_000, "it was not full");
        congestion.lost(PacketNumber(10), PacketNumber(20));
        assert_eq!(congestion.window, 8_000);
        congestion.arrived(8, 0);
        assert_eq!(congestion.window, 9_000, "a packet for a window that came");
        congestion.arrived(3, 6_000);
        assert_eq!(congestion.window, 9_333, "and less for less");
    }
}
