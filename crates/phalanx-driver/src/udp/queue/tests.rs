//! The plan of a flush, and what stays when the kernel takes only a part. No sockets: these run under Miri.

use phalanx_core::rng::Rng;

use super::*;

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn queue() -> SendQueue {
    SendQueue::new(1 << 20, true)
}

/// Destination (by port), packets and bytes of each planned run.
fn planned(queue: &mut SendQueue) -> Vec<(u16, usize, usize)> {
    queue.plan();
    let port = |run: &Run| format!("{:?}", queue.destinations.at(run.to).name).rsplit(':').next().map(str::to_owned);
    let port = |run: &Run| port(run).and_then(|p| p.trim_end_matches(')').parse().ok()).expect("a port");
    queue.runs.iter().map(|run| (port(run), run.packets, run.bytes)).collect()
}

/// The bytes of a run, from its pieces.
fn bytes_of(queue: &SendQueue, run: &Run) -> Vec<u8> {
    let pieces = &queue.pieces[run.piece..run.piece + run.pieces];
    pieces.iter().flat_map(|p| &queue.bytes[p.start..p.start + p.len_bytes]).copied().collect()
}

#[test]
fn packets_of_one_length_make_a_run_and_a_shorter_one_ends_it() {
    let mut queue = queue();
    for len in [100, 100, 100, 60, 60, 61, 100, 0, 0, 5] {
        queue.push(&[address(1)], &vec![7; len]);
    }
    let runs = planned(&mut queue);
    assert_eq!(runs, [(1, 4, 360), (1, 1, 60), (1, 1, 61), (1, 1, 100), (1, 1, 0), (1, 1, 0), (1, 1, 5)]);
    assert_eq!(queue.runs[0].segment, Some(100));
    assert_eq!(queue.runs[0].pieces, 1, "what lies together is one piece");
    assert!(queue.runs[1..].iter().all(|run| run.segment.is_none()));
}

#[test]
fn runs_are_bounded_in_packets_and_bytes() {
    let mut queue = queue();
    for _ in 0..100 {
        queue.push(&[address(1)], &[1; 10]);
    }
    assert_eq!(planned(&mut queue), [(1, 64, 640), (1, 36, 360)]);
    let mut queue = self::queue();
    for _ in 0..3 {
        queue.push(&[address(1)], &[1; 32_753]);
    }
    queue.push(&[address(1)], &[1; 32_754]);
    assert_eq!(planned(&mut queue), [(1, 2, 65_506), (1, 1, 32_753), (1, 1, 32_754)]);
}

#[test]
fn destinations_take_turns_and_share_the_bytes() {
    let mut queue = queue();
    let all = [address(1), address(2), address(3)];
    for i in 0..70_u8 {
        queue.push(&all, &[i; 8]);
    }
    queue.push(&[address(2)], &[99; 8]);
    assert_eq!(queue.bytes.len(), 71 * 8, "the bytes are kept once");
    assert_eq!(planned(&mut queue), [(1, 64, 512), (2, 64, 512), (3, 64, 512), (1, 6, 48), (2, 7, 56), (3, 6, 48)]);
}

#[test]
fn a_run_of_what_lies_apart_has_several_pieces() {
    let mut queue = queue();
    for i in 0..4_u8 {
        queue.push(&[address(1)], &[i; 8]);
        queue.push(&[address(2)], &[100 + i; 9]);
    }
    assert_eq!(planned(&mut queue), [(1, 4, 32), (2, 4, 36)]);
    assert_eq!(queue.runs.iter().map(|run| run.pieces).collect::<Vec<_>>(), [4, 4]);
    let expected: Vec<u8> = (0..4).flat_map(|i| [100 + i; 9]).collect();
    assert_eq!(bytes_of(&queue, &queue.runs[1]), expected);
}

#[test]
fn one_call_never_has_more_pieces_than_it_can_take() {
    let mut queue = queue();
    let ports: Vec<SocketAddr> = (1..=40).map(address).collect();
    for i in 0..800 {
        queue.push(&[ports[i % 40]], &[1; 8]);
    }
    queue.plan();
    assert!(queue.pieces.len() <= PIECES_MAX && queue.runs.len() <= RUNS_MAX);
    let planned: usize = queue.runs.iter().map(|run| run.packets).sum();
    assert!(planned >= PIECES_MAX / 2, "{planned}");
}

#[test]
fn without_segmentation_each_packet_goes_alone() {
    let mut queue = SendQueue::new(1 << 20, false);
    for _ in 0..3 {
        queue.push(&[address(1), address(2)], &[1; 10]);
    }
    assert_eq!(planned(&mut queue), [(1, 1, 10), (2, 1, 10), (1, 1, 10), (2, 1, 10), (1, 1, 10), (2, 1, 10)]);
}

#[test]
fn no_run_is_longer_than_the_path_is_known_to_take() {
    let mut queue = queue();
    for _ in 0..2 {
        queue.push(&[address(1), address(2)], &[1; 1_253]);
        queue.push(&[address(1)], &[1; 1_252]);
    }
    assert!(queue.destinations.learn_path(address(1), 1_280));
    assert!(!queue.destinations.learn_path(address(2), 1_280), "the same host: known by now");
    assert!(planned(&mut queue).iter().all(|(_, packets, _)| *packets == 1));
    for _ in 0..3 {
        queue.push(&[address(2)], &[1; 1_252]);
    }
    assert!(planned(&mut queue).contains(&(2, 3, 3 * 1_252)));
}

/// However much the kernel takes each time, each destination gets all its packets, in order.
#[test]
fn what_is_not_taken_stays_in_order() {
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let mut queue = SendQueue::new(4_096, rng.below(4) > 0);
        let mut expected: Vec<Vec<u8>> = vec![Vec::new(); 5];
        let mut got = expected.clone();
        for round in 0..100_u8 {
            for _ in 0..rng.below(8) {
                let packet = vec![round; 1 + rng.below(3) as usize];
                let to: Vec<SocketAddr> = (0..5).filter(|_| rng.below(2) == 0).map(address).collect();
                let taken = queue.push(&to, &packet);
                for to in &to[..taken] {
                    expected[usize::from(to.port())].extend(&packet);
                }
            }
            let calls = rng.below(3);
            for _ in 0..calls {
                let ports: Vec<u16> = planned(&mut queue).iter().map(|(port, ..)| *port).collect();
                let count = rng.below(ports.len() as u64 + 1) as usize;
                for (i, port) in ports[..count].iter().enumerate() {
                    let run = queue.runs[i];
                    got[usize::from(*port)].extend(bytes_of(&queue, &run));
                    queue.take(run);
                }
            }
            queue.compact();
        }
        while queue.left > 0 {
            for (i, (port, ..)) in planned(&mut queue).into_iter().enumerate() {
                let run = queue.runs[i];
                got[usize::from(port)].extend(bytes_of(&queue, &run));
                queue.take(run);
            }
        }
        queue.compact();
        assert!(queue.bytes.is_empty() && queue.packets.is_empty() && queue.active.is_empty());
        assert_eq!(got, expected, "seed {seed}");
    }
}

#[test]
fn the_table_of_destinations_is_bounded() {
    let mut queue = queue();
    for i in 0..20_000_u32 {
        let to = SocketAddr::from((std::net::Ipv4Addr::from(0x0a00_0000 + i), 9));
        queue.push(&[to], &[1]);
        while queue.left > 0 {
            queue.plan();
            queue.runs.clone().into_iter().for_each(|run| queue.take(run));
        }
        queue.compact();
        let place = queue.destinations.find(to);
        assert!(place <= 1_024 + 1, "{place}");
    }
}
