//! Whole cells over a small network with seeded delay and loss: the first smoke test of everything at once.
//! The simulator (crate `phalanx-sim`) does this in earnest.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::net::{Line, Net};
use phalanx_core::{Founding, GroupTerms, Order, Process, SEEDS_MAX, Uniformity, ViewNumber};

#[test]
fn five_processes_form_one_cell_and_one_group() {
    let net = Net::found(1, 0, 5);
    for (_, seen) in net.alive() {
        assert_eq!(seen.cell_views.last().map(|v| v.1), Some(5));
    }
    assert!(net.nodes[0].1.cell_views.len() <= 5, "{:?}", net.nodes[0].1.cell_views);
}

#[test]
fn abcasts_come_in_one_order_under_loss() {
    let mut net = Net::found(2, 50_000, 4);
    for round in 0..100u64 {
        for i in 0..4 {
            assert!(net.cast(i, Order::Total, Uniformity::from_flag(round % 3 == 0), &[i as u8; 100]));
        }
        net.run(Duration::from_millis(3));
    }
    net.run_until(20, |net| (0..4).all(|i| net.delivered(i) == 400));
    let all = |i: usize| net.nodes[i].1.views.iter().flat_map(|v| v.2.clone()).collect::<Vec<_>>();
    for i in 1..4 {
        assert_eq!(all(0), all(i));
    }
}

fn long_message() -> (Vec<u8>, u64) {
    let long: Vec<u8> = (0..64u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let sum = long.iter().map(|b| u64::from(*b)).sum();
    (long, sum)
}

#[test]
fn a_multicast_of_64_mib_arrives_whole_under_loss() {
    let mut net = Net::found(3, 50_000, 3);
    let (long, sum) = long_message();
    assert!(net.cast(1, Order::Causal, Uniformity::Plain, &long));
    net.run_until(600, |net| (0..3).all(|i| net.delivered(i) == 1));
    assert!(net.alive().all(|(_, s)| s.sum == sum));
}

#[test]
fn two_processes_exchange_messages_of_64_mib_under_loss() {
    let mut net = Net::found(4, 50_000, 2);
    let (long, sum) = long_message();
    let (now, to) = (net.now, [net.nodes[1].0.me(), net.nodes[0].0.me()]);
    for (node, to) in net.nodes.iter_mut().zip(to) {
        // One byte less than the limit, because the channel uses one for the kind of message.
        node.0.send(now, to, &long[1..]).expect("room");
    }
    net.run_until(600, |net| net.alive().all(|(_, s)| !s.messages.is_empty()));
    let expected = (long.len() - 1, sum - u64::from(long[0]));
    assert!(net.alive().all(|(_, s)| s.messages == [expected]));
}

#[test]
fn the_token_holder_dies_and_the_rest_agree() {
    for seed in 10..30 {
        let mut net = Net::found(seed, 20_000, 5);
        for round in 0..40u64 {
            for i in 0..5 {
                if net.nodes[i].2 {
                    net.cast(
                        i,
                        [Order::Total, Order::Causal, Order::Fifo][(round as usize + i) % 3],
                        Uniformity::from_flag(round % 5 == 0),
                        &[1; 50],
                    );
                }
            }
            net.run(Duration::from_millis(2));
            if round == 20 {
                net.nodes[0].2 = false;
            }
        }
        net.run_until(30, |net| net.alive().all(|(_, s)| s.views.last().is_some_and(|v| v.1 == 4)));
        net.run(Duration::from_secs(2));
        let by_view = |i: usize| {
            net.nodes[i]
                .1
                .views
                .iter()
                .map(|(v, n, lines)| {
                    let mut set = lines.clone();
                    set.sort();
                    let totals: Vec<Line> = lines.iter().filter(|l| l.3 == Order::Total).copied().collect();
                    (*v, *n, set, totals)
                })
                .filter(|(_, n, ..)| *n >= 4)
                .collect::<Vec<_>>()
        };
        for i in 2..5 {
            let (a, b) = (by_view(1), by_view(i));
            assert_eq!(a.last().map(|v| (v.0, v.1)), b.last().map(|v| (v.0, v.1)), "seed {seed}");
            for (x, y) in a.iter().rev().zip(b.iter().rev()) {
                assert_eq!(x, y, "seed {seed}, member {i}");
            }
        }
    }
}

#[test]
fn a_cut_off_member_says_so_and_is_told_when_it_is_back() {
    let mut net = Net::found(5, 0, 5);
    net.cut = (0..5).flat_map(|i| [(i, 0), (0, i)]).collect();
    net.run_until(20, |net| net.nodes[4].1.cell_views.last().is_some_and(|v| v.1 == 4));
    net.run_until(5, |net| net.nodes[0].1.non_primary == 1);
    assert!(net.nodes[0].1.ended.is_none());
    net.cut.clear();
    net.run_until(10, |net| net.nodes[0].1.ended.is_some());
    assert!(net.nodes[0].1.ended.as_ref().is_some_and(|e| e.starts_with("Excluded")));
}

#[test]
fn total_isolation_heals_in_the_same_incarnations() {
    let mut net = Net::found(6, 0, 5);
    net.cut = (0..5).flat_map(|i| (0..5).map(move |j| (i, j))).collect();
    net.run(Duration::from_secs(10));
    assert!(net.alive().all(|(_, s)| s.non_primary == 1 && s.ended.is_none()));
    net.cut.clear();
    net.run(Duration::from_secs(5));
    assert!(
        net.alive().all(|(p, s)| s.ended.is_none() && p.is_primary() && s.cell_views.last().is_some_and(|v| v.1 == 5))
    );
    assert!(net.cast(2, Order::Total, Uniformity::Uniform, b"still here"));
    net.run_until(5, |net| (0..5).all(|i| net.delivered(i) == 1));
}

#[test]
fn a_joiner_takes_the_state_under_traffic() {
    let mut net = Net::found_with(7, 10_000, 3, true);
    for round in 0..60 {
        for i in 0..3 {
            net.cast(i, Order::Total, Uniformity::Plain, &[round; 64]);
        }
        net.run(Duration::from_millis(2));
    }
    let j = net.add(Founding::Join);
    let now = net.now;
    net.nodes[j].0.join_group(now, "g", true, GroupTerms::default()).expect("a good name");
    for round in 0..400u64 {
        for i in 0..3 {
            net.cast(i, Order::Total, Uniformity::Plain, &[(round % 200) as u8; 64]);
        }
        net.run(Duration::from_millis(5));
    }
    net.run_until(10, |net| net.nodes[j].1.state_complete);
    net.run(Duration::from_secs(2));
    assert_eq!(net.nodes[j].1.sum, net.nodes[0].1.sum);
    assert!(net.nodes[j].1.restored.len() == 100_008);
}

fn counters(process: &Process) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    process.counters(&mut |name, count| _ = counts.insert(name, count));
    counts
}

