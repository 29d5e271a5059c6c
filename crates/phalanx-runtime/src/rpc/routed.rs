//! A routed call: the servers that are asked for it, the members that they belong to, and what its caller is told.
//!
//! [`Route`] knows addresses. Here a server is that of a member, and a failure may be that the member left the cell.

use std::net::SocketAddr;
use std::time::Duration;

use phalanx_core::Incarnation;
use phalanx_core::rpc::{CallOptions, Failure, Reason};
use phalanx_life::{Attempt, CallStep, Destination, Found, Known, Route};

/// A call to a group, a member or an address, from its begin to its end: whom to ask next, and what its caller is told. It
/// has no clock and makes no calls.
///
/// A server whose member left the cell before anything was sent to it did certainly not run the call, so the next server
/// of the group is asked. So it is if the member left while it may have run an idempotent call. Otherwise the caller is told
/// that it is unknown.
///
/// A *hedged* call asks a second server if the first has not answered after a while; see [`RoutedCall::hedged`].
#[derive(Debug)]
pub struct RoutedCall {
    route: Route,
    wanted: Destination,
    turn: usize,
    options: CallOptions,
    /// The servers that were asked, each as it was asked last.
    asked: Vec<Asked>,
    /// Servers that are asked now: none, one, or two if it is hedged.
    open: Vec<SocketAddr>,
    /// How one failed while another one was asked.
    failed: Option<Failure>,
    /// It may have run at a server whose member left.
    may_have_run: bool,
    /// The member of the server that failed last left the cell.
    is_left: bool,
    hedge: Option<Hedge>,
}

#[derive(Debug)]
struct Asked {
    address: SocketAddr,
    /// Changes of the directory by then.
    changes: u64,
    /// It was a hedge, of which the route knows nothing.
    is_hedge: bool,
    /// It was not there.
    was_nobody: bool,
}

#[derive(Debug)]
struct Hedge {
    after: Duration,
    /// The time that was left when the server was asked that is asked alone.
    left_then: Duration,
    /// Another one was looked for since.
    is_done: bool,
}

/// What is to be done for a call of which a server failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// Wait for the other server.
    Other,
    /// Look for another one: [`RoutedCall::next`].
    Next,
    /// Its caller is told this.
    End(Failure),
}

/// What is to be done for a call.
#[derive(Debug)]
pub enum Step {
    /// Ask this server. If there is no answer: [`RoutedCall::failed`].
    Ask(RoutedAttempt),
    /// Look again when the directory has changed, and at the deadline.
    Wait,
    /// Its caller is told this.
    End(Failure),
}

/// A server that is asked.
#[derive(Debug)]
pub struct RoutedAttempt {
    /// Where it is.
    pub address: SocketAddr,
    /// The members whose server it is by the directory: the callee. Mostly one; two for a while if one came at the address
    /// of another. Empty for an address, whose callee may be outside the cell.
    pub callees: Vec<Incarnation>,
    /// With the time that is left of the call.
    pub options: CallOptions,
}

impl RoutedCall {
    /// A call. Among several servers that fit, number `turn` is the first; `options` has the whole time.
    #[must_use]
    pub fn new(wanted: Destination, turn: usize, options: CallOptions) -> Self {
        let route = Route::new(wanted.clone(), turn, options);
        Self {
            route,
            wanted,
            turn,
            options,
            asked: Vec::new(),
            open: Vec::new(),
            failed: None,
            may_have_run: false,
            is_left: false,
            hedge: None,
        }
    }

    /// If the server that is asked has not answered after this time, another one is asked as well, once for each server that
    /// is asked in turn. The first answer counts. It changes nothing for a call that is not idempotent.
    #[must_use]
    pub fn hedged(mut self, after: Duration) -> Self {
        let hedge = Hedge { after, left_then: Duration::ZERO, is_done: true };
        self.hedge = self.options.idempotent.then_some(hedge);
        self
    }

