//! Why a program or a filter is refused, and where.

use crate::bounds::{NESTING_MAX, PROGRAM_MAX, TEXT_BYTES_MAX};

/// A program was refused. It does not exist then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("instruction {place}: {fault}")]
pub struct ProgramError {
    /// The instruction, from 0.
    pub place: usize,
    /// What is wrong with it.
    pub fault: ProgramFault,
}

/// What is wrong with an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramFault {
    /// There is none.
    #[error("a program has at least one")]
    Empty,
    /// There are too many.
    #[error("a program has at most {PROGRAM_MAX}")]
    TooLong,
    /// Nobody knows it.
    #[error("unknown operation")]
    Operation,
    /// It jumps beyond the last instruction.
    #[error("it jumps out of the program")]
    Jump,
    /// It names a scratch word beyond the last.
    #[error("there is no such scratch word")]
    Scratch,
    /// It reads a scratch word that was not written on some way to it.
    #[error("the scratch word was not written on every way here")]
    Unwritten,
    /// It divides by zero.
    #[error("division by zero")]
    Division,
    /// It shifts by more bits than a word has.
    #[error("shift by 32 or more")]
    Shift,
    /// It is the last one, and does not return.
    #[error("the last one does not return")]
    End,
}

/// A filter was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {place}: {fault}")]
pub struct FilterError {
    /// The byte of the text where the fault begins, from 0. The length of the text if something is missing at its end.
    pub place: usize,
    /// What is wrong there.
    pub fault: FilterFault,
}

/// What is wrong with a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterFault {
    /// The text is too long.
    #[error("a filter has at most {TEXT_BYTES_MAX} bytes")]
    TooLong,
    /// Too many parentheses or negations within each other, or changes between `and` and `or`.
    #[error("more than {NESTING_MAX} parentheses, negations and changes between 'and' and 'or'")]
    TooDeep,
    /// An expression needs more scratch words than there are.
    #[error("the expression is too complex")]
    TooComplex,
    /// The filter needs more instructions than a program may have.
    #[error("the filter needs more than {PROGRAM_MAX} instructions")]
    TooManyInstructions,
    /// A character that no filter has.
    #[error("unexpected character '{0}'")]
    Character(char),
    /// A name in quotes has no end.
    #[error("the name has no closing quote")]
    Quote,
    /// Something else should stand here.
    #[error("expected {expected}, not {found}")]
    Unexpected {
        /// What may stand here.
        expected: &'static str,
        /// What does.
        found: String,
    },
    /// A word that the language does not have.
    #[error("unknown word '{0}'")]
    UnknownWord(String),
    /// A word of tcpdump's language that is not in the subset.
    #[error("'{0}' is not in the subset of tcpdump's language")]
    NotInSubset(String),
    /// A word that cannot stand with another one, as `udp host`.
    #[error("'{0}' does not go with '{1}'")]
    Apart(&'static str, &'static str),
    /// A number that does not fit.
    #[error("'{0}' is no number from 0 to {1}")]
    Number(String, u64),
    /// What should be an address is none. Names of hosts are not looked up.
    #[error("'{0}' is no address; names of hosts are not looked up")]
    Address(String),
    /// An address of a network has bits beyond the prefix.
    #[error("the address has bits beyond its prefix")]
    Prefix,
    /// A rank, and not exactly one group that it can be of.
    #[error("a rank of which group? 'rank N of GROUP'")]
    WhichGroup,
    /// A remainder or an exclusive or beside another operator.
    #[error("'{0}' beside another operator needs parentheses")]
    Parentheses(&'static str),
    /// A constant division by zero.
    #[error("division by zero")]
    Division,
    /// A constant shift by 32 or more.
    #[error("shift by 32 or more")]
    Shift,
    /// A sealed tap cannot know it.
    #[error("'{0}' is inside the seal: this tap is sealed")]
    Sealed(&'static str),
    /// A clear tap shows no datagrams.
    #[error("'{0}' is of datagrams: this tap is clear")]
    Datagram(&'static str),
}
