//! Best-effort frames, which are never retransmitted: acknowledgements, stream status, heartbeats, probes, notices.
//! Layout: `docs/wire.md`.

use crate::id::{DecreeNumber, Incarnation, Rank, ViewNumber};
use crate::link::{Ack, GAPS_MAX, Gap};
use crate::member::{Findings, LinkReport, PathKind, SlowReport, Suspicion};
use crate::order::Status;
use crate::wire::codec::{Reader, put_varint};
use crate::wire::{Malformed, Space};

/// The stream of the receiver that an ack is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The multicast stream in this packet space.
    Stream {
        /// The packet space.
        space: Space,
        /// Asks for a status in return: the sender of the ack holds packets that it could forget if they are stable.
        wants_stable: bool,
    },
    /// The control channel.
    Control,
    /// The data channel.
    Data,
    /// The channel for messages to one member of a group.
    ToOne,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BestEffortFrame {
    /// Which packets of one of the receiver's streams have arrived at the sender.
    Ack(Target, Ack),
    /// Where the sender's own multicast stream stands.
    Status {
        /// The packet space.
        space: Space,
        /// Where it stands.
        status: Status,
    },
    /// The sender is alive.
    Heartbeat {
        /// The last decree it installed.
        decree: DecreeNumber,
        /// Whether it hears each member, by rank in that decree's cell view.
        hears: Vec<bool>,
    },
    /// The sender, of a large cell, is alive.
    WatchHeartbeat(WatchHeartbeat),
    /// A link-state report of a member of a large cell.
    LinkReport {
        /// The decree whose cell view the ranks refer to.
        decree: DecreeNumber,
        /// The member whose links it reports.
        rank: Rank,
        /// The report.
        link_report: LinkReport,
    },
    /// The members that keep the sender's messages waiting.
    SlowReport {
        /// The decree whose cell view the ranks refer to.
        decree: DecreeNumber,
        /// The report.
        slow_report: SlowReport,
    },
    /// A probe of a path, or its answer.
    Probe(Probe),
    /// The paths that failed, as far as the sender knows.
    Findings {
        /// The decree whose cell view the ranks refer to.
        decree: DecreeNumber,
        /// The findings.
        findings: Findings,
    },
    /// The sender's view does not contain the receiver's incarnation any more.
    Excluded {
        /// The cell view's number.
        view: ViewNumber,
    },
}

/// A heartbeat of a large cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchHeartbeat {
    /// The last decree its sender installed.
    pub decree: DecreeNumber,
    /// All members within this many links of the sender have installed it too.
    pub depth: u64,
    /// Asks the receiver for heartbeats in return, though it is not the sender's neighbour in the watch graph.
    pub asks: bool,
    /// Digest of the link-state reports known to the sender. Members that know the same reports have the same digest.
    pub digest: u64,
}

/// A probe of a path, or its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The path that it probes.
    pub kind: PathKind,
    /// Whether it is the answer.
    pub answers: bool,
    /// When the probe was sent, in nanoseconds of the prober's clock. The answer carries it back, so the prober keeps
    /// no table of probes.
    pub sent: u64,
}

const ACK_STREAM: u8 = 1;
const ACK_CONTROL: u8 = 2;
const ACK_DATA: u8 = 3;
const STATUS: u8 = 4;
const HEARTBEAT: u8 = 5;
const EXCLUDED: u8 = 6;
const WATCH_HEARTBEAT: u8 = 7;
const LINK_REPORT: u8 = 8;
const ACK_TO_ONE: u8 = 9;
/// Bit of the kinds of frames that carry their length. A receiver skips those that it does not know.
const SKIPPABLE: u8 = 0x40;
const SLOW_REPORT: u8 = SKIPPABLE | 1;
const PROBE: u8 = SKIPPABLE | 2;
const FINDINGS: u8 = SKIPPABLE | 3;
/// Upper bound on the members of a view, and on the ranks in a list.
const RANKS_MAX: u64 = 65_536;
const _: () = assert!(SKIPPABLE > ACK_TO_ONE, "no frame that all builds know is skipped");
const _: () = assert!(GAPS_MAX as u64 <= RANKS_MAX, "an ack's gaps are no more than a list may have");

