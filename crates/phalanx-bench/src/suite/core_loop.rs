//! The cost of the protocol core alone: two processes in one thread that exchange packets in memory.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::LazyLock;

use phalanx_runtime::core::seal::CellKey;
use phalanx_runtime::core::{
    CommandError, Delivery, Effects, Event, Founding, GroupId, GroupTerms, Incarnation, Instant, Limits, MemberInfo,
    Order, Origin, Packet, Process, Security, Settings, Stability, Timing, TrafficClass,
};
use phalanx_runtime::driver::udp::{PACKET_BYTES_ETHERNET, PACKET_BYTES_LOOPBACK};
use rustix::time::{ClockId, clock_gettime};

use crate::Request;
use crate::alloc::{counts, taken};
use crate::bench::{Bench, Case};
use crate::error::BenchError;
use crate::row::Series;

pub(super) fn cases(_request: &Request) -> Vec<Case> {
    let mut cases = Vec::new();
    for packet in [PACKET_BYTES_LOOPBACK, PACKET_BYTES_ETHERNET] {
        for sealed in [true, false] {
            for orders in [true, false] {
                let (security, who) =
                    (if sealed { "sealed" } else { "none" }, if orders { "oldest" } else { "younger" });
                let what = format!(
                    "100 B abcast in packets of up to {packet} B, {}; who sends {}",
                    if sealed { "sealed" } else { "not sealed" },
                    if orders { "also orders" } else { "does not order at first" }
                );
                cases.push(Case::new(format!("abcast-{packet}-{security}-{who}"), what, move |bench| {
                    measure(bench, packet, sealed, orders)
                }));
            }
        }
    }
    for sealed in [true, false] {
        let security = if sealed { "sealed" } else { "none" };
        let what = format!("64 B abcast and an abcast in answer, {}", if sealed { "sealed" } else { "not sealed" });
        cases.push(Case::new(format!("trip-{security}"), what, move |bench| measure_trips(bench, sealed)));
    }
    cases
}

/// What a process's effects go to, and where packets from the other side come by.
pub(crate) trait Sink: Effects {
    fn wire(&self) -> &Wire;

    fn wire_mut(&mut self) -> &mut Wire;

    /// Takes a packet of the other side on its way to the core.
    fn arrive(&mut self, packet: Vec<u8>) -> Vec<u8>;
}

/// Sink of one process's effects, bound when it is compiled. Packet buffers are reused, so that they cost no allocation.
#[derive(Default)]
pub(crate) struct Wire {
    packets: VecDeque<(TrafficClass, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    sent: u64,
    sent_bytes: u64,
    delivered: u64,
    group: Option<(GroupId, usize)>,
}

impl Sink for Wire {
    #[inline]
    fn wire(&self) -> &Wire {
        self
    }

    #[inline]
    fn wire_mut(&mut self) -> &mut Wire {
        self
    }

    #[inline]
    fn arrive(&mut self, packet: Vec<u8>) -> Vec<u8> {
        packet
    }
}

impl Effects for Wire {
    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        for _ in to {
            let mut buffer = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(PACKET_BYTES_LOOPBACK as usize));
            buffer.clear();
            buffer.extend_from_slice(packet);
            self.packets.push_back((class, buffer));
            self.sent += 1;
            self.sent_bytes += packet.len() as u64;
        }
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.delivered += u64::from(!delivery.payload.is_empty());
    }

    fn event(&mut self, event: Event) {
        if let Event::GroupView(view) = event {
            self.group = Some((view.group, view.members.len()));
        }
    }
}

struct Side<S> {
    process: Process,
    sink: S,
    from: SocketAddr,
    /// Resources used, if measured: valgrind does not implement thread clocks.
    spent: Option<Spent>,
}

/// Resources that one side used.
#[derive(Clone, Copy, Default)]
struct Spent {
    nanos: f64,
    allocations: u64,
}

impl<S: Sink + Default> Side<S> {
    fn new(index: u16, security: &Security, packet_bytes_max: u32) -> Self {
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let (who, name) = (Incarnation(u64::from(index) + 1), format!("side-{index}"));
        let me = MemberInfo::new(who, name, address(1_000 + index), address(2_000 + index));
        let me = MemberInfo { host: 1, packet_bytes_max, ..me };
        let from = me.data;
        let settings = Settings {
            cell: "core".to_owned(),
            me,
            founding: if index == 0 { Founding::Alone } else { Founding::Join },
            record: phalanx_runtime::core::member::FounderRecord::default(),
            seeds: vec![address(2_000)],
            timing: Timing::default(),
            limits: Limits::default(),
        };
        let process = Process::new(now(), settings, security, u64::from(index) + 7);
        Self { process, sink: S::default(), from, spent: None }
    }

