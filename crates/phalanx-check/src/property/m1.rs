//! M1, self-inclusion: `view(p, v, M) => p in M`, for cell views and group views.
//!
//! Instances: installed views. Source: Chockler, Keidar, Vitenberg 2001 (self inclusion).

use super::Run;
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for install in &model.installs {
        out.instance();
        if !install.members.contains(&install.proc) {
            let text =
                || format!("{} installed cell view {} and is no member of it", model.who(install.proc), install.view);
            out.violation(&[install.moment.place], text);
        }
    }
    for epoch in &model.epochs {
        out.instance();
        if !epoch.members.contains(&epoch.proc) {
            let text = || {
                format!("{} installed {} and is no member of it", model.who(epoch.proc), model.view_name(epoch.view))
            };
            out.violation(&[epoch.install.place], text);
        }
    }
}
