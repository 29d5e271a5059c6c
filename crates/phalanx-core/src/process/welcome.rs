//! The welcome: a member sends a joiner what is in force, in one message or in parts if it is long.
//!
//! Parts go out as the channel takes them, so other control messages do not wait behind all of them. The parts of one
//! sender arrive in order or not at all. A joiner takes the parts of one sender at a time. If that sender falls silent,
//! the joiner asks to join again, and the member that receives the request starts anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{Process, Stage};
use crate::api::Effects;
use crate::id::Incarnation;
use crate::member::{Control, Proposal, Welcome, WelcomePart};
use crate::time::Instant;
use crate::wire::DropReason;

/// From this level on long welcomes go in parts (`docs/levels.md`).
const PARTS_LEVEL: u16 = 5;
/// A welcome longer than this goes in parts of this length.
const PART_BYTES: usize = 64 << 10;
/// Parts that may wait on a control channel, in bytes.
const WAITING_BYTES: usize = 8 * PART_BYTES;
/// The longest welcome: 1 GiB. A joiner keeps no more of one.
const WELCOME_BYTES_MAX: u64 = 1 << 30;
/// A long welcome is borne to be this slow: without it, one of hundreds of megabytes would end with its joiner suspected, whom the others do not
/// hear before it has all.
const BYTES_PER_SECOND: u64 = 8 << 20;
const _: () = assert!(PART_BYTES <= WAITING_BYTES, "a part may wait on its channel");
const _: () = assert!((PART_BYTES as u64) < WELCOME_BYTES_MAX, "a welcome in parts may be long");
/// A joiner waits for the next part for this part of `suspect_after`: then it asks again, and a member that it does not hear from
/// can still tell it before the others suspect it.
const PATIENCE_DIVISOR: u32 = 3;

/// Welcomes under way in parts.
#[derive(Default)]
pub(super) struct Welcomes {
    /// To whom this process tells one.
    telling: BTreeMap<Incarnation, OutgoingWelcome>,
    /// The one that it is told.
    taking: Option<WelcomeReassembly>,
}

/// A welcome as its teller sees it.
struct OutgoingWelcome {
    decree: u64,
    /// As it would travel in one message; shared by all who are told the same.
    whole: Bytes,
    /// What was handed to the channel.
    offset: usize,
}

/// A welcome as its joiner sees it.
struct WelcomeReassembly {
    from: Incarnation,
    decree: u64,
    len_bytes: u64,
    /// What has come: no more is kept than was received.
    bytes: Vec<u8>,
    /// When the last part came.
    at: Instant,
}

impl OutgoingWelcome {
    fn rest(&self) -> usize {
        self.whole.len() - self.offset
    }

    fn next(&self) -> WelcomePart {
        debug_assert!(self.rest() > 0, "a part of nothing is refused");
        let bytes = self.whole[self.offset..][..self.rest().min(PART_BYTES)].to_vec();
        WelcomePart { decree: self.decree, len_bytes: self.whole.len() as u64, offset: self.offset as u64, bytes }
    }
}

impl Welcomes {
    /// Whether a member tells this process one, as far as that can be known.
    pub(super) fn is_coming(&self, now: Instant, suspect_after: Duration) -> bool {
        self.taking.as_ref().is_some_and(|taking| now.since(taking.at) < suspect_after / PATIENCE_DIVISOR)
    }

    /// `dead` tells no more.
    pub(super) fn forget(&mut self, dead: Incarnation) {
        self.taking.take_if(|taking| taking.from == dead);
        self.telling.remove(&dead);
    }

    /// This process is in the view.
    pub(super) fn stop_taking(&mut self) {
        self.taking = None;
    }

    /// Checks what must always hold.
    pub(super) fn check_invariants(&self) {
        for telling in self.telling.values() {
            assert!(telling.offset <= telling.whole.len(), "more of a welcome was sent than there is");
        }
        if let Some(taking) = &self.taking {
            assert!((taking.bytes.len() as u64) < taking.len_bytes, "a welcome is here and was not taken");
            assert!(taking.len_bytes <= WELCOME_BYTES_MAX, "a welcome is longer than may be kept");
        }
    }

