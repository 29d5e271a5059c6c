//! The way of a call from server to server.

use std::net::SocketAddr;
use std::time::Duration;

use phalanx_core::rpc::{CallOptions, Failure, Reason, Refusal};

use crate::servers::{Destination, Found, Known};

/// A call for a server that a directory names, or for an address: whom to ask next, and what its caller is told if no
/// server answers. It has no clock: who drives it says how much time is left.
///
/// One that certainly did not run at a server, because that is gone or busy or refuses, is passed over to another one of
/// the group. One that may have run is not.
#[derive(Debug)]
pub struct Route {
    wanted: Destination,
    /// Of which of several servers it is the turn.
    turn: usize,
    options: CallOptions,
    tried: Vec<SocketAddr>,
    /// Changes of the directory since which `tried` counts.
    seen: u64,
    /// How the server that was asked last failed.
    failed: Option<Failure>,
}

/// What is to be done for a call.
#[derive(Clone, Copy, Debug)]
pub enum CallStep {
    /// Ask this server. If there is no answer: [`Route::failed`].
    Ask(Attempt),
    /// Look again when the directory has changed, and at the deadline.
    Wait,
    /// Its caller is told this.
    End(Failure),
}

/// One server that is asked.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// Where it is.
    pub address: SocketAddr,
    /// With the time that is left of the call.
    pub options: CallOptions,
}

impl Route {
    /// How a server fails that is not there.
    pub const NOBODY: Failure = Failure::NotExecuted(Reason::Unreachable);

    /// A call. Among several servers that fit, number `turn` is the first; `options` has the whole time.
    #[must_use]
    pub const fn new(wanted: Destination, turn: usize, options: CallOptions) -> Self {
        Self { wanted, turn, options, tried: Vec::new(), seen: 0, failed: None }
    }

    /// Whether the directory is needed to find the server.
    #[must_use]
    pub const fn needs_directory(&self) -> bool {
        !matches!(self.wanted, Destination::Address(_))
    }

    /// What is to be done first, after a server that failed, or after a wait. `known`: what the process has of the directory;
    /// one outside the cell has none. `not_again`: servers that are not to be asked now, beside those that were tried. `left`:
    /// the time until the deadline.
    pub fn next(&mut self, known: Option<Known<'_>>, not_again: &[SocketAddr], left: Duration) -> CallStep {
        if let Destination::Address(address) = self.wanted {
            return CallStep::Ask(self.ask(address, left));
        }
        let Some(known) = known else { return CallStep::End(Self::NOBODY) };
        let (is_late, waits) = (left.is_zero(), self.options.waits_for_server && self.is_nobody());
        if waits && self.seen != known.changes {
            // Who was gone may be back.
            self.tried.clear();
            self.seen = known.changes;
        }
        match known.find(&self.wanted, &[&self.tried[..], not_again].concat(), self.turn) {
            Found::Server(_) if is_late => CallStep::End(self.failed.unwrap_or(Failure::NotExecuted(Reason::Deadline))),
            Found::Server(address) => CallStep::Ask(self.ask(address, left)),
            Found::Over => CallStep::End(Failure::NotExecuted(Reason::Cancelled)),
            Found::NotYet if !is_late => CallStep::Wait,
            Found::Nobody if !is_late && waits => CallStep::Wait,
            Found::Nobody | Found::NotYet => CallStep::End(self.failed.unwrap_or(Self::NOBODY)),
        }
    }

    /// The server that was asked last gave no answer. `None`: another one may be asked, see [`Route::next`]. Otherwise the
    /// call is over, and its caller is told this.
    #[must_use]
    pub fn failed(&mut self, failure: Failure) -> Option<Failure> {
        if !self.needs_directory() || !is_of_one_server(failure) {
            return Some(failure);
        }
        self.failed = Some(failure);
        None
    }

