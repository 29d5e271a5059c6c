//! M6, primary uniqueness: the views of a cell instance form one chain, and so do the views of a group.
//!
//! Cell: let the installed views of an instance be `1 = v_1 < v_2 < ...`. If `u -> w` at some process then no view
//! between was installed, and the first view that a process installs is the first that holds it. For neighbours `u`,
//! `w` the survivors `M_u & M_w`, together with the processes that left of their own will, are a quorum of `u`, and the
//! survivors alone are no minority of `w`. No number is skipped.
//!
//! Instances: see `foundings`.
//!
//! Group: the same, without quorums (the cell's chain gives those). A view without survivors is a new beginning. It is
//! allowed only when no member stays behind in the one before, unless it goes on with a state that an earlier
//! incarnation kept (X3, U6).
//!
//! Counted: pairs of neighbouring views, and of neighbouring instances. Source: Ricciardi and Birman 1991; the quorum
//! rule after Birman, "Reliable Distributed Systems" (Springer 2005), primary partition.

use std::collections::BTreeMap;

use phalanx_trace::{LeaveReason, Trouble};

use super::Run;
use crate::findings::Findings;
use crate::model::{CellInstall, EpochEnd, EpochIx, InstallIx, Model, Moment, Over, ProcIx, ViewIx};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for views in model.cells.values() {
        cell_chain(run, views, out);
    }
    if run.options.one_instance {
        foundings(run, out);
    }
    for group in &model.groups {
        group_chain(run, &group.views, out);
    }
}

/// Checks that a cell has one instance at a time, and that a later one is of a later generation. With a command it
/// begins only when no process is in the primary partition of an earlier one any more. Without a command it begins only
/// when members of the earlier one left in order and no process lives in it, primary or not. A process that was asked
/// to leave, and was killed while its application took nothing, may have left without a record of it. One that was let
/// go as it asked, and is out of its groups, knows that: see [`is_let_go`].
fn foundings(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let begins = model.cells.values().filter_map(|views| views.first_key_value()?.1.first());
    let mut begins: Vec<&CellInstall> = begins.map(|&i| &model.installs[i]).collect();
    begins.sort_by_key(|install| (install.instance >> 48, install.moment.at_ns));
    let absences = model.absences();
    for pair in begins.windows(2) {
        let [earlier, later] = [pair[0], pair[1]];
        out.instance();
        let at_ns = later.moment.at_ns;
        let is_asked = model.anew_asked.iter().any(|asked| (earlier.moment.at_ns..=at_ns).contains(&asked.at_ns));
        let is_past = |moment: Option<&Moment>| moment.is_some_and(|moment| moment.at_ns <= at_ns);
        let was_in = |p: ProcIx| {
            let of_it = |&i: &InstallIx| model.installs[i].instance == earlier.instance;
            model.procs[p].installs.iter().any(of_it)
        };
        let has_left = |p: ProcIx| {
            let left = model.procs[p].over.as_ref().filter(|(over, _)| *over == Over::Left);
            was_in(p) && (is_past(left.map(|(_, moment)| moment)) || is_past(left_untold(model, p).as_ref()))
        };
        let began_by_itself = !is_asked && (0..model.procs.len()).any(has_left);
        if earlier.instance >> 48 == later.instance >> 48 || !is_asked && !began_by_itself {
            out.violation(&[earlier.moment.place, later.moment.place], || "the cell was founded twice".to_owned());
            continue;
        }
        let is_in = |p: &ProcIx| {
            let proc = &model.procs[*p];
            let is_over = is_past(proc.crashed.as_ref()) || is_past(proc.over.as_ref().map(|(_, moment)| moment));
            // A process whose application does not read is notified of nothing, and neither is a stopped one. It is
            // still in its instance, but no record shows whether its quorum is gone.
            let unread = model.harness.troubles.get(&(Trouble::NotReading, Some(*p)));
            let stopped = Some(&absences[*p]).filter(|_| !began_by_itself);
            let mut untold = unread.into_iter().chain(stopped).flatten();
            let is_told = !untold.any(|span| span.meets(at_ns, at_ns));
            let is_primary = !began_by_itself && !model.nonprimary_at(*p, at_ns);
            let lives = began_by_itself && !is_let_go(model, *p, earlier.instance, at_ns);
            was_in(*p) && !is_over && (is_primary || lives) && is_told
        };
        if let Some(p) = (0..model.procs.len()).find(is_in) {
            let whose = if began_by_itself { "that instance" } else { "its primary partition" };
            let text = || format!("the cell was founded again while {} was in {whose}", model.who(p));
            out.violation(&[earlier.moment.place, later.moment.place], text);
        }
    }
}

/// Whether the process was out of the instance by then, as it had asked: an installed view let it go, and it was in none
/// of its groups any more. It may stay for seconds, because its vote may have made that decision, and the others that
/// would confirm it may have left, too. One that is still in a group may not have learned of the decision.
fn is_let_go(model: &Model, p: ProcIx, instance: u64, at_ns: u64) -> bool {
    let lets_it_go = |&i: &InstallIx| {
        let install = &model.installs[i];
        install.moment.at_ns <= at_ns && install.left.contains(&(p, LeaveReason::Left))
    };
    let has_asked = model.procs[p].leave_asked.is_some_and(|asked| asked.at_ns <= at_ns);
    let mut installs = model.cells.get(&instance).into_iter().flat_map(BTreeMap::values).flatten();
    has_asked && installs.any(lets_it_go) && model.stays_at(p, at_ns).next().is_none()
}

