//! One inbox for several groups.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use phalanx::{Cell, JoinError, Merged, Next, Replica, SendError, Snapshot, State};

fn start(directory: &Path, name: &str) -> Cell {
    Cell::builder("default")
        .name(name)
        .directories(directory.join("run"), directory.join("state"))
        .set("timing.suspect_after", "5s")
        .blocking_start()
        .expect("starts")
}

const PATIENCE: Duration = Duration::from_secs(20);

fn next(inbox: &mut Merged) -> (Arc<str>, Next) {
    inbox.blocking_next_timeout(PATIENCE).expect("in time").expect("it goes on")
}

/// The group and payload of the next message.
fn message(inbox: &mut Merged) -> (String, String) {
    loop {
        if let (group, Next::Message(message)) = next(inbox) {
            return (group.to_string(), String::from_utf8_lossy(&message.payload).into_owned());
        }
    }
}

/// A process sends to two groups in turn, each message once the one before is delivered to it. All see that order.
#[test]
fn items_of_all_groups_come_in_one_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let (ann, bob) = (start(directory.path(), "ann"), start(directory.path(), "bob"));
    let (mut at_ann, mut at_bob) = (ann.merged(), bob.merged());
    let groups = ["left", "right"].map(|name| ann.group(name).blocking_join_into(&at_ann).expect("joins"));
    let theirs = ["left", "right"].map(|name| bob.group(name).blocking_join_into(&at_bob).expect("joins"));
    for group in groups.iter().chain(&theirs) {
        while group.view().is_none_or(|view| view.len() < 2) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let due: Vec<_> = (0..200).map(|number| (["left", "right"][number % 2].to_owned(), number.to_string())).collect();
    for (number, (_, payload)) in due.iter().enumerate() {
        let sent = groups[number % 2].send(payload).blocking().expect("it is sent");
        sent.blocking_delivered().expect("it came back");
    }
    for inbox in [&mut at_ann, &mut at_bob] {
        assert_eq!(std::iter::repeat_with(|| message(inbox)).take(due.len()).collect::<Vec<_>>(), due);
    }

    // A group that is left says so, and the inbox goes on with the other.
    theirs[0].blocking_leave().expect("leaves");
    while !matches!(next(&mut at_bob), (group, Next::Left(_)) if &*group == "left") {}
    theirs[1].send("after").blocking().expect("it is sent");
    assert_eq!(message(&mut at_bob), ("right".to_owned(), "after".to_owned()));

    // It ends with its process, also for who waits already.
    let waiter = std::thread::spawn(move || std::iter::from_fn(|| at_bob.blocking_next()).count());
    bob.blocking_leave(PATIENCE).expect("leaves");
    waiter.join().expect("it ends");
    let nobody_joined = ann.merged();
    drop(groups);
    ann.blocking_leave(PATIENCE).expect("leaves");
    let mut nobody_joined = nobody_joined;
    assert!(nobody_joined.blocking_next_timeout(PATIENCE).expect("in time").is_none());
}

#[derive(Default)]
struct Count(u64);

impl State for Count {
    fn apply(&mut self, _message: &phalanx::Message) {
        self.0 += 1;
    }
    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.0)
    }
    fn restore(snapshot: Snapshot) -> Result<Self, phalanx::DecodeError> {
        snapshot.decode().map(Self)
    }
}

/// A full inbox holds its groups back and loses nothing; who reads a message finds it in the group's state.
#[test]
fn a_full_inbox_holds_all_of_its_groups_back() {
    const EACH: usize = 3_000;
    let directory = tempfile::tempdir().expect("a directory");
    let ann = start(directory.path(), "ann");
    let mut inbox = ann.merged_of(64, 1 << 20);
    let counts = [(); 2].map(|()| Replica::new(Count::default()));
    let groups = ["left", "right"].map(|name| {
        let state = &counts[usize::from(name == "right")];
        ann.group(name).state(state).blocking_join_into(&inbox).expect("joins")
    });
    std::thread::scope(|scope| {
        for group in &groups {
            scope.spawn(move || {
                for number in 0..EACH {
                    group.send(number.to_string()).blocking_post().expect("goes out");
                }
            });
        }
        let mut seen = [0; 2];
        while seen != [EACH; 2] {
            let (group, payload) = message(&mut inbox);
            let which = usize::from(group == "right");
            assert_eq!(payload, seen[which].to_string());
            seen[which] += 1;
            assert!(counts[which].read().0 >= seen[which] as u64, "it is applied before it is read");
        }
    });

    // Nobody reads it any more: nobody is held back.
    drop(inbox);
    let sent = groups[0].send("end").blocking().expect("it is sent");
    for number in 0..EACH {
        groups[0].send(number.to_string()).blocking_post().expect("goes out");
    }
    sent.blocking_delivered().expect("it came back");
    groups[0].blocking_flush().expect("nothing is lost");
}

#[test]
fn an_inbox_of_another_process_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let (ann, bob) = (start(directory.path(), "ann"), start(directory.path(), "bob"));
    let theirs = bob.merged();
    assert_eq!(ann.group("g").blocking_join_into(&theirs).err(), Some(JoinError::OtherInbox));
    let (group, _inbox) = ann.group("g").blocking_join().expect("the name is free");
    assert!(!matches!(group.send("x").blocking(), Err(SendError::Over)));
}
