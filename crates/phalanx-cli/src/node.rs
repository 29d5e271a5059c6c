//! `phalanx node`: a plain member of a cell.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use phalanx_runtime::config::parse_duration;
use phalanx_runtime::core::Event;
use phalanx_runtime::{CallError, Cell, Item, JoinOptions, Options};

use crate::exit::{Exit, Failure, While};
use crate::flags::{self, CellFlags};
use crate::member::{Ending, Narrator, Told, start};
use crate::notice::{data, say};

/// Joins the cell as a plain member and prints its views
///
/// In groups it observes: it never has their state, and waits until others have made them. An additional member keeps a
/// quorum alive, and shows whether hosts reach each other. SIGINT (exit code 130) and SIGTERM (0) make it leave. SIGUSR1
/// makes it reform the cell, as `phalanx reform` does.
#[derive(Args, Debug)]
pub(crate) struct Node {
    /// Also observe this group; may be given several times
    #[arg(short, long, value_name = "NAME", value_parser = flags::group_name)]
    group: Vec<String>,
    /// Give up (exit code 3) when this process is in no view of the cell after this long
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    patience: Option<Duration>,
    /// Print every setting in force with its origin, and start nothing
    #[arg(long)]
    show_config: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cell: CellFlags,
}

pub(crate) fn run(node: &Node) -> Result<Exit, Failure> {
    let resolved = node.cell.load()?;
    if node.show_config {
        data(flags::show(&resolved, node.json));
        return Ok(Exit::Good);
    }
    let cell = start(Options::from(resolved.config.clone()))?;
    for group in &node.group {
        cell.join_group(group, JoinOptions { observer: true, ..JoinOptions::default() })
            .when(format_args!("cannot join group {group}"))?;
    }
    follow(&cell, resolved.config.timing.end_wait, node.patience, node.json)
}

/// Prints the member's events until it ends.
pub(crate) fn follow(
    cell: &Arc<Cell>,
    end_wait: Duration,
    patience: Option<Duration>,
    json: bool,
) -> Result<Exit, Failure> {
    let ending = Ending::watch(cell, end_wait)?;
    let me = cell.me();
    say(format_args!("{} receives control traffic at {}: others name that as a seed", me.name, me.control));
    let mut narrator = Narrator::new(Told::Out, json);
    let since = Instant::now();
    let mut in_view = false;
    loop {
        let patience = patience.filter(|_| !in_view).map(|patience| patience.saturating_sub(since.elapsed()));
        match patience.map_or_else(|| cell.recv(), |left| cell.recv_timeout(left)) {
            Ok(Item::Event(event)) => {
                in_view |= matches!(event, Event::CellView(_));
                narrator.note(&event);
            }
            Ok(Item::Unsent { group, first, messages }) => narrator.note_unsent(&group, first, messages),
            Ok(Item::Notice(notice)) => say(notice),
            Ok(_) => {}
            Err(CallError::Over) => return Ok(ending.exit(cell, &narrator)),
            Err(CallError::Timeout) => {
                let what = "in no view of the cell in time; `phalanx doctor` looks at what may stand in the way";
                return Err(Failure::new(Exit::Unreachable, what));
            }
            Err(error) => return Err(Failure::new(Exit::Failure, error.to_string())),
        }
    }
}
