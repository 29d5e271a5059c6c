//! One member of a small cell. The test writes the messages of the others by hand.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::api::{DeathProof, Delivery, GroupTerms, LeaveReason, MessageToOne, Uniformity};
use crate::frames::Frames;
use crate::id::{CellInstance, DecreeNumber, InboxId, LEVEL, Origin, Rank, TrafficClass, ViewNumber};
use crate::link::{Ack, Channel, ChannelMessage};
use crate::member::Role;
use crate::member::{
    Ballot, Control, FirstView, GroupChange, GroupCut, GroupRequest, MembershipRequests, NUMBERED_MAX, Phase, Report,
};
use crate::packet::Packet;
use crate::process::best_effort::{Target, put_ack};
use crate::process::groups::REQUESTS_MAX;
use crate::process::peers::Peer;
use crate::seal::Sealer;
use crate::wire::{PacketNumber, Space, put_with_tail};

pub(in crate::process) const NOW: Instant = Instant(1_000_000_000);
const NANO: Duration = Duration::from_nanos(1);
const GROUP: GroupId = GroupId(1);
const A: Incarnation = Incarnation(1);
const B: Incarnation = Incarnation(2);
const C: Incarnation = Incarnation(3);
const STRANGER: Incarnation = Incarnation(9);

/// The effects that a process had.
#[derive(Default)]
pub(in crate::process) struct Out {
    pub(in crate::process) sent: Vec<(TrafficClass, Vec<SocketAddr>)>,
    pub(in crate::process) events: Vec<Event>,
    /// Messages to this member alone.
    to_one: Vec<(Incarnation, Vec<u8>)>,
    takes_nothing: bool,
}

impl Effects for Out {
    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], _packet: &[u8]) {
        self.sent.push((class, to.to_vec()));
    }
    fn ready(&mut self, _inbox: InboxId) -> bool {
        !self.takes_nothing
    }
    fn deliver(&mut self, _delivery: &Delivery<'_>) {}
    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
    fn to_one(&mut self, message: &MessageToOne<'_>) {
        self.to_one.push((message.sender, message.payload.to_vec()));
    }
}

pub(in crate::process) fn named(number: u64) -> MemberInfo {
    let address = SocketAddr::from(([127, 0, 0, 1], 1000 + u16::try_from(number).expect("small")));
    MemberInfo {
        incarnation: Incarnation(number),
        name: format!("m{number}"),
        data: address,
        control: address,
        ..member()
    }
}

/// Process `me` of a cell of `members`, in its first view.
pub(in crate::process) fn in_cell(me: Incarnation, members: u64) -> (Process, Out) {
    let (founding, timing, limits) = (Founding::Join, Timing::default(), Limits::default());
    let settings = Settings {
        cell: "test".into(),
        me: named(me.0),
        founding,
        record: crate::member::FounderRecord::default(),
        seeds: Vec::new(),
        timing,
        limits,
    };
    let (mut process, mut fx) = (Process::new(NOW, settings, &Security::None, 1), Out::default());
    let first = FirstView::new(CellInstance(7), (1..=members).map(named).collect(), &process.agreed());
    process.install_first(NOW, first, &mut fx);
    process.deliver(NOW, &mut fx);
    (process, fx)
}

/// Lets `process` find that packets to `who` take `took` until their acks come.
pub(in crate::process) fn measure(process: &mut Process, who: Incarnation, took: Duration) {
    let channel = &mut process.peers.get_mut(who).expect("a peer").control_channel;
    let mut frames = Vec::new();
    channel.send(Bytes::from_static(b"measured"), usize::MAX).expect("room");
    assert!(channel.fill(100, &mut frames), "it is sent");
    let number = channel.next_number().0;
    channel.sent(NOW, Frames::from(frames));
    channel.handle_ack(NOW + took, &Ack { prefix: number, limit: number + 100, gaps: Vec::new() });
}

#[test]
fn who_asks_for_a_group_that_can_have_no_number_is_refused() {
    let (mut process, mut fx) = in_group(Incarnation(1), 3);
    process.directory.next_group = NUMBERED_MAX - 1;
    let mut ask = |process: &mut Process, name| {
        process.join_group(NOW, name, false, GroupTerms::default()).expect("a good name");
        process.deliver(NOW, &mut fx);
        let refused = |event: &Event| matches!(event, Event::GroupRefused { name: which } if **which == *name);
        (fx.events.iter().any(refused), process.wants_group(name))
    };
    assert_eq!(ask(&mut process, "one"), (false, true));
    process.directory.next_group = NUMBERED_MAX;
    // The group that was requested earlier is refused with the next view.
    let me = process.me();
    assert_eq!(groups::refuse_groups(&process.directory, &mut process.wants, &mut process.app, me), ["one"]);
    assert_eq!(ask(&mut process, "two"), (true, false));
    assert!(!process.wants_group("one"));
    // No decree is possible without a number for each view.
    process.directory.next_space = Space(u32::MAX);
    let (candidates, requests) = ([Rank(2)].into(), MembershipRequests::default());
    process.start_ballot(NOW, candidates, requests, &mut fx);
    assert!(process.coordinator.is_none());
    assert_eq!(process.counters.numbers_used_up, 1);
}

/// As [`in_cell`], with all members in a group from the second decree on.
fn in_group(me: Incarnation, members: u64) -> (Process, Out) {
    let (mut process, mut fx) = in_cell(me, members);
    process.handle_control(NOW, B, Control::Decide(Arc::new(with_group(members))), &mut fx);
    process.deliver(NOW, &mut fx);
    (process, fx)
}

pub(in crate::process) fn decision(decree: DecreeNumber, groups: Vec<GroupChange>) -> Proposal {
    let next = u32::try_from(decree.0).expect("small");
    Proposal {
        decree,
        view: ViewNumber(1),
        joined: Vec::new(),
        left: Vec::new(),
        groups,
        next_group: 2,
        next_space: Space(next),
        level: LEVEL,
        settings: Tags::default(),
        tail: Tags::default(),
    }
}

