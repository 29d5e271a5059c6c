//! What the program submits to one replica, shared with the protocol thread.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use phalanx_core::{GroupId, ViewNumber};
use phalanx_driver::Waker;
use phalanx_driver::fork::Home;
use phalanx_life::{Execution, NotSubmitted, Outgoing, Refusal, SubmitLog, Submitter, Told};
use phalanx_trace as trace;

use crate::error::{SendError, SubmitError};
use crate::sent::Receipt;
use crate::waiting::{Place, Waiters};

/// The clients of one replica in this process.
#[derive(Debug)]
pub(crate) struct Submits {
    state: Mutex<State>,
    /// Some may have something to send.
    is_due: AtomicBool,
    /// The process writes a trace.
    is_recorded: AtomicBool,
    room: Waiters,
    home: Home,
}

#[derive(Default)]
struct State {
    clients: BTreeMap<u64, Client>,
    /// The clients so far.
    named: u64,
    /// Wakes the protocol thread, while the replica is in a group.
    protocol: Option<Waker>,
    /// This process is in a view of the group.
    is_in: bool,
    /// The group, as the latest incarnation that was told anything of it names it.
    group: Option<GroupId>,
    /// Records that are not written yet. `None`: the process writes no trace.
    records: Option<Vec<trace::Event>>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("clients", &self.clients.len()).finish_non_exhaustive()
    }
}

struct Client {
    submitter: Submitter<Awaited>,
    /// Of those that are under way, if they are recorded.
    log: SubmitLog,
    /// No handle of it is left.
    is_dropped: bool,
}

/// What waits for the result of a submit.
#[derive(Debug)]
pub(crate) struct Awaited {
    number: u64,
    receipt: Arc<SubmitReceipt>,
}

/// A client, for as long as a handle of it lives.
#[derive(Debug, Default)]
pub(crate) struct Handle {
    pub(crate) submits: Arc<Submits>,
    client: OnceLock<u64>,
    /// It has a name, and stays open in the group.
    is_named: bool,
}

impl Handle {
    /// A client with a name, among those of a replica.
    pub(crate) fn named(submits: Arc<Submits>, submitter: Submitter<Awaited>) -> Self {
        let client = submits.add(submitter).into();
        Self { submits, client, is_named: true }
    }

    /// Its name among the clients of the replica.
    pub(crate) fn client(&self) -> u64 {
        *self.client.get_or_init(|| self.submits.add(Submitter::random()))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(client) = self.client.get()
            && self.submits.is_here()
        {
            if !self.is_named {
                self.submits.close(*client);
            }
            self.submits.release(*client);
        }
    }
}

/// What becomes of one submit.
pub(crate) type SubmitReceipt = Receipt<Result<Bytes, SubmitError>>;

/// Outcomes that are to be told.
type ToTell = Vec<(Arc<SubmitReceipt>, Result<Bytes, NotSubmitted>)>;

impl State {
    fn each(&mut self, act: impl FnMut(&mut Submitter<Awaited>)) {
        self.clients.values_mut().map(|client| &mut client.submitter).for_each(act);
    }

    fn with(&mut self, client: u64, act: impl FnOnce(&mut Submitter<Awaited>)) {
        if let Some(client) = self.clients.get_mut(&client) {
            act(&mut client.submitter);
        }
    }

    /// Begins a submit. `None`: there is no room for it.
    fn begin(
        &mut self,
        client: u64,
        number: Option<u64>,
        payload: &Bytes,
        receipt: &Arc<SubmitReceipt>,
    ) -> Option<Result<u64, SubmitError>> {
        let Client { submitter, .. } = self.clients.get_mut(&client)?;
        let number = number.unwrap_or_else(|| submitter.next_number());
        if !submitter.has_room(number) {
            return None;
        }
        let awaited = Awaited { number, receipt: Arc::clone(receipt) };
        let is_begun = submitter.submit(number, payload.clone(), awaited);
        Some(if is_begun { Ok(number) } else { Err(SubmitError::NumberUsed) })
    }

    /// Takes what is known of submits, and forgets clients that have no handle and nothing left to do.
    fn settle(&mut self) -> ToTell {
        let mut told = Vec::new();
        let Self { clients, records, .. } = self;
        for Client { submitter, log, .. } in clients.values_mut() {
            while let Some((Awaited { number, receipt }, result)) = submitter.take_told() {
                if let Some(records) = records {
                    records.extend(log.told(number, &result));
                }
                told.push((receipt, result));
            }
        }
        self.clients.retain(|_, client| !client.is_dropped || !client.submitter.is_idle());
        told
    }
}

