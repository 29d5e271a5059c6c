//! The network: one link in each direction between every two processes, each with its own weather.

use phalanx_core::TrafficClass;
use phalanx_core::rng::Rng;
use phalanx_core::wire::{Header, Kind, Space};

use crate::partial::Gate;
use crate::weather::{Toll, Weather};

/// The longest wait of a packet in front of a link with a rate limit; beyond it the queue is full.
pub const QUEUE_NS_MAX: u64 = 200_000_000;
/// Time under way after which a packet counts as late.
const LATE_NS: u64 = 500_000_000;

/// The part of a packet on the network that is visible without the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Slot of the sender.
    pub from: usize,
    /// Slot of the receiver.
    pub to: usize,
    /// Socket of the receiver.
    pub class: TrafficClass,
    /// Its purpose.
    pub kind: Kind,
    /// Its number in its packet-number space.
    pub number: u64,
    /// Its length.
    pub len_bytes: usize,
}

/// Decides whether a packet is lost.
pub(crate) type Filter = Box<dyn FnMut(&Packet) -> bool>;

/// Why the network, or a receiver's socket, did not deliver a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lost {
    /// At random, alone or in a burst.
    Loss,
    /// The link is cut.
    Cut,
    /// Longer than the path can carry.
    Mtu,
    /// The queue in front of a slow link is full.
    Rate,
    /// The receiver's socket buffer is full.
    Buffer,
    /// No process has that address, or none has it any more.
    Nobody,
    /// Something on the path dropped it because of its kind.
    Toll,
    /// The sender's own send buffer is full.
    SendBuffer,
}

impl Lost {
    /// Every reason, in the order of the counters.
    pub const ALL: [Self; 8] =
        [Self::Loss, Self::Cut, Self::Mtu, Self::Rate, Self::Buffer, Self::Nobody, Self::Toll, Self::SendBuffer];

    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Cut => "cut",
            Self::Mtu => "mtu",
            Self::Rate => "rate",
            Self::Buffer => "buffer",
            Self::Nobody => "nobody",
            Self::Toll => "toll",
            Self::SendBuffer => "send_buffer",
        }
    }
}

/// One copy of a packet under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at_ns: u64,
    /// Whether some of its bits are flipped on the way.
    pub(crate) corrupt: bool,
}

/// All links between `n` processes.
#[derive(Debug)]
pub(crate) struct Network {
    n: usize,
    links: Vec<Link>,
    /// Length of the longest packet that each process can send or receive; `usize::MAX`: any.
    path_bytes: Vec<usize>,
    tolls: Vec<TollGate>,
    /// Partly broken paths, for good or while a fault lasts.
    gates: Vec<Gate>,
    /// Number of faults that make shared memory lose much, or delay it.
    rough_memory: u32,
    /// Arrival of the last packet that is under way for long.
    late_until_ns: u64,
    /// Version: grows with each change of a link, not with packets.
    version: u64,
    rng: Rng,
}

/// A toll in force.
#[derive(Debug)]
struct TollGate {
    /// The fault that causes it.
    fault: usize,
    links: Vec<(usize, usize)>,
    kind: Kind,
    toll: Toll,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    weather: Weather,
    /// Number of faults that cut it now: overlapping cuts heal one by one.
    cuts: u16,
    in_burst: bool,
    busy_until_ns: u64,
    last_arrival_ns: u64,
}

impl Network {
    pub(crate) fn new(n: usize, rng: Rng) -> Self {
        let link = Link { weather: Weather::FINE, cuts: 0, in_burst: false, busy_until_ns: 0, last_arrival_ns: 0 };
        Self {
            n,
            links: vec![link; n * n],
            path_bytes: vec![usize::MAX; n],
            tolls: Vec::new(),
            gates: Vec::new(),
            rough_memory: 0,
            late_until_ns: 0,
            version: 0,
            rng,
        }
    }

    /// Begins a toll on the packets of `kind` on `links`, on behalf of a fault.
    pub(crate) fn take_toll(&mut self, fault: usize, links: Vec<(usize, usize)>, kind: Kind, toll: Toll) {
        self.version += 1;
        self.tolls.push(TollGate { fault, links, kind, toll });
    }

