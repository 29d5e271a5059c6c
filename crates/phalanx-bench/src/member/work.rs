//! Generates a member's multicasts.

use std::time::Duration;

use phalanx_runtime::Inline;
use phalanx_runtime::core::{CommandError, GroupId, Incarnation, ToOneKind};
use phalanx_runtime::driver::Wait;

use super::app::{App, LOAD, PING, PONG, PROBE, STAMPED_BYTES};
use crate::choice::Ordering;
use crate::commands::say;
use crate::error::BenchError;
use crate::measure::now_ns;
use crate::protocol::{Answer, Report};

/// The current command, and its progress.
#[derive(Default)]
pub(super) struct Work {
    load: Option<Load>,
    stamped: Option<Stamped>,
    /// How pings are answered; the order, if with a multicast.
    answers: Option<Ordering>,
    feed: Option<(Incarnation, Vec<u8>)>,
    /// Whether the last attempt found no credit.
    held_back: bool,
    reply: Vec<u8>,
    handed_on: Vec<u8>,
}

struct Load {
    ordering: Ordering,
    message: Vec<u8>,
    pace: Option<Pace>,
}

struct Pace {
    per_second: f64,
    since_ns: u64,
    offered: u64,
}

/// Stamped messages: probes, or pings.
struct Stamped {
    kind: u8,
    ordering: Ordering,
    /// The one that gets them. `None`: they are multicasts.
    to: Option<Incarnation>,
    message: Vec<u8>,
    ends_ns: u64,
    /// For probes: the time between two, and when the next is due.
    gap_ns: u64,
    due_ns: u64,
    /// For pings: the number of answers that each waits for. One ping is under way at a time.
    answers: usize,
    under_way: bool,
}

impl Work {
    pub(super) fn load(&mut self, ordering: Ordering, size: usize, per_second: Option<f64>) {
        let pace = per_second.map(|per_second| Pace { per_second, since_ns: now_ns(), offered: 0 });
        self.load = Some(Load { ordering, message: vec![LOAD; size], pace });
    }

    pub(super) fn stop(&mut self) {
        (self.load, self.feed) = (None, None);
    }

    /// `to`: the member that gets the messages, alone.
    pub(super) fn ping(
        &mut self,
        (ordering, to): (Ordering, Option<Incarnation>),
        size: usize,
        nanos: u64,
        answers: usize,
    ) {
        self.begin(PING, ordering, size, nanos, 0);
        if let Some(stamped) = &mut self.stamped {
            (stamped.answers, stamped.to) = (answers, to);
        }
    }

    pub(super) fn probe(&mut self, ordering: Ordering, size: usize, nanos: u64, gap_ns: u64) {
        self.begin(PROBE, ordering, size, nanos, gap_ns);
    }

    fn begin(&mut self, kind: u8, ordering: Ordering, size: usize, nanos: u64, gap_ns: u64) {
        let now = now_ns();
        let mut message = vec![0; size.max(STAMPED_BYTES)];
        message[0] = kind;
        let ends_ns = now.saturating_add(nanos);
        let (to, answers, under_way) = (None, 1, false);
        let stamped = Stamped { kind, ordering, to, message, ends_ns, gap_ns, due_ns: now, answers, under_way };
        self.stamped = Some(stamped);
    }

    pub(super) fn feed(&mut self, to: Incarnation, size: usize) {
        self.feed = Some((to, vec![LOAD; size]));
    }

    pub(super) fn answer_with(&mut self, ordering: Ordering, size: usize) {
        self.answers = Some(ordering);
        self.reply = vec![0; size.max(STAMPED_BYTES)];
        self.reply[0] = PONG;
    }

    /// Multicasts what is due, and returns how many messages were accepted.
    pub(super) fn send<D: Wait>(&mut self, app: &mut App, member: &mut Inline<D>) -> Result<u64, BenchError> {
        self.held_back = false;
        let mut accepted = self.hand_on(app, member)?;
        let Some(group) = app.group else { return Ok(accepted) };
        if !app.asked.is_empty() {
            accepted += self.answer(group, app, member)?;
        }
        if self.stamped.is_some() {
            accepted += self.stamped(group, app, member)?;
        }
        if self.load.is_some() {
            accepted += self.burst(group, app, member)?;
        }
        Ok(accepted)
    }

    /// Sends load: as much as is due and has credit.
    fn burst<D: Wait>(&mut self, group: GroupId, app: &mut App, member: &mut Inline<D>) -> Result<u64, BenchError> {
        let Some(load) = &mut self.load else { return Ok(0) };
        let due = match &load.pace {
            None => BURST,
            Some(pace) => {
                let elapsed = now_ns().saturating_sub(pace.since_ns) as f64 / 1e9;
                ((elapsed * pace.per_second) as u64).saturating_sub(pace.offered).min(BURST)
            }
        };
        let (order, stability) = load.ordering.of_library();
        let mut accepted = 0;
        while accepted < due {
            match member.multicast(group, order, stability, &load.message, app) {
                Ok(_) => accepted += 1,
                Err(error) if for_now(&error) => {
                    self.held_back = true;
                    break;
                }
                Err(error) => return Err(failed("cannot multicast")(error)),
            }
        }
        if let Some(pace) = &mut load.pace {
            // A message without credit is sent later: offered messages are never dropped.
            pace.offered += accepted;
        }
        Ok(accepted)
    }