/// The kill of a process that may have left in order before: it had asked to, and its application took nothing in the
/// end.
fn left_untold(model: &Model, p: ProcIx) -> Option<Moment> {
    let proc = &model.procs[p];
    let crashed = proc.crashed.filter(|_| proc.leave_asked.is_some() && proc.over.is_none())?;
    let unread = model.harness.troubles.get(&(Trouble::NotReading, Some(p)))?;
    unread.iter().any(|span| span.meets(crashed.at_ns, crashed.at_ns)).then_some(crashed)
}

fn cell_chain(run: &Run<'_>, views: &BTreeMap<u64, Vec<InstallIx>>, out: &mut Findings) {
    let model = run.model;
    let neighbours = views.iter().zip(views.iter().skip(1));
    for ((&u, before), (&w, after)) in neighbours {
        out.instance();
        let [Some(old), Some(new)] = [before, after].map(|v| v.first().map(|&i| &model.installs[i])) else { continue };
        let evidence = [old.moment.place, new.moment.place];
        for install in after.iter().map(|&i| &model.installs[i]) {
            let Some(prev) = install.prev.map(|p| &model.installs[p]).filter(|p| p.view < u) else { continue };
            let text = || {
                let who = model.who(install.proc);
                format!("{who} went from cell view {} to {w}, but cell view {u} was installed too", prev.view)
            };
            out.violation(&[prev.moment.place, old.moment.place, install.moment.place], text);
        }
        for &p in old.members.iter().filter(|&&p| model.reads_to_the_end(p)) {
            let first =
                model.procs[p].installs.iter().map(|&i| &model.installs[i]).find(|i| i.instance == old.instance);
            if let Some(first) = first.filter(|i| i.view == w) {
                let text = || format!("cell view {u} holds {}, whose first view is cell view {w}", model.who(p));
                out.violation(&[old.moment.place, first.moment.place], text);
            }
        }
        if w - u > 1 {
            // A process that died, or ended in a stop or without reading on, may have installed the views between
            // without a record.
            if old.members.iter().all(|&p| model.procs[p].tail_complete && model.reads_to_the_end(p)) {
                out.violation(&evidence, || format!("cell view {w} follows {u}: nobody installed what is between"));
            }
            continue;
        }
        // The leavers are listed by processes that installed both views, and by those that came with the later one.
        let told = |i: &&CellInstall| i.prev.is_none_or(|p| model.installs[p].view == u);
        let lists = after.iter().map(|&i| &model.installs[i]).find(told);
        let willing = |p: usize| lists.is_some_and(|i| i.left.contains(&(p, LeaveReason::Left)));
        let survives = |p: usize| new.members.contains(&p);
        let count = old.members.iter().filter(|&&p| survives(p)).count();
        let consenting = old.members.iter().filter(|&&p| survives(p) || willing(p)).count();
        let oldest = old.members.first().is_some_and(|&p| survives(p) || willing(p));
        if !run.options.quorum.holds(old.members.len(), consenting, oldest) {
            let text =
                || format!("cell view {w} keeps {count} of the {} members of view {u}: no quorum", old.members.len());
            out.violation(&evidence, text);
        } else if 2 * count < new.members.len() {
            let text =
                || format!("of the {} members of cell view {w} only {count} were in view {u}", new.members.len());
            out.violation(&evidence, text);
        }
    }
}

fn group_chain(run: &Run<'_>, views: &BTreeMap<u64, ViewIx>, out: &mut Findings) {
    let model = run.model;
    let installed: Vec<ViewIx> = views.values().copied().filter(|&v| !model.views[v].epochs.is_empty()).collect();
    for pair in installed.windows(2) {
        let [u, w] = [pair[0], pair[1]];
        let number = model.views[u].number;
        out.instance();
        for &e in &model.views[w].epochs {
            let epoch = &model.epochs[e];
            let Some(prev) = epoch.prev_epoch.filter(|&p| model.number(p) < number) else { continue };
            let between = model.views[u].epochs.first().map(|&b| model.epochs[b].install.place);
            let text = || {
                let (who, to) = (model.who(epoch.proc), model.view_name(w));
                format!("{who} went from view {} to {to}, but view {number} was installed too", model.number(prev))
            };
            let evidence: Vec<_> = [Some(model.epochs[prev].install.place), between, Some(epoch.install.place)]
                .into_iter()
                .flatten()
                .collect();
            out.violation(&evidence, text);
        }
        let anew = model.views[w].epochs.iter().all(|&e| model.epochs[e].prev_epoch.is_none());
        let no_survivor = !model.views[w].members.iter().any(|m| model.views[u].members.contains(m));
        // It is no new beginning if a member goes on with a kept state. Members that are not back are out of the group.
        let goes_on = |&e: &EpochIx| model.epochs[e].transfer.as_ref().is_some_and(|transfer| transfer.kept.is_some());
        let anew = anew && !model.views[w].epochs.iter().any(goes_on);
        let Some(&first) = model.views[w].epochs.first().filter(|_| anew && no_survivor) else { continue };
        for &e in &model.views[u].epochs {
            let epoch = &model.epochs[e];
            let proc = &model.procs[epoch.proc];
            if epoch.end == EpochEnd::Open && proc.ended.is_some() && proc.crashed.is_none() && !proc.nonprimary {
                let text = || {
                    format!(
                        "{} begins anew while {} is still in view {number}",
                        model.view_name(w),
                        model.who(epoch.proc)
                    )
                };
                out.violation(&[epoch.install.place, model.epochs[first].install.place], text);
            }
        }
    }
}
