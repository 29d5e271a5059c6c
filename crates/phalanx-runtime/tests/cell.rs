//! Several members in one process over real sockets.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, await_event, await_members, directory, member, messages, next, options, payloads};
use phalanx_runtime::config::SecurityMode;
use phalanx_runtime::core::{
    CommandError, Delivery, Event, GroupId, GroupTerms, GroupView, Incarnation, LeaveReason, MemberInfo, Membership,
    Order, Sequence, SlowMembers, Snapshot, Stability, Uniformity, ViewNumber,
};
use phalanx_runtime::counters::CountersFile;
use phalanx_runtime::driver::Faults;
use phalanx_runtime::{CallError, Cell, Frozen, Handler, Inline, Item, JoinOptions, Options, StartError, State};
use phalanx_trace::{Event as Record, Trace};

#[test]
fn all_deliver_the_same_in_the_same_order() {
    let dir = directory();
    let members: Vec<_> = ["a", "b", "c"].map(|name| member(options(dir.path(), name))).into();
    for (cell, _) in &members {
        await_members(cell, 3);
    }
    let seen: Vec<Vec<Vec<u8>>> = thread::scope(|scope| {
        let threads: Vec<_> = members
            .iter()
            .map(|(cell, group)| {
                scope.spawn(move || {
                    let name = cell.me().name;
                    for i in 0..500 {
                        group
                            .cast(
                                Order::Total,
                                Uniformity::from_flag(i % 50 == 0).into(),
                                format!("{name}{i}").as_bytes(),
                            )
                            .expect("accepted");
                    }
                    payloads(&messages(cell, 1_500))
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().expect("no panic")).collect()
    });
    assert!(seen.iter().all(|order| *order == seen[0]), "one order for all");
    let mut all = seen[0].clone();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 1_500, "everything once");
    for name in ["a", "b", "c"] {
        let of: Vec<_> = seen[0].iter().filter(|p| p.starts_with(name.as_bytes())).collect();
        let sent: Vec<_> = (0..500).map(|i| format!("{name}{i}").into_bytes()).collect();
        assert_eq!(of, sent.iter().collect::<Vec<_>>(), "each sender's order is kept");
    }
}

#[test]
fn a_slow_application_holds_senders_back_and_loses_nothing() {
    let dir = directory();
    let mut slow = options(dir.path(), "slow");
    (slow.queue_items, slow.config.limits.group_window_bytes, slow.config.limits.outbox_bytes) =
        (4, 256 << 10, 64 << 10);
    let mut fast = options(dir.path(), "fast");
    (fast.config.limits.group_window_bytes, fast.config.limits.outbox_bytes) = (256 << 10, 64 << 10);
    let ((slow, _group), (fast, group)) = (member(slow), member(fast));
    await_members(&slow, 2);
    await_members(&fast, 2);
    // No items are taken at `slow`: sooner or later no more messages are accepted, and not only until the next poll.
    let mut accepted = 0_u32;
    let mut since: Option<Instant> = None;
    let payload = |i: u32| [&i.to_le_bytes()[..], &[7; 2_000]].concat();
    while since.is_none_or(|since| since.elapsed() < Duration::from_secs(1)) {
        match group.try_cast(Order::Fifo, Stability::Plain, &payload(accepted)) {
            Ok(_) => (accepted, since) = (accepted + 1, None),
            Err(CallError::Full) => {
                since.get_or_insert_with(Instant::now);
                thread::sleep(Duration::from_millis(1));
            }
            Err(other) => panic!("{other}"),
        }
        assert!(accepted < 1_000_000, "a bound was set");
        while fast.try_recv().expect("here").is_some() {}
    }
    // Once items are taken, all messages arrive.
    for i in 0..accepted {
        let message = messages(&slow, 1).remove(0);
        assert_eq!(message.payload[..4], i.to_le_bytes(), "in order, without a gap");
    }
}

#[test]
fn what_is_cast_together_arrives_one_by_one_in_its_order() {
    let dir = directory();
    let narrow = |name| {
        let mut narrow = options(dir.path(), name);
        (narrow.config.limits.group_window_bytes, narrow.config.limits.outbox_bytes) = (64 << 10, 4 << 10);
        narrow
    };
    let ((a, group), (b, _b)) = (member(narrow("a")), member(narrow("b")));
    for cell in [&a, &b] {
        await_members(cell, 2);
    }
    // Far more than is sent at once, with empty messages among them.
    let payloads: Vec<Vec<u8>> = (0..3_000_u32).map(|i| i.to_le_bytes().repeat(i as usize % 40)).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            for batch in payloads.chunks(1_500) {
                group.cast_all(Order::Total, Stability::Plain, batch).expect("accepted");
            }
        });
        for cell in [&a, &b] {
            let (mut items, mut seen) = (Vec::new(), Vec::new());
            while seen.len() < payloads.len() {
                let taken = cell.recv_many(&mut items, 100).expect("alive");
                assert_eq!(taken, items.len(), "what was taken is there");
                assert!((1..=100).contains(&taken), "{taken}");
                seen.extend(items.drain(..).filter_map(|item| match item {
                    Item::Message(message) => Some(message.payload.to_vec()),
                    _ => None,
                }));
            }
            assert!(seen == payloads, "all, one by one, in order");
        }
    });
    assert_eq!(group.cast_all(Order::Fifo, Stability::Plain, [[0_u8; 1]; 0]), Ok(()), "nothing is not an error");
    let long = vec![0; phalanx_runtime::core::MESSAGE_BYTES_MAX / 2 + 1];
    let refused = group.cast_all(Order::Fifo, Stability::Plain, [&long, &long]);
    assert!(matches!(refused, Err(CallError::Refused(CommandError::TooLong(_)))), "{refused:?}");
    assert_eq!(b.recv_many(&mut Vec::new(), 0), Ok(0));
}

