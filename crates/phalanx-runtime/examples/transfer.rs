//! A joiner takes a large state while two members keep multicasting: measures the time it takes, and the longest pause
//! that the senders see.
//!
//! `cargo run --release --example transfer [MIB]` (1,024 MiB if not given). The state consists of eight live bytes, the
//! sum of all messages so far, and a pattern. The pattern is computed while it is sent and checked while it arrives.
//! The joiner must hold exactly the messages before its first view.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use phalanx_runtime::config::Config;
use phalanx_runtime::core::{Delivery, Event, Order, Snapshot, Stability};
use phalanx_runtime::{Cell, Group, Item, JoinOptions, Options, State};

/// The byte of the pattern at `offset`.
fn pattern(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Eight live bytes, then the pattern.
struct Frozen {
    sum: [u8; 8],
    len: u64,
}

impl Snapshot for Frozen {
    fn len_bytes(&self) -> u64 {
        self.len
    }
    fn read(&mut self, offset: u64, max_bytes: usize, out: &mut Vec<u8>) {
        let end = self.len.min(offset + max_bytes as u64);
        out.extend((offset..end).map(|at| if at < 8 { self.sum[at as usize] } else { pattern(at) }));
    }
}

/// What the example observes from outside.
#[derive(Default)]
struct Shown {
    sum: AtomicU64,
    taken: AtomicU64,
    wrong: AtomicBool,
    whole: AtomicBool,
}

struct Sum {
    shown: Arc<Shown>,
    len: u64,
    first: Vec<u8>,
}

impl State for Sum {
    fn apply(&mut self, message: &Delivery<'_>) {
        self.shown.sum.fetch_add(u64::from(message.payload[0]), Ordering::SeqCst);
    }
    fn snapshot(&mut self) -> Box<dyn Snapshot> {
        Box::new(Frozen { sum: self.shown.sum.load(Ordering::SeqCst).to_le_bytes(), len: self.len })
    }
    fn clear(&mut self) {
        self.first.clear();
        self.shown.taken.store(0, Ordering::SeqCst);
    }
    fn restore(&mut self, chunk: &[u8]) {
        let at = self.shown.taken.fetch_add(chunk.len() as u64, Ordering::SeqCst);
        for (i, byte) in (at..).zip(chunk) {
            match i {
                0..8 => self.first.push(*byte),
                _ if *byte != pattern(i) => self.shown.wrong.store(true, Ordering::SeqCst),
                _ => {}
            }
        }
        if let Ok(sum) = self.first.as_slice().try_into() {
            // Once: from here on `apply` adds to it.
            self.shown.sum.store(u64::from_le_bytes(sum), Ordering::SeqCst);
            self.first.push(0);
        }
    }
    fn restored(&mut self) {
        self.shown.whole.store(true, Ordering::SeqCst);
    }
}

fn start(name: &str, directory: &std::path::Path, len: u64) -> Result<(Cell, Group, Arc<Shown>), Box<dyn Error>> {
    let (runtime_dir, state_dir) = (Some(directory.join("run")), Some(directory.join("state")));
    let config = Config { name: Some(name.to_owned()), runtime_dir, state_dir, ..Config::default() };
    let cell = Cell::start(Options::from(config))?;
    let shown = Arc::new(Shown::default());
    let state = Sum { shown: Arc::clone(&shown), len, first: Vec::new() };
    let group = cell
        .join_group("sum", JoinOptions { with_state: true, state: Some(Box::new(state)), ..JoinOptions::default() })?;
    Ok((cell, group, shown))
}

/// Takes items until the first view of the group.
fn await_view(cell: &Cell) -> Result<(), Box<dyn Error>> {
    while !matches!(cell.recv_timeout(Duration::from_secs(120))?, Item::Event(Event::GroupView(_))) {}
    Ok(())
}

/// Multicasts every millisecond until stopped, and records the longest wait for one of its own messages.
fn send(cell: &Cell, group: &Group, stop: &AtomicBool, longest_ns: &AtomicU64, sent: &AtomicU64) {
    let me = cell.me().incarnation;
    while !stop.load(Ordering::SeqCst) {
        let began = Instant::now();
        if group.cast(Order::Total, Stability::Plain, &[1; 100]).is_err() {
            return;
        }
        sent.fetch_add(1, Ordering::SeqCst);
        while let Ok(item) = cell.recv() {
            if matches!(&item, Item::Message(m) if m.sender == me) {
                break;
            }
        }
        let waited = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        longest_ns.fetch_max(waited, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mib: u64 = std::env::args().nth(1).map_or(Ok(1024), |text| text.parse())?;
    let len = mib << 20;
    let directory = tempfile::tempdir()?;
    let members = [start("ann", directory.path(), len)?, start("bob", directory.path(), len)?];
    for (cell, _, _) in &members {
        await_view(cell)?;
    }
    let (stop, longest, sent) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        for (cell, group, _) in &members {
            let (stop, longest, sent) = (&stop, &longest, &sent);
            scope.spawn(move || send(cell, group, stop, longest, sent));
        }
        let end = |result| {
            stop.store(true, Ordering::SeqCst);
            result
        };
        std::thread::sleep(Duration::from_secs(1));
        let before = longest.swap(0, Ordering::SeqCst);
        let sent_before = sent.load(Ordering::SeqCst);
        let began = Instant::now();
        let (late, _, shown) = start("late", directory.path(), len)?;
        if let Err(error) = await_view(&late) {
            return end(Err(error));
        }
        let took = began.elapsed();
        let during = sent.load(Ordering::SeqCst) - sent_before;
        let pause = longest.load(Ordering::SeqCst);
        stop.store(true, Ordering::SeqCst);
        // The last messages reach all members.
        let wanted = || members[0].2.sum.load(Ordering::SeqCst);
        let patience = Instant::now() + Duration::from_secs(10);
        while shown.sum.load(Ordering::SeqCst) != wanted() && Instant::now() < patience {
            while late.try_recv()?.is_some() {}
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(shown.whole.load(Ordering::SeqCst), "the state is complete before the first view");
        assert_eq!(shown.taken.load(Ordering::SeqCst), len, "all of it");
        assert!(!shown.wrong.load(Ordering::SeqCst), "and unchanged");
        assert_eq!(shown.sum.load(Ordering::SeqCst), wanted(), "every message once, in the state or after it");
        let rate = mib as f64 / took.as_secs_f64();
        eprintln!("{mib} MiB of state taken in {:.2} s ({rate:.0} MiB/s)", took.as_secs_f64());
        eprintln!("{during} messages sent meanwhile; longest wait of a sender for its own message:");
        eprintln!("  {:.2} ms in the second before, {:.2} ms during the transfer and the join", ms(before), ms(pause));
        Ok(())
    })
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}
