//! `phalanx::Inline`: a process on the caller's own thread.

use std::sync::mpsc::{Receiver, TryRecvError};

use phalanx::{App as Application, Guarantee, Inline, InlineGroup, MemberId, MessageRef, Order, SendError, View};
use phalanx_runtime::core::ViewNumber;

use super::commanding::failed;
use crate::choice::Until;
use crate::commands::{listen, say};
use crate::error::BenchError;
use crate::histogram::Times;
use crate::measure::{cpu_ns, now_ns};
use crate::protocol::{Command, InterfaceRole, Mark, Report};

pub(super) fn run(role: &InterfaceRole, settings: &[(String, String)]) -> Result<(), BenchError> {
    let builder = phalanx::Cell::builder("bench");
    let builder = settings.iter().fold(builder, |builder, (key, value)| builder.set(key, value));
    let mut member = builder.inline().map_err(failed("cannot start"))?;
    let me = member.me().id;
    let mut app = App { me, in_view: false, delivered: 0, sent: 0, returned: 0, reports: Vec::new() };
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
        if !report.more && report.received == 0 && accepted == 0 {
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
    reports: Vec<Report>,
}

impl Application for App {
    #[inline]
    fn message(&mut self, message: &MessageRef<'_>) {
        self.delivered += 1;
        self.returned += u64::from(message.sender == self.me);
    }

    fn sent(&mut self, _: InlineGroup, _: u64, _: u64) {
        self.sent += 1;
    }

    fn view(&mut self, _: InlineGroup, view: &View) {
        (self.in_view, self.me) = (true, view.me());
        let (group, members) = (view.group().to_owned(), view.len());
        self.reports.push(Report::View { group, view: ViewNumber(view.number()), members, at_ns: now_ns() });
    }
}

#[derive(Default)]
struct Work {
    accepted: u64,
    load: Option<Vec<u8>>,
    trips: Option<Trips>,
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
                Ok(Command::Stop) => self.load = None,
                Ok(_) => {}
            }
        }
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
    match member.multicast(group, Order::Total, Guarantee::Uniform, message, app) {
        Ok(()) => Ok(true),
        Err(SendError::Full | SendError::NoView) => Ok(false),
        Err(error) => Err(failed("cannot multicast")(error)),
    }
}

/// Messages accepted in one poll.
const BURST: u64 = 256;
