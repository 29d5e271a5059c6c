//! `phalanx stat`: prints what the members of a cell on this host report in their counters files.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use phalanx_runtime::clock;
use phalanx_runtime::counters::{CountersFile, GroupStatus, HolderStatus, OrphanStatus, Reading};
use phalanx_runtime::local::Live;
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::flags::CellFlags;
use crate::here;
use crate::notice::{data, say};
use crate::table::Table;

/// Shows the state of the members of a cell on this host, without disturbing them
///
/// For each stream it names the member that the stream waits for. Exit code 3: no member of that cell runs here. 5: a
/// member is outside the primary partition.
#[derive(Args, Debug)]
pub(crate) struct Stat {
    /// Also print all counters that are not zero
    #[arg(long)]
    counters: bool,
    /// Print one JSON document with everything
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cell: CellFlags,
}

/// One process, as it reports itself.
struct Seen {
    reading: Reading,
    age: Duration,
}

pub(crate) fn run(stat: &Stat) -> Result<Exit, Failure> {
    let config = stat.cell.load()?.config;
    let out_of_reach = |error: phalanx_runtime::local::LocalError| Failure::new(Exit::Unreachable, error.to_string());
    let local = here::open(&config).map_err(out_of_reach)?;
    let living = local.living().map_err(out_of_reach)?;
    if living.is_empty() {
        let what = format!("nobody of cell '{}' runs on this host ({})", config.cell, local.scope().display());
        return Err(Failure::new(Exit::Unreachable, what));
    }
    let mut seen: Vec<Seen> = living.iter().filter_map(look).collect();
    seen.sort_by(|a, b| a.reading.status.name.cmp(&b.reading.status.name));
    if stat.json {
        data(serde_json::Value::Array(seen.iter().map(as_json).collect()));
    } else {
        tell(&seen, stat.counters);
    }
    let degraded = seen.iter().any(|s| s.reading.status.state == "non-primary");
    Ok(if degraded { Exit::Degraded } else { Exit::Good })
}

fn look(live: &Live) -> Option<Seen> {
    match CountersFile::open(&live.counters).and_then(|file| file.read()) {
        Ok(reading) => {
            let age = clock::now().since(reading.updated);
            Some(Seen { reading, age })
        }
        Err(error) => {
            let name = live.advert.as_ref().map_or("a process", |advert| advert.name.as_str());
            say(format_args!("{name}: {error}"));
            None
        }
    }
}

/// Formats a reported level. Builds older than levels report none, and so does a process that is in no view.
pub(crate) fn level(level: u64) -> String {
    if level == 0 { "-".to_owned() } else { level.to_string() }
}

fn state(seen: &Seen) -> String {
    let state = &seen.reading.status.state;
    if seen.age > here::STALE { format!("{state}, silent for {} s", seen.age.as_secs()) } else { state.clone() }
}

fn tell(seen: &[Seen], with_counters: bool) {
    let mut processes = Table::new(&["process", "pid", "incarnation", "state", "view", "level", "members"]);
    for one in seen {
        let reading = &one.reading;
        let status = &reading.status;
        processes.row([
            status.name.clone(),
            reading.pid.to_string(),
            reading.incarnation.to_string(),
            state(one),
            status.view.to_string(),
            level(status.level),
            status.members.join(","),
        ]);
    }
    data(processes);
    let heads =
        ["group", "process", "view", "members", "state", "sent", "delivered", "queued", "unstable", "waits for"];
    let mut groups = Table::new(&heads);
    let mut any = false;
    for one in seen {
        for group in &one.reading.status.groups {
            any = true;
            groups.row([
                group.name.clone(),
                one.reading.status.name.clone(),
                group.view.to_string(),
                group.members.to_string(),
                state_of(group),
                group.sent.to_string(),
                group.delivered.to_string(),
                group.queued_messages.to_string(),
                group.unstable_packets.to_string(),
                match (&group.waits_for, &group.hold) {
                    (Some(member), Some(hold)) => format!("{member} ({hold})"),
                    (Some(member), None) => member.clone(),
                    (None, _) => "-".to_owned(),
                },
            ]);
        }
    }
    if any {
        data("");
        data(groups);
    }
    tell_orphans(seen);
    for one in seen.iter().filter(|one| !one.reading.status.why.is_empty()) {
        data(format_args!("\n{}: {}", one.reading.status.name, one.reading.status.why));
    }
    if with_counters {
        tell_counters(seen);
    }
}

