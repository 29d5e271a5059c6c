//! An inbox's descriptor, as a program that waits by poll(2) sees it.

use std::os::fd::{AsRawFd, RawFd};
use std::thread;
use std::time::{Duration, Instant};

use phalanx::{Cell, Group, Inbox, LeaveReason, Merged, Next, wait_for};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A process alone in its cell, in group `g`.
fn alone() -> (tempfile::TempDir, Cell, Group, Inbox) {
    let directory = tempfile::tempdir().expect("a directory");
    let cell = Cell::builder("default")
        .directories(directory.path().join("run"), directory.path().join("state"))
        .blocking_start()
        .expect("starts");
    let (group, inbox) = cell.group("g").blocking_join().expect("joins");
    (directory, cell, group, inbox)
}

/// Whether the descriptor becomes readable in time.
fn waits(inbox: &Inbox, patience: Duration) -> bool {
    let descriptor = inbox.descriptor().expect("there are descriptors");
    let timeout = Timespec::try_from(patience).expect("short");
    poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&timeout)).expect("polls") == 1
}

fn is_readable(inbox: &Inbox) -> bool {
    waits(inbox, Duration::ZERO)
}

/// The kernel's name for what is open under a number, as other tests of this process reuse numbers.
fn identity(descriptor: RawFd) -> Option<String> {
    let told = std::fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).ok()?;
    told.lines().find(|line| line.starts_with("eventfd-id:")).map(str::to_owned)
}

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_thread_that_polls_takes_every_message() {
    const MESSAGES: usize = 10_000;
    let (_directory, cell, group, mut inbox) = alone();
    let reader = thread::spawn(move || {
        let (mut items, mut taken, mut polls) = (Vec::new(), 0, 0);
        while !inbox.is_over() {
            assert!(waits(&inbox, PATIENCE), "a wake-up was lost after {taken} messages");
            polls += 1;
            while inbox.try_batch(&mut items, 64) > 0 {
                let ordered = items.drain(..).filter_map(|next| match next {
                    Next::Message(message) => Some(message.decode::<usize>().expect("a number")),
                    _ => None,
                });
                for number in ordered {
                    assert_eq!(number, taken);
                    taken += 1;
                }
            }
        }
        assert!(waits(&inbox, PATIENCE), "it stays readable after the end");
        (taken, polls)
    });
    for number in 0..MESSAGES {
        group.send_value(&number).blocking_post().expect("goes out");
        // Bursts and pauses, so that the reader often meets an inbox that is just being filled.
        if number % 97 == 0 {
            group.blocking_flush().expect("nothing is lost");
        }
    }
    cell.blocking_leave(PATIENCE).expect("leaves");
    let (taken, polls) = reader.join().expect("the reader ends");
    assert_eq!(taken, MESSAGES);
    assert!(polls < 4 * MESSAGES, "{polls} wake-ups");
}

#[test]
fn it_is_readable_while_something_waits() {
    let (_directory, _cell, group, mut inbox) = alone();
    // The first view waits already.
    assert!(is_readable(&inbox));
    let mut items = Vec::new();
    while inbox.try_batch(&mut items, 16) > 0 {}
    assert!(!is_readable(&inbox), "{items:?} were all");
    assert!(inbox.try_next().is_none() && !is_readable(&inbox));
    group.send("one").blocking().expect("goes out").blocking_delivered().expect("it came back");
    group.send("two").blocking().expect("goes out").blocking_delivered().expect("it came back");
    assert!(waits(&inbox, PATIENCE));
    assert!(matches!(inbox.try_next(), Some(Next::Message(_))));
    assert!(is_readable(&inbox), "one is left");
    assert!(matches!(inbox.try_next(), Some(Next::Message(_))));
    assert!(inbox.try_next().is_none());
    assert!(!is_readable(&inbox));
    group.blocking_leave().expect("leaves");
    assert!(waits(&inbox, PATIENCE));
    assert!(matches!(inbox.blocking_next(), Some(Next::Left(LeaveReason::Left))));
    assert!(inbox.blocking_next().is_none());
    assert!(inbox.is_over() && waits(&inbox, PATIENCE), "the end is readable");
}

#[test]
fn it_is_made_once_and_closed_with_its_inbox() {
    let (_directory, cell, group, inbox) = alone();
    let number = inbox.descriptor().expect("made").as_raw_fd();
    assert_eq!(inbox.descriptor().expect("it is there").as_raw_fd(), number);
    let flags = rustix::io::fcntl_getfd(inbox.descriptor().expect("it is there")).expect("it is open");
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    let was = identity(number);
    assert!(was.is_some(), "it is an eventfd");
    drop(inbox);
    // A thread that makes it readable at this moment closes it a little later.
    let ends = Instant::now() + PATIENCE;
    while identity(number) == was {
        assert!(Instant::now() < ends, "it is open yet");
        thread::yield_now();
    }
    group.send("nobody reads it").blocking().expect("goes out").blocking_stable().expect("all have it");
    cell.blocking_leave(PATIENCE).expect("leaves");
}

#[test]
fn that_of_a_merged_inbox_shows_items_of_each_group_and_the_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let cell = Cell::builder("default")
        .directories(directory.path().join("run"), directory.path().join("state"))
        .blocking_start()
        .expect("starts");
    let mut both = cell.merged();
    let readable = |both: &Merged, patience: Duration| {
        let descriptor = both.descriptor().expect("there are descriptors");
        let timeout = Timespec::try_from(patience).expect("short");
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&timeout)).expect("polls") == 1
    };
    assert!(!readable(&both, Duration::ZERO), "nothing is there");
    let groups = ["a", "b"].map(|name| wait_for(cell.group(name).join_into(&both), PATIENCE).expect("in time"));
    let groups = groups.map(|group| group.expect("joins"));
    let mut items = Vec::new();
    for group in &groups {
        group.send("x").blocking_post().expect("goes out");
        let is_there =
            |(name, next): &(std::sync::Arc<str>, Next)| **name == *group.name() && matches!(next, Next::Message(_));
        while !items.iter().any(is_there) {
            assert!(readable(&both, PATIENCE));
            both.try_batch(&mut items, 16);
        }
    }
    assert!(!both.is_over());
    drop(groups);
    cell.blocking_leave(PATIENCE).expect("leaves");
    while !both.is_over() {
        assert!(readable(&both, PATIENCE));
        both.try_batch(&mut items, 16);
    }
    assert!(readable(&both, PATIENCE), "the end is readable");
    assert!(readable(&cell_over(&directory).merged(), PATIENCE), "also that of an inbox made later");
}

/// A handle of a process that is over.
fn cell_over(directory: &tempfile::TempDir) -> Cell {
    let cell = Cell::builder("default")
        .directories(directory.path().join("run"), directory.path().join("state"))
        .blocking_start()
        .expect("starts");
    let kept = cell.clone();
    cell.blocking_leave(PATIENCE).expect("leaves");
    kept
}
