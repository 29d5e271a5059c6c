//! The two ends of a raw round trip.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use super::ring::Ring;
use crate::choice::{Medium, Waiting};
use crate::commands::{commands, say};
use crate::error::{BenchError, While};
use crate::histogram::Times;
use crate::measure::now_ns;
use crate::protocol::{Command, Report};

/// Sends and receives whole messages.
enum Wire {
    Socket { socket: UdpSocket, waiting: Waiting, peer: Option<SocketAddr> },
    Rings { out: Ring, into: Ring, waiting: Waiting },
}

impl Wire {
    fn socket(waiting: Waiting) -> Result<Self, BenchError> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).when("cannot bind")?;
        match waiting {
            Waiting::Spin => socket.set_nonblocking(true),
            Waiting::Block => socket.set_read_timeout(Some(LOOK)),
        }
        .when("cannot set up a socket")?;
        Ok(Self::Socket { socket, waiting, peer: None })
    }

    fn rings(out: &std::path::Path, into: &std::path::Path, waiting: Waiting) -> Result<Self, BenchError> {
        Ok(Self::Rings { out: Ring::open(out)?, into: Ring::open(into)?, waiting })
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Socket { socket, peer: Some(peer), .. } => socket.send_to(message, *peer).map(drop),
            Self::Socket { .. } => Err(io::Error::other("nobody to send to")),
            Self::Rings { out, waiting, .. } => {
                while !out.push(message) {
                    std::hint::spin_loop();
                }
                if *waiting == Waiting::Block {
                    out.wake();
                }
                Ok(())
            }
        }
    }

    /// Receives a message and returns its length. `None`: none came for a while.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Socket { socket, waiting, peer } => {
                let looks = if *waiting == Waiting::Spin { SPINS } else { 1 };
                for _ in 0..looks {
                    match socket.recv_from(buffer) {
                        Ok((len, from)) => {
                            *peer = Some(from);
                            return Ok(Some(len));
                        }
                        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                        Err(error) => return Err(error),
                    }
                    if looks > 1 {
                        std::hint::spin_loop();
                    }
                }
                Ok(None)
            }
            Self::Rings { into, waiting, .. } => {
                if !into.wait(*waiting, LOOK)? {
                    return Ok(None);
                }
                let len = into.pop(buffer);
                into.release();
                Ok(len)
            }
        }
    }
}

/// Sends back what arrives. With `timed`, it also records the time since each message's stamp, which costs one clock
/// read a message.
pub(super) fn echo(medium: Medium, wait: Waiting, rings: Option<[PathBuf; 2]>, timed: bool) -> Result<(), BenchError> {
    let (mut wire, port) = match (medium, rings) {
        (Medium::Datagrams, _) => {
            let wire = Wire::socket(wait)?;
            let Wire::Socket { socket, .. } = &wire else { unreachable!("it was just made") };
            let port = socket.local_addr().when("cannot bind")?.port();
            (wire, port)
        }
        (Medium::Ring, Some([there, back])) => (Wire::rings(&back, &there, wait)?, 0),
        (Medium::Ring, None) => return Err(BenchError::Usage("a ring needs two files".to_owned())),
    };
    say(&Report::Ready { port })?;
    let commands = commands()?;
    let mut times = Times::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        if let Some(len) = wire.receive(&mut buffer).when("cannot receive")? {
            if let Some(stamp) = buffer.first_chunk::<8>().filter(|_| timed) {
                times.note(now_ns().saturating_sub(u64::from_le_bytes(*stamp)));
            }
            wire.send(&buffer[..len]).when("cannot send")?;
            continue;
        }
        match commands.try_recv() {
            Ok(Command::Times) => say(&Report::Times(times.take()))?,
            Ok(_) | Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Ok(()),
        }
    }
}

/// Measures round trips for the time that each command gives.
pub(super) fn ping(
    medium: Medium,
    size: usize,
    wait: Waiting,
    port: u16,
    rings: Option<[PathBuf; 2]>,
) -> Result<(), BenchError> {
    let mut wire = match (medium, rings) {
        (Medium::Datagrams, _) => {
            let mut wire = Wire::socket(wait)?;
            if let Wire::Socket { peer, .. } = &mut wire {
                *peer = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
            }
            wire
        }
        (Medium::Ring, Some([there, back])) => Wire::rings(&there, &back, wait)?,
        (Medium::Ring, None) => return Err(BenchError::Usage("a ring needs two files".to_owned())),
    };
    say(&Report::Ready { port: 0 })?;
    let commands = commands()?;
    // A message holds at least its stamp of 8 bytes.
    let mut message = vec![0; size.max(8)];
    let mut buffer = vec![0; BUFFER_BYTES];
    for command in &commands {
        let Command::Go { nanos, gap_nanos } = command else { continue };
        let mut times = Times::new();
        let begin = now_ns();
        let (mut now, mut due) = (begin, begin);
        while now.saturating_sub(begin) < nanos {
            if now >= due {
                // One clock read ends a trip and starts the next. With a gap, each trip is timed from the moment it was
                // due, so that a delay before it counts as latency, as in a member's probes.
                let start = if gap_nanos > 0 { due } else { now };
                due += gap_nanos;
                now = trip(start, &mut wire, &mut message, &mut buffer, &mut times, &commands)?;
                continue;
            }
            if wait == Waiting::Block {
                std::thread::sleep(Duration::from_nanos(due - now));
            }
            now = now_ns();
        }
        if nanos > 0 {
            say(&Report::Times(times.take()))?;
        }
    }
    Ok(())
}

/// Makes one round trip; returns the time at which it ended.
fn trip(
    start: u64,
    wire: &mut Wire,
    message: &mut [u8],
    buffer: &mut [u8],
    times: &mut Times,
    commands: &Receiver<Command>,
) -> Result<u64, BenchError> {
    if let Some(stamp) = message.first_chunk_mut() {
        *stamp = start.to_le_bytes();
    }
    wire.send(message).when("cannot send")?;
    loop {
        match wire.receive(buffer).when("cannot receive")? {
            Some(_) => {
                let end = now_ns();
                times.note(end.saturating_sub(start));
                return Ok(end);
            }
            // A datagram may be lost in theory. The parent's time-out handles that; here it suffices to notice the
            // parent's death.
            None => {
                if matches!(commands.try_recv(), Err(TryRecvError::Disconnected)) {
                    return Err(BenchError::Child("the parent has gone".to_owned()));
                }
            }
        }
    }
}

/// Sleep between two checks for commands.
const LOOK: Duration = Duration::from_millis(20);
/// Polls in one wait that spins.
const SPINS: usize = 1_000;
const BUFFER_BYTES: usize = 70_000;
