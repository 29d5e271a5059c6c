//! Clients beside a table: what is sent may be lost with a life, and nothing is executed twice.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_core::Incarnation;
use phalanx_core::rng::Rng;

use super::*;
use crate::submits::table::{Clients, TableBounds, Taken};

/// A group with one state: it executes messages, and its results count them.
struct Group {
    table: Clients,
    executed: Vec<Vec<u8>>,
    view: u64,
}

impl Group {
    fn new(bounds: TableBounds) -> Self {
        Self { table: Clients::with_bounds(bounds), executed: Vec::new(), view: 1 }
    }

    /// A message comes to its place.
    fn order(&mut self, sender: Incarnation, message: &Outgoing) -> Option<Told> {
        match self.table.take(sender, &message.payload) {
            Taken::Nothing => None,
            Taken::Told(told) => Some(told),
            Taken::Execute(execution) => {
                self.executed.push(execution.payload.to_vec());
                let result = vec![u8::try_from(self.executed.len() % 251).expect("less"); 3];
                Some(self.table.executed(execution, result))
            }
        }
    }

    /// The result that a payload's execution gave.
    fn result_of(&self, payload: &[u8]) -> Option<Vec<u8>> {
        let at = self.executed.iter().position(|executed| executed == payload)?;
        Some(vec![u8::try_from((at + 1) % 251).expect("less"); 3])
    }

    fn without(&mut self, gone: Incarnation) {
        self.view += 1;
        self.table.view(self.view, |who| who != gone);
    }
}

/// Steps of a random run.
const STEPS: u32 = 300;
const ME: Incarnation = Incarnation(1);
const AGAIN: Incarnation = Incarnation(2);

fn bounds() -> TableBounds {
    TableBounds { clients: 2, bytes: 10_000, answer_bytes: 100, answers: 4 }
}

fn submitter() -> Submitter<u32> {
    let mut submitter = Submitter::random();
    submitter.begin_life();
    submitter
}

fn submit(submitter: &mut Submitter<u32>, payload: impl Into<Bytes>, receipt: u32) -> u64 {
    let number = submitter.next_number();
    assert!(submitter.has_room(number) && submitter.submit(number, payload.into(), receipt));
    number
}

fn due(submitter: &mut Submitter<u32>, random: &mut Rng) -> Option<Outgoing> {
    submitter.due(&mut || random.next_u64())
}

/// Sends all that is due as messages from `next` on, has it ordered and told.
fn carry(submitter: &mut Submitter<u32>, group: &mut Group, me: Incarnation, next: &mut u64, random: &mut Rng) {
    while let Some(out) = due(submitter, random) {
        *next += 1;
        out.number.into_iter().for_each(|number| submitter.bound(number, *next));
        group.order(me, &out).iter().for_each(|told| submitter.applied(told));
        submitter.reached(*next);
    }
}

fn told(submitter: &mut Submitter<u32>) -> Vec<(u32, Result<Vec<u8>, NotSubmitted>)> {
    let all = std::iter::from_fn(|| submitter.take_told());
    all.map(|(receipt, result)| (receipt, result.map(|bytes| bytes.to_vec()))).collect()
}

/// Its message was ordered, it was excluded before it heard, its donor executed it, it returns: once, and the same result.
#[test]
fn what_was_executed_in_an_earlier_life_gives_the_same_result_once() {
    let (mut one, mut group, mut random) = (submitter(), Group::new(bounds()), Rng::new(1));
    submit(&mut one, &b"first"[..], 1);
    carry(&mut one, &mut group, ME, &mut 0, &mut random);
    assert_eq!(told(&mut one), [(1, Ok(vec![1; 3]))]);
    submit(&mut one, &b"lost"[..], 2);
    submit(&mut one, &b"unsent"[..], 3);
    let lost = due(&mut one, &mut random).expect("it is due");
    one.bound(2, 1);
    let heard = group.order(ME, &lost).expect("it is executed");
    one.end_life();
    one.applied(&heard); // of the life that is over
    group.without(ME);
    assert_eq!((told(&mut one), due(&mut one, &mut random)), (vec![], None));
    one.begin_life();
    carry(&mut one, &mut group, AGAIN, &mut 0, &mut random);
    assert_eq!(told(&mut one), [(2, Ok(vec![2; 3])), (3, Ok(vec![3; 3]))]);
    assert_eq!(group.executed, [&b"first"[..], b"lost", b"unsent"]);
}

