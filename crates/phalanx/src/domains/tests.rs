//! Domains that apply, move together and begin anew.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::*;
use crate::id::{MemberId, Order};
use crate::replica::{Replica, State, Transfer};
use crate::snapshot::{Piece, Snapshot};
use crate::submit::{ClientTable, Execute, execute};

/// All numbers so far. It is taken in pieces if `IN_PIECES`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Log<const IN_PIECES: bool>(Vec<u32>);

impl<const IN_PIECES: bool> State for Log<IN_PIECES> {
    fn apply(&mut self, message: &Message) {
        self.0.extend(message.decode::<u32>());
    }

    fn snapshot(&self) -> Snapshot {
        if IN_PIECES { Snapshot::encode_each(self.0.clone()) } else { Snapshot::encode(&self.0) }
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        assert!(!IN_PIECES, "pieces are taken one by one");
        snapshot.decode().map(Self)
    }

    fn restore_begin() -> Option<Self> {
        Some(Self(Vec::new()))
    }

    fn restore_piece(&mut self, piece: Piece<'_>) -> Result<(), DecodeError> {
        self.0.push(piece.decode()?);
        Ok(())
    }
}

type Whole = Log<false>;
type InPieces = Log<true>;

fn message(number: u32) -> Message {
    Message {
        view: 1,
        sender: MemberId::of(phalanx_core::Incarnation(7)),
        seq: u64::from(number),
        order: Order::Total,
        uniform: true,
        position: None,
        replayed: false,
        payload: Bytes::from(postcard::to_allocvec(&number).expect("a number")),
        domain: None,
    }
}

fn domains(named: [(&str, Box<dyn Domain>); 2]) -> Domains {
    Domains::new(named.map(|(name, domain)| (name.to_owned(), domain)).into())
}

fn quiet() -> Notice {
    Box::new(|why| panic!("{why}"))
}

/// The state as it is sent.
fn sent(donor: &mut dyn Replicating) -> Vec<u8> {
    let mut snapshot = donor.snapshot(quiet());
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < snapshot.len_bytes() {
        snapshot.read(bytes.len() as u64, 5, &mut bytes);
    }
    bytes
}

fn give(bytes: &[u8], joiner: &mut dyn Replicating) -> Result<(), DecodeError> {
    joiner.begin(bytes.len() as u64, None);
    let given = bytes.chunks(3).try_for_each(|chunk| joiner.restore(chunk));
    let complete = joiner.complete();
    assert!(given.is_ok() || given == complete, "the end says what a piece said");
    complete
}

fn why(given: Result<(), DecodeError>) -> String {
    given.expect_err("it is refused").to_string()
}

/// The state of a program of another layer, which takes its own bytes.
#[derive(Debug, PartialEq, Eq)]
struct Plain(Vec<u8>);

impl State for Plain {
    fn apply(&mut self, message: &Message) {
        self.0.extend_from_slice(&message.payload);
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.0.clone())
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        Ok(Self(snapshot.into_bytes().to_vec()))
    }

    fn restore_unframed(bytes: &[u8]) -> Result<Self, DecodeError> {
        let state = bytes.strip_prefix(b"PLAIN").ok_or_else(|| DecodeError::new("no state of ours"))?;
        Ok(Self(state.to_vec()))
    }
}

#[test]
fn a_state_without_a_frame_is_taken_by_who_knows_it() -> Result<(), DecodeError> {
    let replica = Replica::new(Plain(vec![9]));
    let mut joiner = Domains::new(vec![(String::new(), replica.for_group(None))]);
    joiner.begin(7, None);
    joiner.restore(b"PLAI")?;
    joiner.restore(b"Nab")?;
    joiner.apply(&[message(3)]);
    assert_eq!(replica.read().0, [9], "readers see the old one until it is complete");
    assert_eq!(joiner.complete(), Ok(()));
    assert_eq!(replica.read().0, *b"ab\x03");

    assert_eq!(why(give(b"OTHER", &mut joiner)), "no state of ours");
    assert_eq!(replica.read().0, *b"ab\x03", "what is shown is not touched");
    joiner.begin(8, None);
    joiner.restore(b"PLAINab")?;
    assert_eq!(why(joiner.complete()), "a part of it is missing");
    assert_eq!(give(&sent(&mut Domains::new(vec![(String::new(), replica.for_group(None))])), &mut joiner), Ok(()));
    assert_eq!(replica.read().0, *b"ab\x03", "a state with a frame is taken as ever");

    let log = Replica::new(Whole::default());
    let mut other = Domains::new(vec![(String::new(), log.for_group(None))]);
    assert_eq!(why(give(b"PLAINab", &mut other)), "it has the format of another version of this library");
    Ok(())
}

