use proptest::prelude::*;

use crate::error::{ProgramError, ProgramFault};
use crate::instruction::{Instruction, opcode};
use crate::packet::Packet;
use crate::program::Program;

fn op(code: u16, k: u32) -> Instruction {
    Instruction::new(code, k)
}

const END: Instruction = Instruction::new(opcode::RET, 1);

/// The fault and its place.
fn fault(instructions: &[Instruction]) -> Option<(usize, ProgramFault)> {
    Program::new(instructions).err().map(|ProgramError { place, fault }| (place, fault))
}

#[test]
fn a_program_has_an_instruction_and_not_too_many() {
    assert_eq!(fault(&[]), Some((0, ProgramFault::Empty)));
    let of = |count: usize| [vec![op(opcode::TAX, 0); count - 1], vec![END]].concat();
    assert_eq!(fault(&of(4096)), None);
    assert_eq!(fault(&of(4097)), Some((4096, ProgramFault::TooLong)));
}

#[test]
fn the_last_instruction_returns() {
    assert_eq!(fault(&[op(opcode::TAX, 0)]), Some((0, ProgramFault::End)));
    assert_eq!(fault(&[END, op(opcode::LD_IMM, 0)]), Some((1, ProgramFault::End)));
    assert_eq!(fault(&[op(opcode::RET_A, 0)]), None);
}

#[test]
fn jumps_stay_inside() {
    let with = |jump: Instruction| fault(&[jump, op(opcode::TAX, 0), END]);
    assert_eq!(with(op(opcode::JA, 0)), None);
    assert_eq!(with(op(opcode::JA, 1)), None);
    for k in [2, 3, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX] {
        assert_eq!(with(op(opcode::JA, k)), Some((0, ProgramFault::Jump)), "{k}");
    }
    for code in [opcode::JEQ, opcode::JGT, opcode::JGE, opcode::JSET] {
        for code in [code, code | opcode::X] {
            assert_eq!(with(Instruction::jump(code, 0, 1, 1)), None);
            assert_eq!(with(Instruction::jump(code, 0, 2, 0)), Some((0, ProgramFault::Jump)));
            assert_eq!(with(Instruction::jump(code, 0, 0, 2)), Some((0, ProgramFault::Jump)));
            assert_eq!(with(Instruction::jump(code, 0, 255, 0)), Some((0, ProgramFault::Jump)));
        }
    }
    assert_eq!(fault(&[END, op(opcode::JA, 0)]), Some((1, ProgramFault::Jump)), "behind the last is nothing");
}

#[test]
fn operations_are_known() {
    let known: Vec<u16> = (0..=u16::MAX).filter(|code| fault(&[op(*code, 1), END, END, END]).is_none()).collect();
    let expected = [
        0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x0c, 0x14, 0x15, 0x16, 0x1c, 0x1d, 0x20, 0x24, 0x25, 0x28,
        0x2c, 0x2d, 0x30, 0x34, 0x35, 0x3c, 0x3d, 0x40, 0x44, 0x45, 0x48, 0x4c, 0x4d, 0x50, 0x54, 0x5c, 0x64, 0x6c,
        0x74, 0x7c, 0x80, 0x81, 0x84, 0x87, 0x94, 0x9c, 0xa4, 0xac, 0xb1,
    ];
    // Loads of scratch words (0x60, 0x61) are known, too, behind a store.
    assert_eq!(known, expected);
    for code in [0x60, 0x61] {
        assert_eq!(fault(&[op(opcode::ST, 1), op(code, 1), END]), None);
    }
}

