//! Messages to one member of a group.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use phalanx::{
    App, Bytes, FlushError, Group, Guarantee, Inline, InlineGroup, LeaveReason, MemberId, Message, MessageRef,
    MessageToOneRef, Next, Order, Replica, SendError, SentTo, Snapshot, State, Undelivered, View,
};

use crate::common::{Member, PATIENCE, await_members, next, patient};

fn members<const N: usize>(directory: &Path, names: [&str; N]) -> [Member; N] {
    let mut all = names.map(|name| Member::start(patient(directory, name)));
    for member in &mut all {
        member.await_members(N);
    }
    all
}

impl Member {
    fn id(&self) -> MemberId {
        self.cell.me().id
    }

    /// What comes next of messages, `to me: ` before one to this process alone.
    fn texts(&mut self, count: usize) -> Vec<String> {
        let mut texts = Vec::new();
        while texts.len() < count {
            match next(&mut self.inbox) {
                Next::Message(message) => texts.push(text(&message.payload)),
                Next::ToOne(message) => texts.push(format!("to me: {}", text(&message.payload))),
                _ => {}
            }
        }
        texts
    }
}

fn text(payload: &[u8]) -> String {
    String::from_utf8_lossy(payload).into_owned()
}

/// A message that only its receiver gets, after all that its sender multicast before it.
#[test]
fn a_message_to_one_comes_to_that_one_after_what_was_multicast_before() {
    let directory = tempfile::tempdir().expect("a directory");
    let [mut ann, mut bob, mut cid] = members(directory.path(), ["ann", "bob", "cid"]);
    let (group, view) = (&ann.group, ann.group.view().expect("it is a member").number());
    let mut due = Vec::new();
    for round in 0..50 {
        for number in 0..4 {
            group.send(format!("{round}.{number}")).blocking_post().expect("it is queued");
            due.push(format!("{round}.{number}"));
        }
        let sent = group.send_to(bob.id(), format!("after {round}")).blocking().expect("it is sent");
        assert_eq!(sent.view(), view);
        due.push(format!("to me: after {round}"));
    }
    group.blocking_flush().expect("all came");
    // There is no order with later multicasts, but with those before.
    let came = bob.texts(due.len());
    for at in came.iter().enumerate().filter(|(_, text)| text.starts_with("to me")).map(|(at, _)| at) {
        let round: usize = came[at]["to me: after ".len()..].parse().expect("a number");
        let before = came[..at].iter().filter(|text| !text.starts_with("to me")).count();
        assert!(before >= 4 * (round + 1), "{}: {before} before it", came[at]);
    }
    let to_bob =
        |texts: &[String]| -> Vec<String> { texts.iter().filter(|t| t.starts_with("to me")).cloned().collect() };
    assert_eq!(to_bob(&came), to_bob(&due), "in the order sent");
    for other in [&mut ann, &mut cid] {
        assert!(to_bob(&other.texts(200)).is_empty(), "they are for another one");
    }

    // A member may send to itself, without waiting, and without a receipt.
    ann.group.send_to(ann.id(), "own").try_post().expect("there is room");
    ann.group.send_value_to(ann.id(), &7_u32).blocking_post().expect("there is room");
    ann.group.send_bytes_to(ann.id(), Bytes::from_static(b"bytes")).blocking().expect("it is sent");
    assert_eq!(ann.texts(1), ["to me: own"]);
    let Next::ToOne(value) = next(&mut ann.inbox) else { panic!("another message to one") };
    assert_eq!((value.decode::<u32>(), value.sender, value.view), (Ok(7), ann.id(), view));
    assert_eq!(ann.texts(1), ["to me: bytes"]);
}

