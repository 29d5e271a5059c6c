//! Asking a group.

use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use phalanx::{
    AnswerError, AnswerRef, Answering, App, AskEnd, AskError, AskOptions, Asked, AskedRef, Cell, Group, Guarantee,
    Inbox, Inline, InlineAsk, InlineGroup, InlineReply, MemberId, Message, MessageRef, Next, Order, Replica, Reply,
    ReplyRef, SendError, Snapshot, State, View, Want,
};

use crate::common::{Member, PATIENCE, await_members, impatient, patient};

fn members<const N: usize>(directory: &Path, names: [&str; N]) -> [Member; N] {
    let mut all = names.map(|name| Member::start(patient(directory, name)));
    for member in &mut all {
        member.await_members(N);
    }
    all
}

/// Reads an inbox on a thread of its own, and answers what is asked, until the group is left.
fn answering(mut inbox: Inbox, mut answer: impl FnMut(Asked) + Send + 'static) -> JoinHandle<Vec<String>> {
    thread::spawn(move || {
        let mut messages = Vec::new();
        while let Some(next) = inbox.blocking_next() {
            match next {
                Next::Asked(asked) => answer(asked),
                Next::Message(message) => messages.push(text(&message.payload)),
                _ => {}
            }
        }
        messages
    })
}

fn text(payload: &[u8]) -> String {
    String::from_utf8_lossy(payload).into_owned()
}

fn leave(cells: impl IntoIterator<Item = Cell>) {
    cells.into_iter().for_each(|cell| cell.blocking_leave(PATIENCE).expect("leaves"));
}

#[test]
fn each_want_ends_as_it_says_and_every_answer_names_its_member() {
    let directory = tempfile::tempdir().expect("a directory");
    let all = members(directory.path(), ["ann", "bob", "cid"]);
    let ids: Vec<MemberId> = all.iter().map(|member| member.cell.me().id).collect();
    let view = all[0].group.view().expect("it is a member");
    let mut cells = Vec::new();
    let mut groups: Vec<Group> = Vec::new();
    let readers: Vec<_> = all
        .into_iter()
        .map(|Member { cell, group, inbox, .. }| {
            let name = cell.me().name;
            cells.push(cell);
            groups.push(group);
            answering(inbox, move |asked| {
                let question: String = asked.decode().expect("a text");
                assert!(!asked.is_forwarded && asked.expected().len() == 3);
                assert_eq!(asked.message.position.is_some(), question != "view", "a causal one has none");
                let answered = match question.as_str() {
                    "null" if name != "ann" => asked.null(),
                    "abort" if name == "bob" => asked.abort("not today"),
                    _ => asked.answer_value(&format!("{name} on {question}")),
                };
                assert_eq!(answered, Ok(()));
                assert_eq!(asked.clone().null(), Err(AnswerError::Answered), "one answer for one place");
            })
        })
        .collect();
    let ask = |question: &str| groups[0].ask_value(&question).with_self();

    let all = ask("all").blocking().expect("it is sent");
    assert_eq!((&all.end, all.is_met(), all.answers.len()), (&AskEnd::Met, true, 3));
    let mut values = all.decode::<String>().expect("texts");
    values.sort_by_key(|(member, _)| ids.iter().position(|id| id == member));
    let due: Vec<_> = ids.iter().copied().zip(["ann on all", "bob on all", "cid on all"].map(str::to_owned)).collect();
    assert_eq!(values, due);
    for answer in &all.answers {
        assert_eq!((answer.view, answer.by), (view.number(), answer.member));
        assert_eq!(ids[answer.rank], answer.member);
    }
    assert_eq!(
        groups[0].ask_value(&"others").blocking().expect("it is sent").answers.len(),
        2,
        "a thread that waits answers not"
    );
    assert_eq!(ask("some").without_self().want(Want::Count(2)).blocking().expect("it is sent").end, AskEnd::Met);
    assert!(ask("first").first().blocking().expect("it is sent").values().count() >= 1, "others may come with it");
    assert!(ask("most").majority().blocking().expect("it is sent").values().count() >= 2);
    assert_eq!(ask("too many").want(Want::Count(4)).blocking().expect("it is sent").end, AskEnd::Complete);
    let null = ask("null").majority().blocking().expect("it is sent");
    assert_eq!(
        (null.end, null.answers.iter().filter(|answer| answer.reply == Reply::Null).count()),
        (AskEnd::Complete, 2)
    );
    let aborted = ask("abort").blocking().expect("it is sent");
    assert_eq!(aborted.end, AskEnd::Aborted { by: ids[1], reason: "not today".into() });
    let until = ask("until").until(|answer| answer.decode::<String>().is_ok_and(|text| text.is_some()));
    assert_eq!(until.blocking().expect("it is sent").end, AskEnd::Met);
    let in_view =
        ask("view").in_view(&view).order(Order::Causal).guarantee(Guarantee::Plain).blocking().expect("it is sent");
    assert!(in_view.is_met());
    let mut stream = groups[1].ask_value(&"stream").stream();
    let mut count = 0;
    while let Some(answer) = stream.blocking_next() {
        assert!(answer.value().is_some());
        count += 1;
    }
    assert_eq!((count, stream.end()), (3, Some(Ok(AskEnd::Met))));
    // Longer than packets, both ways.
    let long = "x".repeat(100_000);
    assert!(ask(&long).blocking().expect("it is sent").values().all(|(_, value)| value.len() > 100_000));
    leave(cells);
    for (reader, messages) in readers.into_iter().zip([2, 0, 0]) {
        let seen = reader.join().expect("no panic");
        assert_eq!(seen.len(), messages, "who leaves itself out sees a message: {seen:?}");
    }
}

