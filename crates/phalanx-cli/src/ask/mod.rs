//! `phalanx ask`: asks a group, and prints what its members answer.
//!
//! The asker observes the group, so that it suits groups with a state and without one, makes none, and is not to answer. It
//! reads no inbox of it: answers come beside that.

mod lines;
mod told;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use clap::Args;
use phalanx::{
    AnswerStream, Bytes, Cell, CellEvent, Events, Group, JoinError, LeaveError, MemberId, Reply, Want, wait_for,
};
use phalanx_runtime::config::parse_duration;

use crate::call::read_input;
use crate::exit::{Exit, Failure, While};
use crate::flags::{CellFlags, group_name, guarantee};
use crate::member::{Narrator, Told, start};
use crate::notice::say;
use crate::signals::Signals;
use crate::visit::{LEAVE_PATIENCE, builder};
use told::Teller;

/// Asks all members of a group, each of which answers; `phalanx call` calls one server
///
/// The question is the argument, or all of standard input. `phalanx answer` answers, or a program with the library does. It
/// joins the cell and the group for as long as it asks, as an observer with a name and ports of its own. It is not to answer,
/// and founds no cell and no group. A member that was killed, or that is stopped or cut off, holds the ask up until the group has
/// a view without it; then its place counts as left. Standard error tells how the ask ended, after what time and in which view.
///
/// Exit codes: 0 met: as many answered as wanted; 9 fewer did, and no more can; 10 a member aborted it; 6 the deadline passed; 8
/// this process was excluded meanwhile, and what became of the ask is unknown; 130 given up by a signal; 1 it was not sent; 3 no
/// cell or no group was found; 5 no quorum of the cell is heard. With --keep, the code of the first ask that was not met.
#[derive(Args, Debug)]
pub(crate) struct Ask {
    /// The group
    #[arg(short, long, value_name = "NAME", value_parser = group_name)]
    group: String,
    /// The question [default: standard input]
    #[arg(value_name = "TEXT", conflicts_with = "keep")]
    text: Option<String>,
    /// The answers that it waits for: "all"; values of a "majority" of the members that are to answer; N values; or the "first"
    /// value. A member that has no answer counts for "all" alone
    #[arg(long, value_name = "all|majority|N|first", default_value = "all", value_parser = parse_want)]
    want: Want,
    /// End the ask after this time in any case [default: it waits for as long as a member takes]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    deadline: Option<Duration>,
    /// Deliver the ask only when every member has it. Without this and --plain, the default of the group's founder applies, and
    /// `phalanx answer` founds groups with --uniform as the default
    #[arg(long, conflicts_with = "plain")]
    uniform: bool,
    /// Deliver the ask without waiting for other members: one that is stopped keeps no answer of the others back
    #[arg(long)]
    plain: bool,
    /// Ask once for each line of standard input, one after the other
    #[arg(long)]
    keep: bool,
    /// Give up (exit code 3) when the group is not found after this long
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    patience: Duration,
    /// Print one JSON object for each answer: ask, view, rank, member, by, reply, and text (or hex); and one for the end, on
    /// standard error
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cell: CellFlags,
}

fn parse_want(text: &str) -> Result<Want, String> {
    match text {
        "all" => Ok(Want::All),
        "majority" => Ok(Want::Majority),
        "first" => Ok(Want::Count(1)),
        number => match number.parse() {
            Ok(count @ 1..) => Ok(Want::Count(count)),
            _ => Err("write all, majority, first, or a number from 1 on".to_owned()),
        },
    }
}

