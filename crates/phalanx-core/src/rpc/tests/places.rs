//! Packets received header first, and calls without any guarantee.

use super::*;

/// Copying twice costs as much as a call does. Of a long message only the first packet of each side arrives whole.
#[test]
fn the_rest_of_a_packet_is_put_where_it_belongs() {
    let mut world = World::clear();
    world.begins = Some(128);
    let request = pattern(100_000);
    let call_id = world.call(&request);
    world.run(Duration::from_millis(20));
    world.assert_answer(call_id, &reversed(&request));
    assert!(world.in_place > 170_000, "{} bytes of 200,000", world.in_place);
    // Sealed packets are opened first.
    let mut world = World::new();
    world.begins = Some(128);
    let call_id = world.call(&request);
    world.run(Duration::from_millis(20));
    world.assert_answer(call_id, &reversed(&request));
    assert_eq!(world.in_place, 0);
}

/// Two unreliable endpoints.
struct Plains {
    client: UnreliableEndpoint,
    server: UnreliableEndpoint,
    at_client: Place,
    at_server: Place,
    begins: Option<usize>,
    in_place: usize,
}

impl Plains {
    fn new(security: &Security, begins: Option<usize>) -> Self {
        let plain = |me| {
            let options = UnreliableOptions {
                cell: "test".into(),
                me: Incarnation(me),
                packet_bytes: 1472,
                message_bytes: 1 << 20,
            };
            UnreliableEndpoint::new(&options, security)
        };
        let (at_client, at_server) = (Place::default(), Place::default());
        Self { client: plain(1), server: plain(2), at_client, at_server, begins, in_place: 0 }
    }

    fn carry(&mut self) {
        while let Some((_, mut packet)) = self.at_client.sent.pop_front() {
            let mut rest = Lying::default();
            let arriving = rest.split(&mut packet, self.begins, None);
            self.server.handle_arriving(Origin::Network(CLIENT), arriving, &mut self.at_server);
            self.in_place += rest.in_place;
        }
        while let Some((_, mut packet)) = self.at_server.sent.pop_front() {
            let mut rest = Lying::default();
            let arriving = rest.split(&mut packet, self.begins, None);
            self.client.handle_arriving(Origin::Network(SERVER), arriving, &mut self.at_client);
            self.in_place += rest.in_place;
        }
    }
}

#[test]
fn plain_calls_of_any_length_are_answered_each_with_its_own_answer() {
    for security in [security(), Security::None] {
        for begins in [None, Some(30), Some(128)] {
            let mut plains = Plains::new(&security, begins);
            let lens = [0, 1, 1_000, 1_400, 1_500, 2_000, 6_000, 100_000];
            // All of them under way at once.
            let calls: Vec<ClientCallId> =
                lens.iter().map(|len| plains.client.call(SERVER, &pattern(*len), &mut plains.at_client)).collect();
            plains.carry();
            for (call, len) in calls.iter().zip(lens) {
                let came = plains.at_client.outcomes.get(call);
                assert!(came == Some(&Ok(reversed(&pattern(len)))), "{len} bytes, begun {begins:?}");
            }
            assert_eq!((plains.client.drops, plains.server.drops), (0, 0));
            if matches!(security, Security::None) && begins == Some(128) {
                assert!(plains.in_place > 170_000, "{} bytes of 200,000", plains.in_place);
            }
        }
    }
}