/// A member that does not answer holds the ask up until the view without it, and its place then says so.
#[test]
fn a_member_that_leaves_ends_the_wait_for_it_with_the_view() {
    let directory = tempfile::tempdir().expect("a directory");
    let [ann, bob, cid] = members(directory.path(), ["ann", "bob", "cid"]);
    let (ids, silent) = ([&ann, &bob, &cid].map(|member| member.cell.me().id), cid.group.clone());
    let (told, asked) = mpsc::channel();
    let mut kept = Vec::new();
    let readers = [
        answering(ann.inbox, |asked| asked.answer("ann").expect("it is given")),
        answering(bob.inbox, |asked| asked.answer("bob").expect("it is given")),
        answering(cid.inbox, move |asked| {
            kept.push(asked);
            told.send(()).expect("somebody waits");
        }),
    ];
    let mut stream = bob.group.ask("who?").stream();
    let first: Vec<_> = (0..2).map(|_| stream.blocking_next().expect("it comes").member).collect();
    asked.recv_timeout(PATIENCE).expect("cid is asked");
    assert!(
        first.contains(&ids[0]) && first.contains(&ids[1]) && stream.try_next().is_none() && stream.end().is_none()
    );
    silent.blocking_leave().expect("leaves");
    let last = stream.blocking_next().expect("it is told");
    assert_eq!((last.member, last.reply, stream.blocking_next()), (ids[2], Reply::Left, None));
    assert_eq!(stream.end(), Some(Ok(AskEnd::Complete)));
    assert!(bob.group.view().expect("a member").number() > last.view, "the view without it is in force");
    leave([ann.cell, bob.cell, cid.cell]);
    readers.into_iter().for_each(|reader| drop(reader.join().expect("no panic")));
}

/// A forward goes through the asker, and the place is filled by the other member.
#[test]
fn an_ask_is_forwarded_to_a_member_that_is_to_answer_and_to_no_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let [ann, bob, cid] = members(directory.path(), ["ann", "bob", "cid"]);
    let ids = [&ann, &bob, &cid].map(|member| member.cell.me().id);
    let dan = patient(directory.path(), "dan").blocking_start().expect("starts");
    let nobody = dan.me().id;
    let readers = [
        answering(ann.inbox, |asked| asked.answer("ann").expect("it is given")),
        answering(bob.inbox, move |asked| {
            assert_eq!(asked.forward(nobody), Err(AnswerError::NotExpected));
            asked.forward(ids[2]).expect("it is given away");
        }),
        answering(cid.inbox, move |asked| {
            let place = if asked.is_forwarded { ids[1] } else { ids[2] };
            assert_eq!((asked.place, &asked.message.payload[..], asked.message.sender), (place, &b"who?"[..], ids[0]));
            asked.answer(if asked.is_forwarded { "cid for bob" } else { "cid" }).expect("it is given");
        }),
    ];
    let answers = ann.group.ask("who?").with_self().blocking().expect("it is sent");
    let of_bob = answers.answers.iter().find(|answer| answer.member == ids[1]).expect("its place is filled");
    assert_eq!((of_bob.by, of_bob.value().map(|value| &value[..])), (ids[2], Some(&b"cid for bob"[..])));
    assert_eq!((answers.end, answers.answers.len()), (AskEnd::Met, 3));
    leave([ann.cell, bob.cell, cid.cell, dan]);
    readers.into_iter().for_each(|reader| drop(reader.join().expect("no panic")));
}

