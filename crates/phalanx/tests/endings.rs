//! The last handle of a process is dropped: at the end of `main`, by a panic, in a state, and where nothing can be left in order.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;

use phalanx::{Cell, CellChange, DecodeError, End, Group, LeaveReason, Message, Next, Replica, Snapshot, State};

use crate::common::{Member, PATIENCE, await_members, impatient, next, patient};
use crate::processes::{Child, print};

/// How many messages a child posts before its end.
const POSTED: usize = 1_000;

/// A child posts, and returns from its `main`. If it serves, a thread of the library uses the process, too.
pub(crate) fn post_and_return(cell: Cell, group: Group, serves: bool) {
    let server = serves.then(|| group.server::<u64, u64>().start().expect("starts"));
    for number in 0..POSTED {
        group.send(number.to_string()).plain().blocking_post().expect("there is room");
    }
    drop((server, group, cell));
}

/// A child panics with the last handle, and goes on.
pub(crate) fn panic_and_go_on(cell: Cell, group: Group) {
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _held = (cell, group);
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    print("goes on");
    thread::sleep(PATIENCE);
}

fn ends_after(mode: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    // With this much patience, silence alone would not be noticed within the test.
    let mut stays = Member::start(patient(directory.path(), "stays").set("timing.suspect_after", "10min"));
    let _child = Child::start_ending(directory.path(), "ends", mode);
    let ends = stays.await_members(2).ids().nth(1).expect("two members");
    let mut came = 0;
    let view = loop {
        match next(&mut stays.inbox) {
            Next::Message(message) => {
                assert_eq!(message.payload, came.to_string());
                came += 1;
            }
            Next::View(view) => break view,
            _ => {}
        }
    };
    assert_eq!((came, view.left().collect::<Vec<_>>()), (POSTED, vec![(ends, LeaveReason::Left)]));
}

#[test]
fn what_is_posted_before_the_end_of_main_comes() {
    ends_after("posts");
}

#[test]
fn what_a_server_posts_before_the_end_of_main_comes() {
    ends_after("posts and serves");
}

/// It does not leave: what its program was about to do is not known. The program goes on, and is a member no more.
#[test]
fn a_process_whose_last_handle_is_dropped_by_a_panic_is_dead_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut stays = Member::start(patient(directory.path(), "stays").set("timing.suspect_after", "10min"));
    let mut child = Child::start_ending(directory.path(), "panics", "panics");
    let ends = stays.await_members(2).ids().nth(1).expect("two members");
    child.await_line("goes on");
    assert_eq!(stays.await_members(1).left().collect::<Vec<_>>(), [(ends, LeaveReason::Died)]);
}

/// It has the last handle of its own process, and drops that at a message.
#[derive(Default)]
struct Holder(Arc<Mutex<Option<(Cell, Group)>>>);

impl State for Holder {
    fn apply(&mut self, message: &Message) {
        if message.payload == "end" {
            drop(self.0.lock().expect("nobody panicked").take());
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::new("")
    }

    fn restore(_snapshot: Snapshot) -> Result<Self, DecodeError> {
        Ok(Self::default())
    }
}

/// A protocol thread that waited for itself would be silent for two seconds, and excluded.
#[test]
fn a_protocol_thread_does_not_wait_for_its_own_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let start = |name| {
        let builder = impatient(directory.path(), name).set("timing.suspect_after", "1s");
        builder.blocking_start().expect("starts")
    };
    let (stays, ends) = (start("stays"), start("ends"));
    let join = |cell: &Cell, holder: &Replica<Holder>| cell.group("g").state(holder).blocking_join().expect("joins");
    let (kept, holder) = (Replica::new(Holder::default()), Replica::new(Holder::default()));
    let (group, mut inbox) = join(&stays, &kept);
    let (last, other) = join(&ends, &holder);
    await_members(&mut inbox, 2);
    let shelf = Arc::clone(&holder.read().0);
    *shelf.lock().expect("nobody panicked") = Some((ends, last));
    drop(other);
    group.send("end").blocking_post().expect("there is room");
    let why: Vec<_> = await_members(&mut inbox, 1).left().map(|(_, why)| why).collect();
    assert_eq!(why, [LeaveReason::Left]);
}

/// Without a quorum there is no view to leave with. The drop waits for a while; then the process is stopped.
#[test]
fn a_drop_without_a_quorum_ends_the_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut stays = Member::start(patient(directory.path(), "stays").set("timing.suspect_after", "10min"));
    let child = Child::start(directory.path(), "stopped");
    stays.await_members(2);
    child.stop();
    let mut watch = stays.cell.watch_cell();
    drop(stays);
    let end = std::iter::from_fn(|| watch.blocking_next()).find_map(|change| match change {
        CellChange::Over(end) => Some(end),
        _ => None,
    });
    assert_eq!(end, Some(End::Stopped));
}

/// The destructors of a thread's own data come last of all.
#[test]
fn a_handle_in_the_data_of_a_thread_leaves_with_the_thread() {
    thread_local! {
        static HELD: RefCell<Option<(Cell, Group)>> = const { RefCell::new(None) };
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut stays = Member::start(patient(directory.path(), "stays"));
    let path = directory.path().to_owned();
    let ends = thread::spawn(move || {
        let Member { cell, group, .. } = Member::start(patient(&path, "ends"));
        HELD.set(Some((cell, group)));
    });
    ends.join().expect("no panic");
    stays.await_cell(2);
    let why: Vec<_> = stays.await_cell(1).left().map(|(_, why)| why).collect();
    assert_eq!(why, [LeaveReason::Left]);
}
