//! The steps of the model of levels.

use super::state::{Phase, Try, View};
use super::{Action, Levels, Missing, State};
use crate::rules::Rules;

const RULES: Rules = Rules { without: None };

/// Lists all actions that may be possible in a state; [`next`] decides which are.
pub(super) fn list(model: &Levels, s: &State, actions: &mut Vec<Action>) {
    let living = || (0..model.processes()).filter(|&r| s.processes[r].lives);
    for at in living() {
        let p = &s.processes[at];
        actions.extend((1..=model.decrees).map(|decree| Action::Learn(at, decree)));
        if p.view == 0 {
            continue;
        }
        actions.extend([Action::Command(at), Action::Tell(at)]);
        actions.extend((1..=p.view).map(|view| Action::Hear(at, view)));
        if usize::from(p.view) > model.decrees {
            continue;
        }
        actions.extend((1..1 << model.processes()).filter(|set| set & 1 << at != 0).map(|set| Action::Start(at, set)));
        actions.extend([0].into_iter().chain((0..model.processes()).map(|r| 1 << r)).map(|j| Action::Propose(at, j)));
        actions.push(Action::Decide(at));
        for number in 1..=(model.rounds * model.processes()) as u8 {
            actions.extend([Action::Report(at, number), Action::Accept(at, number)]);
        }
    }
    if s.crashes < model.crashes {
        actions.extend(living().map(Action::Crash));
    }
}

/// The state after an action; `None` if it is not possible, or changes nothing.
pub(super) fn next(model: &Levels, state: &State, action: Action) -> Option<State> {
    let mut next = state.clone();
    let s = &mut next;
    let done = match action {
        Action::Command(at) => command(model, s, at),
        Action::Tell(at) => tell(s, at),
        Action::Hear(at, view) => hear(model, s, at, view),
        Action::Start(by, asked) => start(model, s, by, asked),
        Action::Report(at, ballot) => report(s, at, ballot),
        Action::Propose(by, joiners) => propose(model, s, by, joiners),
        Action::Accept(at, ballot) => accept(model, s, at, ballot),
        Action::Decide(by) => decide(model, s, by),
        Action::Learn(at, decree) => learn(model, s, at, decree),
        Action::Crash(at) => {
            s.crashes += 1;
            s.processes[at].lives = false;
            let p = &mut s.processes[at];
            (p.promised, p.accepted, p.current, p.wish) = (0, 0, 0, 0);
            true
        }
    };
    (done && next != *state).then_some(next)
}

fn view_of(s: &State, at: usize) -> View {
    s.view(s.processes[at].view).copied().unwrap_or_default()
}

/// Whether a request makes sense in a process's view: the level is not reached, and every member can follow.
fn may_wish(model: &Levels, s: &State, at: usize) -> bool {
    let view = view_of(s, at);
    let follow = model.can_follow(view.members, 2) || model.lacks(Missing::OnlyStayersCount);
    view.level < 2 && follow
}

fn command(model: &Levels, s: &mut State, at: usize) -> bool {
    if s.commands >= model.commands || s.processes[at].wish != 0 || !may_wish(model, s, at) {
        return false;
    }
    s.commands += 1;
    s.processes[at].wish = s.processes[at].view;
    true
}

fn tell(s: &mut State, at: usize) -> bool {
    let p = s.processes[at];
    let told = &mut s.told[usize::from(p.view) - 1];
    if p.wish == 0 || *told != 0 {
        return false;
    }
    *told = p.wish;
    true
}

fn hear(model: &Levels, s: &mut State, at: usize, view: u8) -> bool {
    let told = s.told[usize::from(view) - 1];
    let now = s.processes[at].view == view || model.lacks(Missing::OldWishCounts);
    if told == 0 || !now || s.processes[at].wish != 0 || !may_wish(model, s, at) {
        return false;
    }
    s.processes[at].wish = told;
    true
}

fn decree_of(s: &State, at: usize) -> usize {
    usize::from(s.processes[at].view) - 1
}

