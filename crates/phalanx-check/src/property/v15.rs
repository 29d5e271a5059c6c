//! V15, calls end: the caller of a call learns the outcome by its deadline, or within the bound after it, while its
//! process lives. Time in which the harness kept the process stopped does not count. A call without a deadline has ended
//! when its caller ends in order.
//!
//! Instances: calls with a deadline that ended, or whose bound passed before their process ended, was killed or wrote
//! its last record; calls without one whose caller ended in order. Source: the promise of `CallOptions::deadline` (docs/rpc.md); Chockler, Keidar, Vitenberg 2001 for
//! liveness with a bound.

use super::Run;
use crate::findings::Findings;
use crate::model::call::Made;
use crate::model::{Moment, ProcIx, Span};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let absences = model.absences();
    for call in model.calls.made.iter().filter(|call| model.tells_all(call.caller)) {
        let Some(within_ns) = call.within_ns else {
            without_deadline(run, call, out);
            continue;
        };
        let stops = &absences[call.caller];
        if stops.iter().any(|stop| !model.same_clock(stop.from.place.trace, call.made.place.trace)) {
            continue;
        }
        let bound_ns = within_ns.saturating_add(run.options.call_bound_ns);
        let due_ns = put_off(call.made.at_ns, bound_ns, stops);
        let told = call.told.first();
        if told.is_none() && due_ns >= over_ns(run, call.caller) {
            continue;
        }
        out.instance();
        if told.is_none_or(|(_, told)| told.at_ns > due_ns) {
            let evidence: Vec<_> =
                [Some(call.made.place), told.map(|(_, told)| told.place)].into_iter().flatten().collect();
            out.violation(&evidence, || {
                let (caller, how) = (model.who(call.caller), if told.is_some() { "late" } else { "never" });
                let s = within_ns as f64 / 1e9;
                format!("{caller} was {how} told how its call {} ended, whose deadline was {s:.3} s", call.number)
            });
        }
    }
}

/// A call without a deadline is over when its caller has ended in order.
fn without_deadline(run: &Run<'_>, call: &Made, out: &mut Findings) {
    let model = run.model;
    let proc = &model.procs[call.caller];
    let Some(ended) = proc.ended.filter(|_| proc.crashed.is_none() && !proc.killed_after) else { return };
    out.instance();
    if call.told.is_empty() {
        out.violation(&[call.made.place, ended.place], || {
            let caller = model.who(call.caller);
            format!("{caller} lived to its end and was never told how its call {} ended", call.number)
        });
    }
}

/// The end of `bound_ns` of running time from `from_ns` on; the maximum if the process never runs that long again.
fn put_off(from_ns: u64, bound_ns: u64, absences: &[Span]) -> u64 {
    let mut due_ns = from_ns.saturating_add(bound_ns);
    for span in absences {
        if span.from.at_ns >= due_ns {
            break;
        }
        let Some(to) = span.to else { return u64::MAX };
        due_ns = due_ns.saturating_add(to.at_ns.saturating_sub(span.from.at_ns.max(from_ns)));
    }
    due_ns
}

/// Time from which on the process could record nothing, as far as is known.
fn over_ns(run: &Run<'_>, p: ProcIx) -> u64 {
    let (model, proc) = (run.model, &run.model.procs[p]);
    let last = proc.trace.map_or(0, |trace| model.traces[trace].last_at_ns);
    let same_clock = |at: &Moment| proc.trace.is_some_and(|trace| model.same_clock(trace, at.place.trace));
    let end = proc.ended.or(proc.crashed.filter(same_clock));
    // The harness ends the processes after its own end.
    let harness = model.harness.ended.filter(|at| run.options.complete && same_clock(at));
    end.map_or_else(|| harness.map_or(last, |at| at.at_ns.max(last)), |end| end.at_ns)
}
