//! The client's side of calls.

use std::future::Future;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use phalanx_core::Incarnation;
use phalanx_driver::fork::Home;
use phalanx_life::{Destination, with_deadline};
use phalanx_runtime::config::Config;
use phalanx_runtime::rpc::{
    AfterFailure, CallOptions, Callees, Caller, Failure, Pending, Reason, RoutedAttempt, RoutedCall, Step,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::directory::Directory;
use super::{deadline_after, decode_answer, encode_request, port_options};
use crate::error::{CallError, StartError};
use crate::id::{Member, MemberId};
use crate::left;
use crate::shared::cell::{CellShared, Held};
use crate::waiting::{Place, block};

/// The server that a call is for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum To {
    /// The server at this address.
    Address(SocketAddr),
    /// A server of this member of the cell, whatever group it serves.
    Member(MemberId),
    /// A server of any member of this group: the next one in turn. One that certainly did not run the call, because it is
    /// gone or busy or refuses, is passed over for another. One that is silent is not, and costs the deadline; for ten seconds, or
    /// until it answers, the others are asked before it.
    Group(String),
}

impl From<SocketAddr> for To {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address)
    }
}

impl From<MemberId> for To {
    fn from(member: MemberId) -> Self {
        Self::Member(member)
    }
}

impl From<&Member> for To {
    fn from(member: &Member) -> Self {
        Self::Member(member.id)
    }
}

impl From<&str> for To {
    fn from(group: &str) -> Self {
        Self::Group(group.to_owned())
    }
}

impl From<String> for To {
    fn from(group: String) -> Self {
        Self::Group(group)
    }
}

/// Makes calls. Cheap to clone; usable from any thread and task.
///
/// [`Cell::client`](crate::Cell::client) makes one that finds servers by member and group, and keeps its process alive.
/// That process is a member of the cell and counts in its quorum.
/// [`CellBuilder::client`](crate::CellBuilder::client) makes one for a program that is no member of the cell, and calls
/// addresses. A thread of its own sends the calls. When the last clone is dropped, calls under way fail. In a forked
/// child it is dead.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<ClientShared>,
}

struct ClientShared {
    caller: Caller,
    /// The process that finds servers, unless the client is outside the cell.
    member: Option<Finder>,
    home: Home,
    /// The number of calls to groups, which take turns.
    turn: AtomicUsize,
}

/// A process of the cell, as far as its calls need it.
struct Finder {
    directory: Arc<Directory>,
    cell: Arc<CellShared>,
}

/// The members that are called, as the views say that are told last.
struct Members {
    cell: Arc<CellShared>,
    place: Place,
}

impl Callees for Members {
    fn has_left(&self, callee: Incarnation) -> bool {
        matches!(left::look(&self.cell, MemberId::of(callee)), Some(Ok(_)))
    }

    fn wake(&mut self, waker: &std::task::Waker) {
        let _never: Poll<()> = self.cell.watches.told.poll(&mut self.place, &Context::from_waker(waker), || None);
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        // A thread that held the lock at a fork does not exist in the child.
        if self.cell.home.is_here() {
            self.cell.watches.told.forget(&mut self.place);
        }
    }
}

impl std::fmt::Debug for ClientShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientShared").finish_non_exhaustive()
    }
}

impl Client {
    /// A client of a program outside the cell.
    pub(crate) fn outside(config: &Config) -> Result<Self, StartError> {
        Self::with(Caller::start(&port_options(config, 0, false)), None)
    }

    /// A client of a process of the cell.
    pub(crate) fn of(held: &Arc<Held>) -> Result<Self, StartError> {
        let cell = Arc::clone(&held.shared);
        let member = Finder { directory: Directory::of(held)?, cell: Arc::clone(&cell) };
        let options = port_options(&cell.config, 0, false);
        Self::with(Caller::start_among(&options, Members { cell, place: Place::default() }), Some(member))
    }

