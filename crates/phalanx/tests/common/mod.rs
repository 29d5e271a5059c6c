//! Helpers of the tests of processes over real sockets.

use std::path::{Path, PathBuf};
use std::time::Duration;

use phalanx::{Cell, CellBuilder, CellEvent, Events, Group, Inbox, Message, Next, View};
use phalanx_runtime::local::LocalCell;

/// Only a hang takes this long. Members that each wait seconds for a processor supersede each other's ballots, and one
/// view change then takes more than a minute.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// The runtime directory.
pub(crate) fn run(directory: &Path) -> PathBuf {
    directory.join("run")
}

/// The state directory.
pub(crate) fn state(directory: &Path) -> PathBuf {
    directory.join("state")
}

/// The directory of traces, of processes that write some.
pub(crate) fn traces(directory: &Path) -> PathBuf {
    directory.join("traces")
}

/// The processes of that directory on this host.
pub(crate) fn local(directory: &Path) -> LocalCell {
    LocalCell::open(Some(&run(directory)), Some(&state(directory)), "default").expect("opens")
}

/// Whether the tests run without shared memory.
pub(crate) fn over_udp() -> bool {
    std::env::var("PHALANX_DRIVER").is_ok_and(|driver| driver == "udp")
}

/// A process in that directory. With `PHALANX_DRIVER=udp` all tests run without shared memory.
pub(crate) fn impatient(directory: &Path, name: &str) -> CellBuilder {
    let builder = Cell::builder("default").name(name).directories(run(directory), state(directory));
    builder.set("driver", if over_udp() { "udp" } else { "auto" })
}

/// The same, with patience for a busy machine.
pub(crate) fn patient(directory: &Path, name: &str) -> CellBuilder {
    impatient(directory, name).set("timing.suspect_after", "5s")
}

/// A process in group `g`.
pub(crate) struct Member {
    pub(crate) cell: Cell,
    pub(crate) events: Events,
    pub(crate) group: Group,
    pub(crate) inbox: Inbox,
}

impl Member {
    pub(crate) fn start(builder: CellBuilder) -> Self {
        let cell = builder.blocking_start().expect("starts");
        let events = cell.events();
        let (group, inbox) = cell.group("g").blocking_join().expect("joins");
        Self { cell, events, group, inbox }
    }

    pub(crate) fn await_event<T>(&mut self, wanted: impl FnMut(&CellEvent) -> Option<T>) -> T {
        await_event(&mut self.events, wanted)
    }

    /// Waits for a view of the cell with exactly that many members.
    pub(crate) fn await_cell(&mut self, members: usize) -> phalanx::CellView {
        self.await_event(|event| match event {
            CellEvent::View(view) if view.len() == members => Some(view.clone()),
            _ => None,
        })
    }

    /// Takes items until a view of the group has exactly that many members.
    pub(crate) fn await_members(&mut self, members: usize) -> View {
        await_members(&mut self.inbox, members)
    }

    /// Takes items until that many messages have arrived.
    pub(crate) fn messages(&mut self, count: usize) -> Vec<Message> {
        let mut messages = Vec::new();
        while messages.len() < count {
            if let Next::Message(message) = next(&mut self.inbox) {
                messages.push(message);
            }
        }
        messages
    }
}

/// The next item. A test that waits this long for one has failed.
pub(crate) fn next(inbox: &mut Inbox) -> Next {
    inbox.blocking_next_timeout(PATIENCE).expect("in time").expect("it goes on")
}

pub(crate) fn await_members(inbox: &mut Inbox, members: usize) -> View {
    loop {
        match next(inbox) {
            Next::View(view) if view.len() == members => return view,
            _ => {}
        }
    }
}

/// Waits until an event for which `wanted` gives a value, and returns that.
pub(crate) fn await_event<T>(events: &mut Events, mut wanted: impl FnMut(&CellEvent) -> Option<T>) -> T {
    loop {
        let event = events.blocking_next_timeout(PATIENCE).expect("in time").expect("it goes on");
        if let Some(value) = wanted(&event) {
            return value;
        }
    }
}

pub(crate) fn await_notice(events: &mut Events, wanted: &str) -> String {
    await_event(events, |event| match event {
        CellEvent::Notice(text) if text.contains(wanted) => Some(text.clone()),
        _ => None,
    })
}
