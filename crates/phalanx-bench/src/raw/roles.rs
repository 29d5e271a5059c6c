//! The two ends of a raw stream.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use super::batch::{Batch, enlarge, merge, segment};
use super::ring::Ring;
use crate::choice::Waiting;
use crate::commands::{commands, say};
use crate::error::{BenchError, While};
use crate::measure::{cpu_ns, now_ns};
use crate::protocol::{Command, Mark, Report, Stream};

/// Counts the datagrams that arrive, on a thread of its own because it blocks in receive. This one answers commands.
pub(super) fn sink(size: usize, how: Stream) -> Result<(), BenchError> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).when("cannot bind")?;
    if how != Stream::Plain {
        enlarge(&socket);
    }
    if how == Stream::Segmented {
        merge(&socket).when("the kernel does not merge datagrams")?;
    }
    say(&Report::Ready { port: socket.local_addr().when("cannot bind")?.port() })?;
    static COUNT: AtomicU64 = AtomicU64::new(0);
    std::thread::Builder::new()
        .name("count".to_owned())
        .spawn(move || -> Result<(), BenchError> {
            let mut batch = Batch::new(size);
            let mut whole = vec![0; WHOLE_BYTES];
            loop {
                let count = match how {
                    Stream::Batched => batch.receive(&socket).when("cannot receive")?,
                    Stream::Plain => socket.recv(&mut whole).map(|_| 1).when("cannot receive")?,
                    Stream::Segmented => socket.recv(&mut whole).when("cannot receive")?.div_ceil(size.max(1)),
                };
                COUNT.fetch_add(count as u64, Ordering::Relaxed);
            }
        })
        .when("cannot start a thread")?;
    for command in commands()? {
        if matches!(command, Command::Mark) {
            say(&Report::Mark(mark(COUNT.load(Ordering::Relaxed), 0)))?;
        }
    }
    Ok(())
}

/// Sends to each port in turn.
pub(super) fn source(size: usize, how: Stream, ports: &[u16]) -> Result<(), BenchError> {
    let mut sockets = Vec::new();
    for port in ports {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).when("cannot bind")?;
        socket.connect((Ipv4Addr::LOCALHOST, *port)).when("cannot connect")?;
        if how == Stream::Segmented {
            segment(&socket, size).when("the kernel does not segment datagrams")?;
        }
        sockets.push(socket);
    }
    let mut batch = Batch::new(size);
    let segments = (SEGMENTED_BYTES / size.max(1)).clamp(1, SEGMENTS_MAX);
    let whole = vec![0; size * if how == Stream::Segmented { segments } else { 1 }];
    say(&Report::Ready { port: 0 })?;
    let mut sent = 0;
    source_loop(|| {
        let mut total = 0;
        for socket in &sockets {
            let taken = match how {
                Stream::Batched => batch.send(socket),
                Stream::Plain => socket.send(&whole).map(|_| 1),
                Stream::Segmented => socket.send(&whole).map(|_| segments),
            };
            match taken {
                Ok(count) => total += count as u64,
                // The kernel's buffer is full, or a receiver is gone. Neither is an error: the figure is what arrives.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(error).when("cannot send"),
            }
        }
        sent += total;
        Ok(sent / sockets.len().max(1) as u64)
    })
}

/// Calls `send` in bursts and checks for commands between them. `send` returns how many messages were sent so far to
/// each receiver.
fn source_loop(mut send: impl FnMut() -> Result<u64, BenchError>) -> Result<(), BenchError> {
    let commands = commands()?;
    let (mut going, mut sent) = (false, 0);
    loop {
        let command = if going {
            match commands.try_recv() {
                Ok(command) => Some(command),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        } else {
            // An idle source blocks, so that it takes no processor time from others.
            match commands.recv() {
                Ok(command) => Some(command),
                Err(_) => return Ok(()),
            }
        };
        match command {
            Some(Command::Go { .. }) => going = true,
            Some(Command::Stop) => going = false,
            Some(Command::Mark) => say(&Report::Mark(mark(0, sent)))?,
            Some(_) | None => {}
        }
        if going {
            for _ in 0..BURSTS {
                sent = send()?;
            }
        }
    }
}

pub(super) fn ring_sink(path: &Path) -> Result<(), BenchError> {
    let mut ring = Ring::open(path)?;
    let commands = commands()?;
    say(&Report::Ready { port: 0 })?;
    let mut count = 0_u64;
    loop {
        match commands.try_recv() {
            Ok(Command::Mark) => say(&Report::Mark(mark(count, 0)))?,
            Ok(_) | Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Ok(()),
        }
        if ring.wait(Waiting::Spin, Duration::ZERO).when("cannot wait")? {
            for _ in 0..RING_BURSTS {
                let before = count;
                while count < before + RING_BURST && ring.skip() {
                    count += 1;
                }
                // Once for each burst: a release writes a cache line that the writer reads.
                ring.release();
            }
        }
    }
}

pub(super) fn ring_source(path: &Path, size: usize) -> Result<(), BenchError> {
    let mut ring = Ring::open(path)?;
    let message = vec![0; size];
    say(&Report::Ready { port: 0 })?;
    let mut sent = 0;
    source_loop(|| {
        for _ in 0..RING_BURST {
            if !ring.push(&message) {
                std::hint::spin_loop();
                break;
            }
            sent += 1;
        }
        Ok(sent)
    })
}

fn mark(delivered: u64, accepted: u64) -> Mark {
    Mark { at_ns: now_ns(), delivered, accepted, cpu_ns: cpu_ns(), ..Mark::default() }
}

/// Length of the longest datagram, merged ones included.
const WHOLE_BYTES: usize = 65_536;
/// The most bytes of one segmented send, and the most segments. Linux allows 64 segments (`UDP_MAX_SEGMENTS`).
const SEGMENTED_BYTES: usize = 65_000;
const SEGMENTS_MAX: usize = 64;
/// Bursts between two checks for commands.
const BURSTS: usize = 16;
const RING_BURSTS: usize = 64;
const RING_BURST: u64 = 256;
