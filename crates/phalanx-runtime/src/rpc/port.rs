//! An endpoint of calls on a socket, polled by its application.

use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use phalanx_core::rpc::{
    AnswerError, CallEffects, CallError, CallId, CallOptions, ClientCallId, Counters, Endpoint, EndpointLimits,
    EndpointOptions, HandlerResult, Outcome, SessionId, TracePoint,
};
use phalanx_core::{ClearPacket, Incarnation, Instant, MemberInfo, Origin, TrafficClass};
use phalanx_driver::fork::{Forked, Home};
use phalanx_driver::udp::{PACKET_BYTES_CEILING, PACKET_BYTES_LOOPBACK};
use phalanx_driver::{Shm, Transmit, Udp, Wait, Waker, ticks};
use phalanx_trace::TraceError;

use crate::clock;
use crate::config::Config;
use crate::start::{StartError, bind, entropy, name, open_local, security};
use crate::tap::{Known, PointKind, Seat};

use super::call_trace::CallTrace;
use super::nearby::Nearby;
use super::time_trace::{Happened, Recorded, TimeTrace};

/// How to start a [`Port`].
#[derive(Clone, Debug, Default)]
pub struct PortOptions {
    /// The settings used are the cell's name and key, the security, the address and ports to bind, the driver, and the
    /// runtime and state directories. For a trace of all calls (`docs/checker.md`) also the trace directory and the
    /// process's name.
    pub config: Config,
    /// Whether it answers calls. Default false.
    pub serves: bool,
    /// Bounds on memory and calls.
    pub limits: EndpointLimits,
}

/// The application's side of calls.
pub trait Service {
    /// Runs a call. An immediate answer is appended to `answer`, which is empty. It must not block, because all other
    /// callers of this endpoint wait meanwhile.
    fn request(&mut self, _call: CallId, _from: Incarnation, _request: &[u8], _answer: &mut Vec<u8>) -> HandlerResult {
        HandlerResult::Refused
    }

    /// See [`CallEffects::long_request`].
    fn long_request(
        &mut self,
        call: CallId,
        from: Incarnation,
        request: &mut Vec<u8>,
        answer: &mut Vec<u8>,
    ) -> HandlerResult {
        self.request(call, from, request, answer)
    }

    /// See [`CallEffects::given_up`].
    fn given_up(&mut self, _call: CallId) {}

    /// A call of this process ended. Called once for each, unless [`Self::long_answer`] is.
    fn outcome(&mut self, _ticket: ClientCallId, _outcome: Outcome<'_>) {}

    /// See [`CallEffects::long_answer`].
    fn long_answer(&mut self, call_id: ClientCallId, answer: &mut Vec<u8>) {
        self.outcome(call_id, Outcome::Answer(answer));
    }
}

/// Makes and answers calls, polled by its application: it has no thread, and handlers run on the caller's.
///
/// ```no_run
/// use phalanx_runtime::rpc::{CallId, Port, PortOptions, HandlerResult, Service};
/// use phalanx_runtime::core::Incarnation;
///
/// struct Echo;
///
/// impl Service for Echo {
///     fn request(&mut self, _: CallId, _: Incarnation, request: &[u8], answer: &mut Vec<u8>) -> HandlerResult {
///         answer.extend_from_slice(request);
///         HandlerResult::Answered
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut port = Port::start(&PortOptions { serves: true, ..PortOptions::default() })?;
/// println!("{}", port.address());
/// loop {
///     if port.poll(&mut Echo) == 0 {
///         port.wait(None, &[])?;
///     }
/// }
/// # }
/// ```
///
/// In a forked child it is dead, because it would seal different packets under its parent's nonces. Calls and answers
/// are refused ([`CallError::Forked`], [`AnswerError::Forked`]), a wait gives an error, and all else does nothing. The
/// parent's port continues. Start another one in the child.
pub struct Port<D: Wait = Shm<Udp>> {
    driver: D,
    home: Home,
    endpoint: Endpoint,
    nearby: Nearby,
    trace: Option<TimeTrace>,
    calls: CallTrace,
    /// How it goes by towards those who look at its packets.
    me: MemberInfo,
    tap: Option<Seat>,
    /// The clock as last read, and the processor's time-stamp counter at that moment.
    now: Instant,
    read_at: u64,
    /// Successive polls that found nothing.
    idle: u32,
    due: Instant,
}

struct Sink<'a, T: ?Sized, S> {
    outbox: &'a mut T,
    nearby: &'a mut Nearby,
    trace: &'a mut Option<TimeTrace>,
    calls: &'a mut CallTrace,
    service: &'a mut S,
}

