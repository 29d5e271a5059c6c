//! Submitting to a state: its results, over joins and ends of processes, over real sockets.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::thread;

use phalanx::{
    Cell, DecodeError, Execute, Group, Inbox, JoinError, Message, Next, Replica, SendError, Snapshot, State,
    SubmitError, wait_for,
};

use phalanx_check::{Options, Property, Require, check_files};
use phalanx_runtime::clock::{clock_name, now};
use phalanx_trace::{Event, Header, TraceWriter};

use crate::common::{PATIENCE, impatient, patient, traces};
use crate::processes::{Child, await_status, print};

/// Accounts by name. A message moves an amount to one, and its result is the balance.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Bank {
    pub(crate) accounts: BTreeMap<String, i64>,
    executed: u64,
    pub(crate) applied: u64,
}

impl State for Bank {
    fn apply(&mut self, _message: &Message) {
        self.applied += 1;
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&(&self.accounts, self.executed, self.applied))
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode().map(|(accounts, executed, applied)| Self { accounts, executed, applied })
    }
}

impl Execute for Bank {
    type Output = Result<i64, String>;

    fn execute(&mut self, message: &Message) -> Self::Output {
        self.executed += 1;
        let (name, amount): (String, i64) = message.decode().map_err(|error| error.to_string())?;
        if amount == i64::MAX {
            return Err("x".repeat(300 << 10));
        }
        let balance = self.accounts.entry(name).or_default();
        *balance += amount;
        Ok(*balance)
    }
}

fn start(directory: &Path, name: &str) -> Cell {
    patient(directory, name).blocking_start().expect("starts")
}

fn bank() -> Replica<Bank> {
    Replica::new(Bank::default())
}

fn join(cell: &Cell, bank: &Replica<Bank>) -> (Group, Inbox) {
    cell.group("bank").state(bank).submits(bank).blocking_join().expect("joins")
}

fn give(bank: &Replica<Bank>, name: &str, amount: i64) -> Result<Result<i64, String>, SubmitError> {
    wait_for(bank.submit_value(&(name, amount)), PATIENCE).expect("in time")
}

#[test]
fn each_submitter_is_told_what_its_own_message_gave() {
    let directory = tempfile::tempdir().expect("a directory");
    let cells = ["ann", "bob", "cid"].map(|name| start(directory.path(), name));
    let banks = [(); 3].map(|()| bank());
    assert_eq!(give(&banks[0], "ann", 1), Err(SubmitError::Refused(SendError::NotMember)), "it is in no group");
    let mut members: Vec<_> = cells.iter().zip(&banks).map(|(cell, bank)| join(cell, bank)).collect();
    let sum = AtomicU64::new(0);
    thread::scope(|scope| {
        for bank in &banks {
            for thread in 0..2 {
                let sum = &sum;
                scope.spawn(move || {
                    // Nobody else moves money of this account, so each result says that all before were executed once.
                    let name = format!("{thread} of {:p}", bank);
                    for count in 1..=50 {
                        assert_eq!(give(bank, &name, 1), Ok(Ok(count)));
                    }
                    let all = wait_for(bank.submit_value(&("all", 1)), PATIENCE).expect("in time").expect("a result");
                    sum.fetch_add(u64::try_from(all.expect("a balance")).expect("positive"), Ordering::Relaxed);
                });
            }
        }
    });
    assert_eq!(sum.into_inner(), 1 + 2 + 3 + 4 + 5 + 6, "each was told of a place of its own");
    // What a submit reads was executed here before its result was told.
    assert_eq!(banks[0].read().accounts["all"], 6);
    assert_eq!(banks[0].read().executed, 6 * 51);
    assert_eq!((banks[0].read().applied, banks[0].applied()), (0, 6 * 51));
    // A message that is not submitted is applied as ever.
    members[1].0.send("m").blocking().expect("it is sent").blocking_delivered().expect("it is here");
    assert_eq!((banks[1].read().applied, banks[1].read().executed), (1, 6 * 51));
    assert!(give(&banks[2], "x", i64::MAX).is_err_and(|why| why == SubmitError::ResultTooLong));
    let unreadable = wait_for(banks[2].submit("?"), PATIENCE).expect("in time").expect("it is executed");
    assert!(unreadable.expect_err("no command").contains("type"));
    let long = wait_for(banks[2].submit_bytes(vec![0; 64 << 20].into()), PATIENCE).expect("in time");
    assert_eq!(long, Err(SubmitError::Refused(SendError::TooLong(64 << 20))));
    for (_, inbox) in &mut members {
        let is_submitted = |next: &Next| matches!(next, Next::Message(message) if message.payload != "m");
        assert!(!std::iter::from_fn(|| inbox.try_next()).any(|next| is_submitted(&next)), "no inbox has one");
    }
    let lists: Vec<_> =
        members[0].0.view().expect("a view").domains().expect("a list").map(|(n, _)| n.to_owned()).collect();
    assert_eq!(lists, ["", "phalanx.clients"]);
    let listed = await_status(directory.path(), "bob", |status| {
        let group = status.groups.into_iter().find(|group| group.name == "bank" && group.members == 3)?;
        Some(group.domains)
    });
    assert_eq!(listed, lists, "operators see them, too");
    members[2].0.blocking_leave().expect("it leaves");
    assert_eq!(give(&banks[2], "x", 1), Err(SubmitError::Refused(SendError::NotMember)));
}

