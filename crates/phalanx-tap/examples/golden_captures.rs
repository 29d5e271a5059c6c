//! Writes capture files of the golden vectors, for `tests/dissector.sh`:
//!
//!     golden_captures FOLDER [MUTATED]
//!
//! `ipv4.pcapng`, `ipv6.pcapng`, `unsealed.pcapng` and `clear.pcapng` hold one packet for each vector. Standard output names them, one
//! a line: file, number of the packet, kind of the packet, name of the vector. `mutated.pcapng` holds so many broken
//! packets in clear, and `datagrams.pcapng` as many without a seal, the same ones each time.

#![expect(clippy::print_stdout, reason = "the list of packets is for standard output")]

#[path = "../tests/vectors.rs"]
mod vectors;

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use phalanx_core::id::{Incarnation, TrafficClass, ViewNumber};
use phalanx_core::rng::Rng;
use phalanx_core::seal::{Sealer, Security};
use phalanx_core::wire::{Header, Kind, PacketNumber, Space, cell_tag};
use phalanx_tap::capture::{Capture, Seen};

use vectors::{Frames, frames, vectors};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const CELL: &str = "golden";
const SENDER: Incarnation = Incarnation(0x0102_0304_0506_0708);
const DEST: Incarnation = Incarnation(0x1112_1314_1516_1718);
const SPACE: Space = Space(0x2122_2324);
/// The space of the first group of the vectors with frames.
const GROUP_SPACE: Space = Space(9);

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("usage: golden_captures FOLDER [MUTATED]")?);
    let mutated = arguments.next().map_or(Ok(0), |count| count.parse::<u64>())?;
    let frames = frames()?;
    sealed(&folder)?;
    unsealed(&folder, &frames)?;
    clear(&folder, &frames)?;
    broken(&folder, &frames, mutated)
}

/// The name of a kind in `docs/wire.md`.
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Handshake => "greeting",
        Kind::Direct => "direct",
        Kind::BestEffortMulticast => "spread",
        Kind::Control => "control",
        Kind::Data => "data",
        Kind::Multicast => "multicast",
        Kind::Open => "open",
        Kind::Session => "session",
        Kind::Unreliable => "plain",
        Kind::ToOne => "to-one",
    }
}

fn class(kind: Kind) -> TrafficClass {
    match kind {
        Kind::Handshake | Kind::Control => TrafficClass::Control,
        _ => TrafficClass::Data,
    }
}

fn dest(kind: Kind) -> Incarnation {
    if kind.is_addressed() { DEST } else { Incarnation::NONE }
}

fn header(kind: Kind, space: Space, number: u64) -> Header {
    Header { kind, cell_tag: cell_tag(CELL), sender: SENDER, space, number: PacketNumber(number) }
}

/// Begins a file, and names the members and the groups of the vectors. The first group is so large that its names need
/// several lines and comments.
fn begin(path: &Path) -> Outcome<Capture<BufWriter<File>>> {
    let mut capture = Capture::create(path)?;
    let crowd: Vec<Incarnation> = (1..=4_000).map(Incarnation).collect();
    capture.view(Space(1), ViewNumber(1), "crowd", &crowd);
    capture.member(SENDER, "sender", &[address("10.0.0.1:7000")?, address("[fd00::1]:7000")?]);
    capture.member(DEST, "dest 100%", &[address("10.0.0.2:7000")?]);
    for space in [SPACE, GROUP_SPACE] {
        capture.view(space, ViewNumber(3), "ledger", &[DEST, SENDER]);
    }
    Ok(capture)
}

fn address(text: &str) -> Outcome<SocketAddr> {
    Ok(text.parse()?)
}

/// The vectors of sealed packets, by IPv4 and by IPv6: from one end to the other, and back.
fn sealed(folder: &Path) -> Outcome {
    for (file, local, peer) in
        [("ipv4", "10.0.0.1:7000", "10.0.0.2:7000"), ("ipv6", "[fd00::1]:7000", "[fd00::2]:7000")]
    {
        let mut capture = begin(&folder.join(file).with_extension("pcapng"))?;
        for (index, (name, packet)) in vectors("sealed.txt")?.iter().enumerate() {
            let class = if index % 2 > 0 { TrafficClass::Control } else { TrafficClass::Data };
            let seen = Seen::new(at(index), address(local)?, address(peer)?, [packet, &[], &[]]);
            capture.sealed(&Seen { is_sent: index % 3 > 0, class, ..seen })?;
            println!("{file}\t{}\t{name}\tsealed/{name}", index + 1);
        }
        capture.into_inner()?;
    }
    Ok(())
}

