//! M2, local monotonicity: the numbers of the views that a process installs grow strictly, within a cell instance and
//! within a group. The `prev` of a group view is the view in which the process was right before, and absent for its
//! first.
//!
//! Instances: views that follow another at the same process, and first group views. Source: Chockler, Keidar, Vitenberg
//! 2001 (local monotonicity).

use std::collections::HashMap;

use super::Run;
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for install in &model.installs {
        let Some(prev) = install.prev.map(|p| &model.installs[p]) else { continue };
        out.instance();
        if install.view <= prev.view {
            let text = || {
                format!(
                    "{} installed cell view {} after cell view {}",
                    model.who(install.proc),
                    install.view,
                    prev.view
                )
            };
            out.violation(&[prev.moment.place, install.moment.place], text);
        }
    }
    for proc in &model.procs {
        let mut last = HashMap::new();
        for &e in &proc.epochs {
            out.instance();
            let epoch = &model.epochs[e];
            let view = &model.views[epoch.view];
            if let Some(before) = last.insert(view.group, e).filter(|&b| model.number(b) >= view.number) {
                let text = || {
                    let (number, old) = (model.view_name(epoch.view), model.number(before));
                    format!("{} installed {number} after view {old}", model.who(epoch.proc))
                };
                out.violation(&[model.epochs[before].install.place, epoch.install.place], text);
                continue;
            }
            let was_in = epoch.prev_epoch.map(|p| model.number(p));
            if epoch.prev != was_in {
                let text = || {
                    let (said, was) = (in_words(epoch.prev), in_words(was_in));
                    format!(
                        "{} of {} says it follows {said}, but the process was in {was}",
                        model.view_name(epoch.view),
                        model.who(epoch.proc)
                    )
                };
                out.violation(&[epoch.install.place], text);
            }
        }
    }
}

fn in_words(view: Option<u64>) -> String {
    view.map_or_else(|| "no view".to_owned(), |v| format!("view {v}"))
}
