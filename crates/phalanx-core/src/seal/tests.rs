use proptest::prelude::*;

use super::*;
use crate::wire::{DropReason, Kind, PacketNumber, SessionSecret, Space};

const ME: Incarnation = Incarnation(0x1111_2222_3333_4444);
const YOU: Incarnation = Incarnation(0x5555_6666_7777_8888);
const THEM: Incarnation = Incarnation(0x9999_aaaa_bbbb_cccc);

fn key(fill: u8) -> Security {
    Security::Sealed(CellKey::from_bytes([fill; CellKey::LEN]))
}

fn both() -> [Security; 2] {
    [key(1), Security::None]
}

fn dest(kind: Kind, to: Incarnation) -> Incarnation {
    if kind.is_addressed() { to } else { Incarnation::NONE }
}

/// A packet of `ME` for `YOU` in the cell "home".
fn sealed(security: &Security, kind: Kind, frames: &[u8]) -> Vec<u8> {
    let mut sealer = Sealer::new(security, "home", ME);
    let mut packet = Vec::new();
    sealer.header(kind, Space(7), PacketNumber(9)).write(&mut packet);
    packet.extend_from_slice(frames);
    sealer.seal(dest(kind, YOU), &mut packet);
    packet
}

fn opened(security: &Security, cell: &str, me: Incarnation, packet: &[u8]) -> Result<(Header, Vec<u8>), DropReason> {
    let mut packet = packet.to_vec();
    let mut opener = Opener::new(security, cell, me);
    opener.open(&mut packet).map(|(header, frames)| (header, frames.to_vec()))
}

#[test]
fn opens_what_was_sealed_for_it() {
    for security in both() {
        for kind in Kind::ALL {
            for frames in [&b""[..], b"x", b"some frames of a packet"] {
                let packet = sealed(&security, kind, frames);
                assert_eq!(packet.len(), Header::LEN + frames.len() + security.tag_len());
                let (header, got) = opened(&security, "home", YOU, &packet).expect("sealed for it");
                assert_eq!(
                    (header.kind, header.sender, header.space, header.number),
                    (kind, ME, Space(7), PacketNumber(9))
                );
                assert_eq!(got, frames);
            }
        }
    }
}

#[test]
fn parts_are_sealed_as_the_whole() {
    for security in both() {
        for rest in [0, 1, 100, 65_000].map(|len| vec![0xa5; len]) {
            let mut sealer = Sealer::new(&security, "home", ME);
            let mut packet = Vec::new();
            sealer.header(Kind::Data, Space(7), PacketNumber(9)).write(&mut packet);
            packet.extend_from_slice(b"frames ");
            let tag = sealer.seal_parts(YOU, &mut packet, &rest);
            if let Some(tag) = tag {
                packet.extend_from_slice(&rest);
                packet.extend_from_slice(&tag);
            }
            assert_eq!(tag.is_some(), matches!(security, Security::None));
            assert_eq!(packet, sealed(&security, Kind::Data, &[b"frames ", &rest[..]].concat()));
        }
    }
}

#[test]
fn frames_are_hidden_by_the_seal_alone() {
    let text = b"attack at dawn, all of you";
    let find = |packet: &[u8]| packet.windows(text.len()).any(|window| window == text);
    assert!(!find(&sealed(&key(1), Kind::Data, text)));
    assert!(find(&sealed(&Security::None, Kind::Data, text)));
}

#[test]
fn only_its_destination_opens_an_addressed_packet() {
    for security in both() {
        for kind in Kind::ALL {
            let packet = sealed(&security, kind, b"frames");
            let got = opened(&security, "home", THEM, &packet).map(|(_, frames)| frames);
            let expected = if kind.is_addressed() { Err(DropReason::BadTag) } else { Ok(b"frames".to_vec()) };
            assert_eq!(got, expected, "{kind:?}");
        }
    }
}

#[test]
fn another_key_or_cell_opens_nothing() {
    for kind in Kind::ALL {
        let packet = sealed(&key(1), kind, b"frames");
        assert_eq!(opened(&key(2), "home", YOU, &packet), Err(DropReason::BadTag));
        assert_eq!(opened(&Security::None, "home", YOU, &packet), Err(DropReason::BadTag));
        assert_eq!(opened(&key(1), "away", YOU, &packet), Err(DropReason::OtherCell));
        let clear = sealed(&Security::None, kind, b"frames of more than sixteen bytes");
        assert_eq!(opened(&key(1), "home", YOU, &clear), Err(DropReason::BadTag));
        assert_eq!(opened(&Security::None, "away", YOU, &clear), Err(DropReason::OtherCell));
    }
}

