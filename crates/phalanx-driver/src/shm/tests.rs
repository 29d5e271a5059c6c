//! The conformance suite through memory, and what only memory has: writers that overtake, die, or are hostile.

mod child;
mod fork;
mod hostile;

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use phalanx_core::{Origin, PartialPacket};

use super::*;
use crate::conformance;
use crate::driver::{LONG_BYTES, Transmit};
use crate::lossy::{Faults, Lossy};
use crate::udp::{Udp, UdpOptions};

type Near = Shm<Udp>;

fn make() -> Near {
    small(&ShmOptions::default())
}

fn small(options: &ShmOptions) -> Near {
    Shm::new(Udp::bind(&UdpOptions::default()).expect("loopback has free ports"), options)
}

fn peer(driver: &impl Driver, offer: Offer, token: u64) -> Peer {
    Peer {
        offer,
        token,
        data: driver.local_address(TrafficClass::Data),
        control: driver.local_address(TrafficClass::Control),
    }
}

/// Attaches all to all. Each token is the index plus 1.
fn meet(drivers: &mut [Near]) {
    let peers: Vec<Peer> = drivers
        .iter_mut()
        .zip(1..)
        .map(|(driver, token)| {
            driver.begin_incarnation(token);
            peer(driver, driver.offer().expect("there is memory"), token)
        })
        .collect();
    for (i, driver) in drivers.iter_mut().enumerate() {
        for (j, peer) in peers.iter().enumerate() {
            if i != j {
                driver.attach(peer).expect("it lives");
            }
        }
    }
    // The drivers attached first see the later attachments only now.
    for _ in 0..2 {
        drivers.iter_mut().for_each(Driver::flush);
    }
    assert!(drivers.iter().all(|driver| driver.readers() == drivers.len() as u64 - 1), "all reach all");
}

fn two(options: &ShmOptions) -> [Near; 2] {
    let mut two = [small(options), small(options)];
    meet(&mut two);
    two
}

/// Receives everything that waits in memory and, after a short wait, on the sockets.
fn drain(driver: &mut impl Wait) -> Vec<(Origin, Vec<u8>)> {
    let mut got = Vec::new();
    while driver.wait(Some(Duration::from_millis(5)), &[]).expect("waiting works").traffic {
        while driver.receive(64, &mut |_, _, origin, packet| got.push((origin, packet.to_vec()))).packets > 0 {}
    }
    got
}

fn datagrams(driver: &Near) -> u64 {
    driver.inner().stats().sent_packets
}

#[test]
fn conforms_through_memory() {
    let make = || {
        let driver = make();
        assert!(driver.unavailable().is_none(), "{:?}", driver.unavailable());
        driver
    };
    conformance::all_met(make, meet);
}

#[test]
fn conforms_with_no_process_attached() {
    conformance::all(make);
    conformance::all(|| Shm::without_memory(Udp::bind(&UdpOptions::default()).expect("loopback has free ports")));
}

#[test]
fn one_record_serves_all_readers_and_datagrams_serve_the_rest() {
    let mut near = [make(), make(), make()];
    meet(&mut near);
    let [a, b, c] = &mut near;
    let mut far = make();
    let to: Vec<SocketAddr> = [&*b, &far, &*c].map(|d| d.local_address(TrafficClass::Data)).into();
    assert_eq!(a.outbox().write_shared(TrafficClass::Data, &to, [&[], &[], b"near"]), 2);
    a.outbox().transmit(TrafficClass::Data, &to, b"far");
    a.flush();
    for reader in [b, c] {
        assert_eq!(drain(reader), [(Origin::Memory, b"near".to_vec())]);
    }
    assert_eq!(drain(&mut far), [(Origin::Network(a.local_address(TrafficClass::Data)), b"far".to_vec())]);
    assert_eq!((a.sent_stats().packets, datagrams(a)), (1, 1));
}

