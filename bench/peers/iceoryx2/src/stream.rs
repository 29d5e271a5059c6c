//! A stream from one member to the others, or from everybody to everybody.
//!
//! The conductor is no member. It says `greet`, `run`, `count` and `stop` to the members, and a member answers `count`
//! with what it has sent and received so far.
//!
//! Every sender greets with one message before the start: a receiver opens the connection when it looks for the first
//! message in it, and until then a publisher that finds the buffer full drops instead of waiting.

use crate::bench::{Outcome, argument, bound, warm_up};
use crate::{Idle, Process, node, publish, publisher, subscriber};
use std::io::BufRead;
use std::process::exit;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long what was sent may take to arrive after the last send.
const DRAIN: Duration = Duration::from_secs(5);

const PREPARE: u8 = 0;
const GREET: u8 = 1;
const RUN: u8 = 2;
const STOP: u8 = 3;

/// A counter with one writer, on cache lines of its own.
#[repr(align(128))]
struct Counter(AtomicU64);

impl Counter {
    fn increment(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

static SENT: Counter = Counter(AtomicU64::new(0));
static RECEIVED: Counter = Counter(AtomicU64::new(0));
static PHASE: AtomicU8 = AtomicU8::new(PREPARE);
static READY: AtomicUsize = AtomicUsize::new(0);

// --- a member ---

fn wait_for(phase: u8) {
    while PHASE.load(Ordering::Relaxed) < phase {
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn send_all(members: usize) -> Outcome {
    let size: usize = argument(3)?;
    let node = node()?;
    let publisher = publisher(&node, "stream", members, size)?;
    let payload = vec![0; size];
    READY.fetch_add(1, Ordering::Relaxed);
    wait_for(GREET);
    publish(&publisher, &payload)?;
    SENT.increment();
    wait_for(RUN);
    while PHASE.load(Ordering::Relaxed) == RUN {
        publish(&publisher, &payload)?;
        SENT.increment();
    }
    // What it has published lives as long as the publisher.
    loop {
        std::thread::park();
    }
}

fn receive_all(members: usize) -> Outcome {
    let node = node()?;
    let subscriber = subscriber(&node, "stream", members)?;
    READY.fetch_add(1, Ordering::Relaxed);
    let threads = if argument::<String>(6)? == "all" { 2 * members } else { members };
    let mut idle = Idle::new(threads > std::thread::available_parallelism()?.get());
    loop {
        if subscriber.receive()?.is_some() {
            RECEIVED.increment();
            continue;
        }
        idle.wait();
    }
}

fn start(part: fn(usize) -> Outcome, members: usize) {
    std::thread::spawn(move || {
        if let Err(error) = part(members) {
            eprintln!("bench: {error}");
            exit(1);
        }
    });
}

/// The part of a member: the one with index 0 sends, the others receive; if all send, each does both.
pub fn take_part(index: usize) -> Outcome {
    let members = argument::<usize>(5)? + 1;
    let all = argument::<String>(6)? == "all";
    let mut parts = 0;
    if all || index == 0 {
        start(send_all, members);
        parts += 1;
    }
    if all || index > 0 {
        start(receive_all, members);
        parts += 1;
    }
    while READY.load(Ordering::Relaxed) < parts {
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        match line?.as_str() {
            "greet" => PHASE.store(GREET, Ordering::Relaxed),
            "run" => PHASE.store(RUN, Ordering::Relaxed),
            "stop" => PHASE.store(STOP, Ordering::Relaxed),
            _ => println!("{} {}", SENT.0.load(Ordering::Relaxed), RECEIVED.0.load(Ordering::Relaxed)),
        }
    }
    // The conductor has ended.
    exit(0);
}

// --- the conductor ---

/// What a member has counted, and when it said so.
struct Count {
    sent: u64,
    received: u64,
    at: Instant,
}

fn count(members: &mut [Process]) -> Outcome<Vec<Count>> {
    for member in members.iter_mut() {
        member.say("count")?;
    }
    let mut counts = Vec::new();
    for member in members {
        let line = member.hear()?;
        let at = Instant::now();
        let (sent, received) = line.trim().split_once(' ').ok_or("a count of two numbers")?;
        counts.push(Count { sent: sent.parse()?, received: received.parse()?, at });
    }
    Ok(counts)
}

fn say_all(members: &mut [Process], line: &str) -> Outcome {
    members.iter_mut().try_for_each(|member| member.say(line))
}

/// How many messages have been sent, and how many of them have not arrived at some receiver yet.
fn sent_and_missing(members: &mut [Process], first: usize) -> Outcome<(u64, u64)> {
    let counts = count(members)?;
    let sent: u64 = counts.iter().map(|count| count.sent).sum();
    Ok((sent, counts[first..].iter().map(|count| sent.saturating_sub(count.received)).sum()))
}

/// How many messages did not arrive somewhere, once nothing moves any more.
fn drain(members: &mut [Process], first: usize) -> Outcome<u64> {
    let end = Instant::now() + DRAIN;
    let mut settled = 0;
    let mut sent_before = 0;
    loop {
        let (sent, missing) = sent_and_missing(members, first)?;
        settled = if missing == 0 && sent == sent_before { settled + 1 } else { 0 };
        sent_before = sent;
        if settled == 10 || Instant::now() > end {
            return Ok(missing);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn conduct() -> Outcome {
    let size: usize = argument(3)?;
    let seconds: f64 = argument(4)?;
    let receivers: usize = argument(5)?;
    let senders: String = argument(6)?;
    let first = if senders == "all" { 0 } else { 1 };
    bound(seconds);
    let mut members = Vec::new();
    for index in 0..=receivers {
        members.push(Process::start("member", index, None)?);
    }
    for member in &mut members {
        member.hear()?;
    }

    say_all(&mut members, "greet")?;
    let greetings = if first == 0 { members.len() as u64 } else { 1 };
    while sent_and_missing(&mut members, first)? != (greetings, 0) {
        std::thread::sleep(Duration::from_millis(5));
    }
    say_all(&mut members, "run")?;
    std::thread::sleep(warm_up(seconds));
    let before = count(&mut members)?;
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let after = count(&mut members)?;
    say_all(&mut members, "stop")?;
    let lost = drain(&mut members, first)?;

    let rate = |index: usize, of: fn(&Count) -> u64| {
        (of(&after[index]) - of(&before[index])) as f64 / (after[index].at - before[index].at).as_secs_f64()
    };
    let received: Vec<f64> = (first..=receivers).map(|index| rate(index, |count| count.received)).collect();
    let sent: f64 = (0..=receivers).map(|index| rate(index, |count| count.sent)).sum();
    let mean = received.iter().sum::<f64>() / received.len() as f64;
    if mean <= 0.0 {
        return Err("nothing was delivered in the window".into());
    }
    let each: Vec<String> = received.iter().map(|rate| format!("{rate:.1}")).collect();
    println!(
        "\"size\":{size},\"receivers\":{receivers},\"senders\":\"{senders}\",\"msgs_per_s\":{mean:.1},\
         \"per_receiver\":[{}],\"sent_per_s\":{sent:.1},\"lost\":{lost}",
        each.join(",")
    );
    Ok(())
}
