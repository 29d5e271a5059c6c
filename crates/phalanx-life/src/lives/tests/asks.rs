//! Asks: of this process, and those that it is to answer.

use std::time::Duration;

use phalanx_core::{CommandError, Expected, Instant, MessageToOne, Rank, SendOptions, ToOneKind};

use super::*;
use crate::asks::{Ask, AskId, Frame, Reply, Want, What};
use crate::front::Refusal;

const A: Incarnation = Incarnation(11);
const B: Incarnation = Incarnation(12);
const T: Instant = Instant(1_000_000_000);

fn members(number: u64, members: &[Incarnation]) -> Event {
    Event::GroupView(Arc::new(GroupView {
        members: members.to_vec(),
        adequate: true,
        ..GroupView::new(GROUP, "g", ViewNumber(number))
    }))
}

impl Process {
    /// In view 7 with A and B, at rank 0.
    fn of_three() -> Self {
        let mut process = Self::new(true);
        process.event(members(7, &[ME, A, B]));
        process.take();
        process
    }

    fn queue_ask(&mut self, receipt: &'static str, want: Want, deadline: Option<Instant>) {
        let options = SendOptions { asks: true, ..SendOptions::new(Order::Total, Stability::Uniform) };
        let payload = Bytes::from_static(b"what?");
        let ask = Ask { number: 1, life: 0, options, payload, want, with_self: false, deadline, receipt };
        self.lives.queue(self.key, Queued::Ask(Box::new(ask))).expect("the membership goes on");
    }

    /// One that is sent at once, as message `seq` of view 7, and delivered to all.
    fn ask_all(&mut self, receipt: &'static str, want: Want, seq: u64) {
        self.queue_ask(receipt, want, None);
        self.accept(Some((7, seq)));
        self.ask_delivered(ME, seq);
        self.take();
    }

    fn ask_delivered(&mut self, sender: Incarnation, seq: u64) {
        let delivery = Delivery {
            group: GROUP,
            view: ViewNumber(7),
            sender,
            seq: Sequence(seq),
            order: Order::Total,
            uniformity: Uniformity::Uniform,
            position: Some(seq),
            replayed: false,
            asked: Some(Expected::of(&[0b111])),
            domain: None,
            payload: b"what?",
        };
        self.lives.deliver(&delivery, &mut self.told);
    }

    fn hear(&mut self, sender: Incarnation, seq: u64, place: u16, what: What<'_>) {
        let mut payload = Vec::new();
        Frame { ask: (ViewNumber(7), Sequence(seq)), place: Rank(place), what }.put(&mut payload);
        let (view, kind) = (ViewNumber(7), ToOneKind::Answer);
        let message = MessageToOne { group: GROUP, view, sender, kind, payload: &payload };
        self.lives.to_one().deliver(&message, &mut self.told);
    }

    /// What is said of asks, and to whom.
    fn said(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        while let Some(due) = self.lives.to_one().due(self.key, &mut self.told) {
            let frame = Frame::read(&due.payload).expect("it makes sense");
            said.push(format!("{} for {}: {:?}", due.to.0, frame.place.0, frame.what));
            self.lives.to_one().sent(self.key, ViewNumber(7), &mut self.told);
        }
        said
    }

    fn id(sender: Incarnation, seq: u64, place: u16) -> AskId {
        AskId { asker: sender, number: (ViewNumber(7), Sequence(seq)), place: Rank(place) }
    }
}

#[test]
fn answers_count_once_from_whom_they_are_awaited_and_an_end_is_told_with_outcomes() {
    let mut process = Process::of_three();
    process.ask_all("q", Want::All, 1);
    process.hear(A, 1, 1, What::Reply(Reply::Value, b"42"));
    process.hear(A, 1, 1, What::Reply(Reply::Value, b"43"));
    process.hear(B, 1, 1, What::Reply(Reply::Null, b""));
    process.hear(B, 9, 2, What::Reply(Reply::Null, b""));
    process.hear(B, 1, 0, What::Reply(Reply::Null, b""));
    assert_eq!(process.take(), ["q: Value([52, 50]) of 11 by 11"], "the asker left itself out");
    assert_eq!(process.lives.asks().late(), 4);
    process.hear(B, 1, 2, What::Reply(Reply::Null, b""));
    assert_eq!(process.take(), ["q: Null of 12 by 12"]);
    process.tell(false);
    assert_eq!(process.take(), Vec::<String>::new(), "too few have the state");
    process.event(Event::NonPrimary { heard: 1, needed: 2, why: String::new() });
    process.tell(true);
    assert!(!process.take().iter().any(|step| step.contains("ended")), "no quorum is heard");
    process.event(Event::Primary);
    process.tell(true);
    assert_eq!(process.take(), ["q ended: Met"]);
}

