//! The cost of one fault: for each kind of fault, a bound on the time that the other members are without new messages.
//!
//! The bound is owed to the members on no faulty path, as long as they are a quorum with those ends of a failed link
//! that may stay, in cells in which everybody watches everybody. In a cell of two it is owed to the older member, for
//! faults of the younger one. Each bound follows from the rules that find the fault: silence in
//! [`super::FailureDetector`], paths in [`super::PathMonitor`] and `docs/progress.md`, slow members in `docs/flow.md`.
//! `phalanx sim --costs` measures them (`docs/costs.md`).

use std::time::Duration;

use crate::api::{Limits, SlowMembers, Timing};

/// A fault that stays until it is repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// A process ended, and no operating system reported it.
    Dead,
    /// A process is stopped.
    Stopped,
    /// A member hears nobody, and others hear it.
    Deaf,
    /// Others do not hear a member, and it hears all.
    Mute,
    /// No packet passes between a member's data socket and those of others, in one direction or both.
    DataPort,
    /// No packet passes between a member's control socket and those of others: heartbeats do not arrive.
    ControlPort,
    /// Long packets do not arrive.
    LongPackets,
    /// Nothing passes between two members.
    Link,
    /// Nothing passes from one member to another.
    OneWay,
    /// The polls of a process are [`LATE_TURN`] apart.
    LateTurns,
    /// An application takes nothing, while its process continues.
    HangingApplication,
    /// A joiner requests the state of a group and then takes nothing of it, or stops.
    HangingJoiner,
    /// The state directory of a process takes no more bytes.
    FullDisk,
    /// A process can open no more descriptors.
    Descriptors,
    /// A link fails and works in turn.
    FlappingLink,
    /// All links of a member fail and work in turn.
    FlappingHost,
}

/// Interval between the polls of a late process, in this fault.
pub const LATE_TURN: Duration = Duration::from_millis(200);

/// Silence is tolerated for up to twice `suspect_after`, where heartbeats are irregular.
const JITTER: u32 = 2;
/// Heartbeats until a suspicion is reported, checked by all others, and their findings are reported. Some may come
/// late.
const REPORT_BEATS: u32 = 4;
/// Further heartbeats for which a silent link between two members that others hear must stay silent after all have
/// checked it.
const LINK_BEATS: u32 = 4;
/// Probes of paths: the least patience with them in heartbeats, how many patiences pass, and the remaining steps in
/// heartbeats.
const PROBE_BEATS: u32 = 18;
const PROBE_PATIENCES: u32 = 3;
const PROBE_REST_BEATS: u32 = 16;
/// Steps of two ballots: the second coordinator waits four for the first, and each ballot takes two.
const BALLOT_STEPS: u32 = 8;
/// How many times `suspect_after` a member may be heard without answering a coordinator.
const MUTE: u32 = 5;
/// Time after which a donor gives up a joiner that takes nothing.
const DONOR: Duration = Duration::from_secs(10);
/// Polls of a late member until a message is delivered: to receive it, to order it, to take the acks, to announce
/// stability; and one more if one of these packets is lost.
const LATE_TURNS: u32 = 5;
/// Heartbeats within which a message arrives without any fault. Lost packets are retransmitted before that.
const USUAL_BEATS: u32 = 2;

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 16] = [
        Self::Dead,
        Self::Stopped,
        Self::Deaf,
        Self::Mute,
        Self::DataPort,
        Self::ControlPort,
        Self::LongPackets,
        Self::Link,
        Self::OneWay,
        Self::LateTurns,
        Self::HangingApplication,
        Self::HangingJoiner,
        Self::FullDisk,
        Self::Descriptors,
        Self::FlappingLink,
        Self::FlappingHost,
    ];

    /// The kind's name, in one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Stopped => "stopped",
            Self::Deaf => "deaf",
            Self::Mute => "mute",
            Self::DataPort => "data-port",
            Self::ControlPort => "control-port",
            Self::LongPackets => "long-packets",
            Self::Link => "link",
            Self::OneWay => "one-way",
            Self::LateTurns => "late-turns",
            Self::HangingApplication => "hanging-application",
            Self::HangingJoiner => "hanging-joiner",
            Self::FullDisk => "full-disk",
            Self::Descriptors => "descriptors",
            Self::FlappingLink => "flapping-link",
            Self::FlappingHost => "flapping-host",
        }
    }

    /// The longest time without new messages for the members on no faulty path, each time that the fault begins or
    /// returns. `None` if it is unbounded, because the settings let senders wait for a slow member.
    #[must_use]
    pub fn costs_at_most(self, timing: &Timing, limits: &Limits) -> Option<Duration> {
        let Timing { heartbeat, expel_after, .. } = *timing;
        let silent = silence(timing) + heartbeat * REPORT_BEATS + view_change(timing);
        let expelled = expel_after.max(suspect_after(timing)) + heartbeat * REPORT_BEATS + view_change(timing);
        Some(match self {
            Self::Dead | Self::Stopped | Self::Deaf | Self::Mute => silent,
            Self::FlappingHost => silent,
            Self::Link | Self::OneWay | Self::FlappingLink => silent + heartbeat * LINK_BEATS,
            Self::DataPort | Self::ControlPort | Self::LongPackets => {
                let patience = suspect_after(timing).max(heartbeat * PROBE_BEATS);
                patience * PROBE_PATIENCES + heartbeat * PROBE_REST_BEATS + view_change(timing)
            }
            Self::LateTurns => LATE_TURN * LATE_TURNS + usual(timing),
            Self::HangingApplication if limits.slow_members == SlowMembers::Wait => return None,
            Self::HangingApplication => expelled,
            // The donor gives it up. If it is a member already, it is found silent or slow.
            Self::HangingJoiner => silent.max(expelled).max(DONOR + heartbeat * REPORT_BEATS + view_change(timing)),
            // No member waits for another's disk or descriptor.
            Self::FullDisk | Self::Descriptors => usual(timing),
        })
    }
}

