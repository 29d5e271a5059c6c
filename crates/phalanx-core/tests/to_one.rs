//! Messages to one member of a group, in whole cells (`docs/to-one.md`).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::net::Net;
use phalanx_core::{
    CommandError, Incarnation, MESSAGE_BYTES_MAX, Order, ToOneKind, ToOneOutcome, Uniformity, process::TO_ONE_LEVEL,
};

fn who(net: &Net, i: usize) -> Incarnation {
    net.nodes[i].0.me()
}

fn send(net: &mut Net, from: usize, to: usize, payload: &[u8]) -> Result<(), CommandError> {
    let receiver = who(net, to);
    let now = net.now;
    let (process, seen, _) = &mut net.nodes[from];
    let group = seen.group.expect("it is in the group");
    let sent = process.send_to(group, receiver, ToOneKind::Message, &[payload]);
    process.poll(now, seen);
    net.drain(from);
    sent.map(|_view| ())
}

/// How many messages to `to` had each outcome at `from`.
fn outcomes(net: &Net, from: usize, to: Incarnation) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for (_, outcome, messages) in net.nodes[from].1.settled.iter().filter(|(of, ..)| *of == to) {
        let name = match outcome {
            ToOneOutcome::Delivered => "delivered",
            ToOneOutcome::NotDelivered => "not delivered",
            ToOneOutcome::InDoubt => "in doubt",
        };
        *counts.entry(name).or_default() += messages;
    }
    counts
}

#[test]
fn a_message_to_one_comes_to_that_one_once_and_its_sender_is_told() {
    let mut net = Net::found(1, 50_000, 3);
    for n in 0..100_u8 {
        send(&mut net, 0, 1, &[n]).expect("there is room");
        send(&mut net, 0, 0, &[n]).expect("a member may send to itself");
    }
    net.run(Duration::from_secs(2));
    for i in [0, 1] {
        let came: Vec<u8> = net.nodes[i].1.to_one.iter().map(|(_, payload, _)| payload[0]).collect();
        assert_eq!(came, (0..100).collect::<Vec<u8>>(), "at {i}, in the order sent");
        assert_eq!(outcomes(&net, 0, who(&net, i)), BTreeMap::from([("delivered", 100)]));
    }
    assert!(net.nodes[2].1.to_one.is_empty());
}

/// The path from the sender is fast, and that of what it had delivered is cut off.
#[test]
fn it_waits_for_what_its_sender_had_delivered() {
    for (order, uniformity) in [(Order::Fifo, Uniformity::Plain), (Order::Total, Uniformity::Plain)] {
        let mut net = Net::found(2, 0, 3);
        net.cut = vec![(0, 2)];
        assert!(net.cast(0, order, uniformity, b"its past"));
        net.run_until(5, |net| net.delivered(1) == 1);
        send(&mut net, 1, 2, b"after it").expect("there is room");
        net.run(Duration::from_millis(300));
        assert!(net.nodes[2].1.to_one.is_empty(), "{order:?}: its past has not come");
        net.cut.clear();
        net.run_until(5, |net| !net.nodes[2].1.to_one.is_empty());
        let (_, _, delivered) = &net.nodes[2].1.to_one[0];
        assert_eq!(delivered.get(&who(&net, 0).0), Some(&1), "{order:?}");
    }
}

/// What the sender itself multicast before is its past, too, whether or not it has a place in the total order yet.
#[test]
fn it_waits_for_what_its_sender_had_multicast() {
    let mut net = Net::found(3, 100_000, 3);
    for n in 0..50_u8 {
        assert!(net.cast(1, Order::Total, Uniformity::Uniform, &[n]));
        let sent = u64::from(n) + 1;
        net.run_until(5, |net| !matches!(net.nodes[1].0.unsent().next(), Some((_, 1..))));
        send(&mut net, 1, 2, &sent.to_le_bytes()).expect("nothing waits");
    }
    net.run_until(20, |net| net.nodes[2].1.to_one.len() == 50);
    for (_, payload, delivered) in &net.nodes[2].1.to_one {
        let before = u64::from_le_bytes(payload[..].try_into().expect("eight"));
        assert!(delivered.get(&who(&net, 1).0).is_some_and(|count| *count >= before), "{before}: {delivered:?}");
    }
}