    /// Whether the directory is needed to find the server.
    #[must_use]
    pub const fn needs_directory(&self) -> bool {
        self.route.needs_directory()
    }

    /// What is to be done first, after a server that failed, or after a wait; see [`Route::next`].
    pub fn next(&mut self, known: Option<Known<'_>>, left: Duration) -> Step {
        debug_assert!(self.open.is_empty(), "a server that is asked may answer");
        let not_again = known.map_or_else(Vec::new, |known| self.not_again(known.changes));
        match self.route.next(known, &not_again, left) {
            CallStep::Ask(Attempt { address, options }) => {
                if let Some(hedge) = &mut self.hedge {
                    (hedge.left_then, hedge.is_done) = (left, false);
                }
                Step::Ask(self.ask(address, options, known, false))
            }
            CallStep::Wait => Step::Wait,
            CallStep::End(failure) => Step::End(self.told(failure)),
        }
    }

    /// The time until another server is asked as well, if so much time is `left` of the call. `None`: none will be.
    #[must_use]
    pub fn hedges_in(&self, left: Duration) -> Option<Duration> {
        let hedge = self.hedge.as_ref().filter(|hedge| !hedge.is_done && self.open.len() == 1)?;
        Some(hedge.after.saturating_sub(hedge.left_then.saturating_sub(left)))
    }

    /// The server that is asked has not answered for so long that another one is asked as well, if there is one that was not
    /// asked yet and time is left.
    pub fn hedge(&mut self, known: Known<'_>, left: Duration) -> Option<RoutedAttempt> {
        let is_due = self.hedges_in(left).is_some_and(|due| due.is_zero());
        let hedge = self.hedge.as_mut().filter(|_| is_due)?;
        hedge.is_done = true;
        let asked: Vec<SocketAddr> = self.asked.iter().map(|asked| asked.address).collect();
        match known.find(&self.wanted, &asked, self.turn) {
            Found::Server(address) if self.needs_directory() && !left.is_zero() => {
                let options = CallOptions { deadline: left, waits_for_server: false, ..self.options };
                Some(self.ask(address, options, Some(known), true))
            }
            Found::Server(_) | Found::Nobody | Found::NotYet | Found::Over => None,
        }
    }

    fn ask(
        &mut self,
        address: SocketAddr,
        options: CallOptions,
        known: Option<Known<'_>>,
        is_hedge: bool,
    ) -> RoutedAttempt {
        debug_assert!(!self.open.contains(&address), "a server is asked twice at once");
        let by_directory = known.filter(|_| self.needs_directory());
        let callees = by_directory.map_or_else(Vec::new, |known| known.servers.members_at(&self.wanted, address));
        let changes = known.map_or(0, |known| known.changes);
        self.asked.retain(|asked| asked.address != address);
        self.asked.push(Asked { address, changes, is_hedge, was_nobody: false });
        self.open.push(address);
        RoutedAttempt { address, callees, options }
    }

    /// The servers that the route must not ask: those that were asked since the directory changed last, because they are no
    /// others than they were, and hedges, unless the call waits and they may be back. `changes`: of the directory.
    fn not_again(&self, changes: u64) -> Vec<SocketAddr> {
        let may_be_back = |asked: &Asked| self.options.waits_for_server && asked.was_nobody;
        let not_again = |asked: &&Asked| asked.changes == changes || asked.is_hedge && !may_be_back(asked);
        self.asked.iter().filter(not_again).map(|asked| asked.address).collect()
    }

