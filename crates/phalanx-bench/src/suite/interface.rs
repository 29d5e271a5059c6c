//! The ways in which a program uses the library, beside each other; and a group whose inbox is not read, beside another
//! group.

use std::time::{Duration, Instant};

use crate::Request;
use crate::bench::{Bench, Case};
use crate::cell::{Cell, CellPlan, GROUP, Times};
use crate::choice::{Interface, Security, Senders, Transport, Until, Way};
use crate::crew::PATIENCE;
use crate::error::BenchError;
use crate::protocol::{Command, Report};
use crate::row::{Quantiles, Series};

pub(super) fn cases(request: &Request) -> Vec<Case> {
    let mut cases = Vec::new();
    let transports: &[Transport] =
        if request.selection.transports.is_empty() { &[Transport::Udp] } else { &request.selection.transports };
    let sizes: &[usize] = match &request.selection.sizes[..] {
        [] if request.is_sketch() => &[64],
        [] => &[64, 1_024],
        sizes => sizes,
    };
    for &transport in transports {
        let on = transport.word();
        for &size in sizes {
            let what = format!("three members, uniform abcasts of {size} B: threaded and async, beside inline");
            cases.push(Case::new(format!("ways-{size}-{on}"), what, move |bench| ways(bench, transport, size)));
        }
        let what = "two groups of three members; one member does not read its inbox of the second";
        cases.push(Case::new(format!("unread-{on}"), what, move |bench| unread(bench, transport)));
    }
    cases
}

/// Something that is measured in each round, in one cell.
struct Measured {
    interface: Interface,
    what: What,
    series: Series,
    /// For a rate: the processor time of all members, for each message.
    cpu: Series,
    /// The index of its baseline.
    beside: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    Rate(Senders, Way),
    Trip(Until),
}

impl What {
    fn metric(self, interface: Interface) -> String {
        let who = |senders| if senders == Senders::One { "one sends" } else { "all send" };
        let name = interface.name();
        match self {
            Self::Rate(senders, Way::Batches) => format!("{}, batches: {name}", who(senders)),
            Self::Rate(senders, Way::Posts) => format!("{}, one by one: {name}", who(senders)),
            Self::Rate(senders, Way::Receipts) => format!("{}, each with a receipt: {name}", who(senders)),
            Self::Trip(Until::Receipt) => format!("until the receipt: {name}"),
            Self::Trip(Until::Delivered) => format!("until delivered here: {name}"),
        }
    }

    /// What the inline runtime does in its place: a call takes one message, and they cost as little as in batches.
    fn of_inline(self) -> Self {
        match self {
            Self::Rate(senders, _) => Self::Rate(senders, Way::Batches),
            Self::Trip(_) => Self::Trip(Until::Delivered),
        }
    }
}

/// All that is measured; the inline runtime first in each group of comparable figures.
fn plan(size: usize) -> Vec<Measured> {
    use Interface::{Inline, Tasks, Threads};
    let mut whats: Vec<(What, &[Interface])> = Vec::new();
    for &senders in Senders::ALL {
        whats.push((What::Rate(senders, Way::Batches), &[Inline, Threads, Tasks]));
        whats.push((What::Rate(senders, Way::Posts), &[Threads, Tasks]));
        if senders == Senders::One {
            whats.push((What::Rate(senders, Way::Receipts), &[Tasks]));
        }
    }
    whats.push((What::Trip(Until::Delivered), &[Inline, Threads, Tasks]));
    whats.push((What::Trip(Until::Receipt), &[Threads, Tasks]));
    let mut plan: Vec<Measured> = Vec::new();
    for (what, interfaces) in whats {
        for &interface in interfaces {
            let unit = if matches!(what, What::Rate(..)) { "msg/s" } else { "us" };
            let known = plan.iter().position(|other| other.interface == Inline && other.what == what.of_inline());
            let beside = known.unwrap_or(plan.len());
            let mut series = Series::new(what.metric(interface), unit, MEMBERS, size);
            if interface != Inline {
                let is_trip = matches!(what, What::Trip(_));
                series = series.against(if is_trip { "inline, until delivered" } else { "inline" });
            }
            let metric = format!("processor time: {}", what.metric(interface));
            let cpu = Series::new(metric, "ns", MEMBERS, size).against(series.against.clone());
            plan.push(Measured { interface, what, series, cpu, beside });
        }
    }
    plan
}

fn ways(bench: &mut Bench<'_>, transport: Transport, size: usize) -> Result<(), BenchError> {
    let mut cells = Vec::new();
    for interface in [Interface::Inline, Interface::Threads, Interface::Tasks] {
        let plan = CellPlan { interface: Some(interface), ..CellPlan::new(MEMBERS, transport, Security::Sealed) };
        cells.push((interface, bench.new_cell(&plan)?));
    }
    let times = times(bench);
    let mut plan = plan(size);
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let mut figures: Vec<Figure> = vec![Figure::default(); plan.len()];
        // Each second round goes backwards, so that a machine that grows slower favours nobody.
        let forward = 0..plan.len();
        let order: Vec<usize> = if round % 2 == 0 { forward.collect() } else { forward.rev().collect() };
        for index in order {
            let Measured { interface, what, .. } = plan[index];
            let cell = cells.iter_mut().find(|(other, _)| *other == interface).map(|(_, cell)| cell);
            let cell = cell.expect("each has a cell");
            figures[index] = match what {
                What::Rate(senders, way) => {
                    let measured = cell.measure_load(senders, &Command::Offer { group: 0, size, way }, times)?;
                    Figure { rate: measured.delivered_per_s(), cpu_ns: measured.cpu_of_all_ns(), ..Figure::default() }
                }
                What::Trip(until) => Figure { times: trip(cell, size, times.measured, until)?, ..Figure::default() },
            };
        }
        for (measured, figure) in plan.iter_mut().zip(&figures) {
            let base = &figures[measured.beside];
            match (measured.what, measured.interface) {
                (What::Rate(..), Interface::Inline) => {
                    measured.series.add(figure.rate);
                    measured.cpu.add(figure.cpu_ns);
                }
                (What::Rate(..), _) => {
                    measured.series.add_beside(figure.rate, base.rate);
                    measured.cpu.add_beside(figure.cpu_ns, base.cpu_ns);
                }
                (What::Trip(_), Interface::Inline) => measured.series.add_quantiles(&figure.times),
                (What::Trip(_), _) => measured.series.add_quantiles_beside(&figure.times, base.times.p50),
            }
        }
    }
    bench.report(plan.iter().map(|measured| &measured.series).chain(plan.iter().map(|measured| &measured.cpu)));
    Ok(())
}

