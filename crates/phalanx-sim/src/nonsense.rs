//! Packets that some of their readers cannot read: a defect of the readers, if they are few, or of the sender.

use phalanx_core::rng::Rng;
use phalanx_core::wire::{PacketNumber, Space};
use phalanx_core::{GroupId, Incarnation};
use phalanx_trace::Trouble;

use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Aim, Busy, Fault, Kind, Readers, Role};
use crate::plan::Plan;
use crate::world::World;

/// Pairs of a reader and a packet that it cannot read: a slot, and the packet's sender, space and number.
pub(crate) type Blind = Vec<(usize, (Incarnation, Space, PacketNumber))>;

/// Adds these faults to some plans, from a generator of their own.
pub(crate) fn add_nonsense(rng: &mut Rng, plan: &mut Plan) {
    if plan.mild || !rng.chance_ppm(200_000) {
        return;
    }
    for _ in 0..1 + rng.below(3) {
        let kind = Kind::Nonsense {
            role: [Role::Coordinator, Role::Slot(index(rng, 64)), Role::Slot(index(rng, 64))][index(rng, 3)],
            readers: [
                Readers::One,
                Readers::One,
                Readers::Fewer,
                Readers::Fewer,
                Readers::More,
                Readers::More,
                Readers::Half,
            ][index(rng, 7)],
            ahead: 1 + rng.below(6),
        };
        let from_ns = 2 * SECOND + rng.below(plan.heal_ns - 4 * SECOND);
        let inside = rng.chance_ppm(300_000);
        let aim = if inside { Aim::Inside { busy: Busy::Flush, from_ns, after_ns: 50 * MS } } else { Aim::At(from_ns) };
        plan.faults.push(Fault { aim, kind, lasts_ns: SECOND + rng.below(2 * SECOND) });
    }
}

impl World {
    /// From one of its next packets on, makes a process's stream unreadable to some of its group. `None`: there is no
    /// such process, or its group is too small.
    pub(crate) fn begin_nonsense(&mut self, slot: usize, readers: Readers, ahead: u64) -> Option<Blind> {
        let (group, mut others) = self.group_of(slot)?;
        others.retain(|other| *other != slot);
        let all = others.len() + 1;
        let many = match readers {
            Readers::One => 1,
            Readers::Fewer => (all - 1) / 2,
            Readers::Half if all % 2 == 0 => all / 2,
            Readers::Half => return None,
            Readers::More => (all / 2 + 1 + index(&mut self.rng, all)).min(all - 1),
        };
        let wrong = match readers {
            Readers::One | Readers::Fewer => 2 * many >= all,
            Readers::Half => false,
            Readers::More => 2 * many <= all,
        };
        if many == 0 || wrong {
            return None;
        }
        let first = index(&mut self.rng, others.len());
        let blind: Vec<usize> = (0..many).map(|step| others[(first + step) % others.len()]).collect();
        self.blind(slot, group, ahead, &blind)
    }

    /// Makes one of the next packets of a process's stream unreadable to some readers.
    pub(crate) fn blind(&mut self, slot: usize, group: GroupId, ahead: u64, readers: &[usize]) -> Option<Blind> {
        let (space, next) = self.next_packet(slot, group)?;
        let packet = (self.slots[slot].incarnation()?, space, PacketNumber(next.0 + ahead - 1));
        for &reader in readers {
            self.unreadable(reader, |packets| packets.push(packet));
        }
        self.trouble(Trouble::Nonsense, packet.0, true);
        self.trouble(Trouble::Nonsense, packet.0, false);
        self.note(Some(slot), format!("its packet {} in space {space} makes no sense to {readers:?}", packet.2));
        Some(readers.iter().map(|&reader| (reader, packet)).collect())
    }

    /// Makes the next message that `of` sends to `by` alone unreadable there.
    pub(crate) fn blind_channel(&mut self, of: usize, by: usize) -> Option<Blind> {
        let (sender, reader) = (self.slots[of].incarnation()?, self.slots[by].incarnation()?);
        let (space, next) = self.slots[of].node.as_ref()?.process().next_data_packet(reader)?;
        let packet = (sender, space, next);
        self.unreadable(by, |packets| packets.push(packet));
        self.unread_channels = true;
        // At once, so that it is found while all else is as it was.
        let _ = self.send_to(of, reader, &[0; 40]);
        self.trouble(Trouble::Nonsense, sender, true);
        self.trouble(Trouble::Nonsense, sender, false);
        self.note(Some(of), format!("its next message to p{by} alone makes no sense there"));
        Some(vec![(by, packet)])
    }

    /// Ends the fault: a reader that has not met such a packet by now can read it.
    pub(crate) fn end_nonsense(&mut self, blind: &Blind) {
        for (reader, packet) in blind {
            self.unreadable(*reader, |packets| packets.retain(|other| other != packet));
        }
    }

    fn unreadable(&mut self, slot: usize, change: impl FnOnce(&mut Vec<(Incarnation, Space, PacketNumber)>)) {
        if let Some(node) = self.slots[slot].node.as_mut() {
            change(&mut node.driver_mut().outgoing().unreadable);
        }
    }

    /// The packet space of a process's view of a group, and the number of its next packet there.
    fn next_packet(&self, slot: usize, group: GroupId) -> Option<(Space, PacketNumber)> {
        let process = self.slots[slot].node.as_ref()?.process();
        process.next_packets().find(|(of, ..)| *of == group).map(|(_, space, next)| (space, next))
    }
}