#[test]
fn domains_go_over_together_with_the_messages_after_them() -> Result<(), DecodeError> {
    let (first, second) = (Replica::new(Whole::default()), Replica::new(InPieces::default()));
    let mut donor = domains([("", first.for_group(None)), ("more", second.for_group(None))]);
    donor.apply(&[message(1), message(2)]);
    let bytes = sent(&mut donor);

    let (third, fourth) = (Replica::new(Log::<false>(vec![9])), Replica::new(Log::<true>(vec![9])));
    let mut joiner = domains([("more", fourth.for_group(None)), ("", third.for_group(None))]);
    joiner.begin(bytes.len() as u64, None);
    joiner.restore(&bytes[..10])?;
    assert_eq!(third.progress(), Some(Transfer { taken: 10, bytes: bytes.len() as u64 }));
    joiner.restore(&bytes[10..])?;
    joiner.apply(&[message(3)]);
    assert_eq!((&third.read().0[..], &fourth.read().0[..]), (&[9][..], &[9][..]), "nothing is shown yet");
    joiner.complete()?;
    assert_eq!((third.progress(), fourth.progress(), third.applied()), (None, None, 1));
    assert_eq!((&*third.read(), &*fourth.read()), (&Log(vec![1, 2, 3]), &Log(vec![1, 2, 3])));
    assert!(joiner.is_sound());
    Ok(())
}

/// Counts its views, and notes how many of them held this process.
#[derive(Debug, Default, PartialEq, Eq)]
struct Views(Vec<(u64, bool)>);

impl State for Views {
    fn apply(&mut self, _message: &Message) {
        self.0.push((0, false));
    }

    fn view(&mut self, view: &View) {
        self.0.push((view.number(), view.rank_of(view.me()).is_some()));
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.0)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode().map(Self)
    }
}

fn view(number: u64, members: &[u64]) -> Arc<phalanx_core::GroupView> {
    let nowhere = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    let who = |&member: &u64| phalanx_core::Incarnation(member);
    let info = |&member: &u64| {
        phalanx_core::MemberInfo::new(phalanx_core::Incarnation(member), format!("m{member}"), nowhere, nowhere)
    };
    Arc::new(phalanx_core::GroupView {
        members: members.iter().map(who).collect(),
        infos: members.iter().map(info).collect(),
        has_state: Some(true),
        domains: None,
        ..phalanx_core::GroupView::new(phalanx_core::GroupId(1), "g", phalanx_core::ViewNumber(number))
    })
}

#[test]
fn views_within_a_state_are_applied_to_it_in_their_place() -> Result<(), DecodeError> {
    let me = phalanx_core::Incarnation(9);
    let given = Replica::new(Views(vec![(1, true)]));
    let bytes = sent(&mut Domains::new(vec![(String::new(), given.for_group(None))]));
    let taken = Replica::new(Views::default());
    let mut joiner = Domains::new(vec![(String::new(), taken.for_group(None))]);
    joiner.begin(bytes.len() as u64, None);
    joiner.restore(&bytes)?;
    joiner.apply(&[message(1)]);
    let replayed = View::replayed(view(2, &[7]), me);
    assert_eq!((replayed.is_replayed(), replayed.my_rank(), replayed.me()), (true, usize::MAX, MemberId::of(me)));
    assert_eq!(replayed.members().map(|member| member.name).collect::<Vec<_>>(), ["m7"]);
    joiner.view_replayed(&replayed);
    joiner.apply(&[message(2)]);
    assert_eq!(*taken.read(), Views::default(), "nothing is shown yet");
    joiner.complete()?;
    let own = View::new(view(3, &[7, 9]), me);
    assert_eq!((own.is_replayed(), own.my_rank()), (false, 1));
    joiner.view(&own);
    assert_eq!(*taken.read(), Views(vec![(1, true), (0, false), (2, false), (0, false), (3, true)]));
    // A view before the end of a snapshot, like a message, makes no sense.
    joiner.begin(bytes.len() as u64, None);
    joiner.view_replayed(&replayed);
    joiner.restore(&bytes)?;
    joiner.complete().expect_err("a part came too late");
    Ok(())
}

