//! The protocol without calls: a sender dies after each number of its calls, and so does who takes over.

use bytes::Bytes;
use phalanx::MemberId;

use super::member::Member;
use super::message::{Answer, Id, Message, Payload, Request, Step};
use super::phases::{Calls, Outcomes, Phases, Refused};

/// The member with this rank at first.
fn id(rank: usize) -> MemberId {
    serde_json::from_str(&(rank + 1).to_string()).expect("a member is a number")
}

fn payload() -> Payload {
    Payload(Bytes::from_static(b"payload"))
}

/// Members by rank. Those that died are no longer in any view.
struct Cluster {
    members: Vec<Member>,
    alive: Vec<bool>,
    delivered: Vec<Vec<MemberId>>,
}

/// Calls that were on their way when their caller died.
type Late = Calls;

impl Cluster {
    fn new(members: usize) -> Self {
        let mut cluster = Self {
            members: (0..members).map(|rank| Member::new(id(rank))).collect(),
            alive: vec![true; members],
            delivered: vec![Vec::new(); members],
        };
        for rank in 0..members {
            assert!(cluster.see(rank).is_none(), "nobody has left");
        }
        cluster
    }

    fn view(&self) -> Vec<MemberId> {
        (0..self.members.len()).filter(|rank| self.alive[*rank]).map(id).collect()
    }

    fn see(&mut self, rank: usize) -> Option<super::take_over::TakeOver> {
        let view = self.view();
        self.members[rank].handle_view(view)
    }

    fn call(&mut self, to: MemberId, request: &Request) -> Option<Answer> {
        let rank = (0..self.members.len()).find(|rank| id(*rank) == to).expect("it is one of them");
        let delivered = &mut self.delivered[rank];
        self.alive[rank].then(|| {
            self.members[rank].handle_request(request, |sender, payload| {
                delivered.push(sender);
                payload
            })
        })
    }

    /// Makes the calls of a machine, those of a phase in this order, until the caller dies after `budget` of them. Returns
    /// the calls that it had begun, or `None` if it came to its end.
    fn run(
        &mut self,
        machine: &mut impl Phases,
        order: usize,
        budget: &mut usize,
        mut before: impl FnMut(&mut Self, usize),
    ) -> Result<Option<Late>, Refused> {
        let mut outcomes = Outcomes::new();
        let mut made = 0;
        loop {
            let calls = ordered(machine.next(std::mem::take(&mut outcomes))?, order);
            if calls.is_empty() {
                return Ok(None);
            }
            for (at, (to, request)) in calls.iter().enumerate() {
                before(self, made);
                if *budget == 0 {
                    return Ok(Some(calls[at..].to_vec()));
                }
                *budget -= 1;
                made += 1;
                outcomes.push((*to, self.call(*to, request)));
            }
        }
    }

    fn survivors(&self) -> Vec<usize> {
        (0..self.members.len()).filter(|rank| self.alive[*rank]).collect()
    }

    /// Each survivor delivered what any member delivered, dead ones included, and nothing twice. Returns whether they did.
    fn agree(&self, why: &str) -> bool {
        let any = self.delivered.iter().any(|delivered| !delivered.is_empty());
        for rank in self.survivors() {
            let delivered = &self.delivered[rank];
            assert_eq!(delivered.len(), usize::from(any), "member {rank} delivered {delivered:?}; {why}");
            assert_eq!(self.members[rank].held().count(), 0, "member {rank} waits for something; {why}");
        }
        any
    }
}

/// The calls of a phase, turned round by some places, and backwards if the number is odd.
fn ordered(mut calls: Calls, order: usize) -> Calls {
    if !calls.is_empty() {
        let by = (order / 2) % calls.len();
        calls.rotate_left(by);
    }
    if order % 2 == 1 {
        calls.reverse();
    }
    calls
}

const MEMBERS: usize = 4;
const ORDERS: usize = 2 * MEMBERS;
/// Three phases to four members.
const CALLS: usize = 3 * MEMBERS;

#[test]
fn a_message_takes_three_calls_to_each_member_and_is_delivered_once() {
    for members in 1..=8 {
        let mut cluster = Cluster::new(members);
        for number in 1..=3 {
            let mut broadcast = cluster.members[0].begin(payload());
            let mut budget = usize::MAX;
            let over = cluster.run(&mut broadcast, 0, &mut budget, |_, _| {}).expect("nobody refuses");
            assert!(over.is_none());
            assert_eq!(usize::MAX - budget, 3 * members, "the sender's own steps are among them");
            let answers = broadcast.into_answers();
            assert!(answers.iter().map(|(who, _)| *who).eq((0..members).map(id)), "each answered once");
            assert!(cluster.delivered.iter().all(|delivered| *delivered == vec![id(0); number]));
            assert!(cluster.members.iter().all(|member| member.held().count() == 0), "all forgot it");
        }
    }
}

/// What happened in a run in which a sender died.
struct Ran {
    is_delivered: bool,
    take_overs: Vec<usize>,
    /// Calls of the first who took over.
    calls: usize,
}