    fn ask(&mut self, address: SocketAddr, left: Duration) -> Attempt {
        self.tried.push(address);
        // Whom the directory names is there, or another one is asked for.
        let waits_for_server = self.options.waits_for_server && !self.needs_directory();
        Attempt { address, options: CallOptions { deadline: left, waits_for_server, ..self.options } }
    }

    /// Whether no server was there, so that waiting for one makes sense.
    fn is_nobody(&self) -> bool {
        self.failed.is_none_or(|failed| failed == Self::NOBODY)
    }
}

/// Whether a call did certainly not run, for a reason that another server of the same group may not have.
const fn is_of_one_server(failure: Failure) -> bool {
    match failure {
        Failure::NotExecuted(Reason::Refused(refusal)) => !matches!(refusal, Refusal::TooLong),
        Failure::NotExecuted(reason) => matches!(reason, Reason::Unreachable),
        Failure::Unknown(_) => false,
    }
}

/// A request: the time that is left until the call's deadline, and the value.
#[must_use]
pub fn with_deadline(left: Duration, value: &[u8]) -> Vec<u8> {
    let mut request = Vec::with_capacity(value.len() + DEADLINE_BYTES);
    request.extend_from_slice(&u64::try_from(left.as_micros()).unwrap_or(u64::MAX).to_le_bytes());
    request.extend_from_slice(value);
    request
}

/// The parts of a request: the time that is left, and the value.
#[must_use]
pub fn split_request(request: &[u8]) -> Option<(Duration, &[u8])> {
    let (left, value) = request.split_first_chunk::<DEADLINE_BYTES>()?;
    Some((Duration::from_micros(u64::from_le_bytes(*left)), value))
}

