//! A driver that drops, duplicates and reorders arriving packets by a seed. For tests and fault injection.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use phalanx_core::rng::Rng;
use phalanx_core::{Origin, Packet, TrafficClass};

use crate::driver::{Driver, LossReport, Received, Wait, Woken};
use crate::shm::Neighbours;
use crate::waker::Waker;

/// How often each fault hits a datagram, in millionths. 0: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Datagrams dropped.
    pub loss_ppm: u32,
    /// Datagrams delivered twice.
    pub duplicate_ppm: u32,
    /// Datagrams delivered after some of their successors.
    pub reorder_ppm: u32,
}

/// Wraps a driver and injects faults into what it receives. The same seed and the same arrivals give the same faults.
///
/// Faults are applied on arrival, so two wrapped drivers cover both directions.
#[derive(Debug)]
pub struct Lossy<D> {
    inner: D,
    fate: Fate,
}

#[derive(Debug)]
struct Fate {
    faults: Faults,
    rng: Rng,
    held: Vec<Held>,
    lost: u64,
    doubled: u64,
    reordered: u64,
}

/// A datagram held back so that others overtake it.
#[derive(Debug)]
struct Held {
    class: TrafficClass,
    origin: Origin,
    bytes: Vec<u8>,
    /// How many more may overtake it.
    passing: u64,
}

impl<D: Driver> Lossy<D> {
    /// Wraps `inner`; `seed` decides every fault.
    pub fn new(inner: D, faults: Faults, seed: u64) -> Self {
        let rng = Rng::new(seed).fork("lossy");
        Self { inner, fate: Fate { faults, rng, held: Vec::new(), lost: 0, doubled: 0, reordered: 0 } }
    }

    /// Changes the fault rates, from the next datagram on.
    pub fn set_faults(&mut self, faults: Faults) {
        self.fate.faults = faults;
    }

    /// The driver below.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// The driver below.
    pub fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }
}

impl Fate {
    /// Applies the drawn fault to one arrival, and releases held datagrams that were overtaken often enough.
    fn arrive<T: ?Sized>(
        &mut self,
        outbox: &mut T,
        class: TrafficClass,
        origin: Origin,
        bytes: Packet<'_>,
        each: &mut impl FnMut(&mut T, TrafficClass, Origin, Packet<'_>),
    ) {
        // One draw after another, in a fixed order: the same seed and arrivals give the same faults.
        if self.rng.chance_ppm(self.faults.loss_ppm) {
            self.lost += 1;
        } else if self.held.len() < HELD_MAX && self.rng.chance_ppm(self.faults.reorder_ppm) {
            self.reordered += 1;
            let passing = 1 + self.rng.below(PASSING_MAX);
            self.held.push(Held { class, origin, bytes: bytes.to_vec(), passing });
            return;
        } else if self.rng.chance_ppm(self.faults.duplicate_ppm) {
            self.doubled += 1;
            // The receiver may change the bytes in place, so the second delivery needs a copy.
            let mut copy = bytes.to_vec();
            each(outbox, class, origin, bytes);
            each(outbox, class, origin, Packet::Lent(&mut copy));
        } else {
            each(outbox, class, origin, bytes);
        }
        for held in &mut self.held {
            held.passing = held.passing.saturating_sub(1);
        }
        self.release(outbox, |held| held.passing == 0, each);
    }

    fn release<T: ?Sized>(
        &mut self,
        outbox: &mut T,
        due: impl Fn(&Held) -> bool,
        each: &mut impl FnMut(&mut T, TrafficClass, Origin, Packet<'_>),
    ) {
        while let Some(index) = self.held.iter().position(&due) {
            let mut held = self.held.remove(index);
            each(outbox, held.class, held.origin, Packet::Lent(&mut held.bytes));
        }
    }
}

impl<D: Driver> Driver for Lossy<D> {
    type Outbox = D::Outbox;

    fn receive(
        &mut self,
        max: usize,
        each: &mut impl FnMut(&mut D::Outbox, TrafficClass, Origin, Packet<'_>),
    ) -> Received {
        let fate = &mut self.fate;
        let taken = self.inner.receive(max, &mut |outbox, class, origin, bytes| {
            fate.arrive(outbox, class, origin, bytes, each);
        });
        if taken.packets == 0 {
            // No datagram is left to overtake them: the delay has to do.
            fate.release(self.inner.outbox(), |_| true, each);
        }
        taken
    }

    fn outbox(&mut self) -> &mut D::Outbox {
        self.inner.outbox()
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn local_address(&self, class: TrafficClass) -> SocketAddr {
        self.inner.local_address(class)
    }

    fn packet_bytes_max(&self) -> u32 {
        self.inner.packet_bytes_max()
    }

    fn receive_packets(&self) -> u32 {
        self.inner.receive_packets()
    }

    fn loss_report(&mut self) -> LossReport {
        self.inner.loss_report()
    }

    fn unreachable(&mut self) -> Vec<SocketAddr> {
        self.inner.unreachable()
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.inner.counters(each);
        each("lossy_lost", self.fate.lost);
        each("lossy_duplicated", self.fate.doubled);
        each("lossy_reordered", self.fate.reordered);
    }
}

#[deny(clippy::missing_trait_methods, reason = "a decorator forwards every method, those with a default too")]
impl<D: Wait> Wait for Lossy<D> {
    fn wait(&mut self, timeout: Option<Duration>, extra: &[BorrowedFd<'_>]) -> io::Result<Woken> {
        let timeout =
            if self.fate.held.is_empty() { timeout } else { Some(timeout.map_or(HELD_FOR, |t| t.min(HELD_FOR))) };
        self.inner.wait(timeout, extra)
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn neighbours(&mut self) -> Option<&mut dyn Neighbours> {
        self.inner.neighbours()
    }
}

/// Most datagrams held back at once: bounds the memory.
const HELD_MAX: usize = 64;

/// Most datagrams that overtake a held one.
const PASSING_MAX: u64 = 8;

/// Longest time that a held datagram waits for others to overtake it while nothing arrives.
const HELD_FOR: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests;
