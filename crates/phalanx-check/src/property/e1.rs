//! E1: the records of a process form one sequence, as the application saw it.
//!
//! For each process: the start comes first and only once, time never goes backwards, and nothing follows the end. No
//! group view precedes the first cell view. Sends of a view are numbered 1, 2, 3... Digests and snapshots name the view
//! in force and count deliveries rightly. "Primary again" follows "not primary". Point-to-point messages are numbered
//! 1, 2, 3... for each peer, and nothing follows a graceful leave. Each incarnation has one trace, and the harness's
//! records are in a trace of their own. A process has the same name in the header of its trace and in the views that
//! hold it, and asks to join the cell of its trace.
//!
//! No trace ends in the middle: a file that ends inside a record, or inside its header, belongs to a process that the
//! harness killed (*crash*). If the traces are complete, the harness's is among them. If the harness has ended, each
//! other trace has its end, or a notice that its process was excluded or left, and each member of a view has a trace. A
//! process that was killed, or is stopped, records nothing until it runs again. All are of the harness's cell. A
//! harness that records a quiet phase names the properties that the run is about, unless the caller requires properties
//! by name, or none. Otherwise a run that put nothing to the test would pass.
//!
//! Instances: traces. Source: the single event stream of virtual synchrony as in Chockler, Keidar and Vitenberg, "Group
//! Communication Specifications" (ACM Computing Surveys 33:4, 2001).

use std::collections::BTreeSet;

use phalanx_trace::Phase;

use super::Run;
use crate::Require;
use crate::findings::{Findings, Place};
use crate::model::{FaultKind, Model, Over, Proc, ProcIx};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    out.instances += run.model.traces.iter().filter(|t| t.records > 0).count() as u64;
    for (place, what) in &run.model.malformed {
        out.violation(&[*place], || what.clone());
    }
    for after in run.model.after_over.iter().filter(|a| a.over == Over::Left) {
        out.violation(&[after.told, after.place], || "a record after the process left the cell".to_owned());
    }
    cut_off(run.model, out);
    if run.options.complete {
        absent(run.model, out);
        if run.model.harness.trace.is_none() {
            out.violation(&[], || "the harness has no trace, and only it knows which processes were killed".to_owned());
        }
        if run.model.harness.ended.is_some() {
            endless(run.model, out);
        }
        aimless(run, out);
        strangers(run.model, out);
    }
    renamed(run.model, out);
    awake(run, out);
}

/// No record names the properties that the run is about.
fn aimless(run: &Run<'_>, out: &mut Findings) {
    let harness = &run.model.harness;
    let quiet = harness.phases.iter().find(|(phase, ..)| *phase == Phase::Quiet);
    let unnamed = match &run.options.require {
        Require::Features => true,
        Require::These(these) => these.is_empty(),
        Require::Nothing => false,
    };
    if let Some((_, _, begun)) = quiet.filter(|_| unnamed && harness.about.is_empty()) {
        out.violation(&[begun.place], || {
            "the harness tells of a quiet phase and names no guarantee that the run is about: write them into its record \
             About, or require them (--require)"
                .to_owned()
        });
    }
}

/// Traces of another cell than the harness's.
fn strangers(model: &Model, out: &mut Findings) {
    let Some(harness) = model.harness.trace.map(|trace| &model.traces[trace]) else { return };
    let members = model.procs.iter().filter(|p| p.endpoint.is_none()).filter_map(|p| p.trace);
    for (trace, info) in members.map(|trace| (trace, &model.traces[trace])).filter(|(_, t)| t.cell != harness.cell) {
        out.violation(&[Place { trace, index: 0 }], || {
            format!("{} is of cell {:?}, and the harness's trace of {:?}", info.label, info.cell, harness.cell)
        });
    }
}

/// Processes with two names.
fn renamed(model: &Model, out: &mut Findings) {
    let mut told: BTreeSet<ProcIx> = BTreeSet::new();
    for install in &model.installs {
        for (&p, name) in install.members.iter().zip(&install.names) {
            let own = model.procs[p].name.as_ref();
            if own.is_some_and(|own| own != name) && told.insert(p) {
                out.violation(&[install.moment.place], || {
                    format!("{} is called {name:?} in cell view {}", model.who(p), install.view)
                });
            }
        }
    }
}