/// Unanswered asks end: by a drop, with null; by a deadline and by a cancel, of which the members learn.
#[test]
fn what_is_dropped_is_null_and_what_is_given_up_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let [ann, bob] = members(directory.path(), ["ann", "bob"]);
    let (told, asked) = mpsc::channel::<Asked>();
    let reader = answering(bob.inbox, move |asked| {
        match &asked.message.payload[..] {
            b"drop" => drop(asked),
            b"panic" => {
                thread::spawn(move || {
                    let _asked = asked;
                    panic!("it is told as null");
                });
            }
            _ => told.send(asked).expect("somebody waits"),
        };
    });
    for question in ["drop", "panic"] {
        let answers = ann.group.ask(question).blocking().expect("it is sent");
        assert_eq!((answers.end, &answers.answers[0].reply), (AskEnd::Met, &Reply::Null));
    }
    let late = ann.group.ask("later").deadline(Duration::from_millis(200)).blocking().expect("it is sent");
    assert_eq!((late.end, late.answers.len()), (AskEnd::Deadline, 0));
    let of_late = asked.recv_timeout(PATIENCE).expect("it came");
    let is_told = |asked: &Asked| {
        let mut tries = 0;
        while !asked.is_given_up() && tries < 2_000 {
            thread::sleep(Duration::from_millis(5));
            tries += 1;
        }
        asked.is_given_up()
    };
    assert!(is_told(&of_late));
    assert_eq!(of_late.answer("too late"), Err(AnswerError::GivenUp));
    let mut stream = ann.group.ask("later").without_self().stream();
    assert!(phalanx::wait_for(async { stream.next().await }, Duration::from_millis(100)).is_err());
    let of_stream = asked.recv_timeout(PATIENCE).expect("it came");
    stream.cancel();
    assert_eq!((stream.blocking_next(), stream.end()), (None, Some(Ok(AskEnd::Cancelled))));
    assert!(is_told(&of_stream));
    let dropped = ann.group.ask("later").without_self().into_future();
    assert!(phalanx::wait_for(dropped, Duration::from_millis(100)).is_err());
    assert!(is_told(&asked.recv_timeout(PATIENCE).expect("it came")));

    // The asker's own inbox is full: it is told so.
    let (small, unread) = ann.cell.group("small").inbox_items(8).blocking_join().expect("joins");
    for _ in 0..64 {
        small.send("fill").blocking_post().expect("it is queued");
    }
    let full = small.ask("drop").with_self().blocking();
    let is_told = match &full {
        Ok(answers) => answers.end == AskEnd::InboxFull,
        Err(error) => *error == AskError::Refused(SendError::InboxFull),
    };
    assert!(is_told, "{full:?}");
    drop(unread);
    assert_eq!(small.ask("drop").with_self().blocking().expect("nobody reads its inbox").end, AskEnd::Met);
    let too_long = ann.group.ask(vec![0; (64 << 20) + 1]).blocking();
    assert!(matches!(too_long, Err(AskError::Refused(SendError::TooLong(_)))), "{too_long:?}");
    leave([ann.cell, bob.cell]);
    assert!(matches!(ann.group.ask("over").blocking(), Err(AskError::Refused(SendError::NotMember | SendError::Over))));
    reader.join().expect("no panic");
}

#[derive(Default)]
struct Count(u64);

impl State for Count {
    fn apply(&mut self, _message: &Message) {
        self.0 += 1;
    }
    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.0)
    }
    fn restore(snapshot: Snapshot) -> Result<Self, phalanx::DecodeError> {
        snapshot.decode().map(Self)
    }
}

/// Members that came one after the other have the state, and answer; an observer never does. Every state has applied the ask.
#[test]
fn who_has_the_state_answers_and_an_observer_does_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut cells = Vec::new();
    let mut readers = Vec::new();
    let mut group = None;
    for name in ["ann", "bob", "cid"] {
        let cell = patient(directory.path(), name).blocking_start().expect("starts");
        let replica = Replica::new(Count::default());
        let (joined, inbox) = cell.group("g").state(&replica).blocking_join().expect("joins");
        readers.push(answering(inbox, move |asked| {
            asked.answer_value(&replica.read().0).expect("it is given");
        }));
        group = Some(joined);
        cells.push(cell);
    }
    let group = group.expect("three joined");
    let observer = patient(directory.path(), "dan").blocking_start().expect("starts");
    let (looks, mut inbox) = observer.group("g").observe().blocking_join().expect("joins");
    await_members(&mut inbox, 4);
    let reader = answering(inbox, |asked| panic!("an observer is asked: {asked:?}"));
    for (asker, applied) in [(&group, 1_u64), (&looks, 2)] {
        let answers = asker.ask("how many?").with_self().blocking().expect("it is sent");
        let values: Vec<u64> = answers.decode().expect("numbers").into_iter().map(|(_, value)| value).collect();
        assert_eq!((answers.end, values), (AskEnd::Met, vec![applied; 3]));
    }
    leave(cells.into_iter().chain([observer]));
    readers.into_iter().for_each(|reader| drop(reader.join().expect("no panic")));
    assert_eq!(reader.join().expect("no panic"), ["how many?"; 2], "it sees the asks as messages");
}

