//! Groups with and without a state, and observers: members that never have it (`docs/levels.md`, *Has a state*).

use std::time::Duration;

use crate::net::Net;
use phalanx_core::member::Role;
use phalanx_core::{
    Event, Founding, GroupTerms, LEVEL, LeaveReason, Limits, Order, OwnDomain, Timing, Uniformity, ViewNumber,
};

fn add(net: &mut Net, level: u16, role: Role, terms: GroupTerms) -> usize {
    let founding = if net.nodes.is_empty() { Founding::Alone } else { Founding::Join };
    let i = net.add_with(founding, level, Timing::default(), Limits::default());
    let now = net.now;
    net.nodes[i].0.request_group(now, "g", role, terms, vec![OwnDomain::unnamed()]).expect("a good name");
    i
}

/// Waits until all that live are in one view with as many members.
fn await_members(net: &mut Net, count: usize) {
    net.run_until(20, |net| net.alive().all(|(_, seen)| seen.views.last().is_some_and(|view| view.1 == count)));
}

fn cast(net: &mut Net, i: usize, uniformity: Uniformity) {
    assert!(net.cast(i, Order::Total, uniformity, b"some bytes"));
    net.run(Duration::from_millis(20));
}

/// A joiner takes the state of the only member that has it, whatever number of members do not.
#[test]
fn an_observer_takes_part_and_gives_no_state() {
    for seed in 0..8 {
        let mut net = Net::new(300 + seed, 10_000);
        let holder = add(&mut net, LEVEL, Role::State, GroupTerms::default());
        await_members(&mut net, 1);
        (0..5).for_each(|_| cast(&mut net, holder, Uniformity::Uniform));
        let observers = [(); 3].map(|()| add(&mut net, LEVEL, Role::Observer, GroupTerms::default()));
        await_members(&mut net, 4);
        (0..5).for_each(|i| cast(&mut net, observers[i % 3], Uniformity::Uniform));
        net.run_until(5, |net| observers.iter().all(|i| net.delivered(*i) == 5));
        let replica = add(&mut net, LEVEL, Role::State, GroupTerms::default());
        await_members(&mut net, 5);
        net.run_until(5, |net| net.nodes[replica].1.state_complete);
        cast(&mut net, observers[0], Uniformity::Uniform);
        net.run_until(5, |net| net.nodes[replica].1.sum == net.nodes[holder].1.sum && net.delivered(replica) == 1);
        // Each view lists them.
        let listed = &net.nodes[holder].1.incomplete;
        assert!(observers.iter().all(|i| listed.contains(&net.nodes[*i].0.me())), "{listed:?}");
        assert!(observers.iter().all(|i| !net.nodes[*i].1.state_complete));
    }
}

#[test]
fn an_observer_does_not_count_for_the_groups_minimum() {
    let mut net = Net::new(310, 0);
    let terms = GroupTerms { members_min: 2, ..GroupTerms::default() };
    let holder = add(&mut net, LEVEL, Role::State, terms);
    await_members(&mut net, 1);
    let observer = add(&mut net, LEVEL, Role::Observer, terms);
    await_members(&mut net, 2);
    assert!(net.cast(holder, Order::Total, Uniformity::Uniform, b"m"));
    net.run(Duration::from_secs(3));
    assert_eq!((net.delivered(holder), net.delivered(observer)), (0, 0), "one copy of the state");
    assert!([holder, observer].iter().all(|i| net.nodes[*i].1.adequate.iter().all(|(_, adequate)| !adequate)));
    add(&mut net, LEVEL, Role::State, terms);
    await_members(&mut net, 3);
    net.run_until(5, |net| net.delivered(observer) == 1);
    assert_eq!(net.nodes[observer].1.adequate.last(), Some(&(ViewNumber(3), true)), "it knows of the others");
}

