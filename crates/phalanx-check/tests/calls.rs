//! R1, R2, R4, R5, R6 and V15: good and broken runs for each.

mod common;

use common::{World, id};
use phalanx_check::{Options, Property, Report, Require, check};
use phalanx_trace::{CallOutcome, Event, Header, Trace};

/// A server, two clients and a second server, all with complete traces.
struct Calls {
    world: World,
}

const SERVER: usize = 0;
const CLIENT: usize = 1;
const OTHER: usize = 2;
const ANOTHER: usize = 3;

impl Calls {
    fn new() -> Self {
        let mut traces: Vec<Trace> = (0..4)
            .map(|p| Trace::new(Header::process("cell", &common::name(p), id(p), "clock").with_write_ahead()))
            .collect();
        traces.push(Trace::new(Header::harness("cell", "clock")));
        let mut calls = Self { world: World { traces, now: 0 } };
        for p in 0..4 {
            calls.world.push(p, Event::Start);
            calls.world.push(p, Event::Endpoint { address: address(p) });
        }
        calls
    }

    fn make(&mut self, client: usize, call: u64, hash: u64) {
        self.world.push(client, Event::CallMade { call, to: address(SERVER), idempotent: false, hash });
    }

    fn run(&mut self, run: u64, client: usize, hash: u64) {
        self.world.push(SERVER, Event::CallRan { run, from: id(client), hash });
    }

    fn answer(&mut self, run: u64, answer: Option<u64>) {
        self.world.push(SERVER, Event::CallAnswered { run, answer });
    }

    fn end(&mut self, client: usize, call: u64, outcome: CallOutcome) {
        self.world.push(client, Event::CallEnded { call, outcome });
    }

    /// A correct call: the call, its run and its answer.
    fn whole(&mut self, client: usize, call: u64, run: u64, hash: u64) {
        self.make(client, call, hash);
        self.run(run, client, hash);
        self.answer(run, Some(hash + 1));
        self.end(client, call, CallOutcome::Answer { hash: hash + 1 });
    }

    fn report(mut self) -> Report {
        for p in 0..self.world.traces.len() {
            self.world.push(p, Event::End);
        }
        check(&self.world.traces, &Options { require: Require::Nothing, ..Options::default() })
    }

    /// Asserts that no property is broken, and that these were put to the test.
    fn holds(self, tested: &[Property]) {
        let report = self.report();
        assert!(report.violated().is_empty(), "{report}");
        for property in tested {
            assert!(report.instances(*property) > 0, "{property} has no instances");
        }
    }

    fn breaks(self, property: Property) {
        let report = self.report();
        assert_eq!(report.violated(), [property], "{report}");
    }
}

fn address(p: usize) -> String {
    format!("10.0.0.1:{p}")
}

const UNKNOWN: CallOutcome = CallOutcome::Unknown;
const SURE: CallOutcome = CallOutcome::NotExecuted;

#[test]
fn calls_that_are_as_they_should_be() {
    let mut calls = Calls::new();
    calls.whole(CLIENT, 1, 1, 10);
    calls.whole(OTHER, 1, 2, 10);
    calls.make(CLIENT, 2, 20);
    calls.end(CLIENT, 2, SURE);
    calls.make(CLIENT, 3, 30);
    calls.run(3, CLIENT, 30);
    calls.end(CLIENT, 3, UNKNOWN);
    calls.holds(&[Property::R1, Property::R2, Property::R4, Property::R5, Property::R6]);
}

#[test]
fn r1_as_many_runs_as_calls_alike_holds() {
    let mut calls = Calls::new();
    calls.whole(CLIENT, 1, 1, 10);
    calls.whole(CLIENT, 2, 2, 10);
    calls.holds(&[Property::R1]);
}

#[test]
fn r1_an_idempotent_call_may_run_again() {
    let mut calls = Calls::new();
    calls.world.push(CLIENT, Event::CallMade { call: 1, to: address(SERVER), idempotent: true, hash: 5 });
    calls.run(1, CLIENT, 5);
    calls.run(2, CLIENT, 5);
    calls.end(CLIENT, 1, UNKNOWN);
    calls.holds(&[Property::R5]);
}

