//! The effects of the actions, by the rules. Messages are not queued: the receiver of one reads what its sender put on
//! record, at any later time or never. That covers delay, loss and reordering, and messages of processes that died
//! since.

use super::action::Action;
use super::config::{Config, Wish};
use super::flow;
use super::judge::judge;
use super::state::{BROKE_SURVIVORS, Phase, Proposal, State, Try};
use crate::rules::Mutant;

/// The state after an action; `None` if it is not possible, or changes nothing.
#[must_use]
pub(super) fn next(config: &Config, state: &State, action: Action) -> Option<State> {
    let mut next = state.clone();
    let s = &mut next;
    let done = match action {
        Action::Send { stream } => flow::send(config, s, stream),
        Action::Arrive { at, stream, packet } => {
            let new = flow::arrive(config, s, at, stream, packet);
            if new {
                try_install(config, s, at);
            }
            new
        }
        Action::Acknowledge { at, stream } => flow::acknowledge(config, s, at, stream),
        Action::TellStable { at, stream } => flow::tell_stable(config, s, at, stream),
        Action::Start { by, asked } => start(config, s, by, asked),
        Action::Report { ballot, at } => s.ballot(ballot).reported & 1 << at == 0 && report(config, s, ballot, at),
        Action::ReportFilled { ballot, at } => {
            lacking(config, s.ballot(ballot)) & 1 << at != 0
                && has_filled(config, s, ballot, at)
                && report(config, s, ballot, at)
        }
        Action::Fix { ballot } => fix(config, s, ballot),
        Action::Propose { ballot } => {
            drives(config, s, ballot) && lacking(config, s.ballot(ballot)) == 0 && judge(config, s, ballot) && {
                propose(config, s, ballot);
                true
            }
        }
        Action::Accept { ballot, at } => accept(config, s, ballot, at),
        Action::Refuse { ballot, at } => refuse(config, s, ballot, at),
        Action::Decide { ballot } => {
            let enough = config.is_quorum(s.ballot(ballot).accepters);
            enough && drives(config, s, ballot) && {
                s.ballot_mut(ballot).phase = Phase::Decided;
                learn(config, s, ballot, config.coordinator_of(ballot));
                true
            }
        }
        Action::Learn { ballot, at } => learn(config, s, ballot, at),
        Action::Crash { at } => {
            s.crashes += 1;
            stop(s, at);
            true
        }
    };
    (done && next != *state).then_some(next)
}

/// Whether the coordinator of a ballot still drives it.
fn drives(config: &Config, s: &State, ballot: u8) -> bool {
    let member = &s.members[config.coordinator_of(ballot)];
    member.lives && member.current == ballot
}

/// Ends a member's memory. Its deliveries and acknowledgements stay on record.
fn stop(s: &mut State, at: usize) {
    let current = s.members[at].current;
    abandon(s, current);
    let m = &mut s.members[at];
    let (installed, delivered, acked) = (m.installed, m.delivered, m.acked);
    let decided = if installed { m.decided } else { 0 };
    *m = super::state::Member { installed, decided, delivered, acked, ..Default::default() };
}

/// Marks a ballot as without a coordinator. Its reports are discarded; promises made in it stand.
fn abandon(s: &mut State, ballot: u8) {
    if ballot == 0 {
        return;
    }
    let b = s.ballot_mut(ballot);
    if matches!(b.phase, Phase::Gathering | Phase::Filling) {
        *b = Try { phase: Phase::GivenUp, asked: b.asked, reported: b.reported, ..Try::default() };
    }
}

/// `Process::yield_to`: a member that sees a later ballot gives up its own earlier one.
fn yield_to(config: &Config, s: &mut State, at: usize, ballot: u8) {
    let m = &mut s.members[at];
    m.round = m.round.max(config.round_of(ballot));
    if m.current != 0 && m.current < ballot {
        let current = std::mem::take(&mut m.current);
        abandon(s, current);
    }
}

fn start(config: &Config, s: &mut State, by: usize, asked: u8) -> bool {
    let m = s.members[by];
    let all = (1_u8 << config.processes) - 1;
    let nonsense = s.members.iter().any(|m| m.found != 0);
    let need = nonsense || asked != all || m.promised != 0 || config.wish != Wish::Nothing || config.leaver.is_some();
    let begun = s.ballots.iter().filter(|b| b.phase != Phase::None).count();
    if !need || m.decided != 0 || begun >= config.ballots || !config.is_quorum(asked) {
        return false;
    }
    let round = config.rules.next_round(m.round, config.round_of(m.promised));
    if usize::from(round) > config.rounds {
        return false;
    }
    let ballot = config.ballot(round, by);
    abandon(s, m.current);
    s.members[by].current = ballot;
    s.members[by].round = round;
    *s.ballot_mut(ballot) = Try { phase: Phase::Gathering, asked, ..Try::default() };
    report(config, s, ballot, by)
}

