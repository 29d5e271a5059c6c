//! The sending side of a packet stream to one receiver or many: the send window, acknowledgements, loss detection and
//! retransmission.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Ack, Rtt};
use crate::time::Instant;
use crate::wire::PacketNumber;

/// Tracks packets until every receiver has them, and decides which to retransmit to which receiver.
///
/// The owner keeps their frames until [`Self::stable`] covers them. A retransmission carries the identical frames, so
/// that a number names one byte string for ever.
#[derive(Debug)]
pub struct Sending {
    /// The number of the next packet.
    next: u64,
    /// Packets `base ..= next-1`, oldest first.
    retained: VecDeque<SentPacket>,
    base: u64,
    receivers: Vec<Receiver>,
    /// Every receiver has every packet up to here. Cached, because each poll reads it.
    stable: u64,
    /// The highest number that every receiver allows. Cached for the same reason.
    limit: u64,
    /// Packets that wait for retransmission: (receiver, number). Bounded by [`RETRANSMISSIONS_MAX`].
    retransmissions: VecDeque<(usize, u64)>,
}

#[derive(Debug)]
struct SentPacket {
    /// When it was first sent; gives the round trip.
    first: Instant,
    /// When it was last sent, to any receiver.
    last: Instant,
    /// Whether it was retransmitted. Its ack then gives no round trip ([`Rtt::sample_resent`]).
    is_resent: bool,
}

#[derive(Debug)]
struct Receiver {
    acked: u64,
    limit: u64,
    /// It reported to have a packet with this number or a later one.
    reached: u64,
    /// When it last made progress, was last sent a probe, or began to lack a packet. Its probe timeout counts from
    /// here.
    since: Instant,
    /// Probes without progress since then.
    failures: u32,
    /// After a probe timeout: every packet up to here may be lost, although no gap reports it. 0 if none is doubted.
    doubted: u64,
    /// How many doubted packets one ack retransmits. Doubles with each answer, as in slow start.
    burst: u64,
    /// The last packet of the last burst.
    burst_end: u64,
    /// The most packets in gaps that one ack retransmits. Halved when a retransmitted packet is lost, too; grows by the
    /// number of packets that arrive. Without this bound, a receiver whose buffer is shorter than the burst would lose
    /// the whole burst each time.
    retransmit_budget: u64,
    /// When the budget was halved last. Losses of one burst halve it once.
    halved: Instant,
    /// How often in a row a retransmitted packet was missing again, since the last measured round trip. Retransmitted
    /// packets give no round trip, so a queue that has grown long shows by this alone (Karn and Partridge 1987).
    backoff: u32,
    rtt: Rtt,
}

/// How far a receiver of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// It has acknowledged every packet up to here.
    pub acked: u64,
    /// It allows packets up to here.
    pub limit: u64,
}

impl Receiver {
    /// Whether it lacks a packet before `next`.
    #[inline]
    fn lacks(&self, next: u64) -> bool {
        self.acked + 1 < next
    }
}

/// The most packets that wait for retransmission. What finds no room is in a gap of the next ack.
const RETRANSMISSIONS_MAX: usize = 256;
/// How many packets a probe retransmits.
const PROBE_PACKETS: u64 = 2;
/// The most doubted packets that one ack retransmits.
const BURST_MAX: u64 = 64;
const _: () = assert!(PROBE_PACKETS > 0, "a probe sends something");
const _: () = assert!(PROBE_PACKETS <= BURST_MAX, "a burst begins with a probe and grows");
const _: () = assert!(BURST_MAX <= RETRANSMISSIONS_MAX as u64, "a burst finds room in the queue");

