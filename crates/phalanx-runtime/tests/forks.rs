//! In a forked child every inherited handle is dead: nothing is sent, nothing of the parent's changes, and each call
//! says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::common::fork::{alone, end, in_child, split};
use crate::common::listening::{Heard, Listening, MARK};
use crate::common::{PATIENCE, directory, options, run};
use phalanx_runtime::config::DriverMode;
use phalanx_runtime::core::wire::DropReason;
use phalanx_runtime::core::{
    DeathProof, Delivery, Effects, Event, Founding, GroupId, GroupTerms, Incarnation, MemberInfo, Membership, Order,
    Security, Settings, Snapshot, Stability, TrafficClass,
};
use phalanx_runtime::driver::{Driver, Shm, Transmit, Udp, UdpOptions, Wait};
use phalanx_runtime::rpc::{
    CallId, CallOptions, Caller, Client, ClientCallId, Counters, Failure, HandlerResult, Outcome, Port, PortOptions,
    Service,
};
use phalanx_runtime::{Handler, Inline, Node, NodeOptions, Options, Recorder, clock};
use phalanx_trace::{Event as Record, Trace};

/// An application that keeps what it receives.
#[derive(Default)]
struct App {
    group: Option<GroupId>,
    members: Vec<Incarnation>,
    got: Vec<Vec<u8>>,
    /// The number of calls that it received.
    told: usize,
}

impl Handler for App {
    fn at(&mut self, _now: phalanx_runtime::core::Instant) {
        self.told += 1;
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.told += 1;
        self.got.push(delivery.payload.to_vec());
    }

    fn event(&mut self, event: Event) {
        self.told += 1;
        if let Event::GroupView(view) = event {
            self.group = Some(view.group);
            self.members.clone_from(&view.members);
        }
    }
}

/// A member on its own thread that records what arrives over the network.
struct Peer {
    got: Arc<Mutex<Vec<Vec<u8>>>>,
    heard: Heard,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Peer {
    fn start(options: Options) -> Self {
        let (got, heard, end) = (Arc::<Mutex<Vec<_>>>::default(), Heard::default(), Arc::<AtomicBool>::default());
        let (keeps, hears, ending) = (Arc::clone(&got), heard.clone(), Arc::clone(&end));
        let thread = std::thread::spawn(move || {
            let listening = |inner: Shm<Udp>| Listening { inner, heard: hears };
            let mut process = Inline::start_with(&options, listening).expect("starts");
            let mut app = App::default();
            process.join_group("g", false, GroupTerms::default(), &mut app).expect("a good name");
            while !ending.load(Ordering::Relaxed) {
                if !process.poll(&mut app).more {
                    process.wait(Some(Duration::from_millis(5))).expect("waits");
                }
                keeps.lock().expect("no panic").append(&mut app.got);
            }
            let mut replays = 0;
            process.node().counters(&mut |name, count| replays += if name.contains("replayed") { count } else { 0 });
            replays
        });
        Self { got, heard, end, thread: Some(thread) }
    }

    /// Whether that many messages have arrived.
    fn has(&self, count: usize) -> bool {
        self.got.lock().expect("no panic").len() >= count
    }

    /// Ends it. Returns what arrived beside `expected`, and evidence that two processes sent under one name.
    fn end(mut self, expected: &[&[u8]]) -> Vec<String> {
        self.end.store(true, Ordering::Relaxed);
        let replays = self.thread.take().expect("once").join().expect("it did not panic");
        judge(&self.got.lock().expect("no panic"), expected, &self.heard, replays)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

/// The errors in what a receiver got.
fn judge(got: &[Vec<u8>], expected: &[&[u8]], heard: &Heard, replays: u64) -> Vec<String> {
    let mut wrong = heard.faults();
    if !got.iter().eq(expected) {
        let texts = got.iter().map(|got| String::from_utf8_lossy(&got[..got.len().min(20)]).into_owned());
        wrong.push(format!("{:?} came", texts.collect::<Vec<_>>()));
    }
    // Vain retransmissions are not counted: a busy machine causes them.
    let vain = heard.again();
    if replays > vain {
        wrong.push(format!("{replays} packets dropped as replays, {vain} of them came again as they were"));
    }
    wrong
}

/// All files in that directory, except counters of processes other than `own`, which change all the time.
fn files(places: &[&Path], own: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut places: Vec<PathBuf> = places.iter().map(|place| place.to_path_buf()).collect();
    while let Some(place) = places.pop() {
        for entry in fs::read_dir(place).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                places.push(path);
            } else {
                let is_counters = path.parent() == own.parent() && path != own;
                let is_read = path.is_file() && !is_counters; // of a socket the name counts
                let content = if is_read { fs::read(&path).expect("readable") } else { Vec::new() };
                files.insert(path, content);
            }
        }
    }
    files
}

/// Files that changed or are new.
fn changes(before: &BTreeMap<PathBuf, Vec<u8>>, after: &BTreeMap<PathBuf, Vec<u8>>) -> Vec<String> {
    let paths: BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
    let changed = paths.into_iter().filter(|path| before.get(*path) != after.get(*path));
    changed.map(|path| format!("{} has changed", path.display())).collect()
}

fn with_driver(dir: &Path, name: &str, driver: DriverMode) -> Options {
    let mut options = options(dir, name);
    options.config.driver = driver;
    options
}

/// Polls until the condition holds. Only a hang takes so long that the test fails.
fn poll_until<D: Wait, H: Handler>(process: &mut Inline<D>, app: &mut H, what: &str, is_so: impl Fn(&H) -> bool) {
    let began = Instant::now();
    while !is_so(app) {
        assert!(began.elapsed() < PATIENCE, "{what}");
        process.poll(app);
        process.wait(Some(Duration::from_millis(5))).expect("waits");
    }
}

/// Polls for that long.
fn poll_for<D: Wait>(process: &mut Inline<D>, app: &mut impl Handler, time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        process.poll(app);
        process.wait(Some(Duration::from_millis(5))).expect("waits");
    }
}

