//! How long foundings, joins, leaves and deaths take between members that are far from each other, or late. The table of
//! `docs/costs.md`, *How far members may be*, is what this prints:
//!
//! ```text
//! cargo test -p phalanx-sim --test far_members -- --nocapture
//! ```

use std::fmt::Write;
use std::time::Duration;

use phalanx_sim::{Cell, Weather, WorldSettings};

/// The default heartbeat, and less than the default silence.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
const FOUNDERS: usize = 3;
const JOINER: usize = FOUNDERS;
const SEEDS: u32 = 5;
/// A member declares a little more than its iterations take.
const SPARE: Duration = Duration::from_millis(20);
/// T of a dead process with the default timing (`docs/costs.md`).
const DEAD: Duration = Duration::from_millis(7_600);
const STEPS: [&str; 5] = ["founding", "join", "leave of the group", "leave of the cell", "death of rank 0"];
/// For each step its bound, near, and the number of exchanges by which distance adds to it (`docs/costs.md`, *Far and
/// late members*).
const BOUNDS: [(Duration, u32); 5] = [
    (Duration::from_secs(10), 48),
    (Duration::from_secs(5), 24),
    (Duration::from_secs(5), 8),
    (Duration::from_secs(5), 8),
    (DEAD, 8),
];

/// How far members are, and how late.
#[derive(Clone, Copy)]
struct Distance {
    /// The round trip without iterations.
    round_trip: Duration,
    /// The time between two iterations of each member; zero: they are not late.
    turn: Duration,
    /// Whether all are far from each other, or the joiner alone.
    all: bool,
}

impl Distance {
    fn settings(self) -> WorldSettings {
        let slots = 0..=JOINER;
        let is_late = !self.turn.is_zero();
        let turn_ns = u64::try_from(self.turn.as_nanos()).expect("small");
        WorldSettings {
            founders: FOUNDERS,
            late: slots.clone().filter(|_| is_late).map(|slot| (slot, turn_ns)).collect(),
            turn_gaps: slots.filter(|_| is_late).map(|slot| (slot, self.turn + SPARE)).collect(),
            patience: Some(PATIENCE),
            ..WorldSettings::quiet(JOINER + 1)
        }
    }

    fn put_into(self, cell: &mut Cell) {
        let base_ns = u64::try_from(self.round_trip.as_nanos()).expect("small") / 2;
        for slot in if self.all { 0..=JOINER } else { JOINER..=JOINER } {
            cell.set_weather_around(slot, Weather { base_ns, ..Weather::FINE });
        }
    }

    /// A question and its answer, where each side may be a gap late.
    fn exchange(self) -> Duration {
        let gap = if self.turn.is_zero() { Duration::ZERO } else { self.turn + SPARE };
        self.round_trip + gap * 2
    }
}

/// Whether these are in one cell view with nobody else.
fn are_together(cell: &Cell, slots: &[usize]) -> bool {
    slots.iter().all(|&slot| cell.cell_view(slot).is_some_and(|(_, view)| view.len() == slots.len()))
}

/// Whether these are in a view of the group of so many members.
fn share_group(cell: &Cell, slots: &[usize], members: usize) -> bool {
    slots.iter().all(|&slot| cell.group_view(slot, "a").is_some_and(|(_, count)| count == members))
}

/// Runs until `condition` holds, and returns how long that took.
fn until(cell: &mut Cell, what: &str, condition: impl Fn(&Cell) -> bool) -> Duration {
    let began = cell.now();
    assert!(cell.run_until(Duration::from_secs(120), condition), "{what}: not within two minutes");
    cell.now() - began
}

