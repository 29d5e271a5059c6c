//! How long a submit takes, beside a multicast until it is delivered here: `cargo run --release -p phalanx --example results`.
//! Two members in one process, each with a thread of its own, take turns of 200 of each kind.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::time::{Duration, Instant};

use phalanx::{Cell, DecodeError, Execute, Message, Replica, Snapshot, State};

#[derive(Default)]
struct Count(u64);

impl State for Count {
    fn apply(&mut self, _message: &Message) {
        self.0 += 1;
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.0)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode().map(Self)
    }
}

impl Execute for Count {
    type Output = u64;

    fn execute(&mut self, _message: &Message) -> u64 {
        self.0 += 1;
        self.0
    }
}

const ROUNDS: usize = 25;
const EACH: usize = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("phalanx-results-{}", std::process::id()));
    let mut members = Vec::new();
    for name in ["ann", "bob"] {
        let builder = Cell::builder("results").name(name);
        let cell = builder.directories(directory.join("run"), directory.join("state")).blocking_start()?;
        let count = Replica::new(Count::default());
        let (group, inbox) = cell.group("count").state(&count).submits(&count).blocking_join()?;
        drop(inbox);
        members.push((cell, group, count));
    }
    let (_, group, count) = &members[1];
    count.submit("the first opens a client").blocking()?;
    let (mut sent, mut submitted) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for _ in 0..EACH {
            let begun = Instant::now();
            group.send("m").uniform().blocking()?.blocking_delivered()?;
            sent.push(begun.elapsed());
        }
        for _ in 0..EACH {
            let begun = Instant::now();
            count.submit("m").blocking()?;
            submitted.push(begun.elapsed());
        }
    }
    let [sent, submitted] = [sent, submitted].map(quantiles);
    println!("a uniform abcast until it is delivered here: p50 {:?}, p99 {:?}", sent.0, sent.1);
    println!("a submit until its result: p50 {:?}, p99 {:?}", submitted.0, submitted.1);
    println!("ratio of the medians: {:.2}", submitted.0.as_secs_f64() / sent.0.as_secs_f64());
    for (cell, ..) in members {
        cell.blocking_leave(Duration::from_secs(20))?;
    }
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

fn quantiles(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}
