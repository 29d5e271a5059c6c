//! Calls by any number of threads and tasks, made by one thread.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

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
    Call { server: SocketAddr, request: Vec<u8>, options: CallOptions, call: Arc<Waited> },
    GiveUp(Arc<Waited>),
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
        let port = Port::start(options)?;
        let waker = port.waker();
        let shared =
            CallerShared { inbox: Mutex::default(), waker, home: Home::here(), trace_failure: OnceLock::new() };
        let shared = Arc::new(shared);
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("phalanx-calls".to_owned())
            .spawn(move || Making { port, sessions: BTreeMap::new(), calls: Calls::default() }.run(&for_thread))
            .map_err(StartError::Thread)?;
        Ok(Self { held: Arc::new(Held { shared, thread: Some(thread) }) })
    }

    /// Calls the endpoint at `server`. Sessions are kept for later calls to it.
    pub fn call(&self, server: SocketAddr, request: &[u8], options: &CallOptions) -> Pending {
        self.call_owned(server, request.to_vec(), options)
    }

    /// Like [`Caller::call`], without a copy of the request.
    pub fn call_owned(&self, server: SocketAddr, request: Vec<u8>, options: &CallOptions) -> Pending {
        let shared = Arc::clone(&self.held.shared);
        let call = Arc::new(Waited::new());
        if !shared.home.is_here() {
            call.end(Err(Failure::NotExecuted(Reason::Forked)));
            return Pending { call, shared };
        }
        let (options, waited) = (*options, Arc::clone(&call));
        if !shared.leave(Order::Call { server, request, options, call: waited }) {
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
}

/// Calls under way.
#[derive(Default)]
struct Calls {
    under_way: BTreeMap<ClientCallId, (SessionId, Arc<Waited>)>,
}

impl Calls {
    fn end(&mut self, call_id: ClientCallId, outcome: Result<Vec<u8>, Failure>) {
        if let Some((_, call)) = self.under_way.remove(&call_id) {
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
    fn run(mut self, shared: &CallerShared) {
        // Closes the inbox also when a poll panics.
        let _closing = Closing(shared);
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
        let Self { port, sessions, calls } = self;
        match order {
            Order::Call { server, request, options, call } => {
                let session = *sessions.entry(server).or_insert_with(|| port.connect(server, calls));
                match port.call(session, request, &options, calls) {
                    Ok(call_id) => drop(calls.under_way.insert(call_id, (session, call))),
                    Err(error) => call.end(Err(Failure::NotExecuted(reason(error)))),
                }
            }
            Order::GiveUp(call) => {
                // The caller does not know the call's id, so the call is found by its shared state.
                let mine = |(_, (_, waited)): &(&ClientCallId, &(SessionId, Arc<Waited>))| Arc::ptr_eq(waited, &call);
                if let Some((&call_id, &(session, _))) = calls.under_way.iter().find(mine) {
                    port.cancel(session, call_id, calls);
                }
            }
        }
    }
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
        for (_, call) in std::mem::take(&mut self.under_way).into_values() {
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
