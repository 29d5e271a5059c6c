//! The processes that this one is attached to: who reads whose memory, and receiving from their rings.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use phalanx_core::{Arriving, Packet, PartialPacket, RemainingPayload, TrafficClass};

use super::Peer;
use super::segment::{Foreign, LINKS_MAX, Own, Refused};
use super::sending::Sending;
use super::stats::LinkStats;
use crate::driver::{LONG_BYTES, Received};
use crate::memory::ring::{Cursor, HEAD_BYTES, Polled, RemainingRecord};

/// All links of a process. A link's index is its bit in the records that this process writes.
#[derive(Debug)]
pub(super) struct Links {
    links: Vec<Option<Link>>,
    /// The incarnation of this process that its segment belongs to.
    token: u64,
    /// Where the search for a free index starts, so that a freed index is reused as late as possible.
    next_place: usize,
    /// The link that the next receive starts with, so that none is always last.
    next_turn: usize,
    /// A link was added, so that the set of readers has to be rebuilt.
    unsettled: bool,
    buffer: Vec<u8>,
    /// The last packet was a long one.
    long: bool,
    pub(super) stats: LinkStats,
}

#[derive(Debug)]
struct Link {
    peer: Peer,
    foreign: Arc<Foreign>,
    /// The change count of its tables as last read.
    seen: Option<u64>,
    /// The index it gave this process. Its ring is read only while there is one.
    place: Option<usize>,
    cursors: [Cursor; 2],
    /// It reads this process's ring.
    reads: bool,
    /// It wrote a record that no correct writer makes, and is not read any more.
    broken: bool,
}

