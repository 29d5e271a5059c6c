//! Ten stories in which a view change, an order or a founding could go wrong, each tested at every step it has.

use std::time::Duration;

use phalanx_core::wire::Kind;
use phalanx_core::{Order, Uniformity};
use phalanx_sim::{Cell, WorldSettings};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Each of these slots in group "a" sends one message of each order, every second one uniform.
fn chatter(cell: &mut Cell, slots: &[usize]) {
    for (i, order) in [Order::Fifo, Order::Total, Order::Causal, Order::Total].into_iter().enumerate() {
        for slot in slots {
            // Refused while a view change blocks sends; there is then just less traffic.
            let _ = cell.multicast(*slot, "a", order, Uniformity::from_flag(i % 2 == 0), 200);
        }
    }
}

#[test]
fn nothing_is_acknowledged_after_the_report() {
    for seed in 0..8 {
        let mut cell = Cell::settled(4, seed);
        // All but the coordinator hear process 3, and its multicast reaches no process at first.
        cell.lose_if(|packet| packet.from == 3 && packet.kind == Kind::Multicast);
        cell.multicast(3, "a", Order::Total, Uniformity::Uniform, 300).expect("in the group");
        cell.cut(3, 0);
        cell.cut(0, 3);
        assert!(cell.run_until(5 * SECOND, |cell| cell.activity(1).flushing && cell.activity(2).flushing));
        // Now the retransmissions arrive, after the reports.
        cell.lose_if(|_| false);
        cell.run_for(3 * SECOND);
        cell.finish_clean();
    }
}

#[test]
fn the_coordinator_dies_at_every_step() {
    for sends in 0..60 {
        let mut cell = Cell::settled(5, 1).titled(format!("{sends} sends"));
        chatter(&mut cell, &[0, 1, 2, 3, 4]);
        cell.run_for(MS / 4);
        cell.crash(4);
        assert!(cell.run_until(5 * SECOND, |cell| cell.activity(0).gathering));
        cell.crash_after_sends(0, sends);
        chatter(&mut cell, &[1, 2, 3]);
        assert!(cell.run_until(5 * SECOND, |cell| !cell.runs(0)), "it sends at least {sends} packets");
        cell.run_for(3 * SECOND);
        cell.finish_clean();
    }
}

#[test]
fn the_only_holder_of_a_message_dies_at_every_step() {
    for sends in 0..40 {
        let mut cell = Cell::settled(5, 2).titled(format!("{sends} sends"));
        cell.lose_if(|packet| packet.from == 4 && packet.kind == Kind::Multicast && packet.to != 1);
        cell.multicast(4, "a", Order::Total, Uniformity::from_flag(sends % 2 == 0), 300).expect("in the group");
        cell.run_for(5 * MS);
        cell.crash(4);
        assert!(cell.run_until(5 * SECOND, |cell| cell.activity(1).flushing));
        cell.crash_after_sends(1, sends);
        cell.run_for(4 * SECOND);
        cell.finish_clean();
    }
}

#[test]
fn an_adopted_proposal_lists_the_dead() {
    for sends in 0..60 {
        let mut cell = Cell::new(WorldSettings::quiet(6), 3).titled(format!("{sends} sends"));
        for slot in 0..5 {
            cell.start(slot);
            cell.join(slot, "a");
        }
        cell.settle();
        cell.start(5);
        assert!(cell.run_until(5 * SECOND, |cell| cell.activity(0).gathering));
        cell.crash_after_sends(0, sends);
        let _ = cell.run_until(SECOND, |cell| !cell.runs(0));
        cell.crash(5);
        cell.run_for(4 * SECOND);
        cell.finish_clean();
    }
}

#[test]
fn everybody_is_alone_for_a_while_and_nobody_is_excluded() {
    for away in [300, 1500, 6000] {
        let mut cell = Cell::settled(5, 4);
        chatter(&mut cell, &[0, 1, 2, 3, 4]);
        cell.cut_all();
        cell.run_for(away * MS);
        cell.heal();
        cell.settle();
        for slot in 0..5 {
            assert_eq!(cell.exclusions(slot), 0, "after {away} ms");
            assert!(cell.is_primary(slot));
        }
        cell.finish_clean();
    }
}

#[test]
fn one_cut_link_costs_one_member() {
    let mut cell = Cell::settled(5, 5);
    let (_, ranks) = cell.cell_view(0).expect("in a view");
    // Both ends are suspected once; the younger goes, and comes back when the link does.
    let (older, younger) = (ranks[1], ranks[3]);
    cell.cut(older, younger);
    cell.cut(younger, older);
    let others: Vec<usize> = (0..5).filter(|slot| *slot != younger).collect();
    for _ in 0..30 {
        chatter(&mut cell, &others);
        cell.run_for(100 * MS);
    }
    for slot in &others {
        assert_eq!(cell.exclusions(*slot), 0, "process {slot}");
        assert!(cell.is_primary(*slot));
    }
    cell.finish_clean();
}

