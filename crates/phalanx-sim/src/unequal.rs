//! Members with different settings: an operator raised a limit on one host and forgot the others.

use std::time::Duration;

use phalanx_core::rng::Rng;
use phalanx_core::{LEVEL, Limits, SlowMembers, Timing};

use crate::draw::index;

/// Settings in which one process differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// Length of the longest packet it sends or takes.
    pub packet_bytes: u32,
    /// The window of a channel.
    pub channel_window_bytes: usize,
    /// Interval between two heartbeats, in milliseconds.
    pub heartbeat_ms: u64,
    /// Silence after which a link is suspected, in milliseconds.
    pub suspect_after_ms: u64,
    /// Time limit of one step of a view change, in milliseconds.
    pub ballot_step_ms: u64,
    /// The longest time for which an acknowledgement is held back, in milliseconds.
    pub ack_delay_ms: u64,
    /// Agreed settings in which it differs, besides timing; `None`: those of the plan.
    pub agreed: Option<OwnAgreed>,
}

/// Settings that the cell agrees on, in one process in which they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnAgreed {
    /// Window of all streams of a group, in bytes.
    pub window_bytes: usize,
    /// Number of members up to which everybody watches everybody.
    pub watchers: usize,
    /// Time after which a slow member is expelled, in milliseconds.
    pub expel_after_ms: Option<u64>,
}

/// A cell between two builds. Each build knows its own level, and the later one's is one higher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builds {
    /// The level of the later build.
    pub later: u16,
    /// First incarnations in a million that run the later build.
    pub first_ppm: u32,
    /// Later incarnations in a million that do.
    pub later_ppm: u32,
    /// Application steps in a million that request the later build's level.
    pub raise_ppm: u32,
    /// The only process whose later incarnations run the earlier build; the rates then mean nothing, and the first
    /// process begins with the earlier build.
    pub returns: Option<usize>,
}

impl Builds {
    /// All incarnations run the later build, of the second level.
    pub const LATE: Self = Self { later: 2, first_ppm: 1_000_000, later_ppm: 1_000_000, raise_ppm: 0, returns: None };

    /// The level of the earlier build.
    #[must_use]
    pub const fn earlier(self) -> u16 {
        self.later - 1
    }

    /// Draws the level known to the build of a new incarnation of a process.
    pub(crate) fn draw(self, rng: &mut Rng, index: usize, first: bool) -> u16 {
        if let Some(returns) = self.returns {
            let is_earlier = index == if first { 0 } else { returns };
            return if is_earlier { self.earlier() } else { self.later };
        }
        let later = rng.chance_ppm(if first { self.first_ppm } else { self.later_ppm });
        if later { self.later } else { self.earlier() }
    }
}

/// Draws builds for a third of the seeds: those of the first rise that there was, or of the last.
pub(crate) fn draw_builds(rng: &mut Rng) -> Option<Builds> {
    rng.chance_ppm(330_000).then(|| Builds {
        first_ppm: [0, 300_000, 800_000, 1_000_000][index(rng, 4)],
        later_ppm: [300_000, 900_000, 1_000_000][index(rng, 3)],
        raise_ppm: [2_000, 20_000, 100_000][index(rng, 3)],
        returns: None,
        later: [Builds::LATE.later, LEVEL][index(rng, 2)],
    })
}

/// Draws settings in which members differ; in most seeds none. None of them may break a promise.
pub(crate) fn draw_unequal(rng: &mut Rng, members: usize) -> Vec<Own> {
    if rng.chance_ppm(150_000) { draw_all(rng, members) } else { Vec::new() }
}

/// Draws such settings for every member.
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

/// Gives some of these members agreed settings that differ from the rest. A joiner takes the cell's settings, or is
/// kept out. Founders share one window, or they would found nothing.
pub(crate) fn break_rules(rng: &mut Rng, unequal: &mut [Own], window_bytes: usize, founders: usize) {
    for (slot, own) in unequal.iter_mut().enumerate() {
        if rng.chance_ppm(500_000) {
            let watchers = [2, 3, 16][index(rng, 3)];
            let expel_after_ms = rng.chance_ppm(500_000).then(|| 1000 + rng.below(3000));
            let other = rng.chance_ppm(200_000).then(|| (window_bytes >> (1 + rng.below(3))).max(16 << 10));
            let window_bytes = other.filter(|_| slot >= founders).unwrap_or(window_bytes);
            own.agreed = Some(OwnAgreed { window_bytes, watchers, expel_after_ms });
        }
    }
}

impl Own {
    /// Applies the differing settings to those of all other processes.
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
