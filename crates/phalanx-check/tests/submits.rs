//! Submits to a group's state: executed at one place (X12), told as executed (X13), one outcome (X14).

mod common;

use common::{GROUP, M, World, total, uniform};
use phalanx_check::Property;
use phalanx_trace::{Event, MembershipEnd, SubmitStep};

const CLIENT: u64 = 0xc11e;
const RESULT: u64 = 7;

fn step(w: &mut World, p: usize, what: SubmitStep) {
    w.push(p, Event::Submit { group: GROUP, client: CLIENT, number: 1, what });
}

fn executed(w: &mut World, p: usize, position: u64, hash: u64) {
    step(w, p, SubmitStep::Executed { view: 1, position, hash });
}

fn sent(w: &mut World, m: M) {
    w.send(m);
    step(w, m.sender, SubmitStep::Sent { hash: 5 });
}

/// Member 0 of two submits, and both execute it.
fn submitted() -> World {
    let mut w = World::group(2);
    let m = uniform(total(0, 1, 1));
    sent(&mut w, m);
    for p in 0..2 {
        w.deliver_at(p, m, 1);
        executed(&mut w, p, 1, RESULT);
    }
    w
}

fn ends(mut w: World) -> World {
    w.end(&[0, 1]);
    w
}

#[test]
fn x12_a_submit_is_executed_at_one_place() {
    let mut told = submitted();
    step(&mut told, 0, SubmitStep::Told { hash: RESULT });
    ends(told).holds(&[Property::X12, Property::X13, Property::X14]);
    let again = |position: u64| {
        let mut w = submitted();
        let m = uniform(total(0, 1, 2));
        w.send(m);
        (0..2).for_each(|p| w.deliver_at(p, m, 2));
        executed(&mut w, 1, position, RESULT);
        ends(w)
    };
    again(1).holds(&[Property::X12]);
    again(2).breaks(Property::X12);
}

#[test]
fn x12_all_compute_the_same_of_what_they_delivered() {
    let run = |m: M, result: u64| {
        let mut w = World::group(2);
        sent(&mut w, m);
        for p in 0..2 {
            w.deliver_at(p, m, 1);
            executed(&mut w, p, 1, if p == 0 { RESULT } else { result });
        }
        ends(w)
    };
    run(uniform(total(0, 1, 1)), RESULT).holds(&[Property::X12]);
    run(uniform(total(0, 1, 1)), RESULT + 1).breaks(Property::X12);
    run(total(0, 1, 1), RESULT).breaks(Property::X12);
    let mut nothing = submitted();
    nothing.push(
        1,
        Event::Submit {
            group: GROUP,
            client: CLIENT,
            number: 2,
            what: SubmitStep::Executed { view: 1, position: 2, hash: RESULT },
        },
    );
    ends(nothing).breaks(Property::X12);
}

#[test]
fn x12_what_an_operator_gave_up_may_be_executed_again() {
    let run = |is_given_up: bool| {
        let mut w = submitted();
        if is_given_up {
            w.push(1, Event::GivenUp { name: "ledger".into() });
        }
        let m = uniform(total(0, 1, 2));
        w.send(m);
        (0..2).for_each(|p| w.deliver_at(p, m, 2));
        executed(&mut w, 1, 2, RESULT);
        ends(w)
    };
    run(true).holds(&[Property::X12]);
    run(false).breaks(Property::X12);
}

#[test]
fn x13_a_result_is_that_of_an_execution() {
    let run = |hash: u64| {
        let mut w = submitted();
        step(&mut w, 0, SubmitStep::Told { hash });
        ends(w)
    };
    run(RESULT).holds(&[Property::X13]);
    run(RESULT + 1).breaks(Property::X13);
    let mut long = submitted();
    step(&mut long, 0, SubmitStep::TooLong);
    ends(long).holds(&[Property::X13, Property::X14]);
    let mut nobody = World::group(2);
    let m = uniform(total(0, 1, 1));
    sent(&mut nobody, m);
    (0..2).for_each(|p| nobody.deliver_at(p, m, 1));
    step(&mut nobody, 0, SubmitStep::Told { hash: RESULT });
    ends(nobody).breaks(Property::X13);
}

