//! Submits of processes that one thread polls in turn, alone and among processes with a thread, over real sockets.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use phalanx::{
    App, Cell, DecodeError, Execute, Inline, InlineGroup, LeaveReason, MessageRef, Replica, SendError, Snapshot, State,
    SubmitError, View, wait_for,
};

use crate::common::{PATIENCE, impatient, patient, traces};
use crate::submits::{Bank, judge};

/// A balance, or why there is none.
type Outcome = Result<Result<i64, String>, SubmitError>;

/// A program that keeps a bank, and writes down what it is told.
#[derive(Default)]
struct Teller {
    bank: Bank,
    coming: Vec<u8>,
    told: Vec<(u64, Outcome)>,
    views: Vec<View>,
    bound: u64,
    excluded: usize,
    left: Vec<LeaveReason>,
    is_refused: bool,
}

impl Teller {
    fn members(&self) -> usize {
        self.views.last().map_or(0, View::len)
    }

    fn balances(&self) -> Vec<i64> {
        self.told.iter().map(|(_, told)| *told.as_ref().expect("a result").as_ref().expect("a balance")).collect()
    }
}

impl App for Teller {
    fn message(&mut self, message: &MessageRef<'_>) {
        self.bank.apply(&message.to_message());
    }

    fn execute(&mut self, message: &MessageRef<'_>, result: &mut Vec<u8>) {
        let output = self.bank.execute(&message.to_message());
        result.extend(postcard::to_allocvec(&output).expect("it is plain data"));
    }

    fn submitted(&mut self, _group: InlineGroup, number: u64, result: Result<&[u8], SubmitError>) {
        self.told.push((number, result.map(|bytes| postcard::from_bytes(bytes).expect("a result"))));
    }

    fn sent(&mut self, _group: InlineGroup, _view: u64, _seq: u64) {
        self.bound += 1;
    }

    fn view(&mut self, _group: InlineGroup, view: &View) {
        self.views.push(view.clone());
    }

    fn excluded(&mut self, _was: phalanx::MemberId) {
        self.excluded += 1;
    }

    fn left(&mut self, _group: InlineGroup, reason: LeaveReason) {
        self.left.push(reason);
    }

    fn refused(&mut self, _group: InlineGroup) {
        self.is_refused = true;
    }

    fn snapshot(&mut self, _group: InlineGroup) -> Option<Snapshot> {
        Some(self.bank.snapshot())
    }

    fn taking(&mut self, _group: InlineGroup, _bytes: u64) {
        (self.bank, self.coming) = Default::default();
    }

    fn restore(&mut self, _group: InlineGroup, part: &[u8], is_end: bool) -> Result<(), DecodeError> {
        self.coming.extend_from_slice(part);
        if is_end {
            self.bank = Bank::restore(Snapshot::new(std::mem::take(&mut self.coming)))?;
        }
        Ok(())
    }
}

type Member = (Inline, Teller);

fn start(directory: &Path, name: &str) -> Member {
    let builder = patient(directory, name).set("timing.turn_gap_max", "1s");
    (builder.inline().expect("starts"), Teller::default())
}

fn join((member, app): &mut Member) -> InlineGroup {
    member.group("bank").submits().join(app).expect("joins")
}

fn submit((member, app): &mut Member, group: InlineGroup, name: &str, amount: i64) -> Result<u64, SendError> {
    member.submit(group, &postcard::to_allocvec(&(name, amount)).expect("it is plain data"), app)
}

/// Polls all in turn until `done`.
fn run(members: &mut [Member], mut done: impl FnMut(&mut [Member]) -> bool) {
    let ends = Instant::now() + PATIENCE;
    while !done(members) {
        assert!(Instant::now() < ends, "it does not come to that");
        let mut idle = true;
        for (member, app) in members.iter_mut() {
            let polled = member.poll(app);
            idle &= !polled.more && polled.received == 0;
        }
        if idle {
            members[0].0.wait(Some(Duration::from_millis(1))).expect("waits");
        }
    }
}

fn leave(members: &mut [Member]) {
    members.iter_mut().for_each(|(member, app)| member.leave(app));
    run(members, |members| members.iter().all(|(member, _)| member.is_over()));
}

