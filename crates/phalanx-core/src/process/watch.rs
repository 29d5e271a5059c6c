//! Heartbeats of a large cell: to a member's watchers alone, of a constant size; and the claims about who is silent.

use std::collections::BTreeSet;

use super::Process;
use super::unrepaired::{WatchBeat, put_claim, put_watch_beat};
use crate::api::Effects;
use crate::id::{Incarnation, Lane};
use crate::member::Claim;
use crate::time::Instant;

/// Bytes of claims in one packet: it fits in any.
const CLAIMS_ROOM: usize = 1000;

impl Process {
    /// The heartbeat of this turn.
    pub(super) fn watch_beat(&mut self, now: Instant, fx: &mut impl Effects) {
        let waited_for = self.waited_for();
        self.judge_links(now, fx);
        let targets = self.hearing.targets(now, waited_for);
        let Some(watch) = self.hearing.watch() else { return };
        let (decree, depth, digest) = (self.directory.decree, watch.depth(), watch.digest());
        let (me, complaint) = (self.my_rank(), watch.complaint().cloned());
        for (ranks, asks) in [(targets.told, false), (targets.asked, true)] {
            let mut frames = Vec::with_capacity(32);
            put_watch_beat(&mut frames, &WatchBeat { decree, depth, asks, digest });
            if let Some(claim) = &complaint {
                put_claim(&mut frames, decree, me, claim);
            }
            self.spread(&ranks, &frames, fx);
        }
    }

    /// In a cell with a watch graph: tells all members what was found of paths, while there is anything to tell.
    pub(super) fn tell_findings(&mut self, now: Instant, fx: &mut impl Effects) {
        let mut frames = Vec::new();
        self.put_own_findings(now, &mut frames);
        if !frames.is_empty() {
            let me = self.my_rank();
            let others = (0..self.directory.members.len()).filter(|rank| *rank != me).collect();
            self.spread(&others, &frames, fx);
        }
    }

    /// One packet, the same for the control sockets of all these.
    fn spread(&mut self, ranks: &BTreeSet<usize>, frames: &[u8], fx: &mut impl Effects) {
        let to: Vec<_> = ranks.iter().filter_map(|&r| self.directory.members.get(r)).map(|m| m.control).collect();
        if !to.is_empty() {
            let label = self.net.spread();
            self.net.send(label, Lane::Control, &to, frames, &mut self.counters, fx);
        }
    }

    /// Those that owe this process an acknowledgement, by rank in the cell view.
    fn waited_for(&self) -> BTreeSet<usize> {
        let mut ranks = self.late();
        ranks.extend(self.peers.waited_for());
        ranks
    }

    /// Those that owe this process an acknowledgement for packets of its streams, by rank in the cell view.
    pub(super) fn late(&self) -> BTreeSet<usize> {
        let mut ranks = BTreeSet::new();
        for flow in self.flows.values() {
            let late = flow.flow.late().filter_map(|rank| flow.meta.members.get(rank));
            ranks.extend(late.filter_map(|who| self.peers.get(*who)?.rank));
        }
        ranks
    }

    pub(super) fn handle_watch_beat(
        &mut self,
        now: Instant,
        sender: Incarnation,
        beat: &WatchBeat,
        fx: &mut impl Effects,
    ) {
        let Some(rank) = self.note_decree(now, sender, beat.decree) else {
            if beat.decree < self.directory.decree
                && let Some(rank) = self.directory.rank(sender)
                && self.is_long_installed(now, rank)
            {
                // It was told again and again: it hears nobody.
                self.hearing.hears_nobody(rank);
            }
            return;
        };
        if self.hearing.watch_beat(now, rank, beat.depth, beat.asks, beat.digest) {
            self.tell_claims(sender, fx);
        }
    }

    /// One of us lacks a claim, or both do: the other side does the same with its own.
    fn tell_claims(&mut self, to: Incarnation, fx: &mut impl Effects) {
        let Some(address) = self.peers.get(to).map(|peer| peer.control) else { return };
        let Some(watch) = self.hearing.watch() else { return };
        let claims = watch.claims().map(|(rank, claim)| (rank, claim.clone())).collect();
        for frames in in_packets(self.directory.decree, claims) {
            let label = self.net.direct(to);
            self.net.send(label, Lane::Control, &[address], &frames, &mut self.counters, fx);
        }
    }

    pub(super) fn handle_claim(&mut self, decree: u64, rank: usize, claim: Claim) {
        if decree == self.directory.decree && self.hearing.take_claim(rank, claim) {
            self.attention = true;
        }
    }

    /// Judges what is watched here, and passes on at once what is new: own claims and others'.
    pub(super) fn judge_links(&mut self, now: Instant, fx: &mut impl Effects) {
        self.hearing.judge(now);
        let Some(watch) = self.hearing.watch_mut() else { return };
        let news = watch.take_news();
        if news.is_empty() {
            return;
        }
        let targets = watch.last_targets();
        for frames in in_packets(self.directory.decree, news) {
            self.spread(&targets, &frames, fx);
        }
    }

    /// Whether every member is known to have installed the decree in force.
    pub(super) fn all_installed(&self) -> bool {
        if let Some(watch) = self.hearing.watch() {
            return watch.all_installed();
        }
        let (decree, me) = (self.directory.decree, self.my_rank());
        self.told_decree.iter().enumerate().all(|(rank, told)| rank == me || *told >= decree)
    }
}

/// Claims as frames of as many packets as they need.
fn in_packets(decree: u64, claims: Vec<(usize, Claim)>) -> Vec<Vec<u8>> {
    let mut packets: Vec<Vec<u8>> = Vec::new();
    for (rank, claim) in claims {
        let mut frame = Vec::new();
        put_claim(&mut frame, decree, rank, &claim);
        match packets.last_mut() {
            Some(packet) if packet.len() + frame.len() <= CLAIMS_ROOM => packet.extend_from_slice(&frame),
            _ => packets.push(frame),
        }
    }
    packets
}

#[cfg(test)]
mod tests {
    use super::super::unrepaired::{Unrepaired, read_unrepaired};
    use super::*;
    use crate::wire::codec::Reader;

    #[test]
    fn claims_go_out_in_as_few_packets_as_hold_them() {
        let claims: Vec<(usize, Claim)> = (0..100)
            .map(|rank| (rank, Claim { version: 1, accused: (0..45).collect(), besides: Vec::new() }))
            .collect();
        let packets = in_packets(9, claims.clone());
        let mut one = Vec::new();
        put_claim(&mut one, 9, 0, &claims[0].1);
        let (each, fit) = (one.len(), CLAIMS_ROOM / one.len());
        let lengths: Vec<usize> = packets.iter().map(Vec::len).collect();
        let whole = 100 / fit;
        assert_eq!(lengths[..whole], vec![fit * each; whole], "packets are filled");
        assert_eq!(lengths.len(), 100_usize.div_ceil(fit));
        let mut read = Vec::new();
        for packet in &packets {
            let mut r = Reader::new(packet);
            while !r.is_empty() {
                match read_unrepaired(&mut r) {
                    Ok(Some(Unrepaired::Claim { decree: 9, rank, claim })) => read.push((rank, claim)),
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(read, claims);
        // A packet that is filled to its last byte.
        let ends = |len: usize| {
            let claim =
                |accused: usize| Claim { version: 1, accused: (0..accused as u16).collect(), besides: Vec::new() };
            in_packets(9, vec![(0, claim(45)), (1, claim(len))]).len()
        };
        let exact = CLAIMS_ROOM - each - (each - 45) - 1;
        assert_eq!((ends(exact), ends(exact + 1)), (1, 2));
    }
}
