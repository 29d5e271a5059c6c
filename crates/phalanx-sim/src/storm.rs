//! *Storm*: more packets in a second than any calm cell sends, though nothing strikes it. Such a run ends at once,
//! because all its later seconds would be the same, and each costs more than a whole run.

use crate::classes::crowded::{count_waiting, waiting};
use crate::clock::SECOND;
use crate::world::World;

/// The most packets that each process may send in a second of the calm, one for each receiver, at the mean of all. None
/// of 300 ordinary seeds of five sends so many from the heal on; storms send 7,000 and more.
const PACKETS_MAX: u64 = 5_000;

/// The same for each receiver, where there are many: 15 members with a busy group sent 437 a second.
const PACKETS_EACH_MAX: u64 = 500;

/// The packets that each delivery may take beyond these bounds: one for the message, and one for its acknowledgement,
/// order and receipt.
const PACKETS_PER_DELIVERY: u64 = 2;

/// Packets counted in the calm.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Storm {
    /// Whether nothing strikes the cell.
    calm: bool,
    /// The next look.
    next_ns: u64,
    /// Packets up to the last look.
    before: u64,
    /// Deliveries up to the last look.
    delivered: u64,
    /// Whether a second had too many.
    pub(crate) rages: bool,
}

impl Storm {
    pub(crate) fn new(calm: bool) -> Self {
        Self { calm, ..Self::default() }
    }

    /// From now on nothing strikes the cell.
    pub(crate) fn calmed(self) -> Self {
        Self { calm: true, ..self }
    }

    /// Counts the packets of each second that is over.
    pub(crate) fn look(&mut self, world: &mut World) {
        if world.now_ns < self.next_ns {
            return;
        }
        self.next_ns = world.now_ns + SECOND;
        let sent = world.counters.packets + world.counters.shared;
        let packets = sent - std::mem::replace(&mut self.before, sent);
        if world.settings.crowd.is_some() {
            count_waiting(world);
        }
        let processes = world.slots.len() as u64;
        let delivered = world.slots.iter().map(|slot| slot.app.counts.deliveries).sum::<u64>();
        let deliveries = delivered.saturating_sub(std::mem::replace(&mut self.delivered, delivered));
        let most = processes * PACKETS_MAX.max(processes * PACKETS_EACH_MAX) + deliveries * PACKETS_PER_DELIVERY;
        if self.calm && !self.rages && packets > most {
            self.rages = true;
            let text = format!(
                "{packets} packets in a second in which nothing strikes the cell, at most {most}; {} groups wait",
                waiting(world)
            );
            world.violation(STORM, text);
        }
    }
}

/// The code of the violation.
pub(crate) const STORM: &str = "storm";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::WorldSettings;

    #[test]
    fn a_second_with_too_many_packets_is_a_storm_once_nothing_strikes() {
        let after = |calm: bool, packets: u64, deliveries: u64| {
            let mut world = World::new(WorldSettings::quiet(3), 1);
            let mut storm = Storm::new(calm);
            for _ in 0..3 {
                world.counters.packets += packets;
                world.slots[0].app.counts.deliveries += deliveries;
                world.now_ns += SECOND;
                storm.look(&mut world);
                // Before the second is over nothing is counted.
                storm.look(&mut world);
            }
            world.violations.iter().map(|violation| violation.code.clone()).collect::<Vec<_>>()
        };
        assert_eq!(after(true, 3 * PACKETS_MAX + 1, 0), [STORM], "it is told once");
        assert!(after(true, 3 * PACKETS_MAX, 0).is_empty());
        assert!(after(true, 3 * PACKETS_MAX + 100, 50).is_empty(), "the applications send so much");
        assert_eq!(after(true, 3 * PACKETS_MAX + 101, 50), [STORM]);
        assert!(after(false, 100 * PACKETS_MAX, 0).is_empty(), "faults explain it");
    }
}
