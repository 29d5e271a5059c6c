use super::donor::{RECORD_BYTES, Recorded, order_code};
use super::*;
use crate::api::{Delivery, GroupTerms, GroupView, LeaveReason, Order, Uniformity};
use crate::id::{MemberInfo, Sequence, ViewNumber};
use crate::member::{GroupEntry, ReplayedView};
use crate::process::app::AppQueue;
use crate::process::tests::by_hand::{NOW, Out, hear_all, in_cell, measure};
use crate::rng::Rng;
use crate::wire::{Space, Tags};

const GROUP: GroupId = GroupId(1);
const OTHER: GroupId = GroupId(2);
const JOINER: Incarnation = Incarnation(7);
const SECOND_JOINER: Incarnation = Incarnation(8);

fn giving(group: GroupId, to: Incarnation, transfer: u64) -> OutgoingTransfer {
    OutgoingTransfer {
        group,
        to,
        transfer,
        state: Giving::Record,
        total: 0,
        replays_views: true,
        record: VecDeque::new(),
        record_bytes: 0,
        sent_bytes: 0,
        taken_bytes: 0,
        waits: false,
        done: None,
        moves: Moves { queued: 0, reached: ReachedBytes::default(), since: NOW },
    }
}

fn taking(group: GroupId, first_view: Option<ViewNumber>) -> IncomingTransfer {
    IncomingTransfer {
        group,
        donor: Incarnation(9),
        transfer: 1,
        state: Taking::Asked,
        heard: Instant::ZERO,
        came_bytes: 0,
        taken_bytes: 0,
        reported_bytes: 0,
        view: None,
        done: None,
        first_view,
    }
}

fn transfers() -> Transfers {
    Transfers::new(Rng::new(1))
}

fn delivery(payload: &[u8]) -> Delivery<'_> {
    Delivery {
        group: GROUP,
        view: ViewNumber(1),
        sender: Incarnation(1),
        seq: Sequence(1),
        order: Order::Total,
        uniformity: Uniformity::Plain,
        position: None,
        replayed: false,
        asked: None,
        domain: None,
        payload,
    }
}

fn item() -> Item {
    Item::Delivery(OwnedDelivery::of(&delivery(b"waits"), Space(1), Rank(0)))
}

/// A recorded delivery counts as recorded until it is sent, and then as sent. Together these bound a donor's memory and
/// how far the joiner is ahead of its application.
#[test]
fn a_recorded_delivery_counts_as_recorded_and_then_as_sent() {
    let mut all = transfers();
    all.giving.push(giving(GROUP, JOINER, 1));
    all.giving.push(giving(OTHER, JOINER, 2));
    for len in [0, 1, 1000] {
        all.record(&delivery(&vec![0; len]));
    }
    all.record(&Delivery { replayed: true, ..delivery(b"it came with a state") });
    assert_eq!(all.giving[1].record_bytes, 0, "the state of another group");
    let given = &mut all.giving[0];
    assert_eq!((given.record.len(), given.record_bytes, given.sent_bytes), (3, 1001 + 3 * 64, 0));
    given.replayed();
    given.replayed();
    assert_eq!((given.record.len(), given.record_bytes, given.sent_bytes), (1, 1064, 129));
    given.replayed();
    given.replayed();
    assert_eq!((given.record.len(), given.record_bytes, given.sent_bytes), (0, 0, 1001 + 3 * 64));
}

