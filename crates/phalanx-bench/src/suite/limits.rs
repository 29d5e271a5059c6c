//! The limits of the machine without any protocol: system calls, sockets, memory, ciphers.

use std::hint::black_box;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;

use crate::Request;
use crate::bench::{Bench, Case};
use crate::cell::Times;
use crate::choice::{Cores, Medium, Waiting};
use crate::error::{BenchError, While};
use crate::protocol::Stream;
use crate::raw::batch::{Batch, enlarge};
use crate::raw::{Streaming, Tripping, stream, trips};
use crate::row::Series;

pub(super) fn cases(request: &Request) -> Vec<Case> {
    let mut cases = vec![
        Case::new("getppid", "the shortest system call", |bench| {
            each(bench, "time", 0, |time| {
                Ok(nanos(time, || {
                    black_box(rustix::process::getppid());
                }))
            })
        }),
        Case::new("clock", "one look at the clock, which needs no system call", |bench| {
            each(bench, "time", 0, |time| {
                Ok(nanos(time, || {
                    black_box(phalanx_runtime::clock::now());
                }))
            })
        }),
    ];
    for size in [1, 1_024, 8_192] {
        cases.push(Case::new(
            format!("udp-{size}"),
            "one datagram over loopback: its sending, which carries it to the other socket, and its receiving",
            move |bench| datagram(bench, size),
        ));
    }
    for size in [64, 1_024] {
        cases.push(Case::new(
            format!("mmsg-{size}"),
            "64 datagrams in one system call, for each of them",
            move |bench| batch(bench, size),
        ));
    }
    for size in [64, 1_024, 1_400] {
        cases.push(Case::new(
            format!("udp-stream-{size}"),
            "datagrams in a second between two processes, 64 in a system call",
            move |bench| streamed(bench, Medium::Datagrams, Stream::Batched, size),
        ));
    }
    for size in [64, 256, 1_024, 1_400] {
        cases.push(Case::new(
            format!("gso-gro-{size}"),
            "datagrams in a second between two processes, segmented and merged by the kernel",
            move |bench| streamed(bench, Medium::Datagrams, Stream::Segmented, size),
        ));
    }
    for size in [64, 1_024, 7_168] {
        cases.push(Case::new(
            format!("ring-stream-{size}"),
            "messages in a second through shared memory between two processes",
            move |bench| streamed(bench, Medium::Ring, Stream::Batched, size),
        ));
    }
    for (wait, cores) in [(Waiting::Spin, Cores::Two), (Waiting::Block, Cores::Two), (Waiting::Block, Cores::One)] {
        for medium in [Medium::Ring, Medium::Datagrams] {
            let name = if medium == Medium::Ring { "ring" } else { "udp" };
            cases.push(Case::new(
                format!("{name}-trip-64-{}-{}", wait.word(), cores.word()),
                "a round trip between two processes",
                move |bench| trip(bench, medium, wait, cores),
            ));
        }
    }
    for size in [64, 1_024, 7_168, 65_536, 64 << 20] {
        cases.push(Case::new(format!("memcpy-{size}"), "copying memory", move |bench| copy(bench, size)));
    }
    for size in [1_432, 32_768] {
        cases.push(Case::new(
            format!("seal-{size}"),
            "encrypting a packet as the library does: AES-128-GCM, in place",
            move |bench| seal(bench, size),
        ));
    }
    if request.is_sketch() {
        const FEW: [&str; 9] = [
            "getppid",
            "clock",
            "udp-1024",
            "mmsg-1024",
            "gso-gro-1024",
            "ring-stream-64",
            "ring-trip-64-spin-two",
            "memcpy-1024",
            "seal-1432",
        ];
        cases.retain(|case| FEW.contains(&case.name.as_str()));
    }
    cases
}

/// Measures a value in nanoseconds in each round.
fn each(
    bench: &mut Bench<'_>,
    metric: &str,
    size: usize,
    mut measure: impl FnMut(Duration) -> Result<f64, BenchError>,
) -> Result<(), BenchError> {
    let mut series = Series::new(metric, "ns", 0, size);
    for round in 0..bench.rounds() {
        bench.round(round)?;
        series.add(measure(bench.measured())?);
    }
    bench.report([&series]);
    Ok(())
}

/// Mean time of one call.
fn nanos(time: Duration, mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut calls = 0_u64;
    loop {
        for _ in 0..CALLS {
            call();
        }
        calls += CALLS;
        let elapsed = start.elapsed();
        if elapsed >= time {
            return elapsed.as_nanos() as f64 / calls as f64;
        }
    }
}

/// Two sockets of this process, the first connected to the second.
fn sockets() -> Result<[UdpSocket; 2], BenchError> {
    let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).when("cannot bind");
    let (from, to) = (bind()?, bind()?);
    enlarge(&to);
    enlarge(&from);
    from.connect(to.local_addr().when("cannot bind")?).when("cannot connect")?;
    to.set_read_timeout(Some(Duration::from_secs(5))).when("cannot set a time-out")?;
    Ok([from, to])
}