#[test]
fn r1_a_call_runs_twice() {
    let mut calls = Calls::new();
    calls.whole(CLIENT, 1, 1, 10);
    calls.run(2, CLIENT, 10);
    calls.breaks(Property::R1);
}

#[test]
fn r2_an_answer_that_nobody_gave() {
    let mut calls = Calls::new();
    calls.make(CLIENT, 1, 10);
    calls.run(1, CLIENT, 10);
    calls.answer(1, Some(11));
    calls.end(CLIENT, 1, CallOutcome::Answer { hash: 12 });
    calls.breaks(Property::R2);
}

#[test]
fn r2_an_answer_without_a_run() {
    let mut calls = Calls::new();
    calls.make(CLIENT, 1, 10);
    calls.end(CLIENT, 1, CallOutcome::Answer { hash: 12 });
    calls.breaks(Property::R2);
}

#[test]
fn r2_the_second_answer_of_a_handler() {
    let mut calls = Calls::new();
    calls.make(CLIENT, 1, 10);
    calls.run(1, CLIENT, 10);
    calls.answer(1, Some(11));
    calls.answer(1, Some(12));
    calls.end(CLIENT, 1, CallOutcome::Answer { hash: 12 });
    calls.breaks(Property::R2);
}

#[test]
fn r4_who_did_nothing_did_not_run() {
    let mut calls = Calls::new();
    calls.make(CLIENT, 1, 10);
    calls.run(1, CLIENT, 10);
    calls.answer(1, None);
    calls.end(CLIENT, 1, SURE);
    calls.holds(&[Property::R4]);
}

#[test]
fn r4_it_still_ran() {
    let mut calls = Calls::new();
    calls.make(CLIENT, 1, 10);
    calls.run(1, CLIENT, 10);
    calls.end(CLIENT, 1, SURE);
    calls.answer(1, None);
    calls.breaks(Property::R4);
}

#[test]
fn r4_it_had_run() {
    let mut calls = Calls::new();
    calls.make(CLIENT, 1, 10);
    calls.run(1, CLIENT, 10);
    calls.answer(1, Some(11));
    calls.end(CLIENT, 1, SURE);
    calls.breaks(Property::R4);
}

#[test]
fn r5_it_runs_after_all() {
    let mut calls = Calls::new();
    calls.make(CLIENT, 1, 10);
    calls.end(CLIENT, 1, SURE);
    calls.run(1, CLIENT, 10);
    calls.breaks(Property::R5);
}

#[test]
fn r5_two_ends() {
    let mut calls = Calls::new();
    calls.make(CLIENT, 1, 10);
    calls.end(CLIENT, 1, UNKNOWN);
    calls.end(CLIENT, 1, UNKNOWN);
    calls.breaks(Property::R5);
}

#[test]
fn r6_the_answer_of_another_call() {
    let mut calls = Calls::new();
    calls.make(CLIENT, 1, 10);
    calls.make(OTHER, 1, 20);
    calls.run(1, CLIENT, 10);
    calls.run(2, OTHER, 20);
    calls.answer(1, Some(11));
    calls.answer(2, Some(21));
    calls.end(CLIENT, 1, CallOutcome::Answer { hash: 21 });
    calls.end(OTHER, 1, CallOutcome::Answer { hash: 21 });
    calls.breaks(Property::R6);
}

#[test]
fn r6_a_request_that_nobody_made() {
    let mut calls = Calls::new();
    calls.whole(CLIENT, 1, 1, 10);
    calls.run(2, CLIENT, 99);
    calls.breaks(Property::R6);
}

#[test]
fn r6_at_another_server() {
    let mut calls = Calls::new();
    calls.make(CLIENT, 1, 10);
    calls.world.push(ANOTHER, Event::CallRan { run: 1, from: id(CLIENT), hash: 10 });
    calls.end(CLIENT, 1, UNKNOWN);
    calls.breaks(Property::R6);
}

