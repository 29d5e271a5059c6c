//! Servers and their clients.

use std::collections::BTreeMap;
use std::time::Duration;

use phalanx_runtime::core::Instant;
use phalanx_runtime::rpc::story;
use rustix::process::Signal;

use crate::bench::Bench;
use crate::calls::{CallRole, Carrier, Load, Place, Tuning};
use crate::choice::{Cores, Security, Transport, Waiting};
use crate::crew::{Child, PATIENCE};
use crate::error::BenchError;
use crate::protocol::{Called, Command, Report, Role, What};

/// Settings of servers and clients.
#[derive(Clone, Copy, Debug)]
pub(in crate::suite) struct Setup {
    pub(in crate::suite) carrier: Carrier,
    pub(in crate::suite) transport: Transport,
    pub(in crate::suite) security: Security,
    pub(in crate::suite) wait: Waiting,
    pub(in crate::suite) cores: Cores,
    /// Number of endpoints in the servers' process and in the clients'. Each client calls all servers.
    pub(in crate::suite) servers: usize,
    pub(in crate::suite) clients: usize,
    /// Number of servers' processes.
    pub(in crate::suite) processes: usize,
    /// Length of an answer in bytes. `None`: that of the request.
    pub(in crate::suite) answer: Option<usize>,
    /// Settings of both servers and clients.
    pub(in crate::suite) tuning: Tuning,
}

impl Setup {
    /// One client and one server that spin, each on its own processor, with all packets sealed.
    pub(in crate::suite) fn new(carrier: Carrier) -> Self {
        Self {
            carrier,
            transport: Transport::Udp,
            security: Security::Sealed,
            wait: Waiting::Spin,
            cores: Cores::Two,
            servers: 1,
            clients: 1,
            processes: 1,
            answer: None,
            tuning: Tuning::default(),
        }
    }

    /// Lists the settings that differ from [`Self::new`] and are not part of the case's name.
    fn label(&self) -> String {
        let mut label = String::new();
        let apart = if self.servers == 1 { "servers" } else { "processes of servers" };
        for (count, what) in [(self.servers, "servers"), (self.clients, "clients"), (self.processes, apart)] {
            if count > 1 {
                label += &format!(", {count} {what}");
            }
        }
        if self.security == Security::None {
            label += ", not sealed";
        }
        label + &self.tuning.label()
    }

    pub(super) fn tuned(tuning: Tuning) -> Self {
        Self { tuning, ..Self::new(Carrier::Reliable) }
    }
}

/// Processes of servers and one of clients. All are stopped (SIGSTOP) while they are not measured, because a process
/// that spins takes time from others.
pub(in crate::suite) struct Pair {
    servers: Vec<Child>,
    client: Child,
    /// Differences from one server with one client, for people.
    label: String,
}

/// Result of a measurement.
pub(in crate::suite) struct Measured {
    pub(in crate::suite) called: Called,
    /// Packets that the kernel dropped because the servers' receive buffers were full.
    pub(super) server_drops: u64,
}

impl Pair {
    pub(in crate::suite) fn start(bench: &mut Bench<'_>, setup: &Setup) -> Result<Self, BenchError> {
        let Setup { carrier, transport, security, wait, cores, answer, tuning, .. } = *setup;
        let directory = bench.directory()?;
        let role = |endpoints, servers: Vec<Place>| Role {
            pin: Some(cores.of(!servers.is_empty())),
            what: What::Calls(CallRole {
                carrier,
                transport,
                security,
                wait,
                directory: directory.clone(),
                endpoints,
                servers,
                answer,
                tuning,
            }),
        };
        let interrupt = bench.interrupt();
        let name = carrier.name();
        let (mut servers, mut places) = (Vec::new(), Vec::new());
        for _ in 0..setup.processes {
            let mut server = Child::start(format!("{name} server"), &role(setup.servers, Vec::new()), interrupt)?;
            places.extend(server.places()?);
            servers.push(server);
        }
        let mut client = Child::start(format!("{name} client"), &role(setup.clients, places), interrupt)?;
        let clients = client.places()?;
        for server in &mut servers {
            server.tell(&Command::Meet { clients: clients.clone() })?;
        }
        let pair = Self { servers, client, label: setup.label() };
        pair.signal(Signal::STOP)?;
        Ok(pair)
    }

    fn signal(&self, signal: Signal) -> Result<(), BenchError> {
        self.servers.iter().try_for_each(|server| server.signal(signal))?;
        self.client.signal(signal)
    }