#[deny(clippy::missing_trait_methods, reason = "a decorator forwards every method, those with a default too")]
impl<T: Transmit + ?Sized, S: Service> CallEffects for Sink<'_, T, S> {
    fn write_shared(&mut self, class: TrafficClass, to: &[SocketAddr], parts: [&[u8]; 3]) -> usize {
        self.calls.hand_on();
        self.outbox.write_shared(class, to, parts)
    }

    fn send_unbuffered(&mut self, class: TrafficClass, to: SocketAddr, parts: [&[u8]; 3]) -> bool {
        self.calls.hand_on();
        self.outbox.send_unbuffered(class, to, parts)
    }

    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        self.calls.hand_on();
        // What memory reaches was written there before. Handshakes are for an address, not for the process that was met
        // there: it may be dead, and another one in its place.
        self.outbox.transmit_datagram(class, to, packet);
    }

    #[inline]
    fn sealing(&mut self, class: TrafficClass, to: SocketAddr, packet: ClearPacket<'_>) {
        if let Some(tap) = self.outbox.tap() {
            tap.handshake(class, to, &packet);
        }
    }

    #[inline]
    fn opened(&mut self, class: TrafficClass, origin: Origin, packet: ClearPacket<'_>) {
        if let Some(tap) = self.outbox.tap() {
            tap.opened(class, origin, &packet);
        }
    }

    fn session_opened(&mut self, peer: Incarnation, at: SocketAddr, offer: &[u8]) {
        self.nearby.session_opened(peer, at, offer);
    }

    fn session_closed(&mut self, peer: Incarnation) {
        self.nearby.session_closed(peer);
    }

    #[inline]
    fn mark(&mut self, mark: TracePoint, of: u64) {
        if let Some(trace) = self.trace {
            trace.note(Happened::Call(mark), of);
        }
    }

    #[inline]
    fn request(&mut self, call: CallId, from: Incarnation, request: &[u8], answer: &mut Vec<u8>) -> HandlerResult {
        let run = self.calls.runs(from, request);
        let served = self.service.request(call, from, request, answer);
        self.calls.ran(run, call, served, answer);
        served
    }

    fn long_request(
        &mut self,
        call: CallId,
        from: Incarnation,
        request: &mut Vec<u8>,
        answer: &mut Vec<u8>,
    ) -> HandlerResult {
        let run = self.calls.runs(from, request);
        let served = self.service.long_request(call, from, request, answer);
        self.calls.ran(run, call, served, answer);
        served
    }

    fn given_up(&mut self, call: CallId) {
        self.service.given_up(call);
    }

    #[inline]
    fn outcome(&mut self, call_id: ClientCallId, outcome: Outcome<'_>) {
        self.calls.ended(call_id, outcome);
        self.service.outcome(call_id, outcome);
    }

    fn long_answer(&mut self, call_id: ClientCallId, answer: &mut Vec<u8>) {
        self.calls.ended(call_id, Outcome::Answer(answer));
        self.service.long_answer(call_id, answer);
    }
}

impl Port {
    /// Binds sockets and starts an endpoint with an incarnation of its own.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left behind.
    pub fn start(options: &PortOptions) -> Result<Self, StartError> {
        Self::start_with(options, |driver| driver)
    }
}

