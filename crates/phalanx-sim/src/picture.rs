//! A space-time diagram of one seed.

use std::ops::RangeInclusive;

use phalanx_check::memory_label;
use phalanx_check::svg::{Diagram, Finding, Mark};
use phalanx_trace::{Header, Trace};

use crate::options::Options;
use crate::run::{check_options, run_world};
use crate::world::World;

/// Runs a seed and draws `window` (nanoseconds from the start) or, without one, the surroundings of the first
/// violation.
#[must_use]
pub fn draw_seed(seed: u64, options: &Options, window: Option<RangeInclusive<u64>>) -> String {
    let (mut world, plan) = run_world(seed, options, None);
    let marks = marks(&world);
    let own: Vec<Finding> = world.violations.iter().map(finding).collect();
    let traces = take_traces(&mut world);
    let report = phalanx_check::check(&traces, &check_options(&world));
    let labels: Vec<String> = traces.iter().map(memory_label).collect();
    let count = plan.faults.len();
    let title = format!("Seed {seed}, members: {}, faults: {count}. {}", plan.members, options.replay_command(seed));
    let mut diagram = Diagram::new(title, &traces).with_marks(marks).with_window(window);
    for finding in own {
        diagram = diagram.with_finding(finding);
    }
    diagram.with_report(&report, &labels).to_svg()
}

fn finding(violation: &crate::result::Violation) -> Finding {
    let (code, text, at_ns) = (violation.code.clone(), violation.text.clone(), violation.at_ns);
    Finding { code, text, at_ns, evidence: Vec::new() }
}

/// Events that no trace records: storms, cuts, slowness. Starts, crashes and stops are in the traces.
fn marks(world: &World) -> Vec<Mark> {
    let known = ["starts", "CRASHES", "is stopped", "runs again"];
    let told = world.notes.iter().filter(|(_, _, text)| !known.contains(&text.as_str()));
    let node = |slot: &Option<usize>| slot.map(|slot| world.slots[slot].name.clone());
    told.map(|(at_ns, slot, text)| Mark { at_ns: *at_ns, node: node(slot), text: text.clone() }).collect()
}

fn take_traces(world: &mut World) -> Vec<Trace> {
    let harness = std::mem::replace(&mut world.harness, Trace::new(Header::harness("", "")));
    let mut traces = vec![harness];
    for slot in &mut world.slots {
        traces.append(&mut slot.app.traces);
    }
    traces
}