#[test]
fn a_state_that_lacks_a_domain_or_has_an_unknown_one_is_refused() {
    let replica = || Replica::new(Whole::default());
    let (first, second) = (replica(), replica());
    let mut one = Domains::new(vec![(String::new(), first.for_group(None))]);
    let mut two = domains([("", first.for_group(None)), ("more", second.for_group(None))]);
    let (one_sent, two_sent) = (sent(&mut one), sent(&mut two));
    assert_eq!(why(give(&one_sent, &mut two)), "it lacks domain more of the state");
    assert_eq!(why(give(&two_sent, &mut one)), "it has domain more of the state, which this process does not know");
    assert!(!one.is_sound() && !two.is_sound());
    let twice = [("", first.for_group(None)), ("", second.for_group(None))];
    assert_eq!(why(give(&sent(&mut domains(twice)), &mut one)), "it has the state twice");
}

#[test]
fn an_optional_domain_begins_anew_or_is_passed_over() -> Result<(), DecodeError> {
    let old = || {
        let replica = Replica::new(Log::<false>(vec![1]));
        (Domains::new(vec![(String::new(), replica.for_group(None))]), replica)
    };
    let new = || {
        let (replica, added) = (Replica::new(Log::<false>(vec![1])), Replica::new(Log::<true>(vec![5])));
        let added_domain = added.for_group(Some(InPieces::default));
        (domains([("", replica.for_group(None)), ("added", added_domain)]), added)
    };
    let ((mut donor, _), (mut joiner, added)) = (old(), new());
    give(&sent(&mut donor), &mut joiner)?;
    assert_eq!(*added.read(), Log(vec![]), "not what it had before");
    let ((mut donor, given), (mut joiner, taken)) = (new(), new());
    give(&sent(&mut donor), &mut joiner)?;
    assert_eq!(*taken.read(), *given.read());
    let ((mut donor, _), (mut joiner, kept)) = (new(), old());
    donor.apply(&[message(4)]);
    give(&sent(&mut donor), &mut joiner)?;
    assert_eq!(*kept.read(), Log(vec![1, 4]));
    Ok(())
}

/// A view that lists domains.
fn listing(number: u64, names: &[&str]) -> View {
    let list = names.iter().map(|name| core::Domain { name: (*name).into(), version: 1 }).collect();
    let view = core::GroupView { domains: Some(list), ..core::GroupView::clone(&view(number, &[9])) };
    View::new(Arc::new(view), core::Incarnation(9))
}

fn to(domain: u8, number: u32) -> Message {
    Message { domain: Some(DomainIndex(domain)), ..message(number) }
}

/// A member with the state, an optional domain that begins with 5, and a tool's.
fn member() -> (Domains, [Replica<Whole>; 3]) {
    let replicas = [vec![], vec![5], vec![]].map(|numbers| Replica::new(Log::<false>(numbers)));
    let [state, more, tool] = &replicas;
    let all = vec![
        (String::new(), state.for_group(None)),
        ("more".to_owned(), more.for_group(Some(Whole::default))),
        ("tool.a".to_owned(), tool.for_group(None)),
    ];
    (Domains::new(all), replicas)
}

fn numbers(replicas: &[Replica<Whole>; 3]) -> [Vec<u32>; 3] {
    replicas.each_ref().map(|replica| replica.read().0.clone())
}

