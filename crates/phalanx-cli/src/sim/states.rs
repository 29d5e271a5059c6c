//! `phalanx sim --draw states`: a user's state under faults, through `phalanx::simulate` as a user runs it. Each seed
//! draws what the state keeps and what its members send; the seed's faults are those of ordinary seeds without a class.
//!
//! It is here and not in `phalanx-sim`, because what it tests is the crate `phalanx` above the simulator: how a `State`
//! is driven, encoded and compared.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::ops::Range;
use std::time::Instant;

use phalanx::simulate::{Failure, Report, Sender, Simulation};
use phalanx::{DecodeError, Guarantee, MemberId, Message, Order, Snapshot, State, View};
use serde::{Deserialize, Serialize};

use super::each::each;
use super::known::{Codes, Listed};
use crate::exit::Exit;
use crate::notice::{data, say};
use crate::table::Table;

/// What a member sends.
#[derive(Debug, Serialize, Deserialize)]
enum Change {
    /// Moves an amount from one item to another. The order makes no difference.
    Move { from: u64, to: u64, amount: i64 },
    /// What its sender says last. Messages of one sender must stay in order.
    Say(u64),
    /// A step of a chain. All steps must be in one order.
    Step(u64),
    /// A line of the log, in one order.
    Line(Vec<u8>),
}

/// A state with something of each kind.
#[derive(Default, Serialize, Deserialize)]
struct Kept {
    /// Bound on the lines of the log. It decides how long a snapshot is.
    lines_max: u64,
    items: BTreeMap<u64, i64>,
    said: BTreeMap<MemberId, u64>,
    chain: u64,
    log: Vec<Vec<u8>>,
    applied: u64,
}

impl Kept {
    fn is_sound(&self) -> bool {
        self.items.values().sum::<i64>() == 0 && self.log.len() as u64 <= self.lines_max
    }
}

impl State for Kept {
    fn apply(&mut self, message: &Message) {
        self.applied += 1;
        match message.decode().expect("members send nothing else") {
            Change::Move { from, to, amount } => {
                *self.items.entry(from).or_default() -= amount;
                *self.items.entry(to).or_default() += amount;
            }
            Change::Say(what) => {
                self.said.insert(message.sender, what);
            }
            Change::Step(step) => self.chain = self.chain.rotate_left(7).wrapping_mul(31) ^ step,
            Change::Line(line) => {
                self.log.push(line);
                let too_many = (self.log.len() as u64).saturating_sub(self.lines_max);
                self.log.drain(..usize::try_from(too_many).unwrap_or(0));
            }
        }
    }

    fn view(&mut self, view: &View) {
        let members: Vec<MemberId> = view.ids().collect();
        self.said.retain(|member, _| members.contains(member));
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(self)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode()
    }
}

/// What a seed draws: of a hundred messages so many of each kind, and how long its lines are.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    lines_max: u64,
    line_bytes: u64,
    weights: [u64; 4],
    at_once: u64,
}

impl Drawn {
    /// A generator of its own: that of the simulator is not to be had from here, and need not be.
    fn of(seed: u64) -> Self {
        let mut mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x0057_4174_6573;
        let mut below = |bound: u64| {
            mixed ^= mixed >> 29;
            mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed ^= mixed >> 32;
            mixed % bound
        };
        let weights = [below(4), below(4), below(4), 1 + below(3)];
        let at_once = 1 + below(3);
        Self {
            lines_max: [4, 16, 64][below(3) as usize],
            line_bytes: [20, 200, 4_000][below(3) as usize],
            weights,
            at_once,
        }
    }

    /// Sends what one member sends at one time.
    fn work(self, sender: &mut Sender<'_, Kept>) {
        for _ in 0..self.at_once {
            let mut drawn = sender.below(self.weights.iter().sum());
            let mut is = |weight: u64| {
                let is = drawn < weight;
                drawn = drawn.wrapping_sub(weight);
                is
            };
            if is(self.weights[0]) {
                let amount = i64::try_from(sender.below(100)).unwrap_or(0);
                let change = Change::Move { from: sender.below(40), to: sender.below(40), amount };
                send(sender, [Order::Fifo, Order::Causal, Order::Total], &change);
            } else if is(self.weights[1]) {
                let change = Change::Say(sender.below(1 << 40));
                send(sender, [Order::Fifo, Order::Fifo, Order::Fifo], &change);
            } else if is(self.weights[2]) {
                let change = Change::Step(sender.below(1 << 40));
                send(sender, [Order::Total; 3], &change);
            } else {
                let len = 1 + sender.below(self.line_bytes);
                let byte = sender.below(256) as u8;
                send(sender, [Order::Total; 3], &Change::Line(vec![byte; len as usize]));
            }
        }
    }
}

