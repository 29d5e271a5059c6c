//! S1, same-view delivery: if `p` delivers `m` while `v` is in force there, `m` belongs to `v`. Hence all that deliver
//! `m` deliver it in one view.
//!
//! Instances: deliveries, without replayed ones. Source: Chockler, Keidar, Vitenberg 2001 (same view delivery).

use super::Run;
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for (e, epoch) in model.epochs.iter().enumerate() {
        out.instances += epoch.deliveries;
        for step in epoch.steps.iter().filter(|s| !s.sent && s.foreign) {
            let text = || {
                let (who, what) = (model.who(epoch.proc), model.what(step.message));
                format!("{who} delivered {what} while in view {}", model.number(e))
            };
            out.violation(&[epoch.install.place, model.place(e, step.index)], text);
        }
    }
}
