//! The thread of a server: it receives requests, queues them, and sends the answers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;
use phalanx_core::Incarnation;
use phalanx_core::rpc::{AnswerError, CallId, HandlerResult};
use phalanx_driver::Waker;
use phalanx_driver::fork::Home;
use phalanx_life::split_request;
use phalanx_runtime::rpc::{Port, Service};

use super::{UNENCODABLE, deadline_after};
use crate::waiting::Waiters;

/// A request that nobody has taken yet.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) call: CallId,
    /// The value, behind the time that was left.
    pub(super) request: Vec<u8>,
    pub(super) deadline: Instant,
    pub(super) asked: Arc<Asked>,
}

/// What a handler has to know of its caller.
#[derive(Debug, Default)]
pub(super) struct Asked {
    given_up: AtomicBool,
    pub(super) waiters: Waiters,
}

impl Asked {
    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
        self.waiters.wake();
    }
}

/// State shared by a server's handles, its requests and its thread.
#[derive(Debug)]
pub(super) struct ServerShared {
    pub(super) queue: ArrayQueue<Queued>,
    /// Those that wait for a request.
    pub(super) takers: Waiters,
    answers: Mutex<Vec<(CallId, Option<Vec<u8>>)>>,
    waker: Waker,
    pub(super) home: Home,
    /// No more requests are accepted.
    stopping: AtomicBool,
    /// No handle of the server is left. The thread ends when no request is left either.
    released: AtomicBool,
    /// The thread has ended.
    over: AtomicBool,
}

impl ServerShared {
    pub(super) fn new(requests_max: usize, waker: Waker) -> Self {
        Self {
            queue: ArrayQueue::new(requests_max.max(1)),
            takers: Waiters::default(),
            answers: Mutex::default(),
            waker,
            home: Home::here(),
            stopping: AtomicBool::new(false),
            released: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    fn answers(&self) -> MutexGuard<'_, Vec<(CallId, Option<Vec<u8>>)>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a call, or refuses it.
    pub(super) fn answer(&self, call: CallId, answer: Option<Vec<u8>>) {
        if self.home.is_here() {
            self.answers().push((call, answer));
            self.waker.wake();
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Accepts no more requests; refuses those that nobody has taken.
    pub(super) fn stop(&self) {
        if self.home.is_here() && !self.stopping.swap(true, Ordering::AcqRel) {
            self.refuse_queued();
            self.takers.wake();
            self.waker.wake();
        }
    }

    /// The last handle is gone.
    pub(super) fn release(&self) {
        self.released.store(true, Ordering::Release);
        self.waker.wake();
    }

    fn refuse_queued(&self) {
        while let Some(queued) = self.queue.pop() {
            self.answer(queued.call, None);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// The handlers under way.
struct Serving {
    shared: Arc<ServerShared>,
    running: BTreeMap<CallId, Arc<Asked>>,
    came: bool,
}

impl Service for Serving {
    fn request(&mut self, call: CallId, from: Incarnation, request: &[u8], answer: &mut Vec<u8>) -> HandlerResult {
        self.long_request(call, from, &mut request.to_vec(), answer)
    }

    fn long_request(
        &mut self,
        call: CallId,
        _from: Incarnation,
        request: &mut Vec<u8>,
        _answer: &mut Vec<u8>,
    ) -> HandlerResult {
        let Some((left, _)) = split_request(request) else { return HandlerResult::Refused };
        if self.shared.is_stopping() {
            return HandlerResult::Refused;
        }
        let deadline = deadline_after(left);
        let asked = Arc::new(Asked::default());
        let queued = Queued { call, request: std::mem::take(request), deadline, asked: Arc::clone(&asked) };
        if self.shared.queue.push(queued).is_err() {
            return HandlerResult::Busy;
        }
        self.running.insert(call, asked);
        self.came = true;
        HandlerResult::Later
    }

    fn given_up(&mut self, call: CallId) {
        if let Some(asked) = self.running.get(&call) {
            asked.give_up();
        }
    }
}

/// Runs a server until it is stopped, all its handles are gone, and all requests are answered.
pub(super) fn run(mut port: Port, shared: Arc<ServerShared>) {
    let mut serving = Serving { shared: Arc::clone(&shared), running: BTreeMap::new(), came: false };
    let _ending = Ending(Arc::clone(&shared));
    let mut lingers_until = None;
    loop {
        let answers = std::mem::take(&mut *shared.answers());
        let had = !answers.is_empty();
        for (call, answer) in answers {
            serving.running.remove(&call);
            if let Err(AnswerError::TooLong(_)) = port.answer(call, answer.map(Cow::Owned), &mut serving) {
                // It is refused before anything is sent, so that another one can be given.
                let _unwanted = port.answer(call, Some(Cow::Borrowed(&[UNENCODABLE])), &mut serving);
            }
        }
        let came = port.poll(&mut serving);
        if std::mem::take(&mut serving.came) {
            shared.takers.wake();
        }
        if shared.released.load(Ordering::Acquire) {
            // The last answers may be lost on their way, and are repeated when their callers ask.
            let is_done = serving.running.is_empty() && shared.answers().is_empty();
            let until = *lingers_until.get_or_insert_with(|| Instant::now() + LINGER);
            if !is_done {
                lingers_until = None;
            } else if Instant::now() >= until {
                return;
            }
        }
        // If the sockets cannot be waited on, the requests are still answered.
        if came == 0 && !had && port.wait(lingers_until.map(|_| LINGER), &[]).is_err() {
            std::thread::yield_now();
        }
    }
}

/// Ends all waits when the thread ends, also by a panic.
struct Ending(Arc<ServerShared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
        self.0.stopping.store(true, Ordering::Release);
        while self.0.queue.pop().is_some() {}
        self.0.takers.wake();
    }
}

/// How long a server that is not needed any more repeats its last answers.
const LINGER: Duration = Duration::from_millis(100);
