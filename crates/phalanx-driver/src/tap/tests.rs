//! What a driver shows, counted against what it sent and received.

use std::collections::BTreeMap;
use std::time::Duration;

use phalanx_core::member::{Directory, GroupEntry};
use phalanx_core::wire::{Kind, PacketNumber, Space, Tags};
use phalanx_core::{DecreeNumber, GroupId, ViewNumber};

use super::ring::{Record, RecordHeader, RecordKind, RingReader, RingWriter};
use super::*;
use crate::shm::{Peer, Shm, ShmOptions};
use crate::udp::{Udp, UdpOptions};
use crate::{Driver, Neighbours, Transmit, Wait};

fn bind() -> Udp {
    Udp::bind(&UdpOptions::default()).expect("loopback has free ports")
}

/// Attaches a reader that takes what `filter` says.
fn attach(tap: &mut Tap, number: u64, filter: &str, form: Form, snap: u32) -> RingReader {
    let ring = RingWriter::new(16 << 20).expect("memory");
    let reader = RingReader::open(ring.file()).expect("it is sealed");
    let filter = Filter::parse(filter).expect("a filter");
    tap.attach(Attachment { number, filter, form, snap, ring }).expect("it compiles");
    reader
}

/// All packets that were shown and not yet read.
fn shown(reader: &mut RingReader) -> Vec<(RecordHeader, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some(Record { head, bytes }) = reader.read().expect("sound") {
        if head.kind != RecordKind::Names {
            all.push((head, bytes.to_vec()));
        }
    }
    assert_eq!(reader.lost(), 0);
    all
}

fn tap(driver: &mut impl Driver) -> &mut Tap {
    driver.outbox().tap().expect("it has one")
}

fn header(kind: Kind, sender: u64, space: u32, number: u64) -> Header {
    let (sender, space, number) = (Incarnation(sender), Space(space), PacketNumber(number));
    Header { kind, cell_tag: 0, sender, space, number }
}

fn drain(driver: &mut impl Wait) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    driver.wait(Some(Duration::from_millis(50)), &[]).expect("waiting works");
    while driver.receive(64, &mut |_, _, _, packet| got.push(packet.to_vec())).packets > 0 {}
    got
}

#[test]
fn each_datagram_is_shown_once_whichever_way_it_goes() {
    let (mut sender, mut receiver) = (bind(), bind());
    let data = receiver.local_address(TrafficClass::Data);
    let control = receiver.local_address(TrafficClass::Control);
    let mut sent = attach(tap(&mut sender), 1, "", Form::Sealed, u32::MAX);
    let mut came = attach(tap(&mut receiver), 1, "", Form::Sealed, u32::MAX);
    let total = |driver: &Udp| driver.stats().sent_packets + driver.stats().send_dropped;

    let outbox = sender.outbox();
    // Alone, in parts; alone, because it is long; three times in the queue; refused, because something waits.
    assert!(outbox.send_unbuffered(TrafficClass::Data, data, [&[1; 30], &[2; 40], &[3; 5]]));
    outbox.transmit(TrafficClass::Data, &[data], &[4; 20_000]);
    outbox.transmit(TrafficClass::Data, &[data, data], &[5; 300]);
    outbox.transmit_datagram(TrafficClass::Control, &[control], &[6; 40]);
    assert!(!outbox.send_unbuffered(TrafficClass::Data, data, [&[7], &[], &[]]));
    outbox.transmit(TrafficClass::Data, &[data], &[7]);
    let seen = shown(&mut sent);
    assert_eq!(seen.len() as u64, total(&sender) + 4, "four wait in the queue");
    let (head, bytes) = &seen[0];
    assert_eq!(*bytes, [vec![1; 30], vec![2; 40], vec![3; 5]].concat());
    assert_eq!((head.len, head.peer, head.flags), (75, data, 1));
    sender.flush();
    assert_eq!(total(&sender), 6);

    // What has no room is dropped, and was shown.
    let to = vec![data; 3_000];
    for _ in 0..3 {
        sender.outbox().transmit(TrafficClass::Data, &to, &[8; 64]);
    }
    sender.flush();
    assert!(sender.stats().send_dropped > 0, "the queue has no room for so many");
    assert_eq!(shown(&mut sent).len() as u64 + 6, total(&sender), "nothing waits");

    let got = drain(&mut receiver);
    let seen = shown(&mut came);
    assert_eq!(seen.len() as u64, receiver.stats().received_packets);
    assert!(receiver.stats().coalesced_packets > 0, "some come together");
    assert_eq!(seen.iter().map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>(), got);
    let from = [TrafficClass::Data, TrafficClass::Control].map(|class| sender.local_address(class));
    assert!(seen.iter().all(|(head, _)| head.peer == from[usize::from(head.flags >> 1 & 1)]));
}

