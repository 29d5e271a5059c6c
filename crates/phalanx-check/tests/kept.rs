//! Groups that waited: what of them is kept (X3), and what a later instance of the cell knows of them (M10, U6). And X4
//! for those who asked for a state.

mod common;

use common::{CELL, GROUP, M, SECOND, World, fifo, id, uniform};
use phalanx_check::Property;
use phalanx_trace::{Event, Header, LeaveReason, Trace};

const AGAIN: u64 = 77;

/// The next incarnation of `c`, before the harness's trace.
fn next_of_c(w: &mut World, with_state: bool) -> usize {
    let at = w.traces.len() - 1;
    w.traces.insert(at, Trace::new(Header::process("cell", "c", AGAIN, "clock")));
    w.push(at, Event::Start);
    w.push(at, Event::JoinAsked { cell: "cell".into() });
    w.push(at, Event::GroupJoinAsked { name: "ledger".into(), with_state });
    at
}

/// `c` has a group of its own, delivers one of its two messages, records a digest, and is excluded. It comes back with
/// the state that it kept, to which `replayed` is replayed.
fn comes_back(digest: Option<u64>, kept: u64, replayed: &[M]) -> World {
    let mut w = World::cell(3);
    w.ask_group(2, true);
    w.group_view(2, 1, None, &[2], &[2], &[]);
    w.digest(2, 1, 0, 1);
    w.multicast(fifo(2, 1, 1), &[2]);
    w.send(fifo(2, 1, 2));
    if let Some(digest) = digest {
        w.digest(2, 1, 1, digest);
    }
    for p in [0, 1] {
        w.cell_view(p, 2, &[0, 1], &[(2, LeaveReason::Unreachable)]);
    }
    w.push(2, Event::Excluded { view: 2 });
    let c = next_of_c(&mut w, true);
    let members = [(id(0), "a".into()), (id(1), "b".into()), (AGAIN, "c".into())].to_vec();
    for p in [0, 1, c] {
        w.push(p, Event::CellView { instance: CELL, view: 3, members: members.clone(), left: vec![] });
    }
    w.push(c, Event::StateKept { group: GROUP, was: id(2), view: 1, digest: kept });
    replayed.iter().for_each(|&m| w.replay(c, m));
    let (name, members, joined) = ("ledger".to_owned(), vec![AGAIN], vec![AGAIN]);
    w.push(c, Event::GroupView { group: GROUP, name, view: 2, prev: None, members, joined, left: vec![] });
    w
}

fn breaks(w: &World, property: Property) -> bool {
    w.report().violated().contains(&property)
}

#[test]
fn x3_a_kept_state_is_that_of_the_end_unchanged() {
    let rest = [fifo(2, 1, 2)];
    let held = comes_back(Some(5), 5, &rest);
    assert!(!breaks(&held, Property::X3), "{}", held.report());
    let x3 =
        |w: &World| w.report().properties.into_iter().find(|p| p.property == Property::X3).expect("in every report");
    assert_eq!((x3(&held).instances, x3(&held).under_failure), (1, 1), "its digest was compared");
    assert!(breaks(&comes_back(Some(5), 6, &rest), Property::X3));
    assert_eq!(x3(&comes_back(None, 6, &rest)).under_failure, 0, "no digest tells");
}

#[test]
fn x3_a_kept_state_comes_with_all_that_its_process_had_sent() {
    assert!(breaks(&comes_back(Some(5), 5, &[]), Property::X3), "one was kept, and not given to the application");
    assert!(breaks(&comes_back(Some(5), 5, &[fifo(2, 1, 2), fifo(2, 1, 2)]), Property::X3), "twice");
}