/// The steps of one cell, one after the other.
fn walk(distance: Distance, seed: u32) -> [Duration; 5] {
    let mut cell = Cell::new(distance.settings(), u64::from(seed));
    distance.put_into(&mut cell);
    let founders: Vec<usize> = (0..FOUNDERS).collect();
    let all: Vec<usize> = (0..=JOINER).collect();
    for &slot in &founders {
        cell.start(slot);
        cell.join(slot, "a");
    }
    let founding = until(&mut cell, "founding", |cell| are_together(cell, &founders));
    until(&mut cell, "the group", |cell| share_group(cell, &founders, FOUNDERS));
    cell.run_for(Duration::from_secs(20));
    cell.start(JOINER);
    cell.join(JOINER, "a");
    let join = until(&mut cell, "join", |cell| are_together(cell, &all) && share_group(cell, &all, FOUNDERS + 1));
    cell.run_for(Duration::from_secs(20));
    let (_, ranks) = cell.cell_view(0).expect("it is in a view");
    let [oldest, second, ..] = ranks[..] else { panic!("four members") };
    let but = |out: &[usize]| -> Vec<usize> { all.iter().copied().filter(|slot| !out.contains(slot)).collect() };
    cell.leave_group(second, "a").expect("it is in the group");
    let rest = but(&[second]);
    let leaves_group = until(&mut cell, "leave of the group", |cell| share_group(cell, &rest, FOUNDERS));
    cell.run_for(Duration::from_secs(20));
    cell.leave(second);
    let leaves_cell = until(&mut cell, "leave of the cell", |cell| are_together(cell, &rest));
    cell.run_for(Duration::from_secs(20));
    let rest = but(&[oldest, second]);
    let before = cell.cell_view(rest[0]).map(|(view, _)| view);
    cell.crash(oldest);
    let is_later = |cell: &Cell, slot: usize| cell.cell_view(slot).map(|(view, _)| view) > before;
    let dies = until(&mut cell, "death", |cell| rest.iter().all(|&slot| is_later(cell, slot)));
    assert!(are_together(&cell, &rest), "the view after the death has all others");
    assert!(rest.iter().all(|&slot| cell.exclusions(slot) == 0), "only the dead member was left out");
    [founding, join, leaves_group, leaves_cell, dies]
}

#[test]
fn steps_of_far_and_late_members_take_as_long_as_the_table_says() {
    let ms = Duration::from_millis;
    let far = |round_trip: u64, all| Distance { round_trip: ms(round_trip), turn: Duration::ZERO, all };
    let late = |turn: u64| Distance { round_trip: ms(1), turn: ms(turn), all: true };
    let mut table = format!("| round trip | iterations | {} |\n|---|---|{}\n", STEPS.join(" | "), "---|".repeat(5));
    let mut count = 0;
    for distance in [1, 50, 240, 600, 1_000]
        .into_iter()
        .flat_map(|trip| [far(trip, true), far(trip, false)])
        .chain([100, 300, 500, 700].map(late))
    {
        let walks: Vec<[Duration; 5]> = (1..=SEEDS).map(|seed| walk(distance, seed)).collect();
        let who = if distance.all { "all" } else { "the joiner" };
        let turn = if distance.turn.is_zero() { "-".into() } else { format!("{} ms", distance.turn.as_millis()) };
        write!(table, "| {} ms, {who} | {turn} |", distance.round_trip.as_millis()).expect("a string takes it");
        for (step, (near, exchanges)) in BOUNDS.iter().enumerate() {
            let mut took: Vec<Duration> = walks.iter().map(|walk| walk[step]).collect();
            took.sort_unstable();
            let (median, longest) = (took[took.len() / 2], took[took.len() - 1]);
            let most = *near + distance.exchange() * *exchanges;
            write!(table, " {:.1} ({:.1}) |", median.as_secs_f64(), longest.as_secs_f64()).expect("a string takes it");
            assert!(longest <= most, "{}: {longest:?}, at most {most:?}\n{table}", STEPS[step]);
            count += u32::try_from(took.len()).expect("few");
        }
        table.push('\n');
    }
    eprintln!("{table}");
    assert_eq!(count, 14 * 5 * SEEDS, "each step of each cell was taken");
}

/// The coordinator alone has the state of a group, and asks to leave it while all others ask to come in. Its own request
/// is always there first, and changes nothing until somebody has taken the state. What the others ask for comes a round
/// trip after each decree, and once came too late for the next one, for ever.
#[test]
fn requests_of_far_members_are_not_kept_out_by_nearer_ones() {
    let far = Distance { round_trip: Duration::from_secs(1), turn: Duration::ZERO, all: true };
    let (near, exchanges) = BOUNDS[1];
    for seed in 1..=u64::from(SEEDS) {
        let mut cell = Cell::new(far.settings(), seed);
        far.put_into(&mut cell);
        let all: Vec<usize> = (0..=JOINER).collect();
        all.iter().for_each(|&slot| cell.start(slot));
        until(&mut cell, "founding", |cell| are_together(cell, &all));
        let (_, ranks) = cell.cell_view(0).expect("it is in a view");
        let [oldest, rest @ ..] = &ranks[..] else { panic!("four members") };
        cell.join(*oldest, "a");
        until(&mut cell, "the group", |cell| share_group(cell, &[*oldest], 1));
        cell.run_for(Duration::from_secs(20));
        cell.leave_group(*oldest, "a").expect("it is in the group");
        rest.iter().for_each(|&slot| cell.join(slot, "a"));
        let took = until(&mut cell, "the others", |cell| share_group(cell, rest, FOUNDERS));
        assert!(took <= near + far.exchange() * exchanges, "seed {seed}: {took:?}");
    }
}
