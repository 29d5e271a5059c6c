//! The two ends of a call, as processes of their own: with all guarantees, without any, and over TCP.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use phalanx::config::Config;
use phalanx::core::rpc::{CallEffects, Plain, PlainOptions};
use phalanx::core::{Incarnation, Lane, MESSAGE_BYTES_MAX};
use phalanx::driver::{Driver, Transmit, Udp, UdpOptions, Wait};
use phalanx::local::LocalCell;
use phalanx::rpc::{CallId, CallOptions, Outcome, Port, PortOptions, Served, Service, SessionId, Ticket};
use serde::{Deserialize, Serialize};

use crate::child::{listen, now_ns, say};
use crate::choice::{Security, Transport, Waiting, configure};
use crate::error::{BenchError, While};
use crate::histogram::Times;
use crate::protocol::{Command, Report};

/// What carries a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Carrier {
    /// Sessions: at most once.
    Reliable,
    /// Datagrams under the same seal by the same driver, and nothing else.
    Plain,
    /// A stream of the kernel's.
    Tcp,
}

impl Carrier {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reliable => "reliable",
            Self::Plain => "unreliable",
            Self::Tcp => "TCP",
        }
    }
}

/// One end of calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CallRole {
    pub(crate) carrier: Carrier,
    pub(crate) security: Security,
    pub(crate) wait: Waiting,
    pub(crate) directory: PathBuf,
    /// Where the server is; `None`: this is the server.
    pub(crate) server: Option<u16>,
}

/// What carries calls, at either end.
trait End {
    fn port(&self) -> u16;
    /// Takes what came; whether anything did.
    fn turn(&mut self, heard: &mut Heard) -> Result<bool, BenchError>;
    fn sleep(&mut self, most: Duration) -> Result<(), BenchError>;
    fn call(&mut self, request: &[u8], heard: &mut Heard) -> Result<(), BenchError>;
}

/// The echo that a server gives, and the answers that a client gets.
#[derive(Default)]
struct Heard {
    answers: u64,
    answer_bytes: usize,
    failed: u64,
}

impl Heard {
    fn take(&mut self, outcome: Outcome<'_>) {
        match outcome {
            Outcome::Answer(answer) => {
                self.answers += 1;
                self.answer_bytes = answer.len();
            }
            Outcome::Failed(_) => self.failed += 1,
        }
    }
}

impl Service for Heard {
    #[inline]
    fn request(&mut self, _: CallId, _: Incarnation, request: &[u8], answer: &mut Vec<u8>) -> Served {
        answer.extend_from_slice(request);
        Served::Answered
    }

    #[inline]
    fn outcome(&mut self, _: Ticket, outcome: Outcome<'_>) {
        self.take(outcome);
    }
}

fn config(role: &CallRole) -> Config {
    let mut config = Config { runtime_dir: Some(role.directory.clone()), ..Config::default() };
    configure(&mut config, Transport::Udp, role.security);
    config
}

struct Reliable {
    port: Port,
    session: Option<SessionId>,
}

impl Reliable {
    fn start(role: &CallRole) -> Result<Self, BenchError> {
        let serves = role.server.is_none();
        let options = PortOptions { config: config(role), serves, ..PortOptions::default() };
        let mut port = Port::start(&options).map_err(|error| BenchError::Child(error.to_string()))?;
        let server = role.server.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let session = server.map(|server| port.connect(server, &mut Heard::default()));
        Ok(Self { port, session })
    }
}

impl End for Reliable {
    fn port(&self) -> u16 {
        self.port.address().port()
    }

    #[inline]
    fn turn(&mut self, heard: &mut Heard) -> Result<bool, BenchError> {
        Ok(self.port.turn(heard) > 0)
    }

    fn sleep(&mut self, most: Duration) -> Result<(), BenchError> {
        self.port.wait(Some(most), &[]).map(drop).when("cannot wait")
    }

    #[inline]
    fn call(&mut self, request: &[u8], heard: &mut Heard) -> Result<(), BenchError> {
        let Some(session) = self.session else { return Ok(()) };
        let called = self.port.call(session, request, &CallOptions::default(), heard);
        called.map(drop).map_err(|error| BenchError::Child(error.to_string()))
    }
}

struct Unreliable {
    driver: Udp,
    plain: Plain,
    server: Option<SocketAddr>,
}

struct PlainSink<'a, T: ?Sized> {
    outbox: &'a mut T,
    heard: &'a mut Heard,
}

