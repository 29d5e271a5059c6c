//! The cost of a view change for the members that stay, and the time a joiner needs.

use std::time::Duration;

use crate::Request;
use crate::bench::{Bench, Case};
use crate::cell::{Cell, CellPlan};
use crate::choice::{Ordering, Security, Senders, Transport};
use crate::crew::PATIENCE;
use crate::error::BenchError;
use crate::measure::now_ns;
use crate::protocol::{Command, Pauses, Report};
use crate::row::Series;

/// The event that changes the membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The oldest member, which coordinates, is killed.
    KillOldest,
    /// Another member is killed.
    Kill,
    /// A member joins.
    Join,
    /// A member leaves.
    Leave,
}

impl Change {
    const ALL: [Self; 4] = [Self::KillOldest, Self::Kill, Self::Join, Self::Leave];

    fn name(self) -> &'static str {
        match self {
            Self::KillOldest => "kill-oldest",
            Self::Kill => "kill",
            Self::Join => "join",
            Self::Leave => "leave",
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::KillOldest => "the oldest of four is killed",
            Self::Kill => "one of four is killed that is not the oldest",
            Self::Join => "a fifth member comes",
            Self::Leave => "one of four leaves",
        }
    }

    /// Index of the affected member.
    fn victim(self) -> usize {
        if self == Self::KillOldest { 0 } else { 1 }
    }
}

pub(super) fn cases(request: &Request) -> Vec<Case> {
    let mut cases = Vec::new();
    for transport in [Transport::Udp, Transport::Shm] {
        let on = transport.word();
        for change in Change::ALL {
            for saturated in [true, false] {
                let load = if saturated { "saturated" } else { "quarter" };
                let what = if saturated { "all send what goes" } else { "all send, together a quarter of what goes" };
                let what = format!("{}, while {what}", change.what());
                let name = format!("{}-{load}-{on}", change.name());
                cases.push(Case::new(name, what, move |bench| measure(bench, transport, change, saturated)));
            }
        }
        for mebibytes in [1, 16, 256] {
            let what = "a fourth member comes and takes the state of another; nobody sends";
            cases.push(Case::new(format!("join-state-{mebibytes}-{on}"), what, move |bench| {
                join(bench, transport, mebibytes << 20)
            }));
        }
    }
    if request.is_sketch() {
        let few = ["kill-saturated-", "join-quarter-", "leave-quarter-", "join-state-1-"];
        cases.retain(|case| few.iter().any(|name| case.name.starts_with(name)));
    }
    cases
}

fn plan(transport: Transport) -> CellPlan {
    CellPlan { strict: true, ..CellPlan::new(MEMBERS, transport, Security::Sealed) }
}

fn measure(bench: &mut Bench<'_>, transport: Transport, change: Change, saturated: bool) -> Result<(), BenchError> {
    let mut cell = bench.new_cell(&plan(transport))?;
    let per_second = if saturated {
        None
    } else {
        let most = cell.measure(Senders::All, Ordering::Total, SIZE, bench.times())?.delivered_per_s();
        Some(most / 4.0 / MEMBERS as f64)
    };
    let series = |metric, unit| Series::new(metric, unit, MEMBERS, SIZE);
    let calm = "as long without a change";
    let mut sending = series("longest pause between accepted sends", "ms").against(calm);
    let mut delivering = series("longest pause between deliveries", "ms").against(calm);
    let mut until = series("until the last has the new view", "ms");
    for round in 0..bench.rounds() {
        bench.round(round)?;
        cell.load(Senders::All, Ordering::Total, SIZE, per_second)?;
        cell.pause(bench.warm())?;
        cell.pauses()?;
        cell.pause(WATCH)?;
        let before = worst(&cell.pauses()?);
        let began = now_ns();
        happen(&mut cell, change)?;
        cell.agree(cell.len())?;
        // A joiner generates no load, so its pauses do not count.
        let stayed = cell.len() - usize::from(change == Change::Join);
        let viewed =
            cell.members[..stayed].iter().filter_map(|member| member.views.last()).map(|view| view.at_ns).max();
        cell.pause(WATCH / 2)?;
        let pauses = cell.pauses()?;
        let after = worst(&pauses[..stayed]);
        cell.tell_all(&Command::Stop)?;
        until.add(viewed.unwrap_or(began).saturating_sub(began) as f64 / 1e6);
        sending.add_beside(after.send_ms, before.send_ms);
        delivering.add_beside(after.delivery_ms, before.delivery_ms);
        restore(&mut cell)?;
    }
    bench.report([&sending, &delivering, &until]);
    Ok(())
}