/// The sender dies after `stop` calls, and the calls of that phase come after all when who takes over has made `late_at` calls
/// of its own, or at the end. The first that takes over dies after `second` calls, and its calls come at the end.
fn die(sender: usize, order: usize, stop: usize, late_at: usize, second: usize, lags: bool) -> Ran {
    let why = format!("sender {sender}, order {order}, {stop} calls, late at {late_at}, then {second}, lags {lags}");
    let mut cluster = Cluster::new(MEMBERS);
    let mut broadcast = cluster.members[sender].begin(payload());
    let late = cluster.run(&mut broadcast, order, &mut { stop }, |_, _| {}).expect("nobody refuses");
    let mut late = late.unwrap_or_default();
    cluster.alive[sender] = false;
    let mut ran = Ran { is_delivered: false, take_overs: Vec::new(), calls: 0 };
    let mut late_of_second = Late::new();
    let mut budget = second;
    let mut views = cluster.survivors();
    if !lags {
        // Those that do not take over are told before the one that does.
        views.reverse();
    }
    let mut begun = None;
    for rank in views {
        let Some(mut take_over) = cluster.see(rank) else { continue };
        ran.take_overs.push(rank);
        let mut late_now = std::mem::take(&mut late);
        let outcome = cluster.run(&mut take_over, order, &mut budget, |cluster, made| {
            if made >= late_at {
                for (to, request) in std::mem::take(&mut late_now) {
                    cluster.call(to, &request);
                }
            }
        });
        ran.calls = second - budget;
        late = late_now;
        if let Some(calls) = outcome.expect("nobody refuses") {
            late_of_second = calls;
            begun = Some(rank);
            break;
        }
    }
    if let Some(rank) = begun {
        cluster.alive[rank] = false;
        for rank in cluster.survivors().into_iter().rev() {
            if let Some(mut take_over) = cluster.see(rank) {
                ran.take_overs.push(rank);
                let over = cluster.run(&mut take_over, order, &mut { usize::MAX }, |_, _| {}).expect("nobody refuses");
                assert!(over.is_none());
            }
        }
    }
    ran.is_delivered = cluster.agree(&why);
    for (to, request) in late.into_iter().chain(late_of_second) {
        cluster.call(to, &request);
    }
    assert_eq!(cluster.agree(&why), ran.is_delivered, "late calls change nothing; {why}");
    ran
}

#[test]
fn a_death_in_each_phase_is_taken_over_by_the_lowest_rank_that_is_left() {
    for sender in 0..MEMBERS {
        for order in 0..ORDERS {
            for stop in 0..=CALLS {
                for lags in [false, true] {
                    let ran = die(sender, order, stop, usize::MAX, usize::MAX, lags);
                    assert_eq!(
                        ran.take_overs,
                        [usize::from(sender == 0)],
                        "one takes over, if there is nothing to do as well"
                    );
                    // The first call may be to the sender itself, whose copy does not outlive it.
                    assert!(ran.is_delivered || stop <= 1, "{stop} calls");
                    assert!(!ran.is_delivered || stop >= 1, "{stop} calls");
                }
            }
        }
    }
}

#[test]
fn a_call_that_comes_late_does_not_part_the_survivors() {
    for sender in [0, MEMBERS - 1] {
        for order in 0..ORDERS {
            for stop in 0..=CALLS {
                let calls = die(sender, order, stop, usize::MAX, usize::MAX, true).calls;
                for late_at in 0..=calls {
                    for lags in [false, true] {
                        die(sender, order, stop, late_at, usize::MAX, lags);
                    }
                }
            }
        }
    }
}

