//! In a forked child every handle is dead, and the parent's process goes on.

#[allow(dead_code, unsafe_code, reason = "tests of the runtime use the rest, and a fork needs system calls")]
#[path = "../../phalanx-runtime/tests/common/fork.rs"]
mod fork;

use std::time::Duration;

use phalanx::{App, Cell, Guarantee, MessageRef, Order, Place, Polled};

#[test]
fn handles_are_dead_in_a_forked_child_and_alive_in_its_parent() {
    if !fork::alone(handles_are_dead_in_a_forked_child_and_alive_in_its_parent) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let cell = Cell::builder("default")
        .directories(directory.path().join("run"), directory.path().join("state"))
        .blocking_start()
        .expect("starts");
    let (group, mut inbox) = cell.group("g").blocking_join().expect("joins");
    let (sent, me) = (group.send("before").blocking().expect("goes out"), cell.me().id);
    let to_one = group.send_to(me, "before").blocking().expect("goes out");
    let queued = group.send_to(me, "queued").into_future();
    let (server, client) = (group.server::<u64, u64>().start().expect("starts"), cell.client().expect("starts"));
    let (me, mut watch) = (cell.me().id, cell.watch_member_named("nobody"));
    let wrong = fork::in_child(|child| {
        child.refused("a send", || group.send("x").blocking());
        child.refused("a send that waits for nothing", || group.send("x").try_post());
        child.refused("a post", || group.send("x").blocking_post());
        child.refused("a send to one", || group.send_to(me, "x").blocking());
        child.refused("a send to one that waits for nothing", || group.send_to(me, "x").try_post());
        child.refused("a post to one", || group.send_to(me, "x").blocking_post());
        child.refused("a flush", || group.blocking_flush());
        child.refused("a join", || cell.group("other").blocking_join());
        child.refused("a leave of the group", || group.blocking_leave());
        child.refused("a leave of the cell", || cell.clone().blocking_leave(Duration::from_secs(5)));
        child.refused("a client", || cell.client());
        child.refused("a server", || group.server::<u64, u64>().start());
        child.refused("a call", || client.call::<u64>("g", &7_u64).blocking());
        child.tries("a server ends", || server.try_next().is_none() && server.blocking_next().is_none());
        child.refused("a command", || cell.give_up_group("g"));
        child.tries("an inbox ends", || inbox.blocking_next().is_none());
        child.refused("a descriptor", || inbox.descriptor());
        child.tries("an outcome is unknown", || sent.blocking_stable().is_err());
        child.tries("it learns of no member", || cell.blocking_left(me) == Err(phalanx::WatchError::Forked));
        child.tries("its watches are over", || watch.try_next().is_none() && watch.blocking_next().is_none());
        child.tries("a watch that begins is over", || cell.watch_cell().blocking_next().is_none());
        child.tries("nobody knows how it ended", || cell.end().is_none());
        child.tries("an outcome of one to one is unknown", || to_one.blocking_delivered().is_err());
        child.tries("it stands nowhere", || cell.standing().place == Place::Over);
        child.tries("there is no view", || group.view().is_none() && cell.members().is_empty());
        child.tries("nothing is dropped twice", || {
            drop((cell.clone(), group.clone()));
            true
        });
    });
    assert_eq!(wrong, Vec::<String>::new());
    sent.blocking_stable().expect("all have it");
    to_one.blocking_delivered().expect("it came");
    assert!(!queued.is_queued());
    group.send_to(me, "after").blocking().expect("the parent goes on").blocking_delivered().expect("it came");
    group.send("after").blocking().expect("the parent goes on").blocking_stable().expect("all have it");
    assert!(inbox.blocking_next().is_some());
    std::thread::scope(|scope| {
        scope.spawn(|| server.blocking_next().expect("a request").answer(&8));
        assert_eq!(client.call::<u64>("g", &7_u64).wait_for_server().blocking(), Ok(8), "the parent's calls go on");
    });
    drop((server, client));
    cell.blocking_leave(Duration::from_secs(20)).expect("leaves");
}

#[test]
fn an_inline_process_is_dead_in_a_forked_child() {
    struct Nothing;
    impl App for Nothing {
        fn message(&mut self, _message: &MessageRef<'_>) {}
    }
    if !fork::alone(an_inline_process_is_dead_in_a_forked_child) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut member = Cell::builder("default")
        .directories(directory.path().join("run"), directory.path().join("state"))
        .inline()
        .expect("starts");
    let group = member.group("g").join(&mut Nothing).expect("asks");
    let me = member.me().id;
    while member.multicast(group, Order::Total, Guarantee::Uniform, b"x", &mut Nothing).is_err() {
        member.poll(&mut Nothing);
    }
    let wrong = fork::in_child(|child| {
        let app = &mut Nothing;
        child.tries("it is over", || member.is_over() && member.poll(app) == Polled::default());
        child.refused("a multicast", || member.multicast(group, Order::Total, Guarantee::Uniform, b"x", app));
        child.refused("a message to one", || member.send_to(group, me, b"x", app));
        child.refused("a join", || member.group("other").join(app));
        child.refused("a leave of the group", || member.leave_group(group, app));
        child.refused("a wait", || member.wait(None));
        child.refused("a command", || member.give_up_group("g", app));
        child.tries("there is no view", || member.members().is_empty() && member.standing().place == Place::Over);
    });
    assert_eq!(wrong, Vec::<String>::new());
    while member.unstable(group) != Some(0) {
        member.poll(&mut Nothing);
    }
    member.leave(&mut Nothing);
    while !member.is_over() {
        member.poll(&mut Nothing);
    }
}
