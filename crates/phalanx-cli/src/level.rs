//! `phalanx level`: what the members of a cell may send to each other, and the operator's order to let them send more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use phalanx::config::{Config, parse_duration};
use phalanx::core::{CellView, Event, Founding, LEVEL, Membership};
use phalanx::counters::{CountersFile, Status};
use phalanx::local::LocalCell;
use phalanx::{CallError, Cell, Item, Options};
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};
use crate::flags::CellFlags;
use crate::member::start;
use crate::notice::{data, say};
use crate::stat::level as shown;
use crate::table::Table;

/// Shows the level of a cell and of its members, and asks the cell to rise
///
/// A level says what members may send to each other (docs/levels.md). It rises only when it is asked for, and never falls: ask
/// once no build remains that you may want to go back to.
///
/// What is shown is what a member on this host tells in its counters file. To ask, and to look with --join, this command joins the cell for
/// a moment, as a member with a name and ports of its own, from any host that reaches it.
///
/// Exit code 1: the rise is refused, and who cannot follow is named; or this build is too old for the cell. 3: no cell is found. 5: the
/// cell has no primary partition here. 6: the time was used up.
#[derive(Args, Debug)]
pub(crate) struct Level {
    /// Ask the cell to rise to level N, or without N to the highest that this build knows, and wait for it
    #[arg(long, value_name = "N", num_args = 0..=1, value_parser = clap::value_parser!(u16).range(1..))]
    raise: Option<Option<u16>>,
    /// Look by joining the cell, where no member on this host tells
    #[arg(long)]
    join: bool,
    /// How long to wait for the cell, and for the rise
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    timeout: Duration,
    /// One JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cell: CellFlags,
}

/// What a member knows of its cell.
struct Known {
    view: u64,
    level: u64,
    /// The highest that all members know.
    highest: u64,
    /// Each member and the highest it knows.
    members: Vec<(String, u64)>,
}

impl Known {
    fn of_status(status: &Status) -> Self {
        let members = status.members.iter().cloned().zip(status.levels.iter().copied());
        Self { view: status.view, level: status.level, highest: status.level_known, members: members.collect() }
    }

    /// `but`: this command's own process, which is about to leave.
    fn of_view(view: &CellView, but: &Cell) -> Self {
        let me = but.me().incarnation;
        let others = view.members.iter().filter(|member| member.incarnation != me);
        let members: Vec<_> = others.map(|member| (member.name.clone(), u64::from(member.level))).collect();
        let highest = members.iter().map(|(_, level)| *level).min().unwrap_or_default();
        Self { view: view.view, level: u64::from(view.level), highest, members }
    }

    fn as_json(&self) -> Value {
        let member = |(name, level): &(String, u64)| json!({"name": name, "level": level});
        let members: Vec<Value> = self.members.iter().map(member).collect();
        json!({"view": self.view, "level": self.level, "highest": self.highest, "members": members})
    }

    fn tell(&self, json: bool) {
        if json {
            data(self.as_json());
            return;
        }
        data(format_args!(
            "level {} is in force in view {}; the highest that all members know is {}\n",
            self.level, self.view, self.highest
        ));
        let mut table = Table::new(&["member", "knows level"]);
        for (name, level) in &self.members {
            table.row([name.clone(), shown(*level)]);
        }
        data(table);
    }
}

pub(crate) fn run(level: &Level) -> Result<Exit, Failure> {
    let config = level.cell.load()?.config;
    let Some(raise) = level.raise else {
        let known = if level.join { look(&config, level.timeout)? } else { told_here(&config)? };
        known.tell(level.json);
        return Ok(Exit::Good);
    };
    let wanted = raise.unwrap_or(LEVEL);
    if wanted > LEVEL {
        let what =
            format!("level {wanted} is not known to this build, which knows {LEVEL} at most: ask with a later one");
        return Err(Failure::new(Exit::Failure, what));
    }
    let visitor = Visitor::join(&config, level.timeout)?;
    let known = visitor.raise(wanted);
    visitor.leave();
    let known = known?;
    if level.json {
        data(known.as_json());
    } else {
        data(format_args!("level {} is in force in view {}", known.level, known.view));
    }
    Ok(Exit::Good)
}

/// What a member on this host tells; of several the one in the latest view.
fn told_here(config: &Config) -> Result<Known, Failure> {
    let out_of_reach = |error: phalanx::local::LocalError| Failure::new(Exit::Unreachable, error.to_string());
    let local = LocalCell::open(config.runtime_dir.as_deref(), &config.cell).map_err(out_of_reach)?;
    let living = local.living().map_err(out_of_reach)?;
    let readings = living.into_iter().filter_map(|live| CountersFile::open(&live.counters).ok()?.read().ok());
    let statuses = readings.map(|reading| reading.status).filter(|status| status.level > 0);
    let latest = statuses.max_by_key(|status| (status.state == "primary", status.view));
    let Some(status) = latest else {
        let what = format!(
            "no member of cell '{}' on this host ({}) tells its level; --join looks by joining the cell",
            config.cell,
            local.scope().display()
        );
        return Err(Failure::new(Exit::Unreachable, what));
    };
    if status.state != "primary" {
        let what = format!("{} is {}, as of view {}: {}", status.name, status.state, status.view, status.why);
        return Err(Failure::new(Exit::Degraded, what));
    }
    Ok(Known::of_status(&status))
}

