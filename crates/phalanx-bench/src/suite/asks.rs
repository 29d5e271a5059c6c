//! Asks of a group: beside as many calls one after the other, beside the same by hand, and in each way of using the library;
//! and beside them what a program would do without multicasts.

mod exchange;
mod peer;

use self::exchange::{MEMBERS, SIZES, What, crowd, exchange};
use super::rpc::pair::{Pair, Setup, none_failed};
use crate::Request;
use crate::bench::{Bench, Case};
use crate::calls::{Carrier, Load};
use crate::cell::CellPlan;
use crate::choice::{Cores, Interface, Security, Transport, Waiting, Want};
use crate::error::BenchError;
use crate::protocol::AskPlan;
use crate::row::{Quantiles, Series};

pub(super) fn cases(request: &Request) -> Vec<Case> {
    let mut cases = Vec::new();
    for plan in plans(request) {
        let Plan { members, size, transport, wait } = plan;
        let crowd = crowd(members);
        let what = format!("{size} B asked of {members} members, with answers as long{crowd}");
        let name = format!("ask-{members}x{size}-{}-{}", wait.word(), transport.word());
        cases.push(Case::new(name, what, move |bench| measure(bench, plan)));
    }
    cases.extend(peer::cases(request));
    cases
}

#[derive(Clone, Copy)]
struct Plan {
    members: usize,
    size: usize,
    transport: Transport,
    wait: Waiting,
}

fn plans(request: &Request) -> Vec<Plan> {
    let chosen = &request.selection;
    let (members, sizes, transports): (&[usize], &[usize], &[Transport]) = match request.is_sketch() {
        true => (&[2], &[1_100], &[Transport::Udp]),
        false => (&MEMBERS, &SIZES, &[Transport::Udp, Transport::Shm]),
    };
    let members = if chosen.members.is_empty() { members } else { &chosen.members };
    let sizes = if chosen.sizes.is_empty() { sizes } else { &chosen.sizes };
    let transports = if chosen.transports.is_empty() { transports } else { &chosen.transports };
    let mut plans = Vec::new();
    for &transport in transports {
        for &members in members {
            for &size in sizes {
                // Only two members have a processor each to spin on.
                let spins = members == 2 && !request.is_sketch();
                let waits = [Waiting::Block, Waiting::Spin].into_iter().take(1 + usize::from(spins));
                plans.extend(waits.map(|wait| Plan { members, size, transport, wait }));
            }
        }
    }
    plans
}

/// A row of times, and the index of what is measured beside it.
struct Line {
    of: usize,
    beside: Option<usize>,
    series: Series,
}

/// All that is measured in a round, and the rows that come of it.
struct Figures {
    whats: Vec<What>,
    lines: Vec<Line>,
    plan: Plan,
}

impl Figures {
    fn new(plan: Plan) -> Self {
        let mut figures = Self { whats: Vec::new(), lines: Vec::new(), plan };
        let inline = |want, with_self, uniform| {
            What::Ask(Interface::Inline, AskPlan { size: plan.size, want, with_self, uniform })
        };
        for want in Want::ALL {
            for with_self in [false, true] {
                let expected = plan.members - usize::from(!with_self);
                // What others have to answer.
                let calls = want.of(expected) - usize::from(with_self);
                figures.line(inline(want, with_self, true), (calls > 0).then_some(What::Calls(calls)));
            }
        }
        let all = inline(Want::All, false, true);
        let plain = inline(Want::All, false, false);
        figures.line(all, Some(What::ByHand { uniform: true }));
        figures.line(plain, Some(What::Calls(plan.members - 1)));
        figures.line(plain, Some(What::ByHand { uniform: false }));
        if plan.wait == Waiting::Block {
            for interface in [Interface::Threads, Interface::Tasks] {
                for with_self in [false, true] {
                    let ask = AskPlan { size: plan.size, want: Want::All, with_self, uniform: true };
                    figures.line(What::Ask(interface, ask), Some(What::Ask(Interface::Inline, ask)));
                }
            }
            let ask = AskPlan { size: plan.size, want: Want::All, with_self: false, uniform: true };
            for beside in [all, What::Ask(Interface::Threads, ask), plain] {
                figures.line(What::Ask(Interface::Calls, ask), Some(beside));
            }
        }
        for what in figures.whats.clone() {
            if !matches!(what, What::Ask(..)) {
                figures.line(what, None);
            }
        }
        figures
    }

    fn line(&mut self, of: What, beside: Option<What>) {
        let series = Series::new(of.name(), "us", self.plan.members, self.plan.size);
        let series = series.against(beside.map_or_else(String::new, What::name));
        let (of, beside) = (self.index(of), beside.map(|beside| self.index(beside)));
        self.lines.push(Line { of, beside, series });
    }