    /// Warms up with part of a load, and measures it.
    fn measure(&mut self, load: &Load, bench: &mut Bench<'_>) -> Result<Measured, BenchError> {
        self.signal(Signal::CONT)?;
        self.call(load, bench.warm())?;
        let before = self.drops()?;
        let counts = if bench.request.counters { Some(self.counted()?) } else { None };
        let called = self.call(load, bench.measured())?;
        if let Some(counts) = counts {
            self.tell_counted(load, &called, &counts, bench)?;
        }
        let server_drops = self.drops()? - before;
        self.signal(Signal::STOP)?;
        Ok(Measured { called, server_drops })
    }

    /// Counters of each end: of the client, and of all servers together.
    fn counted(&mut self) -> Result<[BTreeMap<String, u64>; 2], BenchError> {
        let client = self.client.counted()?;
        let mut all = BTreeMap::new();
        for server in &mut self.servers {
            for (name, value) in server.counted()? {
                *all.entry(name).or_default() += value;
            }
        }
        Ok([client, all])
    }

    /// Reports the increase of each end's counters since `before`.
    fn tell_counted(
        &mut self,
        load: &Load,
        called: &Called,
        before: &[BTreeMap<String, u64>; 2],
        bench: &mut Bench<'_>,
    ) -> Result<(), BenchError> {
        let answered: u64 = called.answered.iter().sum();
        for ((end, after), before) in ["client", "server"].into_iter().zip(self.counted()?).zip(before) {
            for (name, value) in after {
                let more = value - before.get(&name).copied().unwrap_or_default();
                let what = format!("{end} {name}, {load}{}", self.label);
                bench.count(&what, load.longest(), more as f64 / answered.max(1) as f64);
            }
        }
        Ok(())
    }

    /// Measures a load; fails if no call was timed.
    pub(in crate::suite) fn timed(&mut self, load: &Load, bench: &mut Bench<'_>) -> Result<Measured, BenchError> {
        let measured = self.measure(load, bench)?;
        if measured.called.times.count == 0 {
            return Err(BenchError::Child(format!("no answer came to the {} in time", self.client.name)));
        }
        Ok(measured)
    }

    fn call(&mut self, load: &Load, time: Duration) -> Result<Called, BenchError> {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.client.tell(&Command::Call { load: load.clone(), nanos })?;
        self.client.hear("its calls", time + PATIENCE, |report| match report {
            Report::Called(called) => Some(called.clone()),
            _ => None,
        })
    }

    /// Describes where the slowest call of a load spent its time, as recorded by both ends. Of the first server.
    pub(super) fn slowest(&mut self, load: &Load, time: Duration) -> Result<String, BenchError> {
        self.servers[0].tell(&Command::KeepTrace)?;
        self.client.tell(&Command::KeepTrace)?;
        self.signal(Signal::CONT)?;
        self.call(load, time)?;
        self.client.tell(&Command::Slowest)?;
        let client = self.client.lines()?;
        let (Some((from_ns, _)), Some((to_ns, _))) = (client.first(), client.last()) else { return Ok(String::new()) };
        self.servers[0].tell(&Command::During { from_ns: *from_ns, to_ns: *to_ns })?;
        let server = self.servers[0].lines()?;
        self.signal(Signal::STOP)?;
        let named =
            |name, lines: Vec<(u64, String)>| lines.into_iter().map(move |(at, what)| (Instant(at), name, what));
        Ok(story(named("client", client).chain(named("server", server))))
    }

    fn drops(&mut self) -> Result<u64, BenchError> {
        let mut drops = 0;
        for server in &mut self.servers {
            server.tell(&Command::Mark)?;
            drops += server.mark()?.kernel_drops;
        }
        Ok(drops)
    }
}

impl Child {
    fn counted(&mut self) -> Result<BTreeMap<String, u64>, BenchError> {
        self.tell(&Command::Count)?;
        self.hear("its counters", PATIENCE, |report| match report {
            Report::Counted(counted) => Some(counted.clone()),
            _ => None,
        })
    }

    fn lines(&mut self) -> Result<Vec<(u64, String)>, BenchError> {
        self.hear("its trace", PATIENCE, |report| match report {
            Report::Happened { lines } => Some(lines.clone()),
            _ => None,
        })
    }

    fn places(&mut self) -> Result<Vec<Place>, BenchError> {
        self.hear("its endpoints", PATIENCE, |report| match report {
            Report::Places(places) => Some(places.clone()),
            _ => None,
        })
    }
}

/// Fails if calls with guarantees failed. Nobody stopped a process, so that is a defect and not a figure.
pub(in crate::suite) fn none_failed(failed: u64) -> Result<(), BenchError> {
    if failed == 0 { Ok(()) } else { Err(BenchError::Child(format!("{failed} calls failed"))) }
}