#[test]
fn a_message_is_applied_by_the_domain_that_it_names_or_by_all_of_the_program() {
    let (mut domains, replicas) = member();
    domains.view(&listing(1, &["tool.a", "", "more"]));
    domains.apply(&[message(1), to(1, 2), to(1, 3), message(4), to(0, 6), to(2, 7), to(3, 8)]);
    assert_eq!(numbers(&replicas), [vec![1, 2, 3, 4], vec![5, 1, 4, 7], vec![6]]);
    assert_eq!(replicas.each_ref().map(Replica::applied), [4, 3, 1]);
}

#[test]
fn a_domain_takes_part_from_the_view_that_lists_it() {
    let (mut domains, replicas) = member();
    domains.view(&listing(1, &["", "tool.a"]));
    domains.set_current(true);
    domains.apply(&[message(1), to(2, 2)]);
    assert_eq!(numbers(&replicas), [vec![1], vec![5], vec![]], "it is not listed");
    assert!(!replicas[1].is_current() && replicas[0].is_current());
    domains.view(&listing(2, &["", "tool.a", "more"]));
    domains.set_current(true);
    domains.apply(&[message(3), to(2, 4)]);
    assert_eq!(numbers(&replicas), [vec![1, 3], vec![3, 4], vec![]], "it begins as the default");
    assert!(replicas[1].is_current());
    domains.view(&listing(3, &["", "tool.a", "more"]));
    assert_eq!(numbers(&replicas)[1], [3, 4], "once");
    // The group is over, and this process makes the next one: each begins with what it has.
    domains.view(&listing(1, &["", "tool.a", "more"]));
    assert_eq!(numbers(&replicas)[1], [3, 4]);
}

#[test]
fn what_a_group_lists_goes_over_and_what_comes_to_the_list_meanwhile_begins_anew() -> Result<(), DecodeError> {
    let (mut donor, _) = member();
    donor.view(&listing(1, &["", "tool.a"]));
    donor.apply(&[message(1), to(1, 2)]);
    let bytes = sent(&mut donor);
    let short = listing(1, &["", "tool.a"]);
    let list = short.list().expect("it lists some");
    let (mut joiner, replicas) = member();
    joiner.begin(bytes.len() as u64, Some(list));
    joiner.restore(&bytes)?;
    joiner.apply(&[message(3), to(0, 4)]);
    joiner.view_replayed(&listing(2, &["", "tool.a", "more"]));
    joiner.apply(&[message(6), to(2, 7), to(1, 8)]);
    assert_eq!(numbers(&replicas), [vec![], vec![5], vec![]], "nothing is shown yet");
    joiner.complete()?;
    joiner.view(&listing(3, &["", "tool.a", "more"]));
    assert_eq!(numbers(&replicas), [vec![1, 3, 4, 6], vec![6, 7], vec![2, 8]]);
    // With its own first view.
    let (mut joiner, replicas) = member();
    joiner.begin(bytes.len() as u64, Some(list));
    joiner.restore(&bytes)?;
    joiner.complete()?;
    joiner.apply(&[message(3)]);
    joiner.view(&listing(2, &["", "tool.a", "more"]));
    assert_eq!(numbers(&replicas), [vec![1, 3], vec![], vec![2]]);
    // A donor that leaves one out is at fault.
    let longer = listing(2, &["", "tool.a", "more"]);
    let (mut joiner, replicas) = member();
    joiner.begin(bytes.len() as u64, longer.list());
    assert_eq!(why(joiner.restore(&bytes)), "it lacks domain more of the state");
    assert_eq!(numbers(&replicas)[1], [5]);
    Ok(())
}

/// A group that was made below level 10 has no list: all take part, and go on so when it gets one.
#[test]
fn without_a_list_all_take_part_and_go_on_when_there_is_one() -> Result<(), DecodeError> {
    let (mut domains, replicas) = member();
    let none = |number| View::new(view(number, &[9]), core::Incarnation(9));
    domains.view(&none(1));
    domains.apply(&[message(1)]);
    let bytes = sent(&mut domains);
    domains.view(&listing(2, &["", "more", "tool.a"]));
    domains.apply(&[to(1, 2)]);
    assert_eq!(numbers(&replicas), [vec![1], vec![5, 1, 2], vec![]]);
    let (mut joiner, replicas) = member();
    joiner.begin(bytes.len() as u64, None);
    joiner.restore(&bytes)?;
    joiner.view_replayed(&listing(2, &["", "more", "tool.a"]));
    joiner.apply(&[to(1, 2)]);
    joiner.complete()?;
    assert_eq!(numbers(&replicas), [vec![1], vec![5, 1, 2], vec![]]);
    Ok(())
}