pub(crate) fn run(ask: &Ask) -> Result<Exit, Failure> {
    let question = match &ask.text {
        _ if ask.keep => None,
        Some(text) => Some(text.clone().into_bytes()),
        None => Some(read_input("question")?),
    };
    let resolved = ask.cell.load()?;
    let signals = Signals::watch()?;
    let builder = builder("ask", &ask.cell, &resolved)?;
    // Who asks on comes back after an exclusion.
    let cell = start(if ask.keep { builder } else { builder.stay_out() })?;
    let mut asker = Asker {
        ask,
        signals,
        events: cell.events(),
        narrator: Narrator::new(Told::Beside, ask.json, resolved.warnings),
        found: Found::default(),
        teller: Teller::new(&ask.group, ask.json),
    };
    let outcome = asker.join(&cell, &resolved.config.cell).and_then(|group| match question {
        Some(question) => Ok(asker.ask(&group, question.into())),
        None => asker.ask_each(&group),
    });
    let is_lost = cell.is_trace_lost();
    match cell.blocking_leave(LEAVE_PATIENCE) {
        Err(LeaveError::Timeout) => say("could not leave in time; the others will learn of it as of a death"),
        // The end is told as a notice, or was before.
        _ => asker.note_all(),
    }
    match outcome {
        Ok(_) if is_lost => Err(Failure::new(Exit::Failure, "the trace of this command is incomplete")),
        outcome => outcome,
    }
}

/// What stands between the asker and its group.
#[derive(Default)]
struct Found {
    /// It was in a view of the cell.
    cell: bool,
    /// No quorum of it is heard.
    is_apart: bool,
    /// Why the cell is not found.
    why: Option<String>,
    /// What is so with the group.
    group: Option<String>,
    /// It will never be let in.
    refused: Option<Failure>,
}

struct Asker<'a> {
    ask: &'a Ask,
    signals: Signals,
    events: Events,
    narrator: Narrator,
    found: Found,
    teller: Teller,
}

impl Asker<'_> {
    /// Observes the group.
    fn join(&mut self, cell: &Cell, cell_name: &str) -> Result<Group, Failure> {
        let until = Instant::now() + self.ask.patience;
        let mut joining = pin!(cell.group(&self.ask.group).observe().join());
        loop {
            let joined = wait_for(
                poll_fn(|context| {
                    self.note_events(context);
                    joining.as_mut().poll(context)
                }),
                LOOK.min(until.saturating_duration_since(Instant::now())),
            );
            match joined {
                // The inbox is dropped: nobody waits for this process to read it.
                Ok(Ok((group, _inbox))) => {
                    let me = cell.me().name;
                    say(format_args!("asks group {} as {me}, which observes it and is not to answer", self.ask.group));
                    return Ok(group);
                }
                Ok(Err(error)) => return Err(self.found.refused.take().unwrap_or_else(|| not_joined(&error))),
                Err(_) if self.signals.exit().is_some() => {
                    return Err(Failure::new(Exit::Interrupted, "interrupted; nothing was asked"));
                }
                Err(_) if self.found.refused.is_some() || Instant::now() >= until => {
                    return Err(self.found.failure(&self.ask.group, cell_name));
                }
                Err(_) => {}
            }
        }
    }

    /// Asks for each line of standard input.
    fn ask_each(&mut self, group: &Group) -> Result<Exit, Failure> {
        let lines = lines::begin().when("cannot start a thread")?;
        let mut exit = Exit::Good;
        while let Some(line) = self.next_line(&lines)? {
            let one = self.ask(group, line);
            if exit == Exit::Good {
                exit = one;
            }
            if self.signals.exit().is_some() || self.teller.is_closed() {
                break;
            }
        }
        Ok(exit)
    }

    fn next_line(&mut self, lines: &Receiver<std::io::Result<Bytes>>) -> Result<Option<Bytes>, Failure> {
        loop {
            match lines.recv_timeout(LOOK) {
                Ok(line) => return line.map(Some).when("cannot read standard input"),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                // Nothing is asked just now, so nothing is given up.
                Err(RecvTimeoutError::Timeout) if self.signals.exit().is_some() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => self.note_all(),
            }
        }
    }

    fn ask(&mut self, group: &Group, question: Bytes) -> Exit {
        let guarantee = guarantee(self.ask.uniform, self.ask.plain);
        let asking = group.ask_bytes(question).guarantee(guarantee).want(self.ask.want).without_self();
        let asking = match self.ask.deadline {
            Some(deadline) => asking.deadline(deadline),
            None => asking,
        };
        self.teller.begin();
        let mut stream = asking.stream();
        loop {
            match wait_for(poll_fn(|context| self.poll_answer(&mut stream, context)), LOOK) {
                Ok(Some(answer)) => {
                    if answer.reply == Reply::Left {
                        await_view_without(group, answer.by);
                    }
                    self.teller.answer(&answer, group.view().as_ref());
                }
                Ok(None) => break,
                // Whoever read the output has enough: that gives the ask up, and is no failure.
                _ if self.teller.is_closed() => return Exit::Good,
                Err(_) if self.signals.exit().is_some() => return self.teller.given_up(group.view().as_ref()),
                Err(_) => {}
            }
        }
        let end = stream.end().expect("a stream that is over has an end");
        self.teller.end(&end, group.view().as_ref())
    }

    fn poll_answer(&mut self, stream: &mut AnswerStream, context: &mut Context<'_>) -> Poll<Option<phalanx::Answer>> {
        // Names first: who answers was in a view before.
        self.note_events(context);
        pin!(stream.next()).poll(context)
    }

    fn note_all(&mut self) {
        while let Some(event) = self.events.try_next() {
            self.note(&event);
        }
    }

    /// Notes what happened. The task is woken when more does.
    fn note_events(&mut self, context: &mut Context<'_>) {
        loop {
            let event = pin!(self.events.next()).poll(context);
            let Poll::Ready(Some(event)) = event else { return };
            self.note(&event);
        }
    }

    fn note(&mut self, event: &CellEvent) {
        self.found.note(event);
        match event {
            CellEvent::View(view) => self.teller.learn(view),
            // Views are told with the end of an ask, and failures with the end of the command.
            CellEvent::GroupView(_) | CellEvent::GroupAbsent { .. } | CellEvent::Differs { .. } | CellEvent::Left => {}
            event => self.narrator.note(event),
        }
    }
}

