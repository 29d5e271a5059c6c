//! Flow control of calls: windows, response credits, timers.

use super::*;

const MS: Duration = Duration::from_millis(1);

fn opened() -> World {
    let mut world = World::new();
    world.run(MS);
    world
}

/// Each answer makes room for the next request that waits for it. No timer is needed.
#[test]
fn whoever_waits_for_room_goes_on_when_an_answer_comes() {
    let server = EndpointOptions { receive_bytes: 16 << 10, ..options(2, 1472, true) };
    let mut world = World::with(options(1, 1472, false), server);
    world.run(MS);
    let call_ids: Vec<ClientCallId> = (0..8).map(|_| world.call(b"x")).collect();
    assert!(world.at_client.sent.len() < 8, "the server's buffer does not take all of them at once");
    world.carry();
    assert!(call_ids.iter().all(|call_id| world.outcome(*call_id).is_some()), "in no time");
}

/// A session starts with this many packets under way, however much the server's buffer holds.
#[test]
fn no_more_goes_out_at_once_than_the_congestion_window_lets() {
    let server = EndpointOptions { receive_bytes: 16 << 20, ..options(2, 1472, true) };
    for window_packets in [4, 16, 40] {
        let limits = EndpointLimits { window_packets, ..EndpointLimits::default() };
        let mut world = World::with(EndpointOptions { limits, ..options(1, 1472, false) }, server.clone());
        world.run(MS);
        world.call(&pattern(400_000));
        assert_eq!(world.at_client.sent.len(), window_packets as usize);
    }
}

/// Clients share the server's buffer. When others have gone, the next answer grants the remaining one more.
#[test]
fn who_is_left_may_have_more_under_way() {
    let (mut world, others) = eight_clients();
    for other in others {
        world.client.close(world.now, other, &mut world.at_client);
    }
    world.carry();
    let short = world.call(b"ab");
    world.carry();
    world.assert_answer(short, b"ba");
    world.call(&pattern(400_000));
    assert!((ALL_OF_IT / 2..=ALL_OF_IT).contains(&charged(&world)), "{} bytes of the only client", charged(&world));
}

/// Part of a server's buffer for requests: half of three quarters.
const ALL_OF_IT: u64 = (1 << 20) / 4 * 3 / 2;

fn charged(world: &World) -> u64 {
    world.at_client.sent.iter().map(|(_, packet)| truesize(packet.len() as u64)).sum()
}

/// A client that has called as one of eight, and the sessions of the others.
fn eight_clients() -> (World, [SessionId; 7]) {
    let wide = EndpointLimits { window_packets: 1_000, ..EndpointLimits::default() };
    let mut world = World::with(EndpointOptions { limits: wide, ..options(1, 1472, false) }, options(2, 1472, true));
    let others = [0; 7].map(|_| {
        let last = world.client.connect(world.now, SERVER, &mut world.at_client);
        std::mem::replace(&mut world.session, last)
    });
    world.carry();
    let long = world.call(&pattern(400_000));
    assert!(charged(&world) <= ALL_OF_IT / 8, "{} bytes of one of eight clients", charged(&world));
    world.carry();
    world.assert_answer(long, &reversed(&pattern(400_000)));
    (world, others)
}

/// The grant may be lost, with an answer or alone. The next packet repeats it.
#[test]
fn who_is_left_is_told_with_the_next_packet_if_the_first_is_lost() {
    let (mut world, others) = eight_clients();
    for other in others {
        world.client.close(world.now, other, &mut world.at_client);
    }
    world.carry();
    // The answer, which carries the grant, arrives only the second time, after a probe.
    let short = world.call(b"ab");
    world.lost = world.carried + 2;
    world.run(20 * MS);
    world.assert_answer(short, b"ba");
    let long = world.call(&pattern(400_000));
    assert!((ALL_OF_IT / 2..=ALL_OF_IT).contains(&charged(&world)), "{} bytes of the only client", charged(&world));
    world.carry();
    world.assert_answer(long, &reversed(&pattern(400_000)));
}

