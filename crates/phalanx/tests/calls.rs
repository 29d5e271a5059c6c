//! Typed calls over real sockets, as a program sees them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use phalanx::{CallError, Cell, CellBuilder, Client, Reason, Request, Server, StartError, To};
use serde::{Deserialize, Serialize};

use crate::common::{PATIENCE as LONG, patient};
use crate::processes::Child;

#[derive(Debug, Serialize, Deserialize)]
enum Ask {
    Double(u64),
    /// Answered when the caller has given up.
    Wait,
    /// Not answered.
    Drop,
    Refuse,
    Panic,
}

fn builder(directory: &Path, name: &str) -> CellBuilder {
    Cell::builder("default")
        .name(name)
        .directories(directory.join("run"), directory.join("state"))
        .set("timing.suspect_after", "5s")
}

fn start(directory: &Path, name: &str) -> Cell {
    builder(directory, name).blocking_start().expect("starts")
}

/// Answers in two threads with who it is and the result, until the server is stopped. Callers that gave up are sent to
/// `gone`.
fn serve(server: &Server<Ask, (String, u64)>, name: &str, gone: &std::sync::mpsc::Sender<Duration>) {
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(request) = server.blocking_next() {
                    match request.value() {
                        Ask::Double(value) => {
                            let answer = (name.to_owned(), value * 2);
                            request.answer(&answer);
                        }
                        Ask::Wait => {
                            let left = request.time_left();
                            pollster::block_on(request.given_up());
                            assert!(request.is_given_up());
                            gone.send(left).expect("the test listens");
                            request.answer(&(name.to_owned(), 0));
                        }
                        Ask::Drop | Ask::Panic => drop(request),
                        Ask::Refuse => request.refuse(),
                    }
                }
            });
        }
    });
}

/// Stops a server when a test ends, also by a panic: otherwise the test would wait for its threads for ever.
struct Stops<'a, Q: serde::de::DeserializeOwned, A: Serialize>(&'a Server<Q, A>);

impl<Q: serde::de::DeserializeOwned, A: Serialize> Drop for Stops<'_, Q, A> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

fn not_executed<T>(outcome: Result<T, CallError>) -> Option<Reason> {
    match outcome {
        Err(CallError::NotExecuted(why)) => Some(why),
        _ => None,
    }
}

#[test]
fn servers_are_found_by_address_by_member_and_by_group() {
    let directory = tempfile::tempdir().expect("a directory");
    let (ann, bob) = (start(directory.path(), "ann"), start(directory.path(), "bob"));
    let (stock, _inbox) = ann.group("stock").blocking_join().expect("joins");
    let (too, _inbox_too) = bob.group("stock").blocking_join().expect("joins");
    let (gone, _listens) = channel();
    let servers = [("ann", stock.server().start().expect("starts")), ("bob", too.server().start().expect("starts"))];
    let client = bob.client().expect("starts");
    thread::scope(|scope| {
        let _stop = servers.each_ref().map(|(_, server)| Stops(server));
        for (name, server) in &servers {
            let gone = gone.clone();
            scope.spawn(move || serve(server, name, &gone));
        }
        let double = |to: To, value| client.call::<(String, u64)>(to, &Ask::Double(value)).wait_for_server().blocking();
        assert_eq!(double(servers[0].1.address().into(), 4), Ok(("ann".to_owned(), 8)));
        assert_eq!(double((&ann.me()).into(), 5), Ok(("ann".to_owned(), 10)));
        assert_eq!(double(bob.me().id.into(), 6), Ok(("bob".to_owned(), 12)));
        // All servers of a group take turns, once the directory has both.
        let until = Instant::now() + PATIENCE;
        let mut names = BTreeSet::new();
        while names.len() < 2 && Instant::now() < until {
            names.insert(double("stock".into(), 3).expect("an answer").0);
        }
        let turns: Vec<String> = (0..4).map(|value| double("stock".into(), value).expect("an answer").0).collect();
        assert!(turns[0] != turns[1] && turns[..2] == turns[2..], "{turns:?}");

        let unknown = client.call::<(String, u64)>("bonds", &Ask::Double(1)).blocking();
        assert_eq!(not_executed(unknown), Some(Reason::Nobody), "nobody serves it");
        let began = Instant::now();
        let waits = client.call::<(String, u64)>("bonds", &Ask::Double(1));
        let waits = waits.wait_for_server().deadline(Duration::from_millis(60)).blocking();
        assert_eq!(not_executed(waits), Some(Reason::Nobody), "and nobody came");
        assert!(began.elapsed() >= Duration::from_millis(60));

        // One that stops is passed over, and leaves the directory.
        servers[0].1.stop();
        for value in 0..4 {
            assert_eq!(double("stock".into(), value), Ok(("bob".to_owned(), 2 * value)));
        }
        servers[1].1.stop();
        let client = &client;
        let late = scope.spawn(move || client.call::<u64>("late", &7_u64).wait_for_server().blocking());
        let (group, _inbox) = ann.group("late").blocking_join().expect("joins");
        let server = group.server::<u64, u64>().start().expect("starts");
        server.blocking_next().expect("a request").answer(&8);
        assert_eq!(late.join().expect("no panic"), Ok(8), "it waited for the server");
    });
    drop((client, servers, stock, too));
    ann.blocking_leave(PATIENCE).expect("leaves");
    bob.blocking_leave(PATIENCE).expect("leaves");
}

