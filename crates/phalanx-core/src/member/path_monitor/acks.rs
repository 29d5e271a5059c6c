//! Acknowledgements that other members owe this one, as evidence for or against their paths.

use std::time::Duration;

use crate::id::Rank;
use crate::time::Instant;

/// The way in which something was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendKind {
    /// In streams.
    Data,
    /// On the control channel.
    Control,
    /// On the data channel. A transfer that stops there takes another donor, so that nobody is suspected for it.
    DataChannel,
}

/// The acks that one member owes for one way of sending.
#[derive(Clone, Copy, Debug)]
struct AckDebt {
    /// What it had acknowledged at the last check, in any unit.
    sum: u64,
    /// When that last changed.
    moved: Instant,
    /// Since when it owes more and has acknowledged nothing.
    since: Option<Instant>,
    /// Checks since then.
    looks: u32,
    /// Whether it is suspected for that.
    is_suspected: bool,
}

/// The acks that the members of a view owe, by rank.
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

    /// Records a check: the sum that `rank` has acknowledged, and whether it owes more. True if the sum changed.
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

    /// Checks since `rank` owes acks and has acknowledged nothing.
    pub(super) fn looks(&self, rank: Rank, sent: SendKind) -> u32 {
        self.of(rank, sent).looks
    }

    /// When `rank` last acknowledged something.
    pub(super) fn moved(&self, rank: Rank, sent: SendKind) -> Instant {
        self.of(rank, sent).moved
    }

    /// Whether `rank` owes nothing.
    pub(super) fn is_idle(&self, rank: Rank, sent: SendKind) -> bool {
        self.of(rank, sent).since.is_none()
    }

    /// Whether `rank` has owed acks for `patience`, and acknowledged nothing.
    pub(super) fn is_stuck(&self, now: Instant, rank: Rank, sent: SendKind, patience: Duration) -> bool {
        self.of(rank, sent).since.is_some_and(|since| now.since(since) >= patience)
    }

    /// Whether it is undecided if `rank` will acknowledge: it has owed acks for less than `patience`, and none came
    /// since.
    pub(super) fn is_open(&self, now: Instant, rank: Rank, sent: SendKind, patience: Duration) -> bool {
        let owed = self.of(rank, sent);
        owed.since.is_some_and(|since| owed.moved < since && now.since(since) < patience)
    }

    /// Records whether `rank` is suspected for what it owes.
    pub(super) fn suspect(&mut self, rank: Rank, sent: SendKind, is_suspected: bool) {
        self.owed[rank.index()][sent as usize].is_suspected = is_suspected;
    }

    /// Whether `rank` is suspected for what it owes.
    pub(super) fn is_suspected(&self, rank: Rank, sent: SendKind) -> bool {
        self.of(rank, sent).is_suspected
    }

    /// Forgives the silence of `gap`, during which this process was away.
    pub(super) fn forgive(&mut self, now: Instant, gap: Duration) {
        for owed in self.owed.iter_mut().flatten() {
            owed.since = owed.since.map(|since| now.min(since + gap));
        }
    }

    /// Restarts the time for which acks are owed: nothing went out, or no ack was expected.
    pub(super) fn begin_anew(&mut self, now: Instant) {
        for owed in self.owed.iter_mut().flatten() {
            owed.since = owed.since.map(|_| now);
        }
    }
}
