//! What the core alone costs: two processes in one thread, packets handed over in memory.

use std::collections::VecDeque;
use std::error::Error;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};

use phalanx::clock;
use phalanx::core::seal::CellKey;
use phalanx::core::{
    CommandError, Delivery, Effects, Event, Founding, GroupId, Incarnation, Lane, Limits, MemberInfo, Order, Origin,
    Process, Security, Settings, Timing,
};
use rustix::time::{ClockId, clock_gettime};

use crate::alloc::taken;
use crate::table::Table;

/// Where one process's effects go. Packets use buffers again and again, so that they cost no allocation.
#[derive(Default)]
struct Wire {
    packets: VecDeque<(Lane, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    sent: u64,
    delivered: u64,
    group: Option<(GroupId, usize)>,
}

impl Effects for Wire {
    fn transmit(&mut self, lane: Lane, to: &[SocketAddr], packet: &[u8]) {
        for _ in to {
            let mut buffer = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(PACKET_BYTES_MAX as usize));
            buffer.clear();
            buffer.extend_from_slice(packet);
            self.packets.push_back((lane, buffer));
            self.sent += 1;
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

struct Side {
    process: Process,
    wire: Wire,
    from: SocketAddr,
    spent: Spent,
}

/// What one side used.
#[derive(Clone, Copy, Default)]
struct Spent {
    nanos: f64,
    allocations: u64,
}

impl Side {
    fn new(index: u16, security: &Security, packet_bytes_max: u32) -> Self {
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let me = MemberInfo {
            incarnation: Incarnation(u64::from(index) + 1),
            name: format!("side-{index}"),
            data: address(1_000 + index),
            control: address(2_000 + index),
            host: 1,
            packet_bytes_max,
        };
        let from = me.data;
        let settings = Settings {
            cell: "figures".to_owned(),
            me,
            founding: if index == 0 { Founding::Alone } else { Founding::Join },
            seeds: vec![address(2_000)],
            timing: Timing::default(),
            limits: Limits::default(),
        };
        let process = Process::new(clock::now(), settings, security, u64::from(index) + 7);
        Self { process, wire: Wire::default(), from, spent: Spent::default() }
    }

    /// Takes what the other sent, multicasts up to `count` messages, turns. How many were taken.
    fn step(&mut self, other: &mut Self, count: usize, message: &[u8]) -> usize {
        let (start, allocated) = (thread_nanos(), taken());
        let now = clock::now();
        while let Some((lane, mut packet)) = other.wire.packets.pop_front() {
            self.process.handle_packet(now, lane, Origin::Network(other.address(lane)), &mut packet, &mut self.wire);
            other.wire.spare.push(packet);
        }
        let mut accepted = 0;
        if let Some((group, _)) = self.wire.group {
            while accepted < count
                && !matches!(
                    self.process.multicast(now, group, Order::Total, false, &[message], &mut self.wire),
                    Err(CommandError::NoCredit)
                )
            {
                accepted += 1;
            }
        }
        self.process.turn(now, &mut self.wire);
        self.spent.nanos += thread_nanos() - start;
        self.spent.allocations += taken() - allocated;
        accepted
    }

    fn address(&self, lane: Lane) -> SocketAddr {
        let port = self.from.port() + if lane == Lane::Control { 1_000 } else { 0 };
        SocketAddr::new(self.from.ip(), port)
    }
}

/// Measures `rounds` times, or just drives one for a profiler if there is but one.
pub(crate) fn run(rounds: usize, messages: usize, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let sealed = || Security::Sealed(CellKey::from_bytes([9; 32]));
    let mut table = Table::default();
    for _ in 0..rounds {
        for packet in [PACKET_BYTES_MAX, PACKET_BYTES_ETHERNET] {
            for (name, security) in [("sealed", sealed()), ("none", Security::None)] {
                for sender in [0, 1] {
                    let who = ["the oldest sends", "the younger sends"][sender];
                    measure(
                        &format!("{name}, packets to {packet} B, {who}"),
                        &security,
                        packet,
                        sender,
                        messages,
                        &mut table,
                    )?;
                }
            }
        }
    }
    table.print(&format!("100 B abcast in the core alone, {messages} messages"), out)?;
    Ok(())
}

fn measure(
    name: &str,
    security: &Security,
    packet: u32,
    sender: usize,
    messages: usize,
    table: &mut Table,
) -> Result<(), Box<dyn Error>> {
    let mut sides = [Side::new(0, security, packet), Side::new(1, security, packet)];
    for side in &mut sides {
        side.process.join_group(clock::now(), "figures", false)?;
    }
    let [a, b] = &mut sides;
    while [&*a, &*b].iter().any(|side| side.wire.group.is_none_or(|(_, members)| members != 2)) {
        a.step(b, 0, &[]);
        b.step(a, 0, &[]);
    }
    let [mut a, mut b] = sides;
    let (from, to) = if sender == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
    let message = [7; 100];
    push(from, to, messages / 10, &message); // warm: queues and maps have their size
    (from.spent, to.spent) = (Spent::default(), Spent::default());
    let packets = (from.wire.sent, to.wire.sent);
    push(from, to, messages, &message);
    let per = messages as f64;
    table.add(&format!("{name}: sender ns/message"), from.spent.nanos / per);
    table.add(&format!("{name}: receiver ns/message"), to.spent.nanos / per);
    table.add(&format!("{name}: sender allocations/message"), from.spent.allocations as f64 / per);
    table.add(&format!("{name}: receiver allocations/message"), to.spent.allocations as f64 / per);
    table.add(&format!("{name}: messages/packet out"), per / (from.wire.sent - packets.0) as f64);
    table.add(&format!("{name}: messages/packet back"), per / (to.wire.sent - packets.1) as f64);
    Ok(())
}

/// What this thread has had of its processor: what other work takes in between is not counted.
fn thread_nanos() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Until that many more messages are delivered at both.
fn push(from: &mut Side, to: &mut Side, messages: usize, message: &[u8]) {
    let until = to.wire.delivered + messages as u64;
    let mut left = messages;
    while left > 0 || to.wire.delivered < until || from.wire.delivered < until {
        left -= from.step(to, left.min(BURST), message);
        to.step(from, 0, message);
    }
}

/// Messages between two turns.
const BURST: usize = 256;
/// As the UDP driver has it on loopback, and on an Ethernet.
const PACKET_BYTES_MAX: u32 = phalanx::driver::udp::PACKET_BYTES_LOOPBACK;
const PACKET_BYTES_ETHERNET: u32 = phalanx::driver::udp::PACKET_BYTES_ETHERNET;
