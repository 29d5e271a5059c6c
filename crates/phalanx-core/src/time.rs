//! Time in the core: nanoseconds from an arbitrary zero, passed in by the caller.

use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A moment, in nanoseconds from an arbitrary zero. The core never reads a clock: its caller passes the time, which
/// never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// The arbitrary zero.
    pub const ZERO: Self = Self(0);

    /// Time since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Nanoseconds from the arbitrary zero.
    #[must_use]
    pub fn nanos(self) -> u64 {
        self.0
    }
}

/// The longest gap between two polls that a process may declare, and that others grant it.
pub const TURN_GAP_MAX: Duration = Duration::from_secs(60);

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        // Saturates, because a duration may come from a setting or a peer. A timer that far ahead never fires anyway.
        Self(self.0.saturating_add(nanos(d)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(d)))
    }
}
