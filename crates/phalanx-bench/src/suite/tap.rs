//! The cost of handing packets to a filter, by the measurement of the paper of 1993.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use phalanx_tap::Packet;

use super::layers::{self, Load};
use crate::Request;
use crate::alloc::counts;
use crate::bench::{Bench, Case};
use crate::child::pin;
use crate::crew::Interrupt;
use crate::error::{BenchError, While};
use crate::row::Series;
use crate::tap::bracket::Plan;
use crate::tap::cycles::{Clock, IS_HARDWARE, is_steady};
use crate::tap::fit::{Line, Point, bootstrap, least_squares, robust};
use crate::tap::linkage::{Side, lengths};
use crate::tap::paper::SetUp;
use crate::tap::paper::{self, filters, printed};
use crate::tap::traffic::traffic;
use crate::tap::{TRAFFIC, Timed, Way};

pub(super) fn cases(_request: &Request) -> Vec<Case> {
    let linkage = |name: &str, what: &str, side, is_evicted| {
        let what = format!("intercept and slope of time against length, to accept all and to reject all: {what}");
        Case::new(name, what, move |bench| linkage(bench, side, is_evicted))
    };
    vec![
        linkage("read", "packets that come in; figures of the paper", Side::Read, false),
        linkage("write", "packets that go out, in three parts", Side::Write, false),
        linkage("read-evicted", "packets that come in, and are in no cache", Side::Read, true),
        Case::new("touched", "bytes and allocations for a packet", touched),
        Case::new("filters", "the four filters of the paper", run_filters),
        Case::new("layers-stream", "the core with its sink bound early and late, packed messages", |bench| {
            layers::measure(bench, Load::Stream)
        }),
        Case::new("layers-trip", "the core with its sink bound early and late, a packet for each message", |bench| {
            layers::measure(bench, Load::Trips)
        }),
    ]
}

/// A way, or both halves of one with a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    is_reject: bool,
    /// The index in [`Way::ALL`].
    way: usize,
    /// Whether another thread's time is added.
    is_total: bool,
}

impl Entry {
    fn way(self) -> Way {
        Way::ALL[self.way]
    }

    fn set_up(self) -> SetUp {
        SetUp::ALL[usize::from(self.is_reject)]
    }

    fn of(set_up: SetUp, way: Way) -> Self {
        let way = Way::ALL.iter().position(|other| *other == way).unwrap_or_default();
        Self { is_reject: set_up == SetUp::Reject, way, is_total: false }
    }

    /// The beginning of the names of its figures.
    fn name(self) -> String {
        let total = if self.is_total { ", both threads" } else { "" };
        format!("{}, {}{total}", self.set_up().name(), self.way().name())
    }
}

/// What one round found of an entry.
struct Fitted {
    squares: Line,
    robust: Line,
    /// Half of the 95 % interval.
    half: Line,
}

impl Fitted {
    fn of([means, middles]: [Vec<Point>; 2], seed: u64) -> Self {
        Self { squares: least_squares(&means), robust: robust(&middles), half: bootstrap(&means, seed) }
    }
}

/// The figures of an entry, over the rounds.
struct Figures {
    is_reject: bool,
    lines: [Series; 6],
    discarded: Series,
    raw: Series,
    points: Vec<Series>,
    /// Of the shortest packets, without a match: how long an attached tap takes that shows nothing.
    shortest: [Series; 2],
}

impl Figures {
    fn new(entry: Entry, lengths: &[usize]) -> Self {
        let name = entry.name();
        let is_base = entry.way() == Way::InPlace;
        let plain = |what: &str, unit| Series::new(format!("{name}: {what}"), unit, 0, 0);
        let series = |what: &str, unit| {
            let has_ratio = !is_base && (unit == "ns" || !entry.is_reject);
            if has_ratio { plain(what, unit).against(Way::InPlace.name()) } else { plain(what, unit) }
        };
        let lines = [
            series("intercept", "ns"),
            series("slope", "ns/B"),
            series("intercept, robust", "ns"),
            series("slope, robust", "ns/B"),
            plain("intercept, 95 % +-", "ns"),
            plain("slope, 95 % +-", "ns/B"),
        ];
        let point = |len: &usize| Series::new(format!("{name}: time at {len} B"), "ns", 0, *len);
        let shortest = |what: &str| Series::new(format!("{name}: time, {what}"), "ns", 0, lengths[SHORT_AT]);
        Self {
            is_reject: entry.is_reject,
            lines,
            discarded: plain("discarded", "%"),
            raw: plain("mean of all, discarded too", "ns"),
            points: lengths.iter().map(point).collect(),
            shortest: [shortest("p50"), shortest("middle half")],
        }
    }