    fn with(caller: Result<Caller, phalanx_runtime::StartError>, member: Option<Finder>) -> Result<Self, StartError> {
        let caller = caller.map_err(|error| StartError::Host(error.to_string()))?;
        let shared = ClientShared { caller, member, home: Home::here(), turn: AtomicUsize::new(0) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Calls a server with a value, for an answer of type `A`: await it, or call [`Call::blocking`]. Both sides must use
    /// the same types.
    pub fn call<A: DeserializeOwned>(&self, to: impl Into<To>, request: &impl Serialize) -> Call<A> {
        Call {
            client: Arc::clone(&self.shared),
            to: to.into(),
            request: encode_request(request),
            deadline: CallOptions::default().deadline,
            idempotent: false,
            waits_for_server: false,
            hedge_after: None,
            answer: PhantomData,
        }
    }
}

/// A call before it is made: choose its deadline, then await it, or call [`Call::blocking`].
///
/// # Cancel safety
/// Before the first poll nothing is called. Dropping the future later gives the call up: the server is told, and the call
/// may have run, may run on, or may never run.
#[must_use = "nothing is called until it is awaited"]
#[derive(Debug)]
pub struct Call<A> {
    client: Arc<ClientShared>,
    to: To,
    request: Result<Vec<u8>, CallError>,
    deadline: Duration,
    idempotent: bool,
    waits_for_server: bool,
    hedge_after: Option<Duration>,
    answer: PhantomData<fn() -> A>,
}

impl<A: DeserializeOwned> Call<A> {
    /// The time until the call fails, counted from when it is first polled. The handler knows it, too. Default 10 s.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Running it twice does no harm: if its server restarts while it runs, it is made again, at the same address. If its
    /// server's member leaves the cell, a call to a group goes on to the next server.
    pub fn idempotent(self) -> Self {
        Self { idempotent: true, ..self }
    }

    /// Hedges the call: if its server has not answered after this time, a second one of the group is asked as well. The first
    /// answer counts, and the other server is told that the call was given up. So a server that is slow, or stopped and not
    /// yet out of the cell, costs this time rather than the deadline. Both may run it, so it has to be marked
    /// [`Call::idempotent`].
    ///
    /// A time after which most calls are answered costs little: the second server has as many more calls as are slower than
    /// that. If the directory lists no other server then, no other one is asked. A call to an address has none.
    ///
    /// ```no_run
    /// # async fn ask(client: phalanx::Client) -> Result<u32, phalanx::CallError> {
    /// use std::time::Duration;
    ///
    /// client.call("stock", &"ACME").idempotent().hedge_after(Duration::from_millis(20)).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// If it is not idempotent, it ends with [`CallError::NotIdempotent`].
    pub fn hedge_after(self, time: Duration) -> Self {
        Self { hedge_after: Some(time), ..self }
    }

    /// If no server is there, waits for one until the deadline. By default the call fails at once. It does not wait for a
    /// server that is busy or refuses.
    pub fn wait_for_server(self) -> Self {
        Self { waits_for_server: true, ..self }
    }

    /// Waits like the future, in a thread.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn blocking(self) -> Result<A, CallError> {
        block(self)
    }
}

impl<A: DeserializeOwned> IntoFuture for Call<A> {
    type Output = Result<A, CallError>;
    type IntoFuture = Calling<A>;