#[test]
fn a_place_is_left_with_the_view_and_a_forward_outlives_its_member() {
    let mut process = Process::of_three();
    process.ask_all("q", Want::All, 1);
    process.hear(A, 1, 1, What::Reply(Reply::Forward(Rank(2)), b""));
    assert_eq!(process.said(), ["12 for 1: Forwarded(Expected([7]), [119, 104, 97, 116, 63])"]);
    process.event(members(8, &[ME, B]));
    assert_eq!(process.take(), ["view 8"], "who forwarded may go");
    process.hear(B, 1, 1, What::Reply(Reply::Value, b"7"));
    process.event(members(9, &[ME]));
    assert_eq!(process.take(), ["q: Value([55]) of 11 by 12", "view 9", "q: Left of 12 by 12"]);
    process.tell(true);
    assert_eq!(process.take(), ["stable 0, delivered 1", "q ended: Complete"]);
}

#[test]
fn what_is_given_up_is_told_to_those_that_were_to_answer() {
    let mut process = Process::of_three();
    process.queue_ask("queued", Want::All, Some(T));
    process.lives.asks().expire(T, &mut process.told);
    assert_eq!(process.take(), ["queued: Late"], "nobody has it");
    process.queue_ask("bound", Want::All, Some(T));
    process.accept(Some((7, 1)));
    process.lives.asks().expire(T, &mut process.told);
    assert_eq!(
        (process.take(), process.said()),
        (vec!["sent 7.1".to_owned(), "bound ended: Deadline".to_owned()], vec![])
    );
    process.ask_delivered(ME, 1);
    assert_eq!(process.said(), ["11 for 1: GivenUp", "12 for 2: GivenUp"]);
    assert_eq!(process.take(), ["message 1"], "nobody answers it here");
    process.ask_all("open", Want::All, 2);
    process.hear(A, 2, 1, What::Reply(Reply::Null, b""));
    process.lives.asks().cancel(process.key, 1, &mut process.told);
    assert_eq!(process.take(), ["open: Null of 11 by 11", "open ended: Cancelled"]);
    assert_eq!(process.said(), ["12 for 2: GivenUp"]);
    process.ask_all("full", Want::All, 3);
    process.told.is_full = true;
    assert!(process.lives.asks().expire(T, &mut process.told).is_some_and(|again| again > T));
    process.lives.asks().expire(T + Duration::from_secs(1), &mut process.told);
    assert_eq!(process.take(), ["full ended: Full"]);
    process.told.is_full = false;
    process.ask_all("over", Want::All, 4);
    process.event(Event::Excluded { view: ViewNumber(9) });
    assert!(process.take().contains(&"over ended: Over".to_owned()));
}

/// Who waits for it learns why, and tries again only where that helps.
#[test]
fn what_the_core_refuses_for_good_is_told_as_it_says() {
    let below = CommandError::BelowLevel { level: 8, needed: 9 };
    assert_eq!(Refusal::of(&below), Some(Refusal::BelowLevel { level: 8, needed: 9 }));
    assert_eq!(Refusal::of(&CommandError::TooLong(7)), Some(Refusal::TooLong(7)));
    assert_eq!(Refusal::of(&CommandError::OtherView), Some(Refusal::OtherView));
    for waits in [CommandError::NoCredit, CommandError::NoWindow, CommandError::NotMember, CommandError::Over] {
        assert_eq!(Refusal::of(&waits), None, "{waits}");
    }
    let mut process = Process::of_three();
    process.queue_ask("q", Want::All, None);
    assert!(process.due());
    process.lives.refused(process.key, Refusal::of(&below).expect("for good"), &mut process.told);
    assert_eq!(process.take(), ["q: BelowLevel { level: 8, needed: 9 }"]);
}

#[test]
fn one_answer_is_given_for_each_place_that_was_shown() {
    let mut process = Process::of_three();
    process.ask_delivered(A, 1);
    process.ask_delivered(B, 1);
    process.hear(A, 1, 2, What::Forwarded(Expected::of(&[0b111]), b"what?"));
    let shown = ["asked 7.1 of 11 for 0", "asked 7.1 of 12 for 0", "asked instead 7.1 of 11 for 2"];
    assert_eq!(process.take(), shown);
    let answer = |process: &mut Process, id| process.lives.asks().answer(process.key, id, Reply::Value, b"v");
    assert!(answer(&mut process, Process::id(A, 1, 0)));
    assert!(!answer(&mut process, Process::id(A, 1, 0)), "it did before");
    assert!(!answer(&mut process, Process::id(A, 1, 1)), "that place was not shown");
    process.hear(A, 1, 0, What::GivenUp);
    assert_eq!(process.take(), ["given up 7.1"], "the forwarded place is left");
    assert!(!answer(&mut process, Process::id(A, 1, 2)));
    assert_eq!(process.said(), ["11 for 0: Reply(Value, [118])"]);
    process.event(members(8, &[ME, A]));
    assert!(!answer(&mut process, Process::id(B, 1, 0)), "who asked is gone");
    process.told.reply = Some(Reply::Abort);
    process.take();
    process.hear(A, 2, 0, What::Forwarded(Expected::of(&[0b1]), b"again?"));
    assert_eq!(process.said(), ["11 for 0: Reply(Abort, [109, 105, 110, 101])"], "at once");
    process.hear(B, 2, 0, What::Forwarded(Expected::of(&[0b1]), b"who?"));
    assert_eq!(
        process.take(),
        ["view 8", "asked instead 7.2 of 11 for 0"].map(str::to_owned)[1..],
        "not of one that is gone"
    );
}
