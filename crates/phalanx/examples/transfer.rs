//! A joiner takes a large state while two members keep sending: measures the time it takes, and the longest wait of a
//! sender for its own message.
//!
//! `cargo run --release -p phalanx --example transfer [MIB]` (1,024 MiB if not given). The state consists of the sum of
//! all messages so far, and a pattern. The pattern is computed while it is sent and checked while it arrives. The joiner
//! must hold exactly the messages before its first view.
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use phalanx::{Bytes, Cell, DecodeError, Group, Message, Piece, Replica, Snapshot, State};

/// Length of a piece of the pattern.
const PIECE_BYTES: u64 = 64 << 10;

/// The byte of the pattern at `offset`.
fn pattern(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// The sum of all messages, and so many bytes of the pattern.
#[derive(Default)]
struct Sum {
    sum: u64,
    len: u64,
    /// The sum has been taken, in the first piece.
    begun: bool,
}

impl State for Sum {
    fn apply(&mut self, message: &Message) {
        self.sum += u64::from(message.payload[0]);
    }

    fn snapshot(&self) -> Snapshot {
        let (sum, len) = (self.sum, self.len);
        let starts = (0..len).step_by(PIECE_BYTES as usize);
        let pieces = starts.clone().count() as u64 + 1;
        let pattern = move |start: u64| (start..len.min(start + PIECE_BYTES)).map(pattern).collect::<Bytes>();
        let first = std::iter::once(Bytes::copy_from_slice(&sum.to_le_bytes()));
        Snapshot::pieces(8 + len + pieces * Snapshot::FRAME_BYTES, first.chain(starts.map(pattern)))
    }

    fn restore(_snapshot: Snapshot) -> Result<Self, DecodeError> {
        Err(DecodeError::new("it comes in pieces"))
    }

    fn restore_begin() -> Option<Self> {
        Some(Self::default())
    }

    fn restore_piece(&mut self, piece: Piece<'_>) -> Result<(), DecodeError> {
        let bytes = piece.bytes();
        if !self.begun {
            let sum = bytes.try_into().map_err(|_other| DecodeError::new("the sum has another length"))?;
            (self.sum, self.begun) = (u64::from_le_bytes(sum), true);
            return Ok(());
        }
        if !(self.len..).zip(bytes).all(|(at, byte)| *byte == pattern(at)) {
            return Err(DecodeError::new("it is not the pattern"));
        }
        self.len += bytes.len() as u64;
        Ok(())
    }
}

struct Member {
    cell: Cell,
    group: Group,
    sum: Replica<Sum>,
}

impl Member {
    fn start(name: &str, directory: &Path, len: u64) -> Result<Self, Box<dyn Error>> {
        let builder = Cell::builder("default").name(name).directories(directory.join("run"), directory.join("state"));
        let (cell, sum) = (builder.blocking_start()?, Replica::new(Sum { sum: 0, len, begun: true }));
        // The state is all that is read; an inbox that is dropped takes everything.
        let (group, _inbox) = cell.group("sum").state(&sum).blocking_join()?;
        Ok(Self { cell, group, sum })
    }

    fn sum(&self) -> u64 {
        self.sum.read().sum
    }
}

/// What the senders do, and saw.
#[derive(Default)]
struct Traffic {
    stop: AtomicBool,
    sent: AtomicU64,
    longest_ns: AtomicU64,
}

impl Traffic {
    /// Sends every millisecond until stopped, and records the longest wait for one of its own messages.
    fn send(&self, group: &Group) -> Result<(), String> {
        while !self.stop.load(Ordering::SeqCst) {
            let began = Instant::now();
            let sent = group.send([1; 100]).plain().blocking().map_err(|error| error.to_string())?;
            self.sent.fetch_add(1, Ordering::SeqCst);
            sent.blocking_delivered().map_err(|error| error.to_string())?;
            let waited = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.longest_ns.fetch_max(waited, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mib: u64 = std::env::args().nth(1).map_or(Ok(1024), |text| text.parse())?;
    let len = mib << 20;
    let directory = tempfile::tempdir()?;
    let members = [Member::start("ann", directory.path(), len)?, Member::start("bob", directory.path(), 0)?];
    let traffic = Traffic::default();
    std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let senders = members.each_ref().map(|member| scope.spawn(|| traffic.send(&member.group)));
        std::thread::sleep(Duration::from_secs(1));
        let before = traffic.longest_ns.swap(0, Ordering::SeqCst);
        let sent_before = traffic.sent.load(Ordering::SeqCst);
        let began = Instant::now();
        let late = Member::start("late", directory.path(), 0);
        let took = began.elapsed();
        let during = traffic.sent.load(Ordering::SeqCst) - sent_before;
        let pause = traffic.longest_ns.load(Ordering::SeqCst);
        traffic.stop.store(true, Ordering::SeqCst);
        for sender in senders {
            sender.join().map_err(|_payload| "a sender panicked")??;
        }
        let late = late?;
        // The last messages reach all members.
        let sent = traffic.sent.load(Ordering::SeqCst);
        let patience = Instant::now() + Duration::from_secs(10);
        while late.sum() != sent && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!((members[0].sum(), late.sum()), (sent, sent), "every message once, in the state or after it");
        assert_eq!(late.sum.read().len, len, "all of it, and unchanged");
        println!(
            "{mib} MiB of state taken in {:.2} s ({:.0} MiB/s)",
            took.as_secs_f64(),
            mib as f64 / took.as_secs_f64()
        );
        println!("{during} messages sent meanwhile; longest wait of a sender for its own message:");
        println!("  {:.2} ms in the second before, {:.2} ms during the transfer and the join", ms(before), ms(pause));
        late.cell.blocking_leave(Duration::from_secs(10))?;
        Ok(())
    })
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}
