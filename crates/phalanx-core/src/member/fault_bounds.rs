//! The cost of one fault: for each kind of fault, a bound on the time that the other members are without new messages.
//!
//! The bound is owed to the members on no faulty path, as long as they are a quorum with those ends of a failed link
//! that may stay, in cells in which everybody watches everybody. In a cell of two it is owed to the older member, for
//! faults of the younger one. Each bound follows from the rules that find the fault: silence in
//! [`super::FailureDetector`], paths in [`super::PathMonitor`] and `docs/progress.md`, slow members in `docs/flow.md`.
//! `phalanx sim --costs` measures them (`docs/costs.md`).

use std::time::Duration;

use crate::api::{Limits, SlowMembers, Timing};

/// One thing that is wrong, and stays so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// A process ended, and no operating system told the others.
    Dead,
    /// A process is stopped.
    Stopped,
    /// A member hears nobody, and is heard.
    Deaf,
    /// A member is not heard, and hears all.
    Mute,
    /// No packet passes between a member's data socket and those of others, one way or both.
    DataPort,
    /// The same for its control socket: heartbeats do not pass.
    ControlPort,
    /// Long packets do not pass.
    LongPackets,
    /// Nothing passes between two members.
    Link,
    /// Nothing passes from one member to another.
    OneWay,
    /// The turns of a process come [`LATE_TURN`] apart.
    LateTurns,
    /// An application takes nothing of what is due to it, while its process goes on.
    HangingApplication,
    /// A process asks for the state of a group and then takes nothing of it, or stops.
    HangingJoiner,
    /// The state directory of a process takes nothing more.
    FullDisk,
    /// A process can open no descriptor more.
    Descriptors,
    /// A link is whole and dead by turns.
    FlappingLink,
    /// All links of a member are whole and dead by turns.
    FlappingHost,
}

/// So far apart are the turns of a process that is late, where this stands for being late.
pub const LATE_TURN: Duration = Duration::from_millis(200);

/// Silence may be borne for twice `suspect_after`, where heartbeats came irregularly.
const JITTER: u32 = 2;
/// A suspicion is told, looked into by all others, and their findings are told, with heartbeats that may come late.
const REPORT_BEATS: u32 = 4;
/// A silent link between two members that others hear has to be so for some heartbeats more when all have looked into it.
const LINK_BEATS: u32 = 4;
/// Probes of paths: the patience with them in heartbeats at least, how many patiences pass, and what else, in heartbeats.
const PROBE_BEATS: u32 = 18;
const PROBE_PATIENCES: u32 = 3;
const PROBE_REST_BEATS: u32 = 16;
/// Steps of two ballots: the second waits four for the first, and each takes two.
const BALLOT_STEPS: u32 = 8;
/// A member that is heard and answers no coordinator is borne for so many times `suspect_after`.
const MUTE: u32 = 5;
/// A donor gives up a joiner that takes nothing for so long.
const DONOR: Duration = Duration::from_secs(10);
/// A message waits for a late member to take it, to order it, to take the acknowledgements, and to say that it is stable; and once more
/// where one of these packets is lost.
const LATE_TURNS: u32 = 5;
/// Without any fault a message comes at the latest after so many heartbeats: lost packets are sent again before.
const USUAL_BEATS: u32 = 2;

impl FaultKind {
    /// All of them.
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

    /// Its name, in one word.
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

    /// The longest that the members on no faulty path are without new messages, each time that the fault begins or comes back.
    /// `None`: for ever, as the settings say that a slow member is waited for.
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
            // Given up by its donor, or, if it is taken in already, found silent or slow.
            Self::HangingJoiner => silent.max(expelled).max(DONOR + heartbeat * REPORT_BEATS + view_change(timing)),
            // Nobody waits for a disk, or for a descriptor.
            Self::FullDisk | Self::Descriptors => usual(timing),
        })
    }
}

/// The longest that the silence of a member is borne.
#[must_use]
pub fn silence(timing: &Timing) -> Duration {
    suspect_after(timing) * JITTER
}

/// The longest that a coordinator bears a member that is heard and does not answer.
#[must_use]
pub fn muteness(timing: &Timing) -> Duration {
    suspect_after(timing) * MUTE
}

/// The longest that a view change takes in which everybody that is asked answers.
#[must_use]
pub fn view_change(timing: &Timing) -> Duration {
    timing.ballot_step * BALLOT_STEPS
}

/// The longest that a message takes where nothing is wrong.
#[must_use]
pub fn usual(timing: &Timing) -> Duration {
    timing.heartbeat * USUAL_BEATS
}

/// The longest that a process waits before it is taken in again, that was left out without a proof of its death. Then it has to be heard
/// for as long, if paths to it failed.
pub const HELD_BACK: Duration = Duration::from_secs(60);

/// As a process reckons it: no shorter than a few heartbeats.
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
