//! M10, no view of nobody: let `G` be a group, `u` the last of its views, and `H` the next group of the same name in
//! the same cell instance, or in a later one that can know of it (`anew`). When `G` ended, each of its members had been killed, or had ended, or had asked to leave the
//! group or the cell. `G` ended with the cell view that dropped the last of its members, or else when `H` was founded.
//!
//! A member that a view dropped as unreachable lives unless it was killed. Its group, and what its members know, waits
//! for it. Members dropped before others of the group are exempt: the group went on in the others. If the last of them
//! were killed before they recorded a view, that cannot be known and is not evaluated. A process that came back and was
//! notified that the group had gone on from the last recorded view shows that there was such a view. A holder that came
//! back and was killed, a second later or more, may have been the next view by itself. A process that was
//! admitted to the group and never notified of it (the transfer of the state failed) is no member.
//!
//! A process lives until it is killed or asks to leave, through exclusions, from one incarnation to the next. If the
//! next one does not ask for the group again, it has no use for its state. A group that an operator gave up is exempt,
//! and so is, below level 3, one whose members are dropped (`docs/orphans.md`). A member whose application refused the
//! state has none, and so do observers: the group does not wait for them.
//!
//! A new beginning under the old group's number is M6.
//!
//! Instances: groups of a name that another group had before; *under failure*: those whose predecessor ended with a
//! view that dropped its last members while they lived. Source: Ricciardi and Birman 1991 (only who is faulty, or asks
//! for it, is removed), applied to all members of a group together.

use super::{Run, anew};
use crate::findings::{Findings, Place};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for anew in anew::begun_anew(run) {
        out.instance_when(anew.alive.iter().any(|alive| alive.dropped.is_some()));
        // First the members that are still in the cell.
        let (dropped, stayed): (Vec<anew::Alive>, Vec<anew::Alive>) =
            anew.alive.iter().partition(|alive| alive.dropped.is_some());
        for alive in stayed.into_iter().chain(dropped) {
            let stay = &model.epochs[alive.stay];
            let evidence: Vec<Place> =
                [Some(stay.install.place), alive.dropped, Some(anew.founded.place)].into_iter().flatten().collect();
            out.violation(&evidence, || {
                let (who, old) = (model.who(stay.proc), model.view_name(anew.last));
                let how = if alive.dropped.is_some() { "lived when it was dropped" } else { "is in the cell" };
                format!("a group was founded after {old}, whose member {who} {how}, and had not asked to leave")
            });
        }
    }
}