/// The frames of all vectors, in packets without a seal, as datagrams.
fn unsealed(folder: &Path, all: &[Frames]) -> Outcome {
    let mut capture = begin(&folder.join("unsealed.pcapng"))?;
    let mut sealer = Sealer::new(&Security::None, CELL, SENDER);
    for (index, (kind, name, frames)) in all.iter().enumerate() {
        let mut packet = header(*kind, SPACE, index as u64).to_bytes().to_vec();
        packet.extend_from_slice(frames);
        sealer.seal(dest(*kind), &mut packet);
        let seen = Seen::new(at(index), address("10.0.0.2:7000")?, address("10.0.0.1:7000")?, [&packet, &[], &[]]);
        capture.sealed(&Seen { class: class(*kind), ..seen })?;
        println!("unsealed\t{}\t{}\t{name}", index + 1, kind_name(*kind));
    }
    capture.into_inner()?;
    Ok(())
}

/// The frames of all vectors, in packets in clear, every other one through memory.
fn clear(folder: &Path, all: &[Frames]) -> Outcome {
    let mut capture = begin(&folder.join("clear.pcapng"))?;
    for (index, (kind, name, frames)) in all.iter().enumerate() {
        let header = header(*kind, SPACE, index as u64).to_bytes();
        let peer = ["10.0.0.1:7000", "[fd00::1]:7000", "[2001:db8:0:0:1:0:0:1]:1"][index % 3];
        let seen = Seen::new(at(index), address("10.0.0.2:7000")?, address(peer)?, [&header, frames, &[]]);
        capture.clear(&Seen { is_memory: index % 2 > 0, class: class(*kind), to: dest(*kind), ..seen })?;
        println!("clear\t{}\t{}\t{name}", index + 1, kind_name(*kind));
    }
    capture.into_inner()?;
    Ok(())
}

/// Packets whose frames were changed, cut, repeated or mixed: in clear, and as datagrams without a seal.
fn broken(folder: &Path, all: &[Frames], count: u64) -> Outcome {
    let mut capture = begin(&folder.join("mutated.pcapng"))?;
    let mut datagrams = begin(&folder.join("datagrams.pcapng"))?;
    let mut rng = Rng::new(41);
    let pick = |rng: &mut Rng, len: usize| usize::try_from(rng.below(len.max(1) as u64)).unwrap_or(0);
    for index in 0..count {
        let (kind, _, frames) = &all[pick(&mut rng, all.len())];
        let mut frames = frames.clone();
        for _ in 0..=rng.below(4) {
            let at = pick(&mut rng, frames.len());
            match rng.below(6) {
                0 => frames.truncate(at),
                1 => frames.insert(at, rng.next_u64().to_le_bytes()[0]),
                2 => frames.extend_from_slice(&all[pick(&mut rng, all.len())].2),
                // A number of 64 bits, or one that never ends.
                3 => drop(frames.splice(at..at, [0xff; 12].into_iter().skip(pick(&mut rng, 4)))),
                _ if frames.is_empty() => frames.push(0xff),
                4 => frames[at] ^= 1 << rng.below(8),
                _ => frames[at] = rng.next_u64().to_le_bytes()[0],
            }
        }
        let mut header = header(*kind, SPACE, index).to_bytes();
        // Kinds and versions of later builds, too.
        if rng.below(8) == 0 {
            header[0] = rng.next_u64().to_le_bytes()[0];
        }
        let snap = if rng.below(8) == 0 { u32::try_from(rng.below(120))? } else { u32::MAX };
        let time = Duration::from_nanos(index);
        let seen = Seen::new(time, address("10.0.0.2:7000")?, address("10.0.0.1:7000")?, [&header, &frames, &[]]);
        capture.clear(&Seen { to: dest(*kind), snap, ..seen })?;
        // Some are too short for the checksum at their end.
        let tail = if rng.below(16) == 0 { &[][..] } else { &[0; 4] };
        datagrams.sealed(&Seen { snap, parts: [&header, &frames, tail], ..seen })?;
    }
    capture.into_inner()?;
    datagrams.into_inner()?;
    Ok(())
}

/// The time of a packet: 1 s and 1 ns apart, so that a file in microseconds would show.
fn at(index: usize) -> Duration {
    Duration::new(1_700_000_000 + index as u64, 1 + u32::try_from(index).unwrap_or(u32::MAX))
}
