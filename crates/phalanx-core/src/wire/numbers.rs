//! What names a packet beside its sender: a packet-number space, and a number in it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A packet-number space of one sender; never reused in an incarnation. Each stream, channel and kind of best-effort
/// packet has its own. In a packet of a session of calls this is the session's index at the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Space(pub u32);

impl Space {
    /// The space that is handed out after this one.
    #[must_use]
    #[inline]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