#[test]
fn e1_outcomes_and_answers_of_nothing() {
    for event in [
        Event::CallEnded { call: 1, outcome: UNKNOWN },
        Event::CallAnswered { run: 1, answer: None },
        Event::CallMade { call: 2, to: address(SERVER), idempotent: false, hash: 1 },
        Event::CallRan { run: 3, from: id(CLIENT), hash: 1 },
    ] {
        let mut calls = Calls::new();
        let is_run = matches!(event, Event::CallRan { .. });
        calls.whole(CLIENT, 1, 1, 10);
        calls.world.push(if is_run { SERVER } else { OTHER }, event);
        let violated = calls.report().violated();
        assert!(violated.contains(&Property::E1), "{violated:?}");
    }
}

/// A call with a deadline; `then` determines what happens to its caller until the end.
fn with_deadline(within_s: u64, then: impl FnOnce(&mut Calls)) -> Report {
    let mut calls = Calls::new();
    calls.make(CLIENT, 1, 10);
    calls.world.push(CLIENT, Event::CallDeadline { call: 1, within_ns: within_s * SECOND });
    then(&mut calls);
    calls.report()
}

const SECOND: u64 = 1_000_000_000;
const HARNESS: usize = 4;

#[test]
fn a_call_ends_by_its_deadline() {
    let report = with_deadline(2, |calls| {
        calls.world.now += 6 * SECOND;
        calls.end(CLIENT, 1, UNKNOWN);
    });
    assert!(report.violated().is_empty(), "{report}");
    assert_eq!(report.instances(Property::V15), 1);
    // Its process ended before the bound.
    let report = with_deadline(2, |calls| calls.world.now += 6 * SECOND);
    assert!(report.violated().is_empty(), "{report}");
    assert_eq!(report.instances(Property::V15), 0);
}

#[test]
fn a_call_that_never_ends_or_ends_late_is_told_of() {
    let never = with_deadline(2, |calls| calls.world.now += 8 * SECOND);
    assert_eq!(never.violated(), [Property::V15], "{never}");
    let late = with_deadline(2, |calls| {
        calls.world.now += 8 * SECOND;
        calls.end(CLIENT, 1, UNKNOWN);
    });
    assert_eq!(late.violated(), [Property::V15], "{late}");
}

#[test]
fn time_in_which_its_caller_was_stopped_does_not_count() {
    let stopped = |seconds: u64| {
        with_deadline(2, |calls| {
            calls.world.push(HARNESS, Event::Stop { incarnation: id(CLIENT) });
            calls.world.now += seconds * SECOND;
            calls.world.push(HARNESS, Event::Cont { incarnation: id(CLIENT) });
            calls.world.now += 6 * SECOND;
            calls.end(CLIENT, 1, UNKNOWN);
        })
    };
    assert!(stopped(20).violated().is_empty(), "{}", stopped(20));
    assert_eq!(stopped(0).violated(), [] as [Property; 0]);
    let long = with_deadline(2, |calls| {
        calls.world.push(HARNESS, Event::Stop { incarnation: id(CLIENT) });
        calls.world.now += 20 * SECOND;
        calls.world.push(HARNESS, Event::Cont { incarnation: id(CLIENT) });
        calls.world.now += 8 * SECOND;
    });
    assert_eq!(long.violated(), [Property::V15], "{long}");
}

#[test]
fn an_endpoint_at_all_addresses_is_called_at_each() {
    for (at, broken) in [("0.0.0.0:0", &[][..]), ("0.0.0.0:9", &[Property::R6])] {
        let mut calls = Calls::new();
        for record in &mut calls.world.traces[SERVER].records {
            if let Event::Endpoint { address } = &mut record.event {
                at.clone_into(address);
            }
        }
        calls.whole(CLIENT, 1, 1, 10);
        let report = calls.report();
        assert_eq!(report.violated(), broken, "{report}");
    }
}

#[test]
fn v15_a_call_without_a_deadline_ends_before_its_caller() {
    let mut calls = Calls::new();
    calls.make(CLIENT, 1, 10);
    calls.end(CLIENT, 1, UNKNOWN);
    calls.holds(&[Property::V15]);
    let mut calls = Calls::new();
    calls.make(CLIENT, 1, 10);
    calls.breaks(Property::V15);
    let mut calls = Calls::new();
    calls.make(CLIENT, 1, 10);
    calls.world.crash(CLIENT);
    calls.holds(&[]);
}
