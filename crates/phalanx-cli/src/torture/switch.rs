//! An Ethernet switch in this program, between TAP devices. It learns addresses, and mistreats datagrams on the way. It
//! replaces a queueing discipline (such as netem) that not every kernel has.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use phalanx_runtime::core::rng::Rng;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::mistreat::{Link, Mistreatment, flip, is_datagram};
use super::network_device;
use crate::exit::{Exit, Failure, While};

/// Mistreatment by link, from host to host; both count from 0.
type Rules = BTreeMap<(usize, usize), Mistreatment>;

/// A running switch. On drop it ends, and the devices are removed.
#[derive(Debug)]
pub(super) struct Switch {
    rules: Arc<Mutex<Rules>>,
    ends: Arc<AtomicBool>,
    /// Datagrams since the last mistreatment began that were lost, delayed, duplicated or changed.
    mistreated: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Switch {
    /// Makes `eth0` in each of the namespaces and switches between them.
    pub(super) fn start(namespaces: &[String], seed: u64) -> Result<Self, Failure> {
        let open = |name: &String| {
            network_device::open(name).map_err(|error| {
                let what = format!("cannot make a TAP device in {name}: {error}. Is /dev/net/tun there?");
                Failure::new(Exit::Failure, what)
            })
        };
        let ports = namespaces.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let (rules, ends) = (Arc::new(Mutex::new(Rules::new())), Arc::new(AtomicBool::new(false)));
        let mut work = Work {
            ports,
            places: BTreeMap::new(),
            links: BTreeMap::new(),
            waiting: BinaryHeap::new(),
            frames: 0,
            rng: Rng::new(seed).fork("switch"),
            rules: Arc::clone(&rules),
            mistreated: Arc::new(AtomicU64::new(0)),
        };
        let mistreated = Arc::clone(&work.mistreated);
        let over = Arc::clone(&ends);
        let thread = std::thread::Builder::new().name("switch".to_owned());
        let thread = thread.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                work.poll();
            }
        });
        Ok(Self { rules, ends, mistreated, thread: Some(thread.when("cannot start a thread")?) })
    }

    /// Mistreats all links to and from that host, counted from 1, from now on.
    pub(super) fn mistreat(&self, host: usize, count: usize, how: Mistreatment) {
        self.mistreated.store(0, Ordering::Relaxed);
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        for other in (0..count).filter(|other| *other + 1 != host) {
            rules.insert((host - 1, other), how);
            rules.insert((other, host - 1), how);
        }
    }

    /// Number of datagrams that the last mistreatment affected.
    pub(super) fn mistreated(&self) -> u64 {
        self.mistreated.load(Ordering::Relaxed)
    }

    /// Ends all mistreatment. Frames that are held back still arrive.
    pub(super) fn heal(&self) {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A frame held back: due time, number, port, bytes.
type Held = (u64, u64, usize, Vec<u8>);

struct Work {
    ports: Vec<File>,
    /// The port at which each address was seen last.
    places: BTreeMap<[u8; 6], usize>,
    links: BTreeMap<(usize, usize), Link>,
    waiting: BinaryHeap<Reverse<Held>>,
    frames: u64,
    rng: Rng,
    rules: Arc<Mutex<Rules>>,
    mistreated: Arc<AtomicU64>,
}

/// Length of the longest frame of these devices, with a margin.
const FRAME_BYTES_MAX: usize = 2_048;
/// Frames taken from one port before the others are read.
const BATCH: usize = 64;
/// Bound on the frames held back; more are lost. It holds some seconds of a cell's traffic.
const WAITING_MAX: usize = 65_536;
/// The longest sleep, which bounds the time to notice the end.
const SLEEP_NS: u64 = 50_000_000;

impl Work {
    fn poll(&mut self) {
        self.sleep();
        let mut buffer = [0; FRAME_BYTES_MAX];
        for from in 0..self.ports.len() {
            for _ in 0..BATCH {
                // No frame is available, or the device is down; the next iteration tries again.
                let Ok(len) = (&self.ports[from]).read(&mut buffer) else { break };
                self.take(from, &buffer[..len]);
            }
        }
        self.send_due();
    }

    fn sleep(&self) {
        let due = self.waiting.peek().map_or(u64::MAX, |Reverse(frame)| frame.0);
        let nanos = due.saturating_sub(now_ns()).min(SLEEP_NS);
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::try_from(nanos).unwrap_or(0) };
        let mut ready: Vec<PollFd<'_>> =
            self.ports.iter().map(|port| PollFd::from_borrowed_fd(port.as_fd(), PollFlags::IN)).collect();
        // After an interruption by a signal, the next iteration finds no frame.
        let _ = poll(&mut ready, Some(&timeout));
    }

    fn take(&mut self, from: usize, frame: &[u8]) {
        let Some(addresses) = frame.first_chunk::<12>() else { return };
        let (to, source) = addresses.split_at(6);
        if let (Ok(to), Ok(source)) = (<[u8; 6]>::try_from(to), <[u8; 6]>::try_from(source)) {
            self.places.insert(source, from);
            // A frame to a group address, or to one not seen yet, goes to all ports.
            match self.places.get(&to).copied() {
                Some(place) if to[0] & 1 == 0 => self.pass(from, place, frame),
                _ => (0..self.ports.len()).for_each(|place| self.pass(from, place, frame)),
            }
        }
    }

    fn pass(&mut self, from: usize, to: usize, frame: &[u8]) {
        if from == to {
            return;
        }
        let how = self.rules.lock().unwrap_or_else(PoisonError::into_inner).get(&(from, to)).copied();
        let Some(how) = how.filter(|_| is_datagram(frame)) else { return self.send(to, frame) };
        let now = now_ns();
        let copies = self.links.entry((from, to)).or_default().pass(now, frame.len(), &how, &mut self.rng);
        if !matches!(copies[..], [copy] if copy.at_ns <= now && copy.flip.is_none()) {
            self.mistreated.fetch_add(1, Ordering::Relaxed);
        }
        for copy in copies {
            let mut bytes = frame.to_vec();
            if let Some(bit) = copy.flip {
                flip(&mut bytes, bit);
            }
            if copy.at_ns <= now {
                self.send(to, &bytes);
            } else if self.waiting.len() < WAITING_MAX {
                // The number keeps frames of one due time in their order.
                self.frames += 1;
                self.waiting.push(Reverse((copy.at_ns, self.frames, to, bytes)));
            }
        }
    }

    fn send_due(&mut self) {
        let now = now_ns();
        while self.waiting.peek().is_some_and(|Reverse(frame)| frame.0 <= now) {
            if let Some(Reverse((_, _, to, frame))) = self.waiting.pop() {
                self.send(to, &frame);
            }
        }
    }

    /// A device that is down or full loses the frame, as a wire would.
    fn send(&self, to: usize, frame: &[u8]) {
        let _ = (&self.ports[to]).write(frame);
    }
}

fn now_ns() -> u64 {
    phalanx_runtime::clock::now().nanos()
}
