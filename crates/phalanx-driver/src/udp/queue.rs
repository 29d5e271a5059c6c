//! The queue of packets for the next flush.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::AsFd;

use socket2::Socket;

use super::destinations::{Destination, Destinations, END};
use super::mmsg::{self, Cause, PIECES_MAX, Piece, RUNS_MAX, Run};
use super::stats::UdpStats;

/// A bounded queue of packets. The bytes of a packet to several destinations are stored once.
///
/// Each destination has its own list through `packets`. A flush plans runs, one for each destination and round, and
/// removes from the lists only what the kernel took.
#[derive(Debug)]
pub(super) struct SendQueue {
    bytes: Vec<u8>,
    bytes_max: usize,
    /// In the order queued. Packets that the kernel took stay until the queue is empty or the flush ends.
    packets: Vec<Queued>,
    /// How many of them the kernel has not taken yet.
    left: usize,
    destinations: Destinations,
    /// The destinations with packets, in the order of their first packet.
    active: Vec<u32>,
    runs: Vec<Run>,
    pieces: Vec<Piece>,
    /// Runs may hold more than one packet.
    segments: bool,
    /// Most packets in one run, for now.
    run_packets_max: usize,
    /// Runs taken since `run_packets_max` last changed.
    calm: usize,
    hold: Hold,
    /// How often in a row the interface's queue refused the first packet.
    refusals: u32,
    /// Destinations reported as unreachable that nobody has asked for yet.
    unreachable: Vec<SocketAddr>,
}

/// A packet and the next one to the same destination.
#[derive(Clone, Copy, Debug)]
struct Queued {
    start: usize,
    len_bytes: usize,
    to: u32,
    next: u32,
    /// Set while a flush compacts the queue: this packet is not sent yet.
    stays: bool,
}

/// Why the last flush left packets behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    None,
    /// The socket's send buffer is full; poll reports when it has room.
    Blocked,
    /// The interface's queue is full. Nothing reports when it has room, so only time helps.
    Congested,
}