/// Long enough to need many packets.
fn long() -> Vec<u8> {
    MARK.repeat(100_000)
}

#[test]
fn an_inherited_process_is_dead_in_a_forked_child() {
    if !alone(an_inherited_process_is_dead_in_a_forked_child) {
        return;
    }
    for driver in [DriverMode::Udp, DriverMode::Auto] {
        let dir = directory();
        let (run, traces) = (run(dir.path()), dir.path().join("traces"));
        let mut process = Some(Inline::start(&with_driver(dir.path(), "a", driver)).expect("starts"));
        let parent = process.as_mut().expect("there");
        let panics = Box::new(|error: &_| panic!("{error}"));
        let mut recorder = Some(Recorder::to_directory("default", &traces, panics).expect("a directory"));
        let mut app = App::default();
        macro_rules! traced {
            () => {
                &mut recorder.as_mut().expect("inherited").around(&mut app)
            };
        }
        parent.join_group("g", false, GroupTerms::default(), traced!()).expect("a good name");
        let peer = Peer::start(with_driver(dir.path(), "b", driver));
        let ends = Instant::now() + PATIENCE;
        while app.members.len() < 2 {
            assert!(Instant::now() < ends, "both are in the group");
            poll_for(parent, traced!(), Duration::from_millis(10));
        }
        let group = app.group.expect("in the group");
        let other = *app.members.iter().find(|m| **m != parent.node().incarnation()).expect("two");
        parent.multicast(group, Order::Total, Stability::Plain, b"before", traced!()).expect("accepted");
        poll_until(parent, traced!(), "the peer has it", |_| peer.has(1));
        poll_for(parent, traced!(), Duration::from_millis(300));
        // Accepted and not yet sent: it is sent exactly once.
        parent.multicast(group, Order::Total, Stability::Plain, b"queued", traced!()).expect("accepted");
        let local = crate::common::local(dir.path());
        let me = parent.node().incarnation();
        let own = local.living().expect("readable").into_iter().find(|live| live.incarnation == me).expect("lives");
        let before = files(&[&run, &traces], &own.counters);
        let told = app.told;
        let fresh = with_driver(dir.path(), "fresh", driver);

        let mut wrong = in_child(|child| {
            let dead = process.as_mut().expect("inherited");
            child.refused("multicast", || dead.multicast(group, Order::Fifo, Stability::Plain, MARK, traced!()));
            child.refused("a long multicast", || {
                dead.multicast(group, Order::Total, Stability::Uniform, &long(), traced!())
            });
            child.refused("send", || dead.send(other, MARK, traced!()));
            child.refused("join_group", || dead.join_group("h", true, GroupTerms::default(), traced!()));
            child.tries("turn", || (0..50).all(|_| dead.poll(traced!()) == phalanx_runtime::PollReport::default()));
            child.refused("wait", || dead.wait(None));
            child.refused("wait_also", || dead.wait_also(Some(Duration::from_millis(1)), &[]));
            child.refused("leave_group", || dead.leave_group(group, traced!()));
            child.tries("leave", || {
                dead.leave(traced!());
                dead.poll(traced!()) == phalanx_runtime::PollReport::default()
            });
            child.tries("begin_anew", || {
                dead.begin_anew();
                dead.node().incarnation() == me
            });
            child.tries("turn again", || {
                (0..50).all(|_| dead.poll(traced!()) == phalanx_runtime::PollReport::default())
            });
            child.tries("waker", || {
                dead.waker().wake();
                true
            });
            child.tries("is_over", || dead.is_over());
            child.tries("it believes so", || dead.belief().look().membership == Membership::Over);
            child.tries("its node, too", || dead.node().membership() == Membership::Over);
            child.tries("its application is told nothing", || app.told == told);
            child.tries("a process of its own", || {
                let mut own = Inline::start(&fresh).expect("starts");
                let mut app = App::default();
                own.poll(&mut app);
                own.node().incarnation() != me && app.told > 0
            });
            child.tries("drop", || {
                drop(process.take());
                true
            });
            child.tries("drop the trace", || {
                drop(recorder.take());
                true
            });
        });

        // Checked first: nothing was touched.
        let after = files(&[&run, &traces], &own.counters);
        let parent = process.as_mut().expect("there");
        parent.multicast(group, Order::Total, Stability::Uniform, b"after", traced!()).expect("accepted");
        let sent = Instant::now();
        while !peer.has(3) && sent.elapsed() < Duration::from_secs(10) {
            poll_for(parent, traced!(), Duration::from_millis(50));
        }
        poll_for(parent, traced!(), Duration::from_millis(300));
        wrong.extend(changes(&before, &after));
        wrong.extend(peer.end(&[b"before", b"queued", b"after"]));
        assert_eq!(wrong, [""; 0], "{driver:?}");
        assert_eq!(app.got, [&b"before"[..], b"queued", b"after"], "{driver:?}");
    }
}