#[test]
fn what_makes_no_sense_changes_nothing_and_is_not_given_away() -> Result<(), DecodeError> {
    let whole = Replica::new(Log::<false>(vec![1, 2]));
    let mut donor = Domains::new(vec![(String::new(), whole.for_group(None))]);
    let bytes = sent(&mut donor);
    let replica = Replica::new(Log::<false>(vec![8]));
    let mut joiner = Domains::new(vec![(String::new(), replica.for_group(None))]);
    for length in 0..bytes.len() {
        give(&bytes[..length], &mut joiner).expect_err("a part is missing");
        joiner.apply(&[message(3)]);
        joiner.set_current(true);
        assert_eq!((&*replica.read(), replica.is_current()), (&Log(vec![8]), false));
        let mut none = Vec::new();
        joiner.snapshot(quiet()).read(0, 100, &mut none);
        assert!(none.is_empty(), "who asks for it is sent elsewhere");
    }
    joiner.begin(bytes.len() as u64, None);
    joiner.restore(&bytes[..8])?;
    joiner.apply(&[message(3)]);
    joiner.restore(&bytes[8..])?;
    assert_eq!(why(joiner.complete()), "messages came before all of it did");
    give(&bytes, &mut joiner)?;
    joiner.set_current(true);
    assert_eq!((&*replica.read(), replica.is_current()), (&Log(vec![1, 2]), true), "the next one is taken");
    joiner.begin(bytes.len() as u64, None);
    joiner.restore(&bytes[..8])?;
    joiner.keep();
    joiner.apply(&[message(3)]);
    assert_eq!((&*replica.read(), replica.progress()), (&Log(vec![1, 2, 3]), None), "the present one goes on");
    joiner.begin(bytes.len() as u64, None);
    joiner.restore(&bytes)?;
    joiner.set_current(false);
    assert_eq!(replica.progress(), None, "it was excluded meanwhile");
    joiner.set_current(true);
    joiner.apply(&[message(4)]);
    assert_eq!((&*replica.read(), replica.is_current()), (&Log(vec![1, 2, 3, 4]), true), "it begins with what it has");
    Ok(())
}

/// The first donor dies when its state is half here, or all of it and a message after it.
#[test]
fn a_state_that_begins_anew_keeps_nothing_of_the_first_donor() -> Result<(), DecodeError> {
    let donor = |numbers: &[u32]| {
        let (whole, pieces) = (Log::<false>(numbers.to_vec()), Log::<true>(numbers.to_vec()));
        let (whole, pieces) = (Replica::new(whole), Replica::new(pieces));
        sent(&mut domains([("", whole.for_group(None)), ("more", pieces.for_group(None))]))
    };
    let (first, second) = (donor(&[1, 2, 3]), donor(&[1, 2, 3, 4]));
    for came in [first.len() / 2, first.len() - 10, first.len()] {
        let (whole, pieces) = (Replica::new(Log::<false>(vec![9])), Replica::new(Log::<true>(vec![9])));
        let mut joiner = domains([("", whole.for_group(None)), ("more", pieces.for_group(None))]);
        joiner.begin(first.len() as u64, None);
        joiner.restore(&first[..came])?;
        if came == first.len() {
            joiner.apply(&[message(4)]);
        }
        give(&second, &mut joiner)?;
        let both = (&*whole.read(), &*pieces.read());
        assert_eq!(both, (&Log(vec![1, 2, 3, 4]), &Log(vec![1, 2, 3, 4])), "after {came} bytes");
    }
    Ok(())
}