impl Sending {
    /// A stream to `receivers` processes, each of which allows `limit` packets at first.
    #[must_use]
    pub fn new(receivers: usize, limit: u64, now: Instant) -> Self {
        // Without receivers nothing bounds the stream.
        let limit_of_all = if receivers == 0 { u64::MAX } else { limit };
        let receivers = (0..receivers)
            .map(|_| Receiver {
                acked: 0,
                limit,
                reached: 0,
                since: now,
                failures: 0,
                doubted: 0,
                burst: PROBE_PACKETS,
                burst_end: 0,
                retransmit_budget: RETRANSMISSIONS_MAX as u64,
                halved: now,
                backoff: 0,
                rtt: Rtt::default(),
            })
            .collect();
        Self {
            next: 1,
            retained: VecDeque::new(),
            base: 1,
            receivers,
            stable: 0,
            limit: limit_of_all,
            retransmissions: VecDeque::new(),
        }
    }

    /// The number of the next packet.
    #[must_use]
    pub fn next(&self) -> PacketNumber {
        PacketNumber(self.next)
    }

    /// The highest number that every receiver allows.
    #[must_use]
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Sets the highest number that every receiver allows, whatever was assumed before. Acks only raise it.
    pub fn set_limit(&mut self, limit: u64) {
        self.receivers.iter_mut().for_each(|r| r.limit = limit);
        self.limit = if self.receivers.is_empty() { u64::MAX } else { limit };
    }

    /// Whether the window allows a new packet.
    #[must_use]
    #[inline]
    pub fn may_send(&self) -> bool {
        self.next <= self.limit()
    }

    /// The last packet that every receiver has, with all before it.
    #[must_use]
    pub fn stable(&self) -> u64 {
        self.stable
    }

    /// The measured round trip to a receiver, from the send to the ack.
    #[must_use]
    pub fn round_trip(&self, index: usize) -> Option<Duration> {
        self.receivers.get(index)?.rtt.measured()
    }

