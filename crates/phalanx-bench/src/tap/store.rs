//! Where accepted packets are copied to: the two buffers of the paper.

use phalanx_tap::Packet;

/// Two buffers. Packets are copied to one, and when it is full to the other, while a reader takes the first. Here the
/// reader takes nothing: what it costs is not the tap's.
#[derive(Debug)]
pub(crate) struct Store {
    halves: [Box<[u8]>; 2],
    filling: usize,
    /// Bytes of the buffer in use that are filled.
    filled: usize,
    /// How many packets were kept.
    pub(crate) packets: u64,
    /// How many bytes of them.
    pub(crate) bytes: u64,
}

impl Store {
    pub(crate) fn new() -> Self {
        let half = || vec![0; HALF_BYTES].into_boxed_slice();
        Self { halves: [half(), half()], filling: 0, filled: 0, packets: 0, bytes: 0 }
    }

    /// Copies the first `snap` bytes of a packet behind a header of two lengths.
    #[inline]
    pub(crate) fn keep(&mut self, packet: &Packet<'_>, snap: u32) {
        let count = packet.held().min(snap as usize).min(HALF_BYTES - HEADER_BYTES);
        let needed = HEADER_BYTES + count.next_multiple_of(HEADER_BYTES);
        if self.filled + needed > HALF_BYTES {
            self.filling ^= 1;
            self.filled = 0;
        }
        let place = &mut self.halves[self.filling][self.filled..][..HEADER_BYTES + count];
        let (header, body) = place.split_at_mut(HEADER_BYTES);
        let copied = packet.copy(snap, body);
        header[..4].copy_from_slice(&(copied as u32).to_le_bytes());
        header[4..].copy_from_slice(&packet.len().to_le_bytes());
        self.filled += needed;
        self.packets += 1;
        self.bytes += copied as u64;
    }

    /// The packet that was kept last, without its header, if it begins its buffer.
    #[cfg(test)]
    pub(crate) fn first(&self) -> &[u8] {
        let half = &self.halves[self.filling];
        let len = u32::from_le_bytes([half[0], half[1], half[2], half[3]]) as usize;
        &half[HEADER_BYTES..][..len]
    }
}

/// Bytes of a buffer, as in the paper's measurement.
pub(crate) const HALF_BYTES: usize = 16 << 10;
/// Bytes before a packet: how many of it were kept, and its length. Packets begin at multiples of it.
pub(crate) const HEADER_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_buffer_gives_way_to_the_other() {
        let (mut store, body) = (Store::new(), [7; 1_000]);
        let packet = Packet::new(&[1, 2], [&body, &[3], &[]]);
        for _ in 0..40 {
            store.keep(&packet, 5);
            store.keep(&packet, u32::MAX);
        }
        assert_eq!((store.packets, store.bytes), (80, 40 * (5 + 1_003)));
        assert!(store.filled <= HALF_BYTES);
        let mut store = Store::new();
        store.keep(&packet, 4);
        assert_eq!(store.first(), [1, 2, 7, 7]);
    }
}