#[test]
fn items_of_another_type_are_refused() {
    struct Words;
    impl State for Words {
        fn apply(&mut self, _message: &Message) {}

        fn snapshot(&self) -> Snapshot {
            Snapshot::encode_each([u64::MAX])
        }

        fn restore(_snapshot: Snapshot) -> Result<Self, DecodeError> {
            Ok(Self)
        }
    }
    let mut donor = Domains::new(vec![(String::new(), Replica::new(Words).for_group(None))]);
    let replica = Replica::new(Log::<true>(vec![8]));
    let mut joiner = Domains::new(vec![(String::new(), replica.for_group(None))]);
    give(&sent(&mut donor), &mut joiner).expect_err("they do not fit");
    assert_eq!(*replica.read(), Log(vec![8]));
}

/// Whoever holds the guard of one domain while something is done to both sees the other one as it was. `act` changes the
/// number of messages in both.
fn expect_together(domains: &mut Domains, replicas: [&Replica<Whole>; 2], act: impl Fn(&mut Domains) + Sync) {
    for [held, other] in [replicas, [replicas[1], replicas[0]]] {
        let before = held.read().0.len();
        std::thread::scope(|scope| {
            let guard = held.read();
            let acts = scope.spawn(|| act(domains));
            for _ in 0..2_000 {
                assert_eq!(other.read().0.len(), guard.0.len());
                std::thread::yield_now();
            }
            assert!(!acts.is_finished(), "nobody waits for the reader");
            drop(guard);
        });
        assert_eq!(held.read().0, other.read().0);
        assert_ne!(held.read().0.len(), before, "nothing was done");
    }
}

#[test]
fn who_holds_a_guard_sees_the_other_domains_at_the_same_point() {
    let (first, second) = (Replica::new(Whole::default()), Replica::new(Whole::default()));
    let mut domains = domains([("", first.for_group(None)), ("more", second.for_group(None))]);
    expect_together(&mut domains, [&first, &second], |domains| domains.apply(&[message(1)]));
    assert_eq!(first.read().0, [1, 1]);
    let short = sent(&mut domains);
    domains.apply(&[message(2)]);
    let long = sent(&mut domains);
    let is_long = AtomicBool::new(false);
    expect_together(&mut domains, [&first, &second], |domains| {
        let bytes = if is_long.fetch_xor(true, Ordering::Relaxed) { &long } else { &short };
        give(bytes, domains).expect("it makes sense");
    });
    assert_eq!(first.read().0, [1, 1, 2]);
}

/// A lock that is given back before the last domain is changed lets a reader see half of it.
#[test]
fn no_domain_is_shown_before_all_are_changed() {
    let replicas = [(); 3].map(|()| Replica::new(Whole::default()));
    let parts = replicas.iter().enumerate().map(|(at, replica)| (at.to_string(), replica.for_group(None)));
    let mut domains = Domains::new(parts.collect());
    let mut changed = 0;
    domains.parts.together(&mut |_, _| {
        changed += 1;
        assert!(replicas.iter().all(Replica::is_locked), "before change {changed}");
    });
    assert_eq!((changed, replicas.iter().any(Replica::is_locked)), (3, false));
}

#[test]
fn who_holds_several_guards_sees_one_point_between_the_messages() {
    let (first, second) = (Replica::new(Whole::default()), Replica::new(Whole::default()));
    let mut domains = domains([("", first.for_group(None)), ("more", second.for_group(None))]);
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // In both orders.
        for (one, other) in [(&first, &second), (&second, &first)] {
            let stopped = &stopped;
            scope.spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    let (one, other) = (one.read(), other.read());
                    assert_eq!(one.0.len(), other.0.len());
                }
            });
        }
        for number in 0..2_000 {
            domains.apply(&[message(number)]);
        }
        stopped.store(true, Ordering::Relaxed);
    });
    assert_eq!(second.read().0.len(), 2_000);
}

/// A reader of a domain that keeps the others waiting is told of, once, by the domain's name.
#[test]
fn a_reader_that_holds_the_protocol_thread_up_is_told_by_its_domain() {
    let (first, second) = (Replica::new(Whole::default()), Replica::new(Whole::default()));
    let (tell, told) = std::sync::mpsc::channel();
    let notice: Notice = Box::new(move |text| tell.send(text).expect("somebody reads it"));
    let mut domains = domains([("", first.for_group(None)), ("more", second.for_group(None))]).with_notice(notice);
    std::thread::scope(|scope| {
        let guard = second.read();
        let applies = scope.spawn(|| domains.apply(&[message(1)]));
        let text = told.recv_timeout(std::time::Duration::from_secs(60)).expect("it is told");
        assert!(text.contains("domain more of the state") && text.contains("drop the guard"), "{text}");
        assert_eq!((guard.0.len(), applies.is_finished()), (0, false), "it waits on");
        drop(guard);
        applies.join().expect("no panic");
    });
    assert_eq!((first.read().0.len(), second.read().0.len(), told.try_iter().count()), (1, 1, 0));
    domains.apply(&[message(2)]);
    assert_eq!((first.read().0.len(), told.try_iter().count()), (2, 0), "nobody is there who reads");
}