/// Whether a ballot concerns the group: a candidate is a member, or some process wants to join or leave it.
fn names_group(config: &Config, ballot: &Try) -> bool {
    let leaves = config.leaver.is_some_and(|l| config.is_member(l));
    let may_fail = !config.poisoned.is_empty();
    may_fail || config.wish == Wish::Group || leaves || config.group & !ballot.asked != 0
}

fn report(config: &Config, s: &mut State, ballot: u8, at: usize) -> bool {
    let m = &mut s.members[at];
    if m.installed || m.decided != 0 || !config.rules.promises(m.promised, ballot) {
        return false;
    }
    m.promised = ballot;
    yield_to(config, s, at, ballot);
    let named = names_group(config, s.ballot(ballot)) && config.is_member(at);
    let mut prefixes = [0; super::config::STREAMS];
    if named {
        prefixes = flow::wedge(config, s, at);
        s.members[at].wedged = config.rules.wedges();
    }
    let m = s.members[at];
    let read = if config.rules.lacks(Mutant::JudgeByDelivered) { m.delivered } else { m.parsed };
    let b = s.ballot_mut(ballot);
    b.reported |= 1 << at;
    if matches!(b.phase, Phase::Gathering | Phase::Filling) {
        b.had_accepted[at] = m.accepted;
        b.prefixes[at] = prefixes;
        if named && !config.poisoned.is_empty() {
            b.read[at] = read;
            for (stream, found) in b.found.iter_mut().enumerate().filter(|(stream, _)| m.found & 1 << stream != 0) {
                // Reported together with the prefix that ends before it.
                *found |= u8::from(prefixes[stream] < m.prefix(stream)) << at;
            }
        }
    }
    if named && !config.rules.wedges() {
        flow::settle(config, s, at);
    }
    true
}

/// `Coordinator::lacking`: the reporters that hold less than the cut, and did not report that they cannot read it.
fn lacking(config: &Config, ballot: &Try) -> u8 {
    let p = &ballot.proposal;
    let lacks = |r: &usize| {
        let could = |stream: &usize| ballot.found[*stream] & 1 << r == 0;
        let mut streams = (0..super::config::STREAMS).filter(could);
        let must = |stream| config.rules.must_fill(ballot.prefixes[*r][stream], p.cut[stream]);
        ballot.reported & !(p.anew | p.gone) & 1 << r != 0 && streams.any(must)
    };
    if !p.ends {
        return 0;
    }
    (0..config.processes).filter(|&r| config.is_member(r)).filter(lacks).fold(0, |set, r| set | 1 << r)
}

/// Whether a member that lacked a part of the cut holds it, or finds that it cannot read it.
fn has_filled(config: &Config, s: &State, ballot: u8, at: usize) -> bool {
    let cut = s.ballot(ballot).proposal.cut;
    let done =
        |stream: usize| s.members[at].found & 1 << stream != 0 || flow::held(config, s, at, stream) >= cut[stream];
    (0..super::config::STREAMS).all(done)
}

fn fix(config: &Config, s: &mut State, ballot: u8) -> bool {
    let b = s.ballot(ballot);
    let gathered = config.rules.has_gathered(b.reported == b.asked, config.is_quorum(b.reported));
    if !gathered || !drives(config, s, ballot) {
        return false;
    }
    let had = (0..config.processes).filter(|&r| b.reported & 1 << r != 0).map(|r| b.had_accepted[r]);
    let adopted = config.rules.adopted(had.filter(|&a| a != 0).map(|a| (a, s.ballot(a).proposal)));
    let own = 1 << config.coordinator_of(ballot);
    if let Some(mut proposal) = adopted {
        if config.rules.lacks(Mutant::MergeOwnChange) {
            proposal.changes |= own;
        }
        s.ballot_mut(ballot).proposal = proposal;
        propose(config, s, ballot); // its cut was filled before it was proposed first
        return true;
    }
    let proposal = Proposal { origin: ballot, changes: own, ..build(config, b) };
    if proposal.survivors & !b.reported != 0 {
        s.broken |= BROKE_SURVIVORS;
    }
    let b = s.ballot_mut(ballot);
    b.proposal = proposal;
    b.phase = Phase::Filling;
    if config.rules.lacks(Mutant::JudgeBeforeAllSaid) {
        judge(config, s, ballot);
    }
    if lacking(config, s.ballot(ballot)) == 0 && judge(config, s, ballot) {
        propose(config, s, ballot);
    }
    true
}

