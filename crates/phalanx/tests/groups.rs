//! Groups of processes over real sockets, as a program sees them.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use futures_core::Stream;
use phalanx::{
    Cell, DecodeError, Group, Inbox, JoinError, LeaveReason, Message, Next, Order, Place, Replica, SendError, Snapshot,
    StartError, State, View,
};

fn start(directory: &Path, name: &str) -> Cell {
    Cell::builder("default")
        .name(name)
        .directories(directory.join("run"), directory.join("state"))
        .set("timing.suspect_after", "5s")
        .blocking_start()
        .expect("starts")
}

/// Joins group `g`.
fn join(cell: &Cell) -> (Group, Inbox) {
    cell.group("g").blocking_join().expect("joins")
}

/// Takes items until a view of so many members.
fn await_members(inbox: &mut Inbox, members: usize) -> View {
    loop {
        match inbox.blocking_next().expect("it goes on") {
            Next::View(view) if view.len() == members => return view,
            _ => {}
        }
    }
}

fn await_message(inbox: &mut Inbox) -> Message {
    loop {
        if let Next::Message(message) = inbox.blocking_next().expect("it goes on") {
            return message;
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

/// Takes what is in an inbox at the moment at which it is told that something is, and looks at the group's view.
struct AtOnce {
    group: Group,
    inbox: Mutex<Inbox>,
    /// The members of each view that was taken, and of the group's view then.
    seen: Mutex<Vec<(usize, usize)>>,
}

impl AtOnce {
    fn take(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        let mut inbox = self.inbox.lock().expect("no panic");
        while let Poll::Ready(Some(next)) = Pin::new(&mut *inbox).poll_next(&mut Context::from_waker(&waker)) {
            if let Next::View(view) = next {
                let now = self.group.view().map_or(0, |view| view.len());
                self.seen.lock().expect("no panic").push((view.len(), now));
            }
        }
    }
}

impl Wake for AtOnce {
    fn wake(self: Arc<Self>) {
        self.take();
    }
}

/// A program that takes a view may ask the group for its view next, however fast it is. One that found an older view there,
/// and then waited for the next item, would never learn of the new one.
#[test]
fn the_view_of_a_group_is_never_older_than_its_inbox() {
    let directory = tempfile::tempdir().expect("a directory");
    let (ann, bob) = (start(directory.path(), "ann"), start(directory.path(), "bob"));
    let (group, inbox) = join(&ann);
    let at_once = Arc::new(AtOnce { group, inbox: Mutex::new(inbox), seen: Mutex::default() });
    at_once.take();
    let (of_bob, _inbox) = join(&bob);
    let seen = |members| at_once.seen.lock().expect("no panic").iter().any(|(taken, _)| *taken == members);
    while !seen(2) {
        thread::sleep(Duration::from_millis(1));
    }
    of_bob.blocking_leave().expect("leaves");
    while at_once.seen.lock().expect("no panic").last().is_none_or(|(taken, _)| *taken != 1) {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(*at_once.seen.lock().expect("no panic"), [(1, 1), (2, 2), (1, 1)]);
    // The inbox holds the waker, which holds the inbox.
    let _none = Pin::new(&mut *at_once.inbox.lock().expect("no panic"))
        .poll_next(&mut Context::from_waker(Waker::noop()))
        .is_ready();
}

#[test]
fn all_members_see_one_order_and_senders_get_receipts() {
    let directory = tempfile::tempdir().expect("a directory");
    let cells = ["ann", "bob", "cid"].map(|name| start(directory.path(), name));
    let mut joined: Vec<(Group, Inbox)> = cells.iter().map(join).collect();
    let views: Vec<View> = joined.iter_mut().map(|(_, inbox)| await_members(inbox, 3)).collect();
    assert!(views.iter().all(|view| *view == views[0]), "{views:?}");
    let names: Vec<String> = views[0].members().map(|member| member.name).collect();
    assert_eq!(names, ["ann", "bob", "cid"], "ranks go by age");
    assert_eq!(views[2].my_rank(), 2);

    const EACH: u64 = 500;
    thread::scope(|scope| {
        for (group, _) in &joined {
            scope.spawn(move || {
                for number in 0..EACH {
                    group.send(number.to_string()).blocking_post().expect("goes out");
                }
                let last = group.send("end").blocking().expect("goes out");
                assert_eq!(last.seq(), EACH + 1);
                last.blocking_stable().expect("all have it");
                assert!(last.is_stable());
                last.blocking_delivered().expect("it came back");
                group.blocking_flush().expect("nothing is lost");
            });
        }
    });
    let orders: Vec<Vec<(u64, u64)>> = joined
        .iter_mut()
        .map(|(_, inbox)| {
            let all = (0..3 * (EACH + 1)).map(|_| await_message(inbox));
            all.map(|message| (message.sender.bits(), message.seq)).collect()
        })
        .collect();
    assert!(orders.iter().all(|order| *order == orders[0]), "one order for all");
    for cell in cells {
        cell.blocking_leave(PATIENCE).expect("leaves");
    }
}

#[test]
fn a_program_of_futures_needs_no_runtime_of_ours() {
    let directory = tempfile::tempdir().expect("a directory");
    let (ann, bob) = (start(directory.path(), "ann"), start(directory.path(), "bob"));
    let other = thread::spawn(move || {
        pollster::block_on(async {
            let (group, mut inbox) = bob.group("g").join().await.expect("joins");
            let sent = group.send(b"hello").causal().plain().await.expect("goes out");
            sent.stable().await.expect("all have it");
            let mut items = Vec::new();
            while !items.iter().any(|next| matches!(next, Next::Message(m) if m.payload == "hello"[..])) {
                inbox.next_batch(&mut items, 16).await;
            }
            group.leave().await.expect("leaves the group");
            while let Some(next) = inbox.next().await {
                items.push(next);
            }
            assert!(matches!(items.last(), Some(Next::Left(LeaveReason::Left))), "{items:?}");
            assert_eq!(group.send(b"late").await.err(), Some(SendError::NotMember));
            bob.leave().await.expect("leaves the cell");
        });
    });
    pollster::block_on(async {
        let (_group, mut inbox) = ann.group("g").join().await.expect("joins");
        loop {
            match inbox.next().await.expect("it goes on") {
                Next::Message(message) => {
                    assert_eq!(
                        (&message.payload[..], message.order, message.uniform),
                        (&b"hello"[..], Order::Causal, false)
                    );
                    break;
                }
                other => assert!(matches!(other, Next::View(_)), "{other:?}"),
            }
        }
        ann.leave().await.expect("leaves the cell");
        let mut last = None;
        while let Some(next) = inbox.next().await {
            last = Some(next);
        }
        assert!(matches!(last, Some(Next::Left(LeaveReason::Left))), "{last:?}");
        assert!(inbox.is_over());
    });
    other.join().expect("no panic");
}

/// Accounts with a sum that no message changes.
#[derive(Clone)]
struct Bank(BTreeMap<u8, i64>);

const MONEY: i64 = 1_000;

impl State for Bank {
    fn apply(&mut self, message: &Message) {
        if let Ok((from, to, amount)) = message.decode::<(u8, u8, i64)>() {
            *self.0.entry(from).or_default() -= amount;
            *self.0.entry(to).or_default() += amount;
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.0)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode().map(Self)
    }
}

#[test]
fn who_joins_has_the_state_and_readers_never_see_a_part_of_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let bank = || Replica::new(Bank(BTreeMap::from([(0, MONEY)])));
    let (ann, first) = (start(directory.path(), "ann"), bank());
    assert!(!first.is_current());
    let (group, inbox) = ann.group("bank").state(&first).blocking_join().expect("joins");
    drop(inbox); // what nobody reads holds nobody back
    assert!(first.is_current(), "it founded the group");
    let move_some = |from: u8, to: u8| group.send_value(&(from, to, 7_i64)).blocking().expect("goes out");
    (1..=100).for_each(|to| drop(move_some(0, to)));

    let (bob, second) = (start(directory.path(), "bob"), bank());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut current = 0;
            loop {
                // On a busy machine it may look for the first time when all is done.
                let is_last = done.load(Ordering::Relaxed);
                let sum: i64 = second.read().0.values().sum();
                assert_eq!(sum, MONEY, "a part of a state is seen");
                current += u64::from(second.is_current());
                if is_last {
                    break;
                }
            }
            assert!(current > 0, "the state was looked at when it was current, too");
        });
        let (_group, _inbox) = bob.group("bank").state(&second).blocking_join().expect("joins");
        let sent = move_some(100, 1);
        sent.blocking_stable().expect("all have it");
        // Read your writes: what was delivered here is in the state here.
        sent.blocking_delivered().expect("delivered");
        assert_eq!(first.read().0.get(&1), Some(&14));
        while second.applied() == 0 {
            thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(second.read().0, first.read().0);
    ann.blocking_leave(PATIENCE).expect("leaves");
    bob.blocking_leave(PATIENCE).expect("leaves");
    assert!(!second.is_current(), "nobody brings it up to date any more");
}

#[test]
fn an_inbox_that_nobody_reads_holds_back_no_other_group() {
    let directory = tempfile::tempdir().expect("a directory");
    let (ann, bob) = (start(directory.path(), "ann"), start(directory.path(), "bob"));
    let full = |cell: &Cell| cell.group("full").inbox_items(4).blocking_join().expect("joins");
    let ((full_group, mut read), (_full, mut unread)) = (full(&ann), full(&bob));
    let ((group, _inbox), (_group, mut inbox)) = (join(&ann), join(&bob));
    await_members(&mut read, 2);
    // Until the windows are full: nobody takes what bob got.
    let mut queued = 0_u64;
    let payload = vec![7; 60_000];
    for _ in 0..10_000 {
        match full_group.send(&payload).plain().try_post() {
            Ok(()) => queued += 1,
            Err(SendError::Full) if queued > 40 => break,
            Err(SendError::Full) => thread::yield_now(),
            Err(other) => panic!("{other}"),
        }
        while read.try_next().is_some() {}
    }
    for number in 0..200 {
        let sent = group.send(format!("{number}")).blocking().expect("goes out");
        sent.blocking_stable().expect("all have it");
        assert_eq!(await_message(&mut inbox).payload, format!("{number}"));
    }
    assert!(matches!(unread.try_next(), Some(Next::View(_))), "the other inbox was not read");
    // Once it is read, all of it comes.
    thread::scope(|scope| {
        scope.spawn(move || while read.blocking_next().is_some() {});
        let got = std::iter::from_fn(|| unread.blocking_next()).filter(|next| matches!(next, Next::Message(_)));
        assert_eq!(got.take(usize::try_from(queued).expect("few")).count() as u64, queued);
        ann.blocking_leave(PATIENCE).expect("leaves");
    });
    bob.blocking_leave(PATIENCE).expect("leaves");
}

#[test]
fn mistakes_are_told_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let error = Cell::builder("default").set("timing.hartbeat", "1s").blocking_start().expect_err("no such key");
    assert!(matches!(&error, StartError::Setting(text) if text.contains("did you mean 'timing.heartbeat'")), "{error}");
    let cell = start(directory.path(), "ann");
    let nowhere = Cell::builder("default").seeds(["no such host:1"]).blocking_start();
    assert!(matches!(nowhere, Err(StartError::Host(_) | StartError::Setting(_))), "{nowhere:?}");
    assert!(matches!(cell.group("").blocking_join(), Err(JoinError::BadName(_))));
    let (group, _inbox) = join(&cell);
    assert_eq!(cell.group("g").blocking_join().err(), Some(JoinError::AlreadyMember("g".to_owned())));
    let long = vec![0; (64 << 20) + 1];
    assert_eq!(group.send_bytes(long.into()).try_post(), Err(SendError::TooLong((64 << 20) + 1)));
    assert_eq!(cell.standing().place, Place::Primary);
    group.blocking_leave().expect("leaves");
    let (again, _inbox) = join(&cell);
    assert_eq!(again.view().map(|view| view.len()), Some(1), "the name is free again");
    cell.blocking_leave(PATIENCE).expect("leaves");
    assert_eq!(again.send("x").try_post(), Err(SendError::NotMember));
    assert!(again.view().is_none());
}

#[test]
fn a_group_that_nobody_waits_for_is_left_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let cell = start(directory.path(), "ann");
    {
        let mut joining = std::pin::pin!(cell.group("g").join());
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(joined) = joining.as_mut().poll(&mut context) {
            // The protocol thread was faster.
            joined.expect("joins").0.blocking_leave().expect("leaves");
        }
    }
    // The name is free once the membership that came too late has ended.
    let group = loop {
        match cell.group("g").blocking_join() {
            Ok((group, _)) => break group,
            Err(error) => assert_eq!(error, JoinError::AlreadyMember("g".to_owned())),
        }
        thread::yield_now();
    };
    drop(cell);
    group.send("x").blocking().expect("the process lives while a handle does");
}

