//! X1 to X5: a good and a broken run for each.

mod common;

use common::{GROUP, M, World, fifo, id, total};
use phalanx_check::Property;
use phalanx_trace::{Event, LeaveReason};

const DIGEST: u64 = 77;

/// The state that the joiner `c` takes, and when.
struct Join {
    replayed: Vec<M>,
    ends: Vec<u64>,
    snapshots: usize,
    install_digest: u64,
}

impl Join {
    fn good() -> Self {
        Self { replayed: vec![fifo(0, 1, 2), fifo(1, 1, 1)], ends: vec![DIGEST], snapshots: 1, install_digest: DIGEST }
    }

    /// `a` and `b` are in view 1; `a` freezes its state after message 1; two more follow; then `c` joins.
    fn run(&self) -> World {
        let mut w = World::cell(3);
        for p in [0, 1] {
            w.ask_group(p, true);
            w.group_view(p, 1, None, &[0, 1], &[0, 1], &[]);
        }
        w.multicast(fifo(0, 1, 1), &[0, 1]);
        w.ask_group(2, true);
        w.push(0, Event::SnapshotOut { group: GROUP, view: 1, digest: 1 });
        for _ in 0..self.snapshots {
            w.push(2, Event::SnapshotIn { group: GROUP, bytes: 10 });
        }
        w.multicast(fifo(0, 1, 2), &[0, 1]);
        w.multicast(fifo(1, 1, 1), &[0, 1]);
        self.replayed.iter().for_each(|&m| w.replay(2, m));
        self.ends.iter().for_each(|&digest| w.push(2, Event::StateEnd { group: GROUP, digest }));
        for p in [0, 1] {
            w.group_view(p, 2, Some(1), &[0, 1, 2], &[2], &[]);
            w.digest(p, 2, 0, DIGEST);
        }
        w.group_view(2, 2, None, &[0, 1, 2], &[2], &[]);
        w.digest(2, 2, 0, self.install_digest);
        w
    }
}

#[test]
fn a_transfer_at_the_cut_holds() {
    Join::good().run().holds(&[
        Property::X1,
        Property::X2,
        Property::X3,
        Property::X4,
        Property::X5,
        Property::I2,
        Property::S5,
    ]);
}

#[test]
fn x1_another_state_at_the_end_of_the_transfer() {
    Join { ends: vec![DIGEST + 1], ..Join::good() }.run().breaks(Property::X1);
}

#[test]
fn x1_another_state_at_the_first_view() {
    Join { install_digest: DIGEST + 1, ..Join::good() }.run().breaks(Property::X1);
}

#[test]
fn x1_is_told_of_the_first_wrong_join_alone() {
    let mut w = Join { ends: vec![1], install_digest: 1, ..Join::good() }.run();
    // Later deliveries lead c to other states, and a later joiner is compared with the others.
    let all = [0, 1, 2];
    for (p, digest) in [(0, 8), (1, 8), (2, 2)] {
        w.group_view(p, 3, Some(2), &all, &[], &[]);
        w.digest(p, 3, 0, digest);
    }
    let report = w.breaks(Property::X1);
    let x1 = report.properties.iter().find(|p| p.property == Property::X1).map(|p| p.violations);
    assert_eq!(x1, Some(4), "the end of the transfer and the first view, each against two members: {report}");
}

#[test]
fn x2_a_gap_between_snapshot_and_replay() {
    Join { replayed: vec![fifo(0, 1, 2)], ..Join::good() }.run().breaks(Property::X2);
}

#[test]
fn x2_an_overlap_of_snapshot_and_replay() {
    let replayed = vec![fifo(0, 1, 1), fifo(0, 1, 2), fifo(1, 1, 1)];
    Join { replayed, ..Join::good() }.run().breaks(Property::X2);
}

#[test]
fn x2_a_replay_to_a_member() {
    let mut w = Join::good().run();
    w.send(fifo(0, 2, 1));
    w.replay(2, fifo(0, 2, 1));
    w.breaks(Property::X2);
}

