//! Bounds of the core that only a whole cell reaches, each at the bound and beyond it. `docs/bounds.md` has the list.

use std::time::Duration;

use phalanx_core::member::Role;
use phalanx_core::{CommandError, Order, Uniformity, ViewNumber};
use phalanx_sim::{Cell, WorldSettings};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn started(members: usize, seed: u64) -> Cell {
    let mut cell = Cell::new(WorldSettings::quiet(members), seed);
    (0..members).for_each(|slot| cell.start(slot));
    cell.settle();
    cell
}

/// A joiner names 64 groups when it joins, and requests the others once it is in.
#[test]
fn a_process_joins_with_more_groups_than_it_may_name_as_it_comes() {
    let mut cell = started(3, 1);
    cell.crash(2);
    assert!(cell.run_until(5 * SECOND, |cell| cell.cell_view(0).is_some_and(|(_, members)| members.len() == 2)));
    cell.start(2);
    for group in 0..70 {
        cell.join_as(2, &format!("g{group}"), Role::Stateless);
    }
    cell.settle();
    for group in 0..70 {
        let name = format!("g{group}");
        assert_eq!(cell.group_view(2, &name).map(|(_, members)| members), Some(1), "{name}");
    }
    cell.finish_clean();
}

/// A coordinator takes at most 1,024 requests of one member at a time, and ignores a longer list. So no member sends
/// more at once; the others follow.
#[test]
fn a_member_with_more_requests_than_are_known_of_one_has_them_all_fulfilled() {
    // More than twice as many: the rest after the first view also exceeds one list.
    const GROUPS: usize = 2_060;
    let mut cell = started(2, 2);
    let (_, ranks) = cell.cell_view(0).expect("in a view");
    let asks = ranks[1];
    for group in 0..GROUPS {
        cell.join_as(asks, &format!("g{group}"), Role::Stateless);
    }
    let in_all = |cell: &Cell| (0..GROUPS).all(|group| cell.group_view(asks, &format!("g{group}")).is_some());
    let mut rounds = 0;
    while !in_all(&cell) {
        cell.run_for(500 * MS);
        rounds += 1;
        assert!(rounds < 20, "ten seconds are enough for {GROUPS} groups");
    }
}

#[test]
fn a_group_has_a_name_of_up_to_its_bound_and_no_longer() {
    let mut cell = started(2, 3);
    let longest = "n".repeat(200);
    cell.join(0, &longest);
    cell.join(1, &longest);
    cell.settle();
    assert_eq!(cell.group_view(1, &longest).map(|(_, members)| members), Some(2));
    assert_eq!(cell.try_join(0, &"n".repeat(201)), Err(CommandError::BadName));
    assert_eq!(cell.try_join(0, ""), Err(CommandError::BadName));
    cell.finish_clean();
}

/// A donor gives its state to sixteen joiners at a time. All others wait, or ask another donor.
#[test]
fn more_joiners_than_one_donor_gives_to_at_a_time_all_get_the_state() {
    const MEMBERS: usize = 20;
    let mut cell = started(MEMBERS, 4);
    cell.join(0, "a");
    assert!(cell.run_until(5 * SECOND, |cell| cell.group_view(0, "a").is_some()));
    cell.multicast(0, "a", Order::Total, Uniformity::Plain, 100).expect("in the group");
    cell.run_for(100 * MS);
    for slot in 1..MEMBERS {
        cell.join(slot, "a");
    }
    cell.settle();
    cell.finish_clean();
}

/// A view waits for joiners that come one after the other, but the first of them does not wait for ever.
#[test]
fn the_first_of_many_joiners_waits_no_longer_than_it_may() {
    const OLD: usize = 10;
    const NEW: usize = 9;
    let mut cell = Cell::new(WorldSettings::quiet(OLD + NEW), 5);
    (0..OLD).for_each(|slot| cell.start(slot));
    cell.settle();
    for step in 0..NEW {
        cell.start(OLD + step);
        cell.run_for(95 * MS);
    }
    // The last came 95 ms ago, the first 855 ms. The last still needs a probe, a challenge and a ballot.
    assert!(cell.cell_view(OLD).is_some(), "the first is in");
    assert!(cell.cell_view(OLD + NEW - 1).is_none(), "the last is not: it was not waited for");
    cell.settle();
}

/// It was excluded, and all members forgot it, because 256 others came and went since. It looks for its cell and learns
/// of its exclusion all the same.
#[test]
fn who_was_excluded_before_more_than_are_remembered_still_finds_its_end() {
    let mut cell = started(4, 6);
    cell.pause(3);
    let left_out = |cell: &Cell| cell.cell_view(0).is_some_and(|(_, members)| members.len() == 3);
    assert!(cell.run_until(5 * SECOND, left_out));
    for round in 0..260 {
        let before = cell.cell_view(0).map_or(ViewNumber::NONE, |(view, _)| view);
        cell.leave(2);
        let gone = |cell: &Cell| cell.cell_view(0).is_some_and(|(view, members)| view > before && members.len() == 2);
        assert!(cell.run_until(5 * SECOND, gone), "round {round}");
        cell.run_until(5 * SECOND, |cell| !cell.runs(2));
        cell.start(2);
        // A process that ends before it knows that it was admitted has not left; it is found silent.
        assert!(cell.run_until(5 * SECOND, |cell| left_out(cell) && cell.cell_view(2).is_some()), "round {round}");
    }
    cell.resume(3);
    assert!(cell.run_until(10 * SECOND, |cell| cell.exclusions(3) == 1), "it is told");
    cell.settle();
}

/// A joiner is addressed by all members of a cell that is larger than the number of peers it keeps without a view.
#[test]
fn a_joiner_of_a_cell_larger_than_the_strangers_it_keeps_comes_in() {
    const MEMBERS: usize = 70;
    let mut cell = started(MEMBERS, 7);
    cell.crash(MEMBERS - 1);
    let left = |cell: &Cell| cell.cell_view(0).is_some_and(|(_, members)| members.len() == MEMBERS - 1);
    assert!(cell.run_until(10 * SECOND, left));
    // The others' channels to its earlier incarnation are still open, so all of them send to its address.
    cell.start(MEMBERS - 1);
    cell.settle();
}

#[test]
fn a_message_beyond_the_longest_is_refused() {
    let mut cell = Cell::settled(2, 8);
    let too_long = (64 << 20) + 1;
    assert_eq!(cell.multicast(0, "a", Order::Fifo, Uniformity::Plain, too_long), Err(CommandError::TooLong(too_long)));
    cell.finish_clean();
}