/// Two names with the same tag still have two keys: the tag only saves work.
#[test]
fn cells_of_one_tag_have_two_keys() {
    let mut packet = sealed(&key(1), Kind::Multicast, b"frames");
    let [tag @ .., _] = cell_tag("away").to_le_bytes();
    packet[1..4].copy_from_slice(&tag);
    assert_eq!(opened(&key(1), "away", YOU, &packet), Err(DropReason::BadTag));

    let source = |cell| key::KeySource::new(&CellKey::from_bytes([1; 32]), cell);
    let header =
        Header { kind: Kind::BestEffortMulticast, cell_tag: 0, sender: ME, space: Space(1), number: PacketNumber(1) };
    let tag_of = |cell, sender| {
        let mut frames = [0; 4];
        source(cell).of(sender).seal(&header, &[0; 32], &mut frames).as_ref().to_vec()
    };
    let tags = [tag_of("home", ME), tag_of("away", ME), tag_of("home", YOU), tag_of("", ME)];
    for (index, tag) in tags.iter().enumerate() {
        assert!(!tags[..index].contains(tag), "keys {index} and one before are the same");
    }
}

#[test]
fn one_senders_packet_does_not_pass_for_anothers() {
    let mut packet = sealed(&key(1), Kind::Multicast, b"frames");
    packet[4..12].copy_from_slice(&THEM.0.to_le_bytes());
    assert_eq!(opened(&key(1), "home", YOU, &packet), Err(DropReason::BadTag));
}

#[test]
fn a_cut_packet_is_dropped() {
    for security in both() {
        for kind in [Kind::Data, Kind::Multicast] {
            let packet = sealed(&security, kind, b"frames");
            for len in 0..packet.len() {
                let expected =
                    if len < Header::LEN + security.tag_len() { DropReason::Short } else { DropReason::BadTag };
                assert_eq!(opened(&security, "home", YOU, &packet[..len]), Err(expected), "{len} bytes");
            }
        }
    }
}

#[test]
fn any_flipped_bit_is_noticed() {
    for security in both() {
        for kind in Kind::ALL {
            let packet = sealed(&security, kind, b"frames of a packet");
            for bit in 0..8 * packet.len() {
                let mut bent = packet.clone();
                bent[bit / 8] ^= 1 << (bit % 8);
                let got = opened(&security, "home", YOU, &bent).map(|_| ());
                let expected: &[DropReason] = match bit {
                    0..4 => &[DropReason::Kind, DropReason::BadTag],
                    4..8 => &[DropReason::Version],
                    8..32 => &[DropReason::OtherCell],
                    _ => &[DropReason::BadTag],
                };
                assert!(got.is_err_and(|reason| expected.contains(&reason)), "{kind:?}, bit {bit}");
            }
        }
    }
}

#[test]
fn a_remembered_key_opens_alike_and_only_the_core_adds_one() {
    let mut opener = Opener::new(&key(1), "home", YOU);
    for number in 0..3 {
        let packet = sealed(&key(1), Kind::Data, b"frames");
        match number {
            1 => opener.remember(ME),
            2 => opener.forget(ME),
            _ => {}
        }
        let remembered = opener.remembered_count();
        let mut good = packet.clone();
        let (_, frames) = opener.open(&mut good).expect("sealed for it");
        assert_eq!(frames, b"frames");
        let mut bad = packet;
        bad[30] ^= 1;
        assert_eq!(opener.open(&mut bad).map(|_| ()), Err(DropReason::BadTag));
        assert_eq!(opener.remembered_count(), remembered, "opening keeps nothing");
        assert_eq!(remembered, usize::from(number == 1));
    }
    opener.remember(ME);
    opener.remember(ME);
    assert_eq!(opener.remembered_count(), 1);
}

#[test]
fn a_nonce_is_all_of_space_and_number() {
    // Encrypted zeros are the key stream, which depends on the nonce alone.
    let stream = |space, number| {
        let mut sealer = Sealer::new(&key(1), "home", ME);
        let mut packet = Vec::new();
        sealer.header(Kind::Multicast, space, number).write(&mut packet);
        packet.extend_from_slice(&[0; 32]);
        sealer.seal(Incarnation::NONE, &mut packet);
        packet[Header::LEN..][..32].to_vec()
    };
    assert_eq!(stream(Space(1), PacketNumber(2)), stream(Space(1), PacketNumber(2)));
    assert_ne!(stream(Space(1), PacketNumber(2)), stream(Space(2), PacketNumber(1)));
    assert_ne!(stream(Space(1), PacketNumber(2)), stream(Space(1), PacketNumber(3)));
    assert_ne!(stream(Space(1), PacketNumber(2)), stream(Space(1 << 8), PacketNumber(2)));
    assert_ne!(stream(Space(1), PacketNumber(2)), stream(Space(1), PacketNumber(2 << 32)));
}

