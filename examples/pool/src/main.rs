//! A pool of workers: `pool` adds the lines of its input as items, and all members of the pool work on them. Start some,
//! and kill any: what was `added` is done. Each item is given to one member at a time, to the leader (rank 0) only while
//! it is alone. `PHALANX_*` variables configure the process: its name, and where it finds the others.
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use phalanx::{Cell, DecodeError, MemberId, Message, Next, Replica, SendError, Snapshot, State, View};
use serde::{Deserialize, Serialize};
use signal_hook::{consts::TERM_SIGNALS, iterator::Signals};

type Item = (MemberId, u64, String); // who submitted it, its number there, and its text

#[derive(Serialize, Deserialize)]
enum Change {
    Add(Item),
    Done(MemberId, Item), // by the worker to which it was given
}

/// Equal at all members, because messages and views alone change it.
#[derive(Default, Serialize, Deserialize)]
struct Pool {
    numbers: BTreeMap<MemberId, u64>, // the last of each submitter
    waiting: VecDeque<Item>,
    members: BTreeMap<MemberId, Option<Item>>, // what each is given
    leader: Option<MemberId>,
}

impl Pool {
    fn give(&mut self) {
        let leader = self.leader.filter(|_| self.members.len() > 1);
        for (_, item) in self.members.iter_mut().filter(|(member, _)| Some(**member) != leader) {
            *item = item.take().or_else(|| self.waiting.pop_front());
        }
    }
}

impl State for Pool {
    fn apply(&mut self, message: &Message) {
        match message.decode() {
            Ok(Change::Add(item)) if self.numbers.get(&item.0) < Some(&item.1) => {
                self.numbers.insert(item.0, item.1);
                self.waiting.push_back(item);
            }
            Ok(Change::Done(worker, _)) if worker == message.sender => drop(self.members.insert(worker, None)),
            _ => {}
        }
        self.give();
    }
    fn view(&mut self, view: &View) {
        let mut before = std::mem::take(&mut self.members);
        self.members = view.ids().map(|id| (id, before.remove(&id).flatten())).collect();
        before.into_values().flatten().for_each(|item| self.waiting.push_front(item));
        self.leader = view.ids().next();
        self.give();
    }
    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(self)
    }
    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cell = Cell::builder("pool").environment().blocking_start()?;
    let (leaving, mut signals) = (cell.clone(), Signals::new(TERM_SIGNALS)?);
    std::thread::spawn(move || signals.forever().next().map(|_| leaving.blocking_leave(Duration::from_secs(20))));
    let pool = Replica::new(Pool::default());
    let (group, mut inbox) = cell.group("pool").state(&pool).blocking_join()?;
    let (me, submitter) = (cell.me().id, group.clone());
    std::thread::spawn(move || {
        for (number, line) in (1..).zip(std::io::stdin().lines().map_while(Result::ok)) {
            let add = Change::Add((me, number, line.clone()));
            loop {
                match submitter.send_value(&add).blocking() {
                    Ok(sent) if sent.blocking_stable().is_ok() => break println!("added {line}"),
                    Ok(_) | Err(SendError::NotSent) => {} // again: under the same number it is added once
                    Err(error) => return println!("not added {line}: {error}"),
                }
            }
        }
    });
    let mut mine = None;
    while let Some(next) = inbox.blocking_next() {
        if let Next::Message(message) = next
            && let Ok(Change::Done(worker, item)) = message.decode()
            && worker == message.sender
        {
            println!("done {}", item.2);
        }
        let me = cell.me().id;
        let given = pool.read().members.get(&me).cloned().flatten().map(|item| (me, item));
        if let Some((me, item)) = given.clone().filter(|_| given != mine) {
            let group = group.clone();
            std::thread::spawn(move || {
                println!("working on {}", item.2);
                std::thread::sleep(Duration::from_millis(50)); // what a real pool would do
                let _ = group.send_value(&Change::Done(me, item)).blocking_post(); // else another worker is given it
            });
        }
        mine = given;
    }
    Ok(()) // it left: the inbox ends with that
}

#[cfg(test)]
mod tests;
