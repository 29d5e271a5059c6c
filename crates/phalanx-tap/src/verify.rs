//! What makes a program safe to run: known operations, forward jumps inside it, an end, and no use of what is not there.

use crate::bounds::{PROGRAM_MAX, SCRATCH};
use crate::error::{ProgramError, ProgramFault};
use crate::instruction::{Instruction, opcode};
use crate::layout::FLAGS_AT;
use crate::step::{Operation, Step, Test};

/// Decodes a program that keeps the rules (`docs/tap.md`, *Programs*).
pub(crate) fn verified(instructions: &[Instruction]) -> Result<Vec<Step>, ProgramError> {
    if instructions.is_empty() {
        return Err(ProgramError { place: 0, fault: ProgramFault::Empty });
    }
    if instructions.len() > PROGRAM_MAX {
        return Err(ProgramError { place: PROGRAM_MAX, fault: ProgramFault::TooLong });
    }
    let at = |place: usize| move |fault| ProgramError { place, fault };
    let mut steps = Vec::with_capacity(instructions.len());
    for (place, instruction) in instructions.iter().enumerate() {
        let step = decoded(*instruction).map_err(at(place))?;
        // All distances are unsigned, so that a jump goes forward or nowhere.
        let left = instructions.len() - place - 1;
        let is_inside = |distance: u32| (distance as usize) < left;
        let is_good = match step {
            Step::Skip(k) => is_inside(k),
            Step::If { yes, no, .. } | Step::IfX { yes, no, .. } => is_inside(yes.into()) && is_inside(no.into()),
            _ => true,
        };
        if !is_good {
            return Err(at(place)(ProgramFault::Jump));
        }
        steps.push(step);
    }
    // The others go on or jump forward, so each way ends at the last one at the latest.
    if !matches!(steps.last(), Some(Step::Return(_) | Step::ReturnA)) {
        return Err(at(instructions.len() - 1)(ProgramFault::End));
    }
    match first_unwritten(&steps) {
        Some(place) => Err(at(place)(ProgramFault::Unwritten)),
        None => Ok(steps),
    }
}

/// The first instruction that reads a scratch word which is not written on every way to it. Jumps go forward, so that one
/// pass has seen all ways to an instruction when it comes to it.
fn first_unwritten(steps: &[Step]) -> Option<usize> {
    // One bit for each scratch word, for each instruction. Where no way leads, all of them count as written.
    let mut written = vec![u16::MAX; steps.len()];
    written[0] = 0;
    for (place, step) in steps.iter().enumerate() {
        let mut here = written[place];
        let mut goes_on = |distance: usize, here: u16| {
            if let Some(there) = written.get_mut(place + 1 + distance) {
                *there &= here;
            }
        };
        match *step {
            Step::Mem(word) | Step::XMem(word) if here & 1 << word == 0 => return Some(place),
            Step::Store(word) | Step::StoreX(word) => {
                here |= 1 << word;
                goes_on(0, here);
            }
            Step::Skip(k) => goes_on(k as usize, here),
            Step::If { yes, no, .. } | Step::IfX { yes, no, .. } => {
                goes_on(yes.into(), here);
                goes_on(no.into(), here);
            }
            Step::Return(_) | Step::ReturnA => {}
            _ => goes_on(0, here),
        }
    }
    None
}

fn decoded(instruction: Instruction) -> Result<Step, ProgramFault> {
    let Instruction { code, yes, no, k } = instruction;
    Ok(match code {
        opcode::LD_WORD if k == FLAGS_AT => Step::Flags,
        opcode::LD_WORD => Step::Word(k),
        opcode::LD_HALF => Step::Half(k),
        opcode::LD_BYTE => Step::Byte(k),
        opcode::LD_WORD_AT_X => Step::WordAtX(k),
        opcode::LD_HALF_AT_X => Step::HalfAtX(k),
        opcode::LD_BYTE_AT_X => Step::ByteAtX(k),
        opcode::LD_IMM => Step::Imm(k),
        opcode::LD_MEM => Step::Mem(scratch(k)?),
        opcode::LD_LEN => Step::Len,
        opcode::LDX_IMM => Step::XImm(k),
        opcode::LDX_MEM => Step::XMem(scratch(k)?),
        opcode::LDX_LEN => Step::XLen,
        opcode::LDX_MSH => Step::XHeader(k),
        opcode::ST => Step::Store(scratch(k)?),
        opcode::STX => Step::StoreX(scratch(k)?),
        opcode::NEG => Step::Negate,
        opcode::JA => Step::Skip(k),
        opcode::RET => Step::Return(k),
        opcode::RET_A => Step::ReturnA,
        opcode::TAX => Step::ToX,
        opcode::TXA => Step::ToA,
        _ => {
            let is_x = code & opcode::X != 0;
            if let Some(test) = test(code & !opcode::X) {
                return Ok(if is_x { Step::IfX { test, yes, no } } else { Step::If { test, yes, no, k } });
            }
            match operation(code & !opcode::X).ok_or(ProgramFault::Operation)? {
                operation if is_x => Step::CalcX(operation),
                Operation::Div | Operation::Mod if k == 0 => return Err(ProgramFault::Division),
                Operation::Lsh | Operation::Rsh if k >= 32 => return Err(ProgramFault::Shift),
                operation => Step::Calc(operation, k),
            }
        }
    })
}

fn scratch(k: u32) -> Result<u8, ProgramFault> {
    match u8::try_from(k) {
        Ok(word) if usize::from(word) < SCRATCH => Ok(word),
        Ok(_) | Err(_) => Err(ProgramFault::Scratch),
    }
}

fn test(code: u16) -> Option<Test> {
    Some(match code {
        opcode::JEQ => Test::Equal,
        opcode::JGT => Test::Greater,
        opcode::JGE => Test::AtLeast,
        opcode::JSET => Test::Common,
        _ => return None,
    })
}

fn operation(code: u16) -> Option<Operation> {
    Some(match code {
        opcode::ADD => Operation::Add,
        opcode::SUB => Operation::Sub,
        opcode::MUL => Operation::Mul,
        opcode::DIV => Operation::Div,
        opcode::MOD => Operation::Mod,
        opcode::AND => Operation::And,
        opcode::OR => Operation::Or,
        opcode::XOR => Operation::Xor,
        opcode::LSH => Operation::Lsh,
        opcode::RSH => Operation::Rsh,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
