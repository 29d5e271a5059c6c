//! Packets that cannot be parsed: readers report them, and a view change decides which members leave
//! (`docs/fail-stop.md`).

use std::collections::BTreeSet;

use super::Process;
use crate::api::Event;
use crate::id::{GroupId, Incarnation, Rank};
use crate::link::StreamReport;
use crate::member::{Control, Unread, Unreadable};
use crate::time::Instant;

/// The level from which on members decide by a verdict. Below it, a member that finds nonsense stops for good.
pub(super) const NONSENSE_VERDICT_LEVEL: u16 = 2;

/// The facts on a group's streams that a report cannot express: where reading stopped, and whether at nonsense.
pub(super) fn unread_of(group: GroupId, said: &[StreamReport]) -> Option<Unread> {
    let differs = |(_, said): &(Rank, &StreamReport)| said.nonsense || said.read < said.prefix;
    let streams: Vec<_> =
        Rank::enumerate(said).filter(differs).map(|(rank, said)| (rank, said.read, said.nonsense)).collect();
    (!streams.is_empty()).then_some(Unread { group, streams })
}

impl Process {
    /// Groups in which some member is known to be unable to read a packet. Their views have to end.
    pub(super) fn unreadable_groups(&self) -> BTreeSet<GroupId> {
        if self.directory.level < NONSENSE_VERDICT_LEVEL {
            return BTreeSet::new();
        }
        let mut groups = self.unreadable.clone();
        groups.extend(self.own_unreadable());
        groups
    }

    fn own_unreadable(&self) -> impl Iterator<Item = GroupId> {
        self.group_streams.values().filter(|f| f.view_streams.has_nonsense()).map(|f| f.meta.group)
    }

    /// Reports to the coordinator what cannot be read here: with each heartbeat, and when something was found.
    pub(super) fn report_unreadable(&mut self, now: Instant) {
        let groups: Vec<GroupId> = self.own_unreadable().collect();
        if groups.is_empty() {
            return;
        }
        if self.directory.level < NONSENSE_VERDICT_LEVEL {
            // Members of earlier builds cannot give a verdict. The others leave this one out as silent.
            self.counters.stopped_alone += 1;
            return self.end(Event::Left);
        }
        let Some(coordinator) = self.coordinator_now(now).filter(|who| *who != self.me()) else { return };
        let groups = groups.into_iter().map(|group| Unread { group, streams: Vec::new() }).collect();
        self.send_unreadable(coordinator, Unreadable { decree: self.directory.decree, ballot: None, groups });
    }

    pub(super) fn send_unreadable(&mut self, to: Incarnation, unreadable: Unreadable) {
        if to == self.me() {
            self.handle_unreadable(to, unreadable);
        } else {
            self.send_control(to, &Control::Unreadable(unreadable));
        }
    }

    pub(super) fn handle_unreadable(&mut self, from: Incarnation, unreadable: Unreadable) {
        let Some(rank) = self.directory.rank(from) else { return };
        if self.directory.level < NONSENSE_VERDICT_LEVEL || unreadable.decree != self.directory.decree {
            return;
        }
        let Unreadable { ballot, groups, .. } = unreadable;
        match ballot {
            None => {
                let groups = groups.into_iter().map(|unread| unread.group);
                self.unreadable.extend(groups.filter(|group| self.directory.groups.contains_key(group)));
                self.attention = true;
            }
            Some(ballot) => {
                if let Some(c) = self.coordinator.as_mut().filter(|c| c.ballot == ballot && c.asked.contains(&rank)) {
                    c.unread.insert(rank, groups);
                }
            }
        }
    }

    /// Reads nothing more from a process whose channel carried a message that makes no sense. From then on the link to
    /// it counts as unheard here, which suspects both of its ends: either may be at fault.
    pub(super) fn stop_reading(&mut self, who: Incarnation) {
        let Some(peer) = self.peers.get_mut(who) else { return };
        self.counters.nonsense_channels += u64::from(!peer.is_unreadable);
        peer.is_unreadable = true;
        self.distrust();
        self.attention = true;
    }

    /// Counts members that cannot be read as unheard in the view in force.
    pub(super) fn distrust(&mut self) {
        let Self { peers, failure_detector, .. } = self;
        peers
            .values()
            .filter(|peer| peer.is_unreadable)
            .filter_map(|peer| peer.rank)
            .for_each(|r| failure_detector.distrust(r));
    }

    /// Members whose streams made no sense.
    pub(super) fn outcast_ranks(&self) -> BTreeSet<Rank> {
        self.outcasts.iter().filter_map(|who| self.directory.rank(*who)).collect()
    }
}
