//! Names to indices, fast: the tables behind reading.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use phalanx_trace::Order;

use super::{Message, MessageIx, Moment, ProcIx, Stream, ViewIx};

/// A hash map for small integer keys.
pub(crate) type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<IntHasher>>;

/// A hash set of small integers.
pub(crate) type FastSet<K> = HashSet<K, BuildHasherDefault<IntHasher>>;

/// Spreads the bits of integers; keys come from our own traces, so nobody aims at it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IntHasher(u64);

impl Hasher for IntHasher {
    fn finish(&self) -> u64 {
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

/// Messages by (view, sender, seq).
#[derive(Debug, Default)]
pub(crate) struct Messages {
    streams: FastMap<(ViewIx, ProcIx), u32>,
    numbers: FastMap<(u32, u64), MessageIx>,
    /// The stream asked for last: records of one sender come in runs.
    last: Option<((ViewIx, ProcIx), u32)>,
}

/// What a record says of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    pub(crate) seq: u64,
    pub(crate) order: Order,
    pub(crate) uniform: bool,
    pub(crate) hash: u64,
    /// For the record of its sending.
    pub(crate) sent: Option<Moment>,
}

impl Messages {
    /// The message's index; what its sender says of it counts, else what was said first.
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

/// The index of the last of `len` things. Memory ends long before the numbers do.
fn narrow(len: usize) -> u32 {
    u32::try_from(len - 1).expect("fewer than 2^32 messages fit in memory")
}
