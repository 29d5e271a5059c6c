//! What becomes of messages while fewer members hold a group's state than its founder asked for.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use phalanx::{Cell, DecodeError, Group, Inbox, Message, Next, Replica, Snapshot, State, wait_for};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Last(String);

impl State for Last {
    fn apply(&mut self, message: &Message) {
        self.0 = String::from_utf8_lossy(&message.payload).into_owned();
    }
    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.0)
    }
    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode().map(Self)
    }
}

fn start(directory: &Path, name: &str) -> Cell {
    Cell::builder("default")
        .name(name)
        .directories(directory.join("run"), directory.join("state"))
        .set("timing.suspect_after", "500ms")
        .blocking_start()
        .expect("starts")
}

fn join(cell: &Cell) -> (Group, Inbox, Replica<Last>) {
    let replica = Replica::new(Last::default());
    let (group, inbox) = cell.group("g").members_min(2).state(&replica).blocking_join().expect("joins");
    (group, inbox, replica)
}

fn await_members(inbox: &mut Inbox, members: usize) {
    loop {
        let next = inbox.blocking_next_timeout(PATIENCE).expect("in time").expect("it goes on");
        if matches!(&next, Next::View(view) if view.len() == members) {
            return;
        }
    }
}

fn await_adequate(group: &Group) {
    while !group.view().is_some_and(|view| view.is_adequate()) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

struct Bob(Child);

impl Bob {
    /// Stops it, and waits until all its threads are stopped: one of them takes the signal, and the others run on for
    /// some time. They could acknowledge what is sent next.
    fn stop(&self) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, Signal::STOP).expect("it lives");
        waitpid(Some(pid), WaitOptions::UNTRACED).expect("it stops");
    }
}

impl Drop for Bob {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const DIRECTORY: &str = "PHALANX_TEST_DIRECTORY";

/// One of two members is stopped, so that a message is decided by the end of the view alone: only its sender has it. A
/// program that answers for it now would lose what it promised with its next crash.
#[test]
fn outcomes_wait_until_enough_members_hold_the_state() {
    if let Ok(directory) = std::env::var(DIRECTORY) {
        let bob = start(directory.as_ref(), "bob");
        let (_group, mut inbox, _) = join(&bob);
        while inbox.blocking_next().is_some() {}
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let (ann, cid) = (start(directory.path(), "ann"), start(directory.path(), "cid"));
    let (group, mut inbox, replica) = join(&ann);
    let myself = std::env::current_exe().expect("this program");
    let bob = Command::new(myself)
        .args(["--exact", "too_few::outcomes_wait_until_enough_members_hold_the_state"])
        .env(DIRECTORY, directory.path())
        .stdout(Stdio::null())
        .spawn();
    let bob = Bob(bob.expect("starts"));
    await_members(&mut inbox, 2);
    await_adequate(&group);
    let before = group.send("before").blocking().expect("it is sent");
    before.blocking_stable().expect("both have it");

    bob.stop();
    let sent = group.send("after").blocking().expect("it is sent in the view of two");
    await_members(&mut inbox, 1);
    let mut shown = 0;
    while replica.read().0 != "after" {
        shown += 1;
        assert!(shown < 20_000, "the end of the view delivers it");
        std::thread::sleep(Duration::from_millis(1));
    }
    let moment = Duration::from_millis(300);
    assert!(before.is_stable(), "what is known stays known");
    assert!(!sent.is_stable() && wait_for(sent.stable(), moment).is_err(), "only its sender has it");
    assert!(wait_for(sent.delivered(), moment).is_err() && wait_for(group.flush(), moment).is_err());

    let (_theirs, _inbox, copy) = join(&cid);
    wait_for(sent.stable(), PATIENCE).expect("in time").expect("two members have it");
    wait_for(sent.delivered(), PATIENCE).expect("in time").expect("it came back");
    wait_for(group.flush(), PATIENCE).expect("in time").expect("nothing is lost");
    assert_eq!(copy.read().0, "after");
}