/// A state whose result counts what it executed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count(Vec<Vec<u8>>);

impl State for Count {
    fn apply(&mut self, message: &Message) {
        self.0.push(message.payload.to_vec());
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.0)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode().map(Self)
    }
}

impl Execute for Count {
    type Output = usize;

    fn execute(&mut self, message: &Message) -> usize {
        self.0.push(message.payload.to_vec());
        self.0.len()
    }
}

/// Its state, and the table of its clients.
fn counting() -> (Domains, Replica<Count>) {
    let replica = Replica::new(Count::default());
    replica.set_execute(execute);
    let table = ClientTable::domain(&replica.handle.submits);
    let parts = vec![(String::new(), replica.for_group(None)), (clients_domain(""), table)];
    (Domains::new(parts), replica)
}

/// Commands as a client sends them: it is opened, and submits twice, the second message twice.
fn commands() -> Vec<Message> {
    let mut client: phalanx_life::Submitter<u8> = phalanx_life::Submitter::random();
    let mut group = phalanx_life::Clients::default();
    client.begin_life();
    let mut all = Vec::new();
    for payload in [&b"a"[..], b"b"] {
        client.submit(client.next_number(), payload.into(), 0);
    }
    while let Some(out) = client.due(&mut || 7) {
        if let phalanx_life::Taken::Told(told) = group.take(core::Incarnation(9), &out.payload) {
            client.applied(&told);
        }
        all.push(Message { payload: out.payload, domain: Some(DomainIndex(1)), ..message(0) });
    }
    all.push(all[2].clone());
    all
}

/// A submit is executed once, between the messages around it, also in a state that is taken from another member.
#[test]
fn what_is_submitted_is_executed_once_at_its_place_here_and_at_a_joiner() -> Result<(), DecodeError> {
    let names = ["", "phalanx.clients"];
    let list = listing(1, &names);
    let submitted = commands();
    let [open, first, second, again] = &submitted[..] else { panic!("{submitted:?}") };
    let (mut donor, given) = counting();
    donor.view(&list);
    let plain = |number| Message { payload: Bytes::copy_from_slice(&[number]), ..message(0) };
    donor.apply(&[open.clone(), plain(1), first.clone(), plain(2)]);
    let bytes = sent(&mut donor);
    let (mut joiner, taken) = counting();
    joiner.begin(bytes.len() as u64, list.list());
    joiner.restore(&bytes)?;
    for one in [&mut donor, &mut joiner] {
        one.apply(&[second.clone(), plain(3), again.clone(), first.clone()]);
    }
    assert!(taken.read().0.is_empty(), "nothing is shown yet");
    joiner.complete()?;
    let all: Vec<Vec<u8>> = [&[1][..], b"a", &[2], b"b", &[3]].map(<[u8]>::to_vec).into();
    assert_eq!((&given.read().0, &taken.read().0), (&all, &all));
    assert_eq!((given.applied(), taken.applied()), (5, 2), "what changed the state is counted");
    assert_eq!(sent(&mut donor), sent(&mut joiner), "the tables are equal");
    // A table that comes to the list begins anew, and knows no client.
    let (mut alone, replica) = counting();
    alone.view(&listing(1, &[""]));
    alone.apply(&submitted);
    alone.view(&listing(2, &names));
    alone.apply(&submitted[1..]);
    assert_eq!(replica.read().0, Vec::<Vec<u8>>::new());
    alone.apply(&submitted);
    assert_eq!(replica.read().0, [b"a", b"b"]);
    Ok(())
}