    fn add(&mut self, fitted: &Fitted, base: Option<&Fitted>) {
        let values = |fitted: &Fitted| {
            let (squares, robust, half) = (fitted.squares, fitted.robust, fitted.half);
            [squares.intercept, squares.slope, robust.intercept, robust.slope, half.intercept, half.slope]
        };
        for (at, (series, value)) in self.lines.iter_mut().zip(values(fitted)).enumerate() {
            match base {
                // Half an interval has no ratio that means anything, nor has a slope beside one that is flat.
                Some(base) if at < 4 && (at % 2 == 0 || !self.is_reject) => {
                    series.add_beside(value, values(base)[at]);
                }
                _ => series.add(value),
            }
        }
    }

    fn add_samples(&mut self, timed: &Timed, clock: &Clock) {
        self.discarded.add(timed.driver.discarded() * 100.0);
        self.raw.add(timed.driver.raw_mean(clock));
        for (at, series) in self.points.iter_mut().enumerate() {
            let sampled = timed.driver.sampled(at, clock);
            series.add_within(sampled.mean, [sampled.p50, sampled.p99, sampled.p999]);
        }
        let sampled = timed.driver.sampled(SHORT_AT, clock);
        let [p50, middle] = &mut self.shortest;
        p50.add_within(sampled.p50, [sampled.p50, sampled.p99, sampled.p999]);
        middle.add(sampled.middle);
    }
}

fn linkage(bench: &mut Bench<'_>, side: Side, is_evicted: bool) -> Result<(), BenchError> {
    if is_evicted && !IS_HARDWARE {
        return Err(BenchError::Usage("packets are evicted on x86-64 only; leave this case out".to_owned()));
    }
    if IS_HARDWARE && !is_steady() {
        bench.notice_once("the processor's counter changes its speed here: read ratios, and no time");
    }
    let lengths = lengths();
    let clock = Clock::calibrated();
    let bound = clock.steps(if is_evicted { BOUND_EVICTED } else { BOUND });
    let time = bench.measured() / SHARE;
    let mut all: BTreeMap<Entry, Figures> = BTreeMap::new();
    let (mut paper, mut method) = (PaperFigures::new(), MethodFigures::new());
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let mut fitted: BTreeMap<Entry, Fitted> = BTreeMap::new();
        let mut ways: Vec<Entry> =
            SetUp::ALL.iter().flat_map(|set_up| Way::ALL.iter().map(|way| Entry::of(*set_up, *way))).collect();
        // A machine that slows down during a round must not hit the same ones each time.
        if round % 2 == 1 {
            ways.reverse();
        }
        for entry in ways {
            let plan = Plan { lengths: lengths.clone(), side, set_up: entry.set_up(), is_evicted, time, bound };
            let timed = timed(entry.way(), &plan, bench.interrupt())?;
            all.entry(entry).or_insert_with(|| Figures::new(entry, &lengths)).add_samples(&timed, &clock);
            let points = timed.driver.points(&lengths, &clock);
            if let Some(beside) = &timed.beside {
                let total = sum(&points, &beside.points(&lengths, &clock));
                fitted.insert(Entry { is_total: true, ..entry }, Fitted::of(total, round as u64));
            }
            fitted.insert(entry, Fitted::of(points, round as u64));
            method.add(&timed, lengths.len(), &clock);
        }
        for (entry, fit) in &fitted {
            let base = fitted.get(&Entry::of(entry.set_up(), Way::InPlace)).filter(|_| entry.way() != Way::InPlace);
            all.entry(*entry).or_insert_with(|| Figures::new(*entry, &lengths)).add(fit, base);
        }
        paper.add(|set_up, way| &fitted[&Entry::of(set_up, way)]);
    }
    for (entry, figures) in &all {
        bench.report(figures.lines.iter().chain([&figures.discarded, &figures.raw]));
        if entry.is_reject && matches!(entry.way(), Way::InPlace | Way::Sealed | Way::SealedLazily) {
            bench.report(&figures.shortest);
        }
        bench.report_points(figures.points.iter().step_by(POINT_STEP));
    }
    if side == Side::Read && !is_evicted {
        bench.report(&paper.0);
    }
    bench.report(&method.0);
    Ok(())
}

