//! The conformance suite of drivers. A driver's tests call each function with a function that makes a fresh driver.
//!
//! The functions panic with a reason if the driver does not conform.
#![allow(clippy::missing_panics_doc, reason = "panicking is how a check fails, as said above")]
#![allow(clippy::cast_possible_truncation, reason = "the contents of packets are numbers of any size, cut to bytes")]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use phalanx_core::{Origin, TrafficClass};

use crate::driver::{Received, Transmit, Wait};

/// Runs every check, each on fresh drivers from `make`.
pub fn all<D: Wait + Send>(make: impl FnMut() -> D) {
    all_met(make, |_| {});
}

/// Like [`all`], but `meet` introduces the drivers of each check to each other first.
pub fn all_met<D: Wait + Send>(mut make: impl FnMut() -> D, mut meet: impl FnMut(&mut [D])) {
    let mut four = || {
        let mut drivers = [make(), make(), make(), make()];
        meet(&mut drivers);
        drivers
    };
    let mut two = || {
        let [a, b, ..] = four();
        (a, b)
    };
    let pairs: [fn(D, D); 9] = [
        carries_bytes_and_names_the_sender,
        keeps_classes_apart_and_control_first,
        takes_at_most_max,
        says_when_more_may_wait,
        carries_the_longest_packet,
        the_callback_can_answer,
        survives_a_destination_that_is_gone,
        a_burst_within_the_buffers_arrives,
        a_datagram_ends_the_wait,
    ];
    for check in pairs {
        let (a, b) = two();
        check(a, b);
    }
    one_packet_goes_to_many(four());
    for check in [a_wake_up_ends_the_wait, a_wake_up_before_the_wait_is_not_lost, a_timeout_ends_the_wait] {
        let [a, ..] = four();
        check(a);
    }
}

/// A packet arrives with the bytes and the origin it was sent with.
pub fn carries_bytes_and_names_the_sender<D: Wait>(mut a: D, mut b: D) {
    for class in [TrafficClass::Control, TrafficClass::Data] {
        for len in [1_usize, 2, 63, 500] {
            let packet: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
            send(a.outbox(), class, &[b.local_address(class)], &packet);
            a.flush();
            let got = collect(&mut b, 1);
            let [(on, origin, bytes)] = &got[..] else { panic!("one was sent") };
            assert_eq!((on, bytes), (&class, &packet));
            assert!(origin.address().is_none_or(|from| from == a.local_address(class)), "{origin:?}");
        }
    }
}

/// A datagram arrives on the class it was sent on, and control overtakes data.
pub fn keeps_classes_apart_and_control_first<D: Wait>(mut a: D, mut b: D) {
    for i in 0..8_u8 {
        send(a.outbox(), TrafficClass::Data, &[b.local_address(TrafficClass::Data)], &[i]);
    }
    send(a.outbox(), TrafficClass::Control, &[b.local_address(TrafficClass::Control)], &[99]);
    a.flush();
    // Both sockets have to be filled before the receive: control has priority only among packets that have arrived.
    let mut got = Vec::new();
    settle(&mut b, 9, &mut got);
    assert_eq!(got.len(), 9, "nine were sent");
    let data: Vec<u8> = got.iter().filter(|(class, ..)| *class == TrafficClass::Data).map(|(_, _, p)| p[0]).collect();
    assert_eq!(data, (0..8).collect::<Vec<_>>(), "data keeps its order");
    let control: Vec<&Vec<u8>> = got.iter().filter(|(l, ..)| *l == TrafficClass::Control).map(|(_, _, p)| p).collect();
    assert_eq!(control, [&vec![99]]);
    assert_eq!(got[0].0, TrafficClass::Control, "control is handed up first");
}