impl<T: Transmit + ?Sized> CallEffects for PlainSink<'_, T> {
    fn transmit(&mut self, lane: Lane, to: &[SocketAddr], packet: &[u8]) {
        self.outbox.transmit(lane, to, packet);
    }

    #[inline]
    fn request(&mut self, call: CallId, from: Incarnation, request: &[u8], answer: &mut Vec<u8>) -> Served {
        self.heard.request(call, from, request, answer)
    }

    #[inline]
    fn outcome(&mut self, _: Ticket, outcome: Outcome<'_>) {
        self.heard.take(outcome);
    }
}

impl Unreliable {
    fn start(role: &CallRole) -> Result<Self, BenchError> {
        let failed = |error: &dyn std::fmt::Display| BenchError::Child(error.to_string());
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let options = UdpOptions { data: any, control: any, ..UdpOptions::default() };
        let driver = Udp::bind(&options).map_err(|error| failed(&error))?;
        let config = config(role);
        let security = match role.security {
            Security::None => phalanx::core::Security::None,
            Security::Sealed => {
                let local =
                    LocalCell::open(config.runtime_dir.as_deref(), &config.cell).map_err(|error| failed(&error))?;
                phalanx::core::Security::Sealed(local.key().map_err(|error| failed(&error))?)
            }
        };
        let options = PlainOptions {
            cell: config.cell,
            me: Incarnation(now_ns() | 1),
            packet_bytes: driver.packet_bytes_max(),
            message_bytes: MESSAGE_BYTES_MAX,
        };
        let server = role.server.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        Ok(Self { driver, plain: Plain::new(&options, &security), server })
    }
}

impl End for Unreliable {
    fn port(&self) -> u16 {
        self.driver.local_address(Lane::Data).port()
    }

    #[inline]
    fn turn(&mut self, heard: &mut Heard) -> Result<bool, BenchError> {
        let Self { driver, plain, .. } = self;
        driver.flush();
        let mut packets = 0;
        loop {
            let took = driver.receive(64, &mut |outbox, _, origin, packet| {
                plain.handle_packet(origin, packet, &mut PlainSink { outbox, heard: &mut *heard });
            });
            packets += took.packets;
            driver.flush();
            if !took.more {
                return Ok(packets > 0);
            }
        }
    }

    fn sleep(&mut self, most: Duration) -> Result<(), BenchError> {
        self.driver.wait(Some(most), &[]).map(drop).when("cannot wait")
    }

    #[inline]
    fn call(&mut self, request: &[u8], heard: &mut Heard) -> Result<(), BenchError> {
        if let Some(server) = self.server {
            self.plain.call(server, request, &mut PlainSink { outbox: self.driver.outbox(), heard });
        }
        Ok(())
    }
}

/// Messages with their length in front, on one connection.
struct Tcp {
    listener: Option<TcpListener>,
    stream: Option<TcpStream>,
    waiting: Waiting,
    buffer: Vec<u8>,
    filled: usize,
}

const LENGTH_BYTES: usize = 8;

impl Tcp {
    fn start(role: &CallRole) -> Result<Self, BenchError> {
        let (listener, stream) = match role.server {
            None => (Some(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).when("cannot listen")?), None),
            Some(port) => (None, Some(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).when("cannot connect")?)),
        };
        let mut end = Self { listener, stream, waiting: role.wait, buffer: vec![0; 1 << 20], filled: 0 };
        end.set_up()?;
        Ok(end)
    }

    fn set_up(&mut self) -> Result<(), BenchError> {
        let doing = "cannot set up a connection";
        if let Some(listener) = &self.listener {
            listener.set_nonblocking(true).when(doing)?;
        }
        if let Some(stream) = &self.stream {
            stream.set_nodelay(true).when(doing)?;
            stream.set_nonblocking(self.waiting == Waiting::Spin).when(doing)?;
            stream.set_read_timeout((self.waiting == Waiting::Block).then_some(LOOK)).when(doing)?;
        }
        Ok(())
    }

    fn write(stream: &mut TcpStream, mut bytes: &[u8]) -> Result<(), BenchError> {
        while !bytes.is_empty() {
            match stream.write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if is_nothing(&error) => {}
                Err(error) => return Err(error).when("cannot send"),
            }
        }
        Ok(())
    }
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::TimedOut)
}

impl End for Tcp {
    fn port(&self) -> u16 {
        self.listener.as_ref().and_then(|listener| listener.local_addr().ok()).map_or(0, |address| address.port())
    }