impl Default for Submits {
    fn default() -> Self {
        let (state, is_due, is_recorded, room) = Default::default();
        Self { state, is_due, is_recorded, room, home: Home::here() }
    }
}

impl Submits {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // The program's side.

    /// Whether this is the process that made the handle: another one must not take the lock.
    pub(crate) fn is_here(&self) -> bool {
        self.home.is_here()
    }

    /// Adds a client, and returns its name here.
    pub(crate) fn add(&self, mut submitter: Submitter<Awaited>) -> u64 {
        let mut state = self.state();
        state.named += 1;
        if state.is_in {
            submitter.begin_life();
        }
        let name = state.named;
        state.clients.insert(name, Client { submitter, log: SubmitLog::default(), is_dropped: false });
        name
    }

    /// The number of the next submit of a client.
    pub(crate) fn next_number(&self, client: u64) -> u64 {
        self.state().clients.get(&client).map_or(1, |client| client.submitter.next_number())
    }

    /// Changes something behind the lock, and tells what is known of submits by then.
    fn change<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state();
        let (result, told) = (act(&mut state), state.settle());
        drop(state);
        self.tell(told);
        result
    }

    fn tell(&self, told: ToTell) {
        if !told.is_empty() {
            // What was told last may have been all that a client waited for to close.
            self.note_due();
            told.into_iter().for_each(|(receipt, result)| receipt.end(result.map_err(SubmitError::of)));
            self.room.wake();
        }
    }

    /// Begins a submit when there is room for it, and returns its number. `number`: the one that it is to have.
    pub(crate) fn poll_submit(
        &self,
        client: u64,
        number: Option<u64>,
        (payload, receipt): (&Bytes, &Arc<SubmitReceipt>),
        place: &mut Place,
        context: &Context<'_>,
    ) -> Poll<Result<u64, SubmitError>> {
        let begun = self.room.poll(place, context, || {
            self.change(|state| match state.protocol {
                None => Some(Err(SubmitError::Refused(SendError::NotMember))),
                Some(_) => state.begin(client, number, payload, receipt),
            })
        });
        if let Poll::Ready(Ok(_)) = begun {
            self.wake();
        }
        begun
    }

    /// Begins a submit, whether or not the replica is in a group. `None`: there is no room for it.
    #[cfg(feature = "simulate")]
    pub(crate) fn begin(&self, client: u64, payload: &Bytes) -> Option<Result<u64, SubmitError>> {
        self.note_due();
        self.change(|state| state.begin(client, None, payload, &Arc::new(Receipt::new())))
    }

    /// Has the protocol thread look.
    fn wake(&self) {
        self.note_due();
        self.state().protocol.iter().for_each(Waker::wake);
    }

    /// Nobody waits for a submit any more.
    pub(crate) fn abandon(&self, client: u64, number: u64) {
        self.change(|state| {
            if let Some(Client { submitter, log, .. }) = state.clients.get_mut(&client) {
                submitter.abandon(number);
                log.abandoned(number);
            }
        });
        self.room.wake();
    }

    /// Gives up a wait for room.
    pub(crate) fn forget(&self, place: &mut Place) {
        self.room.forget(place);
    }

    /// A client is gone for good.
    pub(crate) fn close(&self, client: u64) {
        self.change(|state| state.with(client, Submitter::close));
        self.wake();
    }

    /// No handle of a client is left.
    pub(crate) fn release(&self, client: u64) {
        self.change(|state| {
            if let Some(client) = state.clients.get_mut(&client) {
                client.is_dropped = true;
            }
        });
        self.wake();
    }

    // The protocol thread's side.

    /// The replica is to be in a group of the process whose thread that wakes. `is_recorded`: it writes a trace.
    pub(crate) fn attach(&self, protocol: Waker, is_recorded: bool) {
        let mut state = self.state();
        (state.protocol, state.is_in) = (Some(protocol), false);
        state.records = is_recorded.then(Vec::new);
        self.is_recorded.store(is_recorded, Ordering::Release);
    }

    /// What follows is of the group of that number.
    pub(crate) fn set_group(&self, group: GroupId) {
        self.state().group = Some(group);
    }

    /// Moves what is to be recorded, since the last call.
    pub(crate) fn move_records(&self, to: &mut Vec<trace::Event>) {
        self.state().records.iter_mut().for_each(|records| to.append(records));
    }

    /// The state executed a message, at that place in the order.
    pub(crate) fn record(&self, execution: &Execution<'_>, (view, position): (u64, Option<u64>), result: &[u8]) {
        if self.is_recorded.load(Ordering::Acquire)
            && let State { records: Some(records), group: Some(group), .. } = &mut *self.state()
        {
            records.push(execution.record(*group, ViewNumber(view), position.unwrap_or(0), result));
        }
    }

    fn note_due(&self) {
        self.is_due.store(true, Ordering::Release);
    }

    /// Whether some client may have something to send.
    pub(crate) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Acquire)
    }

    /// What is to be sent now, and by which client. `random`: 64 random bits.
    pub(crate) fn take_due(&self, random: &mut dyn FnMut() -> u64) -> Vec<(u64, Outgoing)> {
        let mut due = Vec::new();
        if self.is_due.swap(false, Ordering::AcqRel) {
            self.change(|state| {
                let State { clients, group, records, .. } = state;
                for (name, Client { submitter, log, .. }) in clients {
                    while let Some(out) = submitter.due(random) {
                        if let (Some(records), Some(group)) = (&mut *records, *group)
                            && let (Some(id), Some(number)) = (submitter.id(), out.number)
                        {
                            records.push(log.sent(group, id, number, &out.payload));
                        }
                        due.push((*name, out));
                    }
                }
            });
        }
        due
    }

    /// A view came, with the group's state before it.
    pub(crate) fn begin_life(&self) {
        self.change(|state| {
            state.is_in = true;
            state.each(Submitter::begin_life);
        });
        self.note_due();
    }

    pub(crate) fn end_life(&self) {
        self.change(|state| {
            state.is_in = false;
            state.each(Submitter::end_life);
        });
    }

    /// The membership is over. What is still to be recorded goes to `records`.
    pub(crate) fn end_membership(&self, records: &mut Vec<trace::Event>) {
        let mut state = self.state();
        (state.is_in, state.protocol) = (false, None);
        state.each(Submitter::end_membership);
        let told = state.settle();
        // At once: the replica may be in another group as soon as the lock is free.
        records.extend(state.records.take().into_iter().flatten());
        drop(state);
        self.tell(told);
        self.room.wake();
    }

    /// The first `delivered` messages of this life are told as delivered.
    pub(crate) fn reached(&self, delivered: u64) {
        self.change(|state| state.each(|submitter| submitter.reached(delivered)));
    }

    /// A command of a client came to its place.
    pub(crate) fn applied(&self, told: &Told) {
        self.change(|state| state.each(|submitter| submitter.applied(told)));
        self.note_due();
    }

    /// What a client sent is bound, as this process's message `message` of this life.
    pub(crate) fn bound(&self, client: u64, number: Option<u64>, message: u64) {
        if let Some(number) = number {
            self.change(|state| state.with(client, |submitter| submitter.bound(number, message)));
        }
    }

    /// What a client sent is refused.
    pub(crate) fn refused(&self, client: u64, number: Option<u64>, why: Refusal) {
        self.change(|state| state.with(client, |submitter| submitter.refused(number, why)));
    }
}

