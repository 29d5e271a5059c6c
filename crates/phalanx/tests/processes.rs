//! Real processes that are killed and stopped. `forks.rs` covers forked ones.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use phalanx::{
    Cell, CellEvent, CellView, DecodeError, Events, FlushError, Group, Inbox, LeaveReason, MemberId, Message, Next,
    Replica, SendError, Snapshot, State, Undelivered, View,
};
use phalanx_runtime::counters::{CountersFile, OrphanStatus, Reading, Status};

use crate::common::{
    Member, PATIENCE, await_event, await_members, await_notice, impatient, local, next, over_udp, patient, run, traces,
};

/// A member in a process of its own. It prints what it observes, and is killed on drop.
pub(crate) struct Child {
    process: std::process::Child,
    output: BufReader<ChildStdout>,
    _input: Option<ChildStdin>,
}

impl Child {
    pub(crate) fn start(dir: &Path, name: &str) -> Self {
        Self::spawn(dir, name, "no", "auto")
    }

    /// It sends as many messages as [`SENT`] to group `g` and says `sent` when all members have them.
    pub(crate) fn start_sending(dir: &Path, name: &str) -> Self {
        Self::spawn(dir, name, "sends", "auto")
    }

    /// It serves group `g`, says `asked` when a call comes and does not answer. When it is killed, its sockets stay open: the
    /// system reports nothing to those that call it, as of a host that is down.
    pub(crate) fn start_serving(dir: &Path, name: &str) -> Self {
        Self::spawn(dir, name, "serves", "auto")
    }

    /// It submits to the group `bank`, one after the other, and prints each balance. It writes traces ([`traces`]).
    pub(crate) fn start_submitting(dir: &Path, name: &str) -> Self {
        Self::spawn(dir, name, "submits", "auto")
    }

    /// It joins group `g`, and its last handle is dropped (`endings`).
    pub(crate) fn start_ending(dir: &Path, name: &str, how: &str) -> Self {
        Self::spawn(dir, name, how, "auto")
    }

    /// It shares no memory.
    fn start_over_udp(dir: &Path, name: &str) -> Self {
        Self::spawn(dir, name, "no", "udp")
    }

    /// It also holds the states of groups `red` and `blue`.
    fn start_with_states(dir: &Path, name: &str) -> Self {
        Self::spawn(dir, name, "yes", "auto")
    }

    fn spawn(dir: &Path, name: &str, states: &str, driver: &str) -> Self {
        let this = std::env::current_exe().expect("a test program has a path");
        let mut process = Command::new(this)
            .args(["--exact", "processes::a_member_of_its_own", "--nocapture", "--test-threads=1"])
            .env("PHALANX_TEST_DIR", dir)
            .env("PHALANX_TEST_NAME", name)
            .env("PHALANX_TEST_STATES", states)
            .env("PHALANX_TEST_DRIVER", driver)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a test program starts");
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().expect("piped"));
        Self { process, output, _input: input }
    }

    /// Reads its output up to a line that begins so, and returns the rest of that line.
    pub(crate) fn await_line(&mut self, begins: &str) -> String {
        let mut line = String::new();
        while self.output.read_line(&mut line).expect("readable") > 0 {
            if let Some(rest) = line.trim_end().strip_prefix(begins) {
                return rest.to_owned();
            }
            line.clear();
        }
        panic!("the child ended before it said {begins:?}");
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.process.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process");
        rustix::process::kill_process(pid, signal).expect("it lives");
    }

    /// Stops it, and waits until all its threads are stopped.
    pub(crate) fn stop(&self) {
        self.signal(rustix::process::Signal::STOP);
        self.await_stop();
    }

    /// Waits until all its threads are stopped. The first thread to see the signal stops the others, and may have to
    /// wait for a processor while they run on.
    fn await_stop(&self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::UNTRACED).expect("it stops");
    }

    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

/// How many messages a child that sends has.
pub(crate) const SENT: usize = 100;