fn send(sender: &mut Sender<'_, Kept>, orders: [Order; 3], change: &Change) {
    let order = orders[sender.below(3) as usize];
    let guarantee = [Guarantee::GroupDefault, Guarantee::Plain, Guarantee::Uniform][sender.below(3) as usize];
    sender.send_as(order, guarantee, postcard::to_allocvec(change).expect("a change is plain data"));
}

/// What is counted, and the least of it.
type Floor = (&'static str, fn(&Report) -> u64, u64);

/// What the campaign must have met, in 100 seeds.
const FLOORS: [Floor; 5] = [
    ("messages applied", |report| report.applied, 1_000_000),
    ("states transferred", |report| report.transfers, 450),
    ("views of groups", |report| report.views, 900),
    ("members that were excluded", |report| report.exclusions, 20),
    ("crashes", |report| report.crashes, 50),
];
/// Number of seeds below which no floor is asked for.
const FLOOR_SEEDS: u64 = 100;

/// Runs one seed.
pub(super) fn run_one(seed: u64, members: usize) -> Result<Report, Box<Failure>> {
    let drawn = Drawn::of(seed);
    Simulation::of(move || Kept { lines_max: drawn.lines_max, ..Kept::default() })
        .seeds(seed..seed + 1)
        .members(members)
        .invariant(|kept| assert!(kept.is_sound(), "{} lines, {:?}", kept.log.len(), kept.items))
        .run(move |sender| drawn.work(sender))
}

/// The property that a seed broke.
pub(super) fn codes(outcome: &Result<Report, Box<Failure>>) -> Codes {
    outcome.as_ref().err().map(|failure| failure.property.clone()).into_iter().collect()
}

/// Runs these seeds, and prints the story of the first one that failed and is not listed as known.
pub(super) fn run(seeds: &Range<u64>, members: usize, listed: &mut Listed, all_tested: bool, threads: usize) -> Exit {
    let (began, shown) = (Instant::now(), std::io::stderr().is_terminal());
    let (mut done, mut failed, mut met) = (0_u64, 0_u64, [0_u64; FLOORS.len()]);
    let mut unexpected: BTreeMap<u64, Box<Failure>> = BTreeMap::new();
    each(
        seeds.clone(),
        threads,
        |seed| (seed, run_one(seed, members)),
        |(seed, outcome)| {
            let codes = codes(&outcome);
            let standing = listed.standing(seed, None, &codes);
            listed.count(seed, None, &codes);
            (done, failed) = (done + 1, failed + u64::from(!codes.is_empty()));
            if !standing.is_expected() {
                say(format_args!("seed {seed}: {}", standing.explain(&codes)));
            }
            match outcome {
                Ok(report) => met.iter_mut().zip(FLOORS).for_each(|(met, (_, count, _))| *met += count(&report)),
                Err(failure) if !standing.is_expected() => drop(unexpected.insert(seed, failure)),
                Err(_) => {}
            }
            if shown {
                // A closed standard error is no reason to stop.
                let _ = write!(std::io::stderr(), "\r{done} of {} seeds, {failed} failed ", seeds.end - seeds.start);
            }
        },
    );
    if let Some((_, failure)) = unexpected.first_key_value() {
        data(format!("{failure:?}"));
    }
    let mut missed = false;
    let mut table = Table::new(&["", "total", "at least", ""]).numbers_from(1);
    for ((name, _, least), met) in FLOORS.into_iter().zip(met) {
        let floor = if done >= FLOOR_SEEDS { least * done / FLOOR_SEEDS } else { 0 };
        missed |= met < floor;
        let verdict = if met < floor { "too few" } else { "" };
        table.row([name.to_owned(), met.to_string(), floor.to_string(), verdict.to_owned()]);
    }
    data(format!("{table}\n{done} seeds of states, {failed} failed, in {:.1} s", began.elapsed().as_secs_f64()));
    let mut as_known = unexpected.is_empty();
    for (text, held) in listed.kinds_met() {
        say(text);
        as_known &= held;
    }
    if as_known && !(all_tested && missed) { Exit::Good } else { Exit::Failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_draw_all_kinds_of_states_and_one_runs() {
        let drawn: Vec<Drawn> = (0..200).map(Drawn::of).collect();
        assert!(drawn.iter().any(|drawn| drawn.lines_max == 64 && drawn.line_bytes == 4_000));
        for kind in 0..4 {
            assert!(drawn.iter().any(|drawn| drawn.weights[kind] == 3), "kind {kind}");
        }
        let report = run_one(3, 3).expect("it holds");
        assert!(report.applied > 100, "{report:?}");
    }
}
