//! The steps of the model of orphans.

use super::state::{Entry, Process, View};
use super::{Action, Missing, Orphans, State};

/// Lists all actions that may be possible in a state; [`next`] decides which are.
pub(super) fn list(model: &Orphans, s: &State, actions: &mut Vec<Action>) {
    for m in 0..model.messages.len() {
        actions.push(Action::Send(m));
        actions.extend((0..model.processes).flat_map(|p| [Action::Receive(p, m), Action::Deliver(p, m)]));
    }
    for p in 0..model.processes {
        actions.extend([
            Action::Learn(p),
            Action::LearnOut(p),
            Action::Complete(p),
            Action::Crash(p),
            Action::Prove(p),
            Action::Start(p),
            Action::Return(p),
            Action::Drop(p),
            Action::CatchUp(p),
            Action::Revive(p),
            Action::Decline(p),
            Action::Found(p),
            Action::Wrong(p),
        ]);
    }
    if s.entry != Entry::Live {
        return;
    }
    let all = 1_u8 << model.processes;
    for stay in (0..all).filter(|stay| stay & !s.last().members == 0) {
        let leavers = (0..model.processes).map(|p| 1 << p).filter(|leaves| leaves & s.last().members & !stay != 0);
        for leaves in std::iter::once(0).chain(leavers) {
            actions.push(Action::Decree { stay, leaves, joins: None });
            for joiner in 0..model.processes {
                let donors = (0..model.processes).filter(|d| stay & 1 << d != 0);
                actions.extend(donors.map(|d| Action::Decree { stay, leaves, joins: Some((joiner, d)) }));
            }
        }
    }
}

/// The state after an action; `None` if it is not possible, or changes nothing.
pub(super) fn next(model: &Orphans, state: &State, action: Action) -> Option<State> {
    let mut next = state.clone();
    let s = &mut next;
    let done = match action {
        Action::Send(m) => send(model, s, m),
        Action::Receive(p, m) => receive(model, s, p, m),
        Action::Deliver(p, m) => deliver(model, s, p, m),
        Action::Decree { stay, leaves, joins } => decree(model, s, stay, leaves, joins),
        Action::Learn(p) => learn(model, s, p),
        Action::LearnOut(p) => learn_out(s, p),
        Action::Complete(p) => complete(model, s, p),
        Action::Crash(p) => crash(model, s, p),
        Action::Prove(p) => prove(s, p),
        Action::Start(p) => start(model, s, p),
        Action::Return(p) => come_back(model, s, p),
        Action::Drop(p) => drop_again(s, p),
        Action::CatchUp(p) => !model.lacks(Missing::SkipsOrphanedView) && catch_up(model, s, p),
        Action::Revive(p) => revive(model, s, p),
        Action::Decline(p) => decline(model, s, p),
        Action::Found(p) => found(model, s, p),
        Action::Wrong(p) => wrong(model, s, p),
    };
    (done && next != *state).then_some(next)
}

/// The messages of `of` that can be delivered after `done`: those whose causal past can be delivered too.
fn with_past(s: &State, done: u8, of: u8) -> u8 {
    let mut all = done;
    loop {
        let before = all;
        for (m, message) in s.messages.iter().enumerate() {
            if of & 1 << m != 0 && message.past & !all == 0 {
                all |= 1 << m;
            }
        }
        if all == before {
            return all;
        }
    }
}

/// Delivers plain messages whose past is delivered. A message that arrived after a report waits until the decree is
/// learned.
fn deliver_plain(model: &Orphans, s: &mut State, p: usize) {
    let process = s.processes[p];
    let mut plain = process.received & !model.uniform();
    for (m, _) in s.messages.iter().enumerate().filter(|(_, message)| message.acked & 1 << p == 0) {
        plain &= !(1 << m);
    }
    s.processes[p].delivered = with_past(s, process.delivered, plain);
    record(model, s, p);
}

/// Records the uniform messages that were delivered to the application.
fn record(model: &Orphans, s: &mut State, p: usize) {
    let process = &s.processes[p];
    if process.complete {
        s.uniform |= (process.base | process.delivered) & model.uniform();
    }
}

