//! Two members do not hear each other, while all others hear both. The younger one is excluded, once, and comes back
//! when they hear each other again. A dead member is excluded alone, whichever member notices it first.

use std::time::Duration;

use phalanx_core::ViewNumber;
use phalanx_sim::{Cell, SUSPECT_AFTER};
use phalanx_trace::LeaveReason;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Bound, in multiples of `suspect_after`, until the others have a view without the end that goes.
const BOUND: u32 = 4;

/// Five members, and their slots by rank.
fn five(seed: u64, title: &str) -> (Cell, Vec<usize>) {
    let cell = Cell::settled(5, seed).titled(title);
    let (_, ranks) = cell.cell_view(0).expect("it is in a view");
    (cell, ranks)
}

/// The number of the view at a slot.
fn view(cell: &Cell, slot: usize) -> ViewNumber {
    cell.cell_view(slot).map_or(ViewNumber::NONE, |(view, _)| view)
}

/// Whether all but `gone` are in one view, and no other process that runs is.
fn is_without(cell: &Cell, gone: &[usize]) -> bool {
    let stay: Vec<usize> = (0..5).filter(|slot| !gone.contains(slot)).collect();
    cell.are_alone(&stay)
}

/// The link is dead both ways or one way, and either end may coordinate. There is one view without the younger end, and
/// no other view while the link is dead.
#[test]
fn of_a_dead_link_the_younger_end_goes_once() {
    for (older, younger) in [(0, 1), (0, 4), (1, 2), (2, 4)] {
        for ways in [[true, true], [true, false], [false, true]] {
            let title = format!("ranks {older} and {younger}, ways {ways:?}");
            let (mut cell, ranks) = five(11 + younger as u64, &title);
            let (old, young) = (ranks[older], ranks[younger]);
            let before = view(&cell, old);
            if ways[0] {
                cell.cut(old, young);
            }
            if ways[1] {
                cell.cut(young, old);
            }
            assert!(cell.run_until(SUSPECT_AFTER * BOUND, |cell| is_without(cell, &[young])), "{title}");
            cell.run_for(MINUTE * 2);
            assert!(is_without(&cell, &[young]), "{title}: it is back while the link is dead");
            assert_eq!(view(&cell, old), before.next(), "{title}");
            assert!((0..5).all(|slot| slot == young || cell.exclusions(slot) == 0), "{title}");
            let why = cell.searching(young).unwrap_or_default();
            assert!(why.contains(&format!("p{old} failed")), "{title}: its operator is told {why:?}");
            cell.heal();
            assert!(cell.run_until(SECOND * 5, |cell| is_without(cell, &[])), "{title}: it is not taken in again");
            cell.settle();
            cell.finish_clean();
        }
    }
}

/// A process and the coordinator do not hear each other when the process comes. Another member takes it in. It goes
/// again, and waits until the link is whole.
#[test]
fn who_comes_behind_a_dead_link_to_the_coordinator_is_taken_in_once() {
    for ways in [[true, true], [true, false], [false, true]] {
        let title = format!("ways {ways:?}");
        let (mut cell, ranks) = five(7, &title);
        let (first, comes) = (ranks[0], ranks[4]);
        cell.leave(comes);
        assert!(cell.run_until(SECOND * 5, |cell| !cell.runs(comes)), "{title}: it has left");
        let before = view(&cell, first);
        if ways[0] {
            cell.cut(first, comes);
        }
        if ways[1] {
            cell.cut(comes, first);
        }
        cell.start(comes);
        cell.run_for(MINUTE * 3);
        assert!(is_without(&cell, &[comes]), "{title}: it is in while the link is dead");
        assert_eq!(view(&cell, first), before.next().next(), "{title}");
        assert!((0..5).all(|slot| slot == comes || cell.exclusions(slot) == 0), "{title}");
        cell.heal();
        assert!(cell.run_until(SECOND * 5, |cell| is_without(cell, &[])), "{title}: it is not taken in again");
        cell.settle();
        cell.finish_clean();
    }
}

/// The end with more dead links is excluded, even if it is the coordinator, and no other member is.
#[test]
fn the_end_with_more_dead_links_goes() {
    for rank in 0..5 {
        let (mut cell, ranks) = five(3 + rank as u64, &format!("rank {rank} loses two links"));
        let faulty = ranks[rank];
        for other in ranks.iter().filter(|slot| **slot != faulty).take(2) {
            cell.cut(*other, faulty);
        }
        assert!(cell.run_until(SUSPECT_AFTER * BOUND, |cell| is_without(cell, &[faulty])), "rank {rank}");
        cell.run_for(MINUTE);
        assert!((0..5).all(|slot| slot == faulty || cell.exclusions(slot) == 0), "rank {rank}");
        cell.heal();
        cell.settle();
        cell.finish_clean();
    }
}

/// The leaver is the coordinator of its own leave, behind a dead link. Others try again and again without it, faster
/// than silence is noticed, and each of their decrees leaves the view as it is.
#[test]
fn decrees_that_change_no_view_take_nothing_from_silence() {
    for leaver in 0..5 {
        let (mut cell, ranks) = five(17, &format!("rank {leaver} leaves"));
        let other = ranks[(leaver + 3) % 5];
        cell.cut(other, ranks[leaver]);
        cell.leave(ranks[leaver]);
        let before = view(&cell, ranks[(leaver + 1) % 5]);
        let is_over = |cell: &Cell| view(cell, ranks[(leaver + 1) % 5]) > before;
        assert!(cell.run_until(SUSPECT_AFTER * BOUND, is_over), "rank {leaver}");
        cell.heal();
        cell.run_for(SECOND * 30);
        cell.settle();
        cell.finish_clean();
    }
}