fn with_group(members: u64) -> Proposal {
    let joined = (1..=members).map(Incarnation).collect();
    let (name, left, tail) = ("g".into(), Vec::new(), Tags::default());
    decision(
        DecreeNumber(2),
        vec![GroupChange { group: GROUP, name, view: ViewNumber(1), space: Space(1), cut: None, joined, left, tail }],
    )
}

fn ballot(round: u32, rank: u16) -> Ballot {
    Ballot { round, rank: Rank(rank) }
}

fn trying(decree: DecreeNumber, ballot: Ballot) -> Coordinator {
    Coordinator {
        decree,
        ballot,
        candidates: BTreeSet::new(),
        reasons: BTreeMap::new(),
        asked: BTreeSet::from([0, 1, 2].map(Rank)),
        groups: BTreeSet::from([GROUP]),
        requests: MembershipRequests::default(),
        reports: BTreeMap::new(),
        unread: BTreeMap::new(),
        recovering: BTreeSet::new(),
        recovered: BTreeSet::new(),
        phase: Phase::Gathering,
        since: NOW,
    }
}

fn wedge(decree: DecreeNumber, ballot: Ballot) -> Control {
    Control::Wedge(Wedge { decree, ballot, groups: vec![GROUP], cuts: Vec::new() })
}

fn report(decree: DecreeNumber, ballot: Ballot, held: &[u64]) -> Report {
    Report { decree, ballot, accepted: None, prefixes: vec![(GROUP, held.to_vec())], ..Report::default() }
}

pub(in crate::process) fn hear_all(process: &mut Process, at: Instant) {
    for rank in Rank::all(3) {
        process.failure_detector.heard(at, rank);
        process.failure_detector.beat(at, rank, vec![true; 3]);
    }
}

/// The control messages that wait to be sent to `to`.
fn said(process: &mut Process, to: Incarnation) -> Vec<Control> {
    let peer = process.peers.get_mut(to).expect("it is known");
    let (mut frames, mut said) = (Vec::new(), Vec::new());
    if peer.control_channel.fill(1 << 16, &mut frames) {
        let mut read =
            |message: ChannelMessage<'_>| said.push(Control::decode(&Bytes::from(message)).expect("it makes sense"));
        let arrived =
            Channel::new(Space(1), 1, NOW).handle_packet(NOW, PacketNumber(1), &frames, Duration::ZERO, &mut read);
        arrived.expect("whole messages");
    }
    said
}

fn multicast(process: &mut Process, payload: &[u8], fx: &mut Out) {
    let taken = process.multicast(NOW, GROUP, Order::Fifo, Stability::Plain, &[payload], fx);
    assert_eq!(taken.map(|accepted| accepted.uniformity), Ok(Uniformity::Plain));
    process.flush(NOW, fx);
}

#[test]
fn who_takes_the_state_does_not_count() {
    let (mut process, mut fx) = in_cell(A, 3);
    let is_adequate = |process: &Process| {
        process.group_streams.values().map(|view_streams| view_streams.meta.adequate).collect::<Vec<_>>()
    };
    let mut made = with_group(1);
    made.groups[0].tail = GroupTerms { members_min: 2, ..GroupTerms::default() }.tags();
    process.handle_control(NOW, B, Control::Decide(Arc::new(made)), &mut fx);
    assert_eq!(is_adequate(&process), [false], "one of two");
    let change = |view: u32, members: usize, joined: Vec<Incarnation>, left| {
        let cut = Some(GroupCut { prefixes: vec![0; members], holders: vec![Incarnation::NONE; members] });
        let (name, tail, space) = ("g".into(), Tags::default(), view);
        let change = GroupChange {
            group: GROUP,
            name,
            view: ViewNumber(view.into()),
            space: Space(space),
            cut,
            joined,
            left,
            tail,
        };
        Control::Decide(Arc::new(decision(DecreeNumber(u64::from(view) + 1), vec![change])))
    };
    process.handle_control(NOW, B, change(2, 1, vec![B], Vec::new()), &mut fx);
    assert_eq!(is_adequate(&process), [false], "it may still take the state");
    assert_eq!(said(&mut process, B).last(), Some(&Control::HoldsState { group: GROUP, view: ViewNumber(2) }));
    // A member that is ahead announces the state for the view to come. A process that is in no such group is not
    // counted.
    for (from, group) in [(C, GROUP), (B, GroupId(7)), (STRANGER, GROUP)] {
        process.handle_control(NOW, from, Control::HoldsState { group, view: ViewNumber(3) }, &mut fx);
        assert_eq!(is_adequate(&process), [false]);
    }
    process.handle_control(NOW, B, change(3, 2, vec![C], Vec::new()), &mut fx);
    assert_eq!(is_adequate(&process), [true], "the third has it, and said so before");
    let gone = vec![(C, LeaveReason::Left)];
    process.handle_control(NOW, B, change(4, 3, Vec::new(), gone), &mut fx);
    assert_eq!(is_adequate(&process), [false]);
    process.handle_control(NOW, B, Control::HoldsState { group: GROUP, view: ViewNumber(4) }, &mut fx);
    assert_eq!(is_adequate(&process), [true]);
}

/// A slow application refuses a state when the process has left that group and come again: it has the state of now.
#[test]
fn a_refusal_of_an_earlier_stay_does_not_count() {
    let (mut process, mut fx) = in_group(B, 3);
    process.app.event(Event::GroupLeft { group: GROUP, why: LeaveReason::Left });
    process.refuse_state(GROUP);
    assert_eq!(lacks(&mut process, 1, &mut fx), []);
}

