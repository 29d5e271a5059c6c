//! V2, flush: in the quiet phase, a process whose sends a view change blocks may send again within the bound, in a new
//! view or in the old one, or it is over.
//!
//! The bound counts from the request, or from the last cell view if that is later: without a quorum nothing can end a
//! flush. Evaluated only if V1 holds. (With partly broken paths: V14.)
//!
//! Instances: flush requests that were still in force in the quiet phase. Source: Birman and Joseph 1987 (flush);
//! Chockler, Keidar, Vitenberg 2001 (blocking), with a bound.

use super::{Run, v4};
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let whole = v4::due(run).filter(|q| q.impaired_ns.is_none());
    let (model, Some(quiet)) = (run.model, whole) else { return };
    let settled_ns = run.last_install(quiet);
    for &p in quiet.running.iter().filter(|&&p| model.procs[p].tail_complete) {
        for (asked, over) in &model.procs[p].blocks {
            let deadline = asked.at_ns.max(settled_ns).saturating_add(run.options.flush_bound_ns);
            if deadline > quiet.end_ns || over.is_some_and(|m| m.at_ns < quiet.from_ns) {
                continue;
            }
            out.instance();
            if over.is_none_or(|m| m.at_ns > deadline) {
                let evidence: Vec<_> = [Some(asked.place), over.map(|m| m.place)].into_iter().flatten().collect();
                out.violation(&evidence, || format!("{} may not send for longer than the bound", model.who(p)));
            }
        }
    }
}
