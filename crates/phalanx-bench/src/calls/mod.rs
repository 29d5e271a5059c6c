//! Processes that make or answer calls: with all guarantees, with none, and over TCP.

mod carriers;
mod load;
mod plan;
mod tcp;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use phalanx_runtime::core::{Incarnation, Instant};
use phalanx_runtime::driver::{Driver, Lossy};
use phalanx_runtime::rpc::{CallId, ClientCallId, EndpointLimits, HandlerResult, Outcome, Recorded, Service, slowest};
use serde::{Deserialize, Serialize};

use crate::child::{cpu_ns, is_kernel_drop, listen, now_ns, say};
use crate::choice::{Security, Transport, Waiting};
use crate::error::BenchError;
use crate::protocol::{Command, Mark, Report};
use carriers::{Reliable, Unreliable, seed};
pub(crate) use plan::Load;
use tcp::Tcp;

/// The means by which calls travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Carrier {
    /// Sessions, with at-most-once execution.
    Reliable,
    /// Datagrams with the same encryption and the same driver, and no session.
    Plain,
    /// A TCP stream of the kernel.
    Tcp,
}

impl Carrier {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reliable => "reliable",
            Self::Plain => "unreliable",
            Self::Tcp => "TCP",
        }
    }
}

/// A process that runs servers, or clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CallRole {
    pub(crate) carrier: Carrier,
    pub(crate) security: Security,
    pub(crate) wait: Waiting,
    pub(crate) directory: PathBuf,
    /// Number of endpoints of this process. Each has sockets of its own; one thread polls them in order. More than one
    /// endpoint requires [`Waiting::Spin`].
    pub(crate) endpoints: usize,
    pub(crate) transport: Transport,
    /// The servers that each endpoint calls. Empty: this process runs the servers.
    pub(crate) servers: Vec<Place>,
    /// Length of an answer in bytes. `None`: the answer is the request.
    pub(crate) answer: Option<usize>,
    pub(crate) tuning: Tuning,
}

/// Address of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) port: u16,
    /// The endpoint's shared memory, for peers that reach it without a session.
    memory: Option<Memory>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Memory {
    life: u64,
    pid: u32,
    memory: u32,
    doorbell: u32,
}

impl Place {
    fn of_port(port: u16) -> Self {
        Self { port, memory: None }
    }
}

/// Settings of an endpoint that differ from the defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tuning {
    pub(crate) slots: Option<u8>,
    pub(crate) window_packets: Option<u32>,
    pub(crate) timer_min: Option<Duration>,
    pub(crate) delay_free: Option<Duration>,
    pub(crate) receive_budget_bytes: Option<u64>,
    /// Whether response credit is unlimited, so that answers may exceed the receive buffer.
    pub(crate) unbounded: bool,
    /// Size of the receive buffer to request, in bytes.
    pub(crate) receive_bytes: Option<usize>,
    /// Share of arriving packets to drop on purpose, in parts per million.
    pub(crate) loss_ppm: u32,
}

impl Tuning {
    /// Lists the settings that differ from the defaults, for people.
    pub(crate) fn label(&self) -> String {
        let told = [
            self.slots.map(|slots| format!(", {slots} slots")),
            self.window_packets.map(|packets| format!(", first window {packets}")),
            self.timer_min.map(|timer| format!(", timer {timer:?}")),
            self.delay_free.map(|delay| format!(", free delay {delay:?}")),
            self.receive_budget_bytes.map(|bytes| format!(", receive budget {bytes}")),
            self.unbounded.then(|| ", no response credit".to_owned()),
            self.receive_bytes.map(|bytes| format!(", buffer {bytes}")),
            (self.loss_ppm > 0).then(|| format!(", loss {} ppm", self.loss_ppm)),
        ];
        told.into_iter().flatten().collect()
    }

