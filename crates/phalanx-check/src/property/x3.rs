//! X3, one transfer: for each join at most one state transfer is completed, before the first view, and it was begun; a member
//! takes none.
//! (A snapshot that is begun anew voids what came before; so partial transfers leave nothing.)
//!
//! Instances: joins with a completed transfer. Source: as X1.

use super::{Run, x1};
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    out.instances += x1::joiners(model).count() as u64;
    for epoch in &model.epochs {
        let Some(transfer) = &epoch.transfer else { continue };
        if let [(_, first), (_, second), ..] = transfer.ends.as_slice() {
            let text = || format!("{} completed two state transfers for one join", model.who(epoch.proc));
            out.violation(&[*first, *second], text);
        }
        if let (None, Some((_, end))) = (transfer.snapshot, transfer.ends.first()) {
            let text = || format!("{} completed a state transfer that it had not begun", model.who(epoch.proc));
            out.violation(&[*end, epoch.install.place], text);
        }
        for &place in &transfer.misplaced {
            let text = || {
                format!("{} takes state while it is a member of {}", model.who(epoch.proc), model.view_name(epoch.view))
            };
            out.violation(&[epoch.install.place, place], text);
        }
    }
}
