//! One instruction as classic programs have it, and the numbers of the operations.

/// One instruction, in the form that Linux (`struct sock_filter`) and libpcap (`struct bpf_insn`) share.
///
/// ```
/// use phalanx_tap::{Instruction, opcode};
///
/// let ret = Instruction::new(opcode::RET, 0);
/// assert_eq!((ret.code, ret.yes, ret.no, ret.k), (0x06, 0, 0, 0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// The operation; see [`opcode`].
    pub code: u16,
    /// Instructions to skip if the test of a conditional jump holds.
    pub yes: u8,
    /// Instructions to skip if it does not.
    pub no: u8,
    /// The constant: an offset, a number, a scratch word, or the instructions to skip.
    pub k: u32,
}

impl Instruction {
    /// An instruction that is no conditional jump.
    #[must_use]
    pub const fn new(code: u16, k: u32) -> Self {
        Self { code, yes: 0, no: 0, k }
    }

    /// A conditional jump.
    #[must_use]
    pub const fn jump(code: u16, k: u32, yes: u8, no: u8) -> Self {
        Self { code, yes, no, k }
    }
}

/// The operations, by the names of the 1993 paper where it has one. An operation that exists with a constant and with X
/// is written with [`opcode::X`] added for X.
///
/// ```
/// use phalanx_tap::opcode;
///
/// assert_eq!(opcode::ADD | opcode::X, 0x0c);
/// ```
pub mod opcode {
    /// The second operand is X instead of the constant: of arithmetic and conditional jumps.
    pub const X: u16 = 0x08;
    /// A = the four bytes at k.
    pub const LD_WORD: u16 = 0x20;
    /// A = the two bytes at k.
    pub const LD_HALF: u16 = 0x28;
    /// A = the byte at k.
    pub const LD_BYTE: u16 = 0x30;
    /// A = the four bytes at X + k.
    pub const LD_WORD_AT_X: u16 = 0x40;
    /// A = the two bytes at X + k.
    pub const LD_HALF_AT_X: u16 = 0x48;
    /// A = the byte at X + k.
    pub const LD_BYTE_AT_X: u16 = 0x50;
    /// A = k.
    pub const LD_IMM: u16 = 0x00;
    /// A = scratch word k.
    pub const LD_MEM: u16 = 0x60;
    /// A = the length of the packet.
    pub const LD_LEN: u16 = 0x80;
    /// X = k.
    pub const LDX_IMM: u16 = 0x01;
    /// X = scratch word k.
    pub const LDX_MEM: u16 = 0x61;
    /// X = the length of the packet.
    pub const LDX_LEN: u16 = 0x81;
    /// X = four times the low four bits of the byte at k: the length of an IPv4 header at k.
    pub const LDX_MSH: u16 = 0xb1;
    /// Scratch word k = A.
    pub const ST: u16 = 0x02;
    /// Scratch word k = X.
    pub const STX: u16 = 0x03;
    /// A = A + k.
    pub const ADD: u16 = 0x04;
    /// A = A - k.
    pub const SUB: u16 = 0x14;
    /// A = A * k.
    pub const MUL: u16 = 0x24;
    /// A = A / k.
    pub const DIV: u16 = 0x34;
    /// A = A or k.
    pub const OR: u16 = 0x44;
    /// A = A and k.
    pub const AND: u16 = 0x54;
    /// A = A shifted left by k.
    pub const LSH: u16 = 0x64;
    /// A = A shifted right by k.
    pub const RSH: u16 = 0x74;
    /// A = -A.
    pub const NEG: u16 = 0x84;
    /// A = A modulo k. Not in the paper.
    pub const MOD: u16 = 0x94;
    /// A = A exclusive or k. Not in the paper.
    pub const XOR: u16 = 0xa4;
    /// Skips k instructions.
    pub const JA: u16 = 0x05;
    /// Conditional jump: A = k.
    pub const JEQ: u16 = 0x15;
    /// Conditional jump: A > k.
    pub const JGT: u16 = 0x25;
    /// Conditional jump: A >= k.
    pub const JGE: u16 = 0x35;
    /// Conditional jump: A and k have a common bit.
    pub const JSET: u16 = 0x45;
    /// The verdict is k.
    pub const RET: u16 = 0x06;
    /// The verdict is A.
    pub const RET_A: u16 = 0x16;
    /// X = A.
    pub const TAX: u16 = 0x07;
    /// A = X.
    pub const TXA: u16 = 0x87;
}