    /// Number of packets sent that a receiver may lack.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.next - 1 - self.stable
    }

    /// Whether nothing is outstanding and no retransmission waits. Time alone then changes nothing.
    #[must_use]
    #[inline]
    pub fn is_at_rest(&self) -> bool {
        self.retained.is_empty() && self.retransmissions.is_empty()
    }

    /// Whether a retransmission waits.
    #[must_use]
    pub fn has_retransmissions(&self) -> bool {
        !self.retransmissions.is_empty()
    }

    /// Whether an ack of receiver `index` with this prefix and limit, and no gaps, would change nothing.
    #[must_use]
    pub fn knows(&self, index: usize, prefix: u64, limit: u64) -> bool {
        self.receivers.get(index).is_some_and(|r| prefix <= r.acked && limit <= r.limit)
    }

    /// Notes that the packet with number [`Self::next`] is sent now.
    pub fn push(&mut self, now: Instant) {
        for r in &mut self.receivers {
            if !r.lacks(self.next) {
                r.since = now; // it lacked nothing until now: its patience starts here
            }
        }
        self.retained.push_back(SentPacket { first: now, last: now, is_resent: false });
        self.next += 1;
        // No receiver acknowledges, so each packet is stable at once.
        if self.receivers.is_empty() {
            self.stable = self.next - 1;
            self.release();
        }
        debug_assert!(self.stable < self.next, "a packet is stable that was not sent");
    }

    /// Takes an ack of receiver `index`. True if the stable prefix grew. Impossible parts (acks for packets never sent)
    /// are ignored, because a peer may send anything.
    pub fn handle_ack(&mut self, now: Instant, index: usize, ack: &Ack) -> bool {
        let before = self.stable;
        let sent = self.next - 1;
        let base = self.base;
        let Some(r) = self.receivers.get_mut(index) else { return false };
        let widened = ack.limit > r.limit;
        // Limits never go back: acks may be reordered.
        r.limit = r.limit.max(ack.limit);
        let prefix = ack.prefix.min(sent);
        let progressed = prefix > r.acked;
        let was_probed = r.failures > 0;
        if progressed {
            if let Some(s) = prefix.checked_sub(base).and_then(|i| self.retained.get(usize::try_from(i).ok()?)) {
                if s.is_resent {
                    r.rtt.sample_resent(now, s.first);
                } else if prefix > r.reached {
                    r.rtt.sample(now.since(s.first));
                    r.backoff = 0;
                }
                // Else the packet arrived before, and its ack waited for one that was lost. That says nothing of the
                // round trip.
            }
            r.retransmit_budget = (r.retransmit_budget + (prefix - r.acked)).min(RETRANSMISSIONS_MAX as u64);
            r.acked = prefix;
            r.since = now;
            r.failures = 0;
        }
        let (patience, acked) = (r.rtt.resend_after(r.backoff), r.acked);
        // An answered probe: the path carries again. The other packets of the silence are retransmitted, in bursts that
        // grow with each answer. All at once could overrun the receiver again.
        if progressed && r.doubted > acked {
            // A burst that arrived whole was not lost, however late its ack is. Where no round trip is known, because all
            // packets were retransmitted, each burst is followed by a probe.
            if was_probed && acked < r.burst_end {
                r.burst = PROBE_PACKETS;
            }
            r.burst = (2 * r.burst).min(BURST_MAX);
            r.burst_end = r.doubted.min(acked + r.burst);
            for number in acked + 1..=r.burst_end {
                debug_assert!(number >= base, "a packet that a receiver lacks is not retained");
                let Some(s) = usize::try_from(number - base).ok().and_then(|i| self.retained.get_mut(i)) else { break };
                if now.since(s.last) >= patience && self.retransmissions.len() < RETRANSMISSIONS_MAX {
                    s.is_resent = true;
                    s.last = now;
                    self.retransmissions.push_back((index, number));
                }
            }
        } else if r.doubted <= acked {
            (r.doubted, r.burst, r.burst_end) = (0, PROBE_PACKETS, 0);
        }
        // Behind the last gap something arrived.
        let beyond = ack.gaps.last().map_or(prefix, |gap| gap.last.saturating_add(1).min(sent));
        r.reached = r.reached.max(beyond);
        let mut retransmitted = 0;
        for gap in &ack.gaps {
            let (from, to) = (gap.first.max(base).max(acked + 1), gap.last.min(sent));
            for number in from..=to {
                if self.retransmissions.len() >= RETRANSMISSIONS_MAX || retransmitted >= r.retransmit_budget {
                    break;
                }
                let Some(s) = usize::try_from(number - base).ok().and_then(|i| self.retained.get_mut(i)) else { break };
                if !s.is_resent || now.since(s.last) >= patience {
                    // The first retransmission of a gap goes at once: the receiver reports the packet missing.
                    if s.is_resent && s.last >= r.halved {
                        (r.retransmit_budget, r.halved) = ((r.retransmit_budget / 2).max(PROBE_PACKETS), now);
                        r.backoff = r.backoff.saturating_add(1);
                    }
                    s.is_resent = true;
                    s.last = now;
                    retransmitted += 1;
                    self.retransmissions.push_back((index, number));
                }
            }
        }
        // The minimum over all receivers is computed only when it can have changed.
        if widened {
            self.limit = self.receivers.iter().map(|r| r.limit).min().unwrap_or(u64::MAX);
        }
        if progressed {
            self.stable = self.receivers.iter().map(|r| r.acked).min().unwrap_or(sent);
            self.release();
        }
        debug_assert!(self.stable >= before, "the stable prefix goes back");
        self.stable > before
    }

    /// The next packet to retransmit: the receiver, and the number.
    pub fn poll_retransmit(&mut self) -> Option<(usize, PacketNumber)> {
        while let Some((index, number)) = self.retransmissions.pop_front() {
            // Acknowledged while it waited.
            if self.receivers.get(index).is_some_and(|r| r.acked >= number) {
                continue;
            }
            if (self.base..self.next).contains(&number) {
                let sent = usize::try_from(number - self.base).ok().and_then(|i| self.retained.get(i));
                debug_assert!(sent.is_some_and(|s| s.is_resent), "a retransmitted packet is not marked as such");
                return Some((index, PacketNumber(number)));
            }
        }
        None
    }

    /// Evaluates the probe timers. A receiver that lacks packets and was silent for too long gets its first missing
    /// ones.
    ///
    /// Probes find a lost tail. Gaps do not show it, because no later packet arrives (RFC 9002, section 6.2).
    pub fn handle_timeout(&mut self, now: Instant, ack_delay: Duration) {
        if self.retained.is_empty() {
            return; // nobody lacks anything
        }
        let (base, next) = (self.base, self.next);
        for (index, r) in self.receivers.iter_mut().enumerate() {
            if !r.lacks(next) || now < r.since + r.rtt.probe_after(ack_delay, r.failures) {
                continue;
            }
            r.since = now;
            r.failures = r.failures.saturating_add(1);
            // A tail that was lost whole leaves no gap, so all of it is doubted. Two packets for each probe took more
            // than 10 s for one window (`docs/found-by-simulation.md`).
            r.doubted = next - 1;
            let first = (r.acked + 1).max(base);
            debug_assert!(first < next, "a receiver lacks a packet that was not sent");
            for number in first..next.min(first + PROBE_PACKETS) {
                if let Some(s) = usize::try_from(number - base).ok().and_then(|i| self.retained.get_mut(i)) {
                    s.is_resent = true;
                    s.last = now;
                    if self.retransmissions.len() < RETRANSMISSIONS_MAX {
                        self.retransmissions.push_back((index, number));
                    }
                }
            }
        }
    }

    /// When [`Self::handle_timeout`] is due.
    #[must_use]
    pub fn deadline(&self, ack_delay: Duration) -> Option<Instant> {
        if self.retained.is_empty() {
            return None; // nobody lacks anything
        }
        self.receivers
            .iter()
            .filter(|r| r.lacks(self.next))
            .map(|r| r.since + r.rtt.probe_after(ack_delay, r.failures))
            .min()
    }

    /// The receiver that holds the stream back: by its limit, otherwise by missing acks.
    #[must_use]
    pub fn slowest(&self) -> Option<usize> {
        let by_limit = self.receivers.iter().enumerate().min_by_key(|(_, r)| r.limit);
        match by_limit {
            Some((index, r)) if r.limit < self.next => Some(index),
            _ => self
                .receivers
                .iter()
                .enumerate()
                .filter(|(_, r)| r.lacks(self.next))
                .min_by_key(|(_, r)| r.acked)
                .map(|(i, _)| i),
        }
    }

    /// How far receiver `index` is. An unknown receiver has nothing, and allows everything.
    #[must_use]
    pub fn standing(&self, index: usize) -> Standing {
        self.receivers
            .get(index)
            .map_or(Standing { acked: 0, limit: u64::MAX }, |r| Standing { acked: r.acked, limit: r.limit })
    }

    /// Whether receiver `index` has acknowledged all packets sent.
    #[must_use]
    pub fn has_all(&self, index: usize) -> bool {
        self.receivers.get(index).is_some_and(|r| !r.lacks(self.next))
    }

    /// Receivers that have not acknowledged all packets sent.
    pub fn late(&self) -> impl Iterator<Item = usize> {
        self.receivers.iter().enumerate().filter(|(_, r)| r.lacks(self.next)).map(|(index, _)| index)
    }

    /// Number of consecutive probes that receiver `index` left unanswered.
    #[must_use]
    pub fn failures(&self, index: usize) -> u32 {
        self.receivers.get(index).map_or(0, |r| r.failures)
    }

    fn release(&mut self) {
        while self.base <= self.stable && self.retained.pop_front().is_some() {
            self.base += 1;
        }
        debug_assert_eq!(self.base, self.stable + 1, "exactly the unstable packets are retained");
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If one is violated.
    pub fn check_invariants(&self) {
        assert!(self.stable < self.next, "nobody has a packet that was not sent");
        assert_eq!(self.base, self.stable + 1, "the first retained packet is not the first unstable one");
        assert_eq!(self.base + self.retained.len() as u64, self.next, "retained packets and unstable packets differ");
        let stable = self.receivers.iter().map(|r| r.acked).min().unwrap_or(self.next - 1);
        assert_eq!(self.stable, stable, "the stable prefix is not the slowest receiver's");
        let limit = self.receivers.iter().map(|r| r.limit).min().unwrap_or(u64::MAX);
        assert_eq!(self.limit, limit, "the limit is not the lowest of the receivers' limits");
        assert!(self.retransmissions.len() <= RETRANSMISSIONS_MAX, "too many retransmissions wait");
        for &(index, number) in &self.retransmissions {
            assert!(index < self.receivers.len(), "a retransmission has a receiver");
            assert!(number < self.next, "a retransmission was never sent");
        }
        for r in &self.receivers {
            assert!(r.acked < self.next, "a receiver acknowledged a packet that was not sent");
            assert!(r.doubted < self.next, "a doubted packet was not sent");
            assert!((PROBE_PACKETS..=BURST_MAX).contains(&r.burst), "a burst is out of its bounds");
            assert!(r.doubted > 0 || r.burst == PROBE_PACKETS, "a burst grows only while packets are doubted");
            assert!(r.burst_end <= r.doubted, "a packet of a burst is not doubted");
            assert!(r.retransmit_budget >= PROBE_PACKETS, "the retransmit budget is below one probe");
            assert!(r.retransmit_budget <= RETRANSMISSIONS_MAX as u64, "the retransmit budget exceeds the queue");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Gap;
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn sent(n: u64) -> Sending {
        let mut s = Sending::new(2, 10, at(0));
        for _ in 0..n {
            s.push(at(0));
        }
        s
    }

    fn ack(prefix: u64, gaps: &[(u64, u64)]) -> Ack {
        Ack { prefix, limit: 20, gaps: gaps.iter().map(|&(first, last)| Gap { first, last }).collect() }
    }

    #[test]
    fn a_tail_that_was_lost_whole_comes_again_in_growing_bursts() {
        const SENT: u64 = 500;
        let mut s = Sending::new(1, 1000, at(0));
        (0..SENT).for_each(|_| s.push(at(0)));
        // All packets are lost, and the probes of two seconds, too. Then the path carries again.
        (1..200).for_each(|ms| {
            s.handle_timeout(at(10 * ms), Duration::ZERO);
            while s.poll_retransmit().is_some() {}
        });
        let (mut received, mut now_ms, mut rounds) = (0, 2000, 0);
        while received < SENT {
            now_ms += 20;
            rounds += 1;
            s.handle_timeout(at(now_ms), Duration::ZERO);
            while s.poll_retransmit().is_some() {
                received += 1;
            }
            s.handle_ack(at(now_ms), 0, &ack(received, &[]));
            assert!(rounds < 40, "{received} of {SENT}");
        }
        assert_eq!(s.outstanding(), 0);
    }

    /// One packet at a time, and each is acknowledged `away_ms` after it was first sent.
    fn copies(s: &mut Sending, start_ms: u64, away_ms: u64) -> usize {
        s.push(at(start_ms));
        let number = s.next().0 - 1;
        let mut copies = 0;
        for ms in start_ms..start_ms + away_ms {
            s.handle_timeout(at(ms), Duration::from_millis(5));
            copies += std::iter::from_fn(|| s.poll_retransmit()).count();
        }
        s.handle_ack(at(start_ms + away_ms), 0, &Ack { prefix: number, limit: 1000, gaps: Vec::new() });
        copies
    }

    /// The round trip of a retransmitted packet is not measured. A path longer than the probe timeout is measured all
    /// the same, whatever was measured before: all but the first packets are sent once.
    #[test]
    fn a_far_receiver_is_measured_and_gets_each_packet_once() {
        for away_ms in (5..2_400).step_by(15) {
            for before_ms in [None, Some(1), Some(50), Some(180)] {
                let mut s = Sending::new(1, 1000, at(0));
                let mut now_ms = 0;
                for away_ms in before_ms.into_iter().cycle().take(20) {
                    copies(&mut s, now_ms, away_ms);
                    now_ms += 5_000;
                }
                let retransmitted: Vec<usize> =
                    (0..10u64).map(|packet| copies(&mut s, now_ms + packet * 5_000, away_ms)).collect();
                assert_eq!(retransmitted[7..], [0, 0, 0], "{away_ms} ms after {before_ms:?}: {retransmitted:?}");
                let measured = s.round_trip(0).expect("it is measured");
                assert!(measured >= Duration::from_millis(away_ms / 8), "{away_ms} ms: {measured:?}");
            }
        }
    }

    /// Long packets were lost for 2.4 s, and a short one behind them arrived at once. What followed was retransmitted 2.4 s
    /// after its loss, too.
    #[test]
    fn an_ack_that_waited_for_a_lost_packet_gives_no_round_trip() {
        let mut s = Sending::new(1, 1000, at(0));
        (0..5).for_each(|_| s.push(at(0)));
        s.handle_ack(at(5), 0, &ack(0, &[(1, 4)]));
        s.handle_ack(at(2_400), 0, &ack(5, &[]));
        assert_eq!(s.round_trip(0), None);
        s.push(at(3_000));
        s.handle_ack(at(3_008), 0, &ack(6, &[]));
        assert_eq!(s.round_trip(0), Some(Duration::from_millis(8)));
    }

    #[test]
    fn an_ack_that_tells_nothing_new_brings_nothing_out_again() {
        let mut s = Sending::new(1, 1000, at(0));
        (0..100).for_each(|_| s.push(at(0)));
        s.handle_timeout(at(10_000), Duration::ZERO);
        while s.poll_retransmit().is_some() {}
        s.handle_ack(at(20_000), 0, &ack(0, &[]));
        assert_eq!(s.poll_retransmit(), None, "the probe was not answered");
        s.handle_ack(at(20_000), 0, &ack(1, &[]));
        assert!(s.poll_retransmit().is_some(), "now it was");
    }

    #[test]
    fn an_answered_probe_brings_out_what_was_not_just_sent_again() {
        let mut s = Sending::new(1, 1000, at(0));
        (0..100).for_each(|_| s.push(at(0)));
        s.handle_timeout(at(10_000), Duration::ZERO);
        let probed: Vec<u64> = std::iter::from_fn(|| s.poll_retransmit()).map(|(_, number)| number.0).collect();
        s.handle_ack(at(10_001), 0, &ack(1, &[]));
        let next: Vec<u64> = std::iter::from_fn(|| s.poll_retransmit()).map(|(_, number)| number.0).collect();
        assert!(!next.is_empty() && next.iter().all(|number| !probed.contains(number)), "{probed:?}, then {next:?}");
    }

    /// A queue on the path grew to 200 ms, and no round trip shows it. Acks that arrive meanwhile report the same gap
    /// again and again. Each retransmission would make the queue longer.
    #[test]
    fn what_is_missing_in_a_long_queue_is_sent_again_ever_more_seldom() {
        let mut s = Sending::new(1, 1000, at(0));
        s.push(at(0));
        s.handle_ack(at(1), 0, &ack(1, &[]));
        (0..20).for_each(|_| s.push(at(10)));
        let mut times = Vec::new();
        for ms in 11..211 {
            s.handle_ack(at(ms), 0, &ack(1, &[(2, 2)]));
            times.extend(std::iter::from_fn(|| s.poll_retransmit()).map(|_| ms));
        }
        assert!((5..10).contains(&times.len()), "{times:?}");
        // Once a round trip is measured, the time until a packet counts as lost follows it.
        s.handle_ack(at(211), 0, &ack(20, &[]));
        (0..2).for_each(|_| s.push(at(212)));
        s.handle_ack(at(213), 0, &ack(20, &[(21, 22)]));
        assert_eq!(std::iter::from_fn(|| s.poll_retransmit()).count(), 2, "a gap that is new is filled at once");
        assert_eq!(s.receivers[0].backoff, 0);
    }

    #[test]
    fn it_is_at_rest_when_all_have_everything() {
        let mut s = sent(0);
        assert!(s.is_at_rest());
        s.push(at(0));
        s.handle_ack(at(1), 0, &ack(1, &[]));
        assert!(!s.is_at_rest(), "the second lacks it");
        s.handle_ack(at(1), 1, &ack(1, &[]));
        assert!(s.is_at_rest());
    }

    #[test]
    fn stable_is_what_all_have() {
        let mut s = sent(5);
        assert!(!s.handle_ack(at(1), 0, &ack(5, &[])));
        assert_eq!(s.stable(), 0);
        assert!(s.handle_ack(at(1), 1, &ack(3, &[])));
        assert_eq!(s.stable(), 3);
        assert_eq!(s.outstanding(), 2);
    }

    #[test]
    fn what_nobody_else_receives_is_stable_at_once() {
        let mut s = Sending::new(0, 10, at(0));
        (1..4).for_each(|sent| {
            s.push(at(0));
            assert_eq!((s.stable(), s.outstanding()), (sent, 0));
        });
    }

    #[test]
    fn retransmits_gaps_to_the_one_who_misses_them() {
        let mut s = sent(5);
        s.handle_ack(at(1), 1, &ack(1, &[(2, 3)]));
        assert_eq!(s.poll_retransmit(), Some((1, PacketNumber(2))));
        assert_eq!(s.poll_retransmit(), Some((1, PacketNumber(3))));
        assert_eq!(s.poll_retransmit(), None);
    }

    #[test]
    fn an_ack_for_the_future_does_no_harm() {
        let mut s = sent(2);
        s.handle_ack(at(1), 0, &ack(u64::MAX, &[(0, u64::MAX)]));
        s.handle_ack(at(1), 7, &ack(u64::MAX, &[]));
        assert_eq!(s.stable(), 0);
        assert_eq!(s.poll_retransmit(), None);
    }

    #[test]
    fn the_tail_is_probed() {
        let mut s = sent(2);
        let due = s.deadline(Duration::ZERO).expect("something is outstanding");
        s.handle_timeout(due, Duration::ZERO);
        assert!(s.poll_retransmit().is_some());
        assert!(s.deadline(Duration::ZERO).expect("still outstanding") > due);
    }

    #[test]
    fn windows_bind() {
        let mut s = sent(5);
        assert!(s.may_send());
        for _ in 0..5 {
            s.push(at(0));
        }
        assert!(!s.may_send());
        assert_eq!(s.slowest(), Some(0));
        s.handle_ack(at(1), 0, &ack(10, &[]));
        assert!(!s.may_send());
        assert_eq!(s.slowest(), Some(1));
    }

    /// A gap that finds no room among the retransmissions is reported by the next ack, too.
    #[test]
    fn more_gaps_than_retransmissions_may_wait_are_retransmitted_all_the_same() {
        let count = 2 * RETRANSMISSIONS_MAX as u64 + 10;
        let mut s = Sending::new(1, 10_000, at(0));
        (0..count).for_each(|_| s.push(at(0)));
        let mut missing: std::collections::BTreeSet<u64> = (1..count).collect();
        let mut rounds = 0;
        while let Some(first) = missing.first().copied() {
            rounds += 1;
            let gaps = missing.iter().map(|n| Gap { first: *n, last: *n }).collect();
            s.handle_ack(at(1000 * rounds), 0, &Ack { prefix: first - 1, limit: 10_000, gaps });
            let again: Vec<u64> = std::iter::from_fn(|| s.poll_retransmit()).map(|(_, number)| number.0).collect();
            assert!(again.len() <= RETRANSMISSIONS_MAX, "{}", again.len());
            assert_eq!(again.first(), Some(&first));
            missing.retain(|number| !again.contains(number));
        }
        assert_eq!(rounds, 3);
    }

    /// The receiver is like a ring that is overtaken: if a burst exceeds what it holds, it loses all of it.
    #[test]
    fn a_receiver_that_holds_less_than_it_lacks_has_all_soon() {
        for holds in [10, 40, 150] {
            const SENT: u64 = 200;
            let mut s = Sending::new(1, 1000, at(0));
            (0..SENT).for_each(|_| s.push(at(0)));
            let mut received = std::collections::BTreeSet::from([SENT]);
            let mut rounds = 0;
            while received.len() < SENT as usize {
                rounds += 1;
                assert!(rounds < 100, "{holds}: {} of {SENT}", received.len());
                s.handle_timeout(at(250 * rounds), Duration::ZERO);
                for half in 0..2 {
                    let missing: Vec<u64> = (1..=SENT).filter(|number| !received.contains(number)).collect();
                    let prefix = missing.first().map_or(SENT, |first| first - 1);
                    let gaps = missing.iter().map(|n| Gap { first: *n, last: *n }).collect();
                    let burst: Vec<u64> =
                        std::iter::from_fn(|| s.poll_retransmit()).map(|(_, number)| number.0).collect();
                    if burst.len() <= holds {
                        received.extend(burst);
                    }
                    let now = at(250 * rounds + 50 * (half + 1));
                    s.handle_ack(now, 0, &Ack { prefix, limit: 1000, gaps });
                }
            }
        }
    }

    /// The receiver looks every 231 ms only. All was lost and is retransmitted, so no round trip is known, and a probe follows
    /// each burst before its ack.
    #[test]
    fn bursts_grow_though_their_acks_are_late() {
        const SENT: u64 = 200;
        let mut s = Sending::new(1, 1000, at(0));
        (0..SENT).for_each(|_| s.push(at(0)));
        let (mut received, mut waiting, mut now_ms) = (0, std::collections::BTreeSet::new(), 0);
        while received < SENT {
            now_ms += 1;
            assert!(now_ms < 3_000, "{received} of {SENT}");
            s.handle_timeout(at(now_ms), Duration::ZERO);
            waiting.extend(std::iter::from_fn(|| s.poll_retransmit()).map(|(_, number)| number.0));
            if now_ms % 231 == 0 {
                while waiting.contains(&(received + 1)) {
                    received += 1;
                }
                s.handle_ack(at(now_ms), 0, &ack(received, &[]));
            }
            s.check_invariants();
        }
    }

    #[test]
    fn a_burst_after_silence_grows_up_to_its_bound() {
        const SENT: u64 = 900;
        let mut s = Sending::new(1, 1000, at(0));
        (0..SENT).for_each(|_| s.push(at(0)));
        for ms in 1..200 {
            s.handle_timeout(at(10 * ms), Duration::ZERO);
            while s.poll_retransmit().is_some() {}
        }
        let (mut received, mut now_ms, mut bursts) = (0, 2000, Vec::new());
        while received < SENT {
            now_ms += 20;
            s.handle_timeout(at(now_ms), Duration::ZERO);
            let burst = std::iter::from_fn(|| s.poll_retransmit()).count() as u64;
            received = (received + burst).min(SENT);
            bursts.push(burst);
            s.handle_ack(at(now_ms), 0, &ack(received, &[]));
        }
        assert!(bursts.iter().all(|burst| *burst <= BURST_MAX + PROBE_PACKETS), "{bursts:?}");
        assert!(bursts.iter().any(|burst| *burst >= BURST_MAX), "{bursts:?}");
    }
}