#[test]
fn a_joiner_takes_the_table_and_a_named_client_goes_on_elsewhere() {
    let directory = tempfile::tempdir().expect("a directory");
    let [ann, bob] = ["ann", "bob"].map(|name| start(directory.path(), name));
    let [first, second] = [bank(), bank()];
    let _ann = join(&ann, &first);
    let desk = first.client("desk", 0).expect("a name");
    let pay = |client: &phalanx::SubmitClient<Bank>, number| {
        wait_for(client.submit_value(number, &("desk", 5)), PATIENCE).expect("in time")
    };
    assert_eq!((desk.next_number(), pay(&desk, 1), desk.next_number(), pay(&desk, 2)), (1, Ok(Ok(5)), 2, Ok(Ok(10))));
    assert_eq!(pay(&desk, 2), Err(SubmitError::NumberUsed));
    let _bob = join(&bob, &second);
    assert_eq!(second.read().accounts["desk"], 10, "it came with the state");
    // The program moved to another process, and knows its last number.
    let again = second.client("desk", 2).expect("a name");
    assert_eq!((pay(&again, 2), pay(&again, 3)), (Ok(Ok(10)), Ok(Ok(15))), "the second is not executed again");
    assert_eq!(pay(&desk, 3), Err(SubmitError::TakenOver));
    assert_eq!(pay(&desk, 4), Err(SubmitError::TakenOver));
    let behind = first.client("desk", 1).expect("a name");
    assert_eq!(pay(&behind, 2), Err(SubmitError::Behind { last: 3 }));
    let unknown = first.client("other", 7).expect("a name");
    assert_eq!(pay(&unknown, 8), Err(SubmitError::UnknownName));
    again.close();
    // The close comes before this in the group's order.
    assert_eq!(give(&second, "desk", 0), Ok(Ok(15)));
    let anew = first.client("desk", 3).expect("a name");
    assert_eq!(pay(&anew, 4), Err(SubmitError::UnknownName), "it was closed");
    for name in ["", &"n".repeat(65)] {
        assert_eq!(first.client(name, 0).err(), Some(SubmitError::BadName));
    }
}

#[test]
fn a_submit_that_is_given_up_holds_nothing_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let ann = start(directory.path(), "ann");
    let bank = bank();
    let _member = join(&ann, &bank);
    for _ in 0..1_000 {
        let mut submitting = pin!(bank.submit_value(&("given up", 1)).into_future());
        let _ = submitting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    assert_eq!(give(&bank, "ann", 1), Ok(Ok(1)));
    assert!(bank.read().accounts.get("given up").is_none_or(|balance| *balance <= 1_000));
    // More are under way than may be at once: the others wait.
    let all = (0..1_000).map(|_| bank.submit_value(&("many", 1)).into_future()).collect::<Vec<_>>();
    let results = pollster::block_on(async {
        let mut all: Vec<_> = all.into_iter().map(Box::pin).collect();
        let mut results = Vec::new();
        std::future::poll_fn(|context| {
            all.retain_mut(|submitting| match submitting.as_mut().poll(context) {
                std::task::Poll::Ready(result) => {
                    results.push(result.expect("a result").expect("a balance"));
                    false
                }
                std::task::Poll::Pending => true,
            });
            if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        results
    });
    let mut sorted = results;
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(1..=1_000));
}

#[test]
fn a_group_takes_submits_once_all_members_do() {
    let directory = tempfile::tempdir().expect("a directory");
    let [ann, bob, cid] = ["ann", "bob", "cid"].map(|name| start(directory.path(), name));
    let [old, new, late] = [bank(), bank(), bank()];
    let (group, _inbox) = ann.group("bank").state(&old).blocking_join().expect("joins");
    let _bob = join(&bob, &new);
    assert_eq!(give(&new, "bob", 1), Err(SubmitError::Refused(SendError::NoSuchDomain)));
    group.blocking_leave().expect("it leaves");
    let refused = |result: &Result<_, _>| *result == Err(SubmitError::Refused(SendError::NoSuchDomain));
    let taken = std::iter::repeat_with(|| give(&new, "bob", 1)).find(|result| !refused(result));
    assert_eq!(taken, Some(Ok(Ok(1))));
    let lacks = cid.group("bank").state(&late).blocking_join().expect_err("it takes no submits");
    assert_eq!(lacks, JoinError::LacksDomain { group: "bank".into(), domain: "phalanx.clients".into(), version: 1 });
    let other = bank();
    let asked = cid.group("bank").state(&late).submits(&other).blocking_join();
    assert!(matches!(asked, Err(JoinError::BadDomain(why)) if why.contains("none of this group's")));
    // A domain has a table of its own.
    let [state, named] = [bank(), bank()];
    let group = cid.group("two").state(&state).submits(&state).domain("more", &named).submits(&named);
    let (group, _inbox) = group.blocking_join().expect("joins");
    assert_eq!((give(&named, "a", 3), give(&state, "a", 4)), (Ok(Ok(3)), Ok(Ok(4))));
    let view = group.view().expect("a view");
    let names: Vec<_> = view.domains().expect("a list").map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, ["", "more", "phalanx.clients", "phalanx.clients.more"]);
}