/// Times on a thread that keeps to the first processor, so that the thread of a ring has the second.
fn timed(way: Way, plan: &Plan, interrupt: &Interrupt) -> Result<Timed, BenchError> {
    std::thread::scope(|scope| {
        let work = || {
            pin(0)?;
            way.time(plan, interrupt)
        };
        let thread = std::thread::Builder::new().name("driver".to_owned()).spawn_scoped(scope, work);
        match thread.when("cannot start a thread")?.join() {
            Ok(timed) => timed,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Adds what two threads did for packets of the same lengths.
fn sum(first: &[Vec<Point>; 2], second: &[Vec<Point>; 2]) -> [Vec<Point>; 2] {
    [0, 1].map(|at: usize| {
        let of_second = |x: f64| second[at].iter().find(|point| point.x == x).map(|point| point.y);
        let both = first[at].iter().filter_map(|point| Some(Point { y: point.y + of_second(point.x)?, ..*point }));
        both.collect()
    })
}

/// The figures of the posting of 1995 and of the paper, by their numbers in the list of what was published. Each stands
/// beside what was printed.
struct PaperFigures([Series; 10]);

impl PaperFigures {
    fn new() -> Self {
        let of = |metric: &str, unit| Series::new(metric, unit, 0, 0).against(paper::PRINTED);
        Self([
            of("F1 STREAMS, accept all: intercept", "ns"),
            of("F2 STREAMS, reject all, blocks freed: intercept", "ns"),
            of("F3 in place, reject all: intercept", "ns"),
            of("F4 accept all: intercept of STREAMS to in place", "x"),
            of("F4 reject all: intercept of STREAMS to in place", "x"),
            of("F4 as posted: STREAMS that accepts to in place that rejects", "x"),
            of("F5 share of copying of 100 B in STREAMS", "%"),
            of("F7 share of linkage of 100 B in STREAMS", "%"),
            Series::new("F8 accept all: intercept of one allocation to two descriptors", "x", 0, 0),
            Series::new("F8 reject all: intercept of one allocation to two descriptors", "x", 0, 0),
        ])
    }

    fn add<'f>(&mut self, of: impl Fn(SetUp, Way) -> &'f Fitted) {
        let [accept, reject] = SetUp::ALL.map(|set_up| {
            let way = |way| of(set_up, way).squares;
            (way(Way::Streams), way(Way::InPlace), way(Way::StreamsSingle), printed(set_up))
        });
        let share = |line: Line| 100.0 * line.slope * paper::MEAN_BYTES / line.at(paper::MEAN_BYTES);
        let like = |(streams, in_place, ..): &(Line, Line, Line, _)| streams.intercept / in_place.intercept;
        let was = |printed: &paper::Printed| printed.streams.intercept / printed.in_place.intercept;
        let beside = [
            (accept.0.intercept, accept.3.streams.intercept),
            (reject.0.intercept, reject.3.streams.intercept),
            (reject.1.intercept, reject.3.in_place.intercept),
            (like(&accept), was(&accept.3)),
            (like(&reject), was(&reject.3)),
            (accept.0.intercept / reject.1.intercept, paper::POSTED_FACTOR),
            (share(accept.0), paper::COPY_SHARE),
            (100.0 - share(accept.0), paper::LINKAGE_SHARE),
        ];
        for (series, (value, printed)) in self.0.iter_mut().zip(beside) {
            series.add_beside(value, printed);
        }
        self.0[8].add(accept.2.intercept / accept.0.intercept);
        self.0[9].add(reject.2.intercept / reject.0.intercept);
    }
}

/// What the method itself shows (F11).
struct MethodFigures([Series; 4]);

impl MethodFigures {
    fn new() -> Self {
        Self([
            Series::new("F11 samples of a length in a round", "samples", 0, 0),
            Series::new("F11 bracket around nothing", "ns", 0, 0),
            Series::new("F11 least step of the counter", "ns", 0, 0),
            Series::new("F11 speed of the counter", "GHz", 0, 0),
        ])
    }

    fn add(&mut self, timed: &Timed, lengths: usize, clock: &Clock) {
        self.0[0].add(timed.driver.count() as f64 / lengths as f64);
        self.0[1].add(timed.driver.empty_ns(clock));
        self.0[2].add(clock.nanos(clock.least_step as f64));
        self.0[3].add(clock.per_ns);
    }
}

fn touched(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    bench.round(0)?;
    for set_up in SetUp::ALL {
        for way in Way::ALL {
            let name = format!("{}, {}", set_up.name(), way.name());
            let bytes = |what: &str, value: usize| {
                let mut series = Series::new(format!("{name}: {what}"), "B", 0, TOUCHED_BYTES);
                series.add(value as f64);
                series
            };
            let touched = way.touched(set_up, TOUCHED_BYTES);
            let mut rows = vec![
                bytes("descriptors, written and read again", touched.described),
                bytes("read of the packet and its copies", touched.read),
                bytes("copied", touched.copied),
            ];
            if counts() {
                for (side, what) in [(Side::Read, "that comes in"), (Side::Write, "that goes out")] {
                    let metric = format!("{name}: allocations for a packet {what}");
                    let mut series = Series::new(metric, "allocations", 0, TOUCHED_BYTES);
                    series
                        .add(way.repeat(set_up, side, TOUCHED_BYTES, TOUCHED_PACKETS)? as f64 / TOUCHED_PACKETS as f64);
                    rows.push(series);
                }
            }
            bench.report(&rows);
        }
    }
    let mut beside = |metric: &str, value: usize, printed: f64| {
        let mut series = Series::new(metric, "B", 0, 0).against(paper::PRINTED);
        series.add_beside(value as f64, printed);
        bench.report([&series]);
    };
    let described = |way: Way| way.touched(SetUp::Reject, TOUCHED_BYTES).described;
    beside("F6 descriptors of STREAMS", described(Way::Streams), paper::DESCRIPTOR_BYTES);
    let added = described(Way::StreamsSingle) - described(Way::Streams);
    beside("F8 state added where one allocation is made of two", added, paper::ADDED_BYTES);
    beside("F9 descriptors in place, beside those of an mbuf", described(Way::InPlace), paper::MBUF_BYTES);
    Ok(())
}

fn run_filters(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let packets = traffic(TRAFFIC);
    let packets: Vec<Packet<'_>> = packets.iter().map(|packet| Packet::new(&[], [&packet.bytes, &[], &[]])).collect();
    let all = filters();
    let series = |what: &str, unit| -> Vec<Series> {
        all.iter().map(|filter| Series::new(format!("filter {}: {what}", filter.name), unit, 0, 0)).collect()
    };
    let (mut times, mut each) = (series("time of a packet", "ns"), series("time of an instruction", "ns"));
    let (mut steps, mut taken) = (series("instructions of the filter for a packet", ""), series("packets taken", "%"));
    let time = bench.measured() / SHARE;
    for round in 0..bench.rounds() {
        bench.round(round)?;
        for (at, filter) in all.iter().enumerate() {
            let counted = packets.iter().map(|packet| filter.program.run_counted(packet));
            let (kept, count) = counted
                .fold((0, 0), |(kept, count), (verdict, steps)| (kept + usize::from(verdict > 0), count + steps));
            let (start, mut rounds) = (Instant::now(), 0_u32);
            while start.elapsed() < time {
                bench.interrupt().check()?;
                for packet in &packets {
                    black_box(filter.program.run(black_box(packet)));
                }
                rounds += 1;
            }
            let nanos = start.elapsed().as_nanos() as f64 / f64::from(rounds.max(1)) / packets.len() as f64;
            let per_packet = count as f64 / packets.len() as f64;
            times[at].add(nanos);
            each[at].add(nanos / per_packet);
            steps[at].add(per_packet);
            taken[at].add(100.0 * kept as f64 / packets.len() as f64);
        }
    }
    let rows = [&times, &each, &steps, &taken];
    bench.report((0..all.len()).flat_map(|at| rows.map(|row| &row[at])));
    for filter in &all {
        for (which, value) in ["with registers", "with a stack"].iter().zip(filter.printed) {
            let metric = format!("filter {}: printed in 1993, processor's instructions {which}", filter.name);
            let mut series = Series::new(metric, "", 0, 0);
            series.add(value);
            bench.report([&series]);
        }
    }
    Ok(())
}

/// A measurement takes this share of `--seconds`, because there are many.
const SHARE: u32 = 4;
/// Points of a curve that are reported: each fourth length.
const POINT_STEP: usize = 4;
/// The index of 64 bytes among the lengths.
const SHORT_AT: usize = 1;
/// A sample that takes longer was interrupted. An interrupt of a virtual machine takes two microseconds and more, the
/// slowest tap of a packet in the caches less than one.
const BOUND: Duration = Duration::from_micros(2);
/// The same for packets that come from memory, line by line.
const BOUND_EVICTED: Duration = Duration::from_micros(10);
/// The length of packets of which bytes are told.
const TOUCHED_BYTES: usize = 512;
const TOUCHED_PACKETS: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_two_threads_are_added_length_by_length() {
        let point = |x, y| Point { x, y, weight: 1.0 };
        let first = [vec![point(48.0, 10.0), point(64.0, 11.0)], vec![point(48.0, 9.0)]];
        let second = [vec![point(64.0, 100.0)], vec![point(48.0, 50.0)]];
        assert_eq!(sum(&first, &second), [vec![point(64.0, 111.0)], vec![point(48.0, 59.0)]]);
    }

    #[test]
    fn the_short_length_is_that_of_the_tables() {
        assert_eq!(lengths()[SHORT_AT], 64);
    }
}
