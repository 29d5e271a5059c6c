//! The faults, and the roles of the members that suffer them.

use std::time::Duration;

use clap::ValueEnum;
use phalanx_runtime::core::member::FaultKind;
use phalanx_runtime::core::{Limits, Timing};

/// A single fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Fault {
    /// SIGKILL; started again when the others have excluded it
    Kill,
    /// SIGSTOP and SIGCONT, shorter than the time to be suspected
    StopShort,
    /// SIGSTOP, and SIGCONT long after the exclusion
    StopLong,
    /// One packet in twenty to and from it is lost
    #[value(name = "loss-5")]
    Loss5,
    /// Three packets in ten to and from it are lost
    #[value(name = "loss-30")]
    Loss30,
    /// It hears no other member, and is heard
    CutIn,
    /// No other member hears it; it hears all
    CutOut,
    /// Cut off, both ways
    Isolate,
    /// It and one other member do not reach each other; everybody else reaches both
    CutPair,
    /// Nothing passes from it to one other member, which it hears
    OneWay,
    /// It is on the smaller of two sides
    TwoSides,
    /// Cut off and healed every 300 ms
    Flap,
    /// Three packets in ten to and from it come twice
    Duplicate,
    /// Packets longer than 1,000 bytes are lost
    MtuHole,
    /// Nothing passes to data ports, from it or to it; heartbeats do
    DataPort,
    /// Nothing passes to control ports, from it or to it; data does
    ControlPort,
    /// Three in ten packets to it are refused with "port unreachable"
    Refuse,
    /// Half of its sends fail with EPERM
    SendRefused,
    /// Its switch port is down: no carrier
    Carrier,
    /// Its interface is down: the network is unreachable
    Interface,
    /// Its sockets' buffers hold only a packet or two
    SmallBuffers,
    /// It may open no more descriptors
    Descriptors,
    /// It gets 5 ms of each 100 ms, beside a busy process
    CpuQuota,
    /// Its polls are 200 ms apart
    LateTurns,
    /// Its application takes no events, while its process goes on
    HangingApplication,
    /// It is stopped as soon as a state transfer to it has begun; for a joiner only
    HangingJoiner,
    /// The file system of its state directory is full
    FullDisk,
    /// Its wall clock jumps an hour ahead, then two back
    WallClock,
    /// 20 ms each way
    Delay,
    /// 0 to 60 ms each way, at random: packets overtake each other
    Jitter,
    /// One packet in ten is held back for 30 ms
    Reorder,
    /// One packet in five comes again, up to two seconds later
    LateDuplicate,
    /// One bit is flipped in one packet of five
    Corrupt,
    /// 64 kB a second each way, with a queue of a second before the loss
    Narrow,
    /// Losses in bursts of about ten packets
    Bursts,
}

/// The means by which packets travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fabric {
    /// The kernel's bridge with packet filters.
    Bridge,
    /// The switch in this program.
    Switch,
}

/// Duration beyond `suspect_after` of a fault that may cause an exclusion.
const BEYOND_SUSPICION: Duration = Duration::from_millis(2_100);
/// Duration beyond the promised cost to the others. A wait that exceeds the promise and [`SLACK`] then shows.
const BEYOND_COSTS: Duration = Duration::from_millis(2_000);
/// Tolerance of a measured wait beyond the promise: for a busy machine, pulses that come ten times a second, and gaps
/// between uniform abcasts.
pub(super) const SLACK: Duration = Duration::from_secs(1);
/// Messages of each member in a second at which the members' small group window is full after [`FILLS`].
pub(super) const FILLS_RATE: u64 = 30;
const FILLS: Duration = Duration::from_secs(6);

impl Fault {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    pub(super) fn fabric(self) -> Fabric {
        match self {
            Self::Delay
            | Self::Jitter
            | Self::Reorder
            | Self::LateDuplicate
            | Self::Corrupt
            | Self::Narrow
            | Self::Bursts => Fabric::Switch,
            _ => Fabric::Bridge,
        }
    }

    /// Whether it acts on a process, and not on the network around it.
    pub(super) fn needs_process(self) -> bool {
        matches!(
            self,
            Self::Kill
                | Self::StopShort
                | Self::StopLong
                | Self::SmallBuffers
                | Self::Descriptors
                | Self::CpuQuota
                | Self::LateTurns
                | Self::HangingApplication
                | Self::HangingJoiner
                | Self::WallClock
        )
    }

    /// Whether a role can suffer it. Only a joiner hangs in a transfer; the other faults suit every role.
    pub(super) fn meets(self, role: Role) -> bool {
        self != Self::HangingJoiner || role == Role::Joiner
    }