/// Appends an ack.
pub fn put_ack(out: &mut Vec<u8>, target: Target, ack: &Ack) {
    match target {
        Target::Stream { space, wants_stable } => {
            out.push(ACK_STREAM);
            put_varint(out, u64::from(space.0) << 1 | u64::from(wants_stable));
        }
        Target::Control => out.push(ACK_CONTROL),
        Target::Data => out.push(ACK_DATA),
        Target::ToOne => out.push(ACK_TO_ONE),
    }
    put_varint(out, ack.prefix);
    put_varint(out, ack.limit);
    put_varint(out, ack.gaps.len() as u64);
    let mut at = ack.prefix;
    for &Gap { first, last } in &ack.gaps {
        put_varint(out, first - at);
        put_varint(out, last - first);
        at = last;
    }
}

/// Appends a stream status.
pub fn put_status(out: &mut Vec<u8>, space: Space, status: &Status) {
    out.push(STATUS);
    put_varint(out, u64::from(space.0) << 1 | u64::from(status.blocked));
    put_varint(out, status.highest);
    put_varint(out, status.stable);
}

/// Appends a heartbeat.
pub fn put_heartbeat(out: &mut Vec<u8>, decree: DecreeNumber, hears: &[bool]) {
    out.push(HEARTBEAT);
    put_varint(out, decree.0);
    put_varint(out, hears.len() as u64);
    for chunk in hears.chunks(8) {
        out.push(chunk.iter().enumerate().fold(0, |byte, (i, &h)| byte | u8::from(h) << i));
    }
}

/// Appends a heartbeat of a large cell.
pub fn put_watch_heartbeat(out: &mut Vec<u8>, beat: &WatchHeartbeat) {
    out.push(WATCH_HEARTBEAT);
    put_varint(out, beat.decree.0);
    put_varint(out, beat.depth << 1 | u64::from(beat.asks));
    out.extend_from_slice(&beat.digest.to_le_bytes());
}

/// Appends a link-state report.
pub fn put_link_report(out: &mut Vec<u8>, decree: DecreeNumber, rank: Rank, link_report: &LinkReport) {
    debug_assert!(link_report.version > 0, "version 0 stands for no report, and is never sent");
    out.push(LINK_REPORT);
    put_varint(out, decree.0);
    put_varint(out, u64::from(rank.0));
    put_varint(out, link_report.version);
    put_ranks(out, &link_report.suspected);
    put_ranks(out, &link_report.besides);
}

/// Appends a slow-member report.
pub fn put_slow_report(out: &mut Vec<u8>, decree: DecreeNumber, slow_report: &SlowReport) {
    let mut fields = Vec::with_capacity(16);
    put_varint(&mut fields, decree.0);
    fields.push(u8::from(slow_report.excused));
    put_ranks(&mut fields, &slow_report.slow);
    out.push(SLOW_REPORT);
    put_varint(out, fields.len() as u64);
    out.extend_from_slice(&fields);
}

/// Appends a probe, padded with zeros to `len` bytes. It is longer if its fields need more, and one byte shorter where
/// no length of the fields gives `len`.
pub fn put_probe(out: &mut Vec<u8>, probe: Probe, len: usize) {
    let mut fields = vec![probe.kind.number() << 1 | u8::from(probe.answers)];
    fields.extend_from_slice(&probe.sent.to_le_bytes());
    // Kind and length precede the fields. The length itself takes one byte more from 128 on, and another from 16,384
    // on.
    let head = |fields: usize| 2 + usize::from(fields >= 1 << 7) + usize::from(fields >= 1 << 14);
    let fits = (2..=4).map(|head| len.saturating_sub(head)).find(|fields| head(*fields) + fields <= len);
    fields.resize(fits.unwrap_or(0).max(fields.len()), 0);
    out.push(PROBE);
    put_varint(out, fields.len() as u64);
    out.extend_from_slice(&fields);
}

