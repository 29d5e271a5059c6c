//! The decision rules of founders.

use super::state::{Life, Phase, State, Try, slot_of};
use super::{Founding, JOINER, Missing, SLOTS};
use crate::rules::Rules;

const RULES: Rules = Rules { without: None };

/// Whether the present members of a view may decide the next one.
pub(super) fn is_quorum(members: &[Life; SLOTS], present: impl Fn(Life) -> bool) -> bool {
    let all = || members.iter().filter(|who| **who != 0);
    let first = all().next().is_some_and(|who| present(*who));
    RULES.is_quorum(all().filter(|who| present(**who)).count(), all().count(), first)
}

/// Whether more than half of a list's names confirmed it.
pub(super) fn is_confirmed(model: &Founding, list: &Try) -> bool {
    let (confirmed, names) = (list.confirmed.count_ones(), list.names.count_ones());
    let first = list.names & list.names.wrapping_neg();
    let half = model.lacks(Missing::FirstHalfConfirms) && confirmed * 2 == names && list.confirmed & first != 0;
    list.phase != Phase::None && (confirmed * 2 > names || half)
}

/// Whether a set of names is enough to propose to, or to decide with: all names.
pub(super) fn is_all(model: &Founding, t: &Try, set: u8) -> bool {
    let majority = model.lacks(Missing::MajorityAccepts) && set.count_ones() * 2 > t.names.count_ones();
    set == t.names || majority
}

/// Whether a process takes part in ballots: it is in no view, and has not heard a member.
pub(super) fn takes_part(model: &Founding, s: &State, slot: usize) -> bool {
    let p = &s.processes[slot];
    let heard = p.memory.heard != 0 && p.memory.mark == 0 && !model.lacks(Missing::HeardDoesNotCount);
    p.lives && p.instance == 0 && model.name_of(slot).is_some() && !heard
}

/// The list that a ballot with all reports proposes: the one with a marker from the highest ballot, unless it can never
/// be confirmed. Without any such list it is the leader's own.
pub(super) fn proposal(model: &Founding, s: &State, own: usize) -> u8 {
    if model.lacks(Missing::IgnoresMarks) {
        return own as u8 + 1;
    }
    let t = &s.tries[own];
    let mut marks: Vec<(u8, u8)> = t.had.iter().copied().filter(|(list, _)| *list != 0).collect();
    marks.sort_by_key(|(_, ballot)| std::cmp::Reverse(s.tries[usize::from(*ballot) - 1].number));
    let standing = marks.iter().find(|(list, _)| !is_overruled(model, s, t, *list));
    standing.map_or(own as u8 + 1, |(list, _)| *list)
}

/// Whether a list is overruled: it has no living quorum, too few names have a marker of it, and each of its names is
/// present with the directory it was listed with. Then a process without its marker never had one, and promised to
/// write none.
fn is_overruled(model: &Founding, s: &State, t: &Try, list: u8) -> bool {
    let l = &s.tries[usize::from(list) - 1];
    let place = |who: Life| if who == 0 { SLOTS } else { slot_of(who) };
    let same = (0..model.names()).all(|n| l.disks[n] == t.disks[n] && place(l.asked[n]) == place(t.asked[n]));
    let marked = t.had.iter().filter(|(had, _)| *had == list).count() * 2;
    let seen = same || model.lacks(Missing::OverrulesUnseen);
    // Without adoption by marker there is nothing to count.
    let counts = !model.lacks(Missing::NeverOverruled) && !model.lacks(Missing::AdoptsUnmarked);
    let lives = is_quorum(&l.first_members(), |who| t.asked.contains(&who));
    counts && !lives && l.names == t.names && seen && marked <= l.names.count_ones() as usize
}

/// Whether the fault assumption holds: at any time fewer than a majority of the names are damaged.
pub(super) fn is_assumed(model: &Founding, s: &State) -> bool {
    let damaged = |name: usize| (0..JOINER).any(|slot| model.name_of(slot) == Some(name) && s.processes[slot].lost);
    let count = (0..model.names()).filter(|name| damaged(*name)).count();
    count * 2 <= model.names() || model.lacks(Missing::AllDamaged)
}