fn send(model: &Orphans, s: &mut State, m: usize) -> bool {
    let (sender, uniform) = model.messages[m];
    let p = s.processes[sender];
    let earlier = (0..m).filter(|&e| model.messages[e].0 == sender);
    let mut past = p.delivered;
    for e in earlier {
        match s.messages[e].view {
            0 => return false,
            view if view == p.view => past |= 1 << e,
            _ => {}
        }
    }
    if !p.lives || p.frozen || p.wedged || p.view == 0 || !p.complete || s.messages[m].view != 0 {
        return false;
    }
    s.messages[m].view = p.view;
    s.messages[m].past = past;
    s.messages[m].acked = 1 << sender;
    s.processes[sender].received |= 1 << m;
    if !uniform {
        deliver_plain(model, s, sender);
    }
    true
}

/// Whether a process that is out stays active in its view all the same.
fn goes_on(model: &Orphans, s: &State, p: usize) -> bool {
    let donor = s.last().holders != 0 && s.last().members & 1 << p != 0;
    model.lacks(Missing::FrozenAcknowledges) || (model.lacks(Missing::FreezesAsDonor) && !donor)
}

fn receive(model: &Orphans, s: &mut State, at: usize, m: usize) -> bool {
    let p = s.processes[at];
    let stops = p.frozen && !goes_on(model, s, at);
    if !p.lives || stops || p.view == 0 || s.messages[m].view != p.view || p.received & 1 << m != 0 {
        return false;
    }
    let sender = model.messages[m].0;
    let mut earlier = (0..m).filter(|&e| model.messages[e].0 == sender && s.messages[e].view == p.view);
    if !earlier.all(|e| p.received & 1 << e != 0) {
        return false;
    }
    s.processes[at].received |= 1 << m;
    if !p.wedged {
        s.messages[m].acked |= 1 << at;
        deliver_plain(model, s, at);
    }
    true
}

/// Whether all members of its view acknowledged a message and its past.
fn is_stable(s: &State, m: usize) -> bool {
    let Some(view) = s.view(s.messages[m].view) else { return false };
    let needed = s.messages[m].past | 1 << m;
    (0..s.messages.len()).filter(|n| needed & 1 << n != 0).all(|n| view.members & !s.messages[n].acked == 0)
}

fn deliver(model: &Orphans, s: &mut State, at: usize, m: usize) -> bool {
    let p = s.processes[at];
    let stops = p.frozen && !goes_on(model, s, at);
    let due = model.messages[m].1 && p.view != 0 && s.messages[m].view == p.view && p.delivered & 1 << m == 0;
    if !p.lives || stops || !due || s.messages[m].past & !p.delivered != 0 || !is_stable(s, m) {
        return false;
    }
    s.processes[at].delivered |= 1 << m;
    deliver_plain(model, s, at);
    true
}

/// Whether a member counts as complete, by its report or by what a missing rule puts in its place.
fn counts_as_complete(model: &Orphans, s: &State, p: usize) -> bool {
    match model.missing {
        Some(Missing::BelievedComplete) => true,
        Some(Missing::ObserverCarriesOn) => s.processes[p].complete || model.observes(p),
        Some(Missing::IncompleteByLastDecree) => s.last().incomplete & 1 << p == 0,
        _ => s.processes[p].complete,
    }
}