/// The answer of an execution elsewhere comes with a state.
#[test]
fn x13_a_result_from_elsewhere_comes_with_a_state() {
    let run = |takes: bool| {
        let mut w = if takes { World::taker(2, false) } else { World::group(2) };
        let view = if takes { 2 } else { 1 };
        let m = uniform(total(0, view, 1));
        w.send(m);
        step(&mut w, 0, SubmitStep::Sent { hash: 5 });
        (0..2).for_each(|p| w.deliver_at(p, m, 1));
        step(&mut w, 1, SubmitStep::Executed { view, position: 1, hash: RESULT });
        step(&mut w, 0, SubmitStep::Told { hash: RESULT });
        w.end(&[0, 1]);
        w.report().violated().contains(&Property::X13)
    };
    assert!(!run(true) && run(false));
}

#[test]
fn x13_what_is_told_as_not_executed_is_not() {
    let mut not = World::group(2);
    let m = uniform(total(0, 1, 1));
    sent(&mut not, m);
    (0..2).for_each(|p| not.deliver_at(p, m, 1));
    step(&mut not, 0, SubmitStep::NotExecuted);
    ends(not).holds(&[Property::X13, Property::X14]);
    let mut wrong = submitted();
    step(&mut wrong, 0, SubmitStep::NotExecuted);
    ends(wrong).breaks(Property::X13);
}

/// A later incarnation may submit it again under the name of its client, and not an earlier one.
#[test]
fn x13_what_is_told_as_not_executed_may_be_submitted_again() {
    let run = |told: usize, sender: usize| {
        let mut w = World::group(3);
        w.traces[2].header.node = "a".into();
        step(&mut w, told, SubmitStep::Sent { hash: 5 });
        step(&mut w, told, SubmitStep::NotExecuted);
        let m = uniform(total(sender, 1, 1));
        sent(&mut w, m);
        w.deliver_at(1, m, 1);
        executed(&mut w, 1, 1, RESULT);
        w.report().violated().contains(&Property::X13)
    };
    assert!(!run(0, 2) && run(2, 0));
}

#[test]
fn x14_a_submit_is_told_once() {
    let run = |what: &[SubmitStep]| {
        let mut w = submitted();
        what.iter().for_each(|what| step(&mut w, 0, *what));
        ends(w)
    };
    let told = SubmitStep::Told { hash: RESULT };
    run(&[told]).holds(&[Property::X14]);
    run(&[told, told]).breaks(Property::X14);
    run(&[told, SubmitStep::Sent { hash: 5 }, told]).holds(&[Property::X14]);
    let mut unsent = World::group(2);
    step(&mut unsent, 0, SubmitStep::NotExecuted);
    ends(unsent).breaks(Property::X14);
}

#[test]
fn x14_nothing_is_unknown_before_an_end() {
    let unknown = |life_ends: bool| {
        let mut w = submitted();
        if life_ends {
            w.push(0, Event::GroupLeaveAsked { group: GROUP });
            w.push(0, Event::ToldLost { group: GROUP, not_sent: 0, in_doubt: 1 });
        }
        step(&mut w, 0, SubmitStep::Unknown);
        w.report().violated().contains(&Property::X14)
    };
    assert!(!unknown(true) && unknown(false));
}

/// The records of one process count together.
#[test]
fn x14_an_earlier_incarnation_may_have_sent_it() {
    let run = |sends: bool| {
        let mut w = World::group(3);
        w.traces[2].header.node = "a".into();
        if sends {
            step(&mut w, 0, SubmitStep::Sent { hash: 5 });
        }
        step(&mut w, 2, SubmitStep::Unknown);
        w.report().violated().contains(&Property::X14)
    };
    assert!(!run(true) && run(false));
}

/// A membership may be over between two incarnations, and with it a submit.
#[test]
fn x14_a_submit_may_be_over_after_its_incarnation() {
    let run = |what: SubmitStep| {
        let mut w = submitted();
        w.push(0, Event::ToldLost { group: GROUP, not_sent: 0, in_doubt: 0 });
        w.push(0, Event::Excluded { view: 2 });
        w.push(0, Event::MembershipEnded { name: "ledger".into(), why: MembershipEnd::Over });
        step(&mut w, 0, what);
        let report = w.report();
        report.properties.iter().find(|found| found.property == Property::M8).map_or(0, |found| found.violations)
    };
    let said = run(SubmitStep::Told { hash: RESULT });
    assert_eq!(said, run(SubmitStep::Unknown) + 1, "no result is told of an incarnation that is over");
}