#[test]
fn x2_a_replay_from_the_first_view_itself() {
    let mut w = World::cell(2);
    w.ask_group(0, true);
    w.group_view(0, 1, None, &[0], &[0], &[]);
    w.ask_group(1, true);
    w.group_view(0, 2, Some(1), &[0, 1], &[1], &[]);
    w.send(fifo(0, 2, 1));
    w.push(1, Event::SnapshotIn { group: GROUP, bytes: 0 });
    w.replay(1, fifo(0, 2, 1));
    w.push(1, Event::StateEnd { group: GROUP, digest: 0 });
    w.group_view(1, 2, None, &[0, 1], &[1], &[]);
    w.breaks(Property::X2);
}

#[test]
fn i2_and_o1_hold_for_replays_too() {
    let twice = vec![fifo(0, 1, 2), fifo(1, 1, 1), fifo(1, 1, 1)];
    Join { replayed: twice, ..Join::good() }.run().breaks(Property::I2);
    let mut w = Join::good().run();
    // A replayed message comes again in the first view; the view it names is over as well.
    w.deliver(2, fifo(1, 1, 1));
    assert_eq!(w.report().violated(), [Property::S1, Property::I2]);
}

#[test]
fn o1_a_replay_with_a_gap() {
    let mut w = World::cell(2);
    w.ask_group(0, true);
    w.group_view(0, 1, None, &[0], &[0], &[]);
    (1..=3).for_each(|seq| w.multicast(fifo(0, 1, seq), &[0]));
    w.ask_group(1, true);
    w.push(1, Event::SnapshotIn { group: GROUP, bytes: 0 });
    w.replay(1, fifo(0, 1, 1));
    w.replay(1, fifo(0, 1, 3));
    w.push(1, Event::StateEnd { group: GROUP, digest: 0 });
    w.group_view(0, 2, Some(1), &[0, 1], &[1], &[]);
    w.group_view(1, 2, None, &[0, 1], &[1], &[]);
    w.breaks(Property::O1);
}

#[test]
fn o5_a_replay_under_another_number() {
    let run = |position: u64| {
        let mut w = World::cell(2);
        w.ask_group(0, true);
        w.group_view(0, 1, None, &[0], &[0], &[]);
        w.send(total(0, 1, 1));
        w.deliver_at(0, total(0, 1, 1), 1);
        w.ask_group(1, true);
        w.push(1, Event::SnapshotIn { group: GROUP, bytes: 0 });
        w.push(1, common::delivery(total(0, 1, 1), Some(position), true));
        w.push(1, Event::StateEnd { group: GROUP, digest: 0 });
        w.group_view(0, 2, Some(1), &[0, 1], &[1], &[]);
        w.group_view(1, 2, None, &[0, 1], &[1], &[]);
        w
    };
    run(1).holds(&[Property::O5]);
    run(2).breaks(Property::O5);
}

/// `b` replays two totally ordered messages, of `a` and of `c`, or the first two of `a`.
fn replays_two(of_one: bool, swapped: bool) -> World {
    let mut w = World::cell(3);
    for p in [0, 2] {
        w.ask_group(p, true);
        w.group_view(p, 1, None, &[0, 2], &[0, 2], &[]);
    }
    w.ask_group(1, true);
    w.push(0, Event::SnapshotOut { group: GROUP, view: 1, digest: 1 });
    w.push(1, Event::SnapshotIn { group: GROUP, bytes: 1 });
    let mut two = if of_one { [fifo(0, 1, 1), fifo(0, 1, 2)] } else { [total(0, 1, 1), total(2, 1, 1)] };
    let place = |spot: usize| (!of_one).then_some(spot as u64 + 1);
    for (spot, m) in two.into_iter().enumerate() {
        w.send(m);
        [0, 2].iter().for_each(|&p| w.deliver_at(p, m, place(spot)));
    }
    let mut spots = [0, 1];
    if swapped {
        two.reverse();
        spots.reverse();
    }
    for (spot, m) in spots.into_iter().zip(two) {
        w.push(1, common::delivery(m, place(spot), true));
    }
    w.push(1, Event::StateEnd { group: GROUP, digest: 1 });
    for p in [0, 2] {
        w.group_view(p, 2, Some(1), &[0, 2, 1], &[1], &[]);
    }
    w.group_view(1, 2, None, &[0, 2, 1], &[1], &[]);
    w
}