#[test]
fn a_handler_knows_the_deadline_and_that_its_caller_gave_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = builder(directory.path(), "s").server().expect("settings").start().expect("starts");
    let client = builder(directory.path(), "c").client().expect("starts");
    let (gone, listens) = channel();
    thread::scope(|scope| {
        let _stop = Stops(&server);
        scope.spawn(|| serve(&server, "s", &gone));
        let to = server.address();
        let deadline = Duration::from_millis(80);
        let late = client.call::<(String, u64)>(to, &Ask::Wait).deadline(deadline).blocking();
        assert_eq!(late, Err(CallError::Unknown(Reason::Deadline)));
        let left = listens.recv_timeout(PATIENCE).expect("the handler learned of it");
        assert!(left <= deadline, "{left:?}");
        // A future that is dropped gives the call up.
        let call = client.call::<(String, u64)>(to, &Ask::Wait);
        assert!(phalanx::wait_for(call, Duration::from_millis(50)).is_err());
        let left = listens.recv_timeout(PATIENCE).expect("the handler learned of it");
        assert!(left > Duration::from_secs(5), "the deadline was far away: {left:?}");
        let fine = pollster::block_on(client.call::<(String, u64)>(to, &Ask::Double(3)).into_future());
        assert_eq!(fine, Ok(("s".to_owned(), 6)));
        server.stop();
    });
}

#[test]
fn failures_are_told_apart() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = builder(directory.path(), "s").server().expect("settings").start().expect("starts");
    let client = builder(directory.path(), "c").client().expect("starts");
    let (gone, _listens) = channel();
    let to = server.address();
    thread::scope(|scope| {
        let _stop = Stops(&server);
        scope.spawn(|| serve(&server, "s", &gone));
        let ask = |ask: &Ask| client.call::<(String, u64)>(to, ask).blocking();
        assert_eq!(ask(&Ask::Drop), Err(CallError::Abandoned));
        assert_eq!(not_executed(ask(&Ask::Refuse)), Some(Reason::Refused));
        let other_request = client.call::<u64>(to, &(9_u8, 9_u8)).blocking();
        assert_eq!(not_executed(other_request), Some(Reason::Refused), "no such variant");
        let other_answer = client.call::<[u64; 30]>(to, &Ask::Double(1)).blocking();
        assert!(matches!(other_answer, Err(CallError::Answer(_))), "{other_answer:?}");
        let no_member = client.call::<u64>("stock", &1).blocking();
        assert_eq!(not_executed(no_member), Some(Reason::Nobody), "a program outside the cell has no directory");
        let stranger = tempfile::tempdir().expect("a directory");
        let stranger = builder(stranger.path(), "x").client().expect("starts");
        let locked_out = stranger.call::<(String, u64)>(to, &Ask::Double(1)).deadline(Duration::from_millis(100));
        assert_eq!(not_executed(locked_out.blocking()), Some(Reason::Silent), "it has another key");
        server.stop();
        assert_eq!(not_executed(ask(&Ask::Double(1))), Some(Reason::Refused), "it stops");
    });
    drop(server);
    // Once its last answers have gone out, its socket closes, and the system says so at once.
    let until = Instant::now() + PATIENCE;
    loop {
        let outcome = client.call::<u64>(to, &Ask::Double(1)).blocking();
        match not_executed(outcome.clone()) {
            Some(Reason::Nobody) => break,
            Some(Reason::Refused) if Instant::now() < until => thread::sleep(Duration::from_millis(5)),
            _ => assert_eq!(outcome, Err(CallError::Unknown(Reason::Restarted)), "it went while it was called"),
        }
    }
    let taken = builder(directory.path(), "s").server::<u64, u64>().expect("settings").port(to.port()).start();
    let again = builder(directory.path(), "s").server::<u64, u64>().expect("settings").port(to.port()).start();
    assert!(taken.is_ok());
    assert!(matches!(again, Err(StartError::Host(_))), "{again:?}");
}

