//! Decoded instructions: what the interpreter executes.

/// A decoded instruction. Distances count from the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Word(u32),
    Half(u32),
    Byte(u32),
    WordAtX(u32),
    HalfAtX(u32),
    ByteAtX(u32),
    Flags,
    Len,
    Imm(u32),
    Mem(u8),
    XLen,
    XImm(u32),
    XMem(u8),
    /// X = four times the low half of a byte.
    XHeader(u32),
    Store(u8),
    StoreX(u8),
    Calc(Operation, u32),
    CalcX(Operation),
    Negate,
    Skip(u32),
    If {
        test: Test,
        yes: u8,
        no: u8,
        k: u32,
    },
    IfX {
        test: Test,
        yes: u8,
        no: u8,
    },
    Return(u32),
    ReturnA,
    ToX,
    ToA,
}

const _: () = assert!(size_of::<Step>() == 8, "eight steps a cache line, as many as instructions");

/// What a step does with A and its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    And,
    Or,
    Xor,
    Lsh,
    Rsh,
}

impl Operation {
    /// `None`: a division by zero.
    #[inline]
    pub(crate) const fn apply(self, a: u32, b: u32) -> Option<u32> {
        Some(match self {
            Self::Add => a.wrapping_add(b),
            Self::Sub => a.wrapping_sub(b),
            Self::Mul => a.wrapping_mul(b),
            Self::Div => return a.checked_div(b),
            Self::Mod => return a.checked_rem(b),
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
            Self::Lsh if b < 32 => a << b,
            Self::Rsh if b < 32 => a >> b,
            Self::Lsh | Self::Rsh => 0,
        })
    }
}

/// How a step compares A with its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Equal,
    Greater,
    AtLeast,
    Common,
}

impl Test {
    #[inline]
    pub(crate) const fn holds(self, a: u32, b: u32) -> bool {
        match self {
            Self::Equal => a == b,
            Self::Greater => a > b,
            Self::AtLeast => a >= b,
            Self::Common => a & b != 0,
        }
    }
}
