//! `phalanx tap`: shows the packets of running processes.

mod filter;
mod held;
mod output;
mod sources;

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use phalanx_runtime::config::parse_size;
use phalanx_runtime::tap::{Form, Wanted};

use crate::exit::{Exit, Failure};
use crate::flags::{self, CellFlags};
use crate::signals::Signals;
use held::Held;
use output::{Output, Stop};
use sources::Sources;

/// Shows the packets of the cell's processes on this host, as lines or in a file for Wireshark
///
/// The processes are not stopped, and send nothing for it. They belong to the user of this command, and their setting `tap`
/// allows it: `sealed` (the default) shows headers, `clear` also what is in the packets, `off` nothing. All of them are looked
/// at unless some are named. SIGINT (exit code 130) and SIGTERM (0) end it; so does the end of all processes (0).
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Tap {
    /// Only packets of this group; may be given several times
    #[arg(short, long, value_name = "NAME", value_parser = flags::group_name)]
    group: Vec<String>,
    /// Only the process of this member, or with this number; may be given several times. One named by a member is attached
    /// again when it was restarted
    #[arg(long, value_name = "NAME|PID")]
    member: Vec<String>,
    /// Show what is in the packets. The processes need tap = "clear"
    #[arg(long)]
    clear: bool,
    /// Write packets to this new file, in pcapng. Wireshark and tshark read it with dissector/phalanx.lua
    #[arg(long, value_name = "FILE.pcapng", conflicts_with = "json")]
    write: Option<PathBuf>,
    /// End after so many packets
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// The most of each packet that is taken, with what a file has in front of it
    #[arg(long, value_name = "SIZE", default_value = "256KiB", value_parser = snap)]
    snap: u32,
    /// The memory in each process for packets that were not fetched yet, from 256KiB to 64MiB. What finds no room is lost,
    /// and counted
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = bytes)]
    ring_bytes: u64,
    /// Say once a second how many packets each process had, the filter took, and were lost
    #[arg(long)]
    stats: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Which packets (docs/tap.md); without one, all. Put it between single quotes
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    #[command(flatten)]
    cell: CellFlags,
}

const EXAMPLES: &str = "\
Examples:
  phalanx tap --cell prices                                  all packets, as lines
  phalanx tap --cell prices -g quotes 'rank 0'               multicasts of the oldest member
  phalanx tap --cell prices --clear 'order total and out'    what is sent in total order
  phalanx tap --cell prices --clear 'acked < 1000 or frame token'
  phalanx tap --cell prices 'type control and host 10.0.0.7 and size > 1000'
  phalanx tap --cell prices --member desk-1 --count 10000 --write desk.pcapng
  phalanx tap --cell prices --stats 'type multicast' > lines";

/// A number of bytes, with a unit or without one.
fn bytes(text: &str) -> Result<u64, String> {
    text.parse().or_else(|_| parse_size(text))
}

fn snap(text: &str) -> Result<u32, String> {
    let bytes = u32::try_from(bytes(text)?).ok();
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| "it is from 1 byte to 4 GiB".to_owned())
}

pub(crate) fn run(tap: &Tap) -> Result<Exit, Failure> {
    let form = if tap.clear { Form::Clear } else { Form::Sealed };
    let filter = filter::text(&tap.group, &tap.filter, form)?;
    let config = tap.cell.load()?.config;
    let ring_bytes = usize::try_from(tap.ring_bytes).unwrap_or(usize::MAX);
    let signals = Signals::watch()?;
    let sources = Sources::open(config, Wanted { filter, form, snap: tap.snap, ring_bytes }, &tap.member)?;
    let output = match &tap.write {
        Some(path) => Output::file(path)?,
        None if tap.json => Output::json(),
        None => Output::lines(),
    };
    Watch { sources, output, held: Held::default(), left: tap.count, stats: tap.stats.then(Instant::now) }.run(&signals)
}

/// Fetches packets and shows them, until it is told to end.
struct Watch {
    sources: Sources,
    output: Output,
    held: Held,
    /// Packets that are still to be shown. `None`: any number.
    left: Option<u64>,
    /// When numbers were told last. `None`: they are not.
    stats: Option<Instant>,
}

impl Watch {
    fn run(mut self, signals: &Signals) -> Result<Exit, Failure> {
        let outcome = self.turns(signals);
        // What was shown before a failure is there all the same.
        let kept = self.output.finish();
        // What the processes counted until now.
        std::thread::sleep(STATS_AGE);
        self.sources.tell_totals(self.output.packets());
        let exit = outcome.and_then(|exit| kept.map(|()| exit));
        match exit {
            Ok(Exit::Good) if self.sources.has_failed() => Ok(Exit::Failure),
            Ok(exit) => Ok(exit),
            // Whoever read the output has enough.
            Err(Stop::Closed) => Ok(Exit::Good),
            Err(Stop::Failed(failure)) => Err(failure),
        }
    }

    fn turns(&mut self, signals: &Signals) -> Result<Exit, Stop> {
        loop {
            if let Some(exit) = signals.exit() {
                return Ok(exit);
            }
            let began = now();
            let taken = self.sources.take(&mut self.held, &mut self.output);
            // Packets up to then are all here, of each process, so they can go in the order of their times.
            let complete = taken.complete_to.map_or(began, |to| to.min(began));
            let is_over = self.sources.is_over();
            if self.show(if is_over { Duration::MAX } else { complete })? || is_over {
                return Ok(Exit::Good);
            }
            self.sources.tend();
            if let Some(told) = &mut self.stats
                && told.elapsed() >= STATS_EVERY
            {
                *told = Instant::now();
                self.sources.tell_stats();
            }
            if taken.packets == 0 {
                self.output.flush()?;
                std::thread::sleep(IDLE);
            }
        }
    }

    /// Shows packets up to that time. True: as many as were asked for are shown.
    fn show(&mut self, to: Duration) -> Result<bool, Stop> {
        while self.left != Some(0) {
            let Some((pid, seen, form)) = self.held.next(to) else { return Ok(false) };
            self.output.packet(pid, &seen, form)?;
            self.left = self.left.map(|left| left - 1);
        }
        Ok(true)
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Packets wake nobody. At 1 GB/s the smallest ring takes 250 us, the default one 4 ms.
const IDLE: Duration = Duration::from_millis(1);

const STATS_EVERY: Duration = Duration::from_secs(1);

/// How old the numbers of a process may be that it publishes.
const STATS_AGE: Duration = Duration::from_millis(60);
