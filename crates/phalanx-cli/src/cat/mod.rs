//! `phalanx cat`: a fault-tolerant pipe.
//!
//! There are three threads. One reads standard input and multicasts ([`input`]), the protocol thread keeps the history
//! ([`history`]), and the main thread takes deliveries and prints. When the reader of standard output stalls, the main
//! thread blocks; then its bounded inbox fills, and missing credit stops the senders.

mod history;
mod input;
mod layout;
mod past;
mod text;

use std::future::poll_fn;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use clap::Args;
use phalanx::{Cell, Group, JoinError, LeaveReason, Next, Order, Replica, View, wait_for};
use phalanx_runtime::config::parse_duration;

use crate::exit::{Exit, Failure, While};
use crate::flags::{CellFlags, group_name, guarantee};
use crate::member::{Ending, Narrator, Told, start};
use crate::news::{News, Piece};
use crate::notice::say;
use history::History;
use input::{Go, Sending};
use layout::Layout;
use past::Printed;
use text::Text;

/// A fault-tolerant pipe: every member prints the same lines in the same order
///
/// Each line of standard input is multicast to the group; every member prints all lines, its own included, in one
/// order. Members may come, go and fail. Views are printed on standard error. After the end of its input a member stays;
/// SIGINT (exit code 130) and SIGTERM (0) make it leave. With --to each line goes to one member alone, which marks it.
#[derive(Args, Debug)]
pub(crate) struct Cat {
    /// The group; it is made if it does not exist
    #[arg(short, long, value_name = "NAME", value_parser = group_name)]
    group: String,
    /// On joining, print the last N lines that were sent before
    #[arg(long, value_name = "N", default_value_t = 0)]
    history: usize,
    /// Deliver the own lines only when every member has them: if any member prints one, all survivors do. Without this
    /// and --plain, the default of the group's founder applies; `phalanx cat` founds groups with --uniform as the
    /// default
    #[arg(long, conflicts_with = "plain")]
    uniform: bool,
    /// Deliver the own lines without waiting for other members
    #[arg(long)]
    plain: bool,
    /// Causal order instead of one total order: faster, and unrelated lines may differ in order
    #[arg(long)]
    causal: bool,
    /// Send each line to the member of that name alone, after all that was printed here before. Lines that did not come to it,
    /// or that are in doubt, are said, and the exit code is 1
    #[arg(long, value_name = "MEMBER", conflicts_with_all = ["uniform", "plain", "causal"])]
    to: Option<String>,
    /// Leave when the input has ended and the own lines were delivered
    #[arg(long)]
    exit_on_eof: bool,
    /// Send nothing before the group has N members
    #[arg(long, value_name = "N", default_value_t = 1)]
    expect: usize,
    /// Give up (exit code 3) when this process is in no view of the group after this long
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    patience: Option<Duration>,
    /// Print one JSON object a line: group, from, text (or hex), newline; and alone if it came to this member alone
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cell: CellFlags,
}

pub(crate) fn run(cat: &Cat) -> Result<Exit, Failure> {
    let resolved = cat.cell.load()?;
    let cell = start(cat.cell.builder(&resolved.config)?)?;
    let ending = Ending::watch(&cell, resolved.config.timing.end_wait)?;
    let history = Replica::new(History::of_process(cat.history));
    let (input, told) = channel();
    let mut printer = Printer {
        cat,
        ending,
        start: cell.me().id.bits(),
        history: history.clone(),
        input,
        narrator: Narrator::new(Told::Beside, cat.json, resolved.warnings),
        layout: Layout::new(&cat.group, cat.json),
        printed: Printed::default(),
        out: Vec::new(),
        broken: false,
        in_view: false,
        goes_on: false,
        began: false,
        was_member: false,
        lost: 0,
        undelivered: Arc::default(),
    };
    let inbox = cell.merged();
    let joining = cell.group(&cat.group).state(&history).join_into(&inbox);
    printer.print_all(&cell, News::new(cell.events(), joining, inbox), told)?;
    if printer.lost > 0 {
        let lost = printer.lost;
        let what = format!("{lost} pieces of this member's input were lost when it was excluded; send them again");
        return Err(Failure::new(Exit::Failure, what));
    }
    let undelivered = printer.undelivered.load(Ordering::Relaxed);
    if let Some(to) = cat.to.as_ref().filter(|_| undelivered > 0) {
        let what = format!("{undelivered} pieces of the input did not come to {to}, or are in doubt");
        return Err(Failure::new(Exit::Failure, what));
    }
    Ok(printer.ending.exit(&cell, &printer.narrator))
}