    /// Takes a part. Gives the whole with its last one; an error is the part of no message that can be.
    fn take(
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

/// What became of a part.
#[derive(Debug, PartialEq, Eq)]
enum Taken {
    /// More has to come.
    Kept,
    /// It was the last.
    Whole(Vec<u8>),
    /// It belongs to no welcome that is taken.
    Dropped,
}

impl Process {
    /// Tells a joiner that `proposal`, in force, took it in.
    pub(super) fn welcome(&mut self, to: Incarnation, proposal: Arc<Proposal>) {
        let decree = self.directory.decree;
        let telling = &self.welcomes.telling;
        if telling.get(&to).is_some_and(|telling| telling.decree == decree) {
            return; // it is under way
        }
        let same = telling.values().find(|telling| telling.decree == decree).map(|telling| telling.whole.clone());
        let whole = same.or_else(|| {
            let welcome = Welcome { instance: self.instance, directory: self.directory.clone(), proposal };
            Control::Welcome(Box::new(welcome)).encode().ok().map(Bytes::from)
        });
        let Some(whole) = whole else { return };
        if whole.len() <= PART_BYTES || self.directory.level < PARTS_LEVEL {
            return self.send_encoded(to, whole);
        }
        if whole.len() as u64 > WELCOME_BYTES_MAX {
            self.counters.control_refused += 1;
            return;
        }
        self.counters.welcomes_in_parts += 1;
        self.welcomes.telling.insert(to, OutgoingWelcome { decree, whole, offset: 0 });
        self.send_welcome_parts();
    }

    /// How long its welcome keeps a joiner that came with `proposal`: meanwhile only the member that tells it hears it. Zero where
    /// that is short.
    pub(super) fn welcome_takes(&self, proposal: &Proposal) -> Duration {
        if proposal.joined.is_empty() || self.directory.level < PARTS_LEVEL {
            return Duration::ZERO;
        }
        match postcard::experimental::serialized_size(&self.directory) {
            Ok(bytes) if bytes > PART_BYTES => Duration::from_micros(bytes as u64 * 1_000_000 / BYTES_PER_SECOND),
            _ => Duration::ZERO,
        }
    }

    /// Hands the next parts of welcomes to the channels. A welcome is told until the joiner has acknowledged all of it, though later
    /// decrees are installed here meanwhile: they are told to it afterwards, as to any member that missed them.
    pub(super) fn send_welcome_parts(&mut self) {
        let Self { peers, welcomes, directory, reported_decrees, .. } = self;
        welcomes.telling.retain(|to, telling| {
            let Some(peer) = peers.get_mut(*to) else { return false };
            let told = directory.rank(*to).and_then(|rank| reported_decrees.get(rank.index()));
            if told.is_some_and(|told| *told >= telling.decree) {
                return false; // somebody else told it
            }
            while telling.rest() > 0 && peer.control_channel.queued_bytes() < WAITING_BYTES {
                let part = telling.next();
                let len = part.bytes.len();
                let Ok(bytes) = Control::WelcomePart(part).encode() else { return false };
                if peer.control_channel.send(Bytes::from(bytes), usize::MAX).is_err() {
                    return false;
                }
                telling.offset += len;
            }
            telling.rest() > 0 || !peer.control_channel.is_idle()
        });
    }

    /// At once, if a channel could send more parts than wait there.
    pub(super) fn parts_deadline(&self) -> Option<Instant> {
        let mut telling = self.welcomes.telling.iter().filter(|(_, telling)| telling.rest() > 0);
        let goes_on = |to: Incarnation| self.peers.get(to).is_some_and(|peer| peer.control_channel.takes_more());
        telling.any(|(to, _)| goes_on(*to)).then_some(Instant::ZERO)
    }

    /// A member says in parts that this process was taken in.
    pub(super) fn handle_welcome_part(
        &mut self,
        now: Instant,
        from: Incarnation,
        part: WelcomePart,
        fx: &mut impl Effects,
    ) {
        if !matches!(self.stage, Stage::Searching(_)) {
            return;
        }
        let suspect_after = self.suspect_after();
        match self.welcomes.take(now, from, &part, suspect_after) {
            Ok(Taken::Kept) => {}
            Ok(Taken::Dropped) => self.counters.welcome_parts_dropped += 1,
            Ok(Taken::Whole(bytes)) => match Control::decode(&bytes) {
                Ok(Control::Welcome(welcome)) => self.handle_welcome(now, *welcome, fx),
                _ => self.counters.drop(DropReason::Malformed),
            },
            Err(reason) => self.counters.drop(reason),
        }
    }

    /// A member says that this process was taken in.
    pub(super) fn handle_welcome(&mut self, now: Instant, welcome: Welcome, fx: &mut impl Effects) {
        if !matches!(self.stage, Stage::Searching(_)) || welcome.directory.rank(self.me()).is_none() {
            return;
        }
        if !welcome.is_sound() {
            return self.counters.drop(DropReason::Malformed);
        }
        if !self.mark_joined(welcome.instance, fx) {
            return;
        }
        self.instance = welcome.instance;
        self.enter(now, welcome.directory, welcome.proposal, fx);
    }
}

#[cfg(test)]
mod tests;
