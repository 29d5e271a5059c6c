use super::Program;
use crate::instruction::{Instruction, opcode};
use crate::layout::{FLAGS_AT, Flags};
use crate::packet::Packet;

const X: u16 = opcode::X;

fn op(code: u16, k: u32) -> Instruction {
    Instruction::new(code, k)
}

/// The verdict of a program about these bytes.
fn verdict(instructions: &[Instruction], bytes: &[u8]) -> u32 {
    let program = Program::new(instructions).expect("a program");
    program.run(&Packet::new(&[], [bytes, &[], &[]]))
}

/// What A is after these instructions.
fn a_after(instructions: &[Instruction], bytes: &[u8]) -> u32 {
    verdict(&[instructions, &[op(opcode::RET_A, 0)]].concat(), bytes)
}

#[test]
fn loads_are_big_endian() {
    let bytes = [1, 2, 3, 4, 5, 6];
    assert_eq!(a_after(&[op(opcode::LD_WORD, 1)], &bytes), 0x0203_0405);
    assert_eq!(a_after(&[op(opcode::LD_HALF, 1)], &bytes), 0x0203);
    assert_eq!(a_after(&[op(opcode::LD_BYTE, 1)], &bytes), 2);
    let at_x = |code, k| [op(opcode::LDX_IMM, 1), op(code, k)];
    assert_eq!(a_after(&at_x(opcode::LD_WORD_AT_X, 1), &bytes), 0x0304_0506);
    assert_eq!(a_after(&at_x(opcode::LD_HALF_AT_X, 2), &bytes), 0x0405);
    assert_eq!(a_after(&at_x(opcode::LD_BYTE_AT_X, 2), &bytes), 4);
    assert_eq!(a_after(&[op(opcode::LDX_MSH, 0), op(opcode::TXA, 0)], &[0x47]), 28);
}

#[test]
fn a_load_out_of_range_rejects() {
    let bytes = [9; 6];
    let codes = [(opcode::LD_WORD, 4), (opcode::LD_HALF, 2), (opcode::LD_BYTE, 1), (opcode::LDX_MSH, 1)];
    for (code, count) in codes {
        let takes = |k: u32| verdict(&[op(code, k), op(opcode::RET, 1)], &bytes);
        assert_eq!(takes(6 - count), 1, "the last of {code:#x}");
        for k in [7 - count, 6, 7, u32::MAX - 3, u32::MAX] {
            assert_eq!(takes(k), 0, "{code:#x} at {k}");
        }
    }
    for (code, count) in [(opcode::LD_WORD_AT_X, 4), (opcode::LD_HALF_AT_X, 2), (opcode::LD_BYTE_AT_X, 1)] {
        let takes = |x: u32, k: u32| verdict(&[op(opcode::LDX_IMM, x), op(code, k), op(opcode::RET, 1)], &bytes);
        assert_eq!((takes(6 - count, 0), takes(0, 6 - count)), (1, 1));
        // A sum that wraps around is out of range, too.
        for (x, k) in [(7 - count, 0), (1, 6 - count), (u32::MAX, 1), (1, u32::MAX), (u32::MAX, u32::MAX)] {
            assert_eq!(takes(x, k), 0, "{code:#x} at {x} + {k}");
        }
    }
}

#[test]
fn arithmetic_wraps_around() {
    let of = |code: u16, a: u32, k: u32| {
        let by_constant = [op(opcode::LD_IMM, a), op(code, k)];
        let by_x = [op(opcode::LD_IMM, a), op(opcode::LDX_IMM, k), op(code | X, 0)];
        let result = a_after(&by_x, &[]);
        // Constants that are refused are tried with X alone.
        if let Ok(program) = Program::new(&[&by_constant[..], &[op(opcode::RET_A, 0)]].concat()) {
            assert_eq!(program.run(&Packet::new(&[], [&[], &[], &[]])), result);
        }
        result
    };
    assert_eq!(of(opcode::ADD, u32::MAX, 2), 1);
    assert_eq!(of(opcode::SUB, 1, 2), u32::MAX);
    assert_eq!(of(opcode::MUL, 0x8000_0001, 2), 2);
    assert_eq!((of(opcode::DIV, 7, 2), of(opcode::MOD, 7, 4)), (3, 3));
    assert_eq!((of(opcode::OR, 5, 3), of(opcode::AND, 5, 3), of(opcode::XOR, 5, 3)), (7, 1, 6));
    assert_eq!((of(opcode::LSH, 3, 31), of(opcode::RSH, 0x8000_0000, 31)), (0x8000_0000, 1));
    assert_eq!((of(opcode::LSH, 3, 32), of(opcode::RSH, 3, 33)), (0, 0));
    assert_eq!(a_after(&[op(opcode::LD_IMM, 1), op(opcode::NEG, 0)], &[]), u32::MAX);
}

#[test]
fn a_division_by_zero_rejects() {
    for code in [opcode::DIV, opcode::MOD] {
        let program = [op(opcode::LD_IMM, 5), op(opcode::LD_BYTE, 0), op(opcode::TAX, 0), op(code | X, 0)];
        let program = [&program[..], &[op(opcode::RET, 1)]].concat();
        assert_eq!((verdict(&program, &[0]), verdict(&program, &[1])), (0, 1));
    }
}

