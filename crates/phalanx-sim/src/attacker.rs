//! An attacker on the network. It keeps sealed packets that it saw and sends them again later, also after their
//! sender's death, and sends noise. It has no key.

use std::rc::Rc;

use phalanx_core::rng::Rng;
use phalanx_core::wire::{Header, Kind};

use crate::address::Endpoint;

/// Numbers of recent and of old packets that it remembers.
const RECENT: usize = 128;
const OLD: usize = 128;

/// A packet as seen on the network.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) from: Endpoint,
    pub(crate) to: Endpoint,
    pub(crate) bytes: Rc<[u8]>,
}

/// The attacker's packets, and the rates at which it sends.
#[derive(Debug)]
pub(crate) struct Attacker {
    recent: Vec<Seen>,
    next: usize,
    /// A random sample of the packets that were dropped from `recent`, including packets of incarnations that died long
    /// ago.
    old: Vec<Seen>,
    dropped: u64,
    /// The square root of `dropped`, rounded down.
    dropped_root: u64,
    rng: Rng,
    /// Packets replayed per second; 0: it only listens.
    pub(crate) replay_rate: u64,
    /// Noise packets per second.
    pub(crate) noise_rate: u64,
    /// Forged packets per second.
    pub(crate) forge_rate: u64,
}

impl Attacker {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            recent: Vec::with_capacity(RECENT),
            next: 0,
            old: Vec::with_capacity(OLD),
            dropped: 0,
            dropped_root: 0,
            rng,
            replay_rate: 0,
            noise_rate: 0,
            forge_rate: 0,
        }
    }

    /// Packets per second, of all kinds.
    pub(crate) fn rate(&self) -> u64 {
        self.replay_rate + self.noise_rate + self.forge_rate
    }

    /// Remembers a packet.
    pub(crate) fn observe(&mut self, from: Endpoint, to: Endpoint, bytes: &Rc<[u8]>) {
        let seen = Seen { from, to, bytes: Rc::clone(bytes) };
        if self.recent.len() < RECENT {
            self.recent.push(seen);
            return;
        }
        let gone = std::mem::replace(&mut self.recent[self.next], seen);
        self.next = (self.next + 1) % RECENT;
        self.dropped += 1;
        self.dropped_root += u64::from((self.dropped_root + 1) * (self.dropped_root + 1) <= self.dropped);
        if self.old.len() < OLD {
            self.old.push(gone);
        } else {
            // Reservoir sampling replaces with probability OLD/n, so every packet of the past is equally likely. Here
            // it is 1/sqrt(n), which keeps more of the newer packets: those are worth replaying.
            let spot = self.rng.below(self.dropped_root * OLD as u64);
            if let Some(slot) = usize::try_from(spot).ok().and_then(|i| self.old.get_mut(i)) {
                *slot = gone;
            }
        }
    }

    /// A packet to replay: to its original receiver, or to another process's socket `elsewhere`.
    pub(crate) fn replay(&mut self, elsewhere: Endpoint) -> Option<Seen> {
        let total = (self.recent.len() + self.old.len()) as u64;
        let spot = usize::try_from(self.rng.below(total)).ok()?;
        let mut seen = self.recent.iter().chain(&self.old).nth(spot)?.clone();
        if self.rng.chance_ppm(200_000) {
            seen.to = elsewhere;
        }
        Some(seen)
    }

    /// All remembered packets from `from`, oldest first, for a scripted replay of one process's packets.
    pub(crate) fn packets_from(&self, is_sender: impl Fn(Endpoint) -> bool) -> Vec<Seen> {
        let newer = self.recent[..self.next].iter();
        self.old
            .iter()
            .chain(&self.recent[self.next..])
            .chain(newer)
            .filter(|seen| is_sender(seen.from))
            .cloned()
            .collect()
    }

    /// A packet with a true or an invented header, and a body that the attacker cannot have sealed.
    pub(crate) fn forge(&mut self, from: Endpoint, to: Endpoint) -> Option<Seen> {
        let mut pick = || self.recent.get(index(&mut self.rng, self.recent.len()));
        let (seen, other) = (pick()?, pick()?);
        let mut header = Header::parse(&seen.bytes).ok()?;
        let genuine = header;
        match self.rng.below(5) {
            0 => header.number.0 += 1 + self.rng.below(1000),
            1 => header.space.0 ^= 1 << self.rng.below(32),
            2 => header.kind = Kind::ALL[index(&mut self.rng, Kind::ALL.len())],
            3 => header.sender = Header::parse(&other.bytes).ok()?.sender,
            _ => {}
        }
        let mut bytes = Vec::with_capacity(seen.bytes.len());
        header.write(&mut bytes);
        if header != genuine && self.rng.chance_ppm(700_000) {
            // A true body under another packet's header.
            bytes.extend_from_slice(seen.bytes.get(Header::LEN..)?);
            return Some(Seen { from: other.from, to: seen.to, bytes: bytes.into() });
        }
        bytes.resize_with(seen.bytes.len(), || self.rng.next_u64().to_le_bytes()[0]);
        Some(Seen { from, to, bytes: bytes.into() })
    }

    /// Bytes that are no packet: random, or a real packet truncated or extended, to `to`.
    pub(crate) fn noise(&mut self, from: Endpoint, to: Endpoint) -> Seen {
        let mut bytes = match self.recent.get(index(&mut self.rng, self.recent.len())) {
            Some(seen) if self.rng.chance_ppm(700_000) => seen.bytes.to_vec(),
            _ => Vec::new(),
        };
        let len = index(&mut self.rng, bytes.len().max(64) + 8);
        bytes.resize_with(len, || self.rng.next_u64().to_le_bytes()[0]);
        Seen { from, to, bytes: bytes.into() }
    }
}