/// A joiner may be behind by what it has taken of the state, and by a bound more. Once it is in, the record grows no
/// more.
#[test]
fn a_joiner_that_the_group_outran_is_given_up() {
    let (mut process, _) = in_cell(Incarnation(1), 2);
    let joiner = Incarnation(2);
    let given_up = |process: &mut Process, record_bytes: u64, taken_bytes: u64, done: Option<ViewNumber>| {
        process.transfers.giving = vec![OutgoingTransfer {
            record_bytes,
            taken_bytes,
            total: 1000,
            done,
            sent_bytes: u64::MAX,
            record: VecDeque::from([Recorded { message: StateMessage::CaughtUp { transfer: 1 }, bytes: record_bytes }]),
            ..giving(GROUP, joiner, 1)
        }];
        process.poll_transfers(NOW);
        !process.transfers.gives_in(GROUP)
    };
    assert!(!given_up(&mut process, RECORD_BYTES, 0, None));
    assert!(given_up(&mut process, RECORD_BYTES + 1, 0, None));
    assert!(!given_up(&mut process, RECORD_BYTES + 700, 700, None), "it comes on");
    assert!(given_up(&mut process, RECORD_BYTES + 1001, 5000, None), "it has taken all of the state, and falls behind");
    assert!(!given_up(&mut process, RECORD_BYTES + 1001, 0, Some(ViewNumber(3))), "it is a member");
    assert_eq!((process.counters.transfers_outrun, process.counters.transfers_stalled), (2, 0));
}

/// Items of a failed transfer are taken first, and count for that transfer. The state is not requested again before
/// they are taken, nor for a while after the donor gave the joiner up.
#[test]
fn a_state_is_asked_for_again_when_what_came_of_it_is_taken() {
    let (mut process, _) = in_cell(Incarnation(1), 2);
    let group =
        |members| GroupEntry { name: "g".into(), view: ViewNumber(3), space: Space(1), members, tail: Tags::default() };
    process.directory.groups.insert(GROUP, group(vec![Incarnation(2)]));
    let begun = IncomingTransfer { state: Taking::Snapshot { expected: 5, received: 0 }, ..taking(GROUP, None) };
    let (donor, transfer) = (begun.donor, begun.transfer);
    let chunk = |process: &mut Process| {
        process.take_state(NOW, donor, StateMessage::Chunk { transfer, offset: 0, bytes: vec![1; 3] });
    };
    process.join_group(NOW, "g", true, GroupTerms::default()).expect("a good name");
    process.transfers.taking.insert("g".into(), begun);
    chunk(&mut process);
    process.take_state(NOW, donor, StateMessage::Abort { transfer });
    let sought = |process: &mut Process, at: Instant| {
        let group = process.directory.group_named("g").map(|(group, _)| group);
        process.seek_state(at, "g", group);
        process.transfers.taken_group("g").is_some()
    };
    let late = NOW + PATIENCE;
    assert!(!sought(&mut process, late), "the application has not taken the chunk");
    process.transfers.taken(GROUP, 3);
    assert!(!sought(&mut process, NOW), "the donor gave it up just now");
    process.failure_detector.heard(late, Rank(1));
    assert!(sought(&mut process, late));
    process.take_state(late, donor, StateMessage::Abort { transfer });
    assert!(process.transfers.taken_group("g").is_some(), "an answer to the request before");
}

/// Uniform deliveries may be among those that waited, and the application was notified meanwhile that no quorum is
/// heard.
#[test]
fn what_waited_for_a_state_waits_until_a_quorum_is_heard() {
    let (mut process, _) = in_cell(Incarnation(1), 2);
    let before = process.app.len();
    process.transfers.held.insert(GROUP, VecDeque::from([item()]));
    for (is_primary, waits) in [(false, true), (true, false)] {
        process.primary = is_primary;
        process.poll_transfers(NOW);
        assert_eq!((process.transfers.holds_back(GROUP), process.app.len() - before), (waits, usize::from(!waits)));
    }
}

/// Only a transfer of the same group, with its first view installed, holds back a group's deliveries.
#[test]
fn a_group_waits_for_its_own_transfer_alone() {
    let (mut all, mut app) = (transfers(), AppQueue::default());
    all.held.insert(GROUP, VecDeque::from([item()]));
    all.taking.insert("own".into(), taking(GROUP, Some(ViewNumber(3))));
    all.release(&mut app, true);
    assert!(all.holds_back(GROUP), "its state is not complete");
    all.taking.clear();
    all.taking.insert("another".into(), taking(OTHER, Some(ViewNumber(3))));
    all.taking.insert("not in yet".into(), taking(GROUP, None));
    all.release(&mut app, true);
    assert!(!all.holds_back(GROUP));
    assert_eq!(app.len(), 1);
}

