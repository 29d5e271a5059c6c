//! What it costs to hand packets to a filter: the measurement of the paper on the packet filter of 1993, today, with the
//! tap of Phalanx, with STREAMS made again, and with what programs do today.
//!
//! Read first: *The BSD Packet Filter*, USENIX Winter 1993, by the authors of tcpdump, section 4.

mod boxed;
pub(crate) mod bracket;
#[allow(unsafe_code)]
pub(crate) mod cycles;
pub(crate) mod fit;
mod in_place;
pub(crate) mod linkage;
pub(crate) mod paper;
mod store;
mod streams;
mod thread;
pub(crate) mod times;
mod touched;
pub(crate) mod traffic;

use bracket::{Plan, measure};
use linkage::{Linkage, Side};
use paper::SetUp;
use phalanx_tap::Packet;
use times::TimesByLength;

use crate::alloc::taken;
use crate::crew::Interrupt;
use crate::error::BenchError;
use streams::{FreeList, General, Single, Stream};

/// The ways to hand a packet to a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// [`in_place::InPlace`].
    InPlace,
    /// [`in_place::Sealed`], with a preamble for every packet.
    Sealed,
    /// [`in_place::Sealed`], with a preamble where it is needed.
    SealedLazily,
    /// [`streams::General`].
    Streams,
    /// [`streams::Single`].
    StreamsSingle,
    /// [`streams::FreeList`].
    StreamsFreeList,
    /// [`streams::General`], with a queue and a service procedure.
    StreamsQueued,
    /// [`boxed::Boxed`].
    Boxed,
    /// [`thread::ToThread`].
    Thread,
}

/// Times of one measurement.
pub(crate) struct Timed {
    /// What the driver waits for.
    pub(crate) driver: TimesByLength,
    /// What another thread does for the packet.
    pub(crate) beside: Option<TimesByLength>,
}

impl Way {
    pub(crate) const ALL: [Self; 9] = [
        Self::InPlace,
        Self::Sealed,
        Self::SealedLazily,
        Self::Streams,
        Self::StreamsSingle,
        Self::StreamsFreeList,
        Self::StreamsQueued,
        Self::Boxed,
        Self::Thread,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::InPlace => "in place",
            Self::Sealed => "in place, preamble always",
            Self::SealedLazily => "in place, preamble if needed",
            Self::Streams => "STREAMS",
            Self::StreamsSingle => "STREAMS, one allocation",
            Self::StreamsFreeList => "STREAMS, free list",
            Self::StreamsQueued => "STREAMS, queue",
            Self::Boxed => "boxed trait object",
            Self::Thread => "ring to a thread",
        }
    }

    /// Times packets by this way.
    pub(crate) fn time(self, plan: &Plan, interrupt: &Interrupt) -> Result<Timed, BenchError> {
        let alone = |driver| Timed { driver, beside: None };
        let set_up = plan.set_up;
        match self {
            Self::InPlace => measure(&mut in_place::InPlace::new(set_up), plan, interrupt).map(alone),
            Self::Sealed => measure(&mut in_place::Sealed::new(set_up, true), plan, interrupt).map(alone),
            Self::SealedLazily => measure(&mut in_place::Sealed::new(set_up, false), plan, interrupt).map(alone),
            Self::Streams => measure(&mut Stream::new(General, set_up, false), plan, interrupt).map(alone),
            Self::StreamsSingle => measure(&mut Stream::new(Single, set_up, false), plan, interrupt).map(alone),
            Self::StreamsFreeList => {
                measure(&mut Stream::new(FreeList::new(), set_up, false), plan, interrupt).map(alone)
            }
            Self::StreamsQueued => measure(&mut Stream::new(General, set_up, true), plan, interrupt).map(alone),
            Self::Boxed => measure(&mut boxed::Boxed::new(set_up, plan.side), plan, interrupt).map(alone),
            Self::Thread => {
                let mut thread = thread::ToThread::start(set_up, &plan.lengths, plan.bound)?;
                let driver = measure(&mut thread, plan, interrupt)?;
                Ok(Timed { driver, beside: thread.end() })
            }
        }
    }

    /// Shows `count` packets of one length and times nothing: for what counts instructions. Returns the allocations.
    pub(crate) fn repeat(self, set_up: SetUp, side: Side, len: usize, count: usize) -> Result<u64, BenchError> {
        Ok(match self {
            Self::InPlace => repeat(in_place::InPlace::new(set_up), side, len, count),
            Self::Sealed => repeat(in_place::Sealed::new(set_up, true), side, len, count),
            Self::SealedLazily => repeat(in_place::Sealed::new(set_up, false), side, len, count),
            Self::Streams => repeat(Stream::new(General, set_up, false), side, len, count),
            Self::StreamsSingle => repeat(Stream::new(Single, set_up, false), side, len, count),
            Self::StreamsFreeList => repeat(Stream::new(FreeList::new(), set_up, false), side, len, count),
            Self::StreamsQueued => repeat(Stream::new(General, set_up, true), side, len, count),
            Self::Boxed => repeat(boxed::Boxed::new(set_up, side), side, len, count),
            Self::Thread => repeat(thread::ToThread::start(set_up, &[len], u64::MAX >> 1)?, side, len, count),
        })
    }
}

/// Shows `count` packets of one length, and returns the allocations of the calls.
fn repeat(mut linkage: impl Linkage, side: Side, len: usize, count: usize) -> u64 {
    let mut frame = linkage::Frame::new();
    frame.fill(len);
    let mut allocations = 0;
    for _ in 0..count {
        linkage.arrive(&frame);
        let before = taken();
        linkage.tap(std::hint::black_box(frame.parts(side)));
        allocations += taken() - before;
        linkage.settle();
    }
    std::hint::black_box(linkage.kept());
    allocations
}

/// Shows packets to what does nothing: what the loop itself costs.
pub(crate) fn repeat_nothing(len: usize, count: usize) {
    struct Nothing;
    impl Linkage for Nothing {
        #[inline]
        fn tap(&mut self, parts: linkage::Parts<'_>) {
            std::hint::black_box(parts);
        }

        fn kept(&self) -> (u64, u64) {
            (0, 0)
        }
    }
    repeat(Nothing, Side::Read, len, count);
}

/// Shows packets to a filter of four instructions that takes the first `snap` bytes of each.
pub(crate) fn repeat_snapshot(snap: u32, len: usize, count: usize) {
    repeat(in_place::InPlace::of(linkage::matching(snap)), Side::Read, len, count);
}

/// Shows packets as a small network has them to a filter of the paper. Returns false if it has none of this name.
pub(crate) fn repeat_filter(name: &str, count: usize) -> bool {
    let Some(filter) = paper::filters().into_iter().find(|filter| filter.name == name) else { return false };
    let packets = traffic::traffic(TRAFFIC);
    for packet in packets.iter().cycle().take(count) {
        let packet = Packet::new(&[], [&packet.bytes, &[], &[]]);
        std::hint::black_box(filter.program.run(std::hint::black_box(&packet)));
    }
    true
}

/// Packets that the filters of the paper see before they see the same again.
pub(crate) const TRAFFIC: usize = 512;
