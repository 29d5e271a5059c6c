//! Views with fewer members than were agreed on: uniform messages wait, whatever else goes on.

use std::time::Duration;

use crate::net::Net;
use phalanx_core::order::Hold;
use phalanx_core::{Founding, GroupTerms, LEVEL, Limits, Order, Timing, Uniformity, ViewNumber};

fn add(net: &mut Net, level: u16, limits: &Limits, with_state: bool, terms: GroupTerms) -> usize {
    let founding = if net.nodes.is_empty() { Founding::Alone } else { Founding::Join };
    let i = net.add_with(founding, level, Timing::default(), limits.clone());
    let now = net.now;
    net.nodes[i].0.join_group(now, "g", with_state, terms).expect("a good name");
    i
}

fn await_members(net: &mut Net, count: usize) {
    net.run_until(10, |net| net.alive().all(|(_, seen)| seen.views.last().is_some_and(|view| view.1 == count)));
}

fn held(net: &Net, i: usize) -> u64 {
    let mut held = 0;
    net.nodes[i].0.counters(&mut |name, count| held += if name == "held_for_members" { count } else { 0 });
    held
}

#[test]
fn a_cell_of_too_few_sends_nothing_uniform_until_enough_have_joined() {
    let mut net = Net::new(1, 0);
    let limits = Limits { members_min: 3, ..Limits::default() };
    add(&mut net, LEVEL, &limits, false, GroupTerms::default());
    // It takes the cell's minimum, although its own setting differs.
    add(&mut net, LEVEL, &Limits::default(), false, GroupTerms::default());
    await_members(&mut net, 2);
    assert_eq!(net.nodes[1].0.agreed().members_min, 3);
    assert!(net.alive().all(|(process, _)| process.cell_view().is_some_and(|view| !view.is_adequate())));
    assert!(net.cast(1, Order::Total, Uniformity::Plain, b"plain"));
    assert!(net.cast(1, Order::Total, Uniformity::Uniform, b"uniform"));
    assert!(net.cast(1, Order::Total, Uniformity::Plain, b"behind it"));
    net.run(Duration::from_secs(1));
    assert_eq!((net.delivered(0), net.delivered(1)), (1, 1), "the plain one before it goes out");
    let stream = &net.nodes[1].0.streams()[0];
    assert_eq!((stream.hold, stream.queued_messages, held(&net, 1)), (Some(Hold::Inadequate), 2, 1));
    add(&mut net, LEVEL, &Limits::default(), false, GroupTerms::default());
    net.run_until(10, |net| (0..2).all(|i| net.delivered(i) == 3));
    assert_eq!(net.nodes[1].1.uniformities, [Uniformity::Plain, Uniformity::Uniform, Uniformity::Plain]);
    // One leaves, and the view is inadequate again.
    net.nodes[2].2 = false;
    net.run_until(10, |net| (0..2).all(|i| net.nodes[i].1.views.last().is_some_and(|view| view.1 == 2)));
    assert!(net.cast(0, Order::Fifo, Uniformity::Uniform, b"again"));
    net.run(Duration::from_secs(1));
    assert_eq!((net.delivered(1), held(&net, 0)), (3, 1));
}

#[test]
fn who_still_takes_the_state_does_not_count_for_its_group() {
    let mut net = Net::new(2, 0);
    let terms = GroupTerms { members_min: 2, ..GroupTerms::default() };
    add(&mut net, LEVEL, &Limits::default(), true, terms);
    await_members(&mut net, 1);
    assert_eq!(net.nodes[0].1.adequate, [(ViewNumber(1), false)]);
    assert!(net.cast(0, Order::Total, Uniformity::Uniform, b"m"));
    // Another one, which asks for less, takes the agreed terms.
    add(&mut net, LEVEL, &Limits::default(), true, GroupTerms::default());
    let (end, mut took) = (net.now + Duration::from_secs(10), 0);
    while net.delivered(0) == 0 {
        assert!(net.now < end);
        net.step();
        let is_in = net.nodes[0].1.views.last().is_some_and(|view| view.1 == 2);
        if is_in && !net.nodes[1].1.state_complete {
            took += 1;
            assert_eq!(net.nodes[0].1.adequate.last(), Some(&(ViewNumber(2), false)), "it takes the state");
        }
    }
    assert!(took > 0, "it was in the view before it had the state");
    net.run_until(5, |net| net.delivered(1) == 1);
    assert_eq!(net.nodes[0].1.adequate, [(ViewNumber(1), false), (ViewNumber(2), false), (ViewNumber(2), true)]);
    assert_eq!(net.nodes[1].1.adequate, [(ViewNumber(2), false), (ViewNumber(2), true)]);
    assert_eq!(net.nodes[1].1.terms, Some(terms));
    // A later member learns which members hold the state.
    add(&mut net, LEVEL, &Limits::default(), true, terms);
    await_members(&mut net, 3);
    net.run_until(5, |net| net.nodes[2].1.adequate.last() == Some(&(ViewNumber(3), true)));
    assert!(net.cast(2, Order::Total, Uniformity::Uniform, b"m"));
    net.run_until(5, |net| {
        (0..3).all(|i| net.nodes[i].1.uniformities.last() == Some(&Uniformity::Uniform) && net.delivered(i) > 0)
    });
    assert_eq!(net.nodes[0].1.adequate.last(), Some(&(ViewNumber(3), true)), "reported with the view");
}

#[test]
fn a_minimum_comes_into_force_with_level_2() {
    let mut net = Net::new(3, 0);
    let limits = Limits { members_min: 4, ..Limits::default() };
    let terms = GroupTerms { members_min: 3, ..GroupTerms::default() };
    add(&mut net, 1, &limits, false, terms);
    for _ in 0..2 {
        add(&mut net, 2, &limits, false, terms);
    }
    await_members(&mut net, 3);
    let delivered = |net: &Net| (0..3).map(|i| net.delivered(i)).collect::<Vec<_>>();
    assert!(net.cast(1, Order::Total, Uniformity::Uniform, b"at level 1"));
    net.run_until(5, |net| delivered(net) == [1, 1, 1]);
    net.nodes[0].2 = false;
    net.run_until(10, |net| net.alive().all(|(_, seen)| seen.views.last().is_some_and(|view| view.1 == 2)));
    assert!(net.cast(1, Order::Total, Uniformity::Uniform, b"still"));
    net.run_until(5, |net| delivered(net)[1..] == [2, 2]);
    let now = net.now;
    net.nodes[1].0.raise_level(now, 2).expect("all know it");
    net.run_until(5, |net| net.alive().all(|(_, seen)| seen.level == 2));
    assert!(net.alive().all(|(process, _)| process.cell_view().is_some_and(|view| view.members_min == 4)));
    net.run_until(5, |net| net.alive().all(|(_, seen)| seen.adequate.last().is_some_and(|told| !told.1)));
    assert!(net.cast(1, Order::Total, Uniformity::Uniform, b"at level 2"));
    net.run(Duration::from_secs(1));
    assert_eq!(delivered(&net)[1..], [2, 2]);
    for _ in 0..2 {
        add(&mut net, 2, &Limits::default(), false, terms);
    }
    net.run_until(10, |net| delivered(net)[1..3] == [3, 3]);
}
