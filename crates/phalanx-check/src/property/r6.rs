//! R6, attribution: each run is of a request that its caller made, at an endpoint of the address it was made to, and an
//! answer is never that of another call.
//!
//! A run without a request is evaluated where the caller's record is complete.
//!
//! Instances: runs, and answers. Source: Birrell and Nelson, "Implementing Remote Procedure Calls" (TOCS 2:1, 1984):
//! call identifiers are never used again, not even by a caller that restarts.

use phalanx_trace::CallOutcome;

use super::Run;
use crate::findings::Findings;
use crate::model::call::{Calls, Made, Ran, is_at};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let (model, calls) = (run.model, &run.model.calls);
    for ((caller, _), alike) in &calls.alike {
        for ran in alike.runs.iter().map(|&run| &calls.runs[run]) {
            out.instance();
            let server = model.who(ran.server);
            if alike.made.is_empty() {
                if model.tells_all(*caller) {
                    let text = || format!("{server} runs a request of {} that it never made", model.who(*caller));
                    out.violation(&[ran.begun.place], text);
                }
                continue;
            }
            let at = model.procs[ran.server].endpoint.as_deref();
            if let Some(at) = at.filter(|at| alike.made.iter().all(|&call| !is_at(at, &calls.made[call].to))) {
                let call = &calls.made[alike.made[0]];
                out.violation(&[call.made.place, ran.begun.place], || {
                    let (number, caller) = (call.number, model.who(call.caller));
                    format!("call {number} of {caller} was made to {}, and ran at {at}, which is {server}", call.to)
                });
            }
        }
    }
    for call in &calls.made {
        for &(outcome, told) in &call.told {
            let CallOutcome::Answer { hash } = outcome else { continue };
            out.instance();
            if let Some(other) = answer_of_another(calls, call, hash) {
                let evidence = [call.made.place, other.begun.place, told.place];
                out.violation(&evidence, || {
                    format!("call {} of {} was given the answer of another call", call.number, model.who(call.caller))
                });
            }
        }
    }
}

/// A run of another call that returned this answer, if no run of `call` did.
pub(super) fn answer_of_another<'a>(calls: &'a Calls, call: &Made, hash: u64) -> Option<&'a Ran> {
    let returned = |ran: &&Ran| ran.said.iter().any(|(said, _)| *said == Some(hash));
    if calls.runs_of(call).any(|ran| returned(&ran)) {
        return None;
    }
    calls.runs.iter().filter(|ran| (ran.caller, ran.request) != (call.caller, call.request)).find(returned)
}