impl Links {
    pub(super) fn new() -> Self {
        Self {
            links: Vec::new(),
            token: 0,
            next_place: 0,
            next_turn: 0,
            unsettled: false,
            buffer: Vec::new(),
            long: false,
            stats: LinkStats::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    pub(super) fn readers(&self) -> u64 {
        self.iter().filter(|(_, link)| link.reads).count() as u64
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &Link)> {
        self.links.iter().enumerate().filter_map(|(place, link)| Some((place, link.as_ref()?)))
    }

    /// Begins an incarnation: drops all links, so that no packet for an earlier incarnation is read and none is
    /// written.
    pub(super) fn begin_incarnation(&mut self, token: u64, sending: &mut Sending) {
        let Some(own) = &sending.own else { return };
        if self.token == token {
            return;
        }
        for (place, _) in self.iter() {
            own.set_reader(place, 0);
        }
        self.links.clear();
        self.token = token;
        own.set_token(token);
        sending.reach(std::iter::empty());
    }

    pub(super) fn attach(&mut self, peer: &Peer, sending: &mut Sending) -> Result<(), Refused> {
        let attached = self.try_attach(peer, sending);
        match &attached {
            Ok(()) | Err(Refused::Unavailable) => {}
            Err(Refused::System(_)) => self.stats.refused_system += 1,
            Err(Refused::NotSealed) => self.stats.refused_seals += 1,
            Err(Refused::Layout) => self.stats.refused_layout += 1,
            Err(Refused::OtherIncarnation) => self.stats.refused_incarnation += 1,
            Err(Refused::Full) => self.stats.refused_full += 1,
        }
        attached
    }

    fn try_attach(&mut self, peer: &Peer, sending: &mut Sending) -> Result<(), Refused> {
        let own = sending.own.as_ref().ok_or(Refused::Unavailable)?;
        if self.iter().any(|(_, link)| link.peer.token == peer.token) {
            return Ok(());
        }
        let free = |place: &usize| self.links.get(*place).is_none_or(Option::is_none);
        let place = (0..LINKS_MAX).map(|i| (self.next_place + i) % LINKS_MAX).find(free).ok_or(Refused::Full)?;
        // 0 marks a free index, and a process does not attach itself.
        if peer.token == 0 || peer.token == self.token {
            return Err(Refused::OtherIncarnation);
        }
        let foreign = Foreign::open(peer)?;
        self.next_place = place + 1;
        if self.links.len() <= place {
            self.links.resize_with(place + 1, || None);
        }
        self.links[place] = Some(Link {
            peer: peer.clone(),
            foreign: Arc::new(foreign),
            seen: None,
            place: None,
            cursors: [Cursor::default(); 2],
            reads: false,
            broken: false,
        });
        own.set_reader(place, peer.token);
        self.unsettled = true;
        self.settle(sending);
        Ok(())
    }

    pub(super) fn detach(&mut self, token: u64, sending: &mut Sending) {
        let Some(place) = self.iter().find(|(_, link)| link.peer.token == token).map(|(place, _)| place) else {
            return;
        };
        self.links[place] = None;
        // Every receive and flush goes over the list, so it is kept short.
        while self.links.last().is_some_and(Option::is_none) {
            self.links.pop();
        }
        if let Some(own) = &sending.own {
            own.set_reader(place, 0);
        }
        self.reach(sending);
    }

    /// Reads what the other processes changed since the last time: one word of each, unless it differs.
    pub(super) fn settle(&mut self, sending: &mut Sending) {
        let Some(own) = &sending.own else { return };
        let token = self.token;
        let mut changed = std::mem::take(&mut self.unsettled);
        for (place, link) in self.links.iter_mut().enumerate() {
            if let Some(link) = link {
                changed |= link.settle(place, token, own);
            }
        }
        if changed {
            self.reach(sending);
        }
    }

    fn reach(&self, sending: &mut Sending) {
        let reached = self.iter().filter(|(_, link)| link.reads);
        sending.reach(reached.map(|(place, link)| (1 << place, link.addresses(), Arc::clone(&link.foreign))));
    }

    /// Hands up to `max` packets of `class` to `each`, those longer than `whole_max` when their header is there.
    /// There may be more where a bound ended the call before the rings were empty.
    pub(super) fn receive(
        &mut self,
        class: TrafficClass,
        max: usize,
        whole_max: usize,
        each: &mut impl FnMut(Arriving<'_>),
    ) -> Received {
        let (mut taken, mut looks) = (0, 0);
        let count = self.links.len();
        let first = if self.next_turn < count { self.next_turn } else { 0 };
        let order = (first..count).chain(0..first);
        self.next_turn = first + 1;
        for index in order {
            let Some(link) = self.links.get_mut(index).and_then(Option::as_mut) else { continue };
            let Some(place) = link.place else { continue };
            let ring = link.foreign.ring(class);
            let cursor = &mut link.cursors[class as usize];
            while cursor.refresh(ring) {
                // The writer may have given this index to another process before it published the record just seen.
                if link.foreign.reader(place) != self.token {
                    link.place = None;
                    link.seen = None;
                    break;
                }
                // Records for others are bounded too, so that one busy or hostile writer cannot hold this process in
                // the call.
                if taken >= max || looks >= POLLS_MAX {
                    return Received { packets: taken, more: true };
                }
                looks += 1;
                let looked = cursor.look(ring, 1 << place, whole_max, &mut self.buffer);
                if let Polled::Taken(len) | Polled::Begun(len) = looked {
                    taken += 1;
                    self.long = len >= LONG_BYTES;
                    self.stats.received += 1;
                    self.stats.received_bytes += len as u64;
                }
                match looked {
                    Polled::Taken(len) => each(Arriving::Whole(Packet::Given(&mut self.buffer, len))),
                    Polled::Begun(len) => {
                        let head = &mut self.buffer[..HEAD_BYTES];
                        each(Arriving::HeaderFirst(PartialPacket { head, len, rest: &mut cursor.rest(ring, len) }));
                        if !cursor.pass(ring, len) {
                            self.stats.overruns += 1;
                            break;
                        }
                    }
                    Polled::Passed => {}
                    Polled::Overrun => {
                        self.stats.overruns += 1;
                        break;
                    }
                    Polled::Broken => {
                        self.stats.broken += 1;
                        link.place = None;
                        link.broken = true;
                        break;
                    }
                }
            }
        }
        Received { packets: taken, more: false }
    }

    /// Delays a sleep after a long packet. Another one is then mostly being made and arrives sooner than a sleep could
    /// begin and end. Polls memory for at most [`LINGERS`] and yields the processor meanwhile. Returns whether a packet
    /// waits.
    pub(super) fn linger(&mut self) -> bool {
        if !std::mem::take(&mut self.long) {
            return false;
        }
        let began = Instant::now();
        loop {
            if self.has_more() {
                self.stats.lingered += 1;
                return true;
            }
            if began.elapsed() > LINGERS {
                return false;
            }
            std::thread::yield_now();
        }
    }

    /// Whether a packet waits in any ring that is read.
    pub(super) fn has_more(&self) -> bool {
        let reading = self.iter().filter(|(_, link)| link.place.is_some());
        let waits = |link: &Link, class: TrafficClass| link.cursors[class as usize].has_more(link.foreign.ring(class));
        reading.map(|(_, link)| link).any(|link| TRAFFIC_CLASSES.into_iter().any(|class| waits(link, class)))
    }
}

impl RemainingPayload for RemainingRecord<'_> {
    fn take(&mut self, place: &mut [u8], tail: &mut [u8]) -> bool {
        // Packets in memory are not sealed, so nothing follows their frames.
        tail.is_empty() && self.copy_to(place)
    }
}

impl Link {
    /// Reads the other side's tables. True: whether it reads this process's ring has changed.
    fn settle(&mut self, index: usize, token: u64, own: &Own) -> bool {
        let changes = self.foreign.changes();
        if self.seen == Some(changes) {
            return false;
        }
        self.seen = Some(changes);
        let lives = !self.broken && self.foreign.token() == self.peer.token;
        let place = if lives { self.foreign.place_of(token) } else { None };
        if place != self.place || !lives {
            self.place = place;
            // The start of reading is fixed before the other side learns that it may write, so that no packet is
            // missed.
            self.cursors = TRAFFIC_CLASSES.map(|class| Cursor::at_end(self.foreign.ring(class)));
            own.set_reads(index, if place.is_some() { self.peer.token } else { 0 });
        }
        let reads = place.is_some_and(|place| self.foreign.reads(place) == token);
        std::mem::replace(&mut self.reads, reads) != reads
    }

    /// Its addresses, by class.
    fn addresses(&self) -> [SocketAddr; 2] {
        let mut addresses = [self.peer.data; 2];
        addresses[TrafficClass::Control as usize] = self.peer.control;
        addresses
    }
}

/// In the order of their numbers.
const TRAFFIC_CLASSES: [TrafficClass; 2] = [TrafficClass::Data, TrafficClass::Control];

/// About twice the time it takes to make a long packet.
pub(super) const LINGERS: Duration = Duration::from_micros(30);

/// Most records read in one receive, those for others included.
const POLLS_MAX: usize = 4_096;
