//! States of a user in simulated cells: correct ones pass, and each mistake of a kind is found.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use phalanx::simulate::{Failure, Sender, Simulation};
use phalanx::{DecodeError, Execute, Guarantee, MemberId, Message, Order, Snapshot, State, View};

/// A correct state: amounts by item, what each member of the view added last, and a count.
#[derive(Default)]
struct Stock {
    items: BTreeMap<u64, i64>,
    latest: BTreeMap<MemberId, u64>,
    applied: u64,
}

impl State for Stock {
    fn apply(&mut self, message: &Message) {
        let (item, amount): (u64, i64) = message.decode().expect("the workload sends nothing else");
        *self.items.entry(item).or_default() += amount;
        self.latest.insert(message.sender, item);
        self.applied += 1;
    }

    fn view(&mut self, view: &View) {
        let members: Vec<MemberId> = view.ids().collect();
        self.latest.retain(|member, _| members.contains(member));
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&(&self.items, &self.latest, self.applied))
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode().map(|(items, latest, applied)| Self { items, latest, applied })
    }
}

/// Adds to one item what it takes from another.
fn moves<S>(sender: &mut Sender<'_, S>) {
    let (from, to, amount) = (sender.below(50), sender.below(50), i64::try_from(sender.below(10)).unwrap_or(0));
    sender.send_value(&(from, -amount));
    sender.send_value(&(to, amount));
}

fn fails<S: State>(simulation: &Simulation<S>, work: fn(&mut Sender<'_, S>)) -> Box<Failure> {
    simulation.run(work).expect_err("the mistake is found")
}

/// Numbers in their order, which only messages that name it change.
#[derive(Default)]
struct Journal(Vec<u64>);

impl State for Journal {
    fn apply(&mut self, message: &Message) {
        assert!(message.is_to_domain(), "it is a tool's");
        self.0.extend(message.decode::<u64>());
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.0)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode().map(Self)
    }
}

/// Every number that was executed, and how many.
#[derive(Default)]
struct Executed {
    numbers: BTreeSet<u64>,
    count: usize,
}

impl State for Executed {
    fn apply(&mut self, _message: &Message) {}

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&(&self.numbers, self.count))
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode().map(|(numbers, count)| Self { numbers, count })
    }
}

impl Execute for Executed {
    type Output = usize;

    fn execute(&mut self, message: &Message) -> usize {
        self.numbers.extend(message.decode::<u64>());
        self.count += 1;
        self.count
    }
}

/// Processes are excluded, crash, come back and send again what they do not know.
#[test]
fn what_is_submitted_is_executed_once_under_faults() {
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    let report = Simulation::of(Executed::default)
        .seeds(0..12)
        .submits()
        .invariant(move |state| {
            assert_eq!(state.numbers.len(), state.count, "one was executed twice");
            seen.fetch_max(state.count, Ordering::Relaxed);
        })
        .run(|sender| {
            let number = sender.below(u64::MAX);
            sender.submit(postcard::to_allocvec(&number).expect("a number"));
        })
        .expect("every seed holds");
    assert!(report.exclusions > 0 && report.crashes > 0 && report.transfers > 0, "{report:?}");
    let most = most.load(Ordering::Relaxed);
    assert!(most > 50, "{most} in the longest run");
}

#[test]
fn messages_to_domains_pass_by_the_state() {
    let report = Simulation::of(Stock::default)
        .seeds(0..8)
        .domain("tool.journal", Journal::default)
        .run(|sender| {
            let (number, coin) = (sender.below(1_000), sender.below(3));
            match coin {
                // The state could not read it.
                0 => sender.send_to_domain("tool.journal", [u8::try_from(number % 100).unwrap_or(0)]),
                1 => sender.send_to_domain("nothing", [1]),
                _ => moves(sender),
            }
        })
        .expect("every seed holds");
    assert!(report.transfers > 20 && report.sent > 2_000, "{report:?}");
}

