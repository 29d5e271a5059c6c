//! Which bytes a packet makes a tap touch, as the re-creations are written.

use super::Way;
use super::in_place::PREAMBLE_BYTES;
use super::paper::SetUp;
use super::store::HEADER_BYTES;
use super::streams::{DESCRIPTOR_BYTES, SINGLE_BYTES};

/// Bytes for one packet that was received, driver and filter together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touched {
    /// Written to describe the packet in memory, and read again.
    pub(crate) described: usize,
    /// Read of the packet, or of a copy of it.
    pub(crate) read: usize,
    /// Written as a copy of it, headers of the reader's buffer included.
    pub(crate) copied: usize,
}

impl Way {
    pub(crate) fn touched(self, set_up: SetUp, len: usize) -> Touched {
        // The filter that rejects reads the protocol; the one that accepts reads nothing.
        let (filtered, kept) = match set_up {
            SetUp::Accept => (0, len),
            SetUp::Reject => (PROTOCOL_BYTES, 0),
        };
        let header = if kept > 0 { HEADER_BYTES } else { 0 };
        let copied_first = |described| Touched { described, read: len + filtered, copied: len };
        match self {
            Self::InPlace => Touched { described: 0, read: filtered + kept, copied: kept + header },
            Self::Sealed | Self::SealedLazily => {
                let preamble = if kept > 0 { PREAMBLE_BYTES } else { 0 };
                let described = if self == Self::Sealed { PREAMBLE_BYTES } else { preamble };
                // Its filter reads the kind alone.
                Touched { described, read: filtered / 2 + kept, copied: preamble + kept + header }
            }
            Self::Streams => copied_first(DESCRIPTOR_BYTES),
            Self::StreamsSingle => copied_first(SINGLE_BYTES),
            // A place in the list, or in the queue.
            Self::StreamsFreeList | Self::StreamsQueued => copied_first(DESCRIPTOR_BYTES + size_of::<usize>()),
            Self::Boxed => {
                let described = size_of::<bytes::Bytes>() + size_of::<usize>();
                Touched { described, read: filtered + kept, copied: kept + header }
            }
            // To the ring, out of it, and to the buffer.
            Self::Thread => {
                let described = size_of::<u64>();
                Touched { described, read: 2 * len + filtered + kept, copied: 2 * len + kept + header }
            }
        }
    }
}

/// What the paper's filter of four instructions loads.
const PROTOCOL_BYTES: usize = 2;

#[cfg(test)]
mod tests {
    use phalanx_tap::UdpPreamble;

    use super::*;
    use crate::tap::linkage::Side;

    #[test]
    fn streams_writes_what_the_posting_says() {
        let touched = Way::Streams.touched(SetUp::Reject, 1_000);
        assert_eq!(touched, Touched { described: 48, read: 1_002, copied: 1_000 });
        assert_eq!(Way::StreamsSingle.touched(SetUp::Reject, 1_000).described, 56);
        assert_eq!(Way::InPlace.touched(SetUp::Reject, 1_000), Touched { described: 0, read: 2, copied: 0 });
        let ends = [7, 8].map(|port| ([127, 0, 0, 1], port).into());
        assert_eq!(UdpPreamble::new(ends[0], ends[1], 9).bytes().len(), PREAMBLE_BYTES);
    }

    #[test]
    fn every_way_allocates_what_is_said_of_it() {
        const COUNT: usize = 1_000;
        for way in Way::ALL {
            for set_up in SetUp::ALL {
                let [read, write] = [Side::Read, Side::Write].map(|side| {
                    let allocations = way.repeat(set_up, side, 300, COUNT).expect("memory and a thread");
                    allocations as f64 / COUNT as f64
                });
                let expected = match way {
                    Way::Streams | Way::StreamsQueued => (3.0, 3.0),
                    Way::StreamsSingle => (1.0, 1.0),
                    Way::Boxed => (0.0, 1.0),
                    Way::InPlace | Way::Sealed | Way::SealedLazily | Way::StreamsFreeList | Way::Thread => (0.0, 0.0),
                };
                // The first packet of a queue allocates its room.
                let is_near = (read - expected.0).abs() < 0.01 && (write - expected.1).abs() < 0.01;
                assert!(is_near, "{way:?} {set_up:?}: {read} {write}");
            }
        }
    }
}
