//! What is done to a member, and to which.

use std::time::Duration;

use clap::ValueEnum;
use phalanx::core::Timing;

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
                | Self::WallClock
        )
    }

    /// It gives no reason to exclude a member.
    pub(super) fn is_gentle(self) -> bool {
        matches!(
            self,
            Self::StopShort | Self::Duplicate | Self::Descriptors | Self::WallClock | Self::Delay | Self::LateDuplicate
        )
    }

    /// A member that is heard makes no progress for it: whoever suffers it for so long has to be left out.
    pub(super) fn must_exclude(self) -> bool {
        matches!(self, Self::DataPort | Self::ControlPort | Self::MtuHole)
    }

    /// How long it lasts.
    pub(super) fn hold(self) -> Duration {
        // Members run with the default settings.
        let Timing { suspect_after, heartbeat, .. } = Timing::default();
        Duration::from_millis(match self {
            // Until the exclusion; see the bout.
            Self::Kill => 0,
            Self::StopShort => 500,
            Self::Descriptors => 1_500,
            Self::WallClock => 2_000,
            // Three patiences with probes, and the probes before them (`docs/progress.md`).
            Self::DataPort | Self::MtuHole => {
                return 3 * suspect_after.max(116 * heartbeat) + 8 * heartbeat + BEYOND_SUSPICION;
            }
            // Without heartbeats other packets count as signs of life for so long.
            Self::ControlPort => return 4 * suspect_after + BEYOND_SUSPICION,
            // One that ended just as they suspect somebody could be survived either way.
            _ => return suspect_after + BEYOND_SUSPICION,
        })
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
