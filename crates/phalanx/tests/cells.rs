//! How processes found a cell, stand in it and leave it.

use std::thread;
use std::time::Duration;

use phalanx::{CellEvent, LeaveReason, Next, Order, Place, SendError, Standing};
use phalanx_runtime::counters::CountersFile;

use crate::common::{Member, PATIENCE, await_event, await_notice, local, next, patient};

#[test]
fn many_who_start_at_once_come_into_one_cell() {
    let dir = tempfile::tempdir().expect("a directory");
    thread::scope(|scope| {
        let starts = |number: usize| {
            let builder = patient(dir.path(), &format!("n{number}"));
            scope.spawn(move || {
                let cell = builder.blocking_start().expect("starts");
                let all = await_event(&mut cell.events(), |event| match event {
                    CellEvent::View(view) if view.len() == 12 => Some((view.instance(), view.number())),
                    _ => None,
                });
                (cell, all)
            })
        };
        let threads: Vec<_> = (0..12).map(starts).collect();
        let started: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        assert!(started.iter().all(|(_, all)| *all == started[0].1), "one instance, one view");
        // Each leave takes a while, so all leave at once.
        for (cell, _) in started {
            scope.spawn(move || cell.blocking_leave(PATIENCE).expect("leaves"));
        }
    });
}

#[test]
fn fixed_founders_found_together_and_only_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let founders =
        || ["x", "y"].map(|name| patient(dir.path(), name).founders(["x", "y"]).blocking_start().expect("starts"));
    let cells = founders();
    for cell in &cells {
        let first = await_event(&mut cell.events(), |event| match event {
            CellEvent::View(view) => Some((view.number(), view.len())),
            _ => None,
        });
        assert_eq!(first, (1, 2), "view 1 lists them both");
    }
    // They die.
    for cell in cells {
        assert!(cell.blocking_leave(Duration::ZERO).is_err());
    }
    // Both took part in a founding: until an operator states that the cell is dead, they only join.
    let cells = founders();
    let notice = await_notice(&mut cells[0].events(), "phalanx reform");
    assert!(notice.contains("founder-x"), "{notice}");
}

#[test]
fn how_a_process_stands_can_be_read_from_its_counters() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut a = Member::start(patient(dir.path(), "a"));
    for _ in 0..10 {
        a.group.send("x").uniform().blocking_post().expect("goes out");
    }
    a.messages(10);
    let local = local(dir.path());
    let living = local.living().expect("readable");
    let me = a.cell.me().id.bits();
    assert_eq!((living.len(), living[0].incarnation.0), (1, me));
    assert_eq!(living[0].advert.as_ref().expect("ours").name, "a");
    let file = CountersFile::open(&living[0].counters).expect("there");
    let reading = (0..PATIENCE.as_millis())
        .find_map(|_| {
            thread::sleep(Duration::from_millis(1));
            file.read().ok().filter(|r| r.status.groups.first().is_some_and(|g| g.delivered >= 10))
        })
        .expect("written ten times a second");
    assert_eq!((reading.status.state.as_str(), reading.status.view.0), ("primary", 1));
    assert_eq!(reading.status.members, ["a"]);
    assert_eq!((&reading.status.groups[0].name[..], reading.incarnation.0), ("g", me));
    assert!(reading.counters.iter().any(|(name, _)| name == "udp_sent_packets"), "{:?}", reading.counters);
    a.cell.clone().blocking_leave(PATIENCE).expect("leaves");
    assert_eq!(local.living().expect("readable"), []);
    assert!(!living[0].counters.exists(), "a process that ends cleans up");
}

#[test]
fn what_was_sent_before_a_leave_arrives_before_the_view_without_the_sender() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut stays = Member::start(patient(dir.path(), "stays"));
    let goes = Member::start(patient(dir.path(), "goes"));
    stays.await_members(2);
    let gone = goes.cell.me().id;
    goes.group.send("last words").fifo().plain().blocking_post().expect("goes out");
    goes.cell.clone().blocking_leave(PATIENCE).expect("leaves");
    let mut words = Vec::new();
    let without = loop {
        match next(&mut stays.inbox) {
            Next::Message(message) => words.push((message.sender, message.order, message.payload)),
            Next::View(view) => break view,
            _ => {}
        }
    };
    assert_eq!(words, [(gone, Order::Fifo, "last words".into())]);
    assert_eq!(without.left().collect::<Vec<_>>(), [(gone, LeaveReason::Left)]);
    assert_eq!(goes.group.send("more").try_post(), Err(SendError::NotMember));
}

#[test]
fn a_member_that_stops_without_a_leave_is_proved_dead() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut stays, stops) = (Member::start(patient(dir.path(), "stays")), Member::start(patient(dir.path(), "stops")));
    stays.await_members(2);
    let gone = stops.cell.me().id;
    // Zero patience: the thread ends at once, and releases the liveness lock.
    assert!(stops.cell.clone().blocking_leave(Duration::ZERO).is_err());
    stays.await_cell(2);
    let left: Vec<_> = stays.await_cell(1).left().collect();
    assert_eq!(left, [(gone, LeaveReason::Died)], "by its lock, long before its silence would show");
}

/// Waits until a process stands at that place.
fn await_place(member: &Member, mut seen: Standing, place: Place) -> Standing {
    while seen.place != place {
        seen = member.cell.blocking_changed(&seen, PATIENCE).expect("in time");
    }
    seen
}