#[test]
fn a_server_with_too_much_to_do_says_that_it_is_busy() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = builder(directory.path(), "s").server::<u64, u64>().expect("settings").requests_max(2).start();
    let server = server.expect("starts");
    let client: Client = builder(directory.path(), "c").client().expect("starts");
    let (to, (ended, outcomes)) = (server.address(), channel());
    thread::scope(|scope| {
        for value in 0..3_u64 {
            let (client, ended) = (client.clone(), ended.clone());
            scope.spawn(move || ended.send(client.call::<u64>(to, &value).blocking()));
        }
        // Two wait, and nobody takes them: the third is refused at once, and did not run.
        let first = outcomes.recv_timeout(PATIENCE).expect("one ends");
        assert_eq!(not_executed(first), Some(Reason::Busy));
        for _ in 0..2 {
            let request = server.blocking_next().expect("one waits");
            let value = *request.value();
            request.answer(&(value + 1));
            assert!(outcomes.recv_timeout(PATIENCE).expect("it ends").is_ok());
        }
        server.stop();
    });
}

#[test]
fn a_panic_in_a_handler_is_told_to_its_caller() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = builder(directory.path(), "s").server::<Ask, u64>().expect("settings").start().expect("starts");
    let client = builder(directory.path(), "c").client().expect("starts");
    let to = server.address();
    thread::scope(|scope| {
        let _stop = Stops(&server);
        let handler = |request: &Request<Ask, u64>| match request.value() {
            Ask::Double(value) => value * 2,
            _ => panic!("as asked"),
        };
        let serving = {
            let server = server.clone();
            scope.spawn(move || server.run(2, handler))
        };
        assert_eq!(client.call::<u64>(to, &Ask::Double(2)).blocking(), Ok(4));
        assert_eq!(client.call::<u64>(to, &Ask::Panic).blocking(), Err(CallError::Abandoned));
        server.stop();
        assert!(serving.join().is_err(), "the panic goes on");
    });
}