#[test]
fn a_member_whose_application_takes_nothing_is_expelled_and_the_others_go_on() {
    let dir = directory();
    let options = |name: &str, queue_items: usize| {
        let mut options = options(dir.path(), name);
        options.queue_items = queue_items;
        let (timing, limits) = (&mut options.config.timing, &mut options.config.limits);
        (limits.group_window_bytes, limits.outbox_bytes) = (256 << 10, 64 << 10);
        (limits.slow_members, timing.expel_after) = (SlowMembers::Expel, Duration::from_secs(5));
        options
    };
    let (fast, group) = member(options("fast", 10_000));
    await_members(&fast, 1);
    let (peer, _peers) = member(options("peer", 10_000));
    let (slow, _slows) = member(options("slow", 4));
    [&fast, &peer, &slow].iter().for_each(|cell| drop(await_members(cell, 3)));
    let gone = slow.me().incarnation;
    let begun = Instant::now();
    let left = 'expelled: loop {
        while group.try_cast(Order::Causal, Stability::Plain, &[7; 2_000]).is_ok() {}
        thread::sleep(Duration::from_millis(1));
        while peer.try_recv().expect("here").is_some() {}
        while let Some(item) = fast.try_recv().expect("here") {
            match item {
                Item::Event(Event::CellView(view)) if !view.left.is_empty() => break 'expelled view.left.clone(),
                _ => {}
            }
        }
        assert!(begun.elapsed() < PATIENCE, "it is waited for");
    };
    assert_eq!(left, [(gone, LeaveReason::TooSlow)]);
    // Its queue is full and unread; a thread that asks its belief learns it at once.
    let belief = slow.belief();
    let mut seen = belief.look();
    while seen.membership != Membership::Excluded {
        assert!(!seen.is_primary(Duration::MAX) || seen.incarnation == gone, "{seen:?}");
        seen = belief.wait(&seen, Some(PATIENCE)).expect("it is told");
    }
    assert_eq!(seen.incarnation, gone);
    // Messages from here on are for the two remaining members.
    group.cast(Order::Causal, Stability::Uniform, b"on").expect("accepted");
    while messages(&peer, 1)[0].payload[..] != b"on"[..] {}
    // It learns of the exclusion behind all unread items, and comes back.
    await_event(&slow, |event| matches!(event, Event::Excluded { .. }).then_some(()));
    await_event(&slow, |event| match event {
        Event::CellView(view) => (view.members.len() == 3).then_some(()),
        _ => None,
    });
    let back = belief.look();
    assert!(back.incarnation != gone && back.changes > seen.changes, "{back:?}");
}

