//! The sending half: one record for all readers of this process's memory, the driver below for all others.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use phalanx_core::wire::{PacketNumber, Space};
use phalanx_core::{Incarnation, TrafficClass};

use super::lend::Joined;
use super::parked::{self, Doorbell};
use super::segment::{Foreign, Own};
use super::stats::SentStats;
use crate::driver::{LONG_BYTES, Transmit};
use crate::fork::Home;
use crate::tap::Tap;

/// The sending half of a [`Shm`](super::Shm) whose driver below has the sending half `T`.
pub type ShmOutbox<T> = Joined<Sending, T>;

/// The own part of the sending half.
#[derive(Debug)]
pub struct Sending {
    /// `None`: this process shares no memory.
    pub(super) own: Option<Own>,
    /// The process that made it. A forked child has the same memory, not a copy, and must not write it.
    pub(super) home: Home,
    /// Bits of the readers for whom packets were written since the last doorbell.
    touched: u64,
    readers: Vec<Reader>,
    pub(super) stats: SentStats,
    /// Bits of the readers, by the address where they receive, for each class.
    reached: [HashMap<SocketAddr, u64>; 2],
    split: [SplitDestinations; 2],
}

/// A process that reads this one's memory.
#[derive(Debug)]
struct Reader {
    bit: u64,
    foreign: Arc<Foreign>,
    doorbell: Doorbell,
}

/// A packet's destinations, split into readers and others. Kept for the next packet, which often has the same.
#[derive(Debug, Default)]
struct SplitDestinations {
    to: Vec<SocketAddr>,
    readers: u64,
    rest: Vec<SocketAddr>,
}

impl Sending {
    pub(super) fn new(own: Option<Own>) -> Self {
        Self {
            own,
            home: Home::here(),
            touched: 0,
            readers: Vec::new(),
            stats: SentStats::default(),
            reached: Default::default(),
            split: Default::default(),
        }
    }

    /// Replaces the set of readers by those of `links`.
    pub(super) fn reach(&mut self, links: impl Iterator<Item = (u64, [SocketAddr; 2], Arc<Foreign>)>) {
        // Rung before the set changes, so that no reader that is dropped sleeps on with packets unread.
        self.ring_doorbell();
        self.readers.clear();
        self.reached.iter_mut().for_each(HashMap::clear);
        for (bit, addresses, foreign) in links {
            self.readers.push(Reader { bit, foreign, doorbell: Doorbell::default() });
            for (reached, address) in self.reached.iter_mut().zip(addresses) {
                reached.insert(address, bit);
            }
        }
        self.split = Default::default();
    }

    /// Wakes the sleeping readers for whom packets were written.
    #[inline]
    pub(super) fn ring_doorbell(&mut self) {
        if self.touched == 0 {
            return;
        }
        let touched = std::mem::take(&mut self.touched);
        parked::published();
        for reader in self.readers.iter_mut().filter(|reader| touched & reader.bit != 0) {
            if reader.doorbell.is_due(reader.foreign.parked()) {
                self.stats.doorbells += 1;
                reader.foreign.ring_doorbell();
            }
        }
    }

    fn split(&mut self, class: TrafficClass, to: &[SocketAddr]) -> Option<&SplitDestinations> {
        let reached = &self.reached[class as usize];
        if reached.is_empty() {
            return None;
        }
        let split = &mut self.split[class as usize];
        if split.to != to {
            split.to.clear();
            split.to.extend_from_slice(to);
            split.rest.clear();
            split.readers = 0;
            for address in to {
                match reached.get(address) {
                    Some(bit) => split.readers |= bit,
                    None => split.rest.push(*address),
                }
            }
        }
        (split.readers != 0).then_some(split)
    }
}

#[deny(clippy::missing_trait_methods, reason = "a decorator forwards every method, those with a default too")]
impl<T: Transmit + ?Sized> Transmit for ShmOutbox<T> {
    #[inline]
    fn can_read(&mut self, sender: Incarnation, space: Space, number: PacketNumber) -> bool {
        self.parts().1.can_read(sender, space, number)
    }

    fn write_shared(&mut self, class: TrafficClass, to: &[SocketAddr], parts: [&[u8]; 3]) -> usize {
        let (mine, below) = self.parts();
        if !mine.home.is_here() {
            return 0;
        }
        let Some(split) = mine.split(class, to) else { return below.write_shared(class, to, parts) };
        let (readers, count) = (split.readers, to.len() - split.rest.len());
        if let Some(tap) = below.tap().filter(|tap| tap.is_attached()) {
            for to in to.iter().filter(|to| !split.rest.contains(to)) {
                tap.shared(class, *to, parts);
            }
            tap.sealing(class, &split.rest, parts);
        }
        if let Some(own) = &mut mine.own {
            own.push(class, readers, parts);
            mine.touched |= readers;
            mine.stats.packets += 1;
            let bytes = parts.map(<[u8]>::len).iter().sum::<usize>();
            mine.stats.bytes += bytes as u64;
            if bytes >= LONG_BYTES {
                // A reader copies this packet while the next one is written.
                mine.ring_doorbell();
            }
        }
        count
    }

    fn send_unbuffered(&mut self, class: TrafficClass, to: SocketAddr, parts: [&[u8]; 3]) -> bool {
        let (mine, below) = self.parts();
        mine.split(class, &[to]).is_none() && below.send_unbuffered(class, to, parts)
    }

    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        let (mine, below) = self.parts();
        match mine.split(class, to) {
            None => below.transmit(class, to, packet),
            Some(split) if split.rest.is_empty() => {}
            Some(split) => below.transmit(class, &split.rest, packet),
        }
    }

    fn transmit_datagram(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        self.parts().1.transmit_datagram(class, to, packet);
    }

    #[inline]
    fn tap(&mut self) -> Option<&mut Tap> {
        self.parts().1.tap()
    }

    fn is_congested(&mut self) -> bool {
        self.parts().1.is_congested()
    }
}
