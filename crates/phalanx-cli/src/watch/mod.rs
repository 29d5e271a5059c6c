//! `phalanx watch`: who comes and goes, as the members of a cell on this host know it.

mod picture;
mod subject;

use std::io::{BufWriter, Stdout, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::exit::{Exit, Failure};
use crate::flags::CellFlags;
use crate::here;
use crate::notice::say;
use crate::signals::Signals;
use picture::Picture;
use subject::{Line, Subject, Watched};

/// Prints who comes and goes and why, as the members of a cell on this host know it, without disturbing them
///
/// It reads what these processes write of themselves ten times a second: it joins nothing, sends nothing, and changes no view. Without
/// a subject it watches the cell. Views that follow each other faster may be told as one. SIGINT (exit code 130) and SIGTERM (0) end it;
/// so does the end of the last process here (0). Exit code 3: no member of that cell runs here.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Watch {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// What to watch: `member` and a name, `host` and its 16 digits (or `here`), `group` and a name; any number of them
    #[arg(value_name = "KIND NAME")]
    subjects: Vec<String>,
    #[command(flatten)]
    cell: CellFlags,
}

const EXAMPLES: &str = "\
Examples:
  phalanx watch --cell prices                              the cell: all that come and go, views, the primary partition
  phalanx watch --cell prices member desk-1 group quotes   one member, and one group of which a process of this host is a member
  phalanx watch --cell prices --json host here             the processes of this host, as JSON";

pub(crate) fn run(watch: &Watch) -> Result<Exit, Failure> {
    let subjects = Subject::all_of(&watch.subjects)?;
    let config = watch.cell.load()?.config;
    let out_of_reach = |error: phalanx_runtime::local::LocalError| Failure::new(Exit::Unreachable, error.to_string());
    let local = here::open(&config).map_err(out_of_reach)?;
    let signals = Signals::watch()?;
    let mut watched: Vec<Watched> = subjects.into_iter().map(Watched::new).collect();
    let mut output = BufWriter::new(std::io::stdout());
    let mut has_begun = false;
    loop {
        if let Some(exit) = signals.exit() {
            return Ok(exit);
        }
        let statuses: Vec<_> = here::statuses(&local).map_err(out_of_reach)?.map(|(_, status)| status).collect();
        if statuses.is_empty() && local.living().map_err(out_of_reach)?.is_empty() {
            if has_begun {
                say(format_args!("no process of cell '{}' runs here any more", config.cell));
                return Ok(Exit::Good);
            }
            let what = format!("nobody of cell '{}' runs on this host ({})", config.cell, local.scope().display());
            return Err(Failure::new(Exit::Unreachable, what));
        }
        has_begun = true;
        let picture = Picture::of(statuses);
        for line in watched.iter_mut().flat_map(|watched| watched.look(&picture)) {
            // Whoever read the output has enough.
            if print(&mut output, &line, watch.json).is_err() {
                return Ok(Exit::Good);
            }
        }
        if output.flush().is_err() || is_closed(&output) {
            return Ok(Exit::Good);
        }
        std::thread::sleep(EVERY);
    }
}

fn print(output: &mut BufWriter<Stdout>, line: &Line, json: bool) -> std::io::Result<()> {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if json { writeln!(output, "{}", line.as_json(time)) } else { writeln!(output, "{line}") }
}

/// Whether nobody reads the output any more: the next line may be far away.
fn is_closed(output: &BufWriter<Stdout>) -> bool {
    let mut watched = [PollFd::new(output.get_ref(), PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&now)).is_ok() && watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Processes write their status about as often.
const EVERY: Duration = Duration::from_millis(100);
