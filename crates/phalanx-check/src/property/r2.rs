//! R2, integrity of answers: the answer that a caller is given is one that a run of that call returned, and a handler's
//! second answer is never taken.
//!
//! Evaluated where the records of all endpoints at the address are complete. The answer of another call's run is
//! reported by R6.
//!
//! Instances: answers. Source: Birrell and Nelson, "Implementing Remote Procedure Calls" (TOCS 2:1, 1984).

use phalanx_trace::CallOutcome;

use super::{Run, r6};
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let (model, calls) = (run.model, &run.model.calls);
    for call in calls.made.iter().filter(|call| model.tells_all_at(&call.to)) {
        for &(outcome, told) in &call.told {
            let CallOutcome::Answer { hash } = outcome else { continue };
            out.instance();
            let mut runs = calls.runs_of(call).peekable();
            let ran = runs.peek().map(|run| run.begun.place);
            // A handler may answer twice; only the first answer counts.
            if runs.any(|run| run.said.first().is_some_and(|(said, _)| *said == Some(hash)))
                || r6::answer_of_another(calls, call, hash).is_some()
            {
                continue;
            }
            let evidence: Vec<_> = [Some(call.made.place), ran, Some(told.place)].into_iter().flatten().collect();
            out.violation(&evidence, || {
                let what = if ran.is_some() {
                    "was given an answer that no run of it returned"
                } else {
                    "was answered and never ran"
                };
                format!("call {} of {} {what}", call.number, model.who(call.caller))
            });
        }
    }
}