    /// A server that was asked gave no answer.
    pub fn failed(&mut self, address: SocketAddr, failure: Failure) -> AfterFailure {
        debug_assert!(self.open.contains(&address), "a server fails once");
        self.open.retain(|open| *open != address);
        self.is_left = matches!(failure, Failure::NotExecuted(Reason::Left) | Failure::Unknown(Reason::Left));
        // The other servers of a member are gone with it.
        let is_of_group = matches!(self.wanted, Destination::Group(_));
        let may_go_on = self.options.idempotent || matches!(failure, Failure::NotExecuted(_));
        let failure = if self.is_left && is_of_group && may_go_on {
            self.may_have_run |= matches!(failure, Failure::Unknown(_));
            Route::NOBODY
        } else {
            failure
        };
        if let Some(asked) = self.asked.iter_mut().find(|asked| asked.address == address) {
            asked.was_nobody = failure == Route::NOBODY;
        }
        let failure = match (self.failed.take(), failure) {
            (Some(before @ Failure::Unknown(_)), Failure::NotExecuted(_)) => before,
            (_, failure) => failure,
        };
        if !self.open.is_empty() {
            self.failed = Some(failure);
            return AfterFailure::Other;
        }
        match self.route.failed(failure) {
            None => AfterFailure::Next,
            Some(failure) => AfterFailure::End(self.told(failure)),
        }
    }

    /// What the caller is told, if that is how the last server failed.
    fn told(&self, failure: Failure) -> Failure {
        let Failure::NotExecuted(reason) = failure else { return failure };
        let reason = if self.is_left && reason == Reason::Unreachable { Reason::Left } else { reason };
        if self.may_have_run { Failure::Unknown(reason) } else { Failure::NotExecuted(reason) }
    }
}

#[cfg(test)]
mod tests {
    use phalanx_life::{Entry, Servers};

    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// For each member a server of group `g` at a port.
    fn servers(members: &[(u64, u16)]) -> Servers {
        let list = |port| vec![Entry { group: Some("g".to_owned()), address: at(port) }];
        Servers::of_lists(members.iter().map(|(member, port)| (Incarnation(*member), list(*port))))
    }

