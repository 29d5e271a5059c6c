//! Where packets come from and go: ends that move, ends with several addresses, and who lies about where it is.

use super::*;

const MS: Duration = Duration::from_millis(1);

/// Another address of the server's host.
const SERVER_ELSEWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 4);

/// A server on all addresses of its host answers from another one than it was asked at.
#[test]
fn a_server_that_answers_from_another_of_its_addresses_is_reached() {
    let mut world = World::new();
    world.server_at = SERVER_ELSEWHERE;
    let request = pattern(100_000);
    let ticket = world.call(&request);
    world.run(MS * 20);
    world.assert_answer(ticket, &reversed(&request));
    let ticket = world.call(b"abc");
    assert!(world.at_client.sent.iter().all(|(to, _)| *to == SERVER), "where it was asked: a source proves nothing");
    world.run(MS);
    world.assert_answer(ticket, b"cba");
}

/// The same for one that opens no session.
#[test]
fn a_refusal_from_another_of_the_servers_addresses_is_heard() {
    let mut world = World::with(options(1, 1472, false), options(2, 1472, false));
    world.server_at = SERVER_ELSEWHERE;
    let ticket = world.call(b"abc");
    world.run(MS);
    assert_eq!(world.outcome(ticket), Some(&Err(Failure::NotExecuted(Reason::Refused(Refusal::NoService)))));
}