/// Each is told what its own messages gave, and a joiner takes state and table from another such process.
#[test]
fn each_process_that_is_polled_is_told_what_its_own_message_gave() {
    const EACH: i64 = 300;
    let directory = tempfile::tempdir().expect("a directory");
    let mut members = vec![start(directory.path(), "ann"), start(directory.path(), "bob")];
    let mut groups: Vec<_> = members.iter_mut().map(join).collect();
    assert_eq!(submit(&mut members[0], groups[0], "ann", 1), Ok(1), "it waits for the first view");
    let mut accepted = [1, 0];
    run(&mut members, |members| {
        for (at, member) in members.iter_mut().enumerate() {
            while accepted[at] < EACH {
                match submit(member, groups[at], ["ann", "bob"][at], 1) {
                    Ok(_number) => accepted[at] += 1,
                    Err(why) => {
                        assert_eq!(why, SendError::Full);
                        break;
                    }
                }
            }
        }
        let is_told = |app: &Teller| app.told.last().is_some_and(|(number, _)| *number == 300);
        members.iter().all(|(_, app)| is_told(app))
    });
    for (at, name) in ["ann", "bob"].into_iter().enumerate() {
        let app = &members[at].1;
        assert!(app.balances().into_iter().eq(1..=EACH), "{name}");
        assert_eq!((app.bank.accounts[name], app.bank.applied, app.bound), (EACH, 0, 0));
    }
    run(&mut members, |members| members.iter().zip(&groups).all(|((of, _), group)| of.unstable(*group) == Some(0)));
    members.push(start(directory.path(), "cid"));
    groups.push(join(&mut members[2]));
    run(&mut members, |members| members.iter().all(|(_, app)| app.members() == 3));
    for _ in 0..3 {
        submit(&mut members[2], groups[2], "ann", 1).expect("there is room");
    }
    run(&mut members, |members| members[2].1.told.len() == 3);
    let first = EACH + 1;
    assert_eq!(members[2].1.balances(), [first, first + 1, first + 2]);
    run(&mut members, |members| members.iter().all(|(_, app)| app.bank == members[2].1.bank));
    // What every member keeps has a bound.
    submit(&mut members[2], groups[2], "ann", i64::MAX).expect("there is room");
    run(&mut members, |members| members[2].1.told.len() == 4);
    assert_eq!(members[2].1.told[3], (4, Err(SubmitError::ResultTooLong)));
    let long = vec![0; 64 << 20];
    let (cid, app) = &mut members[2];
    assert_eq!(cid.submit(groups[2], &long, app), Err(SendError::TooLong(long.len())));
    leave(&mut members);
    assert_eq!(submit(&mut members[2], groups[2], "ann", 1), Err(SendError::Over));
}

/// It is excluded with submits under way, which the others executed, and comes back. So say the traces of both.
#[test]
fn one_that_stays_away_is_told_what_its_submits_gave() {
    let directory = tempfile::tempdir().expect("a directory");
    let start = |name| {
        let builder = impatient(directory.path(), name).set("timing.suspect_after", "1s");
        let builder = builder.trace(traces(directory.path()));
        (builder.inline().expect("starts"), Teller::default())
    };
    let mut members = [start("ann"), start("bob")];
    join(&mut members[0]);
    run(&mut members[..1], |members| members[0].1.members() == 1);
    let group = join(&mut members[1]);
    run(&mut members, |members| members.iter().all(|(_, app)| app.members() == 2));
    submit(&mut members[1], group, "bob", 1).expect("there is room");
    run(&mut members, |members| members[1].1.told.len() == 1);
    for round in 0..3_i64 {
        for _ in 0..10 {
            submit(&mut members[1], group, "bob", 1).expect("there is room");
        }
        // It sends them, and does not hear what became of them.
        let (bob, app) = &mut members[1];
        bob.poll(app);
        let mut views = members[0].1.views.len();
        run(&mut members[..1], |members| members[0].1.views.len() > views && members[0].1.members() == 1);
        assert_eq!(members[0].1.bank.accounts["bob"], 1 + 10 * (round + 1), "they were ordered without it");
        views = members[1].1.told.len();
        submit(&mut members[1], group, "bob", 0).expect("it waits, wherever this process is");
        run(&mut members, |members| {
            members.iter().all(|(_, app)| app.members() == 2) && members[1].1.told.len() == views + 11
        });
        assert_eq!(i64::try_from(members[1].1.excluded), Ok(round + 1));
    }
    let mut told = members[1].1.balances();
    told.retain(|balance| balance % 10 != 1);
    told.sort_unstable();
    assert_eq!(members[0].1.bank.accounts["bob"], 31, "each was executed once");
    assert_eq!(told, (1..=31).filter(|balance| balance % 10 != 1).collect::<Vec<_>>());
    run(&mut members, |members| members[0].1.bank == members[1].1.bank);
    leave(&mut members);
    judge(directory.path(), None, 31);
}