/// `receive` honours its bound and says when more may wait.
pub fn takes_at_most_max<D: Wait>(mut a: D, mut b: D) {
    for i in 0..20_u8 {
        send(a.outbox(), TrafficClass::Data, &[b.local_address(TrafficClass::Data)], &[i]);
    }
    a.flush();
    until_waiting(&mut b);
    let mut seen = 0;
    assert_eq!(b.receive(0, &mut |_, _, _, _| seen += 1).packets, 0);
    assert_eq!(seen, 0, "no more than asked for");
    let mut total = 0;
    for _ in 0..1_000 {
        let mut seen = 0;
        let taken = b.receive(7, &mut |_, _, _, _| seen += 1).packets;
        assert!(taken <= 7 && seen <= taken, "at most seven at once");
        total += seen;
        if total == 20 {
            return;
        }
        pause(&mut b);
    }
    panic!("{total} of 20 arrived");
}

/// A receive may leave packets for the next one, and then reports more. A caller that repeats while it does, without
/// waiting, gets every packet that had arrived. On one host a flushed packet has arrived.
pub fn says_when_more_may_wait<D: Wait>(mut a: D, mut b: D) {
    for round in 0..3 {
        for class in [TrafficClass::Control, TrafficClass::Data] {
            for i in 0..5_u8 {
                send(a.outbox(), class, &[b.local_address(class)], &[i]);
            }
        }
        a.flush();
        until_waiting(&mut b);
        let mut seen = 0;
        while b.receive(64, &mut |_, _, _, _| seen += 1).more {}
        assert_eq!(seen, 10, "round {round}: no word of more");
        // Nothing is left, so that the next round starts after a silence.
        assert_eq!(b.receive(64, &mut |_, _, _, _| ()), Received::default());
    }
}

/// One call reaches every destination with the same bytes.
pub fn one_packet_goes_to_many<D: Wait>([mut a, mut b, mut c, mut d]: [D; 4]) {
    let to = [&b, &c, &d].map(|x| x.local_address(TrafficClass::Data));
    for i in 0..100_u8 {
        send(a.outbox(), TrafficClass::Data, &to, &[i, 1, 2, 3]);
    }
    a.flush();
    for receiver in [&mut b, &mut c, &mut d] {
        let got = collect(receiver, 100);
        assert!(got.iter().enumerate().all(|(i, (_, _, p))| p[..] == [i as u8, 1, 2, 3]));
    }
}

/// A packet of [`crate::Driver::packet_bytes_max`] arrives complete.
pub fn carries_the_longest_packet<D: Wait>(mut a: D, mut b: D) {
    let longest: Vec<u8> = (0..b.packet_bytes_max()).map(|i| (i % 251) as u8).collect();
    send(a.outbox(), TrafficClass::Data, &[b.local_address(TrafficClass::Data)], &longest);
    a.flush();
    let got = collect(&mut b, 1);
    assert!(got[0].2 == longest, "{} of {} bytes came through unchanged", got[0].2.len(), longest.len());
}

/// The sending half works inside the receive callback, and the callback may change the packet in place.
pub fn the_callback_can_answer<D: Wait>(mut a: D, mut b: D) {
    send(a.outbox(), TrafficClass::Data, &[b.local_address(TrafficClass::Data)], b"ping");
    a.flush();
    let back = a.local_address(TrafficClass::Data);
    let mut answered = false;
    for _ in 0..ROUNDS {
        pause(&mut b);
        b.receive(8, &mut |outbox, class, _, mut packet| {
            packet.reverse();
            send(outbox, class, &[back], &packet);
            answered = true;
        });
        if answered {
            break;
        }
    }
    b.flush();
    assert_eq!(collect(&mut a, 1)[0].2, b"gnip");
}

/// A destination without a receiver is no error and does not affect packets to others.
pub fn survives_a_destination_that_is_gone<D: Wait>(mut a: D, mut b: D) {
    let gone = SocketAddr::from(([127, 0, 0, 1], 1));
    let here = b.local_address(TrafficClass::Data);
    for i in 0..50_u8 {
        send(a.outbox(), TrafficClass::Data, &[gone, here], &[i]);
        a.flush();
        a.receive(8, &mut |_, _, _, _| {});
    }
    let got = collect(&mut b, 50);
    assert!(got.iter().enumerate().all(|(i, (_, _, p))| p[..] == [i as u8]), "all 50, in order");
}