fn is_quorum(view: &View, present: u8) -> bool {
    let lowest = view.members & view.members.wrapping_neg();
    let present = present & view.members;
    RULES.is_quorum(present.count_ones() as usize, view.members.count_ones() as usize, present & lowest != 0)
}

fn start(model: &Levels, s: &mut State, by: usize, asked: u8) -> bool {
    let (view, decree) = (view_of(s, by), decree_of(s, by));
    let begun = s.tries[decree].iter().filter(|t| t.phase != Phase::None).count();
    if asked & !view.members != 0 || !is_quorum(&view, asked) || begun >= model.ballots {
        return false;
    }
    let of = model.processes() as u8;
    let seen = s.processes[by].promised.max(s.processes[by].current);
    let round = if seen == 0 { 1 } else { (seen - 1) / of + 2 };
    if usize::from(round) > model.rounds {
        return false;
    }
    let ballot = (round - 1) * of + by as u8 + 1;
    s.processes[by].current = ballot;
    s.tries[decree][usize::from(ballot) - 1] = Try { phase: Phase::Gathering, asked, ..Try::default() };
    report(s, by, ballot)
}

fn report(s: &mut State, at: usize, ballot: u8) -> bool {
    let decree = decree_of(s, at);
    let p = &mut s.processes[at];
    let t = &mut s.tries[decree][usize::from(ballot) - 1];
    let asks = t.phase == Phase::Gathering && t.asked & !t.reported & 1 << at != 0;
    if !asks || !RULES.promises(p.promised, ballot) {
        return false;
    }
    p.promised = ballot;
    if p.current < ballot {
        p.current = 0;
    }
    t.reported |= 1 << at;
    t.had_accepted[at] = p.accepted;
    true
}

fn propose(model: &Levels, s: &mut State, by: usize, joiners: u8) -> bool {
    let (decree, p) = (decree_of(s, by), s.processes[by]);
    if p.current == 0 {
        return false;
    }
    let t = s.tries[decree][usize::from(p.current) - 1];
    if t.phase != Phase::Gathering || t.reported != t.asked {
        return false;
    }
    let had = t.had_accepted.iter().filter(|&&a| a != 0);
    let adopted = RULES.adopted(had.map(|&a| (a, s.tries[decree][usize::from(a) - 1].proposal)));
    let proposal = match adopted {
        Some(_) if joiners != 0 => return false,
        Some(proposal) => adopt(model, s, by, proposal),
        None => match build(model, s, by, t.reported, joiners) {
            Some(proposal) => proposal,
            None => return false,
        },
    };
    let t = &mut s.tries[decree][usize::from(p.current) - 1];
    (t.phase, t.proposal, t.had_accepted) = (Phase::Proposing, proposal, Default::default());
    accept(model, s, by, p.current); // refused only if it proposes what no acceptor may take
    true
}

/// The proposal of a coordinator that found an accepted one: the same.
fn adopt(model: &Levels, s: &State, by: usize, mut proposal: View) -> View {
    if model.lacks(Missing::EncodesAgain) && model.builds[by] < 2 {
        (proposal.settings, proposal.records) = (0, 0);
    }
    if model.lacks(Missing::LevelInForceAtAdoption) {
        proposal.level = view_of(s, by).level;
    }
    proposal
}

