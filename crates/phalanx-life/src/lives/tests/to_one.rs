//! Messages to one member, among multicasts and flushes.

use phalanx_core::{MessageToOne, ToOneKind, ToOneOutcome};

use super::*;
use crate::to_one::MessageTo;

const A: Incarnation = Incarnation(11);
const B: Incarnation = Incarnation(12);

impl Process {
    fn ask_to(&mut self, to: Incarnation, receipt: &'static str) {
        self.ask_to_in(0, to, receipt);
    }

    fn ask_to_in(&mut self, life: u64, to: Incarnation, receipt: &'static str) {
        let payload = Bytes::from_static(receipt.as_bytes());
        let asked = Queued::ToOne(MessageTo { life, to, payload, receipt: Some(receipt) });
        self.lives.queue(self.key, asked).expect("the membership goes on");
    }

    /// One turn of the protocol thread: sends what may go. Returns what went: payloads, `*` for a multicast. `full`: these
    /// receivers have no room. `waits`: multicasts wait in the core, so that nothing to one goes.
    fn turn(&mut self, full: &[Incarnation], waits: bool) -> Vec<String> {
        let mut went = Vec::new();
        self.lives.to_one().begin_turn(self.key);
        loop {
            if let Some(due) = self.lives.to_one().due(self.key, &mut self.told) {
                if full.contains(&due.to) {
                    self.lives.to_one().hold_back(self.key);
                } else if waits {
                    return went;
                } else {
                    went.push(String::from_utf8_lossy(&due.payload).into_owned());
                    self.lives.to_one().sent(self.key, ViewNumber(7), &mut self.told);
                }
            } else if self.due() {
                went.push("*".to_owned());
                self.lives.accepted(self.key, None, &mut self.told);
            } else {
                return went;
            }
        }
    }

    fn settled(&mut self, to: Incarnation, outcome: ToOneOutcome, messages: u64) {
        self.lives.to_one().settled(GROUP, to, outcome, messages, &mut self.told);
    }

    fn is_busy(&self) -> bool {
        self.lives.busy(0).is_some()
    }
}

#[test]
fn messages_to_one_go_in_the_order_in_which_they_were_asked_for_with_multicasts() {
    let mut process = Process::member();
    process.one("m1");
    process.ask_to(A, "a1");
    process.ask_to(B, "b1");
    process.one("m2");
    process.ask_to(A, "a2");
    assert_eq!(process.turn(&[], false), ["*", "a1", "b1", "*", "a2"]);
    assert_eq!(process.take(), ["a1 in 7", "b1 in 7", "a2 in 7"]);
    assert!(!process.is_busy());
    process.settled(A, ToOneOutcome::Delivered, 1);
    process.settled(A, ToOneOutcome::NotDelivered, 1);
    process.settled(B, ToOneOutcome::InDoubt, 1);
    let told = [
        "1 to 11 Delivered",
        "a1 Delivered",
        "1 to 11 NotDelivered",
        "a2 NotDelivered",
        "1 to 12 InDoubt",
        "b1 InDoubt",
    ];
    assert_eq!(process.take(), told);
    let room = process.told.released_to.values().copied().collect::<Vec<_>>();
    assert_eq!(room, [2 * (2 + 64), 2 + 64], "each gave its room back");
}

/// One whose receiver takes nothing must hold back neither multicasts nor messages to others, and what goes to the same
/// receiver must not overtake it.
#[test]
fn one_without_room_holds_back_those_to_the_same_receiver_alone() {
    let mut process = Process::member();
    process.ask_to(A, "a1");
    process.ask_to(B, "b1");
    process.one("m1");
    process.ask_to(A, "a2");
    assert_eq!(process.turn(&[A], false), ["b1", "*"]);
    assert!(process.is_busy(), "it is tried again");
    process.ask_to(A, "a3");
    process.one("m2");
    assert_eq!(process.turn(&[A], false), ["*"]);
    assert_eq!(process.lives.want_leave(process.key), Ok(()));
    assert_eq!(process.lives.to_leave(), None, "it waits for what was sent before");
    process.ask_to(B, "b2");
    assert_eq!(process.turn(&[], false), ["a1", "a2", "a3", "b2"]);
    assert_eq!(process.lives.to_leave(), Some((process.key, GROUP)));
    assert!(!process.is_busy());
}

