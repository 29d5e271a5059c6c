//! Stories of the total order: a uniform abcast waits until every member knows its place. Otherwise the members that
//! knew it could die, and the others give another message that place.

use std::cell::Cell as Shared;
use std::rc::Rc;
use std::time::Duration;

use phalanx_core::wire::Kind;
use phalanx_core::{Order, Uniformity};
use phalanx_sim::{Cell, WorldSettings};

const MS: Duration = Duration::from_millis(1);
const STEP: Duration = Duration::from_micros(20);
/// The token goes to the member that sent most of so many abcasts.
const TALLY: u64 = 10;

/// Five members of group "a", their slots by rank, and a switch: while it is on, what the oldest member multicasts
/// comes to one member alone. The oldest holds the token.
fn heard_by_one(seed: u64, only: usize, title: String) -> (Cell, Vec<usize>, Rc<Shared<bool>>) {
    let settings = WorldSettings { token_tally: TALLY, ..WorldSettings::quiet(5) };
    let mut cell = Cell::new(settings, seed).titled(title);
    (0..5).for_each(|slot| {
        cell.start(slot);
        cell.join(slot, "a");
    });
    cell.settle();
    let (_, ranks) = cell.cell_view(0).expect("in a view");
    assert_eq!(cell.token_holder(ranks[1], "a"), Some(format!("p{}", ranks[0])));
    let (oldest, only) = (ranks[0], ranks[only]);
    let is_lost = Rc::new(Shared::new(false));
    let loses = Rc::clone(&is_lost);
    cell.lose_if(move |packet| {
        loses.get() && packet.kind == Kind::Multicast && packet.from == oldest && packet.to != only
    });
    (cell, ranks, is_lost)
}

fn abcast(cell: &mut Cell, slot: usize, uniformity: Uniformity) {
    cell.multicast(slot, "a", Order::Total, uniformity, 20).expect("it is in the group");
}

/// Both members that know the order die. The others go on, and what the dead delivered has the same place with them.
fn both_die(mut cell: Cell, dead: [usize; 2], is_lost: &Shared<bool>) {
    dead.into_iter().for_each(|slot| cell.crash(slot));
    is_lost.set(false);
    let others: Vec<usize> = (0..5).filter(|slot| !dead.contains(slot)).collect();
    assert!(cell.run_until(Duration::from_secs(5), |cell| cell.are_alone(&others)));
    dead.into_iter().for_each(|slot| {
        cell.start(slot);
        cell.join(slot, "a");
    });
    cell.settle();
    cell.finish_clean();
}

/// Two abcasts of one sender are announced in two packets, and the second packet comes to one member alone.
#[test]
fn an_abcast_waits_for_its_own_announcement_though_it_continues_the_run_of_another() {
    for step in 0..24 {
        let (mut cell, ranks, is_lost) = heard_by_one(81, 2, format!("{step} steps between the two"));
        abcast(&mut cell, ranks[4], Uniformity::Uniform);
        cell.run_for(STEP * step);
        abcast(&mut cell, ranks[4], Uniformity::Uniform);
        // The first announcement is on its way, the second message is not there yet.
        cell.run_for(STEP * 3);
        is_lost.set(true);
        abcast(&mut cell, ranks[1], Uniformity::Plain);
        cell.run_for(MS * 5);
        both_die(cell, [ranks[0], ranks[2]], &is_lost);
    }
}

/// The pass of the token comes to its next holder alone, which orders its own messages from then on.
#[test]
fn what_a_new_holder_orders_waits_until_every_member_knows_that_it_is_the_holder() {
    let mut passed = 0;
    for step in 0..8 {
        let (mut cell, ranks, is_lost) = heard_by_one(82, 4, format!("step {step}"));
        let next = Some(format!("p{}", ranks[4]));
        for _ in 1..TALLY {
            abcast(&mut cell, ranks[4], Uniformity::Plain);
        }
        cell.run_for(MS * 50);
        assert_ne!(cell.token_holder(ranks[4], "a"), next);
        abcast(&mut cell, ranks[4], Uniformity::Plain);
        cell.run_for(STEP * step);
        is_lost.set(true);
        cell.run_for(MS);
        let others_know = [1, 2, 3].iter().any(|rank| cell.token_holder(ranks[*rank], "a") == next);
        passed += u64::from(cell.token_holder(ranks[4], "a") == next && !others_know);
        abcast(&mut cell, ranks[4], Uniformity::Uniform);
        abcast(&mut cell, ranks[1], Uniformity::Plain);
        cell.run_for(MS * 5);
        both_die(cell, [ranks[0], ranks[4]], &is_lost);
    }
    assert!(passed > 2, "{passed} of 8 steps lost the pass");
}