/// The same with a full table: another client took the place of the one that was away.
#[test]
fn a_client_that_was_dropped_while_it_was_away_does_not_know_and_goes_on_as_another() {
    let (mut one, mut group, mut random) = (submitter(), Group::new(bounds()), Rng::new(1));
    submit(&mut one, &b"lost"[..], 1);
    let open = due(&mut one, &mut random).expect("it is opened");
    one.applied(&group.order(ME, &open).expect("it is opened"));
    let first = one.id().cloned();
    group.order(ME, &due(&mut one, &mut random).expect("it is due"));
    one.end_life();
    group.without(ME);
    for name in ["a", "b"] {
        let mut other: Submitter<u32> = Submitter::named(name.to_owned(), 0, 1);
        other.begin_life();
        submit(&mut other, &b"other"[..], 1);
        carry(&mut other, &mut group, Incarnation(9), &mut 0, &mut random);
        assert_eq!(told(&mut other).len(), 1);
    }
    submit(&mut one, &b"fresh"[..], 2);
    one.begin_life();
    let mut messages = 0;
    carry(&mut one, &mut group, AGAIN, &mut messages, &mut random);
    let all_here = (2, Err(NotSubmitted::ClientsFull));
    assert_eq!(told(&mut one), [(1, Err(NotSubmitted::Unknown)), all_here], "and nobody is away");
    group.without(Incarnation(9));
    submit(&mut one, &b"later"[..], 3);
    carry(&mut one, &mut group, AGAIN, &mut messages, &mut random);
    assert!(matches!(told(&mut one)[..], [(3, Ok(_))]) && one.id() != first.as_ref());
    assert_eq!(group.executed.iter().filter(|executed| executed[..] == b"lost"[..]).count(), 1);
    assert!(group.result_of(b"fresh").is_none());
}

/// The same with a group that ended in between: its successor never executes what may have been executed before.
#[test]
fn a_group_that_ended_in_between_leaves_its_submitter_without_knowledge() {
    let (mut one, mut group, mut random) = (submitter(), Group::new(bounds()), Rng::new(1));
    submit(&mut one, &b"first"[..], 1);
    carry(&mut one, &mut group, ME, &mut 0, &mut random);
    told(&mut one);
    submit(&mut one, &b"lost"[..], 2);
    group.order(ME, &due(&mut one, &mut random).expect("it is due"));
    one.end_life();
    let mut anew = Group::new(bounds());
    one.begin_life();
    submit(&mut one, &b"fresh"[..], 3);
    carry(&mut one, &mut anew, AGAIN, &mut 0, &mut random);
    assert_eq!(told(&mut one), [(2, Err(NotSubmitted::Unknown)), (3, Ok(vec![1; 3]))]);
    assert_eq!(anew.executed, [b"fresh"]);
    // The end of the membership says the same of what was sent, and more of what was not.
    submit(&mut one, &b"last"[..], 4);
    due(&mut one, &mut random).expect("it is due");
    submit(&mut one, &b"unsent"[..], 5);
    one.end_membership();
    assert_eq!(told(&mut one), [(4, Err(NotSubmitted::Unknown)), (5, Err(NotSubmitted::Over))]);
}

#[test]
fn nothing_is_told_before_its_delivery_may_be() {
    let (mut one, mut group, mut random) = (submitter(), Group::new(bounds()), Rng::new(1));
    submit(&mut one, &b"m"[..], 1);
    let open = due(&mut one, &mut random).expect("it is opened");
    one.applied(&group.order(ME, &open).expect("it is opened"));
    let out = due(&mut one, &mut random).expect("it is due");
    one.applied(&group.order(ME, &out).expect("it is executed"));
    one.reached(5);
    assert_eq!(told(&mut one), [], "it is not bound");
    one.bound(1, 6);
    assert_eq!(told(&mut one), []);
    one.reached(6);
    assert_eq!(told(&mut one), [(1, Ok(vec![1; 3]))]);
}

#[test]
fn what_is_refused_is_told_and_the_end_of_a_life_is_none() {
    let (mut one, mut random) = (submitter(), Rng::new(1));
    let low = Refusal::BelowLevel { level: 9, needed: 10 };
    submit(&mut one, &b"m"[..], 1);
    due(&mut one, &mut random).expect("it is opened");
    one.refused(None, Refusal::NotSent);
    assert_eq!(told(&mut one), [], "the end of the life follows");
    assert_eq!(due(&mut one, &mut random).map(|out| out.number), Some(None), "it is opened in the next one");
    one.refused(None, low);
    assert_eq!(told(&mut one), [(1, Err(NotSubmitted::Refused(low)))]);
    submit(&mut one, &b"m"[..], 2);
    let open = due(&mut one, &mut random).expect("it is opened");
    one.applied(&Group::new(bounds()).order(ME, &open).expect("it is opened"));
    due(&mut one, &mut random).expect("it is due");
    one.refused(Some(2), Refusal::NotSent);
    assert_eq!(due(&mut one, &mut random).and_then(|out| out.number), Some(2), "nobody has it");
    one.refused(Some(2), Refusal::TooLong(9));
    assert_eq!(told(&mut one), [(2, Err(NotSubmitted::Refused(Refusal::TooLong(9))))]);
}

