//! A side that is not there: servers that the system reports as absent, and callers that gave up.

use super::*;

const NEVER_RAN: Failure = Failure::NotExecuted(Reason::Unreachable);

fn report(world: &mut World) {
    world.client.handle_unreachable(world.now, SERVER, &mut world.at_client);
}

#[test]
fn a_call_to_an_absent_server_fails_at_once_unless_it_waits() {
    let mut world = World::new();
    world.lose = |_| true;
    let call_id = world.call(b"a");
    let options = CallOptions { waits_for_server: true, ..CallOptions::default() };
    let waits = world.client.call(world.now, world.session, b"b", &options, &mut world.at_client).expect("accepted");
    report(&mut world);
    assert_eq!(world.outcome(call_id), Some(&Err(NEVER_RAN)));
    assert_eq!(world.outcome(waits), None);
    // The server starts.
    world.lose = |_| false;
    world.run(Duration::from_secs(1));
    world.assert_answer(waits, b"b");
    world.client.handle_unreachable(world.now, CLIENT, &mut world.at_client);
    let fine = world.call(b"c");
    world.run(Duration::from_millis(1));
    world.assert_answer(fine, b"c");
}

#[test]
fn a_false_report_ends_no_session_and_a_second_one_after_silence_does() {
    let mut world = World::new();
    let fine = world.call(b"a");
    world.run(Duration::from_millis(1));
    world.assert_answer(fine, b"a");
    // The server answers what the first report makes the client ask, so the next is a first one again.
    for _ in 0..3 {
        report(&mut world);
        world.run(Duration::from_millis(1));
    }
    assert_eq!((world.client.counters().sessions_lost, world.client.counters().sessions_opened), (0, 1));
    world.lose = |_| true;
    let in_doubt = world.call(b"b");
    report(&mut world);
    assert_eq!(world.outcome(in_doubt), None);
    report(&mut world);
    assert_eq!(world.outcome(in_doubt), Some(&Err(Failure::Unknown(Reason::SessionLost))));
    let never_sent = world.call(b"c");
    report(&mut world);
    assert_eq!(world.outcome(never_sent), Some(&Err(NEVER_RAN)));
}

#[test]
fn what_may_have_run_is_unknown_though_its_next_server_is_absent() {
    let mut world = World::new();
    world.run(Duration::from_millis(1));
    let options = CallOptions { idempotent: true, ..CallOptions::default() };
    world.at_server.later = Some(b'x');
    let call = world.client.call(world.now, world.session, b"x", &options, &mut world.at_client).expect("accepted");
    world.run(Duration::from_millis(1));
    assert_eq!(world.at_server.runs.len(), 1);
    world.lose = |_| true;
    for _ in 0..3 {
        report(&mut world);
    }
    assert_eq!(world.outcome(call), Some(&Err(Failure::Unknown(Reason::Unreachable))));
}

#[test]
fn a_handler_learns_that_its_caller_gave_up() {
    let mut world = World::new();
    world.at_server.later = Some(b'x');
    let kept = world.call(b"xa");
    let cancelled = world.call(b"xb");
    world.run(Duration::from_millis(1));
    assert_eq!((world.at_server.waiting.len(), world.at_server.given_up.len()), (2, 0));
    world.client.cancel(world.now, world.session, cancelled, &mut world.at_client);
    world.run(Duration::from_millis(1));
    let waiting = std::mem::take(&mut world.at_server.waiting);
    let (gone, stays) = (waiting.iter().find(|(_, of)| of == b"xb"), waiting.iter().find(|(_, of)| of == b"xa"));
    let (gone, stays) = (gone.expect("it ran").0, stays.expect("it ran").0);
    assert_eq!(world.at_server.given_up, [gone]);
    let mut answer = |call| world.server.answer(world.now, call, Some(b"y".into()), &mut world.at_server);
    assert_eq!(answer(gone), Err(AnswerError::NotWanted));
    assert_eq!(answer(stays), Ok(()));
    world.run(Duration::from_millis(1));
    world.assert_answer(kept, b"y");
    // The end of a session is the end of its calls.
    world.call(b"xc");
    world.run(Duration::from_millis(1));
    world.client.close(world.now, world.session, &mut world.at_client);
    world.run(Duration::from_millis(1));
    assert_eq!(world.at_server.given_up.len(), 2);
}

#[test]
fn the_leave_of_a_callee_ends_a_call_at_once() {
    let left = |world: &mut World, call| {
        let is_found = world.client.callee_left(world.now, world.session, call, &mut world.at_client);
        world.client.check_invariants();
        is_found
    };
    // No session is open: nothing of it was sent.
    let mut world = World::new();
    let never_sent = world.call(b"a");
    assert!(left(&mut world, never_sent));
    assert_eq!(world.outcome(never_sent), Some(&Err(Failure::NotExecuted(Reason::Left))));
    assert!(!left(&mut world, never_sent), "it is over");
    // A handler runs, and learns of it if it lives.
    world.run(Duration::from_millis(1));
    world.at_server.later = Some(b'x');
    let (open, other) = (world.call(b"xa"), world.call(b"xb"));
    world.run(Duration::from_millis(1));
    assert!(left(&mut world, open));
    assert_eq!(world.outcome(open), Some(&Err(Failure::Unknown(Reason::Left))));
    assert_eq!(world.outcome(other), None, "each call has a callee of its own");
    world.run(Duration::from_millis(1));
    assert_eq!(world.at_server.given_up.len(), 1);
    // One that was cancelled ends as cancelled.
    assert!(world.client.cancel(world.now, world.session, other, &mut world.at_client));
    assert!(!left(&mut world, other));
    world.at_server.later = None;
    let fine = world.call(b"b");
    world.run(Duration::from_millis(1));
    world.assert_answer(fine, b"b");
}

#[test]
fn what_may_have_run_in_a_lost_session_is_unknown_when_its_callee_left() {
    let mut world = World::new();
    world.run(Duration::from_millis(1));
    let options = CallOptions { idempotent: true, waits_for_server: true, ..CallOptions::default() };
    world.at_server.later = Some(b'x');
    let call = world.client.call(world.now, world.session, b"x", &options, &mut world.at_client).expect("accepted");
    world.run(Duration::from_millis(1));
    world.lose = |_| true;
    report(&mut world);
    report(&mut world);
    assert_eq!(world.outcome(call), None, "it waits for the next session");
    assert!(world.client.callee_left(world.now, world.session, call, &mut world.at_client));
    assert_eq!(world.outcome(call), Some(&Err(Failure::Unknown(Reason::Left))));
}
