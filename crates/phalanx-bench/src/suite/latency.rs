//! Latency of a message, beside that of raw messages of the same size, with the same way of waiting and on the same
//! processors.

use std::time::Duration;

use crate::Request;
use crate::bench::{Bench, Case};
use crate::cell::{Cell, CellPlan, Times};
use crate::choice::{Cores, Ordering, Security, Transport, Waiting};
use crate::crew::PATIENCE;
use crate::error::BenchError;
use crate::protocol::{Answer, Command, Report};
use crate::raw::{Tripping, Trips, times, trips};
use crate::row::{Quantiles, Series};

/// The interval that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From the call at the youngest member to the delivery at another.
    One,
    /// From an abcast to the delivery of the abcast with which the oldest answers.
    Round,
    /// From a message to the oldest alone to its message to the sender alone, both within the group.
    ToOne,
    /// From a cbcast to the last of the other members' answers, each sent to the caller alone.
    Replies,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    way: Way,
    members: usize,
    size: usize,
    /// Whether the oldest multicasts meanwhile, at a quarter of the group's maximum rate.
    loaded: bool,
    wait: Waiting,
    cores: Cores,
    transport: Transport,
    security: Security,
}

impl Plan {
    fn name(&self) -> String {
        let way = match self.way {
            Way::One => "oneway",
            Way::Round => "roundtrip",
            Way::ToOne => "to-one",
            Way::Replies => "replies",
        };
        let load = if self.loaded { "quarter" } else { "idle" };
        let Self { members, size, wait, cores, transport, security, .. } = self;
        let (wait, cores) = (wait.word(), cores.word());
        format!("{way}-{load}-{members}x{size}-{wait}-{cores}-{}-{}", transport.word(), security.word())
    }

    fn what(&self) -> String {
        let way = match self.way {
            Way::One => "an abcast from its call to its delivery at another member",
            Way::Round => "an abcast and the oldest member's abcast in answer",
            Way::ToOne => "a message to the oldest member alone and one to the sender in answer",
            Way::Replies => "a cbcast until all other members have answered",
        };
        let load = if self.loaded { ", at a quarter of the greatest load" } else { "" };
        let waiting = match self.wait {
            Waiting::Block => "sleeping",
            Waiting::Spin => "spinning",
        };
        let cores = match self.cores {
            Cores::One => "one processor",
            Cores::Two => "two processors",
        };
        format!("{way}{load}; {} members {waiting} on {cores}, {} B", self.members, self.size)
    }

    fn cell(&self) -> CellPlan {
        let Self { wait, cores, .. } = *self;
        CellPlan { wait, cores: Some(cores), ..CellPlan::new(self.members, self.transport, self.security) }
    }
}

pub(super) fn cases(request: &Request) -> Vec<Case> {
    let mut plans = Vec::new();
    let sizes: &[usize] = if request.is_sketch() { &[64] } else { &[64, 1_024] };
    for transport in [Transport::Udp, Transport::Shm] {
        for &security in Security::ALL {
            for (wait, cores) in PLACES {
                for &size in sizes {
                    let (members, loaded) = (2, false);
                    let plan = Plan { way: Way::Round, members, size, loaded, wait, cores, transport, security };
                    plans.push(plan);
                    plans.push(Plan { way: Way::One, ..plan });
                    plans.push(Plan { way: Way::One, loaded: true, ..plan });
                    if wait == Waiting::Block {
                        // The members outnumber the processors, so they cannot all spin.
                        plans.push(Plan { way: Way::Replies, members: 4, ..plan });
                        plans.push(Plan { way: Way::One, members: 4, ..plan });
                    }
                }
            }
        }
    }
    if request.is_sketch() {
        plans.retain(|plan| plan.security == Security::Sealed && plan.transport == Transport::Udp && plan.members == 2);
    }
    // Cases with the same cell follow each other, so that it is started once.
    plans.sort_by_key(|plan| {
        (plan.transport.word(), plan.security.word(), plan.wait.word(), plan.cores.word(), plan.members)
    });
    let case = |plan: Plan| Case::new(plan.name(), plan.what(), move |bench| measure(bench, &plan));
    plans.into_iter().map(case).collect()
}

/// Ways of waiting and placements. Spinning on one shared processor is left out: it only keeps the other process from
/// running.
const PLACES: [(Waiting, Cores); 3] =
    [(Waiting::Block, Cores::One), (Waiting::Block, Cores::Two), (Waiting::Spin, Cores::Two)];