/// Collects packets, to send them past the node.
struct Gather(Vec<(TrafficClass, Vec<SocketAddr>, Vec<u8>)>);

impl Effects for Gather {
    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        self.0.push((class, to.to_vec(), packet.to_vec()));
    }

    fn deliver(&mut self, _delivery: &Delivery<'_>) {}

    fn event(&mut self, _event: Event) {}

    fn message(&mut self, _from: Incarnation, _payload: &[u8]) {}

    fn snapshot(&mut self, _group: GroupId) -> Option<Box<dyn Snapshot>> {
        None
    }

    fn restore(&mut self, _group: GroupId, _chunk: &[u8]) {}
}

#[test]
fn an_inherited_node_is_dead_in_a_forked_child() {
    if !alone(an_inherited_node_is_dead_in_a_forked_child) {
        return;
    }
    let dir = directory();
    let key = crate::common::local(dir.path()).key().expect("a key");
    let driver = Udp::bind(&UdpOptions::default()).expect("loopback has free ports");
    let control = driver.local_address(TrafficClass::Control);
    let me = MemberInfo {
        packet_bytes_max: driver.packet_bytes_max(),
        receive_packets: driver.receive_packets(),
        ..MemberInfo::new(Incarnation(0xaaaa), "a", driver.local_address(TrafficClass::Data), control)
    };
    let mut peer = with_driver(dir.path(), "b", DriverMode::Udp);
    let settings = Settings {
        cell: "default".to_owned(),
        me,
        founding: Founding::Alone,
        record: phalanx_runtime::core::member::FounderRecord::default(),
        seeds: Vec::new(),
        timing: peer.config.timing.clone(),
        limits: peer.config.limits.clone(),
    };
    (peer.founding, peer.config.seeds) = (Some(Founding::Join), vec![control.to_string()]);
    let mut drawn = 7;
    let entropy = Box::new(move || {
        drawn += 1;
        drawn
    });
    let mut node =
        Some(Node::new(clock::now(), driver, settings, Security::Sealed(key), entropy, NodeOptions::default()));
    let mut app = App::default();
    let poll_until = |node: &mut Node<Udp>, app: &mut App, what: &str, is_so: &dyn Fn(&App) -> bool| {
        let began = Instant::now();
        while !is_so(app) {
            assert!(began.elapsed() < PATIENCE, "{what}");
            node.poll(clock::now(), app);
            node.driver_mut().wait(Some(Duration::from_millis(5)), &[]).expect("waits");
        }
    };
    let parent = node.as_mut().expect("there");
    parent.join_group(clock::now(), "g", false, GroupTerms::default(), &mut app).expect("a good name");
    let peer = Peer::start(peer);
    poll_until(parent, &mut app, "both are in the group", &|app| app.members.len() == 2);
    let group = app.group.expect("in the group");
    let other = *app.members.iter().find(|m| **m != Incarnation(0xaaaa)).expect("two");
    let at = parent.process().cell_view().expect("a view").members.iter().find(|m| m.name == "b").expect("in").data;
    parent.multicast(clock::now(), group, Order::Total, Stability::Plain, &[b"before"], &mut app).expect("accepted");
    poll_until(parent, &mut app, "the peer has it", &|_| peer.has(1));
    let settled = Instant::now();
    poll_until(parent, &mut app, "it settles", &|_| settled.elapsed() > Duration::from_millis(300));
    parent.multicast(clock::now(), group, Order::Total, Stability::Plain, &[b"queued"], &mut app).expect("accepted");
    let told = app.told;

    let mut wrong = in_child(|child| {
        let dead = node.as_mut().expect("inherited");
        let now = clock::now();
        let nothing = phalanx_runtime::PollReport::default();
        child.refused("multicast", || dead.multicast(now, group, Order::Fifo, Stability::Plain, &[MARK], &mut app));
        child.refused("long", || dead.multicast(now, group, Order::Total, Stability::Uniform, &[&long()], &mut app));
        child.refused("send", || dead.send(now, other, MARK, &mut app));
        child.refused("join_group", || dead.join_group(now, "h", true, GroupTerms::default(), &mut app));
        child.tries("turn", || (0..50).all(|_| dead.poll(clock::now(), &mut app) == nothing));
        child.refused("wait of its driver", || dead.driver_mut().wait(None, &[]));
        child.tries("what is made past it reaches nobody", || {
            let mut gather = Gather(Vec::new());
            let process = dead.process_mut();
            let _ = process.multicast(now, group, Order::Fifo, Stability::Plain, &[MARK], &mut gather);
            process.poll(clock::now(), &mut gather);
            process.flush(clock::now(), &mut gather);
            let driver = dead.driver_mut();
            for (class, to, packet) in gather.0 {
                driver.outbox().transmit(class, &to, &packet);
            }
            driver.outbox().transmit(TrafficClass::Data, &[at], MARK);
            driver.outbox().send_unbuffered(TrafficClass::Data, at, [MARK, MARK, MARK]);
            driver.outbox().transmit(TrafficClass::Control, &[at], &[MARK; 2_000].concat());
            driver.flush();
            driver.receive(64, &mut |_, _, _, _| panic!("it is the parent's")).packets == 0
        });
        child.refused("leave_group", || dead.leave_group(now, group, &mut app));
        child.tries("leave", || {
            dead.leave(now, &mut app);
            dead.poll(clock::now(), &mut app) == nothing
        });
        child.tries("begin_anew", || {
            dead.handle_death(now, other, DeathProof::Ended);
            dead.add_seeds(&[at]);
            dead.begin_anew(now, Founding::Alone, &[]);
            dead.incarnation() == Incarnation(0xaaaa)
        });
        child.tries("is_over", || dead.is_over());
        child.tries("its application is told nothing", || app.told == told);
        child.tries("drop", || {
            drop(node.take());
            true
        });
    });

    let parent = node.as_mut().expect("there");
    parent.multicast(clock::now(), group, Order::Total, Stability::Uniform, &[b"after"], &mut app).expect("accepted");
    let sent = Instant::now();
    poll_until(parent, &mut app, "it goes on", &|_| peer.has(3) || sent.elapsed() > Duration::from_secs(10));
    let settled = Instant::now();
    poll_until(parent, &mut app, "it settles", &|_| settled.elapsed() > Duration::from_millis(300));
    wrong.extend(peer.end(&[b"before", b"queued", b"after"]));
    assert_eq!(wrong, [""; 0]);
    assert_eq!(app.got, [&b"before"[..], b"queued", b"after"]);
}

