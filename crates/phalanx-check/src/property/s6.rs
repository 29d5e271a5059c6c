//! S6, silence: a process binds a message to a view only while it is in one: not before its first view of the group,
//! and not after it left.
//!
//! Instances: sends. Source: Chockler, Keidar, Vitenberg 2001 (blocking); here the message waits, the
//! application does not.

use super::Run;
use crate::findings::Findings;
use crate::model::StrayKind;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    out.instances += run.model.traces.iter().map(|t| t.kinds.sends).sum::<u64>();
    for stray in run.model.strays.iter().filter(|s| s.kind == StrayKind::Send) {
        out.violation(&[stray.place], || {
            format!("a send in group {}, of which the process is in no view", stray.group)
        });
    }
}
