//! Faults over a driver that loops back what it is given to send.

use std::collections::VecDeque;

use super::*;
use crate::driver::{Received, Transmit};

#[derive(Debug, Default)]
struct Loopback {
    carried: Carried,
    waiting: VecDeque<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Carried(VecDeque<Vec<u8>>);

impl Transmit for Carried {
    fn transmit(&mut self, _lane: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        self.0.extend(to.iter().map(|_| packet.to_vec()));
    }
}

impl Driver for Loopback {
    type Outbox = Carried;

    fn receive(
        &mut self,
        max: usize,
        each: &mut impl FnMut(&mut Carried, TrafficClass, Origin, Packet<'_>),
    ) -> Received {
        let mut taken = 0;
        while taken < max {
            let Some(mut packet) = self.waiting.pop_front() else { break };
            each(&mut self.carried, TrafficClass::Data, Origin::Network(here()), Packet::Lent(&mut packet));
            taken += 1;
        }
        Received { packets: taken, more: taken == max }
    }

    fn outbox(&mut self) -> &mut Carried {
        &mut self.carried
    }

    fn flush(&mut self) {
        self.waiting.append(&mut self.carried.0);
    }

    fn local_address(&self, _lane: TrafficClass) -> SocketAddr {
        here()
    }

    fn packet_bytes_max(&self) -> u32 {
        1_432
    }

    fn counters(&self, _each: &mut dyn FnMut(&'static str, u64)) {}
}

fn here() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 9))
}

/// Sends 0..count and returns what arrived. The receiver overwrites each packet, as decryption in place does.
fn run(faults: Faults, seed: u64, count: u32) -> (Vec<u32>, Vec<(&'static str, u64)>) {
    let mut lossy = Lossy::new(Loopback::default(), faults, seed);
    for i in 0..count {
        lossy.outbox().transmit(TrafficClass::Data, &[here()], &i.to_le_bytes());
    }
    lossy.flush();
    let mut arrived = Vec::new();
    loop {
        let before = arrived.len();
        let taken = lossy.receive(16, &mut |_, _, _, mut bytes| {
            arrived.push(u32::from_le_bytes((&*bytes).try_into().expect("four bytes were sent")));
            bytes.fill(0xff);
        });
        if taken.packets == 0 && arrived.len() == before {
            break;
        }
    }
    let mut counters = Vec::new();
    lossy.counters(&mut |name, value| counters.push((name, value)));
    (arrived, counters)
}

#[test]
fn without_faults_all_arrives_in_order() {
    let (arrived, counters) = run(Faults::default(), 1, 500);
    assert_eq!(arrived, (0..500).collect::<Vec<_>>());
    assert!(counters.iter().all(|(_, value)| *value == 0), "{counters:?}");
}

#[test]
fn one_seed_one_fate() {
    let faults = Faults { loss_ppm: 100_000, duplicate_ppm: 100_000, reorder_ppm: 100_000 };
    assert_eq!(run(faults, 7, 2_000), run(faults, 7, 2_000));
    assert_ne!(run(faults, 7, 2_000).0, run(faults, 8, 2_000).0);
}

#[test]
fn what_is_counted_is_what_happened() {
    let faults = Faults { loss_ppm: 100_000, duplicate_ppm: 50_000, reorder_ppm: 50_000 };
    let (mut arrived, counters) = run(faults, 3, 10_000);
    let value = |name: &str| counters.iter().find(|(n, _)| *n == name).expect("counted").1 as usize;
    let (lost, doubled, reordered) = (value("lossy_lost"), value("lossy_duplicated"), value("lossy_reordered"));
    assert!((800..1_200).contains(&lost), "{lost} of 10,000 lost at 10 %");
    assert!((300..600).contains(&doubled), "{doubled}");
    assert!((300..600).contains(&reordered), "{reordered}");
    assert_eq!(arrived.len(), 10_000 - lost + doubled);
    let backwards = arrived.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!(backwards > 100, "{backwards} steps backwards");
    arrived.sort_unstable();
    arrived.dedup();
    assert_eq!(arrived.len(), 10_000 - lost, "nothing but the lost is missing, held ones are let go at the end");
}
