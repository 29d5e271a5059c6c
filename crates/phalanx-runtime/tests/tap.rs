//! Looking at the packets of members and of endpoints of calls, over real sockets.

use std::path::Path;
use std::sync::mpsc::{Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, directory, options};
use phalanx_runtime::config::{Config, DriverMode, TapMode};
use phalanx_runtime::core::wire::{Header, Kind};
use phalanx_runtime::core::{Delivery, Event, GroupId, GroupTerms, Order, Stability};
use phalanx_runtime::rpc::{Client, PortOptions};
use phalanx_runtime::tap::{Form, Place, PointKind, Reader, Shown, Stats, TapError, Wanted, places};
use phalanx_runtime::{Handler, Inline, Options};

#[derive(Default)]
struct App {
    group: Option<GroupId>,
    members: usize,
    delivered: usize,
}

impl Handler for App {
    fn deliver(&mut self, _: &Delivery<'_>) {
        self.delivered += 1;
    }

    fn event(&mut self, event: Event) {
        if let Event::GroupView(view) = event {
            (self.group, self.members) = (Some(view.group), view.members.len());
        }
    }
}

type Cell = Vec<(Inline, App)>;
type Act = Box<dyn FnOnce(&mut Cell) + Send>;

/// Members that a thread polls.
struct Members {
    acts: Option<Sender<Act>>,
    thread: Option<JoinHandle<()>>,
}

impl Members {
    fn start(all: Vec<Options>) -> Self {
        let (acts, todo) = channel::<Act>();
        let thread = thread::spawn(move || {
            let mut cell: Cell =
                all.iter().map(|options| (Inline::start(options).expect("it starts"), App::default())).collect();
            loop {
                match todo.try_recv() {
                    Ok(act) => act(&mut cell),
                    Err(TryRecvError::Empty) => {}
                    Err(TryRecvError::Disconnected) => return,
                }
                for (member, app) in &mut cell {
                    if !member.poll(app).more {
                        member.wait(Some(Duration::from_millis(1))).expect("it waits");
                    }
                }
            }
        });
        let members = Self { acts: Some(acts), thread: Some(thread) };
        members.act(|_| ()); // they started
        members
    }

    /// Lets the polling thread do something, and waits for its result.
    fn act<T: Send + 'static>(&self, act: impl FnOnce(&mut Cell) -> T + Send + 'static) -> T {
        let (tell, told) = channel();
        let act: Act = Box::new(move |cell| drop(tell.send(act(cell))));
        self.acts.as_ref().expect("it runs").send(act).expect("it runs");
        told.recv_timeout(PATIENCE).expect("it answers")
    }

    fn until(&self, is_so: impl Fn(&mut Cell) -> bool + Clone + Send + 'static) {
        let begun = Instant::now();
        while !self.act(is_so.clone()) {
            assert!(begun.elapsed() < PATIENCE, "it does not come to that");
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn join(&self, name: &'static str) {
        self.act(move |cell| {
            for (member, app) in cell {
                member.join_group(name, false, GroupTerms::default(), app).expect("it may join");
            }
        });
        self.until(|cell| {
            let count = cell.len();
            cell.iter().all(|(_, app)| app.members == count)
        });
    }

    /// One after the other, from all in turn.
    fn multicast(&self, count: usize) {
        for sent in 0..count {
            self.act(move |cell| {
                let from = sent % cell.len();
                let (member, app) = &mut cell[from];
                let group = app.group.expect("it is a member");
                member.multicast(group, Order::Total, Stability::GroupDefault, &[7; 200], app).expect("there is room");
            });
            self.until(move |cell| cell.iter().all(|(_, app)| app.delivered > sent));
        }
        self.act(|cell| cell.iter_mut().for_each(|(_, app)| app.delivered = 0));
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        self.acts = None;
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || ended.is_none_or(|ended| ended.is_ok()), "the polling thread panicked");
    }
}