/// Two that asked for the state of a group that a third, gone since, had. Neither completes a transfer.
fn without_the_state(digests: [u64; 2], asked: [bool; 2]) -> World {
    let mut w = World::cell(3);
    w.ask_group(0, true);
    w.group_view(0, 1, None, &[0], &[0], &[]);
    w.ask_group(1, asked[0]);
    w.ask_group(2, asked[1]);
    w.crash(0);
    for p in [1, 2] {
        w.cell_view(p, 2, &[1, 2], &[(0, LeaveReason::Died)]);
        w.group_view(p, 2, None, &[0, 1, 2], &[1, 2], &[]);
        w.digest(p, 2, 0, digests[p - 1]);
    }
    w.end(&[1, 2]);
    w
}

#[test]
fn x4_nobody_who_asked_for_a_state_is_exempt() {
    assert!(breaks(&without_the_state([1, 2], [true, true]), Property::X4));
    assert!(!breaks(&without_the_state([1, 1], [true, true]), Property::X4));
    assert!(!breaks(&without_the_state([1, 2], [true, false]), Property::X4), "the second asked for none");
}

/// `c` holds a group, and is dropped. `a` and `b` leave in order, come back as the next instance, and found a group of
/// that name.
fn instance_after_instance(left: bool, command: bool, lives: bool, m: M) -> World {
    let mut w = World::cell(3);
    w.ask_group(2, true);
    w.group_view(2, 1, None, &[2], &[2], &[]);
    w.multicast(m, &[2]);
    for p in [0, 1] {
        w.cell_view(p, 2, &[0, 1], &[(2, LeaveReason::Unreachable)]);
    }
    if !lives {
        w.crash(2);
    }
    for p in [0, 1] {
        if left {
            w.push(p, Event::LeaveAsked);
            w.push(p, Event::Left);
            w.push(p, Event::End);
        } else {
            w.crash(p);
        }
    }
    w.wait(SECOND);
    let at = w.traces.len() - 1;
    w.traces.insert(at, Trace::new(Header::process("cell", "a", 88, "clock")));
    w.push(at, Event::Start);
    w.push(at, Event::JoinAsked { cell: "cell".into() });
    if command {
        w.push(at, Event::FoundAnew);
    }
    w.push(at, Event::GroupJoinAsked { name: "ledger".into(), with_state: true });
    let members = vec![(88, "a".into())];
    w.push(at, Event::CellView { instance: CELL + (1 << 48), view: 1, members, left: vec![] });
    let (name, members, joined) = ("ledger".to_owned(), vec![88], vec![88]);
    w.push(at, Event::GroupView { group: GROUP, name, view: 1, prev: None, members, joined, left: vec![] });
    if lives {
        w.push(2, Event::NonPrimary);
    }
    w
}

#[test]
fn m10_and_u6_a_later_instance_that_can_know_founds_no_group_over_a_living_member() {
    let m = uniform(fifo(2, 1, 1));
    let judged = |left, command, lives, m| {
        let report = instance_after_instance(left, command, lives, m).report();
        [Property::M10, Property::U6].map(|property| report.violated().contains(&property))
    };
    assert_eq!(judged(true, false, true, m), [true, true]);
    assert_eq!(judged(true, false, true, fifo(2, 1, 1)), [true, false], "nothing uniform is lost");
    assert_eq!(judged(true, false, false, m), [false, false], "the member died");
    assert_eq!(judged(true, true, true, m), [false, false], "an operator said that nobody lives");
    assert_eq!(judged(false, false, true, m), [false, false], "nobody has a record of the end");
}

