//! Joiners and donors whose state transfer stalls.

use std::time::Duration;

use phalanx_core::wire::Kind;
use phalanx_core::{Order, Uniformity};
use phalanx_sim::{Cell, Workload, WorldSettings};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A cell of which all but the last process are in the group "two", with a state of `state_bytes`. The applications do
/// nothing by themselves.
fn cell(members: usize, state_bytes: u64, settings: WorldSettings, seed: u64) -> Cell {
    let quiet = Workload { gap_ns: 1_000_000_000_000, second_group_ppm: 0, reply_ppm: 0, ..Workload::USUAL };
    let workload = Some(Workload { state_bytes, ..quiet });
    let mut cell = Cell::new(WorldSettings { workload, ..settings }, seed);
    for slot in 0..members {
        cell.start(slot);
        assert!(cell.run_until(20 * SECOND, |cell| is_in(cell, slot, "a")));
    }
    for slot in 0..members - 1 {
        cell.join(slot, "two");
        assert!(cell.run_until(20 * SECOND, |cell| is_in(cell, slot, "two")));
    }
    cell.settle();
    cell
}

fn is_in(cell: &Cell, slot: usize, group: &str) -> bool {
    cell.group_view(slot, group).is_some()
}

/// Long packets without a seal: the cost of a story of many megabytes is that of its packets.
fn large(members: usize) -> WorldSettings {
    WorldSettings { sealed: false, packet_bytes: 60_000, check_every: 100, ..WorldSettings::quiet(members) }
}

/// `sender` multicasts this many bytes per second, for `time`. Returns the bytes accepted in its worst second.
fn load(cell: &mut Cell, sender: usize, bytes_per_second: usize, time: Duration) -> usize {
    let len = 50_000;
    let mut least = usize::MAX;
    for _ in 0..time.as_secs() {
        let mut accepted = 0;
        for _ in 0..100 {
            for _ in 0..bytes_per_second / 100 / len {
                accepted +=
                    len * usize::from(cell.multicast(sender, "two", Order::Total, Uniformity::Plain, len).is_ok());
            }
            cell.run_for(10 * MS);
        }
        least = least.min(accepted);
    }
    least
}

/// Number of joiners that a donor gave up because the group had outrun them. The rest of the story must be clean.
fn outrun(cell: Cell) -> u64 {
    let result = cell.finish();
    assert!(result.violations.is_empty(), "{}", result.story.unwrap_or_default());
    result.counters.core.get("transfers_outrun").copied().unwrap_or(0)
}

/// A joiner's application takes nothing of the state. Deliveries meanwhile are kept for it up to a bound, and then no
/// longer.
#[test]
fn senders_do_not_wait_for_a_joiner_that_hangs() {
    let mut cell = cell(4, 40 << 20, large(4), 1);
    cell.set_takes(3, false);
    cell.join(3, "two");
    let least = load(&mut cell, 0, 16_000_000, 30 * SECOND);
    assert!(least > 14_000_000, "{least} bytes in the worst second");
    cell.set_takes(3, true);
    cell.settle();
    assert_eq!(outrun(cell), 1, "it is not given more before it has taken what it was given");
}

/// More than the bound is delivered while a long state is under way, but less than the state. The joiner catches up.
#[test]
fn a_joiner_that_takes_the_state_faster_than_the_group_delivers_comes_in() {
    let mut cell = cell(3, 100 << 20, WorldSettings { egress: Some(20_000), ..large(3) }, 2);
    cell.join(2, "two");
    // The sender's interface is nearly full; the other one gives the state.
    let giver = donor(&mut cell, 2);
    let least = load(&mut cell, 1 - giver, 16_000_000, 6 * SECOND);
    assert!(cell.activity(giver).giving && !is_in(&cell, 2, "two"));
    assert!(least > 14_000_000, "{least} bytes in the worst second");
    assert!(cell.run_until(10 * SECOND, |cell| is_in(cell, 2, "two")));
    assert_eq!(outrun(cell), 0);
}

/// The first of the others that gives the last process the state of "two".
fn donor(cell: &mut Cell, joiner: usize) -> usize {
    let giving = |cell: &Cell| (0..joiner).find(|&slot| cell.activity(slot).giving);
    assert!(cell.run_until(SECOND, |cell| giving(cell).is_some()));
    giving(cell).expect("one of them gives")
}

/// A donor's packets on its data channel are lost from some chunk on; it is heard all the same.
#[test]
fn a_joiner_asks_another_when_no_more_comes_from_its_donor() {
    for seed in 1..6 {
        let mut cell = cell(4, 2 << 20, WorldSettings::quiet(4), seed).titled(format!("chunks lost, seed {seed}"));
        cell.join(3, "two");
        let first = donor(&mut cell, 3);
        let mut passed = 0;
        cell.lose_if(move |packet| {
            let is_state = (packet.from, packet.to, packet.kind) == (first, 3, Kind::Data);
            passed += u64::from(is_state);
            is_state && passed > 100
        });
        assert!(cell.run_until(6 * SECOND, |cell| is_in(cell, 3, "two")), "it waits for {first}");
        assert!(!cell.activity(first).giving, "it was told");
        assert_eq!(cell.exclusions(first), 0);
        cell.heal();
        cell.settle();
        cell.finish_clean();
    }
}

/// A donor's application hangs, so the donor does not reach the view that ends its record.
#[test]
fn a_joiner_asks_another_when_its_donors_application_hangs() {
    for seed in 1..6 {
        let mut cell = cell(4, 2 << 20, WorldSettings::quiet(4), seed).titled(format!("no end, seed {seed}"));
        cell.join(3, "two");
        let first = donor(&mut cell, 3);
        cell.set_takes(first, false);
        assert!(cell.run_until(6 * SECOND, |cell| is_in(cell, 3, "two")), "it waits for {first}");
        cell.set_takes(first, true);
        cell.settle();
        cell.finish_clean();
    }
}

/// An application takes the state slowly, and its donor waits for that.
#[test]
fn a_donor_that_waits_for_its_joiner_is_not_given_up() {
    let mut cell = cell(3, 60 << 20, WorldSettings { egress: Some(20_000), ..large(3) }, 1);
    cell.join(2, "two");
    let first = donor(&mut cell, 2);
    cell.run_for(100 * MS);
    for _ in 0..2 {
        cell.set_takes(2, false);
        cell.run_for(7 * SECOND);
        assert!(cell.activity(first).giving);
        cell.set_takes(2, true);
        cell.run_for(500 * MS);
        assert!(cell.activity(first).giving && !is_in(&cell, 2, "two"));
    }
    cell.settle();
    cell.finish_clean();
}
