//! The queues between application and protocol thread are bounded and keep their order, and no sleep lacks its wake-up.
//! A lost wake-up hangs these tests.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use phalanx_core::{Delivery, Event, GroupId, GroupView, Incarnation, Snapshot, ViewNumber};
use phalanx_driver::{Udp, UdpOptions, Wait};

use super::commands::{Command, Commands, Refused};
use super::handler::Queueing;
use super::items::{Copier, Items};
use super::*;
use crate::belief::Believer;
use crate::handler::Handler;

fn driver() -> Udp {
    Udp::bind(&UdpOptions::default()).expect("loopback has free ports")
}

fn direct(number: u64, len: usize) -> Item {
    let payload = [&number.to_le_bytes()[..], &vec![0; len]].concat();
    Item::Direct { from: Incarnation(1), payload: payload.into() }
}

fn number(item: &Item) -> u64 {
    match item {
        Item::Direct { payload, .. } => u64::from_le_bytes(payload[..8].try_into().expect("eight bytes")),
        other => panic!("{other:?}"),
    }
}

/// Plays the protocol thread: pushes while there is room, otherwise sleeps until it is woken.
fn push_all(items: &Items, driver: &mut Udp, count: u64) {
    for i in 0..count {
        while !items.ready() {
            items.publish();
            driver.wait(None, &[]).expect("waiting works");
        }
        items.push(direct(i, 0)).expect("there is room");
        if i % 7 == 0 {
            items.publish();
        }
    }
    items.end();
}

#[test]
fn items_come_in_order_and_waiting_threads_are_woken() {
    let mut driver = driver();
    let items = Items::new(16, 1 << 20, driver.waker());
    thread::scope(|scope| {
        scope.spawn(|| push_all(&items, &mut driver, 20_000));
        for i in 0..20_000 {
            assert_eq!(number(&items.wait(None).expect("not over")), i);
        }
        assert_eq!(items.wait(None).err(), Some(true), "over, and everything was taken before");
    });
}

#[test]
fn a_waiting_task_is_woken() {
    let mut driver = driver();
    let items = Items::new(8, 1 << 20, driver.waker());
    thread::scope(|scope| {
        scope.spawn(|| push_all(&items, &mut driver, 5_000));
        for i in 0..5_000 {
            let item = pollster::block_on(std::future::poll_fn(|context| {
                if let Some(item) = items.pop() {
                    return std::task::Poll::Ready(item);
                }
                items.register(context.waker());
                items.pop().map_or(std::task::Poll::Pending, std::task::Poll::Ready)
            }));
            assert_eq!(number(&item), i);
        }
    });
}

#[test]
fn items_are_bounded_in_number_and_in_bytes() {
    let driver = driver();
    let items = Items::new(4, 10_000, driver.waker());
    let mut pushed = 0;
    while items.ready() {
        items.push(direct(pushed, 0)).expect("room");
        pushed += 1;
    }
    assert_eq!(pushed, 4);
    assert!(items.push(direct(9, 0)).is_err(), "given back");
    while items.pop().is_some() {}
    items.push(direct(0, 20_000)).expect("one may exceed the bound");
    assert!(!items.ready());
    items.discard();
    assert!(items.ready() && items.pop().is_none(), "what nobody takes is dropped");
    items.push(Item::Event(Event::Left)).expect("dropped");
    assert!(items.pop().is_none());
}

#[test]
fn nothing_in_time_is_not_the_end() {
    let driver = driver();
    let items = Items::new(4, 10_000, driver.waker());
    assert_eq!(items.wait(Some(Duration::from_millis(1))).err(), Some(false));
    items.end();
    assert_eq!(items.wait(None).err(), Some(true));
}

#[test]
fn commands_of_many_threads_all_arrive_each_in_its_order() {
    let mut driver = driver();
    let commands = Commands::new(driver.waker());
    let (threads, each) = (4_u64, 4_000_u64);
    thread::scope(|scope| {
        for thread in 0..threads {
            let commands = &commands;
            scope.spawn(move || {
                for i in 0..each {
                    let payload = Bytes::copy_from_slice(&i.to_le_bytes());
                    commands.push(Command::Send { to: Incarnation(thread), payload }, None).expect("not over");
                }
            });
        }
        let mut next = [0; 4];
        while next.iter().sum::<u64>() < threads * each {
            while let Some(Command::Send { to, payload }) = commands.pop() {
                let i = u64::from_le_bytes(payload[..].try_into().expect("eight bytes"));
                assert_eq!(i, next[to.0 as usize], "in order");
                next[to.0 as usize] += 1;
            }
            commands.popped();
            if commands.is_empty() && next.iter().sum::<u64>() < threads * each {
                driver.wait(None, &[]).expect("waiting works");
            }
        }
    });
}

#[test]
fn commands_are_bounded_and_end() {
    let driver = driver();
    let commands = Arc::new(Commands::new(driver.waker()));
    let send = |len: usize| Command::Send { to: Incarnation(1), payload: vec![0; len].into() };
    commands.try_push(send(8 << 20)).map_err(|(refused, _)| refused).expect("one may exceed the bound");
    assert_eq!(commands.try_push(send(1)).map_err(|(refused, _)| refused), Err(Refused::Full));
    assert_eq!(commands.push(send(1), Some(Duration::from_millis(1))), Err(Refused::Full));
    let waiter = Arc::clone(&commands);
    let waits = thread::spawn(move || waiter.push(Command::Send { to: Incarnation(1), payload: Bytes::new() }, None));
    commands.close(drop);
    assert_eq!(waits.join().expect("no panic"), Err(Refused::Over), "the end wakes who waits");
    assert!(commands.pop().is_none());
}

