//! Bounds on what an endpoint keeps and for how long, with the outcomes and counters that report them.

use super::*;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A server with these limits, and its client. Requests that begin with an L are answered later.
fn served_with(limits: EndpointLimits) -> World {
    let mut world = World::with(options(1, 1472, false), EndpointOptions { limits, ..options(2, 1472, true) });
    world.at_server.later = Some(b'L');
    world.run(MS);
    world
}

/// Other calls come and go, and no probe is needed. The server is still notified again of a call that was given up.
#[test]
fn a_server_is_told_again_what_was_given_up_however_busy_its_client_is() {
    let mut world = served_with(EndpointLimits::default());
    let first = world.call(b"L");
    let options = CallOptions { deadline: SECOND, ..CallOptions::default() };
    let given_up =
        world.client.call(world.now, world.session, b"Lx", &options, &mut world.at_client).expect("accepted");
    world.run(SECOND - 10 * MS);
    // The notice that it was given up is lost.
    world.lose = |_| true;
    world.run(20 * MS);
    assert_eq!(world.outcome(given_up), Some(&Err(Failure::Unknown(Reason::Deadline))));
    world.lose = |_| false;
    for (call, request) in std::mem::take(&mut world.at_server.waiting) {
        let answer = if request == b"L" { b"done".to_vec() } else { pattern(100_000) };
        world.server.answer(world.now, call, Some(answer.into()), &mut world.at_server).expect("wanted");
    }
    world.carry();
    world.assert_answer(first, b"done");
    assert!(world.server.held_bytes() >= 100_000, "it does not know");
    let probes = world.client.counters().probes;
    for _ in 0..45 {
        world.call(b"x");
        world.run(SECOND);
    }
    assert_eq!(world.client.counters().probes, probes);
    assert!(world.server.held_bytes() <= 2_048, "{} are held", world.server.held_bytes());
}

#[test]
fn a_session_in_which_a_handler_runs_is_kept_however_long_its_client_is_silent() {
    let mut world = served_with(EndpointLimits { idle_max: 2 * SECOND, ..EndpointLimits::default() });
    world.call(b"L");
    world.carry();
    world.lose = |_| true;
    world.run(6 * SECOND);
    assert_eq!((world.server.sessions_taken(), world.server.counters().sessions_idle), (1, 0));
    let (call, _) = world.at_server.waiting.pop().expect("it runs");
    assert_eq!(world.server.answer(world.now, call, Some(b"done".into()), &mut world.at_server), Ok(()));
    world.run(4 * SECOND);
    assert_eq!((world.server.sessions_taken(), world.server.counters().sessions_idle), (0, 1), "nothing runs in it");
}

#[test]
fn no_call_is_begun_while_more_answers_are_kept_than_may_be() {
    let busy = Err(Failure::NotExecuted(Reason::Refused(Refusal::Busy)));
    for (kept, outcome) in [(0, Ok(b"ba".to_vec())), (100, Ok(b"ba".to_vec())), (101, busy)] {
        let mut world = served_with(EndpointLimits { answers_bytes: 100, ..EndpointLimits::default() });
        world.call(b"L");
        world.carry();
        let (call, _) = world.at_server.waiting.pop().expect("it runs");
        world.server.answer(world.now, call, Some(pattern(kept).into()), &mut world.at_server).expect("wanted");
        world.at_server.sent.clear();
        let next = world.call(b"ab");
        world.carry();
        assert_eq!(world.outcome(next), Some(&outcome), "{kept} bytes are kept");
    }
}

#[test]
fn what_comes_again_or_late_is_counted_and_changes_nothing() {
    let mut world = served_with(EndpointLimits::default());
    let again = |world: &mut World, mut packet: Vec<u8>| {
        world.server.handle_packet(world.now, Origin::Network(CLIENT), Packet::Lent(&mut packet), &mut world.at_server);
        world.carry();
    };
    let first = world.call(b"ab");
    let (_, packet) = world.at_client.sent[0].clone();
    world.carry();
    again(&mut world, packet.clone());
    assert_eq!((world.server.counters().duplicates, world.server.counters().stale), (1, 0));
    let second = world.call(b"cd");
    world.carry();
    again(&mut world, packet);
    assert_eq!(
        (world.server.counters().duplicates, world.server.counters().stale),
        (1, 1),
        "its slot has another call"
    );
    assert_eq!(world.at_server.runs.len(), 2);
    world.assert_answer(first, b"ba");
    world.assert_answer(second, b"dc");
    // A fragment of an answer arrives twice.
    world.waits = Some(VecDeque::new());
    let third = world.call(&pattern(5_000)[1..]);
    world.carry();
    world.at_server.sent = world.waits.take().expect("it waits");
    let begins = world.at_server.sent[0].clone();
    world.at_server.sent.push_front(begins);
    world.carry();
    world.run(10 * MS);
    assert_eq!(world.client.counters().duplicates, 1);
    world.assert_answer(third, &reversed(&pattern(5_000)[1..]));
    // A handler answers twice.
    world.call(b"L");
    world.carry();
    let (call, _) = world.at_server.waiting.pop().expect("it runs");
    world.server.answer(world.now, call, Some(b"1".into()), &mut world.at_server).expect("wanted");
    assert_eq!(world.server.counters().answers_unwanted, 0);
    let twice = world.server.answer(world.now, call, Some(b"2".into()), &mut world.at_server);
    assert_eq!((twice, world.server.counters().answers_unwanted), (Err(AnswerError::NotWanted), 1));
}

/// The trace of a call shows once that all of the request was sent, however many packets it takes, and whether it is
/// copied or not.
#[test]
fn the_steps_of_a_call_are_marked_once_each() {
    let mut world = served_with(EndpointLimits::default());
    for len in [10, 5_000] {
        for given in [false, true] {
            let request = pattern(len);
            let message: Cow<'_, [u8]> = if given { request.clone().into() } else { (&request).into() };
            let options = CallOptions::default();
            let call_id = world.client.call(world.now, world.session, message, &options, &mut world.at_client);
            let call_id = call_id.expect("accepted");
            world.run(20 * MS);
            world.assert_answer(call_id, &reversed(&request));
            let marks = std::mem::take(&mut world.at_client.marks);
            let marks: Vec<TracePoint> =
                marks.into_iter().filter(|(_, of)| *of == call_id.0).map(|(mark, _)| mark).collect();
            let steps =
                [TracePoint::Called, TracePoint::Begun, TracePoint::Sent, TracePoint::Answering, TracePoint::Ended];
            let steps: Vec<TracePoint> =
                steps.into_iter().filter(|step| len > 1_400 || *step != TracePoint::Answering).collect();
            assert_eq!(marks, steps, "{len} bytes, given: {given}");
        }
    }
}
