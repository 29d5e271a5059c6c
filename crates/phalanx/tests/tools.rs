//! Processes that join a cell for a moment, to ask it for something.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use phalanx::{
    App, Cell, CellBuilder, CellEvent, CellGroup, DecodeError, Inline, Message, MessageRef, Replica, Snapshot, State,
};

const PATIENCE: Duration = Duration::from_secs(30);

fn builder(directory: &Path, name: &str) -> CellBuilder {
    Cell::builder("default")
        .name(name)
        .directories(directory.join("run"), directory.join("state"))
        .set("timing.suspect_after", "5s")
}

/// Keeps what happens in the cell.
#[derive(Default)]
struct Told(Vec<CellEvent>);

impl App for Told {
    fn message(&mut self, _message: &MessageRef<'_>) {}

    fn event(&mut self, event: &CellEvent) {
        self.0.push(event.clone());
    }
}

fn run(member: &mut Inline, app: &mut Told, mut done: impl FnMut(&Inline, &Told) -> bool) {
    let ends = Instant::now() + PATIENCE;
    while !done(member, app) {
        assert!(Instant::now() < ends, "it does not come to that: {:?}", app.0);
        if !member.poll(app).more {
            member.wait(Some(Duration::from_millis(5))).expect("waits");
        }
    }
}

struct Nothing;

impl State for Nothing {
    fn apply(&mut self, _message: &Message) {}

    fn snapshot(&self) -> Snapshot {
        Snapshot::new("")
    }

    fn restore(_snapshot: Snapshot) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}

#[test]
fn one_that_only_joins_founds_no_cell_and_sees_the_groups_of_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut app, mut tool) =
        (Told::default(), builder(directory.path(), "tool").join_only().inline().expect("starts"));
    let is_searching = |told: &Told| told.0.iter().any(|event| matches!(event, CellEvent::Searching { .. }));
    run(&mut tool, &mut app, |_, told| is_searching(told));
    assert!(tool.view().is_none() && tool.groups().is_empty());

    // Processes that may found a cell do so, though the tool was there before.
    let ann = builder(directory.path(), "ann").blocking_start().expect("starts");
    let (_g, _inbox) = ann.group("g").blocking_join().expect("joins");
    let (_h, _inbox) = ann.group("h").state(&Replica::new(Nothing)).blocking_join().expect("joins");
    run(&mut tool, &mut app, |tool, _| tool.groups().len() == 2);
    let me = ann.me().id;
    let groups = tool.groups();
    assert!(groups.iter().all(|group| !group.is_waiting() && group.members == [me]), "{groups:?}");
    let [g, h] = &groups[..] else { panic!("{groups:?}") };
    assert_eq!((&g.name[..], &h.name[..]), ("g", "h"));

    // A group ends with its last member. One that is made anew has another number.
    let CellGroup { number, .. } = h.clone();
    let left = thread::spawn(move || ann.blocking_leave(PATIENCE));
    run(&mut tool, &mut app, |tool, _| tool.groups().is_empty() && left.is_finished());
    left.join().expect("no panic").expect("leaves");
    let bob = builder(directory.path(), "bob").blocking_start().expect("starts");
    let of_bob = bob.clone();
    let joined = thread::spawn(move || of_bob.group("h").blocking_join());
    run(&mut tool, &mut app, |tool, _| !tool.groups().is_empty() && joined.is_finished());
    let _joined = joined.join().expect("no panic").expect("joins");
    assert_ne!(tool.groups()[0].number, number, "it is another group of that name");
    tool.leave(&mut app);
    run(&mut tool, &mut app, |tool, _| tool.is_over());
    bob.blocking_leave(PATIENCE).expect("leaves");
}

#[test]
fn a_level_that_nobody_knows_is_refused_as_an_event_by_both_kinds_of_process() {
    const UNKNOWN: u16 = u16::MAX;
    let directory = tempfile::tempdir().expect("a directory");
    let (mut app, mut ann) = (Told::default(), builder(directory.path(), "ann").inline().expect("starts"));
    run(&mut ann, &mut app, |ann, _| ann.view().is_some());
    let refused = |event: &CellEvent| match event {
        CellEvent::LevelRefused { level, why } => Some((*level, why.clone())),
        _ => None,
    };
    ann.raise_level(UNKNOWN, &mut app).expect("asks");
    let told: Vec<(u16, String)> = app.0.iter().filter_map(refused).collect();
    let [(UNKNOWN, why)] = &told[..] else { panic!("{told:?}") };
    let text = format!("the cell does not rise to level {UNKNOWN}: {why}");
    assert!(ann.notices().contains(&text), "{text}");
    ann.leave(&mut app);
    run(&mut ann, &mut app, |ann, _| ann.is_over());

    let bob = builder(directory.path(), "bob").blocking_start().expect("starts");
    while bob.view().is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    let mut events = bob.events();
    bob.raise_level(UNKNOWN).expect("asks");
    let again = loop {
        let event = events.blocking_next_timeout(PATIENCE).expect("in time").expect("it goes on");
        if let Some(refused) = refused(&event) {
            break refused;
        }
    };
    assert_eq!(again, (UNKNOWN, why.replace("ann", "bob")));
    bob.blocking_leave(PATIENCE).expect("leaves");
}
