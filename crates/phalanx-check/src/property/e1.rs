//! E1: the records of a process form one sequence, as the application saw it.
//!
//! For each process: the start comes first and only once, time never goes backwards, nothing follows the end, no
//! group view precedes the first cell view, sends of a view are numbered 1, 2, 3..., digests and snapshots name the
//! view in force and count deliveries rightly, "primary again" follows "not primary", point-to-point messages are
//! numbered 1, 2, 3... for each peer, and nothing follows a graceful leave. One trace per incarnation; the
//! harness's records stand in its own trace.
//!
//! Instances: traces. Source: the single event stream of virtual synchrony as in Chockler, Keidar and Vitenberg,
//! "Group Communication Specifications" (ACM Computing Surveys 33:4, 2001).

use super::Run;
use crate::findings::Findings;
use crate::model::Over;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    out.instances += run.model.traces.iter().filter(|t| t.records > 0).count() as u64;
    for (place, what) in &run.model.malformed {
        out.violation(&[*place], || what.clone());
    }
    for after in run.model.after_over.iter().filter(|a| a.over == Over::Left) {
        out.violation(&[after.told, after.place], || "a record after the process left the cell".to_owned());
    }
}
