//! One member of the torture: a process in a network namespace of its own that multicasts all the time.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use phalanx_runtime::core::rng::Rng;
use phalanx_runtime::core::{CommandError, GroupTerms, Order, Uniformity};
use phalanx_runtime::{Inline, Options, Recorder, Traced};

use super::app::{App, HEAD_BYTES, SIDE, WORK};
use super::calls::Calls;
use super::report::{self, Pulse, Report};
use crate::child::{end_with_parent, tell};
use crate::exit::{Exit, Failure, While};
use crate::flags::CellFlags;
use crate::notice::say;

/// One member of the torture; started by `phalanx torture`
#[derive(Args, Debug)]
pub(crate) struct Member {
    #[arg(long)]
    parent: u32,
    #[arg(long)]
    seed: u64,
    /// Messages in a second
    #[arg(long)]
    rate: u64,
    /// Also join the second group
    #[arg(long)]
    side: bool,
    /// Stop as soon as a state transfer has begun
    #[arg(long)]
    stops_in_transfer: bool,
    #[command(flatten)]
    cell: CellFlags,
}

/// Keeps a processor busy; started by `phalanx torture`
#[derive(Args, Debug)]
pub(crate) struct Busy {
    #[arg(long)]
    parent: u32,
}

/// Interval between two pulses.
const PULSE_EVERY: Duration = Duration::from_millis(100);

/// One in this many multicasts is uniform, is long, or is an answer to a delivery; one in this many messages goes to
/// one member.
const UNIFORM_ONE_IN: u64 = 3;
const LONG_ONE_IN: u64 = 25;
const ANSWER_ONE_IN: u64 = 40;
const MESSAGE_ONE_IN: u64 = 8;

/// Length of the longest multicast, which takes several packets.
const LONG_BYTES_MAX: u64 = 12_000;

pub(crate) fn run_busy(busy: &Busy) -> Result<Exit, Failure> {
    end_with_parent(busy.parent, "torture")?;
    loop {
        std::hint::spin_loop();
    }
}

pub(crate) fn run(member: &Member) -> Result<Exit, Failure> {
    end_with_parent(member.parent, "torture")?;
    let config = member.cell.load()?.config;
    let traces = config.trace.clone().ok_or_else(|| Failure::new(Exit::Usage, "--trace is needed"))?;
    let failed = Box::new(crate::child::trace_lost);
    let mut recorder =
        Recorder::to_directory(&config.cell, &traces, failed).when(format_args!("cannot use {}", traces.display()))?;
    let mut app = App::default();
    let mut handler = recorder.around(&mut app);
    handler.inner_mut().stops_in_transfer = member.stops_in_transfer;
    let calls = Calls::start(&config, member.seed)?;
    handler.inner_mut().reports.push(Report::Endpoint { incarnation: calls.incarnation() });
    let mut process = Inline::start(&Options::from(config)).when("cannot start")?;
    process.join_group(WORK, true, GroupTerms::default(), &mut handler).when("cannot join the group")?;
    if member.side {
        process.join_group(SIDE, true, GroupTerms::default(), &mut handler).when("cannot join the group")?;
    }
    let waker = process.waker();
    let orders = crate::child::listen(move || waker.wake()).when("cannot start a thread")?;
    let (mut talker, mut dawdles) = (Talker::new(member), Duration::ZERO);
    let mut pulse_due = Instant::now();
    loop {
        std::thread::sleep(dawdles);
        if !obey(&orders, &mut process, &mut handler, &mut dawdles) {
            return Err(Failure::new(Exit::Failure, "the harness has gone"));
        }
        talker.talk(&mut process, &mut handler);
        let more = process.poll(&mut handler).more;
        for notice in process.notices() {
            say(notice);
        }
        rejoin(&mut process, &mut handler);
        if Instant::now() >= pulse_due {
            pulse_due = Instant::now() + PULSE_EVERY;
            let wrongs = calls.wrongs().into_iter().map(|what| Report::Wrong { what });
            handler.inner_mut().reports.extend(wrongs);
            let pulse = Report::Pulse(talker.pulse(&process, handler.inner(), &calls));
            handler.inner_mut().reports.push(pulse);
        }
        tell(&mut handler.inner_mut().reports)?;
        if !more {
            process.wait(Some(talker.patience())).when("cannot wait")?;
        }
    }
}

/// Executes an order. False: the parent is gone.
fn obey(
    orders: &Receiver<Option<report::Order>>,
    process: &mut Inline,
    handler: &mut Traced<'_, App>,
    dawdles: &mut Duration,
) -> bool {
    loop {
        match orders.try_recv() {
            Ok(Some(report::Order::Regroup)) => {
                if let Some(group) = handler.inner().id_of(WORK) {
                    // This is refused only between two incarnations; the new one has the last rank anyway.
                    let _ = process.leave_group(group, handler);
                }
            }
            Ok(Some(report::Order::Dawdle { ms })) => *dawdles = Duration::from_millis(ms),
            Ok(Some(report::Order::Hang { hangs })) => handler.inner_mut().hangs = hangs,
            Ok(None) | Err(TryRecvError::Disconnected) => return false,
            Err(TryRecvError::Empty) => return true,
        }
    }
}

