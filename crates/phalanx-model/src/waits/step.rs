//! A tick of the model of waits. (`process/decree.rs`)

use super::config::{Fault, MUTE, Missing, Waits};
use super::rule::{DOUBLINGS_MAX, backoff, count_vain, has_no_turn, has_time, is_given_up, round, turn};
use super::state::{Ballot, Member, Message, Own, Rival, Sent, State};
use crate::rules::Rules;

const RULES: Rules = Rules { without: None };

/// What a step knows besides the state.
struct Tick<'a> {
    model: &'a Waits,
    jitter: u16,
}

/// The state a tick later: messages arrive, and then each member does what is due.
pub(super) fn tick(model: &Waits, state: &State, jitter: u16) -> State {
    let mut next = state.clone();
    let (s, tick) = (&mut next, Tick { model, jitter });
    s.pass();
    let due = s.sent.partition_point(|sent| sent.due == 0);
    let arrived: Vec<Sent> = s.sent.drain(..due).collect();
    for sent in arrived {
        tick.handle(s, sent.to, sent.from, sent.message);
    }
    for rank in 0..model.members {
        tick.coordinate(s, rank);
    }
    s.sent.sort_unstable();
    s.renumber();
    next
}

impl Tick<'_> {
    fn send(&self, s: &mut State, from: usize, to: usize, message: Message) {
        if from == to {
            return self.handle(s, to, from, message);
        }
        let is_answer = matches!(message, Message::Report(..) | Message::Accept(_));
        let lost = match self.model.fault {
            Fault::None => false,
            Fault::Stopped(who) | Fault::Deaf(who) => who == to,
            Fault::HalfDeaf(who) => who == to && is_answer,
        };
        if !lost {
            s.sent.push(Sent { due: self.model.delay[from][to], to, from, message });
        }
    }

    fn is_quorum(&self, set: u8) -> bool {
        RULES.is_quorum(set.count_ones() as usize, self.model.members, set & 1 != 0)
    }

    /// Members that are to be left out: the stopped one, and those that owe an answer for long.
    fn candidates(&self, member: &Member) -> u8 {
        let stopped = match self.model.fault {
            Fault::Stopped(who) if member.learns == 0 => 1 << who,
            _ => 0,
        };
        let mute = (0..self.model.members).filter(|&who| member.owes[who].is_some_and(|owes| owes > MUTE));
        mute.fold(stopped, |set, who| set | 1 << who)
    }

    /// Begins or drives a ballot. (`Process::coordinate`)
    fn coordinate(&self, s: &mut State, me: usize) {
        if s.decided || self.model.fault == Fault::Stopped(me) {
            return;
        }
        let member = &mut s.members[me];
        if member.own.is_some() {
            return self.drive(s, me);
        }
        if member.learns > 0 && member.promised.round == 0 {
            return;
        }
        let since = *member.need.get_or_insert(0);
        let candidates = self.candidates(member);
        let may = |rank: usize| candidates & 1 << rank == 0;
        let before = (0..me).filter(|&rank| may(rank) && !has_no_turn(self.model, member, rank)).count() as u16;
        let has_time = |rival: &Rival| {
            let rank = usize::from(rival.ballot.rank);
            may(rank) && !is_given_up(self.model, member, rank) && has_time(self.model, member, rival)
        };
        let waits = member.rival.as_ref().is_some_and(has_time);
        if member.again > 0 || before > 0 && since < turn(self.model, member, before) || waits {
            return;
        }
        self.start(s, me, candidates);
    }

    fn start(&self, s: &mut State, me: usize, candidates: u8) {
        let all: u8 = (1 << self.model.members) - 1;
        let asked = all & !(candidates & !(1 << me));
        if !self.is_quorum(asked) {
            return;
        }
        let member = &mut s.members[me];
        member.round = member.round.max(member.promised.round) + 1;
        let ballot = Ballot { round: member.round, rank: me as u8 };
        member.own = Some(Own { ballot, asked, answered: 0, proposal: None, proposed: false });
        if self.model.lacks(Missing::MuteAnew) {
            member.owes = Default::default();
        }
        let takes = round(member);
        self.ask_all(s, me, asked, Message::Wedge(ballot, takes));
    }

    /// Sends a coordinator's request to all that are asked, the coordinator last.
    fn ask_all(&self, s: &mut State, me: usize, asked: u8, message: Message) {
        for other in (0..self.model.members).filter(|&other| other != me && asked & 1 << other != 0) {
            s.members[me].owes[other].get_or_insert(0);
            self.send(s, me, other, message);
        }
        self.handle(s, me, me, message);
    }

    /// A ballot begins again without members that fell silent. (`Process::drive_ballot`)
    fn drive(&self, s: &mut State, me: usize) {
        let member = &mut s.members[me];
        let Some(own) = member.own else { return };
        let candidates = self.candidates(member);
        if own.asked & !own.answered & candidates == 0 {
            return;
        }
        member.own = None;
        self.start(s, me, candidates);
        if s.members[me].own.is_none() {
            s.members[me].again = backoff(self.model, me, self.jitter);
        }
    }

    fn handle(&self, s: &mut State, me: usize, from: usize, message: Message) {
        let member = &mut s.members[me];
        if from != me
            && !matches!(message, Message::Wedge(..) | Message::Propose(..))
            && let Some(took) = member.owes[from].take()
        {
            member.took[from] = took;
        }
        match message {
            Message::Wedge(ballot, takes) => self.handle_wedge(s, me, from, ballot, takes),
            Message::Report(ballot, accepted) => self.handle_report(s, me, from, ballot, accepted),
            Message::Refuse(promised) => {
                member.round = member.round.max(promised.round);
                if member.own.is_some_and(|own| own.ballot < promised) {
                    if member.rival.is_none_or(|rival| rival.ballot < promised) {
                        member.rival = Some(Rival { ballot: promised, since: 0, proposed: false, takes: 0 });
                    }
                    member.own = None;
                    member.again = backoff(self.model, me, self.jitter);
                }
            }
            Message::Propose(ballot, first) => self.handle_propose(s, me, from, ballot, first),
            Message::Accept(ballot) => {
                let Some(own) = member.own.as_mut().filter(|own| own.ballot == ballot && own.proposed) else { return };
                own.answered |= 1 << from;
                s.decided |= self.is_quorum(own.answered);
            }
        }
    }

    fn handle_wedge(&self, s: &mut State, me: usize, from: usize, ballot: Ballot, takes: u16) {
        let model = self.model;
        let member = &mut s.members[me];
        if is_given_up(model, member, from) && !model.lacks(Missing::GivenUpHeeded) {
            let other = member.rival.filter(|rival| !is_given_up(model, member, usize::from(rival.ballot.rank)));
            if other.is_some_and(|rival| has_time(model, member, &rival)) {
                return;
            }
        }
        if member.promised > ballot {
            let promised = member.promised;
            return self.send(s, me, from, Message::Refuse(promised));
        }
        member.promised = ballot;
        self.yield_to(member, me, ballot, takes);
        let accepted = member.accepted;
        self.send(s, me, from, Message::Report(ballot, accepted));
    }

    /// Gives up an own ballot that is earlier. (`Process::yield_to`)
    fn yield_to(&self, member: &mut Member, me: usize, ballot: Ballot, takes: u16) {
        member.round = member.round.max(ballot.round);
        if member.own.is_some_and(|own| own.ballot < ballot) {
            member.own = None;
            member.again = backoff(self.model, me, self.jitter);
        }
        if !self.model.lacks(Missing::NotRenewed) || member.need.is_none() {
            member.need = Some(0);
        }
        let is_new = member.rival.is_none_or(|rival| rival.ballot != ballot);
        if usize::from(ballot.rank) != me && is_new {
            count_vain(member);
            member.rival = Some(Rival { ballot, since: 0, proposed: false, takes });
        }
    }

    fn handle_report(&self, s: &mut State, me: usize, from: usize, ballot: Ballot, accepted: Option<(Ballot, Ballot)>) {
        let Some(own) = s.members[me].own.as_mut().filter(|own| own.ballot == ballot && !own.proposed) else { return };
        own.answered |= 1 << from;
        own.proposal = own.proposal.max(accepted);
        if own.asked & !own.answered != 0 {
            return;
        }
        let first = own.proposal.map_or(ballot, |(_, first)| first);
        (own.proposed, own.answered, own.proposal) = (true, 0, Some((ballot, first)));
        let asked = own.asked;
        self.ask_all(s, me, asked, Message::Propose(ballot, first));
    }

    fn handle_propose(&self, s: &mut State, me: usize, from: usize, ballot: Ballot, first: Ballot) {
        let member = &mut s.members[me];
        if member.promised > ballot {
            let promised = member.promised;
            return self.send(s, me, from, Message::Refuse(promised));
        }
        (member.promised, member.accepted) = (ballot, Some((ballot, first)));
        self.yield_to(member, me, ballot, 0);
        if from != me {
            member.contested = (member.contested + 1).min(DOUBLINGS_MAX);
            let takes = member.rival.map_or(0, |rival| rival.takes);
            member.rival = Some(Rival { ballot, since: 0, proposed: true, takes });
        }
        self.send(s, me, from, Message::Accept(ballot));
    }
}
