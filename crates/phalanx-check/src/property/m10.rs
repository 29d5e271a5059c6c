//! M10, no view of nobody: let `G` be a group, `u` the last of its views, and `H` the next group of the same name in
//! the same cell instance. When `G` ended, each of its members had been killed, or had ended, or had asked to leave
//! the group or the cell. `G` ended with the cell view that dropped the last of its members, or else when `H` was
//! founded.
//!
//! A member that a view dropped as unreachable lives, if it was not killed: its group, and what its members know,
//! waits for it. Members dropped before others of the group are not asked for: the group went on in these. Where the
//! last of them were killed before they told of a view, that cannot be known, and is not judged: whoever came back and was told that the
//! group had gone on from the last view told of shows that there was one. Who was taken into
//! the group and never told of it (the transfer of the state failed) is no member.
//!
//! A process lives until it is killed or asks to leave, through exclusions, from one incarnation to the next; if the next one does
//! not ask for the group again, it has no use for its state. Not asked for is a group that an operator gave up, and, below
//! level 3, one whose members are dropped (`docs/orphans.md`).
//!
//! A new beginning under the old group's number is M6.
//!
//! Instances: groups of a name that another group had before; *under failure*: those whose predecessor ended with a
//! view that dropped its last members while they lived. Source: Ricciardi and Birman 1991 (only who is faulty, or asks
//! for it, is removed), asked of all members of a group together.

use super::{Run, anew};
use crate::findings::{Findings, Place};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for anew in anew::begun_anew(run) {
        out.instance_when(anew.alive.iter().any(|alive| alive.dropped.is_some()));
        // Those first that are in the cell still.
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
