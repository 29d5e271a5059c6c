//! M3, agreement on content: `view(p, v, M)` and `view(q, v, N)` of one cell instance, or of one group, imply
//! `M = N`, in the same order and with the same names.
//!
//! Instances: views installed by at least two processes. Source: Birman and Joseph, "Exploiting Virtual Synchrony
//! in Distributed Systems" (SOSP 1987): all members see the same ranked list.

use super::Run;
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for (number, installers) in model.cells.values().flatten() {
        let [first, others @ ..] = installers.as_slice() else { continue };
        if others.is_empty() {
            continue;
        }
        out.instance();
        let first = &model.installs[*first];
        for other in others.iter().map(|&i| &model.installs[i]) {
            if (&other.members, &other.names) != (&first.members, &first.names) {
                let text = || {
                    let (a, b) = (model.who(first.proc), model.who(other.proc));
                    format!("{a} and {b} installed different lists as cell view {number}")
                };
                out.violation(&[first.moment.place, other.moment.place], text);
            }
        }
    }
    for (ix, view) in model.views.iter().enumerate() {
        let [first, others @ ..] = view.epochs.as_slice() else { continue };
        if others.is_empty() {
            continue;
        }
        out.instance();
        let first = &model.epochs[*first];
        for other in others.iter().map(|&e| &model.epochs[e]) {
            if other.members != first.members {
                let text = || {
                    let (a, b) = (model.who(first.proc), model.who(other.proc));
                    format!("{a} and {b} installed different lists as {}", model.view_name(ix))
                };
                out.violation(&[first.install.place, other.install.place], text);
            }
        }
    }
}