/// The groups whose state a process says it lacks, in its report for the ballot of this round.
fn lacks(process: &mut Process, round: u32, fx: &mut Out) -> Vec<GroupId> {
    process.handle_control(NOW, A, wedge(DecreeNumber(3), ballot(round, 0)), fx);
    let reports = said(process, A).into_iter().filter_map(|control| match control {
        Control::Report(report) => Some(report.incomplete),
        _ => None,
    });
    reports.last().expect("it reports")
}

/// A group whose last member refused its state would otherwise go on through it, and all that ask it for the state would
/// wait for good.
#[test]
fn who_refused_a_state_holds_none() {
    let (mut process, mut fx) = in_group(B, 3);
    assert_eq!(lacks(&mut process, 1, &mut fx), [], "it has the state");
    process.refuse_state(GroupId(7));
    assert_eq!(lacks(&mut process, 2, &mut fx), [], "it is in no such group");
    process.refuse_state(GROUP);
    assert_eq!(lacks(&mut process, 3, &mut fx), [GROUP]);
    // The last member with the state goes, and this process with it. It had asked to leave, and does not come again.
    process.leave_group(NOW, GROUP).expect("it is a member");
    let cut = Some(GroupCut { prefixes: vec![0; 3], holders: vec![Incarnation::NONE; 3] });
    let left = [A, B, C].map(|who| (who, LeaveReason::Anew)).to_vec();
    let (name, joined, tail) = ("g".into(), Vec::new(), Tags::default());
    let over = GroupChange { group: GROUP, name, view: ViewNumber(2), space: Space(2), cut, joined, left, tail };
    process.handle_control(NOW, A, Control::Decide(Arc::new(decision(DecreeNumber(3), vec![over]))), &mut fx);
    process.deliver(NOW, &mut fx);
    let left = fx.events.iter().filter_map(|event| match event {
        Event::GroupLeft { why, .. } => Some(*why),
        _ => None,
    });
    assert_eq!(left.collect::<Vec<_>>(), [LeaveReason::Anew]);
    assert!(!process.wants_group("g"));
}

#[test]
fn rivals_wait_by_rank_and_not_in_step() {
    let step = Timing::default().ballot_step;
    for me in [A, B, C] {
        let (mut process, mut fx) = in_cell(me, 3);
        let rank = u32::from(process.my_rank().0);
        let mut waits = BTreeSet::new();
        for round in 1..=20 {
            process.coordinator = Some(trying(DecreeNumber(2), ballot(round, 0)));
            let refuse = Control::Refuse { decree: DecreeNumber(2), promised: ballot(round + 1, 0) };
            process.handle_control(NOW, B, refuse, &mut fx);
            assert!(process.coordinator.is_none(), "it gave up");
            let by_chance = process.waits.try_after.since(NOW) - step / 4 - step / 2 * rank;
            assert!(by_chance < step / 2, "{by_chance:?}");
            waits.insert(by_chance);
        }
        assert_eq!((waits.len(), process.counters.superseded), (20, 20));
    }
}

#[test]
fn a_ballot_yields_to_a_later_one_alone() {
    let (mut process, mut fx) = in_cell(A, 3);
    process.coordinator = Some(trying(DecreeNumber(2), ballot(4, 0)));
    process.handle_control(NOW, B, wedge(DecreeNumber(2), ballot(3, 1)), &mut fx);
    assert!(process.coordinator.is_some());
    process.handle_control(NOW, B, wedge(DecreeNumber(2), ballot(5, 1)), &mut fx);
    assert!(process.coordinator.is_none() && process.waits.try_after > NOW);
    assert_eq!((process.max_round, process.waits.need_since, process.counters.superseded), (5, Some(NOW), 1));
}

#[test]
fn a_ballot_begins_when_it_may_and_not_before() {
    let (mut process, mut fx) = in_cell(A, 3);
    process.handle_death(NOW, C, DeathProof::Ended);
    process.waits.try_after = NOW + NANO * 2;
    process.coordinate(NOW + NANO, &mut fx);
    assert_eq!(process.counters.ballots, 0);
    process.coordinate(NOW + NANO * 2, &mut fx);
    assert_eq!(process.counters.ballots, 1);
    // The second in rank leaves the ballot to the first for four steps.
    let (mut process, mut fx) = in_cell(B, 3);
    let patience = Timing::default().ballot_step * 4;
    process.handle_death(NOW, C, DeathProof::Ended);
    for at in [NOW, NOW + patience - NANO] {
        process.coordinate(at, &mut fx);
        assert_eq!(process.counters.ballots, 0);
    }
    process.coordinate(NOW + patience, &mut fx);
    assert_eq!(process.counters.ballots, 1);
}

/// The fault of a third member can make the ballots of two healthy ones vain. If each then took no notice of the other,
/// they would supersede each other for ever (`docs/model.md`, *Waits of ballots*).
#[test]
fn who_was_given_up_has_no_turn_and_its_ballot_has_its_time() {
    let step = Timing::default().ballot_step;
    let (mut process, mut fx) = in_cell(B, 3);
    hear_all(&mut process, NOW);
    for round in 1..=3 {
        process.waits.yields_to(NOW, ballot(round, 0), Duration::ZERO);
    }
    assert!(process.waits.is_given_up(Rank(0)));
    process.acceptor.promise(ballot(3, 0));
    for (after, ballots) in [(step - NANO, 0), (step, 1)] {
        process.coordinate(NOW + after, &mut fx);
        assert_eq!(process.counters.ballots, ballots, "{after:?}");
    }
    process.handle_control(NOW + step, A, wedge(DecreeNumber(2), ballot(9, 0)), &mut fx);
    assert_eq!((process.acceptor.promised(), process.counters.superseded), (Some(ballot(9, 0)), 1), "it is heeded");
}

