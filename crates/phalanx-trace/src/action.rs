//! Operations on the objects that the members of a group replicate, and their outcomes.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// An operation. A group has registers, locks and bank accounts, each kind numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Action {
    /// Reads a register.
    Read {
        /// The register.
        key: u32,
    },
    /// Writes a register.
    Write {
        /// The register.
        key: u32,
        /// The value it holds from then on.
        value: u64,
    },
    /// Writes a register if it holds the expected value.
    Cas {
        /// The register.
        key: u32,
        /// The value it must hold.
        expected: u64,
        /// The value it holds afterwards, if it was written.
        value: u64,
    },
    /// Requests a lock.
    Acquire {
        /// The lock.
        lock: u32,
    },
    /// Releases a lock. From this record on its holder does not count itself as such.
    Release {
        /// The lock.
        lock: u32,
        /// The token it was granted with.
        token: u64,
    },
    /// Moves money from one account to another, if there is enough.
    Transfer {
        /// The account it is taken from.
        from: u32,
        /// The account it goes to.
        to: u32,
        /// The amount.
        amount: u64,
    },
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// Of a read: the register's value, 0 if it was never written. Of a compare-and-swap: the value before; the new
    /// value was written if that was the expected one.
    Value(u64),
    /// The write or the release is done.
    Done,
    /// The lock is granted.
    Granted {
        /// The fencing token of this grant: larger than that of every earlier grant of the lock.
        token: u64,
    },
    /// The lock is not granted, because another process holds it.
    Held {
        /// The holder's incarnation.
        holder: u64,
        /// The holder's token.
        token: u64,
    },
    /// The release was by a process that did not hold the lock, or the account held too little: nothing changed.
    Nothing,
    /// The operation was refused before it was sent: it never happened and never will.
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
