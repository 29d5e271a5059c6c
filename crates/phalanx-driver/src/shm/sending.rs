//! The sending half: one record for all who read this process's memory, the layer below for the rest.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use phalanx_core::{Incarnation, Lane};

use super::lend::Joined;
use super::parked::{self, Knock};
use super::segment::{Foreign, Own};
use super::stats::SentStats;
use crate::driver::{LONG_BYTES, Transmit};
use crate::fork::Home;

/// The sending half of a [`Shm`](super::Shm) whose driver below has the sending half `T`.
pub type ShmOutbox<T> = Joined<Sending, T>;

/// What the sending half keeps of its own.
#[derive(Debug)]
pub struct Sending {
    /// `None`: this process shares no memory.
    pub(super) own: Option<Own>,
    /// A forked child has the same memory, not a copy of it.
    pub(super) home: Home,
    /// For whom something was written since those were last woken.
    touched: u64,
    readers: Vec<Reader>,
    pub(super) stats: SentStats,
    /// Bits of those who read this process's memory, by where they receive on each lane.
    reached: [HashMap<SocketAddr, u64>; 2],
    parted: [Parted; 2],
}

/// Somebody who reads this process's memory.
#[derive(Debug)]
struct Reader {
    bit: u64,
    foreign: Arc<Foreign>,
    knock: Knock,
}

/// Destinations told apart, as they were for the last packet: the next one often has the same.
#[derive(Debug, Default)]
struct Parted {
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
            parted: Default::default(),
        }
    }

    /// From now on those of `links` are reached through memory, and nobody else.
    pub(super) fn reach(&mut self, links: impl Iterator<Item = (u64, [SocketAddr; 2], Arc<Foreign>)>) {
        // Nobody who is left out sleeps on.
        self.knock();
        self.readers.clear();
        self.reached.iter_mut().for_each(HashMap::clear);
        for (bit, addresses, foreign) in links {
            self.readers.push(Reader { bit, foreign, knock: Knock::default() });
            for (reached, address) in self.reached.iter_mut().zip(addresses) {
                reached.insert(address, bit);
            }
        }
        self.parted = Default::default();
    }

    /// Wakes those that sleep and for whom something was written.
    #[inline]
    pub(super) fn knock(&mut self) {
        if self.touched == 0 {
            return;
        }
        let touched = std::mem::take(&mut self.touched);
        parked::published();
        for reader in self.readers.iter_mut().filter(|reader| touched & reader.bit != 0) {
            if reader.knock.is_due(reader.foreign.parked()) {
                self.stats.knocks += 1;
                reader.foreign.knock();
            }
        }
    }

    fn part(&mut self, lane: Lane, to: &[SocketAddr]) -> Option<&Parted> {
        let reached = &self.reached[lane as usize];
        if reached.is_empty() {
            return None;
        }
        let parted = &mut self.parted[lane as usize];
        if parted.to != to {
            parted.to.clear();
            parted.to.extend_from_slice(to);
            parted.rest.clear();
            parted.readers = 0;
            for address in to {
                match reached.get(address) {
                    Some(bit) => parted.readers |= bit,
                    None => parted.rest.push(*address),
                }
            }
        }
        (parted.readers != 0).then_some(parted)
    }
}

#[deny(clippy::missing_trait_methods, reason = "a decorator forwards every method, those with a default too")]
impl<T: Transmit + ?Sized> Transmit for ShmOutbox<T> {
    #[inline]
    fn can_read(&mut self, sender: Incarnation, space: u32, number: u64) -> bool {
        self.parts().1.can_read(sender, space, number)
    }

    fn share(&mut self, lane: Lane, to: &[SocketAddr], parts: [&[u8]; 3]) -> usize {
        let (mine, _) = self.parts();
        if !mine.home.is_here() {
            return 0;
        }
        let Some(parted) = mine.part(lane, to) else { return 0 };
        let (readers, count) = (parted.readers, to.len() - parted.rest.len());
        if let Some(own) = &mut mine.own {
            own.push(lane, readers, parts);
            mine.touched |= readers;
            mine.stats.packets += 1;
            let bytes = parts.map(<[u8]>::len).iter().sum::<usize>();
            mine.stats.bytes += bytes as u64;
            if bytes >= LONG_BYTES {
                // Its reader begins with it while the next one is written.
                mine.knock();
            }
        }
        count
    }

    fn pass(&mut self, lane: Lane, to: SocketAddr, parts: [&[u8]; 3]) -> bool {
        let (mine, below) = self.parts();
        mine.part(lane, &[to]).is_none() && below.pass(lane, to, parts)
    }

    fn transmit(&mut self, lane: Lane, to: &[SocketAddr], packet: &[u8]) {
        let (mine, below) = self.parts();
        match mine.part(lane, to) {
            None => below.transmit(lane, to, packet),
            Some(parted) if parted.rest.is_empty() => {}
            Some(parted) => below.transmit(lane, &parted.rest, packet),
        }
    }

    fn is_congested(&mut self) -> bool {
        self.parts().1.is_congested()
    }
}