#[test]
fn who_is_heard_and_reports_nothing_is_left_out_after_a_while() {
    let (mut process, mut fx) = in_cell(A, 3);
    let mut ballot_of_two = trying(DecreeNumber(2), ballot(1, 0));
    ballot_of_two.reports = [0, 1].map(|rank| (Rank(rank), report(DecreeNumber(2), ballot(1, 0), &[]))).into();
    process.coordinator = Some(ballot_of_two);
    process.waits.asks(NOW, C);
    let patience = process.suspect_after() * 5;
    for (at, ballots) in [(NOW + NANO, 0), (NOW + patience, 0), (NOW + patience + NANO, 1)] {
        hear_all(&mut process, at);
        process.coordinate(at, &mut fx);
        assert_eq!(process.counters.ballots, ballots);
    }
    let candidates = process.coordinator.map(|coordinator| coordinator.candidates);
    assert_eq!(candidates, Some(BTreeSet::from([Rank(2)])));
}

#[test]
fn what_comes_too_late_in_a_ballot_is_counted() {
    let (mut process, mut fx) = in_cell(A, 3);
    let late = |process: &Process| (process.counters.late_proposals, process.counters.late_acceptances);
    let accepted = |decree, round| Control::Accepted { decree, ballot: ballot(round, 0) };
    process.handle_control(NOW, B, accepted(DecreeNumber::FIRST, 1), &mut fx);
    assert_eq!(late(&process), (0, 0), "of a decree that is over");
    process.handle_control(NOW, B, accepted(DecreeNumber(2), 1), &mut fx);
    process.coordinator = Some(trying(DecreeNumber(2), ballot(2, 0)));
    process.handle_control(NOW, B, accepted(DecreeNumber(2), 1), &mut fx);
    assert_eq!(late(&process), (0, 2), "of no ballot, and of an earlier one");
    process.acceptor.promise(ballot(5, 1));
    for decree in [2, 3] {
        let proposal = Arc::new(Proposal { decree: DecreeNumber(decree), ..with_group(3) });
        process.handle_control(NOW, B, Control::Propose { ballot: ballot(3, 1), proposal }, &mut fx);
    }
    assert_eq!(late(&process), (1, 2), "a proposal for a later decree does not count yet");
}

/// A member that accepted in an earlier ballot may have promised a later one since, and accepted another proposal in
/// it.
#[test]
fn only_acceptances_of_the_ballot_and_decree_under_way_count() {
    let (mut process, mut fx) = in_cell(A, 3);
    let (mine, proposal) = (ballot(2, 0), Arc::new(with_group(3)));
    let phase = Phase::Proposing { proposal: proposal.clone(), accepted: BTreeSet::from([0].map(Rank)) };
    process.coordinator = Some(Coordinator { phase, ..trying(DecreeNumber(2), mine) });
    for (from, decree, ballot) in [
        (B, 2, ballot(1, 0)),
        (C, 2, ballot(2, 1)),
        (B, 2, ballot(3, 0)),
        (C, 1, mine),
        (B, 3, mine),
        (STRANGER, 2, mine),
    ] {
        process.handle_control(NOW, from, Control::Accepted { decree: DecreeNumber(decree), ballot }, &mut fx);
        let phase = process.coordinator.as_ref().map(|coordinator| &coordinator.phase);
        let counted = |accepted: &BTreeSet<Rank>| accepted.iter().map(|rank| rank.index()).collect::<Vec<_>>();
        assert!(
            matches!(phase, Some(Phase::Proposing { accepted, .. }) if counted(accepted) == [0]),
            "{decree} {ballot:?}"
        );
        assert_eq!((process.directory.decree, process.decided.is_none()), (DecreeNumber(1), true));
    }
    assert_eq!((said(&mut process, B), said(&mut process, C)), (Vec::new(), Vec::new()));
    process.handle_control(NOW, C, Control::Accepted { decree: DecreeNumber(2), ballot: mine }, &mut fx);
    assert_eq!((process.directory.decree, process.coordinator.is_none()), (DecreeNumber(2), true));
    assert_eq!(said(&mut process, B), [Control::Decide(proposal)]);
}

/// This process may be the only one that knows the decision, and may die with it. Until a quorum has installed it, the
/// excluded member must stay for the members that have to find the decision.
#[test]
fn who_is_left_out_hears_nothing_of_a_decision_that_waits_for_its_cut() {
    let (mut process, mut fx) = in_group(A, 3);
    let (decided, left_out) = (decision_with_a_cut(), C);
    process.handle_control(NOW, B, Control::Decide(decided.clone()), &mut fx);
    assert!(process.decided.is_some() && process.fetch_at.is_some(), "it lacks a packet of the cut");
    let mut answers = |from| {
        said(&mut process, from);
        process.handle_control(NOW, from, wedge(DecreeNumber(3), ballot(7, 2)), &mut fx);
        assert!(process.decided.is_some() && process.acceptor.promised().is_none());
        said(&mut process, from)
    };
    assert_eq!(answers(left_out), []);
    assert_eq!(answers(B), [Control::Decide(decided)]);
}

/// Another holder of a part is asked when the first one's answer can have come, and soon if that one is near.
#[test]
fn a_part_of_a_cut_is_fetched_again_a_round_trip_later() {
    for (took_ms, again_ms) in [(1, 75), (74, 75), (600, 600)] {
        let (mut process, mut fx) = in_group(A, 3);
        assert_eq!(process.set.timing.ballot_step, Duration::from_millis(150));
        measure(&mut process, B, Duration::from_millis(took_ms));
        process.handle_control(NOW, B, Control::Decide(decision_with_a_cut()), &mut fx);
        assert_eq!(process.fetch_at, Some(NOW + Duration::from_millis(again_ms)), "{took_ms} ms");
    }
}