/// The younger of two members, whose elder dies, hears no quorum. Its application reads nothing. Threads and tasks that
/// watch its belief learn of that, and then of the end. The queue keeps all items in order.
#[test]
fn a_lost_quorum_is_reported_beside_an_unread_queue() {
    let dir = directory();
    let (elder, group) = member(options(dir.path(), "elder"));
    await_members(&elder, 1);
    let mut younger = options(dir.path(), "younger");
    younger.queue_items = 4;
    let (younger, _youngers) = member(younger);
    let belief = younger.belief();
    let begun = await_members(&elder, 2).view;
    let mut seen = belief.look();
    while seen.membership != Membership::Primary {
        seen = belief.wait(&seen, Some(PATIENCE)).expect("it is told");
    }
    assert_eq!((seen.view, seen.incarnation), (ViewNumber(2), younger.me().incarnation));
    await_members(&younger, 2);
    for i in 0..20_u8 {
        group.cast(Order::Fifo, Stability::Plain, &[i]).expect("accepted");
    }
    messages(&elder, 20);
    let (told, end) = thread::scope(|scope| {
        let waits = |seen| {
            let belief = younger.belief();
            scope.spawn(move || pollster::block_on(belief.changed(&seen)))
        };
        let task = waits(seen);
        drop((group, elder.leave(Duration::ZERO)));
        let told = belief.wait(&seen, Some(PATIENCE)).expect("it is told");
        assert_eq!(task.join().expect("no panic").map(|now| now.changes), Ok(told.changes));
        // It still polls, so the belief is renewed although the queue is full.
        let old = belief.look();
        thread::sleep(old.age.max(Duration::from_millis(20)));
        let begun = Instant::now();
        while belief.look().age >= old.age + begun.elapsed() {
            assert!(begun.elapsed() < PATIENCE, "it turns");
        }
        let task = waits(told);
        // The same messages, followed by the event, as before.
        let come = payloads(&messages(&younger, 20));
        assert!(come.iter().enumerate().all(|(i, payload)| payload[..] == [i as u8]), "{come:?}");
        await_event(&younger, |event| matches!(event, Event::NonPrimary { .. }).then_some(()));
        drop(younger.begin_leave());
        while younger.recv().is_ok() {}
        (told, task.join().expect("no panic"))
    });
    assert_eq!((told.membership, told.view), (Membership::NonPrimary, ViewNumber(2)), "view {begun} of the group");
    assert_eq!(end.map(|end| end.membership), Ok(Membership::Over));
    assert_eq!(belief.wait(&belief.look(), None), Err(CallError::Over));
}

