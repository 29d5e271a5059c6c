//! Calls over real sockets.

use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use phalanx_runtime::config::{Config, DriverMode, SecurityMode};
use phalanx_runtime::core::Incarnation;
use phalanx_runtime::driver::{Faults, Lossy};
use phalanx_runtime::rpc::{
    CallId, CallOptions, Caller, Client, ClientCallId, Counters, Failure, HandlerResult, Outcome, Pending, Port,
    PortOptions, Reason, Refusal, Service,
};

/// Reverses the request.
struct Server;

impl Service for Server {
    fn request(&mut self, _: CallId, _: Incarnation, request: &[u8], answer: &mut Vec<u8>) -> HandlerResult {
        match request.split_first() {
            Some((b'!', _)) => HandlerResult::Refused,
            _ => {
                answer.extend(request.iter().rev());
                HandlerResult::Answered
            }
        }
    }
}

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<Counters>>,
    dir: tempfile::TempDir,
}

impl Running {
    fn start(loss_ppm: u32) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let options = options(dir.path());
        Self::start_with(loss_ppm, dir, options)
    }

    pub(crate) fn start_with(loss_ppm: u32, dir: tempfile::TempDir, options: PortOptions) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let (tell, told) = std::sync::mpsc::channel();
        let options = PortOptions { serves: true, ..options };
        let ending = Arc::clone(&end);
        let thread = std::thread::spawn(move || {
            let faults = Faults { loss_ppm, ..Faults::default() };
            let mut port = Port::start_with(&options, |driver| Lossy::new(driver, faults, 7)).expect("a port");
            tell.send(port.address()).expect("it is waited for");
            while !ending.load(Ordering::Relaxed) {
                if port.poll(&mut Server) == 0 {
                    port.wait(Some(Duration::from_millis(20)), &[]).expect("a wait");
                }
            }
            *port.counters()
        });
        let address = told.recv().expect("it starts");
        Self { address, end, thread: Some(thread), dir }
    }

    fn client(&self) -> Client {
        Client::start(&options(self.dir.path())).expect("a client")
    }

    pub(crate) fn end(mut self) -> Counters {
        self.end.store(true, Ordering::Relaxed);
        self.thread.take().expect("once").join().expect("it did not panic")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

fn options(dir: &std::path::Path) -> PortOptions {
    let (runtime_dir, state_dir) = (Some(dir.join("run")), Some(dir.join("state")));
    let config = Config { runtime_dir, state_dir, ..Config::default() };
    PortOptions { config, ..PortOptions::default() }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[test]
fn messages_of_any_length_come_back() {
    let server = Running::start(0);
    let mut client = server.client();
    for len in [0, 1, 64, 1_000, 32_000, 33_000, 1 << 20, 20 << 20] {
        let request = pattern(len);
        let answer = client.call(server.address, &request, &CallOptions::default()).expect("an answer");
        assert!(answer.iter().rev().eq(request.iter()), "{len} bytes");
    }
    assert_eq!(server.end().served, 8);
}

#[test]
fn endpoints_on_one_host_use_shared_memory_unless_configured_otherwise() {
    for (driver, through_memory) in [(DriverMode::Auto, true), (DriverMode::Udp, false)] {
        let server = Running::start(0);
        let mut options = options(server.dir.path());
        options.config.driver = driver;
        let mut client = Client::start(&options).expect("a client");
        for n in 0..100 {
            let request = pattern(n * 1_000);
            let answer = client.call(server.address, &request, &CallOptions::default()).expect("an answer");
            assert!(answer.iter().rev().eq(request.iter()));
        }
        let (client, server) = (*client.port().counters(), server.end());
        assert_eq!(server.served, 100);
        // The first packets were sent before the two had attached each other.
        let most = |counters: &Counters| counters.packets_shared > counters.packets_sent / 2;
        let none = |counters: &Counters| counters.packets_shared == 0;
        for counters in [&client, &server] {
            assert!(if through_memory { most(counters) } else { none(counters) }, "{driver:?}: {counters:?}");
        }
    }
}

/// The memory of a process that ended stays mapped at those that read it, so nothing but a datagram shows that another
/// one is at its address.
#[test]
fn a_server_that_restarts_is_found_by_clients_that_share_memory_with_the_earlier_one() {
    // The key is kept when the first server ends.
    let (kept, directory) = (tempfile::tempdir().expect("a directory"), || tempfile::tempdir().expect("a directory"));
    let server = Running::start_with(0, directory(), options(kept.path()));
    let mut client = Client::start(&options(kept.path())).expect("a client");
    for _ in 0..20 {
        client.call(server.address, b"x", &CallOptions::default()).expect("an answer");
    }
    assert!(client.port().counters().packets_shared > 0, "they share memory");
    let config = Config { data_port: server.address.port(), ..options(kept.path()).config };
    server.end();
    let gone = client.call(SocketAddr::new(config.bind, config.data_port), b"x", &CallOptions::default());
    assert_eq!(gone, Err(Failure::Unknown(Reason::SessionLost)), "the default deadline is far away");
    let again = Running::start_with(0, directory(), PortOptions { config, ..PortOptions::default() });
    let patient = CallOptions { waits_for_server: true, ..CallOptions::default() };
    assert_eq!(client.call(again.address, b"xy", &patient), Ok(b"yx".to_vec()));
    again.end();
}

/// All of 127.0.0.0/8 is this host. A packet to one of these addresses, answered by a socket on all of them, is
/// answered from another address.
#[test]
fn a_server_on_all_addresses_of_its_host_is_reached_at_each() {
    for driver in [DriverMode::Auto, DriverMode::Udp] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut options = options(dir.path());
        options.config.driver = driver;
        let key = dir.path().join("key");
        std::fs::write(&key, "07".repeat(32)).expect("a key");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("its owner's");
        options.config.cell_key = Some(key);
        let mut everywhere = options.clone();
        everywhere.config.bind = "0.0.0.0".parse().expect("an address");
        let server = Running::start_with(0, dir, everywhere);
        assert!(server.address.ip().is_unspecified());
        for ip in ["127.0.0.1", "127.0.0.2", "127.3.4.5"] {
            let at = SocketAddr::new(ip.parse().expect("an address"), server.address.port());
            let mut client = Client::start(&options).expect("a client");
            for len in [3, 100_000] {
                let request = pattern(len);
                let answer = client.call(at, &request, &CallOptions::default());
                let answer = answer.unwrap_or_else(|failure| panic!("{ip}, {driver:?}: {failure}"));
                assert!(answer.iter().rev().eq(request.iter()));
            }
        }
        assert_eq!(server.end().served, 6);
    }
}

/// A proxy between a client and its server: the server sees its address, and another one with each new number.
struct Router {
    address: SocketAddr,
    number: Arc<AtomicUsize>,
    end: Arc<AtomicBool>,
}

impl Router {
    fn start(server: SocketAddr) -> Self {
        let open = || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            socket.set_read_timeout(Some(Duration::from_micros(100))).expect("a timeout");
            socket
        };
        let inside = open();
        let address = inside.local_addr().expect("an address");
        let (number, end) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (numbered, ending) = (Arc::clone(&number), Arc::clone(&end));
        std::thread::spawn(move || {
            let (mut outside, mut known, mut client) = (open(), 0, None);
            let mut packet = [0; 65_536];
            while !ending.load(Ordering::Relaxed) {
                if numbered.load(Ordering::Relaxed) != known {
                    (outside, known) = (open(), known + 1);
                }
                if let Ok((len, from)) = inside.recv_from(&mut packet) {
                    client = Some(from);
                    outside.send_to(&packet[..len], server).expect("sent");
                }
                while let (Ok(len), Some(client)) = (outside.recv(&mut packet), client) {
                    inside.send_to(&packet[..len], client).expect("sent");
                }
            }
        });
        Self { address, number, end }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_client_behind_a_router_that_renumbers_goes_on_in_its_session() {
    let server = Running::start(0);
    let router = Router::start(server.address);
    let mut options = options(server.dir.path());
    options.config.driver = DriverMode::Udp;
    let mut client = Client::start(&options).expect("a client");
    for len in [3, 500_000, 3, 500_000, 500_000] {
        let request = pattern(len);
        let answer = client.call(router.address, &request, &CallOptions::default()).expect("an answer");
        assert!(answer.iter().rev().eq(request.iter()), "{len} bytes");
        router.number.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(2));
    }
    let counters = *client.port().counters();
    assert_eq!((counters.sessions_opened, counters.sessions_lost), (1, 0));
    assert_eq!(server.end().served, 5);
}

#[test]
fn lost_packets_cost_time_and_nothing_else() {
    let server = Running::start(50_000);
    let mut client = server.client();
    for n in 0..200_usize {
        let request = pattern(n * 100);
        let answer = client.call(server.address, &request, &CallOptions::default()).expect("an answer");
        assert!(answer.iter().rev().eq(request.iter()));
    }
    let counters = server.end();
    assert_eq!(counters.served, 200, "{counters:?}");
}

/// Keeps outcomes.
#[derive(Default)]
struct Ended(Vec<Result<Vec<u8>, Failure>>);

impl Service for Ended {
    fn outcome(&mut self, _: ClientCallId, outcome: Outcome<'_>) {
        self.0.push(outcome.to_result());
    }
}

#[test]
fn a_pause_of_the_application_takes_nothing_from_the_next_call() {
    let server = Running::start(0);
    let mut ended = Ended::default();
    let mut port = Port::start(&options(server.dir.path())).expect("a port");
    let session = port.connect(server.address, &mut ended);
    for round in 1..=3 {
        let how = CallOptions { deadline: Duration::from_millis(400), ..CallOptions::default() };
        port.call(session, &b"x"[..], &how, &mut ended).expect("accepted");
        // The last poll had work, so its time says nothing of the time until the next call.
        while ended.0.len() < round {
            port.poll(&mut ended);
        }
        assert_eq!(ended.0.last(), Some(&Ok(b"x".to_vec())));
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn a_refused_call_did_not_run_and_one_without_a_server_neither() {
    let server = Running::start(0);
    let mut client = server.client();
    let refused = client.call(server.address, b"!", &CallOptions::default());
    assert_eq!(refused, Err(Failure::NotExecuted(Reason::Refused(Refusal::NoService))));
    let address = server.address;
    server.end();
    let nobody = client.call(address, b"x", &CallOptions::default());
    assert_eq!(nobody, Err(Failure::Unknown(Reason::SessionLost)), "it was sent");
    let nobody = client.call(address, b"x", &CallOptions::default());
    assert_eq!(nobody, Err(Failure::NotExecuted(Reason::Unreachable)), "the session is over");
    let mut fresh = Client::start(&options(tempfile::tempdir().expect("a directory").path())).expect("a client");
    // The default deadline is far away: the system's report ends the calls.
    let nobody = fresh.call(address, b"x", &CallOptions::default());
    assert_eq!(nobody, Err(Failure::NotExecuted(Reason::Unreachable)), "it never was");
    let how = CallOptions { deadline: Duration::from_millis(50), waits_for_server: true, ..CallOptions::default() };
    assert_eq!(fresh.call(address, b"x", &how), Err(Failure::NotExecuted(Reason::NoAnswer)), "it waited");
}

#[test]
fn threads_and_tasks_call_at_once() {
    let server = Running::start(0);
    let caller = Caller::start(&options(server.dir.path())).expect("a caller");
    std::thread::scope(|threads| {
        for thread in 0..4_usize {
            let (caller, address) = (caller.clone(), server.address);
            threads.spawn(move || {
                for n in 0..50 {
                    let request = pattern(thread * 1_000 + n * 100);
                    let answer = caller.call(address, &request, &CallOptions::default()).wait().expect("an answer");
                    assert!(answer.iter().rev().eq(request.iter()));
                }
            });
        }
    });
    let task = async {
        let options = CallOptions::default();
        let calls: Vec<Pending> = (0..40).map(|n| caller.call(server.address, &pattern(n), &options)).collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.expect("an answer").len(), n);
        }
    };
    pollster::block_on(task);
    assert_eq!(server.end().served, 4 * 50 + 40);
}

#[test]
fn a_caller_that_ends_leaves_no_task_waiting() {
    let dir = tempfile::tempdir().expect("a directory");
    let caller = Caller::start(&options(dir.path())).expect("a caller");
    // No process is there.
    let server = "127.0.0.1:9".parse().expect("an address");
    let patient = CallOptions { deadline: Duration::from_secs(600), ..CallOptions::default() };
    let given_up = caller.call(server, b"a", &patient);
    let waits = caller.call(server, b"b", &patient);
    drop(given_up);
    drop(caller);
    // On a busy host the system may say first that nobody is there.
    let ended = waits.wait();
    let reasons = [Reason::Cancelled, Reason::Unreachable].map(|reason| Err(Failure::NotExecuted(reason)));
    assert!(reasons.contains(&ended), "{ended:?}");
}

#[test]
fn a_server_with_another_key_does_not_answer() {
    let server = Running::start(0);
    let dir = tempfile::tempdir().expect("a directory");
    let mut stranger = Client::start(&options(dir.path())).expect("a client");
    let how = CallOptions { deadline: Duration::from_millis(100), ..CallOptions::default() };
    assert_eq!(stranger.call(server.address, b"x", &how), Err(Failure::NotExecuted(Reason::NoAnswer)));
    let mut config = options(server.dir.path()).config;
    config.security = SecurityMode::None;
    let mut clear = Client::start(&PortOptions { config, ..PortOptions::default() }).expect("a client");
    assert_eq!(clear.call(server.address, b"x", &how), Err(Failure::NotExecuted(Reason::NoAnswer)));
    let counters = server.end();
    assert!(counters.drops.iter().sum::<u64>() >= 2, "counted: {counters:?}");
}