#[test]
fn the_receiver_of_a_message_bounds_its_sender_and_nobody_else() {
    let mut net = Net::found(4, 0, 3);
    net.nodes[2].1.is_full = true;
    let mut sent = 0;
    while send(&mut net, 0, 2, &[7; 10_000]).is_ok() {
        sent += 1;
        net.run(Duration::from_millis(1));
    }
    assert_eq!(sent, 26, "a window of 256 KiB");
    net.run(Duration::from_secs(1));
    assert_eq!(send(&mut net, 0, 2, &[7; 10_000]), Err(CommandError::NoWindow));
    // They have their place there, though nobody has taken them, and the channel goes on.
    assert_eq!(outcomes(&net, 0, who(&net, 2)), BTreeMap::from([("delivered", 26)]));
    send(&mut net, 1, 2, b"another sender").expect("it has a window of its own");
    send(&mut net, 0, 1, b"another receiver").expect("it has a window of its own");
    net.run(Duration::from_secs(1));
    assert_eq!(outcomes(&net, 1, who(&net, 2)), BTreeMap::from([("delivered", 1)]));
    assert_eq!(net.nodes[1].1.to_one.len(), 1);
    net.nodes[2].1.is_full = false;
    net.run(Duration::from_secs(1));
    assert_eq!(net.nodes[2].1.to_one.len(), 27);
    send(&mut net, 0, 2, &vec![7; 1 << 20]).expect("a long one goes when nothing is under way");
    assert_eq!(send(&mut net, 0, 2, b"no more"), Err(CommandError::NoWindow));
    net.run_until(20, |net| net.nodes[2].1.to_one.len() == 28);
    net.run(Duration::from_millis(100));
    send(&mut net, 0, 2, b"again").expect("there is room again");
}

#[test]
fn a_message_that_cannot_go_is_refused() {
    let mut net = Net::found(5, 0, 2);
    let (process, seen, _) = &mut net.nodes[0];
    let (me, group) = (process.me(), seen.group.expect("it is in the group"));
    let view = seen.views.last().expect("a view").0;
    let stranger = process.send_to(group, Incarnation(77), ToOneKind::Message, &[b"x"]);
    assert_eq!(stranger, Err(CommandError::NoSuchMember { view }));
    let other = process.send_to(phalanx_core::GroupId(99), me, ToOneKind::Message, &[b"x"]);
    assert_eq!(other, Err(CommandError::NotMember));
    let long = vec![0; MESSAGE_BYTES_MAX];
    assert_eq!(process.send_to(group, me, ToOneKind::Message, &[&long]), Err(CommandError::TooLong(long.len())));
    // Without a quorum nothing goes.
    net.nodes[1].2 = false;
    net.run_until(20, |net| net.nodes[0].1.views.last().is_some_and(|view| view.1 == 1));
    assert_eq!(send(&mut net, 0, 0, b"alone"), Ok(()));
}

#[test]
fn below_its_level_there_is_none() {
    let mut net = Net::new(6, 0);
    let timing = phalanx_core::Timing::default;
    net.add_with(phalanx_core::Founding::Alone, TO_ONE_LEVEL - 1, timing(), phalanx_core::Limits::default());
    let now = net.now;
    net.nodes[0].0.join_group(now, "g", false, phalanx_core::GroupTerms::default()).expect("a good name");
    net.run_until(10, |net| net.nodes[0].1.group.is_some());
    let refused = send(&mut net, 0, 0, b"x");
    assert_eq!(refused, Err(CommandError::BelowLevel { level: TO_ONE_LEVEL - 1, needed: TO_ONE_LEVEL }));
}