#[test]
fn long_packets_are_handed_up_when_they_have_begun() {
    let [mut a, mut b] = two(&ShmOptions::default());
    let to = [b.local_address(TrafficClass::Data)];
    let sent: Vec<Vec<u8>> = [LONG_BYTES, 100, 60_000, LONG_BYTES - 1, 40_000].map(|len| vec![len as u8; len]).into();
    for packet in &sent {
        assert_eq!(a.outbox().write_shared(TrafficClass::Data, &to, [packet, &[], &[]]), 1);
    }
    a.flush();
    let (mut got, mut begun) = (Vec::new(), 0);
    while got.len() < sent.len() {
        b.receive_header_first(64, &mut |_, _, _, arriving| match arriving {
            Arriving::Whole(packet) => got.push(packet.to_vec()),
            Arriving::HeaderFirst(PartialPacket { head, len, rest }) => {
                begun += 1;
                let mut packet = head.to_vec();
                // One packet's remaining payload is not taken.
                if len != 60_000 {
                    packet.resize(len, 0);
                    assert!(rest.take(&mut packet[head.len()..], &mut []));
                }
                got.push(packet);
            }
        });
    }
    assert_eq!(begun, 3);
    for (got, sent) in got.iter().zip(&sent) {
        assert!(sent.starts_with(got), "{} of {}", got.len(), sent.len());
        assert_eq!(got.len() == sent.len(), sent.len() != 60_000);
    }
    assert_eq!((b.link_stats().received, b.link_stats().overruns), (5, 0));
}

#[test]
fn a_packet_reaches_its_readers_only() {
    let mut three = [make(), make(), make()];
    meet(&mut three);
    let [a, b, c] = &mut three;
    assert_eq!(
        a.outbox().write_shared(TrafficClass::Control, &[b.local_address(TrafficClass::Control)], [&[], &[], b"for b"]),
        1
    );
    // The same bytes to the other class's address reach no reader through memory.
    assert_eq!(
        a.outbox().write_shared(
            TrafficClass::Control,
            &[b.local_address(TrafficClass::Data)],
            [&[], &[], b"for nobody"]
        ),
        0
    );
    a.flush();
    assert_eq!((drain(b), drain(c)), (vec![(Origin::Memory, b"for b".to_vec())], vec![]));
}

#[test]
fn memory_is_used_only_when_both_have_attached() {
    let (mut a, mut b) = (make(), make());
    a.begin_incarnation(1);
    b.begin_incarnation(2);
    let there = [b.local_address(TrafficClass::Data)];
    let (of_a, of_b) = (peer(&a, a.offer().expect("memory"), 1), peer(&b, b.offer().expect("memory"), 2));
    a.attach(&of_b).expect("it lives");
    a.flush();
    assert_eq!(a.outbox().write_shared(TrafficClass::Data, &there, [&[], &[], b"early"]), 0, "b does not read yet");
    b.attach(&of_a).expect("it lives");
    a.flush();
    assert_eq!(a.outbox().write_shared(TrafficClass::Data, &there, [&[], &[], b"now"]), 1);
    a.flush();
    b.detach(1);
    assert_eq!(drain(&mut b), [], "it wants nothing of a any more");
    a.flush();
    assert_eq!(a.outbox().write_shared(TrafficClass::Data, &there, [&[], &[], b"late"]), 0);
}

/// Its memory may be gone, and another process may get its place among the readers.
#[test]
fn who_is_detached_is_written_to_no_more() {
    let [mut a, b] = two(&ShmOptions::default());
    let there = [b.local_address(TrafficClass::Data)];
    assert_eq!(a.outbox().write_shared(TrafficClass::Data, &there, [&[], &[], b"in time"]), 1);
    a.detach(2);
    assert_eq!(a.outbox().write_shared(TrafficClass::Data, &there, [&[], &[], b"late"]), 0);
}

#[test]
fn packets_for_an_earlier_incarnation_are_not_received() {
    let [mut a, mut b] = two(&ShmOptions::default());
    let there = [b.local_address(TrafficClass::Data)];
    assert_eq!(a.outbox().write_shared(TrafficClass::Data, &there, [&[], &[], b"for the old incarnation"]), 1);
    b.begin_incarnation(3);
    assert_eq!(drain(&mut b), []);
    let of_a = peer(&a, a.offer().expect("memory"), 1);
    b.attach(&of_a).expect("it lives");
    b.flush();
    assert_eq!(drain(&mut b), []);
    a.flush();
    assert_eq!(
        a.outbox().write_shared(TrafficClass::Data, &there, [&[], &[], b"still the old one"]),
        0,
        "a sees that the incarnation has ended"
    );
    let of_b = peer(&b, b.offer().expect("memory"), 3);
    a.detach(2);
    a.attach(&of_b).expect("it lives");
    for _ in 0..2 {
        b.flush();
        a.flush();
    }
    assert_eq!(a.outbox().write_shared(TrafficClass::Data, &there, [&[], &[], b"for this incarnation"]), 1);
    assert_eq!(drain(&mut b), [(Origin::Memory, b"for this incarnation".to_vec())]);
}