/// Files that end inside a record or a header.
fn cut_off(model: &Model, out: &mut Findings) {
    let procs_of = |trace| model.procs.iter().find(move |p| p.trace == Some(trace));
    for (trace, info) in model.traces.iter().enumerate().filter(|(_, info)| info.truncated) {
        if !procs_of(trace).is_some_and(was_killed) {
            out.violation(&[last_record(model, trace)], || {
                format!("{} ends inside a record, and nobody killed its writer", info.label)
            });
        }
    }
    let without_trace = model.procs.iter().filter(|p| p.trace.is_none() && was_killed(p)).count();
    for file in model.empty_files.iter().skip(without_trace) {
        out.violation(&[], || format!("{file} holds nothing, and nobody killed its writer"));
    }
}

/// Members without a trace.
fn absent(model: &Model, out: &mut Findings) {
    let mut told: BTreeSet<ProcIx> = BTreeSet::new();
    for install in &model.installs {
        for &p in install.members.iter().filter(|&&p| model.procs[p].trace.is_none()) {
            if told.insert(p) {
                let text = || format!("{} is a member of cell view {} and has no trace", model.who(p), install.view);
                out.violation(&[install.moment.place], text);
            }
        }
    }
}

/// Traces without an end.
fn endless(model: &Model, out: &mut Findings) {
    let open = |p: &Proc| p.ended.is_none() && p.over.is_none() && !was_killed(p);
    for (p, proc) in model.procs.iter().enumerate().filter(|(_, p)| open(p)) {
        let Some(trace) = proc.trace.filter(|&t| !model.traces[t].truncated) else { continue };
        out.violation(&[last_record(model, trace)], || {
            format!("the trace of {} has no end, and nobody killed it", model.who(p))
        });
    }
}

/// A dead or stopped process records nothing.
fn awake(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    if model.one_clock().is_none() {
        return;
    }
    let slack_ns = run.options.clock_slack_ns;
    for fault in model.harness.faults.iter().filter(|f| f.kind == FaultKind::Crash) {
        let Some(trace) = model.procs[fault.proc].trace else { continue };
        if model.traces[trace].last_at_ns > fault.moment.at_ns.saturating_add(slack_ns) {
            out.violation(&[fault.moment.place, last_record(model, trace)], || {
                format!("{} was killed, and goes on", model.who(fault.proc))
            });
        }
    }
    for (p, spans) in model.absences().iter().enumerate() {
        let asleep = |at_ns: u64| {
            spans.iter().find(|s| {
                s.from.at_ns.saturating_add(slack_ns) < at_ns
                    && s.to.is_none_or(|to| to.at_ns > at_ns.saturating_add(slack_ns))
            })
        };
        if spans.is_empty() || model.procs[p].crashed.is_some() {
            continue;
        }
        let installs = model.procs[p].installs.iter().map(|&i| model.installs[i].moment);
        let over = model.procs[p].over.map(|(_, m)| m);
        let steps = model.procs[p].epochs.iter().flat_map(|&e| {
            let at = move |s: &crate::model::Step| (model.place(e, s.index), s.at_ns);
            model.epochs[e].steps.iter().map(at)
        });
        let all = installs.chain(over).map(|m| (m.place, m.at_ns)).chain(steps);
        for (place, span) in all.filter_map(|(place, at_ns)| Some((place, asleep(at_ns)?))).take(1) {
            out.violation(&[span.from.place, place], || format!("{} is stopped, and goes on", model.who(p)));
        }
    }
}

fn was_killed(proc: &Proc) -> bool {
    proc.crashed.is_some() || proc.killed_after
}

fn last_record(model: &Model, trace: usize) -> Place {
    let records = usize::try_from(model.traces[trace].records).unwrap_or(usize::MAX);
    Place { trace, index: records.saturating_sub(1) }
}
