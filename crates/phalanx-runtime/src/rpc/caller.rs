//! Calls by any number of threads and tasks, made by one thread.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Wake;
use std::thread::JoinHandle;

use phalanx_core::Incarnation;

use phalanx_core::rpc::{CallError, CallOptions, ClientCallId, Failure, Outcome, Reason, SessionId};
use phalanx_driver::Waker;
use phalanx_driver::fork::Home;

use super::pending::{Pending, Waited};
use super::port::{Port, PortOptions, Service};
use crate::fork;
use crate::start::StartError;

/// Makes calls for any thread or task. [`Caller::call`] returns at once with a future that any executor can await.
/// Cheap to clone. When the last clone is dropped, sessions end and calls under way fail.
///
/// A forked child has no such thread, so there it is dead. New calls end at once with [`Reason::Forked`], the parent's
/// calls as [`Failure::Unknown`], and dropping it does nothing. The parent's caller continues. Start another one in the
/// child.
///
/// ```no_run
/// use phalanx_runtime::rpc::{CallOptions, Caller, PortOptions};
///
/// # async fn calls() -> Result<(), Box<dyn std::error::Error>> {
/// let caller = Caller::start(&PortOptions::default())?;
/// let server = "127.0.0.1:4711".parse()?;
/// let (one, two) = (caller.call(server, b"1", &CallOptions::default()), caller.call(server, b"2", &CallOptions::default()));
/// let answers = (one.await?, two.await?);
/// # let _ = answers;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Caller {
    held: Arc<Held>,
}

/// What a [`Caller`] is told of the members that it calls: who has left the cell, as its views say.
///
/// A call that was made with [`Caller::call_member`] ends as soon as its callee has left, for [`Reason::Left`].
pub trait Callees: Send {
    /// Whether it has left. Who has left never comes back under that incarnation.
    fn has_left(&self, callee: Incarnation) -> bool;

    /// Has `waker` woken once, as soon as more may have left.
    fn wake(&mut self, waker: &std::task::Waker);
}

/// Nobody is a member.
struct Strangers;

impl Callees for Strangers {
    fn has_left(&self, _callee: Incarnation) -> bool {
        false
    }

    fn wake(&mut self, _waker: &std::task::Waker) {}
}

/// Ends the thread when the last handle is dropped.
struct Held {
    shared: Arc<CallerShared>,
    thread: Option<JoinHandle<()>>,
}

/// State shared by the callers and the thread.
pub(super) struct CallerShared {
    inbox: Mutex<Inbox>,
    waker: Waker,
    home: Home,
    /// Callees may have left since the thread looked last.
    may_have_left: AtomicBool,
    /// Why the configured trace is not written any more.
    trace_failure: OnceLock<String>,
}

#[derive(Default)]
struct Inbox {
    orders: Vec<Order>,
    /// The thread is ending, or has ended.
    closed: bool,
}

enum Order {
    Call { server: SocketAddr, callees: Vec<Incarnation>, request: Vec<u8>, options: CallOptions, call: Arc<Waited> },
    GiveUp(Arc<Waited>),
}

/// Woken when callees may have left.
impl Wake for CallerShared {
    fn wake(self: Arc<Self>) {
        self.may_have_left.store(true, Ordering::Release);
        self.waker.wake();
    }
}

impl CallerShared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        // A poisoned lock is safe to use: no code panics while it holds the lock, and the inbox is consistent at any
        // time.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves an order for the thread. False: the thread accepts none any more.
    fn leave(&self, order: Order) -> bool {
        let mut inbox = self.inbox();
        if inbox.closed {
            return false;
        }
        inbox.orders.push(order);
        drop(inbox);
        self.waker.wake();
        true
    }

    pub(super) fn give_up(&self, call: &Arc<Waited>) {
        self.leave(Order::GiveUp(Arc::clone(call)));
    }

    fn close(&self) {
        self.inbox().closed = true;
        self.waker.wake();
    }
}

