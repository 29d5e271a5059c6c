//! Arbitrary bytes as a program of the packet filter and a packet in parts: an accepted program ends within its length, and
//! reads the packet alike wherever it is cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_tap::{Flags, Instruction, PROGRAM_MAX, Packet, Program, opcode};

/// The known operations: drawn by number, most programs are accepted.
const KNOWN: [u16; 49] = [
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x0c, 0x14, 0x15, 0x16, 0x1c, 0x1d, 0x20, 0x24, 0x25, 0x28, 0x2c,
    0x2d, 0x30, 0x34, 0x35, 0x3c, 0x3d, 0x40, 0x44, 0x45, 0x48, 0x4c, 0x4d, 0x50, 0x54, 0x5c, 0x60, 0x61, 0x64, 0x6c,
    0x74, 0x7c, 0x80, 0x81, 0x84, 0x87, 0x94, 0x9c, 0xa4, 0xac, 0xb1,
];

fuzz_target!(|bytes: &[u8]| {
    let [count, rest @ ..] = bytes else { return };
    let Some((cuts, rest)) = rest.split_first_chunk::<3>() else { return };
    let (code, packet) = rest.split_at(rest.len().min(usize::from(*count) * 8));
    let instructions: Vec<Instruction> = code.as_chunks().0.iter().map(|one| instruction(*one)).collect();
    // Once as it is, and once with an end, without which most programs are refused.
    for end in [&[][..], &[Instruction::new(opcode::RET_A, 0)]] {
        let instructions = [&instructions, end].concat();
        match Program::new(&instructions) {
            Ok(program) => run(&program, packet, *cuts),
            Err(error) => assert!(error.place <= instructions.len().min(PROGRAM_MAX)),
        }
    }
});

fn instruction([code, high, yes, no, a, b, c, d]: [u8; 8]) -> Instruction {
    let known = KNOWN[usize::from(code) % KNOWN.len()];
    let code = if high == 0xff { u16::from(code) << 8 | u16::from(d) } else { known };
    Instruction { code, yes, no, k: u32::from_le_bytes([a, b, c, d]) }
}

fn run(program: &Program, bytes: &[u8], cuts: [u8; 3]) {
    let mut cuts = cuts.map(|cut| usize::from(cut).min(bytes.len()));
    cuts.sort_unstable();
    let [a, b, c] = cuts;
    let whole = Packet::new(bytes, [&[], &[], &[]]).flagged(Flags::new().sent());
    let parts = Packet::new(&bytes[..a], [&bytes[a..b], &bytes[b..c], &bytes[c..]]).flagged(Flags::new().sent());
    let (verdict, count) = program.run_counted(&whole);
    assert!(count <= program.instructions().len(), "it executes nothing twice");
    assert_eq!(program.run_counted(&parts), (verdict, count));
    let mut kept = [0; 64];
    let copied = parts.copy(verdict, &mut kept);
    assert_eq!(kept[..copied], bytes[..copied]);
    if !program.reads(0, 8) {
        // What it does not read may hold anything.
        let mut changed = bytes.to_vec();
        changed.iter_mut().take(8).for_each(|byte| *byte ^= 0x5a);
        let changed = Packet::new(&changed, [&[], &[], &[]]).flagged(Flags::new().sent());
        assert_eq!(program.run_counted(&changed), (verdict, count));
    }
}
