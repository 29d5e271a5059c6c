//! The runtime on the caller's own thread.

use std::sync::mpsc::{Receiver, TryRecvError};

use phalanx_runtime::config::Config;
use phalanx_runtime::core::{
    CommandError, Delivery, Event, GroupId, GroupTerms, Incarnation, MemberInfo, Order, Sequence, Stability,
    Uniformity, ViewNumber,
};
use phalanx_runtime::driver::Wait;
use phalanx_runtime::{Handler, Inline, Options};

use super::commanding::failed;
use crate::choice::Until;
use crate::commands::{listen, say};
use crate::error::{BenchError, While};
use crate::histogram::Times;
use crate::measure::{cpu_ns, now_ns};
use crate::protocol::{Command, InterfaceRole, Mark, Report};

pub(super) fn run(role: &InterfaceRole, settings: &[(String, String)]) -> Result<(), BenchError> {
    let config = Config::load(settings, [], None).map_err(failed("cannot configure"))?.config;
    let mut member = Inline::start(&Options::from(config)).map_err(failed("cannot start"))?;
    let me = member.node().incarnation();
    let mut app = App { me, group: None, delivered: 0, sent: 0, returned: 0, reports: Vec::new() };
    member.join_group(&role.groups[0], false, GroupTerms::default(), &mut app).map_err(failed("cannot join"))?;
    let waker = member.waker();
    let commands = listen(move || waker.wake())?;
    let mut work = Work::default();
    while work.obey(&commands, &app)? {
        let accepted = work.send(&mut app, &mut member)?;
        let report = member.poll(&mut app);
        for told in app.reports.drain(..) {
            say(&told)?;
        }
        if !report.more && report.received == 0 && accepted == 0 {
            member.wait(None).when("cannot wait")?;
        }
    }
    Ok(())
}

/// Counts what the core reports.
struct App {
    me: Incarnation,
    group: Option<GroupId>,
    delivered: u64,
    /// Own messages that are bound to a view, and that came back.
    sent: u64,
    returned: u64,
    reports: Vec<Report>,
}

impl Handler for App {
    fn begin(&mut self, me: &MemberInfo) {
        self.me = me.incarnation;
    }

    fn sent(&mut self, _: GroupId, _: ViewNumber, _: Sequence, _: Order, _: Uniformity, _: &[u8]) {
        self.sent += 1;
    }

    #[inline]
    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.delivered += 1;
        self.returned += u64::from(delivery.sender == self.me);
    }

    fn event(&mut self, event: Event) {
        if let Event::GroupView(view) = event {
            self.group = Some(view.group);
            let (group, members) = (view.name.to_string(), view.members.len());
            self.reports.push(Report::View { group, view: view.view, members, at_ns: now_ns() });
        }
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
    fn send<D: Wait>(&mut self, app: &mut App, member: &mut Inline<D>) -> Result<u64, BenchError> {
        let Some(group) = app.group else { return Ok(0) };
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
fn multicast<D: Wait>(
    group: GroupId,
    message: &[u8],
    app: &mut App,
    member: &mut Inline<D>,
) -> Result<bool, BenchError> {
    match member.multicast(group, Order::Total, Stability::Uniform, message, app) {
        Ok(()) => Ok(true),
        Err(CommandError::NoCredit | CommandError::NotMember) => Ok(false),
        Err(error) => Err(failed("cannot multicast")(error)),
    }
}

/// Messages accepted in one poll.
const BURST: u64 = 256;
