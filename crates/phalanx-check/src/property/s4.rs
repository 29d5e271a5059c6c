//! S4, transitional set: let `T_p(w)` be the members of the group view `w` that `p` does not list as joined. For every
//! other `q` that installed `w`: `q in T_p(w)` exactly when `q` came to `w` from the same view as `p`. If `p` came from
//! no view, it is exactly when `q` came from one.
//!
//! A process that did not install `w` is not evaluated: it died on the way, or its trace is not given.
//!
//! Instances: pairs of processes that installed a view together. Source: Chockler, Keidar, Vitenberg 2001 (transitional
//! set); Moser, Amir, Melliar-Smith, Agarwal, "Extended Virtual Synchrony" (ICDCS 1994).

use std::collections::HashSet;

use super::Run;
use crate::findings::Findings;
use crate::model::EpochIx;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let came_from = |e: EpochIx| model.epochs[e].prev_epoch.map(|prev| model.number(prev));
    for view in model.views.iter().filter(|view| view.epochs.len() > 1) {
        for &e in &view.epochs {
            let (epoch, mine) = (&model.epochs[e], came_from(e));
            let joined: HashSet<_> = epoch.joined.iter().copied().collect();
            let others = view.epochs.iter().copied().filter(|&o| model.epochs[o].proc != epoch.proc);
            for o in others.filter(|&o| epoch.members.contains(&model.epochs[o].proc)) {
                out.instance();
                let theirs = came_from(o);
                let together = if mine.is_some() { theirs == mine } else { theirs.is_some() };
                if together != joined.contains(&model.epochs[o].proc) {
                    continue;
                }
                let text = || {
                    let [p, q] = [e, o].map(|e| model.who(model.epochs[e].proc));
                    let said = if together { "joined" } else { "came along" };
                    let from = theirs.map_or("from no view".to_owned(), |view| format!("from view {view}"));
                    format!("{} says at {p} that {q} {said}, which came {from}", model.view_name(epoch.view))
                };
                out.violation(&[epoch.install.place, model.epochs[o].install.place], text);
            }
        }
    }
}