/// Nothing is told while fewer members have the state than the group's founder asked for.
#[test]
fn a_process_that_is_polled_is_told_nothing_while_it_is_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut members = vec![start(directory.path(), "ann")];
    let (ann, app) = &mut members[0];
    let group = ann.group("bank").submits().members_min(2).join(app).expect("joins");
    run(&mut members, |members| members[0].1.members() == 1);
    submit(&mut members[0], group, "ann", 1).expect("there is room");
    let begun = Instant::now();
    run(&mut members, |_| begun.elapsed() > Duration::from_millis(300));
    assert_eq!(members[0].1.told, []);
    members.push(start(directory.path(), "bob"));
    join(&mut members[1]);
    run(&mut members, |members| !members[0].1.told.is_empty());
    assert_eq!(members[0].1.told, [(1, Ok(Ok(1)))]);
    run(&mut members, |members| members[0].1.bank == members[1].1.bank);
    leave(&mut members);
}

#[test]
fn what_is_under_way_at_the_end_has_an_outcome_before_the_end_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut members = [start(directory.path(), "ann"), start(directory.path(), "bob")];
    let (ann, app) = &mut members[0];
    let other = ann.group("other").with_state().join(app).expect("joins");
    assert_eq!(submit(&mut members[0], other, "ann", 1), Err(SendError::NoSuchDomain), "it takes no submits");
    let groups = members.each_mut().map(join);
    run(&mut members, |members| members.iter().all(|(_, app)| app.members() == 2));
    for _ in 0..20 {
        submit(&mut members[1], groups[1], "bob", 1).expect("there is room");
    }
    let (bob, app) = &mut members[1];
    bob.leave_group(groups[1], app).expect("asks");
    run(&mut members, |members| !members[1].1.left.is_empty());
    assert_eq!(members[1].1.told.len(), 20);
    assert_eq!(submit(&mut members[1], groups[1], "bob", 1), Err(SendError::NotMember));
    let is_outcome = |told: &Outcome| match told {
        Ok(Ok(_)) => true,
        Err(why) => matches!(why, SubmitError::Unknown | SubmitError::Refused(SendError::NotMember)),
        Ok(Err(_)) => false,
    };
    assert!(members[1].1.told.iter().all(|(_, told)| is_outcome(told)), "{:?}", members[1].1.told);
    leave(&mut members);
}