/// An operator sees only the counters of a process. They report what its application and the network saw.
#[test]
fn counters_tell_what_was_seen() {
    const LEN: u64 = 64;
    let mut net = Net::found_with(13, 10_000, 3, true);
    let mut accepted = [0u64; 3];
    let mut cast_all = |net: &mut Net| {
        for (i, accepted) in accepted.iter_mut().enumerate() {
            *accepted += u64::from(net.cast(i, Order::Total, Uniformity::Plain, &[1; LEN as usize]));
        }
        net.run(Duration::from_millis(2));
    };
    (0..50).for_each(|_| cast_all(&mut net));
    let j = net.add(Founding::Join);
    let now = net.now;
    net.nodes[j].0.join_group(now, "g", true, GroupTerms::default()).expect("a good name");
    (0..1000).for_each(|_| cast_all(&mut net));
    net.run_until(10, |net| net.nodes[j].1.state_complete);
    net.run(Duration::from_secs(2));
    let counts: Vec<_> = net.nodes.iter().map(|(process, _, _)| counters(process)).collect();
    for (i, (counts, (process, seen, _))) in counts.iter().zip(&net.nodes).enumerate() {
        let delivered = (net.delivered(i) + seen.replayed) as u64;
        assert_eq!(counts["delivered"], delivered, "{i}");
        let sent = accepted.get(i).copied().unwrap_or(0);
        assert_eq!((counts["sent"], counts["sent_bytes"]), (sent, LEN * sent), "{i}");
        assert_eq!(counts["datagrams_sent"], seen.packets, "{i}");
        assert!(counts["retransmissions"] > 0 || i == j, "{i} lost one packet in a hundred: {counts:?}");
        assert_eq!(counts["transfers_taken"], u64::from(i > 0), "{i}");
        let (_, _, in_view) = seen.views.last().expect("in a view");
        let own = in_view.iter().filter(|(_, sender, ..)| *sender == process.me().0).count();
        let stream = process.streams().into_iter().map(|s| (s.sent, s.delivered)).collect::<Vec<_>>();
        assert_eq!(stream, [(own as u64, in_view.len() as u64)], "{i}");
    }
    assert!(accepted.iter().all(|accepted| *accepted > 500), "{accepted:?}");
    assert!(net.nodes[j].1.replayed > 0);
    assert_eq!(counts.iter().map(|counts| counts["transfers_given"]).sum::<u64>(), 3);
}

#[test]
fn a_leaver_leaves_and_the_last_two_may_go() {
    let mut net = Net::found(8, 0, 2);
    let now = net.now;
    net.nodes[0].0.leave(now);
    net.run_until(10, |net| net.nodes[0].1.ended.is_some());
    net.run_until(10, |net| net.nodes[1].1.cell_views.last().is_some_and(|v| v.1 == 1));
    let now = net.now;
    net.nodes[1].0.leave(now);
    net.run_until(10, |net| net.nodes[1].1.ended.is_some());
}

#[test]
fn named_founders_form_view_1_together() {
    let names: Vec<String> = (0..3).map(|i| format!("m{i}")).collect();
    let mut net = Net::new(9, 20_000);
    for _ in 0..3 {
        net.add(Founding::Named(names.clone()));
    }
    net.run_until(20, |net| net.alive().all(|(_, s)| s.cell_views.last() == Some(&(ViewNumber(1), 3))));
}

#[test]
fn a_process_keeps_as_many_seeds_as_it_may_and_asks_them_all() {
    let mut net = Net::new(12, 0);
    net.add(Founding::Join);
    let (process, seen, _) = &mut net.nodes[0];
    let many: Vec<SocketAddr> = (0..5000).map(|port| SocketAddr::from(([127, 0, 0, 2], 10_000 + port))).collect();
    process.add_seeds(&many);
    let (mut now, mut asked) = (net.now, std::collections::BTreeSet::new());
    // Four at a time, every 100 ms and a little more.
    while now.since(net.now) < Duration::from_secs(240) {
        process.poll(now, seen);
        asked.extend(seen.out.drain(..).map(|(_, to, _)| to));
        now = process.deadline().expect("it looks for its cell").max(now);
    }
    // Its own address is among the first, and is not asked.
    assert_eq!(asked.len(), SEEDS_MAX - 1);
    let kept_of_many = many.iter().filter(|seed| asked.contains(*seed)).count();
    assert!(many[..kept_of_many].iter().all(|seed| asked.contains(seed)), "those that came first");
}
