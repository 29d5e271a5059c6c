//! The list of domains of a group's state, and messages to one of them (`docs/domains.md`).

use std::time::Duration;

use crate::net::{Net, Seen};
use phalanx_core::member::{DOMAINS_LEVEL, Role};
use phalanx_core::{
    CommandError, Domain, DomainIndex, DomainMismatch, Event, Founding, GroupTerms, LEVEL, Limits, Order, OwnDomain,
    SendOptions, Stability, Timing,
};

fn own(name: &str, is_optional: bool) -> OwnDomain {
    OwnDomain { domain: Domain { name: name.into(), version: 1 }, is_optional }
}

fn add(net: &mut Net, level: u16, has: Vec<OwnDomain>) -> usize {
    let founding = if net.nodes.is_empty() { Founding::Alone } else { Founding::Join };
    let i = net.add_with(founding, level, Timing::default(), Limits::default());
    let now = net.now;
    net.nodes[i].0.request_group(now, "g", Role::State, GroupTerms::default(), has).expect("a good name");
    i
}

fn await_members(net: &mut Net, count: usize) {
    let is_in = |seen: &&Seen| seen.left.is_none() && seen.views.last().is_some_and(|view| view.1 == count);
    net.run_until(20, |net| net.alive().map(|(_, seen)| seen).filter(is_in).count() == count);
}

fn send(net: &mut Net, i: usize, options: SendOptions, payload: &[u8]) -> Result<(), CommandError> {
    let now = net.now;
    let (process, seen, _) = &mut net.nodes[i];
    let group = seen.group.expect("a group");
    process.multicast_with(now, group, options, &[payload], seen)?;
    process.poll(now, seen);
    net.drain(i);
    net.run(Duration::from_millis(5));
    Ok(())
}

fn to(domain: u8) -> SendOptions {
    SendOptions { domain: Some(DomainIndex(domain)), ..SendOptions::new(Order::Total, Stability::Plain) }
}

fn listed(net: &Net, i: usize) -> Vec<&str> {
    net.nodes[i].1.domains.iter().flatten().map(String::as_str).collect()
}

/// Who lacks a domain, or needs one that the group has not, is told which before any state travels.
#[test]
fn who_lacks_a_domain_or_needs_another_is_refused_by_name() {
    let mut net = Net::new(400, 10_000);
    add(&mut net, LEVEL, vec![own("", false), own("prices", false)]);
    await_members(&mut net, 1);
    assert_eq!(listed(&net, 0), ["", "prices"]);
    let cases = [
        (vec![own("", false)], DomainMismatch::Lacks(own("prices", false).domain)),
        (vec![own("", false), own("prices", false), own("x", false)], DomainMismatch::Needs(own("x", false).domain)),
        (
            vec![own("", false), OwnDomain { domain: Domain { name: "prices".into(), version: 2 }, is_optional: true }],
            DomainMismatch::Lacks(own("prices", false).domain),
        ),
    ];
    for (has, mismatch) in cases {
        let i = add(&mut net, LEVEL, has);
        net.run_until(10, |net| !net.nodes[i].1.refused.is_empty());
        let told = |event: &Event| matches!(event, Event::GroupDomains { name, mismatch: why } if **name == *"g" && *why == mismatch);
        assert!(net.nodes[i].1.refused.iter().all(told), "{:?}", net.nodes[i].1.refused);
        assert!(net.nodes[i].1.restored.is_empty() && !net.nodes[i].0.wants_group("g"));
    }
    let joiner = add(&mut net, LEVEL, vec![own("x", true), own("prices", true), own("", false)]);
    await_members(&mut net, 2);
    assert_eq!(listed(&net, joiner), ["", "prices"], "the first member lacks the other one");
    assert_eq!(net.nodes[0].1.views.len(), 2);
}

/// A domain comes when the last member that lacks it is gone, with a view of its own. Messages to it go from there on.
#[test]
fn a_domain_is_added_when_all_members_have_it() {
    for seed in 0..6 {
        let mut net = Net::new(410 + seed, 20_000);
        let has = || vec![own("", false), own("x", true)];
        add(&mut net, LEVEL, vec![own("", false)]);
        await_members(&mut net, 1);
        (0..2).for_each(|_| {
            add(&mut net, LEVEL, has());
        });
        await_members(&mut net, 3);
        net.run(Duration::from_secs(2));
        assert_eq!(listed(&net, 1), [""]);
        assert_eq!(send(&mut net, 1, to(1), b"early"), Err(CommandError::NoSuchDomain));
        let now = net.now;
        net.nodes[0].0.leave(now);
        net.run_until(20, |net| net.nodes[0].1.ended.is_some());
        net.nodes[0].2 = false;
        net.run_until(20, |net| [1, 2].iter().all(|i| listed(net, *i) == ["", "x"]));
        let counts = [1, 2].map(|i| net.nodes[i].1.views.len());
        assert_eq!(send(&mut net, 1, to(1), b"to x"), Ok(()));
        assert_eq!(send(&mut net, 2, to(0), b"to the state"), Ok(()));
        net.run(Duration::from_millis(100));
        let heard = vec![(1, b"to x".to_vec()), (0, b"to the state".to_vec())];
        assert_eq!([1, 2].map(|i| net.nodes[i].1.to_domains.clone()), [heard.clone(), heard.clone()]);
        let late = add(&mut net, LEVEL, has());
        await_members(&mut net, 3);
        assert_eq!(listed(&net, late), ["", "x"]);
        assert_eq!(
            [1, 2].map(|i| net.nodes[i].1.views.len()),
            counts.map(|views| views + 1),
            "no view comes for nothing"
        );
    }
}

