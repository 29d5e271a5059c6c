//! The steps of the model of progress.

use super::fault::Kind;
use super::judge::{audible, gets_through, judges, tellings};
use super::rule::{in_set, is_quorum};
use super::state::{Action, State, bit};
use super::{Missing, Progress};

/// Lists all steps that are possible in a state.
pub(super) fn list(model: &Progress, s: &State, actions: &mut Vec<Action>) {
    if s.removed.is_some() {
        return;
    }
    let members = || 0..model.members as u8;
    for me in members().filter(|m| s.now().acts(*m)) {
        for whom in members().filter(|m| *m != me) {
            for kind in Kind::ALL {
                let suspected = s.records[usize::from(me)].suspects[kind as usize] & 1 << whom != 0;
                let fails = probe_fails(model, s, me, whom, kind);
                if !suspected && lags(model, s, me, whom, kind) && may_suspect(model, s, me) {
                    actions.push(Action::Suspect(me, whom, kind));
                }
                if !suspected && !fails && s.alarms > 0 {
                    actions.push(Action::Alarm(me, whom, kind));
                }
                if suspected && !fails && !model.lacks(Missing::UndeliveredSuspects) {
                    actions.push(Action::TakeBack(me, whom, kind));
                }
            }
        }
        if !model.lacks(Missing::OnlyEndsProbe) && answer(model, s, usize::from(me)).is_some() {
            actions.push(Action::Answer(me));
        }
        removals(model, s, usize::from(me), actions);
    }
    if model.heals && !s.is_over && !s.records.iter().all(super::state::Record::is_empty) {
        actions.push(Action::Heal);
    }
}

/// Whether a member waits in vain for something that another owes it.
fn lags(model: &Progress, s: &State, me: u8, whom: u8, kind: Kind) -> bool {
    let others = || 0..model.members as u8;
    let stuck = kind == Kind::Data && others().any(|m| m != me && s.now().fails(whom, m, kind));
    // Long packets are suspected only where short ones pass; otherwise the suspicion would add nothing.
    let told = match kind {
        Kind::LongAsk => s.now().fails(me, whom, Kind::Ask),
        Kind::LongData => s.now().fails(me, whom, Kind::Data),
        Kind::Beat | Kind::Ask | Kind::Data => false,
    };
    (s.now().fails(me, whom, kind) && !told) || (stuck && model.lacks(Missing::UndeliveredSuspects))
}

/// A suspicion that no other member learns of affects no one else, so it is not bounded.
fn may_suspect(model: &Progress, s: &State, me: u8) -> bool {
    let told = (0..model.members as u8).any(|m| m != me && s.now().acts(m) && s.now().tells(me, m));
    s.suspicions > 0 || !told
}

fn probe_fails(model: &Progress, s: &State, me: u8, whom: u8, kind: Kind) -> bool {
    let kind = if model.lacks(Missing::ProbesOtherwise) { Kind::Beat } else { kind };
    s.now().fails(me, whom, kind)
}

/// A member's record after it probed the ends of all suspected links that it knows; `None`: nothing new.
fn answer(model: &Progress, s: &State, me: usize) -> Option<super::state::Record> {
    let mut record = s.records[me];
    for by in in_set(audible(model, s, me)) {
        for kind in Kind::ALL {
            for whom in in_set(model.edges(&s.records[by])[kind as usize]) {
                if whom == me && !model.lacks(Missing::EndsWait) {
                    continue;
                }
                let at = kind as usize;
                record.answered[at] |= bit(by, whom);
                let both = [Some(whom), (!model.lacks(Missing::OneEndProbed)).then_some(by)];
                for end in both.into_iter().flatten() {
                    if probe_fails(model, s, me as u8, end as u8, kind) {
                        record.failed[at] |= 1 << end;
                        record.suspects[at] |= 1 << end;
                    }
                }
            }
        }
    }
    (record != s.records[me]).then_some(record)
}

/// Lists the sets that a coordinator may remove, by any knowledge that it may have by now.
fn removals(model: &Progress, s: &State, me: usize, actions: &mut Vec<Action>) {
    let heard = model.all() & !s.records[me].failed[Kind::Beat as usize];
    if !is_quorum(heard, model.all()) {
        return;
    }
    for told in tellings(model, s, me) {
        let Some(goes) = judges(model, s, me, told) else { continue };
        let action = Action::Remove(me as u8, goes);
        let may = goes != 0 && goes & 1 << me == 0 && is_quorum(model.all() & !goes, model.all());
        if may && !actions.contains(&action) && gets_through(model, s, me, goes) {
            actions.push(action);
        }
    }
}

/// The state after a step.
pub(super) fn next(model: &Progress, state: &State, action: Action) -> Option<State> {
    let mut s = state.clone();
    match action {
        Action::Suspect(me, whom, kind) => {
            let told = (0..model.members as u8).any(|m| m != me && s.now().acts(m) && s.now().tells(me, m));
            s.suspicions -= u8::from(told);
            let fails = probe_fails(model, &s, me, whom, kind) || model.lacks(Missing::UndeliveredSuspects);
            let record = &mut s.records[usize::from(me)];
            record.suspects[kind as usize] |= 1 << whom;
            record.failed[kind as usize] |= u8::from(fails) << whom;
        }
        Action::Alarm(me, whom, kind) => {
            s.alarms -= 1;
            s.records[usize::from(me)].suspects[kind as usize] |= 1 << whom;
        }
        Action::TakeBack(me, whom, kind) => {
            let record = &mut s.records[usize::from(me)];
            record.suspects[kind as usize] &= !(1 << whom);
            record.failed[kind as usize] &= !(1 << whom);
            // An answer names a suspicion by its number, and the next suspicion has another.
            for record in &mut s.records {
                record.answered[kind as usize] &= !bit(usize::from(me), usize::from(whom));
            }
        }
        Action::Answer(me) => s.records[usize::from(me)] = answer(model, &s, usize::from(me))?,
        Action::Heal => s.is_over = true,
        Action::Remove(by, goes) => s.removed = Some((by, goes)),
    }
    (s != *state).then_some(s)
}