/// Forks in the middle of a poll.
#[derive(Default)]
struct Forks {
    app: App,
    /// The child's exit status.
    ended: Option<i32>,
    is_child: bool,
}

impl Forks {
    fn fork(&mut self) {
        self.ended = split();
        self.is_child = self.ended.is_none();
    }
}

impl Handler for Forks {
    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.app.deliver(delivery);
        if delivery.payload == b"fork" {
            self.fork();
        }
    }

    fn event(&mut self, event: Event) {
        self.app.event(event);
    }
}

impl Service for Forks {
    fn request(&mut self, _: CallId, _: Incarnation, request: &[u8], answer: &mut Vec<u8>) -> HandlerResult {
        if request == b"fork" {
            self.fork();
        }
        answer.extend_from_slice(if self.is_child { MARK } else { request });
        HandlerResult::Answered
    }
}

#[test]
fn a_poll_ends_in_a_child_that_a_handler_forked() {
    if !alone(a_poll_ends_in_a_child_that_a_handler_forked) {
        return;
    }
    for driver in [DriverMode::Udp, DriverMode::Auto] {
        let dir = directory();
        let mut process = Inline::start(&with_driver(dir.path(), "a", driver)).expect("starts");
        let mut app = Forks::default();
        process.join_group("g", false, GroupTerms::default(), &mut app).expect("a good name");
        let peer = Peer::start(with_driver(dir.path(), "b", driver));
        poll_until(&mut process, &mut app, "both are in the group", |app| app.app.members.len() == 2);
        let group = app.app.group.expect("in the group");
        process.multicast(group, Order::Total, Stability::Plain, b"before", &mut app).expect("accepted");
        poll_until(&mut process, &mut app, "the peer has it", |_| peer.has(1));
        for payload in [&b"fork"[..], b"1", b"2", b"3"] {
            process.multicast(group, Order::Fifo, Stability::Plain, payload, &mut app).expect("accepted");
        }
        let began = Instant::now();
        while !app.is_child && app.ended.is_none() {
            assert!(began.elapsed() < PATIENCE, "it is delivered");
            process.poll(&mut app);
        }
        if app.is_child {
            for _ in 0..200 {
                process.poll(&mut app);
                let _ = process.multicast(group, Order::Fifo, Stability::Plain, MARK, &mut app);
                std::thread::sleep(Duration::from_millis(1));
            }
            end(process.is_over() && process.wait(None).is_err());
        }
        poll_until(&mut process, &mut app, "the peer has all", |_| peer.has(5));
        poll_for(&mut process, &mut app, Duration::from_millis(300));
        assert_eq!(peer.end(&[b"before", b"fork", b"1", b"2", b"3"]), [""; 0], "{driver:?}");
        assert_eq!(app.ended, Some(0), "the child's is over, {driver:?}");
        assert_eq!(app.app.got, [&b"before"[..], b"fork", b"1", b"2", b"3"]);
    }
}

