//! Calls: what their guarantees cost beside the same calls without any, and beside what people use.

use std::time::Duration;

use crate::Request;
use crate::bench::{Bench, Case};
use crate::calls::{CallRole, Carrier};
use crate::choice::{Cores, Security, Waiting};
use crate::crew::{Child, PATIENCE};
use crate::error::BenchError;
use crate::protocol::{Command, Report, Role, What};
use crate::row::{Quantiles, Series};
use rustix::process::Signal;

#[derive(Clone, Copy, Debug)]
struct Plan {
    security: Security,
    wait: Waiting,
    cores: Cores,
    size: usize,
}

const SIZES: [usize; 6] = [64, 1 << 10, 8 << 10, 64 << 10, 1 << 20, 8 << 20];

const PLACES: [(Waiting, Cores); 3] =
    [(Waiting::Spin, Cores::Two), (Waiting::Block, Cores::Two), (Waiting::Block, Cores::One)];

pub(super) fn cases(request: &Request) -> Vec<Case> {
    let mut cases = Vec::new();
    for &security in Security::ALL {
        for (wait, cores) in PLACES {
            for size in SIZES {
                if request.is_sketch() && (size > 1 << 10 || wait == Waiting::Block) {
                    continue;
                }
                let plan = Plan { security, wait, cores, size };
                let name = format!("one-{}-{}-udp-{}-{size}", wait.word(), cores.word(), security.word());
                let what = format!("calls of {size} B with an answer as long, one after the other");
                cases.push(Case::new(name, what, move |bench| measure(bench, &plan)));
            }
        }
    }
    cases
}

/// A client and its server.
struct Pair {
    carrier: Carrier,
    server: Child,
    client: Child,
}

fn measure(bench: &mut Bench<'_>, plan: &Plan) -> Result<(), BenchError> {
    let size = plan.size;
    let mut pairs = Vec::new();
    for carrier in [Carrier::Plain, Carrier::Reliable, Carrier::Tcp] {
        let pair = Pair::start(bench, plan, carrier)?;
        // Who spins is stopped while another is measured.
        pair.signal(Signal::STOP)?;
        pairs.push(pair);
    }
    let mut plain = Series::new("reliable", "us", 2, size).against("unreliable");
    let mut tcp = Series::new("reliable", "us", 2, size).against("TCP");
    let mut more = Series::new("more than unreliable, at p50", "ns", 2, size);
    let mut lost = Series::new("unreliable, lost", "calls", 2, size);
    let (warm, measured) = bench.times();
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let mut p50 = [0.0; 3];
        for (pair, p50) in pairs.iter_mut().zip(&mut p50) {
            pair.signal(Signal::CONT)?;
            pair.call(size, warm)?;
            let (times, failed) = pair.call(size, measured)?;
            pair.signal(Signal::STOP)?;
            *p50 = times.p50;
            match pair.carrier {
                Carrier::Reliable if failed > 0 => {
                    return Err(BenchError::Child(format!("{failed} calls failed")));
                }
                Carrier::Reliable => {
                    plain.add_quantiles(&times);
                    tcp.add_quantiles(&times);
                }
                Carrier::Plain => lost.add(failed as f64),
                Carrier::Tcp => {}
            }
            if times.count == 0 {
                return Err(BenchError::Child(format!("no call of {} came back in time", pair.carrier.name())));
            }
        }
        let [without, with, stream] = p50;
        plain.baselines.push(without);
        tcp.baselines.push(stream);
        more.add((with - without) * 1e3);
    }
    bench.report([&plain, &more, &tcp, &lost]);
    Ok(())
}

impl Pair {
    fn start(bench: &mut Bench<'_>, plan: &Plan, carrier: Carrier) -> Result<Self, BenchError> {
        let Plan { security, wait, cores, .. } = *plan;
        let directory = bench.directory()?;
        let role = |server: Option<u16>| Role {
            pin: Some(cores.of(server.is_some())),
            what: What::Calls(CallRole { carrier, security, wait, directory: directory.clone(), server }),
        };
        let interrupt = bench.interrupt();
        let mut server = Child::start(format!("{} server", carrier.name()), &role(None), interrupt)?;
        let port = server.port()?;
        let mut client = Child::start(format!("{} client", carrier.name()), &role(Some(port)), interrupt)?;
        client.port()?;
        Ok(Self { carrier, server, client })
    }

    fn signal(&self, signal: Signal) -> Result<(), BenchError> {
        self.server.signal(signal)?;
        self.client.signal(signal)
    }

    fn call(&mut self, size: usize, time: Duration) -> Result<(Quantiles, u64), BenchError> {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.client.tell(&Command::Call { size, nanos })?;
        self.client.hear("its times", time + PATIENCE, |report| match report {
            Report::Called { times, failed } => Some((*times, *failed)),
            _ => None,
        })
    }
}
