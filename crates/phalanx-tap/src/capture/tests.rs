use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use phalanx_core::id::{Incarnation, TrafficClass, ViewNumber};
use phalanx_core::wire::Space;

use super::{Capture, Seen};

const HEADER: [u8; 24] = [0x36; 24];

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn seen<'a>(frames: &'a [u8]) -> Seen<'a> {
    Seen::new(Duration::from_secs(5), address("10.1.2.3:4000"), address("192.168.0.9:5000"), [&HEADER, frames, &[]])
}

fn capture() -> Capture<Vec<u8>> {
    Capture::new(Vec::new()).expect("a vector takes all")
}

/// The blocks of a file: kind and body, between the two lengths.
fn blocks(file: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut rest = file;
    while !rest.is_empty() {
        let len = word(rest, 4) as usize;
        assert!(len.is_multiple_of(4) && len >= 12 && len <= rest.len(), "a length of {len}");
        assert_eq!(word(rest, len - 4) as usize, len, "the length is there twice");
        found.push((word(rest, 0), rest[8..len - 4].to_vec()));
        rest = &rest[len..];
    }
    found
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// The options of a block, without the end.
fn options(mut rest: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut found = Vec::new();
    loop {
        let (code, len) = (u16::from_le_bytes([rest[0], rest[1]]), u16::from_le_bytes([rest[2], rest[3]]));
        if code == 0 {
            assert_eq!(rest, [0; 4], "the end is the last option");
            return found;
        }
        found.push((code, rest[4..4 + usize::from(len)].to_vec()));
        rest = &rest[4 + usize::from(len).next_multiple_of(4)..];
    }
}

/// A packet of a file.
struct Written {
    interface: u32,
    nanos: u64,
    bytes: Vec<u8>,
    whole: usize,
    options: Vec<(u16, Vec<u8>)>,
}

fn packets(file: &[u8]) -> Vec<Written> {
    let packets = blocks(file).into_iter().filter(|(kind, _)| *kind == 6);
    let read = |(_, body): (u32, Vec<u8>)| {
        let len = word(&body, 12) as usize;
        Written {
            interface: word(&body, 0),
            nanos: u64::from(word(&body, 4)) << 32 | u64::from(word(&body, 8)),
            bytes: body[20..20 + len].to_vec(),
            whole: word(&body, 16) as usize,
            options: options(&body[20 + len.next_multiple_of(4)..]),
        }
    };
    packets.map(read).collect()
}

fn file(capture: Capture<Vec<u8>>) -> Vec<u8> {
    capture.into_inner().expect("a vector takes all")
}

/// The sum of 16-bit words, folded (RFC 1071). With a right checksum it is ffff.
fn folded(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2).map(|two| u32::from(two[0]) << 8 | two.get(1).map_or(0, |byte| u32::from(*byte)));
    let sum = words.sum::<u32>();
    let once = (sum & 0xffff) + (sum >> 16);
    (once & 0xffff) + (once >> 16)
}