#[test]
fn a_reader_that_was_overtaken_goes_on_from_where_the_writer_is() {
    let [mut a, mut b] = two(&ShmOptions { data_ring_bytes: 1 << 18, ..ShmOptions::default() });
    let there = [b.local_address(TrafficClass::Data)];
    for i in 0..100_u8 {
        a.outbox().write_shared(TrafficClass::Data, &there, [&[], &[], &[i; 8_000]]);
    }
    assert_eq!(drain(&mut b), []);
    assert_eq!(b.link_stats().overruns, 1);
    for i in 0..30_u8 {
        a.outbox().write_shared(TrafficClass::Data, &there, [&[], &[], &[i; 8_000]]);
    }
    let got = drain(&mut b);
    assert!(got.len() == 30 && got.iter().zip(0_u8..).all(|((_, packet), i)| packet[..] == [i; 8_000]));
}

#[test]
fn sleepers_are_woken_and_others_are_not_disturbed() {
    let [mut a, mut b] = two(&ShmOptions::default());
    let (to_a, to_b) = ([a.local_address(TrafficClass::Data)], [b.local_address(TrafficClass::Data)]);
    let rounds = 3_000_u32;
    let patience = Duration::from_secs(20);
    let bounce = |driver: &mut Near, to: &[SocketAddr], first: bool| {
        let mut next = 0_u32;
        if first {
            driver.outbox().write_shared(TrafficClass::Data, to, [&[], &[], &next.to_le_bytes()]);
            driver.flush();
        }
        while next < rounds {
            let mut heard = None;
            while driver.receive(8, &mut |_, _, _, p| heard = (*p).try_into().ok().map(u32::from_le_bytes)).packets == 0
            {
                let began = Instant::now();
                driver.wait(Some(patience), &[]).expect("waiting works");
                assert!(began.elapsed() < patience, "a wake-up is lost");
            }
            next = heard.expect("four bytes") + 1;
            driver.outbox().write_shared(TrafficClass::Data, to, [&[], &[], &next.to_le_bytes()]);
            driver.flush();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| bounce(&mut b, &to_a, false));
        bounce(&mut a, &to_b, true);
    });
    let doorbells = a.sent_stats().doorbells + b.sent_stats().doorbells;
    assert!(doorbells <= u64::from(rounds) + 2, "at most one for each packet: {doorbells}");
    assert_eq!(datagrams(&a) + datagrams(&b), 0);
}

#[test]
fn a_long_packet_wakes_its_reader_at_once_and_the_next_finds_it_awake() {
    let [mut a, mut b] = two(&ShmOptions::default());
    let to = [b.local_address(TrafficClass::Data)];
    let long = vec![7; LONG_BYTES];
    let take = |b: &mut Near| b.receive(8, &mut |_, _, _, packet| assert_eq!(packet.len(), LONG_BYTES)).packets;
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            while take(&mut b) == 0 {
                assert_ne!(b.wait(Some(Duration::from_secs(20)), &[]).expect("waiting works"), Woken::default());
            }
        });
        // The reader may sleep by now, or not yet. No flush follows.
        thread::sleep(Duration::from_millis(20));
        a.outbox().write_shared(TrafficClass::Data, &to, [&[], &[], &long]);
        sleeper.join().expect("it is woken");
    });
    assert_eq!((a.sent_stats().doorbells, b.link_stats().lingered), (b.link_stats().wakes, 0));
    a.outbox().write_shared(TrafficClass::Data, &to, [&[], &[], &long]);
    assert!(b.wait(None, &[]).expect("waiting works").traffic);
    assert_eq!((take(&mut b), b.link_stats().lingered), (1, 1));
    // No packet follows this one, so the reader sleeps after all. It does not stay awake for short packets.
    assert_eq!(b.wait(Some(Duration::from_millis(1)), &[]).expect("waiting works"), Woken::default());
    a.outbox().write_shared(TrafficClass::Data, &to, [&[], &[], b"short"]);
    assert_eq!((a.sent_stats().doorbells, b.link_stats().lingered), (b.link_stats().wakes, 1));
}