/// The belief of a process that its application does not poll ages; its membership stays.
#[test]
fn the_age_of_a_belief_grows_while_the_process_is_not_polled() {
    struct App;
    impl Handler for App {
        fn deliver(&mut self, _: &Delivery<'_>) {}
        fn event(&mut self, _: Event) {}
    }
    let dir = directory();
    let mut process = Inline::start(&options(dir.path(), "a")).expect("starts");
    let belief = process.belief();
    assert_eq!(belief.look().membership, Membership::Searching);
    let begun = Instant::now();
    while belief.look().membership != Membership::Primary {
        process.poll(&mut App);
        assert!(begun.elapsed() < PATIENCE, "it founds its cell");
    }
    let rests = Duration::from_millis(100);
    thread::sleep(rests);
    let old = thread::scope(|scope| scope.spawn(|| belief.look()).join().expect("no panic"));
    assert!(old.age >= rests && old.membership == Membership::Primary, "{old:?}");
    assert!(!old.is_primary(rests - Duration::from_millis(1)) && old.is_primary(old.age));
    let turning = Instant::now();
    process.wait(Some(Duration::ZERO)).expect("waits");
    process.poll(&mut App);
    assert!(belief.look().age <= turning.elapsed(), "the turn renewed it");
    drop(process);
    assert_eq!(belief.look().membership, Membership::Over);
}

/// Of two members the elder dies; the younger accepts multicasts until no more fit.
fn without_a_quorum(dir: &Path, mut options: Options) -> Options {
    let limits = &mut options.config.limits;
    (limits.group_window_bytes, limits.outbox_bytes) = (64 << 10, 16 << 10);
    options.config.trace = Some(dir.join("traces"));
    options
}

/// The records of the traces of incarnation `of`.
fn records(dir: &Path, of: Incarnation) -> Vec<Record> {
    let files = std::fs::read_dir(dir.join("traces")).expect("traces");
    let traces = files.map(|file| Trace::read(&file.expect("readable").path()).expect("a trace"));
    let mine = traces.filter(|trace| trace.header.incarnation == of.0);
    mine.flat_map(|trace| trace.records.into_iter().map(|record| record.event)).collect()
}

fn count(records: &[Record], is: impl Fn(&Record) -> u64) -> u64 {
    records.iter().map(is).sum()
}

#[test]
fn accepted_and_unsent_multicasts_are_reported_before_the_end() {
    let dir = directory();
    let (elder, elders) = member(without_a_quorum(dir.path(), options(dir.path(), "elder")));
    await_members(&elder, 1);
    let (younger, group) = member(without_a_quorum(dir.path(), options(dir.path(), "younger")));
    await_members(&elder, 2);
    await_members(&younger, 2);
    let me = younger.me().incarnation;
    drop((elders, elder.leave(Duration::ZERO)));
    await_event(&younger, |event| matches!(event, Event::NonPrimary { .. }).then_some(()));
    let (mut accepted, mut since) = (0_u64, Instant::now());
    while since.elapsed() < Duration::from_secs(1) {
        match group.try_cast(Order::Fifo, Stability::Plain, &[7; 2_000]) {
            Ok(()) => (accepted, since) = (accepted + 1, Instant::now()),
            Err(refused) => assert_eq!(refused, CallError::Full),
        }
    }
    younger.begin_leave().expect("here");
    let mut next = None;
    let ended = loop {
        match younger.recv_timeout(PATIENCE) {
            Ok(Item::Unsent { group, first, messages }) => {
                assert_eq!(&*group, "g");
                assert!(messages > 0 && next.is_none_or(|next| next == first), "{first} after {next:?}");
                next = Some(first + messages);
            }
            Ok(Item::Event(Event::Left)) => break younger.recv(),
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert!(matches!(ended, Err(CallError::Over)), "{ended:?}");
    assert_eq!(next, Some(accepted + 1), "all to the last one");
    // The core had accepted some; those that had not reached it are reported too.
    let records = records(dir.path(), me);
    let sent = count(&records, |record| u64::from(matches!(record, Record::Send { .. })));
    let taken = count(&records, |record| u64::from(matches!(record, Record::Accept { .. })));
    let unsent = count(&records, |record| if let Record::Unsent { messages, .. } = record { *messages } else { 0 });
    assert_eq!(taken, sent + unsent);
    assert!(sent > 0 && unsent > 0 && taken < accepted, "{sent} + {unsent} = {taken} of {accepted}");
}

#[test]
fn an_incarnation_that_is_given_up_reports_its_unsent_multicasts() {
    #[derive(Default)]
    struct App {
        group: Option<GroupId>,
        members: usize,
        primary: bool,
        told: Vec<String>,
        sent: u64,
    }
    impl Handler for App {
        fn begin(&mut self, _: &MemberInfo) {
            self.told.push("begin".to_owned());
        }
        fn sent(&mut self, _: GroupId, _: ViewNumber, _: Sequence, _: Order, _: Uniformity, _: &[u8]) {
            self.sent += 1;
        }
        fn deliver(&mut self, _: &Delivery<'_>) {}
        fn event(&mut self, event: Event) {
            match event {
                Event::GroupView(view) => (self.group, self.members) = (Some(view.group), view.members.len()),
                Event::NonPrimary { .. } => self.primary = false,
                Event::CellView(_) => self.primary = true,
                Event::Unsent { messages, .. } => self.told.push(messages.to_string()),
                _ => {}
            }
        }
    }
    let dir = directory();
    let (elder, elders) = member(without_a_quorum(dir.path(), options(dir.path(), "elder")));
    await_members(&elder, 1);
    let younger = without_a_quorum(dir.path(), options(dir.path(), "younger"));
    let (mut process, mut app) = (Inline::start(&younger).expect("starts"), App::default());
    process.join_group("g", false, GroupTerms::default(), &mut app).expect("a good name");
    let poll_until = |process: &mut Inline, app: &mut App, is: &dyn Fn(&App) -> bool| {
        let begun = Instant::now();
        while !is(app) {
            if !process.poll(app).more {
                process.wait(Some(Duration::from_millis(5))).expect("waits");
            }
            assert!(begun.elapsed() < PATIENCE, "it comes");
        }
    };
    poll_until(&mut process, &mut app, &|app| app.members == 2);
    drop((elders, elder.leave(Duration::ZERO)));
    poll_until(&mut process, &mut app, &|app| !app.primary);
    let group = app.group.expect("in the group");
    let mut accepted = 0_u64;
    let refused = loop {
        match process.multicast(group, Order::Fifo, Stability::Plain, &[7; 2_000], &mut app) {
            Ok(taken) => {
                accepted += 1;
                app.sent += u64::from(taken.sent.is_some());
            }
            Err(refused) => break refused,
        }
        process.poll(&mut app);
    };
    assert_eq!(refused, CommandError::NoCredit);
    process.begin_anew();
    process.poll(&mut app);
    let unsent = accepted - app.sent;
    assert!(unsent > 0);
    assert_eq!(app.told, ["begin", &unsent.to_string(), "begin"], "once, and as the end of the life that accepted it");
}

#[test]
fn nothing_is_lost_over_a_bad_network() {
    let dir = directory();
    let faults = Faults { loss_ppm: 20_000, duplicate_ppm: 20_000, reorder_ppm: 20_000 };
    let members: Vec<_> = (0..3_u64)
        .map(|i| {
            let mut options = options(dir.path(), &format!("n{i}"));
            options.faults = Some((faults, i));
            member(options)
        })
        .collect();
    for (cell, _) in &members {
        await_members(cell, 3);
    }
    for (_, group) in &members {
        for i in 0..300_u32 {
            group
                .cast(Order::Total, Stability::Plain, &[i.to_le_bytes().as_slice(), &[1; 500]].concat())
                .expect("accepted");
        }
    }
    let seen: Vec<_> = members.iter().map(|(cell, _)| payloads(&messages(cell, 900))).collect();
    assert!(seen.iter().all(|order| *order == seen[0]));
}

/// Keeps all payloads, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn all(&self) -> Vec<u8> {
        self.0.lock().expect("no panic").clone()
    }
}

impl State for Log {
    fn apply(&mut self, message: &Delivery<'_>) {
        self.0.lock().expect("no panic").extend_from_slice(message.payload);
    }

    fn snapshot(&mut self) -> Box<dyn Snapshot> {
        Box::new(Frozen::new(self.all()))
    }

    fn clear(&mut self) {
        self.0.lock().expect("no panic").clear();
    }

    fn restore(&mut self, chunk: &[u8]) {
        self.0.lock().expect("no panic").extend_from_slice(chunk);
    }
}

#[test]
fn a_joiner_takes_the_state_of_each_group() {
    let dir = directory();
    let join = |cell: &Cell, name: &str| {
        let log = Log::default();
        let state: Box<dyn State> = Box::new(log.clone());
        let group = cell
            .join_group(name, JoinOptions { with_state: true, state: Some(state), ..JoinOptions::default() })
            .expect("a good name");
        (group, log)
    };
    let first = Cell::start(options(dir.path(), "first")).expect("starts");
    let ((red, red_log), (blue, blue_log)) = (join(&first, "red"), join(&first, "blue"));
    for i in 0..200_u8 {
        red.cast(Order::Total, Stability::Plain, &[i; 700]).expect("accepted");
        blue.cast(Order::Total, Stability::Plain, &[255 - i]).expect("accepted");
    }
    messages(&first, 400);
    let second = Cell::start(options(dir.path(), "second")).expect("starts");
    let ((red_too, red_copy), (blue_too, blue_copy)) = (join(&second, "red"), join(&second, "blue"));
    // Casts continue while the state is transferred.
    for i in 200..=255_u8 {
        red.cast(Order::Total, Stability::Plain, &[i; 700]).expect("accepted");
        red_too.cast(Order::Total, Stability::Plain, &[1]).expect("accepted");
        blue_too.cast(Order::Total, Stability::Plain, &[2]).expect("accepted");
    }
    let all = |log: &Log, len: usize| {
        for _ in 0..PATIENCE.as_millis() {
            if log.all().len() == len {
                return;
            }
            thread::sleep(Duration::from_millis(1));
            for cell in [&first, &second] {
                while cell.try_recv().expect("here").is_some() {}
            }
        }
        panic!("{} of {len} bytes", log.all().len());
    };
    for (log, copy, len) in [(&red_log, &red_copy, 256 * 700 + 56), (&blue_log, &blue_copy, 200 + 56)] {
        all(log, len);
        all(copy, len);
        assert!(log.all() == copy.all(), "the same in the same order");
    }
}

#[test]
fn a_group_of_too_few_casts_what_is_uniform_by_default_when_another_holds_its_state() {
    let dir = directory();
    let cell = Cell::start(options(dir.path(), "first")).expect("starts");
    let terms = GroupTerms { members_min: 2, ..GroupTerms::default() };
    let group = cell.join_group("g", JoinOptions { terms, ..JoinOptions::default() }).expect("a good name");
    assert!(!await_members(&cell, 1).adequate);
    group.cast(Order::Total, Stability::Plain, b"plain").expect("accepted");
    group.cast(Order::Total, Stability::GroupDefault, b"uniform").expect("accepted");
    assert_eq!(messages(&cell, 1)[0].payload[..], b"plain"[..]);
    let (other, _group) = member(options(dir.path(), "second"));
    await_event(&cell, |event| matches!(event, Event::GroupAdequacy { adequate: true, .. }).then_some(()));
    assert!(group.view().is_some_and(|view| view.adequate && view.members.len() == 2 && view.terms == terms));
    let message = &messages(&cell, 1)[0];
    assert!(message.payload[..] == b"uniform"[..] && message.uniformity == Uniformity::Uniform);
    assert_eq!(messages(&other, 1)[0].payload[..], b"uniform"[..]);
}

#[test]
fn a_graceful_leave_is_seen_as_one() {
    let dir = directory();
    let ((stays, _group), (goes, last)) = (member(options(dir.path(), "stays")), member(options(dir.path(), "goes")));
    await_members(&stays, 2);
    await_members(&goes, 2);
    let gone = goes.me().incarnation;
    last.cast(Order::Fifo, Stability::Plain, b"last words").expect("accepted");
    goes.leave(PATIENCE).expect("leaves");
    let (mut words, mut left) = (Vec::new(), Vec::new());
    let without = loop {
        match next(&stays) {
            Item::Message(message) => words.push(message.payload.to_vec()),
            Item::Event(Event::CellView(view)) => left.clone_from(&view.left),
            Item::Event(Event::GroupView(view)) if view.members.len() == 1 => break view,
            _ => {}
        }
    };
    assert_eq!(words, [b"last words"], "what was cast before arrives before the view without the sender");
    assert_eq!((left, &without.left), (vec![(gone, LeaveReason::Left)], &vec![(gone, LeaveReason::Left)]));
    assert_eq!(last.cast(Order::Fifo, Stability::Plain, b"more"), Err(CallError::Over));
}

#[test]
fn leaving_by_steps_ends_the_items() {
    let dir = directory();
    let (cell, group) = member(options(dir.path(), "a"));
    await_members(&cell, 1);
    assert!(matches!(
        cell.join_group("g", JoinOptions::default()),
        Err(CallError::Refused(CommandError::AlreadyMember))
    ));
    assert!(matches!(cell.join_group("", JoinOptions::default()), Err(CallError::Refused(CommandError::BadName))));
    group.leave().expect("accepted");
    await_event(&cell, |event| matches!(event, Event::GroupLeft { .. }).then_some(()));
    assert_eq!(group.try_cast(Order::Fifo, Stability::Plain, b"x"), Err(CallError::Refused(CommandError::NotMember)));
    // The name is free again, and the next membership is a new one.
    let again = cell.join_group("g", JoinOptions::default()).expect("free");
    await_members(&cell, 1);
    again.cast(Order::Fifo, Stability::Plain, b"y").expect("accepted");
    assert_eq!(messages(&cell, 1)[0].payload[..], b"y"[..]);
    cell.begin_leave().expect("here");
    let mut left = false;
    loop {
        match cell.recv_timeout(PATIENCE) {
            Ok(Item::Event(Event::Left)) => left = true,
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error, CallError::Over);
                break;
            }
        }
    }
    assert!(left, "the last event says so");
    assert!(matches!(cell.join_group("h", JoinOptions::default()), Err(CallError::Over)));
}