#[test]
fn a_file_has_a_section_and_an_interface_for_each_form_class_way_and_address() {
    let mut capture = capture();
    let data = seen(&[1]);
    let control = Seen { class: TrafficClass::Control, ..data };
    let memory = Seen { is_memory: true, ..data };
    let [other, ipv6] = ["10.1.2.4:1", "[fd00::1]:2"].map(|local| Seen { local: address(local), ..data });
    for seen in [data, control, data, memory, other, ipv6] {
        capture.sealed(&seen).expect("written");
    }
    capture.clear(&control).expect("written");
    let file = file(capture);
    let blocks = blocks(&file);
    assert_eq!(blocks[0].0, 0x0a0d_0d0a);
    assert_eq!(blocks[0].1[..16], [0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    let interfaces: Vec<&Vec<u8>> = blocks.iter().filter(|(kind, _)| *kind == 1).map(|(_, body)| body).collect();
    let told = |body: &&Vec<u8>| {
        assert_eq!(word(body, 4), 262_144, "libpcap wants one snap length");
        let options = options(&body[8..]);
        assert_eq!(options[1], (9, vec![9]), "nanoseconds");
        (u16::from_le_bytes([body[0], body[1]]), String::from_utf8(options[0].1.clone()).expect("UTF-8"))
    };
    let expected = [
        (228, "data sealed 10.1.2.3:4000".to_owned()),
        (228, "control sealed 10.1.2.3:4000".to_owned()),
        (228, "data memory sealed 10.1.2.3:4000".to_owned()),
        (228, "data sealed 10.1.2.4:1".to_owned()),
        (229, "data sealed [fd00::1]:2".to_owned()),
        (147, "control clear 10.1.2.3:4000".to_owned()),
    ];
    assert_eq!(interfaces.iter().map(told).collect::<Vec<_>>(), expected);
    let numbers: Vec<u32> = packets(&file).iter().map(|packet| packet.interface).collect();
    assert_eq!(numbers, [0, 1, 0, 2, 3, 4, 5]);
}

#[test]
fn a_sealed_packet_is_a_datagram_of_ipv4() {
    let mut capture = capture();
    let frames = [7; 76];
    let time = Duration::new(1_700_000_000, 123_456_789);
    capture.sealed(&Seen { time, is_sent: true, missed: 3, ..seen(&frames) }).expect("written");
    let packet = &packets(&file(capture))[0];
    assert_eq!((packet.nanos, packet.whole), (1_700_000_000_123_456_789, 128));
    assert_eq!(packet.options, [(2, vec![2, 0, 0, 0]), (4, vec![3, 0, 0, 0, 0, 0, 0, 0])], "outbound, 3 missed");
    assert_eq!(packet.bytes[..10], [0x45, 0, 0, 128, 0, 0, 0, 0, 64, 17]);
    assert_eq!(folded(&packet.bytes[..20]), 0xffff);
    assert_eq!(packet.bytes[12..20], [10, 1, 2, 3, 192, 168, 0, 9]);
    assert_eq!(packet.bytes[20..28], [0x0f, 0xa0, 0x13, 0x88, 0, 108, 0, 0]);
    assert_eq!((&packet.bytes[28..52], &packet.bytes[52..]), (&HEADER[..], &frames[..]));
}

#[test]
fn a_received_packet_goes_the_other_way() {
    let mut capture = capture();
    capture.sealed(&seen(&[])).expect("written");
    let packet = &packets(&file(capture))[0];
    assert_eq!(packet.options, [(2, vec![1, 0, 0, 0])]);
    assert_eq!(packet.bytes[12..24], [192, 168, 0, 9, 10, 1, 2, 3, 0x13, 0x88, 0x0f, 0xa0]);
}

#[test]
fn a_datagram_of_ipv6_has_a_udp_checksum_if_it_is_whole() {
    let (local, peer) = (address("[fd00::1]:1"), address("10.0.0.7:2"));
    for frames in [&[1_u8, 2, 3][..], &[1, 2, 3, 4]] {
        let mut capture = capture();
        let seen = Seen { is_sent: true, local, peer, ..seen(frames) };
        // Parts of odd lengths.
        let odd = Seen { parts: [&HEADER[..5], &HEADER[5..], frames], ..seen };
        capture.sealed(&odd).expect("written");
        capture.sealed(&Seen { snap: 60, ..odd }).expect("written");
        capture.sealed(&Seen { packet_bytes: 100, ..seen }).expect("written");
        let packets = packets(&file(capture));
        let bytes = &packets[0].bytes;
        let udp_bytes = u8::try_from(8 + 24 + frames.len()).expect("short");
        assert_eq!(bytes[..8], [0x60, 0, 0, 0, 0, udp_bytes, 17, 64]);
        assert_eq!(bytes[24..40], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 7]);
        assert_eq!(bytes[40..46], [0, 1, 0, 2, 0, udp_bytes]);
        let pseudo = [&bytes[8..40], &[0, udp_bytes, 0, 17], &bytes[40..]].concat();
        assert_eq!(folded(&pseudo), 0xffff);
        assert_eq!(packets[1].bytes, bytes[..60], "the checksum is of the whole");
        assert_eq!(packets[2].bytes[46..48], [0, 0], "not all of it is here");
    }
}

#[test]
fn a_udp_checksum_of_zero_is_written_as_its_other_form() {
    let (local, peer) = (address("[::1]:0"), address("[::1]:0"));
    // With these 26 bytes the words sum up to ffff: 2 * 1 from the addresses, 17, and twice the length of 34.
    let rest = 0xffff_u16 - (2 + 17 + 2 * 34);
    let mut capture = capture();
    capture.sealed(&Seen { local, peer, parts: [&[0; 24], &rest.to_be_bytes(), &[]], ..seen(&[]) }).expect("written");
    assert_eq!(packets(&file(capture))[0].bytes[46..48], [0xff, 0xff]);
}

#[test]
fn two_addresses_of_ipv4_written_as_ipv6_are_ipv4() {
    let mut capture = capture();
    let (local, peer) = (address("[::ffff:10.0.0.1]:1"), address("[::ffff:10.0.0.2]:2"));
    capture.sealed(&Seen { local, peer, ..seen(&[]) }).expect("written");
    capture.clear(&Seen { local, peer, ..seen(&[]) }).expect("written");
    let packets = packets(&file(capture));
    assert_eq!((packets[0].bytes[0], packets[0].bytes.len()), (0x45, 52));
    assert_eq!(packets[1].bytes[3..12], [4, 2, 0, 0, 0, 10, 0, 0, 2]);
}

#[test]
fn an_address_that_is_not_known_has_the_version_of_the_other() {
    let mut capture = capture();
    for (local, peer) in [("[::]:1", "10.0.0.2:2"), ("0.0.0.0:1", "[fd00::2]:2"), ("0.0.0.0:1", "[::]:2")] {
        let seen = Seen { is_sent: true, local: address(local), peer: address(peer), ..seen(&[]) };
        capture.sealed(&seen).expect("written");
    }
    let packets = packets(&file(capture));
    assert_eq!((packets[0].bytes[0], &packets[0].bytes[12..20]), (0x45, &[0, 0, 0, 0, 10, 0, 0, 2][..]));
    for packet in &packets[1..] {
        assert_eq!((packet.bytes[0], &packet.bytes[8..24]), (0x60, &[0; 16][..]));
    }
}

#[test]
fn a_packet_longer_than_ip_allows_is_cut() {
    let frames = vec![9; 300_000];
    for (text, headers, kept) in [("10.0.0.1:1", 28, 65_535), ("[fd00::1]:1", 48, 65_575)] {
        let mut capture = capture();
        capture.sealed(&Seen { local: address(text), peer: address(text), ..seen(&frames) }).expect("written");
        let packet = &packets(&file(capture))[0];
        assert_eq!((packet.bytes.len(), packet.whole), (kept, headers + 24 + 300_000));
        let at = if headers == 28 { 2 } else { 4 };
        assert_eq!(packet.bytes[at..at + 2], [0xff, 0xff], "the greatest length");
        assert_eq!(packet.bytes[headers - 4..headers - 2], [0xff, 0xff]);
    }
    let mut capture = capture();
    capture.clear(&seen(&frames)).expect("written");
    let packet = &packets(&file(capture))[0];
    assert_eq!((packet.bytes.len(), packet.whole), (262_144, 24 + 24 + 8 + 300_000));
}

#[test]
fn a_clear_packet_has_a_front_and_its_destination() {
    let mut capture = capture();
    let frames = [1, 2, 3];
    let (to, class) = (Incarnation(0x0102_0304_0506_0708), TrafficClass::Control);
    capture.clear(&Seen { is_sent: true, is_memory: true, class, to, ..seen(&frames) }).expect("written");
    let peer = address("[fd00::2]:258");
    capture.clear(&Seen { peer, snap: 50, packet_bytes: 70_000, ..seen(&frames) }).expect("written");
    capture.clear(&Seen { peer: address("0.0.0.0:9"), parts: [&HEADER[..5], &[], &[]], ..seen(&[]) }).expect("written");
    let packets = packets(&file(capture));
    let bytes = &packets[0].bytes;
    assert_eq!(bytes[..12], [1, 24, 7, 4, 0x88, 0x13, 0, 0, 192, 168, 0, 9]);
    assert_eq!(bytes[12..24], [0; 12]);
    assert_eq!((&bytes[24..48], &bytes[48..56], &bytes[56..]), (&HEADER[..], &to.0.to_le_bytes()[..], &frames[..]));
    assert_eq!(packets[0].whole, 59);
    assert_eq!(packets[1].bytes[..10], [1, 24, 0, 6, 2, 1, 0, 0, 0xfd, 0]);
    assert_eq!((packets[1].bytes.len(), packets[1].whole), (50, 70_032));
    assert_eq!(packets[2].bytes, [&[1, 24, 0, 0][..], &[0; 20], &HEADER[..5]].concat(), "no room for a destination");
}

#[test]
fn times_do_not_go_back() {
    let mut capture = capture();
    for millis in [2, 1, 3] {
        capture.sealed(&Seen { time: Duration::from_millis(millis), ..seen(&[]) }).expect("written");
    }
    assert_eq!(capture.late(), 1);
    capture.sealed(&Seen { time: Duration::MAX, ..seen(&[]) }).expect("written");
    let nanos: Vec<u64> = packets(&file(capture)).iter().map(|packet| packet.nanos).collect();
    assert_eq!(nanos, [2_000_000, 2_000_000, 3_000_000, u64::MAX]);
}

#[test]
fn names_go_with_the_next_packet() {
    let mut capture = capture();
    capture.member(Incarnation(7), "m1", &[address("10.0.0.1:7000")]);
    capture.view(Space(12), ViewNumber(3), "ledger", &[Incarnation(7)]);
    capture.clear(&seen(&[])).expect("written");
    capture.clear(&seen(&[])).expect("written");
    let packets = packets(&file(capture));
    let expected = "phalanx-names 1\nmember 0000000000000007 10.0.0.1:7000 m1\n\
                    view 0000000c 3 0 0000000000000007 ledger";
    assert_eq!(packets[0].options[1], (1, expected.as_bytes().to_vec()));
    assert_eq!(packets[1].options.len(), 1, "once is enough");
}

#[test]
fn names_of_a_text_are_written_once() {
    let mut capture = capture();
    let first = "phalanx-names 1\nmember 0000000000000007 10.0.0.1:7000 m1\nview 0000000c 3 0 0000000000000007 ledger";
    capture.names(first);
    capture.clear(&seen(&[])).expect("written");
    // Another process tells the same, what is new, and what this build does not know.
    capture.names(&format!("{first}\nview 0000000c 3 1 0000000000000008 ledger\nof a later build"));
    capture.names("another comment\nmember 0000000000000009 - m9");
    capture.clear(&seen(&[])).expect("written");
    let packets = packets(&file(capture));
    let comments = packets.iter().map(|packet| String::from_utf8(packet.options[1].1.clone()).expect("UTF-8"));
    let second = "phalanx-names 1\nview 0000000c 3 1 0000000000000008 ledger";
    assert_eq!(comments.collect::<Vec<_>>(), [first, second]);
}

/// A disk that fails once, when 200 bytes are on it.
#[derive(Default)]
struct Disk {
    held: Vec<u8>,
    has_failed: bool,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = if self.has_failed { bytes.len() } else { 200_usize.saturating_sub(self.held.len()) };
        if room == 0 {
            self.has_failed = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        let count = bytes.len().min(room);
        self.held.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn after_an_error_nothing_more_is_written() {
    let mut disk = Disk::default();
    let mut capture = Capture::new(&mut disk).expect("room for the section");
    let failed = capture.sealed(&seen(&[1; 100])).expect_err("the disk is full");
    assert_eq!(failed.kind(), io::ErrorKind::StorageFull);
    assert!(capture.sealed(&seen(&[1])).is_err());
    assert!(capture.flush().is_err());
    assert!(capture.into_inner().is_err());
    assert_eq!((disk.held.len(), disk.has_failed), (200, true));
}

#[test]
fn a_new_file_is_its_owners_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.pcapng");
    let mut capture = Capture::create(&path).expect("a new file");
    capture.sealed(&seen(&[])).expect("written");
    drop(capture.into_inner().expect("written"));
    let mode = std::fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = std::fs::read(&path).expect("readable");
    assert_eq!(packets(&before).len(), 1);
    let again = Capture::create(&path).expect_err("it is there");
    assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read(&path).expect("readable"), before);
}