fn config(directory: &Path, name: &str, tap: TapMode) -> Config {
    Config { tap, ..options(directory, name).config }
}

fn wanted(filter: &str, form: Form) -> Wanted {
    Wanted { filter: filter.to_owned(), form, snap: 2_000, ring_bytes: 1 << 20 }
}

/// What waits, as headers with their directions.
fn headers(reader: &mut Reader) -> Vec<(Header, bool)> {
    let mut all = Vec::new();
    while let Some(shown) = reader.read().expect("sound") {
        if let Shown::Packet(seen, _) = shown {
            all.push((Header::parse(seen.parts[0]).expect("a header"), seen.is_sent));
        }
    }
    all
}

fn the_place(config: &Config) -> Place {
    let mut places = places(config).expect("the directory can be read");
    assert_eq!(places.len(), 1, "one socket a process: {places:?}");
    places.remove(0)
}

#[test]
fn members_show_their_packets_and_a_filter_follows_the_views() {
    let dir = directory();
    // Datagrams, so that packets are sealed.
    let all = ["ann", "bob"].map(|name| {
        let config = Config { driver: DriverMode::Udp, ..config(dir.path(), name, TapMode::Sealed) };
        Options::from(config)
    });
    let config = all[0].config.clone();
    let members = Members::start(all.to_vec());
    let place = the_place(&config);
    assert_eq!(place.pid, std::process::id());
    let names: Vec<_> = place.points.iter().map(|point| (point.kind, point.name.as_str(), point.is_clear)).collect();
    assert_eq!(names, [(PointKind::Member, "ann", false), (PointKind::Member, "bob", false)]);

    // Before there is such a group: from its first packet on.
    let mut reader = Reader::attach(&place, &wanted("group numbers", Form::Sealed)).expect("it may");
    assert_eq!(reader.points().len(), 2);
    assert!(reader.unbound().any(|text| text.contains("no group is called 'numbers'")));
    let mut other = Reader::attach(&place, &wanted("type control", Form::Sealed)).expect("two may");
    members.join("numbers");
    members.multicast(20);
    let seen = headers(&mut reader);
    assert!(seen.iter().all(|(header, _)| header.kind == Kind::Multicast));
    let sent: Vec<_> = seen.iter().filter(|(_, is_sent)| *is_sent).collect();
    for (first, _) in &sent {
        let of_stream = sent.iter().filter(|(one, _)| (one.sender, one.space) == (first.sender, first.space));
        assert_eq!(of_stream.map(|(one, _)| one.number.0).min(), Some(1), "each stream from its first packet on");
    }
    assert!(sent.len() >= 20, "{} sent", sent.len());
    assert_eq!(sent.len(), seen.len() - sent.len(), "each has one receiver, which shows it, too");
    thread::sleep(Duration::from_millis(120));
    let Stats { seen: run, matched, lost } = reader.stats();
    assert_eq!((matched, lost), (seen.len() as u64, 0));
    assert!(run > matched);
    let seen = headers(&mut other);
    assert!(!seen.is_empty() && seen.iter().all(|(header, _)| header.kind == Kind::Control));

    // Another filter, a wrong one, and one that asks for too much.
    reader.change("type multicast and rank 1 of numbers").expect("it may");
    let wrong = reader.change("type multicast and of quotes").expect_err("it makes no sense");
    assert_eq!(wrong.to_string(), "byte 19: expected a type such as 'multicast', not 'of'");
    let wrong = reader.change("order total").expect_err("it is sealed");
    assert!(wrong.to_string().contains("sealed"), "{wrong}");
    drop(headers(&mut reader));
    members.multicast(3);
    let ranks: Vec<_> = headers(&mut reader).into_iter().map(|(header, _)| header.sender).collect();
    let second = members.act(|cell| cell[1].0.node().incarnation());
    assert!(!ranks.is_empty() && ranks.iter().all(|who| *who == second), "the filter that it had last holds");

    // Dropped: soon nobody is attached.
    drop((reader, other));
    members.until(|cell| {
        let mut readers = 0;
        let mut count = |name: &'static str, value| readers += if name == "tap_readers" { value } else { 0 };
        cell.iter()
            .for_each(|(member, _)| phalanx_runtime::driver::Driver::counters(member.node().driver(), &mut count));
        readers == 0
    });

    // A member that ends says so, and the last one takes the socket with it.
    let mut reader = Reader::attach(&place, &wanted("", Form::Sealed)).expect("it may");
    members.act(|cell| drop(cell.pop()));
    let begun = Instant::now();
    while reader.take_notices().iter().all(|notice| !notice.contains("bob")) {
        assert!(begun.elapsed() < PATIENCE, "it is told");
        drop(headers(&mut reader));
    }
    assert!(!reader.is_over());
    drop(members);
    while !reader.is_over() {
        assert!(begun.elapsed() < PATIENCE, "it is told");
        drop(headers(&mut reader));
    }
    assert!(places(&config).expect("readable").is_empty());
}