/// Asks and answers without a thread.
#[derive(Default)]
struct Program {
    members: usize,
    later: Vec<InlineAsk>,
    values: Vec<(usize, String)>,
    ended: Vec<(u64, Result<AskEnd, AskError>)>,
    given_up: usize,
}

impl App for Program {
    fn message(&mut self, _message: &MessageRef<'_>) {}

    fn view(&mut self, _group: InlineGroup, view: &View) {
        self.members = view.len();
    }

    fn asked(&mut self, asked: &AskedRef<'_>, value: &mut Vec<u8>) -> Option<InlineReply> {
        assert_eq!(asked.expected().count(), 2);
        match asked.message.payload {
            b"later" | b"never" => {
                self.later.push(asked.ask);
                None
            }
            b"abort" => {
                value.extend_from_slice(b"no");
                Some(InlineReply::Abort)
            }
            b"forward" if !asked.is_forwarded => Some(InlineReply::Forward(1 - asked.rank)),
            _ => {
                value.extend_from_slice(if asked.is_forwarded { b"for another" } else { b"here" });
                Some(InlineReply::Value)
            }
        }
    }

    fn ask_given_up(&mut self, _ask: InlineAsk) {
        self.given_up += 1;
    }

    fn answered(&mut self, _group: InlineGroup, _number: u64, answer: &AnswerRef<'_>) -> bool {
        if let ReplyRef::Value(value) = answer.reply {
            self.values.push((answer.rank, text(value)));
        }
        true
    }

    fn ask_ended(&mut self, _group: InlineGroup, number: u64, end: Result<AskEnd, AskError>) {
        self.ended.push((number, end));
    }
}

fn ended(all: &[(Inline, Program)], number: u64) -> bool {
    all[0].1.ended.iter().any(|(of, _)| *of == number)
}

#[test]
fn inline_processes_ask_and_answer_without_a_thread() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut all: Vec<(Inline, Program)> = ["ann", "bob"]
        .map(|name| (impatient(directory.path(), name).inline().expect("starts"), Program::default()))
        .into_iter()
        .collect();
    let groups: Vec<_> = all.iter_mut().map(|(member, app)| member.group("g").join(app).expect("joins")).collect();
    let poll = |all: &mut Vec<(Inline, Program)>, until: fn(&[(Inline, Program)], u64) -> bool, number: u64| {
        let begun = std::time::Instant::now();
        while !until(all, number) {
            assert!(begun.elapsed() < PATIENCE, "in time");
            all.iter_mut().for_each(|(member, app)| _ = member.poll(app));
        }
    };
    poll(&mut all, |all, _| all.iter().all(|(_, app)| app.members == 2), 0);
    let ask = |all: &mut Vec<(Inline, Program)>, options: AskOptions, question: &[u8]| {
        let (member, app) = &mut all[0];
        app.values.clear();
        member.ask(groups[0], &options, question, app).expect("there is room")
    };
    let plain = AskOptions::default();
    let number = ask(&mut all, plain, b"now");
    poll(&mut all, ended, number);
    all[0].1.values.sort();
    assert_eq!(all[0].1.values, [(0, "here".to_owned()), (1, "here".to_owned())]);
    assert_eq!(all[0].1.ended.pop(), Some((number, Ok(AskEnd::Met))));

    let number = ask(&mut all, AskOptions { with_self: false, ..plain }, b"forward");
    poll(&mut all, ended, number);
    // The asker answers not itself, so that nothing is forwarded to it.
    assert_eq!((all[0].1.values.len(), all[0].1.ended.pop()), (0, Some((number, Ok(AskEnd::Met)))));
    let number = ask(&mut all, plain, b"forward");
    poll(&mut all, ended, number);
    assert_eq!(all[0].1.values.len(), 2);
    assert!(all[0].1.values.iter().all(|(_, value)| value == "for another"));

