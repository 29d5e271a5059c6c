//! How a simulated application answers asks, and what it hears of its own.

use std::collections::BTreeMap;

use phalanx_core::{Incarnation, Rank};
use phalanx_life::{Answer, AskEnd, AskId, Asked, Filled, Key, Reply, Want};

/// Receipts of asks have this bit.
pub(super) const ASK: u64 = 1 << 63;

/// Values after which an ask ends whose end is the asker's own test.
const ENOUGH: usize = 2;

/// What it does with an ask, in percent: the rest answers at once, with a value.
const NULL: u64 = 8;
const ABORT: u64 = 2;
const FORWARD: u64 = 12;
const LATER: u64 = 12;
const NEVER: u64 = 4;
const TWICE: u64 = 4;
/// Bytes of one value of so many that is long.
const LONG_EVERY: u64 = 40;
const LONG_BYTES: usize = 60_000;

#[derive(Debug, Default)]
pub(super) struct Answering {
    pub(super) me: Option<Incarnation>,
    /// Asks to be answered in a later iteration.
    later: Vec<(Key, AskId)>,
    /// Asks of this process without an end, and the values that came for each.
    open: BTreeMap<u64, usize>,
    numbers: u64,
    /// What happened, by name.
    pub(super) moments: BTreeMap<&'static str, u64>,
    pub(super) faults: Vec<String>,
}

/// A number that follows from the ask and its answerer.
fn mix(me: Option<Incarnation>, AskId { asker, number, place }: &AskId) -> u64 {
    let words = [me.map_or(0, |me| me.0), asker.0, number.0.0, number.1.0, u64::from(place.0)];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    crate::oracle::hash_bytes(&bytes)
}

impl Answering {
    pub(super) fn count(&mut self, moment: &'static str) {
        *self.moments.entry(moment).or_default() += 1;
    }

    /// The receipt of the next ask.
    pub(super) fn begin(&mut self, want: Want) -> u64 {
        self.numbers += 1;
        self.open.insert(self.numbers | ASK, 0);
        self.count(match want {
            Want::All => "asks of all",
            Want::Majority => "asks of a majority",
            Want::Count(_) => "asks of some",
            Want::Until => "asks that end by a test",
        });
        self.numbers | ASK
    }

    /// It was not sent at all.
    pub(super) fn take_back(&mut self, receipt: u64) {
        self.open.remove(&receipt);
    }

    /// The application is shown an ask.
    pub(super) fn asked(&mut self, key: Key, asked: &Asked<'_>, value: &mut Vec<u8>) -> Option<Reply> {
        if asked.delivery.is_none() {
            self.count("asks that came forwarded");
        }
        let draw = mix(self.me, &asked.id);
        let bounds = [NULL, ABORT, FORWARD, LATER, NEVER, TWICE];
        let mut left = draw % 100;
        let found = bounds.iter().position(|share| {
            let is_it = left < *share;
            left = left.saturating_sub(*share);
            is_it
        });
        match found {
            Some(0) => Some(Reply::Null),
            Some(1) => {
                value.extend_from_slice(b"no");
                Some(Reply::Abort)
            }
            Some(2) => Some(forward(draw, asked)),
            Some(3) => {
                self.later.push((key, asked.id));
                None
            }
            Some(4) => {
                self.count("asks that are never answered");
                None
            }
            twice => {
                if twice.is_some() {
                    self.later.push((key, asked.id));
                }
                put_value(draw, value);
                Some(Reply::Value)
            }
        }
    }

    /// Asks that are answered in this iteration, with the values.
    pub(super) fn due(&mut self) -> Vec<(Key, AskId, Vec<u8>)> {
        let later = std::mem::take(&mut self.later);
        later
            .into_iter()
            .map(|(key, id)| {
                let mut value = Vec::new();
                put_value(mix(self.me, &id), &mut value);
                (key, id, value)
            })
            .collect()
    }

    pub(super) fn has_later(&self) -> bool {
        !self.later.is_empty()
    }

    pub(super) fn answered(&mut self, receipt: u64, answer: &Answer<'_>) -> bool {
        self.count(match answer.filled {
            Filled::Value(_) => "values that counted",
            Filled::Null => "nulls that counted",
            Filled::Abort(_) => "aborts that counted",
            Filled::Left => "places of members that left",
        });
        let Some(values) = self.open.get_mut(&receipt) else {
            self.faults.push("an answer came for an ask that has ended".to_owned());
            return false;
        };
        *values += usize::from(matches!(answer.filled, Filled::Value(_)));
        *values >= ENOUGH
    }

    /// An ask of this process ended. `None`: it was not sent.
    pub(super) fn ended(&mut self, receipt: u64, end: Option<AskEnd>) {
        self.count(match end {
            None => "asks refused",
            Some(AskEnd::Met) => "asks met",
            Some(AskEnd::Complete) => "asks complete and not met",
            Some(AskEnd::Aborted(_)) => "asks aborted",
            Some(AskEnd::Deadline) => "asks ended by their deadline",
            Some(AskEnd::Cancelled) => "asks given up",
            Some(AskEnd::Full) => "asks ended behind a full inbox",
            Some(AskEnd::Over) => "asks over with their life",
        });
        if self.open.remove(&receipt).is_none() {
            self.faults.push("an ask ended twice".to_owned());
        }
    }

    /// An ask of this process without an end.
    pub(super) fn any_open(&self, draw: u64) -> Option<u64> {
        let at = usize::try_from(draw % self.open.len().max(1) as u64).unwrap_or(0);
        self.open.keys().nth(at).copied()
    }

    /// Another process, or another incarnation, in its place.
    pub(super) fn forget_asks(&mut self) {
        self.later.clear();
    }
}

/// Another expected member, or the same one, so that some are forwarded round and round.
fn forward(draw: u64, asked: &Asked<'_>) -> Reply {
    let ranks: Vec<usize> = asked.expected.ranks().collect();
    let at = usize::try_from((draw >> 32) % ranks.len().max(1) as u64).unwrap_or(0);
    // One in eight names a rank that is not expected.
    let rank = if draw >> 16 & 7 == 0 { ranks.len() + 7 } else { ranks.get(at).copied().unwrap_or(0) };
    Reply::Forward(Rank::from_index(rank))
}

fn put_value(draw: u64, value: &mut Vec<u8>) {
    let long = draw.is_multiple_of(LONG_EVERY);
    value.extend_from_slice(&draw.to_le_bytes());
    if long {
        value.resize(LONG_BYTES, 7);
    }
}
