//! Cut recovery: fetching packets of a cut that this process lacks from members that hold them.

use super::Process;
use crate::api::Effects;
use crate::frames::Frames;
use crate::id::{GroupId, Incarnation, Rank};
use crate::member::{Control, GroupCut, RecoveredPacket};
use crate::time::Instant;
use crate::wire::{PacketNumber, Space};

/// Upper bound on the bytes that answer one fetch. The rest is fetched with the next request.
const ANSWER_BYTES: usize = 512 * 1024;

impl Process {
    /// Whether this process holds the cut of every group that it is a member of.
    pub(super) fn holds_cuts<'a>(&self, mut cuts: impl Iterator<Item = (GroupId, &'a GroupCut)>) -> bool {
        cuts.all(|(group, cut)| {
            self.space_of(group)
                .and_then(|s| self.group_streams.get(&s))
                .is_none_or(|f| f.view_streams.holds(&cut.prefixes))
        })
    }

    /// Whether this process parsed more of a stream than one of these cuts contains.
    pub(super) fn is_past<'a>(&self, mut cuts: impl Iterator<Item = (GroupId, &'a GroupCut)>) -> bool {
        cuts.any(|(group, cut)| {
            self.space_of(group)
                .and_then(|s| self.group_streams.get(&s))
                .is_some_and(|f| f.view_streams.is_past(&cut.prefixes))
        })
    }

    /// The cuts that are waited for: those decided, else those of the ballot promised last.
    fn awaited_cuts(&self) -> Vec<(GroupId, GroupCut)> {
        if let Some(decided) = &self.decided {
            return decided.cuts().map(|(group, cut)| (group, cut.clone())).collect();
        }
        let promised = self.acceptor.promised();
        let recovering = self.recovering.as_ref().filter(|(_, wedge)| Some(wedge.ballot) == promised);
        recovering.map(|(_, wedge)| wedge.cuts.clone()).unwrap_or_default()
    }

    /// Fetches what is missing, and repeats that until it is there.
    pub(super) fn fetch_soon(&mut self, now: Instant) {
        if self.fetch_at.is_none() {
            // `fetch_turn` is not reset between ballots: a new ballot must not ask a dead holder first again.
            self.fetch(now);
        }
    }

    /// Requests the missing packets of the awaited cuts from their holders.
    pub(super) fn fetch(&mut self, now: Instant) {
        self.fetch_at = None;
        let mut asks: Vec<(Incarnation, Control)> = Vec::new();
        let mut is_whole = true;
        for (group, cut) in self.awaited_cuts() {
            let Some(space) = self.space_of(group) else { continue };
            let Some(view_streams) = self.group_streams.get(&space) else { continue };
            // First the member that reported the packet. Then any survivor of the group in turn, which may have fetched
            // it before: the first holder may die while it is asked.
            let heard = |who: &Incarnation| {
                *who != self.me() && self.directory.rank(*who).is_some_and(|r| self.failure_detector.hears(now, r))
            };
            let survivors: Vec<Incarnation> = view_streams.meta.members.iter().copied().filter(heard).collect();
            for (rank, from, to) in view_streams.view_streams.missing(&cut.prefixes) {
                is_whole = false;
                let named = cut.holders.get(rank.index()).copied().filter(heard);
                let whom = match (self.fetch_turn, named) {
                    (0, Some(named)) => named,
                    (turn, _) if !survivors.is_empty() => survivors[turn % survivors.len()],
                    _ => continue,
                };
                asks.push((whom, Control::Fetch { space, rank, from, to }));
            }
        }
        if is_whole {
            return;
        }
        debug_assert!(asks.iter().all(|(whom, _)| *whom != self.me()), "a member does not ask itself");
        // Nobody else is asked before the answer can have come from the farthest of these. Where no survivor is heard, as
        // just after a cut, nobody is asked now.
        let answers_after = |whom: &Incarnation| {
            let round_trip = self.peers.get(*whom).and_then(|peer| peer.control_channel.round_trip());
            let gap = self.directory.rank(*whom).map(|rank| self.turn_gap(rank));
            round_trip.unwrap_or_default() + gap.unwrap_or_default()
        };
        let farthest = asks.iter().map(|(whom, _)| answers_after(whom)).max().unwrap_or_default();
        self.fetch_turn += usize::from(!asks.is_empty());
        for (whom, ask) in asks {
            self.send_control(whom, &ask);
        }
        self.fetch_at = Some(now + farthest.max(self.set.timing.ballot_step / 2));
    }

    pub(super) fn handle_fetch(&mut self, who: Incarnation, space: Space, rank: Rank, from: u64, to: u64) {
        // A member that is behind may fetch packets of a view that has ended here.
        let Some(view_streams) = self.group_streams.get(&space).or_else(|| self.past.get(&space)) else { return };
        if view_streams.meta.rank(who).is_none() {
            return; // only members of that view may read its packets
        }
        let kept = |number| view_streams.view_streams.kept(rank, number).map(|frames| frames.to_vec());
        for (number, frames) in answer(from, to, kept) {
            self.send_control(who, &Control::Recovered(RecoveredPacket { space, rank, number, frames }));
        }
    }

    pub(super) fn handle_recovered(&mut self, now: Instant, packet: RecoveredPacket, fx: &mut dyn Effects) {
        // Only packets within an awaited cut are taken. Others would be delivered here and nowhere else.
        let cuts = self.awaited_cuts();
        debug_assert!(cuts.iter().all(|(_, cut)| cut.prefixes.len() == cut.holders.len()), "each prefix has a holder");
        let Some(view_streams) = self.group_streams.get_mut(&packet.space) else { return };
        let cut = cuts.iter().find(|(group, _)| *group == view_streams.meta.group).map(|(_, cut)| cut);
        let inside = cut.and_then(|c| c.prefixes.get(packet.rank.index())).is_some_and(|&p| packet.number.0 <= p);
        if !inside {
            return;
        }
        self.counters.fetched += 1;
        view_streams.touched = true;
        view_streams.view_streams.handle_recovered(packet.rank, packet.number, Frames::from(packet.frames));
        if !self.holds_cuts(cuts.iter().map(|(group, cut)| (*group, cut))) {
            return;
        }
        if self.decided.is_some() {
            self.try_install(now, fx);
        } else if let Some((from, wedge)) = self.recovering.take() {
            self.handle_wedge(now, from, &wedge, fx);
        }
    }
}