#[test]
fn packets_in_clear_need_the_process_to_allow_it() {
    let dir = directory();
    let all = ["ann", "bob"]
        .map(|name| Options::from(Config { driver: DriverMode::Auto, ..config(dir.path(), name, TapMode::Clear) }));
    let config = all[0].config.clone();
    let members = Members::start(all.to_vec());
    let place = the_place(&config);
    let filter = "group numbers and order total and out and memory";
    let mut reader = Reader::attach(&place, &wanted(filter, Form::Clear)).expect("it may");
    members.join("numbers");
    members.until(|cell| {
        cell.iter().all(|(member, _)| {
            let mut readers = 0;
            let mut count = |name: &'static str, value| readers += if name == "shm_readers" { value } else { 0 };
            phalanx_runtime::driver::Driver::counters(member.node().driver(), &mut count);
            readers == 1
        })
    });
    members.multicast(10);
    let mut payloads = 0;
    let mut names = String::new();
    while let Some(shown) = reader.read().expect("sound") {
        match shown {
            Shown::Names(text) => names = format!("{text}\n"),
            Shown::Packet(seen, form) => {
                assert!(form == Form::Clear && seen.is_memory && seen.is_sent);
                payloads += usize::from(seen.parts[1].windows(200).any(|bytes| bytes == [7; 200]));
            }
        }
    }
    assert!(payloads >= 10, "{payloads}");
    assert!(names.contains(" ann\n") && names.contains(" bob\n") && names.contains(" numbers\n"), "{names}");
    drop(members);

    let dir = directory();
    let options = Options::from(self::config(dir.path(), "cid", TapMode::Sealed));
    let members = Members::start(vec![options.clone()]);
    let place = the_place(&options.config);
    let refused = Reader::attach(&place, &wanted("", Form::Clear)).expect_err("it shows sealed ones only");
    assert!(matches!(&refused, TapError::Refused(text) if text.contains("tap = \"clear\"")), "{refused}");
    drop(members);
}

#[test]
fn a_process_takes_eight_readers_and_none_if_its_setting_is_off() {
    let dir = directory();
    let [on, off] = [("on", TapMode::Sealed), ("off", TapMode::Off)].map(|(name, tap)| config(dir.path(), name, tap));
    let members = Members::start(vec![Options::from(off.clone())]);
    assert!(places(&off).expect("readable").is_empty());
    drop(members);

    let members = Members::start(vec![Options::from(on.clone())]);
    let place = the_place(&on);
    let mut readers: Vec<_> =
        (0..8).map(|_| Reader::attach(&place, &wanted("", Form::Sealed)).expect("it may")).collect();
    let refused = Reader::attach(&place, &wanted("", Form::Sealed)).expect_err("eight are attached");
    assert!(refused.to_string().contains("8 readers"), "{refused}");
    drop(readers.pop());
    let begun = Instant::now();
    while Reader::attach(&place, &wanted("", Form::Sealed)).is_err() {
        assert!(begun.elapsed() < PATIENCE, "there is room again");
        thread::sleep(Duration::from_millis(10));
    }
    // Who does not poll does not answer.
    let (go, wait) = channel::<()>();
    members.acts.as_ref().expect("it runs").send(Box::new(move |_| wait.recv().unwrap_or_default())).expect("it runs");
    drop(readers);
    let silent = Reader::attach(&place, &wanted("", Form::Sealed)).expect_err("it does not poll");
    assert!(matches!(silent, TapError::Silent { .. }), "{silent}");
    let asked = the_place(&on);
    assert!(asked.points.is_empty());
    go.send(()).expect("it waits");
    drop(members);
    let ended = Reader::attach(&place, &wanted("", Form::Sealed)).expect_err("it ended");
    assert!(matches!(ended, TapError::Ended { .. }), "{ended}");
}

