//! Calls over this library's driver, with and without guarantees.

use std::borrow::Cow;
use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use phalanx_runtime::config::Config;
use phalanx_runtime::core::rpc::{CallEffects, UnreliableEndpoint, UnreliableOptions};
use phalanx_runtime::core::{Incarnation, MESSAGE_BYTES_MAX, TrafficClass};
use phalanx_runtime::driver::shm::{Offer, Peer};
use phalanx_runtime::driver::udp::PACKET_BYTES_CEILING;
use phalanx_runtime::driver::{Driver, Neighbours, Shm, ShmOptions, Transmit, Udp, UdpOptions, Wait};
use phalanx_runtime::local::LocalCell;
use phalanx_runtime::rpc::{
    CallError, CallId, CallOptions, ClientCallId, HandlerResult, Outcome, Port, PortOptions, Recorded, Service,
    SessionId,
};

use super::end::{End, Heard, drops_of};
use super::role::{CallRole, Memory, Place};
use crate::choice::{Security, Transport, configure};
use crate::error::{BenchError, While};
use crate::measure::now_ns;

fn config(role: &CallRole) -> Config {
    let state_dir = Some(role.directory.join("state"));
    let mut config = Config { runtime_dir: Some(role.directory.clone()), state_dir, ..Config::default() };
    configure(&mut config, role.transport, role.security);
    config
}

fn failed(error: impl Display) -> BenchError {
    BenchError::Child(error.to_string())
}

fn address(place: &Place) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, place.port))
}

fn addresses(role: &CallRole) -> Vec<SocketAddr> {
    role.servers.iter().map(address).collect()
}

/// Seed of an endpoint's losses: different for each endpoint, the same in each run.
pub(super) fn seed(role: &CallRole, at: usize) -> u64 {
    2 * at as u64 + u64::from(role.servers.is_empty())
}

/// Calls with sessions.
pub(super) struct Reliable<D: Wait> {
    port: Port<D>,
    servers: Vec<SocketAddr>,
    sessions: Vec<SessionId>,
}

impl<D: Wait> Reliable<D> {
    pub(super) fn start(role: &CallRole, wrap: impl FnOnce(Shm<Udp>) -> D) -> Result<Self, BenchError> {
        let options =
            PortOptions { config: config(role), serves: role.servers.is_empty(), limits: role.tuning.limits() };
        // `Port` binds its sockets with the library's standard buffers. Another buffer size needs a driver bound here.
        let bound = match role.tuning.receive_bytes {
            Some(receive_buffer_bytes) => {
                let options = UdpOptions { receive_buffer_bytes, ..UdpOptions::default() };
                Some(Shm::without_memory(Udp::bind(&options).map_err(failed)?))
            }
            None => None,
        };
        let port = Port::start_with(&options, |driver| wrap(bound.unwrap_or(driver))).map_err(failed)?;
        let mut end = Self { port, servers: addresses(role), sessions: Vec::new() };
        end.connect(&mut Heard::default());
        Ok(end)
    }

    fn connect(&mut self, heard: &mut Heard) {
        let Self { port, servers, sessions } = self;
        sessions.extend(servers.iter().map(|server| port.connect(*server, heard)));
    }
}

impl<D: Wait> End for Reliable<D> {
    fn place(&self) -> Place {
        Place::of_port(self.port.address().port())
    }

    #[inline]
    fn poll(&mut self, heard: &mut Heard) -> Result<bool, BenchError> {
        Ok(self.port.poll(heard) > 0)
    }

    fn sleep(&mut self, most: Duration) -> Result<(), BenchError> {
        self.port.wait(Some(most), &[]).map(drop).when("cannot wait")
    }

    #[inline]
    fn call(&mut self, server: usize, request: &[u8], heard: &mut Heard) -> Result<Option<u64>, BenchError> {
        let given = !heard.taken.is_empty() && heard.taken.len() == request.len();
        let request: Cow<'_, [u8]> = if given { std::mem::take(&mut heard.taken).into() } else { request.into() };
        match self.port.call(self.sessions[server], request, &CallOptions::default(), heard) {
            Ok(call_id) => Ok(Some(call_id.0)),
            Err(CallError::QueueFull) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    fn renew(&mut self, heard: &mut Heard) {
        for session in self.sessions.drain(..) {
            self.port.close(session, heard);
        }
        self.connect(heard);
    }

    fn keep_trace(&mut self) {
        self.port.keep_trace(TRACE_RECORDS);
    }

    fn trace(&self) -> Vec<Recorded> {
        self.port.trace()
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.port.counters().each(each);
    }

    fn kernel_drops(&self) -> u64 {
        drops_of(self.port.driver())
    }
}

/// Enough records for about ten thousand short calls.
const TRACE_RECORDS: usize = 1 << 16;

/// Calls without guarantees: sealed datagrams, no sessions.
pub(super) struct Unreliable {
    driver: Shm<Udp>,
    plain: UnreliableEndpoint,
    life: u64,
    servers: Vec<SocketAddr>,
}

struct PlainSink<'a, T: ?Sized> {
    outbox: &'a mut T,
    heard: &'a mut Heard,
}

impl<T: Transmit + ?Sized> CallEffects for PlainSink<'_, T> {
    #[inline]
    fn write_shared(&mut self, class: TrafficClass, to: &[SocketAddr], parts: [&[u8]; 3]) -> usize {
        self.outbox.write_shared(class, to, parts)
    }