/// `build_proposal`: the members that stay, and the cut of the group's view.
fn build(config: &Config, b: &Try) -> Proposal {
    let has = |set: u8, r: usize| set & 1 << r != 0;
    let ranks = 0..config.processes;
    let survives = |r: &usize| config.rules.survives(has(b.asked, *r), has(b.reported, *r), config.leaver == Some(*r));
    let survivors = ranks.clone().filter(survives).fold(0, |set, r| set | 1 << r);
    let leavers =
        ranks.clone().filter(|&r| has(b.reported, r) && config.leaver == Some(r)).fold(0, |set, r| set | 1 << r);
    let named = names_group(config, b);
    let nonsense = b.found != [0; super::config::STREAMS];
    let ends = named && (nonsense || config.wish == Wish::Group || config.group & !survivors != 0);
    let reporters = || ranks.clone().filter(|&r| has(b.reported, r) && config.is_member(r));
    let mut cut = [0; super::config::STREAMS];
    if ends {
        for (stream, cut) in cut.iter_mut().enumerate() {
            *cut = config.rules.cut(reporters().map(|r| b.prefixes[r][stream]));
        }
    }
    Proposal { survivors, leavers, ends, cut, ..Proposal::default() }
}

fn propose(config: &Config, s: &mut State, ballot: u8) {
    let b = s.ballot_mut(ballot);
    b.phase = Phase::Proposing;
    // The reports are not needed any more; cleared, so that fewer states differ.
    b.had_accepted = Default::default();
    b.prefixes = Default::default();
    (b.read, b.found) = Default::default();
    accept(config, s, ballot, config.coordinator_of(ballot));
}

fn accept(config: &Config, s: &mut State, ballot: u8, at: usize) -> bool {
    let m = &mut s.members[at];
    let fresh = !m.installed && m.decided == 0 && m.accepted != ballot;
    if !fresh || !config.rules.accepts(m.promised, ballot) {
        return false;
    }
    m.promised = m.promised.max(ballot);
    m.accepted = ballot;
    yield_to(config, s, at, ballot);
    s.ballot_mut(ballot).accepters |= 1 << at;
    let proposal = s.ballot(ballot).proposal;
    if proposal.ends && config.is_member(at) {
        // The group's view stops here too, whichever ballot asked before.
        flow::wedge(config, s, at);
        s.members[at].wedged = config.rules.wedges();
        if config.rules.may_finish(false) && flow::holds(config, s, at, proposal.cut) {
            flow::finish(config, s, at, proposal.cut);
        }
    }
    if config.rules.lacks(Mutant::InstallBeforeDecision) {
        s.members[at].decided = ballot;
        try_install(config, s, at);
    }
    true
}

fn refuse(config: &Config, s: &mut State, ballot: u8, at: usize) -> bool {
    let later = s.members[at].promised;
    let b = s.ballot(ballot);
    let asks = b.reported & 1 << at == 0 || b.phase >= Phase::Filling;
    if config.rules.promises(later, ballot) || !asks || !drives(config, s, ballot) {
        return false;
    }
    yield_to(config, s, config.coordinator_of(ballot), later);
    true
}

fn learn(config: &Config, s: &mut State, ballot: u8, at: usize) -> bool {
    let proposal = s.ballot(ballot).proposal;
    if s.members[at].installed || s.members[at].decided != 0 {
        return false;
    }
    if (proposal.survivors | proposal.leavers) & 1 << at == 0 {
        stop(s, at); // it learns that it is excluded
        return true;
    }
    let current = std::mem::take(&mut s.members[at].current);
    abandon(s, current);
    s.members[at].decided = ballot;
    try_install(config, s, at);
    true
}

/// `Process::try_install`, `Process::enter`.
fn try_install(config: &Config, s: &mut State, at: usize) {
    let m = s.members[at];
    if m.installed || m.decided == 0 {
        return;
    }
    let proposal = s.ballot(m.decided).proposal;
    let in_group = proposal.ends && proposal.keep(config.group) & 1 << at != 0;
    let holds = !in_group || flow::holds(config, s, at, proposal.cut);
    if !config.rules.may_install(s.ballot(m.decided).phase == Phase::Decided, holds) {
        return;
    }
    if in_group && config.rules.may_finish(true) {
        flow::finish(config, s, at, proposal.cut);
    } else if proposal.judged() {
        flow::leave(s, at);
    }
    let m = &mut s.members[at];
    m.installed = true;
    // `Acceptor::default`: the acceptor of the next decree has promised nothing.
    (m.promised, m.accepted, m.current, m.round) = (0, 0, 0, 0);
    if !proposal.ends && std::mem::take(&mut m.wedged) {
        flow::settle(config, s, at); // `Process::go_on`: the group goes on in its view
    }
}