/// There may be room for the shorter one alone.
#[test]
fn a_shorter_one_does_not_overtake() {
    let mut process = Process::member();
    process.ask_to(A, "a long one");
    process.ask_to(A, "a2");
    process.one("m1");
    process.lives.to_one().begin_turn(process.key);
    assert!(process.lives.to_one().due(process.key, &mut process.told).is_some());
    process.lives.to_one().hold_back(process.key);
    let due = process.lives.to_one().due(process.key, &mut process.told);
    assert!(due.is_none() && process.due(), "it is the turn of the multicast: {due:?}");
    assert_eq!(process.turn(&[], false), ["a long one", "a2", "*"]);
}

/// More multicasts would keep it waiting for ever, because it comes after all that were sent.
#[test]
fn one_that_waits_for_multicasts_is_overtaken_by_no_more_of_them() {
    let mut process = Process::member();
    process.ask_to(A, "a1");
    process.one("m1");
    assert_eq!(process.turn(&[A], false), ["*"]);
    process.one("m2");
    assert!(process.turn(&[], true).is_empty(), "its receiver has room again");
    process.ask_to(B, "b1");
    assert_eq!(process.turn(&[], false), ["a1", "*", "b1"]);
    process.ask_to(B, "b2");
    process.one("m3");
    assert!(process.turn(&[], true).is_empty(), "it keeps its place");
    assert_eq!(process.turn(&[], false), ["b2", "*"]);
}

#[test]
fn one_that_is_refused_says_why_and_what_is_behind_it_goes() {
    let mut process = Process::member();
    process.ask_to(A, "a1");
    process.ask_to(A, "a2");
    assert!(process.turn(&[A], false).is_empty());
    process.lives.to_one().begin_turn(process.key);
    for receiver in [A, A] {
        let due = process.lives.to_one().due(process.key, &mut process.told).expect("it is tried");
        assert_eq!(due.to, receiver);
        process.lives.to_one().refused(process.key, Refusal::NoSuchMember(ViewNumber(8)), &mut process.told);
    }
    assert_eq!(process.take(), ["a1: NoSuchMember(8)", "a2: NoSuchMember(8)"]);
    process.ask_to(B, "b1");
    let asked = MessageTo { life: 0, to: B, payload: Bytes::new(), receipt: None };
    process.lives.queue(process.key, Queued::ToOne(asked)).expect("the membership goes on");
    let refusal = Refusal::BelowLevel { level: 7, needed: 8 };
    for _ in 0..2 {
        assert!(process.lives.to_one().due(process.key, &mut process.told).is_some());
        process.lives.to_one().refused(process.key, refusal, &mut process.told);
    }
    assert_eq!(process.take(), [format!("b1: {refusal:?}"), "1 refused".to_owned()], "nobody else learns of it");
    assert!(process.turn(&[], false).is_empty() && !process.is_busy());
}

#[test]
fn a_flush_waits_for_the_outcomes_of_messages_to_one_before_it() {
    let mut process = Process::member();
    process.one("m1");
    process.ask_to(A, "a1");
    process.ask_to(B, "b1");
    process.flush("all");
    process.ask_to(B, "b2");
    process.one("m2");
    assert_eq!(process.turn(&[A], false), ["*", "b1", "b2", "*"]);
    process.bind(7, 1);
    process.take();
    process.settled(B, ToOneOutcome::Delivered, 1);
    assert_eq!(process.take(), ["1 to 12 Delivered", "b1 Delivered"], "one to the other is held back");
    assert_eq!(process.turn(&[], false), ["a1"]);
    process.settled(A, ToOneOutcome::Delivered, 1);
    assert_eq!(process.take(), ["a1 in 7", "1 to 11 Delivered", "a1 Delivered", "all is 1, 7.1"]);

    // Its messages to one have outcomes before its multicasts have a place, and later ones have none yet.
    process.flush("again");
    process.one("m3");
    assert_eq!(process.turn(&[], false), ["*"]);
    process.settled(B, ToOneOutcome::Delivered, 1);
    assert_eq!(process.take(), ["1 to 12 Delivered", "b2 Delivered"]);
    process.bind(7, 2);
    assert_eq!(process.take(), ["sent 7.2", "m2 is 2, 7.2", "again is 2, 7.2"]);
}

