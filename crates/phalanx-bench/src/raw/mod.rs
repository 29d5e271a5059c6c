//! The baselines: bytes moved between two processes, and nothing else.

#[allow(unsafe_code)]
pub(crate) mod batch;
#[allow(unsafe_code)]
mod mapping;
pub(crate) mod ring;
mod roles;
mod trips;

use std::path::PathBuf;
use std::time::Duration;

use crate::choice::{Cores, Medium, Waiting};
use crate::crew::{Child, Interrupt, PATIENCE};
use crate::error::BenchError;
use crate::protocol::{Command, Mark, Report, Role, Stream, What};
use crate::row::Quantiles;
use ring::RingFile;

/// Main function of a raw process.
pub(crate) fn run(what: What) -> Result<(), BenchError> {
    match what {
        What::Member(_) | What::Interface(_) | What::Calls(_) => unreachable!("they are not raw"),
        What::Sink { medium: Medium::Datagrams, size, how, .. } => roles::sink(size, how),
        What::Source { medium: Medium::Datagrams, size, how, ports, .. } => roles::source(size, how, &ports),
        What::Sink { ring, .. } => roles::ring_sink(&path(ring)?),
        What::Source { ring, size, .. } => roles::ring_source(&path(ring)?, size),
        What::Echo { medium, wait, rings, timed } => trips::echo(medium, wait, rings, timed),
        What::Ping { medium, size, wait, port, rings } => trips::ping(medium, size, wait, port, rings),
    }
}

fn path(ring: Option<PathBuf>) -> Result<PathBuf, BenchError> {
    ring.ok_or_else(|| BenchError::Usage("a ring needs a file".to_owned()))
}

/// Result of a raw stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streamed {
    /// Messages that arrived per second: the mean over the receivers.
    pub(crate) received_per_s: f64,
    /// Messages sent per second to each receiver.
    pub(crate) sent_per_s: f64,
    /// Share of the sent messages that never arrived, over the whole run.
    pub(crate) lost: f64,
}

/// Settings of a raw stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streaming {
    pub(crate) medium: Medium,
    pub(crate) size: usize,
    pub(crate) receivers: usize,
    pub(crate) how: Stream,
    /// Placement on processors. `None`: the system decides.
    pub(crate) cores: Option<Cores>,
    pub(crate) warm: Duration,
    pub(crate) measured: Duration,
}

/// Runs one process that sends to the others as fast as it can. A message that no datagram holds travels in as few as can be.
pub(crate) fn stream(plan: &Streaming, interrupt: &Interrupt) -> Result<Streamed, BenchError> {
    let pin = |measures| plan.cores.map(|cores| cores.of(measures));
    let Streaming { medium, how, .. } = *plan;
    let pieces = if medium == Medium::Datagrams { plan.size.div_ceil(DATAGRAM_BYTES).max(1) } else { 1 };
    let size = plan.size.div_ceil(pieces);
    let ring = if medium == Medium::Ring { Some(RingFile::new()?) } else { None };
    let ring_path = || ring.as_ref().map(RingFile::path);
    let mut sinks = Vec::new();
    let mut ports = Vec::new();
    for index in 0..medium.receivers(plan.receivers) {
        let role = Role { pin: pin(false), what: What::Sink { medium, size, how, ring: ring_path() } };
        let mut sink = Child::start(format!("raw receiver {index}"), &role, interrupt)?;
        ports.push(sink.port()?);
        sinks.push(sink);
    }
    let role = Role { pin: pin(true), what: What::Source { medium, size, how, ports, ring: ring_path() } };
    let mut source = Child::start("raw sender", &role, interrupt)?;
    source.port()?;
    // Before the stream, so that the loss refers to all of it.
    let nothing = source_and_sinks(&mut source, &mut sinks)?;
    source.tell(&Command::Go { nanos: 0, gap_nanos: 0 })?;
    interrupt.sleep(plan.warm)?;
    let first = source_and_sinks(&mut source, &mut sinks)?;
    interrupt.sleep(plan.measured)?;
    let second = source_and_sinks(&mut source, &mut sinks)?;
    source.tell(&Command::Stop)?;
    // Lets the receivers read what is still in their buffers.
    interrupt.sleep(DRAIN)?;
    let last = source_and_sinks(&mut source, &mut sinks)?;
    let rates = first[1..].iter().zip(&second[1..]).map(|(first, second)| second.delivery_rate(first));
    let received_per_s = rates.sum::<f64>() / (sinks.len() * pieces) as f64;
    let sent = (last[0].accepted - nothing[0].accepted) as f64 * sinks.len() as f64;
    let received: u64 = last[1..].iter().map(|mark| mark.delivered).sum();
    Ok(Streamed {
        received_per_s,
        sent_per_s: second[0].acceptance_rate(&first[0]) / pieces as f64,
        lost: if sent > 0.0 { 1.0 - received as f64 / sent } else { 0.0 },
    })
}

