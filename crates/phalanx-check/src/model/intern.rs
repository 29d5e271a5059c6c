//! Hash tables that map names to indices, tuned for reading.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use phalanx_trace::Order;

use super::{Message, MessageIx, Moment, ProcIx, Stream, ViewIx};

/// A hash map for small integer keys.
pub(crate) type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<IntHasher>>;

/// A hash set of small integers.
pub(crate) type FastSet<K> = HashSet<K, BuildHasherDefault<IntHasher>>;

/// Hashes integers by spreading their bits. No attacker chooses the keys, so the hash need not be keyed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IntHasher(u64);

impl Hasher for IntHasher {
    fn finish(&self) -> u64 {
        // The multiplication mixes the high bits best, and a hash table uses the low ones.
        self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(u64::from(b));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0xf135_7aea_2e62_a9c5);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

/// A bijection of 64-bit numbers without visible structure (the finalizer of `SplitMix64`).
pub(crate) fn scramble(value: u64) -> u64 {
    let mut z = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Indices of messages by (view, sender, sequence number).
#[derive(Debug, Default)]
pub(crate) struct Messages {
    streams: FastMap<(ViewIx, ProcIx), u32>,
    numbers: FastMap<(u32, u64), MessageIx>,
    /// The stream looked up last. Records of one sender often follow each other, so this saves a lookup.
    last: Option<((ViewIx, ProcIx), u32)>,
}

/// The properties of a message according to one record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    pub(crate) seq: u64,
    pub(crate) order: Order,
    pub(crate) uniform: bool,
    pub(crate) hash: u64,
    /// Set in the record of its send.
    pub(crate) sent: Option<Moment>,
}

impl Messages {
    /// Returns the message's index. The record of the send takes precedence; otherwise the first record does.
    pub(crate) fn note(
        &mut self,
        streams: &mut Vec<Stream>,
        messages: &mut Vec<Message>,
        of: (usize, ViewIx, ProcIx),
        said: Said,
    ) -> MessageIx {
        let (group, view, sender) = of;
        let key = (view, sender);
        let stream = match self.last {
            Some((last, stream)) if last == key => stream,
            _ => *self.streams.entry(key).or_insert_with(|| {
                streams.push(Stream { group, view, sender, rank: None });
                narrow(streams.len())
            }),
        };
        self.last = Some((key, stream));
        let Said { seq, order, uniform, hash, sent } = said;
        let index = *self.numbers.entry((stream, seq)).or_insert_with(|| {
            messages.push(Message { stream, seq, order, uniform, hash, sent });
            narrow(messages.len())
        });
        let message = &mut messages[index as usize];
        if sent.is_some() && message.sent.is_none() {
            *message = Message { order, uniform, hash, sent, ..*message };
        }
        index
    }
}

/// Index of the last of `len` elements. It fits, because memory is exhausted long before 2^32 elements.
fn narrow(len: usize) -> u32 {
    u32::try_from(len - 1).expect("fewer than 2^32 messages fit in memory")
}
