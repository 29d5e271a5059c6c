//! Results of a run.

use std::collections::BTreeMap;

use super::setup::{Long, Setup};
use super::work::CLASS_BYTES;
use super::world::{Ended, Totals};

/// Results of a run. Times are those of the simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Calls that ended.
    pub calls: u64,
    /// Calls of these that ended without the right answer.
    pub failed: u64,
    /// Time from the first call to the end of the last.
    pub span_ns: u64,
    /// Bytes of the requests and answers of all answered calls.
    pub message_bytes: u64,
    /// These bytes as a share of what one link could have carried in that time.
    pub link_share: f64,
    /// Duration of calls; in an incast, of rounds.
    pub took: Spread,
    /// Duration that [`Self::took`] would have if nothing were delayed; 0 if lengths differ.
    pub ideal_ns: u64,
    /// Results by length, if lengths differ.
    pub classes: Vec<SizeClass>,
    /// Message bytes of the client with the fewest, and of the one with the most.
    pub client_bytes: Extremes,
    /// Mean duration of a call to the fastest server, and to the slowest, in nanoseconds.
    pub server_ns: Extremes,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped because a port of the switch was full.
    pub switch_drops: u64,
    /// Packets dropped because a host's receive buffer was full.
    pub host_drops: u64,
    /// Packets lost by chance.
    pub lost: u64,
    /// The longest queue of a switch port, in bytes.
    pub port_bytes_max: u64,
    /// The highest charge of a receive buffer, in bytes.
    pub charged_bytes_max: u64,
    /// Probes sent after too long a silence.
    pub probes: u64,
    /// Fragments known to be lost, and retransmitted.
    pub fragments_again: u64,
    /// Requests and fragments received more than once.
    pub duplicates: u64,
}

/// Distribution of times, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// The first time.
    pub first_ns: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The 50th percentile.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Calls of similar length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SizeClass {
    /// Upper bound of the length of their long messages; shorter ones belong to the class before.
    pub bytes: usize,
    /// Number of calls.
    pub calls: u64,
    /// The 50th percentile of the duration, divided by the ideal one.
    pub p50_slowdown: f64,
    /// The 99th percentile likewise.
    pub p99_slowdown: f64,
}

/// Raw data of a run.
#[derive(Default)]
pub(super) struct Record {
    pub(super) before: Totals,
    pub(super) after: Totals,
    pub(super) began_ns: u64,
    pub(super) done: Vec<Ended>,
    /// The measured times, if not those of the calls.
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
    /// The distribution of these times, which are in order of arrival.
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

/// The ends of a range of figures; both 0 where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extremes {
    /// The smallest figure.
    pub least: u64,
    /// The largest.
    pub most: u64,
}

fn bytes_by_client<'a>(answered: impl Iterator<Item = &'a Ended>) -> Extremes {
    let mut bytes: BTreeMap<usize, u64> = BTreeMap::new();
    for ended in answered {
        *bytes.entry(ended.what.client).or_default() += ended.message_bytes();
    }
    least_and_most(bytes.into_values())
}

fn time_by_server<'a>(answered: impl Iterator<Item = &'a Ended>) -> Extremes {
    let mut times: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for ended in answered {
        let (sum_ns, count) = times.entry(ended.what.server).or_default();
        *sum_ns += ended.took_ns();
        *count += 1;
    }
    least_and_most(times.into_values().map(|(sum_ns, count)| sum_ns / count))
}

fn least_and_most(values: impl Iterator<Item = u64>) -> Extremes {
    values
        .fold(None, |seen: Option<Extremes>, value| {
            let Extremes { least, most } = seen.unwrap_or(Extremes { least: value, most: value });
            Some(Extremes { least: least.min(value), most: most.max(value) })
        })
        .unwrap_or_default()
}