/// After a cut the first packet from a holder is no heartbeat: it may not count as heard yet. What nobody can be asked for
/// then is fetched once somebody is heard.
#[test]
fn a_part_of_a_cut_is_fetched_when_its_holder_is_heard_again() {
    let (mut process, mut fx) = in_group(A, 3);
    let cut_off = NOW + Duration::from_secs(10);
    process.handle_control(cut_off, B, Control::Decide(decision_with_a_cut()), &mut fx);
    let fetches =
        |process: &mut Process| said(process, B).iter().filter(|m| matches!(m, Control::Fetch { .. })).count();
    assert_eq!(fetches(&mut process), 0, "nobody is heard");
    let again = process.fetch_at.expect("it lacks a packet of the cut");
    assert!(again > cut_off);
    process.fetch(again);
    assert_eq!(fetches(&mut process), 0, "nobody is heard yet");
    let now = process.fetch_at.expect("it still lacks it");
    process.failure_detector.heard(now, Rank(1));
    process.failure_detector.beat(now, Rank(1), vec![true; 3]);
    process.fetch(now);
    assert_eq!(fetches(&mut process), 1);
}

/// A decision that leaves C out, with a cut of which only B holds the last packet.
fn decision_with_a_cut() -> Arc<Proposal> {
    let cut = GroupCut { prefixes: vec![0, 1, 0], holders: vec![Incarnation::NONE, B, Incarnation::NONE] };
    let left = vec![(C, LeaveReason::Unreachable)];
    let (name, joined, tail) = ("g".into(), Vec::new(), Tags::default());
    let change = GroupChange {
        group: GROUP,
        name,
        view: ViewNumber(2),
        space: Space(2),
        cut: Some(cut),
        joined,
        left: left.clone(),
        tail,
    };
    Arc::new(Proposal { view: ViewNumber(2), left, ..decision(DecreeNumber(3), vec![change]) })
}

#[test]
fn a_wedge_of_a_decree_further_on_waits_for_the_one_before() {
    let (mut process, mut fx) = in_cell(A, 3);
    process.handle_control(NOW, B, wedge(DecreeNumber(3), ballot(4, 1)), &mut fx);
    assert!(process.acceptor.promised().is_none());
    process.handle_control(NOW, B, Control::Decide(Arc::new(with_group(3))), &mut fx);
    assert_eq!((process.acceptor.promised(), process.early_wedge.is_none()), (Some(ballot(4, 1)), true));
}

#[test]
fn a_decision_is_taken_if_it_fits() {
    let (mut process, mut fx) = in_cell(A, 3);
    let unfit = Proposal { next_space: Space(1000), ..with_group(3) };
    process.handle_control(NOW, B, Control::Decide(Arc::new(unfit)), &mut fx);
    assert_eq!((process.directory.decree, process.decided.is_some()), (DecreeNumber(1), false));
    process.handle_control(NOW, B, Control::Decide(Arc::new(with_group(3))), &mut fx);
    assert_eq!(process.directory.decree, DecreeNumber(2));
}

#[test]
fn only_members_ask_for_changes_and_within_bounds() {
    let (mut process, mut fx) = in_cell(A, 3);
    let wish = |len: usize| GroupRequest {
        name: "g".repeat(len),
        join: true,
        only_new: false,
        terms: None,
        role: Role::default(),
    };
    let mut kept = |from, decree, groups: Vec<GroupRequest>| {
        process.handle_control(
            NOW,
            from,
            Control::MembershipRequests(RequestList { decree, groups, level: 0, ..RequestList::default() }),
            &mut fx,
        );
        process.requests.remove(&from).is_some()
    };
    assert!(kept(B, DecreeNumber::FIRST, vec![wish(1); REQUESTS_MAX]) && kept(B, DecreeNumber::FIRST, vec![wish(200)]));
    assert!(!kept(B, DecreeNumber::FIRST, vec![wish(201)]), "a long name");
    assert!(!kept(B, DecreeNumber::NONE, vec![wish(1)]), "of an earlier decree");
    assert!(!kept(STRANGER, DecreeNumber::FIRST, vec![wish(1)]));
    for (from, leavers) in [(STRANGER, 0), (B, 1), (B, 1)] {
        process.handle_control(NOW, from, Control::Leave { waits: false }, &mut fx);
        assert_eq!(process.leavers.len(), leavers);
    }
}

#[test]
fn who_leaves_stays_until_a_quorum_knows_of_it_or_for_three_seconds() {
    let leaving = |told: &[u64], after: Duration| {
        let (mut process, _) = in_group(A, 5);
        process.directory.members.remove(0); // the view without it
        process.stage = Stage::Leaving { since: NOW };
        process.reported_decrees = told.iter().copied().map(DecreeNumber).collect();
        process.leave_step(NOW + after, &mut Out::default());
        process.is_over()
    };
    let patience = Duration::from_secs(3);
    // Half of the four others without the first of them is no quorum, and neither is one alone.
    for told in [&[1, 2, 2, 1][..], &[2, 1, 1, 1], &[1, 1, 1, 1], &[]] {
        let over = [NANO, patience, patience + NANO].map(|after| leaving(told, after));
        assert_eq!(over, [false, false, true], "{told:?}");
    }
    assert!(leaving(&[2, 1, 2, 1], NANO) && leaving(&[1, 2, 2, 3], NANO));
}

#[test]
fn who_hears_no_quorum_leaves_after_three_seconds() {
    let over = |is_primary, after| {
        let (mut process, _) = in_cell(A, 3);
        process.primary = is_primary;
        process.leave(NOW);
        process.leave_step(NOW + after, &mut Out::default());
        process.is_over()
    };
    let patience = Duration::from_secs(3);
    assert_eq!([NANO, patience, patience + NANO].map(|after| over(false, after)), [false, false, true]);
    assert_eq!([NANO, patience + NANO].map(|after| over(true, after)), [false; 2]);
}

