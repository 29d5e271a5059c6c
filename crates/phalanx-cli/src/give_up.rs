//! `phalanx give-up`: an operator's order that a group stops waiting for members that will not return.

use std::time::Duration;

use clap::Args;
use phalanx_runtime::config::parse_duration;
use phalanx_runtime::core::{CommandError, GroupId, Incarnation, Process, ViewNumber};
use serde_json::json;

use crate::exit::{Exit, Failure};
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
type WaitsFor = Vec<(Incarnation, String)>;

pub(crate) fn run(give_up: &GiveUp) -> Result<Exit, Failure> {
    let config = give_up.cell.load()?.config;
    let Some(group) = &give_up.group else {
        let orphans = visit("give-up", &config, give_up.timeout, |visitor| Ok(orphans(visitor.core())))?;
        tell(&orphans, give_up.json);
        return Ok(Exit::Good);
    };
    let (waits_for, view) = visit("give-up", &config, give_up.timeout, |visitor| ask(visitor, group, give_up.yes))?;
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

fn orphans(process: &Process) -> Vec<(String, WaitsFor)> {
    process.orphans().map(|(name, waits_for)| (name.to_owned(), waits_for)).collect()
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

/// The members that the group waits for; `None` if it does not wait.
fn waits_for(process: &Process, group: &str) -> Option<WaitsFor> {
    process.orphans().find(|(name, _)| *name == group).map(|(_, waits_for)| waits_for)
}

/// Gives the group up. Returns the members it waited for, and the view in which it no longer does.
fn ask(visitor: &mut Visitor, group: &str, yes: bool) -> Result<(WaitsFor, ViewNumber), Failure> {
    let Some(lost) = waits_for(visitor.core(), group) else { return Err(waits_not(visitor.core(), group)) };
    let names = names_of(&lost);
    let number = visitor.core().decree_state().directory.group_named(group).map(|(number, _)| number);
    if !yes {
        let what = format!(
            "group {group} waits for one of {names}: only they had its state. To give it up for good, add --yes; to keep it, \
             bring one of them back"
        );
        return Err(Failure::new(Exit::Usage, what));
    }
    say(format_args!("WARNING: giving up the state of group {group}, which only {names} had"));
    match visitor.process.give_up_group(group, &mut visitor.seen) {
        Ok(()) => {}
        Err(CommandError::NotOrphan) => return Err(waits_not(visitor.core(), group)),
        Err(error) => return Err(Failure::new(Exit::Failure, error.to_string())),
    }
    match visitor.until(|process| outcome(process, group, number))? {
        Some(Outcome::Over) => Ok((lost, visitor.view.view)),
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
fn outcome(process: &Process, group: &str, number: Option<GroupId>) -> Option<Outcome> {
    match process.decree_state().directory.group_named(group) {
        Some((id, entry)) if Some(id) == number => entry.orphan().is_none().then_some(Outcome::Revived),
        _ => Some(Outcome::Over),
    }
}

fn waits_not(process: &Process, group: &str) -> Failure {
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