/// Appends findings.
pub fn put_findings(out: &mut Vec<u8>, decree: DecreeNumber, findings: &Findings) {
    let mut fields = Vec::with_capacity(32);
    put_varint(&mut fields, decree.0);
    put_varint(&mut fields, findings.suspected.len() as u64);
    for suspicion in &findings.suspected {
        put_varint(&mut fields, u64::from(suspicion.rank.0));
        fields.push(suspicion.kind.number());
        put_varint(&mut fields, suspicion.number);
    }
    put_varint(&mut fields, findings.answered.len() as u64);
    for (by, upto) in &findings.answered {
        put_varint(&mut fields, u64::from(by.0));
        put_varint(&mut fields, *upto);
    }
    // Builds of lower levels than 5 do not know these two lists. They are left out while empty, and a reader takes what
    // follows only if there is more.
    if !(findings.dead.is_empty() && findings.reached.is_empty()) {
        put_ranks(&mut fields, &findings.dead);
        put_varint(&mut fields, findings.reached.len() as u64);
        findings.reached.iter().for_each(|who| fields.extend_from_slice(&who.0.to_le_bytes()));
    }
    out.push(FINDINGS);
    put_varint(out, fields.len() as u64);
    out.extend_from_slice(&fields);
}

fn put_ranks(out: &mut Vec<u8>, ranks: &[Rank]) {
    debug_assert!(ranks.is_sorted_by(|a, b| a < b), "a list of ranks rises and names each once");
    put_varint(out, ranks.len() as u64);
    let mut next = 0;
    for &Rank(rank) in ranks {
        put_varint(out, u64::from(rank) - next);
        next = u64::from(rank) + 1;
    }
}

/// Appends a notice of exclusion.
pub fn put_excluded(out: &mut Vec<u8>, view: ViewNumber) {
    out.push(EXCLUDED);
    put_varint(out, view.0);
}

/// Reads the next frame. `None` stands for an unknown frame that was skipped by its length.
///
/// # Errors
/// [`Malformed`] when the bytes make no sense.
pub fn read_best_effort(r: &mut Reader<'_>) -> Result<Option<BestEffortFrame>, Malformed> {
    Ok(Some(match r.u8()? {
        ACK_STREAM => {
            let head = r.varint()?;
            let space = Space(u32::try_from(head >> 1).map_err(|_too_big| Malformed)?);
            BestEffortFrame::Ack(Target::Stream { space, wants_stable: head & 1 == 1 }, ack(r)?)
        }
        ACK_CONTROL => BestEffortFrame::Ack(Target::Control, ack(r)?),
        ACK_DATA => BestEffortFrame::Ack(Target::Data, ack(r)?),
        ACK_TO_ONE => BestEffortFrame::Ack(Target::ToOne, ack(r)?),
        STATUS => {
            let head = r.varint()?;
            let space = Space(u32::try_from(head >> 1).map_err(|_too_big| Malformed)?);
            let (highest, stable) = (r.varint()?, r.varint()?);
            BestEffortFrame::Status { space, status: Status { highest, stable, blocked: head & 1 == 1 } }
        }
        HEARTBEAT => {
            let decree = decree(r)?;
            let n = r.varint()?;
            if n > RANKS_MAX {
                return Err(Malformed);
            }
            let n = usize::try_from(n).map_err(|_too_big| Malformed)?;
            let bits = r.bytes(n.div_ceil(8))?;
            let beyond = if n % 8 == 0 { 0 } else { bits.last().map_or(0, |last| last >> (n % 8)) };
            if beyond != 0 {
                return Err(Malformed); // a bit beyond the last rank
            }
            let hears = (0..n).map(|i| bits[i / 8] >> (i % 8) & 1 == 1).collect();
            BestEffortFrame::Heartbeat { decree, hears }
        }
        EXCLUDED => BestEffortFrame::Excluded { view: ViewNumber(r.varint()?) },
        WATCH_HEARTBEAT => {
            let (decree, depth) = (decree(r)?, r.varint()?);
            let digest = r.bytes(8)?.try_into().map_err(|_too_short| Malformed)?;
            let digest = u64::from_le_bytes(digest);
            BestEffortFrame::WatchHeartbeat(WatchHeartbeat { decree, depth: depth >> 1, asks: depth & 1 == 1, digest })
        }
        LINK_REPORT => {
            let (decree, rank, version) = (decree(r)?, rank(r)?, r.varint()?);
            let (suspected, besides) = (ranks(r)?, ranks(r)?);
            BestEffortFrame::LinkReport { decree, rank, link_report: LinkReport { version, suspected, besides } }
        }
        SLOW_REPORT => {
            let mut fields = Reader::new(r.prefixed()?);
            let (decree, flags) = (decree(&mut fields)?, fields.u8()?);
            if flags > 1 {
                return Err(Malformed);
            }
            let slow = ranks(&mut fields)?;
            BestEffortFrame::SlowReport { decree, slow_report: SlowReport { excused: flags & 1 == 1, slow } }
        }
        PROBE => {
            let mut fields = Reader::new(r.prefixed()?);
            let what = fields.u8()?;
            let kind =
                PathKind::from_number(what >> 1).filter(|kind| PathKind::PROBED.contains(kind)).ok_or(Malformed)?;
            let sent = fields.bytes(8)?.try_into().map_err(|_too_short| Malformed)?;
            BestEffortFrame::Probe(Probe { kind, answers: what & 1 == 1, sent: u64::from_le_bytes(sent) })
        }
        FINDINGS => {
            let mut fields = Reader::new(r.prefixed()?);
            let decree = decree(&mut fields)?;
            BestEffortFrame::Findings { decree, findings: findings(&mut fields)? }
        }
        unknown if unknown & SKIPPABLE != 0 => {
            r.prefixed()?;
            return Ok(None);
        }
        _ => return Err(Malformed),
    }))
}

