//! The replicated state of the torture: the deliveries and their order, summarised in a few words. A snapshot adds
//! padding whose every byte follows from them, so that damage during a transfer shows.

use phalanx::Order;

/// Summary of a group's deliveries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Digest of the abcasts, in their order.
    ordered: u64,
    /// Digest of all messages, independent of their order.
    all: u64,
    count: u64,
}

/// Length of the words at the beginning of a snapshot.
const HEAD_BYTES: usize = 24;

/// Length of a snapshot: several packets, and quick to take.
const SNAPSHOT_BYTES: usize = 48 << 10;

impl Tally {
    pub(super) fn apply(&mut self, order: Order, sender: u64, payload: &[u8]) {
        let hash = payload.iter().fold(sender ^ 0xcbf2_9ce4_8422_2325, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        self.all = self.all.wrapping_add(mix(hash));
        self.count += 1;
        if order == Order::Total {
            self.ordered = mix(self.ordered ^ hash);
        }
    }

    pub(super) fn digest(&self) -> u64 {
        mix(mix(self.ordered ^ mix(self.all)) ^ self.count)
    }

    pub(super) fn snapshot(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SNAPSHOT_BYTES);
        for word in [self.ordered, self.all, self.count] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let mut next = self.digest();
        while bytes.len() < SNAPSHOT_BYTES {
            next = mix(next);
            bytes.extend_from_slice(&next.to_le_bytes());
        }
        bytes
    }

    /// Decodes a snapshot. `None`: these bytes are none.
    pub(super) fn restore(bytes: &[u8]) -> Option<Self> {
        let (head, _) = bytes.split_at_checked(HEAD_BYTES)?;
        let mut words = head.chunks_exact(8).map(|word| word.iter().rev().fold(0, |sum, b| sum << 8 | u64::from(*b)));
        let tally = Self { ordered: words.next()?, all: words.next()?, count: words.next()? };
        (tally.snapshot() == bytes).then_some(tally)
    }
}

fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(messages: &[(Order, &[u8])]) -> Tally {
        let mut tally = Tally::default();
        messages.iter().for_each(|(order, payload)| tally.apply(*order, 7, payload));
        tally
    }

    #[test]
    fn only_the_order_of_abcasts_counts() {
        let one = tally(&[(Order::Fifo, b"a"), (Order::Total, b"b"), (Order::Total, b"c")]);
        assert_eq!(one, tally(&[(Order::Total, b"b"), (Order::Fifo, b"a"), (Order::Total, b"c")]));
        assert_ne!(one, tally(&[(Order::Fifo, b"a"), (Order::Total, b"c"), (Order::Total, b"b")]));
        assert_ne!(one.digest(), tally(&[(Order::Total, b"b"), (Order::Total, b"c")]).digest());
    }

    #[test]
    fn a_snapshot_comes_through_and_damage_is_seen() {
        let tally = tally(&[(Order::Total, b"b")]);
        let mut bytes = tally.snapshot();
        assert_eq!(Tally::restore(&bytes), Some(tally));
        bytes[SNAPSHOT_BYTES / 2] ^= 1;
        assert_eq!(Tally::restore(&bytes), None);
        assert_eq!(Tally::restore(&[]), None);
    }
}