#[test]
fn scratch_words_are_there_and_were_written() {
    for code in [opcode::ST, opcode::STX] {
        assert_eq!(fault(&[op(code, 15), END]), None);
        for word in [16, 17, 255, 256, 256 + 3, u32::MAX] {
            assert_eq!(fault(&[op(code, word), END]), Some((0, ProgramFault::Scratch)), "{word}");
        }
    }
    for code in [opcode::LD_MEM, opcode::LDX_MEM] {
        assert_eq!(fault(&[op(opcode::ST, 3), op(code, 3), END]), None);
        assert_eq!(fault(&[op(opcode::STX, 3), op(code, 3), END]), None);
        assert_eq!(fault(&[op(opcode::ST, 3), op(code, 2), END]), Some((1, ProgramFault::Unwritten)));
        assert_eq!(fault(&[op(code, 16), END]), Some((0, ProgramFault::Scratch)));
    }
}

#[test]
fn a_scratch_word_is_written_on_every_way_to_its_reader() {
    let fork = Instruction::jump(opcode::JEQ, 0, 0, 1);
    let store = op(opcode::ST, 0);
    let read = op(opcode::LD_MEM, 0);
    assert_eq!(fault(&[fork, store, read, END]), Some((2, ProgramFault::Unwritten)), "one way leads past the store");
    // Both ways store.
    let both = [Instruction::jump(opcode::JEQ, 0, 0, 2), store, op(opcode::JA, 1), store, read, END];
    assert_eq!(fault(&both), None);
    // A way that ends before the reader does not count, nor does code that no way leads to.
    assert_eq!(fault(&[fork, op(opcode::JA, 1), END, store, read, END]), None);
    assert_eq!(fault(&[op(opcode::JA, 1), read, END]), None);
    let beyond = [op(opcode::JA, 1), store, read, END];
    assert_eq!(fault(&beyond), Some((2, ProgramFault::Unwritten)), "the store is jumped over");
}

#[test]
fn constants_neither_divide_by_zero_nor_shift_too_far() {
    for code in [opcode::DIV, opcode::MOD] {
        assert_eq!(fault(&[op(code, 0), END]), Some((0, ProgramFault::Division)));
        assert_eq!((fault(&[op(code, 1), END]), fault(&[op(code | opcode::X, 0), END])), (None, None));
    }
    for code in [opcode::LSH, opcode::RSH] {
        assert_eq!(fault(&[op(code, 32), END]), Some((0, ProgramFault::Shift)));
        assert_eq!((fault(&[op(code, 31), END]), fault(&[op(code | opcode::X, 99), END])), (None, None));
    }
}

/// Instructions that are often good: known operations, near jumps, scratch words that are there.
fn instructions() -> impl Strategy<Value = Vec<Instruction>> {
    let codes: Vec<u16> =
        (0..=0xff).filter(|code| fault(&[op(opcode::ST, 1), op(*code, 1), END, END]).is_none()).collect();
    let k = prop_oneof![4 => 0..4_u32, 2 => 0..40_u32, 1 => any::<u32>()];
    let near = || prop_oneof![6 => 0..3_u8, 1 => any::<u8>()];
    let one = (proptest::sample::select(codes), k, near(), near());
    proptest::collection::vec(one.prop_map(|(code, k, yes, no)| Instruction { code, yes, no, k }), 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn an_accepted_program_ends_within_its_length(
        mut instructions in instructions(),
        preamble in proptest::collection::vec(any::<u8>(), 0..24),
        part in proptest::collection::vec(any::<u8>(), 0..24),
    ) {
        instructions.push(op(opcode::RET_A, 0));
        if let Ok(program) = Program::new(&instructions) {
            let (apart, joined) = (Packet::new(&preamble, [&part, &[], &[]]), [&preamble[..], &part].concat());
            let (verdict, count) = program.run_counted(&apart);
            prop_assert!(count <= instructions.len());
            prop_assert_eq!(verdict, program.run(&apart));
            // Where a packet is cut makes no difference.
            prop_assert_eq!(program.run_counted(&Packet::new(&[], [&joined, &[], &[]])), (verdict, count));
            prop_assert_eq!(program.run_counted(&Packet::new(&joined, [&[], &[], &[]])), (verdict, count));
        }
    }
}