#[test]
fn a_deaf_member_goes_and_the_others_stay() {
    for deaf in [0, 2, 4] {
        let mut cell = Cell::settled(5, 6);
        for other in (0..5).filter(|other| *other != deaf) {
            cell.cut(other, deaf);
        }
        for _ in 0..40 {
            chatter(&mut cell, &[0, 1, 2, 3, 4]);
            cell.run_for(100 * MS);
        }
        for other in (0..5).filter(|other| *other != deaf) {
            assert_eq!(cell.exclusions(other), 0, "process {other} while {deaf} is deaf");
            assert!(cell.is_primary(other));
            let (_, members) = cell.cell_view(other).expect("in a view");
            assert!(!members.contains(&deaf));
        }
        cell.finish_clean();
    }
}

/// Members in one group, whose token passes after `token_tally` abcasts.
fn token_cell(members: usize, seed: u64, token_tally: u64) -> Cell {
    let settings = WorldSettings { token_tally, ..WorldSettings::quiet(members) };
    let mut cell = Cell::new(settings, seed);
    for slot in 0..members {
        cell.start(slot);
        cell.join(slot, "a");
    }
    cell.settle();
    cell
}

#[test]
fn the_token_holder_dies_between_delivery_and_announcement() {
    let mut passed = 0;
    for sends in 0..40 {
        let mut cell = token_cell(5, 7, 16).titled(format!("{sends} sends"));
        // One sends most, so that the token passes to it; the others' abcasts wait for announcements. Then another
        // does, and the holder dies before it passes the token on, while it does, or after it.
        let mut went_on = false;
        for (round, busy) in [3, 3, 3, 3, 3, 4, 4, 4, 4].into_iter().enumerate() {
            for slot in 0..5 {
                for _ in 0..if slot == busy { 24 } else { 1 } {
                    let _ = cell.multicast(slot, "a", Order::Total, Uniformity::from_flag(round % 2 == 0), 100);
                }
                let _ = cell.multicast(slot, "a", Order::Causal, Uniformity::Plain, 100);
            }
            if round == 5 {
                assert_eq!(cell.token_holder(2, "a").as_deref(), Some("p3"), "the token came to who sends most");
                cell.crash_after_sends(3, sends);
            }
            cell.run_for(MS / 2);
            went_on |= cell.token_holder(4, "a").as_deref() == Some("p4");
        }
        passed += u32::from(went_on);
        cell.run_for(4 * SECOND);
        cell.finish_clean();
    }
    assert!((1..40).contains(&passed), "the token left the holder before it died in {passed} runs of 40");
}

#[test]
fn one_link_loses_what_is_said_while_the_token_goes_to_and_fro() {
    let mut cell = token_cell(3, 10, 4);
    let (_, ranks) = cell.cell_view(0).expect("in a view");
    let [one, other, late] = ranks[..] else { panic!("three members") };
    // Packets of one holder reach the third member a third of a second late; those of the other do not.
    cell.cut(one, late);
    for round in 0..300 {
        for _ in 0..8 {
            let _ =
                cell.multicast([one, other][round % 2], "a", Order::Total, Uniformity::from_flag(round % 3 == 0), 20);
        }
        cell.run_for(MS);
    }
    cell.mend(one, late);
    cell.run_for(2 * SECOND);
    assert!((0..3).all(|slot| cell.exclusions(slot) == 0), "so short a cut costs nobody its place");
    cell.settle();
    cell.finish_clean();
}

#[test]
fn a_member_dies_at_every_step_of_a_group_join() {
    for victim in 0..4 {
        for sends in (0..40).step_by(2) {
            let mut cell = Cell::settled(5, 8).titled(format!("victim {victim}, {sends} sends"));
            for slot in 0..4 {
                cell.join(slot, "b");
            }
            cell.settle();
            for slot in 0..4 {
                let _ = cell.multicast(slot, "b", Order::Total, Uniformity::Uniform, 100);
            }
            chatter(&mut cell, &[0, 1, 2, 3, 4]);
            cell.join(4, "b");
            cell.crash_after_sends(victim, sends);
            cell.run_for(4 * SECOND);
            cell.finish_clean();
        }
    }
}

