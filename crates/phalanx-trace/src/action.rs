//! What is asked of the objects that the members of a group replicate, and what comes of it.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// What an operation asks for. A group has registers, locks and bank accounts, each kind numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Action {
    /// Reads a register.
    Read {
        /// Which.
        key: u32,
    },
    /// Writes a register.
    Write {
        /// Which.
        key: u32,
        /// What it holds from then on.
        value: u64,
    },
    /// Writes a register if it holds what is expected.
    Cas {
        /// Which.
        key: u32,
        /// What it must hold.
        expected: u64,
        /// What it then holds.
        value: u64,
    },
    /// Asks for a lock.
    Acquire {
        /// Which.
        lock: u32,
    },
    /// Gives a lock back; from here on its holder does not count itself as such.
    Release {
        /// Which.
        lock: u32,
        /// The token it was granted with.
        token: u64,
    },
    /// Moves money from one account to another, if there is enough.
    Transfer {
        /// Where it is taken.
        from: u32,
        /// Where it goes.
        to: u32,
        /// How much.
        amount: u64,
    },
}

/// What came of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// Of a read: what the register held, 0 if it was never written. Of a compare-and-swap: what it held before; it
    /// was written if that is what was expected.
    Value(u64),
    /// Written, or given back.
    Done,
    /// The lock is granted.
    Granted {
        /// The fencing token of this grant: larger than that of every earlier grant of the lock.
        token: u64,
    },
    /// The lock is not granted, because another process holds it.
    Held {
        /// Who.
        holder: u64,
        /// With this token.
        token: u64,
    },
    /// Given back by one that did not hold it, or not enough money: nothing changed.
    Nothing,
    /// It was refused where it was asked for: it never happened and never will.
    NotSent,
}

impl Display for Action {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { key } => write!(f, "read register {key}"),
            Self::Write { key, value } => write!(f, "write {value} to register {key}"),
            Self::Cas { key, expected, value } => write!(f, "write {value} to register {key} if it holds {expected}"),
            Self::Acquire { lock } => write!(f, "acquire lock {lock}"),
            Self::Release { lock, token } => write!(f, "release lock {lock} of token {token:#x}"),
            Self::Transfer { from, to, amount } => write!(f, "move {amount} from account {from} to {to}"),
        }
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "{value}"),
            Self::Done => f.write_str("done"),
            Self::Granted { token } => write!(f, "granted with token {token:#x}"),
            Self::Held { holder, token } => write!(f, "held by {holder:016x} with token {token:#x}"),
            Self::Nothing => f.write_str("nothing changed"),
            Self::NotSent => f.write_str("not sent"),
        }
    }
}