    /// Breaks a path in part.
    pub(crate) fn put_up(&mut self, gate: Gate) {
        self.version += 1;
        self.gates.push(gate);
    }

    /// Whether a partly broken path does not let this packet pass.
    pub(crate) fn is_stopped(
        &mut self,
        link: (usize, usize),
        class: TrafficClass,
        header: Option<Header>,
        len_bytes: usize,
    ) -> bool {
        self.gates.iter_mut().any(|gate| gate.stops(link, class, header, len_bytes))
    }

    /// From now on a fault's gate stops only the packets that it has stopped before.
    pub(crate) fn end_learning(&mut self, fault: usize) {
        self.gates.iter_mut().filter(|gate| gate.fault == Some(fault)).for_each(Gate::end_learning);
    }

    /// Whether a gate stands open until a token passes.
    pub(crate) fn awaits_pass(&self) -> bool {
        self.gates.iter().any(Gate::awaits_pass)
    }

    /// Notes the number of token passes known to a process whose packets are about to be carried.
    pub(crate) fn note_tenure(&mut self, slot: usize, space: Space, tenure: u32) {
        self.gates.iter_mut().for_each(|gate| gate.note_tenure(slot, space, tenure));
    }

    /// Removes the gates of a fault.
    pub(crate) fn take_down(&mut self, fault: usize) {
        self.version += 1;
        self.gates.retain(|gate| gate.fault != Some(fault));
    }

    /// Counts a fault of shared memory that begins or ends.
    pub(crate) fn roughen_memory(&mut self, begins: bool) {
        self.version += 1;
        self.rough_memory = if begins { self.rough_memory + 1 } else { self.rough_memory.saturating_sub(1) };
    }

    /// Ends the toll of a fault.
    pub(crate) fn end_toll(&mut self, fault: usize) {
        self.version += 1;
        self.tolls.retain(|gate| gate.fault != fault);
    }

    /// The delay of a packet by a toll; `None`: it is dropped.
    fn pay(&mut self, from: usize, to: usize, kind: Option<Kind>) -> Option<u64> {
        let mut held_ns = 0;
        for TollGate { links, kind: of, toll, .. } in &self.tolls {
            if Some(*of) == kind && links.contains(&(from, to)) {
                if self.rng.chance_ppm(toll.loss_ppm) {
                    return None;
                }
                held_ns += self.rng.below(toll.delay_ns);
            }
        }
        Some(held_ns)
    }

    pub(crate) fn weather_mut(&mut self, from: usize, to: usize) -> &mut Weather {
        self.version += 1;
        &mut self.links[from * self.n + to].weather
    }

    /// Version: changes whenever a cut, the weather or a path changes.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Whether nothing passes from one to the other.
    pub(crate) fn is_cut(&self, from: usize, to: usize) -> bool {
        self.links[from * self.n + to].cuts > 0
    }

    /// Whether packets are under way that were sent long ago. A cut does not stop them.
    pub(crate) fn is_late(&self, now_ns: u64) -> bool {
        now_ns < self.late_until_ns
    }

    /// Whether any path or link is much worse than a network should be.
    pub(crate) fn is_rough(&self, now_ns: u64) -> bool {
        self.is_late(now_ns)
            || self.links.iter().any(|link| link.weather.is_rough())
            || self.path_bytes.iter().any(|bytes| *bytes != usize::MAX)
            || !self.tolls.is_empty()
            || !self.gates.is_empty()
            || self.rough_memory > 0
    }

    pub(crate) fn cut(&mut self, from: usize, to: usize) {
        self.version += 1;
        self.links[from * self.n + to].cuts += 1;
    }

    /// Undoes one [`cut`](Self::cut).
    pub(crate) fn mend(&mut self, from: usize, to: usize) {
        self.version += 1;
        let cuts = &mut self.links[from * self.n + to].cuts;
        *cuts = cuts.saturating_sub(1);
    }