#[test]
fn a_poll_of_calls_ends_in_a_child_that_a_handler_forked() {
    if !alone(a_poll_of_calls_ends_in_a_child_that_a_handler_forked) {
        return;
    }
    for driver in [DriverMode::Udp, DriverMode::Auto] {
        let dir = directory();
        let traces = dir.path().join("traces");
        let mut options = port_options(dir.path(), driver);
        let heard = Heard::default();
        let listening = |inner| Listening { inner, heard: heard.clone() };
        let mut client = Port::start_with(&options, listening).expect("a port");
        (options.serves, options.config.trace) = (true, Some(traces.clone()));
        let mut port = Port::start(&options).expect("a port");
        let (mut desk, mut app, calls) = (Desk::default(), Forks::default(), CallOptions::default());
        let session = client.connect(port.address(), &mut desk);
        let began = Instant::now();
        for (count, request) in [&b"before"[..], b"fork", b"after"].into_iter().enumerate() {
            client.call(session, request, &calls, &mut desk).expect("accepted");
            while desk.outcomes.len() <= count {
                assert!(began.elapsed() < PATIENCE, "it is answered");
                client.poll(&mut desk);
                port.poll(&mut app);
                if app.is_child {
                    for _ in 0..100 {
                        port.poll(&mut app);
                        let _ = port.call(session, MARK, &calls, &mut app);
                    }
                    let dead = port.wait(None, &[]).is_err();
                    drop(port);
                    end(dead);
                }
            }
        }
        let got: Vec<_> = desk.outcomes.into_iter().map(|(_, outcome)| outcome.expect("it ran")).collect();
        assert_eq!(heard.faults(), [""; 0], "{driver:?}");
        assert_eq!(got, [&b"before"[..], b"fork", b"after"], "{driver:?}");
        assert_eq!(app.ended, Some(0), "the child's is dead, {driver:?}");
        drop(port);
        let (trace, _) = files(&[&traces], &traces).pop_first().expect("one");
        let records = Trace::read(&trace).expect("whole").records;
        let count = |is: fn(&Record) -> bool| records.iter().filter(|record| is(&record.event)).count();
        let ran = count(|event| matches!(event, Record::CallRan { .. }));
        let answered = count(|event| matches!(event, Record::CallAnswered { .. }));
        assert_eq!((ran, answered, count(|event| matches!(event, Record::End))), (3, 3, 1), "{driver:?}");
    }
}

/// Answers later, from whichever process runs it.
#[derive(Default)]
struct Desk {
    asked: Vec<(CallId, Vec<u8>)>,
    outcomes: Vec<(ClientCallId, Result<Vec<u8>, Failure>)>,
}