fn decree(model: &Orphans, s: &mut State, stay: u8, leaves: u8, joins: Option<(usize, usize)>) -> bool {
    let view = *s.last();
    let is_in = |set: u8, p: usize| set & 1 << p != 0;
    let reported = |s: &State, p: usize| {
        let process = &s.processes[p];
        process.lives && process.in_cell && !process.frozen && process.view == s.decided
    };
    if s.entry != Entry::Live || stay & !view.members != 0 || leaves & (stay | !view.members) != 0 {
        return false;
    }
    let is_held =
        leaves != 0 && stay != 0 && (0..model.processes).filter(|&p| is_in(stay, p)).all(|p| model.observes(p));
    if is_held && model.lacks(Missing::LeaveWaitsForObserver) {
        return false;
    }
    if !(0..model.processes).filter(|&p| is_in(stay | leaves, p)).all(|p| reported(s, p)) {
        return false;
    }
    if (stay == view.members && joins.is_none()) || (leaves != 0 && s.leaves >= model.leaves) {
        return false;
    }
    let of = |set: u8| (0..model.processes).filter(move |&p| is_in(set, p));
    let complete = of(stay).filter(|&p| counts_as_complete(model, s, p)).fold(0, |set, p| set | 1 << p);
    if let Some((joiner, donor)) = joins {
        let p = &s.processes[joiner];
        let waits = p.lives && p.in_cell && p.frozen && !is_in(view.members, joiner);
        let gives = is_in(complete, donor) || model.lacks(Missing::ObserverGives) && model.observes(donor);
        if !waits || !gives {
            return false;
        }
    }
    // All members that stay or are excluded reported: they are wedged until they learn the decree.
    let cut = of(stay).fold(0, |set, p| set | s.processes[p].received);
    if complete != 0 && s.decided >= model.views {
        return false;
    }
    s.leaves += u8::from(leaves != 0);
    for p in of(view.members & !stay) {
        s.processes[p].joins = 0;
        s.processes[p].left = is_in(leaves, p);
        s.processes[p].in_cell = is_in(leaves, p);
    }
    for p in of(stay) {
        s.processes[p].wedged = true;
    }
    if complete == 0 {
        let known = if model.lacks(Missing::HoldersKnownComplete) { !view.incomplete } else { !0 };
        let mut holders =
            of(view.members & !stay & !leaves & known & !model.observers).filter(|&p| !s.processes[p].proved);
        let holders = holders.by_ref().fold(0, |set, p| set | 1 << p);
        let ends = holders == 0 || model.lacks(Missing::EndsWhenDropped);
        s.entry = if ends { Entry::Free } else { Entry::Orphan(holders) };
        return true;
    }
    for p in of(stay) {
        s.processes[p].received |= cut;
    }
    let joined = joins.map_or(0, |(joiner, _)| 1 << joiner);
    let start = view.start | with_past(s, 0, cut);
    let incomplete = of(stay & !complete).fold(joined, |set, p| set | 1 << p);
    s.views[usize::from(s.decided) - 1].cut = cut;
    let next = View { life: view.life, members: stay | joined, joined, incomplete, start, ..View::default() };
    s.views[usize::from(s.decided)] = next;
    s.decided += 1;
    if let Some((joiner, donor)) = joins {
        (s.processes[joiner].joins, s.processes[joiner].donor) = (s.decided, donor as u8);
    }
    true
}

/// Makes a process begin a view with the given state.
fn install(model: &Orphans, s: &mut State, at: usize, view: u8, base: u8) {
    let p = &mut s.processes[at];
    (p.view, p.base, p.joins) = (view, base, 0);
    (p.received, p.delivered) = (0, 0);
    (p.wedged, p.frozen, p.left, p.late, p.again) = (false, false, false, false, false);
    record(model, s, at);
}

fn learn(model: &Orphans, s: &mut State, at: usize) -> bool {
    let p = s.processes[at];
    if !p.lives {
        return false;
    }
    if p.joins != 0 {
        // It discards its earlier state of the group.
        let joined = s.views[usize::from(p.joins) - 1];
        if p.view != 0 && p.complete && s.views[usize::from(p.view) - 1].life == joined.life {
            s.forgotten |= (p.base | p.delivered) & !joined.start;
        }
        s.processes[at].complete = false;
        install(model, s, at, p.joins, 0);
        return true;
    }
    let last = *s.last();
    let is_donor = p.frozen && p.in_cell && s.entry == Entry::Live && last.holders != 0 && last.members & 1 << at != 0;
    if is_donor {
        let number = s.decided;
        s.processes[at].complete = true;
        install(model, s, at, number, last.start);
        return true;
    }
    let (number, goes) = (p.view + 1, |view: &View| view.members & !view.joined & 1 << at != 0);
    if p.frozen || p.view == 0 || !s.view(number).is_some_and(goes) {
        return false;
    }
    deliver_to_cut(model, s, at, p.view);
    true
}

/// Moves a member of the view before to the next one.
fn deliver_to_cut(model: &Orphans, s: &mut State, at: usize, view: u8) {
    let p = s.processes[at];
    let mut upto = s.views[usize::from(view) - 1].cut;
    if model.lacks(Missing::PastTheCut) && p.frozen {
        upto = p.received;
    }
    if model.lacks(Missing::CutNotKept) && p.frozen {
        upto = 0;
    }
    let delivered = with_past(s, p.delivered, upto);
    install(model, s, at, view + 1, if p.complete { p.base | delivered } else { 0 });
}

