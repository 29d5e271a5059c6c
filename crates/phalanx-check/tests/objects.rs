//! L1, L2, R7 and BANK: good and broken runs for each.

mod common;

use common::{GROUP, World, id, options};
use phalanx_check::{Options, Property, check};
use phalanx_trace::{Action, Event, LeaveReason, Outcome};

/// Operations of processes in view 1 of the group, recorded as they are invoked and answered.
struct Users {
    world: World,
    asked: [u64; 3],
}

impl Users {
    fn new() -> Self {
        Self { world: World::group(3), asked: [0; 3] }
    }

    fn ask(&mut self, p: usize, action: Action) -> u64 {
        self.asked[p] += 1;
        let op = self.asked[p];
        self.world.push(p, Event::Invoke { group: GROUP, op, action });
        op
    }

    fn answer(&mut self, p: usize, op: u64, outcome: Outcome) {
        self.world.push(p, Event::Return { op, outcome });
    }

    /// An operation that is invoked and answered before anything else happens.
    fn call(&mut self, p: usize, action: Action, outcome: Outcome) {
        let op = self.ask(p, action);
        self.answer(p, op, outcome);
    }

    fn read(&mut self, p: usize, value: u64) {
        self.call(p, READ, Outcome::Value(value));
    }

    fn write(&mut self, p: usize, value: u64) {
        self.call(p, write(value), Outcome::Done);
    }

    fn grant(&mut self, p: usize, token: u64) {
        self.call(p, ACQUIRE, Outcome::Granted { token });
    }

    fn use_with(&mut self, p: usize, serial: u64, token: u64, accepted: bool) {
        self.world.push(p, Event::Guard { resource: 0, serial, token, accepted });
    }

    fn balance(&mut self, p: usize, sum: u64) {
        self.world.push(p, Event::Balance { group: GROUP, sum });
    }
}

const READ: Action = Action::Read { key: 0 };
const ACQUIRE: Action = Action::Acquire { lock: 0 };

fn write(value: u64) -> Action {
    Action::Write { key: 0, value }
}

fn swap(expected: u64, value: u64) -> Action {
    Action::Cas { key: 0, expected, value }
}

#[test]
fn r7_one_after_the_other() {
    let mut users = Users::new();
    users.read(0, 0);
    users.write(0, 5);
    users.read(1, 5);
    users.call(2, swap(5, 6), Outcome::Value(5));
    users.call(2, swap(5, 7), Outcome::Value(6));
    users.read(0, 6);
    users.call(0, Action::Read { key: 1 }, Outcome::Value(0));
    users.world.holds(&[Property::R7]);
}

#[test]
fn r7_at_the_same_time_any_order_will_do() {
    let mut users = Users::new();
    let one = users.ask(0, write(1));
    let two = users.ask(1, write(2));
    users.read(2, 2);
    users.read(2, 1);
    users.answer(0, one, Outcome::Done);
    users.answer(1, two, Outcome::Done);
    users.world.holds(&[Property::R7]);
}

#[test]
fn r7_a_write_without_an_answer_may_have_happened_late_or_never() {
    let mut users = Users::new();
    users.ask(0, write(1));
    users.ask(1, write(2));
    users.ask(1, swap(9, 4));
    users.read(2, 0);
    users.read(2, 2);
    users.write(2, 3);
    users.read(2, 3);
    users.read(2, 1);
    users.world.holds(&[Property::R7]);
}

#[test]
fn r7_a_stale_read() {
    let mut users = Users::new();
    users.write(0, 1);
    users.write(0, 2);
    users.read(1, 1);
    let report = users.world.breaks(Property::R7);
    assert!(report.to_string().contains("b (0000000000000002) was told of register 0"), "{report}");
}

#[test]
fn r7_a_read_that_goes_back() {
    let mut users = Users::new();
    let op = users.ask(0, write(1));
    users.read(1, 1);
    users.read(2, 0);
    users.answer(0, op, Outcome::Done);
    users.world.breaks(Property::R7);
}