/// The child's side. In the parent's own test run there is nothing to do.
#[test]
fn a_member_of_its_own() {
    let variable = |name: &str| std::env::var(format!("PHALANX_TEST_{name}")).ok();
    let (Some(dir), Some(name)) = (variable("DIR"), variable("NAME")) else { return };
    let mut builder = impatient(Path::new(&dir), &name);
    if variable("DRIVER").is_some_and(|driver| driver == "udp") {
        builder = builder.set("driver", "udp");
    }
    let mode = variable("STATES").unwrap_or_default();
    if mode == "submits" {
        builder = builder.trace(traces(Path::new(&dir)));
    }
    let cell = builder.blocking_start().expect("starts");
    print("");
    let mut events = cell.events();
    let told = thread::spawn(move || {
        while let Some(event) = events.blocking_next() {
            match event {
                CellEvent::View(view) => print(&format!("cell {} {}", view.instance(), view.len())),
                CellEvent::GroupView(view) => print(&format!("group {} {}", view.number(), view.len())),
                CellEvent::Excluded { .. } => print("excluded"),
                _ => {}
            }
        }
    });
    if ["posts", "posts and serves", "panics"].contains(&&*mode) {
        let (group, _inbox) = cell.group("g").blocking_join().expect("joins");
        return match &*mode {
            "panics" => crate::endings::panic_and_go_on(cell, group),
            _ => crate::endings::post_and_return(cell, group, mode == "posts and serves"),
        };
    }
    let mut inbox = cell.merged();
    let group = cell.group("g").blocking_join_into(&inbox).expect("joins");
    if mode == "sends" {
        (0..SENT).for_each(|number| post(&group, &format!("m{number}"), false));
        group.blocking_flush().expect("all members have them");
        print("sent");
    }
    if mode == "submits" {
        crate::submits::submit_on_and_on(&cell, &name);
    }
    let server = (mode == "serves").then(|| group.server::<u64, u64>().start().expect("starts"));
    let _held = server.and_then(|server| {
        let request = server.blocking_next();
        keep_sockets_open();
        print("asked");
        request.map(|request| (server, request))
    });
    let mut texts = Vec::new();
    let mut groups = Vec::new();
    if mode == "yes" {
        for name in ["red", "blue"] {
            let text = Replica::new(Text::default());
            groups.push(cell.group(name).state(&text).blocking_join_into(&inbox).expect("joins"));
            texts.push(text);
        }
    }
    while let Some((_, item)) = inbox.blocking_next() {
        match item {
            Next::Current => {
                let texts: Vec<String> = texts.iter().map(|text| text.read().0.clone()).collect();
                print(&format!("states {}", texts.join(" ")));
            }
            Next::Message(message) => print(&format!("message {}", String::from_utf8_lossy(&message.payload))),
            Next::ToOne(message) => print(&format!("to one {}", String::from_utf8_lossy(&message.payload))),
            _ => {}
        }
    }
    told.join().expect("no panic");
}

/// A copy of this process holds its descriptors until its input ends.
#[allow(unsafe_code, reason = "the standard library does not fork")]
fn keep_sockets_open() {
    // SAFETY: `fork` takes no pointer. The child uses no lock, no memory of other threads and no destructor.
    if unsafe { libc::fork() } == 0 {
        let mut byte = 0_u8;
        // SAFETY: the buffer is one byte long and outlives the call.
        while unsafe { libc::read(0, (&raw mut byte).cast(), 1) } > 0 {}
        // SAFETY: it ends the process and returns to nobody.
        unsafe { libc::_exit(0) };
    }
}

pub(crate) fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).expect("the parent reads");
}

/// All texts sent.
#[derive(Default)]
struct Text(String);

impl State for Text {
    fn apply(&mut self, message: &Message) {
        self.0.push_str(&String::from_utf8_lossy(&message.payload));
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.0)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode().map(Self)
    }
}

/// A membership in a group with a state.
struct Holding {
    group: Group,
    inbox: Inbox,
    text: Replica<Text>,
}

impl Holding {
    fn join(cell: &Cell, name: &str) -> Self {
        let text = Replica::new(Text::default());
        let (group, inbox) = cell.group(name).state(&text).blocking_join().expect("joins");
        Self { group, inbox, text }
    }

    /// The same in another thread, for a join that waits.
    fn joining(cell: &Cell, name: &'static str) -> JoinHandle<Self> {
        let cell = cell.clone();
        thread::spawn(move || Self::join(&cell, name))
    }

    fn get(&self) -> String {
        self.text.read().0.clone()
    }
}

