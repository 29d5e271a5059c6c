//! The server's side of calls.

use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_core::Stream;
use phalanx_core::rpc::CallId;
use phalanx_life::{Entry, split_request};
use phalanx_runtime::config::Config;
use phalanx_runtime::rpc::Port;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::directory::{Directory, Listed};
use super::serving::{Asked, Queued, ServerShared, run};
use super::{ABANDONED, encode_answer, port_options};
use crate::error::StartError;
use crate::group::Group;
use crate::shared::cell::Held;
use crate::waiting::{Place, Waiting, block_value};

/// How to start a server of calls with requests of type `Q` and answers of type `A`; see
/// [`Group::server`](crate::Group::server), [`Cell::server`](crate::Cell::server) and
/// [`CellBuilder::server`](crate::CellBuilder::server).
#[must_use = "nothing is served until it is started"]
pub struct ServerBuilder<Q, A> {
    config: Config,
    origin: Origin,
    port: u16,
    requests_max: usize,
    types: PhantomData<fn(Q) -> A>,
}

impl<Q, A> std::fmt::Debug for ServerBuilder<Q, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerBuilder").field("port", &self.port).finish_non_exhaustive()
    }
}

/// Who finds the server, beside those that know its address.
pub(crate) enum Origin {
    /// Nobody.
    Outside,
    /// Members of the cell of this process, by member and, if it is named, by group.
    Member(Arc<Held>, Option<String>),
}

impl Group {
    /// How to start a server of calls that others find by this group's name; see [`Server`]. Requests have the type `Q`,
    /// answers the type `A`.
    ///
    /// The server is of this process and not of the membership: it serves on after a leave of the group, until it is
    /// stopped.
    pub fn server<Q: DeserializeOwned, A: Serialize>(&self) -> ServerBuilder<Q, A> {
        let origin = Origin::Member(Arc::clone(&self.held), Some(self.name().to_owned()));
        ServerBuilder::new(self.held.shared.config.clone(), origin)
    }
}

impl<Q: DeserializeOwned, A: Serialize> ServerBuilder<Q, A> {
    pub(crate) fn new(config: Config, origin: Origin) -> Self {
        Self { config, origin, port: 0, requests_max: REQUESTS, types: PhantomData }
    }

    /// The UDP port that it answers at. Default: the system chooses.
    pub fn port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// The most requests that wait to be taken. Callers of more are told that it is busy. Default 1,024.
    pub fn requests_max(self, requests: usize) -> Self {
        Self { requests_max: requests, ..self }
    }

    /// Starts it, with a thread of its own. Members find it as soon as their copies of the directory say so, mostly within
    /// milliseconds.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left behind.
    pub fn start(self) -> Result<Server<Q, A>, StartError> {
        let host = |error: &dyn std::fmt::Display| StartError::Host(error.to_string());
        let thread = |error: std::io::Error| StartError::Thread(error.to_string());
        let port = Port::start(&port_options(&self.config, self.port, true)).map_err(|error| host(&error))?;
        let address = port.address();
        let shared = Arc::new(ServerShared::new(self.requests_max, port.waker()));
        let listed = match self.origin {
            Origin::Outside => None,
            Origin::Member(held, group) => {
                let directory = Directory::of(&held)?;
                let address = reachable(address, held.shared.facts().me.data.ip());
                let listed = directory.list(Entry { group, address });
                Some(listed.ok_or_else(|| host(&"this process has 64 servers: stop one"))?)
            }
        };
        let for_thread = Arc::clone(&shared);
        let spawned = std::thread::Builder::new().name("phalanx-server".to_owned()).spawn(|| run(port, for_thread));
        spawned.map_err(thread)?;
        let handle = Handle { shared, listed: Mutex::new(listed), address };
        Ok(Server { handle: Arc::new(handle), place: Place::default(), types: PhantomData })
    }
}

/// The address of a server on all addresses of its host is that at which others reach its process.
fn reachable(address: SocketAddr, process: IpAddr) -> SocketAddr {
    if address.ip().is_unspecified() { SocketAddr::new(process, address.port()) } else { address }
}

/// A server of calls: a bounded queue of requests. Take them in as many threads and tasks as you like; each goes to one
/// of them. Cheap to clone.
///
/// When the last clone is dropped, it accepts no more; requests that were taken can still be answered. In a forked child
/// it is dead.
pub struct Server<Q, A> {
    handle: Arc<Handle>,
    /// Its place among those that wait, as a stream.
    place: Place,
    types: PhantomData<fn(Q) -> A>,
}

impl<Q, A> Clone for Server<Q, A> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle), place: Place::default(), types: PhantomData }
    }
}

impl<Q, A> std::fmt::Debug for Server<Q, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.handle.address).finish_non_exhaustive()
    }
}

impl<Q, A> Drop for Server<Q, A> {
    fn drop(&mut self) {
        let shared = &self.handle.shared;
        if shared.home.is_here() {
            shared.takers.forget(&mut self.place);
        }
    }
}

#[derive(Debug)]
struct Handle {
    shared: Arc<ServerShared>,
    /// Its place in the directory.
    listed: Mutex<Option<Listed>>,
    address: SocketAddr,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.shared.home.is_here() {
            self.shared.stop();
            self.shared.release();
        }
    }
}

