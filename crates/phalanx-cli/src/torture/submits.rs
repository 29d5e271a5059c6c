//! What a torture member submits: beside its `Inline` process it runs one with a thread, in a second cell, whose group has a state that
//! executes messages.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use phalanx::{Cell, DecodeError, Execute, Message, Replica, Snapshot, State, SubmitError, Submitting};
use phalanx_runtime::config::Config;
use phalanx_runtime::core::rng::Rng;
use serde::{Deserialize, Serialize};

use super::network::{CONTROL_PORT, SECOND_CONTROL_PORT, SECOND_DATA_PORT};
use super::told::Told;
use crate::exit::{Failure, While};
use crate::flags::CellFlags;
use crate::member::not_started;

/// The second cell.
pub(super) const SECOND_CELL: &str = "torture-2";
/// Its group.
const GROUP: &str = "ledger";

/// The process in the second cell.
pub(super) struct Submits {
    cell: Cell,
    /// Results that were told so far.
    told: Told<u64>,
    /// The incarnation that was told last.
    incarnation: u64,
}

impl Submits {
    /// Starts it. `config`: of the member's process in the first cell. `trace`: the directory of the second cell's traces.
    pub(super) fn start(flags: &CellFlags, config: &Config, trace: &str, seed: u64) -> Result<Self, Failure> {
        let seeds: Vec<String> = config.seeds.iter().map(|seed| second_seed(seed)).collect();
        let builder = flags.builder(config)?.set("cell", SECOND_CELL).set("trace", trace);
        let builder = builder.set("seeds", seeds.join(",")).set("control_port", SECOND_CONTROL_PORT.to_string());
        let cell = builder.set("data_port", SECOND_DATA_PORT.to_string()).blocking_start().map_err(not_started)?;
        let told = Told::default();
        let desk = Desk::new(seed, told.clone());
        let (thread, joining) = (std::thread::Builder::new().name("submits".to_owned()), cell.clone());
        thread.spawn(move || serve(&joining, desk)).when("cannot start a thread")?;
        Ok(Self { cell, told, incarnation: 0 })
    }

    /// The incarnation, if another one began since the last call.
    pub(super) fn new_incarnation(&mut self) -> Option<u64> {
        let now = self.cell.me().id.bits();
        (std::mem::replace(&mut self.incarnation, now) != now).then_some(now)
    }

    pub(super) fn is_trace_lost(&self) -> bool {
        self.cell.is_trace_lost()
    }

    /// Number of results told so far.
    pub(super) fn results(&self) -> u64 {
        self.told.counted()
    }

    /// Returns the errors found since the last call.
    pub(super) fn wrongs(&self) -> Vec<String> {
        self.told.wrongs()
    }
}

/// The address in the second cell of a process with that one in the first.
fn second_seed(seed: &str) -> String {
    seed.replace(&format!(":{CONTROL_PORT}"), &format!(":{SECOND_CONTROL_PORT}"))
}