/// A transfer is identified by its joiner and its number together. A joiner's messages do not affect another joiner's
/// transfer.
#[test]
fn what_a_joiner_says_is_about_its_own_transfer() {
    let mut all = transfers();
    all.giving.push(giving(GROUP, JOINER, 1));
    all.giving.push(giving(GROUP, SECOND_JOINER, 1));
    all.giving.push(giving(OTHER, SECOND_JOINER, 2));
    let found = |all: &mut Transfers, to, transfer| all.given_to(to, transfer).map(|g| (g.to, g.transfer));
    assert_eq!(found(&mut all, SECOND_JOINER, 1), Some((SECOND_JOINER, 1)));
    assert_eq!(found(&mut all, SECOND_JOINER, 2), Some((SECOND_JOINER, 2)));
    assert_eq!(found(&mut all, JOINER, 2), None);
    assert!(!all.give_up(JOINER, 2));
    assert_eq!(all.giving.len(), 3);
    assert!(all.give_up(SECOND_JOINER, 1));
    assert_eq!(all.giving.iter().map(|g| (g.to, g.transfer)).collect::<Vec<_>>(), [(JOINER, 1), (SECOND_JOINER, 2)]);
}

/// A process that leaves a group forgets its transfers and no others. Waiting items are delivered if the group's view
/// was reported.
#[test]
fn leaving_a_group_ends_its_transfers() {
    let filled = |first_view| {
        let (mut all, app) = (transfers(), AppQueue::default());
        all.giving.push(giving(GROUP, JOINER, 1));
        all.giving.push(giving(OTHER, JOINER, 2));
        all.taking.insert("own".into(), taking(GROUP, first_view));
        all.taking.insert("another".into(), taking(OTHER, Some(ViewNumber(1))));
        all.held.insert(GROUP, VecDeque::from([item()]));
        (all, app)
    };
    for (first_view, told) in [(None, true), (Some(ViewNumber(3)), false)] {
        let (mut all, mut app) = filled(first_view);
        assert_eq!(all.group_left(GROUP, &mut app), told);
        assert_eq!(app.len(), usize::from(told), "items of a view that was not reported are dropped");
        assert!(!all.holds_back(GROUP));
        assert_eq!(all.giving.iter().map(|g| g.group).collect::<Vec<_>>(), [OTHER]);
        assert_eq!(all.taking.keys().collect::<Vec<_>>(), ["another"]);
    }
}

/// Each state under way may have its bound of bytes waiting for the application, in the shortest deliveries possible.
#[test]
fn what_waits_of_a_state_is_bounded_by_its_bytes() {
    let mut all = transfers();
    assert_eq!(all.ahead_max(), 0);
    all.taking.insert("a".into(), taking(GROUP, None));
    all.taking.insert("b".into(), taking(OTHER, None));
    assert_eq!(all.ahead_max() * REPLAY_BYTES, 2 * AHEAD_BYTES);
}

/// Order and uniformity survive the byte that encodes them for a replayed delivery.
#[test]
fn the_order_of_a_replayed_delivery_survives_its_code() {
    for order in [Order::Fifo, Order::Causal, Order::Total] {
        for uniformity in [Uniformity::Plain, Uniformity::Uniform] {
            assert_eq!(order_from(order_code(order, uniformity)), Some((order, uniformity)));
        }
    }
}

