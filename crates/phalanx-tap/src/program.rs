//! Verified programs and their interpreter.

use crate::bounds::SCRATCH;
use crate::error::ProgramError;
use crate::instruction::Instruction;
use crate::packet::Packet;
use crate::step::Step;
use crate::verify;

/// A program that was verified: it always ends, within as many steps as it has instructions, and reads nothing but the
/// packet.
///
/// ```
/// use phalanx_tap::{Instruction, Packet, Program, opcode};
///
/// # fn main() -> Result<(), phalanx_tap::ProgramError> {
/// // The paper's filter of four instructions: all IP packets.
/// let program = Program::new(&[
///     Instruction::new(opcode::LD_HALF, 12),
///     Instruction::jump(opcode::JEQ, 0x0800, 0, 1),
///     Instruction::new(opcode::RET, 96),
///     Instruction::new(opcode::RET, 0),
/// ])?;
/// let mut frame = [0; 60];
/// assert_eq!(program.run(&Packet::new(&frame, [&[], &[], &[]])), 0);
/// frame[12] = 8;
/// assert_eq!(program.run(&Packet::new(&frame, [&[], &[], &[]])), 96);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    instructions: Box<[Instruction]>,
    /// One for each instruction.
    steps: Box<[Step]>,
}

impl Program {
    /// Verifies a program.
    ///
    /// # Errors
    /// [`ProgramError`] names the first instruction that does not keep the rules, and the rule.
    pub fn new(instructions: &[Instruction]) -> Result<Self, ProgramError> {
        let steps = verify::verified(instructions)?;
        Ok(Self { instructions: instructions.into(), steps: steps.into() })
    }

    /// Its instructions.
    #[must_use]
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// The verdict about a packet: how many bytes of it to keep, 0 for none. It may exceed the packet's length.
    #[inline]
    #[must_use]
    pub fn run(&self, packet: &Packet<'_>) -> u32 {
        self.interpret(packet, || ())
    }

    /// The verdict, and how many instructions were executed for it.
    ///
    /// ```
    /// use phalanx_tap::{Filter, Layout, NoNames, Packet};
    ///
    /// # fn main() -> Result<(), phalanx_tap::FilterError> {
    /// let program = Filter::parse("len > 9")?.compile(Layout::Clear, &NoNames, 1)?.program;
    /// assert_eq!(program.run_counted(&Packet::new(&[], [&[0; 9], &[], &[]])), (0, 3));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn run_counted(&self, packet: &Packet<'_>) -> (u32, usize) {
        let mut count = 0;
        let verdict = self.interpret(packet, || count += 1);
        (verdict, count)
    }

    /// Whether the program may look at one of the bytes from `first` up to, and without, `end`. If not, they may hold
    /// anything.
    ///
    /// ```
    /// use phalanx_tap::{Filter, Layout, NoNames};
    ///
    /// # fn main() -> Result<(), phalanx_tap::FilterError> {
    /// let program = Filter::parse("type data")?.compile(Layout::Clear, &NoNames, 96)?.program;
    /// assert!(!program.reads(0, 32) && program.reads(32, 33));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn reads(&self, first: u32, end: u32) -> bool {
        self.steps.iter().any(|step| match *step {
            Step::Word(k) => k < end && first < k.saturating_add(4),
            Step::Half(k) => k < end && first < k.saturating_add(2),
            Step::Byte(k) | Step::XHeader(k) => k < end && first < k.saturating_add(1),
            // X may be anything, and the sum is never less than k.
            Step::WordAtX(k) | Step::HalfAtX(k) | Step::ByteAtX(k) => k < end && first < end,
            _ => false,
        })
    }

    /// Runs the program, and calls `each` for each instruction.
    #[inline]
    fn interpret(&self, packet: &Packet<'_>, mut each: impl FnMut()) -> u32 {
        let (mut a, mut x, mut scratch, mut next) = (0_u32, 0_u32, [0_u32; SCRATCH], 0_usize);
        // The verifier has seen that jumps stay inside and that the last instruction returns. So this never ends here;
        // the check costs a comparison that always goes the same way, and unchecked access would need unsafe code.
        while let Some(step) = self.steps.get(next) {
            next += 1;
            each();
            match *step {
                Step::Word(k) => match packet.load(k) {
                    Some(bytes) => a = u32::from_be_bytes(bytes),
                    None => return 0,
                },
                Step::Half(k) => match packet.load(k) {
                    Some(bytes) => a = u16::from_be_bytes(bytes).into(),
                    None => return 0,
                },
                Step::Byte(k) => match packet.load(k) {
                    Some([byte]) => a = byte.into(),
                    None => return 0,
                },
                Step::WordAtX(k) => match x.checked_add(k).and_then(|at| packet.load(at)) {
                    Some(bytes) => a = u32::from_be_bytes(bytes),
                    None => return 0,
                },
                Step::HalfAtX(k) => match x.checked_add(k).and_then(|at| packet.load(at)) {
                    Some(bytes) => a = u16::from_be_bytes(bytes).into(),
                    None => return 0,
                },
                Step::ByteAtX(k) => match x.checked_add(k).and_then(|at| packet.load(at)) {
                    Some([byte]) => a = byte.into(),
                    None => return 0,
                },
                Step::XHeader(k) => match packet.load(k) {
                    Some([byte]) => x = u32::from(byte & 0x0f) * 4,
                    None => return 0,
                },
                Step::Flags => a = packet.flags().bits(),
                Step::Len => a = packet.len(),
                Step::Imm(k) => a = k,
                Step::Mem(word) => a = scratch[place(word)],
                Step::XLen => x = packet.len(),
                Step::XImm(k) => x = k,
                Step::XMem(word) => x = scratch[place(word)],
                Step::Store(word) => scratch[place(word)] = a,
                Step::StoreX(word) => scratch[place(word)] = x,
                Step::Calc(operation, k) => match operation.apply(a, k) {
                    Some(result) => a = result,
                    None => return 0,
                },
                Step::CalcX(operation) => match operation.apply(a, x) {
                    Some(result) => a = result,
                    None => return 0,
                },
                Step::Negate => a = a.wrapping_neg(),
                Step::Skip(k) => next += k as usize,
                Step::If { test, yes, no, k } => next += usize::from(if test.holds(a, k) { yes } else { no }),
                Step::IfX { test, yes, no } => next += usize::from(if test.holds(a, x) { yes } else { no }),
                Step::Return(k) => return k,
                Step::ReturnA => return a,
                Step::ToX => x = a,
                Step::ToA => a = x,
            }
        }
        0
    }
}

/// The place of a scratch word. The verifier admits 0 to 15; the remainder tells the compiler so.
#[inline]
fn place(word: u8) -> usize {
    usize::from(word) % SCRATCH
}

#[cfg(test)]
mod tests;
