//! Properties of progress: invariants, and states that must be reached.

use stateright::Property;

use super::fault::{Fault, Kind};
use super::judge::{begins, gets_through, promises};
use super::rule::{in_set, is_quorum};
use super::state::State;
use super::step;
use super::{Progress, budget};

/// A decision removes exactly the right members.
pub const EXACT: &str = "who goes is the faulty member, or the younger end of the path, and nobody else";
/// The weaker property, while a fault comes and goes.
pub const ENDS_ONLY: &str = "of a fault that passes, at most one member goes, and it is an end of what was broken";
/// See the property.
pub const REST: &str = "those that stay are a quorum, and all links between them work";
/// See the property.
pub const ENDS: &str = "when nothing more can happen, whoever has to go has gone";
/// See the property.
pub const NO_RIVAL: &str = "when all has been said, a ballot that anybody promises can be finished";
/// See the property.
pub const QUIET: &str = "when all has been said, nobody begins ballots that a majority ignores";

/// All properties of a model.
pub(super) fn all(model: &Progress) -> Vec<Property<Progress>> {
    let mut all = vec![Property::always(ENDS, ends)];
    if model.heals {
        all.push(Property::always(ENDS_ONLY, |model: &Progress, s: &State| {
            s.removed.is_none_or(|(_, goes)| {
                goes.count_ones() <= budget(model.members as u32) && goes & !s.fault.ends(model.members) == 0
            })
        }));
        all.push(Property::sometimes("it passes, and nobody goes", |_, s: &State| {
            s.is_over && s.records.iter().all(super::state::Record::is_empty)
        }));
        return all;
    }
    all.extend([
        Property::always(EXACT, |_, s: &State| s.removed.is_none_or(|(_, goes)| goes == s.fault.due())),
        Property::always(REST, rest),
        Property::always(NO_RIVAL, |model: &Progress, s: &State| {
            let asked = |me: usize| in_set(model.all()).any(|m| m != me && promises(model, s, m, me));
            goal(s) == 0
                || !is_said(model, s)
                || in_set(model.all())
                    .all(|me| !begins(model, s, me) || gets_through(model, s, me, goal(s)) || !asked(me))
        }),
        Property::always(QUIET, |model: &Progress, s: &State| {
            let is_hung = |me: usize| matches!(s.now(), Fault::Hung(f) if usize::from(f) == me);
            let ignored = |me: usize| {
                let promised = |m: &usize| *m == me || promises(model, s, *m, me);
                let set = in_set(model.all()).filter(promised).fold(0, |set, m| set | 1 << m);
                !is_quorum(set, model.all())
            };
            !is_said(model, s) || in_set(model.all()).all(|me| is_hung(me) || !begins(model, s, me) || !ignored(me))
        }),
    ]);
    if model.faults.iter().any(|fault| fault.due() != 0) {
        if model.faults.iter().any(|fault| fault.due() & 1 != 0) {
            all.push(Property::sometimes("rank 0 is removed", |_, s: &State| {
                s.removed.is_some_and(|(_, goes)| goes & 1 != 0)
            }));
        }
        // Among the dead, no suspicions are mutual.
        if model.faults.iter().any(|fault| !matches!(fault, Fault::BothStopped(..))) {
            all.push(Property::sometimes(
                "two suspected each other before anybody was removed",
                |model: &Progress, s: &State| {
                    let suspects = |a: usize, b: usize| s.records[a].failed.iter().any(|set| set & 1 << b != 0);
                    let pairs = || in_set(model.all()).flat_map(|a| in_set(model.all()).map(move |b| (a, b)));
                    s.removed.is_some() && pairs().any(|(a, b)| suspects(a, b) && suspects(b, a))
                },
            ));
        }
        all.push(Property::sometimes("rank 0 removes another", |_, s: &State| {
            s.removed.is_some_and(|(by, _)| by == 0)
        }));
    }
    all
}

/// The members that must go.
fn goal(s: &State) -> u8 {
    s.now().due()
}

/// Every suspicion and answer has been sent: only a ballot may still follow.
fn is_said(model: &Progress, s: &State) -> bool {
    let mut actions = Vec::new();
    step::list(model, s, &mut actions);
    let ballots = actions.iter().all(|action| matches!(action, super::Action::Remove(..)));
    s.removed.is_none() && ballots && s.suspicions < model.suspicions
}

fn ends(model: &Progress, s: &State) -> bool {
    let mut actions = Vec::new();
    step::list(model, s, &mut actions);
    // Of two dead members, both must have been suspected.
    let stopped = || in_set(goal(s)).filter(|m| s.now().is_stopped(*m as u8));
    let suspected = |m: usize| s.records.iter().any(|record| record.suspects[Kind::Beat as usize] & 1 << m != 0);
    let unsaid = stopped().count() == 2 && !stopped().all(suspected);
    !actions.is_empty() || unsaid || s.removed.is_some() || goal(s) == 0
}

fn rest(model: &Progress, s: &State) -> bool {
    let Some((_, goes)) = s.removed else { return true };
    let stays = model.all() & !goes;
    let works = |a: usize, b: usize| Kind::ALL.iter().all(|kind| !s.now().fails(a as u8, b as u8, *kind));
    is_quorum(stays, model.all()) && in_set(stays).all(|a| in_set(stays).all(|b| works(a, b)))
}