/// Sends some datagrams, then receives them, and times the two halves separately.
fn halves(
    bench: &mut Bench<'_>,
    size: usize,
    calls: usize,
    mut send: impl FnMut() -> Result<u64, BenchError>,
    mut receive: impl FnMut() -> Result<u64, BenchError>,
) -> Result<(), BenchError> {
    let (mut sending, mut receiving) = (Series::new("send", "ns", 0, size), Series::new("receive", "ns", 0, size));
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let (start, mut spent, mut count) = (Instant::now(), [Duration::ZERO; 2], [0_u64; 2]);
        while start.elapsed() < bench.measured() {
            let begun = Instant::now();
            for _ in 0..calls {
                count[0] += send()?;
            }
            let between = Instant::now();
            while count[1] < count[0] {
                count[1] += receive()?;
            }
            spent[0] += between - begun;
            spent[1] += between.elapsed();
        }
        sending.add(spent[0].as_nanos() as f64 / count[0].max(1) as f64);
        receiving.add(spent[1].as_nanos() as f64 / count[1].max(1) as f64);
    }
    bench.report([&sending, &receiving]);
    Ok(())
}

fn datagram(bench: &mut Bench<'_>, size: usize) -> Result<(), BenchError> {
    let [from, to] = sockets()?;
    let (message, mut buffer) = (vec![0; size], vec![0; size]);
    let send = || from.send(&message).map(|_| 1).when("cannot send");
    let receive = || to.recv(&mut buffer).map(|_| 1).when("cannot receive");
    halves(bench, size, DATAGRAMS, send, receive)
}

fn batch(bench: &mut Bench<'_>, size: usize) -> Result<(), BenchError> {
    let [from, to] = sockets()?;
    let (mut out, mut into) = (Batch::new(size), Batch::new(size));
    let send = || out.send(&from).map(|count| count as u64).when("cannot send");
    let receive = || into.receive(&to).map(|count| count as u64).when("cannot receive");
    halves(bench, size, 1, send, receive)
}

fn streamed(bench: &mut Bench<'_>, medium: Medium, how: Stream, size: usize) -> Result<(), BenchError> {
    let Times { warm, measured } = bench.times();
    let plan = Streaming { medium, size, receivers: 1, how, cores: Some(Cores::Two), warm, measured };
    let mut rate = Series::new("throughput", "msg/s", 2, size);
    let mut lost = Series::new("lost", "%", 2, size);
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let streamed = stream(&plan, bench.interrupt())?;
        rate.add(streamed.received_per_s);
        lost.add(streamed.lost * 100.0);
    }
    bench.report([&rate, &lost]);
    Ok(())
}

fn trip(bench: &mut Bench<'_>, medium: Medium, wait: Waiting, cores: Cores) -> Result<(), BenchError> {
    let measured = bench.measured();
    let plan = Tripping { medium, size: 64, wait, cores: Some(cores), measured, gap: Duration::ZERO, one_way: false };
    let mut series = Series::new("round trip", "us", 2, plan.size);
    for round in 0..bench.rounds() {
        bench.round(round)?;
        series.add_quantiles(&trips(&plan, bench.interrupt())?.round);
    }
    bench.report([&series]);
    Ok(())
}

fn copy(bench: &mut Bench<'_>, size: usize) -> Result<(), BenchError> {
    let (from, mut to) = (vec![7_u8; size], vec![0_u8; size]);
    each(bench, "time", size, |time| {
        Ok(nanos(time, || {
            to.copy_from_slice(black_box(&from));
            black_box(&mut to);
        }))
    })
}

fn seal(bench: &mut Bench<'_>, size: usize) -> Result<(), BenchError> {
    let key = UnboundKey::new(&AES_128_GCM, &[9; 16])
        .map_err(|Unspecified| BenchError::Child("no such cipher".to_owned()))?;
    let key = LessSafeKey::new(key);
    let mut packet = vec![7_u8; size];
    let mut number = 0_u64;
    each(bench, "time", size, |time| {
        Ok(nanos(time, || {
            number += 1;
            let mut nonce = [0; NONCE_LEN];
            nonce[4..].copy_from_slice(&number.to_le_bytes());
            let nonce = Nonce::assume_unique_for_key(nonce);
            let tag = key.seal_in_place_separate_tag(nonce, Aad::from([0; 32]), &mut packet);
            black_box(tag.is_ok());
        }))
    })
}

/// Calls between two clock reads.
const CALLS: u64 = 64;
/// Datagrams sent before they are received. They fit the smallest buffer that the kernel grants.
const DATAGRAMS: usize = 8;