#[test]
fn founders_start_at_once_and_again() {
    for sends in 0..30 {
        let mut settings = WorldSettings::quiet(3);
        settings.founders = 3;
        let mut cell = Cell::new(settings, 9).titled(format!("{sends} sends"));
        for slot in 0..3 {
            cell.start(slot);
        }
        // Between any two packets of the founding, one founder dies and comes back as another incarnation.
        cell.crash_after_sends(1, sends);
        let _ = cell.run_until(SECOND, |cell| !cell.runs(1));
        cell.crash(1);
        cell.run_for(50 * MS);
        cell.start(1);
        for slot in 0..3 {
            cell.join(slot, "a");
        }
        cell.settle();
        cell.finish_clean();
    }
}

#[test]
fn a_leader_that_died_before_it_told_what_it_founded_brings_it_back() {
    let mut untold = 0;
    for sends in 0..60 {
        let mut settings = WorldSettings::quiet(5);
        settings.founders = 5;
        let mut cell = Cell::new(settings, 9).titled(format!("{sends} sends"));
        for slot in 0..5 {
            cell.start(slot);
        }
        cell.crash_after_sends(0, sends);
        let _ = cell.run_until(SECOND, |cell| !cell.runs(0));
        cell.crash(0);
        cell.run_for(SECOND);
        untold += usize::from(cell.has_founded(0) && (1..5).all(|slot| cell.cell_view(slot).is_none()));
        cell.start(0);
        for slot in 0..5 {
            cell.join(slot, "a");
        }
        cell.settle();
        cell.finish_clean();
    }
    assert!(untold > 0, "no one died at the moment that this is about");
}

#[test]
fn founders_that_come_back_found_nothing_while_the_cell_lives() {
    let mut settings = WorldSettings::quiet(5);
    settings.founders = 3;
    let mut cell = Cell::new(settings, 10);
    for slot in 0..5 {
        cell.start(slot);
        cell.join(slot, "a");
    }
    cell.settle();
    for founder in 0..3 {
        cell.crash(founder);
        cell.run_for(3 * SECOND);
        cell.settle();
    }
    cell.cut_off(&[0, 1, 2]);
    for founder in 0..3 {
        cell.start(founder);
    }
    cell.run_for(10 * SECOND);
    for founder in 0..3 {
        assert_eq!(cell.cell_view(founder), None, "founder {founder} made a second cell");
    }
    assert!(cell.is_primary(3));
    cell.heal();
    cell.settle();
    cell.finish_clean();
}

#[test]
fn an_excluded_member_wakes_up_and_its_packets_are_replayed() {
    let mut cell = Cell::settled(4, 11);
    chatter(&mut cell, &[0, 1, 2, 3]);
    cell.run_for(MS / 4);
    cell.pause(3);
    cell.run_for(4 * SECOND);
    let (_, members) = cell.cell_view(0).expect("in a view");
    assert!(members.len() == 3 && !members.contains(&3));
    cell.replay_packets_of(3);
    chatter(&mut cell, &[0, 1, 2]);
    cell.run_for(100 * MS);
    cell.resume(3);
    cell.run_for(MS);
    cell.replay_packets_of(3);
    cell.settle();
    assert_eq!(cell.exclusions(3), 1, "it is told once");
    cell.finish_clean();
}

#[test]
fn leftovers_keep_their_causes() {
    for holder_dies in [false, true] {
        let mut cell = Cell::settled(6, 12).titled(format!("the token holder dies: {holder_dies}"));
        let (_, ranks) = cell.cell_view(0).expect("in a view");
        let [holder, second, third, fourth, sayer, heard] = ranks[..] else { panic!("six members") };
        // Nothing is ordered any more, and packets of one of them reach only one other.
        cell.lose_if(move |packet| {
            packet.kind == Kind::Multicast && (packet.from == holder || packet.from == sayer && packet.to != heard)
        });
        cell.multicast(fourth, "a", Order::Causal, Uniformity::Plain, 200).expect("in the group");
        cell.multicast(sayer, "a", Order::Causal, Uniformity::Plain, 200).expect("in the group");
        cell.run_for(2 * MS);
        // These depend on the earlier messages; the last one depends on something that will be lost with the processes
        // that have it.
        for slot in [second, third, fourth, heard] {
            cell.multicast(slot, "a", Order::Total, Uniformity::from_flag(slot == third), 200).expect("in the group");
            cell.run_for(MS);
        }
        cell.crash(sayer);
        cell.crash(if holder_dies { holder } else { heard });
        cell.run_for(4 * SECOND);
        for slot in [second, third, fourth] {
            // Ordered or left over, they are delivered, except the one whose cause is lost.
            assert!(cell.delivered(slot) >= 4, "{} at {slot}", cell.delivered(slot));
        }
        cell.finish_clean();
    }
}