    fn index(&mut self, what: What) -> usize {
        self.whats.iter().position(|other| *other == what).unwrap_or_else(|| {
            self.whats.push(what);
            self.whats.len() - 1
        })
    }

    /// Whether the packets of this are counted.
    fn is_counted(&self, what: What) -> bool {
        let plain = |uniform| AskPlan { size: self.plan.size, want: Want::All, with_self: false, uniform };
        let asks = [true, false].map(|uniform| What::Ask(Interface::Inline, plain(uniform)));
        asks.contains(&what) || matches!(what, What::ByHand { .. })
    }
}

fn measure(bench: &mut Bench<'_>, plan: Plan) -> Result<(), BenchError> {
    let Plan { members, size, transport, wait } = plan;
    let (security, cores) = (Security::Sealed, Cores::Two);
    let mut cells = Vec::new();
    // The threads of the library sleep while they wait.
    let sleep = [Interface::Threads, Interface::Tasks, Interface::Calls];
    let others = if wait == Waiting::Block { &sleep[..] } else { &[] };
    for &interface in [Interface::Inline].iter().chain(others) {
        let cell = CellPlan { wait, cores: Some(cores), ..CellPlan::new(members, transport, security) };
        cells.push((interface, bench.new_cell(&CellPlan { interface: Some(interface), ..cell })?));
    }
    let processes = members - 1;
    let setup = Setup { transport, security, wait, cores, processes, ..Setup::new(Carrier::Reliable) };
    let mut callers = Callers { pair: Pair::start(bench, &setup)?, size };
    let mut figures = Figures::new(plan);
    let whats = figures.whats.clone();
    let of = |unit: &'static str, metric: &'static str| {
        move |what: &What| Series::new(format!("{metric}, {}", what.name()), unit, members, size)
    };
    let mut rates: Vec<Series> = whats.iter().map(of("/s", "rate")).collect();
    let mut packets: Vec<Series> = whats.iter().map(of("packets", "sent by all")).collect();
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let mut times = vec![Quantiles::default(); whats.len()];
        // Each second round goes backwards, so that a machine that grows slower favours nobody.
        let forward = 0..whats.len();
        let order: Vec<usize> = if round % 2 == 0 { forward.collect() } else { forward.rev().collect() };
        for index in order {
            let what = whats[index];
            let interface = if let What::Ask(interface, _) = what { interface } else { Interface::Inline };
            let (_, cell) = cells.iter_mut().find(|(other, _)| *other == interface).expect("each has a cell");
            times[index] = match what {
                What::Calls(calls) => cell.stopped(|| callers.call(bench, calls))?,
                _ => {
                    exchange(cell, what, size, bench.warm())?;
                    let before = if figures.is_counted(what) { Some(cell.sent_packets()?) } else { None };
                    let times = exchange(cell, what, size, bench.measured())?;
                    if let Some(before) = before {
                        packets[index].add((cell.sent_packets()? - before) as f64 / times.count.max(1) as f64);
                    }
                    times
                }
            };
            if times[index].count == 0 {
                return Err(BenchError::Child(format!("none ended in time: {}", what.name())));
            }
            rates[index].add(times[index].count as f64 / bench.measured().as_secs_f64());
        }
        for Line { of, beside, series } in &mut figures.lines {
            match beside {
                Some(beside) => series.add_quantiles_beside(&times[*of], times[*beside].p50),
                None => series.add_quantiles(&times[*of]),
            }
        }
    }
    bench.report(figures.lines.iter().map(|line| &line.series));
    bench.report(rates.iter().chain(&packets));
    Ok(())
}

/// Clients and servers of calls, each server a process.
struct Callers {
    pair: Pair,
    size: usize,
}

impl Callers {
    /// Measures this number of calls that are made together, each to another server.
    fn call(&mut self, bench: &mut Bench<'_>, calls: usize) -> Result<Quantiles, BenchError> {
        let called = self.pair.timed(&Load::InTurn { size: self.size, calls }, bench)?.called;
        none_failed(called.failed)?;
        Ok(called.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ask_stands_beside_as_many_calls_as_others_have_to_answer() {
        let plan = Plan { members: 4, size: 1, transport: Transport::Shm, wait: Waiting::Block };
        let figures = Figures::new(plan);
        let beside = figures.lines.iter().take(6).map(|line| line.beside.map(|beside| figures.whats[beside]));
        let calls = [Some(3), Some(3), Some(2), Some(2), Some(1), None];
        assert!(beside.eq(calls.map(|calls| calls.map(What::Calls))), "of three others, or of all four");
    }
}