/// Its server is killed while a call is open, and nothing reports that to the caller: its sockets stay open. The deadline is
/// far away, and so is the end of the patience with a silent member.
#[test]
fn a_call_to_a_killed_server_ends_by_the_view_that_leaves_it_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let ann = patient(directory.path(), "ann").set("timing.suspect_after", "10min").blocking_start().expect("starts");
    let client = ann.client().expect("starts");
    let mut child = Child::start_serving(directory.path(), "bob");
    let bob = || ann.members().into_iter().find(|member| member.name == "bob").map(|member| member.id);
    thread::scope(|scope| {
        let open = |idempotent| {
            let call = client.call::<u64>("g", &7_u64).wait_for_server().deadline(2 * LONG);
            let call = if idempotent { call.idempotent() } else { call };
            scope.spawn(move || call.blocking())
        };
        let call = open(false);
        child.await_line("asked");
        let again = open(true);
        let bob = bob().expect("it serves");
        let to_member = client.call::<u64>(bob, &7_u64).idempotent().deadline(2 * LONG);
        let to_member = scope.spawn(move || to_member.blocking());
        // Their servers have them, or will when nobody takes them any more.
        thread::sleep(Duration::from_millis(300));
        child.kill();
        let began = Instant::now();
        let view = ann.blocking_left(bob).expect("it left").view;
        let told = Err(CallError::Unknown(Reason::Left { view }));
        assert_eq!(call.join().expect("no panic"), told);
        assert_eq!(to_member.join().expect("no panic"), told, "a member has no other server");
        assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
        // Another server of the group may run what may run twice.
        let (group, _inbox) = ann.group("g").blocking_join().expect("joins");
        let server = group.server::<u64, u64>().start().expect("starts");
        server.blocking_next().expect("a request").answer(&8);
        assert_eq!(again.join().expect("no panic"), Ok(8));
        let late = client.call::<u64>(bob, &7_u64).blocking();
        assert_eq!(not_executed(late), Some(Reason::Nobody), "the directory names it no more");
    });
}

/// Its server stops and is gone from the directory, and lives: its open call goes on.
#[test]
fn a_server_that_leaves_the_directory_answers_its_open_calls() {
    let directory = tempfile::tempdir().expect("a directory");
    let (ann, bob) = (start(directory.path(), "ann"), start(directory.path(), "bob"));
    let (group, _inbox) = bob.group("stock").blocking_join().expect("joins");
    let server = group.server::<u64, u64>().start().expect("starts");
    let client = ann.client().expect("starts");
    thread::scope(|scope| {
        let call = scope.spawn(|| client.call::<u64>("stock", &7_u64).wait_for_server().blocking());
        let request = server.blocking_next().expect("a request");
        drop(server);
        let until = Instant::now() + PATIENCE;
        while client.call::<u64>("stock", &7_u64).blocking() != Err(CallError::NotExecuted(Reason::Nobody)) {
            assert!(Instant::now() < until, "it stays in the directory");
            thread::sleep(Duration::from_millis(5));
        }
        request.answer(&8);
        assert_eq!(call.join().expect("no panic"), Ok(8));
    });
}

/// One of two servers does not answer. Calls that are hedged are answered by the other one, and the first learns of it.
#[test]
fn a_hedged_call_is_answered_by_the_second_server_and_the_first_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let (ann, bob) = (start(directory.path(), "ann"), start(directory.path(), "bob"));
    let (stock, _inbox) = ann.group("stock").blocking_join().expect("joins");
    let (too, _inbox_too) = bob.group("stock").blocking_join().expect("joins");
    let (slow, fast) = (stock.server::<u64, u64>().start(), too.server::<u64, u64>().start());
    let (slow, fast) = (slow.expect("starts"), fast.expect("starts"));
    let client = bob.client().expect("starts");
    let call = || client.call::<u64>("stock", &7_u64).wait_for_server().deadline(PATIENCE);
    let refused = call().hedge_after(Duration::from_millis(1)).blocking();
    assert_eq!(refused, Err(CallError::NotIdempotent));
    assert!(slow.try_next().is_none() && fast.try_next().is_none(), "nothing was sent");
    let (gone, listens) = channel();
    thread::scope(|scope| {
        let _stop = [Stops(&slow), Stops(&fast)];
        scope.spawn(|| fast.run(1, |request| request.value() + 1));
        scope.spawn(|| {
            while let Some(request) = slow.blocking_next() {
                pollster::block_on(request.given_up());
                // The test may have learned enough.
                let _ = gone.send(());
            }
        });
        // They take turns, once the directory has both.
        let until = Instant::now() + PATIENCE;
        while listens.try_recv().is_err() {
            assert!(Instant::now() < until, "no call came to the slow one");
            assert_eq!(call().idempotent().hedge_after(Duration::from_millis(20)).blocking(), Ok(8));
        }
        assert!(Instant::now() < until, "each took as long as the hedge and not as the deadline");
        slow.stop();
        fast.stop();
    });
}