#[test]
fn losses_of_the_sockets_are_reported() {
    let small = UdpOptions { receive_buffer_bytes: 8 << 10, ..UdpOptions::default() };
    let mut near = Shm::new(Udp::bind(&small).expect("loopback has free ports"), &ShmOptions::default());
    let mut far = Udp::bind(&UdpOptions { segment: false, ..UdpOptions::default() }).expect("loopback has free ports");
    for _ in 0..400 {
        far.outbox().transmit(TrafficClass::Data, &[near.local_address(TrafficClass::Data)], &[7; 1_000]);
    }
    far.flush();
    let got = drain(&mut near).len() as u64;
    assert_eq!((near.loss_report().lost, got < 400), (400 - got, true));
    assert_eq!(near.loss_report().lost, 0, "each loss is reported once");
}

#[test]
fn a_flood_in_memory_does_not_silence_the_sockets() {
    let [mut a, mut b] = two(&ShmOptions::default());
    let mut far = make();
    let to_b = [b.local_address(TrafficClass::Data)];
    far.outbox().transmit(TrafficClass::Data, &to_b, b"from afar");
    far.flush();
    let mut heard = false;
    for _ in 0..10_000 {
        for _ in 0..64 {
            a.outbox().write_shared(TrafficClass::Data, &to_b, [&[], &[], b"from near"]);
        }
        b.receive(64, &mut |_, _, origin, _| heard |= origin != Origin::Memory);
        if heard {
            return;
        }
    }
    panic!("the datagram was never looked for");
}

#[test]
fn faults_strike_what_comes_from_memory_too() {
    let [mut a, b] = two(&ShmOptions::default());
    let there = [b.local_address(TrafficClass::Data)];
    let mut b = Lossy::new(b, Faults { loss_ppm: 500_000, ..Faults::default() }, 7);
    for i in 0..200_u8 {
        a.outbox().write_shared(TrafficClass::Data, &there, [&[], &[], &[i]]);
    }
    let got = drain(&mut b);
    assert!((50..150).contains(&got.len()) && got.iter().all(|(origin, _)| *origin == Origin::Memory), "{}", got.len());
    assert!(b.neighbours().is_some());
}

#[test]
fn only_sealed_memory_of_this_layout_and_incarnation_is_attached() {
    let (mut a, b) = (make(), make());
    let offer = b.offer().expect("memory");
    let unlike = |offer: Offer, token: u64| peer(&b, offer, token);
    assert!(matches!(a.attach(&unlike(offer, 2)), Err(Refused::OtherIncarnation)), "b has not begun an incarnation");
    let file = tempfile::tempfile().expect("made");
    file.set_len(1 << 20).expect("set");
    let fd = |file: &dyn std::os::fd::AsRawFd| file.as_raw_fd().unsigned_abs();
    assert!(matches!(a.attach(&unlike(Offer { memory: fd(&file), ..offer }, 2)), Err(Refused::NotSealed)));
    let other = memfd(1 << 20);
    assert!(matches!(a.attach(&unlike(Offer { memory: fd(&other), ..offer }, 2)), Err(Refused::Layout)));
    let short = memfd(100);
    assert!(matches!(a.attach(&unlike(Offer { memory: fd(&short), ..offer }, 2)), Err(Refused::Layout)));
    let gone = Offer { pid: u32::MAX, ..offer };
    assert!(matches!(a.attach(&unlike(gone, 2)), Err(Refused::System(_))));
    let no_pipe = Offer { doorbell: offer.memory, ..offer };
    assert!(matches!(a.attach(&unlike(no_pipe, 2)), Err(Refused::Layout)));
    let stats = a.link_stats();
    assert_eq!(
        (stats.refused_incarnation, stats.refused_seals, stats.refused_layout, stats.refused_system),
        (1, 1, 3, 1)
    );
    let mut without = Shm::without_memory(Udp::bind(&UdpOptions::default()).expect("loopback has free ports"));
    assert!(without.neighbours().is_none() && without.offer().is_none());
}

/// A memory file that is sealed as a segment is, and full of zeros.
fn memfd(bytes: u64) -> std::os::fd::OwnedFd {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("made");
    ftruncate(&file, bytes).expect("set");
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
    fcntl_add_seals(&file, seals).expect("sealed");
    file
}
