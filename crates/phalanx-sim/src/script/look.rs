//! Observations of a script, and packets that it can keep.

use phalanx_core::Incarnation;
use phalanx_core::member::Ballot;
use phalanx_trace::{Event as Traced, LeaveReason, Trace};

use super::Cell;
use crate::address::Endpoint;
use crate::attacker::Seen;
use crate::links::all_links;
use crate::weather::Weather;
use crate::world::Event;

/// Packets of one process as an attacker saw them, for [`Cell::replay`].
#[derive(Clone, Debug)]
pub struct KeptPackets(Vec<Seen>);

impl KeptPackets {
    /// Their number.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl Cell {
    /// The incarnation that runs in a slot.
    #[must_use]
    pub fn incarnation(&self, slot: usize) -> Option<Incarnation> {
        self.world.slots[slot].incarnation()
    }

    /// The traces of a process's application, one for each incarnation.
    #[must_use]
    pub fn traces(&self, slot: usize) -> &[Trace] {
        &self.world.slots[slot].app.traces
    }

    /// Reasons for which members went, as recorded by the slot's process in its latest incarnation.
    #[must_use]
    pub fn reasons(&self, slot: usize) -> Vec<LeaveReason> {
        let records = self.traces(slot).last().map_or(&[][..], |trace| &trace.records);
        let left = records.iter().filter_map(|record| match &record.event {
            Traced::CellView { left, .. } => Some(left.iter().map(|(_, why)| *why)),
            _ => None,
        });
        left.flatten().collect()
    }

    /// Whether these slots, in ascending order, are exactly the running members of the view at each of them.
    #[must_use]
    pub fn are_alone(&self, slots: &[usize]) -> bool {
        slots.iter().all(|&slot| {
            let mut members = self.cell_view(slot).map(|(_, members)| members).unwrap_or_default();
            members.sort_unstable();
            members == slots
        })
    }

    /// Groups that wait for members that are cut off, as known to the slot's process: names, and the holders' names.
    #[must_use]
    pub fn orphans(&self, slot: usize) -> Vec<(String, Vec<String>)> {
        let Some(node) = &self.world.slots[slot].node else { return Vec::new() };
        let names = |holders: Vec<(Incarnation, String)>| holders.into_iter().map(|(_, name)| name).collect();
        node.process().orphans().map(|(name, holders)| (name.to_owned(), names(holders))).collect()
    }

    /// Requests that a group stops waiting.
    ///
    /// # Errors
    /// As [`phalanx_core::Process::give_up_group`].
    ///
    /// # Panics
    /// When no process runs there.
    pub fn give_up(&mut self, slot: usize, group: &str) -> Result<(), phalanx_core::CommandError> {
        let place = &mut self.world.slots[slot];
        let now = place.local(self.world.now_ns);
        place.app.now_ns = self.world.now_ns;
        let node = place.node.as_mut().expect("a process runs there");
        let outcome = node.give_up_group(now, group, &mut place.app);
        self.world.wake(slot, self.world.now_ns);
        outcome
    }

    /// Number of states that a process's application took since it was first started.
    #[must_use]
    pub fn transfers(&self, slot: usize) -> u64 {
        self.world.slots[slot].app.counts.transfers
    }

    /// The token holder of a group, as far as a process has heard.
    #[must_use]
    pub fn token_holder(&self, slot: usize, group: &str) -> Option<String> {
        let streams = self.world.slots[slot].node.as_ref()?.process().streams();
        streams.into_iter().find(|stream| &*stream.name == group)?.orders
    }

    /// The ballot that a process promised last for the next decree.
    #[must_use]
    pub fn promised(&self, slot: usize) -> Option<Ballot> {
        self.world.slots[slot].node.as_ref()?.process().decree_state().acceptor.promised()
    }

    /// The ballot in which a process last accepted something for the next decree.
    #[must_use]
    pub fn accepted(&self, slot: usize) -> Option<Ballot> {
        let node = self.world.slots[slot].node.as_ref()?;
        node.process().decree_state().acceptor.accepted().map(|(ballot, _)| *ballot)
    }

    /// Makes the next packet of a process's stream in a group unreadable to some of the others.
    ///
    /// # Panics
    /// When it is not a member of the group.
    pub fn cannot_read(&mut self, readers: &[usize], sender: usize, group: &str) {
        let (group, _) = self.world.slots[sender].app.member_of(group).expect("a member of the group");
        self.world.blind(sender, group, 1, readers).expect("it runs");
    }

    /// Packets sent so far by all processes, one for each receiver.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.world.counters.packets
    }

    /// Sets the weather of all links to and from a process from now on.
    pub fn set_weather_around(&mut self, slot: usize, weather: Weather) {
        let links = all_links(self.world.slots.len());
        let links: Vec<_> = links.into_iter().filter(|(from, to)| *from == slot || *to == slot).collect();
        self.world.set_weather(&links, weather);
        self.world.note(Some(slot), "its weather changes");
    }

    /// The packets that an attacker remembers from `slot`.
    #[must_use]
    pub fn packets_of(&self, slot: usize) -> KeptPackets {
        KeptPackets(self.world.attacker.packets_from(|from: Endpoint| from.index() == slot))
    }

    /// Replays packets, each to every process.
    pub fn replay(&mut self, packets: &KeptPackets) {
        self.world.note(None, format!("{} packets are replayed", packets.0.len()));
        for packet in &packets.0 {
            for to in 0..self.world.slots.len() {
                let moves = self.world.slots[to].moves;
                let event = Event::Arrive {
                    from: packet.from,
                    to: Endpoint::new(to, moves, packet.to.class),
                    bytes: std::rc::Rc::clone(&packet.bytes),
                };
                self.world.queue.push(self.world.now_ns + 1, event);
                self.world.counters.attacks += 1;
            }
        }
    }

    /// Replays all remembered packets from `slot`, each to its receiver and to all others.
    pub fn replay_packets_of(&mut self, slot: usize) {
        let packets = self.packets_of(slot);
        self.replay(&packets);
    }
}