#[test]
fn the_pieces_of_a_state_follow_each_other_and_a_complete_one_is_counted() {
    let (mut process, _) = in_cell(Incarnation(1), 2);
    let state = Taking::Snapshot { expected: 5, received: 0 };
    let begun = IncomingTransfer { state, done: Some(ViewNumber(3)), ..taking(GROUP, Some(ViewNumber(3))) };
    let (donor, transfer) = (begun.donor, begun.transfer);
    process.transfers.taking.insert("g".into(), begun);
    for (offset, bytes) in [(0, vec![1; 3]), (3, vec![2; 2])] {
        process.take_state(NOW, donor, StateMessage::Chunk { transfer, offset, bytes });
    }
    assert_eq!(process.transfers.taking.get("g").map(|taking| taking.state), Some(Taking::Record));
    process.complete_state(NOW, "g");
    assert_eq!((process.counters.transfers_taken, process.transfers.taken_group("g").is_some()), (1, false));
}

/// A process that was taken in without the state leaves to come again. Some member must keep the state for it until
/// then.
#[test]
fn who_leaves_only_to_come_again_seeks_the_state() {
    let (mut process, _) = in_cell(Incarnation(1), 2);
    let group =
        |members| GroupEntry { name: "g".into(), view: ViewNumber(3), space: Space(1), members, tail: Tags::default() };
    process.directory.groups.insert(GROUP, group(vec![Incarnation(2)]));
    process.join_group(NOW, "g", true, GroupTerms::default()).expect("a good name");
    assert!(process.seeks_state_of(GROUP));
    process.directory.groups.insert(GROUP, group(vec![Incarnation(2), Incarnation(1)]));
    assert!(!process.seeks_state_of(GROUP), "it is a member");
    process.transfers.retreat(GROUP);
    assert!(process.seeks_state_of(GROUP), "it is one no longer than it must");
    let want = process.wants.get_mut("g").expect("it wants to be in");
    want.leaving = Some(NOW);
    assert!(!process.seeks_state_of(GROUP), "it does not come again");
}

/// A donor that has begun owes something until all of its record has arrived, and again from the view on that contains
/// the joiner. It is not suspected for delays of the application here, or of the cell.
#[test]
fn a_donor_is_given_up_only_for_what_it_owes() {
    let (mut process, _) = in_cell(Incarnation(1), 2);
    let donor = Incarnation(2);
    let group = GroupEntry {
        name: "g".into(),
        view: ViewNumber(3),
        space: Space(1),
        members: vec![donor],
        tail: Tags::default(),
    };
    process.directory.groups.insert(GROUP, group);
    let patience = process.suspect_after() * SILENT_PATIENCE;
    let begun = || IncomingTransfer { donor, state: Taking::Record, heard: NOW, ..taking(GROUP, None) };
    let is_kept = |process: &mut Process, begun: IncomingTransfer, after: Duration| {
        process.transfers.taking.insert("g".into(), begun);
        process.poll_transfers(NOW + after);
        process.transfers.taking.remove("g").is_some()
    };
    let soon = Duration::from_millis(1);
    let asked = || IncomingTransfer { donor, heard: NOW, ..taking(GROUP, None) };
    assert!(is_kept(&mut process, asked(), PATIENCE) && !is_kept(&mut process, asked(), PATIENCE + soon));
    assert!(is_kept(&mut process, begun(), patience) && !is_kept(&mut process, begun(), patience + soon));
    // Three round trips of one that is far, if that is longer. The longest that counts is 3 s.
    let secs = Duration::from_secs_f64;
    for (round_trip, transfer, longer) in
        [(secs(1.0), asked(), secs(3.0)), (secs(2.5), begun(), secs(7.5)), (secs(1.5), begun(), secs(5.0))]
    {
        let mut far = in_cell(Incarnation(1), 2).0;
        far.set.timing.suspect_after = secs(1.0);
        far.directory.groups = process.directory.groups.clone();
        measure(&mut far, donor, round_trip);
        let again = || IncomingTransfer { donor, state: transfer.state, heard: NOW, ..taking(GROUP, None) };
        assert!(is_kept(&mut far, again(), longer) && !is_kept(&mut far, again(), longer + soon), "{round_trip:?}");
    }
    assert!(
        is_kept(&mut process, IncomingTransfer { came_bytes: 1, ..begun() }, patience + soon),
        "the application lags"
    );
    assert!(
        is_kept(&mut process, IncomingTransfer { state: Taking::CaughtUp, ..begun() }, patience + soon),
        "no view holds us"
    );
    let entered = || IncomingTransfer { state: Taking::CaughtUp, first_view: Some(ViewNumber(4)), ..begun() };
    assert!(!is_kept(&mut process, entered(), patience + soon));
    process.primary = false;
    assert!(is_kept(&mut process, entered(), patience + soon), "no quorum is heard");
    assert_eq!(process.counters.donors_silent, 3);
}

