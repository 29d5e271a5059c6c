//! Time spent on a campaign: wall-clock and processor time.

use std::ops::Add;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Seconds spent.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Spent {
    /// On the wall clock.
    pub(super) wall_s: f64,
    /// Processor time of all threads together, which is the meaningful figure on a shared machine.
    pub(super) cpu_s: f64,
}

impl Add for Spent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { wall_s: self.wall_s + other.wall_s, cpu_s: self.cpu_s + other.cpu_s }
    }
}

/// Measures the time since its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    began: Instant,
    cpu_began_s: f64,
}

impl Watch {
    pub(super) fn start() -> Self {
        Self { began: Instant::now(), cpu_began_s: cpu_seconds() }
    }

    pub(super) fn spent(&self) -> Spent {
        Spent { wall_s: self.began.elapsed().as_secs_f64(), cpu_s: cpu_seconds() - self.cpu_began_s }
    }
}

/// Processor time of this process so far.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
