//! R7, linearizability of registers: for each register of a group, the operations on it can be put into one order, each
//! at some moment between its invocation and its answer, in which every answer is what a single register would give.
//! Operations without an answer may stand anywhere after their invocation, or nowhere.
//!
//! The order is searched for (`linear`), not taken from the total order of the messages, so that this property does not
//! depend on how the register is implemented. A group is not evaluated unless all its members' traces are given and
//! complete. A search that is given up after its bound is neither a violation nor an instance. The report counts it,
//! and has not passed then.
//!
//! Instances: answered operations of the registers evaluated. Source: Herlihy and Wing, "Linearizability: A Correctness
//! Condition for Concurrent Objects" (TOPLAS 12:3, 1990); it is local, so each register is evaluated alone.

use std::collections::BTreeMap;

use phalanx_trace::{Action, Outcome};

use super::Run;
use crate::findings::{Findings, Place};
use crate::linear::{Deed, Op, Verdict, search};
use crate::model::Model;
use crate::model::object::Call;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for ((group, key), calls) in registers(model) {
        if !model.tells_all_of(group) {
            continue;
        }
        let ops: Vec<Op> = calls.iter().map(|call| op(model, call)).collect();
        match search(&ops, run.options.clock_slack_ns, run.options.search_steps_max) {
            Verdict::Linearizable => {
                calls.iter().filter(|call| call.answer.is_some()).for_each(|_| out.instance());
            }
            Verdict::GivenUp => out.given_up(),
            Verdict::Impossible(at) => {
                out.instance();
                let evidence = evidence(&calls, at);
                out.violation(&evidence, || {
                    let (who, id) = (model.who(calls[at].proc), model.groups[group].id);
                    let (action, answer) = (calls[at].action, calls[at].answer);
                    let answer = answer.map_or_else(String::new, |(outcome, _, _)| outcome.to_string());
                    format!(
                        "no order explains what {who} was told of register {key} of group {id}: {action} gave {answer}"
                    )
                });
            }
        }
    }
}

fn registers(model: &Model) -> BTreeMap<(usize, u32), Vec<&Call>> {
    let mut registers: BTreeMap<(usize, u32), Vec<&Call>> = BTreeMap::new();
    for call in model.calls() {
        if let Action::Read { key } | Action::Write { key, .. } | Action::Cas { key, .. } = call.action {
            registers.entry((call.group, key)).or_default().push(call);
        }
    }
    registers
}

fn op(model: &Model, call: &Call) -> Op {
    let deed = match call.action {
        Action::Write { value, .. } => Deed::Write(value),
        Action::Cas { expected, value, .. } => Deed::Swap(expected, value),
        _ => Deed::Read,
    };
    let answer = call.answer.map(|(outcome, moment, _)| {
        let seen = if let Outcome::Value(value) = outcome { Some(value) } else { None };
        (moment.at_ns, seen)
    });
    let trace = call.invoke.place.trace;
    let clock = (0..trace).find(|&other| model.same_clock(other, trace)).unwrap_or(trace);
    Op { trace, clock, asked_ns: call.invoke.at_ns, answer, deed }
}

/// The impossible answer, its invocation, and the write of the value that it returned.
fn evidence(calls: &[&Call], at: usize) -> Vec<Place> {
    let culprit = calls[at];
    let seen = culprit.answer.and_then(|(outcome, _, _)| match outcome {
        Outcome::Value(value) => Some(value),
        _ => None,
    });
    let wrote = |call: &&&Call| match call.action {
        Action::Write { value, .. } | Action::Cas { value, .. } => Some(value) == seen,
        _ => false,
    };
    let writer = calls.iter().find(wrote).into_iter();
    let told = writer.flat_map(|call| {
        std::iter::once(call.invoke.place).chain(call.answer.iter().map(|(_, moment, _)| moment.place))
    });
    let mut places: Vec<Place> = told.collect();
    places.push(culprit.invoke.place);
    places.extend(culprit.answer.iter().map(|(_, moment, _)| moment.place));
    places
}