    let number = ask(&mut all, AskOptions { want: None, ..plain }, b"now");
    poll(&mut all, ended, number);
    let number = ask(&mut all, plain, b"abort");
    poll(&mut all, ended, number);
    assert!(matches!(all[0].1.ended.pop(), Some((_, Ok(AskEnd::Aborted { reason, .. }))) if &reason[..] == b"no"));

    let number = ask(&mut all, plain, b"later");
    poll(&mut all, |all, _| all.iter().all(|(_, app)| app.later.len() == 1), 0);
    for (member, app) in &mut all {
        let asked = app.later.pop().expect("it was asked");
        member.answer(asked, InlineReply::Value, b"at last").expect("it is awaited");
        assert_eq!(member.answer(asked, InlineReply::Null, b""), Err(AnswerError::GivenUp), "one answer for one place");
    }
    poll(&mut all, ended, number);
    assert_eq!(all[0].1.values.len(), 2);

    let number = ask(&mut all, AskOptions { within: Some(Duration::from_millis(50)), ..plain }, b"never");
    poll(&mut all, |all, number| ended(all, number) && all.iter().all(|(_, app)| app.given_up == 1), number);
    assert_eq!(all[0].1.ended.pop(), Some((number, Ok(AskEnd::Deadline))));
    let number = ask(&mut all, plain, b"never");
    poll(&mut all, |all, _| all.iter().all(|(_, app)| app.later.len() == 2), 0);
    let (member, app) = &mut all[0];
    member.cancel_ask(groups[0], number, app);
    assert_eq!(app.ended.pop(), Some((number, Ok(AskEnd::Cancelled))));
    poll(&mut all, |all, _| all.iter().all(|(_, app)| app.given_up == 2), 0);
    let number = ask(&mut all, plain, b"never");
    let (member, app) = &mut all[0];
    member.poll(app);
    member.leave_group(groups[0], app).expect("it is a member");
    poll(&mut all, ended, number);
    assert_eq!(all[0].1.ended.pop(), Some((number, Err(AskError::Unknown))));
}

/// All texts so far.
#[derive(Default)]
struct Texts(Vec<String>);

impl State for Texts {
    fn apply(&mut self, message: &Message) {
        self.0.push(text(&message.payload));
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.0)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, phalanx::DecodeError> {
        snapshot.decode().map(Self)
    }
}

impl Answering for Texts {
    type Answer = Vec<String>;

    fn answer(&self, asked: &Message) -> Option<Vec<String>> {
        (asked.payload != "nothing").then(|| self.0.clone())
    }
}

/// Nobody reads an inbox, and each answer holds what came before the ask.
#[test]
fn a_state_answers_at_the_place_of_the_ask() {
    let directory = tempfile::tempdir().expect("a directory");
    let cells = ["ann", "bob"].map(|name| patient(directory.path(), name).blocking_start().expect("starts"));
    let texts = [Replica::new(Texts::default()), Replica::new(Texts::default())];
    let joined = cells.iter().zip(&texts).map(|(cell, texts)| {
        let builder = cell.group("g").state(texts).answers(texts);
        builder.blocking_join().expect("joins")
    });
    let members: Vec<(Group, Inbox)> = joined.collect();
    // Until both know that the other one has the state.
    for (group, _) in &members {
        while group.ask("who?").with_self().blocking().expect("it is asked").answers.len() < 2 {}
    }
    for number in 0..20 {
        let group = &members[number % 2].0;
        group.send(format!("m{number}")).blocking_post().expect("it is queued");
        let question = format!("q{number}");
        let answers = group.ask(&question).with_self().blocking().expect("it is asked");
        let told = answers.decode::<Vec<String>>().expect("texts");
        let [(_, first), (_, second)] = &told[..] else { panic!("{told:?}") };
        assert_eq!(first, second, "both answer at one place");
        assert_eq!(first[first.len() - 2..], [format!("m{number}"), question]);
    }
    let nothing = members[0].0.ask("nothing").with_self().blocking().expect("it is asked");
    assert!(nothing.answers.iter().all(|answer| matches!(answer.reply, Reply::Null)), "{nothing:?}");
    for (_, mut inbox) in members {
        let items = std::iter::from_fn(|| inbox.try_next());
        let asked: Vec<Next> = items.filter(|next| matches!(next, Next::Asked(_))).collect();
        assert!(asked.is_empty(), "{asked:?}");
    }
    let other = Replica::new(Texts::default());
    let asked = cells[0].group("h").state(&texts[0]).answers(&other).blocking_join();
    assert!(matches!(asked, Err(phalanx::JoinError::BadDomain(why)) if why.contains("answers asks that is none")));
    leave(cells);
}
