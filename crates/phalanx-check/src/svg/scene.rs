//! The content of a picture, before it is laid out.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use phalanx_trace::Event;

use super::diagram::{Diagram, Mark};
use super::messages::{self, Arrow};
use super::select;
use super::text::{Names, seconds};

/// An event of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Starts,
    Crashes,
    Stops,
    GoesOn,
    IsExcluded,
    Leaves,
    HearsNoQuorum,
    HearsOne,
    TakesState,
    GivesState,
}

/// A moment at one process.
#[derive(Clone, Debug)]
pub(super) struct Glyph {
    pub(super) column: usize,
    pub(super) at_ns: u64,
    pub(super) what: What,
    pub(super) label: String,
}

/// One incarnation, or a stop of one, as a piece of a lifeline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) column: usize,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

/// A view across the processes that install it.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) hint: String,
    pub(super) is_cell: bool,
    /// Installations: column, moment.
    pub(super) points: Vec<(usize, u64)>,
}

/// A record that proves something.
#[derive(Clone, Debug)]
pub(super) struct Proof {
    pub(super) number: usize,
    /// Its column; `None`: it belongs to no process.
    pub(super) column: Option<usize>,
    pub(super) at_ns: u64,
    pub(super) text: String,
}

/// A finding with the numbers of its proofs.
#[derive(Clone, Debug)]
pub(super) struct Caption {
    pub(super) code: String,
    pub(super) text: String,
    pub(super) at_ns: u64,
    pub(super) proofs: Vec<Proof>,
}

/// The content of a picture.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) title: String,
    pub(super) window: RangeInclusive<u64>,
    pub(super) columns: Vec<String>,
    pub(super) lives: Vec<Piece>,
    pub(super) stops: Vec<Piece>,
    pub(super) glyphs: Vec<Glyph>,
    pub(super) bars: Vec<Bar>,
    pub(super) arrows: Vec<Arrow>,
    pub(super) marks: Vec<(Option<usize>, Mark)>,
    pub(super) captions: Vec<Caption>,
    /// What is not shown, and why.
    pub(super) remarks: Vec<String>,
}

/// Bound on the captions; more findings do not make a clearer picture.
const CAPTIONS_MAX: usize = 3;

impl Scene {
    pub(super) fn collect(diagram: &Diagram<'_>) -> Self {
        let names = Names::new(diagram.traces);
        let columns = columns(diagram);
        let focus = select::Focus::new(diagram);
        let mut remarks = Vec::new();
        let window = focus.window(diagram, &mut remarks);
        let arrows = messages::collect(diagram, &columns, &names, &focus, &window, &mut remarks);
        let mut scene = Self {
            title: diagram.title.clone(),
            lives: Vec::new(),
            stops: Vec::new(),
            glyphs: Vec::new(),
            bars: Vec::new(),
            arrows,
            marks: marks(diagram, &columns, &window),
            captions: captions(diagram, &columns),
            columns,
            window,
            remarks,
        };
        scene.add_lives(diagram, &names);
        scene.add_harness(diagram, &names);
        scene.add_bars(diagram, &names, &focus);
        let outside = scene.captions.iter().flat_map(|caption| &caption.proofs);
        let outside: Vec<String> = outside
            .filter(|proof| !scene.window.contains(&proof.at_ns))
            .map(|proof| format!("{} at {} s", proof.number, seconds(proof.at_ns)))
            .collect();
        if !outside.is_empty() {
            scene.remarks.push(format!("Outside of what is drawn: {}.", outside.join(", ")));
        }
        scene
    }

    fn is_shown(&self, at_ns: u64) -> bool {
        self.window.contains(&at_ns)
    }

