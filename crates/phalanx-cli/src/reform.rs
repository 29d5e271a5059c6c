//! `phalanx reform`: an operator's order to found a cell again when its quorum is gone for good.

use std::time::{Duration, Instant};

use clap::Args;
use phalanx_runtime::config::parse_duration;
use phalanx_runtime::counters::Status;
use phalanx_runtime::local::{Live, LocalCell, Request};
use serde_json::json;

use crate::exit::{Exit, Failure, While};
use crate::flags::CellFlags;
use crate::here;
use crate::notice::{data, say};

/// Founds the cell again, when its quorum is gone for good
///
/// A cell whose quorum is lost decides nothing more, so that two halves never act for it at once. When the missing
/// members will not come back, run this on the host of a remaining member that hears no quorum. That member renounces
/// the old instance of the cell and founds the next one with the groups and the state that it has. Other remaining
/// members, and newly started ones, join it. It first checks whether anybody else is heard. It refuses if a quorum is,
/// or another member that reforms the cell.
///
/// A member whose others are all proved dead stops, too: it may have slept while they decided a view without it, took
/// somebody else in, and died. It cannot know. A supervisor that starts all processes of the cell can: it runs this with
/// --if-all-proved-dead, without --yes, when it knows of no other process. If somebody is not proved dead, it is refused.
///
/// When no member remains, start the founders again: they look for the cell, and found none. Then run this with
/// --all-dead on the host of one of them. More than half of the founders must look for the cell.
///
/// What cannot be reached cannot be seen from here: make sure that no other part of the old cell goes on.
///
/// Exit code 1: no process of this host can do it. 2: --yes or --if-all-proved-dead is missing. 5: it was refused. 6: the time was used up.
#[derive(Args, Debug)]
pub(crate) struct Reform {
    /// Confirm that another instance is founded
    #[arg(long)]
    yes: bool,
    /// Confirm it if the systems of the hosts proved all other members of the last view dead
    #[arg(long, conflicts_with_all = ["yes", "all_dead"])]
    if_all_proved_dead: bool,
    /// Assert that no member of the cell lives anywhere
    #[arg(long)]
    all_dead: bool,
    /// How long to wait for the outcome
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    timeout: Duration,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cell: CellFlags,
}

pub(crate) fn run(reform: &Reform) -> Result<Exit, Failure> {
    let config = reform.cell.load()?.config;
    let local = here::open(&config).when(LOOKING)?;
    let processes: Vec<(Live, Status)> = here::statuses(&local).when(LOOKING)?.collect();
    let alive = processes.iter().filter(|(_, status)| status.state == "primary");
    // One that is not silent first.
    if let Some((silence, Status { name, .. })) =
        alive.map(|(live, status)| (here::silence(live), status)).min_by_key(|(silence, _)| *silence)
    {
        let cell = &config.cell;
        let what = match silence {
            None => format!(
                "cell '{cell}' is alive: {name} on this host is in its primary partition. Nothing was founded; join it instead"
            ),
            Some(silence) => format!(
                "cell '{cell}' may be alive: {name} on this host was in its primary partition {} s ago and is silent since. \
                 Nothing was founded; if {name} is stopped, wake it or end it first",
                silence.as_secs()
            ),
        };
        return Err(Failure::new(Exit::Failure, what));
    }
    let wanted = if reform.all_dead { "searching" } else { "non-primary" };
    let is_meant = |(_, status): &&(Live, Status)| {
        status.state == wanted && config.name.as_ref().is_none_or(|name| *name == status.name)
    };
    let Some((live, Status { name, why, .. })) =
        processes.iter().filter(is_meant).min_by(|a, b| a.1.name.cmp(&b.1.name))
    else {
        return Err(Failure::new(Exit::Failure, nobody(reform, &config.cell, &processes)));
    };
    if !reform.yes && !reform.if_all_proved_dead {
        let what = if reform.all_dead {
            format!("{name} would found cell '{}' again, without any state: {}. To do it, add --yes", config.cell, why)
        } else {
            format!(
                "{name} would renounce its instance of cell '{}' and found the next one with the state that it has: {}. To do it, add --yes",
                config.cell, why
            )
        };
        return Err(Failure::new(Exit::Usage, what));
    }
    say(format_args!("WARNING: founding another instance of cell '{}'; the old one must not go on", config.cell));
    let request = match reform {
        Reform { all_dead: true, .. } => Request::FoundAnew,
        Reform { if_all_proved_dead: true, .. } => Request::ReformIfAllProvedDead,
        _ => Request::Reform,
    };
    let outcome = ask(&local, live, request, reform.timeout)?;
    match outcome {
        Some(Ok(done)) if reform.json => drop(data(json!({"founded": true, "by": name, "outcome": done}))),
        Some(Ok(done)) => drop(data(format_args!("cell '{}' is founded again: {name} is {done}", config.cell))),
        Some(Err(why)) => {
            return Err(Failure::new(Exit::Degraded, format!("{name} does not found the cell again: {why}")));
        }
        None => {
            let now = here::statuses(&local).when(LOOKING)?.map(|(_, status)| status);
            let why = now.into_iter().find(|status| status.name == *name).map(|status| status.why);
            let why = why.filter(|why| !why.is_empty()).map_or(String::new(), |why| format!(": {why}"));
            let what = format!("{name} has not founded the cell again in time, and may yet do{why}");
            return Err(Failure::new(Exit::TimedOut, what));
        }
    }
    Ok(Exit::Good)
}

/// Explains why no process of this host can do it.
fn nobody(reform: &Reform, cell: &str, processes: &[(Live, Status)]) -> String {
    let states: Vec<String> =
        processes.iter().map(|(_, status)| format!("{} is {}", status.name, status.state)).collect();
    let states = if states.is_empty() { "no process of it runs here".to_owned() } else { states.join(", ") };
    if reform.all_dead {
        format!(
            "no founder of cell '{cell}' looks for it on this host: {states}. Start more than half of the founders, then run this on the \
             host of one of them"
        )
    } else {
        format!(
            "no member of cell '{cell}' on this host hears no quorum: {states}. Run this on the host of a member that is left; if none \
             is, start the founders again and use --all-dead"
        )
    }
}

/// Requests the reform and waits for its outcome. `None`: the time was used up.
fn ask(
    local: &LocalCell,
    live: &Live,
    request: Request,
    timeout: Duration,
) -> Result<Option<Result<String, String>>, Failure> {
    let until = Instant::now() + timeout;
    local.request(live.incarnation, request).when("cannot ask the process")?;
    while Instant::now() < until {
        if let Some(outcome) = local.answer(live.incarnation).when("cannot read what came of it")? {
            return Ok(Some(outcome));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    if local.take_back(live.incarnation) {
        let what = "the process does not take requests: it is stopped, or its application does not poll it. Nothing was founded";
        return Err(Failure::new(Exit::TimedOut, what));
    }
    Ok(None)
}

/// Prefix of errors while it reads the files of local processes.
const LOOKING: &str = "cannot look for processes of this host";

/// Interval at which a process checks for requests.
const LOOK_EVERY: Duration = Duration::from_millis(100);