/// What a donor gives of several groups goes through one channel, one after the other.
#[test]
fn a_donor_that_gives_another_group_is_not_silent() {
    let (mut process, _) = in_cell(Incarnation(1), 2);
    let (donor, other) = (Incarnation(2), Incarnation(3));
    let begin = StateMessage::Begin { transfer: 2, bytes: Some(10), view: None, domains: None };
    for (name, transfer, donor) in [("first", 1, donor), ("second", 2, donor), ("of another", 3, other)] {
        let asked = IncomingTransfer { donor, transfer, heard: NOW, ..taking(GROUP, None) };
        process.transfers.taking.insert(name.into(), asked);
    }
    let soon = NOW + Duration::from_millis(1);
    process.handle_state(soon, donor, begin, &mut Out::default());
    let heard: Vec<Instant> = process.transfers.taking.values().map(|taking| taking.heard).collect();
    assert_eq!(heard, [soon, NOW, soon]);
}

/// A new request ends the transfer for the one before, even if the new one is refused.
#[test]
fn a_new_request_ends_what_is_given_for_the_one_before() {
    let (mut process, _) = in_cell(Incarnation(1), 2);
    let joiner = Incarnation(2);
    process.transfers.giving = vec![giving(GROUP, joiner, 1), giving(OTHER, joiner, 2), giving(GROUP, JOINER, 3)];
    let ask = StateMessage::Ask { group: GROUP, view: ViewNumber(1), transfer: 4 };
    process.handle_state(NOW, joiner, ask, &mut Out::default());
    assert_eq!(process.transfers.giving.iter().map(|g| g.transfer).collect::<Vec<_>>(), [2, 3]);
}

/// Only what a joiner receives and takes counts as progress. A donor that is outside the primary, or was away, gives
/// nobody up.
#[test]
fn a_joiner_that_comes_no_farther_is_given_up() {
    let (mut process, _) = in_cell(Incarnation(1), 2);
    let joiner = Incarnation(2);
    process.transfers.giving.push(giving(GROUP, joiner, 1));
    let gives_at = |process: &mut Process, seconds: u64| {
        process.poll_transfers(NOW + Duration::from_secs(seconds));
        process.transfers.gives_in(GROUP)
    };
    assert!(gives_at(&mut process, 10));
    process.transfers.giving[0].sent_bytes = 5;
    process.handle_state(NOW, joiner, StateMessage::Taken { transfer: 1, bytes: 5 }, &mut Out::default());
    assert!(gives_at(&mut process, 12) && gives_at(&mut process, 22), "it took some");
    process.primary = false;
    assert!(gives_at(&mut process, 30) && gives_at(&mut process, 50), "no view can take it in");
    process.primary = true;
    assert!(gives_at(&mut process, 60));
    process.transfers.forgive(NOW + Duration::from_secs(65));
    assert!(gives_at(&mut process, 75), "this process was away");
    assert!(!gives_at(&mut process, 76));
    assert_eq!(process.counters.transfers_stalled, 1);
}

