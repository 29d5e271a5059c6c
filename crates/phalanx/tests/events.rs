//! What a process is told of its cell, beside the messages of its groups, and groups that it only observes.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use phalanx::{
    App, Cell, CellBuilder, CellEvent, Events, Inbox, InlineGroup, JoinError, LeaveReason, MessageRef, Next, Replica,
    Snapshot, StartError, State,
};

fn builder(directory: &Path, name: &str) -> CellBuilder {
    Cell::builder("default")
        .name(name)
        .directories(directory.join("run"), directory.join("state"))
        .set("timing.suspect_after", "5s")
        .set("timing.turn_gap_max", "1s")
}

fn start(directory: &Path, name: &str) -> Cell {
    builder(directory, name).blocking_start().expect("starts")
}

/// Takes events until one is the one that is meant.
fn await_event<T>(events: &mut Events, mut meant: impl FnMut(&CellEvent) -> Option<T>) -> T {
    loop {
        let event = events.blocking_next_timeout(PATIENCE).expect("in time").expect("it goes on");
        if let Some(value) = meant(&event) {
            return value;
        }
    }
}

fn await_members(inbox: &mut Inbox, members: usize) {
    loop {
        match inbox.blocking_next_timeout(PATIENCE).expect("in time").expect("it goes on") {
            Next::View(view) if view.len() == members => return,
            _ => {}
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(30);

struct Bytes(Vec<u8>);

impl State for Bytes {
    fn apply(&mut self, message: &phalanx::Message) {
        self.0.extend_from_slice(&message.payload);
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.0.clone())
    }

    fn restore(snapshot: Snapshot) -> Result<Self, phalanx::DecodeError> {
        Ok(Self(snapshot.into_bytes().to_vec()))
    }
}

#[test]
fn a_process_is_told_what_happens_in_its_cell() {
    let directory = tempfile::tempdir().expect("a directory");
    let ann = start(directory.path(), "ann");
    let mut events = ann.events();
    let first = await_event(&mut events, |event| match event {
        CellEvent::View(view) => Some(view.clone()),
        _ => None,
    });
    let names: Vec<String> = first.members().map(|member| member.name).collect();
    assert_eq!((names, first.me(), first.instance().generation()), (vec!["ann".to_owned()], ann.me().id, 1));
    assert_eq!((first.is_adequate(), first.members_min(), first.apart().len()), (true, 1, 0));
    assert_eq!(ann.view().as_ref(), Some(&first));
    assert!(first.members().all(|member| member.level >= first.level()), "all know the level in force");

    let (_g, mut inbox) = ann.group("g").state(&Replica::new(Bytes(vec![1; 100]))).blocking_join().expect("joins");
    let bob = start(directory.path(), "bob");
    // A reader that comes later sees all that is kept, and each sees all.
    let (mut of_bob, mut late) = (bob.events(), ann.events());
    let (of_g, _inbox) = bob.group("g").state(&Replica::new(Bytes(Vec::new()))).blocking_join().expect("joins");
    await_members(&mut inbox, 2);
    let taken = await_event(&mut of_bob, |event| match event {
        CellEvent::GroupTaking { group, bytes } => Some((group.to_string(), *bytes)),
        _ => None,
    });
    assert!(taken.0 == "g" && taken.1 > 100, "{taken:?}");
    let view = await_event(&mut of_bob, |event| match event {
        CellEvent::GroupView(view) => Some(view.clone()),
        _ => None,
    });
    assert_eq!(Some(view), of_g.view());
    let left = |event: &CellEvent| match event {
        CellEvent::View(view) => view.left().next(),
        _ => None,
    };
    bob.blocking_leave(PATIENCE).expect("leaves");
    for events in [&mut events, &mut late] {
        assert_eq!(await_event(events, left).1, LeaveReason::Left);
    }
    await_event(&mut of_bob, |event| matches!(event, CellEvent::Left).then_some(()));
    assert!(of_bob.blocking_next().is_none(), "nothing follows the end");
    ann.blocking_leave(PATIENCE).expect("leaves");
}

#[test]
fn an_observer_waits_until_others_made_the_group_and_has_no_state() {
    let directory = tempfile::tempdir().expect("a directory");
    let (ann, bob) = (start(directory.path(), "ann"), start(directory.path(), "bob"));
    let refused = ann.group("g").state(&Replica::new(Bytes(Vec::new()))).observe().blocking_join();
    assert!(matches!(refused, Err(JoinError::BadDomain(_))), "{refused:?}");
    let mut events = ann.events();
    let observing = ann.group("g").observe();
    let observed = thread::spawn(move || observing.blocking_join());
    await_event(&mut events, |event| matches!(event, CellEvent::GroupAbsent { .. }).then_some(()));
    assert!(ann.notices().iter().any(|notice| notice.starts_with("group g is not there")));

    let state = Replica::new(Bytes(vec![7]));
    let (g, mut inbox) = bob.group("g").state(&state).blocking_join().expect("makes it");
    let (watching, mut watched) = observed.join().expect("no panic").expect("is there");
    await_members(&mut inbox, 2);
    assert_eq!(watching.view().map(|view| view.my_rank()), Some(1));
    g.send(b"seen").blocking().expect("is sent");
    let seen = loop {
        match watched.blocking_next_timeout(PATIENCE).expect("in time").expect("it goes on") {
            Next::Message(message) => break message,
            Next::Taking { .. } => panic!("an observer takes no state"),
            _ => {}
        }
    };
    assert_eq!(&seen.payload[..], b"seen");
    bob.blocking_leave(PATIENCE).expect("leaves, though the observer has nothing of the group");
    await_event(&mut events, |event| matches!(event, CellEvent::GroupAbsent { .. }).then_some(()));
    ann.blocking_leave(PATIENCE).expect("leaves");
}

/// An inline program that writes down what happens in its cell, in its place among views.
#[derive(Default)]
struct Told(Vec<String>);

impl App for Told {
    fn message(&mut self, _message: &MessageRef<'_>) {}

    fn view(&mut self, _group: InlineGroup, view: &phalanx::View) {
        self.0.push(format!("in a view of {}", view.len()));
    }

    fn event(&mut self, event: &CellEvent) {
        self.0.push(event.to_string());
        if let CellEvent::View(view) = event {
            self.0.extend(view.departures().map(|gone| format!("gone: {gone}")));
        }
    }
}

#[test]
fn an_inline_process_is_told_the_same_and_observes_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut app, mut member) = (Told::default(), builder(directory.path(), "ann").inline().expect("starts"));
    member.group("g").observe().join(&mut app).expect("asks");
    let ends = Instant::now() + PATIENCE;
    let until = |member: &mut phalanx::Inline, app: &mut Told, text: &str| {
        while !app.0.iter().any(|told| told.starts_with(text)) {
            assert!(Instant::now() < ends, "not told: {text}; but {:?}", app.0);
            if !member.poll(app).more {
                member.wait(Some(Duration::from_millis(5))).expect("waits");
            }
        }
    };
    until(&mut member, &mut app, "group g is not there");
    assert_eq!(member.view().map(|view| view.len()), Some(1));
    assert!(member.notices().iter().any(|notice| notice.starts_with("group g is not there")));
    let bob = start(directory.path(), "bob");
    let joined = thread::spawn(move || bob.group("g").blocking_join().map(|joined| (joined, bob)));
    until(&mut member, &mut app, "in a view of 2");
    let told = app.0.iter().position(|told| told.starts_with("group g view"));
    assert!(told < app.0.iter().position(|told| told == "in a view of 2"), "{:?}", app.0);
    let (_group, bob) = joined.join().expect("no panic").expect("joins");
    let left = thread::spawn(move || bob.blocking_leave(PATIENCE));
    until(&mut member, &mut app, "cell view 3: 1 members");
    assert!(app.0.iter().any(|told| told.starts_with("gone: bob ") && told.ends_with(": left")), "{:?}", app.0);
    left.join().expect("no panic").expect("leaves");
    member.leave(&mut app);
    until(&mut member, &mut app, "left the cell");
}

/// A program that starts processes for others tells a wrong configuration from a host that refuses something.
#[test]
fn what_is_missing_in_the_configuration_is_an_error_of_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let refused = builder(directory.path(), "ann").bind([192, 0, 2, 1].into()).blocking_start();
    assert!(matches!(refused, Err(StartError::Setting(_))), "{refused:?}");
    let seed = builder(directory.path(), "ann").seeds(["no-such-host.invalid:1"]).blocking_start();
    assert!(matches!(seed, Err(StartError::Setting(_))), "{seed:?}");
}
