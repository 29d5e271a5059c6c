//! One member of the torture: a process in a network namespace of its own that multicasts all the time.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use phalanx::{Guarantee, Inline, InlineGroup, JoinError, MemberId, Order};
use phalanx_runtime::core::rng::Rng;

use super::app::{SIDE, WORK, Worker};
use super::asks;
use super::calls::Calls;
use super::payload::HEAD_BYTES;
use super::report::{self, Pulse, Report};
use super::submits::Submits;
use crate::child::{end_with_parent, tell};
use crate::exit::{Exit, Failure, While};
use crate::flags::CellFlags;
use crate::member::not_started;
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
    /// The directory of the second cell's traces
    #[arg(long)]
    second_trace: String,
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
/// one member, in the cell or in a group.
const UNIFORM_ONE_IN: u64 = 3;
const LONG_ONE_IN: u64 = 25;
const ANSWER_ONE_IN: u64 = 40;
const MESSAGE_ONE_IN: u64 = 8;
/// One multicast in this many is followed by messages to one member of the group. Beside it: the most of them at once.
const TO_ONE_ONE_IN: u64 = 4;
const TO_ONE_AT_ONCE: u64 = 4;
/// One multicast in this many is followed by an ask; before one ask in this many an earlier one is given up.
const ASK_ONE_IN: u64 = 6;
const CANCEL_ONE_IN: u64 = 10;

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
    if config.trace.is_none() {
        return Err(Failure::new(Exit::Usage, "--trace is needed"));
    }
    let calls = Calls::start(&config, member.seed)?;
    let mut submits = Submits::start(&member.cell, &config, &member.second_trace, member.seed)?;
    let mut process = member.cell.builder(&config)?.inline().map_err(not_started)?;
    let mut worker = Worker::default();
    worker.stops_in_transfer = member.stops_in_transfer;
    worker.reports.push(Report::Endpoint { incarnation: calls.incarnation() });
    for group in [Some(WORK), member.side.then_some(SIDE)].into_iter().flatten() {
        process.group(group).with_state().join(&mut worker).when("cannot join the group")?;
    }
    let orders = crate::child::listen(process.waker()).when("cannot start a thread")?;
    let (mut talker, mut dawdles) = (Talker::new(member), Duration::ZERO);
    let mut pulse_due = Instant::now();
    loop {
        std::thread::sleep(dawdles);
        if !obey(&orders, &mut process, &mut worker, &mut dawdles) {
            return Err(Failure::new(Exit::Failure, "the harness has gone"));
        }
        talker.talk(&mut process, &mut worker);
        let more = process.poll(&mut worker).more;
        worker.note_incarnation(process.me().id);
        for notice in process.notices() {
            say(notice);
        }
        if process.is_trace_lost() || submits.is_trace_lost() {
            return Err(Failure::new(Exit::Failure, "without a trace it proves nothing"));
        }
        rejoin(&mut process, &mut worker);
        if Instant::now() >= pulse_due {
            pulse_due = Instant::now() + PULSE_EVERY;
            let wrongs = calls.wrongs().into_iter().chain(submits.wrongs());
            worker.reports.extend(wrongs.map(|what| Report::Wrong { what }));
            worker.reports.extend(submits.new_incarnation().map(|incarnation| Report::Second { incarnation }));
            let pulse = Pulse { results: submits.results(), ..talker.pulse(&process, &worker, &calls) };
            worker.reports.push(Report::Pulse(pulse));
        }
        tell(&mut worker.reports)?;
        if !more {
            process.wait(Some(talker.patience())).when("cannot wait")?;
        }
    }
}

/// Executes an order. False: the parent is gone.
fn obey(
    orders: &Receiver<Option<report::Order>>,
    process: &mut Inline,
    worker: &mut Worker,
    dawdles: &mut Duration,
) -> bool {
    loop {
        match orders.try_recv() {
            Ok(Some(report::Order::Regroup)) => {
                if let Some(group) = worker.work() {
                    // This is refused only if it has left already.
                    let _ = process.leave_group(group, worker);
                }
            }
            Ok(Some(report::Order::Dawdle { ms })) => *dawdles = Duration::from_millis(ms),
            Ok(Some(report::Order::Hang { hangs })) => worker.hangs = hangs,
            Ok(None) | Err(TryRecvError::Disconnected) => return false,
            Err(TryRecvError::Empty) => return true,
        }
    }
}

