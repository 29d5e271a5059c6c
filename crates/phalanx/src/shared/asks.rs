//! What asks share between the protocol thread and the program: the answers of one, and what the program says of those that
//! it is to answer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use phalanx_driver::Waker;
use phalanx_driver::fork::Home;
use phalanx_life::{AskId, Reply};

use super::group::GroupShared;
use super::noted::Noted;
use crate::answer::{Answer, Ended, Reply as Filled};
use crate::error::{AnswerError, SendError};
use crate::id::MemberId;
use crate::waiting::{Place, Waiters};

/// An asker's own test of whether it has enough.
pub(crate) type Test = Box<dyn FnMut(&Answer) -> bool + Send>;

/// What came for one ask.
pub(crate) struct AskReceipt {
    state: Mutex<AskState>,
    waiters: Waiters,
    pub(crate) home: Home,
}

#[derive(Default)]
struct AskState {
    answers: VecDeque<Answer>,
    end: Option<Result<Ended, SendError>>,
    test: Option<Test>,
    /// The reason that came with an abort.
    reason: Bytes,
}

impl std::fmt::Debug for AskReceipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AskReceipt")
    }
}

impl AskReceipt {
    pub(crate) fn new(home: Home, test: Option<Test>) -> Self {
        let state = AskState { test, ..AskState::default() };
        Self { state: Mutex::new(state), waiters: Waiters::default(), home }
    }

    fn state(&self) -> MutexGuard<'_, AskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer came. True: the asker's test says that it is enough.
    pub(crate) fn push(&self, answer: Answer) -> bool {
        // The test is the program's: it is called without the lock.
        let test = self.state().test.take();
        let (test, is_enough) = match test {
            Some(mut test) => {
                let is_enough = test(&answer);
                (Some(test), is_enough)
            }
            None => (None, false),
        };
        let mut state = self.state();
        state.test = test;
        if let Filled::Abort(reason) = &answer.reply {
            state.reason = reason.clone();
        }
        state.answers.push_back(answer);
        drop(state);
        self.waiters.wake();
        is_enough
    }

    pub(crate) fn end(&self, end: Result<Ended, SendError>) {
        let mut state = self.state();
        debug_assert!(state.end.is_none(), "an ask ends once");
        state.end = Some(end);
        state.test = None;
        drop(state);
        self.waiters.wake();
    }

    /// The reason of an abort.
    pub(crate) fn reason(&self) -> Bytes {
        self.state().reason.clone()
    }

    /// The next answer; `None` when it has ended and all were taken.
    pub(crate) fn poll_next(&self, place: &mut Place, context: &Context<'_>) -> Poll<Option<Answer>> {
        if !self.home.is_here() {
            return Poll::Ready(None);
        }
        self.waiters.poll(place, context, || {
            let mut state = self.state();
            let next = state.answers.pop_front();
            (next.is_some() || state.end.is_some()).then_some(next)
        })
    }

    /// How it ended.
    pub(crate) fn ended(&self) -> Option<Result<Ended, SendError>> {
        if self.home.is_here() { self.state().end.clone() } else { Some(Err(SendError::Forked)) }
    }

    /// All answers, and the end.
    pub(crate) fn poll_end(
        &self,
        place: &mut Place,
        context: &Context<'_>,
    ) -> Poll<(Vec<Answer>, Result<Ended, SendError>)> {
        if !self.home.is_here() {
            return Poll::Ready((Vec::new(), Err(SendError::Forked)));
        }
        self.waiters.poll(place, context, || {
            let mut state = self.state();
            let end = state.end.clone()?;
            Some((std::mem::take(&mut state.answers).into(), end))
        })
    }

    pub(crate) fn try_next(&self) -> Option<Answer> {
        if self.home.is_here() { self.state().answers.pop_front() } else { None }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ended().is_some()
    }

    pub(crate) fn forget(&self, place: &mut Place) {
        if self.home.is_here() {
            self.waiters.forget(place);
        }
    }
}

/// Something that a program says of an ask. It takes no place in the ring of commands, so that it never waits: an answer is
/// given where an ask is dropped, too, by the protocol thread among others.
pub(crate) enum AskNote {
    Answer { group: Arc<GroupShared>, id: AskId, reply: Reply, value: Bytes },
    Cancel { group: Arc<GroupShared>, number: u64 },
}

/// Notes for the protocol thread.
pub(crate) struct AskNotes {
    notes: Noted<AskNote>,
    /// The thread carries out nothing any more.
    is_over: AtomicBool,
    protocol: Waker,
    home: Home,
}

impl AskNotes {
    pub(crate) fn new(protocol: Waker) -> Self {
        Self { notes: Noted::default(), is_over: AtomicBool::new(false), protocol, home: Home::here() }
    }

    /// False: nobody carries it out.
    pub(crate) fn push(&self, note: AskNote) -> bool {
        if !self.home.is_here() || self.is_over.load(Ordering::SeqCst) {
            return false;
        }
        self.notes.push(note);
        self.protocol.wake();
        true
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.take();
    }

    pub(crate) fn take(&self) -> Vec<AskNote> {
        self.notes.take()
    }
}

/// The one answer that a program owes.
pub(crate) struct Answerer {
    notes: Arc<AskNotes>,
    group: Arc<GroupShared>,
    pub(crate) id: AskId,
    /// Those that are to answer, by rank in the view of the ask; empty if that view is over.
    pub(crate) expected: Vec<(u16, MemberId)>,
    is_answered: AtomicBool,
    is_given_up: AtomicBool,
}

impl std::fmt::Debug for Answerer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answerer").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Answerer {
    pub(crate) fn new(
        notes: &Arc<AskNotes>,
        group: Arc<GroupShared>,
        id: AskId,
        expected: Vec<(u16, MemberId)>,
    ) -> Self {
        let (is_answered, is_given_up) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { notes: Arc::clone(notes), group, id, expected, is_answered, is_given_up }
    }

    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Release);
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire)
    }

    pub(crate) fn answer(&self, reply: Reply, value: Bytes) -> Result<(), AnswerError> {
        if !self.notes.home.is_here() {
            return Err(AnswerError::Forked);
        }
        if self.is_answered.swap(true, Ordering::AcqRel) {
            return Err(AnswerError::Answered);
        }
        if self.is_given_up() {
            return Err(AnswerError::GivenUp);
        }
        let note = AskNote::Answer { group: Arc::clone(&self.group), id: self.id, reply, value };
        if self.notes.push(note) { Ok(()) } else { Err(AnswerError::GivenUp) }
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        if !*self.is_answered.get_mut() {
            // It was answered before, or nobody waits for it, or this is a forked child.
            let _ = self.answer(Reply::Null, Bytes::new());
        }
    }
}
