//! V10, churn: between the begin of the quiet phase and the view of V1, at most `churn_max` cell views are installed,
//! besides one for each process that came, left or died within that time.
//!
//! Evaluated only if V1 holds, and not while paths stay partly broken (V14).
//!
//! Instances: quiet phases that begin in another view than they end in. Source: Chockler, Keidar, Vitenberg 2001: a
//! stable component comes to one view; a membership that hunts for it is a defect known from the field.

use super::{Run, v4};
use crate::findings::{Findings, Place};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let whole = v4::due(run).filter(|q| q.impaired_ns.is_none());
    let (model, Some(quiet)) = (run.model, whole) else { return };
    let last = &model.installs[quiet.last];
    let views = model.cells.get(&last.instance).into_iter().flat_map(|views| views.values());
    let firsts = views.filter_map(|all| all.iter().map(|&i| &model.installs[i]).min_by_key(|i| i.moment.at_ns));
    let within = |at_ns: u64| at_ns >= quiet.begun_ns && at_ns <= quiet.end_ns;
    let churn: Vec<Place> = firsts.filter(|i| within(i.moment.at_ns)).map(|i| i.moment.place).collect();
    if churn.is_empty() {
        return;
    }
    out.instance();
    let moments = model.procs.iter().flat_map(|p| [p.started, p.leave_asked, p.crashed]).flatten();
    let excused = moments.filter(|m| within(m.at_ns)).count() as u64;
    let most = run.options.churn_max.saturating_add(excused);
    if churn.len() as u64 > most {
        let text = || format!("{} cell views were installed in the quiet phase, {most} would do", churn.len());
        let evidence: Vec<Place> = std::iter::once(quiet.place).chain(churn.iter().rev().take(5).copied()).collect();
        out.violation(&evidence, text);
    }
}