    fn column(&self, node: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == node)
    }

    fn add_lives(&mut self, diagram: &Diagram<'_>, names: &Names) {
        let crashed = crashes(diagram);
        for trace in diagram.traces.iter().filter(|trace| !trace.header.is_harness()) {
            let Some(column) = self.column(&trace.header.node) else { continue };
            let Some((first, last)) = trace.records.first().zip(trace.records.last()) else { continue };
            let name = names.of(trace.header.incarnation);
            let over =
                trace.records.iter().any(|r| matches!(r.event, Event::End | Event::Left | Event::Excluded { .. }));
            let to_ns = match crashed.get(&trace.header.incarnation) {
                Some(at_ns) => *at_ns,
                None if over => last.at_ns,
                None => last.at_ns.max(*self.window.end()),
            };
            self.lives.push(Piece { column, from_ns: first.at_ns, to_ns });
            for record in trace.records.iter().filter(|record| self.window.contains(&record.at_ns)) {
                let (what, label) = match &record.event {
                    Event::Start => (What::Starts, format!("{name} starts")),
                    Event::Excluded { view } => (What::IsExcluded, format!("told: excluded by {view}")),
                    Event::Left => (What::Leaves, "has left".to_owned()),
                    Event::NonPrimary => (What::HearsNoQuorum, "no quorum".to_owned()),
                    Event::Primary => (What::HearsOne, "quorum again".to_owned()),
                    Event::StateEnd { digest, .. } => (What::TakesState, format!("state {:04x}", digest & 0xffff)),
                    Event::SnapshotOut { digest, .. } => (What::GivesState, format!("gives {:04x}", digest & 0xffff)),
                    _ => continue,
                };
                self.glyphs.push(Glyph { column, at_ns: record.at_ns, what, label });
            }
        }
    }

    fn add_harness(&mut self, diagram: &Diagram<'_>, names: &Names) {
        let column_of: BTreeMap<u64, usize> = diagram
            .traces
            .iter()
            .filter_map(|trace| Some((trace.header.incarnation, self.column(&trace.header.node)?)))
            .collect();
        let mut stopped: BTreeMap<u64, u64> = BTreeMap::new();
        for record in diagram.traces.iter().filter(|t| t.header.is_harness()).flat_map(|t| &t.records) {
            let (who, what, label) = match record.event {
                Event::Crash { incarnation } => (incarnation, What::Crashes, "crashes"),
                Event::Stop { incarnation } => (incarnation, What::Stops, "stopped"),
                Event::Cont { incarnation } => (incarnation, What::GoesOn, "runs again"),
                _ => continue,
            };
            let Some(&column) = column_of.get(&who) else { continue };
            if what == What::Stops {
                stopped.insert(who, record.at_ns);
            } else if let Some(from_ns) = stopped.remove(&who) {
                self.stops.push(Piece { column, from_ns, to_ns: record.at_ns });
            }
            if self.is_shown(record.at_ns) {
                let label = format!("{} {label}", names.of(who));
                self.glyphs.push(Glyph { column, at_ns: record.at_ns, what, label });
            }
        }
        for (who, from_ns) in stopped {
            let to_ns = *self.window.end();
            self.stops.extend(column_of.get(&who).map(|&column| Piece { column, from_ns, to_ns }));
        }
    }

    fn add_bars(&mut self, diagram: &Diagram<'_>, names: &Names, focus: &select::Focus) {
        let mut bars: BTreeMap<(u64, u64, bool), Bar> = BTreeMap::new();
        for trace in diagram.traces {
            let Some(column) = self.column(&trace.header.node) else { continue };
            for record in trace.records.iter().filter(|record| self.window.contains(&record.at_ns)) {
                let list = |who: Vec<u64>| who.into_iter().map(|who| names.of(who)).collect::<Vec<_>>().join(" ");
                let (key, label, members) = match &record.event {
                    Event::CellView { instance, view, members, .. } => {
                        let members = members.iter().map(|(who, _)| *who).collect();
                        ((*instance, *view, true), format!("cell {view}"), list(members))
                    }
                    Event::GroupView { group, name, view, members, .. } if focus.wants_group(*group) => {
                        ((u64::from(*group), *view, false), format!("{name}.{view}"), list(members.clone()))
                    }
                    _ => continue,
                };
                let is_cell = key.2;
                let hint = format!("{label}: {members}");
                let bar = bars.entry(key).or_insert(Bar { label, hint, is_cell, points: Vec::new() });
                bar.points.push((column, record.at_ns));
            }
        }
        self.bars = bars.into_values().collect();
        // At one moment the cell's label is above the group's, in the order of the application's events.
        self.bars.sort_by_key(|bar| !bar.is_cell);
        for bar in &mut self.bars {
            bar.points.sort_unstable();
        }
    }
}

/// Names of the processes, in the order of their traces.
fn columns(diagram: &Diagram<'_>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let processes = diagram.traces.iter().filter(|trace| !trace.header.is_harness());
    processes.map(|trace| trace.header.node.clone()).filter(|node| seen.insert(node.clone())).collect()
}

fn crashes(diagram: &Diagram<'_>) -> BTreeMap<u64, u64> {
    let harness = diagram.traces.iter().filter(|trace| trace.header.is_harness()).flat_map(|trace| &trace.records);
    let crash = |record: &phalanx_trace::Record| match record.event {
        Event::Crash { incarnation } => Some((incarnation, record.at_ns)),
        _ => None,
    };
    harness.filter_map(crash).collect()
}

fn marks(diagram: &Diagram<'_>, columns: &[String], window: &RangeInclusive<u64>) -> Vec<(Option<usize>, Mark)> {
    let shown = diagram.marks.iter().filter(|mark| window.contains(&mark.at_ns));
    let place = |mark: &Mark| mark.node.as_ref().and_then(|node| columns.iter().position(|column| column == node));
    shown.map(|mark| (place(mark), mark.clone())).collect()
}

fn captions(diagram: &Diagram<'_>, columns: &[String]) -> Vec<Caption> {
    let mut number = 0;
    let mut captions = Vec::new();
    for finding in diagram.findings.iter().take(CAPTIONS_MAX) {
        let mut proofs = Vec::new();
        for &(trace, record) in &finding.evidence {
            let Some(trace) = diagram.traces.get(trace) else { continue };
            let Some(record) = trace.records.get(record) else { continue };
            number += 1;
            let column = columns.iter().position(|column| *column == trace.header.node);
            let text = format!("{}: {record}", trace.header.node);
            proofs.push(Proof { number, column, at_ns: record.at_ns, text });
        }
        let (code, text, at_ns) = (finding.code.clone(), finding.text.clone(), finding.at_ns);
        captions.push(Caption { code, text, at_ns, proofs });
    }
    captions
}
