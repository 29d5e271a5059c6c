//! S7, clean start: before its first view of a group, and after it left, a process delivers nothing of the group except
//! replays within a state transfer.
//!
//! Instances: deliveries, without replayed ones. Source: Chockler, Keidar, Vitenberg 2001 (initial view event).

use super::Run;
use crate::findings::Findings;
use crate::model::StrayKind;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    out.instances += run.model.traces.iter().map(|t| t.kinds.deliveries).sum::<u64>();
    for stray in run.model.strays.iter().filter(|s| s.kind == StrayKind::Delivery) {
        out.violation(&[stray.place], || {
            format!("a delivery of group {}, of which the process is in no view", stray.group)
        });
    }
}