fn source_and_sinks(source: &mut Child, sinks: &mut [Child]) -> Result<Vec<Mark>, BenchError> {
    let mut all: Vec<&mut Child> = std::iter::once(source).chain(sinks).collect();
    all.iter_mut().try_for_each(|child| child.tell(&Command::Mark))?;
    all.iter_mut().map(|child| child.mark()).collect()
}

/// Settings of raw round trips.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tripping {
    pub(crate) medium: Medium,
    pub(crate) size: usize,
    pub(crate) wait: Waiting,
    pub(crate) cores: Option<Cores>,
    pub(crate) measured: Duration,
    /// Time between the starts of two trips. Zero: each starts when the previous one ends.
    pub(crate) gap: Duration,
    /// Whether the first half of a trip is measured as well.
    pub(crate) one_way: bool,
}

/// Times of round trips, and of their first half.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trips {
    pub(crate) round: Quantiles,
    pub(crate) one_way: Quantiles,
}

/// Runs two processes that send a message back and forth.
pub(crate) fn trips(plan: &Tripping, interrupt: &Interrupt) -> Result<Trips, BenchError> {
    let pin = |measures| plan.cores.map(|cores| cores.of(measures));
    let Tripping { medium, size, wait, .. } = *plan;
    // One ring for each direction.
    let files = if medium == Medium::Ring { Some([RingFile::new()?, RingFile::new()?]) } else { None };
    let rings = || files.as_ref().map(|files| [files[0].path(), files[1].path()]);
    let role = Role { pin: pin(false), what: What::Echo { medium, wait, rings: rings(), timed: plan.one_way } };
    let mut echo = Child::start("raw echo", &role, interrupt)?;
    let port = echo.port()?;
    let role = Role { pin: pin(true), what: What::Ping { medium, size, wait, port, rings: rings() } };
    let mut ping = Child::start("raw ping", &role, interrupt)?;
    ping.port()?;
    let nanos = u64::try_from(plan.measured.as_nanos()).unwrap_or(u64::MAX);
    let gap_nanos = u64::try_from(plan.gap.as_nanos()).unwrap_or(0);
    ping.tell(&Command::Go { nanos, gap_nanos })?;
    let round = times(&mut ping, plan.measured)?;
    echo.tell(&Command::Times)?;
    let one_way = times(&mut echo, Duration::ZERO)?;
    Ok(Trips { round, one_way })
}

/// Waits for the times that a child measured.
pub(crate) fn times(child: &mut Child, measured: Duration) -> Result<Quantiles, BenchError> {
    child.hear("its times", measured + PATIENCE, |report| match report {
        Report::Times(times) => Some(*times),
        _ => None,
    })
}

/// Time between the end of a stream and the last count.
const DRAIN: Duration = Duration::from_millis(100);

/// The most bytes of a datagram over IPv4.
const DATAGRAM_BYTES: usize = 65_507;
