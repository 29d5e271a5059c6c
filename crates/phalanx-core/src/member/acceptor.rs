//! The acceptor of a decree (Paxos): the ballot that it promised and the proposal that it accepted.

use std::sync::Arc;

use super::ballot::Ballot;
use super::decree::Proposal;
use crate::time::Instant;
use crate::transitions::transitions;

/// An acceptor's memory of one decree, cleared with each installed decree. It needs no disk, because an acceptor is an
/// incarnation: a process that restarts and forgets is another acceptor.
#[derive(Clone, Debug, Default)]
pub struct Acceptor {
    state: Acceptance,
    /// The latest promised ballot, and when this process first heard of it, by its own clock.
    heard: Option<(Ballot, Instant)>,
    /// When it heard of the ballot in which the accepted proposal was made.
    made: Option<Instant>,
}

/// What binds an acceptor in this decree.
#[derive(Clone, Debug, Default)]
enum Acceptance {
    #[default]
    Free,
    Promised(Ballot),
    /// It may have promised later ballots since.
    Accepted {
        promised: Ballot,
        accepted: (Ballot, Arc<Proposal>),
    },
}

transitions! {
    /// [`Acceptance`] without its data.
    states AcceptorState {
        /// It received no request for this decree.
        Free,
        /// It takes no part in ballots before the promised one.
        Promised,
        /// It holds a proposal, which it reports to coordinators of later ballots.
        Accepted,
    }
    begin Free; end [];
    events AcceptorEvent {
        /// A ballot is promised, because no later one was.
        Promise (Free | Promised => Promised, Accepted => Accepted),
        /// A proposal is accepted in a ballot that is promised.
        Accept (Promised | Accepted => Accepted),
        /// A decree is installed, and the next one begins.
        Install (Free | Promised | Accepted => Free),
    }
}

impl Acceptance {
    fn state(&self) -> AcceptorState {
        match self {
            Self::Free => AcceptorState::Free,
            Self::Promised(_) => AcceptorState::Promised,
            Self::Accepted { .. } => AcceptorState::Accepted,
        }
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Granted.
    Yes,
    /// Refused: a later ballot was promised before.
    No(Ballot),
}

impl Acceptor {
    fn enter(&mut self, event: AcceptorEvent, state: Acceptance) {
        event.check(self.state.state(), state.state());
        self.state = state;
    }

    /// Clears the promise and the accepted proposal: both were about the decree that is now installed.
    pub fn install(&mut self) {
        self.enter(AcceptorEvent::Install, Acceptance::Free);
        (self.heard, self.made) = (None, None);
    }

    /// Notes when a promised ballot was heard of. Its wedge comes twice if cuts have to be recovered.
    pub fn hear(&mut self, ballot: Ballot, now: Instant) {
        if self.heard.is_none_or(|(known, _)| known != ballot) {
            self.heard = Some((ballot, now));
        }
    }

    /// When this process heard of the ballot in which the decided proposal was made, if it did. What a proposal says in ages
    /// is as old as that ballot.
    #[must_use]
    pub fn begun(&self, decided: &Proposal) -> Option<Instant> {
        if self.has_accepted(decided) { self.made } else { self.heard.map(|(_, at)| at) }
    }

    fn has_accepted(&self, proposal: &Proposal) -> bool {
        self.accepted().is_some_and(|(_, accepted)| **accepted == *proposal)
    }

    /// Promises `ballot`, unless a later one is promised. A repeated request of the same ballot is granted again: the
    /// wedge comes twice if cuts have to be recovered.
    pub fn promise(&mut self, ballot: Ballot) -> Promise {
        if let Some(later) = self.promised().filter(|later| *later > ballot) {
            return Promise::No(later);
        }
        let state = match self.accepted() {
            None => Acceptance::Promised(ballot),
            // A promise does not clear what was accepted: the coordinator of the later ballot must learn of it.
            Some(accepted) => Acceptance::Accepted { promised: ballot, accepted: accepted.clone() },
        };
        self.enter(AcceptorEvent::Promise, state);
        Promise::Yes
    }