/// The packets `from` to `to` as far as they are kept: in order, up to the first gap, and up to [`ANSWER_BYTES`].
fn answer(from: u64, to: u64, kept: impl Fn(PacketNumber) -> Option<Vec<u8>>) -> Vec<(PacketNumber, Vec<u8>)> {
    let mut bytes = 0;
    (from..=to)
        .map(PacketNumber)
        .map_while(|number| {
            let frames = (bytes < ANSWER_BYTES).then(|| kept(number))??;
            bytes += frames.len();
            Some((number, frames))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(from: u64, to: u64, kept: impl Fn(PacketNumber) -> Option<Vec<u8>>) -> Vec<u64> {
        answer(from, to, kept).into_iter().map(|(number, _)| number.0).collect()
    }

    #[test]
    fn an_answer_holds_each_packet_once_up_to_the_first_gap() {
        assert_eq!(numbers(3, 6, |number| Some(vec![0; usize::try_from(number.0).expect("small")])), [3, 4, 5, 6]);
        assert_eq!(numbers(3, 6, |number| (number.0 != 5).then(Vec::new)), [3, 4]);
        assert_eq!(numbers(6, 3, |_| Some(Vec::new())), []);
        assert_eq!(numbers(u64::MAX, u64::MAX, |_| Some(Vec::new())), [u64::MAX]);
    }

    #[test]
    fn an_answer_ends_with_the_packet_that_fills_it() {
        let long = ANSWER_BYTES / 4 + 1;
        assert_eq!(numbers(1, u64::MAX, |_| Some(vec![0; long])), [1, 2, 3, 4]);
    }
}
