//! The end of an endpoint's incarnation: packet numbers never repeat, and it reports when they are used up.

use std::collections::BTreeMap;

use super::*;
use crate::wire::Header;
use crate::wire::{PacketNumber, SessionIndex, SessionSecret, Space};

const MS: Duration = Duration::from_millis(1);

/// The packet that each nonce of a sender was used for.
#[derive(Default)]
struct Nonces(BTreeMap<(Space, PacketNumber), Vec<u8>>);

impl Nonces {
    fn note<'p>(&mut self, packets: impl IntoIterator<Item = &'p (SocketAddr, Vec<u8>)>) {
        for (_, packet) in packets {
            let header = Header::parse(packet).expect("a header");
            let before = self.0.insert((header.space, header.number), packet.clone());
            assert!(before.is_none_or(|before| before == *packet), "{header:?} names two packets");
        }
    }
}

/// Sessions one after the other, each at the index of the last at its server.
fn call_in_new_sessions(world: &mut World, times: usize) -> Vec<Result<Vec<u8>, String>> {
    let (mut client, mut server) = (Nonces::default(), Nonces::default());
    let mut outcomes = Vec::new();
    for _ in 0..times {
        world.session = world.client.connect(world.now, SERVER, &mut world.at_client);
        let made =
            world.client.call(world.now, world.session, &b"abc"[..], &CallOptions::default(), &mut world.at_client);
        for _ in 0..200 {
            client.note(&world.at_client.sent);
            for (_, mut packet) in std::mem::take(&mut world.at_client.sent) {
                let origin = Origin::Network(CLIENT);
                world.server.handle_packet(world.now, origin, Packet::Lent(&mut packet), &mut world.at_server);
            }
            world.server.poll(world.now, &mut world.at_server);
            server.note(&world.at_server.sent);
            for (_, mut packet) in std::mem::take(&mut world.at_server.sent) {
                let origin = Origin::Network(SERVER);
                world.client.handle_packet(world.now, origin, Packet::Lent(&mut packet), &mut world.at_client);
            }
            world.client.poll(world.now, &mut world.at_client);
            world.now += MS;
        }
        outcomes.push(match made {
            Ok(call_id) => {
                let outcome = world.at_client.outcomes.get(&call_id);
                outcome.cloned().expect("it is over").map_err(|failure| failure.to_string())
            }
            Err(error) => Err(error.to_string()),
        });
        world.client.close(world.now, world.session, &mut world.at_client);
        world.carry();
    }
    outcomes
}

/// Whether a call failed because numbers are used up, in the words that its caller reads.
fn says_so(outcome: &Result<Vec<u8>, String>) -> bool {
    outcome.as_ref().is_err_and(|text| text.contains("used up its packet numbers") || text.contains("NumbersUsedUp"))
}

#[test]
fn a_client_whose_numbers_are_used_up_says_so_and_repeats_none() {
    let mut world = World::new();
    // The first session of the world also takes numbers.
    world.client.use_up(3, u32::MAX);
    let outcomes = call_in_new_sessions(&mut world, 4);
    assert_eq!(outcomes[..2], [Ok(b"cba".to_vec()), Ok(b"cba".to_vec())]);
    assert!(outcomes[2..].iter().all(says_so), "{outcomes:?}");
}

/// Calls that wait for a session for which no numbers are left.
#[test]
fn calls_that_wait_are_not_executed_when_the_last_session_took_the_numbers() {
    let mut world = World::new();
    world.client.use_up(1, u32::MAX);
    let first = world.call(b"abc");
    world.session = world.client.connect(world.now, SERVER, &mut world.at_client);
    let second = world.call(b"def");
    world.run(MS);
    world.assert_answer(first, b"cba");
    assert_eq!(world.outcome(second), Some(&Err(Failure::NotExecuted(Reason::NumbersUsedUp))));
    let third = world.client.call(world.now, world.session, &b"g"[..], &CallOptions::default(), &mut world.at_client);
    assert_eq!(third, Err(CallError::NumbersUsedUp));
    assert_eq!(world.client.outstanding(world.session), Some(0));
}

/// The server opens no session, and says why.
#[test]
fn a_server_whose_numbers_are_used_up_says_so_and_repeats_none() {
    let mut world = World::new();
    // The first session of the world also takes numbers.
    world.server.use_up(2, u32::MAX);
    let outcomes = call_in_new_sessions(&mut world, 4);
    assert_eq!(outcomes[0], Ok(b"cba".to_vec()));
    assert!(outcomes[1..].iter().all(says_so), "{outcomes:?}");
    assert_eq!(world.server.sessions_taken(), 1);
}

