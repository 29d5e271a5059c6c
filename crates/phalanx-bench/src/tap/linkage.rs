//! What is compared: ways in which a driver hands a packet to a filter.

use phalanx_tap::Program;

use super::cycles;

/// What happens when a packet comes by. [`Linkage::tap`] is what is timed.
pub(crate) trait Linkage {
    /// The driver has received a packet, or is about to send it. It is still in `frame`.
    fn arrive(&mut self, _frame: &Frame) {}

    /// The driver shows the packet. It may use its memory for something else afterwards.
    fn tap(&mut self, parts: Parts<'_>);

    /// What others do later, which is not timed: readers free what they have read.
    fn settle(&mut self) {}

    /// Throws the packet out of the caches.
    fn evict(&self, frame: &Frame) {
        cycles::evict(frame.bytes());
    }

    /// Packets and bytes that were kept until now.
    fn kept(&self) -> (u64, u64);
}

/// A packet as a driver has it: in one part or in several.
pub(crate) type Parts<'a> = [&'a [u8]; 3];

/// The side of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Packets that come in lie in one part.
    Read,
    /// Packets that go out lie in three: headers, frames, tag.
    Write,
}

/// The filter that rejects, for the protocol that the packets are of: it takes `snap` bytes of each.
pub(crate) fn matching(snap: u32) -> Program {
    let mut instructions = super::paper::ip();
    instructions[1].k = u16::from_be_bytes(OTHER_PROTOCOL).into();
    instructions[2].k = snap;
    Program::new(&instructions).expect("it jumps forward and returns")
}

/// A driver's buffer with a packet of an Ethernet, which is not IP.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    source: Box<[u8]>,
    buffer: Box<[u8]>,
    len: usize,
}

impl Frame {
    pub(crate) fn new() -> Self {
        let mut source: Box<[u8]> = (0..LONGEST).map(|at| at as u8).collect();
        source[12..14].copy_from_slice(&OTHER_PROTOCOL);
        Self { buffer: source.clone(), source, len: LONGEST }
    }

    /// A packet of `len` bytes arrives: it is copied to the buffer, as a kernel does.
    #[inline]
    pub(crate) fn fill(&mut self, len: usize) {
        self.len = len;
        self.buffer[..len].copy_from_slice(&self.source[..len]);
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// The packet as the side has it.
    #[inline]
    pub(crate) fn parts(&self, side: Side) -> Parts<'_> {
        let bytes = self.bytes();
        match side {
            Side::Read => [bytes, &[], &[]],
            Side::Write => {
                let (headers, rest) = bytes.split_at(HEADERS.min(bytes.len()));
                let (frames, tag) = rest.split_at(rest.len().saturating_sub(TAG));
                [headers, frames, tag]
            }
        }
    }
}

/// Lengths of packets: from the headers of Ethernet, IP and UDP to the longest of an Ethernet, in steps of 16 bytes.
pub(crate) fn lengths() -> Vec<usize> {
    (SHORTEST..LONGEST).step_by(16).chain([LONGEST]).collect()
}

/// The shortest packet here: headers, and a little.
pub(crate) const SHORTEST: usize = 48;
/// The longest packet of an Ethernet.
pub(crate) const LONGEST: usize = 1_514;
/// The type of a protocol for experiments, IEEE 802.
const OTHER_PROTOCOL: [u8; 2] = [0x88, 0xb5];
/// Headers of Ethernet, IP and UDP.
const HEADERS: usize = 42;
/// What a sealed packet ends with.
const TAG: usize = 16;

#[cfg(test)]
mod tests {
    use phalanx_tap::Packet;

    use super::*;
    use crate::tap::paper::SetUp;

    #[test]
    fn both_sides_show_the_same_packet() {
        let mut frame = Frame::new();
        for len in lengths() {
            frame.fill(len);
            assert_eq!(frame.parts(Side::Read).concat(), frame.parts(Side::Write).concat());
            assert!(frame.parts(Side::Write).iter().all(|part| len < 59 || !part.is_empty()));
        }
    }

    #[test]
    fn one_takes_all_and_the_other_nothing_with_four_instructions() {
        let frame = Frame::new();
        let verdict = |set_up: SetUp| set_up.program().run_counted(&Packet::new(&[], frame.parts(Side::Read)));
        assert_eq!(verdict(SetUp::Accept), (u32::MAX, 1));
        assert_eq!(verdict(SetUp::Reject), (0, 3));
        assert_eq!(SetUp::Reject.program().instructions().len(), 4);
        assert_eq!(matching(64).run_counted(&Packet::new(&[], frame.parts(Side::Read))), (64, 3));
    }
}
