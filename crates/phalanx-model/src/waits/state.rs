//! A state of the model of waits.

use super::config::{Fault, MEMBERS, Waits};

/// The number of a ballot: its round, and the rank of its coordinator. Only the order of rounds matters, so a state counts
/// them from the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ballot {
    /// From 1; 0: none.
    pub round: u8,
    /// The coordinator.
    pub rank: u8,
}

/// What a member has accepted: the ballot, and the ballot that first proposed it.
pub type Accepted = Option<(Ballot, Ballot)>;

/// A ballot that a member drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Own {
    /// Its number.
    pub ballot: Ballot,
    /// Members that were asked, a bit each.
    pub asked: u8,
    /// Members that answered the step under way, a bit each.
    pub answered: u8,
    /// The proposal: before it is proposed, the one that was accepted in the highest ballot.
    pub proposal: Accepted,
    /// It is proposed.
    pub proposed: bool,
}

/// Another member's ballot, the last one that was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rival {
    /// Its number.
    pub ballot: Ballot,
    /// Ticks since then.
    pub since: u16,
    /// Its proposal was accepted.
    pub proposed: bool,
    /// What a step takes at its coordinator, if it said so.
    pub takes: u16,
}

/// A member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Member {
    /// Ticks until it learns that a decree is needed.
    pub learns: u16,
    /// Ticks since it knows, or since a message of a ballot began the wait anew.
    pub need: Option<u16>,
    /// Ticks until it may begin a ballot again.
    pub again: u16,
    /// The highest round that it knows.
    pub round: u8,
    /// The highest ballot that it promised.
    pub promised: Ballot,
    /// The proposal that it accepted last.
    pub accepted: Accepted,
    /// The ballot that it drives.
    pub own: Option<Own>,
    /// See [`Rival`].
    pub rival: Option<Rival>,
    /// Proposals of others that it accepted, up to three.
    pub contested: u16,
    /// Vain ballots of each member, up to two.
    pub vain: [u8; MEMBERS],
    /// By member: ticks for which it owes an answer.
    pub owes: [Option<u16>; MEMBERS],
    /// By member: ticks that an answer took; 0 if unknown.
    pub took: [u16; MEMBERS],
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Message {
    /// Requests a promise and a report. Says what a step takes, or 0.
    Wedge(Ballot, u16),
    /// The promise, and what was accepted.
    Report(Ballot, Accepted),
    /// Another ballot was promised.
    Refuse(Ballot),
    /// Requests acceptance.
    Propose(Ballot, Ballot),
    /// It is accepted.
    Accept(Ballot),
}

/// A message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sent {
    /// Ticks until it arrives.
    pub due: u16,
    /// Its receiver.
    pub to: usize,
    /// Its sender.
    pub from: usize,
    /// The message.
    pub message: Message,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// By rank.
    pub members: [Member; MEMBERS],
    /// In order of arrival.
    pub sent: Vec<Sent>,
    /// A quorum accepted.
    pub decided: bool,
}

/// A longer time than any wait.
const LONG: u16 = 1500;

impl State {
    /// One state for each way in which members learn that a decree is needed.
    pub(super) fn first(model: &Waits) -> Vec<Self> {
        let mut all = vec![[Member::default(); MEMBERS]];
        for rank in 0..model.members {
            let runs = model.fault != Fault::Stopped(rank);
            let times = if runs { 0..=model.spread } else { 0..=0 };
            all = all
                .into_iter()
                .flat_map(|members| {
                    times.clone().map(move |learns| {
                        let mut members = members;
                        members[rank].learns = learns;
                        if model.measured {
                            let trip = |other: usize| model.delay[rank][other] + model.delay[other][rank];
                            let others = (0..model.members).filter(|other| *other != rank);
                            others.for_each(|other| members[rank].took[other] = trip(other));
                        }
                        members
                    })
                })
                .collect();
        }
        all.into_iter().map(|members| Self { members, sent: Vec::new(), decided: false }).collect()
    }

    /// A tick passes.
    pub(super) fn pass(&mut self) {
        let older = |time: &mut u16| *time = (*time + 1).min(LONG);
        for member in &mut self.members {
            member.learns = member.learns.saturating_sub(1);
            member.again = member.again.saturating_sub(1);
            member.need.iter_mut().for_each(older);
            member.owes.iter_mut().flatten().for_each(older);
            member.rival.iter_mut().for_each(|rival| older(&mut rival.since));
        }
        self.sent.iter_mut().for_each(|sent| sent.due = sent.due.saturating_sub(1));
    }

    /// Counts rounds from the lowest that still means something, and shortens long gaps: only the order matters, and
    /// whether there is room for one round in between.
    pub(super) fn renumber(&mut self) {
        let mut rounds: Vec<u8> = Vec::new();
        self.each_round(|round| rounds.push(*round));
        rounds.sort_unstable();
        rounds.dedup();
        let (mut numbers, mut last, mut number) = (Vec::new(), 0, 0);
        for round in rounds {
            number += (round - last).min(2);
            last = round;
            numbers.push((round, number));
        }
        let first = numbers.iter().find(|(round, _)| *round != 0).map_or(0, |(_, number)| number - 1);
        self.each_round(|round| {
            if *round != 0 {
                *round = numbers.iter().find(|(old, _)| old == round).map_or(0, |(_, new)| *new) - first;
            }
        });
    }

    fn each_round(&mut self, mut apply: impl FnMut(&mut u8)) {
        let accepted = |accepted: &mut Accepted, apply: &mut dyn FnMut(&mut u8)| {
            if let Some((ballot, first)) = accepted {
                apply(&mut ballot.round);
                apply(&mut first.round);
            }
        };
        for member in &mut self.members {
            apply(&mut member.round);
            apply(&mut member.promised.round);
            accepted(&mut member.accepted, &mut apply);
            if let Some(own) = &mut member.own {
                apply(&mut own.ballot.round);
                accepted(&mut own.proposal, &mut apply);
            }
            member.rival.iter_mut().for_each(|rival| apply(&mut rival.ballot.round));
        }
        for sent in &mut self.sent {
            match &mut sent.message {
                Message::Wedge(ballot, _) | Message::Refuse(ballot) | Message::Accept(ballot) => {
                    apply(&mut ballot.round);
                }
                Message::Report(ballot, was) => {
                    apply(&mut ballot.round);
                    accepted(was, &mut apply);
                }
                Message::Propose(ballot, first) => {
                    apply(&mut ballot.round);
                    apply(&mut first.round);
                }
            }
        }
    }
}