    fn stamped<D: Wait>(&mut self, group: GroupId, app: &mut App, member: &mut Inline<D>) -> Result<u64, BenchError> {
        let Some(stamped) = &mut self.stamped else { return Ok(0) };
        if stamped.under_way && app.awaited > 0 {
            return Ok(0);
        }
        stamped.under_way = false;
        let now = now_ns();
        if now >= stamped.ends_ns {
            self.stamped = None;
            say(&Report::Done)?;
            return Ok(0);
        }
        if now < stamped.due_ns {
            return Ok(0);
        }
        // A probe carries the time at which it was due, so that a delay before sending counts as latency.
        let stamp = if stamped.kind == PROBE { stamped.due_ns } else { now }.to_le_bytes();
        stamped.message[1..STAMPED_BYTES].copy_from_slice(&stamp);
        let (order, stability) = stamped.ordering.of_library();
        let accepted = match stamped.to {
            Some(to) => member.send_to(group, to, ToOneKind::Message, &stamped.message, app).map(drop),
            None => member.multicast(group, order, stability, &stamped.message, app).map(drop),
        };
        match accepted {
            Ok(()) if stamped.kind == PING => {
                stamped.under_way = true;
                (app.awaited, app.awaited_stamp) = (stamped.answers, stamp);
                Ok(1)
            }
            Ok(()) => {
                stamped.due_ns += stamped.gap_ns;
                Ok(1)
            }
            Err(error) if for_now(&error) => Ok(0),
            Err(error) => Err(failed("cannot send")(error)),
        }
    }

    fn answer<D: Wait>(&mut self, group: GroupId, app: &mut App, member: &mut Inline<D>) -> Result<u64, BenchError> {
        let Some(ordering) = self.answers else { return Ok(0) };
        let mut accepted = 0;
        while let Some(&(asker, stamp)) = app.asked.front() {
            self.reply[1..STAMPED_BYTES].copy_from_slice(&stamp);
            let answered = match app.answer {
                Answer::Alone => member.send(asker, &self.reply, app),
                Answer::ToOne => member.send_to(group, asker, ToOneKind::Message, &self.reply, app).map(drop),
                Answer::No | Answer::Multicast => {
                    let (order, stability) = ordering.of_library();
                    member.multicast(group, order, stability, &self.reply, app).map(drop)
                }
            };
            match answered {
                Ok(()) => accepted += 1,
                Err(error) if for_now(&error) => break,
                Err(error) => return Err(failed("cannot answer")(error)),
            }
            app.asked.pop_front();
        }
        Ok(accepted)
    }

    /// Sends messages to one member alone: its own, and those it hands on.
    fn hand_on<D: Wait>(&mut self, app: &mut App, member: &mut Inline<D>) -> Result<u64, BenchError> {
        let mut accepted = 0;
        if let Some((to, message)) = &self.feed {
            while accepted < BURST && sent(member.send(*to, message, app))? {
                accepted += 1;
            }
            self.held_back |= accepted < BURST;
        }
        if let Some(to) = app.forward
            && app.to_forward > 0
        {
            self.handed_on.resize(app.forwarded_size, LOAD);
            let mut handed = 0;
            while handed < app.to_forward && sent(member.send(to, &self.handed_on, app))? {
                handed += 1;
            }
            app.to_forward -= handed;
            self.held_back |= app.to_forward > 0;
            accepted += handed;
        }
        Ok(accepted)
    }

    /// Whether messages to send never run out.
    pub(super) fn is_load(&self) -> bool {
        self.load.is_some() || self.feed.is_some()
    }

    /// How long an idle member may sleep. `None`: until a packet arrives.
    pub(super) fn patience(&self, app: &App) -> Option<Duration> {
        let mut due = None;
        let mut until = |at: Duration| due = Some(due.map_or(at, |due: Duration| due.min(at)));
        // Without credit a timer is of no use: the packet that brings credit wakes the member.
        if let Some(load) = &self.load
            && let Some(pace) = &load.pace
            && !self.held_back
        {
            let next_ns = (pace.offered + 1) as f64 / pace.per_second * 1e9;
            let left = Duration::from_nanos((pace.since_ns + next_ns as u64).saturating_sub(now_ns()));
            // Messages of a fast load are sent in batches: a paced application would not wake for each.
            until(left.max(PACE));
        }
        if let Some(stamped) = self.stamped.as_ref().filter(|stamped| !stamped.under_way) {
            until(Duration::from_nanos(stamped.due_ns.saturating_sub(now_ns())));
        }
        if app.is_slow() {
            until(PACE);
        }
        due
    }
}

/// Whether a message was accepted. Refusals that pass by themselves are not errors.
fn sent(result: Result<(), CommandError>) -> Result<bool, BenchError> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if for_now(&error) => Ok(false),
        Err(error) => Err(failed("cannot send")(error)),
    }
}

/// The error of a member whose command the library refuses.
pub(super) fn failed<E: std::fmt::Display>(doing: &'static str) -> impl FnOnce(E) -> BenchError {
    move |error| BenchError::Child(format!("{doing}: {error}"))
}

/// Messages accepted in one poll.
const BURST: u64 = 256;
/// Time between two bursts of a paced load.
const PACE: Duration = Duration::from_micros(500);

/// Whether a command was refused only for the moment.
fn for_now(error: &CommandError) -> bool {
    // Between two incarnations, and while a view is awaited, there is no group.
    matches!(error, CommandError::NoCredit | CommandError::NoWindow | CommandError::NotMember)
}
