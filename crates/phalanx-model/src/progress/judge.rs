//! The conclusions that a member draws from the suspicions and answers it knows.

use super::fault::Kind;
use super::rule::{Links, Variant, budget, cover, goes, in_set};
use super::state::State;
use super::{Missing, Progress};

/// The set of members that must go, as one member concludes. It knows the present records of the members in `told`, and
/// nothing of the others. `None`: some have not answered yet.
#[must_use]
pub(super) fn judges(model: &Progress, s: &State, me: usize, told: u8) -> Option<u8> {
    let members = model.all();
    let known = in_set(told | 1 << me).map(|m| (m, &s.records[m]));
    let heard = members & !s.records[me].failed[Kind::Beat as usize];
    let mut links = Links::default();
    for (by, record) in known {
        for kind in Kind::ALL {
            let suspects = model.edges(record)[kind as usize];
            for whom in in_set(suspects) {
                links.add(by, whom, kind == Kind::Beat);
                let ends = if model.lacks(Missing::EndsWait) { 1 << by } else { 1 << by | 1 << whom };
                let owed = if model.lacks(Missing::UnheardWait) { members } else { heard };
                let has_answered = |m: usize| (m == me || told & 1 << m != 0) && s.records[m].answers(by, whom, kind);
                let waits = !model.lacks(Missing::JudgesAtOnce) && !model.lacks(Missing::OnlyEndsProbe);
                if waits && !in_set(owed & !ends).all(has_answered) {
                    return None;
                }
            }
        }
    }
    let never = model.lacks(Missing::NeverItself).then_some(me);
    let variant = Variant { never, part: model.lacks(Missing::PartGoes), ..Variant::default() };
    if model.lacks(Missing::UnheardFirst) {
        let variant = Variant { never: Some(me), ..variant };
        let unheard = members & !heard;
        return Some(unheard | cover(&links.any, heard, variant));
    }
    Some(goes(&links, members, budget(members.count_ones()), variant))
}

/// Every set of members whose present records a member may know.
pub(super) fn tellings(model: &Progress, s: &State, me: usize) -> impl Iterator<Item = u8> {
    let from = audible(model, s, me);
    (0..=from).filter(move |set| set & !from == 0)
}

/// The members whose records reach a member and are not empty.
#[must_use]
pub(super) fn audible(model: &Progress, s: &State, me: usize) -> u8 {
    let tells = |m: &usize| *m != me && s.now().tells(*m as u8, me as u8) && !s.records[*m].is_empty();
    in_set(model.all()).filter(tells).fold(0, |set, m| set | 1 << m)
}

/// Whether a coordinator completes a ballot without the members that go: each member asked receives the request and
/// answers it, short or long.
#[must_use]
pub(super) fn gets_through(model: &Progress, s: &State, me: usize, goes: u8) -> bool {
    let answered = |m: usize| {
        let fails = |kind| s.now().fails(me as u8, m as u8, kind);
        m == me || (s.now().acts(m as u8) && !fails(Kind::Ask) && !fails(Kind::LongAsk))
    };
    s.now().acts(me as u8) && in_set(model.all() & !goes).all(answered)
}

/// The set of members that must go, as concluded by a member that knows every record that reaches it.
fn finally(model: &Progress, s: &State, me: usize) -> Option<u8> {
    judges(model, s, me, audible(model, s, me))
}

/// Whether a member promises another's ballots, once every record has arrived.
#[must_use]
pub(super) fn promises(model: &Progress, s: &State, me: usize, coordinator: usize) -> bool {
    let out = finally(model, s, me).is_some_and(|goes| goes & 1 << coordinator != 0);
    let gets = !s.now().loses(coordinator as u8, me as u8, Kind::Ask);
    s.now().acts(me as u8) && gets && (!out || model.lacks(Missing::CoverIsPromised))
}

/// Whether a member begins ballots, for any reason, once every record has arrived. A member that hangs begins them all
/// the same.
#[must_use]
pub(super) fn begins(model: &Progress, s: &State, me: usize) -> bool {
    if s.now().is_stopped(me as u8) {
        return false;
    }
    if !s.now().acts(me as u8) {
        return true;
    }
    let heard = model.all() & !s.records[me].failed[Kind::Beat as usize];
    let out = finally(model, s, me).is_some_and(|goes| goes & 1 << me != 0);
    let others = model.all() & !(1 << me);
    let promised = in_set(others).filter(|m| promises(model, s, *m, me)).fold(1 << me, |set, m| set | 1 << m);
    let is_ignored = !super::rule::is_quorum(promised, model.all()) && !model.lacks(Missing::IgnoredGoesOn);
    super::rule::is_quorum(heard, model.all()) && !is_ignored && (!out || model.lacks(Missing::NeverItself))
}