/// A message to a domain is in total order, and asks nobody.
#[test]
fn only_ordered_messages_go_to_a_domain() {
    let mut net = Net::new(420, 0);
    add(&mut net, LEVEL, vec![own("", false)]);
    await_members(&mut net, 1);
    let of = |order, asks| SendOptions { order, asks, ..to(0) };
    assert_eq!(send(&mut net, 0, of(Order::Causal, false), b"m"), Err(CommandError::NotToDomain));
    assert_eq!(send(&mut net, 0, of(Order::Fifo, false), b"m"), Err(CommandError::NotToDomain));
    assert_eq!(send(&mut net, 0, of(Order::Total, true), b"m"), Err(CommandError::NotToDomain));
    assert_eq!(send(&mut net, 0, to(1), b"m"), Err(CommandError::NoSuchDomain));
    let long = vec![7; 5_000];
    assert_eq!(send(&mut net, 0, to(0), &long), Ok(()));
    net.run(Duration::from_millis(100));
    assert_eq!(net.nodes[0].1.to_domains, [(0, long)], "in pieces, too");
    let now = net.now;
    let twice = vec![own("", false), own("", true)];
    let asked = net.nodes[0].0.request_group(now, "h", Role::State, GroupTerms::default(), twice);
    assert_eq!(asked, Err(CommandError::BadDomains));
}

/// Those that take the state while others send get the messages to domains as such.
#[test]
fn messages_to_domains_are_replayed_as_such() {
    let mut replayed = 0;
    for seed in 0..6 {
        let mut net = Net::new(430 + seed, 10_000);
        let has = || vec![own("", false), own("x", false)];
        add(&mut net, LEVEL, has());
        await_members(&mut net, 1);
        let joiner = add(&mut net, LEVEL, has());
        let mut sent = 0_u8;
        while net.nodes[joiner].1.views.is_empty() {
            assert_eq!(send(&mut net, 0, to(1), &[sent]), Ok(()));
            sent += 1;
        }
        net.run(Duration::from_millis(100));
        let (all, some) = (&net.nodes[0].1.to_domains, &net.nodes[joiner].1.to_domains);
        assert!(all.ends_with(some), "{all:?} {some:?}");
        replayed += net.nodes[joiner].1.replayed;
    }
    assert!(replayed > 3, "{replayed}");
}

/// A process takes the state while a domain comes to the list that it lacks. It is refused, and what came is of no use to the
/// version of its program that asks next.
#[test]
fn who_is_refused_while_it_takes_the_state_begins_anew() {
    let mut refused = 0;
    // One of two gives the state; only that of the one that stays goes on to come.
    for seed in 0..8 {
        let mut net = Net::new(450 + seed, 0);
        add(&mut net, LEVEL, vec![own("", false)]);
        await_members(&mut net, 1);
        add(&mut net, LEVEL, vec![own("", false), own("x", true)]);
        await_members(&mut net, 2);
        let late = add(&mut net, LEVEL, vec![own("", false)]);
        net.run_until(20, |net| net.nodes[late].1.begun == 1);
        net.nodes[late].1.is_full = true;
        let now = net.now;
        net.nodes[0].0.leave(now);
        net.run_until(60, |net| net.nodes[0].1.ended.is_some());
        net.nodes[0].2 = false;
        net.run(Duration::from_secs(2));
        if listed(&net, 1) != ["", "x"] {
            continue; // it was a member before the other one left
        }
        refused += 1;
        assert!(net.nodes[late].1.refused.is_empty() && !net.nodes[late].1.state_complete, "it takes nothing now");
        net.nodes[late].1.is_full = false;
        net.run_until(5, |net| !net.nodes[late].1.refused.is_empty());
        let now = net.now;
        let has = vec![own("", false), own("x", false)];
        net.nodes[late].0.request_group(now, "g", Role::State, GroupTerms::default(), has).expect("a good name");
        net.run_until(20, |net| net.nodes[late].1.state_complete);
        assert_eq!(net.nodes[late].1.begun, 2);
        await_members(&mut net, 2);
    }
    assert!(refused > 1, "{refused} of 8");
}

/// Below level 10 there is no list. One comes after the rise when the members say what they have.
#[test]
fn a_group_of_an_earlier_level_gets_a_list_when_its_members_said_theirs() {
    let mut net = Net::new(440, 0);
    let below = DOMAINS_LEVEL - 1;
    add(&mut net, below, vec![own("", false), own("x", false)]);
    await_members(&mut net, 1);
    add(&mut net, LEVEL, vec![own("", false), own("x", true)]);
    await_members(&mut net, 2);
    assert_eq!(net.nodes[1].1.domains, None);
    assert_eq!(send(&mut net, 1, to(0), b"m"), Err(CommandError::NoSuchDomain));
    let now = net.now;
    assert!(net.nodes[1].0.raise_level(now, LEVEL).is_err(), "an earlier build is in it");
    net.nodes[0].0.leave(now);
    net.run_until(20, |net| net.nodes[0].1.ended.is_some());
    net.nodes[0].2 = false;
    await_members(&mut net, 1);
    let now = net.now;
    net.nodes[1].0.raise_level(now, LEVEL).expect("it can rise");
    net.run_until(20, |net| listed(net, 1) == ["", "x"]);
    add(&mut net, LEVEL, vec![own("", false)]);
    net.run_until(20, |net| !net.nodes[2].1.refused.is_empty());
}