impl Service for Desk {
    fn request(&mut self, call: CallId, _: Incarnation, request: &[u8], _: &mut Vec<u8>) -> HandlerResult {
        self.asked.push((call, request.to_vec()));
        HandlerResult::Later
    }

    fn outcome(&mut self, call_id: ClientCallId, outcome: Outcome<'_>) {
        self.outcomes.push((call_id, outcome.to_result()));
    }
}

/// Echoes the request; `slow` only on demand.
struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Vec<u8>>>>,
    heard: Heard,
    release: Arc<AtomicBool>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<Counters>>,
}

impl Server {
    fn start(options: &PortOptions) -> Self {
        let options = PortOptions { serves: true, ..options.clone() };
        let heard = Heard::default();
        let asked = Arc::<Mutex<Vec<_>>>::default();
        let (release, end) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (tell, told) = std::sync::mpsc::channel();
        let (hears, asks, releases, ending) =
            (heard.clone(), Arc::clone(&asked), Arc::clone(&release), Arc::clone(&end));
        let thread = std::thread::spawn(move || {
            let listening = |inner| Listening { inner, heard: hears };
            let mut port = Port::start_with(&options, listening).expect("a port");
            tell.send(port.address()).expect("it is waited for");
            let (mut desk, mut slow) = (Desk::default(), Vec::new());
            while !ending.load(Ordering::Relaxed) {
                if port.poll(&mut desk) == 0 {
                    port.wait(Some(Duration::from_millis(5)), &[]).expect("a wait");
                }
                for (call, request) in std::mem::take(&mut desk.asked) {
                    asks.lock().expect("no panic").push(request.clone());
                    slow.push((call, request));
                }
                let released = releases.load(Ordering::Relaxed);
                for (call, request) in std::mem::take(&mut slow) {
                    if request == b"slow" && !released {
                        slow.push((call, request));
                    } else {
                        // Its caller may have given it up.
                        let _ = port.answer(call, Some(request.into()), &mut desk);
                    }
                }
            }
            *port.counters()
        });
        let address = told.recv().expect("it starts");
        Self { address, asked, heard, release, end, thread: Some(thread) }
    }

