//! Real processes that are killed and stopped. `forks.rs` covers forked ones.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{PATIENCE, await_event, await_members, directory, member, options};
use phalanx_runtime::config::DriverMode;
use phalanx_runtime::core::{
    Delivery, Event, Incarnation, LeaveReason, Order, Snapshot, Stability, Timing, Uniformity, ViewNumber,
};
use phalanx_runtime::counters::{CountersFile, OrphanStatus, Reading, Status};
use phalanx_runtime::{Cell, Frozen, Group, Item, JoinOptions, Options, State};

/// A member in a process of its own. It prints what it observes, and is killed on drop.
struct Child {
    process: std::process::Child,
    output: BufReader<ChildStdout>,
    _input: Option<ChildStdin>,
}

impl Child {
    fn start(dir: &Path, name: &str) -> Self {
        Self::spawn(dir, name, "no", DriverMode::Auto)
    }

    /// It shares no memory.
    fn start_over_udp(dir: &Path, name: &str) -> Self {
        Self::spawn(dir, name, "no", DriverMode::Udp)
    }

    /// It also holds the states of groups `red` and `blue`.
    fn start_with_states(dir: &Path, name: &str) -> Self {
        Self::spawn(dir, name, "yes", DriverMode::Auto)
    }

    fn spawn(dir: &Path, name: &str, states: &str, driver: DriverMode) -> Self {
        let this = std::env::current_exe().expect("a test program has a path");
        let mut process = Command::new(this)
            .args(["--exact", "processes::a_member_of_its_own", "--nocapture", "--test-threads=1"])
            .env("PHALANX_TEST_DIR", dir)
            .env("PHALANX_TEST_NAME", name)
            .env("PHALANX_TEST_STATES", states)
            .env("PHALANX_TEST_UDP", if driver == DriverMode::Udp { "yes" } else { "no" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a test program starts");
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().expect("piped"));
        Self { process, output, _input: input }
    }

    /// Reads its output up to a line that begins so, and returns the rest of that line.
    fn await_line(&mut self, begins: &str) -> String {
        let mut line = String::new();
        while self.output.read_line(&mut line).expect("readable") > 0 {
            if let Some(rest) = line.trim_end().strip_prefix(begins) {
                return rest.to_owned();
            }
            line.clear();
        }
        panic!("the child ended before it said {begins:?}");
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.process.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process");
        rustix::process::kill_process(pid, signal).expect("it lives");
    }

    /// Stops it, and waits until all its threads are stopped.
    fn stop(&self) {
        self.signal(rustix::process::Signal::STOP);
        self.await_stop();
    }

    /// Waits until all its threads are stopped. The first thread to see the signal stops the others, and may have to
    /// wait for a processor while they run on.
    fn await_stop(&self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::UNTRACED).expect("it stops");
    }

    fn kill(mut self) {
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

/// The child's side. In the parent's own test run there is nothing to do.
#[test]
fn a_member_of_its_own() {
    let (Ok(dir), Ok(name)) = (std::env::var("PHALANX_TEST_DIR"), std::env::var("PHALANX_TEST_NAME")) else { return };
    let mut options = impatient(Path::new(&dir), &name);
    if std::env::var("PHALANX_TEST_UDP").is_ok_and(|udp| udp == "yes") {
        options.config.driver = DriverMode::Udp;
    }
    let (cell, _group) = member(options);
    let states = std::env::var("PHALANX_TEST_STATES").is_ok_and(|states| states == "yes");
    let texts: Vec<Text> =
        if states { ["red", "blue"].map(|name| Text::join(&cell, name).1).into() } else { Vec::new() };
    let mut out = std::io::stdout();
    out.write_all(b"\n").expect("the parent reads");
    while let Ok(item) = cell.recv() {
        let line = match item {
            Item::Event(Event::CellView(view)) => format!("cell {} {}\n", view.instance, view.members.len()),
            Item::Event(Event::GroupView(view)) => format!("group {} {}\n", view.view, view.members.len()),
            Item::Event(Event::Excluded { .. }) => "excluded\n".to_owned(),
            Item::Event(Event::StateKept { name, .. }) => format!("kept {name}\n"),
            Item::Event(Event::Searching { .. }) => "searching\n".to_owned(),
            Item::Event(Event::StateEnd { .. }) => {
                format!("states {}\n", texts.iter().map(Text::get).collect::<Vec<_>>().join(" "))
            }
            Item::Message(message) => format!("message {}\n", String::from_utf8_lossy(&message.payload)),
            _ => continue,
        };
        out.write_all(line.as_bytes()).and_then(|()| out.flush()).expect("the parent reads");
    }
}

/// A state that keeps all texts sent.
#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Text {
    fn join(cell: &Cell, name: &str) -> (Group, Self) {
        let text = Self::default();
        let state: Box<dyn State> = Box::new(text.clone());
        let group = cell
            .join_group(name, JoinOptions { with_state: true, state: Some(state), ..JoinOptions::default() })
            .expect("a good name");
        (group, text)
    }

    fn get(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic").clone()).expect("text was sent")
    }
}

impl State for Text {
    fn apply(&mut self, message: &Delivery<'_>) {
        self.0.lock().expect("no panic").extend_from_slice(message.payload);
    }

