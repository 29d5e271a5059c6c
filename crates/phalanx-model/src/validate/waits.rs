//! The groups that wait, after a decree, for members that are out of the cell.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_core::member::{Directory, ORPHANS_LEVEL, Proposal};
use phalanx_core::{GroupId, GroupTerms, Incarnation, LeaveReason, MemberInfo};

use crate::rules::Rules;

/// Groups, each with the processes that it waits for.
pub(super) type Waiting = BTreeMap<GroupId, BTreeSet<Incarnation>>;

/// Whether groups wait where they would otherwise end.
pub(super) fn groups_wait(directory: &Directory) -> bool {
    directory.level >= ORPHANS_LEVEL
}

/// The waiting groups according to a directory.
pub(super) fn told(directory: &Directory) -> Waiting {
    directory.orphans().map(|(id, _, orphan)| (id, orphan.holders.iter().map(|holder| holder.who).collect())).collect()
}

/// The waiting groups that must result from `proposal`.
pub(super) fn after(rules: Rules, directory: &Directory, proposal: &Proposal) -> Waiting {
    let mut waiting = Waiting::new();
    if !groups_wait(directory) {
        return waiting;
    }
    for (&id, entry) in &directory.groups {
        let change = proposal.groups.iter().find(|change| change.group == id);
        // Each with the seat where it was started.
        let holders: Vec<(Incarnation, u64)> = match (entry.orphan(), change) {
            (Some(_), Some(change)) if !change.joined.is_empty() => continue,
            (Some(orphan), change) => {
                let struck = change.map(|change| change.struck()).unwrap_or_default();
                let listed = orphan.holders.iter().filter(|holder| !struck.contains(&holder.who));
                listed.map(|holder| (holder.who, holder.seat)).collect()
            }
            (None, Some(change)) if change.joined.is_empty() && change.left.len() == entry.members.len() => {
                let ends = GroupTerms::of(&entry.tail).ends_alone;
                let waited_for = |why: &LeaveReason| {
                    let lives_and_keeps = !matches!(why, LeaveReason::Died) && !why.is_loss();
                    rules.is_waited_for(lives_and_keeps, matches!(why, LeaveReason::Left))
                };
                let out = change.left.iter().filter(|(_, why)| !ends && waited_for(why));
                let seat = |who| directory.rank(who).map_or(0, |rank| directory.members[rank.index()].seat());
                out.map(|(who, _)| (*who, seat(*who))).collect()
            }
            _ => continue,
        };
        let left = holders.into_iter().filter(|(who, seat)| !is_no_more(directory, proposal, *who, *seat));
        let left: BTreeSet<Incarnation> = left.map(|(who, _)| who).collect();
        if !left.is_empty() {
            waiting.insert(id, left);
        }
    }
    waiting
}

/// Whether a decree proves that an incarnation and every keeper of its state are gone: the process ended, or a process
/// started at the same seat without the state.
fn is_no_more(directory: &Directory, proposal: &Proposal, who: Incarnation, seat: u64) -> bool {
    let ended = |why: LeaveReason| matches!(why, LeaveReason::Died | LeaveReason::Left);
    let ended = proposal.left.iter().filter(|(_, why)| ended(*why)).filter_map(|(left, _)| directory.rank(*left));
    let anew = |info: &MemberInfo| seat != 0 && info.seat() == seat && !info.is_or_keeps(who);
    ended.map(|rank| &directory.members[rank.index()]).any(|info| info.is_or_keeps(who))
        || proposal.joined.iter().any(anew)
}
