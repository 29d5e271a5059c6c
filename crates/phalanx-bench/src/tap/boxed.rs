//! What programs in Rust often do: a slice that counts its references goes to a stage that is a boxed trait object.

use bytes::{Bytes, BytesMut};
use phalanx_tap::{Packet, Program};

use super::cycles;
use super::linkage::{Frame, Linkage, Parts, Side};
use super::paper::SetUp;
use super::store::Store;

/// A stage that owns what it is given.
trait Stage {
    fn accept(&mut self, packet: Bytes);
    fn kept(&self) -> (u64, u64);
}

struct Keep {
    program: Program,
    store: Store,
}

impl Stage for Keep {
    fn accept(&mut self, packet: Bytes) {
        let packet = Packet::new(&[], [&packet, &[], &[]]);
        let snap = self.program.run(&packet);
        if snap > 0 {
            self.store.keep(&packet, snap);
        }
    }

    fn kept(&self) -> (u64, u64) {
        (self.store.packets, self.store.bytes)
    }
}

/// The driver reads into memory that counts its references, and hands out one more. Whoever reads a packet so needs new
/// memory for the next one, which is not timed here. A packet that is sent lies in parts, and has to be put together.
pub(crate) struct Boxed {
    side: Side,
    received: Bytes,
    stage: Box<dyn Stage>,
}

impl Boxed {
    pub(crate) fn new(set_up: SetUp, side: Side) -> Self {
        let stage = Box::new(Keep { program: set_up.program(), store: Store::new() });
        Self { side, received: Bytes::new(), stage: std::hint::black_box(stage) }
    }
}

impl Linkage for Boxed {
    fn arrive(&mut self, frame: &Frame) {
        if self.side == Side::Read {
            self.received = Bytes::copy_from_slice(frame.bytes());
            // The first clone allocates the counter; a driver's memory has it from the start.
            drop(self.received.clone());
        }
    }

    #[inline]
    fn tap(&mut self, parts: Parts<'_>) {
        let packet = match self.side {
            Side::Read => self.received.clone(),
            Side::Write => {
                let mut packet = BytesMut::with_capacity(parts.iter().map(|part| part.len()).sum());
                parts.iter().for_each(|part| packet.extend_from_slice(part));
                packet.freeze()
            }
        };
        self.stage.accept(packet);
    }

    fn evict(&self, frame: &Frame) {
        cycles::evict(if self.side == Side::Read { &self.received } else { frame.bytes() });
    }

    fn kept(&self) -> (u64, u64) {
        self.stage.kept()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alloc::taken;

    #[test]
    fn a_received_packet_is_shared_and_a_sent_one_put_together() {
        for (side, expected) in [(Side::Read, 0), (Side::Write, 100)] {
            let mut frame = Frame::new();
            let mut boxed = Boxed::new(SetUp::Accept, side);
            let mut allocations = 0;
            for _ in 0..100 {
                frame.fill(500);
                boxed.arrive(&frame);
                let before = taken();
                boxed.tap(frame.parts(side));
                allocations += taken() - before;
            }
            assert_eq!((allocations, boxed.kept()), (expected, (100, 50_000)), "{side:?}");
        }
    }
}
