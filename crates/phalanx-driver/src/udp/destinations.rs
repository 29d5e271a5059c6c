//! Destinations of packets, and what is known of the paths to them.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::mmsg::Name;

/// The addresses packets were sent to, each with its list of queued packets.
#[derive(Debug, Default)]
pub(super) struct Destinations {
    list: Vec<Destination>,
    index: HashMap<SocketAddr, u32>,
    /// The destination found last.
    last: u32,
}

#[derive(Debug)]
pub(super) struct Destination {
    address: SocketAddr,
    pub(super) name: Name,
    /// The list: its first and last packet, and the first that is not planned yet. [`END`] if there is none.
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) cursor: u32,
    /// Packets up to this length may be sent as a run.
    pub(super) segment_bytes_max: usize,
    /// The destination that followed this one last time: the next look-up tries it first.
    follower: u32,
}

/// End of a list.
pub(super) const END: u32 = u32::MAX;

impl Destinations {
    /// The index of an address, which is added if it is new.
    pub(super) fn find(&mut self, address: SocketAddr) -> u32 {
        let last = self.last as usize;
        // Multicasts go to the same members in the same order, so the guess is nearly always right and spares the hash.
        if let Some(guess) = self.list.get(last).map(|d| d.follower)
            && self.list.get(guess as usize).is_some_and(|d| d.address == address)
        {
            self.last = guess;
            return guess;
        }
        let found = match self.index.get(&address) {
            Some(found) => *found,
            None => self.insert(address),
        };
        if let Some(last) = self.list.get_mut(last) {
            last.follower = found;
        }
        self.last = found;
        found
    }

    fn insert(&mut self, address: SocketAddr) -> u32 {
        let place = u32::try_from(self.list.len()).unwrap_or(END);
        debug_assert_ne!(place, END, "the table is cleared long before");
        self.list.push(Destination {
            address,
            name: Name::encode(address),
            head: END,
            tail: END,
            cursor: END,
            segment_bytes_max: usize::MAX,
            follower: place,
        });
        self.index.insert(address, place);
        place
    }

    pub(super) fn at(&self, place: u32) -> &Destination {
        &self.list[place as usize]
    }

    pub(super) fn at_mut(&mut self, place: u32) -> &mut Destination {
        &mut self.list[place as usize]
    }

    /// Records that the path to this host takes `path_bytes`, headers of IP and UDP included. False: that was known, or
    /// the host is no destination.
    pub(super) fn learn_path(&mut self, to: SocketAddr, path_bytes: usize) -> bool {
        let headers = if to.is_ipv4() { 20 + 8 } else { 40 + 8 };
        let segment_bytes_max = path_bytes.saturating_sub(headers);
        let mut learned = false;
        // The path belongs to the host, whatever the port.
        for destination in self.list.iter_mut().filter(|d| d.address.ip() == to.ip()) {
            learned |= destination.segment_bytes_max != segment_bytes_max;
            destination.segment_bytes_max = segment_bytes_max;
        }
        learned
    }

    /// Clears the table if it is very large. Call it only while no packet is queued, because packets hold indices.
    pub(super) fn trim(&mut self) {
        if self.list.len() > DESTINATIONS_MAX {
            self.list.clear();
            self.index.clear();
            self.last = 0;
        }
    }
}

/// Addresses remembered. A queue may add as many as it holds packets before the next check.
const DESTINATIONS_MAX: usize = 1_024;