/// A leaver lets ten seconds pass for joiners that take the state from it. One that has all of it gets ten more, or the
/// rounds of two view changes: the view that takes it in is not to be the one that lets its donor go.
#[test]
fn a_leaver_waits_for_the_view_of_a_joiner_that_has_the_state() {
    let (ms, joiner) = (Duration::from_millis, Incarnation(2));
    let waits_at = |process: &mut Process, after: Duration| {
        hear_all(process, NOW + after);
        process.gives_and_waits(NOW + after, GROUP, NOW)
    };
    let (mut process, _) = in_cell(Incarnation(1), 3);
    assert!(!waits_at(&mut process, ms(1)), "nobody takes it");
    process.transfers.giving.push(giving(GROUP, joiner, 1));
    assert!(waits_at(&mut process, ms(10_000)) && !waits_at(&mut process, ms(10_001)), "some of it is missing there");
    for (round_trip, until_ms) in [(ms(1), 19_000), (ms(1_000), 25_000)] {
        let (mut process, _) = in_cell(Incarnation(1), 3);
        measure(&mut process, joiner, round_trip);
        process.transfers.giving.push(giving(GROUP, joiner, 1));
        process.poll_transfers(NOW + ms(9_000));
        assert!(waits_at(&mut process, ms(until_ms)) && !waits_at(&mut process, ms(until_ms + 1)), "{round_trip:?}");
        assert!(!process.gives_and_waits(NOW + ms(11_000), OTHER, NOW), "another group");
        process.transfers.forgive(NOW + ms(until_ms));
        assert!(waits_at(&mut process, ms(until_ms + 1)), "this process was away");
        process.directory.level = 2;
        assert!(!waits_at(&mut process, ms(1)), "below level 3 no leaver waits");
    }
}

fn member(who: u64) -> MemberInfo {
    MemberInfo { incarnation: Incarnation(who), ..crate::process::tests::member() }
}

/// A view of members 1 and 9, of which the latter takes the state.
fn view(number: u64) -> GroupView {
    GroupView {
        group: GROUP,
        name: "g".into(),
        view: ViewNumber(number),
        prev: Some(ViewNumber(number - 1)),
        members: vec![Incarnation(1), Incarnation(9)],
        infos: vec![member(1), member(9)],
        joined: vec![Incarnation(9)],
        left: vec![(Incarnation(3), LeaveReason::Died)],
        incomplete: vec![Incarnation(9)],
        observers: Vec::new(),
        has_state: Some(true),
        domains: None,
        terms: GroupTerms { members_min: 2, ..GroupTerms::default() },
        adequate: true,
    }
}

/// A view stands in the record where the application was told of it, and counts as a delivery does.
#[test]
fn a_view_is_recorded_between_the_deliveries() {
    let mut all = transfers();
    all.giving.push(giving(GROUP, JOINER, 1));
    all.giving.push(OutgoingTransfer { replays_views: false, ..giving(GROUP, SECOND_JOINER, 2) });
    all.record(&delivery(b"before"));
    all.view_reached(&view(2));
    all.record(&delivery(b"after"));
    all.view_reached(&GroupView { joined: vec![JOINER], ..view(3) });
    let seen = |g: &OutgoingTransfer| -> Vec<Option<u64>> {
        let number = |recorded: &Recorded| match &recorded.message {
            StateMessage::ReplayView { view, .. } => Some(view.view.0),
            _ => None,
        };
        g.record.iter().map(number).collect()
    };
    assert_eq!(seen(&all.giving[0]), [None, Some(2), None]);
    assert_eq!(
        (seen(&all.giving[1]).len(), all.giving[0].done),
        (2, Some(ViewNumber(3))),
        "the other one replays no views"
    );
    let given = &mut all.giving[0];
    assert_eq!(given.record_bytes, 6 + 5 + replayed_bytes(&view(2)) as u64 + 3 * 64);
    (0..3).for_each(|_| given.replayed());
    assert_eq!(given.sent_bytes, 6 + 5 + replayed_bytes(&view(2)) as u64 + 3 * 64);
    all.view_reached(&view(4));
    assert!(all.giving[0].record.is_empty(), "the joiner is in");
}

