//! `phalanx::Inline`: a process on the caller's own thread.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, TryRecvError};

use phalanx::{
    AnswerRef, App as Application, AskEnd, AskError, AskOptions, AskedRef, Guarantee, Inline, InlineGroup, InlineReply,
    MemberId, MessageRef, MessageToOneRef, Order, SendError, View,
};
use phalanx_runtime::core::ViewNumber;

use super::commanding::failed;
use crate::cell::CELL;
use crate::choice::{Until, Waiting};
use crate::commands::{listen, say};
use crate::error::BenchError;
use crate::histogram::Times;
use crate::measure::{cpu_ns, now_ns};
use crate::protocol::{AskPlan, Command, InterfaceRole, Mark, Report, guarantee};

pub(super) fn run(role: &InterfaceRole, settings: &[(String, String)]) -> Result<(), BenchError> {
    let builder = phalanx::Cell::builder(CELL);
    let builder = settings.iter().fold(builder, |builder, (key, value)| builder.set(key, value));
    let mut member = builder.inline().map_err(failed("cannot start"))?;
    let me = member.me().id;
    let mut app = App::new(me);
    let group = member.group(&role.groups[0]).join(&mut app).map_err(failed("cannot join"))?;
    let waker = member.waker();
    let commands = listen(move || waker.wake_by_ref())?;
    let mut work = Work::default();
    while work.obey(&commands, &app)? {
        let accepted = work.send(group, &mut app, &mut member)?;
        let report = member.poll(&mut app);
        for told in app.reports.drain(..) {
            say(&told)?;
        }
        let busy = report.more || report.received > 0 || accepted > 0 || !app.to_return.is_empty();
        if !busy && role.wait == Waiting::Block {
            member.wait(None).map_err(failed("cannot wait"))?;
        }
    }
    Ok(())
}

/// Counts what the process reports.
struct App {
    me: MemberId,
    in_view: bool,
    delivered: u64,
    /// Own messages that are bound to a view, and that came back.
    sent: u64,
    returned: u64,
    /// Others in the view.
    others: usize,
    /// Own asks that got what they wanted.
    met: u64,
    /// Messages that came to it alone.
    came_back: u64,
    /// Messages to be answered with one to their sender alone: the sender, and the length.
    to_return: VecDeque<(MemberId, usize)>,
    reports: Vec<Report>,
}

impl App {
    fn new(me: MemberId) -> Self {
        Self {
            me,
            in_view: false,
            delivered: 0,
            sent: 0,
            returned: 0,
            others: 0,
            met: 0,
            came_back: 0,
            to_return: VecDeque::new(),
            reports: Vec::new(),
        }
    }
}

impl Application for App {
    #[inline]
    fn message(&mut self, message: &MessageRef<'_>) {
        self.delivered += 1;
        self.returned += u64::from(message.sender == self.me);
        if message.payload.first() == Some(&BY_HAND) && message.sender != self.me {
            self.to_return.push_back((message.sender, message.payload.len()));
        }
    }

    fn to_one(&mut self, _: &MessageToOneRef<'_>) {
        self.came_back += 1;
    }

    fn asked(&mut self, asked: &AskedRef<'_>, value: &mut Vec<u8>) -> Option<InlineReply> {
        self.delivered += 1;
        value.extend_from_slice(asked.message.payload);
        Some(InlineReply::Value)
    }

    fn answered(&mut self, _: InlineGroup, _: u64, _: &AnswerRef<'_>) -> bool {
        false
    }

    fn ask_ended(&mut self, _: InlineGroup, _: u64, end: Result<AskEnd, AskError>) {
        match end {
            Ok(AskEnd::Met) => self.met += 1,
            other => self.reports.push(Report::Failed { why: format!("an ask ended otherwise: {other:?}") }),
        }
    }

    fn sent(&mut self, _: InlineGroup, _: u64, _: u64) {
        self.sent += 1;
    }

    fn view(&mut self, _: InlineGroup, view: &View) {
        (self.in_view, self.me, self.others) = (true, view.me(), view.len() - 1);
        let (group, members) = (view.group().to_owned(), view.len());
        self.reports.push(Report::View { group, view: ViewNumber(view.number()), members, at_ns: now_ns() });
    }
}

#[derive(Default)]
struct Work {
    accepted: u64,
    load: Option<Vec<u8>>,
    trips: Option<Trips>,
    exchanges: Option<Exchanges>,
    /// What is sent back.
    answer: Vec<u8>,
}

/// Asks, or multicasts that others answer: one after the other.
struct Exchanges {
    what: Exchange,
    message: Vec<u8>,
    ends_ns: u64,
    /// When the one under way began, and how many ends or answers there are when it is over.
    under_way: Option<(u64, u64)>,
    times: Times,
}

#[derive(Clone, Copy)]
enum Exchange {
    Ask(AskPlan),
    ByHand { uniform: bool },
}

struct Trips {
    message: Vec<u8>,
    until: Until,
    ends_ns: u64,
    /// When the message under way was sent.
    began_ns: Option<u64>,
    times: Times,
}