    fn snapshot(&mut self) -> Box<dyn Snapshot> {
        Box::new(Frozen::new(self.get().into_bytes()))
    }

    fn clear(&mut self) {
        self.0.lock().expect("no panic").clear();
    }

    fn restore(&mut self, chunk: &[u8]) {
        self.0.lock().expect("no panic").extend_from_slice(chunk);
    }
}

/// Short suspicion times, for tests in which a process is stopped.
fn impatient(dir: &Path, name: &str) -> Options {
    let mut options = options(dir, name);
    options.config.timing = Timing::default();
    options
}

fn instance(cell: &Cell) -> String {
    await_event(cell, |event| match event {
        Event::CellView(view) => Some(view.instance.to_string()),
        _ => None,
    })
}

#[test]
fn a_killed_member_is_proved_dead_at_once() {
    let dir = directory();
    // With this much patience, silence alone would not be noticed within the test.
    let mut patient = options(dir.path(), "stays");
    patient.config.timing.suspect_after = Duration::from_secs(3_600);
    let (cell, _group) = member(patient);
    let child = Child::start(dir.path(), "dies");
    let dies: Incarnation = await_members(&cell, 2).members[1];
    child.kill();
    let left = await_event(&cell, |event| match event {
        Event::CellView(view) if view.members.len() == 1 => Some(view.left.clone()),
        _ => None,
    });
    assert_eq!(left, [(dies, LeaveReason::Died)]);
}

#[test]
fn a_founder_killed_before_any_process_joined_blocks_none() {
    let dir = directory();
    let mut founder = Child::start(dir.path(), "founder");
    founder.await_line("cell ");
    founder.stop();
    // It lives, so no other process founds; it is stopped, so none can join.
    let (waits, _group) = member(options(dir.path(), "waits"));
    await_event(&waits, |event| matches!(event, Event::Searching { .. }).then_some(()));
    let mut later = Child::start(dir.path(), "later");
    founder.kill();
    await_members(&waits, 2);
    later.await_line("group ");
    let living = crate::common::local(dir.path()).living().expect("readable");
    assert!(living.len() == 2 && living.iter().all(|live| live.settled), "{living:?}");
}

#[test]
fn a_stopped_member_whose_files_are_gone_keeps_others_from_founding_until_it_ends() {
    let dir = directory();
    let mut founder = Child::start(dir.path(), "founder");
    let first = founder.await_line("cell ");
    founder.stop();
    std::fs::remove_dir_all(crate::common::run(dir.path())).expect("there");
    let (waits, _group) = member(options(dir.path(), "waits"));
    let told = loop {
        match crate::common::next(&waits) {
            Item::Notice(notice) if notice.contains("waits until") => break notice,
            Item::Event(Event::CellView(view)) => panic!("founded {view:?}"),
            _ => {}
        }
    };
    assert!(told.contains(&founder.process.id().to_string()), "{told}");
    founder.kill();
    let founded = instance(&waits);
    assert!(!first.starts_with(&founded), "another instance");
}

#[test]
fn after_all_were_killed_the_next_founds_a_new_cell() {
    let dir = directory();
    let mut children: Vec<Child> = (0..4).map(|i| Child::start(dir.path(), &format!("n{i}"))).collect();
    let mut old = String::new();
    for child in &mut children {
        while !old.ends_with(" 4") {
            old = child.await_line("cell ");
        }
    }
    children.into_iter().for_each(Child::kill);
    let (cell, _group) = member(options(dir.path(), "new"));
    assert_ne!(instance(&cell), old.split(' ').next().expect("an instance"), "a new instance");
    await_members(&cell, 1);
}

#[test]
fn a_stopped_member_is_excluded_notified_and_comes_back_with_its_groups() {
    let dir = directory();
    let (a, group) = member(impatient(dir.path(), "a"));
    let (b, _group) = member(impatient(dir.path(), "b"));
    let mut child = Child::start(dir.path(), "stopped");
    let first = await_members(&a, 3).members;
    child.await_line("group ");
    child.stop();
    let left = await_event(&a, |event| match event {
        Event::GroupView(view) if view.members.len() == 2 => Some(view.left.clone()),
        _ => None,
    });
    assert_eq!(left.iter().map(|(_, why)| *why).collect::<Vec<_>>(), [LeaveReason::Unreachable], "it lives");
    assert!(first.contains(&left[0].0));
    child.signal(rustix::process::Signal::CONT);
    child.await_line("excluded");
    let again = await_members(&a, 3).members;
    assert!(!again.contains(&left[0].0), "it is another incarnation");
    group.cast(Order::Total, Stability::Uniform, b"welcome back").expect("accepted");
    assert_eq!(child.await_line("message "), "welcome back");
    drop(b);
}

#[test]
fn after_an_exclusion_each_group_gets_its_own_state_again() {
    let dir = directory();
    let (a, _group) = member(impatient(dir.path(), "a"));
    let (b, _group) = member(impatient(dir.path(), "b"));
    let ((red, red_text), (blue, blue_text)) = (Text::join(&a, "red"), Text::join(&a, "blue"));
    let mut child = Child::start_with_states(dir.path(), "stopped");
    while !child.await_line("group ").ends_with(" 3") {}
    let joined = |cell: &Cell, name: &str, count: usize| {
        await_event(cell, |event| match event {
            Event::GroupView(view) if *view.name == *name && view.members.len() == count => Some(()),
            _ => None,
        });
    };
    // Both arrive, in either order.
    let mut both = 0;
    await_event(&a, |event| match event {
        Event::GroupView(view) if *view.name != *"g" && view.members.len() == 2 => {
            both += 1;
            (both == 2).then_some(())
        }
        _ => None,
    });
    child.stop();
    joined(&a, "red", 1);
    for _ in 0..3 {
        red.cast(Order::Total, Stability::Plain, b"r").expect("accepted");
        blue.cast(Order::Total, Stability::Plain, b"b").expect("accepted");
    }
    blue.cast(Order::Total, Stability::Plain, b"lue").expect("accepted");
    crate::common::messages(&a, 7);
    assert_eq!((red_text.get(), blue_text.get()), ("rrr".to_owned(), "bbblue".to_owned()));
    child.signal(rustix::process::Signal::CONT);
    child.await_line("excluded");
    while child.await_line("states ") != "rrr bbblue" {}
    drop(b);
}

/// Waits until a process of that cell reports that group `red` waits, and returns for whom.
fn await_orphaned(cell: &Cell) -> Vec<String> {
    let mut names = await_event(cell, |event| match event {
        Event::GroupOrphaned { name, waits_for, .. } if **name == *"red" => Some(waits_for.clone()),
        _ => None,
    });
    names.sort_by(|(_, a), (_, b)| a.cmp(b));
    names.into_iter().map(|(_, name)| name).collect()
}

fn await_red(cell: &Cell, count: usize) -> ViewNumber {
    await_event(cell, |event| match event {
        Event::GroupView(view) if *view.name == *"red" && view.members.len() == count => Some(view.view),
        _ => None,
    })
}

#[test]
fn a_group_whose_members_are_all_stopped_waits_for_them_and_goes_on_with_its_state() {
    let dir = directory();
    let (a, _group) = member(impatient(dir.path(), "a"));
    let others = ["b", "c"].map(|name| member(impatient(dir.path(), name)));
    let (red, _text) = Text::join(&a, "red");
    let mut holders = ["x", "y"].map(|name| Child::start_with_states(dir.path(), name));
    await_red(&a, 3);
    red.cast(Order::Total, Stability::Uniform, b"kept").expect("accepted");
    crate::common::messages(&a, 1);
    red.leave().expect("a member");
    await_event(&a, |event| matches!(event, Event::GroupLeft { .. }).then_some(()));
    // Both took red from somebody, and one of them blue: only then do both have both states.
    let taken = || ["x", "y"].map(|name| counter(dir.path(), name, "transfers_taken")).iter().sum::<u64>();
    await_status(dir.path(), "a", |_| (taken() >= 3).then_some(()));
    // Both at once: where processors are busy, one may take long to stop, and the other would be excluded before it.
    holders.iter().for_each(|holder| holder.signal(rustix::process::Signal::STOP));
    holders.iter().for_each(Child::await_stop);
    await_status(dir.path(), "a", |status| (status.orphans.len() == 2).then_some(()));
    let (again, text) = Text::join(&a, "red");
    assert_eq!(await_orphaned(&a), ["x", "y"]);
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
    assert!(again.view().is_none(), "it waits");
    holders.iter().for_each(|holder| holder.signal(rustix::process::Signal::CONT));
    await_red(&a, 3);
    assert_eq!(text.get(), "kept");
    holders.iter_mut().for_each(|holder| _ = holder.await_line("excluded"));
    await_status(dir.path(), "b", |status| status.orphans.is_empty().then_some(()));
    drop(others);
}

/// Excluded first, and dead then: the system proves it though they are members no more.
#[test]
fn a_group_whose_members_were_excluded_and_then_die_is_made_anew_by_who_waits() {
    let dir = directory();
    let (a, _group) = member(impatient(dir.path(), "a"));
    let others = ["b", "c"].map(|name| member(impatient(dir.path(), name)));
    let mut holders = ["x", "y"].map(|name| Child::start_with_states(dir.path(), name));
    holders.iter_mut().for_each(|holder| _ = holder.await_line("cell "));
    await_status(dir.path(), "x", |status| {
        let both = |name: &str| status.groups.iter().any(|group| group.name == name && group.members == 2);
        (both("red") && both("blue")).then_some(())
    });
    holders.iter().for_each(Child::stop);
    await_event(&a, |event| matches!(event, Event::CellView(view) if view.members.len() == 3).then_some(()));
    let (red, text) = Text::join(&a, "red");
    assert_eq!(await_orphaned(&a), ["x", "y"]);
    assert!(red.view().is_none(), "it waits");
    let [x, y] = holders;
    x.kill();
    while await_orphaned(&a) != ["y"] {}
    y.kill();
    assert_eq!((await_red(&a, 1), text.get()), (ViewNumber::FIRST, String::new()), "another group of that name");
    await_status(dir.path(), "b", |status| status.orphans.is_empty().then_some(()));
    drop(others);
}

#[test]
fn a_child_that_is_killed_while_it_sends_harms_no_other() {
    let dir = directory();
    let (a, group) = member(options(dir.path(), "a"));
    for round in 0..3 {
        let mut child = Child::start(dir.path(), &format!("victim{round}"));
        await_members(&a, 2);
        for i in 0..200 {
            group
                .cast(Order::Total, Uniformity::from_flag(i % 2 == 0).into(), format!("{round}.{i}").as_bytes())
                .expect("accepted");
        }
        child.await_line("message ");
        child.kill();
        let mut expected = 0;
        let mut alone = false;
        while expected < 200 || !alone {
            match crate::common::next(&a) {
                Item::Message(message) => {
                    assert_eq!(message.payload, format!("{round}.{expected}").as_bytes());
                    expected += 1;
                }
                Item::Event(Event::GroupView(view)) => alone = view.members.len() == 1,
                _ => {}
            }
        }
    }
}

/// The status in the counters file of the process of that name.
fn reading(dir: &Path, name: &str) -> Reading {
    let living = crate::common::local(dir).living().expect("readable");
    let named = living.iter().find(|live| live.advert.as_ref().is_some_and(|advert| advert.name == name));
    let file = CountersFile::open(&named.expect("it lives").counters).expect("it is there");
    file.read().expect("whole")
}

/// Waits until the status in that file is as wanted.
fn await_status<T>(dir: &Path, name: &str, wanted: impl Fn(Status) -> Option<T>) -> T {
    let started = std::time::Instant::now();
    loop {
        if let Some(value) = wanted(reading(dir, name).status) {
            return value;
        }
        assert!(started.elapsed() < PATIENCE, "{name} says {:?}", reading(dir, name).status);
        std::thread::sleep(Duration::from_millis(20));
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
    let started = std::time::Instant::now();
    while counter(dir, name, which) != value {
        assert!(started.elapsed() < PATIENCE, "{which} of {name} is {}, not {value}", counter(dir, name, which));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Casts that many messages, and waits until all children and the process itself have delivered them.
fn cast_and_await(cell: &Cell, group: &Group, children: &mut [&mut Child], what: &str, count: usize) {
    for i in 0..count {
        group
            .cast(Order::Total, Uniformity::from_flag(i % 2 == 0).into(), format!("{what}.{i}").as_bytes())
            .expect("accepted");
    }
    for child in children {
        (0..count).for_each(|i| assert_eq!(child.await_line("message "), format!("{what}.{i}")));
    }
    let own = crate::common::messages(cell, count);
    assert!(own.iter().enumerate().all(|(i, m)| m.payload == format!("{what}.{i}").as_bytes()));
}

#[test]
fn members_of_one_host_reach_each_other_through_memory() {
    if crate::common::over_udp() {
        return;
    }
    let dir = directory();
    let (a, group) = member(options(dir.path(), "a"));
    let (mut b, mut c) = (Child::start(dir.path(), "b"), Child::start(dir.path(), "c"));
    await_members(&a, 3);
    ["a", "b", "c"].iter().for_each(|name| await_counter(dir.path(), name, "shm_readers", 2));
    let all = |which| ["a", "b", "c"].map(|name| counter(dir.path(), name, which)).iter().sum::<u64>();
    let before = all("udp_sent_packets");
    cast_and_await(&a, &group, &mut [&mut b, &mut c], "near", 1_000);
    // The files are written ten times a second.
    std::thread::sleep(Duration::from_millis(300));
    let (datagrams, shared) = (all("udp_sent_packets") - before, all("shm_sent"));
    assert!(shared >= 10 && all("shm_received") >= shared, "{shared} records");
    assert!(datagrams < 10, "{datagrams} datagrams beside {shared} records");
}

#[test]
fn memory_outlives_members_that_are_killed_stopped_or_without_it() {
    if crate::common::over_udp() {
        return;
    }
    let dir = directory();
    let (a, group) = member(impatient(dir.path(), "a"));
    let mut killed = Child::start(dir.path(), "killed");
    let mut stopped = Child::start(dir.path(), "stopped");
    let mut far = Child::start_over_udp(dir.path(), "far");
    await_members(&a, 4);
    await_counter(dir.path(), "a", "shm_readers", 2);
    await_counter(dir.path(), "far", "shm_readers", 0);
    cast_and_await(&a, &group, &mut [&mut killed, &mut stopped, &mut far], "all", 200);
    killed.kill();
    await_members(&a, 3);
    await_counter(dir.path(), "a", "shm_readers", 1);
    cast_and_await(&a, &group, &mut [&mut stopped, &mut far], "three", 200);
    stopped.stop();
    await_members(&a, 2);
    await_counter(dir.path(), "a", "shm_readers", 0);
    cast_and_await(&a, &group, &mut [&mut far], "two", 200);
    stopped.signal(rustix::process::Signal::CONT);
    stopped.await_line("excluded");
    await_members(&a, 3);
    await_counter(dir.path(), "a", "shm_readers", 1);
    await_counter(dir.path(), "stopped", "shm_readers", 1);
    let before = counter(dir.path(), "a", "shm_sent");
    cast_and_await(&a, &group, &mut [&mut stopped, &mut far], "again", 200);
    std::thread::sleep(Duration::from_millis(300));
    assert!(counter(dir.path(), "a", "shm_sent") > before, "the new life is reached through memory");
}