#[test]
fn a_second_death_during_a_take_over_is_taken_over_in_turn() {
    let mut deaths = 0;
    for sender in 0..MEMBERS {
        for order in 0..ORDERS {
            for stop in 0..=CALLS {
                let calls = die(sender, order, stop, usize::MAX, usize::MAX, true).calls;
                for second in 0..calls {
                    for (late_at, lags) in
                        [(usize::MAX, true), (usize::MAX, false), (second / 2, true), (second, false)]
                    {
                        let ran = die(sender, order, stop, late_at, second, lags);
                        // With calls that came late less may be left to be done.
                        assert!(ran.take_overs.len() == 2 || late_at != usize::MAX, "{:?}", ran.take_overs);
                        assert!(ran.take_overs.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", ran.take_overs);
                        deaths += ran.take_overs.len() - 1;
                    }
                }
            }
        }
    }
    assert!(deaths > 10_000, "{deaths} take-overs were cut off");
}

#[test]
fn a_receiver_that_dies_is_left_out() {
    for dies_at in 0..CALLS {
        let mut cluster = Cluster::new(MEMBERS);
        let mut broadcast = cluster.members[0].begin(payload());
        let mut budget = usize::MAX;
        let over = cluster.run(&mut broadcast, 0, &mut budget, |cluster, made| {
            if made == dies_at {
                cluster.alive[2] = false;
            }
        });
        assert_eq!(over, Ok(None));
        // It is the third that is called in a phase. The phase that finds it dead is the last with a call to it.
        let finds = (dies_at + 1) / MEMBERS;
        assert_eq!(usize::MAX - budget, CALLS - 2_usize.saturating_sub(finds), "dies at {dies_at}");
        assert!(cluster.agree("a receiver died"), "at call {dies_at}");
    }
}

#[test]
fn a_death_is_settled_once() {
    let mut cluster = Cluster::new(MEMBERS);
    let mut broadcast = cluster.members[3].begin(payload());
    cluster.run(&mut broadcast, 0, &mut { 6 }, |_, _| {}).expect("nobody refuses");
    cluster.alive[3] = false;
    let mut take_over = cluster.see(0).expect("it is the lowest");
    assert_eq!(cluster.run(&mut take_over, 0, &mut { usize::MAX }, |_, _| {}), Ok(None));
    assert!(cluster.see(0).is_none(), "nothing is left to be done");
    // Two more die. Who takes over asks no more of those before.
    for rank in [0, 1] {
        cluster.alive[rank] = false;
        let mut take_over = cluster.see(rank + 1).expect("one more has left");
        let asked = take_over.next(Vec::new()).expect("the question");
        let gone = Step::Report { gone: vec![id(rank)] };
        assert!(asked.iter().all(|(_, request)| request.step == gone), "only of the last one: {asked:?}");
        let outcomes = asked.iter().map(|(to, request)| (*to, cluster.call(*to, request))).collect();
        let settle = take_over.next(outcomes).expect("nobody refuses");
        settle.iter().for_each(|(to, request)| drop(cluster.call(*to, request)));
    }
    assert!(cluster.agree("three died"));
}

#[test]
fn two_senders_that_die_together_are_taken_over_at_once() {
    for stops in (0..=CALLS).flat_map(|first| (0..=CALLS).map(move |second| [first, second])) {
        let mut cluster = Cluster::new(5);
        for (sender, stop) in [0, 4].into_iter().zip(stops) {
            let mut broadcast = cluster.members[sender].begin(payload());
            cluster.run(&mut broadcast, 1, &mut { stop }, |_, _| {}).expect("nobody refuses");
        }
        [0, 4].into_iter().for_each(|rank| cluster.alive[rank] = false);
        let mut take_over = cluster.see(1).expect("it is the lowest");
        assert!(cluster.see(2).is_none() && cluster.see(3).is_none());
        assert_eq!(cluster.run(&mut take_over, 0, &mut { usize::MAX }, |_, _| {}), Ok(None));
        let mut first = cluster.delivered[1].clone();
        first.sort_unstable();
        let whole = first.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(whole, "one message of each: {first:?}");
        for rank in [2, 3] {
            let mut delivered = cluster.delivered[rank].clone();
            delivered.sort_unstable();
            assert_eq!(delivered, first, "{stops:?}");
            assert_eq!(cluster.members[rank].held().count(), 0);
        }
        for dead in [0, 4] {
            assert!(cluster.delivered[dead].iter().all(|sender| first.contains(sender)), "{stops:?}");
        }
    }
}

#[test]
fn a_sender_that_was_left_out_learns_of_it() {
    let mut cluster = Cluster::new(3);
    let mut broadcast = cluster.members[2].begin(payload());
    let offers = broadcast.next(Vec::new()).expect("the first phase");
    cluster.alive[2] = false;
    let mut take_over = cluster.see(0).expect("it is the lowest");
    assert_eq!(cluster.run(&mut take_over, 0, &mut { usize::MAX }, |_, _| {}), Ok(None));
    let outcomes = offers.iter().map(|(to, request)| (*to, cluster.call(*to, request))).collect();
    assert_eq!(broadcast.next(outcomes), Err(Refused(id(0))), "the others go on without it");
    assert!(!cluster.agree("it was left out"));
}

#[test]
fn a_message_before_the_end_of_the_last_one_is_refused() {
    let mut member = Member::new(id(0));
    let offer = |number| {
        let message = Message { id: Id { sender: id(1), number }, to: vec![id(0), id(1)], payload: payload() };
        Request { from: id(1), step: Step::Offer(message) }
    };
    let mut handle = |request: &Request| member.handle_request(request, |_, payload| payload);
    assert_eq!(
        [handle(&offer(0)), handle(&offer(0)), handle(&offer(1))],
        [Answer::Done, Answer::Done, Answer::Refused]
    );
    let first = Id { sender: id(1), number: 0 };
    let step = |step| Request { from: id(1), step };
    assert_eq!(handle(&step(Step::Deliver(first))), Answer::Delivered(Some(payload())));
    assert_eq!(handle(&step(Step::Deliver(first))), Answer::Delivered(None));
    assert_eq!(handle(&offer(1)), Answer::Refused);
    assert_eq!([handle(&step(Step::Forget(first))), handle(&offer(1))], [Answer::Done, Answer::Done]);
}