#[test]
fn a_member_that_stops_without_a_leave_is_proved_dead() {
    let dir = directory();
    let ((stays, _group), (stops, _other)) =
        (member(options(dir.path(), "stays")), member(options(dir.path(), "stops")));
    await_members(&stays, 2);
    await_members(&stops, 2);
    let gone = stops.me().incarnation;
    // Zero patience: the thread ends at once, and releases the liveness lock.
    assert_eq!(stops.leave(Duration::ZERO), Err(CallError::Timeout));
    let left = await_event(&stays, |event| match event {
        Event::CellView(view) if view.members.len() == 1 => Some(view.left.clone()),
        _ => None,
    });
    assert_eq!(left, [(gone, LeaveReason::Died)], "by its lock, long before its silence would show");
}

#[test]
fn direct_messages_arrive_in_order() {
    let dir = directory();
    let ((a, _ga), (b, _gb)) = (member(options(dir.path(), "a")), member(options(dir.path(), "b")));
    await_members(&a, 2);
    await_members(&b, 2);
    for i in 0..300_u32 {
        a.send(b.me().incarnation, &i.to_le_bytes()).expect("accepted");
    }
    let mut got = Vec::new();
    while got.len() < 300 {
        if let Item::Direct { from, payload } = next(&b) {
            assert_eq!(from, a.me().incarnation);
            got.push(u32::from_le_bytes(payload[..].try_into().expect("four bytes")));
        }
    }
    assert_eq!(got, (0..300).collect::<Vec<_>>());
}