/// One that rests on a message of a third member comes after it.
#[test]
fn a_message_to_one_comes_after_what_its_sender_had_delivered() {
    let directory = tempfile::tempdir().expect("a directory");
    let [ann, mut bob, mut cid] = members(directory.path(), ["ann", "bob", "cid"]);
    let (to, relay) = (cid.id(), bob.group.clone());
    let relaying = thread::spawn(move || {
        for _ in 0..200 {
            let message = bob.messages(1).remove(0);
            relay.send_to(to, format!("re {}", text(&message.payload))).blocking_post().expect("it is queued");
        }
        relay.blocking_flush().expect("all came");
        bob
    });
    for number in 0..200 {
        ann.group.send(number.to_string()).blocking_post().expect("it is queued");
    }
    let came = cid.texts(400);
    relaying.join().expect("no panic");
    for number in 0..200 {
        let at = |wanted: String| came.iter().position(|text| *text == wanted).expect("it came");
        assert!(at(number.to_string()) < at(format!("to me: re {number}")), "{number}");
    }
}

#[test]
fn it_is_no_part_of_a_state() {
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
    let directory = tempfile::tempdir().expect("a directory");
    let cells = ["ann", "bob"].map(|name| patient(directory.path(), name).blocking_start().expect("starts"));
    let counts = [(); 2].map(|()| Replica::new(Count::default()));
    // Both kinds of inbox carry it.
    let mut merged = cells[0].merged();
    let ann = cells[0].group("g").state(&counts[0]).blocking_join_into(&merged).expect("joins");
    let (bob, mut inbox) = cells[1].group("g").state(&counts[1]).blocking_join().expect("joins");
    await_members(&mut inbox, 2);
    bob.send_to(cells[0].me().id, "to ann").blocking().expect("it is sent").blocking_delivered().expect("it came");
    ann.send("to all").blocking().expect("it is sent").blocking_delivered().expect("it came");
    bob.send("again").blocking().expect("it is sent").blocking_delivered().expect("it came");
    assert_eq!(counts[1].read().0, 2);
    loop {
        let item = merged.blocking_next_timeout(PATIENCE).expect("in time").expect("it goes on");
        if let (group, Next::ToOne(message)) = item {
            break assert_eq!((&*group, &message.payload[..]), ("g", &b"to ann"[..]));
        }
    }
}

/// Whoever is not in the view gets nothing, and the sender learns which view that is.
#[test]
fn who_leaves_the_group_gets_no_more_and_each_message_has_an_outcome() {
    let directory = tempfile::tempdir().expect("a directory");
    let [mut ann, mut bob] = members(directory.path(), ["ann", "bob"]);
    let to = bob.id();
    let leaving = bob.group.clone();
    let mut sent: Vec<SentTo> = Vec::new();
    let mut leave = None;
    let refused = loop {
        match ann.group.send_to(to, sent.len().to_string()).blocking() {
            Ok(receipt) => sent.push(receipt),
            Err(refused) => break refused,
        }
        if sent.len() == 20 {
            let leaving = leaving.clone();
            leave = Some(thread::spawn(move || leaving.blocking_leave()));
        }
    };
    leave.expect("it was asked for").join().expect("no panic").expect("leaves");
    let alone = ann.await_members(1);
    assert_eq!(refused, SendError::NotInView { view: alone.number() });
    let outcomes: Vec<Result<(), Undelivered>> = sent.iter().map(SentTo::blocking_delivered).collect();
    let delivered = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert!(delivered >= 20 && !outcomes.contains(&Err(Undelivered::InDoubt)), "{outcomes:?}");
    assert!(outcomes.is_sorted_by_key(Result::is_err), "in order: {outcomes:?}");
    assert_eq!(sent.iter().filter(|sent| sent.outcome() == Some(Ok(()))).count(), delivered);
    let mut came = Vec::new();
    loop {
        match next(&mut bob.inbox) {
            Next::ToOne(message) => came.push(text(&message.payload)),
            Next::Left(reason) => break assert_eq!(reason, LeaveReason::Left),
            _ => {}
        }
    }
    assert_eq!(came, (0..delivered).map(|number| number.to_string()).collect::<Vec<_>>());
    // What was not delivered is lost to a flush, and so is what nobody waited for.
    ann.group.send_to(to, "nobody waits").blocking_post().expect("it is queued");
    let not_sent = (outcomes.len() - delivered + 1) as u64;
    assert_eq!(ann.group.blocking_flush(), Err(FlushError::Lost { not_sent, in_doubt: 0 }));
    assert_eq!(ann.group.blocking_flush(), Ok(()), "it is told once");
    assert_eq!(bob.group.send_to(ann.id(), "late").blocking().map(drop), Err(SendError::NotMember));
}