impl Work {
    /// Carries out commands. False: the parent is gone.
    fn obey(&mut self, commands: &Receiver<Command>, app: &App) -> Result<bool, BenchError> {
        loop {
            match commands.try_recv() {
                Err(TryRecvError::Empty) => return Ok(true),
                Err(TryRecvError::Disconnected) => return Ok(false),
                Ok(Command::Mark) => say(&Report::Mark(Mark {
                    at_ns: now_ns(),
                    delivered: app.delivered,
                    accepted: self.accepted,
                    cpu_ns: cpu_ns(),
                    ..Mark::default()
                }))?,
                Ok(Command::Offer { size, .. }) => self.load = Some(vec![0; size]),
                Ok(Command::Trips { size, nanos, until }) => {
                    let (message, ends_ns, times) = (vec![0; size], now_ns() + nanos, Times::new());
                    self.trips = Some(Trips { message, until, ends_ns, began_ns: None, times });
                }
                Ok(Command::Ask { ask, nanos }) => self.exchange(Exchange::Ask(ask), vec![0; ask.size], nanos),
                Ok(Command::ByHand { size, uniform, nanos }) => {
                    self.exchange(Exchange::ByHand { uniform }, vec![BY_HAND; size], nanos);
                }
                Ok(Command::Stop) => self.load = None,
                Ok(_) => {}
            }
        }
    }

    fn exchange(&mut self, what: Exchange, message: Vec<u8>, nanos: u64) {
        let (ends_ns, times) = (now_ns() + nanos, Times::new());
        self.exchanges = Some(Exchanges { what, message, ends_ns, under_way: None, times });
    }

    /// Multicasts what is due, and returns how many messages were accepted.
    fn send(&mut self, group: InlineGroup, app: &mut App, member: &mut Inline) -> Result<u64, BenchError> {
        if !app.in_view {
            return Ok(0);
        }
        let mut accepted = 0;
        if let Some(message) = &self.load {
            while accepted < BURST && multicast(group, message, app, member)? {
                accepted += 1;
            }
        }
        while let Some((to, len)) = app.to_return.pop_front() {
            self.answer.resize(len, 0);
            if !taken(member.send_to(group, to, &self.answer, app).map(drop))? {
                app.to_return.push_front((to, len));
                break;
            }
            accepted += 1;
        }
        if let Some(exchanges) = &mut self.exchanges {
            match exchanges.step(group, app, member)? {
                Some(begun) => accepted += begun,
                None => self.exchanges = None,
            }
        }
        self.accepted += accepted;
        if let Some(trips) = &mut self.trips {
            let reached = match trips.until {
                Until::Receipt => app.sent,
                Until::Delivered => app.returned,
            };
            if let Some(began) = trips.began_ns
                && reached >= self.accepted
            {
                trips.times.note(now_ns() - began);
                trips.began_ns = None;
            }
            if trips.began_ns.is_none() {
                let now = now_ns();
                if now >= trips.ends_ns {
                    say(&Report::Times(trips.times.take()))?;
                    self.trips = None;
                } else if multicast(group, &trips.message, app, member)? {
                    trips.began_ns = Some(now);
                    self.accepted += 1;
                    accepted += 1;
                }
            }
        }
        Ok(accepted)
    }
}

/// Whether the message was accepted.
fn multicast(group: InlineGroup, message: &[u8], app: &mut App, member: &mut Inline) -> Result<bool, BenchError> {
    taken(member.multicast(group, Order::Total, Guarantee::Uniform, message, app))
}

/// Whether it was accepted. Refusals that pass by themselves are not errors.
fn taken(outcome: Result<(), SendError>) -> Result<bool, BenchError> {
    match outcome {
        Ok(()) => Ok(true),
        Err(SendError::Full | SendError::NoView) => Ok(false),
        Err(error) => Err(failed("cannot send")(error)),
    }
}

impl Exchanges {
    /// Notes the end of the one under way, and begins the next. Returns how many were accepted. `None`: the time is over, and was told.
    fn step(&mut self, group: InlineGroup, app: &mut App, member: &mut Inline) -> Result<Option<u64>, BenchError> {
        let reached = match self.what {
            Exchange::Ask(_) => app.met,
            Exchange::ByHand { .. } => app.came_back,
        };
        let now = now_ns();
        if let Some((began_ns, over_at)) = self.under_way {
            if reached < over_at {
                return Ok(Some(0));
            }
            self.times.note(now - began_ns);
            self.under_way = None;
        }
        if now >= self.ends_ns {
            say(&Report::Times(self.times.take()))?;
            return Ok(None);
        }
        let (accepted, more) = match self.what {
            Exchange::Ask(ask) => {
                let AskPlan { want, with_self, .. } = ask;
                let (want, guarantee) = (Some(want.of_library()), ask.guarantee());
                let options = AskOptions { want, with_self, guarantee, ..AskOptions::default() };
                (member.ask(group, &options, &self.message, app).map(drop), 1)
            }
            Exchange::ByHand { uniform } => {
                let outcome = member.multicast(group, Order::Total, guarantee(uniform), &self.message, app);
                (outcome, app.others as u64)
            }
        };
        let is_begun = taken(accepted)?;
        self.under_way = is_begun.then_some((now, reached + more));
        Ok(Some(u64::from(is_begun)))
    }
}

/// The first byte of a message that is to be answered by hand.
const BY_HAND: u8 = 1;

/// Messages accepted in one poll.
const BURST: u64 = 256;
