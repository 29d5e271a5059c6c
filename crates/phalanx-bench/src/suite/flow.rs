//! Flow control and retransmission: small buffers, lost packets, members that stop or lag, many senders.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::Request;
use crate::bench::{Bench, Case};
use crate::cell::{Cell, CellPlan, Times};
use crate::choice::{Cores, Medium, Ordering, Security, Senders, Transport};
use crate::crew::PATIENCE;
use crate::error::BenchError;
use crate::measure::now_ns;
use crate::protocol::{Command, Mark, Stream};
use crate::raw::{Streaming, stream};
use crate::row::Series;

pub(super) fn cases(request: &Request) -> Vec<Case> {
    let mut cases = Vec::new();
    let sizes: &[usize] = if request.is_sketch() { &[1_024] } else { &[100, 1_024, 8_192] };
    for transport in [Transport::Udp] {
        let on = transport.word();
        for &size in sizes {
            cases.push(Case::new(
                format!("one-processor-{size}-{on}"),
                "the load at which raw datagrams are lost for want of flow control, with the usual receive buffer",
                move |bench| one_processor(bench, transport, size),
            ));
        }
        let what = "one of four sends, while so many of all arrivals are lost on purpose";
        cases.push(Case::new(format!("loss-{on}"), what, move |bench| loss(bench, transport)));
        let what = "one of four sends, another is stopped (SIGSTOP) for a while";
        cases.push(Case::new(format!("stopped-member-{on}"), what, move |bench| stopped(bench, transport)));
        let what = "one of four sends, another is stopped (SIGSTOP) until it is excluded for its silence";
        cases.push(Case::new(format!("excluded-member-{on}"), what, move |bench| left_out(bench, transport, false)));
        let what = "one of four sends, another lives and takes nothing, until it is expelled for that";
        cases.push(Case::new(format!("expelled-member-{on}"), what, move |bench| left_out(bench, transport, true)));
        let what = "one of four sends, another takes a tenth of what it could";
        cases.push(Case::new(format!("slow-receiver-{on}"), what, move |bench| slow(bench, transport)));
        let groups: &[usize] = if request.is_sketch() { &[4] } else { &[4, 8] };
        for &members in groups {
            let what = "all send at once, beside one that sends";
            let name = format!("all-at-once-{members}-{on}");
            cases.push(Case::new(name, what, move |bench| all_at_once(bench, transport, members)));
        }
        let what = "p sends to q, which hands on to r, which hands on to s, beside p to q alone";
        cases.push(Case::new(format!("pipeline-{on}"), what, move |bench| pipeline(bench, transport)));
    }
    cases
}

fn one_processor(bench: &mut Bench<'_>, transport: Transport, size: usize) -> Result<(), BenchError> {
    let cores = Some(Cores::One);
    let plan = CellPlan { cores, ..CellPlan::new(2, transport, Security::Sealed) };
    let mut cell = bench.cell(&plan)?;
    let Times { warm, measured } = bench.times();
    let medium = Medium::Datagrams;
    let raw = Streaming { medium, size, receivers: 1, how: Stream::Plain, cores, warm, measured };
    let series = |metric, unit| Series::new(metric, unit, 2, size);
    let mut lost = series("lost", "%").against("raw UDP");
    let mut goodput = series("goodput", "msg/s").against("raw UDP");
    let mut offered = series("offered", "msg/s");
    let mut drops = series("packets dropped by the kernel", "packets");
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let theirs = stream(&raw, bench.interrupt())?;
        let before = cell.marks()?;
        cell.load(Senders::One, Ordering::Total, size, Some(theirs.sent_per_s))?;
        cell.pause(warm)?;
        let first = cell.marks()?;
        cell.pause(measured)?;
        let second = cell.marks()?;
        cell.settle()?;
        let last = cell.marks()?;
        let accepted = last[1].accepted - before[1].accepted;
        let delivered = last[0].delivered - before[0].delivered;
        lost.add_beside((1.0 - delivered as f64 / accepted.max(1) as f64) * 100.0, theirs.lost * 100.0);
        goodput.add_beside(second[0].delivery_rate(&first[0]), theirs.received_per_s);
        offered.add(theirs.sent_per_s);
        drops
            .add(last.iter().zip(&before).map(|(last, first)| last.kernel_drops - first.kernel_drops).sum::<u64>()
                as f64);
    }
    cell.unchanged()?;
    bench.keep(cell);
    bench.report([&lost, &goodput, &offered, &drops]);
    Ok(())
}

fn loss(bench: &mut Bench<'_>, transport: Transport) -> Result<(), BenchError> {
    let mut cells = Vec::new();
    for (share, loss_ppm) in LOSSES {
        let plan = CellPlan { loss_ppm: Some(loss_ppm), ..CellPlan::new(MEMBERS, transport, Security::Sealed) };
        let series = Series::new(format!("goodput at {share} % loss"), "msg/s", MEMBERS, SIZE).against("0 % loss");
        cells.push((bench.new_cell(&plan)?, series));
    }
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let mut without = None;
        for (cell, series) in &mut cells {
            let rate = cell.measure(Senders::One, Ordering::Total, SIZE, bench.times())?.delivered_per_s();
            series.add_beside(rate, *without.get_or_insert(rate));
        }
    }
    bench.report(cells.iter().map(|(_, series)| series));
    Ok(())
}