fn rejoin(process: &mut Inline, worker: &mut Worker) {
    if worker.to_join {
        match process.group(WORK).with_state().join(worker) {
            Ok(_) | Err(JoinError::AlreadyMember(_)) => worker.to_join = false,
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

    fn pulse(&self, process: &Inline, worker: &Worker, calls: &Calls) -> Pulse {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let numbers = |last: &BTreeMap<MemberId, u64>| last.iter().map(|(who, number)| (who.bits(), *number)).collect();
        Pulse {
            sent: self.sent,
            heard: numbers(&worker.heard),
            uniform: numbers(&worker.uniform),
            orders: worker.work().and_then(|work| process.sequencer(work)).map(|member| member.name),
            answered: calls.answered(),
            results: 0,
            wall_s: wall.map_or(0, |since| since.as_secs()),
        }
    }

    fn talk(&mut self, process: &mut Inline, worker: &mut Worker) {
        let work = worker.work();
        for group in std::mem::take(&mut worker.answerable) {
            if self.rng.below(ANSWER_ONE_IN) == 0 {
                self.multicast(group, Some(group) == work, Order::Causal, process, worker);
            }
        }
        let now = Instant::now();
        for owed in worker.asks.take_due(now) {
            // Refused if the asker, or this process, has left the view. Nobody waits then.
            let _ = process.answer(owed.ask, owed.reply, &owed.value);
        }
        if now < self.due {
            return;
        }
        // Messages that fell due during a delay are skipped, not made up for.
        let gap_ns = 1_000_000_000 / self.rate.max(1);
        self.due = now + Duration::from_nanos(gap_ns / 2 + self.rng.below(gap_ns));
        let groups: Vec<_> = worker.joined().collect();
        for (group, in_work) in groups {
            if self.rng.below(TO_ONE_ONE_IN) == 0 {
                self.send_to_one(group, process, worker);
            }
            if self.rng.below(ASK_ONE_IN) == 0 {
                self.ask(group, process, worker);
            }
            // The second group gets a third of the messages.
            if in_work || self.rng.below(3) == 0 {
                let order = [Order::Fifo, Order::Causal, Order::Total, Order::Total]
                    [usize::try_from(self.rng.below(4)).unwrap_or(0)];
                self.multicast(group, in_work, order, process, worker);
            }
        }
        if self.rng.below(MESSAGE_ONE_IN) == 0 {
            let spot = usize::try_from(self.rng.below(worker.peers.len() as u64)).unwrap_or(0);
            if let Some(peer) = worker.peers.get(spot).copied() {
                self.fill(process.me().id);
                // A peer that has just gone gets nothing.
                let _ = process.unicast(peer, &self.payload, worker);
            }
        }
    }

    /// Sends to one member of a group, which may be this process: several at once, so that some meet a view change together.
    fn send_to_one(&mut self, group: InlineGroup, process: &mut Inline, worker: &mut Worker) {
        let spot = usize::try_from(self.rng.below(worker.members(group).len() as u64)).unwrap_or(0);
        let Some(to) = worker.members(group).get(spot).copied() else { return };
        for _ in 0..=self.rng.below(TO_ONE_AT_ONCE) {
            self.fill(process.me().id);
            // Refused without room at the receiver, or when it has just gone. The message is dropped.
            if process.send_to(group, to, &self.payload, worker).is_ok() {
                worker.sent_to_one(group, to);
            }
        }
    }

    /// Asks a group, and sometimes gives an earlier ask up before.
    fn ask(&mut self, group: InlineGroup, process: &mut Inline, worker: &mut Worker) {
        if self.rng.below(CANCEL_ONE_IN) == 0
            && let Some(number) = worker.asks.oldest(group)
        {
            process.cancel_ask(group, number, worker);
        }
        self.fill(process.me().id);
        let options = asks::draw(&mut self.rng, worker.members(group).len(), &mut self.payload);
        // Refused like a multicast.
        if let Ok(number) = process.ask(group, &options, &self.payload, worker) {
            worker.asks.made(group, number, self.number);
        }
    }

    fn multicast(
        &mut self,
        group: InlineGroup,
        in_work: bool,
        order: Order,
        process: &mut Inline,
        worker: &mut Worker,
    ) {
        self.fill(process.me().id);
        let guarantee = if self.rng.below(UNIFORM_ONE_IN) == 0 { Guarantee::Uniform } else { Guarantee::Plain };
        // Refused without credit, or between two incarnations. The message is dropped, as an application might do.
        if process.multicast(group, order, guarantee, &self.payload, worker).is_ok() && in_work {
            self.sent = self.number;
        }
    }

    /// Fills the payload with bytes that no other message has.
    fn fill(&mut self, me: MemberId) {
        self.number += 1;
        self.payload.clear();
        self.payload.extend_from_slice(&me.bits().to_le_bytes());
        self.payload.extend_from_slice(&self.number.to_le_bytes());
        debug_assert_eq!(self.payload.len(), HEAD_BYTES);
        let long = self.rng.below(LONG_ONE_IN) == 0;
        let len = if long { 1_000 + self.rng.below(LONG_BYTES_MAX) } else { self.rng.below(180) };
        for _ in 0..len / 8 {
            self.payload.extend_from_slice(&self.rng.next_u64().to_le_bytes());
        }
    }
}
