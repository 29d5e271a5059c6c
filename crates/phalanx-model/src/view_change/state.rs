//! A state of the model, packed into a few bytes.

use std::hash::{Hash, Hasher};

use super::config::{BALLOTS, PACKETS, PROCESSES, STREAMS};

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// By rank.
    pub members: [Member; PROCESSES],
    /// By ballot number, less one.
    pub ballots: [Try; BALLOTS],
    /// For each stream: packets sent.
    pub sent: [u8; STREAMS],
    /// For each stream and packet: the messages of the other stream that its message depends on.
    pub past: [[u8; PACKETS]; STREAMS],
    /// For each stream and packet: the readers to whom it makes no sense, a bit each.
    pub nonsense: [[u8; PACKETS]; STREAMS],
    /// Crashes so far.
    pub crashes: u8,
    /// Violations found in a step, a bit each: `BROKE_GATE`, `BROKE_SURVIVORS`.
    pub broken: u8,
}

/// A packet was acknowledged outside an installed view that is not wedged.
pub(super) const BROKE_GATE: u8 = 1;
/// A member was kept that had not reported.
pub(super) const BROKE_SURVIVORS: u8 = 2;

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Member {
    /// It runs, and has not learned that it is excluded.
    pub lives: bool,
    /// It stopped in the group's view.
    pub wedged: bool,
    /// It has installed the next view.
    pub installed: bool,
    /// `Acceptor`: the ballot promised; 0: none.
    pub promised: u8,
    /// `Acceptor`: the ballot in which it accepted; 0: none.
    pub accepted: u8,
    /// The ballot that it coordinates; 0: none.
    pub current: u8,
    /// The highest round it has seen.
    pub round: u8,
    /// The ballot whose proposal it knows to be decided; 0: none.
    pub decided: u8,
    /// For each stream: packets held, a bit each.
    pub held: [u8; STREAMS],
    /// For each stream: the parsed prefix.
    pub parsed: [u8; STREAMS],
    /// For each stream: messages delivered.
    pub delivered: [u8; STREAMS],
    /// For each stream: the prefix acknowledged to its sender.
    pub acked: [u8; STREAMS],
    /// For each stream: the prefix that its sender announced as stable.
    pub stable: [u8; STREAMS],
    /// For each stream: the prefix in its first report.
    pub told: [u8; STREAMS],
    /// The streams in which it found nonsense, a bit each.
    pub found: u8,
    /// It takes the state anew by its own decision.
    pub anew: bool,
}

/// The progress of a ballot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, PartialOrd, Ord)]
pub enum Phase {
    /// Not begun.
    #[default]
    None,
    /// Given up before it proposed.
    GivenUp,
    /// Waiting for reports.
    Gathering,
    /// Waiting until all reporters hold the cut.
    Filling,
    /// Proposed.
    Proposing,
    /// Decided.
    Decided,
}

/// One ballot: its coordinator's memory, and all messages of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Try {
    /// Its progress.
    pub phase: Phase,
    /// Members that were asked.
    pub asked: u8,
    /// Members that reported.
    pub reported: u8,
    /// Members that ever accepted in it.
    pub accepters: u8,
    /// By rank: the ballot of the acceptance that the member reported.
    pub had_accepted: [u8; PROCESSES],
    /// By rank and stream: the prefix reported.
    pub prefixes: [[u8; STREAMS]; PROCESSES],
    /// By rank and stream: the prefix that the reporter has acted upon.
    pub read: [[u8; STREAMS]; PROCESSES],
    /// For each stream: the reporters that found nonsense in it, a bit each.
    pub found: [u8; STREAMS],
    /// The proposal.
    pub proposal: Proposal,
}

/// The value that a ballot proposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Proposal {
    /// The ballot in which it was built; 0: no proposal.
    pub origin: u8,
    /// Members that stay.
    pub survivors: u8,
    /// Members that requested to leave and take part to the end.
    pub leavers: u8,
    /// Members that stay in the cell and take the group's state anew, a bit each.
    pub anew: u8,
    /// Senders of nonsense that leave the group, a bit each. A later decree excludes them from the cell.
    pub gone: u8,
    /// Whether the group stops for good.
    pub stops: bool,
    /// Coordinators whose own change it includes.
    pub changes: u8,
    /// Whether the group's view ends.
    pub ends: bool,
    /// For each stream: the cut.
    pub cut: [u8; STREAMS],
}

