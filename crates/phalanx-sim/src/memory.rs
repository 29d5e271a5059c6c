//! Memory that processes of one host share, with the promises of `phalanx_driver::shm`. Each process owns a segment
//! with a ring for each class. It writes once for all readers and waits for none; a reader that is overtaken loses what
//! it had not read. Attaching, tokens, places and their ends follow the driver step by step. The memory itself is a
//! list, and time and chance come from outside.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;

use phalanx_core::rng::Rng;
use phalanx_core::{MemberInfo, TrafficClass};

use crate::result::add_to;

/// How the processes of a host share memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySettings {
    /// Size of the ring of each class, in bytes.
    pub ring_bytes: usize,
    /// The longest time until a record is visible, in nanoseconds; drawn for each record and reader.
    pub latency_ns: u64,
    /// Probability in a million that a process attaches a new neighbour later than with the view: up to seconds, or
    /// never.
    pub late_ppm: u32,
    /// Probability in a million that a newly attached reader begins too early. It then reads records for others, and
    /// for earlier incarnations of its process.
    pub stale_ppm: u32,
    /// Whether memory carries packets where the network is cut.
    pub bridges: bool,
}

impl MemorySettings {
    /// Fast, large and without faults.
    pub const FINE: Self = Self { ring_bytes: 1 << 20, latency_ns: 2_000, late_ppm: 0, stale_ppm: 0, bridges: false };
}

/// The segment of one process, written for its neighbours. Readers keep it after its owner's death.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The incarnation of its owner.
    token: u64,
    /// Processes that its owner wants to reach, by place.
    readers: [u64; LINKS_MAX],
    /// Processes that its owner reads, at the same places.
    reads: [u64; LINKS_MAX],
    rings: [Ring; 2],
    /// Whether its owner has ended.
    orphaned: bool,
}

#[derive(Debug)]
struct Ring {
    capacity_bytes: u64,
    /// Records not overwritten, oldest first.
    records: VecDeque<Record>,
    /// Number of the oldest record, counted from the first ever.
    first: u64,
    /// Position of the next record, in bytes since the first ever.
    tail_bytes: u64,
    visible_ns: u64,
}

#[derive(Clone, Debug)]
struct Record {
    at_bytes: u64,
    visible_ns: u64,
    readers: u64,
    bytes: Rc<[u8]>,
}

/// One process's part of the shared memory: its segment, and its links to those of others.
#[derive(Debug)]
pub(crate) struct Memory {
    own: Rc<RefCell<Segment>>,
    token: u64,
    links: Vec<Option<Link>>,
    next_place: usize,
    /// Index of the link that is read first.
    turn: usize,
    /// Addresses of the processes that read this segment, and their places.
    reached: [BTreeMap<SocketAddr, usize>; 2],
    /// Grows when a process becomes reachable, or no longer is.
    version: u64,
    /// Probability of being overtaken, in a million records read.
    pub(crate) lapped_ppm: u32,
    /// Bound on the additional delay of this process's records.
    pub(crate) lag_ns: u64,
    counts: BTreeMap<String, u64>,
    rng: Rng,
}

#[derive(Debug)]
struct Link {
    /// The expected incarnation.
    token: u64,
    addresses: [SocketAddr; 2],
    foreign: Rc<RefCell<Segment>>,
    /// The place that it gave this process.
    place: Option<usize>,
    /// Numbers of the next records.
    cursors: [u64; 2],
    /// Records before these numbers are taken even if they were for others.
    stale_until: [u64; 2],
    /// Number of records by which the reading begins too early.
    stale: u64,
    reads: bool,
    latency_ns: u64,
}

impl Ring {
    fn new(capacity_bytes: usize) -> Self {
        let capacity_bytes = capacity_bytes as u64;
        Self { capacity_bytes, records: VecDeque::new(), first: 0, tail_bytes: 0, visible_ns: 0 }
    }

