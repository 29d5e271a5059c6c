//! `phalanx reform`: an operator's order to found a cell anew when its quorum is gone for good.

use std::time::{Duration, Instant};

use clap::Args;
use phalanx::config::{Config, parse_duration, show_duration};
use phalanx::core::{Event, Founding};
use phalanx::counters::CountersFile;
use phalanx::local::LocalCell;
use phalanx::{CallError, Item, Options};

use crate::exit::{Exit, Failure};
use crate::flags::CellFlags;
use crate::member::start;
use crate::node::follow;
use crate::notice::say;

/// Founds the cell anew from here, when its quorum is gone for good
///
/// A cell whose quorum is lost decides nothing more, so that two halves never act for it at once. When those that are
/// missing will not come back, this command founds another instance of the cell with itself as the first member, and
/// stays in it. Processes of the old instance must be started again; state lives on only where they kept it.
///
/// It looks for a living cell first and refuses if there is one. What it cannot reach it cannot see: make sure that
/// no other part of the old cell goes on.
#[derive(Args, Debug)]
pub(crate) struct Reform {
    /// Yes, found another instance
    #[arg(long)]
    yes: bool,
    /// How long to look for a living cell first
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = parse_duration)]
    look: Duration,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cell: CellFlags,
}

pub(crate) fn run(reform: &Reform) -> Result<Exit, Failure> {
    let config = reform.cell.load()?.config;
    if let Some(who) = primary_here(&config) {
        return Err(alive(&config, &format!("{who} on this host is in its primary partition")));
    }
    if let Some(view) = look(&config, reform.look)? {
        return Err(alive(&config, &format!("it took a process in, as of view {view}")));
    }
    if !reform.yes {
        let what = format!(
            "cell '{}' was not found within {}. To found another instance of it from here, add --yes",
            config.cell,
            show_duration(reform.look)
        );
        return Err(Failure::new(Exit::Usage, what));
    }
    say(format_args!("WARNING: founding another instance of cell '{}'; the old one must not go on", config.cell));
    let options = Options { founding: Some(Founding::Alone), ..Options::from(config) };
    follow(&start(options)?, None, reform.json)
}

fn alive(config: &Config, proof: &str) -> Failure {
    Failure::new(
        Exit::Failure,
        format!("cell '{}' is alive: {proof}. Nothing was founded; join it instead", config.cell),
    )
}

/// A member on this host that is in the primary partition.
fn primary_here(config: &Config) -> Option<String> {
    let local = LocalCell::open(config.runtime_dir.as_deref(), config.state_dir.as_deref(), &config.cell).ok()?;
    let readings =
        local.living().ok()?.into_iter().filter_map(|live| CountersFile::open(&live.counters).ok()?.read().ok());
    readings.map(|reading| reading.status).find(|status| status.state == "primary").map(|status| status.name)
}

/// Tries to join: the number of the view that took this process in, if one did.
fn look(config: &Config, patience: Duration) -> Result<Option<u64>, Failure> {
    let options = Options { founding: Some(Founding::Join), ..Options::from(config.clone()) };
    let cell = start(options)?;
    let until = Instant::now() + patience;
    loop {
        match cell.recv_timeout(until.saturating_duration_since(Instant::now())) {
            // Dropping the handle leaves.
            Ok(Item::Event(Event::CellView(view))) => return Ok(Some(view.view)),
            Ok(_) => {}
            Err(CallError::Timeout | CallError::Over) => return Ok(None),
            Err(error) => return Err(Failure::new(Exit::Failure, error.to_string())),
        }
    }
}