#[test]
fn the_filter_chooses_and_the_snap_cuts() {
    let (mut sender, receiver) = (bind(), bind());
    let to = receiver.local_address(TrafficClass::Data);
    let filter = format!("type multicast and dst port {} and size > 60", to.port());
    let mut reader = attach(tap(&mut sender), 7, &filter, Form::Sealed, 28 + 26);
    let packet = |kind, len| {
        let mut packet = header(kind, 3, 9, 1).to_bytes().to_vec();
        packet.resize(len, 0xee);
        packet
    };
    for (kind, len) in [(Kind::Multicast, 60), (Kind::Data, 100), (Kind::Multicast, 100)] {
        sender.outbox().transmit(TrafficClass::Data, &[to], &packet(kind, len));
    }
    let seen = shown(&mut reader);
    assert_eq!(seen.len(), 1);
    assert_eq!((&seen[0].1[..], seen[0].0.len, seen[0].0.snap), (&packet(Kind::Multicast, 26)[..], 100, 54));
    assert!(
        !tap(&mut sender)
            .change(7, Filter::parse("from nobody").expect("a filter"), 96)
            .expect("it compiles")
            .is_empty()
    );
    sender.outbox().transmit(TrafficClass::Data, &[to], &packet(Kind::Multicast, 100));
    assert!(shown(&mut reader).is_empty(), "it has another filter");
    tap(&mut sender).publish();
    assert_eq!(reader.published(), (4, 1));
    tap(&mut sender).detach(7);
    assert!(!tap(&mut sender).is_attached());
    sender.outbox().transmit(TrafficClass::Data, &[to], &packet(Kind::Multicast, 100));
    assert_eq!(tap(&mut sender).readers().count(), 0);
}

/// Two drivers that share memory, and a third place that they do not reach by it.
fn near() -> (Shm<Udp>, Shm<Udp>, Udp) {
    let mut both = [(); 2].map(|()| Shm::new(bind(), &ShmOptions::default()));
    let peers: Vec<Peer> = both
        .iter_mut()
        .zip(1..)
        .map(|(driver, token)| {
            driver.begin_incarnation(token);
            let offer = driver.offer().expect("there is memory");
            let [data, control] = [TrafficClass::Data, TrafficClass::Control].map(|class| driver.local_address(class));
            Peer { offer, token, data, control }
        })
        .collect();
    both[0].attach(&peers[1]).expect("it lives");
    both[1].attach(&peers[0]).expect("it lives");
    for _ in 0..2 {
        both.iter_mut().for_each(Driver::flush);
    }
    let [one, other] = both;
    (one, other, bind())
}

#[test]
fn of_memory_a_sealed_tap_sees_the_header_and_a_clear_one_all() {
    let (mut sender, mut receiver, far) = near();
    let to = [receiver.local_address(TrafficClass::Data), far.local_address(TrafficClass::Data)];
    let mut sealed = attach(tap(&mut sender), 1, "", Form::Sealed, u32::MAX);
    let mut clear = attach(tap(&mut sender), 2, "", Form::Clear, u32::MAX);
    let mut came = attach(tap(&mut receiver), 1, "memory and type multicast", Form::Sealed, u32::MAX);
    let header = header(Kind::Multicast, 3, 9, 4).to_bytes();
    let head = [&header[..], &0x55_u64.to_le_bytes()].concat();
    for frames in [vec![0xaa; 100], vec![0xbb; 40_000]] {
        assert_eq!(sender.outbox().write_shared(TrafficClass::Data, &to, [&head, &frames, &[0xcc; 6]]), 1);
        let seen = shown(&mut clear);
        let whole = [&header[..], &frames, &[0xcc; 6]].concat();
        let told: Vec<_> = seen.iter().map(|(head, _)| (head.peer, head.flags, head.to)).collect();
        assert_eq!(told, [(to[0], 0b101, Incarnation(0x55)), (to[1], 0b001, Incarnation(0x55))]);
        assert!(seen.iter().all(|(head, bytes)| *bytes == whole && head.len as usize == whole.len()));
        // What goes on as a datagram is shown when it is sealed.
        let seen = shown(&mut sealed);
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].0.len as usize, seen[0].0.flags, &seen[0].1[..]), (whole.len(), 0b101, &header[..]));
        let mut got = 0;
        receiver.receive_header_first(64, &mut |_, _, _, _| got += 1);
        assert_eq!(got, 1);
        let seen = shown(&mut came);
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].0.len as usize, seen[0].0.flags, &seen[0].1[..]), (whole.len(), 0b100, &header[..]));
    }
    sender.outbox().transmit(TrafficClass::Data, &to, &[1; 50]);
    let seen = shown(&mut sealed);
    assert_eq!(seen.len(), 1, "memory had it");
    assert_eq!((seen[0].0.peer, seen[0].0.flags), (to[1], 0b001));
}

