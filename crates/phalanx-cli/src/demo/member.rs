//! One member of the demonstration: a process of its own that keeps the ledger and feeds it.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use clap::Args;
use phalanx::{AskOptions, Cell, Guarantee, Inline, InlineGroup, Order, SendError};

use super::ledger::{ACCOUNTS, Audit, Transfer};
use super::replica::{GROUP, QUESTION, Replica};
use super::report::{self, Report, now_ns};
use super::stage::{CELL, TRACES};
use crate::child::{end_with_parent, tell};
use crate::exit::{Exit, Failure, While};
use crate::member::not_started;

/// One member of the demonstration; started by `phalanx demo`
#[derive(Args, Debug)]
pub(crate) struct Member {
    #[arg(long)]
    name: String,
    #[arg(long)]
    parent: u32,
    #[arg(long)]
    directory: PathBuf,
}

/// Interval between two reports of progress.
const REPORT_EVERY_NS: u64 = 100_000_000;

/// Interval at which the process checks for due updates while they are fed.
const FEED_EVERY: Duration = Duration::from_millis(1);

/// Bound on the updates sent in one poll. More that are due follow in the next.
const BURST: u64 = 500;

/// Interval between two asks, while updates are fed.
const ASK_EVERY_NS: u64 = 200_000_000;

/// One in this many updates is uniform.
const UNIFORM_EVERY: u64 = 16;

pub(crate) fn run(member: &Member) -> Result<Exit, Failure> {
    end_with_parent(member.parent, "demo")?;
    let directory = &member.directory;
    let mut process = Cell::builder(CELL)
        .name(&member.name)
        .directories(directory.join("run"), directory.join("state"))
        .trace(directory.join(TRACES))
        .inline()
        .map_err(not_started)?;
    let mut replica = Replica::new();
    let group = process.group(GROUP).with_state().join(&mut replica).when("cannot join the group")?;
    let orders = crate::child::listen(process.waker()).when("cannot start a thread")?;
    let mut feed = Feed::new(&member.name);
    let (mut report_ns, mut ask_ns) = (0, 0);
    loop {
        if !obey(&orders, &mut feed, &mut replica)? {
            process.leave(&mut replica);
        }
        let credit = feed.send(&mut process, group, &mut replica);
        replica.now_ns = now_ns();
        if feed.rate > 0 && replica.in_view && !replica.is_asking && replica.now_ns >= ask_ns + ASK_EVERY_NS {
            ask_ns = replica.now_ns;
            // Uniform: the order up to it is the same at all, also at one that is left behind.
            let options = AskOptions { guarantee: Guarantee::Uniform, ..AskOptions::default() };
            replica.is_asking = process.ask(group, &options, QUESTION, &mut replica).is_ok();
        }
        let more = process.poll(&mut replica).more;
        replica.note_incarnation(process.me().id);
        replica.note_flush(process.is_changing_view() && replica.in_view);
        if replica.now_ns >= report_ns + REPORT_EVERY_NS {
            report_ns = replica.now_ns;
            let progress = replica.progress();
            replica.reports.push(progress);
        }
        if process.is_over() {
            replica.reports.push(Report::Left);
        }
        tell(&mut replica.reports)?;
        if process.is_over() {
            return Ok(Exit::Good);
        }
        if !more {
            // Without credit nothing can be sent before a packet arrives, so it sleeps longer.
            let patience = if feed.rate > 0 && credit { FEED_EVERY } else { Duration::from_millis(50) };
            process.wait(Some(patience)).when("cannot wait")?;
        }
    }
}

/// Executes an order. False: leave.
fn obey(orders: &Receiver<Option<report::Order>>, feed: &mut Feed, replica: &mut Replica) -> Result<bool, Failure> {
    loop {
        match orders.try_recv() {
            Ok(Some(report::Order::Feed { rate })) => feed.set(rate),
            Ok(Some(report::Order::Audit)) => {
                let Audit { digest, sum } = replica.ledger.audit();
                replica.reports.push(Report::Audit { applied: replica.ledger.applied(), digest, sum });
            }
            Ok(Some(report::Order::Leave)) => return Ok(false),
            Ok(None) | Err(TryRecvError::Disconnected) => {
                return Err(Failure::new(Exit::Failure, "the parent has gone"));
            }
            Err(TryRecvError::Empty) => return Ok(true),
        }
    }
}

/// Generates updates at a steady rate.
struct Feed {
    rate: u64,
    since_ns: u64,
    sent: u64,
    number: u64,
    /// State of the random sequence of accounts; differs from member to member.
    draw: u64,
}

impl Feed {
    fn new(name: &str) -> Self {
        let draw = name
            .bytes()
            .fold(0x9e37_79b9_7f4a_7c15, |sum: u64, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        Self { rate: 0, since_ns: 0, sent: 0, number: 0, draw }
    }

    fn set(&mut self, rate: u64) {
        self.rate = rate;
        self.since_ns = now_ns();
        self.sent = 0;
    }

    /// Sends the updates that are due. False: credit did not suffice for all.
    fn send(&mut self, process: &mut Inline, group: InlineGroup, replica: &mut Replica) -> bool {
        if !replica.in_view {
            return true;
        }
        let elapsed_ns = u128::from(now_ns().saturating_sub(self.since_ns));
        let due = u64::try_from(elapsed_ns * u128::from(self.rate) / 1_000_000_000).unwrap_or(u64::MAX);
        let until = due.min(self.sent + BURST);
        while self.sent < until {
            let transfer = self.draw_next();
            let now = now_ns();
            // Some updates are uniform, so that the checker sees both kinds mixed.
            let is_uniform = self.number.is_multiple_of(UNIFORM_EVERY);
            let guarantee = if is_uniform { Guarantee::Uniform } else { Guarantee::Plain };
            match process.multicast(group, Order::Total, guarantee, &transfer.encode(), replica) {
                Ok(()) => {
                    self.number += 1;
                    self.sent += 1;
                    replica.under_way.push_back(now);
                }
                Err(SendError::Full) => return false,
                // Between two incarnations no update can be sent. Those that fell due are skipped, not made up for.
                Err(_) => {
                    self.sent = due;
                    return true;
                }
            }
        }
        true
    }

    fn draw_next(&mut self) -> Transfer {
        let mut next = || {
            self.draw = self.draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u32::try_from(self.draw >> 33).unwrap_or(0)
        };
        Transfer { number: self.number, from: next() % ACCOUNTS, to: next() % ACCOUNTS, amount: next() % 1_500 }
    }
}