    /// Processes the other side's packets, multicasts up to `count` messages, and polls. Returns how many were
    /// accepted.
    fn step(&mut self, other: &mut Self, count: usize, message: &[u8]) -> Result<usize, CommandError> {
        let start = self.spent.map(|_| (thread_nanos(), taken()));
        let now = now();
        self.take(now, other);
        let mut accepted = 0;
        if let Some((group, _)) = self.sink.wire().group {
            while accepted < count {
                match self.process.multicast(now, group, Order::Total, Stability::Plain, &[message], &mut self.sink) {
                    Ok(_plain) => accepted += 1,
                    Err(CommandError::NoCredit) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        self.process.poll(now, &mut self.sink);
        if let (Some(spent), Some((nanos, allocations))) = (&mut self.spent, start) {
            spent.nanos += thread_nanos() - nanos;
            spent.allocations += taken() - allocations;
        }
        Ok(accepted)
    }

    /// One poll of a process that has at most one message to send. The message leaves before any packet is processed.
    fn trip_turn(&mut self, other: &mut Self, message: Option<&[u8]>) -> Result<(), CommandError> {
        let now = now();
        if let (Some(message), Some((group, _))) = (message, self.sink.wire().group) {
            self.process.multicast(now, group, Order::Total, Stability::Plain, &[message], &mut self.sink)?;
        }
        self.process.flush(now, &mut self.sink);
        self.take(now, other);
        self.process.poll(now, &mut self.sink);
        Ok(())
    }

    /// Processes the other side's packets.
    fn take(&mut self, now: Instant, other: &mut Self) {
        while let Some((class, mut packet)) = other.sink.wire_mut().packets.pop_front() {
            packet = self.sink.arrive(packet);
            let origin = Origin::Network(other.address(class));
            self.process.handle_packet(now, class, origin, Packet::Lent(&mut packet), &mut self.sink);
            other.sink.wire_mut().spare.push(packet);
        }
    }

    fn address(&self, class: TrafficClass) -> SocketAddr {
        let port = self.from.port() + if class == TrafficClass::Control { 1_000 } else { 0 };
        SocketAddr::new(self.from.ip(), port)
    }
}

/// Two members of one group.
pub(crate) struct Pair<S = Wire> {
    sides: [Side<S>; 2],
}

impl<S: Sink + Default> Pair<S> {
    /// Runs the two until each is in the other's view.
    pub(crate) fn meet(packet: u32, sealed: bool) -> Result<Self, BenchError> {
        let security = if sealed { Security::Sealed(CellKey::from_bytes([9; 32])) } else { Security::None };
        let mut sides: [Side<S>; 2] = [Side::new(0, &security, packet), Side::new(1, &security, packet)];
        for side in &mut sides {
            side.process.join_group(now(), "core", false, GroupTerms::default()).map_err(refused)?;
        }
        let [a, b] = &mut sides;
        while [&*a, &*b].iter().any(|side| side.sink.wire().group.is_none_or(|(_, members)| members != 2)) {
            a.step(b, 0, &[]).map_err(refused)?;
            b.step(a, 0, &[]).map_err(refused)?;
        }
        Ok(Self { sides })
    }

    /// Multicasts from one side, until both have delivered `messages` more.
    pub(crate) fn push(&mut self, oldest_sends: bool, messages: usize) -> Result<(), BenchError> {
        let (from, to) = self.ends(oldest_sends);
        let until = to.sink.wire().delivered + messages as u64;
        let mut left = messages;
        while left > 0 || to.sink.wire().delivered < until || from.sink.wire().delivered < until {
            left -= from.step(to, left.min(BURST), &MESSAGE).map_err(refused)?;
            to.step(from, 0, &MESSAGE).map_err(refused)?;
        }
        Ok(())
    }

    /// Runs `trips` round trips, each a request by the youngest and an answer by the oldest. Returns the number of
    /// packets sent both ways.
    pub(crate) fn trips(&mut self, trips: usize) -> Result<u64, BenchError> {
        let before = self.sent();
        let [b, a] = &mut self.sides;
        for _ in 0..trips {
            let (asked, answered) = (b.sink.wire().delivered + 1, a.sink.wire().delivered + 2);
            a.trip_turn(b, Some(&QUESTION)).map_err(refused)?;
            while b.sink.wire().delivered < asked {
                a.trip_turn(b, None).map_err(refused)?;
                b.trip_turn(a, None).map_err(refused)?;
            }
            b.trip_turn(a, Some(&QUESTION)).map_err(refused)?;
            while a.sink.wire().delivered < answered {
                b.trip_turn(a, None).map_err(refused)?;
                a.trip_turn(b, None).map_err(refused)?;
            }
        }
        Ok(self.sent() - before)
    }

    /// Packets that both sides have sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sides.iter().map(|side| side.sink.wire().sent).sum()
    }

    /// The side that sends, and the other one.
    fn ends(&mut self, oldest_sends: bool) -> (&mut Side<S>, &mut Side<S>) {
        let [a, b] = &mut self.sides;
        if oldest_sends { (a, b) } else { (b, a) }
    }
}

fn refused(error: CommandError) -> BenchError {
    BenchError::Child(format!("the core refused a command: {error}"))
}

fn measure(bench: &mut Bench<'_>, packet: u32, sealed: bool, oldest_sends: bool) -> Result<(), BenchError> {
    let messages = if bench.request.quick { MESSAGES / 10 } else { MESSAGES };
    let series = |metric, unit| Series::new(metric, unit, 2, MESSAGE.len());
    let mut time = [series("sender, per message", "ns"), series("receiver, per message", "ns")];
    let mut allocations = [
        series("allocations of the sender, per message", "allocations"),
        series("allocations of the receiver, per message", "allocations"),
    ];
    let mut packed = [series("messages in a packet", "messages"), series("messages for a packet back", "messages")];
    let mut header = series("bytes beside the payload, per message, both ways", "B");
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let mut pair = Pair::<Wire>::meet(packet, sealed)?;
        // Warm-up: queues and maps grow to their size.
        pair.push(oldest_sends, messages / 10)?;
        let (from, to) = pair.ends(oldest_sends);
        (from.spent, to.spent) = (Some(Spent::default()), Some(Spent::default()));
        let before =
            [(from.sink.wire().sent, from.sink.wire().sent_bytes), (to.sink.wire().sent, to.sink.wire().sent_bytes)];
        pair.push(oldest_sends, messages)?;
        let (from, to) = pair.ends(oldest_sends);
        let per = messages as f64;
        for (index, side) in [from, to].into_iter().enumerate() {
            let spent = side.spent.unwrap_or_default();
            time[index].add(spent.nanos / per);
            if counts() {
                allocations[index].add(spent.allocations as f64 / per);
            }
            packed[index].add(per / (side.sink.wire().sent - before[index].0).max(1) as f64);
        }
        let (from, to) = pair.ends(oldest_sends);
        let bytes = from.sink.wire().sent_bytes - before[0].1 + to.sink.wire().sent_bytes - before[1].1;
        header.add(bytes as f64 / per - MESSAGE.len() as f64);
    }
    bench.report(time.iter().chain(&allocations).chain(&packed).chain([&header]));
    Ok(())
}

fn measure_trips(bench: &mut Bench<'_>, sealed: bool) -> Result<(), BenchError> {
    let trips = if bench.request.quick { TRIPS / 10 } else { TRIPS };
    let mut time = Series::new("both sides, per round trip", "ns", 2, QUESTION.len());
    let mut packets = Series::new("packets of both, per round trip", "packets", 2, QUESTION.len());
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let mut pair = Pair::<Wire>::meet(PACKET_BYTES_LOOPBACK, sealed)?;
        // Warm-up: the token passes to the member that sends, and queues and maps grow to their size.
        pair.trips(trips / 10)?;
        let start = thread_nanos();
        let sent = pair.trips(trips)?;
        time.add((thread_nanos() - start) / trips as f64);
        packets.add(sent as f64 / trips as f64);
    }
    bench.report([&time, &packets]);
    Ok(())
}

/// Reads the clock without the library's calibrated one, which fails under valgrind.
fn now() -> Instant {
    static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    Instant::ZERO + START.elapsed()
}

/// Processor time of this thread, in nanoseconds; time taken by other work does not count.
pub(super) fn thread_nanos() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

const MESSAGE: [u8; 100] = [7; 100];
const QUESTION: [u8; 64] = [5; 64];
/// Round trips of a round.
const TRIPS: usize = 100_000;
/// Messages of a round.
const MESSAGES: usize = 200_000;
/// Messages sent in one poll.
const BURST: usize = 256;
