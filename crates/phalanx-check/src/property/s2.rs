//! S2, sending-view delivery: a message is delivered in the view to which it is bound. That is the view in force at its
//! sender, or the one that its sender's application installs next, because the application may take its events later
//! than the protocol.
//!
//! If a message that was sent in `v` is delivered in `w`, it appears as a message of `w` that was never sent, while the
//! same number with the same hash was sent in another view.
//!
//! Instances: sends. Source: Chockler, Keidar, Vitenberg 2001 (sending view delivery).

use super::Run;
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for (e, epoch) in model.epochs.iter().enumerate() {
        for step in epoch.steps.iter().filter(|s| s.sent) {
            out.instance();
            if step.foreign {
                let text = || format!("{} sent while in view {}", model.what(step.message), model.number(e));
                out.violation(&[epoch.install.place, model.place(e, step.index)], text);
            }
        }
        for step in model.delivered(e) {
            if let Some(sent) = run.unsent.elsewhere(model, step) {
                let text = || format!("{} was sent in another view", model.what(step.message));
                out.violation(&[sent, model.place(e, step.index)], text);
            }
        }
    }
}