    /// The fault's kind, if a cost to the others is promised for it.
    pub(super) fn kind(self) -> Option<FaultKind> {
        Some(match self {
            Self::Kill => FaultKind::Dead,
            Self::StopLong => FaultKind::Stopped,
            Self::CutIn => FaultKind::Deaf,
            // Faults by which no other member hears it.
            Self::CutOut | Self::Isolate | Self::Carrier | Self::Interface => FaultKind::Mute,
            Self::CutPair => FaultKind::Link,
            Self::OneWay => FaultKind::OneWay,
            Self::Flap => FaultKind::FlappingHost,
            Self::MtuHole => FaultKind::LongPackets,
            Self::DataPort => FaultKind::DataPort,
            Self::ControlPort => FaultKind::ControlPort,
            Self::LateTurns => FaultKind::LateTurns,
            Self::HangingApplication => FaultKind::HangingApplication,
            Self::HangingJoiner => FaultKind::HangingJoiner,
            Self::FullDisk => FaultKind::FullDisk,
            Self::Descriptors => FaultKind::Descriptors,
            _ => return None,
        })
    }

    /// The promised bound on the time, counted from its beginning, for which unaffected members are without new
    /// messages.
    pub(super) fn costs_at_most(self) -> Option<Duration> {
        self.kind()?.costs_at_most(&Timing::default(), &Limits::default())
    }

    /// Whether it gives no reason to exclude a member.
    pub(super) fn is_gentle(self) -> bool {
        matches!(
            self,
            Self::StopShort
                | Self::Duplicate
                | Self::Descriptors
                | Self::LateTurns
                | Self::FullDisk
                | Self::WallClock
                | Self::Delay
                | Self::LateDuplicate
        )
    }

    /// Whether a path to a member that is heard fails. A member that suffers this for long has to be excluded, and is
    /// held back then.
    pub(super) fn is_of_path(self) -> bool {
        matches!(self, Self::DataPort | Self::ControlPort | Self::MtuHole)
    }

    /// Whether it removes a member that others hear. At most a minority is removed for such reasons within ten minutes.
    pub(super) fn draws_on_the_budget(self) -> bool {
        self.is_of_path() || matches!(self, Self::CutPair | Self::OneWay)
    }

    /// Whether a member that suffers it for long must be excluded, though it is heard.
    pub(super) fn must_exclude(self) -> bool {
        self.is_of_path() || self == Self::HangingApplication
    }

    /// Its duration.
    pub(super) fn hold(self) -> Duration {
        // Members run with the default settings.
        let suspect_after = Timing::default().suspect_after;
        match self {
            // A kill lasts until the exclusion; see `bout`.
            Self::Kill => Duration::ZERO,
            Self::StopShort => Duration::from_millis(500),
            Self::Descriptors => Duration::from_millis(1_500),
            Self::WallClock | Self::FullDisk => Duration::from_secs(2),
            // Long enough that a member which is heard might be taken for silent.
            Self::LateTurns => suspect_after + BEYOND_SUSPICION,
            // The others block only once their windows are full.
            Self::HangingApplication => FILLS + self.costs_at_most().unwrap_or_default() + BEYOND_COSTS,
            Self::Flap => suspect_after + BEYOND_SUSPICION,
            _ => match self.costs_at_most() {
                Some(costs) => costs + BEYOND_COSTS,
                // A fault that ended just as the others begin to suspect could have either result.
                None => suspect_after + BEYOND_SUSPICION,
            },
        }
    }
}

/// The role of the member that suffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Role {
    /// Rank 0 of the cell view
    Coordinator,
    /// The token holder of the group of all
    TokenHolder,
    /// A process that has just begun to look for its cell
    Joiner,
    /// A member with none of these roles
    Bystander,
}

impl Role {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_the_command_line_takes() {
        for fault in Fault::value_variants() {
            assert_eq!(Fault::from_str(&fault.name(), false), Ok(*fault));
        }
        assert_eq!(Role::TokenHolder.name(), "token-holder");
    }

    #[test]
    fn no_fault_ends_as_members_begin_to_suspect_somebody() {
        let suspect_after = Timing::default().suspect_after;
        let margin = Timing::default().heartbeat * 4;
        for fault in Fault::value_variants().iter().filter(|fault| !fault.is_gentle() && **fault != Fault::Kill) {
            assert!(fault.hold() > suspect_after + margin, "{}", fault.name());
        }
        assert!(Fault::StopShort.hold() + margin <= suspect_after);
    }
}