impl<D: Wait> Port<D> {
    /// Like [`Port::start`], over a driver that `wrap` builds around the sockets.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left behind.
    pub fn start_with(options: &PortOptions, wrap: impl FnOnce(Shm<Udp>) -> D) -> Result<Self, StartError> {
        let PortOptions { config, serves, limits } = options;
        let local = open_local(config)?;
        let security = security(config, &local)?;
        let mut entropy = entropy()?;
        let me = Incarnation(entropy().max(1));
        let nearby = Nearby::new();
        let sockets = bind(config, config.bind.is_loopback().then_some(PACKET_BYTES_CEILING))?;
        let offer = nearby.describe(sockets.offer());
        let mut driver = wrap(sockets);
        if let Some(neighbours) = driver.neighbours() {
            neighbours.begin_incarnation(me.0);
        }
        let receive_bytes = driver.loss_report().capacity_bytes;
        let longest = if receive_bytes < LONG_PACKETS_BYTES { PACKET_BYTES_LOOPBACK } else { PACKET_BYTES_CEILING };
        let endpoint = EndpointOptions {
            cell: config.cell.clone(),
            me,
            packet_bytes_max: driver.packet_bytes_max().min(longest),
            receive_bytes,
            serves: *serves,
            offer,
            limits: limits.clone(),
        };
        let calls = match &config.trace {
            None => CallTrace::default(),
            Some(directory) => {
                let address = driver.local_address(TrafficClass::Data);
                let name = format!("{}.calls", name(config)?);
                CallTrace::begin(directory, &config.cell, &name, me, address)
                    .map_err(|source| StartError::Trace { path: directory.clone(), source })?
            }
        };
        let [data, control] = [TrafficClass::Data, TrafficClass::Control].map(|class| driver.local_address(class));
        let me = MemberInfo::new(me, name(config)?, data, control);
        // Calls go on without it: there is nobody to whom the failure could be told.
        let tap = Seat::take(config.tap, local.scope(), PointKind::Calls, &me).ok().flatten();
        let now = clock::now();
        let endpoint = Endpoint::new(now, &endpoint, &security, entropy());
        let read_at = ticks();
        Ok(Self {
            driver,
            home: Home::here(),
            endpoint,
            nearby,
            trace: None,
            calls,
            me,
            tap,
            now,
            read_at,
            idle: 0,
            due: Instant::ZERO,
        })
    }