fn post(group: &Group, text: &str, is_uniform: bool) {
    let multicast = group.send(text);
    let multicast = if is_uniform { multicast.uniform() } else { multicast.plain() };
    multicast.blocking_post().expect("goes out");
}

fn first_view(events: &mut Events) -> CellView {
    await_event(events, |event| match event {
        CellEvent::View(view) => Some(view.clone()),
        _ => None,
    })
}

fn left(view: &View) -> Vec<(MemberId, LeaveReason)> {
    view.left().collect()
}

#[test]
fn a_killed_member_is_proved_dead_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    // With this much patience, silence alone would not be noticed within the test.
    let mut stays = Member::start(patient(dir.path(), "stays").set("timing.suspect_after", "10min"));
    let child = Child::start(dir.path(), "dies");
    let dies = stays.await_members(2).ids().nth(1).expect("two members");
    child.kill();
    stays.await_cell(2);
    assert_eq!(stays.await_cell(1).left().collect::<Vec<_>>(), [(dies, LeaveReason::Died)]);
}

/// It is stopped when the message is sent, so nobody ever learns whether it has it.
#[test]
fn a_message_to_a_member_that_is_killed_is_in_doubt() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut stays = Member::start(patient(dir.path(), "stays").set("timing.suspect_after", "10min"));
    let mut child = Child::start(dir.path(), "dies");
    let dies = stays.await_members(2).ids().nth(1).expect("two members");
    let first = stays.group.send_to(dies, "first").blocking().expect("it is sent");
    assert_eq!(first.blocking_delivered(), Ok(()));
    assert_eq!(child.await_line("to one "), "first");
    child.stop();
    let second = stays.group.send_to(dies, "second").blocking().expect("it is in the view");
    assert_eq!(second.outcome(), None);
    child.kill();
    assert_eq!(second.blocking_delivered(), Err(Undelivered::InDoubt));
    assert_eq!(stays.group.blocking_flush(), Err(FlushError::Lost { not_sent: 0, in_doubt: 1 }));
    let view = stays.await_members(1).number();
    assert_eq!(stays.group.send_to(dies, "third").blocking().map(drop), Err(SendError::NotInView { view }));
}

/// The process comes back as another member: what was sent to the one that it was does not come to that.
#[test]
fn a_message_to_a_member_that_is_excluded_does_not_come_to_its_next_incarnation() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut a = Member::start(impatient(dir.path(), "a"));
    let _b = Member::start(impatient(dir.path(), "b"));
    let mut child = Child::start(dir.path(), "stopped");
    let first: Vec<MemberId> = a.await_members(3).ids().collect();
    child.await_line("group ");
    child.stop();
    let open = a.group.send_to(first[2], "to the one before").blocking().expect("it is in the view");
    a.await_members(2);
    assert_eq!(open.blocking_delivered(), Err(Undelivered::InDoubt));
    child.signal(rustix::process::Signal::CONT);
    child.await_line("excluded");
    let again = a.await_members(3).ids().find(|who| !first.contains(who)).expect("another incarnation");
    a.group.send_to(again, "welcome back").blocking().expect("it is sent").blocking_delivered().expect("it came");
    assert_eq!(child.await_line("to one "), "welcome back");
}

#[test]
fn a_founder_killed_before_any_process_joined_blocks_none() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut founder = Child::start(dir.path(), "founder");
    founder.await_line("cell ");
    founder.stop();
    // It lives, so no other process founds; it is stopped, so none can join.
    let waits = patient(dir.path(), "waits").blocking_start().expect("starts");
    await_event(&mut waits.events(), |event| matches!(event, CellEvent::Searching { .. }).then_some(()));
    let mut later = Child::start(dir.path(), "later");
    founder.kill();
    let (_group, mut inbox) = waits.group("g").blocking_join().expect("joins");
    await_members(&mut inbox, 2);
    later.await_line("group ");
    let living = local(dir.path()).living().expect("readable");
    assert!(living.len() == 2 && living.iter().all(|live| live.settled), "{living:?}");
}

#[test]
fn a_stopped_member_whose_files_are_gone_keeps_others_from_founding_until_it_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut founder = Child::start(dir.path(), "founder");
    let first = founder.await_line("cell ");
    founder.stop();
    std::fs::remove_dir_all(run(dir.path())).expect("there");
    let waits = patient(dir.path(), "waits").blocking_start().expect("starts");
    let mut events = waits.events();
    let told = await_notice(&mut events, "waits until");
    assert!(told.contains(&founder.process.id().to_string()), "{told}");
    assert!(waits.view().is_none(), "it founds nothing");
    founder.kill();
    let founded = first_view(&mut events).instance();
    assert!(!first.starts_with(&founded.to_string()), "another instance");
}

