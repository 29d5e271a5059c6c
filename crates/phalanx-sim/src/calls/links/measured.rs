//! What a run gives.

use std::collections::BTreeMap;

use super::setup::{Long, Setup};
use super::work::CLASS_BYTES;
use super::world::{Ended, Totals};

/// What was measured. Times are those of the simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Calls that ended.
    pub calls: u64,
    /// Of these, without the right answer.
    pub failed: u64,
    /// From the first call to the end of the last.
    pub span_ns: u64,
    /// Bytes of the requests and answers of all calls that were answered.
    pub message_bytes: u64,
    /// These, as part of what all of the time one link would have carried.
    pub link_share: f64,
    /// How long calls took; in an incast, rounds.
    pub took: Spread,
    /// How long that would take if nothing waited for anything else; 0 where lengths differ.
    pub ideal_ns: u64,
    /// By length, where lengths differ.
    pub classes: Vec<SizeClass>,
    /// Bytes of messages of the client that had fewest, and of the one that had most.
    pub client_bytes: (u64, u64),
    /// Mean time of a call to the server for which that is shortest, and to the one for which it is longest, in nanoseconds.
    pub server_ns: (u64, u64),
    /// Packets sent.
    pub packets: u64,
    /// Found no room at a port of the switch.
    pub switch_drops: u64,
    /// Found no room in a host's receive buffer.
    pub host_drops: u64,
    /// Lost by chance.
    pub lost: u64,
    /// The most bytes that waited at a port of the switch.
    pub port_bytes_max: u64,
    /// The most that a receive buffer was charged, in bytes.
    pub charged_bytes_max: u64,
    /// Questions asked where something was silent for too long.
    pub probes: u64,
    /// Fragments known to be lost, and sent again.
    pub fragments_again: u64,
    /// Requests and fragments that came again.
    pub duplicates: u64,
}

/// How times are spread, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// The first one.
    pub first_ns: u64,
    /// The mean.
    pub mean_ns: u64,
    /// Half are no longer.
    pub p50_ns: u64,
    /// 99 of 100 are no longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Calls of about one length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SizeClass {
    /// Their long messages are shorter than this, and not in the class before.
    pub bytes: usize,
    /// How many.
    pub calls: u64,
    /// How many times as long as alone half of them took at most.
    pub p50_slowdown: f64,
    /// And 99 of 100.
    pub p99_slowdown: f64,
}

/// What a run leaves to be judged.
#[derive(Default)]
pub(super) struct Record {
    pub(super) before: Totals,
    pub(super) after: Totals,
    pub(super) began_ns: u64,
    pub(super) done: Vec<Ended>,
    /// What is measured, if not the calls.
    pub(super) spans_ns: Vec<u64>,
    pub(super) ideal_ns: u64,
    pub(super) charged_max: u64,
    pub(super) by_size: Option<Long>,
}

impl Record {
    pub(super) fn judge(self, setup: &Setup) -> Measured {
        let answered = || self.done.iter().filter(|ended| ended.answered);
        let span_ns =
            self.done.iter().map(|ended| ended.ended_ns).max().unwrap_or_default().saturating_sub(self.began_ns);
        let message_bytes: u64 = answered().map(Ended::message_bytes).sum();
        let spans_ns =
            if self.spans_ns.is_empty() { answered().map(Ended::took_ns).collect() } else { self.spans_ns.clone() };
        let (before, after) = (&self.before, &self.after);
        Measured {
            calls: self.done.len() as u64,
            failed: (self.done.len() - answered().count()) as u64,
            span_ns,
            message_bytes,
            link_share: message_bytes as f64 * 8e9 / span_ns.max(1) as f64 / setup.link_bps as f64,
            took: Spread::of(spans_ns),
            ideal_ns: self.ideal_ns,
            classes: self.by_size.map_or_else(Vec::new, |long| classes(setup, long, answered())),
            client_bytes: bytes_by_client(answered()),
            server_ns: time_by_server(answered()),
            packets: after.fabric.packets - before.fabric.packets,
            switch_drops: after.fabric.dropped - before.fabric.dropped,
            host_drops: after.dropped - before.dropped,
            lost: after.fabric.lost - before.fabric.lost,
            port_bytes_max: after.fabric.waiting_max,
            charged_bytes_max: self.charged_max,
            probes: after.probes - before.probes,
            fragments_again: after.again - before.again,
            duplicates: after.duplicates - before.duplicates,
        }
    }
}

impl Ended {
    fn message_bytes(&self) -> u64 {
        (self.what.request_bytes + self.what.answer_bytes) as u64
    }

    fn took_ns(&self) -> u64 {
        self.ended_ns - self.begun_ns
    }
}

impl Spread {
    /// Of these times, the first of which came first.
    fn of(mut times_ns: Vec<u64>) -> Self {
        let Some(&first_ns) = times_ns.first() else { return Self::default() };
        let mean_ns = times_ns.iter().sum::<u64>() / times_ns.len() as u64;
        times_ns.sort_unstable();
        let at = |percent: usize| times_ns[(times_ns.len() * percent).div_ceil(100).max(1) - 1];
        Self { first_ns, mean_ns, p50_ns: at(50), p99_ns: at(99), max_ns: at(100) }
    }
}

fn classes<'a>(setup: &Setup, long: Long, answered: impl Iterator<Item = &'a Ended>) -> Vec<SizeClass> {
    let mut slowdowns: Vec<Vec<f64>> = vec![Vec::new(); CLASS_BYTES.len()];
    for ended in answered {
        let len = match long {
            Long::Requests => ended.what.request_bytes,
            Long::Answers => ended.what.answer_bytes,
        };
        let class = CLASS_BYTES.iter().position(|bytes| len < *bytes).unwrap_or(CLASS_BYTES.len() - 1);
        let alone_ns = setup.call_ns(ended.what.request_bytes, ended.what.answer_bytes);
        slowdowns[class].push(ended.took_ns() as f64 / alone_ns as f64);
    }
    let class = |(bytes, mut slowdowns): (usize, Vec<f64>)| {
        slowdowns.sort_by(f64::total_cmp);
        let at = |percent: usize| {
            let place = (slowdowns.len() * percent).div_ceil(100).max(1) - 1;
            slowdowns.get(place).copied().unwrap_or_default()
        };
        SizeClass { bytes, calls: slowdowns.len() as u64, p50_slowdown: at(50), p99_slowdown: at(99) }
    };
    CLASS_BYTES.into_iter().zip(slowdowns).map(class).collect()
}

fn bytes_by_client<'a>(answered: impl Iterator<Item = &'a Ended>) -> (u64, u64) {
    let mut bytes: BTreeMap<usize, u64> = BTreeMap::new();
    for ended in answered {
        *bytes.entry(ended.what.client).or_default() += ended.message_bytes();
    }
    least_and_most(bytes.into_values())
}

fn time_by_server<'a>(answered: impl Iterator<Item = &'a Ended>) -> (u64, u64) {
    let mut times: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for ended in answered {
        let (sum_ns, count) = times.entry(ended.what.server).or_default();
        *sum_ns += ended.took_ns();
        *count += 1;
    }
    least_and_most(times.into_values().map(|(sum_ns, count)| sum_ns / count))
}

fn least_and_most(values: impl Iterator<Item = u64>) -> (u64, u64) {
    values
        .fold(None, |seen: Option<(u64, u64)>, value| {
            Some(seen.map_or((value, value), |(least, most)| (least.min(value), most.max(value))))
        })
        .unwrap_or_default()
}