    /// The address at which it is called.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.driver.local_address(TrafficClass::Data)
    }

    /// See [`Endpoint::connect`]. Returns [`SessionId::NONE`] in a forked child.
    pub fn connect(&mut self, server: SocketAddr, service: &mut impl Service) -> SessionId {
        if !self.home.is_here() {
            return SessionId::NONE;
        }
        let session = self.act(service, |endpoint, now, sink| endpoint.connect(now, server, sink));
        self.calls.connected(session, server);
        session
    }

    /// See [`Endpoint::close`].
    pub fn close(&mut self, session: SessionId, service: &mut impl Service) {
        if !self.home.is_here() {
            return;
        }
        self.act(service, |endpoint, now, sink| endpoint.close(now, session, sink));
        self.calls.closed(session);
    }

    /// See [`Endpoint::call`]. It is sent by the next poll at the latest, or at once if many calls were made since the
    /// last one.
    ///
    /// # Errors
    /// See [`CallError`]; nothing changed.
    pub fn call<'r>(
        &mut self,
        session: SessionId,
        request: impl Into<Cow<'r, [u8]>>,
        options: &CallOptions,
        service: &mut impl Service,
    ) -> Result<ClientCallId, CallError> {
        self.home.check().map_err(|Forked| CallError::Forked)?;
        // The time of the last poll stands in for the present if that poll had work and was just now: so a call costs
        // no clock read.
        let now = if self.idle > 0 || self.is_stale() { self.begin() } else { self.now };
        self.due = Instant::ZERO;
        let request = request.into();
        self.calls.making(session, &request, options);
        let (endpoint, mut sink) = self.parts(service);
        let made = endpoint.call(now, session, request, options, &mut sink);
        self.calls.made(made.ok());
        made
    }

    /// See [`Endpoint::cancel`].
    pub fn cancel(&mut self, session: SessionId, call_id: ClientCallId, service: &mut impl Service) -> bool {
        self.home.is_here() && self.act(service, |endpoint, now, sink| endpoint.cancel(now, session, call_id, sink))
    }

    /// See [`Endpoint::callee_left`].
    pub fn callee_left(&mut self, session: SessionId, call_id: ClientCallId, service: &mut impl Service) -> bool {
        self.home.is_here()
            && self.act(service, |endpoint, now, sink| endpoint.callee_left(now, session, call_id, sink))
    }

    /// See [`Endpoint::answer`].
    ///
    /// # Errors
    /// See [`AnswerError`].
    pub fn answer(
        &mut self,
        call: CallId,
        answer: Option<Cow<'_, [u8]>>,
        service: &mut impl Service,
    ) -> Result<(), AnswerError> {
        self.home.check().map_err(|Forked| AnswerError::Forked)?;
        // An answer that is too long is refused and may be answered again, so it is not recorded.
        if answer.as_ref().is_none_or(|answer| answer.len() <= self.endpoint.limits().message_bytes) {
            self.calls.answers(call, answer.as_deref());
        }
        self.act(service, |endpoint, now, sink| endpoint.answer(now, call, answer, sink))
    }

    /// Receives packets, runs handlers, and sends. Returns the number of packets received. If that is 0 and there is no
    /// other work, call [`Self::wait`].
    pub fn poll(&mut self, service: &mut impl Service) -> usize {
        if !self.home.is_here() {
            return 0;
        }
        // Calls made since the last poll are sent first.
        self.driver.flush();
        if self.idle.is_multiple_of(CLOCK_EVERY) || self.is_stale() {
            let before = self.now;
            self.read_clock();
            // Only gaps between successive polls count, not one after a sleep.
            if self.idle > 0 {
                self.endpoint.note_gap(self.now, self.now.since(before));
            }
            self.serve_tap();
        }
        let Self { driver, endpoint, nearby, trace, calls, now, .. } = self;
        let now = *now;
        // One receive only: its packets are answered and acknowledged before more are received.
        let took = driver.receive_header_first(BATCH, &mut |outbox, _, origin, arriving| {
            let sink = &mut Sink {
                outbox,
                nearby: &mut *nearby,
                trace: &mut *trace,
                calls: &mut *calls,
                service: &mut *service,
            };
            endpoint.handle_arriving(now, origin, arriving, sink);
        });
        let packets = took.packets;
        if packets > 0 && driver.loss_report().lost > 0 {
            endpoint.handle_loss();
        }
        self.idle = if packets == 0 { self.idle.wrapping_add(1) } else { 0 };
        if packets > 0 {
            self.note(Happened::Received, packets as u64);
        }
        for server in self.driver.unreachable() {
            let (endpoint, mut sink) = self.parts(service);
            endpoint.handle_unreachable(now, server, &mut sink);
            self.due = Instant::ZERO;
        }
        // Without packets and before the next timer the endpoint has nothing to do.
        if packets > 0 || now >= self.due {
            let (endpoint, mut sink) = self.parts(service);
            endpoint.poll(now, &mut sink);
            self.due = endpoint.deadline().unwrap_or(Instant(u64::MAX));
        }
        self.send();
        if packets > 0 {
            self.note(Happened::Flushed, 0);
        }
        packets
    }

    fn serve_tap(&mut self) {
        let Self { driver, me, tap, now, .. } = self;
        if let Some(seat) = tap.as_mut().filter(|seat| seat.is_due(*now))
            && let Some(tap) = driver.outbox().tap()
        {
            seat.serve(*now, tap, &Known { me, directory: None });
        }
    }

    /// Sleeps until a packet arrives, a timer is due, one of `also` becomes readable, or `timeout` has passed; for a
    /// quarter of a second at most, unless the setting `tap` is off. Bit `i` of the result stands for `also[i]`.
    ///
    /// # Errors
    /// The error of the system's poll. [`Forked`], wrapped, in a forked child.
    pub fn wait(&mut self, timeout: Option<Duration>, also: &[BorrowedFd<'_>]) -> io::Result<u64> {
        self.home.check()?;
        self.driver.flush();
        let now = self.begin();
        let due = self.endpoint.deadline().map(|due| due.since(now));
        let timeout = match (timeout, due) {
            (Some(timeout), Some(due)) => Some(timeout.min(due)),
            (timeout, due) => timeout.or(due),
        };
        // Somebody may ask to look at its packets.
        let timeout = if self.tap.is_some() { Some(timeout.map_or(TAP_EVERY, |t| t.min(TAP_EVERY))) } else { timeout };
        if timeout == Some(Duration::ZERO) && also.is_empty() {
            return Ok(0);
        }
        self.note(Happened::Sleeps, 0);
        let woken = self.driver.wait(timeout, also);
        self.note(Happened::Wakes, 0);
        woken.map(|woken| woken.extra)
    }

    /// A handle with which other threads end [`Self::wait`].
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.driver.waker()
    }

    /// Keeps the latest `records` events with their times from now on, see [`TimeTrace`]; 0 stops it.
    pub fn keep_trace(&mut self, records: usize) {
        self.trace = (records > 0).then(|| TimeTrace::new(records));
    }

    /// The kept records, oldest first; empty without [`Self::keep_trace`].
    #[must_use]
    pub fn trace(&self) -> Vec<Recorded> {
        self.trace.as_ref().map(TimeTrace::read).unwrap_or_default()
    }

    #[inline]
    fn note(&mut self, what: Happened, of: u64) {
        if let Some(trace) = &mut self.trace {
            trace.note(what, of);
        }
    }

    /// Why the trace of calls that [`Config::trace`] configures is not written any more. The endpoint continues without
    /// it.
    #[must_use]
    pub fn trace_failure(&self) -> Option<&TraceError> {
        self.calls.failure()
    }

    /// The endpoint inside.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The endpoint's counters.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        self.endpoint.counters()
    }

    /// The driver.
    #[must_use]
    pub fn driver(&self) -> &D {
        &self.driver
    }

    #[inline]
    fn parts<'a, S>(&'a mut self, service: &'a mut S) -> (&'a mut Endpoint, Sink<'a, D::Outbox, S>) {
        let Self { driver, endpoint, nearby, trace, calls, .. } = self;
        (endpoint, Sink { outbox: driver.outbox(), nearby, trace, calls, service })
    }

    /// Runs an operation of the endpoint now, and sends its packets at once.
    fn act<S: Service, T>(
        &mut self,
        service: &mut S,
        what: impl FnOnce(&mut Endpoint, Instant, &mut Sink<'_, D::Outbox, S>) -> T,
    ) -> T {
        let now = self.begin();
        let (endpoint, mut sink) = self.parts(service);
        let done = what(endpoint, now, &mut sink);
        self.send();
        done
    }

    /// Flushes the driver, and tells it which peers came and went.
    #[inline]
    fn send(&mut self) {
        self.driver.flush();
        self.nearby.tell(&mut self.driver);
    }

    fn begin(&mut self) -> Instant {
        self.read_clock();
        self.idle = 0;
        self.due = Instant::ZERO;
        self.now
    }

    fn read_clock(&mut self) {
        (self.now, self.read_at) = (clock::now(), ticks());
    }

    /// Whether the application has done something else since the clock was read.
    #[inline]
    fn is_stale(&self) -> bool {
        ticks().wrapping_sub(self.read_at) > STALE_TICKS
    }
}

/// Polls per clock read, as in [`crate::inline`].
const CLOCK_EVERY: u32 = 8;
/// Some tens of microseconds, at any processor's counter rate.
const STALE_TICKS: u64 = 1 << 16;
/// The longest sleep where somebody may ask to look at packets: nothing wakes the endpoint for that.
const TAP_EVERY: Duration = Duration::from_millis(250);
/// Most packets per receive.
const BATCH: usize = 64;
/// Packets longer than usual are accepted only if the receive buffer holds several of them.
const LONG_PACKETS_BYTES: u64 = 1 << 20;
