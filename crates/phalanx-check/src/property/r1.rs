//! R1, at most once: for each caller and request, a call that is not idempotent runs at most once, whatever became of
//! its server. Consecutive incarnations of the server count as one.
//!
//! Requests are distinguished by their hashes. If a caller made several equal calls, there are at most as many runs.
//!
//! Instances: calls that are not idempotent and ran. Source: Birrell and Nelson, "Implementing Remote Procedure Calls"
//! (TOCS 2:1, 1984); `docs/rpc.md`, "What a caller is told".

use super::Run;
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let (model, calls) = (run.model, &run.model.calls);
    for ((caller, _), alike) in &calls.alike {
        if alike.made.is_empty() || alike.made.iter().any(|&call| calls.made[call].idempotent) {
            continue;
        }
        out.instances += alike.runs.len().min(alike.made.len()) as u64;
        if alike.runs.len() > alike.made.len() {
            let made = alike.made.iter().map(|&call| calls.made[call].made.place);
            let ran = alike.runs.iter().map(|&run| calls.runs[run].begun.place);
            let evidence: Vec<_> = made.chain(ran).collect();
            out.violation(&evidence, || {
                let number = calls.made[alike.made[0]].number;
                let times = alike.runs.len();
                format!("call {number} of {} ran {times} times, and is not idempotent", model.who(*caller))
            });
        }
    }
}