#[test]
fn o1_a_replay_of_one_sender_in_another_order() {
    replays_two(true, false).holds(&[Property::X2]);
    replays_two(true, true).breaks(Property::O1);
}

#[test]
fn o5_a_replay_in_another_order() {
    replays_two(false, false).holds(&[Property::X2, Property::O5]);
    replays_two(false, true).breaks(Property::O5);
}

#[test]
fn x3_a_transfer_that_was_not_begun() {
    let mut w = Join::good().run();
    w.traces[2].records.retain(|r| !matches!(r.event, Event::SnapshotIn { .. }));
    w.breaks(Property::X3);
}

#[test]
fn nothing_is_asked_of_the_state_of_who_refused_it() {
    let run = |ends| Join { ends, install_digest: DIGEST + 1, ..Join::good() }.run();
    run(vec![DIGEST + 1]).breaks(Property::X1);
    for ends in [vec![DIGEST + 1], vec![]] {
        let mut w = run(ends);
        let records = &mut w.traces[2].records;
        let at = records.iter().position(|r| matches!(r.event, Event::GroupView { .. })).expect("it joins");
        let mut told = records[at - 1].clone();
        told.event = Event::ToldSenseless { name: "ledger".into() };
        records.insert(at, told);
        let report = w.report();
        assert!(report.violated().is_empty(), "{report}");
    }
}

#[test]
fn x4_one_member_gives_no_digest() {
    let mut w = Join::good().run();
    w.traces[1].records.retain(|r| !matches!(r.event, Event::Digest { .. }));
    // It may have been killed before it recorded one.
    w.holds(&[Property::X4]);
    w.end(&[0, 1, 2]);
    w.breaks(Property::X4);
}

#[test]
fn x2_is_not_judged_where_nobody_brought_the_state() {
    let mut w = World::cell(2);
    w.ask_group(0, true);
    w.group_view(0, 1, None, &[0], &[0], &[]);
    w.multicast(fifo(0, 1, 1), &[0]);
    w.ask_group(1, true);
    w.push(0, Event::SnapshotOut { group: GROUP, view: 1, digest: 1 });
    w.group_view(0, 2, Some(1), &[0], &[], &[]);
    w.crash(0);
    // The donor died. What was taken is void, and the joiner founds the group anew.
    w.push(1, Event::SnapshotIn { group: GROUP, bytes: 0 });
    w.push(1, Event::StateEnd { group: GROUP, digest: 0 });
    w.group_view(1, 3, None, &[1], &[1], &[]);
    w.digest(1, 3, 0, 0);
    w.holds(&[Property::X3]);
    assert_eq!(w.report().instances(Property::X2), 0);
}

#[test]
fn x2_a_new_snapshot_voids_what_came_before() {
    let mut w = World::cell(3);
    for p in [0, 1] {
        w.ask_group(p, true);
        w.group_view(p, 1, None, &[0, 1], &[0, 1], &[]);
    }
    w.ask_group(2, true);
    w.push(0, Event::SnapshotOut { group: GROUP, view: 1, digest: 1 });
    w.push(2, Event::SnapshotIn { group: GROUP, bytes: 10 });
    w.multicast(fifo(1, 1, 1), &[0, 1]);
    w.replay(2, fifo(1, 1, 1));
    w.crash(0);
    w.push(1, Event::SnapshotOut { group: GROUP, view: 1, digest: 2 });
    w.push(2, Event::SnapshotIn { group: GROUP, bytes: 10 });
    w.multicast(fifo(1, 1, 2), &[1]);
    w.replay(2, fifo(1, 1, 2));
    w.push(2, Event::StateEnd { group: GROUP, digest: 5 });
    let gone = [(0, LeaveReason::Died)];
    [1, 2].iter().for_each(|&p| w.cell_view(p, 2, &[1, 2], &gone));
    w.group_view(1, 2, Some(1), &[1, 2], &[2], &gone);
    w.group_view(2, 2, None, &[1, 2], &[2], &gone);
    w.holds(&[Property::X2, Property::X3, Property::X5]);
}