    fn end(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    fn push(&mut self, visible_ns: u64, readers: u64, bytes: &Rc<[u8]>) {
        self.visible_ns = self.visible_ns.max(visible_ns);
        let record =
            Record { at_bytes: self.tail_bytes, visible_ns: self.visible_ns, readers, bytes: Rc::clone(bytes) };
        self.tail_bytes += RECORD_BYTES + bytes.len() as u64;
        self.records.push_back(record);
        while self.records.front().is_some_and(|oldest| self.tail_bytes - oldest.at_bytes > self.capacity_bytes) {
            self.records.pop_front();
            self.first += 1;
        }
    }

    fn get(&self, number: u64) -> Option<&Record> {
        self.records.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }
}

impl Segment {
    /// Assigns a place to a process, and clears the earlier entry about whom the owner reads there.
    fn set_reader(&mut self, place: usize, token: u64) {
        self.readers[place] = token;
        self.reads[place] = 0;
    }
}

impl Memory {
    pub(crate) fn new(settings: &MemorySettings, rng: Rng) -> Self {
        let ring = || Ring::new(settings.ring_bytes);
        let own = Segment {
            token: 0,
            readers: [0; LINKS_MAX],
            reads: [0; LINKS_MAX],
            rings: [ring(), ring()],
            orphaned: false,
        };
        Self {
            own: Rc::new(RefCell::new(own)),
            token: 0,
            links: Vec::new(),
            next_place: 0,
            turn: 0,
            reached: Default::default(),
            version: 0,
            lapped_ppm: 0,
            lag_ns: 0,
            counts: BTreeMap::new(),
            rng,
        }
    }

    /// Begins an incarnation of this process: no neighbour is attached.
    pub(crate) fn begin_incarnation(&mut self, token: u64) {
        let mut own = self.own.borrow_mut();
        for (place, _) in self.links.iter().enumerate().filter(|(_, link)| link.is_some()) {
            own.set_reader(place, 0);
        }
        own.token = token;
        drop(own);
        self.links.clear();
        self.token = token;
        self.reach();
    }

    /// The segment, for readers.
    pub(crate) fn segment(&self) -> Rc<RefCell<Segment>> {
        Rc::clone(&self.own)
    }

    /// Tries to reach a process through its segment. False: the segment belongs to another incarnation, or no place is
    /// left.
    pub(crate) fn attach(
        &mut self,
        peer: &MemberInfo,
        foreign: Rc<RefCell<Segment>>,
        latency_ns: u64,
        stale: u64,
    ) -> bool {
        let token = peer.incarnation.0;
        if self.links.iter().flatten().any(|link| link.token == token) {
            return true;
        }
        let free = |place: &usize| self.links.get(*place).is_none_or(Option::is_none);
        let Some(place) = (0..LINKS_MAX).map(|i| (self.next_place + i) % LINKS_MAX).find(free) else { return false };
        if token == self.token || foreign.borrow().token != token {
            return false;
        }
        self.next_place = place + 1;
        if self.links.len() <= place {
            self.links.resize_with(place + 1, || None);
        }
        let mut addresses = [peer.data; 2];
        addresses[TrafficClass::Control as usize] = peer.control;
        self.links[place] = Some(Link {
            token,
            addresses,
            foreign,
            place: None,
            cursors: [0; 2],
            stale_until: [0; 2],
            stale,
            reads: false,
            latency_ns,
        });
        self.own.borrow_mut().set_reader(place, token);
        self.count("attached", 1);
        self.settle();
        true
    }

    /// Makes the reading of a process that is not read yet begin with its next record.
    pub(crate) fn begin_at_the_end(&mut self, token: u64) {
        for link in self.links.iter_mut().flatten().filter(|link| link.token == token) {
            link.stale = 0;
        }
    }

    pub(crate) fn detach(&mut self, token: u64) {
        let of = |link: &Option<Link>| link.as_ref().is_some_and(|link| link.token == token);
        let Some(place) = self.links.iter().position(of) else { return };
        self.links[place] = None;
        while self.links.last().is_some_and(Option::is_none) {
            self.links.pop();
        }
        self.own.borrow_mut().set_reader(place, 0);
        self.count("detached", 1);
        self.reach();
    }