/// A burst larger than any one batch arrives complete while it fits the buffers.
pub fn a_burst_within_the_buffers_arrives<D: Wait>(mut a: D, mut b: D) {
    let here = [b.local_address(TrafficClass::Data)];
    for i in 0..300_u32 {
        send(a.outbox(), TrafficClass::Data, &here, &i.to_le_bytes());
    }
    a.flush();
    let numbers: BTreeSet<Vec<u8>> = collect(&mut b, 300).into_iter().map(|(_, _, p)| p).collect();
    assert_eq!(numbers.len(), 300);
}

/// A datagram wakes a waiting thread.
pub fn a_datagram_ends_the_wait<D: Wait + Send>(mut a: D, mut b: D) {
    let to = b.local_address(TrafficClass::Data);
    thread::scope(|scope| {
        scope.spawn(|| {
            send(a.outbox(), TrafficClass::Data, &[to], b"x");
            a.flush();
        });
        for _ in 0..ROUNDS {
            let woken = b.wait(None, &[]).expect("waiting works");
            if woken.traffic && b.receive(8, &mut |_, _, _, _| {}).packets > 0 {
                return;
            }
        }
        panic!("woken without a datagram, again and again");
    });
}

/// The waker wakes a waiting thread, every time.
pub fn a_wake_up_ends_the_wait<D: Wait + Send>(mut a: D) {
    let waker = a.waker();
    let (done, next) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            // Each wake-up follows the end of the one before: none may be lost, and none may count twice.
            while next.recv().is_ok() {
                waker.wake();
            }
        });
        for _ in 0..200 {
            done.send(()).expect("the other thread listens");
            while !a.wait(None, &[]).expect("waiting works").waker {}
        }
        drop(done);
    });
}

/// A wake-up while no thread waits makes the next wait return at once.
pub fn a_wake_up_before_the_wait_is_not_lost<D: Wait>(mut a: D) {
    a.waker().wake();
    a.waker().wake();
    assert!(a.wait(None, &[]).expect("waiting works").waker);
    let again = a.wait(Some(Duration::ZERO), &[]).expect("waiting works");
    assert!(!again.waker, "two wake-ups before one wait are one");
}

/// A wait without an event ends with its timeout.
pub fn a_timeout_ends_the_wait<D: Wait>(mut a: D) {
    let woken = a.wait(Some(Duration::from_millis(1)), &[]).expect("waiting works");
    assert!(!woken.traffic && !woken.waker && woken.extra == 0, "{woken:?}");
}

type Arrival = (TrafficClass, Origin, Vec<u8>);

/// Sends as the core does: through memory to its readers, through `transmit` to the others.
fn send(outbox: &mut (impl Transmit + ?Sized), class: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
    if outbox.write_shared(class, to, [&[], &[], packet]) < to.len() {
        outbox.transmit(class, to, packet);
    }
}

/// Receives until `count` datagrams arrived; panics after too many attempts.
fn collect<D: Wait>(driver: &mut D, count: usize) -> Vec<Arrival> {
    let mut got = Vec::new();
    for _ in 0..ROUNDS {
        driver.receive(64, &mut |_, class, origin, packet| got.push((class, origin, packet.to_vec())));
        if got.len() >= count {
            break;
        }
        pause(driver);
    }
    assert_eq!(got.len(), count, "datagrams that arrived");
    got
}

/// Waits until a datagram has arrived, then receives until `count` have.
fn settle<D: Wait>(driver: &mut D, count: usize, got: &mut Vec<Arrival>) {
    until_waiting(driver);
    for _ in 0..ROUNDS {
        driver.receive(64, &mut |_, class, origin, packet| got.push((class, origin, packet.to_vec())));
        if got.len() >= count {
            return;
        }
        pause(driver);
    }
}

fn until_waiting<D: Wait>(driver: &mut D) {
    for _ in 0..ROUNDS {
        if driver.wait(Some(PAUSE), &[]).expect("waiting works").traffic {
            return;
        }
    }
    panic!("nothing arrived");
}

fn pause<D: Wait>(driver: &mut D) {
    driver.wait(Some(PAUSE), &[]).expect("waiting works");
}

/// The patience of a check, in pauses: a count and no time limit, so that a slow machine does not fail it.
const ROUNDS: usize = 10_000;
const PAUSE: Duration = Duration::from_millis(1);
