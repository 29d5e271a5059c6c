//! The settings that machines of the core read: periods and timeouts, and bounds.

use std::time::Duration;

/// Periods and timeouts of a process. The defaults suit a network with round trips of a few milliseconds.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Interval between heartbeats to each watcher. Default 100 ms.
    pub heartbeat: Duration,
    /// Silence after which a link is suspected; jitter is added. A shorter time finds silent members sooner, and
    /// mistakes more pauses for failures. A process that dies on this host is reported by its operating system, without
    /// this wait. Default 3 s.
    pub suspect_after: Duration,
    /// How long a coordinator waits for one step of a view change. Default 150 ms.
    pub ballot_step: Duration,
    /// Interval between probes of a process that looks for its cell. Default 100 ms.
    pub probe: Duration,
    /// The longest delay of an acknowledgement. Default 2 ms.
    pub ack_delay: Duration,
    /// Time without any progress after which a member that holds another's stream back is too slow, if
    /// [`Limits::slow_members`] lets such members leave. At least `suspect_after` is used, and at least
    /// eight exchanges with the farthest member (`docs/flow.md`). A shorter time frees the others sooner, and removes
    /// members that only paused. Default 10 s.
    pub expel_after: Duration,
    /// The longest gap between two polls of this process in normal operation, at most [`crate::TURN_GAP_MAX`]. A longer
    /// gap lets an application poll rarely; a view change then waits for its next poll, and its death is found later by
    /// the gap.
    ///
    /// The others tolerate its silence for so much longer, and it counts no poll within the gap as late. Up to 50 ms,
    /// or zero, adds nothing, because every process is granted 50 ms. Each process has its own value and advertises it
    /// when it joins. Default 50 ms.
    pub turn_gap_max: Duration,
    /// The longest time for which the last members of a cell wait before they leave together, if something would be lost
    /// with them: a group waits for a former member, or a member was left out, without proof of its death, since the first
    /// of them asked to leave. Each member has its own value. Zero waits for nobody. Default 5 s.
    pub end_wait: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(100),
            suspect_after: Duration::from_secs(3),
            ballot_step: Duration::from_millis(150),
            probe: Duration::from_millis(100),
            ack_delay: Duration::from_millis(2),
            expel_after: Duration::from_secs(10),
            turn_gap_max: Duration::from_millis(50),
            end_wait: Duration::from_secs(5),
        }
    }
}

/// Bounds on memory and on the number of members.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The most bytes that all streams of one group may hold until they are stable; split over its senders. Agreed: a
    /// joiner with another value is refused. Default 8 MiB.
    pub group_window_bytes: usize,
    /// The window of a channel, in bytes. Default 1 MiB.
    pub channel_window_bytes: usize,
    /// The most bytes accepted for sending that no packet holds yet, for each group. One message may exceed it. Default
    /// 1 MiB.
    pub outbox_bytes: usize,
    /// The most processes in a cell. Default 1,024.
    pub members: usize,
    /// Up to this many members, every member watches every other. In a larger cell each has about this many watchers,
    /// so that its heartbeats cost the same at any size of the cell. Agreed: a joiner takes the cell's value. Default
    /// 16.
    pub watchers: usize,
    /// Abcasts after which a group's token holder checks which member sends most, and may pass the token to it. A
    /// smaller number lets the token follow its senders sooner, and costs more passes. Members may differ. Default
    /// 1,024.
    pub token_tally: u64,
    /// What happens to a member that is alive and falls behind. Agreed: a joiner takes the cell's value. Default: it
    /// leaves.
    pub slow_members: SlowMembers,
    /// The least members of an adequate cell view. In a smaller view no uniform message is sent; view changes continue.
    /// A larger number keeps a few survivors from answering for all. If more are needed than can come back, nothing
    /// uniform is sent any more. Agreed from level 2 on: a joiner takes the cell's value. Default 1.
    pub members_min: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            group_window_bytes: 8 << 20,
            channel_window_bytes: 1 << 20,
            outbox_bytes: 1 << 20,
            members: 1024,
            watchers: 16,
            token_tally: 1024,
            slow_members: SlowMembers::Expel,
            members_min: 1,
        }
    }
}

/// What happens to a member that is alive and falls behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowMembers {
    /// Senders are held back until it catches up.
    Wait,
    /// After [`Timing::expel_after`], a view without it is decided. It comes back as a new incarnation.
    #[default]
    Expel,
}

/// The longest message, in bytes: 64 MiB.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// The most seed addresses that a process keeps, configured and learned.
pub const SEEDS_MAX: usize = 4096;
