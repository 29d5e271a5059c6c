//! How large a filter and its program may be.

/// The most instructions of a program: as many as Linux takes.
pub const PROGRAM_MAX: usize = 4096;

/// The scratch words of a program, as everywhere.
pub(crate) const SCRATCH: usize = 16;

/// The longest text of a filter, in bytes.
pub const TEXT_BYTES_MAX: usize = 4096;

/// The most parentheses and negations within each other, and changes between `and` and `or` one after the other. It
/// bounds the stack of whoever parses and compiles.
pub const NESTING_MAX: usize = 64;

/// The most operators of one comparison. It bounds the stack, too.
pub(crate) const OPERATORS_MAX: usize = 64;
