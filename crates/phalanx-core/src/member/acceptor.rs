//! The acceptor of a decree (Paxos): the ballot that it promised and the proposal that it accepted.

use std::sync::Arc;

use super::messages::{Ballot, Proposal};

/// Memory of one decree, fresh with each decree installed. An acceptor being an incarnation, it needs no disk:
/// a process that forgets is another process.
#[derive(Clone, Debug, Default)]
pub struct Acceptor {
    promised: Option<Ballot>,
    accepted: Option<(Ballot, Arc<Proposal>)>,
}

/// Answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Promised.
    Yes,
    /// A later ballot was promised already.
    No(Ballot),
}

impl Acceptor {
    /// Promises `ballot`, if no later one is promised.
    pub fn promise(&mut self, ballot: Ballot) -> Promise {
        match self.promised {
            Some(later) if later > ballot => Promise::No(later),
            _ => {
                self.promised = Some(ballot);
                Promise::Yes
            }
        }
    }

    /// Accepts a proposal, unless a later ballot was promised.
    pub fn accept(&mut self, ballot: Ballot, proposal: Arc<Proposal>) -> Promise {
        let promise = self.promise(ballot);
        if promise == Promise::Yes {
            self.accepted = Some((ballot, proposal));
        }
        promise
    }

    /// What was accepted, and in which ballot.
    #[must_use]
    pub fn accepted(&self) -> Option<&(Ballot, Arc<Proposal>)> {
        self.accepted.as_ref()
    }

    /// The latest ballot promised.
    #[must_use]
    pub fn promised(&self) -> Option<Ballot> {
        self.promised
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Space, Tags};

    fn b(round: u32) -> Ballot {
        Ballot { round, rank: 0 }
    }

    fn proposal(view: u64) -> Arc<Proposal> {
        Arc::new(Proposal {
            decree: 2,
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
        assert_eq!(a.accept(b(1), proposal(2)), Promise::No(b(2)));
        assert!(a.accepted().is_none());
    }

    #[test]
    fn what_is_accepted_stays_until_a_later_ballot_accepts() {
        let mut a = Acceptor::default();
        assert_eq!(a.accept(b(1), proposal(2)), Promise::Yes);
        a.promise(b(5));
        assert_eq!(a.accepted().map(|(b, _)| b.round), Some(1));
        a.accept(b(5), proposal(3));
        assert_eq!(a.accepted().map(|(b, p)| (b.round, p.view)), Some((5, 3)));
    }
}
