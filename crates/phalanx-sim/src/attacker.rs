//! An attacker on the network: keeps sealed packets it saw and sends them again later, also after their sender's
//! death, and sends noise. It has no key.

use std::rc::Rc;

use phalanx_core::rng::Rng;

use crate::address::Endpoint;

/// How many recent packets it remembers, and how many old ones.
const RECENT: usize = 128;
const OLD: usize = 128;

/// A packet as seen on the network.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) from: Endpoint,
    pub(crate) to: Endpoint,
    pub(crate) bytes: Rc<[u8]>,
}

/// What the attacker has and how hard it works.
#[derive(Debug)]
pub(crate) struct Attacker {
    recent: Vec<Seen>,
    next: usize,
    /// A random sample of everything that dropped out of `recent`: packets of incarnations long dead among them.
    old: Vec<Seen>,
    dropped: u64,
    rng: Rng,
    /// Packets a second sent again; 0: only listens.
    pub(crate) replay_rate: u64,
    /// Noise packets a second.
    pub(crate) noise_rate: u64,
}

impl Attacker {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            recent: Vec::with_capacity(RECENT),
            next: 0,
            old: Vec::with_capacity(OLD),
            dropped: 0,
            rng,
            replay_rate: 0,
            noise_rate: 0,
        }
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
        if self.old.len() < OLD {
            self.old.push(gone);
        } else {
            // Reservoir sampling keeps every packet of the past equally likely; the square root of the past keeps
            // enough of the newer ones to be worth replaying.
            let spot = self.rng.below(self.dropped.isqrt() * OLD as u64);
            if let Some(slot) = usize::try_from(spot).ok().and_then(|i| self.old.get_mut(i)) {
                *slot = gone;
            }
        }
    }

    /// A packet to send again, to where it went or to another process's socket `elsewhere`.
    pub(crate) fn replay(&mut self, elsewhere: Endpoint) -> Option<Seen> {
        let total = (self.recent.len() + self.old.len()) as u64;
        let spot = usize::try_from(self.rng.below(total)).ok()?;
        let mut seen = self.recent.iter().chain(&self.old).nth(spot)?.clone();
        if self.rng.chance_ppm(200_000) {
            seen.to = elsewhere;
        }
        Some(seen)
    }

    /// A real packet that names the sender of another one in its header.
    fn forge(&mut self) -> Option<Seen> {
        let mut pick = || self.recent.get(index(&mut self.rng, self.recent.len()));
        let (seen, other) = (pick()?, pick()?);
        let mut bytes = seen.bytes.to_vec();
        bytes.get_mut(SENDER)?.copy_from_slice(other.bytes.get(SENDER)?);
        Some(Seen { from: other.from, to: seen.to, bytes: bytes.into() })
    }

    /// All it remembers that was sent from `from`, oldest first: for a scripted replay of one process's packets.
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

    /// Bytes that are no packet: random, a real packet cut short or grown, or one under another sender's name, to `to`.
    pub(crate) fn noise(&mut self, from: Endpoint, to: Endpoint) -> Seen {
        if self.rng.chance_ppm(250_000)
            && let Some(forged) = self.forge()
        {
            return forged;
        }
        let mut bytes = match self.recent.get(index(&mut self.rng, self.recent.len())) {
            Some(seen) if self.rng.chance_ppm(700_000) => seen.bytes.to_vec(),
            _ => Vec::new(),
        };
        let len = index(&mut self.rng, bytes.len().max(64) + 8);
        bytes.resize_with(len, || self.rng.next_u64().to_le_bytes()[0]);
        Seen { from, to, bytes: bytes.into() }
    }
}

/// Where a packet's header names its sender.
const SENDER: std::ops::Range<usize> = 4..12;

/// Changes one to four bits of `packet`.
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
    use phalanx_core::Lane;

    use super::*;

    #[test]
    fn old_packets_come_back() {
        let (a, b) = (Endpoint::new(0, 0, Lane::Data), Endpoint::new(1, 0, Lane::Data));
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
    fn a_forged_packet_is_one_senders_under_anothers_name() {
        let (a, b) = (Endpoint::new(0, 0, Lane::Data), Endpoint::new(1, 0, Lane::Data));
        let mut attacker = Attacker::new(Rng::new(3));
        assert!(attacker.forge().is_none());
        attacker.observe(a, b, &Rc::from([1_u8; 40]));
        attacker.observe(b, a, &Rc::from([2_u8; 40]));
        let forged: Vec<Seen> = (0..100).filter_map(|_| attacker.forge()).collect();
        assert_eq!(forged.len(), 100);
        assert!(forged.iter().any(|seen| seen.bytes[4..12] == [2; 8] && seen.bytes[..4] == [1; 4] && seen.to == b));
        assert!(forged.iter().all(|seen| seen.bytes[..4] == seen.bytes[12..16]));
    }

    #[test]
    fn corruption_changes_a_packet() {
        let mut rng = Rng::new(9);
        let changed = (0..100).filter(|_| {
            let mut packet = [0_u8; 100];
            corrupt(&mut packet, &mut rng);
            packet != [0; 100]
        });
        // Two flips of one bit may undo each other; that is rare.
        assert!(changed.count() >= 98);
        corrupt(&mut [], &mut rng);
    }
}