fn stopped(bench: &mut Bench<'_>, transport: Transport) -> Result<(), BenchError> {
    let mut cell = bench.cell(&CellPlan::new(MEMBERS, transport, Security::Sealed))?;
    let series = |metric, unit| Series::new(metric, unit, MEMBERS, SIZE);
    let mut before = series("goodput before", "msg/s");
    let mut during = series("goodput at the others while it is stopped", "msg/s").against("before");
    let mut after = series("goodput after", "msg/s").against("before");
    let mut pause = series("longest pause of the sender", "ms");
    let mut stop = series("stopped for", "ms");
    // A member that is silent for longer is excluded, and the case would measure a view change instead.
    let (warm, measured) = (bench.warm(), bench.measured().min(Duration::from_secs(4)));
    for round in 0..bench.rounds() {
        bench.round(round)?;
        cell.load(Senders::One, Ordering::Total, SIZE, None)?;
        cell.pause(warm)?;
        let calm = cell.rate_at(WATCHED, measured)?;
        cell.pauses()?;
        let began = Instant::now();
        cell.members[STOPPED].signal(Signal::STOP)?;
        let held = cell.rate_at(WATCHED, measured);
        // Also after an error: a stopped process executes no command.
        cell.members[STOPPED].signal(Signal::CONT)?;
        stop.add(began.elapsed().as_secs_f64() * 1e3);
        let held = held?;
        cell.pause(warm)?;
        let again = cell.rate_at(WATCHED, measured)?;
        let pauses = cell.pauses()?;
        pause.add(pauses.last().map_or(0.0, |pauses| pauses.send_ns as f64 / 1e6));
        cell.settle()?;
        before.add(calm);
        during.add_beside(held, calm);
        after.add_beside(again, calm);
    }
    cell.unchanged()?;
    bench.keep(cell);
    bench.report([&before, &during, &after, &pause, &stop]);
    Ok(())
}

/// Measures how long the others wait for a member that takes nothing, and their rate without it. The member is stopped,
/// or it `lives` and its application takes nothing.
fn left_out(bench: &mut Bench<'_>, transport: Transport, lives: bool) -> Result<(), BenchError> {
    let expel_after = Some(EXPEL_AFTER);
    // The default failure-detection time applies (`strict`), because it is the policy for a stopped member.
    let plan = CellPlan { expel_after, strict: true, ..CellPlan::new(MEMBERS, transport, Security::Sealed) };
    let series = |metric, unit| Series::new(metric, unit, MEMBERS, SIZE);
    let mut before = series("goodput before", "msg/s");
    let mut after = series("goodput of the others without it", "msg/s").against("before");
    let mut left = series("until the view without it", "ms");
    let mut pause = series("longest pause of the sender", "ms");
    let Times { warm, measured } = bench.times();
    for round in 0..bench.rounds() {
        bench.round(round)?;
        // An expelled member returns as a new incarnation that missed messages, so each round has a cell of its own.
        let mut cell = bench.new_cell(&plan)?;
        cell.load(Senders::One, Ordering::Total, SIZE, None)?;
        cell.pause(warm)?;
        let calm = cell.rate_at(WATCHED, measured)?;
        cell.pauses()?;
        let stop_ns = now_ns();
        if lives {
            cell.members[STOPPED].tell(&Command::Take { per_second: Some(0.0) })?;
        } else {
            cell.members[STOPPED].signal(Signal::STOP)?;
        }
        let installed_ns = cell.sees(WATCHED, MEMBERS - 1)?;
        cell.pause(warm)?;
        let again = cell.rate_at(WATCHED, measured)?;
        let stopped = cell.members.remove(STOPPED);
        let pauses = cell.pauses()?;
        drop(stopped);
        pause.add(pauses.last().map_or(0.0, |pauses| pauses.send_ns as f64 / 1e6));
        left.add(installed_ns.saturating_sub(stop_ns) as f64 / 1e6);
        before.add(calm);
        after.add_beside(again, calm);
    }
    bench.report([&before, &after, &left, &pause]);
    Ok(())
}