    pub(crate) fn limit_path(&mut self, process: usize, bytes: usize) {
        self.version += 1;
        self.path_bytes[process] = bytes;
    }

    /// Makes every link whole; the weather is the caller's.
    pub(crate) fn heal(&mut self) {
        self.version += 1;
        for link in &mut self.links {
            link.cuts = 0;
            link.in_burst = false;
        }
        self.path_bytes.fill(usize::MAX);
        self.tolls.clear();
    }

    /// Offers a packet of `len_bytes` (and a `kind`, if it has a header) to the link at `now_ns`. Returns at most two
    /// copies.
    pub(crate) fn offer(
        &mut self,
        now_ns: u64,
        from: usize,
        to: usize,
        len_bytes: usize,
        kind: Option<Kind>,
    ) -> Result<(Arrival, Option<Arrival>), Lost> {
        if len_bytes > self.path_bytes[from].min(self.path_bytes[to]) {
            return Err(Lost::Mtu);
        }
        let held_ns = if self.tolls.is_empty() { 0 } else { self.pay(from, to, kind).ok_or(Lost::Toll)? };
        let link = &mut self.links[from * self.n + to];
        if link.cuts > 0 {
            return Err(Lost::Cut);
        }
        let weather = link.weather;
        let rng = &mut self.rng;
        // Gilbert's model: per packet, a burst begins or ends with a fixed probability, and loses everything in
        // between.
        if weather.burst_ppm > 0 {
            let turn = if link.in_burst { weather.burst_end_ppm } else { weather.burst_ppm };
            link.in_burst ^= rng.chance_ppm(turn);
            if link.in_burst {
                return Err(Lost::Loss);
            }
        }
        if rng.chance_ppm(weather.loss_ppm) {
            return Err(Lost::Loss);
        }
        let mut leaves_ns = now_ns;
        // Without a limit the rate is 0, and the division gives `None`.
        if let Some(takes_ns) = (len_bytes as u64 * 1_000_000_000).checked_div(weather.rate_bytes) {
            let start_ns = link.busy_until_ns.max(now_ns);
            if start_ns - now_ns > QUEUE_NS_MAX {
                return Err(Lost::Rate);
            }
            leaves_ns = start_ns + takes_ns;
            link.busy_until_ns = leaves_ns;
        }
        let mut first = arrival(&weather, leaves_ns, rng);
        if weather.in_order {
            first.at_ns = first.at_ns.max(link.last_arrival_ns);
            link.last_arrival_ns = first.at_ns;
        }
        // After the order of the link is fixed: packets behind one that is held back overtake it.
        first.at_ns += held_ns;
        // A duplicate has a delay of its own, so it may arrive first.
        let second = rng.chance_ppm(weather.duplicate_ppm).then(|| arrival(&weather, leaves_ns, rng));
        // A later cut does not stop a packet under way. The checker has to know until when such packets arrive.
        // Far members are no further apart than they always are.
        let late_ns = LATE_NS.max(2 * weather.base_ns);
        for arrival in [Some(first), second].into_iter().flatten().filter(|a| a.at_ns > now_ns + late_ns) {
            self.late_until_ns = self.late_until_ns.max(arrival.at_ns);
        }
        Ok((first, second))
    }
}

