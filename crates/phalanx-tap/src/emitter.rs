//! Writes a program from its end to its beginning, so that the target of each jump is known when the jump is written.

use crate::instruction::{Instruction, opcode};
use crate::step::Test;

/// An instruction that was written: how many stand behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Label(usize);

/// A program that grows at its beginning.
pub(crate) struct Emitter {
    /// The last one first.
    reversed: Vec<Instruction>,
    /// Unconditional jumps, and where each goes: later conditional jumps to the same place use it.
    relays: Vec<(Label, Label)>,
}

/// The farthest that a conditional jump goes.
const NEAR: usize = u8::MAX as usize;

impl Emitter {
    /// The verdict 0.
    pub(crate) const REJECT: Label = Label(0);
    /// The verdict that the program was begun with.
    pub(crate) const ACCEPT: Label = Label(1);

    /// The end of a program: both verdicts.
    pub(crate) fn new(snap: u32) -> Self {
        let reversed = vec![Instruction::new(opcode::RET, 0), Instruction::new(opcode::RET, snap)];
        Self { reversed, relays: Vec::new() }
    }

    /// How many instructions were written.
    pub(crate) fn len(&self) -> usize {
        self.reversed.len()
    }

    /// The instruction that was written last.
    pub(crate) fn last(&self) -> Label {
        Label(self.len() - 1)
    }

    /// An instruction that goes on with the one written before it.
    pub(crate) fn put(&mut self, code: u16, k: u32) -> Label {
        self.push(Instruction::new(code, k))
    }

    /// A conditional jump on A and `k`.
    pub(crate) fn jump(&mut self, test: Test, k: u32, yes: Label, no: Label) -> Label {
        self.branch(code(test), k, yes, no)
    }

    /// A conditional jump on A and X.
    pub(crate) fn jump_x(&mut self, test: Test, yes: Label, no: Label) -> Label {
        self.branch(code(test) | opcode::X, 0, yes, no)
    }

    /// The program that begins at `entry`.
    pub(crate) fn finish(mut self, entry: Label) -> Vec<Instruction> {
        // Whatever was written after the entry is before it, and jumps go forward: nobody comes there.
        self.reversed.truncate(entry.0 + 1);
        self.reversed.reverse();
        self.reversed
    }

    fn branch(&mut self, code: u16, k: u32, yes: Label, no: Label) -> Label {
        // As if each way needed a relay of its own, so that neither makes the other necessary.
        let beyond = self.len() + 2;
        let (yes, no) = (self.near(beyond, yes), self.near(beyond, no));
        let (yes, no) = (self.near_distance(yes), self.near_distance(no));
        self.push(Instruction::jump(code, k, yes, no))
    }

    /// Where a conditional jump at `from` goes for `label`: there, or to a relay that is near.
    fn near(&mut self, from: usize, label: Label) -> Label {
        let is_near = |label: Label| from - label.0 - 1 <= NEAR;
        if is_near(label) {
            return label;
        }
        let known = self.relays.iter().rev().find(|(target, relay)| *target == label && is_near(*relay));
        if let Some((_, relay)) = known {
            return *relay;
        }
        let distance = u32::try_from(self.distance(label)).unwrap_or(u32::MAX);
        let relay = self.push(Instruction::new(opcode::JA, distance));
        self.relays.push((label, relay));
        relay
    }

    /// The instructions between the next one to be written and `label`.
    fn distance(&self, label: Label) -> usize {
        self.len() - label.0 - 1
    }

    fn near_distance(&self, label: Label) -> u8 {
        let distance = self.distance(label);
        debug_assert!(distance <= NEAR, "a way that is farther has an instruction of its own");
        u8::try_from(distance).unwrap_or(u8::MAX)
    }

    fn push(&mut self, instruction: Instruction) -> Label {
        self.reversed.push(instruction);
        self.last()
    }
}

fn code(test: Test) -> u16 {
    match test {
        Test::Equal => opcode::JEQ,
        Test::Greater => opcode::JGT,
        Test::AtLeast => opcode::JGE,
        Test::Common => opcode::JSET,
    }
}

#[cfg(test)]
mod tests {
    use super::Emitter;
    use crate::instruction::opcode;
    use crate::packet::Packet;
    use crate::program::Program;
    use crate::step::Test;

    /// A program that takes 9 alone, with `between` instructions between the jump and both verdicts.
    fn takes_nine(between: usize) -> Program {
        let mut emitter = Emitter::new(7);
        for _ in 0..between {
            emitter.put(opcode::TAX, 0);
        }
        emitter.jump(Test::Equal, 9, Emitter::ACCEPT, Emitter::REJECT);
        let entry = emitter.put(opcode::LD_BYTE, 0);
        Program::new(&emitter.finish(entry)).expect("a program")
    }

    #[test]
    fn a_jump_reaches_its_target_however_far_it_is() {
        for between in [0, 1, 250, 251, 252, 253, 254, 255, 256, 257, 600] {
            let program = takes_nine(between);
            let verdict = |byte: u8| program.run(&Packet::new(&[byte], [&[], &[], &[]]));
            assert_eq!((verdict(9), verdict(8)), (7, 0), "{between} between");
        }
    }

    #[test]
    fn jumps_to_one_far_place_share_a_relay() {
        let mut emitter = Emitter::new(7);
        for _ in 0..300 {
            emitter.put(opcode::TAX, 0);
        }
        for value in 0..9 {
            let no = emitter.last();
            emitter.jump(Test::Equal, value, Emitter::ACCEPT, no);
        }
        assert_eq!(emitter.len(), 2 + 300 + 1 + 9);
    }

    #[test]
    fn what_stands_before_the_entry_is_left_out() {
        let mut emitter = Emitter::new(7);
        let entry = emitter.jump(Test::Equal, 0, Emitter::ACCEPT, Emitter::REJECT);
        emitter.put(opcode::LD_BYTE, 0);
        assert_eq!(emitter.finish(entry).len(), 3);
        assert_eq!(Emitter::new(7).finish(Emitter::REJECT).len(), 1);
    }
}