#[test]
fn what_a_sender_that_leaves_has_sent_comes_before_the_view_without_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let [ann, mut bob] = members(directory.path(), ["ann", "bob"]);
    let (id, to) = (ann.id(), bob.id());
    for number in 0..500 {
        ann.group.send_to(to, number.to_string()).blocking_post().expect("it is queued");
        ann.group.send("to all").blocking_post().expect("it is queued");
    }
    ann.cell.blocking_leave(PATIENCE).expect("leaves");
    let (to_all, to_one): (Vec<_>, Vec<_>) = bob.texts(1_000).into_iter().partition(|text| text == "to all");
    assert_eq!(to_all.len(), 500);
    assert_eq!(to_one, (0..500).map(|number| format!("to me: {number}")).collect::<Vec<_>>());
    assert_eq!(bob.await_members(1).left().map(|(who, _)| who).collect::<Vec<_>>(), [id]);
}

/// Its sender waits at a bound, and what goes to others does not.
#[test]
fn a_member_that_reads_nothing_holds_back_what_goes_to_it_alone() {
    const BYTES: usize = 10_000;
    let directory = tempfile::tempdir().expect("a directory");
    let [mut ann, mut bob, mut cid] = members(directory.path(), ["ann", "bob", "cid"]);
    // Its inbox holds a few of them.
    let (_beside, mut full) = bob.cell.group("h").inbox_items(4).blocking_join().expect("joins");
    let [(at_ann, mut of_ann), (_at_cid, mut of_cid)] =
        [&ann, &cid].map(|member| member.cell.group("h").blocking_join().expect("joins"));
    await_members(&mut of_ann, 3);
    await_members(&mut of_cid, 3);
    let mut posted: u32 = 0;
    let payload = |number: u32| number.to_le_bytes().repeat(BYTES / 4);
    let began = Instant::now();
    loop {
        match at_ann.send_to(bob.id(), payload(posted)).try_post() {
            Ok(()) => posted += 1,
            // A window, what waits to be sent, and no more.
            Err(SendError::Full) if posted >= 100 && began.elapsed() > Duration::from_secs(2) => break,
            Err(SendError::Full) => thread::sleep(Duration::from_millis(1)),
            Err(other) => panic!("{other}"),
        }
        assert!(posted < 400, "what waits has no bound");
    }
    // Another receiver, and all, are reached meanwhile; and other groups have their own windows.
    let to_cid = at_ann.send_to(cid.id(), "to cid").blocking().expect("it is sent");
    to_cid.blocking_delivered().expect("it came");
    at_ann.send("to all").plain().blocking().expect("it is sent");
    loop {
        if let Next::Message(message) = next(&mut of_cid) {
            break assert_eq!(message.payload, "to all");
        }
    }
    ann.group.send_to(bob.id(), "beside it").blocking().expect("it is sent").blocking_delivered().expect("it came");
    assert_eq!(bob.texts(1), ["to me: beside it"]);
    ann.group.send("g").blocking().expect("it is sent");
    assert_eq!((ann.texts(1), cid.texts(1)), (vec!["g".to_owned()], vec!["g".to_owned()]));

    // It reads: all come, in order, and the flush ends.
    let (waits, group) = (
        thread::spawn({
            let at_ann = at_ann.clone();
            let to = bob.id();
            move || at_ann.send_to(to, "the last").blocking().expect("it is sent").blocking_delivered()
        }),
        at_ann.clone(),
    );
    let mut came = 0;
    loop {
        match next(&mut full) {
            Next::ToOne(message) if message.payload == "the last" => break,
            Next::ToOne(message) => {
                assert!(message.payload[..] == payload(came)[..], "number {came} in order");
                came += 1;
            }
            _ => {}
        }
    }
    assert_eq!((came, waits.join().expect("no panic")), (posted, Ok(())));
    group.blocking_flush().expect("all came");
}

