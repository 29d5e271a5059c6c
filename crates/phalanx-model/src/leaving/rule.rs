//! The decision rules of leaving.

use super::state::{State, View};
use super::{Leaving, Missing};
use crate::rules::Rules;

pub(super) const RULES: Rules = Rules { without: None };

/// Whether the present members, with these leavers among the members, may decide what follows a view.
pub(super) fn may_decide(model: &Leaving, view: &View, present: u8, leavers: u8) -> bool {
    let rest = view.set() & !leavers;
    let majority = (present & rest).count_ones() * 2 > rest.count_ones();
    let whole = view.is_quorum(view.set(), present);
    match model.missing {
        Some(Missing::OnlyWholeQuorum) => whole,
        Some(Missing::OnlyMajorityOfRest) => rest == 0 && whole || majority,
        Some(Missing::MajorityOfRest) => whole && (rest == 0 || majority),
        _ => whole && (rest == 0 || view.is_quorum(rest, present)),
    }
}

/// Whether a leaver that knows that it is out may stop, because what follows does not need it any more.
pub(super) fn may_go(model: &Leaving, next: &View) -> bool {
    let nobody = next.set() == 0;
    match model.missing {
        Some(Missing::GoesAtOnce) => true,
        Some(Missing::GoesAfterOne) => nobody || next.installed != 0,
        _ => nobody || next.is_quorum(next.set(), next.installed),
    }
}

/// The processes that may live in the instance, besides the one that asks: every former member that is not known to be
/// out and was not started again.
pub(super) fn may_live(model: &Leaving, s: &State, asks: usize) -> u8 {
    if model.lacks(Missing::EndsRegardless) {
        return 0;
    }
    let ever = s.views.iter().filter(|view| view.decided).fold(0, |set, view| set | view.set());
    let unknown = |at: usize| {
        let p = &s.processes[at];
        let told = p.gone || (p.lives && (p.out || p.view == 0));
        let asked = p.wants && model.lacks(Missing::EndsWithoutLeavers);
        !told && !asked
    };
    (0..model.processes).filter(|&at| at != asks && ever & 1 << at != 0 && unknown(at)).fold(0, |set, at| set | 1 << at)
}