/// Joins the group, and submits a few messages now and then, forever.
fn serve(cell: &Cell, mut desk: Desk) {
    let joined = cell.group(GROUP).state(&desk.ledger).submits(&desk.ledger).blocking_join();
    let _group = match joined {
        // What is submitted enters no inbox.
        Ok((group, inbox)) => (group, drop(inbox)),
        Err(error) => return desk.wrong(format!("cannot join {GROUP}: {error}")),
    };
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut due = Instant::now();
    loop {
        let now = Instant::now();
        if now >= due {
            due = now + SUBMIT_EVERY / 2 + SUBMIT_EVERY * desk.below(100) / 100;
            if desk.below(ABANDON_ONE_IN) == 0 {
                desk.abandon();
            }
            for _ in 0..=desk.below(AT_ONCE) {
                desk.submit();
            }
        }
        desk.poll(&mut Context::from_waker(&waker));
        std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Who submits.
struct Desk {
    rng: Rng,
    /// This process among those that submitted to the ledger.
    me: u64,
    told: Told<u64>,
    ledger: Replica<Ledger>,
    made: u64,
    /// Submits that wait for an outcome, by number.
    open: BTreeMap<u64, Pin<Box<Submitting<Entry>>>>,
    /// Places that were told.
    places: BTreeSet<u64>,
    /// Submits that were told not to be executed.
    not_executed: BTreeSet<u64>,
    /// The state was found to be wrong.
    is_broken: bool,
}

impl Desk {
    fn new(seed: u64, told: Told<u64>) -> Self {
        let mut rng = Rng::new(seed).fork("submits");
        let (me, ledger) = (rng.next_u64(), Replica::new(Ledger::default()));
        let (open, places, not_executed) = Default::default();
        Self { rng, me, told, ledger, made: 0, open, places, not_executed, is_broken: false }
    }

    fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.rng.below(u64::from(bound))).unwrap_or(0)
    }

    fn wrong(&self, what: String) {
        self.told.wrong(what);
    }

    /// Submits a message, unless as many are under way as may be.
    fn submit(&mut self) {
        if self.open.len() >= OPEN_MAX {
            return;
        }
        self.made += 1;
        let len = if self.below(LONG_ONE_IN) == 0 { self.below(LONG_BYTES_MAX) } else { self.below(180) };
        let is_too_long = self.below(TOO_LONG_ONE_IN) == 0;
        let padding = (0..len / 8).map(|_| self.rng.next_u64()).collect();
        let order = Order { who: self.me, number: self.made, is_too_long, padding };
        self.open.insert(self.made, Box::pin(self.ledger.submit_value(&order).into_future()));
    }

    /// Waits for one of them no more.
    fn abandon(&mut self) {
        let spot = self.below(u32::try_from(self.open.len()).unwrap_or(u32::MAX).max(1)) as usize;
        if let Some(number) = self.open.keys().nth(spot).copied() {
            self.open.remove(&number);
        }
    }

    /// Polls the submits under way, and takes their outcomes.
    fn poll(&mut self, context: &mut Context<'_>) {
        let mut ended = Vec::new();
        self.open.retain(|number, submitting| match submitting.as_mut().poll(context) {
            Poll::Ready(outcome) => {
                ended.push((*number, outcome));
                false
            }
            Poll::Pending => true,
        });
        let is_news = !ended.is_empty();
        for (number, outcome) in ended {
            if let Err(what) = self.take(number, outcome) {
                self.wrong(what);
            }
        }
        if is_news && let Err(what) = self.look() {
            self.wrong(what);
        }
    }

    /// Takes the outcome of a submit.
    ///
    /// # Errors
    /// It is not that of the submit, or the state does not say the same.
    fn take(&mut self, number: u64, outcome: Result<Entry, SubmitError>) -> Result<(), String> {
        let executed = self.ledger.read().place(self.me, number);
        match outcome {
            Ok(entry) => {
                self.told.count(|results| *results += 1);
                if (entry.who, entry.number) != (self.me, number) {
                    return Err(format!("submit {number} was told the result of submit {}", entry.number));
                }
                if executed != Some(entry.place) {
                    return Err(format!("submit {number} was told place {}, and has {executed:?}", entry.place));
                }
                if !self.places.insert(entry.place) {
                    return Err(format!("place {} was told twice", entry.place));
                }
            }
            Err(SubmitError::ResultTooLong) if executed.is_none() => {
                return Err(format!("submit {number} was told to be executed, and was not"));
            }
            Err(SubmitError::ResultTooLong) => {}
            // Once or never.
            Err(SubmitError::Unknown) => {}
            Err(SubmitError::Refused(_) | SubmitError::TooManyClients | SubmitError::TooManyResults) => {
                self.not_executed.insert(number);
            }
            Err(other) => return Err(format!("submit {number} ended: {other}")),
        }
        Ok(())
    }

    /// Looks at what the state executed.
    ///
    /// # Errors
    /// Something that it should not have. Told once.
    fn look(&mut self) -> Result<(), String> {
        let ledger = self.ledger.read();
        let here = self.not_executed.iter().copied().find(|number| ledger.place(self.me, *number).is_some());
        let twice = ledger.twice;
        drop(ledger);
        if self.is_broken || (here.is_none() && twice == 0) {
            return Ok(());
        }
        self.is_broken = true;
        Err(match here {
            Some(number) => format!("submit {number} was told not to be executed, and was"),
            None => format!("{twice} submits were executed twice"),
        })
    }
}

/// What is submitted.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    who: u64,
    number: u64,
    /// Its result is longer than the group keeps.
    is_too_long: bool,
    padding: Vec<u64>,
}

/// What it results in.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    who: u64,
    number: u64,
    /// Its place among all that was executed, from 1.
    place: u64,
    padding: Vec<u8>,
}

/// The state: the places of all that was executed.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Ledger {
    places: u64,
    executed: BTreeMap<u64, BTreeMap<u64, u64>>,
    /// How many were executed again.
    twice: u64,
}

impl Ledger {
    fn place(&self, who: u64, number: u64) -> Option<u64> {
        self.executed.get(&who)?.get(&number).copied()
    }
}

impl State for Ledger {
    fn apply(&mut self, _message: &Message) {}

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(self)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode()
    }
}

impl Execute for Ledger {
    type Output = Entry;