impl SendQueue {
    pub(super) fn new(bytes_max: usize, segments: bool) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes_max),
            bytes_max,
            packets: Vec::with_capacity(PACKETS_MAX),
            left: 0,
            destinations: Destinations::default(),
            active: Vec::new(),
            runs: Vec::with_capacity(RUNS_MAX),
            pieces: Vec::with_capacity(PIECES_MAX),
            segments,
            run_packets_max: RUN_PACKETS_MAX,
            calm: 0,
            hold: Hold::None,
            refusals: 0,
            unreachable: Vec::new(),
        }
    }

    pub(super) fn has_room(&self, copies: usize, len_bytes: usize) -> bool {
        self.bytes.len() + len_bytes <= self.bytes_max && self.packets.len() + copies <= PACKETS_MAX
    }

    /// Sends a packet at once, without queueing it. False: packets are queued before it, or the kernel did not take it.
    pub(super) fn send_unbuffered(
        &mut self,
        to: SocketAddr,
        parts: [&[u8]; 3],
        socket: &Socket,
        stats: &mut UdpStats,
    ) -> bool {
        // Packets to one destination keep their order, so none may overtake the queue.
        if self.left > 0 {
            return false;
        }
        self.destinations.trim();
        let to = self.destinations.find(to);
        stats.send_calls += 1;
        let len_bytes = parts.map(<[u8]>::len).iter().sum();
        let destination = self.destinations.at(to);
        let segment = self.segment_alone(len_bytes, destination);
        let taken = mmsg::send_parts(socket.as_fd(), parts, segment, &destination.name).is_ok();
        if taken {
            self.refusals = 0;
            self.grow_runs(1);
            stats.count_alone(len_bytes);
        }
        taken
    }

    /// Queues the packet for as many of `to` as there is room for, in order, and returns their number.
    pub(super) fn push(&mut self, to: &[SocketAddr], packet: &[u8]) -> usize {
        if self.bytes.len() + packet.len() > self.bytes_max {
            return 0;
        }
        let copies = to.len().min(PACKETS_MAX - self.packets.len());
        let start = self.bytes.len();
        if copies > 0 {
            self.bytes.extend_from_slice(packet);
        }
        if self.left == 0 {
            self.destinations.trim();
        }
        for to in &to[..copies] {
            let to = self.destinations.find(*to);
            self.packets.push(Queued { start, len_bytes: packet.len(), to, next: END, stays: false });
            self.link(self.packets.len() - 1);
        }
        self.left += copies;
        copies
    }

    /// Appends a packet to its destination's list.
    #[expect(clippy::cast_possible_truncation, reason = "the queue has at most `PACKETS_MAX` packets")]
    fn link(&mut self, place: usize) {
        debug_assert!(place < PACKETS_MAX, "more packets than the queue has room for");
        let to = self.packets[place].to;
        let destination = self.destinations.at_mut(to);
        if destination.head == END {
            destination.head = place as u32;
            self.active.push(to);
        } else {
            self.packets[destination.tail as usize].next = place as u32;
        }
        destination.tail = place as u32;
    }

    /// Whether the last flush left packets behind.
    pub(super) fn is_held(&self) -> bool {
        self.hold != Hold::None
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.hold == Hold::Blocked
    }

    pub(super) fn is_congested(&self) -> bool {
        self.hold == Hold::Congested
    }

    /// Whether packets of one length are still sent as runs.
    pub(super) fn segments(&self) -> bool {
        self.segments
    }

    /// Sends queued packets until the kernel takes no more.
    pub(super) fn flush(&mut self, socket: &Socket, stats: &mut UdpStats) {
        self.hold = Hold::None;
        // Linux reports an error that an earlier packet caused in the next call on the socket, whatever that call
        // sends. So after the first such error the same packets are tried again, and not dropped.
        let mut second_try = false;
        while self.left > 0 && self.hold == Hold::None {
            stats.send_calls += 1;
            // Most answers are a single packet. `sendto` has less for the kernel to read than `sendmmsg`, and no plan
            // is needed.
            if let [only] = self.packets[..]
                && self.segment_alone(only.len_bytes, self.destinations.at(only.to)).is_none()
            {
                match self.send_alone(only, socket) {
                    Ok(()) => stats.count_alone(only.len_bytes),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        self.plan();
                        self.handle_error(&error, &mut second_try, socket, stats);
                    }
                }
                continue;
            }
            self.plan();
            let Self { runs, pieces, destinations, bytes, .. } = self;
            match mmsg::send(socket.as_fd(), runs, pieces, |run| &destinations.at(run.to).name, bytes) {
                Ok(count) => {
                    for i in 0..count {
                        stats.count_sent(&self.runs[i]);
                        self.take(self.runs[i]);
                    }
                    self.grow_runs(count);
                    self.refusals = 0;
                    second_try = false;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.handle_error(&error, &mut second_try, socket, stats),
            }
        }
        self.compact();
    }

    /// Sends the only queued packet, which needs no plan.
    fn send_alone(&mut self, packet: Queued, socket: &Socket) -> io::Result<()> {
        let bytes = &self.bytes[packet.start..packet.start + packet.len_bytes];
        let destination = self.destinations.at_mut(packet.to);
        mmsg::send_one(socket.as_fd(), bytes, &destination.name)?;
        destination.head = END;
        (self.left, self.refusals) = (0, 0);
        self.grow_runs(1);
        Ok(())
    }

    /// Decides what an error means for the first run, to which it applies.
    fn handle_error(&mut self, error: &io::Error, second_try: &mut bool, socket: &Socket, stats: &mut UdpStats) {
        let first = self.runs[0];
        let code = error.raw_os_error();
        if let (Some(segment), Some(libc::EMSGSIZE | libc::EINVAL | libc::EIO)) = (first.segment, code) {
            // The same packets are sent again at once, one by one.
            stats.segmentation_refused += 1;
            if code == Some(libc::EMSGSIZE) {
                // They are longer than the path's MTU. One by one they go out in IP fragments; other destinations are
                // not affected.
                self.destinations.at_mut(first.to).segment_bytes_max = usize::from(segment) - 1;
            } else {
                self.segments = false;
            }
            return;
        }
        stats.count(error);
        match code {
            Some(libc::EAGAIN) => self.hold = Hold::Blocked,
            Some(libc::ENOBUFS | libc::ENOMEM) if first.packets > 1 => {
                // A full interface queue may have room for a part of the run. A queue shorter than the run never has
                // room for all of it.
                (self.run_packets_max, self.calm) = (first.packets / 2, 0);
                self.hold = Hold::Congested;
            }
            Some(libc::ENOBUFS | libc::ENOMEM) if self.refusals < REFUSALS_MAX => {
                self.refusals += 1;
                self.hold = Hold::Congested;
            }
            Some(libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN) if !*second_try => {
                *second_try = true;
                self.hear(socket, stats);
            }
            _ => {
                stats.send_dropped += first.packets as u64;
                self.take(first);
                self.refusals = 0;
                *second_try = false;
            }
        }
    }

    /// Lengthens runs again that were shortened, after enough of them were taken.
    fn grow_runs(&mut self, taken: usize) {
        self.calm += taken;
        if self.calm >= CALM_RUNS && self.run_packets_max < RUN_PACKETS_MAX {
            (self.run_packets_max, self.calm) = ((self.run_packets_max * 2).min(RUN_PACKETS_MAX), 0);
        }
    }

    /// Reads the kernel's error reports on packets sent earlier, and learns path MTUs from them.
    pub(super) fn hear(&mut self, socket: &Socket, stats: &mut UdpStats) {
        mmsg::read_reports(socket.as_fd(), |to, cause| {
            stats.count_report(cause);
            let Some(to) = to else { return };
            match cause {
                Cause::TooLong { path_bytes } if path_bytes > 0 => {
                    stats.paths_learned += u64::from(self.destinations.learn_path(to, path_bytes as usize));
                }
                Cause::Refused | Cause::Unreachable => {
                    if self.unreachable.len() < UNREACHABLE_MAX && !self.unreachable.contains(&to) {
                        self.unreachable.push(to);
                    }
                }
                Cause::TooLong { .. } | Cause::Other => {}
            }
        });
    }

    /// The destinations reported as unreachable since the last call.
    pub(super) fn take_unreachable(&mut self) -> Vec<SocketAddr> {
        std::mem::take(&mut self.unreachable)
    }

    /// Plans one sending call: a run for each destination, then a second one for each, until the call is full.
    fn plan(&mut self) {
        self.runs.clear();
        self.pieces.clear();
        for to in &self.active {
            let destination = self.destinations.at_mut(*to);
            destination.cursor = destination.head;
        }
        let mut grows = true;
        while grows {
            grows = false;
            for i in 0..self.active.len() {
                if self.runs.len() == RUNS_MAX || self.pieces.len() == PIECES_MAX {
                    return;
                }
                grows |= self.plan_run(self.active[i]);
            }
        }
    }

    /// Plans the next run to a destination. False: all its packets are planned.
    fn plan_run(&mut self, to: u32) -> bool {
        let destination = self.destinations.at_mut(to);
        let Some(&Queued { start, len_bytes, next, .. }) = self.packets.get(destination.cursor as usize) else {
            return false;
        };
        let segment = u16::try_from(len_bytes).ok().filter(|_| len_bytes <= destination.segment_bytes_max);
        let mut run =
            Run { to, piece: self.pieces.len(), pieces: 1, packets: 1, bytes: len_bytes, segment: None, after: next };
        let mut piece = Piece { start, len_bytes };
        while self.segments && segment.is_some() && run.packets < self.run_packets_max {
            let Some(&Queued { start, len_bytes: len, next, .. }) = self.packets.get(run.after as usize) else { break };
            // An empty datagram cannot be part of a run: segmentation would not produce it.
            if len == 0 || len > len_bytes || run.bytes + len > RUN_BYTES_MAX {
                break;
            }
            if piece.start + piece.len_bytes == start {
                piece.len_bytes += len;
            } else if self.pieces.len() + 2 <= PIECES_MAX {
                self.pieces.push(piece);
                piece = Piece { start, len_bytes: len };
                run.pieces += 1;
            } else {
                break;
            }
            run.segment = segment;
            run.packets += 1;
            run.bytes += len;
            run.after = next;
            if len < len_bytes {
                break;
            }
        }
        if run.packets == 1 {
            run.segment = self.segment_alone(len_bytes, self.destinations.at(to));
        }
        self.pieces.push(piece);
        self.destinations.at_mut(to).cursor = run.after;
        self.runs.push(run);
        true
    }

    /// The segment length to give the kernel for a packet sent alone.
    ///
    /// For a plain packet the kernel allocates one contiguous buffer, which it takes from one processor's cache and
    /// frees on another. For a packet marked as a run it fills page fragments that it has at hand, which is cheaper.
    /// Short packets cost little either way, and long ones lie in pages anyway.
    fn segment_alone(&self, len_bytes: usize, to: &Destination) -> Option<u16> {
        let gains = self.segments && IN_PAGES.contains(&len_bytes) && len_bytes <= to.segment_bytes_max;
        u16::try_from(len_bytes).ok().filter(|_| gains)
    }

    /// Removes a run that the kernel took, or that is dropped.
    fn take(&mut self, run: Run) {
        debug_assert!(run.packets <= self.left, "what is taken was queued");
        self.destinations.at_mut(run.to).head = run.after;
        self.left -= run.packets;
    }

    /// Removes the packets that the kernel took.
    fn compact(&mut self) {
        if self.packets.is_empty() {
            return; // the usual case
        }
        for to in &self.active {
            let destination = self.destinations.at_mut(*to);
            let mut at = std::mem::replace(&mut destination.head, END);
            while let Some(packet) = self.packets.get_mut(at as usize) {
                packet.stays = true;
                at = packet.next;
            }
        }
        self.active.clear();
        if self.left == 0 {
            self.packets.clear();
            self.bytes.clear();
            return;
        }
        self.packets.retain(|packet| packet.stays);
        let taken = self.packets.first().map_or(0, |packet| packet.start);
        self.bytes.drain(..taken);
        for i in 0..self.packets.len() {
            let packet = &mut self.packets[i];
            (packet.start, packet.next, packet.stays) = (packet.start - taken, END, false);
            self.link(i);
        }
        debug_assert_eq!(self.packets.len(), self.left, "what is left is all that stays");
    }
}

/// Lengths for which a page-fragment buffer is cheaper and not the kernel's own choice: from half a page to four pages.
const IN_PAGES: Range<usize> = 2 << 10..16 << 10;

/// Most packets a queue holds, each destination of a packet counted.
const PACKETS_MAX: usize = 2_048;

/// Most packets in one run: older kernels take no more (`UDP_MAX_SEGMENTS`).
const RUN_PACKETS_MAX: usize = 64;

/// Most bytes in one run: the longest IPv4 datagram without its headers.
const RUN_BYTES_MAX: usize = 65_507;

/// Runs that must be taken before longer ones are tried again.
const CALM_RUNS: usize = 256;

/// Most destinations reported as unreachable that are kept.
const UNREACHABLE_MAX: usize = 64;

/// Flushes in which a full interface queue may refuse one packet before it is dropped. The bound keeps one bad
/// interface from blocking packets to others.
const REFUSALS_MAX: u32 = 3;

#[cfg(test)]
mod tests;
