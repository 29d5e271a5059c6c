//! Arbitrary bytes to a process that receives them.
//!
//! As they are; and behind a good header, to get past the first checks. Nothing opens under the seal. Without a
//! seal only bytes with a checksum that fits open, and what opens is what a sender would have sent. In the other
//! direction, the bytes as frames are sealed, opened, and found damaged once one bit of the packet is flipped.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use phalanx_core::Incarnation;
use phalanx_core::seal::{CellKey, Opener, Sealer, Security};
use phalanx_core::wire::{DropReason, Header, Kind, PacketNumber, Space};

const CELL: &str = "fuzz";
const SENDER: Incarnation = Incarnation(1);
const ME: Incarnation = Incarnation(2);

static SEALED: LazyLock<Security> = LazyLock::new(|| Security::Sealed(CellKey::from_bytes([7; CellKey::LEN])));

fuzz_target!(|bytes: &[u8]| {
    let Some((&[choice, at_low, at_high], rest)) = bytes.split_first_chunk::<3>() else { return };
    let kind = Kind::ALL[usize::from(choice) % Kind::ALL.len()];
    let remembered = choice & 0x80 != 0;
    for security in [&*SEALED, &Security::None] {
        let mut opener = Opener::new(security, CELL, ME);
        if remembered {
            opener.remember(SENDER);
        }
        arbitrary(security, &mut opener, rest.to_vec());
        arbitrary(security, &mut opener, headed(security, kind, rest));
        round_trip(security, &mut opener, kind, rest, u16::from_le_bytes([at_low, at_high]));
        assert_eq!(opener.remembered_count(), usize::from(remembered && matches!(security, Security::Sealed(_))));
    }
});

fn arbitrary(security: &Security, opener: &mut Opener, mut packet: Vec<u8>) {
    let before = packet.clone();
    match opener.open(&mut packet) {
        Ok((header, frames)) => {
            assert!(matches!(security, Security::None), "a forged packet opened");
            let mut again = header.to_bytes().to_vec();
            again.extend_from_slice(frames);
            let dest = if header.kind.is_addressed() { ME } else { Incarnation::NONE };
            Sealer::new(security, CELL, header.sender).seal(dest, &mut again);
            assert_eq!(again, before);
        }
        Err(DropReason::Short) => assert!(before.len() < Header::LEN + security.tag_len()),
        Err(reason) => assert!(matches!(
            reason,
            DropReason::Version | DropReason::Kind | DropReason::Malformed | DropReason::OtherCell | DropReason::BadTag
        )),
    }
}

fn headed(security: &Security, kind: Kind, rest: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    Sealer::new(security, CELL, SENDER).header(kind, Space(1), PacketNumber(1)).write(&mut packet);
    packet.extend_from_slice(rest);
    packet
}

fn round_trip(security: &Security, opener: &mut Opener, kind: Kind, frames: &[u8], flip: u16) {
    let mut packet = headed(security, kind, frames);
    let dest = if kind.is_addressed() { ME } else { Incarnation::NONE };
    Sealer::new(security, CELL, SENDER).seal(dest, &mut packet);

    let mut damaged = packet.clone();
    let (_, opened) = opener.open(&mut packet).expect("sealed for this process");
    assert_eq!(opened, frames);

    let bit = usize::from(flip) % (8 * damaged.len());
    damaged[bit / 8] ^= 1 << (bit % 8);
    let result = opener.open(&mut damaged).map(|_| ());
    // A flipped kind changes the destination too, and a checksum is no proof against several changes at once.
    assert!(result.is_err() || (matches!(security, Security::None) && bit < 4), "bit {bit} of a packet is free");
}