/// A long request that began while there were others goes on with their share, without an answer in between.
#[test]
fn who_is_left_hears_of_it_while_its_request_is_under_way() {
    let (mut world, others) = eight_clients();
    world.call(&pattern(800_000));
    let began = charged(&world);
    for other in others {
        world.client.close(world.now, other, &mut world.at_client);
    }
    let mut most = began;
    for _ in 0..10 {
        for (_, mut packet) in std::mem::take(&mut world.at_client.sent) {
            let origin = Origin::Network(CLIENT);
            world.server.handle_packet(world.now, origin, Packet::Lent(&mut packet), &mut world.at_server);
        }
        world.server.poll(world.now, &mut world.at_server);
        for (_, mut packet) in std::mem::take(&mut world.at_server.sent) {
            let origin = Origin::Network(SERVER);
            world.client.handle_packet(world.now, origin, Packet::Lent(&mut packet), &mut world.at_client);
        }
        world.client.poll(world.now, &mut world.at_client);
        most = most.max(charged(&world));
    }
    assert!(most >= ALL_OF_IT / 2, "{most} bytes of the only client, which began with {began}");
}

/// A grant that arrives late is out of date.
#[test]
fn a_credit_that_newer_ones_overtook_says_nothing() {
    let (mut world, others) = eight_clients();
    // Granted as one of eight, in a packet that is late.
    world.call(b"ab");
    for (_, mut packet) in std::mem::take(&mut world.at_client.sent) {
        world.server.handle_packet(world.now, Origin::Network(CLIENT), Packet::Lent(&mut packet), &mut world.at_server);
    }
    let late = std::mem::take(&mut world.at_server.sent);
    for other in others {
        world.client.close(world.now, other, &mut world.at_client);
    }
    world.carry();
    let short = world.call(b"cd");
    world.carry();
    world.assert_answer(short, b"dc");
    for (_, mut packet) in late {
        world.client.handle_packet(world.now, Origin::Network(SERVER), Packet::Lent(&mut packet), &mut world.at_client);
    }
    world.carry();
    world.call(&pattern(400_000));
    assert!(charged(&world) >= ALL_OF_IT / 2, "{} bytes of the only client", charged(&world));
}

/// Answers as long as those before come at once: the server need not announce them first.
#[test]
fn an_answer_as_long_as_those_before_is_allowed_for() {
    let mut world = opened();
    world.at_server.later = Some(b'L');
    for _ in 0..16 {
        let call_id = world.call(b"L");
        world.carry();
        let (call, _) = world.at_server.waiting.pop().expect("it runs");
        world.server.answer(world.now, call, Some(pattern(20_000).into()), &mut world.at_server).expect("wanted");
        world.carry();
        world.assert_answer(call_id, &pattern(20_000));
    }
    world.call(b"L");
    world.carry();
    let (call, _) = world.at_server.waiting.pop().expect("it runs");
    world.server.answer(world.now, call, Some(pattern(20_000).into()), &mut world.at_server).expect("wanted");
    let bytes: usize = world.at_server.sent.iter().map(|(_, packet)| packet.len()).sum();
    assert!(bytes > 20_000, "{bytes} bytes before the client says anything");
}

#[test]
fn a_packet_that_two_others_overtake_is_not_lost_and_one_that_three_overtake_is() {
    for (overtake, lost) in [(2, 0), (3, 1)] {
        let mut world = opened();
        let request = pattern(14_000);
        let call_id = world.call(&request);
        let first = world.at_client.sent.pop_front().expect("it goes out");
        let rest = world.at_client.sent.split_off(overtake);
        world.carry();
        assert_eq!(world.client.counters().lost, lost, "{overtake} overtake it");
        world.at_client.sent.push_back(first);
        world.at_client.sent.extend(rest);
        world.carry();
        world.assert_answer(call_id, &reversed(&request));
        assert_eq!(world.client.counters().probes, 0);
    }
}

/// The first fragment that may be lost is retransmitted. The ack for it proves the others lost.
#[test]
fn one_probe_finds_all_that_was_lost_at_the_end_of_an_answer() {
    for lost in 1..=5 {
        let mut world = opened();
        let request = pattern(14_000);
        for _ in 0..20 {
            world.call(&request);
            world.carry();
        }
        world.waits = Some(VecDeque::new());
        let call_id = world.call(&request);
        world.carry();
        let mut answer = world.waits.take().expect("it waits");
        assert!(answer.len() >= 10, "{} packets: all of the answer", answer.len());
        answer.truncate(answer.len() - lost);
        world.at_server.sent = answer;
        // The minimum of a timer is 5 ms.
        world.run(6 * MS);
        world.assert_answer(call_id, &reversed(&request));
        assert_eq!(world.client.counters().probes, 1, "the last {lost} were lost");
    }
}