fn arrival(weather: &Weather, leaves_ns: u64, rng: &mut Rng) -> Arrival {
    let mut at_ns = leaves_ns + weather.base_ns + rng.below(weather.jitter_ns);
    if rng.chance_ppm(weather.spike_ppm) {
        at_ns += rng.below(weather.spike_ns);
    }
    Arrival { at_ns, corrupt: rng.chance_ppm(weather.corrupt_ppm) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> Network {
        Network::new(3, Rng::new(1))
    }

    #[test]
    fn cuts_are_one_way_and_counted() {
        let mut net = network();
        net.cut(0, 1);
        net.cut(0, 1);
        assert_eq!(net.offer(0, 0, 1, 100, None), Err(Lost::Cut));
        assert!(net.offer(0, 1, 0, 100, None).is_ok());
        net.mend(0, 1);
        assert_eq!(net.offer(0, 0, 1, 100, None), Err(Lost::Cut), "one cut is left");
        net.mend(0, 1);
        net.mend(0, 1);
        assert!(net.offer(0, 0, 1, 100, None).is_ok());
    }

    #[test]
    fn loss_duplication_and_order_follow_the_weather() {
        let mut net = network();
        *net.weather_mut(0, 1) = Weather {
            loss_ppm: 100_000,
            duplicate_ppm: 200_000,
            jitter_ns: 1_000_000,
            in_order: false,
            ..Weather::FINE
        };
        let (mut lost, mut twice, mut overtaken, mut last_ns) = (0, 0, 0, 0);
        for i in 0..10_000_u64 {
            match net.offer(i * 1000, 0, 1, 100, None) {
                Err(reason) => {
                    assert_eq!(reason, Lost::Loss);
                    lost += 1;
                }
                Ok((first, second)) => {
                    assert!(first.at_ns >= i * 1000 + Weather::FINE.base_ns);
                    twice += u32::from(second.is_some());
                    overtaken += u32::from(first.at_ns < last_ns);
                    last_ns = first.at_ns;
                }
            }
        }
        assert!((800..1200).contains(&lost), "{lost}");
        assert!((1500..2100).contains(&twice), "{twice}");
        assert!(overtaken > 1000, "{overtaken}");
    }

    #[test]
    fn one_cable_keeps_the_order() {
        let mut net = network();
        net.weather_mut(0, 1).jitter_ns = 1_000_000;
        let arrivals: Vec<u64> =
            (0..1000).filter_map(|i| net.offer(i * 1000, 0, 1, 100, None).ok()).map(|(first, _)| first.at_ns).collect();
        assert_eq!(arrivals.len(), 1000);
        assert!(arrivals.is_sorted());
    }

    #[test]
    fn a_slow_link_queues_then_drops() {
        let mut net = network();
        net.weather_mut(0, 1).rate_bytes = 1_000_000;
        let mut last_ns = 0;
        let mut accepted = 0_u64;
        for _ in 0..1000 {
            match net.offer(0, 0, 1, 1000, None) {
                Ok((first, _)) => {
                    accepted += 1;
                    last_ns = last_ns.max(first.at_ns);
                }
                Err(reason) => assert_eq!(reason, Lost::Rate),
            }
        }
        // 200 ms of queue at 1 MB/s hold 200 packets of 1000 bytes.
        assert!((199..=202).contains(&accepted), "{accepted}");
        assert!(last_ns >= 200_000_000);
    }

    #[test]
    fn a_toll_meets_one_kind_on_its_links_until_it_ends() {
        let mut net = network();
        net.take_toll(7, vec![(0, 1)], Kind::Control, Toll { loss_ppm: 1_000_000, delay_ns: 0 });
        net.take_toll(8, vec![(0, 2)], Kind::Control, Toll { loss_ppm: 0, delay_ns: 1_000_000_000 });
        assert_eq!(net.offer(0, 0, 1, 100, Some(Kind::Control)), Err(Lost::Toll));
        assert!(net.offer(0, 0, 1, 100, Some(Kind::Data)).is_ok());
        assert!(net.offer(0, 1, 0, 100, Some(Kind::Control)).is_ok());
        let held = (0..100).filter_map(|_| net.offer(0, 0, 2, 100, Some(Kind::Control)).ok());
        assert!(held.map(|(first, _)| first.at_ns).max() > Some(500_000_000));
        net.end_toll(7);
        assert!(net.offer(0, 0, 1, 100, Some(Kind::Control)).is_ok());
    }

    #[test]
    fn a_path_hole_takes_long_packets_both_ways() {
        let mut net = network();
        net.limit_path(2, 600);
        assert_eq!(net.offer(0, 0, 2, 601, None), Err(Lost::Mtu));
        assert_eq!(net.offer(0, 2, 1, 601, None), Err(Lost::Mtu));
        assert!(net.offer(0, 2, 1, 600, None).is_ok());
        net.heal();
        assert!(net.offer(0, 2, 1, 601, None).is_ok());
    }
}
