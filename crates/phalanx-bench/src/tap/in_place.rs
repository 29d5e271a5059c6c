//! The tap of Phalanx: the driver calls it with the packet where it lies, and only what a filter takes is copied.

use std::net::SocketAddr;

use phalanx_tap::{Instruction, Packet, Program, UdpPreamble, opcode};

use super::linkage::{Linkage, Parts};
use super::paper::SetUp;
use super::store::Store;

/// The call as the paper has it: a packet of an Ethernet, and no more.
pub(crate) struct InPlace {
    program: Program,
    store: Store,
}

impl InPlace {
    pub(crate) fn new(set_up: SetUp) -> Self {
        Self::of(set_up.program())
    }

    pub(crate) fn of(program: Program) -> Self {
        Self { program, store: Store::new() }
    }
}

impl Linkage for InPlace {
    #[inline]
    fn tap(&mut self, parts: Parts<'_>) {
        let packet = Packet::new(&[], parts);
        let snap = self.program.run(&packet);
        if snap > 0 {
            self.store.keep(&packet, snap);
        }
    }

    fn kept(&self) -> (u64, u64) {
        (self.store.packets, self.store.bytes)
    }
}

/// The call for a sealed packet: a preamble stands before it. The filter of four instructions is one on the kind of the
/// packet, which is behind the preamble.
pub(crate) struct Sealed {
    program: Program,
    store: Store,
    ends: [SocketAddr; 2],
    /// Whether the preamble is written for every packet. Otherwise it is written for a filter that reads it, and for a
    /// packet that is kept.
    writes_always: bool,
}

impl Sealed {
    pub(crate) fn new(set_up: SetUp, writes_always: bool) -> Self {
        let kind = [
            Instruction::new(opcode::LD_BYTE, PREAMBLE_BYTES as u32),
            Instruction::jump(opcode::JEQ, OTHER_KIND, 0, 1),
            Instruction::new(opcode::RET, u32::MAX),
            Instruction::new(opcode::RET, 0),
        ];
        let program = match set_up {
            SetUp::Accept => set_up.program(),
            SetUp::Reject => Program::new(&kind).expect("it jumps forward and returns"),
        };
        let writes_always = writes_always || program.reads(0, PREAMBLE_BYTES as u32);
        let ends = [7_001, 7_002].map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
        Self { program, store: Store::new(), ends, writes_always }
    }

    #[inline]
    fn preamble(&self, parts: Parts<'_>) -> UdpPreamble {
        let [from, to] = self.ends;
        UdpPreamble::new(from, to, parts.iter().map(|part| part.len()).sum())
    }
}

impl Linkage for Sealed {
    #[inline]
    fn tap(&mut self, parts: Parts<'_>) {
        if !self.writes_always && self.program.run(&Packet::new(&[0; PREAMBLE_BYTES], parts)) == 0 {
            return;
        }
        let preamble = self.preamble(parts);
        let packet = Packet::new(preamble.bytes(), parts);
        let snap = self.program.run(&packet);
        if snap > 0 {
            self.store.keep(&packet, snap);
        }
    }

    fn kept(&self) -> (u64, u64) {
        // Of the packets alone, as the other ways count.
        (self.store.packets, self.store.bytes - self.store.packets * PREAMBLE_BYTES as u64)
    }
}

/// The IP and UDP header before a sealed packet.
pub(crate) const PREAMBLE_BYTES: usize = 28;
/// A first byte that no packet here has.
const OTHER_KIND: u32 = 0x31;