#[test]
fn after_all_were_killed_the_next_founds_a_new_cell() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut children: Vec<Child> = (0..4).map(|i| Child::start(dir.path(), &format!("n{i}"))).collect();
    let mut old = String::new();
    for child in &mut children {
        while !old.ends_with(" 4") {
            old = child.await_line("cell ");
        }
    }
    children.into_iter().for_each(Child::kill);
    let mut new = Member::start(patient(dir.path(), "new"));
    let founded = first_view(&mut new.events).instance().to_string();
    assert_ne!(founded, old.split(' ').next().expect("an instance"), "a new instance");
    new.await_members(1);
}

#[test]
fn a_stopped_member_is_excluded_notified_and_comes_back_with_its_groups() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut a = Member::start(impatient(dir.path(), "a"));
    let _b = Member::start(impatient(dir.path(), "b"));
    let mut child = Child::start(dir.path(), "stopped");
    let first: Vec<MemberId> = a.await_members(3).ids().collect();
    child.await_line("group ");
    child.stop();
    let left = left(&a.await_members(2));
    assert_eq!(left.iter().map(|(_, why)| *why).collect::<Vec<_>>(), [LeaveReason::Unreachable], "it lives");
    assert!(first.contains(&left[0].0));
    child.signal(rustix::process::Signal::CONT);
    child.await_line("excluded");
    assert!(a.await_members(3).ids().all(|who| who != left[0].0), "it is another incarnation");
    post(&a.group, "welcome back", true);
    assert_eq!(child.await_line("message "), "welcome back");
}

#[test]
fn after_an_exclusion_each_group_gets_its_own_state_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let a = Member::start(impatient(dir.path(), "a"));
    let _b = Member::start(impatient(dir.path(), "b"));
    let (mut red, mut blue) = (Holding::join(&a.cell, "red"), Holding::join(&a.cell, "blue"));
    let mut child = Child::start_with_states(dir.path(), "stopped");
    while !child.await_line("group ").ends_with(" 3") {}
    for holding in [&mut red, &mut blue] {
        await_members(&mut holding.inbox, 2);
    }
    child.stop();
    await_members(&mut red.inbox, 1);
    for _ in 0..3 {
        post(&red.group, "r", false);
        post(&blue.group, "b", false);
    }
    post(&blue.group, "lue", false);
    for holding in [&red, &blue] {
        holding.group.blocking_flush().expect("nothing is lost");
    }
    while (red.get(), blue.get()) != ("rrr".to_owned(), "bbblue".to_owned()) {
        thread::sleep(Duration::from_millis(1));
    }
    child.signal(rustix::process::Signal::CONT);
    child.await_line("excluded");
    while child.await_line("states ") != "rrr bbblue" {}
}

/// Waits until a process of that cell reports that group `red` waits, and returns for whom.
fn await_orphaned(events: &mut Events) -> Vec<String> {
    let mut names: Vec<String> = await_event(events, |event| match event {
        CellEvent::GroupWaiting { group, for_members } if **group == *"red" => {
            Some(for_members.iter().map(|(_, name)| name.clone()).collect())
        }
        _ => None,
    });
    names.sort();
    names
}