#[test]
fn small_payloads_share_memory_and_stay_whole() {
    let mut copier = Copier::default();
    let copies: Vec<(Vec<u8>, Bytes)> = (0..2_000_usize)
        .map(|i| {
            let payload = vec![i as u8; i * 7 % 6_000];
            let copy = copier.copy(&payload);
            (payload, copy)
        })
        .collect();
    assert!(copies.iter().all(|(payload, copy)| copy == payload));
}

/// A push that races with the end is refused, or returned by the end: none is accepted and lost.
#[test]
fn what_was_taken_and_not_carried_out_is_given_back_at_the_end() {
    for _ in 0..200 {
        let driver = driver();
        let commands = Commands::new(driver.waker());
        let slot = Arc::new(Slot::new("g"));
        let cast = || Command::Cast {
            slot: Arc::clone(&slot),
            order: phalanx_core::Order::Fifo,
            stability: phalanx_core::Stability::Plain,
            payload: Bytes::from_static(b"x"),
        };
        let (mut carried, mut given_back) = (0_u64, 0_u64);
        let accepted: u64 = thread::scope(|scope| {
            let pushers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut accepted = 0;
                        while commands.push(cast(), None).is_ok() {
                            accepted += 1;
                        }
                        accepted
                    })
                })
                .collect();
            while carried < 50 {
                carried += commands.pop().map_or(0, |command| command.multicasts().map_or(0, |(_, count)| count));
                commands.popped();
            }
            commands.close(|command| given_back += command.multicasts().map_or(0, |(_, count)| count));
            pushers.into_iter().map(|pusher| pusher.join().expect("no panic")).sum()
        });
        assert_eq!(accepted, carried + given_back);
        assert!(commands.pop().is_none());
    }
}

/// A state that records its calls.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<&'static str>>>);

impl State for Notes {
    fn apply(&mut self, _message: &Delivery<'_>) {}
    fn snapshot(&mut self) -> Box<dyn Snapshot> {
        unreachable!("nobody joins")
    }
    fn clear(&mut self) {
        self.0.lock().expect("no panic").push("clear");
    }
    fn restore(&mut self, _chunk: &[u8]) {}
    fn kept(&mut self) {
        self.0.lock().expect("no panic").push("kept");
    }
}

fn me(life: u64) -> MemberInfo {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    MemberInfo::new(Incarnation(life), "n", nowhere, nowhere)
}

fn view(group: u32, name: &str) -> Event {
    Event::GroupView(Arc::new(GroupView {
        group: GroupId(group),
        name: name.into(),
        view: ViewNumber(1),
        prev: None,
        members: vec![Incarnation(1)],
        infos: vec![me(1)],
        joined: vec![Incarnation(1)],
        left: Vec::new(),
        incomplete: Vec::new(),
        observers: Vec::new(),
        has_state: None,
        terms: GroupTerms::default(),
        adequate: true,
    }))
}

/// The states that a process keeps through exclusions, however often it comes back before a group continues.
#[test]
fn a_state_is_kept_where_something_holds_it_until_another_begins() {
    let driver = driver();
    let shared = Arc::new(Shared {
        commands: Commands::new(driver.waker()),
        items: Items::new(100, 10_000, driver.waker()),
        groups: Mutex::default(),
        facts: Mutex::new(Facts::of(me(1))),
        belief: Believer::new(Incarnation(1)).belief(),
        born: me(1),
        home: Home::here(),
        trace_lost: AtomicBool::new(false),
    });
    let mut queueing = Queueing::new(shared, true);
    let notes = Notes::default();
    let names = ["state", "messages", "pieces"];
    let slots = names.map(|name| Arc::new(Slot::new(name)));
    queueing.add(Arc::clone(&slots[0]), true, Some(Box::new(notes.clone())));
    queueing.add(Arc::clone(&slots[1]), false, None);
    queueing.add(Arc::clone(&slots[2]), true, None);
    let kept = |queueing: &mut Queueing| [1, 2, 3].map(|group| queueing.keeps_state(GroupId(group)));
    queueing.begin(&me(1));
    assert_eq!(kept(&mut queueing), [false; 3], "it is in no view");
    (1..).zip(names).for_each(|(group, name)| queueing.event(view(group, name)));
    assert_eq!(kept(&mut queueing), [true, true, false], "nothing holds pieces that are dropped");
    for life in 2..4 {
        queueing.event(Event::Excluded { view: ViewNumber(2) });
        queueing.begin(&me(life));
        assert_eq!(kept(&mut queueing), [true, true, false], "in life {life}");
    }
    let name: Arc<str> = "state".into();
    queueing.event(Event::StateKept {
        group: GroupId(1),
        name: Arc::clone(&name),
        was: Incarnation(1),
        view: ViewNumber(1),
    });
    queueing.event(Event::StateBegin { group: GroupId(1), name, bytes: 0, view: None });
    assert_eq!(*notes.0.lock().expect("no panic"), ["kept", "clear"]);
    assert_eq!(kept(&mut queueing), [false, true, false], "another state begins");
}