#[test]
fn r7_a_value_nobody_wrote() {
    let mut users = Users::new();
    users.write(0, 1);
    users.read(1, 7);
    users.world.breaks(Property::R7);
}

#[test]
fn r7_a_write_that_was_refused_never_happened() {
    let mut users = Users::new();
    users.call(0, write(1), Outcome::NotSent);
    users.read(1, 1);
    users.world.breaks(Property::R7);
}

#[test]
fn r7_a_write_that_was_answered_and_lost() {
    let mut users = Users::new();
    users.write(0, 1);
    users.world.lose(0, &[1, 2]);
    users.read(1, 0);
    users.world.breaks(Property::R7);
}

#[test]
fn r7_two_swaps_of_one_value() {
    let mut users = Users::new();
    let one = users.ask(0, swap(0, 1));
    let two = users.ask(1, swap(0, 2));
    users.answer(0, one, Outcome::Value(0));
    users.answer(1, two, Outcome::Value(0));
    users.world.breaks(Property::R7);
}

#[test]
fn r7_two_readers_that_see_two_orders() {
    let mut users = Users::new();
    let one = users.ask(0, write(1));
    let two = users.ask(0, write(2));
    users.read(1, 1);
    let late = users.ask(2, READ);
    users.read(1, 2);
    users.answer(2, late, Outcome::Value(2));
    users.read(2, 1);
    users.answer(0, one, Outcome::Done);
    users.answer(0, two, Outcome::Done);
    users.world.breaks(Property::R7);
}

#[test]
fn r7_is_not_judged_with_a_member_whose_trace_is_missing() {
    let mut users = Users::new();
    users.read(1, 7);
    users.world.traces.remove(0);
    let report = users.world.report();
    assert_eq!(report.instances(Property::R7), 0, "{report}");
    assert!(!report.violated().contains(&Property::R7), "{report}");
}

#[test]
fn r7_long_histories_are_judged() {
    let mut users = Users::new();
    let mut open = Vec::new();
    for value in 1..200 {
        let op = users.ask(0, write(value));
        users.read(1, value);
        if value % 7 == 0 {
            users.ask(2, write(1_000 + value));
        }
        open.push(op);
        if open.len() == 3 {
            open.drain(..).for_each(|op| users.answer(0, op, Outcome::Done));
        }
    }
    users.world.holds(&[Property::R7]);
    users.read(1, 3);
    let report = users.world.breaks(Property::R7);
    assert!(report.properties.iter().all(|property| property.given_up == 0), "{report}");
}

#[test]
fn r7_what_is_given_up_has_not_passed() {
    let mut users = Users::new();
    users.read(0, 0);
    users.world.holds(&[Property::R7]);
    let report = check(&users.world.traces, &Options { search_steps_max: 0, ..options() });
    assert!(report.violated().is_empty() && !report.passed, "{report}");
    assert_eq!(report.instances(Property::R7), 0, "{report}");
    assert!(report.to_string().contains("FAILED: took too long to check: R7"), "{report}");
}

#[test]
fn l1_given_back_and_granted_again() {
    let mut users = Users::new();
    users.grant(0, 10);
    users.call(1, ACQUIRE, Outcome::Held { holder: id(0), token: 10 });
    users.ask(0, Action::Release { lock: 0, token: 10 });
    users.grant(1, 12);
    users.world.holds(&[Property::L1]);
}

#[test]
fn l1_a_holder_that_leaves_loses_the_lock() {
    let mut users = Users::new();
    users.grant(0, 10);
    users.world.lose(0, &[1, 2]);
    users.grant(1, 20);
    users.world.holds(&[Property::L1]);
}

#[test]
fn l1_two_holders() {
    let mut users = Users::new();
    users.grant(0, 10);
    users.grant(1, 12);
    users.world.breaks(Property::L1);
}

