//! A replicated ledger: every copy applies the same deposits in the same order, and a new copy begins with the
//! balances of another. Run `ledger alice=5 bob=7` in several terminals, kill any, start more.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use phalanx_runtime::config::Config;
use phalanx_runtime::core::{Delivery, Event, Order, Snapshot, Stability};
use phalanx_runtime::{Cell, Frozen, Item, JoinOptions, Options, State};

#[derive(Clone, Default)]
struct Ledger {
    balances: Arc<Mutex<BTreeMap<String, i64>>>,
    incoming: Vec<u8>,
}

impl Ledger {
    /// Takes "account=amount" in. Deposits add up to the same in any order, so restoring is the same as applying.
    fn deposit(&self, entry: &[u8]) -> Option<()> {
        let (account, amount) = std::str::from_utf8(entry).ok()?.split_once('=')?;
        *self.balances.lock().ok()?.entry(account.to_owned()).or_default() += amount.parse::<i64>().ok()?;
        Some(())
    }
    fn text(&self) -> String {
        self.balances.lock().unwrap().iter().map(|(account, amount)| format!("{account}={amount} ")).collect()
    }
}

impl State for Ledger {
    fn apply(&mut self, message: &Delivery<'_>) {
        self.deposit(message.payload);
    }
    fn snapshot(&mut self) -> Box<dyn Snapshot> {
        Box::new(Frozen::new(self.text().into_bytes()))
    }
    fn clear(&mut self) {
        self.balances.lock().unwrap().clear();
        self.incoming.clear();
    }
    fn restore(&mut self, chunk: &[u8]) {
        self.incoming.extend_from_slice(chunk);
    }
    fn restored(&mut self) {
        let _ = self.incoming.split(|byte| *byte == b' ').filter_map(|entry| self.deposit(entry)).count();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cell = Cell::start(Options::from(Config::load(&[], std::env::vars(), None)?.config))?;
    let ledger = Ledger::default();
    let state = JoinOptions { with_state: true, state: Some(Box::new(ledger.clone())), ..JoinOptions::default() };
    let group = cell.join_group("ledger", state)?;
    std::env::args().skip(1).try_for_each(|entry| group.cast(Order::Total, Stability::GroupDefault, entry.as_bytes()))?;
    loop {
        match cell.recv()? {
            Item::Event(Event::GroupView(view)) => println!("{} members, {}", view.members.len(), ledger.text()),
            Item::Message(_) => println!("{}", ledger.text()),
            _ => {}
        }
    }
}