#[test]
fn the_socket_of_a_killed_process_is_removed_and_a_lost_one_is_made_again() {
    let dir = directory();
    let on = config(dir.path(), "on", TapMode::Sealed);
    let members = Members::start(vec![Options::from(on.clone())]);
    let place = the_place(&on);
    std::fs::remove_file(&place.socket).expect("it is there");
    let begun = Instant::now();
    while places(&on).expect("readable").is_empty() {
        assert!(begun.elapsed() < PATIENCE, "it is there again");
        thread::sleep(Duration::from_millis(20));
    }
    // As a killed process leaves it: nobody listens.
    let scope = place.socket.parent().expect("a directory");
    let stale = scope.join("tap-1-0000000000000001");
    drop(std::os::unix::net::UnixDatagram::bind(&stale).expect("it can be made"));
    assert!(stale.exists());
    assert_eq!(places(&on).expect("readable").len(), 1);
    drop(members);
}

/// An endpoint of calls that answers, polled by a thread.
fn serve(config: &Config) -> crate::rpc::Running {
    crate::rpc::Running::start_with(0, directory(), PortOptions { config: config.clone(), ..PortOptions::default() })
}

#[test]
fn calls_show_their_packets_too_with_handshakes_and_repairs() {
    let dir = directory();
    let mode = Config { driver: DriverMode::Udp, ..config(dir.path(), "caller", TapMode::Clear) };
    let server = serve(&mode);
    let mut client = Client::start(&PortOptions { config: mode.clone(), ..PortOptions::default() }).expect("a client");
    let place = {
        // Both endpoints are of this process, and have one socket.
        let mut found = None;
        thread::scope(|scope| {
            let asked = scope.spawn(|| the_place(&mode));
            while !asked.is_finished() {
                let _ = client.call(server.address, b"are you there", &Default::default());
            }
            found = Some(asked.join().expect("it ends"));
        });
        found.expect("it is there")
    };
    assert_eq!(place.points.len(), 2);
    assert!(place.points.iter().all(|point| point.kind == PointKind::Calls));
    let (mut sealed, mut clear) = thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let sealed = Reader::attach(&place, &wanted("", Form::Sealed)).expect("it may");
            (sealed, Reader::attach(&place, &wanted("frame (request or answer)", Form::Clear)).expect("it may"))
        });
        while !asked.is_finished() {
            let _ = client.call(server.address, b"are you there", &Default::default());
        }
        asked.join().expect("it ends")
    });
    drop((headers(&mut sealed), headers(&mut clear)));
    for _ in 0..5 {
        client.call(server.address, &[3; 100], &Default::default()).expect("an answer");
    }
    let all = headers(&mut sealed);
    assert!(all.iter().all(|(header, _)| header.kind == Kind::Session));
    assert!(all.len() >= 20, "five requests and five answers, sent and received: {}", all.len());
    let some = headers(&mut clear);
    assert!(some.len() >= 20 && some.len() <= all.len(), "{} of {}", some.len(), all.len());
    server.end();
}