fn look(config: &Config, timeout: Duration) -> Result<Known, Failure> {
    let visitor = Visitor::join(config, timeout)?;
    let known = Known::of_view(&visitor.view, &visitor.cell);
    visitor.leave();
    Ok(known)
}

/// A member for a moment.
struct Visitor {
    cell: Arc<Cell>,
    /// The first view that holds it.
    view: Arc<CellView>,
    until: Instant,
}

impl Visitor {
    fn join(config: &Config, timeout: Duration) -> Result<Self, Failure> {
        let until = Instant::now() + timeout;
        let config = Config {
            // The name and the ports of a configuration may be those of a member that runs.
            name: Some(format!("level-{}-{}", hostname(), std::process::id())),
            data_port: 0,
            control_port: 0,
            ..config.clone()
        };
        let cell = start(Options { founding: Some(Founding::Join), rejoin: false, ..Options::from(config.clone()) })?;
        let mut why = String::new();
        let view = loop {
            match next(&cell, until)? {
                Some(Event::CellView(view)) => break view,
                Some(Event::Searching { why: now, .. }) => why = format!(": {now}"),
                Some(Event::Differs { setting, cell: theirs, own }) if setting == "level" => {
                    let what =
                        format!("the cell is at level {theirs}, and this build knows {own} at most: use a later one");
                    return Err(Failure::new(Exit::Failure, what));
                }
                Some(Event::Differs { setting, cell: theirs, own }) => {
                    let what = format!("kept out of the cell: {setting} is {theirs} there and {own} here");
                    return Err(Failure::new(Exit::Configuration, what));
                }
                Some(_) => {}
                None => {
                    let what = format!("cell '{}' was not found in time{why}", config.cell);
                    return Err(Failure::new(Exit::Unreachable, what));
                }
            }
        };
        Ok(Self { cell, view, until })
    }

    /// Asks for a level, and waits until it is in force.
    fn raise(&self, level: u16) -> Result<Known, Failure> {
        if self.view.level >= level {
            return Ok(Known::of_view(&self.view, &self.cell));
        }
        self.cell.raise_level(level).map_err(|error| Failure::new(Exit::Failure, error.to_string()))?;
        loop {
            match next(&self.cell, self.until)? {
                Some(Event::CellView(view)) if view.level >= level => return Ok(Known::of_view(&view, &self.cell)),
                Some(Event::LevelRefused { why, .. }) => {
                    let what = format!("the cell stays at level {}, and does not rise to {level}: {why}", self.level());
                    return Err(Failure::new(Exit::Failure, what));
                }
                Some(_) => {}
                None if self.cell.belief().look().membership == Membership::NonPrimary => {
                    let what = "no quorum of the cell is heard from here: it decides nothing";
                    return Err(Failure::new(Exit::Degraded, what));
                }
                None => {
                    let what = format!("the cell did not rise to level {level} in time, and may yet");
                    return Err(Failure::new(Exit::TimedOut, what));
                }
            }
        }
    }

    /// As seen last.
    fn level(&self) -> u16 {
        self.cell.view().map_or(self.view.level, |view| view.level)
    }

    fn leave(self) {
        let Ok(cell) = Arc::try_unwrap(self.cell) else { return };
        if cell.leave(LEAVE_PATIENCE).is_err() {
            say("could not leave in time; the others will learn of it as of a death");
        }
    }
}

/// The next event; `None` when the time is used up.
fn next(cell: &Cell, until: Instant) -> Result<Option<Event>, Failure> {
    loop {
        match cell.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Item::Event(Event::Excluded { .. })) => {
                return Err(Failure::new(Exit::Failure, "the cell excluded this command's process: ask again"));
            }
            Ok(Item::Event(event)) => return Ok(Some(event)),
            Ok(Item::Notice(notice)) => say(notice),
            Ok(_) => {}
            Err(CallError::Timeout) => return Ok(None),
            Err(error) => return Err(Failure::new(Exit::Failure, error.to_string())),
        }
    }
}

fn hostname() -> String {
    let host = rustix::system::uname();
    host.nodename().to_string_lossy().chars().take(64).collect()
}

/// A leave takes a view; beyond this the process just ends.
const LEAVE_PATIENCE: Duration = Duration::from_secs(5);