/// A refused message has its outcome, too.
#[test]
fn a_flush_does_not_wait_for_what_is_refused() {
    let mut process = Process::member();
    process.ask_to(A, "a1");
    process.ask_to(A, "a2");
    assert!(process.turn(&[A], false).is_empty());
    process.flush("all");
    assert!(process.turn(&[A], false).is_empty());
    process.lives.to_one().begin_turn(process.key);
    assert!(process.lives.to_one().due(process.key, &mut process.told).is_some());
    process.lives.to_one().refused(process.key, Refusal::TooLong(1), &mut process.told);
    assert_eq!(process.take(), ["a1: TooLong(1)"]);
    assert_eq!(process.turn(&[], false), ["a2"]);
    process.ask_to(A, "a3");
    assert_eq!(process.turn(&[], false), ["a3"]);
    process.take();
    process.settled(A, ToOneOutcome::Delivered, 1);
    assert_eq!(process.take(), ["1 to 11 Delivered", "a2 Delivered", "all is 0, 0.0"]);
}

#[test]
fn the_end_of_a_life_ends_its_messages_to_one() {
    let mut process = Process::member();
    for (to, receipt) in [(A, "a1"), (A, "a2"), (B, "b1")] {
        process.ask_to(to, receipt);
    }
    process.flush("all");
    assert_eq!(process.turn(&[B], false), ["a1", "a2"]);
    process.ask_to(A, "a3");
    process.settled(A, ToOneOutcome::Delivered, 1);
    process.take();
    process.event(Event::Excluded { view: ViewNumber(8) });
    let told = [
        "ending",
        "1 to 11 InDoubt",
        "a2 InDoubt",
        "all: NotSent",
        "b1: NotSent",
        "a3: NotSent",
        "life 1: 2 not sent, 0 in doubt",
        "all excluded 5",
        "excluded 5",
    ];
    assert_eq!(process.take(), told);
    let room: usize = process.told.released_to.values().sum();
    assert_eq!(room, 4 * (2 + 64), "each gave its room back");

    // What was asked for in the life before is not sent, and the next one knows nothing of it.
    process.ask_to_in(0, A, "late");
    process.ask_to_in(1, A, "a4");
    assert!(process.turn(&[], false).is_empty(), "it is in no view");
    process.lives.begin(Incarnation(6), &mut process.told);
    process.event(view(1, true));
    assert_eq!(process.turn(&[], false), ["a4"]);
    process.settled(A, ToOneOutcome::Delivered, 1);
    let told = ["1 refused", "late: NotSent", "view 1", "a4 in 7", "1 to 11 Delivered", "a4 Delivered"];
    assert_eq!(process.take(), told);
}

/// They are in doubt if the incarnation is given up, because the core that knew more is gone with it.
#[test]
fn what_was_sent_at_once_is_in_doubt_when_the_process_ends() {
    let mut process = Process::member();
    for to in [A, B, B] {
        process.lives.to_one().sent_at_once(process.key, to);
    }
    process.settled(B, ToOneOutcome::Delivered, 1);
    process.event(view(8, true));
    process.settled(A, ToOneOutcome::Delivered, 1);
    process.lives.end(&mut process.told);
    let told = [
        "1 to 12 Delivered",
        "view 8",
        "1 to 11 Delivered",
        "closing",
        "1 to 12 InDoubt",
        "life 1: 0 not sent, 0 in doubt",
        "ended Over",
    ];
    assert_eq!(process.take(), told);
}

/// Their senders were told that they came, so they do, also beside a state that makes no sense. Answers are for who asked.
#[test]
fn messages_to_this_process_are_handed_over_and_answers_are_not() {
    let mut process = Process::member();
    let deliver = |process: &mut Process, kind| {
        let message = MessageToOne { group: GROUP, view: ViewNumber(6), sender: A, kind, payload: b"x" };
        process.lives.to_one().deliver(&message, &mut process.told);
    };
    deliver(&mut process, ToOneKind::Message);
    deliver(&mut process, ToOneKind::Answer);
    assert_eq!(process.take(), ["from 11, view 6: [120]"]);
    process.told.refuses = Some("nonsense");
    process.event(Event::StateBegin { group: GROUP, name: "g".into(), bytes: 1, view: None, domains: None });
    process.lives.restore(GROUP, b"x", &mut process.told);
    process.take();
    process.deliver(1);
    deliver(&mut process, ToOneKind::Message);
    assert_eq!(process.take(), ["from 11, view 6: [120]"]);
}
