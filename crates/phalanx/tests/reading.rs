//! Threads that hold a guard of a replica: calls that wait fail there, and a notice tells when the protocol thread has to wait for one.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use phalanx::{
    AskError, CallError, CellEvent, DecodeError, Execute, FlushError, JoinError, LeaveError, LimitError, Message,
    OutcomeError, Reason, Replica, SendError, Snapshot, StartError, State, SubmitError, Undelivered, WaitError,
    WatchError, wait_for,
};

use crate::common::{PATIENCE, await_notice, patient};

/// The texts of all messages.
#[derive(Debug, Default)]
struct Texts(Vec<String>);

impl State for Texts {
    fn apply(&mut self, message: &Message) {
        self.0.push(String::from_utf8_lossy(&message.payload).into_owned());
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.0)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode().map(Self)
    }
}

impl Execute for Texts {
    type Output = usize;

    fn execute(&mut self, message: &Message) -> usize {
        self.apply(message);
        self.0.len()
    }
}

/// A call whose result cannot say why it fails.
fn expect_panic<T: Debug>(call: impl FnOnce() -> T) {
    let panicked = catch_unwind(AssertUnwindSafe(call)).expect_err("it must not wait");
    let text = panicked.downcast::<String>().expect("it panics with a text");
    assert!(text.contains("drop the guard"), "{text}");
}

#[test]
fn calls_that_wait_fail_at_once_on_a_thread_that_holds_a_guard() {
    let (directory, other) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let cell = patient(directory.path(), "ann").blocking_start().expect("starts");
    let mut inline = patient(other.path(), "eve").inline().expect("starts");
    let texts = Replica::new(Texts::default());
    let (group, mut inbox) = cell.group("g").state(&texts).submits(&texts).blocking_join().expect("joins");
    let (mut merged, mut events, mut watch) = (cell.merged(), cell.events(), cell.watch_cell());
    let (client, server) = (cell.client().expect("starts"), cell.server::<u64, u64>().start().expect("starts"));
    let (sent, me, seen) = (group.send("one").blocking().expect("sent"), cell.me().id, cell.standing());
    let to_me = group.send_to(me, "to this process alone").blocking().expect("sent");
    let mut answers = group.ask("what is it").stream();

    let guard = texts.read();
    assert_eq!(group.send("no").blocking().err(), Some(SendError::Reading));
    assert_eq!(group.send("no").blocking_post(), Err(SendError::Reading));
    assert_eq!(group.send_to(me, "no").blocking().err(), Some(SendError::Reading));
    assert_eq!(group.send_to(me, "no").blocking_post(), Err(SendError::Reading));
    assert_eq!(group.ask("no").blocking().err(), Some(AskError::Refused(SendError::Reading)));
    assert_eq!(texts.submit("no").blocking().err(), Some(SubmitError::Refused(SendError::Reading)));
    assert_eq!(
        (sent.blocking_stable(), sent.blocking_delivered()),
        (Err(OutcomeError::Reading), Err(OutcomeError::Reading))
    );
    assert_eq!(to_me.blocking_delivered(), Err(Undelivered::Reading));
    assert_eq!(group.blocking_flush(), Err(FlushError::Reading));
    assert_eq!(group.blocking_leave(), Err(LeaveError::Reading));
    assert_eq!(group.blocking_changed(None, PATIENCE).err(), Some(LimitError::Reading));
    assert_eq!(cell.group("h").blocking_join().err(), Some(JoinError::Reading));
    assert_eq!(cell.group("h").blocking_join_into(&merged).err(), Some(JoinError::Reading));
    assert_eq!(cell.blocking_left(me).err(), Some(WatchError::Reading));
    assert_eq!(cell.clone().blocking_leave(PATIENCE), Err(LeaveError::Reading));
    assert_eq!(cell.clone().blocking_leave(Duration::ZERO), Err(LeaveError::Reading));
    assert!(matches!(patient(directory.path(), "bob").blocking_start(), Err(StartError::Reading)));
    assert_eq!(client.call::<u64>(me, &1_u64).blocking(), Err(CallError::NotExecuted(Reason::Reading)));
    assert_eq!(wait_for(group.send("no"), PATIENCE).err(), Some(LimitError::Reading));
    assert_eq!(inbox.blocking_next_timeout(PATIENCE).err(), Some(LimitError::Reading));
    assert_eq!(merged.blocking_next_timeout(PATIENCE).err(), Some(LimitError::Reading));
    assert_eq!(events.blocking_next_timeout(PATIENCE).err(), Some(LimitError::Reading));
    assert_eq!(watch.blocking_next_timeout(PATIENCE).err(), Some(LimitError::Reading));
    assert_eq!(inline.wait(None), Err(WaitError::Reading));
    expect_panic(|| inbox.blocking_next());
    expect_panic(|| inbox.blocking_next_batch(&mut Vec::new(), 1));
    expect_panic(|| merged.blocking_next());
    expect_panic(|| events.blocking_next());
    expect_panic(|| watch.blocking_next());
    expect_panic(|| answers.blocking_next());
    expect_panic(|| server.blocking_next().is_some());
    expect_panic(|| server.run(1, |_| 0));
    expect_panic(|| cell.blocking_changed(&seen, PATIENCE));
    // What does not wait goes on, and so does a task.
    assert!(inbox.try_next().is_some(), "the view is there");
    let mut sending = pin!(group.send("two").into_future());
    let polled = sending.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(!matches!(polled, Poll::Ready(Err(_))), "{polled:?}");
    drop(guard);

    let receipt = match polled {
        Poll::Ready(receipt) => receipt,
        Poll::Pending => wait_for(sending, PATIENCE).expect("in time"),
    };
    receipt.expect("sent").blocking_delivered().expect("delivered");
    assert_eq!(texts.read_with(|texts| texts.0.clone()), ["one", "two"], "nothing that was refused was sent");
    assert_eq!(texts.read_with(|_| group.send("no").blocking().err()), Some(SendError::Reading));
    assert_eq!(to_me.blocking_delivered(), Ok(()));
    assert_eq!(texts.submit("three").blocking(), Ok(3));
    assert_eq!(group.blocking_flush(), Ok(()));
    cell.group("h").blocking_join().map(drop).expect("its name is free");
    group.blocking_leave().expect("it is in the group still");
}

#[test]
fn a_reader_that_holds_the_protocol_thread_up_is_told_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let cell = patient(directory.path(), "ann").blocking_start().expect("starts");
    let texts = Replica::new(Texts::default());
    let (group, inbox) = cell.group("g").state(&texts).blocking_join().expect("joins");
    drop(inbox);
    let mut events = cell.events();
    let ((holds, held), (lets_go, goes)) = (channel(), channel::<()>());
    let reader = texts.clone();
    let reading = thread::spawn(move || {
        let guard = reader.read();
        holds.send(()).expect("the test waits for it");
        goes.recv().expect("the test says when");
        guard.0.len()
    });
    held.recv().expect("it reads");
    group.send("held up").try_post().expect("there is room");
    let notice = await_notice(&mut events, "a reader has held");
    assert!(notice.starts_with("group g: ") && notice.contains("exclude"), "{notice}");
    assert_eq!(texts.applied(), 0);
    lets_go.send(()).expect("it waits");
    assert_eq!(reading.join().expect("no panic"), 0);
    group.send("after").blocking().expect("sent").blocking_delivered().expect("delivered");
    assert_eq!(texts.read().0, ["held up", "after"]);
    while let Some(event) = events.try_next() {
        assert!(!matches!(&event, CellEvent::Notice(text) if text.contains("a reader")), "{event}");
    }
}
