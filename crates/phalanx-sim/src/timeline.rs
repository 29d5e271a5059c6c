//! A table of what happened: processes as columns, events in time.

use std::collections::BTreeMap;
use std::fmt::Write;

use phalanx_trace::{Event, Order, Trace};

use crate::world::World;

/// The width of a process's column.
const COLUMN: usize = 30;

/// One line of the table.
struct Row {
    at_ns: u64,
    /// The column; `None`: the whole width.
    slot: Option<usize>,
    text: String,
}

/// The last `rows` events up to `until_ns`, and a few after it.
pub(crate) fn render(world: &World, until_ns: u64, rows: usize) -> String {
    let names = Names::new(world);
    let mut all: Vec<Row> = Vec::new();
    for (slot, place) in world.slots.iter().enumerate() {
        for trace in &place.app.traces {
            all.extend(trace.records.iter().map(|record| Row {
                at_ns: record.at_ns,
                slot: Some(slot),
                text: names.tell(&record.event),
            }));
        }
    }
    all.extend(world.notes.iter().map(|(at_ns, slot, text)| Row {
        at_ns: *at_ns,
        slot: *slot,
        text: format!("* {text}"),
    }));
    all.extend(world.harness.records.iter().filter_map(|record| match &record.event {
        Event::Phase { phase, .. } => Some(Row { at_ns: record.at_ns, slot: None, text: format!("== phase {phase}") }),
        _ => None,
    }));
    // Stable: at one time the order within a process stays.
    all.sort_by_key(|row| row.at_ns);
    let end = all.partition_point(|row| row.at_ns <= until_ns);
    let shown = &all[end.saturating_sub(rows)..all.len().min(end + rows / 10)];
    let mut out = String::new();
    let _ = write!(out, "{:>13} ", "seconds");
    for slot in &world.slots {
        let _ = write!(out, "{:COLUMN$}", slot.name);
    }
    out.push('\n');
    for row in shown {
        let _ = write!(out, "{:>3}.{:09} ", row.at_ns / 1_000_000_000, row.at_ns % 1_000_000_000);
        let indent = row.slot.unwrap_or(0) * COLUMN;
        let _ = writeln!(out, "{:indent$}{}", "", row.text);
    }
    out
}

/// What to call each incarnation: the process's name, and from its second life on which life.
struct Names(BTreeMap<u64, String>);

impl Names {
    fn new(world: &World) -> Self {
        let name = |(life, trace): (usize, &Trace)| {
            let name = &trace.header.node;
            let text = if life == 0 { name.clone() } else { format!("{name}.{}", life + 1) };
            (trace.header.incarnation, text)
        };
        let slots = world.slots.iter();
        Self(slots.flat_map(|slot| slot.app.traces.iter().enumerate().map(name)).collect())
    }

    fn of(&self, incarnation: u64) -> String {
        match self.0.get(&incarnation) {
            Some(name) => name.clone(),
            None => format!("{incarnation:x}"),
        }
    }

    fn list(&self, incarnations: impl Iterator<Item = u64>) -> String {
        incarnations.map(|incarnation| self.of(incarnation)).collect::<Vec<_>>().join(" ")
    }

    /// Short forms of what is frequent; the long form of the rest.
    fn tell(&self, event: &Event) -> String {
        match event {
            Event::Deliver { group, view, sender, seq, order, uniform, position, replayed, .. } => {
                let position = position.map_or(String::new(), |position| format!("@{position}"));
                let marks = [(*uniform, " u"), (*replayed, " replayed")];
                let marks: String = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
                format!("d g{group}.{view} {}#{seq} {}{position}{marks}", self.of(*sender), letter(*order))
            }
            Event::Send { group, view, seq, order, uniform, .. } => {
                let mark = if *uniform { " u" } else { "" };
                format!("SEND g{group}.{view} #{seq} {}{mark}", letter(*order))
            }
            Event::CellView { view, members, .. } => {
                format!("CELL {view}: {}", self.list(members.iter().map(|member| member.0)))
            }
            Event::GroupView { group, view, members, .. } => {
                format!("VIEW g{group}.{view}: {}", self.list(members.iter().copied()))
            }
            Event::Digest { group, view, delivered, digest } => {
                format!("digest g{group}.{view}+{delivered} {:04x}", digest & 0xffff)
            }
            Event::StateEnd { group, digest } => format!("state g{group} whole {:04x}", digest & 0xffff),
            Event::SnapshotOut { group, view, digest } => format!("snapshot g{group}.{view} {:04x}", digest & 0xffff),
            Event::P2pSend { to, k, .. } => format!("p2p to {} #{k}", self.of(*to)),
            Event::P2pDeliver { from, k, .. } => format!("p2p from {} #{k}", self.of(*from)),
            other => other.to_string(),
        }
    }
}

fn letter(order: Order) -> char {
    match order {
        Order::Fifo => 'F',
        Order::Causal => 'C',
        Order::Total => 'T',
    }
}