const DEADLINE_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use phalanx_core::Incarnation;

    use super::*;
    use crate::servers::{Entry, Servers};

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// Members 1, 2, .. of group `g`, each with a server at the port of its number.
    fn servers(members: &[u16]) -> Servers {
        let entry = |member: u16| vec![Entry { group: Some("g".to_owned()), address: at(member) }];
        Servers::of_lists(members.iter().map(|member| (Incarnation(u64::from(*member)), entry(*member))))
    }

    fn known(servers: &Servers, changes: u64) -> Known<'_> {
        Known { servers, is_current: true, is_over: false, changes, silent: &[] }
    }

    fn route(waits_for_server: bool) -> Route {
        let options = CallOptions { deadline: LEFT, idempotent: true, waits_for_server };
        Route::new(Destination::Group("g".to_owned()), 0, options)
    }

    /// The port that is asked, or how the call ends; `Ok(0)`: it waits.
    fn step(route: &mut Route, known: Known<'_>, left: Duration) -> Result<u16, Failure> {
        match route.next(Some(known), &[], left) {
            CallStep::Ask(attempt) => {
                assert_eq!(attempt.options.deadline, left, "the time that is left is passed on");
                assert!(attempt.options.idempotent && !attempt.options.waits_for_server);
                Ok(attempt.address.port())
            }
            CallStep::Wait => Ok(0),
            CallStep::End(failure) => Err(failure),
        }
    }

    const NOBODY: Failure = Route::NOBODY;
    const LEFT: Duration = Duration::from_secs(1);
    const LESS: Duration = Duration::from_millis(10);
    const REFUSED: Failure = Failure::NotExecuted(Reason::Refused(Refusal::NoService));

    #[test]
    fn each_server_is_asked_once_while_the_call_certainly_did_not_run() {
        let all = servers(&[1, 2]);
        for failure in [NOBODY, REFUSED, Failure::NotExecuted(Reason::Refused(Refusal::Busy))] {
            let mut route = route(false);
            assert_eq!(step(&mut route, known(&all, 1), LEFT), Ok(1));
            assert_eq!(route.failed(failure), None);
            assert_eq!(step(&mut route, known(&all, 2), LESS), Ok(2));
            assert_eq!(route.failed(failure), None);
            assert_eq!(step(&mut route, known(&all, 3), LESS), Err(failure));
        }
        for failure in [
            Failure::Unknown(Reason::SessionLost),
            Failure::NotExecuted(Reason::NoAnswer),
            Failure::NotExecuted(Reason::Refused(Refusal::TooLong)),
        ] {
            let mut route = route(false);
            assert_eq!(step(&mut route, known(&all, 1), LEFT), Ok(1));
            assert_eq!(route.failed(failure), Some(failure));
        }
    }

    #[test]
    fn who_waits_for_a_server_asks_the_one_that_comes() {
        let (none, one) = (Servers::default(), servers(&[1]));
        assert_eq!(step(&mut route(false), known(&none, 0), LEFT), Err(NOBODY));
        let mut waits = route(true);
        assert_eq!(step(&mut waits, known(&none, 0), LEFT), Ok(0));
        assert_eq!(step(&mut waits, known(&one, 1), LESS), Ok(1));
        assert_eq!(waits.failed(NOBODY), None);
        assert_eq!(step(&mut waits, known(&one, 1), LESS), Ok(0), "it is gone");
        assert_eq!(step(&mut waits, known(&one, 2), LESS), Ok(1), "it may be back");
        assert_eq!(waits.failed(REFUSED), None);
        assert_eq!(step(&mut waits, known(&one, 3), LESS), Err(REFUSED), "no wait for one that refuses");
    }

    /// The first server is gone, the second refuses, and the first comes back meanwhile. The third is gone, too.
    #[test]
    fn a_change_that_came_while_a_server_refused_counts_later() {
        let all = servers(&[1, 2, 3]);
        let mut waits = route(true);
        assert_eq!(step(&mut waits, known(&all, 1), LEFT), Ok(1));
        assert_eq!(waits.failed(NOBODY), None);
        assert_eq!(step(&mut waits, known(&all, 1), LEFT), Ok(2));
        assert_eq!(waits.failed(REFUSED), None);
        assert_eq!(step(&mut waits, known(&all, 2), LEFT), Ok(3));
        assert_eq!(waits.failed(NOBODY), None);
        assert_eq!(step(&mut waits, known(&all, 2), LESS), Ok(1), "it may be back");
    }

    #[test]
    fn nobody_is_asked_after_the_deadline() {
        let (none, one) = (Servers::default(), servers(&[1]));
        let late = Duration::ZERO;
        assert_eq!(step(&mut route(true), known(&one, 0), late), Err(Failure::NotExecuted(Reason::Deadline)));
        assert_eq!(step(&mut route(true), known(&none, 0), late), Err(NOBODY));
        let not_yet = Known { is_current: false, ..known(&none, 0) };
        assert_eq!(step(&mut route(false), not_yet, LESS), Ok(0), "the directory comes");
        assert_eq!(step(&mut route(false), not_yet, late), Err(NOBODY));
    }

    #[test]
    fn the_end_of_the_directory_ends_what_needs_it() {
        let one = servers(&[1]);
        let over = Known { is_over: true, ..known(&one, 0) };
        assert_eq!(step(&mut route(true), over, LEFT), Err(Failure::NotExecuted(Reason::Cancelled)));
        assert!(matches!(route(true).next(None, &[], LEFT), CallStep::End(NOBODY)), "outside the cell");
        let options = CallOptions { waits_for_server: true, ..CallOptions::default() };
        let mut named = Route::new(Destination::Address(at(7)), 0, options);
        let CallStep::Ask(attempt) = named.next(None, &[], LESS) else { panic!("an address is asked") };
        assert_eq!((attempt.address, attempt.options.deadline), (at(7), LESS));
        assert!(attempt.options.waits_for_server);
        assert_eq!(named.failed(NOBODY), Some(NOBODY), "there is no other one");
    }

    #[test]
    fn requests_survive_the_wire() {
        let request = with_deadline(LESS, b"value");
        assert_eq!(split_request(&request), Some((LESS, &b"value"[..])));
        assert_eq!(split_request(&request[..7]), None);
    }
}
