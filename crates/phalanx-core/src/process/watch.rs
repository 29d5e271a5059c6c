//! Heartbeats of a large cell: they go to a member's watchers alone and have a constant size. Link-state reports say
//! which members are silent.

use std::collections::BTreeSet;

use super::Process;
use super::best_effort::{WatchHeartbeat, put_link_report, put_watch_heartbeat};
use crate::api::Effects;
use crate::id::{DecreeNumber, Incarnation, Rank, TrafficClass};
use crate::member::LinkReport;
use crate::time::Instant;

/// Bytes of link-state reports in one packet. It fits in any packet.
const LINK_REPORTS_ROOM: usize = 1000;

impl Process {
    /// Sends the heartbeat of this iteration in a cell with a watch graph.
    pub(super) fn watch_heartbeat(&mut self, now: Instant, fx: &mut dyn Effects) {
        let waited_for = self.waited_for();
        self.evaluate_links(now, fx);
        let targets = self.failure_detector.targets(now, waited_for);
        let Some(watch) = self.failure_detector.watch() else { return };
        let (decree, depth, digest) = (self.directory.decree, watch.depth(), watch.digest());
        let (me, slow_report) = (self.my_rank(), watch.slow_report().cloned());
        for (ranks, asks) in [(targets.told, false), (targets.asked, true)] {
            let mut frames = Vec::with_capacity(32);
            put_watch_heartbeat(&mut frames, &WatchHeartbeat { decree, depth, asks, digest });
            if let Some(link_report) = &slow_report {
                // Repeated with each heartbeat: a report sent once was lost on a link that was cut just then, and
                // nobody could ask for it.
                put_link_report(&mut frames, decree, me, link_report);
            }
            self.send_best_effort(&ranks, &frames, fx);
        }
    }

    /// Sends findings to all members of a cell with a watch graph, while there are any.
    pub(super) fn send_findings(&mut self, now: Instant, fx: &mut dyn Effects) {
        let mut frames = Vec::new();
        self.put_own_findings(now, &mut frames);
        if !frames.is_empty() {
            let me = self.my_rank();
            let others = Rank::all(self.directory.members.len()).filter(|rank| *rank != me).collect();
            self.send_best_effort(&others, &frames, fx);
        }
    }

    /// Sends one best-effort packet to the control sockets of all these members.
    fn send_best_effort(&mut self, ranks: &BTreeSet<Rank>, frames: &[u8], fx: &mut dyn Effects) {
        let to: Vec<_> =
            ranks.iter().filter_map(|r| self.directory.members.get(r.index())).map(|m| m.control).collect();
        if !to.is_empty() {
            let label = self.net.best_effort();
            self.net.send(label, TrafficClass::Control, &to, frames, &mut self.counters, fx);
        }
    }

    /// Ranks of members that owe this process an acknowledgement.
    fn waited_for(&self) -> BTreeSet<Rank> {
        let mut ranks = self.late();
        ranks.extend(self.peers.waited_for());
        ranks
    }

    /// Ranks of members that owe this process an acknowledgement for packets of its streams.
    pub(super) fn late(&self) -> BTreeSet<Rank> {
        let mut ranks = BTreeSet::new();
        for view_streams in self.group_streams.values() {
            let late = view_streams.view_streams.late().filter_map(|rank| view_streams.meta.members.get(rank.index()));
            ranks.extend(late.filter_map(|who| self.peers.get(*who)?.rank));
        }
        ranks
    }

    pub(super) fn handle_watch_heartbeat(
        &mut self,
        now: Instant,
        sender: Incarnation,
        beat: &WatchHeartbeat,
        fx: &mut dyn Effects,
    ) {
        let Some(rank) = self.note_decree(now, sender, beat.decree) else {
            if beat.decree < self.directory.decree
                && let Some(rank) = self.directory.rank(sender)
                && self.is_long_installed(now, rank)
            {
                // It was notified again and again and still lacks the decree: it hears nobody.
                self.failure_detector.hears_nobody(rank);
            }
            return;
        };
        if self.failure_detector.watch_heartbeat(now, rank, beat.depth, beat.asks, beat.digest) {
            self.send_link_reports(sender, fx);
        }
    }