#[test]
fn a_group_whose_members_are_all_stopped_waits_for_them_and_goes_on_with_its_state() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut a = Member::start(impatient(dir.path(), "a"));
    let others = ["b", "c"].map(|name| Member::start(impatient(dir.path(), name)));
    let mut red = Holding::join(&a.cell, "red");
    let mut holders = ["x", "y"].map(|name| Child::start_with_states(dir.path(), name));
    await_members(&mut red.inbox, 3);
    post(&red.group, "kept", true);
    while !matches!(next(&mut red.inbox), Next::Message(_)) {}
    red.group.blocking_leave().expect("a member");
    // Both took red from somebody, and one of them blue: only then do both have both states.
    let taken = || ["x", "y"].map(|name| counter(dir.path(), name, "transfers_taken")).iter().sum::<u64>();
    await_status(dir.path(), "a", |_| (taken() >= 3).then_some(()));
    // Both at once: where processors are busy, one may take long to stop, and the other would be excluded before it.
    holders.iter().for_each(|holder| holder.signal(rustix::process::Signal::STOP));
    holders.iter().for_each(Child::await_stop);
    await_status(dir.path(), "a", |status| (status.orphans.len() == 2).then_some(()));
    let joining = Holding::joining(&a.cell, "red");
    assert_eq!(await_orphaned(&mut a.events), ["x", "y"]);
    // Every process reports it in its counters file, whether it requested the group or not.
    let orphans = await_status(dir.path(), "b", |status| (!status.orphans.is_empty()).then_some(status.orphans));
    let waits = |orphan: &OrphanStatus| {
        let mut names: Vec<String> = orphan.waits_for.iter().map(|holder| holder.name.clone()).collect();
        names.sort();
        (orphan.name.clone(), names)
    };
    let both = || vec!["x".to_owned(), "y".to_owned()];
    let told: std::collections::BTreeMap<_, _> = orphans.iter().map(waits).collect();
    assert_eq!(told, [("blue".to_owned(), both()), ("red".to_owned(), both())].into());
    assert!(!joining.is_finished(), "it waits");
    holders.iter().for_each(|holder| holder.signal(rustix::process::Signal::CONT));
    let mut again = joining.join().expect("no panic");
    while again.group.view().is_none_or(|view| view.len() < 3) {
        next(&mut again.inbox);
    }
    assert_eq!(again.get(), "kept");
    holders.iter_mut().for_each(|holder| _ = holder.await_line("excluded"));
    await_status(dir.path(), "b", |status| status.orphans.is_empty().then_some(()));
    drop(others);
}

/// Excluded first, and dead then: the system proves it though they are members no more.
#[test]
fn a_group_whose_members_were_excluded_and_then_die_is_made_anew_by_who_waits() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut a = Member::start(impatient(dir.path(), "a"));
    let others = ["b", "c"].map(|name| Member::start(impatient(dir.path(), name)));
    let mut holders = ["x", "y"].map(|name| Child::start_with_states(dir.path(), name));
    holders.iter_mut().for_each(|holder| _ = holder.await_line("cell "));
    await_status(dir.path(), "x", |status| {
        let both = |name: &str| status.groups.iter().any(|group| group.name == name && group.members == 2);
        (both("red") && both("blue")).then_some(())
    });
    a.await_cell(5);
    holders.iter().for_each(Child::stop);
    a.await_cell(3);
    let joining = Holding::joining(&a.cell, "red");
    assert_eq!(await_orphaned(&mut a.events), ["x", "y"]);
    assert!(!joining.is_finished(), "it waits");
    let [x, y] = holders;
    x.kill();
    while await_orphaned(&mut a.events) != ["y"] {}
    y.kill();
    let red = joining.join().expect("no panic");
    let view = red.group.view().expect("in the group");
    assert_eq!((view.number(), view.len(), red.get()), (1, 1, String::new()), "another group of that name");
    await_status(dir.path(), "b", |status| status.orphans.is_empty().then_some(()));
    drop(others);
}

#[test]
fn a_child_that_is_killed_while_it_sends_harms_no_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut a = Member::start(patient(dir.path(), "a"));
    for round in 0..3 {
        let mut child = Child::start(dir.path(), &format!("victim{round}"));
        a.await_members(2);
        for i in 0..200 {
            post(&a.group, &format!("{round}.{i}"), i % 2 == 0);
        }
        child.await_line("message ");
        child.kill();
        let (mut expected, mut alone) = (0, false);
        while expected < 200 || !alone {
            match next(&mut a.inbox) {
                Next::Message(message) => {
                    assert_eq!(message.payload, format!("{round}.{expected}").as_bytes());
                    expected += 1;
                }
                Next::View(view) => alone = view.len() == 1,
                _ => {}
            }
        }
    }
}

/// The status in the counters file of the process of that name.
fn reading(dir: &Path, name: &str) -> Reading {
    let living = local(dir).living().expect("readable");
    let named = living.iter().find(|live| live.advert.as_ref().is_some_and(|advert| advert.name == name));
    let file = CountersFile::open(&named.expect("it lives").counters).expect("it is there");
    file.read().expect("whole")
}

