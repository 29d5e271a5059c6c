//! Helpers of the tests over real sockets.

#[allow(unsafe_code)]
pub(crate) mod fork;
pub(crate) mod listening;

use std::path::{Path, PathBuf};
use std::time::Duration;

use phalanx_runtime::config::{Config, DriverMode};
use phalanx_runtime::core::{Event, GroupView, Timing};
use phalanx_runtime::local::LocalCell;
use phalanx_runtime::{Cell, Group, Item, JoinOptions, Message, Options};
use tempfile::TempDir;

/// A directory for each test.
pub(crate) fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// Options of a process in that directory, with patience for a busy machine. With `PHALANX_DRIVER=udp` all tests run
/// without shared memory.
pub(crate) fn options(directory: &Path, name: &str) -> Options {
    Options::from(Config {
        name: Some(name.to_owned()),
        runtime_dir: Some(run(directory)),
        state_dir: Some(state(directory)),
        driver: if over_udp() { DriverMode::Udp } else { DriverMode::Auto },
        timing: Timing { suspect_after: Duration::from_secs(5), ..Timing::default() },
        ..Config::default()
    })
}

/// Whether the tests run without shared memory.
pub(crate) fn over_udp() -> bool {
    std::env::var("PHALANX_DRIVER").is_ok_and(|driver| driver == "udp")
}

/// The runtime directory.
pub(crate) fn run(directory: &Path) -> PathBuf {
    directory.join("run")
}

/// The state directory.
pub(crate) fn state(directory: &Path) -> PathBuf {
    directory.join("state")
}

/// The processes of that directory on this host.
pub(crate) fn local(directory: &Path) -> LocalCell {
    LocalCell::open(Some(&run(directory)), Some(&state(directory)), "default").expect("opens")
}

/// Starts a process and joins group `g`.
pub(crate) fn member(options: Options) -> (Cell, Group) {
    let cell = Cell::start(options).expect("starts");
    let group = cell.join_group("g", JoinOptions::default()).expect("a good name");
    (cell, group)
}

/// The next item. A test that waits this long for one has failed.
pub(crate) fn next(cell: &Cell) -> Item {
    cell.recv_timeout(PATIENCE).expect("an item comes")
}

/// Takes items until an event for which `wanted` gives a value, and returns that.
pub(crate) fn await_event<T>(cell: &Cell, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
    loop {
        if let Item::Event(event) = next(cell)
            && let Some(value) = wanted(&event)
        {
            return value;
        }
    }
}

/// Takes items until a view of a group has exactly that many members.
pub(crate) fn await_members(cell: &Cell, count: usize) -> GroupView {
    await_event(cell, |event| match event {
        Event::GroupView(view) if view.members.len() == count => Some(GroupView::clone(view)),
        _ => None,
    })
}

/// Takes items until that many messages have arrived.
pub(crate) fn messages(cell: &Cell, count: usize) -> Vec<Message> {
    let mut messages = Vec::new();
    while messages.len() < count {
        if let Item::Message(message) = next(cell) {
            messages.push(message);
        }
    }
    messages
}

/// The payloads of messages.
pub(crate) fn payloads(messages: &[Message]) -> Vec<Vec<u8>> {
    messages.iter().map(|message| message.payload.to_vec()).collect()
}

/// Only a hang takes this long. Members that each wait seconds for a processor supersede each other's ballots, and one
/// view change then takes more than a minute.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