fn rejoin(process: &mut Inline, handler: &mut Traced<'_, App>) {
    if handler.inner().to_join {
        match process.join_group(WORK, true, GroupTerms::default(), handler) {
            Ok(()) | Err(CommandError::AlreadyMember) => handler.inner_mut().to_join = false,
            // The next poll tries again.
            Err(_) => {}
        }
    }
}

/// Generates messages of all kinds at a modest rate.
struct Talker {
    rng: Rng,
    rate: u64,
    due: Instant,
    /// Number of this process's last message; it grows through its incarnations.
    number: u64,
    /// Number of the last message accepted in the group of all.
    sent: u64,
    payload: Vec<u8>,
}

impl Talker {
    fn new(member: &Member) -> Self {
        let rng = Rng::new(member.seed);
        Self { rng, rate: member.rate, due: Instant::now(), number: 0, sent: 0, payload: Vec::new() }
    }

    fn patience(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now()).min(PULSE_EVERY)
    }

    fn pulse(&self, process: &Inline, app: &App, calls: &Calls) -> Pulse {
        let streams = process.node().process().streams();
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Pulse {
            sent: self.sent,
            heard: app.heard.iter().map(|(who, number)| (who.0, *number)).collect(),
            uniform: app.uniform.iter().map(|(who, number)| (who.0, *number)).collect(),
            orders: streams.into_iter().find(|stream| &*stream.name == WORK).and_then(|stream| stream.orders),
            answered: calls.answered(),
            wall_s: wall.map_or(0, |since| since.as_secs()),
        }
    }

    fn talk(&mut self, process: &mut Inline, handler: &mut Traced<'_, App>) {
        let answerable = std::mem::take(&mut handler.inner_mut().answerable);
        for group in answerable {
            if self.rng.below(ANSWER_ONE_IN) == 0 {
                let in_work = handler.inner().id_of(WORK) == Some(group);
                self.multicast(group, in_work, Order::Causal, process, handler);
            }
        }
        let now = Instant::now();
        if now < self.due {
            return;
        }
        // Messages that fell due during a delay are skipped, not made up for.
        let gap_ns = 1_000_000_000 / self.rate.max(1);
        self.due = now + Duration::from_nanos(gap_ns / 2 + self.rng.below(gap_ns));
        let groups: Vec<_> = handler.inner().joined().map(|(id, name)| (id, name == WORK)).collect();
        for (group, in_work) in groups {
            // The second group gets a third of the messages.
            if in_work || self.rng.below(3) == 0 {
                let order = [Order::Fifo, Order::Causal, Order::Total, Order::Total]
                    [usize::try_from(self.rng.below(4)).unwrap_or(0)];
                self.multicast(group, in_work, order, process, handler);
            }
        }
        if self.rng.below(MESSAGE_ONE_IN) == 0 {
            let peers = &handler.inner().peers;
            let spot = usize::try_from(self.rng.below(peers.len() as u64)).unwrap_or(0);
            if let Some(peer) = peers.get(spot).copied() {
                self.fill(handler.inner().incarnation());
                // A peer that has just gone gets nothing.
                let _ = process.send(peer, &self.payload, handler);
            }
        }
    }

    fn multicast(
        &mut self,
        group: phalanx_runtime::core::GroupId,
        in_work: bool,
        order: Order,
        process: &mut Inline,
        handler: &mut Traced<'_, App>,
    ) {
        self.fill(handler.inner().incarnation());
        let uniformity = Uniformity::from_flag(self.rng.below(UNIFORM_ONE_IN) == 0);
        // Refused without credit, or between two incarnations. The message is dropped, as an application might do.
        if process.multicast(group, order, uniformity.into(), &self.payload, handler).is_ok() && in_work {
            self.sent = self.number;
        }
    }

    /// Fills the payload with bytes that no other message has.
    fn fill(&mut self, me: u64) {
        self.number += 1;
        self.payload.clear();
        self.payload.extend_from_slice(&me.to_le_bytes());
        self.payload.extend_from_slice(&self.number.to_le_bytes());
        debug_assert_eq!(self.payload.len(), HEAD_BYTES);
        let long = self.rng.below(LONG_ONE_IN) == 0;
        let len = if long { 1_000 + self.rng.below(LONG_BYTES_MAX) } else { self.rng.below(180) };
        for _ in 0..len / 8 {
            self.payload.extend_from_slice(&self.rng.next_u64().to_le_bytes());
        }
    }
}