#[test]
fn a_correct_state_passes_and_the_seeds_meet_what_they_are_for() {
    let report = Simulation::of(Stock::default)
        .seeds(0..40)
        .invariant(|stock| assert!(stock.latest.len() <= 5))
        .run(moves)
        .expect("every seed holds");
    assert_eq!(report.seeds, 40);
    assert!(report.simulated.as_secs() > 40 * 20, "{report:?}");
    assert!(report.applied > 3 * report.sent && report.sent > 20_000, "{report:?}");
    assert!(report.transfers >= 200 && report.exclusions >= 20 && report.crashes >= 20, "{report:?}");
    assert!(report.views >= 400 && report.faults.len() >= 10, "{report:?}");
}

#[test]
fn a_seed_gives_the_same_run_again() {
    let run = |seeds| Simulation::of(Stock::default).seeds(seeds).run(moves).expect("every seed holds");
    let first = run(0..2);
    assert_eq!(run(0..2), first);
    assert_ne!(run(1..3).digest, first.digest);
}

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// Counts its calls outside of itself.
#[derive(Default)]
struct CountsOutside(u64);

impl State for CountsOutside {
    fn apply(&mut self, _message: &Message) {
        CALLS.set(CALLS.get() + 1);
        self.0 += CALLS.get() % 3;
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.0)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode().map(Self)
    }
}

/// Prefers the item that an unordered map names first.
#[derive(Default)]
struct Unordered {
    items: HashMap<u64, i64>,
    first: u64,
}

impl State for Unordered {
    fn apply(&mut self, message: &Message) {
        let (item, amount): (u64, i64) = message.decode().expect("the workload sends nothing else");
        *self.items.entry(item).or_default() += amount;
        self.first = self.items.keys().next().copied().unwrap_or(0);
    }

    fn snapshot(&self) -> Snapshot {
        let sorted: BTreeMap<_, _> = self.items.iter().collect();
        Snapshot::encode(&(sorted, self.first))
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        let (items, first): (BTreeMap<_, _>, _) = snapshot.decode()?;
        Ok(Self { items: items.into_iter().collect(), first })
    }
}

#[test]
fn a_state_that_does_not_follow_from_its_messages_is_found() {
    let failure = fails(&Simulation::of(CountsOutside::default), |sender| sender.send(b"one more"));
    assert!(["X1", "X4"].contains(&failure.property.as_str()), "{failure}");
    let failure = fails(&Simulation::of(Unordered::default), moves);
    assert!(["X1", "X4"].contains(&failure.property.as_str()), "{failure}");
    assert!(failure.to_string().contains("different states"), "{failure}");
}

/// The last value of each item: in another order than the total one members see different last ones.
#[derive(Default)]
struct LastOf(BTreeMap<u64, i64>);

impl State for LastOf {
    fn apply(&mut self, message: &Message) {
        let (item, amount) = message.decode().expect("the workload sends nothing else");
        self.0.insert(item, amount);
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.0)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode().map(Self)
    }
}

#[test]
fn an_order_that_is_too_weak_for_the_state_is_found() {
    let send = |sender: &mut Sender<'_, LastOf>, order| {
        let change = [sender.below(3), sender.below(1_000)];
        let payload = Snapshot::encode(&(change[0], i64::try_from(change[1]).unwrap_or(0))).into_bytes();
        sender.send_as(order, Guarantee::GroupDefault, payload);
    };
    let simulation = Simulation::of(LastOf::default);
    let failure = simulation.run(move |sender| send(sender, Order::Causal)).expect_err("the mistake is found");
    assert!(["X1", "X4"].contains(&failure.property.as_str()), "{failure}");
    let seeds = failure.seed..failure.seed + 1;
    simulation.seeds(seeds).run(move |sender| send(sender, Order::Total)).expect("a total order is enough");
}

/// Forgets a field when a member joins.
#[derive(Default)]
struct Forgets(Stock);