impl Caller {
    /// Starts the thread that makes the calls, with its own sockets.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left behind.
    pub fn start(options: &PortOptions) -> Result<Self, StartError> {
        Self::start_among(options, Strangers)
    }

    /// Like [`Caller::start`], for calls to members of which `callees` knows. The thread asks it and holds no lock
    /// meanwhile.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left behind.
    pub fn start_among(options: &PortOptions, callees: impl Callees + 'static) -> Result<Self, StartError> {
        let port = Port::start(options)?;
        let shared = Arc::new(CallerShared {
            inbox: Mutex::default(),
            waker: port.waker(),
            home: Home::here(),
            may_have_left: AtomicBool::new(true),
            trace_failure: OnceLock::new(),
        });
        let for_thread = Arc::clone(&shared);
        let making = Making { port, sessions: BTreeMap::new(), calls: Calls::default(), callees: Box::new(callees) };
        let thread = std::thread::Builder::new()
            .name("phalanx-calls".to_owned())
            .spawn(move || making.run(&for_thread))
            .map_err(StartError::Thread)?;
        Ok(Self { held: Arc::new(Held { shared, thread: Some(thread) }) })
    }

    /// Calls the endpoint at `server`. Sessions are kept for later calls to it.
    pub fn call(&self, server: SocketAddr, request: &[u8], options: &CallOptions) -> Pending {
        self.call_owned(server, request.to_vec(), options)
    }

    /// Like [`Caller::call`], without a copy of the request.
    pub fn call_owned(&self, server: SocketAddr, request: Vec<u8>, options: &CallOptions) -> Pending {
        self.call_member(server, Vec::new(), request, options)
    }

    /// Like [`Caller::call_owned`], to an endpoint of one of these members. The call ends when all of them have left; see
    /// [`Callees`]. If they had before, nothing is sent. Without any it is a call to a stranger, which ends at its deadline.
    pub fn call_member(
        &self,
        server: SocketAddr,
        callees: Vec<Incarnation>,
        request: Vec<u8>,
        options: &CallOptions,
    ) -> Pending {
        let shared = Arc::clone(&self.held.shared);
        let call = Arc::new(Waited::new());
        if !shared.home.is_here() {
            call.end(Err(Failure::NotExecuted(Reason::Forked)));
            return Pending { call, shared };
        }
        let (options, waited) = (*options, Arc::clone(&call));
        if !shared.leave(Order::Call { server, callees, request, options, call: waited }) {
            call.end(Err(Failure::NotExecuted(Reason::Cancelled)));
        }
        Pending { call, shared }
    }

    /// See [`Port::trace_failure`].
    #[must_use]
    pub fn trace_failure(&self) -> Option<&str> {
        self.held.shared.trace_failure.get().map(String::as_str)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.shared.home.is_here() {
            return fork::forget(self.thread.take());
        }
        self.shared.close();
        if let Some(thread) = self.thread.take() {
            // It has no result, and the runtime has already reported a panic in it.
            let _ = thread.join();
        }
    }
}

/// The state of the calling thread.
struct Making {
    port: Port,
    sessions: BTreeMap<SocketAddr, SessionId>,
    calls: Calls,
    callees: Box<dyn Callees>,
}

/// Calls under way.
#[derive(Default)]
struct Calls {
    under_way: BTreeMap<ClientCallId, UnderWay>,
}

struct UnderWay {
    session: SessionId,
    call: Arc<Waited>,
    callees: Vec<Incarnation>,
}

impl Calls {
    fn end(&mut self, call_id: ClientCallId, outcome: Result<Vec<u8>, Failure>) {
        if let Some(UnderWay { call, .. }) = self.under_way.remove(&call_id) {
            call.end(outcome);
        }
    }
}

impl Service for Calls {
    fn outcome(&mut self, call_id: ClientCallId, outcome: Outcome<'_>) {
        self.end(call_id, outcome.to_result());
    }

    fn long_answer(&mut self, call_id: ClientCallId, answer: &mut Vec<u8>) {
        self.end(call_id, Ok(std::mem::take(answer)));
    }
}