    fn known(servers: &Servers, changes: u64) -> Known<'_> {
        Known { servers, is_current: true, is_over: false, changes, silent: &[] }
    }

    fn call(wanted: Destination, idempotent: bool, waits_for_server: bool) -> RoutedCall {
        RoutedCall::new(wanted, 0, CallOptions { deadline: LEFT, idempotent, waits_for_server })
    }

    fn group() -> Destination {
        Destination::Group("g".to_owned())
    }

    /// The port that is asked and its callees, or how the call ends; 0: it waits.
    fn step(call: &mut RoutedCall, known: Known<'_>) -> Result<(u16, Vec<u64>), Failure> {
        match call.next(Some(known), LEFT) {
            Step::Ask(RoutedAttempt { address, callees, .. }) => {
                Ok((address.port(), callees.iter().map(|callee| callee.0).collect()))
            }
            Step::Wait => Ok((0, Vec::new())),
            Step::End(failure) => Err(failure),
        }
    }

    /// The server at `port` fails; `None`: another one is asked.
    fn fails(call: &mut RoutedCall, port: u16, failure: Failure) -> Option<Failure> {
        match call.failed(at(port), failure) {
            AfterFailure::End(failure) => Some(failure),
            AfterFailure::Next => None,
            AfterFailure::Other => panic!("no other one is asked"),
        }
    }

    const NOBODY: Failure = Route::NOBODY;
    const LEFT: Duration = Duration::from_secs(1);
    const NEVER_SENT: Failure = Failure::NotExecuted(Reason::Left);
    const UNSURE: Failure = Failure::Unknown(Reason::Left);
    const REFUSED: Reason = Reason::Refused(phalanx_core::rpc::Refusal::Busy);

    #[test]
    fn a_call_goes_on_where_it_did_not_run_or_may_run_twice() {
        let both = servers(&[(1, 1), (2, 2)]);
        for (failure, idempotent) in [(NEVER_SENT, false), (NEVER_SENT, true), (UNSURE, true)] {
            let mut call = call(group(), idempotent, false);
            assert_eq!(step(&mut call, known(&both, 1)), Ok((1, vec![1])));
            assert_eq!(fails(&mut call, 1, failure), None);
            assert_eq!(step(&mut call, known(&both, 1)), Ok((2, vec![2])));
            assert_eq!(fails(&mut call, 2, failure), None);
            assert_eq!(step(&mut call, known(&both, 1)), Err(failure), "as the last one failed");
        }
        let mut once = call(group(), false, true);
        assert_eq!(step(&mut once, known(&both, 1)), Ok((1, vec![1])));
        assert_eq!(fails(&mut once, 1, UNSURE), Some(UNSURE));
    }

    #[test]
    fn what_may_have_run_is_never_told_as_not_executed() {
        let both = servers(&[(1, 1), (2, 2)]);
        for reason in [REFUSED, Reason::Unreachable] {
            let mut call = call(group(), true, false);
            assert_eq!(step(&mut call, known(&both, 1)), Ok((1, vec![1])));
            assert_eq!(fails(&mut call, 1, UNSURE), None);
            assert_eq!(step(&mut call, known(&both, 1)), Ok((2, vec![2])));
            assert_eq!(fails(&mut call, 2, Failure::NotExecuted(reason)), None);
            assert_eq!(step(&mut call, known(&both, 1)), Err(Failure::Unknown(reason)));
        }
    }

    /// A member that left does not come back, and its other servers are gone, too. A group may have another one.
    #[test]
    fn who_waits_for_a_server_waits_for_no_member_that_left() {
        let one = servers(&[(1, 1)]);
        let mut waits = call(group(), false, true);
        assert_eq!(step(&mut waits, known(&one, 1)), Ok((1, vec![1])));
        assert_eq!(fails(&mut waits, 1, NEVER_SENT), None);
        assert_eq!(step(&mut waits, known(&one, 1)), Ok((0, vec![])));
        assert_eq!(step(&mut waits, known(&servers(&[(3, 1)]), 2)), Ok((1, vec![3])), "another one, at its address");
        let mut member = call(Destination::Member(Incarnation(1)), false, true);
        assert_eq!(step(&mut member, known(&one, 1)), Ok((1, vec![1])));
        assert_eq!(fails(&mut member, 1, NEVER_SENT), Some(NEVER_SENT));
    }

    /// The directory changes while a server refuses. The next one is gone, and is not asked again before another change.
    #[test]
    fn no_server_is_asked_twice_by_the_same_directory() {
        let both = servers(&[(1, 1), (2, 2)]);
        let mut waits = call(group(), false, true);
        assert_eq!(step(&mut waits, known(&both, 1)), Ok((1, vec![1])));
        assert_eq!(fails(&mut waits, 1, Failure::NotExecuted(REFUSED)), None);
        assert_eq!(step(&mut waits, known(&both, 2)), Ok((2, vec![2])));
        assert_eq!(fails(&mut waits, 2, NEVER_SENT), None);
        assert_eq!(step(&mut waits, known(&both, 2)), Ok((1, vec![1])), "the directory has changed since");
        assert_eq!(fails(&mut waits, 1, NEVER_SENT), None);
        assert_eq!(step(&mut waits, known(&both, 2)), Ok((0, vec![])));
        assert_eq!(step(&mut waits, known(&both, 3)), Ok((1, vec![1])));
    }

    #[test]
    fn callees_are_the_members_that_the_directory_names_there() {
        let same = servers(&[(1, 1), (2, 1), (3, 3)]);
        assert_eq!(step(&mut call(group(), false, false), known(&same, 1)), Ok((1, vec![1, 2])));
        let member = Destination::Member(Incarnation(2));
        assert_eq!(step(&mut call(member, false, false), known(&same, 1)), Ok((1, vec![2])));
        let address = Destination::Address(at(1));
        assert_eq!(step(&mut call(address, false, false), known(&same, 1)), Ok((1, vec![])), "perhaps a stranger");
    }

    fn hedged(idempotent: bool) -> RoutedCall {
        call(group(), idempotent, false).hedged(LEFT / 4)
    }

    /// The port that is asked as well.
    fn hedge(call: &mut RoutedCall, known: Known<'_>, left: Duration) -> Option<u16> {
        call.hedge(known, left).map(|asking| asking.address.port())
    }

    #[test]
    fn a_second_server_is_asked_after_a_while_if_the_call_may_run_twice() {
        let both = servers(&[(1, 1), (2, 2)]);
        let mut once = hedged(false);
        assert_eq!(step(&mut once, known(&both, 1)), Ok((1, vec![1])));
        assert_eq!((once.hedges_in(LEFT / 2), hedge(&mut once, known(&both, 1), LEFT / 2)), (None, None));
        let mut call = hedged(true);
        assert_eq!(call.hedges_in(LEFT), None, "no server is asked");
        assert_eq!(step(&mut call, known(&both, 1)), Ok((1, vec![1])));
        assert_eq!(call.hedges_in(LEFT), Some(LEFT / 4));
        assert_eq!(hedge(&mut call, known(&both, 1), LEFT), None, "not yet");
        assert_eq!(call.hedges_in(LEFT / 4 * 3), Some(Duration::ZERO));
        assert_eq!(hedge(&mut call, known(&both, 1), LEFT / 2), Some(2));
        assert_eq!(call.hedges_in(Duration::ZERO), None, "two are enough");
        // The hedge is gone, the first one is busy: both were asked.
        assert_eq!(call.failed(at(2), NOBODY), AfterFailure::Other);
        assert_eq!(call.failed(at(1), Failure::NotExecuted(REFUSED)), AfterFailure::Next);
        assert_eq!(step(&mut call, known(&both, 2)), Err(Failure::NotExecuted(REFUSED)));
        // Without another one nothing happens, once.
        let one = servers(&[(1, 1)]);
        let mut alone = hedged(true);
        assert_eq!(step(&mut alone, known(&one, 1)), Ok((1, vec![1])));
        assert_eq!((hedge(&mut alone, known(&one, 1), LEFT / 2), alone.hedges_in(LEFT / 2)), (None, None));
        let mut late = hedged(true);
        assert_eq!(step(&mut late, known(&both, 1)), Ok((1, vec![1])));
        assert_eq!(hedge(&mut late, known(&both, 1), Duration::ZERO), None, "after the deadline");
    }

    #[test]
    fn a_hedged_call_is_told_what_may_have_run() {
        let both = servers(&[(1, 1), (2, 2)]);
        for (first, second) in [(1, 2), (2, 1)] {
            let mut call = hedged(true);
            assert_eq!(step(&mut call, known(&both, 1)), Ok((1, vec![1])));
            assert_eq!(hedge(&mut call, known(&both, 1), LEFT / 2), Some(2));
            let late = Failure::Unknown(Reason::Deadline);
            assert_eq!(call.failed(at(first), late), AfterFailure::Other);
            let never_sent = Failure::NotExecuted(Reason::Deadline);
            assert_eq!(call.failed(at(second), never_sent), AfterFailure::End(late));
        }
    }

    /// The hedge was not there. A call that waits asks it again when the directory has changed, and only then.
    #[test]
    fn a_hedge_that_may_be_back_is_asked_by_a_call_that_waits() {
        let (both, other) = (servers(&[(1, 1), (2, 2)]), servers(&[(2, 2)]));
        for waits in [true, false] {
            let mut call = call(group(), true, waits).hedged(LEFT / 4);
            assert_eq!(step(&mut call, known(&both, 1)), Ok((1, vec![1])));
            assert_eq!(hedge(&mut call, known(&both, 2), LEFT / 2), Some(2));
            assert_eq!(call.failed(at(1), NOBODY), AfterFailure::Other);
            assert_eq!(call.failed(at(2), NOBODY), AfterFailure::Next);
            let wait = if waits { Ok((0, vec![])) } else { Err(NOBODY) };
            assert_eq!(step(&mut call, known(&other, 2)), wait);
            let again = if waits { Ok((2, vec![2])) } else { Err(NOBODY) };
            assert_eq!(step(&mut call, known(&other, 3)), again);
        }
    }
}