/// Prints the waiting groups. They are the same at all members of one view, so each is printed once for each set of
/// members that it waits for.
fn tell_orphans(seen: &[Seen]) {
    let orphans: BTreeSet<(&str, String)> =
        seen.iter().flat_map(|one| &one.reading.status.orphans).map(waits).collect();
    if orphans.is_empty() {
        return;
    }
    let mut table = Table::new(&["group that waits", "for one of"]);
    for (name, waits_for) in orphans {
        table.row([name.to_owned(), waits_for]);
    }
    data("");
    data(table);
    let left_out = seen.iter().map(|one| one.reading.status.orphans_left_out).max().unwrap_or(0);
    if left_out > 0 {
        data(format_args!("and {left_out} more"));
    }
    data("Only these had the state of the group. If none of them will be back: `phalanx give-up GROUP`");
}

fn waits(orphan: &OrphanStatus) -> (&str, String) {
    let holder = |holder: &HolderStatus| match holder.name.as_str() {
        "" => holder.incarnation.clone(),
        name => format!("{name} {}", holder.incarnation),
    };
    let mut waits_for: Vec<String> = orphan.waits_for.iter().map(holder).collect();
    if orphan.left_out > 0 {
        waits_for.push(format!("{} more", orphan.left_out));
    }
    (&orphan.name, waits_for.join(", "))
}

fn tell_counters(seen: &[Seen]) {
    let mut table = Table::new(&["process", "counter", "count"]).numbers_from(2);
    for one in seen {
        for (name, count) in one.reading.counters.iter().filter(|(_, count)| *count > 0) {
            table.row([one.reading.status.name.clone(), name.clone(), count.to_string()]);
        }
    }
    data("");
    data(table);
}

/// Whether a group has a state, and the named domains of it.
fn state_of(group: &GroupStatus) -> String {
    let state = if group.state.is_empty() { "unknown" } else { &group.state };
    let named: Vec<&str> = group.domains.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    if named.is_empty() { state.to_owned() } else { format!("{state} ({})", named.join(", ")) }
}

fn as_json(seen: &Seen) -> serde_json::Value {
    let reading = &seen.reading;
    let status = &reading.status;
    let group = |group: &GroupStatus| {
        json!({
            "name": group.name, "number": group.number, "view": group.view, "members": group.members,
            "state": group.state, "domains": group.domains, "sent": group.sent, "delivered": group.delivered,
            "queued_messages": group.queued_messages, "queued_bytes": group.queued_bytes,
            "unstable_packets": group.unstable_packets, "waits_for": group.waits_for,
            "hold": group.hold, "orders": group.orders,
        })
    };
    let orphan = |orphan: &OrphanStatus| {
        let holder = |holder: &HolderStatus| json!({"name": holder.name, "incarnation": holder.incarnation});
        let waits_for: Vec<_> = orphan.waits_for.iter().map(holder).collect();
        json!({"name": orphan.name, "waits_for": waits_for, "left_out": orphan.left_out})
    };
    let counters: serde_json::Map<_, _> =
        reading.counters.iter().map(|(name, count)| (name.clone(), (*count).into())).collect();
    json!({
        "cell": status.cell, "name": status.name, "pid": reading.pid,
        "incarnation": reading.incarnation.to_string(),
        "state": status.state, "why": status.why, "age_ms": u64::try_from(seen.age.as_millis()).unwrap_or(u64::MAX),
        "view": status.view, "level": status.level, "level_known": status.level_known,
        "members": status.members, "levels": status.levels,
        "groups": status.groups.iter().map(group).collect::<Vec<_>>(),
        "orphans": status.orphans.iter().map(orphan).collect::<Vec<_>>(), "orphans_left_out": status.orphans_left_out,
        "counters": counters,
    })
}