#[test]
fn many_who_start_at_once_come_into_one_cell() {
    let dir = directory();
    let cells: Vec<Cell> = thread::scope(|scope| {
        let all: Vec<_> = (0..12).map(|i| options(dir.path(), &format!("n{i}"))).collect();
        let threads: Vec<_> = all.into_iter().map(|o| scope.spawn(move || Cell::start(o).expect("starts"))).collect();
        threads.into_iter().map(|t| t.join().expect("no panic")).collect()
    });
    let instance = |cell: &Cell| {
        await_event(cell, |event| match event {
            Event::CellView(view) if view.members.len() == 12 => Some((view.instance, view.view)),
            _ => None,
        })
    };
    let first = instance(&cells[0]);
    assert!(cells[1..].iter().all(|cell| instance(cell) == first), "one instance, one view");
    // Each leave takes a while, so all leave at once.
    thread::scope(|scope| cells.into_iter().for_each(|cell| drop(scope.spawn(move || drop(cell)))));
}

#[test]
fn how_a_process_stands_can_be_read_from_its_counters() {
    let dir = directory();
    let (cell, group) = member(options(dir.path(), "a"));
    await_members(&cell, 1);
    for _ in 0..10 {
        group.cast(Order::Total, Stability::Uniform, b"x").expect("accepted");
    }
    messages(&cell, 10);
    let local = crate::common::local(dir.path());
    let living = local.living().expect("readable");
    assert_eq!(living.len(), 1);
    assert_eq!(living[0].advert.as_ref().expect("ours").name, "a");
    assert_eq!(living[0].incarnation, cell.me().incarnation);
    let file = CountersFile::open(&living[0].counters).expect("there");
    let reading = (0..PATIENCE.as_millis())
        .find_map(|_| {
            thread::sleep(Duration::from_millis(1));
            file.read().ok().filter(|r| r.status.groups.first().is_some_and(|g| g.delivered >= 10))
        })
        .expect("written ten times a second");
    assert_eq!((reading.status.state.as_str(), reading.status.view), ("primary", ViewNumber(1)));
    assert_eq!(reading.status.members, ["a"]);
    assert_eq!(reading.status.groups[0].name, "g");
    assert_eq!(reading.incarnation, cell.me().incarnation);
    assert!(reading.counters.iter().any(|(name, _)| name == "udp_sent_packets"), "{:?}", reading.counters);
    drop(cell);
    assert_eq!(local.living().expect("readable"), []);
    assert!(!living[0].counters.exists(), "a process that ends cleans up");
}

