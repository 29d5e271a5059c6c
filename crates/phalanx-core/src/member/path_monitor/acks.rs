//! Acknowledgements that other members owe this one, as evidence for or against their paths.

use std::time::Duration;

use crate::id::Rank;
use crate::time::Instant;

/// How something was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendKind {
    /// In streams.
    Data,
    /// On the control channel.
    Control,
    /// On the data channel: what stops there is its user's to judge (a transfer has another donor).
    DataChannel,
}

/// One member's acks for one way of sending.
#[derive(Clone, Copy, Debug)]
struct AckDebt {
    /// What it had acknowledged at the last look, in whatever unit.
    sum: u64,
    /// When that was another one than before.
    moved: Instant,
    /// Since when it owes more and has acknowledged nothing.
    since: Option<Instant>,
    /// Looks since then.
    looks: u32,
    /// It was suspected for that.
    is_suspected: bool,
}

/// The acks of all members of a view, by rank.
#[derive(Clone, Debug)]
pub(super) struct AckTracker {
    owed: Vec<[AckDebt; 3]>,
}

impl AckTracker {
    pub(super) fn new(members: usize, now: Instant) -> Self {
        let owed = AckDebt { sum: 0, moved: now, since: None, looks: 0, is_suspected: false };
        Self { owed: vec![[owed; 3]; members] }
    }

    fn of(&self, rank: Rank, sent: SendKind) -> &AckDebt {
        &self.owed[rank.index()][sent as usize]
    }

    /// A look: `rank` has acknowledged so much, and `owes` more. Whether that is more than before.
    pub(super) fn note(&mut self, now: Instant, rank: Rank, sent: SendKind, sum: u64, owes: bool) -> bool {
        let owed = &mut self.owed[rank.index()][sent as usize];
        let moves = std::mem::replace(&mut owed.sum, sum) != sum;
        if moves {
            owed.moved = now;
        }
        match owed.since {
            Some(_) if owes && !moves => owed.looks = owed.looks.saturating_add(1),
            _ => (owed.since, owed.looks) = (owes.then_some(now), u32::from(owes)),
        }
        moves
    }

    /// Looks since `rank` owes what it was sent and has acknowledged nothing.
    pub(super) fn looks(&self, rank: Rank, sent: SendKind) -> u32 {
        self.of(rank, sent).looks
    }

    /// When `rank` acknowledged something last.
    pub(super) fn moved(&self, rank: Rank, sent: SendKind) -> Instant {
        self.of(rank, sent).moved
    }

    /// Whether nothing is owed.
    pub(super) fn is_idle(&self, rank: Rank, sent: SendKind) -> bool {
        self.of(rank, sent).since.is_none()
    }

    /// Whether `rank` has owed something for so long, and acknowledged nothing.
    pub(super) fn is_stuck(&self, now: Instant, rank: Rank, sent: SendKind, patience: Duration) -> bool {
        self.of(rank, sent).since.is_some_and(|since| now.since(since) >= patience)
    }

    /// Whether it is open still if `rank` will acknowledge what it owes: it is owed for less than that, and nothing came since.
    pub(super) fn is_open(&self, now: Instant, rank: Rank, sent: SendKind, patience: Duration) -> bool {
        let owed = self.of(rank, sent);
        owed.since.is_some_and(|since| owed.moved < since && now.since(since) < patience)
    }

    /// Remembers that `rank` is suspected for what it owes, or is not.
    pub(super) fn suspect(&mut self, rank: Rank, sent: SendKind, is_suspected: bool) {
        self.owed[rank.index()][sent as usize].is_suspected = is_suspected;
    }

    /// Whether `rank` is suspected for what it owes.
    pub(super) fn is_suspected(&self, rank: Rank, sent: SendKind) -> bool {
        self.of(rank, sent).is_suspected
    }

    /// This process was away for `gap`.
    pub(super) fn forgive(&mut self, now: Instant, gap: Duration) {
        for owed in self.owed.iter_mut().flatten() {
            owed.since = owed.since.map(|since| now.min(since + gap));
        }
    }

    /// What is owed is owed from now on: nothing went out, or nobody was to acknowledge anything.
    pub(super) fn begin_anew(&mut self, now: Instant) {
        for owed in self.owed.iter_mut().flatten() {
            owed.since = owed.since.map(|_| now);
        }
    }
}
