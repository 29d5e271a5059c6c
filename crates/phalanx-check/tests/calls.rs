//! R1, R2, R4, R5 and R6: good and broken runs for each.

mod common;

use common::{World, id};
use phalanx_check::{Options, Property, Report, Require, check};
use phalanx_trace::{CallOutcome, Event, Header, Trace};

/// A server, two clients and a second server; whatever they record is whole.
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

    /// A call, its run and its answer, all as it should be.
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

    /// Nothing is broken, and these were put to the test.
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
