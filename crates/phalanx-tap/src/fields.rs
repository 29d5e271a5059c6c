//! Code that tests fields of a packet.

use crate::emitter::{Emitter, Label};
use crate::instruction::opcode;
use crate::step::Test;
use crate::syntax::Relation;

/// A field that is more than one load, or not in the byte order of loads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wide {
    /// Its first byte.
    pub(crate) at: u32,
    /// Eight bytes instead of four.
    pub(crate) is_long: bool,
    /// The lowest byte comes first, as in the header of a packet.
    pub(crate) is_little: bool,
}

impl Wide {
    /// The constants that its words are compared with for `value`, in the order in which they lie.
    fn words(self, value: u64) -> [u32; 2] {
        let bytes = if self.is_little { value.to_le_bytes() } else { value.to_be_bytes() };
        let [a, b, c, d, e, f, g, h] = bytes;
        let (first, second) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        // A short field lies in the low half of the number.
        if !self.is_long && !self.is_little { [second, 0] } else { [first, second] }
    }

    /// Where its high and its low word lie; the same place if it has one.
    fn high_and_low(self) -> (u32, u32) {
        match (self.is_long, self.is_little) {
            (false, _) => (self.at, self.at),
            (true, false) => (self.at, self.at + 4),
            (true, true) => (self.at + 4, self.at),
        }
    }
}

impl Emitter {
    /// The byte at `at` is one of `values`.
    pub(crate) fn byte_in(&mut self, at: u32, values: &[u8], yes: Label, no: Label) -> Label {
        self.one_of(opcode::LD_BYTE, at, values.iter().copied().map(u32::from), yes, no)
    }

    /// The four bytes at `at` are one of `values`, taken as big endian.
    pub(crate) fn word_in(&mut self, at: u32, values: &[u32], yes: Label, no: Label) -> Label {
        self.one_of(opcode::LD_WORD, at, values.iter().copied(), yes, no)
    }

    /// A bit of `bits` is set in the word at `at`.
    pub(crate) fn word_has(&mut self, at: u32, bits: u32, yes: Label, no: Label) -> Label {
        self.jump(Test::Common, bits, yes, no);
        self.put(opcode::LD_WORD, at)
    }

    /// The half word at `at` is within `first..=last`.
    pub(crate) fn half_within(&mut self, at: u32, (first, last): (u16, u16), yes: Label, no: Label) -> Label {
        if first == last {
            self.jump(Test::Equal, first.into(), yes, no);
        } else {
            let not_beyond = self.jump(Test::Greater, last.into(), no, yes);
            self.jump(Test::AtLeast, first.into(), not_beyond, no);
        }
        self.put(opcode::LD_HALF, at)
    }

    /// The bytes at `at` agree with `words` in the first `prefix` bits.
    pub(crate) fn prefix_is(&mut self, at: u32, words: &[u32], prefix: u8, yes: Label, no: Label) -> Label {
        let mut entry = yes;
        let mut offsets = at;
        let places: Vec<(u32, u32, u32)> = words
            .iter()
            .enumerate()
            .map(|(number, word)| {
                let bits = usize::from(prefix).saturating_sub(32 * number).min(32);
                let mask = !u32::MAX.checked_shr(u32::try_from(bits).unwrap_or(32)).unwrap_or(0);
                let place = (offsets, *word, mask);
                offsets += 4;
                place
            })
            .collect();
        for (at, word, mask) in places.into_iter().rev().filter(|(_, _, mask)| *mask != 0) {
            self.jump(Test::Equal, word & mask, entry, no);
            if mask != u32::MAX {
                self.put(opcode::AND, mask);
            }
            entry = self.put(opcode::LD_WORD, at);
        }
        entry
    }

    /// The field is one of `values`.
    pub(crate) fn wide_in(&mut self, field: Wide, values: &[u64], yes: Label, no: Label) -> Label {
        let mut words: Vec<[u32; 2]> = values.iter().map(|value| field.words(*value)).collect();
        words.sort_unstable();
        words.dedup();
        if !field.is_long {
            return self.one_of(opcode::LD_WORD, field.at, words.iter().map(|[word, _]| *word), yes, no);
        }
        // Where the first word agrees, the second one decides: values with the same first word share its test.
        let mut entry = no;
        for alike in words.chunk_by(|a, b| a[0] == b[0]).rev() {
            let second = self.one_of(opcode::LD_WORD, field.at + 4, alike.iter().map(|[_, word]| *word), yes, no);
            entry = self.jump(Test::Equal, alike[0][0], second, entry);
        }
        if entry == no { no } else { self.put(opcode::LD_WORD, field.at) }
    }

    /// The field compares with `value`.
    pub(crate) fn wide_compares(
        &mut self,
        field: Wide,
        relation: Relation,
        value: u64,
        (yes, no): (Label, Label),
    ) -> Label {
        let (test, holds) = relation.test();
        let (yes, no) = if holds { (yes, no) } else { (no, yes) };
        if test == Test::Equal {
            return self.wide_in(field, &[value], yes, no);
        }
        let [.., a, b, c, d] = value.to_be_bytes();
        self.jump(test, u32::from_be_bytes([a, b, c, d]), yes, no);
        let (high_at, low_at) = field.high_and_low();
        let low = self.load(low_at, field.is_little);
        if !field.is_long {
            return low;
        }
        let [a, b, c, d, ..] = value.to_be_bytes();
        match u32::from_be_bytes([a, b, c, d]) {
            // Zero is the same in both orders of bytes, and nearly all numbers are that small.
            0 => {
                self.jump(Test::Equal, 0, low, yes);
                self.put(opcode::LD_WORD, high_at)
            }
            high => {
                let not_above = self.jump(Test::Equal, high, low, no);
                self.jump(Test::Greater, high, yes, not_above);
                self.load(high_at, field.is_little)
            }
        }
    }

    /// A = the word at `at`.
    fn load(&mut self, at: u32, is_little: bool) -> Label {
        if !is_little {
            return self.put(opcode::LD_WORD, at);
        }
        // From the highest byte to the lowest. Written from the last instruction on.
        for byte in 0..3 {
            self.put(opcode::OR | opcode::X, 0);
            self.put(opcode::LD_BYTE, at + byte);
            self.put(opcode::TAX, 0);
            self.put(opcode::LSH, 8);
        }
        self.put(opcode::LD_BYTE, at + 3)
    }

    fn one_of(
        &mut self,
        load: u16,
        at: u32,
        values: impl DoubleEndedIterator<Item = u32>,
        yes: Label,
        no: Label,
    ) -> Label {
        let entry = values.rev().fold(no, |entry, value| self.jump(Test::Equal, value, yes, entry));
        if entry == no { no } else { self.put(load, at) }
    }
}
