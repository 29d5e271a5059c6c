//! The in-flight receive budget: how much of this endpoint's receive buffer calls and clients may fill.

use std::net::SocketAddr;

use crate::truesize::TRUESIZE_MIN;

/// Where the other end of a session is. Packets in flight wait in this host's memory alone, or in a network too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    Host,
    Network,
}

impl Reach {
    pub(super) const ALL: [Self; 2] = [Self::Host, Self::Network];

    pub(super) fn of(address: SocketAddr) -> Self {
        if address.ip().is_loopback() { Self::Host } else { Self::Network }
    }
}

/// The room that all servers together may fill without being asked, in bytes as the receive buffer is charged.
#[derive(Debug)]
pub(super) struct Budget {
    /// Room that calls share.
    bytes: u64,
    /// Room that no call has reserved.
    free: u64,
    /// Free room for packets through a network.
    far: u64,
    /// Whether room is accounted for. If not, every call gets as much as it wants.
    is_kept: bool,
    /// Whether answers wait for room: from this host, through a network.
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

    /// Reserves `wanted` bytes, or what is free if that is less. Reserves nothing if less than `least` is free.
    pub(super) fn take(&mut self, wanted: u64, least: u64, reach: Reach) -> u64 {
        if !self.is_kept {
            return u64::from(u32::MAX);
        }
        let room = self.room(reach);
        let got = if room < least { 0 } else { wanted.min(room) };
        self.use_up(got, reach);
        got
    }

    /// Reserves room for `wanted` packets that are charged with `each`, or for as many as fit.
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

    /// Checks invariants. All calls together have `reserved` bytes.
    pub(super) fn check_invariants(&self, reserved: u64) {
        if self.is_kept {
            assert_eq!(self.free + reserved, self.bytes, "the receive buffer is free or reserved by a call");
        }
    }

    /// Notes that an answer waits for room.
    pub(super) fn note_starved(&mut self, reach: Reach) {
        self.starved[reach as usize] = true;
    }

    /// Whether an answer waits for room.
    pub(super) fn is_starved(&self, reach: Reach) -> bool {
        self.starved[reach as usize]
    }

    /// Where answers wait and room for a packet charged with `each` is free now. They are to be fed, so the note is
    /// cleared.
    pub(super) fn feed(&mut self, each: u64) -> [bool; 2] {
        Reach::ALL.map(|reach| {
            let fed = self.is_starved(reach) && self.room(reach) >= each;
            self.starved[reach as usize] &= !fed;
            fed
        })
    }
}

/// Room in this endpoint's receive buffer that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reserved {
    /// Number of packets that may come.
    pub(super) packets: u32,
    /// Bytes reserved for them; 0 where nothing is accounted for.
    pub(super) bytes: u64,
}

/// The bytes that clients may have in flight to this endpoint, as the receive buffer is charged.
#[derive(Debug)]
pub(super) struct Intake {
    /// Bytes that the buffer holds; below, those that may be in flight through a network.
    buffer: u64,
    receive_budget: u64,
    /// Sessions whose clients were heard recently.
    active: u64,
    /// Share of each such session, by reach.
    shares: [u64; 2],
}

impl Intake {
    pub(super) fn new(buffer: u64, receive_budget: u64) -> Self {
        let mut intake = Self { buffer, receive_budget, active: 0, shares: [0; 2] };
        intake.divide(0);
        intake
    }

    /// Divides the room among `active` sessions.
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

/// A few short packets, as charged: the least share through a network, as far as the buffer allows.
const SHARE_LEAST: u64 = 8 * TRUESIZE_MIN;

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets granted to servers are taken from the free part of the receive buffer. Nothing beyond it is granted.
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

    /// An answer that waits for room is fed once when there is room, and not polled in between.
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

    /// Active clients share what there is. Each of many gets a few short packets, as far as the buffer allows.
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