#[test]
fn what_was_opened_is_shown_in_clear() {
    let mut driver = bind();
    let mut reader = attach(tap(&mut driver), 1, "in and to me and acked = 5", Form::Clear, u32::MAX);
    let me = MemberInfo::new(Incarnation(8), "me", UNKNOWN, UNKNOWN);
    tap(&mut driver).set_own(&me);
    tap(&mut driver).learn(&directory(1, &[&me], &[]));
    // An acknowledgement of the data channel: up to 5, as far as 9, and of nothing beyond.
    let frames = [3, 5, 9, 0];
    let packet = ClearPacket {
        to: me.incarnation,
        header: header(Kind::Direct, 3, 2, 1),
        frames: &frames,
        frames_bytes: frames.len(),
    };
    let from = Origin::Network(SocketAddr::from(([127, 0, 0, 1], 9)));
    tap(&mut driver).opened(TrafficClass::Control, from, &packet);
    tap(&mut driver).opened(TrafficClass::Data, Origin::Memory, &ClearPacket { to: Incarnation(9), ..packet });
    let seen = shown(&mut reader);
    assert_eq!(seen.len(), 1, "of the two one is for it: {seen:?}");
    assert_eq!(seen[0].1, [&packet.header.to_bytes()[..], &frames].concat());
}

fn directory(decree: u64, members: &[&MemberInfo], groups: &[(&str, u32)]) -> Directory {
    let members: Vec<MemberInfo> = members.iter().map(|member| (*member).clone()).collect();
    let entry = |name: &str, space| GroupEntry {
        name: name.to_owned(),
        view: ViewNumber::FIRST,
        space: Space(space),
        members: members.iter().map(|member| member.incarnation).collect(),
        tail: Tags::default(),
    };
    let groups: BTreeMap<_, _> =
        groups.iter().zip(1..).map(|((name, space), number)| (GroupId(number), entry(name, *space))).collect();
    Directory { decree: DecreeNumber(decree), groups, ..Directory::found(members, 1, Tags::default()) }
}

#[test]
fn names_are_bound_anew_with_each_directory() {
    let mut driver = bind();
    let [ann, bob] =
        [("ann", 3), ("bob", 4)].map(|(name, who)| MemberInfo::new(Incarnation(who), name, UNKNOWN, UNKNOWN));
    let mut reader = attach(tap(&mut driver), 1, "rank 1 of quotes", Form::Sealed, 128);
    let mut show = |driver: &mut Udp, sender, space| {
        let packet = header(Kind::Multicast, sender, space, 1).to_bytes();
        tap(driver).received(TrafficClass::Data, &UNKNOWN, &packet);
        shown(&mut reader).len()
    };
    assert_eq!(show(&mut driver, 4, 12), 0, "nobody knows the group");
    tap(&mut driver).learn(&directory(1, &[&ann, &bob], &[("quotes", 12)]));
    assert_eq!((show(&mut driver, 4, 12), show(&mut driver, 3, 12), show(&mut driver, 4, 13)), (1, 0, 0));
    tap(&mut driver).learn(&directory(2, &[&bob, &ann], &[("quotes", 13)]));
    assert_eq!((show(&mut driver, 3, 13), show(&mut driver, 4, 13), show(&mut driver, 4, 12)), (1, 0, 1));
    for decree in 3..7 {
        tap(&mut driver).learn(&directory(decree, &[&bob], &[("quotes", 11 + u32::try_from(decree).unwrap_or(0))]));
    }
    assert_eq!((show(&mut driver, 3, 13), tap(&mut driver).take_failed().len()), (0, 0), "four directories are known");
}

#[test]
fn a_packet_is_shown_to_each_reader_and_a_dead_one_slows_nobody() {
    let mut driver = bind();
    let mut first = attach(tap(&mut driver), 1, "", Form::Sealed, u32::MAX);
    let ring = RingWriter::new(0).expect("memory");
    let slow = RingReader::open(ring.file()).expect("it is sealed");
    let filter = Filter::parse("").expect("a filter");
    tap(&mut driver)
        .attach(Attachment { number: 2, filter, form: Form::Sealed, snap: u32::MAX, ring })
        .expect("it compiles");
    let packet = [9; 1_000];
    for _ in 0..2_000 {
        tap(&mut driver).received(TrafficClass::Data, &UNKNOWN, &packet);
    }
    assert_eq!(shown(&mut first).len(), 2_000);
    drop(slow);
    tap(&mut driver).received(TrafficClass::Data, &UNKNOWN, &packet);
    assert_eq!(shown(&mut first).len(), 1);
    let mut counters = BTreeMap::new();
    driver.counters(&mut |name, count| {
        counters.insert(name, count);
    });
    assert_eq!((counters["tap_readers"], counters["tap_shown"]), (2, 4_002));
}