/// A state that cannot bear one message.
#[derive(Default)]
struct Fragile;

impl State for Fragile {
    fn apply(&mut self, message: &Message) {
        assert_ne!(message.payload, "break"[..], "this state is broken on purpose");
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::new("")
    }

    fn restore(_snapshot: Snapshot) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}

#[test]
fn a_panic_in_a_state_ends_every_wait_and_the_others_go_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let (ann, bob) = (start(directory.path(), "ann"), start(directory.path(), "bob"));
    let fragile = Replica::new(Fragile);
    let (_, mut watching) = ann.group("g").state(&Replica::new(Bank(BTreeMap::new()))).blocking_join().expect("joins");
    let (group, mut inbox) = bob.group("g").state(&fragile).blocking_join().expect("joins");
    await_members(&mut watching, 2);
    let (other, mut quiet) = bob.group("quiet").blocking_join().expect("joins");
    assert!(fragile.is_current());
    let sent = group.send("break").blocking().expect("goes out");
    assert_eq!(sent.blocking_delivered(), Err(phalanx::OutcomeError::InDoubt(phalanx::InDoubt)));
    while inbox.blocking_next().is_some() {}
    while quiet.blocking_next().is_some() {}
    assert!(matches!(other.send("x").blocking(), Err(SendError::NotMember | SendError::Over)));
    assert_eq!(group.blocking_flush(), Err(phalanx::FlushError::Over));
    assert!(!fragile.is_current());
    assert_eq!(bob.blocking_leave(PATIENCE), Err(phalanx::LeaveError::Panicked));
    let left = await_members(&mut watching, 1);
    assert_eq!(left.left().map(|(_, why)| why).collect::<Vec<_>>(), [LeaveReason::Died]);
    ann.blocking_leave(PATIENCE).expect("leaves");
}