#[test]
fn x3_two_transfers_for_one_join() {
    Join { ends: vec![DIGEST, DIGEST], ..Join::good() }.run().breaks(Property::X3);
}

#[test]
fn x3_state_for_a_member() {
    let mut w = Join::good().run();
    w.push(1, Event::SnapshotIn { group: GROUP, bytes: 3 });
    w.breaks(Property::X3);
}

#[test]
fn x4_states_part() {
    let run = |other: u64| {
        let mut w = World::group(3);
        w.multicast(fifo(0, 1, 1), &[0, 1]);
        w.lose(2, &[0, 1]);
        w.digest(0, 2, 0, DIGEST);
        w.digest(1, 2, 0, other);
        w
    };
    run(DIGEST).holds(&[Property::X4]);
    run(DIGEST + 1).breaks(Property::X4);
}

#[test]
fn x4_within_a_view_equal_sequences_give_equal_states() {
    let run = |at_b: [M; 2]| {
        let mut w = World::group(2);
        let (x, y) = (fifo(0, 1, 1), fifo(1, 1, 1));
        w.send(x);
        w.send(y);
        [x, y].iter().for_each(|&m| w.deliver(0, m));
        w.digest(0, 1, 2, 1);
        at_b.iter().for_each(|&m| w.deliver(1, m));
        w.digest(1, 1, 2, 2);
        w
    };
    run([fifo(1, 1, 1), fifo(0, 1, 1)]).holds(&[]);
    run([fifo(0, 1, 1), fifo(1, 1, 1)]).breaks(Property::X4);
}

#[test]
fn x4_is_not_told_again_of_those_that_s3_tells_of() {
    let mut w = World::group(3);
    w.multicast(fifo(2, 1, 1), &[0]);
    w.lose(2, &[0, 1]);
    w.digest(0, 2, 0, 1);
    w.digest(1, 2, 0, 2);
    w.breaks(Property::S3);
}

#[test]
fn x5_a_member_without_the_state_it_asked_for() {
    Join { replayed: vec![], ends: vec![], snapshots: 0, install_digest: 0 }.run().breaks(Property::X5);
}

#[test]
fn x5_a_state_that_all_begin_with_needs_no_transfer() {
    Join { replayed: vec![], ends: vec![], snapshots: 0, install_digest: DIGEST }.run().holds(&[Property::X5]);
}

#[test]
fn x5_a_state_that_was_begun_is_completed() {
    Join::good().run().holds(&[Property::X5]);
    // The digests are equal, but it was never notified that its state is complete.
    let mut w = Join::good().run();
    w.traces.iter_mut().for_each(|trace| trace.records.retain(|r| !matches!(r.event, Event::StateEnd { .. })));
    w.breaks(Property::X5);
}

#[test]
fn x5_who_asked_for_none_gets_none_and_is_not_compared() {
    let mut w = World::cell(2);
    w.ask_group(0, true);
    w.group_view(0, 1, None, &[0], &[0], &[]);
    w.ask_group(1, false);
    w.group_view(0, 2, Some(1), &[0, 1], &[1], &[]);
    w.group_view(1, 2, None, &[0, 1], &[1], &[]);
    w.digest(0, 2, 0, 1);
    w.digest(1, 2, 0, 2);
    w.holds(&[]);
    assert_eq!(w.traces[1].header.incarnation, id(1));
}