/// The records from the start of a view change to its end, by which the checker evaluates that every silence ends (V2).
#[test]
fn the_silences_of_a_real_process_are_traced() {
    let dir = directory();
    let mut traced = options(dir.path(), "a");
    traced.config.trace = Some(dir.path().join("traces"));
    let (cell, _group) = member(traced);
    await_members(&cell, 1);
    let (other, _) = member(options(dir.path(), "b"));
    await_members(&cell, 2);
    // A process that leaves before it knows that it was taken in just stops. The view without it needs no silence of
    // the others.
    await_members(&other, 2);
    other.leave(PATIENCE).expect("leaves");
    await_members(&cell, 1);
    cell.leave(PATIENCE).expect("leaves");
    let files = std::fs::read_dir(dir.path().join("traces")).expect("made");
    let file = files.map(|entry| entry.expect("there").path()).next().expect("a trace");
    let reader = phalanx_trace::TraceReader::open(&file).expect("a trace");
    let records: Vec<_> = reader.map(|record| record.expect("whole").event).collect();
    let count = |wanted: &phalanx_trace::Event| records.iter().filter(|event| *event == wanted).count();
    let (begun, ended) = (count(&phalanx_trace::Event::Block), count(&phalanx_trace::Event::Unblock));
    assert!(begun > 0, "a join and a leave change the view: {records:?}");
    assert!(begun - ended <= 1, "{begun} silences, {ended} ends");
}