/// 64 random bits.
pub(crate) fn random() -> u64 {
    // The system's generator fails early in a boot alone, when the other one is as good as any.
    getrandom::u64().unwrap_or_else(|_none| RandomState::new().hash_one(std::process::id()))
}

#[cfg(test)]
mod tests {
    use std::task;

    use super::*;

    /// A thread submits while another one ends the membership: whoever began a submit is told what became of it.
    #[test]
    fn each_submit_that_begins_beside_an_end_has_an_outcome() {
        for _ in 0..500 {
            let submits = Submits::default();
            submits.attach(Waker::new().expect("a descriptor is left"), false);
            let client = submits.add(Submitter::random());
            submits.begin_life();
            let begun = std::thread::scope(|scope| {
                let submitting = scope.spawn(|| {
                    let (context, payload) = (Context::from_waker(task::Waker::noop()), Bytes::from_static(b"m"));
                    let mut begun = Vec::new();
                    loop {
                        let (receipt, mut place) = (Arc::new(SubmitReceipt::new()), Place::default());
                        let asked = (&payload, &receipt);
                        match submits.poll_submit(client, None, asked, &mut place, &context) {
                            Poll::Ready(Ok(_)) => begun.push(receipt),
                            Poll::Ready(Err(_)) => return begun,
                            // As many as may be are under way.
                            Poll::Pending => std::thread::yield_now(),
                        }
                        submits.forget(&mut place);
                    }
                });
                while submits.take_due(&mut || 7).is_empty() && !submitting.is_finished() {}
                submits.end_membership(&mut Vec::new());
                submitting.join().expect("no panic")
            });
            let context = Context::from_waker(task::Waker::noop());
            assert!(begun.iter().all(|receipt| receipt.poll(&context).is_ready()), "one of {} is lost", begun.len());
        }
    }
}