impl Found {
    fn note(&mut self, event: &CellEvent) {
        match event {
            CellEvent::View(_) => (self.cell, self.is_apart) = (true, false),
            CellEvent::Primary => self.is_apart = false,
            CellEvent::NonPrimary { .. } => self.is_apart = true,
            CellEvent::Searching { why, .. } => self.why = Some(why.clone()),
            CellEvent::GroupAbsent { .. } => self.group = Some("no process of the cell is in it".to_owned()),
            CellEvent::GroupWaiting { for_members, .. } => {
                let names: Vec<&str> = for_members.iter().map(|(_, name)| name.as_str()).collect();
                self.group = Some(format!("it waits for one of {}", names.join(", ")));
            }
            CellEvent::Differs { setting, cell, own } => {
                let what = format!("kept out of the cell: {setting} is {cell} there and {own} here");
                self.refused = Some(Failure::new(Exit::Configuration, what));
            }
            _ => {}
        }
    }

    fn failure(&mut self, group: &str, cell: &str) -> Failure {
        if let Some(refused) = self.refused.take() {
            return refused;
        }
        if !self.cell {
            let why = self.why.as_deref().unwrap_or("no member answered; run this where one runs, or name seeds");
            return Failure::new(Exit::Unreachable, format!("cell '{cell}' was not found in time: {why}"));
        }
        if self.is_apart {
            return Failure::new(Exit::Degraded, "no quorum of the cell is heard from here: nothing was asked");
        }
        let why = self.group.as_deref().unwrap_or("it was not joined in time");
        let what = format!("nobody of group {group} can be asked: {why}; `phalanx stat` shows which groups there are");
        Failure::new(Exit::Unreachable, what)
    }
}

/// The view without a member that left comes with its place; here it may be a moment later.
fn await_view_without(group: &Group, member: MemberId) {
    let until = Instant::now() + VIEW_PATIENCE;
    while let Some(view) = group.view().filter(|view| view.rank_of(member).is_some()) {
        if group.blocking_changed(Some(&view), until.saturating_duration_since(Instant::now())).is_err() {
            return;
        }
    }
}

fn not_joined(error: &JoinError) -> Failure {
    Failure::new(Exit::Failure, format!("nothing was asked: {error}"))
}

/// The most that a view comes later than what it brings about.
const VIEW_PATIENCE: Duration = Duration::from_secs(1);

/// Interval at which signals are checked.
const LOOK: Duration = Duration::from_millis(50);
