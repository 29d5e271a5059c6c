//! The network: a card and a link of each host, and a switch with a queue for each of its ports.

use phalanx_core::rng::Rng;

use super::setup::Setup;

/// A device that sends packets one after the other at a given rate: a card, or a port of the switch.
#[derive(Clone, Debug)]
pub(super) struct Line {
    bps: u64,
    /// Time at which the last bit of all its packets has left, in picoseconds. At 100 Gb/s a byte takes 80 ps, so
    /// nanoseconds would be too coarse.
    free_ps: u64,
}

impl Line {
    pub(super) fn new(bps: u64) -> Self {
        Self { bps: bps.max(1), free_ps: 0 }
    }

    /// Sends a packet of `wire_bytes` that arrives at `now_ns`. Returns the time at which its last bit has left.
    pub(super) fn send(&mut self, now_ns: u64, wire_bytes: u64) -> u64 {
        self.free_ps = self.free_ps.max(now_ns * PS) + takes_ps(self.bps, wire_bytes);
        self.free_ps.div_ceil(PS)
    }

    /// Bytes still in the queue.
    pub(super) fn waiting_bytes(&self, now_ns: u64) -> u64 {
        let left_ps = u128::from(self.free_ps.saturating_sub(now_ns * PS));
        (left_ps * u128::from(self.bps) / BITS_PS) as u64
    }
}

fn takes_ps(bps: u64, wire_bytes: u64) -> u64 {
    (u128::from(wire_bytes) * BITS_PS / u128::from(bps)) as u64
}

/// Time that this many bytes take on a link of this rate.
pub(super) fn takes_ns(bps: u64, wire_bytes: u64) -> u64 {
    takes_ps(bps.max(1), wire_bytes).div_ceil(PS)
}

/// Bytes that a packet takes on a link, with all headers and gaps.
pub(super) fn wire_bytes(packet_bytes: usize) -> u64 {
    (packet_bytes as u64 + AROUND_BYTES).max(WIRE_BYTES_MIN)
}

/// All hosts' links, and the switch between them.
pub(super) struct Fabric {
    cards: Vec<Line>,
    ports: Vec<Line>,
    hop_ns: u64,
    port_bytes: u64,
    loss_ppm: u32,
    rng: Rng,
    pub(super) counts: Counts,
}

/// Counts of the network's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) packets: u64,
    /// Packets dropped because a port's queue was full.
    pub(super) dropped: u64,
    /// Packets lost by chance.
    pub(super) lost: u64,
    /// The longest queue of a port, in bytes.
    pub(super) waiting_max: u64,
}

impl Fabric {
    pub(super) fn new(setup: &Setup, hosts: usize, rng: Rng) -> Self {
        let lines = vec![Line::new(setup.link_bps); hosts];
        Self {
            cards: lines.clone(),
            ports: lines,
            hop_ns: setup.hop_ns,
            port_bytes: setup.port_bytes,
            loss_ppm: setup.loss_ppm,
            rng,
            counts: Counts::default(),
        }
    }

    /// Sends a packet from a host's card. Returns the time at which the switch has it.
    pub(super) fn send(&mut self, now_ns: u64, from: usize, packet_bytes: usize) -> u64 {
        self.counts.packets += 1;
        self.cards[from].send(now_ns, wire_bytes(packet_bytes)) + self.hop_ns
    }

    /// Forwards a packet from the switch. Returns the time at which the host `to` has it; `None`: it is lost.
    pub(super) fn forward(&mut self, now_ns: u64, to: usize, packet_bytes: usize) -> Option<u64> {
        if self.rng.chance_ppm(self.loss_ppm) {
            self.counts.lost += 1;
            return None;
        }
        let port = &mut self.ports[to];
        let waiting = port.waiting_bytes(now_ns) + wire_bytes(packet_bytes);
        if waiting > self.port_bytes {
            self.counts.dropped += 1;
            return None;
        }
        self.counts.waiting_max = self.counts.waiting_max.max(waiting);
        Some(port.send(now_ns, wire_bytes(packet_bytes)) + self.hop_ns)
    }
}

/// Picoseconds in a nanosecond.
const PS: u64 = 1_000;
/// Bits in a byte times picoseconds in a second.
const BITS_PS: u128 = 8_000_000_000_000;
/// Bytes around a packet: UDP 8, IPv4 20, Ethernet 18, preamble 8, gap 12.
const AROUND_BYTES: u64 = 66;
/// Length of the shortest Ethernet frame, with preamble and gap.
const WIRE_BYTES_MIN: u64 = 84;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saturated_line_gives_exactly_its_rate() {
        for (bps, second_bytes) in [(10_000_000_000, 1_250_000_000), (100_000_000_000, 12_500_000_000_u64)] {
            let mut line = Line::new(bps);
            let (packets, each) = (second_bytes / 1_000 / 1_250, 1_250);
            let ends: Vec<u64> = (0..packets).map(|_| line.send(5_000, each)).collect();
            assert_eq!(ends.last(), Some(&1_005_000), "a millisecond's bytes take a millisecond");
            assert!(ends.is_sorted());
            assert_eq!(line.waiting_bytes(5_000), packets * each);
            assert_eq!((line.waiting_bytes(505_000), line.waiting_bytes(1_005_000)), (packets * each / 2, 0));
            // An idle time does not count as credit.
            assert_eq!(line.send(2_000_000, 12_500), 2_000_000 + takes_ps(bps, 12_500) / PS);
        }
    }

    fn fabric(port_bytes: u64, loss_ppm: u32) -> Fabric {
        Fabric::new(&Setup { port_bytes, loss_ppm, ..Setup::default() }, 3, Rng::new(1))
    }

    #[test]
    fn a_port_is_bounded_first_in_first_out_and_drops_are_counted() {
        let each = wire_bytes(1_472);
        let mut fabric = fabric(10 * each, 0);
        // All arrive at one instant; ten fit.
        let there: Vec<Option<u64>> = (0..25).map(|_| fabric.forward(1_000, 2, 1_472)).collect();
        let taken: Vec<u64> = there.iter().copied().flatten().collect();
        assert_eq!((taken.len(), fabric.counts.dropped), (10, 15));
        assert!(taken.is_sorted() && there[..10].iter().all(Option::is_some));
        assert_eq!(fabric.counts.waiting_max, 10 * each);
        // Other ports' queues are not full, and this one has room for one packet when one has left.
        assert!(fabric.forward(1_000, 1, 1_472).is_some());
        let gone_ns = 1_000 + takes_ns(10_000_000_000, each);
        let later: Vec<bool> = (0..3).map(|_| fabric.forward(gone_ns, 2, 1_472).is_some()).collect();
        assert_eq!(later, [true, false, false]);
    }

    #[test]
    fn a_path_takes_two_links_and_two_hops() {
        let mut fabric = fabric(1 << 20, 0);
        let at_switch = fabric.send(0, 0, 1_184);
        assert_eq!(at_switch, 1_000 + 1_000, "1,250 bytes at 10 Gb/s, and the way");
        assert_eq!(fabric.forward(at_switch, 1, 1_184), Some(4_000));
        // The second of two waits for the first.
        assert_eq!(fabric.send(0, 0, 1_184), 3_000);
    }

    #[test]
    fn chance_takes_its_share() {
        let mut fabric = fabric(1 << 40, 100_000);
        let there = (0..100_000).filter(|_| fabric.forward(0, 1, 64).is_some()).count() as u64;
        assert_eq!(there + fabric.counts.lost, 100_000);
        assert!((9_500..10_500).contains(&fabric.counts.lost), "{}", fabric.counts.lost);
    }
}