fn learn_out(s: &mut State, at: usize) -> bool {
    let p = s.processes[at];
    if !p.lives || p.frozen || s.is_member(at) {
        return false;
    }
    let p = &mut s.processes[at];
    p.frozen = true;
    if p.in_cell {
        // It left, or has to: it discards its state.
        p.wedged = false;
        (p.view, p.complete, p.base, p.received, p.delivered) = (0, false, 0, 0, 0);
    }
    true
}

fn complete(model: &Orphans, s: &mut State, at: usize) -> bool {
    let p = s.processes[at];
    let donor = s.processes[usize::from(p.donor)];
    let gate = !p.wedged || model.lacks(Missing::CompletesAfterReport);
    let frozen = p.frozen && (p.in_cell || !model.lacks(Missing::CompletesWhenOut));
    let gives = donor.complete || model.lacks(Missing::ObserverGives) && model.observes(usize::from(p.donor));
    if !p.lives || frozen || p.view == 0 || p.complete || !gate || !gives || donor.view != p.view || model.observes(at)
    {
        return false;
    }
    (s.processes[at].complete, s.processes[at].base) = (true, donor.base);
    record(model, s, at);
    true
}

fn crash(model: &Orphans, s: &mut State, at: usize) -> bool {
    if s.crashes >= model.crashes || !s.processes[at].lives {
        return false;
    }
    s.crashes += 1;
    s.processes[at].lives = false;
    true
}

fn strike(s: &mut State, at: usize) {
    if let Entry::Orphan(holders) = s.entry {
        let holders = holders & !(1 << at);
        s.entry = if holders == 0 { Entry::Free } else { Entry::Orphan(holders) };
    }
}

fn prove(s: &mut State, at: usize) -> bool {
    if s.processes[at].lives || s.processes[at].proved {
        return false;
    }
    s.processes[at].proved = true;
    strike(s, at);
    true
}

fn start(model: &Orphans, s: &mut State, at: usize) -> bool {
    if s.processes[at].lives || s.is_member(at) || s.starts >= model.starts {
        return false;
    }
    s.starts += 1;
    s.processes[at] = Process { lives: true, frozen: true, ..Process::default() };
    true
}

fn come_back(model: &Orphans, s: &mut State, at: usize) -> bool {
    let p = &mut s.processes[at];
    if !p.lives || p.in_cell || !p.frozen || s.returns >= model.returns {
        return false;
    }
    s.returns += 1;
    p.in_cell = true;
    if p.view == 0 || model.lacks(Missing::StruckWhenBack) {
        strike(s, at); // a new start
    }
    true
}

fn drop_again(s: &mut State, at: usize) -> bool {
    if !is_back(s, at) || s.is_member(at) {
        return false;
    }
    let p = &mut s.processes[at];
    (p.in_cell, p.again) = (false, p.view != 0);
    true
}

fn is_back(s: &State, at: usize) -> bool {
    let p = &s.processes[at];
    p.lives && p.in_cell && p.frozen
}

fn is_holder(s: &State, at: usize) -> bool {
    matches!(s.entry, Entry::Orphan(holders) if holders & 1 << at != 0)
}

/// Whether it was in the orphaned view, had installed the one before, and holds the cut between them.
fn can_catch_up(s: &State, at: usize) -> bool {
    let (p, last) = (&s.processes[at], s.last());
    let before = p.view != 0 && p.view + 1 == s.decided;
    let goes = last.members & !last.joined & 1 << at != 0;
    before && goes && p.complete && s.views[usize::from(s.decided) - 2].cut & !p.received == 0
}

fn catch_up(model: &Orphans, s: &mut State, at: usize) -> bool {
    let possible = is_back(s, at) && is_holder(s, at) && can_catch_up(s, at) && !model.lacks(Missing::OnlyInstalled);
    if !possible {
        return false;
    }
    let before = s.processes[at].view;
    deliver_to_cut(model, s, at, before);
    (s.processes[at].frozen, s.processes[at].late) = (true, true);
    true
}

