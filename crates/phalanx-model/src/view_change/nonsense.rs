//! Properties of runs in which a packet makes no sense to some readers: invariants, and states that must be reached.

use stateright::Property;

use super::action::Action;
use super::config::{Config, Poison, STREAMS};
use super::property::{BLAME, CAN_FINISH, FEWER, KEEPERS, SKIPPED};
use super::state::{Phase, Proposal, State};
use super::{ViewChange, step};

/// All of these properties.
pub(super) fn all(config: &Config) -> Vec<Property<ViewChange>> {
    let mut all = vec![
        Property::always(SKIPPED, not_skipped),
        Property::always(CAN_FINISH, can_finish),
        Property::always(KEEPERS, |m: &ViewChange, s: &State| {
            judged(s).all(|p| p.stops || p.keep(m.config.group) != 0)
        }),
        Property::sometimes("the group stops", |_: &ViewChange, s: &State| judged(s).any(|p| p.stops)),
    ];
    if config.senders.len() == 1 {
        all.push(Property::always(FEWER, fewer));
        if config.poisoned.len() == 1 && config.processes > 2 {
            all.push(Property::always(BLAME, blame));
        }
    }
    if config.processes > 2 {
        all.push(Property::sometimes("a reader takes the state anew", |_: &ViewChange, s: &State| {
            judged(s).any(|p| p.anew != 0 && p.gone == 0)
        }));
        all.push(Property::sometimes("the sender goes", |_: &ViewChange, s: &State| judged(s).any(|p| p.gone != 0)));
        all.push(Property::sometimes("nonsense is found in what was fetched for a cut", found_while_filling));
    }
    if config.group.count_ones() > 3 {
        all.push(Property::sometimes(
            "who acted upon more than the cut takes the state anew",
            |_: &ViewChange, s: &State| {
                judged(s).any(|p| p.anew & !s.nonsense.iter().flatten().fold(0, |all, cannot| all | cannot) != 0)
            },
        ));
    }
    if config.ballots > 1 && config.processes > 2 {
        all.push(Property::sometimes("a take-over decides what an earlier one judged", |m: &ViewChange, s: &State| {
            (1..).zip(&s.ballots).any(|(number, b)| {
                let by_other = |p: &Proposal| m.config.coordinator_of(p.origin) != m.config.coordinator_of(number);
                b.phase == Phase::Decided && b.proposal.judged() && by_other(&b.proposal)
            })
        }));
    }
    if config.crashes > 0 && config.processes > 2 {
        all.push(Property::sometimes(
            "a sender of nonsense crashes, and nobody has to go",
            |m: &ViewChange, s: &State| {
                let dead = |stream: usize| !s.members[m.config.senders[stream]].lives;
                let known = s.members.iter().any(|me| me.lives && !me.installed && me.found & 1 != 0);
                dead(0) && known && s.decisions().any(|p| p.ends && !p.judged())
            },
        ));
    }
    all
}

/// Decisions by which a sender goes, a member takes the state anew, or the group stops.
fn judged(s: &State) -> impl Iterator<Item = &Proposal> {
    s.decisions().filter(|p| p.judged())
}

/// The prefix that a member can read of what it holds. Without the rule that it stops at nonsense, that is everything.
pub(super) fn could_read(m: &ViewChange, s: &State, at: usize, stream: usize) -> u8 {
    if m.config.rules.stops_at_nonsense() { s.readable(at, stream) } else { s.members[at].prefix(stream) }
}

fn not_skipped(m: &ViewChange, s: &State) -> bool {
    let stops = |at: usize, stream: usize| s.nonsense[stream].iter().position(|readers| readers & 1 << at != 0);
    (0..m.config.processes).all(|at| {
        let me = &s.members[at];
        (0..STREAMS).all(|stream| {
            let most = me.parsed[stream].max(me.acked[stream]).max(me.delivered[stream]);
            stops(at, stream).is_none_or(|packet| usize::from(most) <= packet)
        })
    })
}