    fn into_future(self) -> Calling<A> {
        let Self { client, to, request, deadline, idempotent, waits_for_server, hedge_after, answer } = self;
        let (request, refused) = match request {
            Ok(_) if hedge_after.is_some() && !idempotent => (Vec::new(), Some(CallError::NotIdempotent)),
            Ok(request) => (request, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let wanted = match to {
            To::Address(address) => Destination::Address(address),
            To::Member(member) => Destination::Member(member.incarnation()),
            To::Group(group) => Destination::Group(group),
        };
        let turn = client.turn.fetch_add(1, Ordering::Relaxed);
        let route = RoutedCall::new(wanted, turn, CallOptions { deadline, idempotent, waits_for_server });
        let route = match hedge_after {
            Some(time) => route.hedged(time),
            None => route,
        };
        Calling {
            client,
            route,
            request,
            deadline,
            until: None,
            asked: Vec::new(),
            callees: Vec::new(),
            place: Place::default(),
            noted: None,
            refused,
            answer,
        }
    }
}

/// A call that is being made; see [`Client::call`]. Dropping it gives the call up: the server is told, and a handler that
/// runs learns of it.
#[must_use = "nothing is called until it is awaited"]
pub struct Calling<A> {
    client: Arc<ClientShared>,
    /// Whom to ask next, and what the caller is told.
    route: RoutedCall,
    request: Vec<u8>,
    deadline: Duration,
    /// The deadline, once it was polled.
    until: Option<Instant>,
    /// The servers that are asked: one, or two if it is hedged.
    asked: Vec<AskedServer>,
    /// Whose server failed last.
    callees: Vec<Incarnation>,
    place: Place,
    /// The time at which the directory is to wake it.
    noted: Option<Instant>,
    /// Why it is not made.
    refused: Option<CallError>,
    answer: PhantomData<fn() -> A>,
}

struct AskedServer {
    address: SocketAddr,
    callees: Vec<Incarnation>,
    pending: Pending,
}

impl<A> std::fmt::Debug for Calling<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calling").field("route", &self.route).finish_non_exhaustive()
    }
}

impl<A: DeserializeOwned> Future for Calling<A> {
    type Output = Result<A, CallError>;

    /// # Panics
    /// If it is polled after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(error) = this.refused.take() {
            return Poll::Ready(Err(error));
        }
        let until = *this.until.get_or_insert_with(|| deadline_after(this.deadline));
        loop {
            match this.poll_asked(context) {
                Poll::Ready(Some(Ok(answer))) => {
                    // The other server is told that nobody waits for it.
                    this.asked.clear();
                    this.forget();
                    return Poll::Ready(decode_answer(&answer));
                }
                Poll::Ready(Some(Err(failure))) => return Poll::Ready(Err(this.told(failure))),
                Poll::Ready(None) => {}
                Poll::Pending => {
                    let asking = ready!(this.poll_hedge(until, context));
                    this.ask(asking);
                    continue;
                }
            }
            match ready!(this.next(until, context)) {
                Ok(asking) => this.ask(asking),
                Err(failure) => return Poll::Ready(Err(this.told(failure))),
            }
        }
    }
}