impl<Q: DeserializeOwned, A: Serialize> Server<Q, A> {
    /// The address that it answers at.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.handle.address
    }

    /// The next request; `None` once the server is stopped. Requests that their callers gave up before are left out. One
    /// that is no `Q` is refused.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: a request is taken when the future is ready, and not before.
    pub fn next(&self) -> impl Future<Output = Option<Request<Q, A>>> {
        let shared = &self.handle.shared;
        let mut waiting = Waiting::new(&shared.takers, shared.home);
        poll_fn(move |context| self.poll_at(waiting.place(), context))
    }

    /// Like [`Server::next`], in a thread.
    ///
    /// # Panics
    /// If this thread holds a guard of [`Replica::read`](crate::Replica::read).
    #[must_use]
    #[track_caller]
    pub fn blocking_next(&self) -> Option<Request<Q, A>> {
        block_value(self.next())
    }

    /// The next request, if one is here.
    #[must_use]
    pub fn try_next(&self) -> Option<Request<Q, A>> {
        let shared = &self.handle.shared;
        if !shared.home.is_here() {
            return None;
        }
        std::iter::from_fn(|| shared.queue.pop()).find_map(|queued| Request::of(queued, shared))
    }

    /// Answers requests with `handler` in this many threads, this one included, until the server is stopped. If it panics,
    /// its caller is told that there is no answer, the other threads go on, and so does the panic once they have ended.
    ///
    /// # Panics
    /// If this thread holds a guard of [`Replica::read`](crate::Replica::read).
    pub fn run(&self, threads: usize, handler: impl Fn(&Request<Q, A>) -> A + Sync) {
        let work = || {
            while let Some(request) = self.blocking_next() {
                let answer = handler(&request);
                request.answer(&answer);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
    }

    /// Accepts no more requests, and leaves the directory. Those that wait are refused; those that were taken can still be
    /// answered.
    pub fn stop(&self) {
        let shared = &self.handle.shared;
        if shared.home.is_here() {
            self.handle.listed.lock().unwrap_or_else(PoisonError::into_inner).take();
            shared.stop();
        }
    }

    fn poll_at(&self, place: &mut Place, context: &Context<'_>) -> Poll<Option<Request<Q, A>>> {
        let shared = &self.handle.shared;
        if !shared.home.is_here() {
            return Poll::Ready(None);
        }
        shared.takers.poll(place, context, || {
            // Read before the queue, so that nothing that came before the end is missed.
            let over = shared.is_stopping() || shared.is_over();
            self.try_next().map(Some).or_else(|| over.then_some(None))
        })
    }
}

impl<Q: DeserializeOwned, A: Serialize> Stream for Server<Q, A> {
    type Item = Request<Q, A>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut place = std::mem::take(&mut self.place);
        let polled = self.poll_at(&mut place, context);
        self.place = place;
        polled
    }
}

/// A call that a handler runs. Answer it with [`Request::answer`], in any thread or task and at any time.
///
/// Dropped without an answer, its caller is told [`CallError::Abandoned`](crate::CallError::Abandoned).
#[must_use = "its caller waits for an answer"]
pub struct Request<Q, A> {
    value: Q,
    call: CallId,
    deadline: Instant,
    asked: Arc<Asked>,
    shared: Arc<ServerShared>,
    is_answered: bool,
    answer: PhantomData<fn(A)>,
}

impl<Q: std::fmt::Debug, A> std::fmt::Debug for Request<Q, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("value", &self.value).finish_non_exhaustive()
    }
}

impl<Q: DeserializeOwned, A> Request<Q, A> {
    /// `None`: nobody waits for it, or it is of another type.
    fn of(queued: Queued, shared: &Arc<ServerShared>) -> Option<Self> {
        let Queued { call, request, deadline, asked } = queued;
        let is_late = asked.is_given_up() || Instant::now() >= deadline;
        let value = split_request(&request).and_then(|(_, value)| postcard::from_bytes(value).ok());
        let (Some(value), false) = (value, is_late) else {
            shared.answer(call, None);
            return None;
        };
        let shared = Arc::clone(shared);
        Some(Self { value, call, deadline, asked, shared, is_answered: false, answer: PhantomData })
    }
}

impl<Q, A> Request<Q, A> {
    /// What the caller sent.
    #[must_use]
    pub fn value(&self) -> &Q {
        &self.value
    }

    /// When the caller stops waiting, as far as it is known here: later than that by the time that the request was on
    /// its way.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The time until [`Request::deadline`].
    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Whether the caller gave the call up: it cancelled, its deadline passed, or it ended. Nobody takes the answer then.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.asked.is_given_up() || Instant::now() >= self.deadline
    }

    /// Waits until the caller gives the call up. Ready for ever after. A deadline that passes at the caller is a reason,
    /// too: the caller says so.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing; another one learns the same.
    pub fn given_up(&self) -> impl Future<Output = ()> + use<Q, A> {
        let (asked, home) = (Arc::clone(&self.asked), self.shared.home);
        async move {
            let mut waiting = Waiting::new(&asked.waiters, home);
            poll_fn(|context| {
                let is_over = || (asked.is_given_up() || !home.is_here()).then_some(());
                waiting.poll(context, is_over)
            })
            .await;
        }
    }

    /// Refuses the call: the handler did nothing, and the caller is told that it did not run
    /// ([`Reason::Refused`](crate::Reason::Refused)). A call to a group goes on to the next server of the group.
    pub fn refuse(mut self) {
        self.is_answered = true;
        self.shared.answer(self.call, None);
    }
}

impl<Q, A: Serialize> Request<Q, A> {
    /// Answers the call. If the caller gave up, nobody takes the answer.
    pub fn answer(mut self, answer: &A) {
        self.is_answered = true;
        let answer = encode_answer(answer);
        self.shared.answer(self.call, Some(answer));
    }
}

impl<Q, A> Drop for Request<Q, A> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.shared.answer(self.call, Some(vec![ABANDONED]));
        }
    }
}

/// The most requests that wait, by default.
const REQUESTS: usize = 1_024;