impl Making {
    fn run(mut self, shared: &Arc<CallerShared>) {
        // Closes the inbox also when a poll panics.
        let _closing = Closing(shared);
        let told = std::task::Waker::from(Arc::clone(shared));
        loop {
            let (orders, closed) = {
                let mut inbox = shared.inbox();
                (std::mem::take(&mut inbox.orders), inbox.closed)
            };
            let had = !orders.is_empty();
            for order in orders {
                self.take(order);
            }
            if closed {
                break;
            }
            // After the orders: who left while one was taken is looked at now.
            if shared.may_have_left.swap(false, Ordering::AcqRel) {
                self.callees.wake(&told);
                self.end_of_left();
            }
            let came = self.port.poll(&mut self.calls);
            if let (None, Some(error)) = (shared.trace_failure.get(), self.port.trace_failure()) {
                let _ = shared.trace_failure.set(error.to_string());
            }
            // If the sockets cannot be waited on, deadlines still end the calls.
            if came == 0 && !had && self.port.wait(None, &[]).is_err() {
                std::thread::yield_now();
            }
        }
        for session in std::mem::take(&mut self.sessions).into_values() {
            self.port.close(session, &mut self.calls);
        }
    }

    fn take(&mut self, order: Order) {
        let Self { port, sessions, calls, callees: known } = self;
        match order {
            Order::Call { callees, call, .. } if have_left(&**known, &callees) => {
                call.end(Err(Failure::NotExecuted(Reason::Left)));
            }
            Order::Call { server, callees, request, options, call } => {
                let session = *sessions.entry(server).or_insert_with(|| port.connect(server, calls));
                match port.call(session, request, &options, calls) {
                    Ok(call_id) => drop(calls.under_way.insert(call_id, UnderWay { session, call, callees })),
                    Err(error) => call.end(Err(Failure::NotExecuted(reason(error)))),
                }
            }
            Order::GiveUp(call) => {
                // The caller does not know the call's id, so the call is found by its shared state.
                let mine = |(_, open): &(&ClientCallId, &UnderWay)| Arc::ptr_eq(&open.call, &call);
                if let Some((&call_id, &UnderWay { session, .. })) = calls.under_way.iter().find(mine) {
                    port.cancel(session, call_id, calls);
                }
            }
        }
    }

    /// Ends the calls whose callees have left.
    fn end_of_left(&mut self) {
        let Self { port, calls, callees: known, .. } = self;
        let gone = calls.under_way.iter().filter(|(_, open)| have_left(&**known, &open.callees));
        let gone: Vec<_> = gone.map(|(call_id, open)| (open.session, *call_id)).collect();
        for (session, call_id) in gone {
            port.callee_left(session, call_id, calls);
        }
    }
}

/// Whether a call to these has nobody left to answer it.
fn have_left(known: &dyn Callees, callees: &[Incarnation]) -> bool {
    !callees.is_empty() && callees.iter().all(|callee| known.has_left(*callee))
}

/// Closes the inbox when the thread ends, also by a panic, so that no caller waits for ever.
struct Closing<'a>(&'a CallerShared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let mut inbox = self.0.inbox();
        inbox.closed = true;
        for order in std::mem::take(&mut inbox.orders) {
            if let Order::Call { call, .. } = order {
                call.end(Err(Failure::NotExecuted(Reason::Cancelled)));
            }
        }
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        // Some are left only after a panic; otherwise closing the sessions has ended them.
        for UnderWay { call, .. } in std::mem::take(&mut self.under_way).into_values() {
            call.end(Err(Failure::Unknown(Reason::SessionLost)));
        }
    }
}

/// The reason that a caller learns when its call was not made.
pub(super) fn reason(error: CallError) -> Reason {
    match error {
        CallError::TooLong(_) => Reason::RequestTooLong,
        CallError::QueueFull => Reason::QueueFull,
        CallError::NumbersUsedUp => Reason::NumbersUsedUp,
        CallError::Forked => Reason::Forked,
        _ => Reason::Cancelled,
    }
}
