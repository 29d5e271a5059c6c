//! X1, the cut: let joiner `q` complete a state transfer before its first view `w` of the group. Then the digest of its
//! state at that time, and again when it has installed `w`, equals the digest at the start of `w` of every member that
//! came to `w` with the state.
//!
//! Members that delivered another set before (S3) are left out. So are members whose own join had come with another
//! state: that was reported when they joined.
//!
//! Instances: comparisons of a joiner with a member. Source: Birman and Joseph 1987 (state transfer as an event ordered
//! among views and messages).

use std::collections::HashSet;

use super::Run;
use crate::findings::{Findings, Place};
use crate::model::{EpochIx, Model};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for joiner in joiners(model) {
        for (member, digest, at_member) in members(model, &run.wrong_state, joiner) {
            for (own, at_joiner) in own_digests(model, joiner) {
                out.instance();
                if own != digest {
                    let text = || {
                        let [joiner, member] = [joiner, member].map(|e| model.who(model.epochs[e].proc));
                        format!("{joiner} came with another state than {member} had at the same view")
                    };
                    out.violation(&[at_member, at_joiner], text);
                }
            }
        }
    }
}

/// Stays of members whose state differs from the others' since their join.
pub(super) fn wrong_state(model: &Model) -> HashSet<EpochIx> {
    let mut order: Vec<EpochIx> = (0..model.epochs.len()).collect();
    // In the order of views: a joiner is compared only with members whose own join was right.
    order.sort_by_key(|&e| (model.views[model.epochs[e].view].group, model.number(e), e));
    let mut wrong = HashSet::new();
    for e in order {
        let joined_wrong = || {
            let mut held = members(model, &wrong, e);
            model.epochs[e].prev_epoch.is_none()
                && held.any(|(_, digest, _)| own_digests(model, e).any(|(own, _)| own != digest))
        };
        if model.epochs[e].prev_epoch.is_some_and(|p| wrong.contains(&p)) || joined_wrong() {
            wrong.insert(e);
        }
    }
    wrong
}

/// First stays that came with a transfer.
pub(super) fn joiners(model: &Model) -> impl Iterator<Item = EpochIx> {
    let with_transfer = |e: &EpochIx| {
        let epoch = &model.epochs[*e];
        epoch.prev_epoch.is_none() && epoch.transfer.as_ref().is_some_and(|t| !t.ends.is_empty())
    };
    (0..model.epochs.len()).filter(with_transfer)
}

/// Members of the joiner's first view that brought the state along, with their digest at its start.
fn members<'a>(
    model: &'a Model,
    wrong: &'a HashSet<EpochIx>,
    joiner: EpochIx,
) -> impl Iterator<Item = (EpochIx, u64, Place)> + 'a {
    let view = &model.views[model.epochs[joiner].view];
    view.epochs.iter().copied().filter_map(|e| {
        let epoch = &model.epochs[e];
        let digest = epoch.digests.iter().find(|d| d.delivered == 0)?;
        let right = epoch.prev_epoch.is_some_and(|p| !wrong.contains(&p)) && epoch.stateful && !epoch.diverged;
        right.then_some((e, digest.digest, digest.place))
    })
}

fn own_digests(model: &Model, joiner: EpochIx) -> impl Iterator<Item = (u64, Place)> {
    let epoch = &model.epochs[joiner];
    let at_end = epoch.transfer.iter().filter_map(|t| t.ends.last().copied());
    let at_install = epoch.digests.iter().filter(|d| d.delivered == 0).map(|d| (d.digest, d.place));
    at_end.chain(at_install)
}