    fn send_unbuffered(&mut self, class: TrafficClass, to: SocketAddr, parts: [&[u8]; 3]) -> bool {
        self.outbox.send_unbuffered(class, to, parts)
    }

    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        self.outbox.transmit(class, to, packet);
    }

    #[inline]
    fn request(&mut self, call: CallId, from: Incarnation, request: &[u8], answer: &mut Vec<u8>) -> HandlerResult {
        self.heard.request(call, from, request, answer)
    }

    fn long_request(
        &mut self,
        call: CallId,
        from: Incarnation,
        request: &mut Vec<u8>,
        answer: &mut Vec<u8>,
    ) -> HandlerResult {
        self.heard.long_request(call, from, request, answer)
    }

    #[inline]
    fn outcome(&mut self, call_id: ClientCallId, outcome: Outcome<'_>) {
        self.heard.take(call_id.0, outcome);
    }
}

impl Unreliable {
    pub(super) fn start(role: &CallRole) -> Result<Self, BenchError> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let packet_bytes_max = Some(PACKET_BYTES_CEILING);
        let options = UdpOptions { data: any, control: any, packet_bytes_max, ..UdpOptions::default() };
        let sockets = Udp::bind(&options).map_err(failed)?;
        let mut driver = match role.transport {
            Transport::Udp => Shm::without_memory(sockets),
            Transport::Shm | Transport::Mixed => Shm::new(sockets, &ShmOptions::default()),
        };
        let life = now_ns() | 1;
        driver.begin_incarnation(life);
        let config = config(role);
        let security = match role.security {
            Security::None => phalanx_runtime::core::Security::None,
            Security::Sealed => {
                let local = LocalCell::open(config.runtime_dir.as_deref(), config.state_dir.as_deref(), &config.cell)
                    .map_err(failed)?;
                phalanx_runtime::core::Security::Sealed(local.key().map_err(failed)?)
            }
        };
        let options = UnreliableOptions {
            cell: config.cell,
            me: Incarnation(life),
            packet_bytes: driver.packet_bytes_max(),
            message_bytes: MESSAGE_BYTES_MAX,
        };
        Ok(Self { driver, plain: UnreliableEndpoint::new(&options, &security), life, servers: addresses(role) })
    }
}

impl End for Unreliable {
    fn place(&self) -> Place {
        let memory = self.driver.offer().map(|Offer { pid, memory, doorbell }| Memory {
            life: self.life,
            pid,
            memory,
            doorbell,
        });
        Place { port: self.driver.local_address(TrafficClass::Data).port(), memory }
    }

    fn meet(&mut self, other: &Place) {
        if let Some(Memory { life, pid, memory, doorbell }) = other.memory {
            let at = address(other);
            let peer = Peer { offer: Offer { pid, memory, doorbell }, token: life, data: at, control: at };
            self.plain.know(Incarnation(life), at);
            // A peer whose shared memory cannot be attached is reached by datagrams instead.
            let _ = self.driver.attach(&peer);
        }
    }

    #[inline]
    fn poll(&mut self, heard: &mut Heard) -> Result<bool, BenchError> {
        let Self { driver, plain, .. } = self;
        driver.flush();
        let mut packets = 0;
        loop {
            let took = driver.receive_header_first(64, &mut |outbox, _, origin, arriving| {
                plain.handle_arriving(origin, arriving, &mut PlainSink { outbox, heard: &mut *heard });
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
    fn call(&mut self, server: usize, request: &[u8], heard: &mut Heard) -> Result<Option<u64>, BenchError> {
        let sink = &mut PlainSink { outbox: self.driver.outbox(), heard };
        Ok(Some(self.plain.call(self.servers[server], request, sink).0))
    }

    fn kernel_drops(&self) -> u64 {
        drops_of(&self.driver)
    }
}