/// Sent messages get ten seconds to become stable.
#[test]
fn leaving_is_asked_for_when_what_was_sent_is_stable_or_given_up() {
    let (mut process, mut fx) = in_group(A, 3);
    multicast(&mut process, b"m", &mut fx);
    process.leave_group(NOW, GROUP).expect("it is a member");
    process.leave(NOW);
    let drain = Duration::from_secs(10);
    for (after, asked) in [(NANO, false), (drain, false), (drain + NANO, true)] {
        hear_all(&mut process, NOW + after);
        process.resend_requests(NOW + after);
        assert_eq!((process.requests.contains_key(&A), process.leavers.contains_key(&A)), (asked, asked));
    }
}

#[test]
fn a_flush_counts_what_it_finds_under_way() {
    let flushed = |sends: bool| {
        let (mut process, mut fx) = in_group(A, 3);
        if sends {
            multicast(&mut process, b"m", &mut fx);
        }
        process.handle_control(NOW, B, wedge(DecreeNumber(3), ballot(1, 1)), &mut fx);
        (process.counters.flushes_with_traffic, process.counters.wedged_idle)
    };
    assert_eq!((flushed(true), flushed(false)), ((1, 1), (0, 0)));
}

#[test]
fn a_cut_that_somebody_lacks_is_filled_and_counted() {
    let (mut process, mut fx) = in_group(A, 3);
    let mine = ballot(1, 0);
    process.coordinator =
        Some(Coordinator { asked: BTreeSet::from([0, 1].map(Rank)), ..trying(DecreeNumber(3), mine) });
    process.handle_control(NOW, A, Control::Report(report(DecreeNumber(3), mine, &[0, 0, 0])), &mut fx);
    assert_eq!(process.counters.cut_recoveries, 0);
    process.handle_control(NOW, B, Control::Report(report(DecreeNumber(3), mine, &[0, 1, 0])), &mut fx);
    assert_eq!(process.counters.cut_recoveries, 1);
    assert!(process.coordinator.is_some_and(|coordinator| matches!(coordinator.phase, Phase::Recovering { .. })));
}

#[test]
fn messages_carried_into_the_next_view_are_counted() {
    let (mut process, mut fx) = in_group(A, 3);
    process.handle_control(NOW, B, wedge(DecreeNumber(3), ballot(1, 1)), &mut fx);
    multicast(&mut process, b"short", &mut fx);
    multicast(&mut process, &[0; 3000], &mut fx);
    let cut = GroupCut { prefixes: vec![0; 3], holders: vec![Incarnation::NONE; 3] };
    let left = vec![(C, LeaveReason::Left)];
    let (name, joined, tail) = ("g".into(), Vec::new(), Tags::default());
    let change =
        GroupChange { group: GROUP, name, view: ViewNumber(2), space: Space(2), cut: Some(cut), joined, left, tail };
    process.handle_control(NOW, B, Control::Decide(Arc::new(decision(DecreeNumber(3), vec![change]))), &mut fx);
    assert_eq!((process.counters.carried_over, process.counters.carried_over_long), (2, 1));
}

#[test]
fn what_is_sent_and_delivered_is_counted() {
    let (mut process, mut fx) = in_group(A, 2);
    multicast(&mut process, b"first", &mut fx);
    process.deliver(NOW, &mut fx);
    fx.takes_nothing = true;
    for _ in 0..2 {
        multicast(&mut process, b"m", &mut fx);
        process.deliver(NOW, &mut fx);
    }
    let counters = &process.counters;
    assert_eq!((counters.sent, counters.sent_bytes), (3, 7));
    assert_eq!((counters.delivered, counters.delivered_bytes, counters.app_full), (1, 7, 1));
    fx.takes_nothing = false;
    process.deliver(NOW, &mut fx);
    assert_eq!(process.counters.delivered, 3);
}

#[test]
fn streams_that_make_no_sense_are_counted() {
    let (mut process, mut fx) = in_group(A, 2);
    let mut sealer = Sealer::new(&Security::None, "test", B);
    let mut packet = Vec::new();
    sealer.header(Kind::Multicast, Space(1), PacketNumber(1)).write(&mut packet);
    packet.extend_from_slice(&[0xff; 3]);
    sealer.seal(Incarnation::NONE, &mut packet);
    let origin = Origin::Network(named(2).data);
    process.handle_packet(NOW, TrafficClass::Data, origin, Packet::Lent(&mut packet), &mut fx);
    assert_eq!(process.counters.nonsense_streams, 1);
}

/// A joiner that cannot follow the risen level is proposed no more: ballots for it alone would decide nothing, again
/// and again.
#[test]
fn a_joiner_that_cannot_follow_the_level_is_forgotten() {
    let (mut process, _) = in_cell(A, 3);
    for (level, ready) in [(process.directory.level, 1), (process.directory.level - 1, 0)] {
        let info = MemberInfo { level, incarnation: Incarnation(77), name: "late".to_owned(), ..named(7) };
        let later = NOW + Duration::from_secs(1);
        let joiner =
            Joiner { info, groups: Vec::new(), terms: Vec::new(), first: NOW, last: later, round_trip: Duration::ZERO };
        process.joiners.insert(Incarnation(77), joiner);
        assert_eq!((process.ready_joiners(later).0.len(), process.joiners.len()), (ready, ready), "level {level}");
    }
}

