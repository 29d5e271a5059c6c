//! X5, no member without the state: a process that asked for the group's state completes a transfer before its first
//! view, if a member that holds the state goes on to that view. (A group whose state still equals the initial one of
//! every process needs no transfer: equal digests of both at the start of the view prove it. A transfer that was begun
//! is completed all the same.)
//!
//! Instances: such joins. Source: as X1; the property answers systems in which each application must find out by itself
//! that it merged without state.

use super::Run;
use crate::findings::Findings;
use crate::model::Epoch;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for epoch in model.epochs.iter().filter(|e| e.prev_epoch.is_none() && e.asked_state) {
        let mut others = model.views[epoch.view].epochs.iter().map(|&e| &model.epochs[e]);
        let Some(holder) = others.find(|o| o.prev_epoch.is_some() && o.stateful) else { continue };
        out.instance();
        let at_start = |e: &Epoch| e.digests.iter().find(|d| d.delivered == 0).map(|d| d.digest);
        let same = at_start(epoch).is_some_and(|own| at_start(holder) == Some(own));
        let begun = epoch.transfer.as_ref().is_some_and(|t| t.snapshot.is_some() || !t.replayed.is_empty());
        if (!same || begun) && epoch.transfer.as_ref().is_none_or(|t| t.ends.is_empty()) {
            let text = || {
                format!(
                    "{} came to {} without the state it asked for",
                    model.who(epoch.proc),
                    model.view_name(epoch.view)
                )
            };
            out.violation(&[holder.install.place, epoch.install.place], text);
        }
    }
}