/// At least half of the members keep the state: one fault does not send the larger part for a state transfer.
fn fewer(m: &ViewChange, s: &State) -> bool {
    let own = (0..).zip(&s.members).filter(|(_, me)| me.anew).fold(0_u8, |set, (r, _)| set | 1 << r);
    s.decisions().filter(|p| p.ends && !p.stops).all(|p| {
        let keep = p.keep(m.config.group) & !own;
        (p.anew | own).count_ones() <= keep.count_ones()
    })
}

/// If all members take part: when one reader cannot read a packet, or no reader can read one sender's packet, no other
/// member has to go.
fn blame(m: &ViewChange, s: &State) -> bool {
    let Poison { stream, packet, .. } = m.config.poisoned[0];
    let (sender, cannot) = (1 << m.config.senders[stream], s.nonsense[stream][packet]);
    let faulty = match cannot.count_ones() {
        0 => 0,
        1 => cannot,
        n if n + 1 == m.config.group.count_ones() => sender,
        _ => return true,
    };
    let all = |p: &&Proposal| m.config.group & !s.ballot(p.origin).asked == 0;
    judged(s).filter(all).all(|p| !p.stops && (p.anew | p.gone) & !faulty == 0)
}

fn found_while_filling(_: &ViewChange, s: &State) -> bool {
    let fetched = |b: &super::Try, r: usize| {
        let me = &s.members[r];
        b.phase == Phase::Filling && me.found & 1 != 0 && b.found[0] & 1 << r == 0 && b.reported & 1 << r != 0
    };
    s.ballots.iter().any(|b| (0..s.members.len()).any(|r| fetched(b, r)))
}

/// A driven ballot that is later than all promises of its members, and whose members all live, is decided if no other
/// begins and no member crashes.
fn can_finish(m: &ViewChange, s: &State) -> bool {
    let config = &m.config;
    (1..).zip(&s.ballots).all(|(number, b)| {
        let coordinator = &s.members.get(config.coordinator_of(number));
        let drives = coordinator.is_some_and(|c| c.lives && c.current == number);
        let ready = |r: usize| {
            let me = &s.members[r];
            b.asked & 1 << r == 0 || (me.lives && !me.installed && me.decided == 0 && me.promised <= number)
        };
        let open = matches!(b.phase, Phase::Gathering | Phase::Filling | Phase::Proposing);
        !open || !drives || !(0..config.processes).all(ready) || drive(config, s, number)
    })
}

/// Takes every step that serves a ballot, until it is decided or no step is left.
fn drive(config: &Config, s: &State, ballot: u8) -> bool {
    let asked: Vec<usize> = (0..config.processes).filter(|r| s.ballot(ballot).asked & 1 << r != 0).collect();
    let mut s = s.clone();
    let take = |s: &mut State, phase: Phase, action: Action| {
        if s.ballot(ballot).phase == phase
            && let Some(next) = step::next(config, s, action)
        {
            *s = next;
        }
    };
    asked.iter().for_each(|&at| take(&mut s, Phase::Gathering, Action::Report { ballot, at }));
    take(&mut s, Phase::Gathering, Action::Fix { ballot });
    for (stream, &at) in (0..config.senders.len()).flat_map(|stream| asked.iter().map(move |at| (stream, at))) {
        for packet in 1..=s.sent[stream] {
            take(&mut s, Phase::Filling, Action::Arrive { at, stream, packet });
        }
    }
    asked.iter().for_each(|&at| take(&mut s, Phase::Filling, Action::ReportFilled { ballot, at }));
    take(&mut s, Phase::Filling, Action::Propose { ballot });
    asked.iter().for_each(|&at| take(&mut s, Phase::Proposing, Action::Accept { ballot, at }));
    take(&mut s, Phase::Proposing, Action::Decide { ballot });
    s.ballot(ballot).phase == Phase::Decided
}
