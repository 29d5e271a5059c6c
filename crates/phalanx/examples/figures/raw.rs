//! The baseline: UDP on loopback between two processes and nothing else.

use std::error::Error;
use std::io::{self, BufRead, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use phalanx::clock;

use crate::batch::{Batch, enlarge};
use crate::child::{Child, say};
use crate::table::{Table, quantile};

/// How a process waits for a datagram.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Blocking,
    Spinning,
}

impl Waiting {
    fn word(self) -> &'static str {
        if self == Self::Blocking { "blocking" } else { "spinning" }
    }
}

/// One round of everything: round trips and streams.
pub(crate) fn round(sizes: &[usize], stream_sizes: &[usize], table: &mut Table) -> Result<(), Box<dyn Error>> {
    for &size in sizes {
        for waiting in [Waiting::Blocking, Waiting::Spinning] {
            let mut trips = ping_pong(size, waiting)?;
            let name = format!("raw ping-pong {}, {size} B, round trip", waiting.word());
            table.add(&format!("{name} p50 µs"), quantile(&mut trips, 0.5));
            table.add(&format!("{name} p99 µs"), quantile(&mut trips, 0.99));
        }
    }
    for &size in stream_sizes {
        table.add(&format!("raw stream, {size} B, datagrams/s"), stream(size)?);
    }
    Ok(())
}

fn ping_pong(size: usize, waiting: Waiting) -> Result<Vec<f64>, Box<dyn Error>> {
    let (_child, socket) = connected("raw-echo", waiting.word())?;
    socket.set_nonblocking(waiting == Waiting::Spinning)?;
    socket.set_read_timeout((waiting == Waiting::Blocking).then_some(Duration::from_secs(5)))?;
    let mut buffer = vec![7; size];
    let mut trips = Vec::with_capacity(PINGS);
    for _ in 0..PINGS {
        let start = Instant::now();
        socket.send(&buffer)?;
        receive(&socket, &mut buffer, waiting)?;
        trips.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(trips)
}

/// A datagram's length and sender; spins if the socket does not block.
fn receive(socket: &UdpSocket, buffer: &mut [u8], waiting: Waiting) -> io::Result<(usize, SocketAddr)> {
    loop {
        match socket.recv_from(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock && waiting == Waiting::Spinning => {
                std::hint::spin_loop();
            }
            other => return other,
        }
    }
}

/// Datagrams of the size that arrive in a second.
fn stream(size: usize) -> Result<f64, Box<dyn Error>> {
    let (mut child, socket) = connected("raw-sink", &size.to_string())?;
    let mut batch = Batch::new(size);
    let send_for = |batch: &mut Batch, time| {
        let start = Instant::now();
        while start.elapsed() < time {
            // A refusal is a full buffer of the kernel: try again.
            let _ = batch.send(&socket);
        }
    };
    send_for(&mut batch, WARM);
    child.tell("mark")?;
    send_for(&mut batch, MEASURED);
    child.tell("mark")?;
    let first = child.hear_mark()?;
    Ok(child.hear_mark()?.rate_since(&first))
}

fn connected(role: &str, argument: &str) -> Result<(Child, UdpSocket), Box<dyn Error>> {
    let mut child = Child::start(&[role, argument])?;
    let port = child.hear("port")?.first().copied().ok_or("a port is a number")? as u16;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect((Ipv4Addr::LOCALHOST, port))?;
    Ok((child, socket))
}

fn bound() -> Result<UdpSocket, Box<dyn Error>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    enlarge(&socket);
    say(&format!("port {}", socket.local_addr()?.port()))?;
    Ok(socket)
}

/// A child that sends back what it gets.
pub(crate) fn echo(waiting: &str) -> Result<(), Box<dyn Error>> {
    let waiting = if waiting == Waiting::Spinning.word() { Waiting::Spinning } else { Waiting::Blocking };
    let socket = bound()?;
    socket.set_nonblocking(waiting == Waiting::Spinning)?;
    let mut buffer = vec![0; 65_536];
    loop {
        let (len, from) = receive(&socket, &mut buffer, waiting)?;
        socket.send_to(&buffer[..len], from)?;
    }
}

/// A child that counts what it gets.
pub(crate) fn sink(size: &str) -> Result<(), Box<dyn Error>> {
    let mut batch = Batch::new(size.parse()?);
    let socket = bound()?;
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for _ in io::stdin().lock().lines().map_while(Result::ok) {
            let _ = say(&format!("mark {} {}", counted.load(Ordering::Relaxed), clock::now().0));
        }
    });
    loop {
        count.fetch_add(batch.receive(&socket)? as u64, Ordering::Relaxed);
    }
}

const PINGS: usize = 500;
pub(crate) const WARM: Duration = Duration::from_millis(60);
pub(crate) const MEASURED: Duration = Duration::from_millis(200);