/// What the application takes of a replayed view is what the donor counts for it. One that is left out, comes twice, or
/// holds the joiner is no part of a state.
#[test]
fn replayed_views_follow_each_other() {
    let replayed = |number| Box::new(ReplayedView::of(&view(number)));
    let holds_me = || Box::new(ReplayedView { members: vec![member(1), member(9)], ..*replayed(4) });
    let cases: [(Option<u64>, &[u64], u64, bool); 9] = [
        (Some(3), &[4, 5], 6, true),
        (Some(3), &[], 4, true),
        (Some(3), &[5], 6, false),
        (Some(3), &[4, 4], 5, false),
        (Some(3), &[3], 4, false),
        (Some(3), &[4], 6, false),
        (Some(u64::MAX), &[], 6, false),
        (None, &[4], 5, false),
        (None, &[], 9, true),
    ];
    for (frozen_in, views, done, is_whole) in cases {
        let (mut process, _) = in_cell(Incarnation(1), 2);
        process.set.me.incarnation = JOINER;
        let begun = IncomingTransfer {
            view: frozen_in.map(ViewNumber),
            state: Taking::Record,
            ..taking(GROUP, Some(ViewNumber(done)))
        };
        let (donor, transfer) = (begun.donor, begun.transfer);
        process.transfers.taking.insert("g".into(), begun);
        process.transfers.held.insert(GROUP, VecDeque::new());
        for number in views {
            process.take_state(NOW, donor, StateMessage::ReplayView { transfer, view: replayed(*number) });
        }
        process.take_state(NOW, donor, StateMessage::Done { transfer, view: ViewNumber(done) });
        assert_eq!(process.counters.transfers_taken, u64::from(is_whole), "{frozen_in:?} {views:?} {done}");
    }
    let (mut process, _) = in_cell(Incarnation(1), 2);
    let begun = IncomingTransfer { view: Some(ViewNumber(3)), state: Taking::Record, ..taking(GROUP, None) };
    let (donor, transfer) = (begun.donor, begun.transfer);
    process.set.me.incarnation = Incarnation(9);
    process.transfers.taking.insert("g".into(), begun);
    process.take_state(NOW, donor, StateMessage::ReplayView { transfer, view: holds_me() });
    assert!(process.transfers.taken_group("g").is_none(), "it was never in a view before its first");
}

#[test]
fn a_replayed_view_counts_when_the_application_takes_it() {
    let (mut process, mut out) = in_cell(Incarnation(1), 2);
    let begun = IncomingTransfer { view: Some(ViewNumber(3)), state: Taking::Record, ..taking(GROUP, None) };
    let (donor, transfer) = (begun.donor, begun.transfer);
    process.set.me.incarnation = JOINER;
    process.transfers.taking.insert("g".into(), begun);
    let view = Box::new(ReplayedView::of(&view(4)));
    process.take_state(NOW, donor, StateMessage::ReplayView { transfer, view: view.clone() });
    let bytes = |process: &Process| process.transfers.taking.get("g").map(|t| (t.came_bytes, t.taken_bytes));
    let all = replayed_bytes(&view.into_view(GROUP, "g".into())) as u64 + REPLAY_BYTES;
    assert_eq!(bytes(&process), Some((all, 0)));
    process.app.check_invariants();
    process.give_to_app(&mut out);
    assert_eq!(bytes(&process), Some((all, all)));
}

/// What each member knows of the others differs, so the lists alone decide.
#[test]
fn the_adequacy_of_a_replayed_view_follows_from_its_lists() {
    let adequate = |incomplete: &[u64], members_min| {
        let incomplete = incomplete.iter().copied().map(Incarnation).collect();
        let terms = GroupTerms { members_min, ..GroupTerms::default() };
        let replayed = ReplayedView::of(&GroupView { incomplete, terms, ..view(4) });
        replayed.into_view(GROUP, "g".into()).adequate
    };
    assert_eq!([adequate(&[9], 1), adequate(&[9], 2), adequate(&[], 2), adequate(&[], 3)], [true, false, true, false]);
}

