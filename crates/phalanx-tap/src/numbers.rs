//! Code that computes a number from a packet.

use crate::bounds::SCRATCH;
use crate::emitter::Emitter;
use crate::instruction::opcode;
use crate::layout::{FLAGS_AT, IPV4_BYTES, Layout};
use crate::step::Operation;
use crate::syntax::{Arith, Base, Protocol};

/// The number needs more scratch words than there are.
#[derive(Debug)]
pub(crate) struct TooComplex;

impl Emitter {
    /// Puts `number` into A. `free`: the first scratch word that nobody needs afterwards.
    pub(crate) fn compute(&mut self, number: &Arith, layout: Layout, free: u32) -> Result<(), TooComplex> {
        match number {
            Arith::Number(number) => {
                self.put(opcode::LD_IMM, *number);
            }
            Arith::Len => {
                self.put(opcode::LD_LEN, 0);
            }
            Arith::Size => {
                self.put(opcode::SUB, layout.preamble_bytes());
                self.put(opcode::LD_LEN, 0);
            }
            Arith::Negative(inner) => {
                self.put(opcode::NEG, 0);
                self.compute(inner, layout, free)?;
            }
            Arith::Binary(operation, left, right) => {
                if let Arith::Number(number) = **right {
                    self.put(code(*operation), number);
                    self.compute(left, layout, free)?;
                } else {
                    self.put(code(*operation) | opcode::X, 0);
                    self.compute_both(left, right, layout, free)?;
                }
            }
            Arith::Bytes { base, index, count } => {
                let base_at = base_at(*base, layout);
                let [at_k, at_x] = match count {
                    1 => [opcode::LD_BYTE, opcode::LD_BYTE_AT_X],
                    2 => [opcode::LD_HALF, opcode::LD_HALF_AT_X],
                    _ => [opcode::LD_WORD, opcode::LD_WORD_AT_X],
                };
                match (&**index, base) {
                    (Arith::Number(index), Base::Packet) => self.put_load(at_k, index.saturating_add(base_at)),
                    // libpcap wraps around, and so do we: the same text chooses the same packets.
                    (Arith::Number(index), Base::Protocol(_)) => self.put_load(at_k, index.wrapping_add(base_at)),
                    (index, Base::Packet) => {
                        self.put(at_x, base_at);
                        self.put(opcode::TAX, 0);
                        self.compute(index, layout, free)?;
                    }
                    (index, Base::Protocol(_)) => {
                        self.put(at_x, 0);
                        self.put(opcode::TAX, 0);
                        if base_at > 0 {
                            self.put(opcode::ADD, base_at);
                        }
                        self.compute(index, layout, free)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Puts `left` into A and `right` into X.
    pub(crate) fn compute_both(
        &mut self,
        left: &Arith,
        right: &Arith,
        layout: Layout,
        free: u32,
    ) -> Result<(), TooComplex> {
        if free as usize == SCRATCH {
            return Err(TooComplex);
        }
        self.put(opcode::LD_MEM, free);
        self.put(opcode::TAX, 0);
        self.compute(right, layout, free + 1)?;
        self.put(opcode::ST, free);
        self.compute(left, layout, free)
    }

    fn put_load(&mut self, code: u16, at: u32) {
        // Beyond every packet, but a word there would be the flags.
        self.put(code, if at == FLAGS_AT { u32::MAX } else { at });
    }
}

fn base_at(base: Base, layout: Layout) -> u32 {
    match base {
        Base::Packet => layout.preamble_bytes(),
        Base::Protocol(Protocol::Udp) => IPV4_BYTES,
        Base::Protocol(Protocol::Ip | Protocol::Ip6) => 0,
    }
}

fn code(operation: Operation) -> u16 {
    match operation {
        Operation::Add => opcode::ADD,
        Operation::Sub => opcode::SUB,
        Operation::Mul => opcode::MUL,
        Operation::Div => opcode::DIV,
        Operation::Mod => opcode::MOD,
        Operation::And => opcode::AND,
        Operation::Or => opcode::OR,
        Operation::Xor => opcode::XOR,
        Operation::Lsh => opcode::LSH,
        Operation::Rsh => opcode::RSH,
    }
}