/// Calls in one session until the numbers are used up at one of its ends.
fn call_until_it_ends(wear_out: fn(&mut World)) -> (World, Vec<Result<Vec<u8>, Failure>>) {
    let mut world = World::new();
    world.run(MS);
    wear_out(&mut world);
    let mut nonces = [Nonces::default(), Nonces::default()];
    let mut outcomes = Vec::new();
    for _ in 0..8 {
        let options = CallOptions::default();
        let made = world.client.call(world.now, world.session, &b"abc"[..], &options, &mut world.at_client);
        let Ok(call_id) = made else {
            assert_eq!(made, Err(CallError::NumbersUsedUp));
            break;
        };
        for _ in 0..3_000 {
            nonces[0].note(&world.at_client.sent);
            for (_, mut packet) in std::mem::take(&mut world.at_client.sent) {
                let origin = Origin::Network(CLIENT);
                world.server.handle_packet(world.now, origin, Packet::Lent(&mut packet), &mut world.at_server);
            }
            world.server.poll(world.now, &mut world.at_server);
            nonces[1].note(&world.at_server.sent);
            for (_, mut packet) in std::mem::take(&mut world.at_server.sent) {
                let origin = Origin::Network(SERVER);
                world.client.handle_packet(world.now, origin, Packet::Lent(&mut packet), &mut world.at_client);
            }
            world.client.poll(world.now, &mut world.at_client);
            world.client.check_invariants();
            world.server.check_invariants();
            world.now += MS;
            if let Some(outcome) = world.outcome(call_id) {
                outcomes.push(outcome.clone());
                break;
            }
        }
    }
    (world, outcomes)
}

/// There is no time-out: the caller is notified as soon as it is known, and that the call may have run.
#[test]
fn a_session_ends_with_its_clients_last_number() {
    let (world, outcomes) = call_until_it_ends(|world| world.client.use_up(0, 3));
    assert_eq!(outcomes[..3], [const { b"cba" }; 3].map(|answer| Ok(answer.to_vec())));
    assert_eq!(outcomes[3..], [Err(Failure::Unknown(Reason::NumbersUsedUp))]);
    assert!(!world.client.is_open(world.session));
}

/// A session that used up its numbers gets others, while there are some.
#[test]
fn a_session_goes_on_under_other_numbers_while_there_are_some() {
    for wear_out in [|world: &mut World| world.client.use_up(5, 3), |world: &mut World| world.server.use_up(5, 3)] {
        let (_, outcomes) = call_until_it_ends(wear_out);
        assert_eq!(outcomes, [const { b"cba" }; 8].map(|answer| Ok(answer.to_vec())));
    }
}

/// The client asks for another session, and is told why it gets none.
#[test]
fn a_session_ends_with_its_servers_last_number() {
    let (world, outcomes) = call_until_it_ends(|world| world.server.use_up(0, 3));
    assert_eq!(outcomes[..3], [const { b"cba" }; 3].map(|answer| Ok(answer.to_vec())));
    assert_eq!(outcomes[3], Err(Failure::Unknown(Reason::SessionLost)));
    let refused = Err(Failure::NotExecuted(Reason::Refused(Refusal::NumbersUsedUp)));
    assert!(outcomes[4..].len() == 4 && outcomes[4..].iter().all(|outcome| *outcome == refused), "{outcomes:?}");
    assert_eq!(world.server.sessions_taken(), 0);
    assert!(world.now < Instant(1) + Duration::from_secs(5), "by no deadline");
}

/// Handshakes have numbers of their own, in a space that no table of sessions reaches. A handshake that names it as a
/// session is refused.
#[test]
fn no_session_has_the_space_of_handshakes() {
    for session_index in [u32::MAX, u32::MAX - 1].map(SessionIndex) {
        let opened =
            wire::Opened { session_index, session_secret: SessionSecret(5), slots: 1, packet_bytes: 1472, credit: 0 };
        let (mut ask, mut answer) = (Vec::new(), Vec::new());
        wire::SessionHandshake::Ask { session_index, nonce: 1, packet_bytes: 1472, offer: &[] }.write(&mut ask);
        wire::SessionHandshake::Opened { session_index: SessionIndex(0), nonce: 1, opened, offer: &[] }
            .write(&mut answer);
        for bytes in [ask, answer] {
            assert_eq!(wire::SessionHandshake::read(&bytes).is_ok(), session_index != SessionIndex::NONE);
        }
    }
}
