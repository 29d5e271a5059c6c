//! A routed call: the servers that are asked for it, the members that they belong to, and what its caller is told.
//!
//! [`Route`] knows addresses. Here a server is that of a member, and a failure may be that the member left the cell.

use std::net::SocketAddr;
use std::time::Duration;

use phalanx_core::Incarnation;
use phalanx_core::rpc::{CallOptions, Failure, Reason};
use phalanx_life::{Attempt, CallStep, Destination, Entry, Known, Route, Servers};

/// A call to a group, a member or an address, from its begin to its end: whom to ask next, and what its caller is told. It
/// has no clock and makes no calls.
///
/// A server whose member left the cell before anything was sent to it did certainly not run the call, so the next server
/// of the group is asked. So it is if the member left while it may have run an idempotent call. Otherwise the caller is told
/// that it is unknown.
#[derive(Debug)]
pub struct RoutedCall {
    route: Route,
    wanted: Destination,
    idempotent: bool,
    /// The servers that were asked, each with the number of changes of the directory by then.
    asked: Vec<(SocketAddr, u64)>,
    /// It may have run at a server whose member left.
    may_have_run: bool,
    /// The member of the server that was asked last left the cell.
    is_left: bool,
}

/// What is to be done for a call.
#[derive(Debug)]
pub enum Step {
    /// Ask this server. If there is no answer: [`RoutedCall::failed`].
    Ask(Asking),
    /// Look again when the directory has changed, and at the deadline.
    Wait,
    /// Its caller is told this.
    End(Failure),
}

/// A server that is asked.
#[derive(Debug)]
pub struct Asking {
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
        let idempotent = options.idempotent;
        Self { route, wanted, idempotent, asked: Vec::new(), may_have_run: false, is_left: false }
    }

    /// Whether the directory is needed to find the server.
    #[must_use]
    pub const fn needs_directory(&self) -> bool {
        self.route.needs_directory()
    }

    /// What is to be done first, after a server that failed, or after a wait; see [`Route::next`].
    pub fn next(&mut self, known: Option<Known<'_>>, left: Duration) -> Step {
        let step = match (known, self.asked_since(known)) {
            (Some(known), asked) if !asked.is_empty() => {
                let others = without(known.servers, &asked);
                self.route.next(Some(Known { servers: &others, ..known }), left)
            }
            (known, _) => self.route.next(known, left),
        };
        match step {
            CallStep::Ask(Attempt { address, options }) => {
                let callees = known.map_or_else(Vec::new, |known| self.callees(known, address));
                self.asked.retain(|(at, _)| *at != address);
                self.asked.push((address, known.map_or(0, |known| known.changes)));
                Step::Ask(Asking { address, callees, options })
            }
            CallStep::Wait => Step::Wait,
            CallStep::End(failure) => Step::End(self.told(failure)),
        }
    }

    /// The servers that were asked since the directory changed last. They are no others than they were.
    fn asked_since(&self, known: Option<Known<'_>>) -> Vec<SocketAddr> {
        let is_named = |known: &Known<'_>| self.needs_directory() && !known.is_over;
        let Some(known) = known.filter(is_named) else { return Vec::new() };
        self.asked.iter().filter(|(_, changes)| *changes == known.changes).map(|(address, _)| *address).collect()
    }

    /// The server that was asked last gave no answer. `None`: another one may be asked, see [`RoutedCall::next`]. Otherwise
    /// the call is over, and its caller is told this.
    #[must_use]
    pub fn failed(&mut self, failure: Failure) -> Option<Failure> {
        self.is_left = matches!(failure, Failure::NotExecuted(Reason::Left) | Failure::Unknown(Reason::Left));
        // The other servers of a member are gone with it.
        let is_of_group = matches!(self.wanted, Destination::Group(_));
        let may_go_on = self.idempotent || matches!(failure, Failure::NotExecuted(_));
        let passed_on = if self.is_left && is_of_group && may_go_on {
            self.may_have_run |= matches!(failure, Failure::Unknown(_));
            Failure::NotExecuted(Reason::Unreachable)
        } else {
            failure
        };
        self.route.failed(passed_on).map(|failure| self.told(failure))
    }

    /// What the caller is told, if that is how the last server failed.
    fn told(&self, failure: Failure) -> Failure {
        let Failure::NotExecuted(reason) = failure else { return failure };
        let reason = if self.is_left && reason == Reason::Unreachable { Reason::Left } else { reason };
        if self.may_have_run { Failure::Unknown(reason) } else { Failure::NotExecuted(reason) }
    }

    /// The members whose server for this call is at `address`.
    fn callees(&self, known: Known<'_>, address: SocketAddr) -> Vec<Incarnation> {
        let fits = |member: Incarnation, group: Option<&str>| match &self.wanted {
            Destination::Address(_) => false,
            Destination::Member(wanted) => member == *wanted,
            Destination::Group(wanted) => group == Some(wanted),
        };
        let lists = known.servers.lists();
        lists
            .filter(|(member, entries)| {
                entries.iter().any(|entry| entry.address == address && fits(*member, entry.group.as_deref()))
            })
            .map(|(member, _)| member)
            .collect()
    }
}