/// Waits until the status in that file is as wanted.
pub(crate) fn await_status<T>(dir: &Path, name: &str, wanted: impl Fn(Status) -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = wanted(reading(dir, name).status) {
            return value;
        }
        assert!(started.elapsed() < PATIENCE, "{name} says {:?}", reading(dir, name).status);
        thread::sleep(Duration::from_millis(20));
    }
}

/// A counter of the process of that name, from its file.
fn counter(dir: &Path, name: &str, counter: &str) -> u64 {
    let reading = reading(dir, name);
    let value = reading.counters.iter().find(|(n, _)| n == counter).map(|(_, value)| *value);
    value.unwrap_or_else(|| panic!("there is no counter {counter}"))
}

/// Waits until the counter has that value. Only a hang takes so long that the test fails.
fn await_counter(dir: &Path, name: &str, which: &str, value: u64) {
    let started = Instant::now();
    while counter(dir, name, which) != value {
        assert!(started.elapsed() < PATIENCE, "{which} of {name} is {}, not {value}", counter(dir, name, which));
        thread::sleep(Duration::from_millis(20));
    }
}

/// Sends that many messages, and waits until all children and the process itself have delivered them.
fn send_and_await(member: &mut Member, children: &mut [&mut Child], what: &str, count: usize) {
    for i in 0..count {
        post(&member.group, &format!("{what}.{i}"), i % 2 == 0);
    }
    for child in children {
        (0..count).for_each(|i| assert_eq!(child.await_line("message "), format!("{what}.{i}")));
    }
    let own = member.messages(count);
    assert!(own.iter().enumerate().all(|(i, m)| m.payload == format!("{what}.{i}").as_bytes()));
}

#[test]
fn members_of_one_host_reach_each_other_through_memory() {
    if over_udp() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut a = Member::start(patient(dir.path(), "a"));
    let (mut b, mut c) = (Child::start(dir.path(), "b"), Child::start(dir.path(), "c"));
    a.await_members(3);
    ["a", "b", "c"].iter().for_each(|name| await_counter(dir.path(), name, "shm_readers", 2));
    let all = |which| ["a", "b", "c"].map(|name| counter(dir.path(), name, which)).iter().sum::<u64>();
    let before = all("udp_sent_packets");
    send_and_await(&mut a, &mut [&mut b, &mut c], "near", 1_000);
    // The files are written ten times a second.
    thread::sleep(Duration::from_millis(300));
    let (datagrams, shared) = (all("udp_sent_packets") - before, all("shm_sent"));
    assert!(shared >= 10 && all("shm_received") >= shared, "{shared} records");
    assert!(datagrams < 10, "{datagrams} datagrams beside {shared} records");
}

#[test]
fn memory_outlives_members_that_are_killed_stopped_or_without_it() {
    if over_udp() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut a = Member::start(impatient(dir.path(), "a"));
    let mut killed = Child::start(dir.path(), "killed");
    let mut stopped = Child::start(dir.path(), "stopped");
    let mut far = Child::start_over_udp(dir.path(), "far");
    a.await_members(4);
    await_counter(dir.path(), "a", "shm_readers", 2);
    await_counter(dir.path(), "far", "shm_readers", 0);
    send_and_await(&mut a, &mut [&mut killed, &mut stopped, &mut far], "all", 200);
    killed.kill();
    a.await_members(3);
    await_counter(dir.path(), "a", "shm_readers", 1);
    send_and_await(&mut a, &mut [&mut stopped, &mut far], "three", 200);
    stopped.stop();
    a.await_members(2);
    await_counter(dir.path(), "a", "shm_readers", 0);
    send_and_await(&mut a, &mut [&mut far], "two", 200);
    stopped.signal(rustix::process::Signal::CONT);
    stopped.await_line("excluded");
    a.await_members(3);
    await_counter(dir.path(), "a", "shm_readers", 1);
    await_counter(dir.path(), "stopped", "shm_readers", 1);
    let before = counter(dir.path(), "a", "shm_sent");
    send_and_await(&mut a, &mut [&mut stopped, &mut far], "again", 200);
    thread::sleep(Duration::from_millis(300));
    assert!(counter(dir.path(), "a", "shm_sent") > before, "the new life is reached through memory");
}