#[test]
fn a_member_whose_inbox_nobody_reads_is_expelled_learns_it_at_once_and_comes_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let builder = |name: &str| {
        let limits = [("limits.group_window", "256KiB"), ("limits.outbox", "64KiB")];
        let builder =
            limits.into_iter().fold(patient(dir.path(), name), |builder, (key, value)| builder.set(key, value));
        builder.set("limits.slow_members", "expel").set("timing.expel_after", "5s")
    };
    let (mut fast, mut peer) = (Member::start(builder("fast")), Member::start(builder("peer")));
    let slow = builder("slow").blocking_start().expect("starts");
    let (group, mut unread) = slow.group("g").inbox_items(4).blocking_join().expect("joins");
    fast.await_members(3);
    let (gone, begun) = (slow.me().id, slow.standing());
    assert_eq!(begun.place, Place::Primary);
    let left = 'expelled: loop {
        while fast.group.send(vec![7; 2_000]).causal().plain().try_post().is_ok() {}
        thread::sleep(Duration::from_millis(1));
        while peer.inbox.try_next().is_some() {}
        while fast.inbox.try_next().is_some() {}
        while let Some(event) = fast.events.try_next() {
            match event {
                CellEvent::View(view) if view.left().len() > 0 => break 'expelled view.left().collect::<Vec<_>>(),
                _ => {}
            }
        }
    };
    assert_eq!(left, [(gone, LeaveReason::TooSlow)]);
    // Its inbox is full and unread; a thread that asks how it stands learns that it is another incarnation.
    let mut seen = begun;
    while seen.me == gone {
        seen = slow.blocking_changed(&seen, PATIENCE).expect("in time");
    }
    // Messages from here on are for the two remaining members.
    fast.group.send("on").blocking_post().expect("goes out");
    while peer.messages(1)[0].payload != "on" {}
    // The inbox tells of the exclusion behind all unread items, and then of the return.
    while !matches!(next(&mut unread), Next::Excluded { was } if was == gone) {}
    while !matches!(next(&mut unread), Next::View(view) if view.len() == 3) {}
    assert!(slow.me().id != gone && group.view().is_some());
}

/// The younger of two members, whose elder dies, hears no quorum. Its program reads nothing. Threads that ask how it stands
/// learn of that, and then of the end. The inbox keeps all items in order.
#[test]
fn a_lost_quorum_is_told_beside_an_unread_inbox() {
    let dir = tempfile::tempdir().expect("a directory");
    let elder = Member::start(patient(dir.path(), "elder"));
    let younger = patient(dir.path(), "younger").blocking_start().expect("starts");
    let (group, inbox) = younger.group("g").inbox_items(4).blocking_join().expect("joins");
    let mut younger = Member { events: younger.events(), cell: younger, group, inbox };
    younger.await_members(2);
    let seen = younger.cell.standing();
    assert_eq!((seen.place, seen.view), (Place::Primary, 2));
    for number in 0..20_u8 {
        elder.group.send(vec![number]).fifo().plain().blocking_post().expect("goes out");
    }
    elder.group.blocking_flush().expect("the younger has them");
    assert!(elder.cell.clone().blocking_leave(Duration::ZERO).is_err(), "it dies");
    let told = await_place(&younger, seen, Place::NonPrimary);
    assert_eq!(told.view, 2);
    let come: Vec<u8> = younger.messages(20).iter().map(|message| message.payload[0]).collect();
    assert_eq!(come, (0..20).collect::<Vec<_>>());
    younger.await_event(|event| matches!(event, CellEvent::NonPrimary { .. }).then_some(()));
    assert!(younger.cell.clone().blocking_leave(Duration::ZERO).is_err());
    await_place(&younger, told, Place::Over);
}

#[test]
fn what_is_sent_together_arrives_one_by_one_in_its_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let narrow =
        |name: &str| patient(dir.path(), name).set("limits.group_window", "64KiB").set("limits.outbox", "4KiB");
    let (a, b) = (Member::start(narrow("a")), Member::start(narrow("b")));
    // Far more than is sent at once, with empty messages among them.
    let payloads: Vec<Vec<u8>> = (0..3_000_u32).map(|i| i.to_le_bytes().repeat(i as usize % 40)).collect();
    let group = a.group.clone();
    thread::scope(|scope| {
        scope.spawn(|| {
            for batch in payloads.chunks(1_500) {
                group.send_all(batch).plain().blocking_post().expect("goes out");
            }
        });
        for member in [a, b] {
            let payloads = &payloads;
            scope.spawn(move || {
                let Member { cell: _stays, mut inbox, .. } = member;
                let (mut items, mut seen) = (Vec::new(), Vec::new());
                while seen.len() < payloads.len() {
                    let taken = inbox.blocking_next_batch(&mut items, 100);
                    assert!((1..=100).contains(&taken) && taken == items.len(), "{taken}");
                    seen.extend(items.drain(..).filter_map(|item| match item {
                        Next::Message(message) => Some(message.payload.to_vec()),
                        _ => None,
                    }));
                }
                assert!(seen == *payloads, "all, one by one, in order");
            });
        }
    });
    assert_eq!(group.send_all([[0_u8; 1]; 0]).try_post(), Ok(()), "nothing is not an error");
    let long = vec![0; (32 << 20) + 1];
    assert!(matches!(group.send_all([&long, &long]).try_post(), Err(SendError::TooLong(_))));
}