impl State for Forgets {
    fn apply(&mut self, message: &Message) {
        self.0.apply(message);
    }

    fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        Stock::restore(snapshot).map(|stock| Self(Stock { applied: 0, ..stock }))
    }
}

#[test]
fn a_snapshot_that_forgets_a_field_is_found() {
    let failure = fails(&Simulation::of(Forgets::default), moves);
    assert!(["X1", "X4"].contains(&failure.property.as_str()), "{failure}");
}

/// Cannot read its own snapshots.
#[derive(Default)]
struct Garbled(u64);

impl State for Garbled {
    fn apply(&mut self, _message: &Message) {
        self.0 += 1;
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.0)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode::<(u64, String)>().map(|(count, _)| Self(count))
    }
}

#[test]
fn a_snapshot_that_makes_no_sense_is_found() {
    let failure = fails(&Simulation::of(Garbled::default), |sender| sender.send(b"one more"));
    assert_eq!(failure.property, "restore", "{failure}");
}

#[test]
fn a_broken_invariant_is_found_and_says_where_and_how_to_repeat_it() {
    let simulation = Simulation::of(Stock::default)
        .members(4)
        .seeds(7..10)
        .invariant(|stock| assert!(stock.applied < 100, "too many: {}", stock.applied));
    let failure = fails(&simulation, moves);
    assert_eq!((failure.property.as_str(), failure.seed), ("invariant", 7), "{failure}");
    assert!(failure.at.as_secs() < 60 && !failure.at.is_zero(), "{failure}");
    assert!(failure.text.contains("too many: 100") && failure.text.contains("simulate.rs"), "{failure}");
    assert!(failure.text.starts_with('p'), "the member is named: {failure}");
    assert!(failure.replay.contains(".members(4).seeds(7..8)"), "{failure}");
    assert!(failure.to_string().contains(&failure.replay), "{failure}");
    assert_eq!(fails(&simulation, moves), failure, "again, with the same text and story");
}

/// Panics at the hundredth message.
#[derive(Default)]
struct Panics(u64);

impl State for Panics {
    fn apply(&mut self, _message: &Message) {
        self.0 += 1;
        assert_ne!(self.0, 100, "no room for more");
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.0)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode().map(Self)
    }
}

#[test]
fn a_panic_in_apply_is_a_failed_seed() {
    let failure = fails(&Simulation::of(Panics::default), |sender| sender.send(b"one more"));
    assert_eq!((failure.property.as_str(), failure.seed), ("panic", 0), "{failure}");
    assert!(failure.text.contains("in `apply`") && failure.text.contains("no room for more"), "{failure}");
}

#[test]
fn a_panic_in_the_workload_is_a_failed_seed() {
    let failure = fails(&Simulation::of(Stock::default), |_sender| panic!("nothing to sell"));
    assert!(failure.text.contains("in the workload") && failure.text.contains("nothing to sell"), "{failure}");
}

#[test]
fn the_picture_is_a_file_of_well_formed_svg() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("seed.svg");
    let simulation = Simulation::of(Forgets::default).picture(&file);
    let failure = fails(&simulation, moves);
    let text = std::fs::read_to_string(&file).expect("it was written");
    let picture = roxmltree::Document::parse(&text).expect("well-formed");
    assert_eq!(picture.root_element().tag_name().name(), "svg");
    assert!(
        text.contains(&format!("Seed {}", failure.seed)) && text.contains(&failure.property),
        "the failure is in it"
    );
    assert!(failure.to_string().contains("seed.svg"), "{failure}");
}

#[test]
fn a_workload_sees_the_state_of_its_member() {
    let report = Simulation::of(Stock::default)
        .seeds(0..1)
        .run(|sender| {
            assert!(sender.member() < 5);
            let count = i64::try_from(sender.state().applied).unwrap_or(0);
            sender.send_value(&(0_u64, count));
        })
        .expect("the seed holds");
    assert!(report.sent > 100, "{report:?}");
}