/// Flips one to four bits of `packet`.
pub(crate) fn corrupt(packet: &mut [u8], rng: &mut Rng) {
    if packet.is_empty() {
        return;
    }
    for _ in 0..=rng.below(4) {
        let at = index(rng, packet.len());
        packet[at] ^= 1 << rng.below(8);
    }
}

fn index(rng: &mut Rng, bound: usize) -> usize {
    usize::try_from(rng.below(bound as u64)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use phalanx_core::TrafficClass;
    use phalanx_core::wire::{PacketNumber, Space};

    use super::*;

    #[test]
    fn old_packets_come_back() {
        let (a, b) = (Endpoint::new(0, 0, TrafficClass::Data), Endpoint::new(1, 0, TrafficClass::Data));
        let mut attacker = Attacker::new(Rng::new(3));
        assert!(attacker.replay(b).is_none());
        for i in 0..10_000_u32 {
            attacker.observe(a, b, &Rc::from(i.to_le_bytes()));
        }
        let number = |seen: &Seen| u32::from_le_bytes(seen.bytes[..4].try_into().expect("four bytes"));
        let replayed: Vec<u32> = (0..1000).filter_map(|_| attacker.replay(b)).map(|s| number(&s)).collect();
        assert_eq!(replayed.len(), 1000);
        assert!(replayed.iter().any(|n| *n < 5_000));
        assert!(replayed.iter().any(|n| *n > 9_900));
        assert_eq!(attacker.packets_from(|from| from == b).len(), 0);
        assert_eq!(attacker.packets_from(|from| from == a).len(), RECENT + OLD);
    }

    #[test]
    fn a_forged_packet_bears_a_true_body_under_another_header_or_the_other_way_round() {
        let (a, b) = (Endpoint::new(0, 0, TrafficClass::Data), Endpoint::new(1, 0, TrafficClass::Data));
        let mut attacker = Attacker::new(Rng::new(3));
        assert!(attacker.forge(a, b).is_none());
        let packet = |sender: u64, body: u8| {
            let sender = phalanx_core::Incarnation(sender);
            let header = Header { kind: Kind::Direct, cell_tag: 7, sender, space: Space(1), number: PacketNumber(1) };
            let mut bytes = Vec::new();
            header.write(&mut bytes);
            bytes.resize(Header::LEN + 40, body);
            bytes
        };
        let genuine = [packet(11, 1), packet(12, 2)];
        attacker.observe(a, b, &genuine[0].as_slice().into());
        attacker.observe(b, a, &genuine[1].as_slice().into());
        let forged: Vec<Seen> = (0..200).filter_map(|_| attacker.forge(a, b)).collect();
        assert_eq!(forged.len(), 200);
        assert!(forged.iter().all(|seen| genuine.iter().all(|packet| packet[..] != seen.bytes[..])));
        let anothers_name = packet(12, 1);
        assert!(forged.iter().any(|seen| seen.bytes[..] == anothers_name[..]));
    }

    #[test]
    fn corruption_changes_a_packet() {
        let mut rng = Rng::new(9);
        let changed = (0..100).filter(|_| {
            let mut packet = [0_u8; 100];
            corrupt(&mut packet, &mut rng);
            packet != [0; 100]
        });
        // Two flips of one bit may cancel out; that is rare.
        assert!(changed.count() >= 98);
        corrupt(&mut [], &mut rng);
    }
}