impl<A> Calling<A> {
    /// Whether a server that is asked answers, or how the call ends. `None`: no server is asked.
    fn poll_asked(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, Failure>>> {
        let mut at = 0;
        while let Some(asked) = self.asked.get_mut(at) {
            match Pin::new(&mut asked.pending).poll(context) {
                Poll::Pending => at += 1,
                Poll::Ready(Ok(answer)) => {
                    if let Some(directory) = directory_of(&self.client, &self.route) {
                        directory.note_end(asked.address, Ok(()));
                    }
                    return Poll::Ready(Some(Ok(answer)));
                }
                Poll::Ready(Err(failure)) => {
                    let AskedServer { address, callees, .. } = self.asked.remove(at);
                    if let Some(directory) = directory_of(&self.client, &self.route) {
                        directory.note_end(address, Err(failure));
                    }
                    self.callees = callees;
                    if let AfterFailure::End(failure) = self.route.failed(address, failure) {
                        return Poll::Ready(Some(Err(failure)));
                    }
                }
            }
        }
        if self.asked.is_empty() { Poll::Ready(None) } else { Poll::Pending }
    }

    fn ask(&mut self, asking: RoutedAttempt) {
        let RoutedAttempt { address, callees, options } = asking;
        let request = with_deadline(options.deadline, &self.request);
        let pending = self.client.caller.call_member(address, callees.clone(), request, &options);
        self.asked.push(AskedServer { address, callees, pending });
    }

    /// Another server to ask as well, once it is time.
    fn poll_hedge(&mut self, until: Instant, context: &Context<'_>) -> Poll<RoutedAttempt> {
        let left = || until.saturating_duration_since(Instant::now());
        loop {
            let (Some(due), Some(member)) = (self.route.hedges_in(left()), &self.client.member) else {
                self.forget();
                return Poll::Pending;
            };
            let directory = Arc::clone(&member.directory);
            if !self.client.home.is_here() {
                return Poll::Pending;
            }
            if due.is_zero() {
                let asking = directory.look(|known| self.route.hedge(known, left()));
                if let Some(asking) = asking {
                    self.forget();
                    return Poll::Ready(asking);
                }
                continue;
            }
            if self.noted.is_none() {
                let at = deadline_after(due);
                directory.note_deadline(at);
                self.noted = Some(at);
            }
            let route = &self.route;
            let is_due = || route.hedges_in(left()).is_some_and(|due| due.is_zero()).then_some(());
            ready!(directory.callers().poll(&mut self.place, context, is_due));
        }
    }

    /// The next server to ask.
    fn next(&mut self, until: Instant, context: &Context<'_>) -> Poll<Result<RoutedAttempt, Failure>> {
        let Self { client, route, place, noted, .. } = self;
        if route.needs_directory() && !client.home.is_here() {
            return Poll::Ready(Err(Failure::NotExecuted(Reason::Forked)));
        }
        let left = || until.saturating_duration_since(Instant::now());
        // A client outside the cell has no directory.
        let Some(directory) = directory_of(client, route) else {
            return found(route.next(None, left())).map_or(Poll::Pending, Poll::Ready);
        };
        let mut look = || directory.look(|known| found(route.next(Some(known), left())));
        let found = match look() {
            Some(found) => Poll::Ready(found),
            None => {
                if noted.is_none() {
                    directory.note_deadline(until);
                    *noted = Some(until);
                }
                directory.callers().poll(place, context, look)
            }
        };
        if found.is_ready() {
            self.forget();
        }
        found
    }

    /// What its caller is told.
    fn told(&self, failure: Failure) -> CallError {
        CallError::of(failure, || {
            let departed = |cell: &CellShared, who: &Incarnation| match left::look(cell, MemberId::of(*who)) {
                Some(Ok(departure)) => Some(departure.view),
                Some(Err(_)) | None => None,
            };
            let cell = self.client.member.as_ref().map(|member| &*member.cell);
            cell.and_then(|cell| self.callees.iter().filter_map(|who| departed(cell, who)).max()).unwrap_or_default()
        })
    }

    /// Waits for the directory no more.
    fn forget(&mut self) {
        if let (Some(Finder { directory, .. }), true) = (&self.client.member, self.client.home.is_here()) {
            directory.callers().forget(&mut self.place);
            if let Some(at) = self.noted.take() {
                directory.forget_deadline(at);
            }
        }
    }
}

impl<A> Drop for Calling<A> {
    fn drop(&mut self) {
        self.forget();
    }
}

/// The directory in which the call finds its server.
fn directory_of<'a>(client: &'a ClientShared, route: &RoutedCall) -> Option<&'a Directory> {
    let Finder { directory, .. } =
        client.member.as_ref().filter(|_| route.needs_directory() && client.home.is_here())?;
    Some(directory)
}