/// Nobody awaits it in time.
#[test]
fn one_that_is_given_up_before_it_is_queued_is_not_sent() {
    let directory = tempfile::tempdir().expect("a directory");
    let [mut ann, bob] = members(directory.path(), ["ann", "bob"]);
    let sending = ann.group.send_to(ann.id(), "given up").into_future();
    assert!(!sending.is_queued());
    drop(sending);
    let long = Bytes::from(vec![0; 64 << 20]);
    let refused = ann.group.send_bytes_to(bob.id(), long.clone()).blocking().map(drop);
    assert_eq!(refused, Err(SendError::TooLong(long.len())), "it takes room for headers");
    let refused = ann.group.send_to(bob.id(), [&long[..], b"x"].concat()).try_post();
    assert_eq!(refused, Err(SendError::TooLong(long.len() + 1)));
    ann.group.send_to(ann.id(), "sent").blocking().expect("it is sent");
    assert_eq!(ann.texts(1), ["to me: sent"]);
}

/// A program that polls, and writes down what it is told.
#[derive(Default)]
struct Polls {
    view: Option<View>,
    came: Vec<(MemberId, u64, String)>,
    messages: usize,
    settled: Vec<(MemberId, Result<(), Undelivered>, u64)>,
    is_full: bool,
}

impl App for Polls {
    fn message(&mut self, _message: &MessageRef<'_>) {
        self.messages += 1;
    }

    fn view(&mut self, _group: InlineGroup, view: &View) {
        self.view = Some(view.clone());
    }

    fn ready(&mut self, _group: InlineGroup) -> bool {
        !self.is_full
    }

    fn to_one(&mut self, message: &MessageToOneRef<'_>) {
        assert_eq!(message.to_message().payload, message.payload);
        self.came.push((message.sender, message.view, text(message.payload)));
    }

    fn settled(&mut self, _group: InlineGroup, to: MemberId, outcome: Result<(), Undelivered>, messages: u64) {
        match self.settled.last_mut() {
            Some((last, told, count)) if (*last, *told) == (to, outcome) => *count += messages,
            _ => self.settled.push((to, outcome, messages)),
        }
    }
}

fn poll_until(all: &mut [(Inline, Polls)], mut done: impl FnMut(&mut [(Inline, Polls)]) -> bool) {
    let ends = Instant::now() + PATIENCE;
    while !done(all) {
        assert!(Instant::now() < ends, "it does not come to that");
        for (process, app) in all.iter_mut() {
            process.poll(app);
        }
        thread::yield_now();
    }
}

