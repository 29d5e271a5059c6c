//! A ring to a thread that filters: the driver copies each packet to the ring, and the thread does the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use phalanx_tap::{Packet, Program};

use super::cycles::{after, before};
use super::linkage::{LONGEST, Linkage, Parts};
use super::paper::SetUp;
use super::store::Store;
use super::times::TimesByLength;
use crate::error::{BenchError, While};
use crate::raw::ring::{Ring, RingFile};

/// The driver's end of the ring.
pub(crate) struct ToThread {
    ring: Ring,
    pushed: u64,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<TimesByLength, BenchError>>>,
    _memory: RingFile,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    filtered: AtomicU64,
    kept_packets: AtomicU64,
    kept_bytes: AtomicU64,
}

impl ToThread {
    /// Starts the thread, on the second processor if there is one. It has `lengths` of packets to tell apart, and what
    /// takes more steps than `bound` is discarded.
    pub(crate) fn start(set_up: SetUp, lengths: &[usize], bound: u64) -> Result<Self, BenchError> {
        let memory = RingFile::new()?;
        let (ring, path) = (Ring::open(&memory.path())?, memory.path());
        let shared = Arc::new(Shared::default());
        let is_alone = std::thread::available_parallelism().map_or(1, usize::from) < 2;
        let (lengths, program, of_filter) = (lengths.to_vec(), set_up.program(), Arc::clone(&shared));
        let work = move || {
            // A processor that cannot be had costs speed, and the figures are still those of a thread.
            let _ = crate::child::pin(usize::from(!is_alone));
            let times = TimesByLength::new(lengths.len(), bound);
            let ring = Ring::open(&path)?;
            let mut filter = Filter { ring, program, store: Store::new(), shared: of_filter, lengths, times };
            filter.run();
            Ok(filter.times)
        };
        let thread = std::thread::Builder::new().name("filter".to_owned()).spawn(work).when("cannot start a thread")?;
        Ok(Self { ring, pushed: 0, shared, thread: Some(thread), _memory: memory })
    }

    /// Ends the thread. Returns what each packet took it.
    pub(crate) fn end(&mut self) -> Option<TimesByLength> {
        self.wait_until(0);
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.thread.take()?.join().ok()?.ok()
    }

    /// Waits until at most `left` packets are still in the ring, or the thread is gone.
    fn wait_until(&self, left: u64) {
        let is_alive = || self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        while self.pushed - self.shared.filtered.load(Ordering::Acquire) > left && is_alive() {
            std::thread::yield_now();
        }
    }
}

impl Linkage for ToThread {
    #[inline]
    fn tap(&mut self, parts: Parts<'_>) {
        self.pushed += u64::from(self.ring.push_parts(parts));
    }

    fn settle(&mut self) {
        if self.pushed.is_multiple_of(OUTSTANDING / 2) {
            self.wait_until(OUTSTANDING);
        }
    }

    fn kept(&self) -> (u64, u64) {
        self.wait_until(0);
        (self.shared.kept_packets.load(Ordering::Relaxed), self.shared.kept_bytes.load(Ordering::Relaxed))
    }
}

impl Drop for ToThread {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The other end.
struct Filter {
    ring: Ring,
    program: Program,
    store: Store,
    shared: Arc<Shared>,
    lengths: Vec<usize>,
    times: TimesByLength,
}

impl Filter {
    fn run(&mut self) {
        let mut buffer = [0; LONGEST];
        let (mut filtered, mut idle) = (0, 0_u32);
        while !self.shared.is_over.load(Ordering::Relaxed) {
            let start = before();
            let Some(len) = self.ring.pop(&mut buffer) else {
                idle += 1;
                // On a processor that others need, spinning alone would keep the packets away.
                if idle.is_multiple_of(SPINS) {
                    std::thread::yield_now();
                } else {
                    std::hint::spin_loop();
                }
                continue;
            };
            let packet = Packet::new(&[], [&buffer[..len], &[], &[]]);
            let snap = self.program.run(&packet);
            if snap > 0 {
                self.store.keep(&packet, snap);
            }
            self.ring.release();
            let took = after() - start;
            filtered += 1;
            if let Ok(at) = self.lengths.binary_search(&len) {
                self.times.note(at, took);
            }
            let start = before();
            self.times.note_empty(after() - start);
            self.shared.kept_packets.store(self.store.packets, Ordering::Relaxed);
            self.shared.kept_bytes.store(self.store.bytes, Ordering::Relaxed);
            self.shared.filtered.store(filtered, Ordering::Release);
        }
    }
}

/// Packets in the ring at most: the longest fill a fifth of it.
const OUTSTANDING: u64 = 128;
/// Looks at an empty ring before the processor is given to others.
const SPINS: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alloc::taken;
    use crate::tap::linkage::{Frame, Side, lengths};

    #[test]
    fn the_thread_gets_every_packet_and_the_driver_allocates_nothing() {
        let lengths = lengths();
        let mut ring = ToThread::start(SetUp::Accept, &lengths, 1_000_000).expect("a thread");
        let mut frame = Frame::new();
        let before = taken();
        for at in 0..2_000 {
            frame.fill(lengths[at % lengths.len()]);
            ring.tap(frame.parts(Side::Write));
            ring.settle();
        }
        let bytes: usize = (0..2_000).map(|at| lengths[at % lengths.len()]).sum();
        assert_eq!((taken() - before, ring.kept()), (0, (2_000, bytes as u64)));
        let times = ring.end().expect("it did not panic");
        assert_eq!(times.count(), 2_000);
    }
}