/// The server to ask, or how the call ends; `None`: it waits.
fn found(step: Step) -> Option<Result<RoutedAttempt, Failure>> {
    match step {
        Step::Ask(asking) => Some(Ok(asking)),
        Step::Wait => None,
        Step::End(failure) => Some(Err(failure)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use phalanx_core::Incarnation;
    use phalanx_core::rpc::{CallId, HandlerResult};
    use phalanx_life::{Entry, Found, split_request};
    use phalanx_runtime::rpc::{Port, Service};

    use super::super::directory::Listed;
    use super::*;
    use crate::cell::Cell;
    use crate::error::Reason;

    /// Counts the calls that it is asked for, with the time that is left of the last one, and says what becomes of them.
    struct Counts(u32, Duration, HandlerResult);

    impl Service for Counts {
        fn request(&mut self, _: CallId, _: Incarnation, request: &[u8], answer: &mut Vec<u8>) -> HandlerResult {
            self.0 += 1;
            self.1 = split_request(request).expect("a request").0;
            answer.extend([0, 7]);
            self.2
        }
    }

    fn cell(place: &std::path::Path, name: &str) -> Cell {
        let builder = Cell::builder(name).name("ann").directories(place.join("run"), place.join("state"));
        builder.blocking_start().expect("starts")
    }

    /// Lists a server of group `g` for each port, and waits until the directory has them.
    fn list(directory: &Arc<Directory>, ports: [&Port; 2]) -> [Listed; 2] {
        let entry = |port: &Port| Entry { group: Some("g".to_owned()), address: port.address() };
        let listed = ports.map(|port| directory.list(entry(port)).expect("there is room"));
        let (both, end) = (Destination::Group("g".to_owned()), Instant::now() + PATIENCE);
        let found = || directory.look(|known| known.find(&both, &[ports[0].address()], 0));
        while !matches!(found(), Found::Server(at) if at == ports[1].address()) {
            assert!(Instant::now() < end, "the directory does not list both");
            std::thread::sleep(Duration::from_millis(5));
        }
        listed
    }

    /// One of two servers is stopped. It costs the deadline of one call, and not of every second one.
    #[test]
    fn who_was_silent_is_asked_last() {
        let place = tempfile::tempdir().expect("a directory");
        let cell = cell(place.path(), "silent");
        let start = || Port::start(&port_options(&cell.held.shared.config, 0, true)).expect("starts");
        let (stopped, mut answers) = (start(), start());
        let client = cell.client().expect("starts");
        let directory = Arc::clone(&client.shared.member.as_ref().expect("it is in the cell").directory);
        let _listed = list(&directory, [&stopped, &answers]);
        let is_over = AtomicBool::new(false);
        let ended: Vec<bool> = std::thread::scope(|scope| {
            let calls = scope.spawn(|| {
                let call = || client.call::<u64>("g", &1_u64).deadline(Duration::from_secs(2)).blocking().is_ok();
                let ended = (0..8).map(|_| call()).collect();
                is_over.store(true, Ordering::Release);
                ended
            });
            let mut takes = Counts(0, PATIENCE, HandlerResult::Answered);
            while !is_over.load(Ordering::Acquire) {
                answers.poll(&mut takes);
            }
            calls.join().expect("no panic")
        });
        assert_eq!(ended.iter().filter(|is_answered| !**is_answered).count(), 1, "{ended:?}");
        assert!(!directory.look(|known| known.silent.is_empty()));
    }

    /// The first server of a group begins a call and is gone: the call may have run. The second one must not run it, too.
    /// One that certainly did not run is made there.
    #[test]
    fn a_call_that_may_have_run_is_not_made_again_at_another_server() {
        let place = tempfile::tempdir().expect("a directory");
        let cell = cell(place.path(), "once");
        let config = cell.held.shared.config.clone();
        let start = || Port::start(&port_options(&config, 0, true)).expect("starts");
        for (became, again, outcome) in [
            (HandlerResult::Later, 0, Err(CallError::Unknown(Reason::Restarted))),
            (HandlerResult::Refused, 1, Ok(7_u64)),
        ] {
            let client = cell.client().expect("starts");
            let directory = Arc::clone(&client.shared.member.as_ref().expect("it is in the cell").directory);
            let (mut first, mut second) = (start(), start());
            let _listed = list(&directory, [&first, &second]);
            let (mut began, mut takes) = (Counts(0, PATIENCE, became), Counts(0, PATIENCE, HandlerResult::Answered));
            let is_over = AtomicBool::new(false);
            let ended = std::thread::scope(|scope| {
                let call = scope.spawn(|| {
                    let ended = client.call::<u64>("g", &1_u64).deadline(PATIENCE).blocking();
                    is_over.store(true, Ordering::Release);
                    ended
                });
                while began.0 == 0 || (became != HandlerResult::Later && !is_over.load(Ordering::Acquire)) {
                    first.poll(&mut began);
                    second.poll(&mut takes);
                }
                drop(first);
                while !is_over.load(Ordering::Acquire) {
                    second.poll(&mut takes);
                }
                call.join().expect("no panic")
            });
            assert_eq!((ended, began.0, takes.0), (outcome, 1, again));
            assert!(began.1 <= PATIENCE && (again == 0 || takes.1 < began.1), "the second one has less time left");
        }
    }

    const PATIENCE: Duration = Duration::from_secs(20);
}