fn measure(bench: &mut Bench<'_>, plan: &Plan) -> Result<(), BenchError> {
    let mut cell = bench.cell(&plan.cell())?;
    let Times { warm, measured } = bench.times();
    let raw = Tripping {
        medium: plan.transport.medium(),
        size: plan.size,
        wait: plan.wait,
        cores: Some(plan.cores),
        measured,
        gap: if plan.way == Way::One { GAP } else { Duration::ZERO },
        one_way: plan.way == Way::One,
    };
    let (metric, against) = match plan.way {
        Way::One => ("one way", "one way"),
        Way::Round | Way::ToOne => ("round trip", "round trip"),
        Way::Replies => ("all answers", "round trip"),
    };
    let against = format!("{} {against}", raw.medium.name());
    let mut series = Series::new(metric, "us", plan.members, plan.size).against(against);
    let mut load = Series::new("load beside it", "msg/s", plan.members, plan.size);
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let baseline = || trips(&raw, bench.interrupt());
        let spins = plan.wait == Waiting::Spin;
        let Trips { round: there_and_back, one_way } = if spins { cell.stopped(baseline)? } else { baseline()? };
        let baseline = if plan.way == Way::One { one_way } else { there_and_back };
        // Anew in each round, because the machine's speed changes.
        let offered = if plan.loaded {
            let most = cell.measure_oldest(plan.size, Times { warm, measured: measured / 2 })?;
            Some(most / 4.0)
        } else {
            None
        };
        load.runs.extend(offered);
        // Warm-up: the first trips find cold caches and a token at the other member.
        timed(&mut cell, plan.way, plan.size, None, warm)?;
        let ours = timed(&mut cell, plan.way, plan.size, offered, measured)?;
        if ours.count == 0 {
            return Err(BenchError::Child("no message came back in time".to_owned()));
        }
        series.add_quantiles_beside(&ours, baseline.p50);
    }
    cell.unchanged()?;
    bench.keep(cell);
    bench.report([&series, &load]);
    Ok(())
}

/// Sends stamped messages for a while, and returns the times of the slowest member.
pub(super) fn timed(
    cell: &mut Cell,
    way: Way,
    size: usize,
    offered: Option<f64>,
    time: Duration,
) -> Result<Quantiles, BenchError> {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let ordering = if way == Way::Replies { Ordering::Causal } else { Ordering::Total };
    if offered.is_some() {
        cell.members[0].tell(&Command::Load { ordering: Ordering::Total, size, per_second: offered })?;
    }
    let answer = match way {
        Way::One => Answer::No,
        Way::Round => Answer::Multicast,
        Way::ToOne => Answer::ToOne,
        Way::Replies => Answer::Alone,
    };
    let last = cell.len() - 1;
    for member in &mut cell.members[..last] {
        member.tell(&Command::Echo { answer, ordering, size })?;
    }
    // The marks prove that all members executed the commands; then earlier times are discarded.
    cell.marks()?;
    cell.all_times()?;
    let command = match way {
        Way::One => {
            Command::Probe { ordering, size, nanos, gap_nanos: u64::try_from(GAP.as_nanos()).unwrap_or(u64::MAX) }
        }
        Way::Round => Command::Ping { ordering, size, nanos, answers: 1, to: None },
        Way::ToOne => Command::Ping { ordering, size, nanos, answers: 1, to: Some(cell.members[0].name.clone()) },
        Way::Replies => Command::Ping { ordering, size, nanos, answers: last, to: None },
    };
    cell.youngest().tell(&command)?;
    let done = |report: &Report| matches!(report, Report::Done).then_some(());
    cell.youngest().hear("the end of a measurement", time + PATIENCE, done)?;
    cell.settle()?;
    let mut all = cell.all_times()?;
    if way != Way::One {
        return Ok(all.pop().unwrap_or_default());
    }
    // The youngest member sends, so its times are no one-way times.
    all.pop();
    let slowest = |a: f64, b: f64| a.max(b);
    Ok(all.into_iter().fold(Quantiles::default(), |sum, times| Quantiles {
        count: sum.count + times.count,
        p50: slowest(sum.p50, times.p50),
        p99: slowest(sum.p99, times.p99),
        p999: slowest(sum.p999, times.p999),
    }))
}

impl Cell {
    /// Takes the times of every member.
    fn all_times(&mut self) -> Result<Vec<Quantiles>, BenchError> {
        self.tell_all(&Command::Times)?;
        self.members.iter_mut().map(|member| times(member, Duration::ZERO)).collect()
    }

    /// The maximum rate of the oldest member, in multicasts per second.
    fn measure_oldest(&mut self, size: usize, Times { warm, measured }: Times) -> Result<f64, BenchError> {
        self.members[0].tell(&Command::Load { ordering: Ordering::Total, size, per_second: None })?;
        self.pause(warm)?;
        let first = self.marks()?;
        self.pause(measured)?;
        let second = self.marks()?;
        self.settle()?;
        Ok(second[0].acceptance_rate(&first[0]))
    }
}

/// Time between two probes.
const GAP: Duration = Duration::from_millis(1);
