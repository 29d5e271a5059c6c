//! Decrees for which several ballots left something accepted. Each story stops at the moment at which it matters whose
//! proposal is taken up.

use std::time::Duration;

use phalanx_core::wire::Kind;
use phalanx_core::{Rank, ViewNumber};
use phalanx_sim::Cell;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A packet with a proposal is longer than this, and a packet that requests a report is shorter.
const PROPOSAL_BYTES: usize = 90;

/// Whether a process has installed a cell view after that number.
fn is_past(cell: &Cell, slot: usize, number: ViewNumber) -> bool {
    cell.cell_view(slot).is_some_and(|(view, _)| view > number)
}

#[test]
fn of_two_accepted_proposals_the_later_is_adopted() {
    for first_comes_back in [true, false] {
        let mut cell = Cell::settled(5, 24).titled(format!("the first comes back: {first_comes_back}"));
        let (number, ranks) = cell.cell_view(0).expect("in a view");
        let [first, second, third, fourth, fifth] = ranks[..] else { panic!("five members") };
        // Only the first accepts its proposal, or the fifth does as well: no quorum.
        cell.leave_group(first, "a").expect("in the group");
        assert!(cell.run_until(SECOND, |cell| cell.activity(first).gathering));
        cell.lose_if(move |packet| {
            packet.kind == Kind::Control && packet.from == first && (first_comes_back || packet.to != fifth)
        });
        assert!(cell.run_until(SECOND, |cell| cell.activity(first).proposing));
        cell.run_for(5 * MS);
        let holder = if first_comes_back { first } else { fifth };
        let earlier = cell.accepted(holder).expect("it accepted");
        assert!([second, third, fourth].iter().all(|&slot| cell.accepted(slot).is_none()));
        if !first_comes_back {
            cell.crash(first);
        }
        cell.cut_off(&[holder]);
        // The others decide to go on without it. Only the second knows that, and dies.
        assert!(cell.run_until(5 * SECOND, |cell| cell.activity(second).proposing));
        cell.lose_if(move |packet| packet.kind == Kind::Control && packet.from == second);
        cell.run_for(MS / 10);
        assert!(cell.run_until(SECOND, |cell| is_past(cell, second, number)));
        assert!([third, fourth].iter().all(|&slot| cell.accepted(slot) > Some(earlier)));
        assert_eq!(cell.accepted(holder), Some(earlier));
        cell.crash(second);
        cell.heal();
        // The next coordinator learns of both.
        assert!(cell.run_until(5 * SECOND, |cell| is_past(cell, third, number) && is_past(cell, fourth, number)));
        cell.settle();
        assert_eq!(cell.exclusions(holder), 1);
        cell.finish_clean();
    }
}

#[test]
fn an_acceptance_of_an_earlier_ballot_counts_nothing() {
    let mut cell = Cell::settled(5, 25);
    let (_, ranks) = cell.cell_view(0).expect("in a view");
    let [first, second, third, fourth, fifth] = ranks[..] else { panic!("five members") };
    // Besides the first, only the second accepts its proposal. The acceptance is delayed for long.
    cell.leave_group(first, "a").expect("in the group");
    assert!(cell.run_until(SECOND, |cell| cell.activity(first).gathering));
    cell.lose_if(move |packet| packet.kind == Kind::Control && packet.from == first && packet.to != second);
    assert!(cell.run_until(SECOND, |cell| cell.activity(first).proposing));
    cell.lose_if(move |packet| {
        let accepts = packet.from == second && packet.to == first;
        packet.kind == Kind::Control && (accepts || packet.from == first && packet.to != second)
    });
    assert!(cell.run_until(SECOND, |cell| cell.accepted(second).is_some()));
    cell.run_for(MS);
    let late = cell.packets_of(second);
    cell.cut_off(&[first]);
    cell.cut_off(&[second]);
    // Only the third accepts its own proposal to go on without both: a proposal is longer than a request for reports.
    let to_others = move |to: usize| to == fourth || to == fifth;
    cell.lose_if(move |packet| {
        packet.kind == Kind::Control
            && packet.from == third
            && to_others(packet.to)
            && packet.len_bytes > PROPOSAL_BYTES
    });
    assert!(cell.run_until(5 * SECOND, |cell| cell.accepted(third).is_some()));
    // The first is back, and takes that up. The third accepts it once more, and none of the others hears of it.
    for other in [third, fourth, fifth] {
        cell.mend(first, other);
        cell.mend(other, first);
    }
    let promised =
        |cell: &Cell, slot: usize| cell.promised(slot).filter(|ballot| ballot.round > 1 && ballot.rank == Rank::FIRST);
    assert!(
        cell.run_until(5 * SECOND, |cell| [third, fourth, fifth].iter().all(|&slot| promised(cell, slot).is_some()))
    );
    cell.lose_if(move |packet| {
        packet.kind == Kind::Control && (packet.from == first || packet.from == third) && to_others(packet.to)
    });
    let again = |cell: &Cell, slot: usize| {
        cell.accepted(slot).is_some_and(|ballot| ballot.round > 1 && ballot.rank == Rank::FIRST)
    };
    assert!(cell.run_until(SECOND, |cell| again(cell, first) && again(cell, third)));
    assert!(!again(&cell, fourth) && !again(&cell, fifth));
    // The old acceptance arrives. With it they would be three of five.
    cell.replay(&late);
    cell.run_for(20 * MS);
    assert!(!again(&cell, fourth) && !again(&cell, fifth));
    // Three of five are left, and know only of the first proposal.
    cell.crash(first);
    cell.crash(third);
    cell.heal();
    cell.settle();
    cell.finish_clean();
}