fn slow(bench: &mut Bench<'_>, transport: Transport) -> Result<(), BenchError> {
    let mut cell = bench.cell(&CellPlan::new(MEMBERS, transport, Security::Sealed))?;
    let series = |metric, unit| Series::new(metric, unit, MEMBERS, SIZE).against("without it");
    let mut others = series("goodput at the others", "msg/s");
    let mut slowed = series("goodput at the slow one", "msg/s");
    let Times { warm, measured } = bench.times();
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let full = cell.measure(Senders::One, Ordering::Total, SIZE, Times { warm, measured })?.delivered_per_s();
        cell.members[STOPPED].tell(&Command::Take { per_second: Some(full / 10.0) })?;
        cell.load(Senders::One, Ordering::Total, SIZE, None)?;
        // Waits until the windows are full.
        cell.pause(warm + measured)?;
        let first = cell.marks()?;
        cell.pause(measured)?;
        let second = cell.marks()?;
        cell.members[STOPPED].tell(&Command::Take { per_second: None })?;
        cell.settle()?;
        others.add_beside(second[WATCHED].delivery_rate(&first[WATCHED]), full);
        slowed.add_beside(second[STOPPED].delivery_rate(&first[STOPPED]), full);
    }
    cell.unchanged()?;
    bench.keep(cell);
    bench.report([&others, &slowed]);
    Ok(())
}

fn all_at_once(bench: &mut Bench<'_>, transport: Transport, members: usize) -> Result<(), BenchError> {
    let mut cell = bench.cell(&CellPlan::new(members, transport, Security::Sealed))?;
    let mut rate = Series::new("throughput", "msg/s", members, SIZE).against("one sends");
    let mut fair = Series::new("least to greatest share of a sender", "ratio", members, SIZE);
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let one = cell.measure(Senders::One, Ordering::Total, SIZE, bench.times())?.delivered_per_s();
        let all = cell.measure(Senders::All, Ordering::Total, SIZE, bench.times())?;
        rate.add_beside(all.delivered_per_s(), one);
        fair.add(all.fairness());
    }
    bench.keep(cell);
    bench.report([&rate, &fair]);
    Ok(())
}

fn pipeline(bench: &mut Bench<'_>, transport: Transport) -> Result<(), BenchError> {
    let mut cell = bench.cell(&CellPlan::new(MEMBERS, transport, Security::Sealed))?;
    let mut rate = Series::new("through three channels", "msg/s", MEMBERS, SIZE).against("through one");
    let mut lost = Series::new("lost", "msg", MEMBERS, SIZE);
    let names: Vec<String> = cell.members.iter().map(|member| member.name.clone()).collect();
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let (one, _) = feed(&mut cell, 1, bench.times())?;
        for hop in 1..MEMBERS - 1 {
            cell.members[hop].tell(&Command::Forward { to: names.get(hop + 1).cloned() })?;
        }
        let (through, missing) = feed(&mut cell, MEMBERS - 1, bench.times())?;
        for hop in 1..MEMBERS - 1 {
            cell.members[hop].tell(&Command::Forward { to: None })?;
        }
        rate.add_beside(through, one);
        lost.add(missing as f64);
    }
    cell.unchanged()?;
    bench.keep(cell);
    bench.report([&rate, &lost]);
    Ok(())
}

/// Has the first member send to the second. Returns the messages per second at the member `at`, and how many never
/// arrived.
fn feed(cell: &mut Cell, at: usize, Times { warm, measured }: Times) -> Result<(f64, i64), BenchError> {
    let before = cell.marks()?;
    let to = cell.members[1].name.clone();
    cell.members[0].tell(&Command::Feed { to, size: SIZE })?;
    cell.pause(warm)?;
    let first = cell.marks()?;
    cell.pause(measured)?;
    let second = cell.marks()?;
    cell.members[0].tell(&Command::Stop)?;
    let end = Instant::now() + PATIENCE;
    let count = |marks: &[Mark]| {
        let sent = marks[0].accepted - before[0].accepted;
        let came = marks[at].messages - before[at].messages;
        i64::try_from(sent).unwrap_or(i64::MAX) - i64::try_from(came).unwrap_or(i64::MAX)
    };
    let mut missing = count(&cell.marks()?);
    while missing != 0 && Instant::now() < end {
        cell.pause(Duration::from_millis(20))?;
        missing = count(&cell.marks()?);
    }
    Ok((second[at].message_rate(&first[at]), missing))
}

impl Cell {
    /// Deliveries per second at one member, measured without work for the others.
    fn rate_at(&mut self, index: usize, time: Duration) -> Result<f64, BenchError> {
        self.members[index].tell(&Command::Mark)?;
        let first = self.members[index].mark()?;
        self.pause(time)?;
        self.members[index].tell(&Command::Mark)?;
        Ok(self.members[index].mark()?.delivery_rate(&first))
    }
}

/// Time a member may hold the others back in that case.
const EXPEL_AFTER: Duration = Duration::from_secs(2);

const MEMBERS: usize = 4;
const SIZE: usize = 1_024;
/// Index of the member that is stopped or slow, and of another that does not send.
const STOPPED: usize = 1;
const WATCHED: usize = 2;
/// Losses: the label in percent, and the value in parts per million.
const LOSSES: [(&str, u32); 4] = [("0", 0), ("0.1", 1_000), ("1", 10_000), ("5", 50_000)];
