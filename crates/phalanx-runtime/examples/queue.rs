//! Three members with a thread each. The application calls from its own threads and takes items from queues.
//!
//! Each member adds to a shared account. A fourth that joins later takes the account's state and has the same sum. Run
//! it with `cargo run --example queue`.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use phalanx_runtime::config::Config;
use phalanx_runtime::core::{Delivery, Event, Order, Snapshot, Stability};
use phalanx_runtime::{Cell, Frozen, Group, Item, JoinOptions, Options, State};

/// The account: a sum that messages add to.
struct Account {
    sum: Arc<AtomicU64>,
    incoming: Vec<u8>,
}

impl State for Account {
    fn apply(&mut self, message: &Delivery<'_>) {
        if let Ok(amount) = message.payload.try_into() {
            self.sum.fetch_add(u64::from_le_bytes(amount), Ordering::SeqCst);
        }
    }

    fn snapshot(&mut self) -> Box<dyn Snapshot> {
        Box::new(Frozen::new(self.sum.load(Ordering::SeqCst).to_le_bytes().to_vec()))
    }

    fn clear(&mut self) {
        self.incoming.clear();
    }

    fn restore(&mut self, chunk: &[u8]) {
        self.incoming.extend_from_slice(chunk);
        if let Ok(sum) = self.incoming.as_slice().try_into() {
            self.sum.store(u64::from_le_bytes(sum), Ordering::SeqCst);
        }
    }
}

struct Member {
    cell: Cell,
    account: Group,
    sum: Arc<AtomicU64>,
}

impl Member {
    fn start(name: &str, directory: &std::path::Path) -> Result<Self, Box<dyn Error>> {
        let (runtime_dir, state_dir) = (Some(directory.join("run")), Some(directory.join("state")));
        let config = Config { name: Some(name.to_owned()), runtime_dir, state_dir, ..Config::default() };
        let cell = Cell::start(Options::from(config))?;
        let sum = Arc::new(AtomicU64::new(0));
        let state = Account { sum: Arc::clone(&sum), incoming: Vec::new() };
        let account = cell.join_group(
            "account",
            JoinOptions { with_state: true, state: Some(Box::new(state)), ..JoinOptions::default() },
        )?;
        Ok(Self { cell, account, sum })
    }

    /// Takes items until a view of the group has that many members.
    fn await_members(&self, count: usize) -> Result<(), Box<dyn Error>> {
        loop {
            if let Item::Event(Event::GroupView(view)) = self.cell.recv()?
                && view.members.len() >= count
            {
                return Ok(());
            }
        }
    }

    /// Takes items until that many messages have arrived.
    fn await_messages(&self, mut count: usize) -> Result<(), Box<dyn Error>> {
        while count > 0 {
            if let Item::Message(_) = self.cell.recv()? {
                count -= 1;
            }
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let start = |name| Member::start(name, directory.path());
    let members = [start("ann")?, start("bob")?, start("cid")?];
    for member in &members {
        member.await_members(3)?;
    }

    for member in &members {
        for amount in 1..=100_u64 {
            member.account.cast(Order::Total, Stability::GroupDefault, &amount.to_le_bytes())?;
        }
    }
    for member in &members {
        member.await_messages(300)?;
        assert_eq!(member.sum.load(Ordering::SeqCst), 3 * 5_050, "every amount once");
    }

    let late = start("dot")?;
    late.await_members(4)?;
    assert_eq!(late.sum.load(Ordering::SeqCst), 3 * 5_050, "the state came before the first view");

    late.cell.leave(Duration::from_secs(10))?;
    for member in members {
        member.cell.leave(Duration::from_secs(10))?;
    }
    eprintln!("all four hold {}", 3 * 5_050);
    Ok(())
}