/// Unanswered probes grow rarer. News from the server resets that.
#[test]
fn after_word_from_the_server_probes_begin_anew() {
    let mut world = opened();
    world.waits = Some(VecDeque::new());
    world.call(&pattern(100_000));
    // After 5, 15 and 35 ms. The next would be sent after 75 ms.
    world.run(60 * MS);
    let probes = world.client.counters().probes;
    assert_eq!(probes, 3, "the server's acks wait");
    // The last ack shows that everything sent has arrived.
    let (_, mut packet) = world.waits.take().and_then(|mut waits| waits.pop_back()).expect("they wait");
    let packet = Packet::Lent(&mut packet);
    world.client.handle_packet(world.now, Origin::Network(SERVER), packet, &mut world.at_client);
    world.client.poll(world.now, &mut world.at_client);
    assert!(!world.at_client.sent.is_empty(), "more of the request goes out");
    assert_eq!((world.client.counters().lost, world.client.counters().probes), (0, probes));
    world.lose = |_| true;
    world.run(4 * MS);
    assert_eq!(world.client.counters().probes, probes);
    world.run(16 * MS);
    assert!(world.client.counters().probes > probes, "40 ms after the last is too late");
}

#[test]
fn a_session_that_nobody_opens_is_asked_for_ever_more_seldom() {
    let mut world = World::new();
    world.call(b"x");
    let mut asked = Vec::new();
    for ms in 0..9_000 {
        asked.extend(world.at_client.sent.drain(..).map(|_| ms));
        world.now += MS;
        world.client.poll(world.now, &mut world.at_client);
    }
    let pauses: Vec<i32> = asked.windows(2).map(|two| two[1] - two[0]).collect();
    assert_eq!(pauses[..6], [20, 40, 80, 160, 320, 640]);
    assert!(pauses[6..].iter().all(|pause| *pause == 640), "no more seldom than that: {pauses:?}");
}

/// Timers learn how long answers wait on their way, from those that come without a probe, in any session. A shorter
/// timer would probe for nothing.
#[test]
fn timers_run_longer_than_answers_were_silent_of_late() {
    let mut world = World::new();
    world.client.note_gap(world.now, Duration::from_micros(3));
    // The session opens after 2 ms, and the first calls take as long.
    for _ in 0..5 {
        world.now += 2 * MS;
        world.carry();
        world.call(b"slow");
    }
    for _ in 0..60 {
        world.carry();
        world.call(b"fast");
    }
    world.carry();
    assert_eq!(world.client.counters().probes, 0);
    world.call(b"lost");
    world.at_client.sent.clear();
    let began = world.now;
    while world.client.counters().probes == 0 {
        world.now += MS / 10;
        world.client.poll(world.now, &mut world.at_client);
    }
    let took = world.now.since(began);
    assert!((4 * MS..5 * MS).contains(&took), "{took:?}");
}

/// After a probe, an answer does not show how long the way is, but how long the handler took. This holds for long
/// requests and short ones.
#[test]
fn an_answer_that_was_asked_for_ends_no_round_trip_of_a_long_request() {
    let mut world = opened();
    world.at_server.later = Some(0);
    for _ in 0..20 {
        // The server's acks for the request are lost.
        world.waits = Some(VecDeque::new());
        let call_id = world.call(&pattern(3_000));
        world.run(60 * MS);
        world.waits = None;
        let (call, _) = world.at_server.waiting.pop().expect("it runs");
        world.server.answer(world.now, call, Some(b"done".into()), &mut world.at_server).expect("wanted");
        world.carry();
        world.assert_answer(call_id, b"done");
    }
    assert!(world.client.counters().probes > 20);
    let call_id = world.call(b"lost");
    world.at_client.sent.clear();
    world.run(6 * MS);
    world.assert_answer(call_id, b"tsol");
}