/// The receiver leaves the group while messages are on their way to it. It says which ones it had.
#[test]
fn who_leaves_the_group_says_what_it_had() {
    let mut undelivered = 0;
    for seed in 10..30 {
        let mut net = Net::found(seed, 20_000, 3);
        let receiver = who(&net, 2);
        let group = net.nodes[2].1.group.expect("it is in the group");
        let now = net.now;
        net.nodes[2].0.leave_group(now, group).expect("it is in the group");
        let mut sent = 0;
        loop {
            match send(&mut net, 0, 2, &[1]) {
                Ok(()) => sent += 1,
                Err(CommandError::NoSuchMember { .. }) => break,
                Err(other) => panic!("{other}"),
            }
            net.run(Duration::from_micros(700));
        }
        net.run(Duration::from_secs(3));
        let told = outcomes(&net, 0, receiver);
        let came = net.nodes[2].1.to_one.len() as u64;
        assert_eq!(told.get("delivered").copied().unwrap_or(0), came, "seed {seed}: {told:?}");
        assert_eq!(told.values().sum::<u64>(), sent, "seed {seed}: {told:?}");
        assert_eq!(told.get("in doubt"), None, "seed {seed}: both live");
        undelivered += told.get("not delivered").copied().unwrap_or(0);
    }
    assert!(undelivered > 0, "no message met the leave");
}

#[test]
fn what_was_sent_to_a_member_that_died_is_in_doubt() {
    let mut net = Net::found(31, 0, 3);
    let receiver = who(&net, 2);
    send(&mut net, 0, 2, b"one").expect("there is room");
    net.run(Duration::from_millis(100));
    net.nodes[2].2 = false;
    send(&mut net, 0, 2, b"two").expect("it is in the view");
    net.run_until(20, |net| net.nodes[0].1.views.last().is_some_and(|view| view.1 == 2));
    assert_eq!(outcomes(&net, 0, receiver), BTreeMap::from([("delivered", 1), ("in doubt", 1)]));
    assert!(matches!(send(&mut net, 0, 2, b"three"), Err(CommandError::NoSuchMember { .. })));
}

/// A sender that leaves waits until it knows what became of its messages.
#[test]
fn who_leaves_knows_what_became_of_its_messages() {
    for of_cell in [true, false] {
        let mut net = Net::found(32, 100_000, 3);
        let (receiver, group) = (who(&net, 2), net.nodes[0].1.group.expect("it is in the group"));
        for _ in 0..20 {
            send(&mut net, 0, 2, b"before the leave").expect("there is room");
        }
        let now = net.now;
        match of_cell {
            true => net.nodes[0].0.leave(now),
            false => net.nodes[0].0.leave_group(now, group).expect("it is in the group"),
        }
        net.run_until(20, |net| net.nodes[0].1.ended.is_some() || net.nodes[0].1.left.is_some());
        assert_eq!(outcomes(&net, 0, receiver), BTreeMap::from([("delivered", 20)]), "of the cell: {of_cell}");
        assert_eq!(net.nodes[2].1.to_one.len(), 20);
    }
}

/// Its sender left it for good in a view that the receiver has yet to install.
#[test]
fn it_comes_before_the_view_without_its_sender() {
    let mut net = Net::found(33, 0, 3);
    net.cut = vec![(0, 2)];
    assert!(net.cast(0, Order::Fifo, Uniformity::Plain, b"its past"));
    net.run_until(5, |net| net.delivered(1) == 1);
    send(&mut net, 1, 2, b"after it").expect("there is room");
    net.run(Duration::from_millis(20));
    // The one that has the past reports it, and the view ends with it. The sender dies right after its report or later.
    net.nodes[1].2 = false;
    net.cut.clear();
    net.run_until(30, |net| net.nodes[2].1.views.last().is_some_and(|view| view.1 == 2));
    let (sender, payload, delivered) = &net.nodes[2].1.to_one[0];
    assert_eq!((*sender, &payload[..]), (who(&net, 1), &b"after it"[..]));
    assert_eq!(delivered.get(&who(&net, 0).0), Some(&1));
}
