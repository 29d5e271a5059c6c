//! Welcomes under way in parts: at the member that sends one, and at the joiner that puts it together.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use crate::id::{DecreeNumber, Incarnation};
use crate::member::WelcomePart;
use crate::time::Instant;
use crate::wire::DropReason;

/// A welcome that is longer goes in parts of this length.
pub(super) const PART_BYTES: usize = 64 << 10;

/// The longest welcome, 1 GiB. A joiner keeps no more of one.
pub(super) const WELCOME_BYTES_MAX: u64 = 1 << 30;

const _: () = assert!((PART_BYTES as u64) < WELCOME_BYTES_MAX, "a welcome in parts may be long");

/// A joiner waits for the next part for `suspect_after` divided by this, and then asks again. So another member can
/// still send it the welcome before the others suspect it.
pub(super) const PATIENCE_DIVISOR: u32 = 3;

/// Welcomes under way in parts.
#[derive(Default)]
pub(in crate::process) struct Welcomes {
    /// The welcomes that this process sends, by joiner.
    pub(super) telling: BTreeMap<Incarnation, OutgoingWelcome>,
    /// The welcome that this process receives.
    pub(super) taking: Option<WelcomeReassembly>,
}

/// A welcome on the side of its sender.
pub(super) struct OutgoingWelcome {
    pub(super) decree: DecreeNumber,
    /// The encoded message, shared by all joiners that get the same one.
    pub(super) whole: Bytes,
    /// How many bytes were handed to the channel.
    pub(super) offset: usize,
}

/// A welcome on the side of its joiner.
pub(super) struct WelcomeReassembly {
    pub(super) from: Incarnation,
    pub(super) decree: DecreeNumber,
    pub(super) len_bytes: u64,
    /// The received parts. Memory is used only for bytes that have arrived, whatever `len_bytes` announces.
    pub(super) bytes: Vec<u8>,
    /// When the last part arrived.
    pub(super) at: Instant,
}

impl OutgoingWelcome {
    pub(super) fn rest(&self) -> usize {
        self.whole.len() - self.offset
    }

    pub(super) fn next(&self) -> WelcomePart {
        debug_assert!(self.rest() > 0, "a part of nothing is refused");
        let bytes = self.whole[self.offset..][..self.rest().min(PART_BYTES)].to_vec();
        WelcomePart { decree: self.decree, len_bytes: self.whole.len() as u64, offset: self.offset as u64, bytes }
    }
}

impl Welcomes {
    /// Whether a member is sending this process a welcome, as far as that can be known.
    pub(in crate::process) fn is_coming(&self, now: Instant, suspect_after: Duration) -> bool {
        self.taking.as_ref().is_some_and(|taking| now.since(taking.at) < suspect_after / PATIENCE_DIVISOR)
    }

    /// Forgets transfers from and to a dead process.
    pub(in crate::process) fn forget(&mut self, dead: Incarnation) {
        self.taking.take_if(|taking| taking.from == dead);
        self.telling.remove(&dead);
    }

    /// Ends the reception: this process is in the view.
    pub(in crate::process) fn stop_taking(&mut self) {
        self.taking = None;
    }

    /// Checks what must always hold.
    pub(in crate::process) fn check_invariants(&self) {
        for telling in self.telling.values() {
            assert!(telling.offset <= telling.whole.len(), "more of a welcome was sent than it contains");
        }
        if let Some(taking) = &self.taking {
            assert!((taking.bytes.len() as u64) < taking.len_bytes, "a complete welcome was not taken");
            assert!(taking.len_bytes <= WELCOME_BYTES_MAX, "a welcome is longer than may be kept");
        }
    }

    /// Takes a part, and returns the whole with the last one. Fails for a part that belongs to no possible message.
    pub(super) fn take(
        &mut self,
        now: Instant,
        from: Incarnation,
        part: &WelcomePart,
        suspect_after: Duration,
    ) -> Result<Taken, DropReason> {
        let end = part.offset.checked_add(part.bytes.len() as u64).ok_or(DropReason::Malformed)?;
        if part.bytes.is_empty() || part.len_bytes > WELCOME_BYTES_MAX || end > part.len_bytes {
            return Err(DropReason::Malformed);
        }
        // A first part starts the reception anew, unless the welcome of another member is on its way.
        if part.offset == 0 {
            let is_busy = self.is_coming(now, suspect_after);
            let yields = |taking: &WelcomeReassembly| {
                !is_busy || part.decree > taking.decree || (taking.from == from && part.decree == taking.decree)
            };
            if !self.taking.as_ref().is_none_or(yields) {
                return Ok(Taken::Dropped);
            }
            let (decree, len_bytes) = (part.decree, part.len_bytes);
            self.taking = Some(WelcomeReassembly { from, decree, len_bytes, bytes: Vec::new(), at: now });
        }
        let goes_on = |taking: &WelcomeReassembly| {
            (taking.from, taking.decree, taking.len_bytes) == (from, part.decree, part.len_bytes)
                && taking.bytes.len() as u64 == part.offset
        };
        let Some(taking) = self.taking.as_mut().filter(|taking| goes_on(taking)) else { return Ok(Taken::Dropped) };
        taking.bytes.extend_from_slice(&part.bytes);
        debug_assert_eq!(taking.bytes.len() as u64, end, "parts are put together in order");
        taking.at = now;
        if end < part.len_bytes {
            return Ok(Taken::Kept);
        }
        Ok(self.taking.take().map_or(Taken::Dropped, |taking| Taken::Whole(taking.bytes)))
    }
}

/// The outcome for one part.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// More parts have to come.
    Kept,
    /// It was the last part.
    Whole(Vec<u8>),
    /// It belongs to no welcome that is being received.
    Dropped,
}