#[test]
fn a_program_without_an_inbox_learns_of_views_and_of_the_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let cells = ["ann", "bob"].map(|name| start(directory.path(), name));
    let (ann, inbox) = join(&cells[0]);
    drop(inbox);
    let first = ann.view().expect("it is a member");
    assert!(ann.blocking_changed(Some(&first), Duration::from_millis(20)).is_err(), "nothing changes");
    let (bob, inbox) = join(&cells[1]);
    drop(inbox);
    let second = ann.blocking_changed(Some(&first), PATIENCE).expect("in time").expect("it goes on").expect("a view");
    assert_eq!((second.len(), second.is_adequate()), (2, true));
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut seen = bob.view();
            loop {
                match bob.blocking_changed(seen.as_ref(), PATIENCE).expect("in time") {
                    Ok(view) => seen = view,
                    Err(error) => return error,
                }
            }
        });
        bob.blocking_leave().expect("leaves");
        assert_eq!(waits.join().expect("no panic"), phalanx::LeaveError::Already(LeaveReason::Left));
    });
    assert_eq!(pollster::block_on(ann.changed(Some(&second))).expect("it goes on").expect("a view").len(), 1);
}

/// Messages that name a view are sent in it; once it is over they are refused, whatever waits.
#[test]
fn a_send_that_names_a_view_is_sent_in_no_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let ann = start(directory.path(), "ann");
    let (group, mut inbox) = join(&ann);
    let alone = await_members(&mut inbox, 1);
    let sent = group.send("alone").in_view(&alone).blocking().expect("it is in force");
    assert_eq!(sent.view(), alone.number());

    let bob = start(directory.path(), "bob");
    let (_, mut theirs) = join(&bob);
    let both = await_members(&mut inbox, 2);
    assert!(matches!(group.send("too late").in_view(&alone).blocking(), Err(SendError::OtherView)));
    group.blocking_flush().expect("its sender was told: that is no loss");
    let sent = group.send("both").in_view(&both).blocking().expect("it is in force");
    assert_eq!(sent.view(), both.number());
    let long = vec![0; 1 << 20];
    assert!(matches!(group.send(&long).in_view(&both).blocking(), Err(SendError::TooLong(bytes)) if bytes == 1 << 20));

    // Nobody awaits a message that was posted: the inbox says that it came to nothing, and so does a flush.
    group.send("posted").in_view(&alone).blocking_post().expect("it is queued");
    let lost = std::iter::from_fn(|| inbox.blocking_next()).find(|next| matches!(next, Next::Lost { .. }));
    assert!(matches!(lost, Some(Next::Lost { not_sent: 1, in_doubt: 0 })), "{lost:?}");
    assert!(group.blocking_flush().is_err());

    group.send("end").blocking_post().expect("it is queued");
    await_members(&mut theirs, 2);
    let messages: Vec<_> =
        std::iter::repeat_with(|| await_message(&mut theirs).payload).take_while(|payload| payload != "end").collect();
    assert_eq!(messages, ["both"]);
}
