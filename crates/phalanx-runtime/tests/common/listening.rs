//! A driver that records arriving packets and detects a nonce that was used for two packets.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx_runtime::core::{Origin, Packet, TrafficClass};
use phalanx_runtime::driver::{Driver, Neighbours, Received, Wait, Waker, Woken};

/// The record of arrivals.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Notes>>);

#[derive(Default)]
struct Notes {
    /// Packets by sender, space and number, which together are key and nonce: their sealed bytes, and their clear bytes
    /// through memory.
    packets: HashMap<[u8; 20], [Option<u64>; 2]>,
    /// Packets that arrived again under the same nonce: with the same bytes, and with different bytes.
    again: u64,
    broken: u64,
    /// Packets that hold [`MARK`] in clear.
    marked: u64,
}

impl Heard {
    fn note(&self, origin: Origin, packet: &[u8]) {
        let mut notes = self.0.lock().expect("no panic");
        notes.marked += u64::from(packet.windows(MARK.len()).any(|part| part == MARK));
        let Some(nonce) = packet.get(4..24) else { return };
        let mut hasher = DefaultHasher::new();
        packet.hash(&mut hasher);
        let hash = hasher.finish();
        let seen = notes.packets.entry(nonce.try_into().expect("20 bytes")).or_default();
        // A packet that arrived through memory may be retransmitted over the network.
        let comes_again = seen.iter().any(Option::is_some);
        let before = seen[usize::from(origin == Origin::Memory)].replace(hash);
        let is_broken = before.is_some_and(|before| before != hash);
        notes.broken += u64::from(is_broken);
        notes.again += u64::from(comes_again && !is_broken);
    }

    /// Evidence that a forked child sent: its mark, or a nonce that stands for two packets.
    pub(crate) fn faults(&self) -> Vec<String> {
        let notes = self.0.lock().expect("no panic");
        let mut faults = Vec::new();
        if notes.broken > 0 {
            faults.push(format!("{} nonces stand for two packets", notes.broken));
        }
        if notes.marked > 0 {
            faults.push(format!("{} packets in clear are the child's", notes.marked));
        }
        faults
    }

    /// The number of packets that arrived again unchanged.
    pub(crate) fn again(&self) -> u64 {
        self.0.lock().expect("no panic").again
    }
}

/// The driver.
pub(crate) struct Listening<D> {
    pub(crate) inner: D,
    pub(crate) heard: Heard,
}

impl<D: Driver> Driver for Listening<D> {
    type Outbox = D::Outbox;

    fn receive(
        &mut self,
        max: usize,
        each: &mut impl FnMut(&mut Self::Outbox, TrafficClass, Origin, Packet<'_>),
    ) -> Received {
        let heard = &self.heard;
        self.inner.receive(max, &mut |outbox, class, origin, packet| {
            heard.note(origin, &packet);
            each(outbox, class, origin, packet);
        })
    }

    fn outbox(&mut self) -> &mut Self::Outbox {
        self.inner.outbox()
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn local_address(&self, class: TrafficClass) -> SocketAddr {
        self.inner.local_address(class)
    }

    fn packet_bytes_max(&self) -> u32 {
        self.inner.packet_bytes_max()
    }

    fn receive_packets(&self) -> u32 {
        self.inner.receive_packets()
    }

    fn unreachable(&mut self) -> Vec<SocketAddr> {
        self.inner.unreachable()
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.inner.counters(each);
    }
}

impl<D: Wait> Wait for Listening<D> {
    fn wait(&mut self, timeout: Option<Duration>, extra: &[BorrowedFd<'_>]) -> io::Result<Woken> {
        self.inner.wait(timeout, extra)
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn neighbours(&mut self) -> Option<&mut dyn Neighbours> {
        self.inner.neighbours()
    }
}

/// The mark that a forked child writes into everything it tries to send.
pub(crate) const MARK: &[u8] = b"from the child";