/// Nobody waits until an observer has the state. Without those that have it the group is over, and the observer waits.
#[test]
fn the_last_with_the_state_may_leave_an_observer_which_founds_nothing() {
    let mut net = Net::new(311, 0);
    let observer = add(&mut net, LEVEL, Role::Observer, GroupTerms::default());
    net.run(Duration::from_secs(3));
    assert_eq!(net.nodes[observer].1.group, None, "it waits until there is a group");
    let ballots = |net: &Net| {
        let mut count = 0;
        net.nodes[observer].0.counters(&mut |name, n| count += if name == "ballots" { n } else { 0 });
        count
    };
    assert_eq!(ballots(&net), 0);
    let holder = add(&mut net, LEVEL, Role::State, GroupTerms::default());
    await_members(&mut net, 2);
    let (now, group) = (net.now, net.nodes[holder].1.group.expect("a member"));
    net.nodes[holder].0.leave_group(now, group).expect("a member");
    net.run_until(3, |net| net.nodes[holder].1.left == Some(LeaveReason::Left));
    net.run_until(3, |net| net.nodes[observer].1.left == Some(LeaveReason::Anew));
    let before = ballots(&net);
    net.run(Duration::from_secs(3));
    assert_eq!(ballots(&net), before, "it begins no ballot for a group that is not there");
    assert_eq!(net.nodes[observer].1.views.len(), 1);
    // It comes back by itself.
    add(&mut net, LEVEL, Role::State, GroupTerms::default());
    net.run_until(10, |net| {
        net.nodes[observer].1.views.last().is_some_and(|view| net.nodes[observer].1.views.len() > 1 && view.1 == 2)
    });
}

#[test]
fn who_asks_otherwise_is_refused_by_name() {
    for has_state in [true, false] {
        let mut net = Net::new(312, 0);
        let of = |has_state| if has_state { Role::State } else { Role::Stateless };
        add(&mut net, LEVEL, of(has_state), GroupTerms::default());
        await_members(&mut net, 1);
        let other = add(&mut net, LEVEL, of(!has_state), GroupTerms::default());
        net.run_until(10, |net| !net.nodes[other].1.refused.is_empty());
        let told = |event: &Event| matches!(event, Event::GroupDiffers { name, has_state: is } if **name == *"g" && *is == has_state);
        assert!(net.nodes[other].1.refused.iter().all(told), "{:?}", net.nodes[other].1.refused);
        net.run(Duration::from_secs(1));
        assert_eq!((net.nodes[0].1.views.len(), net.nodes[other].1.refused.len()), (1, 1));
        assert!(!net.nodes[other].0.wants_group("g"), "the request is dropped");
        add(&mut net, LEVEL, Role::Observer, GroupTerms::default());
        net.run_until(10, |net| net.nodes[0].1.views.last().is_some_and(|view| view.1 == 2));
    }
}

/// Below level 6 all is as it was: nothing is agreed, and an observer is a member without the state. A group that was made
/// there stays so when the level rises.
#[test]
fn below_level_6_nothing_is_agreed() {
    let mut net = Net::new(313, 0);
    add(&mut net, 5, Role::Observer, GroupTerms::default());
    await_members(&mut net, 1);
    for (role, count) in [(Role::State, 2), (Role::Stateless, 3)] {
        add(&mut net, LEVEL, role, GroupTerms::default());
        await_members(&mut net, count);
    }
    net.nodes[0].2 = false;
    await_members(&mut net, 2);
    let now = net.now;
    net.nodes[1].0.raise_level(now, LEVEL).expect("all know it");
    net.run_until(5, |net| net.alive().all(|(_, seen)| seen.level == LEVEL));
    for (role, count) in [(Role::Observer, 3), (Role::Stateless, 4), (Role::State, 5)] {
        add(&mut net, LEVEL, role, GroupTerms::default());
        await_members(&mut net, count);
    }
    assert!(net.alive().all(|(_, seen)| seen.refused.is_empty()));
}