/// After a message on a channel that makes no sense, nothing more is read or acknowledged from that member. It counts
/// as unheard, in later views as well.
#[test]
fn a_member_whose_channel_makes_no_sense_is_unheard() {
    for (kind, bad) in [(Kind::Control, &[0xff; 3][..]), (Kind::Data, &[9][..]), (Kind::Control, &[][..])] {
        let (mut process, mut fx) = in_cell(A, 3);
        let mut sealer = Sealer::new(&Security::None, "test", B);
        let mut say = |process: &mut Process, number: u64, bytes: &[u8]| {
            let mut packet = Vec::new();
            sealer.header(kind, Space(77), PacketNumber(number)).write(&mut packet);
            let len = u8::try_from(bytes.len()).expect("short");
            packet.extend_from_slice(&[3, len, len]);
            packet.extend_from_slice(bytes);
            sealer.seal(A, &mut packet);
            let origin = Origin::Network(named(2).data);
            process.handle_packet(NOW, TrafficClass::Data, origin, Packet::Lent(&mut packet), &mut fx);
        };
        let rank = process.directory.rank(B).expect("a member");
        assert!(process.failure_detector.hears(NOW, rank));
        say(&mut process, 1, bad);
        assert!(!process.failure_detector.hears(NOW, rank) && process.attention);
        assert_eq!(process.counters.nonsense_channels, 1);
        let leave = put_with_tail(&Control::Leave { waits: false }, &Tags::default(), Vec::new()).expect("a message");
        say(&mut process, 2, &leave);
        assert!(process.leavers.is_empty(), "it is not read");
        assert_eq!(process.counters.nonsense_channels, 1);
        process.failure_detector = FailureDetector::new(Rank(0), 3, NOW, process.patience());
        process.distrust();
        assert!(!process.failure_detector.hears(NOW, rank));
    }
}

/// Of a packet whose first message is whole and whose rest makes no sense nothing is delivered, neither as its sender's nor
/// as that of the sender of the next packet.
#[test]
fn what_came_before_nonsense_in_a_packet_is_nobodys_message() {
    let (mut process, mut fx) = in_group(A, 3);
    for (from, payload, rest, delivered) in [(B, b"b", &[0xff][..], None), (C, b"c", &[], Some((C, b"c".to_vec())))] {
        let mut sealer = Sealer::new(&Security::None, "test", from);
        let mut packet = Vec::new();
        sealer.header(Kind::ToOne, Space(77), PacketNumber(1)).write(&mut packet);
        // A message of the first view of the group that holds both, without a past.
        let message = [&[0, 1, 1, 0, 0][..], payload].concat();
        packet.extend_from_slice(&[3, 6, 6]);
        packet.extend_from_slice(&message);
        packet.extend_from_slice(rest);
        sealer.seal(A, &mut packet);
        let origin = Origin::Network(named(from.0).data);
        process.handle_packet(NOW, TrafficClass::Data, origin, Packet::Lent(&mut packet), &mut fx);
        process.deliver(NOW, &mut fx);
        assert_eq!(fx.to_one.pop(), delivered, "of {from}");
        assert!(fx.to_one.is_empty());
    }
    assert_eq!(process.counters.nonsense_channels, 1);
}

#[test]
fn congestion_and_the_loss_of_the_quorum_are_counted_once() {
    let (mut process, mut fx) = in_cell(A, 3);
    for (congested, count) in [(true, 1), (true, 1), (false, 1), (true, 2)] {
        process.set_congested(congested);
        assert_eq!(process.counters.congested, count);
    }
    for (dead, count) in [(B, 0), (C, 1), (C, 1)] {
        process.handle_death(NOW, dead, DeathProof::Ended);
        process.poll_membership(NOW, &mut fx);
        assert_eq!(process.counters.non_primary, count);
    }
}

/// The decree says why a member left. How this process knows of it stands beside that: the proof of its own system, and who
/// said to it that the member was not heard. What nobody told it is not made up.
#[test]
fn a_view_says_what_is_known_here_of_those_that_left() {
    let (mut process, mut fx) = in_cell(A, 4);
    let d = Incarnation(4);
    process.handle_death(NOW, B, DeathProof::Unlocked);
    let later = NOW + process.suspect_after() * 2;
    process.failure_detector.heard(later, Rank(3));
    process.failure_detector.beat(later, Rank(3), vec![true, true, false, true]);
    let left = vec![(B, LeaveReason::Died), (C, LeaveReason::Unreachable)];
    let Directory { next_group, next_space, .. } = process.directory;
    let next = decision(DecreeNumber(2), Vec::new());
    let next = Proposal { view: ViewNumber(2), left, next_group, next_space, ..next };
    fx.events.clear();
    process.handle_control(later, d, Control::Decide(Arc::new(next)), &mut fx);
    process.deliver(later, &mut fx);
    let Some(Event::CellView(view)) = fx.events.first() else { panic!("{:?}", fx.events) };
    let known: Vec<_> = view.departed.iter().map(|d| (&d.member.name[..], d.why, d.proof, &d.found_by[..])).collect();
    let by_both = &[A, d][..];
    assert_eq!(
        known,
        [
            ("m2", LeaveReason::Died, Some(DeathProof::Unlocked), &[][..]),
            ("m3", LeaveReason::Unreachable, None, by_both),
        ]
    );
}

/// An application takes itself for primary in each view that it is given, until it is told otherwise.
#[test]
fn who_hears_no_quorum_of_the_next_view_either_says_so_in_it() {
    let (mut process, mut fx) = in_cell(C, 5);
    let told = |process: &mut Process, fx: &mut Out| {
        fx.events.clear();
        for _ in 0..2 {
            process.poll_membership(NOW, fx);
            process.deliver(NOW, fx);
        }
        let of = |event: &Event| match event {
            Event::CellView(view) => Some(format!("view {}", view.view)),
            Event::NonPrimary { heard, needed, .. } => Some(format!("{heard} of {needed}")),
            Event::Primary => Some("primary".to_owned()),
            _ => None,
        };
        fx.events.iter().filter_map(of).collect::<Vec<_>>()
    };
    let [d, e] = [4, 5].map(Incarnation);
    for dead in [A, B, d] {
        process.handle_death(NOW, dead, DeathProof::Ended);
    }
    assert_eq!(told(&mut process, &mut fx), ["2 of 3"]);
    let mut decide = |decree, view, left: &[Incarnation]| {
        let left = left.iter().map(|who| (*who, LeaveReason::Died)).collect();
        let Directory { next_group, next_space, .. } = process.directory;
        let next = decision(DecreeNumber(decree), Vec::new());
        let next = Proposal { view: ViewNumber(view), left, next_group, next_space, ..next };
        process.handle_control(NOW, e, Control::Decide(Arc::new(next)), &mut Out::default());
        told(&mut process, &mut fx)
    };
    // Two of four without the oldest are no quorum. A decree that changes no view is nothing that the application sees.
    assert_eq!(decide(2, 2, &[d]), ["view 2", "2 of 3"]);
    assert_eq!(decide(3, 2, &[]), [""; 0]);
    assert_eq!(decide(4, 3, &[A]), ["view 3", "primary"]);
    assert_eq!(decide(5, 4, &[B]), ["view 4"]);
    assert_eq!(process.counters.non_primary, 1, "it was one time");
}