/// Bytes collected before a write, so that many small deliveries make one system call.
const WRITE_BYTES: usize = 256 << 10;

struct Printer<'a> {
    cat: &'a Cat,
    ending: Ending,
    history: Replica<History>,
    /// Random number of this start; its texts carry it.
    start: u64,
    input: Sender<Go>,
    narrator: Narrator,
    layout: Layout,
    printed: Printed,
    out: Vec<u8>,
    /// The reader of standard output is gone.
    broken: bool,
    in_view: bool,
    /// The group goes on with the history that this member kept; its first view is still to come.
    goes_on: bool,
    /// The input thread was told to begin.
    began: bool,
    /// It has been in a view of the group. A state taken later then holds texts that it missed.
    was_member: bool,
    /// Own texts that were never delivered.
    lost: u64,
    /// Texts to one member that are not known to have come.
    undelivered: Arc<AtomicU64>,
}

impl Printer<'_> {
    /// `told` is for the thread that reads the input, which begins when the group is there.
    fn print_all<J>(&mut self, cell: &Cell, mut news: News<J>, told: Receiver<Go>) -> Result<(), Failure>
    where
        J: Future<Output = Result<Group, JoinError>>,
    {
        let (since, mut told) = (Instant::now(), Some(told));
        loop {
            // The patience ends with the first view.
            let patience = self.cat.patience.filter(|_| !self.was_member);
            let patience = patience.map_or(Duration::MAX, |patience| patience.saturating_sub(since.elapsed()));
            let Ok(piece) = wait_for(poll_fn(|context| news.poll(context)), patience) else {
                let what = format!("in no view of group {} in time; `phalanx stat` shows who is there", self.cat.group);
                return Err(Failure::new(Exit::Unreachable, what));
            };
            match piece {
                Some(Piece::Joined(group)) => self.begin_input(cell, group, told.take())?,
                Some(Piece::Event(event)) => self.narrator.note(&event),
                Some(Piece::Item(next)) => self.take(cell, next),
                None => return self.write(cell),
            }
            // Items that already wait go into the same write.
            while self.out.len() < WRITE_BYTES
                && let Some((_, next)) = news.inbox.try_next()
            {
                self.take(cell, next);
            }
            self.write(cell)?;
        }
    }

    /// The group has come: its input may begin.
    fn begin_input(
        &self,
        cell: &Cell,
        group: Result<Group, JoinError>,
        told: Option<Receiver<Go>>,
    ) -> Result<(), Failure> {
        let group = match group {
            Ok(group) => group,
            // Events say so, and how to go on.
            Err(JoinError::NoNumbers(_) | JoinError::HasState(_) | JoinError::HasNoState(_) | JoinError::Over) => {
                return Ok(());
            }
            Err(error) => {
                return Err(Failure::new(Exit::Failure, format!("cannot join group {}: {error}", self.cat.group)));
            }
        };
        let order = if self.cat.causal { Order::Causal } else { Order::Total };
        let (guarantee, name) = (guarantee(self.cat.uniform, self.cat.plain), cell.me().name);
        let (to, undelivered) = (self.cat.to.clone(), Arc::clone(&self.undelivered));
        let sending = Sending { group, order, guarantee, name, start: self.start, to, undelivered };
        told.map_or(Ok(()), |told| input::begin(sending, told)).when("cannot start a thread")
    }

    fn take(&mut self, cell: &Cell, next: Next) {
        match next {
            // Messages replayed with a transferred history are part of that history and are printed from there.
            Next::Message(message) if message.replayed && !self.goes_on => {}
            Next::Message(message) => match Text::decode(&message.payload) {
                Some(text) => self.print(cell, text),
                None => say("a message that is not from `phalanx cat` was left out"),
            },
            Next::ToOne(message) => match Text::decode(&message.payload) {
                Some(text) if !self.broken => self.layout.put_to_one(text, &mut self.out),
                Some(_) => {}
                None => say("a message to this member alone that is not from `phalanx cat` was left out"),
            },
            Next::View(view) => self.view(&view),
            Next::Lost { not_sent, in_doubt } => self.narrator.note_lost(&self.cat.group, not_sent, in_doubt),
            Next::Kept => self.goes_on = true,
            Next::Current => self.catch_up(),
            Next::Excluded { .. } | Next::Left(LeaveReason::Anew) => self.in_view = false,
            _ => {}
        }
    }

    fn print(&mut self, cell: &Cell, text: Text<'_>) {
        let missed = self.printed.note(text);
        let mine = text.start == self.start;
        if mine {
            self.lost += missed;
        }
        if text.ends {
            if mine && self.cat.exit_on_eof {
                self.ending.leave(cell, Exit::TimedOut);
            }
        } else if !self.broken {
            self.layout.put(text, &mut self.out);
        }
    }

    fn view(&mut self, view: &View) {
        // The announcement of the input's end may have been lost with the earlier incarnation.
        if !self.in_view && self.was_member {
            let _ = self.input.send(Go::Again);
        }
        if !self.was_member && view.len() < self.cat.expect {
            let (expect, there) = (self.cat.expect, view.len());
            say(format_args!("nothing is sent before the group has {expect} members (--expect); it has {there}"));
        }
        self.in_view = true;
        self.goes_on = false;
        self.was_member = true;
        if !self.began && view.len() >= self.cat.expect {
            self.began = true;
            let _ = self.input.send(Go::Begin);
        }
    }

    /// Prints the history from before this member joined, up to `--history` lines; or the texts it missed while it was
    /// excluded.
    fn catch_up(&mut self) {
        let Ok(taken) = self.history.read().taken() else {
            say("the history of another member makes no sense, and was left out");
            return;
        };
        if !self.was_member {
            // Texts from before are recorded as printed even if they are not shown, so that they do not count as
            // missed.
            for kept in &taken {
                self.printed.note(kept.text());
            }
            let shown = history::last(&taken, self.cat.history);
            shown.iter().for_each(|kept| self.layout.put(kept.text(), &mut self.out));
            return;
        }
        let mut missed = 0;
        for kept in taken.iter().filter(|kept| !self.printed.has(kept.text())).collect::<Vec<_>>() {
            let gap = self.printed.note(kept.text());
            if kept.text().start == self.start {
                self.lost += gap;
            } else {
                missed += gap;
            }
            self.layout.put(kept.text(), &mut self.out);
        }
        if missed > 0 {
            say(format_args!("{missed} pieces that were sent while this member was away are no longer kept"));
        }
    }

    fn write(&mut self, cell: &Cell) -> Result<(), Failure> {
        if self.out.is_empty() {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(&self.out).and_then(|()| stdout.flush());
        self.out.clear();
        match written {
            Ok(()) => Ok(()),
            // A closed pipe ends the printing and is no error.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                if !self.broken {
                    self.broken = true;
                    self.ending.leave(cell, Exit::Good);
                }
                Ok(())
            }
            Err(error) => Err(Failure::new(Exit::Failure, format!("cannot write to standard output: {error}"))),
        }
    }
}