#[test]
fn a_trace_of_each_incarnation_is_written() {
    let dir = directory();
    let mut traced = options(dir.path(), "a/b");
    traced.config.trace = Some(dir.path().join("traces"));
    let (cell, group) = member(traced);
    await_members(&cell, 1);
    group.cast(Order::Total, Stability::Plain, b"x").expect("accepted");
    messages(&cell, 1);
    let incarnation = cell.me().incarnation;
    cell.leave(PATIENCE).expect("leaves");
    let files: Vec<_> =
        std::fs::read_dir(dir.path().join("traces")).expect("made").map(|e| e.expect("there").path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let reader = phalanx_trace::TraceReader::open(&files[0]).expect("a trace");
    assert_eq!((reader.header().incarnation, reader.header().node.as_str()), (incarnation.0, "a/b"));
    let records: Vec<_> = reader.map(|r| r.expect("whole").event).collect();
    assert_eq!(records.first(), Some(&phalanx_trace::Event::Start));
    assert_eq!(records.last(), Some(&phalanx_trace::Event::End));
    assert!(records.iter().any(|r| matches!(r, phalanx_trace::Event::Deliver { .. })));
}

#[test]
fn a_failed_start_says_what_to_do() {
    let dir = directory();
    let mut open = options(dir.path(), "a");
    open.config.bind = "0.0.0.0".parse().expect("an address");
    match Cell::start(open.clone()).map(drop) {
        Err(error @ StartError::NoKey { .. }) => assert!(error.to_string().contains("copy"), "{error}"),
        other => panic!("{other:?}"),
    }
    open.config.security = SecurityMode::None;
    match Cell::start(open.clone()).map(drop) {
        Err(error @ StartError::NoAddress { .. }) => assert!(error.to_string().contains("bind"), "{error}"),
        other => panic!("{other:?}"),
    }
    open.config.seeds = vec!["127.0.0.1:9".to_owned()];
    Cell::start(open).map(drop).expect("towards a seed the address is known");

    let mut seeds = options(dir.path(), "a");
    seeds.config.seeds = vec!["no port".to_owned()];
    assert!(matches!(Cell::start(seeds).map(drop), Err(StartError::Seed { .. })));

    let mut name = options(dir.path(), &"x".repeat(201));
    assert!(matches!(Cell::start(name.clone()).map(drop), Err(StartError::BadName { what: "process", .. })));
    name.config.cell = String::new();
    assert!(matches!(Cell::start(name).map(drop), Err(StartError::BadName { what: "cell", .. })));

    let mut traced = options(dir.path(), "a");
    traced.config.trace = Some("/proc/nowhere".into());
    assert!(matches!(Cell::start(traced).map(drop), Err(StartError::Trace { .. })));
    let local = crate::common::local(dir.path());
    assert_eq!(local.living().expect("readable"), [], "a failed start leaves nothing behind");
}

#[test]
fn fixed_founders_found_together_and_only_once() {
    let dir = directory();
    let founders = || -> Vec<Cell> {
        let names = ["x", "y"];
        names
            .iter()
            .map(|name| {
                let mut options = options(dir.path(), name);
                options.config.founders = names.map(str::to_owned).into();
                Cell::start(options).expect("starts")
            })
            .collect()
    };
    let cells = founders();
    for cell in &cells {
        let view: usize = await_event(cell, |event| match event {
            Event::CellView(view) => Some(view.members.len()),
            _ => None,
        });
        assert_eq!(view, 2, "view 1 lists them both");
    }
    drop(cells);
    // Both took part in a founding: until an operator states that the cell is dead, they only join.
    let cells = founders();
    let notice = (0..PATIENCE.as_secs())
        .find_map(|_| match next(&cells[0]) {
            Item::Notice(notice) => Some(notice),
            _ => None,
        })
        .expect("said at the start");
    assert!(notice.contains("phalanx reform") && notice.contains("founder-x"), "{notice}");
}

#[test]
fn views_are_the_same_at_all() {
    let dir = directory();
    let ((a, _ga), (b, _gb)) = (member(options(dir.path(), "a")), member(options(dir.path(), "b")));
    let (mut at_a, mut at_b): (GroupView, GroupView) = (await_members(&a, 2), await_members(&b, 2));
    (at_a.prev, at_b.prev) = (None, None);
    assert_eq!((at_a.view, &at_a.members, &at_a.joined), (at_b.view, &at_b.members, &at_b.joined));
    assert_eq!(a.view().expect("in a view").members, b.view().expect("in a view").members);
}