/// `a` and `b` are in view 1, in which `a` freezes its state. `b` leaves with view 2, and `c` takes the state and comes in with
/// view 3. `replay` is what is replayed to it.
fn joins_after_a_view(frozen_in: Option<u64>, replay: impl Fn(&mut World)) -> World {
    let mut w = World::cell(3);
    for p in [0, 1] {
        w.ask_group(p, true);
        w.group_view(p, 1, None, &[0, 1], &[0, 1], &[]);
    }
    w.ask_group(2, true);
    w.push(0, Event::SnapshotOut { group: GROUP, view: 1, digest: 1 });
    w.push(2, Event::SnapshotIn { group: GROUP, bytes: 10 });
    frozen_in.into_iter().for_each(|view| w.push(2, Event::SnapshotView { group: GROUP, view }));
    w.multicast(fifo(0, 1, 1), &[0, 1]);
    w.push(1, Event::GroupLeaveAsked { group: GROUP });
    w.group_view(0, 2, Some(1), &[0], &[], &[(1, LeaveReason::Left)]);
    w.multicast(fifo(0, 2, 1), &[0]);
    replay(&mut w);
    w.push(2, Event::StateEnd { group: GROUP, digest: DIGEST });
    w.group_view(0, 3, Some(2), &[0, 2], &[2], &[]);
    w.group_view(2, 3, None, &[0, 2], &[2], &[]);
    w
}

fn view_2(joined: &[usize]) -> Event {
    let (members, joined) = (vec![id(0)], joined.iter().map(|&p| id(p)).collect());
    Event::GroupViewReplayed { group: GROUP, view: 2, members, joined, left: vec![(id(1), LeaveReason::Left)] }
}

#[test]
fn x8_a_view_between_its_messages_holds() {
    let w = joins_after_a_view(Some(1), |w| {
        w.replay(2, fifo(0, 1, 1));
        w.push(2, view_2(&[]));
        w.replay(2, fifo(0, 2, 1));
    });
    w.holds(&[Property::X8, Property::X2, Property::X3]);
    assert_eq!(w.report().instances(Property::X8), 1);
}

#[test]
fn x8_a_view_is_left_out_comes_twice_or_is_another_one() {
    let with = |frozen_in, views: &[Event]| {
        joins_after_a_view(frozen_in, |w| {
            w.replay(2, fifo(0, 1, 1));
            views.iter().for_each(|view| w.push(2, view.clone()));
            w.replay(2, fifo(0, 2, 1));
        })
    };
    with(Some(1), &[]).breaks(Property::X8);
    with(Some(1), &[view_2(&[]), view_2(&[])]).breaks(Property::X8);
    with(Some(1), &[view_2(&[0])]).breaks(Property::X8);
    with(Some(2), &[]).breaks(Property::X8); // nobody froze its state in view 2
    with(None, &[view_2(&[])]).breaks(Property::X8);
    let again = |mut view: Event| {
        if let Event::GroupViewReplayed { view, .. } = &mut view {
            *view = 1;
        }
        view
    };
    with(Some(1), &[again(view_2(&[])), view_2(&[])]).breaks(Property::X8); // that of the snapshot
    with(None, &[]).holds(&[Property::X2]); // below level 7
}

#[test]
fn x8_a_view_after_the_wrong_message() {
    let early = |w: &mut World| {
        w.push(2, view_2(&[]));
        w.replay(2, fifo(0, 1, 1));
        w.replay(2, fifo(0, 2, 1));
    };
    joins_after_a_view(Some(1), early).breaks(Property::X8);
    let late = |w: &mut World| {
        w.replay(2, fifo(0, 1, 1));
        w.replay(2, fifo(0, 2, 1));
        w.push(2, view_2(&[]));
    };
    joins_after_a_view(Some(1), late).breaks(Property::X8);
}

#[test]
fn x8_a_state_does_not_say_its_view_at_level_7() {
    let mut w = joins_after_a_view(None, |w| {
        w.replay(2, fifo(0, 1, 1));
        w.replay(2, fifo(0, 2, 1));
    });
    w.holds(&[Property::X3]);
    let level = Event::Level { level: 7, known: 7 };
    let after = w.traces[2].records.iter().position(|r| matches!(r.event, Event::CellView { .. })).expect("it is in");
    let at_ns = w.traces[2].records[after].at_ns;
    w.traces[2].records.insert(after + 1, phalanx_trace::Record { at_ns, event: level });
    w.breaks(Property::X8);
}

#[test]
fn x3_a_view_is_replayed_to_a_member() {
    let mut w = Join::good().run();
    w.push(2, view_2(&[]));
    w.breaks(Property::X3);
}