    /// Accepts a proposal, unless a later ballot is promised. It promises `ballot` as well (Paxos), so that it accepts
    /// nothing of an earlier ballot afterwards.
    pub fn accept(&mut self, ballot: Ballot, proposal: Arc<Proposal>) -> Promise {
        let promise = self.promise(ballot);
        if promise == Promise::Yes {
            debug_assert!(self.accepted().is_none_or(|(earlier, _)| *earlier <= ballot), "accepted ballots only rise");
            // A later ballot may adopt the proposal. Its time stands then.
            if !self.has_accepted(&proposal) {
                self.made = self.heard.filter(|(known, _)| *known == ballot).map(|(_, at)| at);
            }
            let accepted = (ballot, proposal);
            self.enter(AcceptorEvent::Accept, Acceptance::Accepted { promised: ballot, accepted });
        }
        promise
    }

    /// The accepted proposal, and the ballot in which it was accepted.
    #[must_use]
    pub fn accepted(&self) -> Option<&(Ballot, Arc<Proposal>)> {
        match &self.state {
            Acceptance::Free | Acceptance::Promised(_) => None,
            Acceptance::Accepted { accepted, .. } => Some(accepted),
        }
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If one is violated.
    pub fn check_invariants(&self) {
        if let Some((ballot, _)) = self.accepted() {
            assert!(self.promised().is_some_and(|promised| promised >= *ballot), "accepted beyond the promise");
        }
    }

    /// The latest promised ballot.
    #[must_use]
    pub fn promised(&self) -> Option<Ballot> {
        match self.state {
            Acceptance::Free => None,
            Acceptance::Promised(promised) | Acceptance::Accepted { promised, .. } => Some(promised),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{DecreeNumber, Rank, ViewNumber};
    use crate::transitions::kept::hold;
    use crate::wire::{Space, Tags};

    #[test]
    fn the_table_of_an_acceptor_is_the_one_that_is_kept() {
        hold::<AcceptorEvent>("acceptor");
    }

    fn b(round: u32) -> Ballot {
        Ballot { round, rank: Rank(0) }
    }

    fn proposal(view: ViewNumber) -> Arc<Proposal> {
        Arc::new(Proposal {
            decree: DecreeNumber(2),
            view,
            joined: Vec::new(),
            left: Vec::new(),
            groups: Vec::new(),
            next_group: 1,
            next_space: Space(1),
            level: 1,
            settings: Tags::default(),
            tail: Tags::default(),
        })
    }

    #[test]
    fn a_later_promise_binds() {
        let mut a = Acceptor::default();
        assert_eq!(a.promise(b(2)), Promise::Yes);
        assert_eq!(a.accept(b(1), proposal(ViewNumber(2))), Promise::No(b(2)));
        assert!(a.accepted().is_none());
    }

    #[test]
    fn what_is_accepted_stays_until_a_later_ballot_accepts() {
        let mut a = Acceptor::default();
        assert_eq!(a.accept(b(1), proposal(ViewNumber(2))), Promise::Yes);
        a.promise(b(5));
        assert_eq!(a.accepted().map(|(b, _)| b.round), Some(1));
        a.accept(b(5), proposal(ViewNumber(3)));
        assert_eq!(a.accepted().map(|(b, p)| (b.round, p.view)), Some((5, ViewNumber(3))));
    }

    #[test]
    fn a_decree_is_as_old_as_the_ballot_that_proposed_it() {
        let (mine, other) = (proposal(ViewNumber(2)), proposal(ViewNumber(3)));
        let mut a = Acceptor::default();
        assert_eq!(a.begun(&mine), None, "only the decision came");
        for at in [10, 20] {
            a.promise(b(1));
            a.hear(b(1), Instant(at));
        }
        a.accept(b(1), mine.clone());
        a.promise(b(2));
        a.hear(b(2), Instant(40));
        assert_eq!((a.begun(&mine), a.begun(&other)), (Some(Instant(10)), Some(Instant(40))));
        a.accept(b(2), mine.clone());
        assert_eq!(a.begun(&mine), Some(Instant(10)), "the second ballot adopted it");
        a.accept(b(3), other.clone());
        assert_eq!(a.begun(&other), None, "nothing came of that ballot before");
        a.install();
        assert_eq!(a.begun(&mine), None);
    }
}
