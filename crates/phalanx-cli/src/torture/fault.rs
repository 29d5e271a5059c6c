//! What is done to a member, and to which.

use std::time::Duration;

use clap::ValueEnum;
use phalanx::core::member::FaultKind;
use phalanx::core::{Limits, Timing};

/// A single fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Fault {
    /// SIGKILL; started again when the others have excluded it
    Kill,
    /// SIGSTOP and SIGCONT, shorter than it takes to be suspected
    StopShort,
    /// SIGSTOP, and SIGCONT long after the exclusion
    StopLong,
    /// One packet in twenty to and from it is lost
    #[value(name = "loss-5")]
    Loss5,
    /// Three packets in ten to and from it are lost
    #[value(name = "loss-30")]
    Loss30,
    /// It hears nobody, and is heard
    CutIn,
    /// It is not heard, and hears all
    CutOut,
    /// Cut off, both ways
    Isolate,
    /// It and one other do not reach each other; everybody else reaches both
    CutPair,
    /// Nothing passes from it to one other, which it hears
    OneWay,
    /// It is on the smaller of two sides
    TwoSides,
    /// Cut off and healed every 300 ms
    Flap,
    /// Three packets in ten to and from it come twice
    Duplicate,
    /// Packets longer than 1,000 bytes vanish
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
    /// Its sockets' buffers hold a packet or two
    SmallBuffers,
    /// It may open no descriptor more
    Descriptors,
    /// It gets 5 ms of each 100 ms, beside a busy process
    CpuQuota,
    /// Its turns come 200 ms apart
    LateTurns,
    /// Its application takes nothing, while its process goes on
    HangingApplication,
    /// It is stopped as soon as a state transfer to it has begun; a joiner alone
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

/// What carries the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fabric {
    /// The kernel's bridge with packet filters.
    Bridge,
    /// The switch in this program.
    Switch,
}

/// So much longer than it takes to be suspected lasts a fault that may have a member excluded.
const BEYOND_SUSPICION: Duration = Duration::from_millis(2_100);
/// The same, than its cost to the others is promised to be: a wait beyond that, and beyond [`SLACK`], has to show.
const BEYOND_COSTS: Duration = Duration::from_millis(2_000);
/// So much longer than is promised may a wait be: for a busy machine, pulses that come ten times a second, and gaps between uniform abcasts.
pub(super) const SLACK: Duration = Duration::from_secs(1);
/// Messages of each member in a second, at which the window of a group, as members have it here, is full after [`FILLS`].
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

    /// It is done to a process, and not to the network around it.
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

    /// What hangs in a transfer is a joiner; all others meet everybody.
    pub(super) fn meets(self, role: Role) -> bool {
        self != Self::HangingJoiner || role == Role::Joiner
    }

    /// The kind of fault, where its cost to the others is promised.
    pub(super) fn kind(self) -> Option<FaultKind> {
        Some(match self {
            Self::Kill => FaultKind::Dead,
            Self::StopLong => FaultKind::Stopped,
            Self::CutIn => FaultKind::Deaf,
            // Nobody hears it.
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

    /// The longest that members which it does not touch may be without new messages, from its beginning on.
    pub(super) fn costs_at_most(self) -> Option<Duration> {
        self.kind()?.costs_at_most(&Timing::default(), &Limits::default())
    }

    /// It gives no reason to exclude a member.
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

    /// A path to a member that is heard fails: whoever suffers it for so long has to be left out, and is held back then.
    pub(super) fn is_of_path(self) -> bool {
        matches!(self, Self::DataPort | Self::ControlPort | Self::MtuHole)
    }

    /// For it a member is removed that others hear: of these no more than a minority goes within ten minutes.
    pub(super) fn draws_on_the_budget(self) -> bool {
        self.is_of_path() || matches!(self, Self::CutPair | Self::OneWay)
    }

    /// Whoever suffers it for so long has to be left out, though it is heard.
    pub(super) fn must_exclude(self) -> bool {
        self.is_of_path() || self == Self::HangingApplication
    }

    /// How long it lasts.
    pub(super) fn hold(self) -> Duration {
        // Members run with the default settings.
        let suspect_after = Timing::default().suspect_after;
        match self {
            // Until the exclusion; see the bout.
            Self::Kill => Duration::ZERO,
            Self::StopShort => Duration::from_millis(500),
            Self::Descriptors => Duration::from_millis(1_500),
            Self::WallClock | Self::FullDisk => Duration::from_secs(2),
            // As long as what is heard might be taken for silent.
            Self::LateTurns => suspect_after + BEYOND_SUSPICION,
            // The others are held up when their windows are full.
            Self::HangingApplication => FILLS + self.costs_at_most().unwrap_or_default() + BEYOND_COSTS,
            Self::Flap => suspect_after + BEYOND_SUSPICION,
            _ => match self.costs_at_most() {
                Some(costs) => costs + BEYOND_COSTS,
                // One that ended just as they suspect somebody could be survived either way.
                None => suspect_after + BEYOND_SUSPICION,
            },
        }
    }
}

/// Which member suffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Role {
    /// Rank 0 of the cell view
    Coordinator,
    /// Who orders the abcasts of the group of all
    TokenHolder,
    /// A process that has just begun to look for its cell
    Joiner,
    /// None of these
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
