//! `phalanx give-up`: an operator's order that a group stops waiting for members that will not return.

use std::time::Duration;

use clap::Args;
use phalanx::{CellGroup, Inline, MemberId};
use phalanx_runtime::config::parse_duration;
use serde_json::json;

use crate::exit::{Exit, Failure, While};
use crate::flags::{CellFlags, group_name};
use crate::member::{names_of, waits_for_json};
use crate::notice::{data, say};
use crate::table::Table;
use crate::visit::{Visitor, visit};

/// Gives up the state of a group that waits for members that will not be back
///
/// When all members that have a group's state are cut off from the cell, the group waits: nobody can join it, and its
/// name is taken. It goes on with its state when one of these members is back. It ends when all of them are proved dead
/// or were started again without it. Where neither will happen, this command ends the group. Its state is lost for
/// good; a process that waits for the name founds the group anew without it. A member that comes back later joins the
/// new group and takes its state.
///
/// Without GROUP it lists the groups that wait, and for whom. It joins the cell for a moment, as a member with a name
/// and ports of its own.
///
/// Exit code 1: no group of that name waits. 2: it does, and --yes is missing. 3: no cell is found. 5: the cell has no
/// primary partition here. 6: the time was used up.
#[derive(Args, Debug)]
pub(crate) struct GiveUp {
    /// The group
    #[arg(value_parser = group_name)]
    group: Option<String>,
    /// Confirm that its state is given up
    #[arg(long, requires = "group")]
    yes: bool,
    /// How long to wait for the cell, and until the name is free
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    timeout: Duration,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cell: CellFlags,
}

/// The members a group waits for.
type WaitsFor = Vec<(MemberId, String)>;

pub(crate) fn run(give_up: &GiveUp) -> Result<Exit, Failure> {
    let resolved = give_up.cell.load()?;
    let Some(group) = &give_up.group else {
        let orphans =
            visit("give-up", &give_up.cell, &resolved, give_up.timeout, |visitor| Ok(orphans(&visitor.process)))?;
        tell(&orphans, give_up.json);
        return Ok(Exit::Good);
    };
    let (waits_for, view) =
        visit("give-up", &give_up.cell, &resolved, give_up.timeout, |visitor| ask(visitor, group, give_up.yes))?;
    if give_up.json {
        data(json!({"group": group, "given_up": waits_for_json(&waits_for), "view": view}));
    } else {
        data(format_args!(
            "group {group} is given up, as of cell view {view}: the state that only {} had is lost, and the name is free",
            names_of(&waits_for)
        ));
    }
    Ok(Exit::Good)
}

fn orphans(process: &Inline) -> Vec<(String, WaitsFor)> {
    process.groups().into_iter().filter(CellGroup::is_waiting).map(|group| (group.name, group.waits_for)).collect()
}

fn tell(orphans: &[(String, WaitsFor)], json: bool) {
    if json {
        let orphan =
            |(name, waits_for): &(String, WaitsFor)| json!({"name": name, "waits_for": waits_for_json(waits_for)});
        data(json!({"orphans": orphans.iter().map(orphan).collect::<Vec<_>>()}));
    } else if orphans.is_empty() {
        data("no group waits");
    } else {
        let mut table = Table::new(&["group that waits", "for one of"]);
        for (name, waits_for) in orphans {
            table.row([name.clone(), names_of(waits_for)]);
        }
        data(table);
    }
}

/// The group, if the cell has it.
fn named(process: &Inline, group: &str) -> Option<CellGroup> {
    process.groups().into_iter().find(|known| known.name == group)
}

/// Gives the group up. Returns the members it waited for, and the view in which it no longer does.
fn ask(visitor: &mut Visitor, group: &str, yes: bool) -> Result<(WaitsFor, u64), Failure> {
    let Some(CellGroup { number, waits_for: lost, .. }) = named(&visitor.process, group).filter(CellGroup::is_waiting)
    else {
        return Err(waits_not(&visitor.process, group));
    };
    let names = names_of(&lost);
    if !yes {
        let what = format!(
            "group {group} waits for one of {names}: only they had its state. To give it up for good, add --yes; to keep it, \
             bring one of them back"
        );
        return Err(Failure::new(Exit::Usage, what));
    }
    say(format_args!("WARNING: giving up the state of group {group}, which only {names} had"));
    visitor.process.give_up_group(group, &mut visitor.seen).when("cannot ask the cell")?;
    match visitor.until(|process| outcome(process, group, number))? {
        Some(Outcome::Over) => Ok((lost, visitor.view.number())),
        Some(Outcome::Revived) => {
            let what =
                format!("one of {names} was back just then, and group {group} goes on with its state: nothing is lost");
            Err(Failure::new(Exit::Failure, what))
        }
        None => Err(visitor.in_vain(format!("group {group} was not given up in time, and may yet be"))),
    }
}

/// What became of a waiting group.
enum Outcome {
    /// It ended. Another group of its name may exist already.
    Over,
    /// It has members again.
    Revived,
}

/// The outcome so far. `None`: the group still waits.
fn outcome(process: &Inline, group: &str, number: u32) -> Option<Outcome> {
    match named(process, group) {
        Some(known) if known.number == number => (!known.is_waiting()).then_some(Outcome::Revived),
        _ => Some(Outcome::Over),
    }
}

fn waits_not(process: &Inline, group: &str) -> Failure {
    let others = orphans(process);
    let what = if others.is_empty() {
        format!("group {group} does not wait, and no other group does: nothing was given up")
    } else {
        let others: Vec<String> =
            others.into_iter().map(|(name, lost)| format!("{name} (for {})", names_of(&lost))).collect();
        format!("group {group} does not wait: nothing was given up; these groups wait: {}", others.join("; "))
    };
    Failure::new(Exit::Failure, what)
}