/// Whether a returned process may make the next view.
fn may_revive(model: &Orphans, s: &State, at: usize) -> bool {
    let p = &s.processes[at];
    let orphan = matches!(s.entry, Entry::Orphan(_));
    if !orphan || !is_back(s, at) || p.view == 0 {
        return false;
    }
    let listed = is_holder(s, at) && !(model.lacks(Missing::ListsOneIncarnation) && p.again);
    let installed = p.view == s.decided;
    let worded = listed && p.complete && installed;
    match model.missing {
        Some(Missing::IncompleteDonor) => listed && installed,
        Some(Missing::LongestPrefix) => {
            let holds = |p: &Process| (p.base | p.delivered | p.received).count_ones();
            let back = (0..model.processes).filter(|&q| is_back(s, q) && s.processes[q].complete);
            p.complete && back.map(|q| holds(&s.processes[q])).max() == Some(holds(p))
        }
        Some(Missing::OlderView) => worded || (p.complete && p.view + 1 == s.decided),
        Some(Missing::SkipsOrphanedView) => worded || (listed && can_catch_up(s, at)),
        _ => worded,
    }
}

fn revive(model: &Orphans, s: &mut State, at: usize) -> bool {
    let Entry::Orphan(holders) = s.entry else { return false };
    if !may_revive(model, s, at) || s.decided >= model.views {
        return false;
    }
    let p = s.processes[at];
    let holds = match model.missing {
        Some(Missing::HeldIsDropped) => p.delivered,
        Some(Missing::SkipsOrphanedView) if p.view < s.decided => s.views[usize::from(p.view) - 1].cut,
        _ => p.received,
    };
    let start = p.base | with_past(s, p.delivered, holds);
    // From now on the donor's frozen prefixes are the cut of the orphaned view.
    s.views[usize::from(s.decided) - 1].cut = if p.view == s.decided { holds } else { 0 };
    let late = p.late || p.view < s.decided;
    let life = s.last().life;
    let members = 1 << at;
    s.views[usize::from(s.decided)] = View { life, members, start, holders, late, ..View::default() };
    s.decided += 1;
    s.entry = Entry::Live;
    true
}

/// A returned holder that lacks a part of the state declines.
fn decline(model: &Orphans, s: &mut State, at: usize) -> bool {
    let late = can_catch_up(s, at) && !model.lacks(Missing::OnlyInstalled);
    if !is_back(s, at) || !is_holder(s, at) || may_revive(model, s, at) || late || model.lacks(Missing::NeverDeclines) {
        return false;
    }
    strike(s, at);
    true
}

fn found(model: &Orphans, s: &mut State, at: usize) -> bool {
    if model.observes(at) && !model.lacks(Missing::ObserverFounds) {
        return false;
    }
    let free = s.entry == Entry::Free || (s.entry != Entry::Live && model.lacks(Missing::NameIsFree));
    if !free || !is_back(s, at) || s.decided >= model.views {
        return false;
    }
    s.usurped |= (0..model.processes).any(|p| s.has_state(p));
    let life = s.last().life + 1;
    s.views[usize::from(s.decided)] = View { life, members: 1 << at, ..View::default() };
    s.decided += 1;
    s.entry = Entry::Live;
    s.processes[at].complete = !model.observes(at);
    let number = s.decided;
    install(model, s, at, number, 0);
    true
}

/// Steps that only a missing rule allows.
fn wrong(model: &Orphans, s: &mut State, at: usize) -> bool {
    let p = s.processes[at];
    match model.missing {
        Some(Missing::DeliversBeforeDecree) => {
            if !is_back(s, at) || !may_revive(model, s, at) {
                return false;
            }
            s.processes[at].delivered = with_past(s, p.delivered, p.received);
            record(model, s, at);
            true
        }
        Some(Missing::ManyDonors) => {
            let next = p.view + 1;
            let revived = s.entry == Entry::Live && next == s.decided && s.last().holders & 1 << at != 0;
            if !is_back(s, at) || !p.complete || p.view == 0 || !revived || s.last().members & 1 << at != 0 {
                return false;
            }
            let base = p.base | with_past(s, p.delivered, p.received);
            install(model, s, at, next, base);
            true
        }
        Some(Missing::StruckWhenSilent) => {
            if !is_holder(s, at) || p.in_cell {
                return false;
            }
            strike(s, at);
            true
        }
        _ => false,
    }
}