fn findings(r: &mut Reader<'_>) -> Result<Findings, Malformed> {
    let mut findings = Findings::default();
    for _ in 0..r.varint()? {
        let (rank, kind) = (rank(r)?, PathKind::from_number(r.u8()?).ok_or(Malformed)?);
        findings.suspected.push(Suspicion { rank, kind, number: r.varint()? });
    }
    for _ in 0..r.varint()? {
        findings.answered.push((rank(r)?, r.varint()?));
    }
    if !r.is_empty() {
        findings.dead = ranks(r)?;
        for _ in 0..r.varint()? {
            let who = r.bytes(8)?.try_into().map_err(|_too_short| Malformed)?;
            findings.reached.push(Incarnation(u64::from_le_bytes(who)));
        }
    }
    let rises = findings.suspected.windows(2).all(|pair| (pair[0].rank, pair[0].kind) < (pair[1].rank, pair[1].kind));
    if rises && findings.answered.windows(2).all(|pair| pair[0].0 < pair[1].0) { Ok(findings) } else { Err(Malformed) }
}

fn decree(r: &mut Reader<'_>) -> Result<DecreeNumber, Malformed> {
    r.varint().map(DecreeNumber)
}

fn rank(r: &mut Reader<'_>) -> Result<Rank, Malformed> {
    u16::try_from(r.varint()?).map(Rank).map_err(|_too_big| Malformed)
}

/// Ranks in rising order.
fn ranks(r: &mut Reader<'_>) -> Result<Vec<Rank>, Malformed> {
    let n = r.varint()?;
    if n > RANKS_MAX {
        return Err(Malformed);
    }
    let mut next = 0_u64;
    let mut ranks = Vec::new();
    for _ in 0..n {
        let rank = next.checked_add(r.varint()?).ok_or(Malformed)?;
        ranks.push(u16::try_from(rank).map(Rank).map_err(|_too_big| Malformed)?);
        next = rank + 1;
    }
    Ok(ranks)
}

