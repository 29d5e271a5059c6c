//! L1, mutual exclusion. For the grants of one lock of the groups of one name, in the order of their tokens:
//!
//! - No two have the same token. A grant that was requested after another was answered has the larger token.
//! - Between a grant to `p` and the next one that is seen, to `q`, `p` gave the lock back, or a group view without `p`
//!   came after the one in which `p` was granted it; at the latest it is the one in which `q` is.
//! - No process whose request is answered in view `v` is refused because of a holder that is not in `v`: a holder that
//!   leaves loses the lock.
//!
//! A grant to a process that a cell view had dropped before its request is a matter of M7. Such a process may have been
//! the only member of the group while the others made a new one of that name. Its token is then smaller, and L2 refuses
//! it.
//!
//! Instances: grants with a grant before them, and refusals. Source: DESIGN (locks; "a holder that leaves the view
//! loses it"); Burrows 2006 (tokens).

use std::collections::BTreeMap;

use phalanx_trace::{Action, Outcome};

use super::Run;
use crate::findings::{Findings, Place};
use crate::model::object::Call;
use crate::model::{EpochIx, Model, Moment};

/// A grant, as its holder recorded it.
#[derive(Clone, Copy)]
struct Grant<'a> {
    token: u64,
    call: &'a Call,
    answered: Moment,
    epoch: Option<EpochIx>,
}

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let mut locks: BTreeMap<(&str, u32), Vec<Grant<'_>>> = BTreeMap::new();
    for call in model.calls() {
        let Action::Acquire { lock } = call.action else { continue };
        match call.answer {
            Some((Outcome::Granted { token }, answered, epoch)) => {
                let name = model.groups[call.group].name.as_str();
                locks.entry((name, lock)).or_default().push(Grant { token, call, answered, epoch });
            }
            Some((Outcome::Held { holder, .. }, answered, epoch)) if epoch == call.asked_in => {
                refused(model, out, (call, holder, answered, epoch));
            }
            _ => {}
        }
    }
    for ((_, lock), mut grants) in locks {
        grants.sort_by_key(|grant| (grant.token, grant.answered.place));
        for pair in grants.windows(2) {
            out.instance();
            judge(model, out, lock, pair[0], pair[1]);
        }
        in_time(run, out, lock, &grants);
    }
}

fn refused(model: &Model, out: &mut Findings, (call, holder, answered, epoch): (&Call, u64, Moment, Option<EpochIx>)) {
    let Some(epoch) = epoch else { return };
    out.instance();
    let here = model.epochs[epoch].members.iter().any(|&member| model.procs[member].incarnation == holder);
    if !here {
        let view = model.view_name(model.epochs[epoch].view);
        let evidence = [model.epochs[epoch].install.place, call.invoke.place, answered.place];
        out.violation(&evidence, || format!("a lock is held by {holder:016x}, which is not in {view}"));
    }
}

fn judge(model: &Model, out: &mut Findings, lock: u32, first: Grant<'_>, next: Grant<'_>) {
    let evidence = [first.answered.place, next.answered.place];
    if first.token == next.token {
        out.violation(&evidence, || format!("lock {lock} was granted twice with token {:#x}", first.token));
    } else if first.call.proc != next.call.proc && !released(model, first, next) && !dropped(model, first, next) {
        out.violation(&evidence, || {
            let [p, q] = [first, next].map(|grant| model.who(grant.call.proc));
            format!("lock {lock} was granted to {q} while {p} held it")
        });
    }
}

/// Whether `first` was given back before the answer to `next`, as far as their clocks show.
fn released(model: &Model, first: Grant<'_>, next: Grant<'_>) -> bool {
    let mine = model.calls().filter(|call| call.proc == first.call.proc);
    let mut back = mine.filter(|call| match (call.action, first.call.action) {
        (Action::Release { lock, token }, Action::Acquire { lock: granted }) => lock == granted && token == first.token,
        _ => false,
    });
    let known = |place: Place| model.same_clock(place.trace, next.answered.place.trace);
    back.any(|call| !known(call.invoke.place) || call.invoke.at_ns <= next.answered.at_ns)
}

/// Whether a view without the first holder came in between, or another group of the same name was founded without any
/// member of the one before.
fn dropped(model: &Model, first: Grant<'_>, next: Grant<'_>) -> bool {
    let (Some(from), Some(to)) = (first.epoch, next.epoch) else { return true };
    let (from, to) = (&model.views[model.epochs[from].view], &model.views[model.epochs[to].view]);
    if from.group != to.group {
        return true;
    }
    let first_after = from.number.saturating_add(1);
    if to.number < first_after {
        return false;
    }
    let mut between = model.groups[from.group].views.range(first_after..=to.number);
    between.any(|(_, &view)| {
        let members = &model.views[view].members;
        !members.is_empty() && !members.contains(&first.call.proc)
    })
}

/// Checks that a request after another one's answer gets a larger token.
fn in_time(run: &Run<'_>, out: &mut Findings, lock: u32, grants: &[Grant<'_>]) {
    let model = run.model;
    for (at, earlier) in grants.iter().enumerate() {
        // The token is smaller or equal, so the grant is not after `earlier` in the order of tokens, and yet it was
        // requested later.
        let late = grants[..at].iter().find(|other| {
            let [asked, answered] = [other.call.invoke, earlier.answered];
            let slack = if asked.place.trace == answered.place.trace { 0 } else { run.options.clock_slack_ns };
            let known = model.same_clock(asked.place.trace, answered.place.trace);
            let stale = run.dropped.at(run, other.call.proc, asked.at_ns).is_some();
            known && !stale && asked.at_ns > answered.at_ns.saturating_add(slack) && other.token < earlier.token
        });
        if let Some(late) = late {
            out.violation(&[earlier.answered.place, late.call.invoke.place, late.answered.place], || {
                let (smaller, larger) = (late.token, earlier.token);
                format!("lock {lock} was granted with token {smaller:#x} after it had been with {larger:#x}")
            });
        }
    }
}