#[test]
fn a_full_channel_is_counted() {
    let (mut process, mut fx) = in_cell(A, 2);
    // More may wait than the window holds.
    process.set.limits.channel_window_bytes *= 2;
    let messages = (0..40).map(|_| process.send(NOW, B, &[0; 64 << 10]));
    let refused = messages.filter(|taken| *taken == Err(CommandError::NoCredit)).count() as u64;
    assert!(refused > 0);
    assert_eq!((process.counters.sends_refused, process.counters.channel_window_full), (refused, 0));
    for _ in 0..2 {
        process.poll_channels(NOW, &mut fx);
        assert_eq!(process.counters.channel_window_full, 1);
    }
}

#[test]
fn a_message_may_be_as_long_as_its_bound() {
    let (mut process, mut fx) = in_group(A, 2);
    let max = MESSAGE_BYTES_MAX;
    let zeros = vec![0; max + 1];
    assert_ne!(process.send(NOW, B, &zeros[..max - 1]), Err(CommandError::TooLong(max - 1)));
    assert_eq!(process.send(NOW, B, &zeros[..max]), Err(CommandError::TooLong(max)));
    let mut multicast = |len| process.multicast(NOW, GROUP, Order::Fifo, Stability::Plain, &[&zeros[..len]], &mut fx);
    assert_eq!(multicast(max + 1), Err(CommandError::TooLong(max + 1)));
    assert_ne!(multicast(max), Err(CommandError::TooLong(max)));
}

#[test]
fn addresses_to_ask_are_kept_up_to_a_number() {
    let (mut process, _) = in_cell(A, 1);
    let seeds: Vec<SocketAddr> = (0..5000).map(|port| SocketAddr::from(([127, 0, 0, 2], port))).collect();
    process.add_seeds(&seeds);
    assert_eq!(process.set.seeds, seeds[..SEEDS_MAX]);
}

/// A member without a quorum asks where the others were. The coordinator asks where no member is.
#[test]
fn a_lone_member_and_a_coordinator_ask_around_each_in_its_way() {
    let probe = Timing::default().probe;
    let asked = |me, is_primary, after| {
        let (mut process, mut fx) = in_cell(me, 3);
        process.set.seeds = vec![named(2).control, named(9).control];
        process.primary = is_primary;
        if !is_primary {
            process.handle_death(NOW, B, DeathProof::Ended);
            process.handle_death(NOW, C, DeathProof::Ended);
        }
        hear_all(&mut process, NOW + after);
        process.ask_around(NOW + after, &mut fx);
        fx.sent.into_iter().flat_map(|(_, to)| to).collect::<Vec<_>>()
    };
    assert_eq!(asked(A, false, probe * 5 - NANO), []);
    assert_eq!(asked(A, false, probe * 5), [2, 3, 9].map(|number| named(number).control));
    assert_eq!(asked(A, true, probe * 20 - NANO), []);
    assert_eq!(asked(A, true, probe * 20), [named(9).control]);
    assert_eq!(asked(B, true, probe * 20), [], "another coordinates");
}

#[test]
fn acks_for_control_travel_with_control() {
    let (mut process, mut fx) = in_cell(A, 2);
    let peer = process.peers.get_mut(B).expect("a member");
    put_ack(&mut peer.direct, Target::Control, &Ack::default());
    process.poll_channels(NOW, &mut fx);
    assert_eq!(fx.sent, [(TrafficClass::Control, vec![named(2).control])]);
    assert_eq!([process.net.direct(B).number, process.net.direct(B).number], [2, 3].map(PacketNumber));
}

#[test]
fn who_was_left_out_of_a_turn_is_the_first_of_the_next() {
    let (mut process, _) = in_cell(A, 5);
    let mut turn = |left_out: &[u64]| {
        let mut order = Vec::new();
        process.peers.poll(|who, peer: &mut Peer| {
            peer.direct = vec![0]; // it stays busy
            order.push(who.0);
            left_out.contains(&who.0)
        });
        order
    };
    assert_eq!(turn(&[4]), [2, 3, 4, 5]);
    assert_eq!(turn(&[]), [4, 5, 2, 3]);
    assert_eq!(turn(&[3, 5]), [2, 3, 4, 5]);
    assert_eq!(turn(&[]), [3, 4, 5, 2]);
}

/// A process that has sent something learns at once what arrived here.
#[test]
fn a_loss_is_told_to_who_may_have_sent_it() {
    let (mut process, _) = in_cell(A, 3);
    process.peers.poll(|_, _| false);
    let peer = process.peers.get_mut(B).expect("a member");
    let delay = Duration::from_millis(2);
    peer.control_channel.handle_packet(NOW, PacketNumber(1), &[], delay, &mut |_| {}).expect("an empty packet");
    peer.control_channel.poll_ack(NOW + delay).expect("it is due");
    process.peers.poll(|_, _| false);
    assert_eq!(process.peers.deadline(delay, false), None, "all are at rest");
    process.peers.handle_loss(NOW);
    process.peers.check_invariants();
    assert_eq!(process.peers.deadline(delay, false), Some(NOW));
}
