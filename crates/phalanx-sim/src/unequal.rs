//! Members whose settings are not the same: somebody raised a limit on one host and forgot the others.

use std::time::Duration;

use phalanx_core::rng::Rng;
use phalanx_core::{Limits, SlowMembers, Timing};

use crate::swarm::index;

/// What one process is configured with in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// The longest packet it sends or takes.
    pub packet_bytes: u32,
    /// The window of a channel.
    pub channel_window_bytes: usize,
    /// Between two heartbeats, in milliseconds.
    pub heartbeat_ms: u64,
    /// Unheard this long, a link is accused, in milliseconds.
    pub suspect_after_ms: u64,
    /// Patience with one step of a view change, in milliseconds.
    pub ballot_step_ms: u64,
    /// The longest an acknowledgement is held back, in milliseconds.
    pub ack_delay_ms: u64,
    /// Of those settings that the documents want equal at all members: as the plan has them, unless said here.
    pub must_be_equal: Option<MustBeEqual>,
}

/// Settings that the documents want to be the same at all members, in one that has them otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MustBeEqual {
    /// What all streams of a group may hold until stable.
    pub window_bytes: usize,
    /// Up to so many members, everybody watches everybody.
    pub watchers: usize,
    /// Expels those that stay behind, after so many milliseconds.
    pub expel_after_ms: Option<u64>,
}

/// What the members of a seed have of their own; mostly nothing. None of it may break a promise.
pub(crate) fn draw_unequal(rng: &mut Rng, members: usize) -> Vec<Own> {
    if rng.chance_ppm(150_000) { draw_all(rng, members) } else { Vec::new() }
}

/// The same for every member, each with its own.
pub(crate) fn draw_all(rng: &mut Rng, members: usize) -> Vec<Own> {
    let mut own = || Own {
        packet_bytes: [1200, 1472, 1472, 4000, 8972][index(rng, 5)],
        channel_window_bytes: [1 << 20, 256 << 10, 64 << 10][index(rng, 3)],
        heartbeat_ms: 80 + rng.below(70),
        suspect_after_ms: 900 + rng.below(600),
        ballot_step_ms: 100 + rng.below(200),
        ack_delay_ms: [0, 2, 2, 10][index(rng, 4)],
        must_be_equal: None,
    };
    (0..members).map(|_| own()).collect()
}

/// Some of `all` have what must be the same at all members otherwise than the rest.
pub(crate) fn break_rules(rng: &mut Rng, all: &mut [Own], window_bytes: usize) {
    for own in all {
        if rng.chance_ppm(500_000) {
            let watchers = [2, 3, 16][index(rng, 3)];
            let expel_after_ms = rng.chance_ppm(500_000).then(|| 1000 + rng.below(3000));
            let window_bytes = (window_bytes >> rng.below(4)).max(16 << 10);
            own.must_be_equal = Some(MustBeEqual { window_bytes, watchers, expel_after_ms });
        }
    }
}

impl Own {
    /// Changes what a process would have if it were like all others.
    pub(crate) fn apply(&self, timing: &mut Timing, limits: &mut Limits) {
        timing.heartbeat = Duration::from_millis(self.heartbeat_ms);
        timing.suspect_after = Duration::from_millis(self.suspect_after_ms);
        timing.ballot_step = Duration::from_millis(self.ballot_step_ms);
        timing.ack_delay = Duration::from_millis(self.ack_delay_ms);
        timing.expel_after = timing.expel_after.max(timing.suspect_after);
        limits.channel_window_bytes = self.channel_window_bytes;
        if let Some(other) = self.must_be_equal {
            limits.group_window_bytes = other.window_bytes;
            limits.outbox_bytes = limits.outbox_bytes.min(other.window_bytes / 8);
            limits.watchers = other.watchers;
            limits.slow_members = other.expel_after_ms.map_or(SlowMembers::Wait, |_| SlowMembers::Expel);
            if let Some(after_ms) = other.expel_after_ms {
                timing.expel_after = Duration::from_millis(after_ms).max(timing.suspect_after);
            }
        }
    }
}