/// The longest pauses of any member, in milliseconds.
struct WorstPauses {
    /// Between two sends.
    send_ms: f64,
    /// Between two deliveries.
    delivery_ms: f64,
}

fn worst(pauses: &[Pauses]) -> WorstPauses {
    let of = |which: fn(&Pauses) -> u64| pauses.iter().map(which).max().unwrap_or(0) as f64 / 1e6;
    WorstPauses { send_ms: of(|pauses| pauses.send_ns), delivery_ms: of(|pauses| pauses.delivery_ns) }
}

fn happen(cell: &mut Cell, change: Change) -> Result<(), BenchError> {
    match change {
        // Dropping a member kills it.
        Change::KillOldest | Change::Kill => drop(cell.members.remove(change.victim())),
        Change::Join => cell.join(false)?,
        Change::Leave => leave(cell, change.victim())?,
    }
    Ok(())
}

fn leave(cell: &mut Cell, index: usize) -> Result<(), BenchError> {
    let member = &mut cell.members[index];
    member.tell(&Command::Leave)?;
    let left = |report: &Report| matches!(report, Report::Left).then_some(());
    member.hear("that it left", PATIENCE, left)?;
    drop(cell.members.remove(index));
    Ok(())
}

/// Restores the number of members with which the next round begins.
fn restore(cell: &mut Cell) -> Result<(), BenchError> {
    while cell.len() > cell.plan.members {
        leave(cell, cell.len() - 1)?;
    }
    while cell.len() < cell.plan.members {
        cell.join(false)?;
    }
    cell.agree(cell.len())
}

fn join(bench: &mut Bench<'_>, transport: Transport, state_bytes: usize) -> Result<(), BenchError> {
    let members = MEMBERS - 1;
    let mut cell = bench.new_cell(&CellPlan { members, state_bytes, ..plan(transport) })?;
    let mut whole = Series::new("from the request to the whole state", "ms", MEMBERS, state_bytes);
    let mut rate = Series::new("state", "MB/s", MEMBERS, state_bytes);
    for round in 0..bench.rounds() {
        bench.round(round)?;
        cell.join(true)?;
        let joiner = cell.youngest();
        // A joiner reports its port when it asks to join.
        joiner.port()?;
        let began = now_ns();
        let (ended, bytes) = joiner.hear("its state", STATE_PATIENCE, |report| match report {
            Report::State { at_ns, bytes } => Some((*at_ns, *bytes)),
            _ => None,
        })?;
        if bytes != state_bytes as u64 {
            return Err(BenchError::Child(format!("{bytes} B of state came instead of {state_bytes}")));
        }
        let nanos = ended.saturating_sub(began).max(1) as f64;
        whole.add(nanos / 1e6);
        rate.add(bytes as f64 / nanos * 1e3);
        cell.agree(MEMBERS)?;
        leave(&mut cell, MEMBERS - 1)?;
        cell.agree(members)?;
    }
    bench.report([&whole, &rate]);
    Ok(())
}

const MEMBERS: usize = 4;
const SIZE: usize = 100;
/// Time for which pauses are measured.
const WATCH: Duration = Duration::from_millis(600);
const STATE_PATIENCE: Duration = Duration::from_secs(60);
