//! A member that holds the cell key and sends nonsense: the others may drop it, exclude it, or ignore it; they do
//! not panic, do not grow without bound, and their invariants hold.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use phalanx_core::rng::Rng;
use phalanx_core::seal::{CellKey, Sealer};
use phalanx_core::wire::{Header, Kind, cell_tag};
use phalanx_core::{
    Delivery, Effects, Event, Founding, GroupId, Incarnation, Instant, Lane, Limits, MemberInfo, Order, Process,
    Security, Settings, Timing,
};

#[derive(Default)]
struct Out {
    packets: Vec<(Lane, SocketAddr, Vec<u8>)>,
    group: Option<GroupId>,
    members: usize,
    over: bool,
}

impl Effects for Out {
    fn transmit(&mut self, lane: Lane, to: &[SocketAddr], packet: &[u8]) {
        self.packets.extend(to.iter().map(|a| (lane, *a, packet.to_vec())));
    }
    fn deliver(&mut self, _delivery: &Delivery<'_>) {}
    fn event(&mut self, event: Event) {
        match event {
            Event::GroupView(view) => (self.group, self.members) = (Some(view.group), view.members.len()),
            Event::Excluded { .. } | Event::Left => self.over = true,
            _ => {}
        }
    }
}

const CELL: &str = "hostile";

fn info(i: u64) -> MemberInfo {
    let port = u16::try_from(2000 + 2 * i).expect("small");
    MemberInfo {
        incarnation: Incarnation(i + 1),
        name: format!("m{i}"),
        data: SocketAddr::from(([127, 0, 0, 1], port)),
        control: SocketAddr::from(([127, 0, 0, 1], port + 1)),
        host: 1,
        packet_bytes_max: 1432,
    }
}

fn pair(security: &Security) -> (Instant, [(Process, Out); 2]) {
    let mut now = Instant(1_000_000);
    let mut nodes: [(Process, Out); 2] = std::array::from_fn(|i| {
        let founding = if i == 0 { Founding::Alone } else { Founding::Join };
        let me = info(i as u64);
        let seeds = vec![info(0).control];
        let (timing, limits) = (Timing::default(), Limits::default());
        let settings = Settings { cell: CELL.into(), me, founding, seeds, timing, limits };
        let mut process = Process::new(now, settings, security, i as u64);
        process.join_group(now, "g", false).expect("a good name");
        (process, Out::default())
    });
    while nodes.iter().any(|n| n.1.members < 2) {
        now += Duration::from_millis(1);
        for i in 0..2 {
            let packets = std::mem::take(&mut nodes[i].1.packets);
            let (process, out) = &mut nodes[1 - i];
            for (lane, to, mut packet) in packets {
                if [info(1 - i as u64).data, info(1 - i as u64).control].contains(&to) {
                    process.handle_datagram(now, lane, info(i as u64).control, &mut packet, out);
                }
            }
            nodes[i].0.turn(now, &mut nodes[i].1);
        }
    }
    (now, nodes)
}

/// Bytes that begin like frames more often than chance would have it.
fn frames(rng: &mut Rng) -> Vec<u8> {
    let longest = if rng.chance_ppm(100_000) { 1300 } else { 60 };
    let len = usize::try_from(rng.below(longest)).expect("small");
    let mut bytes: Vec<u8> = (0..len).map(|_| u8::try_from(rng.below(256)).expect("a byte")).collect();
    for (at, byte) in bytes.iter_mut().enumerate() {
        if at == 0 || rng.chance_ppm(300_000) {
            *byte = u8::try_from(rng.below(12)).expect("small") | if rng.chance_ppm(400_000) { 0x80 } else { 0 };
        }
    }
    bytes
}

#[test]
fn nonsense_behind_the_seal_does_no_harm() {
    for seed in 0..40 {
        let security = Security::Sealed(CellKey::from_bytes([3; 32]));
        let (mut now, [(mut victim, mut out), (member, _)]) = pair(&security);
        let mut rng = Rng::new(seed);
        let me = member.me();
        let mut sealer = Sealer::new(&security, CELL, me);
        let mut numbers: BTreeMap<u32, u64> = BTreeMap::new();
        for step in 0..800u64 {
            let kind = Kind::ALL[usize::try_from(rng.below(Kind::ALL.len() as u64)).expect("small")];
            // Spaces and numbers in use, and any other.
            let space = match rng.below(3) {
                0 => u32::try_from(rng.below(4)).expect("small"),
                1 => u32::MAX - u32::try_from(rng.below(20)).expect("small"),
                _ => u32::try_from(rng.below(u64::from(u32::MAX))).expect("32 bits"),
            };
            let next = numbers.entry(space).or_insert(0);
            *next += 1 + if rng.chance_ppm(50_000) { rng.below(1 << 40) } else { rng.below(2) };
            let mut packet = Vec::new();
            Header { kind, cell_tag: cell_tag(CELL), sender: me, space, number: *next }.write(&mut packet);
            packet.extend_from_slice(&frames(&mut rng));
            sealer.seal(if kind.is_addressed() { victim.me() } else { Incarnation::NONE }, &mut packet);
            let lane = if rng.chance_ppm(500_000) { Lane::Control } else { Lane::Data };
            victim.handle_datagram(now, lane, info(1).control, &mut packet, &mut out);
            victim.check_invariants();
            if step % 8 == 0 {
                now += Duration::from_millis(rng.below(30));
                if let Some(group) = out.group {
                    // Commands may be refused; they must not hurt.
                    let _refused = victim.multicast(now, group, Order::Total, true, &[b"still here"], &mut out);
                }
                victim.turn(now, &mut out);
                victim.check_invariants();
                assert!(out.packets.len() < 20_000, "answers nonsense with a flood");
                out.packets.clear();
            }
        }
        let mut dropped = 0;
        victim.counters(&mut |name, value| {
            if ["malformed", "unknown_space", "ahead", "replayed"].contains(&name) {
                dropped += value;
            }
        });
        assert!(dropped > 0 || out.over, "seed {seed}: nothing was counted");
    }
}

#[test]
fn without_the_key_nothing_happens() {
    let security = Security::Sealed(CellKey::from_bytes([3; 32]));
    let (now, [(mut victim, mut out), _]) = pair(&security);
    out.packets.clear();
    let mut rng = Rng::new(1);
    let foreign = Security::Sealed(CellKey::from_bytes([4; 32]));
    for i in 0..100_000u64 {
        let stranger = Incarnation(rng.next_u64() | 1);
        let mut packet = Vec::new();
        Header { kind: Kind::Greeting, cell_tag: cell_tag(CELL), sender: stranger, space: u32::MAX, number: i }
            .write(&mut packet);
        packet.extend_from_slice(&frames(&mut rng));
        if i % 16 == 0 {
            Sealer::new(&foreign, CELL, stranger).seal(Incarnation::NONE, &mut packet);
        }
        let from = SocketAddr::from(([10, 0, (i >> 8) as u8, i as u8], 9));
        victim.handle_datagram(now, Lane::Control, from, &mut packet, &mut out);
    }
    let mut counted = 0;
    victim.counters(&mut |name, value| counted += if name == "bad_tag" || name == "short" { value } else { 0 });
    assert_eq!(counted, 100_000);
    assert!(out.packets.is_empty(), "a forged greeting was answered");
}