/// One group of both kinds of process: either takes the state, with the table, from the other, and all compute the same. So say the
/// traces of all.
#[test]
fn processes_with_and_without_a_thread_submit_to_one_state() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let traced = |path: &Path, name| patient(path, name).trace(traces(path));
    let ann = traced(path, "ann").blocking_start().expect("starts");
    let bank = || Replica::new(Bank::default());
    let first = bank();
    let (group, inbox) = ann.group("bank").state(&first).submits(&first).blocking_join().expect("joins");
    drop(inbox);
    let give = |bank: &Replica<Bank>, name: &str| {
        wait_for(bank.submit_value(&(name, 1)), PATIENCE).expect("in time").expect("a result").expect("a balance")
    };
    assert_eq!([give(&first, "ann"), give(&first, "ann")], [1, 2]);

    // It takes what a thread gives.
    let bob = traced(path, "bob").set("timing.turn_gap_max", "1s");
    let mut members = [(bob.inline().expect("starts"), Teller::default())];
    let mine = join(&mut members[0]);
    run(&mut members, |members| members[0].1.members() == 2);
    assert_eq!(members[0].1.bank, *first.read());
    let desk = first.client("desk", 0).expect("a name");
    let submitting = thread::spawn(move || {
        let told: Vec<i64> = (0..50).map(|_| give(&first, "both")).collect();
        let of_desk = wait_for(desk.submit_value(1, &("desk", 5)), PATIENCE).expect("in time");
        (told, of_desk, first)
    });
    let mut submitted = 0;
    run(&mut members, |members| {
        while submitted < 50 && submit(&mut members[0], mine, "both", 1).is_ok() {
            submitted += 1;
        }
        members[0].1.told.len() == 50 && submitting.is_finished()
    });
    let (told, of_desk, first) = submitting.join().expect("no panic");
    let mut all: Vec<i64> = told.into_iter().chain(members[0].1.balances()).collect();
    all.sort_unstable();
    assert_eq!((all, of_desk), ((1..=100).collect(), Ok(Ok(5))));
    run(&mut members, |members| members[0].1.bank == *first.read());
    // A message that is not submitted is one to both.
    let message = group.send("m").blocking().expect("it goes out");
    run(&mut members, |members| members[0].1.bank.applied == 1);
    drop(message);

    // The thread goes, and the next one takes what it gives.
    let leaving = thread::spawn(move || ann.blocking_leave(PATIENCE));
    run(&mut members, |members| members[0].1.members() == 1 && leaving.is_finished());
    leaving.join().expect("no panic").expect("it left");
    let path = path.to_owned();
    let joining = thread::spawn(move || {
        let cid = traced(&path, "cid").blocking_start().expect("starts");
        let second = bank();
        let joined = cid.group("bank").state(&second).submits(&second).blocking_join().expect("joins");
        // The name is in the table, with its answer.
        let desk = second.client("desk", 1).expect("a name");
        let again = wait_for(desk.submit_value(1, &("desk", 5)), PATIENCE).expect("in time");
        (cid, joined, give(&second, "both"), again, second)
    });
    run(&mut members, |_| joining.is_finished());
    let (cid, joined, balance, again, second) = joining.join().expect("no panic");
    assert_eq!((balance, again), (101, Ok(Ok(5))), "it is not executed again");
    run(&mut members, |members| members[0].1.bank == *second.read());
    assert_eq!(second.read().accounts["desk"], 5);

    // A process that takes no submits is refused by name.
    let (bob, app) = &mut members[0];
    bob.leave_group(mine, app).expect("asks");
    run(&mut members, |members| !members[0].1.left.is_empty());
    let (bob, app) = &mut members[0];
    bob.group("bank").with_state().join(app).expect("asks");
    run(&mut members, |members| members[0].1.is_refused);
    leave(&mut members);
    drop(joined);
    cid.blocking_leave(PATIENCE).expect("leaves");
    judge(directory.path(), None, 100);
}

/// The table has as many clients as it may, and none of them is away.
#[test]
fn a_full_table_opens_no_client_of_a_process_that_is_polled() {
    let directory = tempfile::tempdir().expect("a directory");
    let ann: Cell = patient(directory.path(), "ann").blocking_start().expect("starts");
    let bank = Replica::new(Bank::default());
    let (_group, inbox) = ann.group("bank").state(&bank).submits(&bank).blocking_join().expect("joins");
    drop(inbox);
    let clients: Vec<_> = (0..1_024).map(|number| bank.client(&format!("desk {number}"), 0).expect("a name")).collect();
    for client in &clients {
        let told = wait_for(client.submit_value(1, &("desks", 1)), PATIENCE).expect("in time");
        told.expect("a result").expect("a balance");
    }
    let mut members = [start(directory.path(), "bob")];
    let group = join(&mut members[0]);
    run(&mut members, |members| members[0].1.members() == 2);
    submit(&mut members[0], group, "bob", 1).expect("there is room");
    run(&mut members, |members| members[0].1.told.len() == 1);
    assert_eq!(members[0].1.told, [(1, Err(SubmitError::TooManyClients))]);
    clients.into_iter().next().expect("one").close();
    // Nobody tells when the close is at its place.
    let mut number = 1;
    run(&mut members, |members| {
        if members[0].1.told.len() as u64 == number && members[0].1.told.last().is_some_and(|(_, told)| told.is_err()) {
            number = submit(&mut members[0], group, "bob", 1).expect("there is room");
        }
        members[0].1.told.last() == Some(&(number, Ok(Ok(1))))
    });
    leave(&mut members);
}