    /// Processes what the others did since the last call.
    pub(crate) fn settle(&mut self) {
        let mut changed = false;
        for (place, link) in self.links.iter_mut().enumerate() {
            if let Some(link) = link {
                changed |= link.settle(place, self.token, &self.own);
            }
        }
        if changed {
            self.reach();
        }
    }

    fn reach(&mut self) {
        self.version += 1;
        self.reached.iter_mut().for_each(BTreeMap::clear);
        for (place, link) in self.links.iter().enumerate() {
            let Some(link) = link.as_ref().filter(|link| link.reads) else { continue };
            for (reached, address) in self.reached.iter_mut().zip(link.addresses) {
                reached.insert(address, place);
            }
        }
    }

    /// The place of the process that is reached at this address, if any.
    pub(crate) fn place_at(&self, class: TrafficClass, address: &SocketAddr) -> Option<usize> {
        self.reached[class as usize].get(address).copied()
    }

    /// Whether no process is reached through it.
    pub(crate) fn is_idle(&self) -> bool {
        self.reached[0].is_empty()
    }

    /// The address at which the process of this place receives data.
    pub(crate) fn address_of(&self, place: usize) -> Option<SocketAddr> {
        Some(self.links.get(place)?.as_ref()?.addresses[TrafficClass::Data as usize])
    }

    /// Whether records written now reach the incarnation `token`.
    pub(crate) fn reaches(&self, token: u64) -> bool {
        self.links.iter().flatten().any(|link| link.reads && link.token == token)
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Writes a record for the places in `readers`.
    pub(crate) fn write(&mut self, now_ns: u64, latency_ns: u64, class: TrafficClass, readers: u64, bytes: &Rc<[u8]>) {
        let visible_ns = now_ns + LATENCY_MIN_NS + self.rng.below(latency_ns) + self.rng.below(self.lag_ns);
        self.own.borrow_mut().rings[class as usize].push(visible_ns, readers, bytes);
        self.count("records", 1);
    }

    /// Time at which the first unread record becomes visible.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.links.iter().flatten().filter_map(Link::next_ns).min()
    }

    /// Changes which link is read first.
    pub(crate) fn rotate(&mut self) {
        self.turn = (self.turn + 1) % self.links.len().max(1);
    }

    /// Takes the next record of `class` that is visible at `now_ns`.
    pub(crate) fn take(&mut self, now_ns: u64, class: TrafficClass) -> Option<Rc<[u8]>> {
        let first = self.turn.min(self.links.len());
        for index in (first..self.links.len()).chain(0..first) {
            if let Some(bytes) = self.take_from(index, now_ns, class) {
                self.turn = index;
                return Some(bytes);
            }
        }
        None
    }

    fn take_from(&mut self, index: usize, now_ns: u64, class: TrafficClass) -> Option<Rc<[u8]>> {
        let Self { links, token, lapped_ppm, counts, rng, .. } = self;
        let link = links.get_mut(index)?.as_mut()?;
        let place = link.place?;
        let segment = link.foreign.borrow();
        // The owner has given the place to another process since.
        if segment.readers[place] != *token {
            link.place = None;
            return None;
        }
        let ring = &segment.rings[class as usize];
        let cursor = &mut link.cursors[class as usize];
        let stale_until = link.stale_until[class as usize];
        while *cursor < ring.end() {
            let record = ring.get(*cursor);
            // A reader takes records in order, so one that is not visible yet holds back all behind it.
            if record.is_some_and(|record| record.visible_ns + link.latency_ns > now_ns) {
                return None;
            }
            // The writer overwrote the record before it was read, or a fault pretends so. All unread records are lost
            // then.
            if record.is_none() || rng.chance_ppm(*lapped_ppm) {
                let unread = ring.records.iter().skip(usize::try_from(cursor.saturating_sub(ring.first)).unwrap_or(0));
                let lost = unread.filter(|record| record.readers >> place & 1 == 1).count() as u64;
                if record.is_none() || lost > 0 {
                    add_to(counts, "lapped", 1);
                    add_to(counts, "lost", lost);
                }
                *cursor = ring.end();
                return None;
            }
            let number = *cursor;
            *cursor += 1;
            let record = record?;
            let mine = record.readers >> place & 1 == 1;
            if mine || number < stale_until {
                add_to(counts, "read", 1);
                add_to(counts, "of_the_dead", u64::from(segment.orphaned));
                add_to(counts, "stale", u64::from(number < stale_until));
                let dest = record.bytes.last_chunk().map_or(0, |dest| u64::from_le_bytes(*dest));
                add_to(counts, "for_others", u64::from(dest != 0 && dest != *token));
                return Some(Rc::clone(&record.bytes));
            }
        }
        None
    }