impl Member {
    /// The longest contiguous prefix held of a stream. (`Receiving::held`)
    #[must_use]
    pub fn prefix(&self, stream: usize) -> u8 {
        self.held[stream].trailing_ones() as u8
    }

    /// The highest packet held of a stream.
    #[must_use]
    pub fn highest(&self, stream: usize) -> u8 {
        (u8::BITS - self.held[stream].leading_zeros()) as u8
    }
}

impl Proposal {
    /// Whether it decides the outcome for members that found nonsense.
    pub(super) fn judged(&self) -> bool {
        self.anew | self.gone != 0 || self.stops
    }

    /// Members of the group that keep its state, up to the cut.
    #[must_use]
    pub fn keep(&self, group: u8) -> u8 {
        if self.stops { 0 } else { (self.survivors | self.leavers) & group & !self.anew & !self.gone }
    }
}

impl State {
    /// The longest prefix held of a stream that makes sense to a member.
    #[must_use]
    pub fn readable(&self, at: usize, stream: usize) -> u8 {
        let nonsense = self.nonsense[stream].iter().position(|readers| readers & 1 << at != 0);
        let prefix = self.members[at].prefix(stream);
        nonsense.map_or(prefix, |packet| prefix.min(packet as u8))
    }

    /// The ballot of that number (from 1).
    #[must_use]
    pub fn ballot(&self, number: u8) -> &Try {
        &self.ballots[usize::from(number) - 1]
    }

    /// The ballot of that number (from 1), mutable.
    pub fn ballot_mut(&mut self, number: u8) -> &mut Try {
        &mut self.ballots[usize::from(number) - 1]
    }

    /// The proposals that were decided, or that some member takes for decided.
    pub fn decisions(&self) -> impl Iterator<Item = &Proposal> {
        let installed = self.members.iter().filter(|m| m.installed && m.decided != 0);
        let decided = self.ballots.iter().filter(|b| b.phase == Phase::Decided);
        decided.map(|b| &b.proposal).chain(installed.map(|m| &self.ballot(m.decided).proposal))
    }
}

/// The number of words that a state is hashed as.
const WORDS: usize = PROCESSES * 2 + BALLOTS * 3 + 2;

impl Hash for State {
    /// Hashes all of it in one call: hashing field by field would take most of the run time.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let pack = |parts: &[u8]| parts.iter().fold(0_u64, |word, &part| word << 4 | u64::from(part));
        let mut words = [0_u64; WORDS];
        let mut at = 0;
        let mut put = |word: u64| {
            words[at] = word;
            at += 1;
        };
        for m in &self.members {
            let flags = u8::from(m.lives) | u8::from(m.wedged) << 1 | u8::from(m.installed) << 2;
            put(pack(&[
                flags,
                m.promised,
                m.accepted,
                m.current,
                m.round,
                m.decided,
                m.held[0],
                m.held[1],
                m.told[0],
                m.told[1],
                m.found | u8::from(m.anew) << 2,
            ]));
            put(pack(&[
                m.parsed[0],
                m.parsed[1],
                m.delivered[0],
                m.delivered[1],
                m.acked[0],
                m.acked[1],
                m.stable[0],
                m.stable[1],
            ]));
        }
        for b in &self.ballots {
            let found = pack(&b.found) << 32;
            put(found | pack(&[b.phase as u8, b.asked, b.reported, b.accepters]) << 16 | pack(&b.had_accepted));
            let prefixes = b.prefixes.iter().chain(&b.read);
            put(prefixes.fold(0, |word, p| word << 8 | u64::from(p[0]) << 4 | u64::from(p[1])));
            let p = &b.proposal;
            let flags = u8::from(p.ends) | u8::from(p.stops) << 1;
            put(pack(&[p.origin, p.survivors, p.leavers, p.changes, flags, p.cut[0], p.cut[1], p.anew, p.gone]));
        }
        let past = &self.past;
        put(pack(&[
            self.sent[0],
            self.sent[1],
            past[0][0],
            past[0][1],
            past[1][0],
            past[1][1],
            self.crashes,
            self.broken,
        ]));
        let [first, second] = &self.nonsense;
        put(pack(first) << 8 | pack(second));
        for word in words {
            hasher.write_u64(word);
        }
    }
}
