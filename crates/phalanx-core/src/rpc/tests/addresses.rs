//! Addresses of endpoints: clients that move, servers with several addresses, and senders with a forged address.

use super::*;

const MS: Duration = Duration::from_millis(1);

/// Another address of the server's host.
const SERVER_ELSEWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 4);
/// An address that takes part in nothing.
const BYSTANDER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 5);

/// A server on all addresses of its host answers from another one than it was asked at.
#[test]
fn a_server_that_answers_from_another_of_its_addresses_is_reached() {
    let mut world = World::new();
    world.server_at = SERVER_ELSEWHERE;
    let request = pattern(100_000);
    let call_id = world.call(&request);
    world.run(MS * 20);
    world.assert_answer(call_id, &reversed(&request));
    let call_id = world.call(b"abc");
    assert!(world.at_client.sent.iter().all(|(to, _)| *to == SERVER), "where it was asked: a source proves nothing");
    world.run(MS);
    world.assert_answer(call_id, b"cba");
}

/// The same for a server that opens no session.
#[test]
fn a_refusal_from_another_of_the_servers_addresses_is_heard() {
    let mut world = World::with(options(1, 1472, false), options(2, 1472, false));
    world.server_at = SERVER_ELSEWHERE;
    let call_id = world.call(b"abc");
    world.run(MS);
    assert_eq!(world.outcome(call_id), Some(&Err(Failure::NotExecuted(Reason::Refused(Refusal::NoService)))));
}

/// Returns the bytes that the server sends to a bystander whose address was forged onto the client's packets, and the
/// bytes that came from there. None of them reach the client.
fn reflected(request: &[u8], answer_len: usize, copies: usize) -> (usize, usize) {
    let mut world = World::new();
    world.at_server.later = Some(b'L');
    let first = world.call(&pattern(answer_len));
    world.run(MS * 20);
    world.assert_answer(first, &reversed(&pattern(answer_len)));
    world.call(request);
    let (mut came, mut went) = (0, 0);
    for (_, packet) in std::mem::take(&mut world.at_client.sent) {
        for _ in 0..copies {
            let mut packet = packet.clone();
            came += packet.len();
            let origin = Origin::Network(BYSTANDER);
            world.server.handle_packet(world.now, origin, Packet::Lent(&mut packet), &mut world.at_server);
            world.server.poll(world.now, &mut world.at_server);
        }
    }
    if let Some((call, _)) = world.at_server.waiting.pop() {
        world.server.answer(world.now, call, Some(pattern(answer_len).into()), &mut world.at_server).expect("wanted");
        world.server.poll(world.now, &mut world.at_server);
    }
    for (to, packet) in std::mem::take(&mut world.at_server.sent) {
        assert_eq!(to, BYSTANDER);
        went += packet.len();
    }
    (came, went)
}

/// An attacker that forwards a client's packets from a forged address makes the server send at most three times as many
/// bytes there (RFC 9000, section 8.1).
#[test]
fn no_more_goes_to_an_address_that_was_not_proved_than_came_from_there() {
    for (request, answer_len) in [(&b"L"[..], 200_000), (b"L", 1_000), (&pattern(1_000), 1_000), (b"abc", 1_000)] {
        for copies in [1, 3, 20] {
            let (came, went) = reflected(request, answer_len, copies);
            assert!(went > 0, "it is asked whether it is there");
            assert!(went <= 3 * came, "{went} bytes for {came}, an answer of {answer_len}");
        }
    }
}

/// A client behind a router that renumbers. Calls from before and after the change are answered, and long answers wait
/// for one round trip only.
#[test]
fn a_client_that_moves_during_a_call_has_its_answer_there() {
    for answer_len in [3, 1_000, 200_000] {
        let mut world = World::new();
        world.at_server.later = Some(b'L');
        let begun = world.call(b"L");
        world.run(MS);
        world.client_at = MOVED;
        let (call, _) = world.at_server.waiting.pop().expect("it runs");
        world.server.answer(world.now, call, Some(pattern(answer_len).into()), &mut world.at_server).expect("wanted");
        world.run(MS * 60);
        world.assert_answer(begun, &pattern(answer_len));
        let request = pattern(answer_len.max(4));
        let next = world.call(&request);
        world.carry();
        world.assert_answer(next, &reversed(&request));
        assert_eq!(world.client.counters().sessions_lost, 0);
    }
}

/// Each move is followed after one round trip without a timer, however often it happens, and also back to an earlier
/// address.
#[test]
fn a_client_that_moves_again_and_again_waits_for_no_timer() {
    let mut world = World::new();
    let len = 20_000;
    let first = world.call(&pattern(len));
    world.run(MS * 20);
    world.assert_answer(first, &reversed(&pattern(len)));
    let probes = world.client.counters().probes;
    for at in [MOVED, CLIENT, BYSTANDER, MOVED, BYSTANDER, CLIENT] {
        world.client_at = at;
        let call_id = world.call(&pattern(len));
        world.carry();
        world.assert_answer(call_id, &reversed(&pattern(len)));
    }
    assert_eq!(world.client.counters().probes, probes);
}

/// An attacker that is faster than the client with each packet cannot keep the client's answers away after it stops.
#[test]
fn a_client_whose_packets_were_sent_on_is_answered_when_it_speaks_next() {
    let mut world = World::new();
    world.run(MS);
    world.call(b"abc");
    let (_, mut packet) = world.at_client.sent.front().cloned().expect("it calls");
    world.server.handle_packet(world.now, Origin::Network(BYSTANDER), Packet::Lent(&mut packet), &mut world.at_server);
    world.server.poll(world.now, &mut world.at_server);
    world.carry();
    let next = world.call(&pattern(50_000));
    world.carry();
    world.assert_answer(next, &reversed(&pattern(50_000)));
}
