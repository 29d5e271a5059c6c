//! Members whose settings are not the same: somebody raised a limit on one host and forgot the others.

use std::time::Duration;

use phalanx_core::rng::Rng;
use phalanx_core::{Limits, SlowMembers, Timing};

use crate::plan::Plan;
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
    /// Unheard this long, a link is suspected, in milliseconds.
    pub suspect_after_ms: u64,
    /// Patience with one step of a view change, in milliseconds.
    pub ballot_step_ms: u64,
    /// The longest an acknowledgement is held back, in milliseconds.
    pub ack_delay_ms: u64,
    /// Of those settings that the cell agrees on beside timing: as the plan has them, unless said here.
    pub agreed: Option<OwnAgreed>,
}

/// Settings that the cell agrees on, in one process that has them otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnAgreed {
    /// What all streams of a group may hold until stable.
    pub window_bytes: usize,
    /// Up to so many members, everybody watches everybody.
    pub watchers: usize,
    /// Expels those that stay behind, after so many milliseconds.
    pub expel_after_ms: Option<u64>,
}

/// A cell between two builds: each knows the level of its own, the later one a level more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builds {
    /// First lives that run the later build, of a million.
    pub first_ppm: u32,
    /// Later lives that do.
    pub later_ppm: u32,
    /// Steps of an application that ask for the later build's level, of a million.
    pub raise_ppm: u32,
}

impl Builds {
    /// The level of an earlier build.
    pub const EARLIER: u16 = 1;
    /// The level of a later one.
    pub const LATER: u16 = 2;

    /// The level that the build of a new life knows.
    pub(crate) fn draw(self, rng: &mut Rng, first: bool) -> u16 {
        let later = rng.chance_ppm(if first { self.first_ppm } else { self.later_ppm });
        if later { Self::LATER } else { Self::EARLIER }
    }
}

/// A third of the seeds are on their way from one build to the next.
pub(crate) fn draw_builds(rng: &mut Rng) -> Option<Builds> {
    rng.chance_ppm(330_000).then(|| Builds {
        first_ppm: [0, 300_000, 800_000, 1_000_000][index(rng, 4)],
        later_ppm: [300_000, 900_000, 1_000_000][index(rng, 3)],
        raise_ppm: [2_000, 20_000, 100_000][index(rng, 3)],
    })
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
        agreed: None,
    };
    (0..members).map(|_| own()).collect()
}

/// Some of the members with settings of their own have agreed ones otherwise than the rest: a joiner takes the cell's, or is kept
/// out. Founders have one window, or they would found nothing.
pub(crate) fn break_rules(rng: &mut Rng, plan: &mut Plan) {
    let window_bytes = plan.window_bytes;
    for (slot, own) in plan.unequal.iter_mut().enumerate() {
        if rng.chance_ppm(500_000) {
            let watchers = [2, 3, 16][index(rng, 3)];
            let expel_after_ms = rng.chance_ppm(500_000).then(|| 1000 + rng.below(3000));
            let other = rng.chance_ppm(200_000).then(|| (window_bytes >> (1 + rng.below(3))).max(16 << 10));
            let window_bytes = other.filter(|_| slot >= plan.founders).unwrap_or(window_bytes);
            own.agreed = Some(OwnAgreed { window_bytes, watchers, expel_after_ms });
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
        if let Some(other) = self.agreed {
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