/// The longest tolerated silence of a member.
#[must_use]
pub fn silence(timing: &Timing) -> Duration {
    suspect_after(timing) * JITTER
}

/// The longest time for which a coordinator waits for a member that is heard and does not answer.
#[must_use]
pub fn muteness(timing: &Timing) -> Duration {
    suspect_after(timing) * MUTE
}

/// The longest view change in which all members that are asked answer.
#[must_use]
pub fn view_change(timing: &Timing) -> Duration {
    timing.ballot_step * BALLOT_STEPS
}

/// The longest delay of a message without any fault.
#[must_use]
pub fn usual(timing: &Timing) -> Duration {
    timing.heartbeat * USUAL_BEATS
}

/// The longest time that a process waits before it is taken in again, if it was left out without proof of its death. If
/// paths to it failed, it must then be heard for as long.
pub const HELD_BACK: Duration = Duration::from_secs(60);

/// `suspect_after` as a process uses it: at least a few heartbeats, so that one lost heartbeat suspects nobody.
fn suspect_after(timing: &Timing) -> Duration {
    timing.suspect_after.max(timing.heartbeat * 9 / 2)
}

#[cfg(test)]
mod tests {
    use super::super::{RemovalEvidence, Removals};
    use super::*;
    use crate::id::Incarnation;
    use crate::time::Instant;

    fn costs(kind: FaultKind) -> u128 {
        let (timing, limits) = (Timing::default(), Limits::default());
        kind.costs_at_most(&timing, &limits).expect("by default nobody is waited for").as_millis()
    }

    #[test]
    fn with_the_defaults_each_kind_costs_what_the_documents_say() {
        let table = [
            (FaultKind::Dead, 7_600),
            (FaultKind::OneWay, 8_000),
            (FaultKind::FlappingHost, 7_600),
            (FaultKind::DataPort, 11_800),
            (FaultKind::LongPackets, 11_800),
            (FaultKind::LateTurns, 1_200),
            (FaultKind::HangingApplication, 11_600),
            (FaultKind::HangingJoiner, 11_600),
            (FaultKind::FullDisk, 200),
        ];
        for (kind, ms) in table {
            assert_eq!(costs(kind), ms, "{}", kind.name());
        }
    }

    #[test]
    fn short_patience_is_stretched_to_a_few_heartbeats() {
        let timing = Timing { suspect_after: Duration::from_millis(100), ..Timing::default() };
        assert_eq!(silence(&timing), Duration::from_millis(900));
        let costs = FaultKind::DataPort.costs_at_most(&timing, &Limits::default());
        assert_eq!(costs, Some(Duration::from_millis(3 * 1_800 + 1_600 + 1_200)));
    }

    #[test]
    fn who_is_waited_for_is_waited_for_without_end() {
        let limits = Limits { slow_members: SlowMembers::Wait, ..Limits::default() };
        for kind in FaultKind::ALL {
            let bounded = kind.costs_at_most(&Timing::default(), &limits).is_some();
            assert_eq!(bounded, kind != FaultKind::HangingApplication, "{}", kind.name());
        }
    }

    #[test]
    fn nobody_is_held_back_for_longer() {
        let (mut removals, at) = (Removals::default(), Instant(0));
        (0..20).for_each(|_| removals.remove(at, "n", Incarnation(1), RemovalEvidence::default()));
        assert_eq!(removals.waits(at, "n"), HELD_BACK);
        let steady = removals.of("n").map(|removal| removal.steady_for(&[Incarnation(1)]));
        assert_eq!(steady, Some(HELD_BACK));
    }

    #[test]
    fn names_are_of_one_word_each() {
        let names: std::collections::BTreeSet<&str> = FaultKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), FaultKind::ALL.len());
    }
}