/// One measurement: a rate and its processor time, or times.
#[derive(Clone, Copy, Default)]
struct Figure {
    rate: f64,
    cpu_ns: f64,
    times: Quantiles,
}

/// Times of single messages of the youngest member.
fn trip(cell: &mut Cell, size: usize, time: Duration, until: Until) -> Result<Quantiles, BenchError> {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let youngest = cell.youngest();
    youngest.tell(&Command::Trips { size, nanos, until })?;
    let times = youngest.hear("its times", time + PATIENCE, |report| match report {
        Report::Times(times) => Some(*times),
        _ => None,
    })?;
    cell.settle()?;
    cell.unchanged()?;
    Ok(times)
}

/// Measures the first group alone, beside the second, and beside the second while one member does not read it.
fn unread(bench: &mut Bench<'_>, transport: Transport) -> Result<(), BenchError> {
    let groups: &[&str] = &[GROUP, "beside"];
    let interface = Some(Interface::Threads);
    let mut cell =
        bench.new_cell(&CellPlan { interface, groups, ..CellPlan::new(MEMBERS, transport, Security::Sealed) })?;
    let Times { warm, measured } = times(bench);
    let series = |metric, unit| Series::new(metric, unit, MEMBERS, UNREAD_SIZE);
    let mut alone = series("group A, nothing sent in B", "msg/s");
    let mut both = series("group A beside B, which all read", "msg/s").against("A, nothing sent in B");
    let mut unread = series("group A beside B, which one does not read", "msg/s").against("A, nothing sent in B");
    let mut gain = series("the same", "msg/s").against("A beside B, which all read");
    let mut cpu = series("processor time of the same, for each message of A", "ns").against("A, nothing sent in B");
    let mut beside = series("group B, which all read, beside A", "msg/s");
    let mut held = series("group B, which one does not read", "msg/s");
    let load = |group| Command::Offer { group, size: UNREAD_SIZE, way: Way::Batches };
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let (mut rates, mut cpu_ns) = ([0.0; 3], [0.0; 3]);
        let order = if round % 2 == 0 { [0, 1, 2] } else { [2, 1, 0] };
        for which in order {
            if which == 2 {
                cell.members[DEAF].tell(&Command::Read { group: 1, reads: false })?;
            }
            if which > 0 {
                cell.tell_senders(Senders::One, &load(1))?;
                // Until the inbox and the senders' windows are full.
                cell.pause(warm)?;
            }
            let figures = cell.measure_load(Senders::One, &load(0), Times { warm, measured })?;
            rates[which] = figures.delivered_per_s();
            cpu_ns[which] = figures.cpu_of_all_ns();
            match which {
                1 => beside.add(figures.beside_per_s()),
                2 => held.add(figures.beside_per_s()),
                _ => {}
            }
            if which == 2 {
                cell.members[DEAF].tell(&Command::Read { group: 1, reads: true })?;
            }
            settle_beside(&mut cell)?;
        }
        alone.add(rates[0]);
        both.add_beside(rates[1], rates[0]);
        unread.add_beside(rates[2], rates[0]);
        gain.add_beside(rates[2], rates[1]);
        cpu.add_beside(cpu_ns[2], cpu_ns[0]);
    }
    bench.report([&alone, &both, &unread, &gain, &cpu, &beside, &held]);
    Ok(())
}

/// Waits until all members have delivered the same messages of the second group and no more come.
fn settle_beside(cell: &mut Cell) -> Result<(), BenchError> {
    let end = Instant::now() + PATIENCE;
    let mut before = None;
    loop {
        let counts: Vec<u64> = cell.marks()?.iter().map(|mark| mark.delivered_beside).collect();
        let same = counts.iter().all(|count| *count == counts[0]);
        if same && before == Some(counts[0]) {
            return Ok(());
        }
        if Instant::now() > end {
            let why = format!("members delivered different numbers of messages in the second group: {counts:?}");
            return Err(BenchError::Child(why));
        }
        before = Some(counts[0]).filter(|_| same);
        cell.pause(Duration::from_millis(20))?;
    }
}

/// There are many measurements, so each is a fifth as long as elsewhere.
fn times(bench: &Bench<'_>) -> Times {
    let measured = (bench.measured() / 5).max(SHORTEST);
    Times { warm: (measured / 2).max(SHORTEST), measured }
}

const MEMBERS: usize = 3;
/// The member that does not read. The youngest sends.
const DEAF: usize = 1;
const UNREAD_SIZE: usize = 64;
const SHORTEST: Duration = Duration::from_millis(100);