    fn limits(&self) -> EndpointLimits {
        let usual = EndpointLimits::default();
        EndpointLimits {
            slots: self.slots.unwrap_or(usual.slots),
            window_packets: self.window_packets.unwrap_or(usual.window_packets),
            timer_min: self.timer_min.unwrap_or(usual.timer_min),
            delay_free: self.delay_free.unwrap_or(usual.delay_free),
            receive_budget_bytes: self.receive_budget_bytes.unwrap_or(usual.receive_budget_bytes),
            bounds_answers: !self.unbounded,
            ..usual
        }
    }
}

/// One end of a carrier, client or server.
trait End {
    fn place(&self) -> Place;
    /// Learns the address of the other end. Only a carrier without sessions needs this.
    fn meet(&mut self, _other: &Place) {}
    /// Processes what arrived. Returns whether anything did.
    fn poll(&mut self, heard: &mut Heard) -> Result<bool, BenchError>;
    fn sleep(&mut self, most: Duration) -> Result<(), BenchError>;
    /// Calls one of its servers. Returns the call's number, which is one more than that of the previous call. `None`:
    /// the carrier takes no more calls until one has ended.
    fn call(&mut self, server: usize, request: &[u8], heard: &mut Heard) -> Result<Option<u64>, BenchError>;
    /// Replaces the sessions with its servers by new ones.
    fn renew(&mut self, _heard: &mut Heard) {}
    /// Starts to record where calls spend their time.
    fn keep_trace(&mut self) {}
    /// Returns the recorded time trace.
    fn trace(&self) -> Vec<Recorded> {
        Vec::new()
    }
    /// Passes its counters to `_each`, if it has any.
    fn counters(&self, _each: &mut dyn FnMut(&'static str, u64)) {}
    /// Number of packets that the kernel dropped because its receive buffer was full.
    fn kernel_drops(&self) -> u64 {
        0
    }
}

/// What a server answers, and how the calls of a client ended.
#[derive(Default)]
struct Heard {
    /// The answer a server gives. `None`: the request itself.
    answer: Option<Vec<u8>>,
    /// Calls that ended since this list was last drained.
    ended: Vec<Ended>,
    /// The last long answer, reused as the next request. A caller whose message already lies in its own memory need not
    /// copy it.
    taken: Vec<u8>,
}

struct Ended {
    number: u64,
    /// Length of the answer in bytes. `None`: the call failed.
    answer_bytes: Option<usize>,
}

impl Heard {
    fn take(&mut self, number: u64, outcome: Outcome<'_>) {
        let answer_bytes = match outcome {
            Outcome::Answer(answer) => Some(answer.len()),
            Outcome::Failed(_) => None,
        };
        self.ended.push(Ended { number, answer_bytes });
    }
}

impl Service for Heard {
    #[inline]
    fn request(&mut self, _: CallId, _: Incarnation, request: &[u8], answer: &mut Vec<u8>) -> HandlerResult {
        answer.extend_from_slice(self.answer.as_deref().unwrap_or(request));
        HandlerResult::Answered
    }

    fn long_request(
        &mut self,
        call: CallId,
        from: Incarnation,
        request: &mut Vec<u8>,
        answer: &mut Vec<u8>,
    ) -> HandlerResult {
        if self.answer.is_some() {
            return self.request(call, from, request, answer);
        }
        // The request is returned without a copy, as the TCP carrier does; otherwise the comparison would not be fair.
        std::mem::swap(request, answer);
        HandlerResult::Answered
    }

    #[inline]
    fn outcome(&mut self, call_id: ClientCallId, outcome: Outcome<'_>) {
        self.take(call_id.0, outcome);
    }

    fn long_answer(&mut self, call_id: ClientCallId, answer: &mut Vec<u8>) {
        self.take(call_id.0, Outcome::Answer(answer));
        self.taken = std::mem::take(answer);
    }
}

/// Main function of a child process with this role.
pub(crate) fn run(role: &CallRole) -> Result<(), BenchError> {
    let faults = phalanx_runtime::driver::Faults { loss_ppm: role.tuning.loss_ppm, ..Default::default() };
    match role.carrier {
        Carrier::Reliable if role.tuning.loss_ppm > 0 => {
            fill(role, |at| Reliable::start(role, |driver| Lossy::new(driver, faults, seed(role, at))))
        }
        Carrier::Reliable => fill(role, |_| Reliable::start(role, |driver| driver)),
        Carrier::Plain => fill(role, |_| Unreliable::start(role)),
        Carrier::Tcp => fill(role, |_| Tcp::start(role)),
    }
}

fn fill<E: End>(role: &CallRole, start: impl Fn(usize) -> Result<E, BenchError>) -> Result<(), BenchError> {
    if role.endpoints > 1 && role.wait == Waiting::Block {
        return Err(BenchError::Usage("one process cannot block on several endpoints; let it spin".to_owned()));
    }
    let mut ends = (0..role.endpoints).map(start).collect::<Result<Vec<E>, _>>()?;
    for end in &mut ends {
        role.servers.iter().for_each(|server| end.meet(server));
    }
    say(&Report::Places(ends.iter().map(End::place).collect()))?;
    let commands = listen(|| {})?;
    if role.servers.is_empty() {
        return serve(role, &mut ends, &commands);
    }
    for command in &commands {
        match command {
            Command::Call { load, nanos } => say(&Report::Called(load::offer(role, &mut ends, &load, nanos)?))?,
            Command::Count => say(&count(&ends))?,
            Command::KeepTrace => ends[0].keep_trace(),
            Command::Slowest => {
                let records = ends[0].trace();
                let time = slowest(&records).map(|(_, time)| time);
                say(&Report::Happened { lines: time.map(|time| lines(&records, &time)).unwrap_or_default() })?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn serve(role: &CallRole, ends: &mut [impl End], commands: &Receiver<Command>) -> Result<(), BenchError> {
    let mut heard = Heard { answer: role.answer.map(bytes), ..Heard::default() };
    let mut laps = 0_u32;
    loop {
        let mut came = false;
        for end in &mut *ends {
            came |= end.poll(&mut heard)?;
        }
        laps = laps.wrapping_add(1);
        if !came && role.wait == Waiting::Block {
            ends[0].sleep(LOOK)?;
        } else if !laps.is_multiple_of(LAPS) {
            // A check for commands with each poll would slow down a process that spins.
            std::hint::spin_loop();
            continue;
        }
        match commands.try_recv() {
            Ok(Command::Mark) => {
                let kernel_drops = ends.iter().map(End::kernel_drops).sum();
                say(&Report::Mark(Mark { at_ns: now_ns(), cpu_ns: cpu_ns(), kernel_drops, ..Mark::default() }))?;
            }
            Ok(Command::Meet { clients }) => {
                for end in &mut *ends {
                    clients.iter().for_each(|client| end.meet(client));
                }
            }
            Ok(Command::Count) => say(&count(ends))?,
            Ok(Command::KeepTrace) => ends[0].keep_trace(),
            Ok(Command::During { from_ns, to_ns }) => {
                let lines = lines(&ends[0].trace(), &(Instant(from_ns)..=Instant(to_ns)));
                say(&Report::Happened { lines })?;
            }
            Ok(_) | Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Ok(()),
        }
    }
}

fn count(ends: &[impl End]) -> Report {
    let mut counted = BTreeMap::new();
    for end in ends {
        end.counters(&mut |name, value| *counted.entry(name.to_owned()).or_default() += value);
    }
    Report::Counted(counted)
}

/// Formats the records that fall within `time`.
fn lines(records: &[Recorded], time: &RangeInclusive<Instant>) -> Vec<(u64, String)> {
    let during = records.iter().filter(|record| time.contains(&record.at));
    during.map(|record| (record.at.0, record.to_string())).collect()
}

/// Returns `count` bytes that are not all equal.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at % 251) as u8).collect()
}

/// Sum of the kernel drops among a driver's counters.
fn drops_of(driver: &impl Driver) -> u64 {
    let mut drops = 0;
    driver.counters(&mut |name, value| {
        if is_kernel_drop(name) {
            drops += value;
        }
    });
    drops
}

/// Time between two checks of whether the benchmark goes on.
const LOOK: Duration = Duration::from_millis(20);
/// Polls between two such checks, for a process that spins.
const LAPS: u32 = 256;