fn ack(r: &mut Reader<'_>) -> Result<Ack, Malformed> {
    let (prefix, limit, n) = (r.varint()?, r.varint()?, r.varint()?);
    if n > GAPS_MAX as u64 {
        return Err(Malformed);
    }
    let mut at = prefix;
    let mut gaps = Vec::new();
    for _ in 0..n {
        let first = at.checked_add(r.varint()?).ok_or(Malformed)?;
        let last = first.checked_add(r.varint()?).ok_or(Malformed)?;
        gaps.push(Gap { first, last });
        at = last;
    }
    Ok(Ack { prefix, limit, gaps })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            prefix in 0..1u64 << 60, limit: u64, steps in proptest::collection::vec((1..1000u64, 0..1000u64), 0..GAPS_MAX),
            suspected in proptest::collection::btree_set(any::<u16>().prop_map(Rank), 0..40),
            space: u32, flag: bool, hears in proptest::collection::vec(any::<bool>(), 0..100),
            decree in any::<u64>().prop_map(DecreeNumber),
        ) {
            let mut at = prefix;
            let gaps = steps.iter().map(|&(a, b)| { let g = Gap { first: at + a, last: at + a + b }; at = g.last; g }).collect();
            let ack = Ack { prefix, limit, gaps };
            let target = Target::Stream { space: Space(space >> 1), wants_stable: flag };
            let status = Status { highest: limit, stable: prefix, blocked: flag };
            let mut out = Vec::new();
            put_ack(&mut out, target, &ack);
            put_ack(&mut out, Target::Data, &ack);
            put_ack(&mut out, Target::ToOne, &ack);
            put_status(&mut out, Space(space >> 1), &status);
            put_heartbeat(&mut out, decree, &hears);
            let beat = WatchHeartbeat { decree, depth: prefix, asks: flag, digest: limit };
            let link_report = LinkReport { version: limit, suspected: suspected.into_iter().collect(), besides: vec![Rank(0), Rank(1), Rank(u16::MAX)] };
            put_watch_heartbeat(&mut out, &beat);
            put_link_report(&mut out, decree, Rank(u16::MAX), &link_report);
            let slow_report = SlowReport { excused: flag, slow: link_report.suspected.clone() };
            put_slow_report(&mut out, decree, &slow_report);
            let probe = Probe { kind: PathKind::LongData, answers: flag, sent: limit };
            put_probe(&mut out, probe, hears.len() * 200);
            let suspected = link_report.suspected.iter().map(|rank| Suspicion { rank: *rank, kind: PathKind::Data, number: prefix });
            let findings = Findings { suspected: suspected.collect(), answered: vec![(Rank(3), limit), (Rank(u16::MAX), 1)], dead: link_report.besides.clone(), reached: vec![Incarnation(limit)] };
            put_findings(&mut out, decree, &findings);
            let view = ViewNumber(limit);
            put_excluded(&mut out, view);
            let mut r = Reader::new(&out);
            prop_assert_eq!(read_best_effort(&mut r).ok().flatten().expect("a frame"), BestEffortFrame::Ack(target, ack.clone()));
            prop_assert_eq!(read_best_effort(&mut r).ok().flatten().expect("a frame"), BestEffortFrame::Ack(Target::Data, ack.clone()));
            prop_assert_eq!(read_best_effort(&mut r).ok().flatten().expect("a frame"), BestEffortFrame::Ack(Target::ToOne, ack));
            prop_assert_eq!(read_best_effort(&mut r).ok().flatten().expect("a frame"), BestEffortFrame::Status { space: Space(space >> 1), status });
            prop_assert_eq!(read_best_effort(&mut r).ok().flatten().expect("a frame"), BestEffortFrame::Heartbeat { decree, hears });
            prop_assert_eq!(read_best_effort(&mut r).ok().flatten().expect("a frame"), BestEffortFrame::WatchHeartbeat(beat));
            prop_assert_eq!(read_best_effort(&mut r).ok().flatten().expect("a frame"), BestEffortFrame::LinkReport { decree, rank: Rank(u16::MAX), link_report });
            prop_assert_eq!(read_best_effort(&mut r).ok().flatten().expect("a frame"), BestEffortFrame::SlowReport { decree, slow_report });
            prop_assert_eq!(read_best_effort(&mut r).ok().flatten().expect("a frame"), BestEffortFrame::Probe(probe));
            prop_assert_eq!(read_best_effort(&mut r).ok().flatten().expect("a frame"), BestEffortFrame::Findings { decree, findings });
            prop_assert_eq!(read_best_effort(&mut r).ok().flatten().expect("a frame"), BestEffortFrame::Excluded { view });
            prop_assert!(r.is_empty());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut r = Reader::new(&bytes);
            while !r.is_empty() {
                if read_best_effort(&mut r).is_err() { break; }
            }
        }
    }

    /// The padding hits the length to the byte, also where the length field itself takes a byte more.
    #[test]
    fn a_probe_is_padded_to_the_length_asked_for() {
        let probe = Probe { kind: PathKind::LongData, answers: false, sent: 7 };
        for len in (11..400).chain(16_300..16_500).chain([65_000]) {
            let mut out = Vec::new();
            put_probe(&mut out, probe, len);
            // Totals of 130 and 16,387 bytes cannot be reached by any length of the fields.
            assert!(out.len() == len || out.len() + 1 == len && [130, 16_387].contains(&len), "{len}: {}", out.len());
            assert_eq!(read_best_effort(&mut Reader::new(&out)), Ok(Some(BestEffortFrame::Probe(probe))));
        }
        let mut short = Vec::new();
        put_probe(&mut short, probe, 0);
        assert_eq!(short.len(), 11);
        for bytes in [&[PROBE, 9, 6, 0, 0, 0, 0, 0, 0, 0, 0][..], &[PROBE, 8, 0, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(read_best_effort(&mut Reader::new(bytes)), Err(Malformed), "no such kind, or cut off");
        }
        // Suspicions must rise in rank and kind.
        let twice = [FINDINGS, 10, 5, 2, 1, 0, 1, 1, 0, 2, 0, 0];
        assert_eq!(read_best_effort(&mut Reader::new(&twice[..11])), Err(Malformed));
        assert_eq!(read_best_effort(&mut Reader::new(&twice)), Err(Malformed));
    }

    #[test]
    fn a_beat_names_as_many_ranks_as_a_view_may_have_and_no_more() {
        let ranks = usize::try_from(RANKS_MAX).expect("small");
        let read = |out: &[u8]| read_best_effort(&mut Reader::new(out)).map(|frame| frame.is_some());
        let beat = |members: usize| {
            let mut out = Vec::new();
            put_heartbeat(&mut out, DecreeNumber::FIRST, &vec![true; members]);
            read(&out)
        };
        assert_eq!((beat(ranks), beat(ranks + 1)), (Ok(true), Err(Malformed)));
        let of_rank = |rank: u64| {
            let mut out = vec![LINK_REPORT];
            [1, rank, 1, 0, 0].into_iter().for_each(|field| put_varint(&mut out, field));
            read(&out)
        };
        assert_eq!((of_rank(RANKS_MAX - 1), of_rank(RANKS_MAX)), (Ok(true), Err(Malformed)));
        let mut out = Vec::new();
        let suspected = (0..=u16::MAX).map(Rank).collect();
        put_link_report(
            &mut out,
            DecreeNumber::FIRST,
            Rank::FIRST,
            &LinkReport { version: 1, suspected, besides: Vec::new() },
        );
        assert_eq!(read(&out), Ok(true), "everybody is suspected");
        let mut list = Vec::new();
        put_varint(&mut list, RANKS_MAX + 1);
        list.resize(list.len() + ranks + 1, 0);
        assert_eq!(super::ranks(&mut Reader::new(&list)), Err(Malformed));
    }

    /// Only frames that carry their length can be skipped, and a flag is one bit.
    #[test]
    fn unknown_frames_are_skipped_if_they_carry_their_length() {
        let read = |bytes: &[u8]| {
            let mut r = Reader::new(bytes);
            read_best_effort(&mut r).map(|frame| (frame, r.remaining()))
        };
        for kind in [SKIPPABLE | 4, SKIPPABLE | 0x3f, 0xff] {
            assert_eq!(read(&[kind, 3, 1, 2, 3, 9]), Ok((None, 1)), "kind {kind:#x}");
            assert_eq!(read(&[kind, 3, 1, 2]), Err(Malformed), "kind {kind:#x}, cut off");
        }
        for kind in [0, ACK_TO_ONE + 1, 0x3f, 0x80, 0xbf] {
            assert_eq!(read(&[kind, 3, 1, 2, 3, 9]), Err(Malformed), "kind {kind:#x}");
        }
        for (flags, excused) in [(0, false), (1, true)] {
            let slow_report = SlowReport { excused, slow: vec![Rank(4)] };
            let frame = BestEffortFrame::SlowReport { decree: DecreeNumber(7), slow_report };
            assert_eq!(read(&[SLOW_REPORT, 4, 7, flags, 1, 4]), Ok((Some(frame), 0)), "flags {flags}");
        }
        for flags in [2, 3, 0x81] {
            assert_eq!(read(&[SLOW_REPORT, 4, 7, flags, 1, 4]), Err(Malformed), "flags {flags}");
        }
        assert_eq!(read(&[HEARTBEAT, 7, 3, 0b1000]), Err(Malformed), "a bit beyond three ranks");
    }

    #[test]
    fn an_ack_names_as_many_gaps_as_it_may_and_no_more() {
        let read = |gaps: usize| {
            let gaps = (0..gaps as u64).map(|n| Gap { first: 10 * n + 5, last: 10 * n + 7 }).collect();
            let mut out = Vec::new();
            put_ack(&mut out, Target::Data, &Ack { prefix: 1, limit: 9, gaps });
            read_best_effort(&mut Reader::new(&out)).map(|frame| frame.is_some())
        };
        assert_eq!((read(GAPS_MAX), read(GAPS_MAX + 1)), (Ok(true), Err(Malformed)));
    }
}