    fn turn(&mut self, heard: &mut Heard) -> Result<bool, BenchError> {
        let Some(stream) = &mut self.stream else {
            match self.listener.as_ref().map(TcpListener::accept) {
                Some(Ok((stream, _))) => {
                    self.stream = Some(stream);
                    self.set_up()?;
                }
                Some(Err(error)) if !is_nothing(&error) => return Err(error).when("cannot accept"),
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
            return Ok(true);
        };
        if self.buffer.len() - self.filled < self.buffer.len() / 2 {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        match stream.read(&mut self.buffer[self.filled..]) {
            Ok(0) => {
                if self.listener.is_some() {
                    self.stream = None;
                }
                return Ok(false);
            }
            Ok(came) => self.filled += came,
            Err(error) if is_nothing(&error) => return Ok(false),
            Err(error) => return Err(error).when("cannot receive"),
        }
        let Some(length) = self.buffer.first_chunk::<LENGTH_BYTES>() else { return Ok(true) };
        let whole = LENGTH_BYTES + usize::try_from(u64::from_le_bytes(*length)).unwrap_or(0);
        if self.filled < whole {
            return Ok(true);
        }
        if self.listener.is_some() {
            Self::write(stream, &self.buffer[..whole])?;
        } else {
            heard.take(Outcome::Answer(&self.buffer[LENGTH_BYTES..whole]));
        }
        self.buffer.copy_within(whole..self.filled, 0);
        self.filled -= whole;
        Ok(true)
    }

    /// Its reads sleep.
    fn sleep(&mut self, _most: Duration) -> Result<(), BenchError> {
        Ok(())
    }

    fn call(&mut self, request: &[u8], _heard: &mut Heard) -> Result<(), BenchError> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let mut message = Vec::with_capacity(LENGTH_BYTES + request.len());
        message.extend_from_slice(&(request.len() as u64).to_le_bytes());
        message.extend_from_slice(request);
        Self::write(stream, &message)
    }
}

/// A child's own side.
pub(crate) fn run(role: &CallRole) -> Result<(), BenchError> {
    match role.carrier {
        Carrier::Reliable => fill(role, Reliable::start(role)?),
        Carrier::Plain => fill(role, Unreliable::start(role)?),
        Carrier::Tcp => fill(role, Tcp::start(role)?),
    }
}

fn fill(role: &CallRole, mut end: impl End) -> Result<(), BenchError> {
    say(&Report::Ready { port: end.port() })?;
    let commands = listen(|| {})?;
    if role.server.is_none() {
        return serve(role, &mut end, &commands);
    }
    for command in &commands {
        let Command::Call { size, nanos } = command else { continue };
        let mut heard = Heard::default();
        let times = call(role, &mut end, size, nanos, &mut heard)?;
        say(&Report::Called { times, failed: heard.failed })?;
    }
    Ok(())
}

fn serve(role: &CallRole, end: &mut impl End, commands: &Receiver<Command>) -> Result<(), BenchError> {
    let mut heard = Heard::default();
    let mut quiet = 0_u32;
    loop {
        if end.turn(&mut heard)? {
            quiet = 0;
            continue;
        }
        quiet += 1;
        if role.wait == Waiting::Block {
            end.sleep(LOOK)?;
        } else if !quiet.is_multiple_of(SPINS) {
            std::hint::spin_loop();
            continue;
        }
        if matches!(commands.try_recv(), Err(TryRecvError::Disconnected)) {
            return Ok(());
        }
    }
}

/// Makes calls, one after the other, for so long.
fn call(
    role: &CallRole,
    end: &mut impl End,
    size: usize,
    nanos: u64,
    heard: &mut Heard,
) -> Result<crate::row::Quantiles, BenchError> {
    let request: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
    let mut times = Times::new();
    let begin = now_ns();
    let mut start = begin;
    while start - begin < nanos {
        let before = heard.answers + heard.failed;
        end.call(&request, heard)?;
        while heard.answers + heard.failed == before {
            if end.turn(heard)? {
                continue;
            }
            if role.wait == Waiting::Block {
                end.sleep(LOOK)?;
            }
            // A call without guarantees may never end.
            if role.carrier == Carrier::Plain && now_ns() - start > LOST_AFTER_NS {
                heard.failed += 1;
            }
        }
        let now = now_ns();
        if heard.failed > 0 && heard.answers + heard.failed == before + 1 && heard.answers == before {
            start = now;
            continue;
        }
        if heard.answer_bytes != size {
            return Err(BenchError::Child(format!("{} bytes came back of {size}", heard.answer_bytes)));
        }
        times.note(now - start);
        start = now;
    }
    Ok(times.take())
}

/// Between two looks at whether the benchmark goes on.
const LOOK: Duration = Duration::from_millis(20);
const SPINS: u32 = 4096;
/// Without an answer for so long, a call without guarantees counts as lost.
const LOST_AFTER_NS: u64 = 300_000_000;