/// Moves 1 to its account again and again, and prints what each submit is told.
pub(crate) fn submit_on_and_on(cell: &Cell, name: &str) {
    let bank = bank();
    let (_group, inbox) = join(cell, &bank);
    drop(inbox);
    loop {
        // Two are under way at once, so that one may be sent while the other is told.
        let [first, second] = [(); 2].map(|()| bank.submit_value(&(name, 1)).into_future());
        let mut both = [Box::pin(first), Box::pin(second)];
        let mut results = [None, None];
        pollster::block_on(std::future::poll_fn(|context| {
            for (submitting, result) in both.iter_mut().zip(&mut results) {
                if result.is_none()
                    && let std::task::Poll::Ready(told) = submitting.as_mut().poll(context)
                {
                    *result = Some(told);
                }
            }
            if results.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        }));
        let mut balances = results.map(|told| told.expect("it is told").expect("a result").expect("a balance"));
        balances.sort_unstable();
        balances.into_iter().for_each(|balance| print(&format!("balance {balance}")));
    }
}

/// Checks the traces in a directory. `killed` names the process that was killed, if one was. Each property of submits must have
/// been tested at least `least` times.
pub(crate) fn judge(directory: &Path, killed: Option<&str>, least: u64) {
    let header = Header::harness("default", &clock_name());
    let mut harness = TraceWriter::create(&traces(directory).join("harness.trace"), &header).expect("it is written");
    let files = || fs::read_dir(traces(directory)).expect("made").map(|entry| entry.expect("there").path());
    let life = |file: PathBuf| {
        let name = file.file_stem()?.to_str()?.strip_prefix(killed?)?.strip_prefix('-')?.to_owned();
        u64::from_str_radix(&name, 16).ok()
    };
    for incarnation in files().filter_map(life) {
        harness.write(now().nanos(), &Event::Crash { incarnation }).expect("it is written");
    }
    harness.flush().expect("it is written");
    let options =
        Options { complete: true, one_instance: true, require: Require::These(SUBMITS.to_vec()), ..Options::default() };
    let report = check_files(&files().collect::<Vec<_>>(), &options).expect("they are traces");
    assert!(report.passed, "{report}");
    let row = |of: Property| report.properties.iter().find(|row| row.property == of).expect("it has a row");
    let tested = SUBMITS.map(|of| row(of).instances);
    assert!(tested.iter().all(|instances| *instances >= least), "{tested:?}");
}

/// What the checker asks of submits.
const SUBMITS: [Property; 3] = [Property::X12, Property::X13, Property::X14];

/// It is excluded with submits under way, and comes back: each was executed once, and it is told every result. So say the
/// traces of all.
#[test]
fn who_is_excluded_is_told_what_its_submits_gave() {
    let directory = tempfile::tempdir().expect("a directory");
    let traced = |name| impatient(directory.path(), name).trace(traces(directory.path()));
    let cells = ["ann", "bob"].map(|name| traced(name).blocking_start().expect("starts"));
    let banks = [bank(), bank()];
    let mut members: Vec<_> = cells.iter().zip(&banks).map(|(cell, bank)| join(cell, bank)).collect();
    let mut child = Child::start_submitting(directory.path(), "cid");
    let mut next = 0;
    let mut balances = |child: &mut Child, count| {
        for _ in 0..count {
            next += 1;
            assert_eq!(child.await_line("balance "), next.to_string());
        }
    };
    balances(&mut child, 100);
    child.stop();
    let is_gone = |next: &Next| matches!(next, Next::View(view) if view.len() == 2 && view.left().len() == 1);
    while !is_gone(&crate::common::next(&mut members[0].1)) {}
    child.signal(rustix::process::Signal::CONT);
    // What its output held before the stop, and what comes after the return.
    balances(&mut child, 2_000);
    // One that takes the state while submits are under way.
    let (dan, late) = (traced("dan").blocking_start().expect("starts"), bank());
    let (_group, inbox) = join(&dan, &late);
    drop(inbox);
    assert_eq!(give(&late, "dan", 7), Ok(Ok(7)));
    balances(&mut child, 500);
    child.kill();
    let balance = banks[1].read().accounts["cid"];
    assert!(balance >= next, "{balance} of {next}");
    // Too long, and not executed as nobody is there any more.
    assert_eq!(give(&late, "x", i64::MAX), Err(SubmitError::ResultTooLong));
    for cell in cells.into_iter().chain([dan]) {
        cell.blocking_leave(PATIENCE).expect("leaves");
    }
    judge(directory.path(), Some("cid"), 2_500);
}