/// Breaks something and heals it again and again for six minutes. Returns the views per minute at a bystander.
fn views_while_it_flaps(cell: &mut Cell, bystander: usize, half: Duration, break_it: impl Fn(&mut Cell)) -> Vec<u64> {
    let mut views = vec![view(cell, bystander)];
    for _ in 0..6 {
        let until = cell.now() + MINUTE;
        while cell.now() < until {
            break_it(cell);
            cell.run_for(half);
            cell.heal();
            cell.run_for(half);
        }
        views.push(view(cell, bystander));
    }
    views.windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
}

/// A link, or a host, flaps. After the first minute that costs at most two views a minute, and the cell is whole in the
/// end.
#[test]
fn what_comes_and_goes_costs_two_views_a_minute_at_most() {
    for half in [SECOND * 2, SECOND * 5, SECOND * 20, SECOND * 30] {
        for (older, younger) in [(0, 1), (1, 3), (4, 4)] {
            let title = format!("ranks {older} and {younger}, dead for {half:?}");
            let (mut cell, ranks) = five(29, &title);
            let (old, young) = (ranks[older], ranks[younger]);
            let each = views_while_it_flaps(&mut cell, ranks[2], half, |cell| {
                if old == young {
                    cell.cut_off(&[old]);
                } else {
                    cell.cut(old, young);
                    cell.cut(young, old);
                }
            });
            assert!(each[1..].iter().all(|views| *views <= 2), "{title}: {each:?} views a minute");
            assert!((0..5).all(|slot| slot == young || cell.exclusions(slot) == 0), "{title}");
            cell.run_for(MINUTE);
            cell.settle();
            cell.finish_clean();
        }
    }
}

/// A member that is dead for one member earlier than for the others, and older than that one, is not taken for a dead
/// link: it is excluded alone.
#[test]
fn who_misses_a_dead_member_first_stays() {
    for (dead, first) in [(0, 1), (1, 4), (2, 3), (2, 4)] {
        let (mut cell, ranks) = five(41, &format!("rank {first} does not hear rank {dead} first"));
        cell.cut(ranks[dead], ranks[first]);
        cell.run_for(SUSPECT_AFTER * 2 / 3);
        cell.crash(ranks[dead]);
        let before = view(&cell, ranks[first]);
        assert!(cell.run_until(SUSPECT_AFTER * BOUND, |cell| view(cell, ranks[first]) > before), "{dead} {first}");
        cell.run_for(SECOND / 2);
        assert!(is_without(&cell, &[ranks[dead]]), "{dead} {first}");
        assert_eq!(cell.reasons(ranks[first]), [LeaveReason::Unreachable]);
        cell.heal();
        cell.start(ranks[dead]);
        cell.join(ranks[dead], "a");
        cell.settle();
        cell.finish_clean();
    }
}

/// The system notifies only one member that another is dead. The dead one is excluded at once, and no other member is.
#[test]
fn one_member_that_knows_of_a_death_is_enough() {
    for (dead, told) in [(0, 4), (1, 0), (2, 3), (4, 1)] {
        let (mut cell, ranks) = five(51, &format!("rank {told} is told that rank {dead} died"));
        cell.crash(ranks[dead]);
        cell.tell_death(ranks[told], ranks[dead]);
        let before = view(&cell, ranks[told]);
        assert!(cell.run_until(SUSPECT_AFTER / 2, |cell| view(cell, ranks[told]) > before), "{dead} {told}");
        cell.run_for(SECOND / 10);
        assert!(is_without(&cell, &[ranks[dead]]), "{dead} {told}");
        cell.start(ranks[dead]);
        cell.join(ranks[dead], "a");
        cell.settle();
        cell.finish_clean();
    }
}

/// A member is stopped for longer than `suspect_after`, and continues just before all have given it up. No other member
/// is excluded for it.
#[test]
fn a_stop_that_ends_as_it_is_noticed_costs_no_other_member() {
    for stop_ms in (700..1_500).step_by(20) {
        let (mut cell, ranks) = five(61, &format!("stopped for {stop_ms} ms"));
        let faulty = ranks[1];
        cell.pause(faulty);
        cell.run_for(Duration::from_millis(stop_ms));
        cell.resume(faulty);
        cell.run_for(SECOND * 5);
        assert!((0..5).all(|slot| slot == faulty || cell.exclusions(slot) == 0), "{stop_ms} ms");
        cell.settle();
        cell.finish_clean();
    }
}

#[test]
fn who_was_proved_dead_does_not_wait() {
    let (mut cell, ranks) = five(71, "proved dead, four times");
    for _ in 0..4 {
        cell.crash(ranks[2]);
        (0..5).filter(|slot| *slot != ranks[2]).for_each(|slot| cell.tell_death(slot, ranks[2]));
        cell.run_for(SECOND / 2);
        cell.start(ranks[2]);
        cell.join(ranks[2], "a");
        cell.run_for(SECOND);
        assert!(is_without(&cell, &[]), "it waits");
    }
    cell.finish_clean();
}
