//! Bytes from the network that no member sent.

use phalanx_core::Order;
use phalanx_core::wire::header::cell_tag;
use phalanx_core::wire::{Header, Kind, PacketNumber, Space};
use phalanx_core::{Incarnation, Uniformity};
use phalanx_sim::Cell;

use crate::{MS, SECOND};

#[test]
fn a_flood_of_noise_and_old_packets_stops_nobody() {
    let mut cell = Cell::settled(4, 6);
    cell.attack(2_000, 2_000);
    for round in 0..40 {
        cell.multicast(round % 4, "a", Order::Total, Uniformity::Uniform, 3_000).expect("in the group");
        cell.run_for(100 * MS);
    }
    for slot in 0..4 {
        assert_eq!(cell.exclusions(slot), 0);
        assert_eq!(cell.delivered(slot), 40);
    }
    cell.attack(0, 0);
    cell.finish_clean();
}

#[test]
fn cleartext_to_a_sealed_member_is_dropped() {
    let mut cell = Cell::settled(3, 10);
    for kind in Kind::ALL {
        for number in 0..50 {
            let header = Header {
                kind,
                cell_tag: cell_tag("sim"),
                sender: Incarnation(number + 1),
                space: Space(1),
                number: PacketNumber(number),
            };
            let mut packet = Vec::new();
            header.write(&mut packet);
            packet.resize(packet.len() + 4 * number as usize, number as u8);
            cell.inject(1, 0, &packet);
        }
    }
    cell.run_for(SECOND);
    assert_eq!(cell.exclusions(0), 0);
    cell.finish_clean();
}

/// "View 1000 does not contain you", as `docs/wire.md` encodes it.
const EXCLUDED_BY_1000: [u8; 3] = [6, 0xe8, 0x07];

#[test]
fn a_notice_in_cleartext_in_the_name_of_a_member_is_dropped() {
    let mut cell = Cell::settled(3, 34);
    let member = cell.incarnation(1).expect("it runs");
    for padding in [0, 1, 12, 13, 16, 40] {
        for number in (1..200).chain(1_000_000..1_000_010) {
            let header = Header {
                kind: Kind::Direct,
                cell_tag: cell_tag("sim"),
                sender: member,
                space: Space(0),
                number: PacketNumber(number),
            };
            let mut packet = Vec::new();
            header.write(&mut packet);
            packet.extend_from_slice(&EXCLUDED_BY_1000);
            packet.resize(packet.len() + padding, 0);
            cell.inject(1, 0, &packet);
        }
    }
    cell.run_for(SECOND);
    assert_eq!(cell.exclusions(0), 0, "it believes what nobody sealed");
    cell.finish_clean();
}

#[test]
fn a_packet_of_any_length_is_survived() {
    let mut cell = Cell::settled(3, 35);
    let member = cell.incarnation(1).expect("it runs");
    for kind in Kind::ALL {
        let header =
            Header { kind, cell_tag: cell_tag("sim"), sender: member, space: Space(1), number: PacketNumber(7) };
        let mut packet = Vec::new();
        header.write(&mut packet);
        packet.resize(100, 0x5a);
        for len in 0..packet.len() {
            cell.inject(1, 0, &packet[..len]);
        }
        cell.run_for(MS);
    }
    cell.run_for(SECOND);
    assert_eq!(cell.exclusions(0), 0);
    cell.finish_clean();
}
