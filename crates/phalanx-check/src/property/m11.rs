//! M11, levels and settings are agreed. All processes that install a cell view have the same level in force in it, and
//! every member of the view knows that level. They also have the same minimum of members for uniform messages. All
//! members of a group have the same terms of it. If one process records level and minimum of a cell view, or the terms of
//! a group view, all that install it do. From one view of an instance to the next the level never falls. It
//! rises only to a level that a process requested before (evaluated if all traces are given), and only if all members
//! of the view before know it.
//!
//! A process that is kept out of a cell for a setting has another value than the cell, and all processes that are kept
//! out for it are given the same value of the cell. Before the first view there is no cell: its founders announce their
//! own values to each other. What such a founder told a process that comes into the cell later is not the cell's value.
//!
//! Instances: installations that record their level, and refusals; *under failure*: those of a view whose level is
//! higher than in the view before.

use std::collections::BTreeMap;

use super::Run;
use crate::findings::{Findings, Place};
use crate::model::{CellInstall, Epoch, InstallIx, Model};

/// The level of a cell view, according to one process that installed it.
#[derive(Clone, Copy)]
struct InForce {
    view: u64,
    level: u16,
    /// The highest level that all members know.
    known: u16,
    at_ns: u64,
    place: Place,
}

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    for views in run.model.cells.values() {
        let mut before: Option<InForce> = None;
        for (&view, installs) in views {
            let told = installs.iter().filter_map(|&ix| {
                let install = &run.model.installs[ix];
                let (level, known) = install.level?;
                Some(InForce { view, level, known, at_ns: install.moment.at_ns, place: install.moment.place })
            });
            let mut first = None;
            for own in told {
                out.instance_when(before.is_some_and(|before| own.level > before.level));
                same_for_all(own, *first.get_or_insert(own), out);
                if let Some(before) = before {
                    follows(run, before, own, out);
                }
            }
            before = first.or(before);
            same_minimum(run, view, installs, out);
            all_record(run, view, installs, out);
        }
    }
    same_terms(run, out);
    kept_out(run, out);
}

fn same_minimum(run: &Run<'_>, view: u64, installs: &[InstallIx], out: &mut Findings) {
    let told = installs.iter().map(|&ix| &run.model.installs[ix]);
    let mut told = told.filter_map(|install| Some((install.minimum?, install.moment.place)));
    let Some((first, place)) = told.next() else { return };
    for (own, at) in told.filter(|(own, _)| *own != first) {
        out.violation(&[place, at], || {
            format!("cell view {view} is to have {first} members at one and {own} at another")
        });
    }
}

/// If one process records the level and the minimum of a cell view, all that install it do.
fn all_record(run: &Run<'_>, view: u64, installs: &[InstallIx], out: &mut Findings) {
    let model = run.model;
    let installs = || installs.iter().map(|&ix| &model.installs[ix]);
    let recorded = |install: &CellInstall| install.level.is_some() && install.minimum.is_some();
    let Some(other) = installs().find(|install| recorded(install)) else { return };
    for own in installs()
        .filter(|own| !recorded(own) && speaks_on(model, own.moment.place, other.moment.place, RECORDS_OF_A_VIEW))
    {
        out.violation(&[other.moment.place, own.moment.place], || {
            let (own, other) = (model.who(own.proc), model.who(other.proc));
            format!("{own} does not record the level and the minimum of cell view {view}, as {other} does")
        });
    }
}

/// Whether the trace of `own` has so many records after that one, and is of the format of the other's. With fewer the
/// process may have been killed before those that follow a view at once.
fn speaks_on(model: &Model, own: Place, other: Place, records: u64) -> bool {
    let [own_trace, other] = [own, other].map(|place| &model.traces[place.trace]);
    own_trace.format == other.format && own.index as u64 + records < own_trace.records
}

/// Records that follow a cell view at once: ancestors, level, minimum.
const RECORDS_OF_A_VIEW: u64 = 3;

fn same_terms(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for group in &model.groups {
        let stays = group.views.values().flat_map(|&view| &model.views[view].epochs).map(|&e| &model.epochs[e]);
        let mut told = stays.filter_map(|stay| Some((stay.terms?, stay.install.place)));
        let Some((first, place)) = told.next() else { continue };
        for (own, at) in told.filter(|(own, _)| *own != first) {
            let text = || format!("the terms of group {} are {first:?} at one and {own:?} at another", group.id);
            out.violation(&[place, at], text);
        }
    }
    for view in &model.views {
        let stays = || view.epochs.iter().map(|&e| &model.epochs[e]);
        let Some(other) = stays().find(|stay| stay.terms.is_some()) else { continue };
        let silent = |own: &&Epoch| own.terms.is_none() && speaks_on(model, own.install.place, other.install.place, 1);
        for own in stays().filter(silent) {
            out.violation(&[other.install.place, own.install.place], || {
                let (own, other) = (model.who(own.proc), model.who(other.proc));
                format!("{own} does not record the terms of its group, as {other} does at the same view")
            });
        }
    }
}

fn same_for_all(own: InForce, first: InForce, out: &mut Findings) {
    let InForce { view, level, known, place, .. } = own;
    if level > known {
        out.violation(&[place], || format!("level {level} in cell view {view}, where a member knows {known} at most"));
    }
    if level != first.level {
        let text = || format!("cell view {view} has level {} at one member and {level} at another", first.level);
        out.violation(&[first.place, place], text);
    }
}

fn follows(run: &Run<'_>, before: InForce, own: InForce, out: &mut Findings) {
    let (view, level) = (own.view, own.level);
    let evidence = [before.place, own.place];
    let mut violation = |why: &str| {
        out.violation(&evidence, || {
            format!("level {} in cell view {}, and {level} in {view}: {why}", before.level, before.view)
        });
    };
    if level < before.level {
        violation("it fell");
    }
    if level <= before.level {
        return;
    }
    let asked = |(to, at): &(u16, crate::model::Moment)| *to == level && at.at_ns <= own.at_ns;
    if run.options.complete && !run.model.rises_asked.iter().any(asked) {
        violation("nobody had asked for that");
    }
    if before.view + 1 == view && level > before.known {
        violation("a member of the view before does not know it");
    }
}

fn kept_out(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let one_cell = model.cells.len() <= 1;
    let founded_ns = model.installs.iter().map(|install| install.moment.at_ns).min().unwrap_or(u64::MAX);
    let mut told: BTreeMap<&str, (&str, Place)> = BTreeMap::new();
    for (ix, proc) in model.procs.iter().enumerate() {
        let comes_in_ns = proc.installs.last().map(|&install| model.installs[install].moment.at_ns);
        for (setting, cell, own, moment) in &proc.kept_out {
            out.instance();
            if cell == own {
                let text = || format!("{} was kept out for {setting}, which is {own} there and here", model.who(ix));
                out.violation(&[moment.place], text);
            }
            if moment.at_ns < founded_ns || comes_in_ns.is_some_and(|at_ns| moment.at_ns <= at_ns) {
                continue;
            }
            let (first, place) = *told.entry(setting).or_insert((cell, moment.place));
            if one_cell && setting != "level" && first != cell {
                let text = || format!("{setting} is {first} in the cell, and {} was told {cell}", model.who(ix));
                out.violation(&[place, moment.place], text);
            }
        }
    }
}