#[test]
fn a_named_client_goes_on_after_a_restart_and_asks_again_for_its_last_answer() {
    let (mut group, mut random) = (Group::new(bounds()), Rng::new(1));
    let named = |last, session| {
        let mut one: Submitter<u32> = Submitter::named("desk".to_owned(), last, session);
        one.begin_life();
        one
    };
    let mut one = named(0, 1);
    assert_eq!(submit(&mut one, &b"first"[..], 1), 1);
    carry(&mut one, &mut group, ME, &mut 0, &mut random);
    let mut next = named(1, 2);
    assert!(next.submit(1, Bytes::from_static(b"first"), 1) && !next.submit(1, Bytes::new(), 1));
    assert_eq!((next.next_number(), submit(&mut next, &b"second"[..], 2)), (2, 2));
    carry(&mut next, &mut group, AGAIN, &mut 0, &mut random);
    assert_eq!(told(&mut next), [(1, Ok(vec![1; 3])), (2, Ok(vec![2; 3]))]);
    // The former session is another process that did not end.
    submit(&mut one, &b"late"[..], 2);
    carry(&mut one, &mut group, ME, &mut 1, &mut random);
    assert_eq!(told(&mut one), [(1, Ok(vec![1; 3])), (2, Err(NotSubmitted::TakenOver))]);
    submit(&mut one, &b"late"[..], 3);
    assert_eq!(told(&mut one), [(3, Err(NotSubmitted::TakenOver))]);
    // One that did not record its numbers, and one whose name is not known.
    for (last, why) in [(0, NotSubmitted::Behind(2)), (1, NotSubmitted::Behind(2))] {
        let mut late = named(last, 3);
        submit(&mut late, &b"late"[..], 1);
        carry(&mut late, &mut group, AGAIN, &mut 0, &mut random);
        assert_eq!(told(&mut late), [(1, Err(why))]);
    }
    let mut unknown = named(7, 3);
    assert!(unknown.submit(7, Bytes::from_static(b"perhaps"), 7));
    submit(&mut unknown, &b"late"[..], 1);
    carry(&mut unknown, &mut Group::new(bounds()), AGAIN, &mut 0, &mut random);
    let of_before = (7, Err(NotSubmitted::Unknown));
    assert_eq!(told(&mut unknown), [of_before, (1, Err(NotSubmitted::NotKnown))]);
    assert_eq!(group.executed, [&b"first"[..], b"second"]);
}

#[test]
fn so_many_are_under_way_and_a_closed_client_is_forgotten() {
    let (mut one, mut random) = (submitter(), Rng::new(1));
    let mut group = Group::new(TableBounds { answers: 1_000, ..TableBounds::default() });
    let mut begun = 0;
    while one.has_room(one.next_number()) {
        submit(&mut one, &b"m"[..], begun);
        begun += 1;
    }
    assert_eq!(u64::from(begun), UNDER_WAY);
    one.abandon(1);
    assert!(one.has_room(one.next_number()), "nobody waits for the first");
    one.close();
    carry(&mut one, &mut group, ME, &mut 0, &mut random);
    assert_eq!((told(&mut one).len(), group.executed.len(), group.table.size().0), (255, 255, 0));
    submit(&mut one, &b"m"[..], 0);
    assert_eq!(told(&mut one), [(0, Err(NotSubmitted::Over))]);
    let mut long = submitter();
    submit(&mut long, vec![0; UNDER_WAY_BYTES], 0);
    assert!(!long.has_room(2));
    long.abandon(1);
    assert!(long.has_room(2));
}

/// A close that went down with its life goes out again in the next one; so does what was submitted before it.
#[test]
fn a_closed_client_is_told_all_and_is_closed_in_a_later_life() {
    let (mut one, mut group, mut random) = (submitter(), Group::new(bounds()), Rng::new(1));
    submit(&mut one, &b"first"[..], 1);
    carry(&mut one, &mut group, ME, &mut 0, &mut random);
    submit(&mut one, &b"second"[..], 2);
    let second = due(&mut one, &mut random).expect("it is due");
    group.order(ME, &second);
    one.close();
    assert_eq!(due(&mut one, &mut random), None, "it waits for the result");
    one.end_life();
    one.begin_life();
    while let Some(out) = due(&mut one, &mut random) {
        out.number.into_iter().for_each(|number| one.bound(number, 1));
        group.order(AGAIN, &out).iter().for_each(|told| one.applied(told));
    }
    one.reached(1);
    assert_eq!(told(&mut one), [(1, Ok(vec![1; 3])), (2, Ok(vec![2; 3]))]);
    due(&mut one, &mut random).expect("the close, which is lost");
    assert!(!one.is_idle());
    one.end_life();
    one.begin_life();
    carry(&mut one, &mut group, AGAIN, &mut 0, &mut random);
    assert!(one.is_idle() && group.table.size().0 == 0);
    one.end_life();
    one.begin_life();
    assert_eq!(due(&mut one, &mut random), None, "it is closed");
}

