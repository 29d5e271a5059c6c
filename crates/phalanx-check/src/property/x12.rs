//! X12, executed once: let the state of a process execute a submit, also as part of a state transfer.
//!
//! - Whoever executes a submit of that client and number does so at the same place (group, view and position), with the same
//!   result.
//! - The process had delivered a message there, uniform and in total order.
//!
//! An operator who gives a group up, or founds a cell again, gives up what only those had executed that are lost. What is executed
//! again after that is no violation.
//!
//! Instances: executions; *under failure*: of submits that were sent more than once. Source: Lee, Park, Kejriwal, Matsushita and
//! Ousterhout, "Implementing Linearizability at Large Scale and Low Latency" (SOSP 2015), section 3.

use std::collections::BTreeMap;

use phalanx_trace::{Order, SubmitStep};

use super::Run;
use crate::findings::Findings;
use crate::model::submits::{SubmitName, SubmitRecord};
use crate::model::{Model, Moment};

/// A place of the total order of a group: the group, the view, the position.
type Spot = (usize, u64, u64);

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let mut sent: BTreeMap<SubmitName, u64> = BTreeMap::new();
    for record in model.submits.iter().filter(|record| matches!(record.what, SubmitStep::Sent { .. })) {
        *sent.entry(record.submit).or_default() += 1;
    }
    // Of each submit the places where it was executed, with the result and the first record there.
    let mut executed: BTreeMap<SubmitName, BTreeMap<Spot, (u64, Moment)>> = BTreeMap::new();
    for record in &model.submits {
        let SubmitStep::Executed { view, position, hash } = record.what else { continue };
        out.instance_when(sent.get(&record.submit).is_some_and(|times| *times > 1));
        let (submit, moment) = (record.submit, record.moment);
        let is_there = record.message.map(|message| &model.messages[message as usize]);
        if !is_there.is_some_and(|message| message.uniform && message.order == Order::Total) {
            out.violation(&[moment.place], || {
                format!("{}, and delivered nothing uniform there in total order", shown(model, record))
            });
        }
        let spots = executed.entry(submit).or_default();
        let (result, first) = spots.entry((record.group, view, position)).or_insert((hash, moment));
        if *result != hash {
            out.violation(&[first.place, moment.place], || {
                format!("{} with another result than elsewhere", shown(model, record))
            });
        }
        if moment.at_ns < first.at_ns {
            *first = moment;
        }
    }
    for ((client, number), spots) in executed {
        let mut places: Vec<(Spot, Moment)> = spots.into_iter().map(|(spot, (_, first))| (spot, first)).collect();
        places.sort_by_key(|(_, first)| first.at_ns);
        for pair in places.windows(2) {
            let [(once, first), (again, second)] = pair else { continue };
            if !is_given_up(model, once.0, first, second) {
                out.violation(&[first.place, second.place], || {
                    format!(
                        "submit {number} of client {client:016x} was executed in view {} as position {}, and in view {} as \
                         position {}",
                        once.1, once.2, again.1, again.2
                    )
                });
            }
        }
    }
}

/// Whether an operator gave up, between the two, what was executed in the group.
fn is_given_up(model: &Model, group: usize, first: &Moment, second: &Moment) -> bool {
    let between = first.at_ns..=second.at_ns;
    model.was_given_up(&model.groups[group].name, first, second)
        || model.anew_asked.iter().any(|asked| between.contains(&asked.at_ns))
}

/// Names a step of a submit, for people.
pub(super) fn shown(model: &Model, record: &SubmitRecord) -> String {
    let (client, number) = record.submit;
    let what = match record.what {
        SubmitStep::Sent { .. } => "sent",
        SubmitStep::Executed { .. } => "executed",
        _ => "was told of",
    };
    format!("{} {what} submit {number} of client {client:016x}", model.who(record.proc))
}
