//! `phalanx cat`: a fault-tolerant pipe.
//!
//! There are three threads. One reads standard input and multicasts ([`input`]), the protocol thread keeps the history
//! ([`past`]), and the main thread takes deliveries and prints. When the reader of standard output stalls, the main
//! thread blocks; then its bounded queue fills, and missing credit stops the senders.

mod history;
mod input;
mod layout;
mod past;
mod text;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use clap::Args;
use phalanx_runtime::config::parse_duration;
use phalanx_runtime::core::{Event, Order, Stability};
use phalanx_runtime::{CallError, Cell, Item, JoinOptions, Options};

use crate::exit::{Exit, Failure, While};
use crate::flags::{CellFlags, group_name};
use crate::member::{Ending, Narrator, Told, start};
use crate::notice::say;
use input::{Go, Sending};
use layout::Layout;
use past::{Past, Printed};
use text::Text;

/// A fault-tolerant pipe: every member prints the same lines in the same order
///
/// Each line of standard input is multicast to the group; every member prints all lines, its own included, in one
/// order. Members may come, go and fail. Views are printed on standard error. After the end of its input a member stays;
/// SIGINT (exit code 130) and SIGTERM (0) make it leave.
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
    /// Leave when the input has ended and the own lines were delivered
    #[arg(long)]
    exit_on_eof: bool,
    /// Send nothing before the group has N members
    #[arg(long, value_name = "N", default_value_t = 1)]
    expect: usize,
    /// Give up (exit code 3) when this process is in no view of the group after this long
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    patience: Option<Duration>,
    /// Print one JSON object a line: group, from, text (or hex), newline
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cell: CellFlags,
}

impl Cat {
    fn stability(&self) -> Stability {
        match (self.plain, self.uniform) {
            (true, _) => Stability::Plain,
            (false, true) => Stability::Uniform,
            (false, false) => Stability::GroupDefault,
        }
    }
}

pub(crate) fn run(cat: &Cat) -> Result<Exit, Failure> {
    let resolved = cat.cell.load()?;
    let end_wait = resolved.config.timing.end_wait;
    let cell = start(Options::from(resolved.config))?;
    let ending = Ending::watch(&cell, end_wait)?;
    let past = Past::new(cat.history);
    let options = JoinOptions { with_state: true, state: Some(Box::new(past.clone())), ..JoinOptions::default() };
    let group = cell.join_group(&cat.group, options).when(format_args!("cannot join group {}", cat.group))?;
    let me = cell.me();
    let sending = Sending {
        group,
        order: if cat.causal { Order::Causal } else { Order::Total },
        stability: cat.stability(),
        name: me.name.clone(),
        start: me.incarnation.0,
    };
    let mut printer = Printer {
        cat,
        ending,
        past,
        start: sending.start,
        input: input::begin(sending).when("cannot start a thread")?,
        narrator: Narrator::new(Told::Beside, cat.json),
        layout: Layout::new(&cat.group, cat.json),
        printed: Printed::default(),
        out: Vec::new(),
        broken: false,
        in_view: false,
        goes_on: false,
        began: false,
        was_member: false,
        lost: 0,
    };
    printer.print_all(&cell)?;
    if printer.lost > 0 {
        let lost = printer.lost;
        let what = format!("{lost} pieces of this member's input were lost when it was excluded; send them again");
        return Err(Failure::new(Exit::Failure, what));
    }
    Ok(printer.ending.exit(&cell, &printer.narrator))
}

/// Bytes collected before a write, so that many small deliveries make one system call.
const WRITE_BYTES: usize = 256 << 10;

struct Printer<'a> {
    cat: &'a Cat,
    ending: Ending,
    past: Past,
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
}

impl Printer<'_> {
    fn print_all(&mut self, cell: &Arc<Cell>) -> Result<(), Failure> {
        let since = Instant::now();
        loop {
            // The patience ends with the first view.
            let patience = self.cat.patience.filter(|_| !self.was_member);
            let item = match patience.map(|patience| patience.saturating_sub(since.elapsed())) {
                None => cell.recv(),
                Some(left) => cell.recv_timeout(left),
            };
            match item {
                Ok(item) => self.take(cell, item),
                Err(CallError::Over) => return self.write(cell),
                Err(CallError::Timeout) => {
                    let what =
                        format!("in no view of group {} in time; `phalanx stat` shows who is there", self.cat.group);
                    return Err(Failure::new(Exit::Unreachable, what));
                }
                Err(error) => return Err(Failure::new(Exit::Failure, error.to_string())),
            }
            // Items that already wait go into the same write.
            while self.out.len() < WRITE_BYTES {
                match cell.try_recv() {
                    Ok(Some(item)) => self.take(cell, item),
                    _ => break,
                }
            }
            self.write(cell)?;
        }
    }

    fn take(&mut self, cell: &Arc<Cell>, item: Item) {
        match item {
            // Messages replayed with a transferred history are part of that history and are printed from there.
            Item::Message(message) if message.replayed && !self.goes_on => {}
            Item::Message(message) => match Text::decode(&message.payload) {
                Some(text) => self.print(cell, text),
                None => say("a message that is not from `phalanx cat` was left out"),
            },
            Item::Event(event) => self.event(&event),
            Item::Unsent { group, first, messages } => self.narrator.note_unsent(&group, first, messages),
            Item::Notice(notice) => say(notice),
            _ => {}
        }
    }

    fn print(&mut self, cell: &Arc<Cell>, text: Text<'_>) {
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

    fn event(&mut self, event: &Event) {
        self.narrator.note(event);
        match event {
            Event::GroupView(view) if *view.name == *self.cat.group => {
                // The announcement of the input's end may have been lost with the earlier incarnation.
                if !self.in_view && self.was_member {
                    let _ = self.input.send(Go::Again);
                }
                if !self.was_member && view.members.len() < self.cat.expect {
                    let (expect, there) = (self.cat.expect, view.members.len());
                    say(format_args!(
                        "nothing is sent before the group has {expect} members (--expect); it has {there}"
                    ));
                }
                self.in_view = true;
                self.goes_on = false;
                self.was_member = true;
                if !self.began && view.members.len() >= self.cat.expect {
                    self.began = true;
                    let _ = self.input.send(Go::Begin);
                }
            }
            Event::StateKept { .. } => self.goes_on = true,
            Event::StateEnd { .. } => self.catch_up(),
            Event::Excluded { .. } => self.in_view = false,
            _ => {}
        }
    }

    /// Prints the history from before this member joined, up to `--history` lines; or the texts it missed while it was
    /// excluded.
    fn catch_up(&mut self) {
        let Ok(taken) = self.past.taken() else {
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

    fn write(&mut self, cell: &Arc<Cell>) -> Result<(), Failure> {
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
