//! One member of the demonstration: a process of its own that keeps the ledger and feeds it.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use clap::Args;
use phalanx_runtime::config::Config;
use phalanx_runtime::core::{CommandError, GroupTerms, Order, Uniformity};
use phalanx_runtime::{Inline, Options, Recorder, Traced};

use super::ledger::{ACCOUNTS, Audit, Transfer};
use super::replica::{GROUP, Replica};
use super::report::{self, Report, now_ns};
use super::stage::{CELL, TRACES};
use crate::child::{end_with_parent, tell};
use crate::exit::{Exit, Failure, While};

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

/// One in this many updates is uniform.
const UNIFORM_EVERY: u64 = 16;

pub(crate) fn run(member: &Member) -> Result<Exit, Failure> {
    end_with_parent(member.parent, "demo")?;
    let config = Config {
        cell: CELL.to_owned(),
        name: Some(member.name.clone()),
        runtime_dir: Some(member.directory.join("run")),
        state_dir: Some(member.directory.join("state")),
        ..Config::default()
    };
    let traces = member.directory.join(TRACES);
    let failed = Box::new(crate::child::trace_lost);
    let mut recorder =
        Recorder::to_directory(CELL, &traces, failed).when(format_args!("cannot use {}", traces.display()))?;
    let mut replica = Replica::new();
    let mut handler = recorder.around(&mut replica);
    let mut process = Inline::start(&Options::from(config)).when("cannot start")?;
    process.join_group(GROUP, true, GroupTerms::default(), &mut handler).when("cannot join the group")?;
    let waker = process.waker();
    let orders = crate::child::listen(move || waker.wake()).when("cannot start a thread")?;
    let mut feed = Feed::new(&member.name);
    let mut report_ns = 0;
    loop {
        let leave = !obey(&orders, &mut feed, &mut handler)?;
        if leave {
            process.leave(&mut handler);
        }
        let credit = feed.send(&mut process, &mut handler);
        let more = process.poll(&mut handler).more;
        let flushing = process.node().process().activity().flushing;
        let replica = handler.inner_mut();
        replica.note_flush(flushing && replica.group.is_some());
        let now = now_ns();
        if now >= report_ns + REPORT_EVERY_NS {
            report_ns = now;
            let progress = replica.progress();
            replica.reports.push(progress);
        }
        if process.is_over() {
            replica.reports.push(Report::Left);
        }
        tell(&mut replica.reports)?;
        if process.is_over() {
            handler.finish();
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
fn obey(
    orders: &Receiver<Option<report::Order>>,
    feed: &mut Feed,
    handler: &mut Traced<'_, Replica>,
) -> Result<bool, Failure> {
    loop {
        match orders.try_recv() {
            Ok(Some(report::Order::Feed { rate })) => feed.set(rate),
            Ok(Some(report::Order::Audit)) => {
                let replica = handler.inner_mut();
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
    fn send(&mut self, process: &mut Inline, handler: &mut Traced<'_, Replica>) -> bool {
        let Some(group) = handler.inner().group else { return true };
        let elapsed_ns = u128::from(now_ns().saturating_sub(self.since_ns));
        let due = u64::try_from(elapsed_ns * u128::from(self.rate) / 1_000_000_000).unwrap_or(u64::MAX);
        let until = due.min(self.sent + BURST);
        while self.sent < until {
            let transfer = self.draw_next();
            let now = now_ns();
            // Some updates are uniform, so that the checker sees both kinds mixed.
            let uniformity = Uniformity::from_flag(self.number.is_multiple_of(UNIFORM_EVERY));
            match process.multicast(group, Order::Total, uniformity.into(), &transfer.encode(), handler) {
                Ok(_) => {
                    self.number += 1;
                    self.sent += 1;
                    handler.inner_mut().under_way.push_back(now);
                }
                Err(CommandError::NoCredit) => return false,
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