    fn execute(&mut self, message: &Message) -> Entry {
        // All members are of one build, so what cannot be read is damaged: its result is that of nobody.
        let order = message.decode().unwrap_or(Order { who: 0, number: 0, is_too_long: false, padding: Vec::new() });
        self.places += 1;
        let place = self.places;
        let before = self.executed.entry(order.who).or_default().insert(order.number, place);
        self.twice += u64::from(before.is_some());
        let padding = vec![0; if order.is_too_long { TOO_LONG_BYTES } else { 0 }];
        Entry { who: order.who, number: order.number, place, padding }
    }
}

/// Mean time between two bursts of submits of a member, and the most of one: a fault meets several that are under way.
const SUBMIT_EVERY: Duration = Duration::from_millis(200);
const AT_ONCE: u32 = 4;
/// Submits of a member under way at once.
const OPEN_MAX: usize = 32;
/// Before one burst in this many an earlier submit is abandoned.
const ABANDON_ONE_IN: u32 = 12;
const LONG_ONE_IN: u32 = 25;
/// Length that takes several packets.
const LONG_BYTES_MAX: u32 = 12_000;
/// One result in this many is longer than the group keeps.
const TOO_LONG_ONE_IN: u32 = 40;
const TOO_LONG_BYTES: usize = 300 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn desk() -> Desk {
        Desk::new(7, Told::default())
    }

    fn entry(desk: &Desk, number: u64, place: u64) -> Result<Entry, SubmitError> {
        Ok(Entry { who: desk.me, number, place, padding: Vec::new() })
    }

    /// A desk with a group of its own.
    fn started(directory: &std::path::Path) -> (Cell, Desk, phalanx::Group) {
        let builder = Cell::builder("test").directories(directory.join("run"), directory.join("state"));
        let (cell, desk) = (builder.blocking_start().expect("starts"), desk());
        let (group, _inbox) =
            cell.group(GROUP).state(&desk.ledger).submits(&desk.ledger).blocking_join().expect("joins");
        (cell, desk, group)
    }

    #[test]
    fn each_submit_is_told_an_outcome_that_the_state_confirms() {
        let directory = tempfile::tempdir().expect("a directory");
        let (_cell, mut desk, _group) = started(directory.path());
        let ends = Instant::now() + Duration::from_secs(60);
        while desk.made < 200 || !desk.open.is_empty() {
            assert!(Instant::now() < ends, "{} are open", desk.open.len());
            if desk.made < 200 {
                desk.submit();
            }
            desk.poll(&mut Context::from_waker(Waker::noop()));
            std::thread::sleep(Duration::from_millis(1));
        }
        let (results, wrongs) = (desk.told.counted(), desk.told.wrongs());
        assert_eq!((wrongs, desk.ledger.read().places), (Vec::<String>::new(), 200));
        assert!((150..200).contains(&results), "{results} results are kept");
        // It is executed, or is not, and nothing waits for it.
        desk.submit();
        desk.poll(&mut Context::from_waker(Waker::noop()));
        desk.abandon();
        assert!(desk.open.is_empty());
    }

    #[test]
    fn a_wrong_outcome_is_seen() {
        let directory = tempfile::tempdir().expect("a directory");
        let (_cell, mut desk, _group) = started(directory.path());
        for number in 1..=3 {
            let order = Order { who: desk.me, number, is_too_long: false, padding: Vec::new() };
            let told = desk.ledger.submit_value(&order).blocking().expect("a result");
            assert_eq!(told.place, number);
        }
        let mut of = |number, outcome| desk.take(number, outcome).err().unwrap_or_default();
        assert_eq!(of(1, Err(SubmitError::Unknown)), "");
        let first = Entry { who: 0, number: 1, place: 1, padding: Vec::new() };
        assert_eq!(of(1, Ok(first)), "submit 1 was told the result of submit 1");
        assert!(of(9, Err(SubmitError::ResultTooLong)).contains("was not"));
        assert!(of(9, Err(SubmitError::BadName)).contains("ended"));
        let (right, other, again) = (entry(&desk, 2, 2), entry(&desk, 2, 1), entry(&desk, 2, 2));
        let mut of = |number, outcome| desk.take(number, outcome).err().unwrap_or_default();
        assert_eq!(of(2, right), "");
        assert_eq!(of(2, other), "submit 2 was told place 1, and has Some(2)");
        assert_eq!(of(2, again), "place 2 was told twice");
        assert_eq!(desk.look(), Ok(()));
        assert_eq!(desk.take(3, Err(SubmitError::TooManyClients)), Ok(()));
        assert!(desk.look().is_err_and(|what| what.contains("told not to be")));
        assert_eq!(desk.look(), Ok(()), "it is told once");
    }

    #[test]
    fn the_second_cell_has_ports_of_its_own() {
        assert_eq!(second_seed("10.77.0.3:7401"), format!("10.77.0.3:{SECOND_CONTROL_PORT}"));
    }
}