/// The proposal of a coordinator that found no accepted one: the members that reported, a joiner, and the requested
/// level.
fn build(model: &Levels, s: &State, by: usize, reported: u8, joiners: u8) -> Option<View> {
    let (view, p) = (view_of(s, by), s.processes[by]);
    let news = |r: usize| joiners & 1 << r == 0 || (s.processes[r].lives && s.processes[r].view == 0);
    if !(0..model.processes()).all(news) || joiners & was_member(model, s, p.view) != 0 {
        return None;
    }
    let members = reported | joiners;
    let least = model.lacks(Missing::LeastOfMembers) || model.lacks(Missing::WrongCoordinators);
    let mut level = view.level;
    let mut wished = p.wish;
    if least {
        (level, wished) = (model.least(members), p.view);
    } else if p.wish != 0 {
        let present = model.can_follow(view.members, 2) || model.lacks(Missing::OnlyStayersCount);
        let next = model.can_follow(members, 2) || model.lacks(Missing::OnlyPresentCount);
        // A joiner that cannot follow waits, and is refused after the rise.
        if joiners != 0 && present && !next && model.can_follow(reported, 2) {
            return None;
        }
        level = if present && next { 2 } else { level };
    }
    let any = least || model.lacks(Missing::AnyJoiner) || model.lacks(Missing::OnlyPresentCount);
    if !any && !model.can_follow(joiners, level) {
        return None; // refused: below the level in force
    }
    let settings = if level > view.level { by as u8 + 1 } else { 0 };
    let records = (0..model.processes()).filter(|&r| joiners & 1 << r != 0 && model.builds[r] > 1);
    let records = records.fold(0, |set, r| set | 1 << r);
    let wished = if level > view.level { wished } else { 0 };
    Some(View { origin: p.current, members, level, settings, records, wished })
}

/// All members of the views up to that one.
fn was_member(model: &Levels, s: &State, up_to: u8) -> u8 {
    (1..=up_to.min(model.decrees as u8 + 1)).filter_map(|v| s.view(v)).fold(0, |set, view| set | view.members)
}

fn accept(model: &Levels, s: &mut State, at: usize, ballot: u8) -> bool {
    let (view, decree) = (view_of(s, at), decree_of(s, at));
    let t = s.tries[decree][usize::from(ballot) - 1];
    let asks = t.phase >= Phase::Proposing && t.asked & !t.accepters & 1 << at != 0;
    if !asks || !RULES.accepts(s.processes[at].promised, ballot) || !accepts_level(model, &view, &t.proposal) {
        return false;
    }
    let p = &mut s.processes[at];
    (p.promised, p.accepted) = (ballot, ballot);
    if p.current < ballot {
        p.current = 0;
    }
    s.tries[decree][usize::from(ballot) - 1].accepters |= 1 << at;
    true
}

/// Whether an acceptor accepts a proposal's level. A rule that is missing is missing here too.
fn accepts_level(model: &Levels, view: &View, next: &View) -> bool {
    match model.missing {
        Some(Missing::LeastOfMembers | Missing::AcceptsAnyLevel | Missing::AnyJoiner) => true,
        Some(Missing::OnlyStayersCount) => next.level >= view.level && model.can_follow(next.members, next.level),
        Some(Missing::OnlyPresentCount) => next.level >= view.level && model.can_follow(view.members, next.level),
        _ => model.may_follow(view, next),
    }
}

fn decide(model: &Levels, s: &mut State, by: usize) -> bool {
    let (view, decree, current) = (view_of(s, by), decree_of(s, by), s.processes[by].current);
    if current == 0 {
        return false;
    }
    let t = &mut s.tries[decree][usize::from(current) - 1];
    if t.phase != Phase::Proposing || !is_quorum(&view, t.accepters) {
        return false;
    }
    t.phase = Phase::Decided;
    learn(model, s, by, decree + 1);
    true
}

fn learn(model: &Levels, s: &mut State, at: usize, decree: usize) -> bool {
    let Some(view) = s.decisions(decree).next().copied() else { return false };
    let is_member = view.members & 1 << at != 0;
    let (is_next, joins) = (s.processes[at].view == decree as u8, s.processes[at].view == 0 && is_member);
    if !is_next && !joins {
        return false;
    }
    let p = &mut s.processes[at];
    (p.promised, p.accepted, p.current) = (0, 0, 0);
    if is_member {
        p.view = decree as u8 + 1;
    } else {
        (p.lives, p.wish) = (false, 0); // it learns that it is excluded
    }
    let stays = may_wish(model, s, at) || (view.level < 2 && model.lacks(Missing::WishOutlives));
    if !stays {
        s.processes[at].wish = 0;
    }
    true
}