/// A directory without the servers at these addresses.
fn without(servers: &Servers, addresses: &[SocketAddr]) -> Servers {
    let others = |entries: &[Entry]| {
        entries.iter().filter(|entry| !addresses.contains(&entry.address)).cloned().collect::<Vec<_>>()
    };
    Servers::of_lists(servers.lists().map(|(member, entries)| (member, others(entries))))
}

#[cfg(test)]
mod tests {

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
        Known { servers, is_current: true, is_over: false, changes }
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
            Step::Ask(Asking { address, callees, .. }) => {
                Ok((address.port(), callees.iter().map(|callee| callee.0).collect()))
            }
            Step::Wait => Ok((0, Vec::new())),
            Step::End(failure) => Err(failure),
        }
    }

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
            assert_eq!(call.failed(failure), None);
            assert_eq!(step(&mut call, known(&both, 1)), Ok((2, vec![2])));
            assert_eq!(call.failed(failure), None);
            assert_eq!(step(&mut call, known(&both, 1)), Err(failure), "as the last one failed");
        }
        let mut once = call(group(), false, true);
        assert_eq!(step(&mut once, known(&both, 1)), Ok((1, vec![1])));
        assert_eq!(once.failed(UNSURE), Some(UNSURE));
    }

    #[test]
    fn what_may_have_run_is_never_told_as_not_executed() {
        let both = servers(&[(1, 1), (2, 2)]);
        for reason in [REFUSED, Reason::Unreachable] {
            let mut call = call(group(), true, false);
            assert_eq!(step(&mut call, known(&both, 1)), Ok((1, vec![1])));
            assert_eq!(call.failed(UNSURE), None);
            assert_eq!(step(&mut call, known(&both, 1)), Ok((2, vec![2])));
            assert_eq!(call.failed(Failure::NotExecuted(reason)), None);
            assert_eq!(step(&mut call, known(&both, 1)), Err(Failure::Unknown(reason)));
        }
    }

    /// A member that left does not come back, and its other servers are gone, too. A group may have another one.
    #[test]
    fn who_waits_for_a_server_waits_for_no_member_that_left() {
        let one = servers(&[(1, 1)]);
        let mut waits = call(group(), false, true);
        assert_eq!(step(&mut waits, known(&one, 1)), Ok((1, vec![1])));
        assert_eq!(waits.failed(NEVER_SENT), None);
        assert_eq!(step(&mut waits, known(&one, 1)), Ok((0, vec![])));
        assert_eq!(step(&mut waits, known(&servers(&[(3, 1)]), 2)), Ok((1, vec![3])), "another one, at its address");
        let mut member = call(Destination::Member(Incarnation(1)), false, true);
        assert_eq!(step(&mut member, known(&one, 1)), Ok((1, vec![1])));
        assert_eq!(member.failed(NEVER_SENT), Some(NEVER_SENT));
    }

    /// The directory changes while a server refuses. The next one is gone, and is not asked again before another change.
    #[test]
    fn no_server_is_asked_twice_by_the_same_directory() {
        let both = servers(&[(1, 1), (2, 2)]);
        let mut waits = call(group(), false, true);
        assert_eq!(step(&mut waits, known(&both, 1)), Ok((1, vec![1])));
        assert_eq!(waits.failed(Failure::NotExecuted(REFUSED)), None);
        assert_eq!(step(&mut waits, known(&both, 2)), Ok((2, vec![2])));
        assert_eq!(waits.failed(NEVER_SENT), None);
        assert_eq!(step(&mut waits, known(&both, 2)), Ok((1, vec![1])), "the directory has changed since");
        assert_eq!(waits.failed(NEVER_SENT), None);
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
}