#[test]
fn l1_given_back_too_late() {
    let mut users = Users::new();
    users.grant(0, 10);
    users.grant(1, 12);
    users.ask(0, Action::Release { lock: 0, token: 10 });
    users.world.breaks(Property::L1);
}

#[test]
fn l1_the_release_was_refused() {
    let mut users = Users::new();
    users.grant(0, 10);
    users.call(0, Action::Release { lock: 0, token: 10 }, Outcome::NotSent);
    users.grant(1, 12);
    users.world.breaks(Property::L1);
}

#[test]
fn l1_a_view_with_the_holder_frees_nothing() {
    let mut users = Users::new();
    users.grant(0, 10);
    users.world.lose(2, &[0, 1]);
    users.grant(1, 20);
    users.world.breaks(Property::L1);
}

#[test]
fn l1_one_token_twice() {
    let mut users = Users::new();
    users.grant(0, 10);
    users.grant(0, 10);
    users.world.breaks(Property::L1);
}

#[test]
fn l1_a_smaller_token_later() {
    let mut users = Users::new();
    users.grant(0, 10);
    users.ask(0, Action::Release { lock: 0, token: 10 });
    users.grant(0, 9);
    users.world.breaks(Property::L1);
}

#[test]
fn l1_held_by_one_that_left() {
    let mut users = Users::new();
    users.grant(0, 10);
    users.world.lose(0, &[1, 2]);
    users.call(1, ACQUIRE, Outcome::Held { holder: id(0), token: 10 });
    users.world.breaks(Property::L1);
}

#[test]
fn l1_asked_before_the_holder_left() {
    let mut users = Users::new();
    users.grant(0, 10);
    let op = users.ask(1, ACQUIRE);
    users.world.lose(0, &[1, 2]);
    users.answer(1, op, Outcome::Held { holder: id(0), token: 10 });
    users.grant(2, 20);
    users.world.holds(&[Property::L1]);
}

#[test]
fn l2_older_tokens_are_turned_away() {
    let mut users = Users::new();
    users.use_with(0, 1, 10, true);
    users.use_with(1, 2, 12, true);
    users.use_with(0, 3, 10, false);
    users.use_with(1, 4, 12, true);
    users.world.holds(&[Property::L2]);
}

#[test]
fn l2_an_older_token_is_let_in() {
    let mut users = Users::new();
    users.use_with(0, 1, 10, true);
    users.use_with(1, 2, 12, true);
    users.use_with(0, 3, 10, true);
    users.world.breaks(Property::L2);
}

#[test]
fn bank_sums_stay() {
    let mut users = Users::new();
    users.balance(0, 800);
    users.call(0, Action::Transfer { from: 0, to: 1, amount: 5 }, Outcome::Done);
    users.balance(1, 800);
    users.world.holds(&[Property::BANK]);
}

#[test]
fn bank_money_is_made() {
    let mut users = Users::new();
    users.balance(0, 800);
    users.call(0, Action::Transfer { from: 0, to: 1, amount: 5 }, Outcome::Done);
    users.balance(1, 805);
    users.world.breaks(Property::BANK);
}

#[test]
fn e1_answers_without_questions_and_numbers_left_out() {
    let mut users = Users::new();
    users.answer(0, 1, Outcome::Done);
    users.world.breaks(Property::E1);
    let mut users = Users::new();
    users.asked[0] = 1;
    users.ask(0, READ);
    users.world.breaks(Property::E1);
}

#[test]
fn a_lost_holder_is_gone_from_the_view_it_left_gracefully() {
    let mut users = Users::new();
    users.grant(0, 10);
    users.world.push(0, Event::GroupLeaveAsked { group: GROUP });
    for p in [1, 2] {
        users.world.group_view(p, 2, Some(1), &[1, 2], &[], &[(0, LeaveReason::Left)]);
    }
    users.world.push(0, Event::GroupLeft { group: GROUP });
    users.grant(1, 20);
    users.world.holds(&[Property::L1]);
}