    /// Marks that its owner has ended; others may go on reading.
    pub(crate) fn orphan(&self) {
        self.own.borrow_mut().orphaned = true;
    }

    pub(crate) fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }

    pub(crate) fn count(&mut self, name: &str, by: u64) {
        add_to(&mut self.counts, name, by);
    }
}

impl Link {
    /// Returns whether the reading of this process's segment changed.
    fn settle(&mut self, index: usize, token: u64, own: &RefCell<Segment>) -> bool {
        let foreign = self.foreign.borrow();
        let lives = foreign.token == self.token;
        let place = foreign.readers.iter().position(|reader| *reader == token).filter(|_| lives);
        if place != self.place || !lives {
            self.place = place;
            // The start of the reading is fixed before the other process learns that it may write.
            self.stale_until = [0, 1].map(|class: usize| foreign.rings[class].end());
            self.cursors = [0, 1].map(|class: usize| {
                let ring = &foreign.rings[class];
                ring.end().saturating_sub(self.stale).max(ring.first)
            });
            own.borrow_mut().reads[index] = if place.is_some() { self.token } else { 0 };
        }
        let reads = place.is_some_and(|place| foreign.reads[place] == token);
        std::mem::replace(&mut self.reads, reads) != reads
    }

    fn next_ns(&self) -> Option<u64> {
        let place = self.place?;
        let segment = self.foreign.borrow();
        let first = |class: usize| {
            let (ring, cursor) = (&segment.rings[class], self.cursors[class]);
            if cursor < ring.first {
                return Some(0);
            }
            let unread = ring.records.iter().skip(usize::try_from(cursor - ring.first).unwrap_or(0));
            let mine = |record: &&Record| record.readers >> place & 1 == 1 || cursor < self.stale_until[class];
            unread.into_iter().find(mine).map(|record| record.visible_ns + self.latency_ns)
        };
        [first(0), first(1)].into_iter().flatten().min()
    }
}

/// Places in a segment: one bit each.
pub(crate) const LINKS_MAX: usize = 64;

/// Length and readers of a record.
const RECORD_BYTES: u64 = 16;

/// The least time from one core's write to another one's read.
const LATENCY_MIN_NS: u64 = 200;

#[cfg(test)]
mod tests {
    use phalanx_core::Incarnation;

    use super::*;
    use crate::address::Endpoint;

    const QUICK: MemorySettings = MemorySettings { ring_bytes: 1_000, latency_ns: 1, ..MemorySettings::FINE };

    fn process(token: u64) -> (Memory, MemberInfo) {
        let mut memory = Memory::new(&QUICK, Rng::new(token));
        memory.begin_incarnation(token);
        let at = |class| Endpoint::new(usize::try_from(token).expect("small"), 0, class).address();
        let info = MemberInfo {
            host: 1,
            packet_bytes_max: 1500,
            ..MemberInfo::new(Incarnation(token), "", at(TrafficClass::Data), at(TrafficClass::Control))
        };
        (memory, info)
    }

    fn attached() -> [(Memory, MemberInfo); 2] {
        let [mut a, mut b] = [process(1), process(2)];
        assert!(a.0.attach(&b.1, b.0.segment(), 0, 0));
        assert!(a.0.is_idle(), "the other one does not read yet");
        assert!(b.0.attach(&a.1, a.0.segment(), 0, 0));
        a.0.settle();
        b.0.settle();
        assert!(a.0.reaches(2) && b.0.reaches(1));
        [a, b]
    }