    /// Sends all link-state reports known here, because the digests differ. The other side does the same, since either
    /// may lack some.
    fn send_link_reports(&mut self, to: Incarnation, fx: &mut dyn Effects) {
        let Some(address) = self.peers.get(to).map(|peer| peer.control) else { return };
        let Some(watch) = self.failure_detector.watch() else { return };
        let link_reports = watch.link_reports().map(|(rank, link_report)| (rank, link_report.clone())).collect();
        for frames in in_packets(self.directory.decree, link_reports) {
            let label = self.net.direct(to);
            self.net.send(label, TrafficClass::Control, &[address], &frames, &mut self.counters, fx);
        }
    }

    pub(super) fn handle_link_report(&mut self, decree: DecreeNumber, rank: Rank, link_report: LinkReport) {
        if decree == self.directory.decree && self.failure_detector.take_link_report(rank, link_report) {
            self.attention = true;
        }
    }

    /// Evaluates the links watched here, and passes new link-state reports on at once, own and others'.
    pub(super) fn evaluate_links(&mut self, now: Instant, fx: &mut dyn Effects) {
        self.failure_detector.evaluate(now);
        let Some(watch) = self.failure_detector.watch_mut() else { return };
        let news = watch.take_news();
        if news.is_empty() {
            return;
        }
        let targets = watch.last_targets();
        for frames in in_packets(self.directory.decree, news) {
            self.send_best_effort(&targets, &frames, fx);
        }
    }

    /// Whether every member is known to have installed the decree in force.
    pub(super) fn all_installed(&self) -> bool {
        if let Some(watch) = self.failure_detector.watch() {
            return watch.all_installed();
        }
        let (decree, me) = (self.directory.decree, self.my_rank());
        Rank::enumerate(&self.reported_decrees).all(|(rank, told)| rank == me || *told >= decree)
    }
}

/// Encodes link-state reports as the frames of as many packets as they need.
fn in_packets(decree: DecreeNumber, link_reports: Vec<(Rank, LinkReport)>) -> Vec<Vec<u8>> {
    let mut packets: Vec<Vec<u8>> = Vec::new();
    for (rank, link_report) in link_reports {
        let mut frame = Vec::new();
        put_link_report(&mut frame, decree, rank, &link_report);
        match packets.last_mut() {
            Some(packet) if packet.len() + frame.len() <= LINK_REPORTS_ROOM => packet.extend_from_slice(&frame),
            _ => packets.push(frame),
        }
    }
    debug_assert!(packets.iter().all(|packet| !packet.is_empty()), "a packet is empty");
    packets
}

#[cfg(test)]
mod tests {
    use super::super::best_effort::{BestEffortFrame, read_best_effort};
    use super::*;
    use crate::wire::codec::Reader;

    #[test]
    fn link_reports_go_out_in_as_few_packets_as_hold_them() {
        let link_reports: Vec<(Rank, LinkReport)> = Rank::all(100)
            .map(|rank| (rank, LinkReport { version: 1, suspected: (0..45).map(Rank).collect(), besides: Vec::new() }))
            .collect();
        let packets = in_packets(DecreeNumber(9), link_reports.clone());
        let mut one = Vec::new();
        put_link_report(&mut one, DecreeNumber(9), Rank(0), &link_reports[0].1);
        let (each, fit) = (one.len(), LINK_REPORTS_ROOM / one.len());
        let lengths: Vec<usize> = packets.iter().map(Vec::len).collect();
        let whole = 100 / fit;
        assert_eq!(lengths[..whole], vec![fit * each; whole], "packets are filled");
        assert_eq!(lengths.len(), 100_usize.div_ceil(fit));
        let mut read = Vec::new();
        for packet in &packets {
            let mut r = Reader::new(packet);
            while !r.is_empty() {
                match read_best_effort(&mut r) {
                    Ok(Some(BestEffortFrame::LinkReport { decree: DecreeNumber(9), rank, link_report })) => {
                        read.push((rank, link_report));
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(read, link_reports);
        // A packet that is filled to its last byte.
        let ends = |len: usize| {
            let link_report = |suspected: usize| LinkReport {
                version: 1,
                suspected: (0..suspected as u16).map(Rank).collect(),
                besides: Vec::new(),
            };
            in_packets(DecreeNumber(9), vec![(Rank(0), link_report(45)), (Rank(1), link_report(len))]).len()
        };
        let exact = LINK_REPORTS_ROOM - each - (each - 45) - 1;
        assert_eq!((ends(exact), ends(exact + 1)), (1, 2));
    }
}
