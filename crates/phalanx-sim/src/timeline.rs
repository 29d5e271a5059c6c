//! A table of a run's events: processes as columns, events in time, proofs of a violation marked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use phalanx_check::memory_label;
use phalanx_trace::{Event, Order, Trace};

use crate::world::World;

/// The width of a process's column.
const COLUMN: usize = 30;

/// Records that prove something: the checker's name of the trace, the index of the record in it.
pub(crate) type Proofs = BTreeSet<(String, usize)>;

/// How much a line contributes to the story.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// It proves it.
    Proof,
    /// A view, a fault, a state: the rest follows from these.
    Change,
    /// A message, a digest: one of very many.
    Message,
}

/// One line of the table.
struct Row {
    at_ns: u64,
    /// The column; `None`: the whole width.
    slot: Option<usize>,
    text: String,
    weight: Weight,
}

/// Formats the proofs of a violation, the last changes before `until_ns` and the last messages, together at most
/// `rows`, and a few lines after it.
pub(crate) fn render(world: &World, until_ns: u64, rows: usize, proofs: &Proofs) -> String {
    let all = collect(world, proofs);
    let end = all.partition_point(|row| row.at_ns <= until_ns);
    let shown = choose(&all[..end], rows);
    let mut out = String::new();
    let _ = write!(out, "{:>16} ", "seconds");
    for slot in &world.slots {
        let _ = write!(out, "{:COLUMN$}", slot.name);
    }
    out.push('\n');
    let after = (end..all.len()).take(rows / 10);
    let mut next = shown.first().copied().unwrap_or(end);
    for index in shown.into_iter().chain(after) {
        if index > next {
            let _ = writeln!(out, "{:>16} ({} more lines)", "...", index - next);
        }
        next = index + 1;
        let row = &all[index];
        let mark = if row.weight == Weight::Proof { ">>" } else { "" };
        let _ = write!(out, "{mark:>2} {:>3}.{:09} ", row.at_ns / 1_000_000_000, row.at_ns % 1_000_000_000);
        let indent = row.slot.unwrap_or(0) * COLUMN;
        let _ = writeln!(out, "{:indent$}{}", "", row.text);
    }
    out
}

/// All lines, oldest first.
fn collect(world: &World, proofs: &Proofs) -> Vec<Row> {
    let names = Names::new(world);
    let mut all: Vec<Row> = Vec::new();
    for (slot, place) in world.slots.iter().enumerate() {
        for trace in &place.app.traces {
            let label = memory_label(trace);
            let is_proof = |index: usize| proofs.contains(&(label.clone(), index));
            all.extend(trace.records.iter().enumerate().map(|(index, record)| Row {
                at_ns: record.at_ns,
                slot: Some(slot),
                text: names.tell(&record.event),
                weight: if is_proof(index) { Weight::Proof } else { weight(&record.event) },
            }));
        }
    }
    all.extend(world.notes.iter().map(|(at_ns, slot, text)| Row {
        at_ns: *at_ns,
        slot: *slot,
        text: format!("* {text}"),
        weight: Weight::Change,
    }));
    all.extend(world.harness.records.iter().filter_map(|record| match &record.event {
        Event::Phase { phase, .. } => {
            Some(Row { at_ns: record.at_ns, slot: None, text: format!("== phase {phase}"), weight: Weight::Change })
        }
        _ => None,
    }));
    // The sort is stable: at one time the order within a process stays.
    all.sort_by_key(|row| row.at_ns);
    all
}

/// Selects the lines: all proofs; then the last changes, up to two thirds of the room; then the last lines of all.
fn choose(all: &[Row], rows: usize) -> Vec<usize> {
    let mut shown: BTreeSet<usize> = (0..all.len()).filter(|&index| all[index].weight == Weight::Proof).collect();
    // Without proofs the last lines are the most informative, whatever they are.
    if !shown.is_empty() {
        let changes = (0..all.len()).rev().filter(|&index| all[index].weight == Weight::Change);
        shown.extend(changes.take((rows * 2 / 3).saturating_sub(shown.len())));
    }
    for index in (0..all.len()).rev() {
        if shown.len() >= rows {
            break;
        }
        shown.insert(index);
    }
    shown.into_iter().collect()
}

fn weight(event: &Event) -> Weight {
    match event {
        Event::Send { .. }
        | Event::Deliver { .. }
        | Event::Digest { .. }
        | Event::ToOneSend { .. }
        | Event::ToOneDeliver { .. }
        | Event::P2pSend { .. }
        | Event::P2pDeliver { .. } => Weight::Message,
        _ => Weight::Change,
    }
}

/// Names of incarnations: the process's name, with a number from its second incarnation on.
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

    /// Short forms of frequent events; the long form of the rest.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(weights: &[Weight]) -> Vec<Row> {
        let row = |(at_ns, weight): (u64, &Weight)| Row { at_ns, slot: None, text: String::new(), weight: *weight };
        (0..).zip(weights).map(row).collect()
    }

    #[test]
    fn an_early_proof_is_shown_and_changes_count_for_more_than_messages() {
        use Weight::{Change, Message, Proof};
        let all = rows(&[Proof, Message, Change, Message, Message, Message, Message, Message]);
        assert_eq!(choose(&all, 3), [0, 2, 7]);
        assert_eq!(choose(&all, 5), [0, 2, 5, 6, 7]);
        assert_eq!(choose(&all, 99), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn without_proofs_the_last_lines_are_shown() {
        use Weight::{Change, Message};
        assert_eq!(choose(&rows(&[Change, Change, Message, Message]), 2), [2, 3]);
    }
}