#[test]
fn processes_that_are_polled_send_and_take_messages_to_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut all = ["ann", "bob"].map(|name| {
        let process = patient(directory.path(), name).set("timing.turn_gap_max", "1s").inline().expect("starts");
        (process, Polls::default())
    });
    let groups = all.each_mut().map(|(process, app)| process.group("g").join(app).expect("joins"));
    let ids = all.each_ref().map(|(process, _)| process.me().id);
    let (ann, app) = &mut all[0];
    assert_eq!(ann.send_to(groups[0], ids[0], b"early", app), Err(SendError::NoView));
    poll_until(&mut all, |all| all.iter().all(|(_, app)| app.view.as_ref().is_some_and(|view| view.len() == 2)));
    let view = all[0].1.view.as_ref().expect("a view").number();

    // Bob takes nothing: Ann's window is used up in the end, and she is told so.
    all[1].1.is_full = true;
    let payload = "7".repeat(1_000);
    let mut sent = 0;
    let (ann, app) = &mut all[0];
    while ann.send_to(groups[0], ids[1], payload.as_bytes(), app) == Ok(view) {
        sent += 1;
    }
    assert!((100..1_000).contains(&sent), "{sent} of about 1 KiB");
    assert_eq!(ann.send_to(groups[0], ids[1], payload.as_bytes(), app), Err(SendError::Full));
    ann.send_to(groups[0], ids[0], b"own", app).expect("it has a window of its own");
    ann.multicast(groups[0], Order::Total, Guarantee::Plain, b"to all", app).expect("there is credit");
    let stranger = ids[1];
    poll_until(&mut all, |all| all[0].1.messages == 1 && all[0].1.settled.len() == 2);
    all[1].1.is_full = false;
    poll_until(&mut all, |all| all[1].1.came.len() == sent && all[1].1.messages == 1);
    assert_eq!(all[1].1.came[0], (ids[0], view, payload));
    assert_eq!(all[0].1.came, [(ids[0], view, "own".to_owned())]);
    let mut told = all[0].1.settled.clone();
    told.sort_by_key(|(to, ..)| *to == ids[1]);
    assert_eq!(told, [(ids[0], Ok(()), 1), (ids[1], Ok(()), sent as u64)]);

    // Bob leaves the group, and is no receiver any more.
    let (bob, app) = &mut all[1];
    bob.leave_group(groups[1], app).expect("asks");
    poll_until(&mut all, |all| all[0].1.view.as_ref().is_some_and(|view| view.len() == 1));
    let view = all[0].1.view.as_ref().expect("a view").number();
    let (ann, app) = &mut all[0];
    assert_eq!(ann.send_to(groups[0], stranger, b"late", app), Err(SendError::NotInView { view }));
    let long = vec![0; 64 << 20];
    assert_eq!(ann.send_to(groups[0], ids[0], &long, app), Err(SendError::TooLong(long.len())));
    poll_until(&mut all, |all| {
        let (bob, app) = &mut all[1];
        bob.send_to(groups[1], ids[0], b"late", app) == Err(SendError::NotMember)
    });
    for (process, app) in &mut all {
        process.leave(app);
    }
    poll_until(&mut all, |all| all.iter().all(|(process, _)| process.is_over()));
    let (ann, app) = &mut all[0];
    assert_eq!(ann.send_to(groups[0], ids[0], b"late", app), Err(SendError::Over));
}

/// Both kinds of process, in both directions; and what is open when one ends is in doubt.
#[test]
fn a_process_with_a_thread_and_one_that_is_polled_send_to_each_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut ann = Member::start(patient(directory.path(), "ann"));
    let bob = patient(directory.path(), "bob").set("timing.turn_gap_max", "1s").inline().expect("starts");
    let (bob_id, ann_id) = (bob.me().id, ann.id());
    let mut all = [(bob, Polls::default())];
    let (bob, app) = &mut all[0];
    let at_bob = bob.group("g").join(app).expect("joins");
    poll_until(&mut all, |all| all[0].1.view.as_ref().is_some_and(|view| view.len() == 2));
    ann.await_members(2);
    let (bob, app) = &mut all[0];
    bob.send_to(at_bob, ann_id, b"from bob", app).expect("there is room");
    let group: Group = ann.group.clone();
    let sends = thread::spawn(move || group.send_to(bob_id, "from ann").blocking().expect("it is sent"));
    poll_until(&mut all, |all| !all[0].1.came.is_empty() && !all[0].1.settled.is_empty());
    assert_eq!(all[0].1.settled, [(ann_id, Ok(()), 1)]);
    assert_eq!(all[0].1.came[0].2, "from ann");
    assert_eq!(ann.texts(1), ["to me: from bob"]);
    let sent = sends.join().expect("no panic");
    poll_until(&mut all, |_| sent.outcome() == Some(Ok(())));

    // It dies before it is polled again.
    let open = ann.group.send_to(bob_id, "to nobody").blocking().expect("it is in the view");
    drop(all);
    assert_eq!(open.blocking_delivered(), Err(Undelivered::InDoubt));
    assert_eq!(ann.group.blocking_flush(), Err(FlushError::Lost { not_sent: 0, in_doubt: 1 }));
    loop {
        if let Next::Lost { not_sent, in_doubt } = next(&mut ann.inbox) {
            break assert_eq!((not_sent, in_doubt), (0, 1));
        }
    }
}