#[test]
fn jumps_compare_unsigned_and_skip_as_many_as_they_say() {
    let verdicts = |code: u16, a: u32, k: u32| {
        let ends = [op(opcode::RET, 10), op(opcode::RET, 20), op(opcode::RET, 30)];
        let by_constant = [&[op(opcode::LD_IMM, a), Instruction::jump(code, k, 1, 2)], &ends[..]].concat();
        let by_x = [op(opcode::LD_IMM, a), op(opcode::LDX_IMM, k), Instruction::jump(code | X, 0, 1, 2)];
        let result = verdict(&by_constant, &[]);
        assert_eq!(verdict(&[&by_x, &ends[..]].concat(), &[]), result);
        result
    };
    assert_eq!((verdicts(opcode::JEQ, 5, 5), verdicts(opcode::JEQ, 5, 6)), (20, 30));
    assert_eq!((verdicts(opcode::JGT, u32::MAX, 5), verdicts(opcode::JGT, 5, 5)), (20, 30));
    assert_eq!((verdicts(opcode::JGE, 5, 5), verdicts(opcode::JGE, 4, 5)), (20, 30));
    assert_eq!((verdicts(opcode::JSET, 6, 2), verdicts(opcode::JSET, 6, 1)), (20, 30));
    let skips = [op(opcode::JA, 1), op(opcode::RET, 1), op(opcode::RET, 2)];
    assert_eq!(verdict(&skips, &[]), 2);
}

#[test]
fn scratch_words_keep_what_was_written() {
    for word in 0..16 {
        let through_a = [op(opcode::LD_IMM, 7), op(opcode::ST, word), op(opcode::LD_IMM, 0), op(opcode::LD_MEM, word)];
        assert_eq!(a_after(&through_a, &[]), 7);
        let through_x = [op(opcode::LDX_IMM, 9), op(opcode::STX, word), op(opcode::LDX_MEM, word), op(opcode::TXA, 0)];
        assert_eq!(a_after(&through_x, &[]), 9);
    }
    let two =
        [op(opcode::LD_IMM, 7), op(opcode::ST, 0), op(opcode::LD_IMM, 8), op(opcode::ST, 15), op(opcode::LD_MEM, 0)];
    assert_eq!(a_after(&two, &[]), 7);
}

#[test]
fn lengths_are_those_of_the_whole_packet() {
    let program = Program::new(&[op(opcode::LD_LEN, 0), op(opcode::RET_A, 0)]).expect("a program");
    let by_x = Program::new(&[op(opcode::LDX_LEN, 0), op(opcode::TXA, 0), op(opcode::RET_A, 0)]).expect("a program");
    let packet = Packet::new(&[0; 3], [&[0; 4], &[], &[0; 5]]);
    assert_eq!((program.run(&packet), by_x.run(&packet)), (12, 12));
    let begun = packet.of_len(70_000);
    assert_eq!((program.run(&begun), by_x.run(&begun)), (70_000, 70_000));
}

#[test]
fn of_a_packet_that_came_header_first_the_rest_is_out_of_range() {
    let program = Program::new(&[op(opcode::LD_BYTE, 128), op(opcode::RET, 1)]).expect("a program");
    let (head, whole) = ([1; 128], [1; 200]);
    assert_eq!(program.run(&Packet::new(&[], [&head, &[], &[]]).of_len(200)), 0);
    assert_eq!(program.run(&Packet::new(&[], [&whole, &[], &[]])), 1);
}

#[test]
fn flags_are_loaded_as_a_word_alone() {
    let flags = Flags::new().sent().through_memory();
    let run = |code, k| {
        let program = Program::new(&[op(code, k), op(opcode::RET_A, 0)]).expect("a program");
        program.run(&Packet::new(&[], [&[1; 8], &[], &[]]).flagged(flags))
    };
    assert_eq!(run(opcode::LD_WORD, FLAGS_AT), 5);
    assert_eq!((run(opcode::LD_BYTE, FLAGS_AT), run(opcode::LD_WORD, FLAGS_AT + 1)), (0, 0));
    let at_x = [op(opcode::LDX_IMM, FLAGS_AT), op(opcode::LD_WORD_AT_X, 0), op(opcode::RET, 1)];
    assert_eq!(verdict(&at_x, &[1; 8]), 0, "no packet reaches there");
}

#[test]
fn the_four_instructions_of_the_paper_are_executed_as_three() {
    let program = Program::new(&[
        op(opcode::LD_HALF, 12),
        Instruction::jump(opcode::JEQ, 0x0800, 0, 1),
        op(opcode::RET, 96),
        op(opcode::RET, 0),
    ])
    .expect("a program");
    let mut frame = [0; 14];
    assert_eq!(program.run_counted(&Packet::new(&frame, [&[], &[], &[]])), (0, 3));
    frame[12] = 8;
    assert_eq!(program.run_counted(&Packet::new(&frame, [&[], &[], &[]])), (96, 3));
}

#[test]
fn a_program_reads_only_what_it_says() {
    let reads = |instructions: &[Instruction], first, end| {
        let program = Program::new(&[instructions, &[op(opcode::RET, 0)]].concat()).expect("a program");
        program.reads(first, end)
    };
    for (code, count) in [(opcode::LD_WORD, 4), (opcode::LD_HALF, 2), (opcode::LD_BYTE, 1), (opcode::LDX_MSH, 1)] {
        let load = [op(code, 10)];
        assert!(!reads(&load, 0, 10) && reads(&load, 0, 11), "{code:#x}");
        assert!(reads(&load, 9 + count, 20) && !reads(&load, 10 + count, 20), "{code:#x}");
    }
    for code in [opcode::LD_WORD_AT_X, opcode::LD_HALF_AT_X, opcode::LD_BYTE_AT_X] {
        assert!(reads(&[op(code, 10)], 500, 501) && !reads(&[op(code, 10)], 0, 10), "X may be anything");
    }
    assert!(!reads(&[op(opcode::LD_LEN, 0), op(opcode::LD_WORD, FLAGS_AT)], 0, FLAGS_AT));
}