#[test]
fn views_that_cannot_be_are_refused() {
    let good = || ReplayedView::of(&view(4));
    assert!(good().is_sound(JOINER) && !good().is_sound(Incarnation(1)));
    let bad = [
        ReplayedView { members: Vec::new(), joined: Vec::new(), incomplete: Vec::new(), ..good() },
        ReplayedView { members: vec![member(1), member(9), member(1)], ..good() },
        ReplayedView { joined: vec![Incarnation(5)], ..good() },
        ReplayedView { incomplete: vec![Incarnation(9), Incarnation(9)], ..good() },
        ReplayedView { left: vec![(Incarnation(9), LeaveReason::Died)], ..good() },
    ];
    assert!(bad.iter().all(|view| !view.is_sound(JOINER)));
}

/// Nobody comes in at level 7 with a state that lacks the views since its snapshot.
#[test]
fn a_rise_begins_transfers_anew_that_replay_no_views() {
    let (mut process, _) = in_cell(Incarnation(1), 2);
    let earlier = |to, transfer| OutgoingTransfer { replays_views: false, ..giving(GROUP, to, transfer) };
    let is_in = OutgoingTransfer { done: Some(ViewNumber(2)), ..earlier(SECOND_JOINER, 2) };
    process.transfers.giving = vec![earlier(JOINER, 1), is_in, giving(OTHER, JOINER, 3)];
    let goes_on = |process: &Process| process.transfers.giving.iter().map(|g| g.transfer).collect::<Vec<_>>();
    let risen = |process: &mut Process, from| process.transfers.risen(from, REPLAYED_VIEWS_LEVEL);
    assert_eq!((risen(&mut process, REPLAYED_VIEWS_LEVEL), goes_on(&process)), (Vec::new(), vec![1, 2, 3]));
    assert_eq!((risen(&mut process, REPLAYED_VIEWS_LEVEL - 1), goes_on(&process)), (vec![(JOINER, 1)], vec![2, 3]));
}

#[test]
fn the_tables_of_a_transfer_are_the_ones_that_are_kept() {
    crate::transitions::kept::hold::<GivingEvent>("transfer-giving");
    crate::transitions::kept::hold::<TakingEvent>("transfer-taking");
}

/// A donor that leaves out a step or repeats one is at fault: what it gave is not a state.
#[test]
fn a_donor_that_leaves_a_step_out_is_left() {
    let (mut process, _) = in_cell(Incarnation(1), 2);
    let restoring = Taking::Snapshot { expected: 5, received: 3 };
    let (donor, transfer) = (taking(GROUP, None).donor, taking(GROUP, None).transfer);
    let begin = |bytes| StateMessage::Begin { transfer, bytes, view: None, domains: None };
    let done = || StateMessage::Done { transfer, view: ViewNumber(3) };
    let chunk = || StateMessage::Chunk { transfer, offset: 5, bytes: Vec::new() };
    let cases = [
        (Taking::Asked, vec![done(), chunk(), StateMessage::CaughtUp { transfer }]),
        (restoring, vec![begin(Some(5)), begin(None), done(), StateMessage::CaughtUp { transfer }]),
        (Taking::Record, vec![begin(Some(5)), begin(None), chunk()]),
        (Taking::CaughtUp, vec![begin(Some(0)), begin(None), chunk()]),
    ];
    for (state, messages) in cases {
        for message in messages {
            process
                .transfers
                .taking
                .insert("g".into(), IncomingTransfer { state, ..taking(GROUP, Some(ViewNumber(3))) });
            process.take_state(NOW, donor, message.clone());
            assert!(process.transfers.taken_group("g").is_none(), "{message:?} in {state:?}");
            assert!(process.transfers.retreats_from(GROUP), "{message:?} in {state:?}");
        }
    }
    assert_eq!(process.counters.transfers_taken, 0);
}