/// `c` and `d` hold a group and are dropped. `c` comes back, and is killed after a while. Then `a` founds a group of that
/// name, while `d` is still cut off.
fn one_is_back(waits_ns: u64, with_state: bool, is_killed: bool) -> World {
    let mut w = World::cell(4);
    for p in [2, 3] {
        w.ask_group(p, true);
    }
    for p in [2, 3] {
        w.group_view(p, 1, None, &[2, 3], &[2, 3], &[]);
    }
    w.multicast(uniform(fifo(2, 1, 1)), &[2, 3]);
    for p in [0, 1] {
        w.cell_view(p, 2, &[0, 1], &[(2, LeaveReason::Unreachable), (3, LeaveReason::Unreachable)]);
    }
    w.push(3, Event::NonPrimary);
    w.push(2, Event::Excluded { view: 2 });
    let c = next_of_c(&mut w, with_state);
    if !with_state {
        w.traces[c].records.retain(|record| !matches!(record.event, Event::GroupJoinAsked { .. }));
    }
    let members = [(id(0), "a".into()), (id(1), "b".into()), (AGAIN, "c".into())].to_vec();
    for p in [0, 1, c] {
        w.push(p, Event::CellView { instance: CELL, view: 3, members: members.clone(), left: vec![] });
    }
    w.wait(waits_ns);
    if is_killed {
        w.harness_says(Event::Crash { incarnation: AGAIN });
    }
    for p in [0, 1] {
        let members = members[..2].to_vec();
        w.push(p, Event::CellView { instance: CELL, view: 4, members, left: vec![(AGAIN, LeaveReason::Unreachable)] });
    }
    w.ask_group(0, true);
    let (name, members, joined) = ("ledger".to_owned(), vec![id(0)], vec![id(0)]);
    w.push(0, Event::GroupView { group: GROUP + 1, name, view: 1, prev: None, members, joined, left: vec![] });
    w
}

#[test]
fn m10_and_u6_a_group_may_have_gone_on_in_one_that_came_back_and_was_killed() {
    let judged = |waits_ns, with_state, is_killed| {
        let report = one_is_back(waits_ns, with_state, is_killed).report();
        [Property::M10, Property::U6].map(|property| report.violated().contains(&property))
    };
    assert_eq!(judged(SECOND, true, true), [false, false], "nobody waits longer for the other holder");
    assert_eq!(judged(SECOND / 2, true, true), [true, true], "the other holder was waited for");
    assert_eq!(judged(SECOND, false, true), [true, true], "it did not ask for the group again");
    assert_eq!(judged(SECOND, true, false), [true, true], "it lives, and would have told");
}

/// `a` alone knows a view of the cell and the group without `c`, which it entered with something uniform. It dies, or
/// not. `c` reforms the cell, or begins it without a command, from what it kept of the view before.
fn goes_on_without(left_out: bool, command: bool, lives: bool) -> World {
    let mut w = World::group(3);
    w.send(uniform(fifo(0, 1, 1)));
    w.deliver(0, uniform(fifo(0, 1, 1)));
    if left_out {
        w.cell_view(0, 2, &[0, 1], &[(2, LeaveReason::Unreachable)]);
        w.group_view(0, 2, Some(1), &[0, 1], &[], &[(2, LeaveReason::Unreachable)]);
    }
    if !lives {
        w.crash(0);
    }
    w.crash(1);
    w.wait(SECOND);
    if command {
        w.push(2, Event::ReformAsked);
    }
    w.push(2, Event::Renounced { generation: 2 });
    let c = next_of_c(&mut w, true);
    let members = vec![(AGAIN, "c".into())];
    w.push(c, Event::CellView { instance: CELL + (1 << 48), view: 1, members, left: vec![] });
    w.push(c, Event::Ancestors { instances: vec![CELL] });
    w.push(c, Event::StateKept { group: GROUP, was: id(2), view: 1, digest: 1 });
    let (name, members, joined) = ("ledger".to_owned(), vec![AGAIN], vec![AGAIN]);
    w.push(c, Event::GroupView { group: GROUP, name, view: 9, prev: None, members, joined, left: vec![] });
    w
}

#[test]
fn u6_a_survivor_that_a_lost_view_left_out_goes_on_without_what_the_others_delivered() {
    let judged = |left_out, command, lives| breaks(&goes_on_without(left_out, command, lives), Property::U6);
    assert!(!judged(true, true, false), "all who had it are dead");
    assert!(judged(false, true, false), "no view left it out, so it had the message");
    assert!(judged(true, false, false), "nobody told it to go on");
    assert!(judged(true, true, true), "one that delivered it lives");
}
