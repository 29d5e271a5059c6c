//! S5, membership of delivery: if `p` delivers `m` in `v` then `sender(m) in M_v` (that `p in M_v` is M1). A replayed
//! message's sender was a member of the view it belongs to.
//!
//! Instances: deliveries from another process. Source: Chockler, Keidar, Vitenberg 2001.

use super::Run;
use crate::findings::{Findings, Place};
use crate::model::Step;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let mut judge = |receiver: usize, step: &Step, place: Place| {
        let stream = model.stream_of(step.message);
        let known = !model.views[stream.view].members.is_empty();
        if stream.sender != receiver && known {
            out.instance();
        }
        if stream.rank.is_none() && known {
            out.violation(&[place], || {
                format!("{} is delivered, but its sender is no member", model.what(step.message))
            });
        }
    };
    for (e, epoch) in model.epochs.iter().enumerate() {
        model.delivered(e).for_each(|step| judge(epoch.proc, step, model.place(e, step.index)));
        let replayed = epoch.transfer.iter().flat_map(|t| &t.replayed);
        replayed.for_each(|r| judge(epoch.proc, &r.step, r.place));
    }
}