#[cfg(debug_assertions)]
fn seal_numbers(numbers: &[(u32, u64)]) {
    let mut sealer = Sealer::new(&key(1), "home", ME);
    for &(space, number) in numbers {
        let mut packet = Vec::new();
        sealer.header(Kind::BestEffortMulticast, Space(space), PacketNumber(number)).write(&mut packet);
        sealer.seal(Incarnation::NONE, &mut packet);
    }
}

#[test]
#[cfg(debug_assertions)]
fn spaces_count_apart() {
    seal_numbers(&[(1, 0), (2, 0), (1, 1), (2, 5), (1, u64::MAX)]);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "a nonce may come twice")]
fn a_number_is_sealed_once() {
    seal_numbers(&[(1, 4), (2, 4), (1, 4)]);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "a process seals its own packets")]
fn a_process_seals_its_own_packets() {
    let mut packet = Vec::new();
    Sealer::new(&key(1), "home", YOU).header(Kind::BestEffortMulticast, Space(1), PacketNumber(1)).write(&mut packet);
    Sealer::new(&key(1), "home", ME).seal(Incarnation::NONE, &mut packet);
}

proptest! {
    #[test]
    fn arbitrary_frames_and_names_round_trip(
        secret: [u8; 32],
        cell in ".{0,200}",
        from in 1..=u64::MAX,
        to in 1..=u64::MAX,
        kind in proptest::sample::select(Kind::ALL.to_vec()),
        space: u32,
        number: u64,
        frames in proptest::collection::vec(any::<u8>(), 0..2000),
    ) {
        for security in [Security::Sealed(CellKey::from_bytes(secret)), Security::None] {
            let mut sealer = Sealer::new(&security, &cell, Incarnation(from));
            let header = sealer.header(kind, Space(space), PacketNumber(number));
            let mut packet = Vec::new();
            header.write(&mut packet);
            packet.extend_from_slice(&frames);
            sealer.seal(dest(kind, Incarnation(to)), &mut packet);
            let got = opened(&security, &cell, Incarnation(to), &packet);
            prop_assert_eq!(got, Ok((header, frames.clone())));
        }
    }

    #[test]
    fn arbitrary_bytes_open_nowhere(bytes: Vec<u8>) {
        prop_assert!(opened(&key(1), "home", YOU, &bytes).is_err());
    }

    /// Random bytes behind a valid header, to get past the checks of the header.
    #[test]
    fn arbitrary_bytes_behind_a_header_open_nowhere(
        kind in proptest::sample::select(Kind::ALL.to_vec()),
        bytes: Vec<u8>,
        remembered: bool,
    ) {
        let mut packet = Vec::new();
        Header { kind, cell_tag: cell_tag("home"), sender: ME, space: Space(1), number: PacketNumber(1) }.write(&mut packet);
        packet.extend_from_slice(&bytes);
        let mut opener = Opener::new(&key(1), "home", YOU);
        if remembered {
            opener.remember(ME);
        }
        let expected = if bytes.len() < key(1).tag_len() { DropReason::Short } else { DropReason::BadTag };
        prop_assert_eq!(opener.open(&mut packet).map(|_| ()), Err(expected));
    }
}

#[test]
fn more_strangers_than_keys_are_kept_are_opened_all_the_same() {
    let mut opener = Opener::new(&key(1), "home", YOU);
    for _ in 0..2 {
        for who in 1..=20 {
            let mut sealer = Sealer::new(&key(1), "home", Incarnation(who));
            let mut packet = Vec::new();
            sealer.header(Kind::Data, Space(7), PacketNumber(9)).write(&mut packet);
            packet.extend_from_slice(b"frames");
            sealer.seal(YOU, &mut packet);
            assert_eq!(opener.open(&mut packet).map(|(_, frames)| frames.to_vec()), Ok(b"frames".to_vec()));
        }
        assert_eq!(opener.heard_count(), 8, "the keys of the latest");
    }
}

#[test]
fn a_packet_of_a_session_that_is_shorter_than_its_tag_is_called_short() {
    for security in both() {
        let key = Opener::new(&security, "home", YOU).session_key(ME);
        let header = Header {
            kind: Kind::Session,
            cell_tag: cell_tag("home"),
            sender: ME,
            space: Space(1),
            number: PacketNumber(1),
        };
        for (len, reason) in [(security.tag_len() - 1, DropReason::Short), (security.tag_len(), DropReason::BadTag)] {
            let mut packet = Vec::new();
            header.write(&mut packet);
            packet.extend_from_slice(&vec![0; len]);
            assert_eq!(key.open(&header, SessionSecret(7), &mut packet).map(|_| ()), Err(reason));
        }
    }
}