    /// Like that of a [`Peer`].
    fn end(mut self, expected: &[&[u8]]) -> Vec<String> {
        // Packets in flight arrive.
        std::thread::sleep(Duration::from_millis(200));
        self.end.store(true, Ordering::Relaxed);
        let counters = self.thread.take().expect("once").join().expect("it did not panic");
        let replays = counters.drops[DropReason::Replayed.index()];
        // Calls of two callers arrive in any order.
        let mut asked = self.asked.lock().expect("no panic").clone();
        let mut expected = expected.to_vec();
        asked.sort();
        expected.sort_unstable();
        judge(&asked, &expected, &self.heard, replays)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

fn port_options(dir: &Path, driver: DriverMode) -> PortOptions {
    PortOptions { config: with_driver(dir, "calls", driver).config, ..PortOptions::default() }
}

#[test]
fn an_inherited_port_is_dead_in_a_forked_child() {
    if !alone(an_inherited_port_is_dead_in_a_forked_child) {
        return;
    }
    for driver in [DriverMode::Udp, DriverMode::Auto] {
        let dir = directory();
        let (run, traces) = (run(dir.path()), dir.path().join("traces"));
        let mut options = port_options(dir.path(), driver);
        let server = Server::start(&options);
        options.config.trace = Some(traces.clone());
        options.serves = true;
        let mut port = Some(Port::start(&options).expect("a port"));
        options.config.trace = None;
        let mut client = Client::start(&options).expect("a client");
        let mut desk = Desk::default();
        let parent = port.as_mut().expect("there");
        let address = parent.address();
        let asking = std::thread::spawn(move || client.call(address, b"question", &CallOptions::default()));
        let until = |parent: &mut Port, desk: &mut Desk, what: &str, is_so: &dyn Fn(&Desk) -> bool| {
            let began = Instant::now();
            while !is_so(desk) {
                assert!(began.elapsed() < PATIENCE, "{what}");
                if parent.poll(desk) == 0 {
                    parent.wait(Some(Duration::from_millis(5)), &[]).expect("a wait");
                }
            }
        };
        let session = parent.connect(server.address, &mut desk);
        let calls = CallOptions::default();
        parent.call(session, b"before", &calls, &mut desk).expect("accepted");
        until(parent, &mut desk, "both calls ran", &|desk| desk.outcomes.len() == 1 && desk.asked.len() == 1);
        let asked = desk.asked[0].0;
        // Acks are in flight.
        let settled = Instant::now();
        until(parent, &mut desk, "it settles", &|_| settled.elapsed() > Duration::from_millis(100));
        let queued = parent.call(session, b"queued", &calls, &mut desk).expect("accepted");
        let before = files(&[&run, &traces], &run);
        let outcomes = desk.outcomes.len();

        let mut wrong = in_child(|child| {
            let dead = port.as_mut().expect("inherited");
            child.refused("call", || dead.call(session, MARK, &calls, &mut desk));
            child.refused("a long call", || dead.call(session, long(), &calls, &mut desk));
            child.tries("connect", || {
                let session = dead.connect(server.address, &mut desk);
                dead.call(session, MARK, &calls, &mut desk).is_err()
            });
            child.refused("answer", || dead.answer(asked, Some(MARK.into()), &mut desk));
            child.tries("turn", || (0..50).all(|_| dead.poll(&mut desk) == 0));
            child.refused("wait", || dead.wait(None, &[]));
            child.refused("a short wait", || dead.wait(Some(Duration::ZERO), &[]));
            child.tries("cancel", || !dead.cancel(session, queued, &mut desk));
            child.tries("close", || {
                dead.close(session, &mut desk);
                dead.poll(&mut desk) == 0
            });
            child.tries("keep_trace", || {
                dead.keep_trace(16);
                dead.trace().is_empty()
            });
            child.tries("waker", || {
                dead.waker().wake();
                true
            });
            child.tries("its application is told nothing", || desk.outcomes.len() == outcomes);
            child.tries("a port of its own", || {
                let mut own = Client::start(&options).expect("a client");
                own.call(server.address, b"child", &calls) == Ok(b"child".to_vec())
            });
            child.tries("drop", || {
                drop(port.take());
                true
            });
        });

        let after = files(&[&run, &traces], &run);
        let parent = port.as_mut().expect("there");
        parent.answer(asked, Some(b"from the parent".into()), &mut desk).expect("it is waited for");
        until(parent, &mut desk, "the call that was queued", &|desk| desk.outcomes.len() == 2);
        parent.call(session, b"after", &calls, &mut desk).expect("accepted");
        until(parent, &mut desk, "the next call", &|desk| desk.outcomes.len() == 3);
        until(parent, &mut desk, "it is answered", &|_| asking.is_finished());
        wrong.extend(changes(&before, &after));
        wrong.extend(server.end(&[b"before", b"child", b"queued", b"after"]));
        assert_eq!(wrong, [""; 0], "{driver:?}");
        let answered = asking.join().expect("it did not panic");
        assert_eq!(answered, Ok(b"from the parent".to_vec()));
        let answers: Vec<_> = desk.outcomes.iter().map(|(_, outcome)| outcome.clone().expect("it ran")).collect();
        assert_eq!(answers, [&b"before"[..], b"queued", b"after"], "{driver:?}");
    }
}

#[test]
fn an_inherited_client_is_dead_in_a_forked_child() {
    if !alone(an_inherited_client_is_dead_in_a_forked_child) {
        return;
    }
    for driver in [DriverMode::Udp, DriverMode::Auto] {
        let dir = directory();
        let options = port_options(dir.path(), driver);
        let server = Server::start(&options);
        let mut client = Some(Client::start(&options).expect("a client"));
        let calls = CallOptions::default();
        let to = server.address;
        let before = client.as_mut().expect("there").call(to, b"before", &calls);
        assert_eq!(before, Ok(b"before".to_vec()));
        let mut wrong = in_child(|child| {
            let dead = client.as_mut().expect("inherited");
            child.refused("call", || dead.call(to, MARK, &calls));
            child.refused("a long call", || dead.call(to, &long(), &calls));
            child.refused("a call elsewhere", || dead.call(SocketAddr::from(([127, 0, 0, 1], 9)), MARK, &calls));
            child.tries("keep_trace", || {
                dead.keep_trace(16);
                true
            });
            child.tries("a client of its own", || {
                let mut own = Client::start(&options).expect("a client");
                own.call(to, b"child", &calls) == Ok(b"child".to_vec())
            });
            child.tries("drop", || {
                drop(client.take());
                true
            });
        });
        let after = client.as_mut().expect("there").call(to, b"after", &calls);
        wrong.extend(server.end(&[b"before", b"child", b"after"]));
        assert_eq!(wrong, [""; 0], "{driver:?}");
        assert_eq!(after, Ok(b"after".to_vec()));
    }
}

#[test]
fn an_inherited_caller_is_dead_in_a_forked_child() {
    if !alone(an_inherited_caller_is_dead_in_a_forked_child) {
        return;
    }
    for driver in [DriverMode::Udp, DriverMode::Auto] {
        let dir = directory();
        let options = port_options(dir.path(), driver);
        let server = Server::start(&options);
        let mut caller = Some(Caller::start(&options).expect("a caller"));
        let calls = CallOptions { deadline: PATIENCE, ..CallOptions::default() };
        let to = server.address;
        let parent = caller.as_ref().expect("there");
        assert_eq!(parent.call(to, b"before", &calls).wait(), Ok(b"before".to_vec()));
        let mut slow = [(); 3].map(|()| Some(parent.call(to, b"slow", &calls)));
        let began = Instant::now();
        while server.asked.lock().expect("no panic").len() < 4 {
            assert!(began.elapsed() < PATIENCE, "all are there");
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut wrong = in_child(|child| {
            let dead = caller.take().expect("inherited");
            child.refused("call", || dead.call(to, MARK, &calls).wait());
            child.refused("a long call", || dead.call(to, &long(), &calls).wait());
            child.refused("await", || pollster::block_on(dead.clone().call(to, MARK, &calls)));
            child.tries("what is not executed is said so", || {
                matches!(dead.call(to, MARK, &calls).wait(), Err(Failure::NotExecuted(_)))
            });
            let [first, second, third] = slow.each_mut().map(Option::take);
            child.tries("of a call of the parent's nothing is known", || {
                matches!(first.map(phalanx_runtime::rpc::Pending::wait), Some(Err(Failure::Unknown(_))))
            });
            child.refused("await a call of the parent's", || pollster::block_on(second.expect("inherited")));
            child.tries("give a call of the parent's up", || {
                drop(third);
                true
            });
            child.tries("trace_failure", || dead.trace_failure().is_none());
            child.tries("a caller of its own, and drop", || {
                let own = Caller::start(&options).expect("a caller");
                let made = own.call(to, b"child", &calls).wait() == Ok(b"child".to_vec());
                drop(dead);
                drop(own);
                made
            });
        });
        server.release.store(true, Ordering::Relaxed);
        let answers = slow.each_mut().map(|call| call.take().expect("there").wait());
        let after = caller.as_ref().expect("there").call(to, b"after", &calls).wait();
        drop(caller);
        wrong.extend(server.end(&[b"before", b"slow", b"slow", b"slow", b"child", b"after"]));
        assert_eq!(wrong, [""; 0], "{driver:?}");
        assert!(answers.iter().all(|answer| *answer == Ok(b"slow".to_vec())), "{answers:?}");
        assert_eq!(after, Ok(b"after".to_vec()));
    }
}

#[test]
fn an_inherited_belief_is_dead_in_a_forked_child() {
    if !alone(an_inherited_belief_is_dead_in_a_forked_child) {
        return;
    }
    let dir = directory();
    let (mut process, mut app) = (Inline::start(&options(dir.path(), "a")).expect("starts"), App::default());
    let belief = process.belief();
    while belief.look().membership != Membership::Primary {
        process.poll(&mut app);
    }
    let seen = belief.look();
    let mut waiting = Some(Box::pin(belief.changed(&seen)));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(waiting.as_mut().expect("there").as_mut().poll(&mut context).is_pending());
    let wrong = in_child(|child| {
        child.tries("it believes to be over", || belief.look().membership == Membership::Over);
        child.tries("never primary", || !belief.look().is_primary(Duration::from_secs(3600)));
        child.refused("wait for another belief", || belief.wait(&seen, None).map(drop));
        child.refused("a task for another belief", || pollster::block_on(belief.changed(&seen)).map(drop));
        child.tries("drop a task that waits", || {
            drop(waiting.take());
            true
        });
    });
    assert_eq!(wrong, [""; 0]);
    // The parent's is as alive as before.
    assert_eq!(belief.look().changes, seen.changes);
    drop(process);
    assert_eq!(belief.look().membership, Membership::Over);
}

#[test]
fn an_inherited_process_that_is_dropped_in_a_forked_child_takes_nothing_from_its_parent() {
    if !alone(an_inherited_process_that_is_dropped_in_a_forked_child_takes_nothing_from_its_parent) {
        return;
    }
    let dir = directory();
    let mut process = Some(Inline::start(&options(dir.path(), "a")).expect("starts"));
    let local = crate::common::local(dir.path());
    let before = local.living().expect("readable");
    assert_eq!(before.len(), 1);
    let wrong = in_child(|child| {
        child.tries("drop", || {
            drop(process.take());
            true
        });
    });
    assert_eq!(wrong, [""; 0]);
    assert_eq!(local.living().expect("readable"), before, "still present");
    assert!(before[0].counters.exists());
}