    fn write(writer: &mut Memory, to: &MemberInfo, byte: u8, len: usize) {
        let place = writer.place_at(TrafficClass::Data, &to.data).expect("reached");
        writer.write(0, 1, TrafficClass::Data, 1 << place, &vec![byte; len].into());
    }

    fn all(reader: &mut Memory) -> Vec<u8> {
        std::iter::from_fn(|| reader.take(1_000_000, TrafficClass::Data)).map(|bytes| bytes[0]).collect()
    }

    #[test]
    fn what_is_written_is_read_in_order_and_not_before_it_can_be_seen() {
        let [mut a, mut b] = attached();
        for byte in 0..10 {
            write(&mut a.0, &b.1, byte, 20);
        }
        assert_eq!(b.0.take(LATENCY_MIN_NS - 1, TrafficClass::Data), None);
        assert_eq!(b.0.next_ns(), Some(LATENCY_MIN_NS));
        assert_eq!(all(&mut b.0), (0..10).collect::<Vec<u8>>());
        assert_eq!((b.0.next_ns(), a.0.next_ns()), (None, None));
    }

    #[test]
    fn an_overtaken_reader_loses_what_it_had_not_read() {
        let [mut a, mut b] = attached();
        for byte in 0..100 {
            write(&mut a.0, &b.1, byte, 84);
        }
        assert_eq!(all(&mut b.0), [0_u8; 0]);
        assert_eq!(b.0.counts()["lapped"], 1);
        write(&mut a.0, &b.1, 7, 84);
        assert_eq!(all(&mut b.0), [7]);
    }

    #[test]
    fn a_new_life_is_not_reached_and_reads_nothing_of_the_old_one() {
        let [mut a, mut b] = attached();
        write(&mut a.0, &b.1, 1, 20);
        b.0.begin_incarnation(3);
        assert_eq!(all(&mut b.0), [0_u8; 0]);
        a.0.settle();
        assert!(a.0.is_idle());
        let again = MemberInfo { incarnation: Incarnation(3), ..b.1.clone() };
        assert!(b.0.attach(&a.1, a.0.segment(), 0, 0));
        assert!(a.0.attach(&again, b.0.segment(), 0, 0));
        b.0.settle();
        a.0.settle();
        write(&mut a.0, &again, 2, 20);
        assert_eq!(all(&mut b.0), [2]);
    }

    #[test]
    fn a_stale_reader_is_shown_what_was_for_others() {
        let [mut a, mut b] = attached();
        write(&mut a.0, &b.1, 1, 20);
        b.0.begin_incarnation(3);
        a.0.detach(2);
        let again = MemberInfo { incarnation: Incarnation(3), ..b.1.clone() };
        assert!(a.0.attach(&again, b.0.segment(), 0, 0));
        assert!(b.0.attach(&a.1, a.0.segment(), 0, 8));
        assert_eq!(all(&mut b.0), [1]);
        assert_eq!(b.0.counts()["stale"], 1);
    }

    #[test]
    fn the_dead_are_read_to_their_last_record() {
        let [mut a, mut b] = attached();
        write(&mut a.0, &b.1, 1, 20);
        a.0.orphan();
        drop(a);
        assert_eq!(all(&mut b.0), [1]);
        assert_eq!(b.0.counts()["of_the_dead"], 1);
    }

    #[test]
    fn who_detaches_is_reached_no_more() {
        let [mut a, mut b] = attached();
        b.0.detach(1);
        write(&mut a.0, &b.1, 1, 20);
        a.0.settle();
        assert_eq!(a.0.place_at(TrafficClass::Data, &b.1.data), None);
        assert!(b.0.attach(&a.1, a.0.segment(), 0, 0));
        a.0.settle();
        write(&mut a.0, &b.1, 2, 20);
        assert_eq!(all(&mut b.0), [2], "what nobody read is lost");
    }
}
