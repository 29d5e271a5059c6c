//! A replicated ledger: every copy applies the same deposits in the same order, and a new copy begins with the
//! balances of another. Run `ledger alice=5 bob=7` in several terminals, kill any, start more.
use std::collections::BTreeMap;
use std::time::Duration;

use phalanx::{Cell, DecodeError, Message, Next, Replica, Snapshot, State};
use signal_hook::{consts::TERM_SIGNALS, iterator::Signals};

#[derive(Default)]
struct Ledger(BTreeMap<String, i64>);

impl Ledger {
    /// Takes "account=amount" in.
    fn deposit(&mut self, entry: &str) -> Option<()> {
        let (account, amount) = entry.split_once('=')?;
        *self.0.entry(account.to_owned()).or_default() += amount.parse::<i64>().ok()?;
        Some(())
    }
    fn text(&self) -> String {
        self.0.iter().map(|(account, amount)| format!("{account}={amount} ")).collect()
    }
}

impl State for Ledger {
    fn apply(&mut self, message: &Message) {
        let _ = std::str::from_utf8(&message.payload).ok().and_then(|entry| self.deposit(entry));
    }
    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.0)
    }
    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode().map(Self)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cell = Cell::builder("ledger").environment().blocking_start()?;
    let (leaving, mut signals) = (cell.clone(), Signals::new(TERM_SIGNALS)?);
    std::thread::spawn(move || signals.forever().next().map(|_| leaving.blocking_leave(Duration::from_secs(20))));
    let ledger = Replica::new(Ledger::default());
    let (group, mut inbox) = cell.group("ledger").state(&ledger).blocking_join()?;
    std::env::args().skip(1).try_for_each(|entry| group.send(entry).blocking_post())?;
    while let Some(next) = inbox.blocking_next() {
        match next {
            Next::View(view) => println!("{} members, {}", view.len(), ledger.read().text()),
            Next::Message(_) => println!("{}", ledger.read().text()),
            _ => {}
        }
    }
    Ok(()) // it left: the inbox ends with that
}

#[cfg(test)]
mod tests;