/// Lives end with messages that nobody gets, tables are full and groups are founded anew, at random.
#[test]
fn whatever_ends_nothing_is_executed_twice_and_nobody_is_told_otherwise() {
    let (mut results, mut unknown, mut not_executed, mut dropped) = (0, 0, 0, 0);
    for seed in 0..400 {
        let mut random = Rng::new(seed);
        let small = TableBounds { clients: 2, bytes: 1_500, answer_bytes: 100, answers: 8 };
        let mut group = Group::new(small);
        // Of groups before: what they executed.
        let mut before: Vec<Vec<u8>> = Vec::new();
        let mut clients: Vec<Submitter<u32>> = (0..3).map(|_| submitter()).collect();
        let mut incarnations: Vec<u64> = vec![10, 20, 30];
        let mut sent: Vec<Vec<Outgoing>> = vec![Vec::new(); 3];
        let (mut bound, mut ordered) = (vec![0; 3], vec![0; 3]);
        let mut payloads = BTreeMap::new();
        for step in 0..STEPS {
            let at = usize::try_from(random.below(3)).expect("small");
            let me = Incarnation(incarnations[at]);
            match random.below(20) {
                0..5 if clients[at].has_room(clients[at].next_number()) && step + 50 < STEPS => {
                    let payload = step.to_le_bytes().to_vec();
                    payloads.insert(step, payload.clone());
                    submit(&mut clients[at], payload, step);
                }
                5..10 => {
                    if let Some(out) = due(&mut clients[at], &mut random) {
                        bound[at] += 1;
                        out.number.into_iter().for_each(|number| clients[at].bound(number, bound[at]));
                        sent[at].push(out);
                    }
                }
                10..16 if !sent[at].is_empty() => {
                    let out = sent[at].remove(0);
                    ordered[at] += 1;
                    group.order(me, &out).iter().for_each(|told| clients[at].applied(told));
                    if random.below(4) > 0 {
                        clients[at].reached(ordered[at]);
                    }
                }
                // It is excluded: some of what it sent is ordered, and not heard.
                16 => {
                    let kept = usize::try_from(random.below(1 + sent[at].len() as u64)).expect("small");
                    for out in sent[at].drain(..).take(kept) {
                        group.order(me, &out);
                    }
                    clients[at].end_life();
                    group.without(me);
                    incarnations[at] += 1;
                    (bound[at], ordered[at]) = (0, 0);
                }
                17 => clients[at].begin_life(),
                19 if random.below(40) == 0 => clients[at].close(),
                // All are out of the group, and it begins anew.
                18 if random.below(8) == 0 => {
                    before.append(&mut group.executed);
                    group = Group::new(small);
                    for (client, number) in clients.iter_mut().zip(&mut incarnations) {
                        client.end_life();
                        *number += 1;
                    }
                    (bound, ordered) = (vec![0; 3], vec![0; 3]);
                    sent.iter_mut().for_each(Vec::clear);
                }
                _ => {}
            }
            // In the end nothing goes wrong any more: each submit has an outcome.
            if step + 1 == STEPS {
                for (at, client) in clients.iter_mut().enumerate() {
                    client.end_life();
                    client.begin_life();
                    carry(client, &mut group, Incarnation(incarnations[at] + 1), &mut 0, &mut random);
                }
            }
            for client in &mut clients {
                for (receipt, result) in told(client) {
                    let payload = payloads.remove(&receipt).expect("it is told once");
                    let was_executed = before.contains(&payload) || group.executed.contains(&payload);
                    match result {
                        Ok(bytes) => {
                            results += 1;
                            let is_old = before.contains(&payload);
                            assert!(is_old || group.result_of(&payload) == Some(bytes), "seed {seed}");
                        }
                        Err(NotSubmitted::Unknown) => unknown += 1,
                        Err(why) => {
                            not_executed += 1;
                            assert!(!was_executed, "seed {seed}: {why:?}");
                        }
                    }
                }
            }
            dropped += usize::from(group.table.size().0 == small.clients);
        }
        assert!(payloads.is_empty(), "seed {seed}: {} submits have no outcome", payloads.len());
        before.append(&mut group.executed);
        let once: BTreeSet<_> = before.iter().collect();
        assert_eq!(once.len(), before.len(), "seed {seed}: something was executed twice");
    }
    let met = [results > 2_000, unknown > 400, not_executed > 1_000, dropped > 10_000];
    assert_eq!(met, [true; 4], "{results} {unknown} {not_executed} {dropped}");
}
