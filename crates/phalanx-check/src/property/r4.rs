//! R4, definite failure: a call whose caller learned that it was not executed had not run. A handler that had reported
//! by then to have done nothing did nothing. One that still ran might have done anything.
//!
//! Times are compared where both traces have one clock. With several clocks, a run at any time counts as one before.
//! Runs after the outcome are reported by R5.
//!
//! Instances: calls reported as not executed. Source: Birrell and Nelson, "Implementing Remote Procedure Calls" (TOCS
//! 2:1, 1984); `docs/rpc.md`, "What a caller is told".

use phalanx_trace::CallOutcome;

use super::Run;
use crate::findings::Findings;
use crate::model::call::{Made, Ran};
use crate::model::{Model, Moment};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    for (call, told, ran) in not_executed(run.model, out) {
        if !is_after(run, ran, told) {
            out.violation(&[call.made.place, ran.begun.place, told.place], || {
                let (caller, server) = (run.model.who(call.caller), run.model.who(ran.server));
                format!("call {} of {caller} was reported as not executed, and had run at {server}", call.number)
            });
        }
    }
}

/// Calls reported as not executed (each is an instance), when, and their runs.
pub(super) fn not_executed<'a>(model: &'a Model, out: &mut Findings) -> Vec<(&'a Made, Moment, &'a Ran)> {
    let mut found = Vec::new();
    for call in model.calls.made.iter().filter(|call| model.calls.is_single(call)) {
        let sure = call.told.iter().find(|(outcome, _)| *outcome == CallOutcome::NotExecuted);
        let Some(&(_, told)) = sure else { continue };
        out.instance();
        let had_refused = |ran: &&Ran| {
            let same_clock = model.same_clock(ran.begun.place.trace, told.place.trace);
            ran.did_nothing().is_some_and(|said| !same_clock || said.at_ns <= told.at_ns)
        };
        found.extend(model.calls.runs_of(call).filter(|ran| !had_refused(ran)).map(|ran| (call, told, ran)));
    }
    found
}

/// Whether the run began after the caller had learned the outcome.
pub(super) fn is_after(run: &Run<'_>, ran: &Ran, told: Moment) -> bool {
    run.model.same_clock(ran.begun.place.trace, told.place.trace) && ran.begun.at_ns > told.at_ns
}
