//! `phalanx level`: shows what the members of a cell may send to each other, and raises it on the operator's order.

use std::time::Duration;

use clap::Args;
use phalanx::CellEvent;
use phalanx_runtime::config::{Config, parse_duration};
use phalanx_runtime::core::LEVEL;
use phalanx_runtime::counters::Status;
use serde_json::{Value, json};

use crate::exit::{Exit, Failure, While};
use crate::flags::CellFlags;
use crate::here;
use crate::notice::data;
use crate::stat::level as shown;
use crate::table::Table;
use crate::visit::{Visitor, visit};

/// Shows the level of a cell and of its members, and asks the cell to rise
///
/// A level determines what members may send to each other (docs/levels.md). It rises only on request and never falls.
/// Request it once you no longer need to go back to an older build.
///
/// The level shown is the one that a member on this host reports in its counters file. To raise it, and to look with
/// --join, this command joins the cell for a moment. It is then a member with a name and ports of its own, from any
/// host that reaches the cell.
///
/// Exit code 1: the rise is refused, and those that cannot follow are named; or this build is too old for the cell. 3:
/// no cell is found. 5: the cell has no primary partition here. 6: the time was used up.
#[derive(Args, Debug)]
pub(crate) struct Level {
    /// Raise the cell to level N, or without N to the highest that this build knows, and wait for it
    #[arg(long, value_name = "N", num_args = 0..=1, value_parser = clap::value_parser!(u16).range(1..))]
    raise: Option<Option<u16>>,
    /// Join the cell to look, for hosts where no member reports a level
    #[arg(long)]
    join: bool,
    /// How long to wait for the cell, and for the rise
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    timeout: Duration,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cell: CellFlags,
}

/// What a member knows of its cell's levels.
struct Known {
    view: u64,
    level: u64,
    /// The highest level that all members know.
    highest: u64,
    /// Each member, and the highest level it knows.
    members: Vec<(String, u64)>,
}

impl Known {
    fn of_status(status: &Status) -> Self {
        let members = status.members.iter().cloned().zip(status.levels.iter().copied());
        Self { view: status.view.0, level: status.level, highest: status.level_known, members: members.collect() }
    }

    /// From the visitor's view, without this command's own process, which is about to leave.
    fn of_view(visitor: &Visitor) -> Self {
        let (view, me) = (&visitor.view, visitor.me());
        let others = view.members().filter(|member| member.id != me);
        let members: Vec<_> = others.map(|member| (member.name, u64::from(member.level))).collect();
        let highest = members.iter().map(|(_, level)| *level).min().unwrap_or_default();
        Self { view: view.number(), level: u64::from(view.level()), highest, members }
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
    let resolved = level.cell.load()?;
    let Some(raise) = level.raise else {
        let look = |visitor: &mut Visitor| Ok(Known::of_view(visitor));
        let known = if level.join {
            visit("level", &level.cell, &resolved, level.timeout, look)?
        } else {
            told_here(&resolved.config)?
        };
        known.tell(level.json);
        return Ok(Exit::Good);
    };
    let wanted = raise.unwrap_or(LEVEL);
    if wanted > LEVEL {
        let what =
            format!("level {wanted} is not known to this build, which knows {LEVEL} at most: ask with a later one");
        return Err(Failure::new(Exit::Failure, what));
    }
    let known = visit("level", &level.cell, &resolved, level.timeout, |visitor| rise(visitor, wanted))?;
    if level.json {
        data(known.as_json());
    } else {
        data(format_args!("level {} is in force in view {}", known.level, known.view));
    }
    Ok(Exit::Good)
}

/// The report of a member on this host; of several, the one in the latest view.
fn told_here(config: &Config) -> Result<Known, Failure> {
    let out_of_reach = |error: phalanx_runtime::local::LocalError| Failure::new(Exit::Unreachable, error.to_string());
    let local = here::open(config).map_err(out_of_reach)?;
    let statuses = here::statuses(&local).map_err(out_of_reach)?.map(|(_, status)| status);
    let latest =
        statuses.filter(|status| status.level > 0).max_by_key(|status| (status.state == "primary", status.view));
    let Some(status) = latest else {
        let what = format!(
            "no member of cell '{}' on this host ({}) reports its level; --join looks by joining the cell",
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

/// Requests a level, and waits until it is in force.
fn rise(visitor: &mut Visitor, level: u16) -> Result<Known, Failure> {
    // Refused at once or later, it is told as an event.
    if visitor.view.level() < level {
        visitor.process.raise_level(level, &mut visitor.seen).when("cannot ask the cell")?;
    }
    while visitor.view.level() < level {
        match visitor.next()? {
            Some(CellEvent::LevelRefused { why, .. }) => {
                let now = visitor.view.level();
                let what = format!("the cell stays at level {now}, and does not rise to {level}: {why}");
                return Err(Failure::new(Exit::Failure, what));
            }
            Some(_) => {}
            None => return Err(visitor.in_vain(format!("the cell did not rise to level {level} in time, and may yet"))),
        }
    }
    Ok(Known::of_view(visitor))
}
