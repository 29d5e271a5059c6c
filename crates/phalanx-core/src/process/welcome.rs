//! The welcome: a member sends a joiner what is in force, in one message or in parts if it is long.
//!
//! Parts go out as the channel takes them, so other control messages do not wait behind all of them. The parts of one
//! sender arrive in order or not at all. A joiner takes the parts of one sender at a time. If that sender falls silent,
//! the joiner asks to join again, and the member that receives the request starts anew.

mod parts;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{Process, Stage};
use crate::api::Effects;
use crate::id::Incarnation;
use crate::member::{Control, Proposal, Welcome, WelcomePart};
use crate::time::Instant;
use crate::wire::DropReason;
use parts::{OutgoingWelcome, PART_BYTES, Taken, WELCOME_BYTES_MAX};

pub(super) use parts::Welcomes;

/// The level from which on long welcomes go in parts (`docs/levels.md`).
const PARTS_LEVEL: u16 = 5;
/// Parts that may wait on a control channel, in bytes.
const WAITING_BYTES: usize = 8 * PART_BYTES;
/// Rate at which a long welcome may at least travel. The others do not hear the joiner before it has all of it. Without
/// this allowance, a welcome of hundreds of megabytes would end with the joiner suspected.
const BYTES_PER_SECOND: u64 = 8 << 20;
const _: () = assert!(PART_BYTES <= WAITING_BYTES, "a part may wait on its channel");

impl Process {
    /// Notifies a joiner that `proposal`, in force, took it in.
    pub(super) fn welcome(&mut self, to: Incarnation, proposal: Arc<Proposal>) {
        let decree = self.directory.decree;
        let telling = &self.welcomes.telling;
        if telling.get(&to).is_some_and(|telling| telling.decree == decree) {
            return; // it is under way already
        }
        // Encoded once: all joiners of a decree get the same bytes, which may be hundreds of megabytes.
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

    /// The time that its welcome takes for a joiner of `proposal`. Meanwhile only the sender of the welcome hears it.
    /// Zero if that is short.
    pub(super) fn welcome_takes(&self, proposal: &Proposal) -> Duration {
        if proposal.joined.is_empty() || self.directory.level < PARTS_LEVEL {
            return Duration::ZERO;
        }
        match postcard::experimental::serialized_size(&self.directory) {
            Ok(bytes) if bytes > PART_BYTES => Duration::from_micros(bytes as u64 * 1_000_000 / BYTES_PER_SECOND),
            _ => Duration::ZERO,
        }
    }

    /// Hands the next parts of welcomes to the channels.
    ///
    /// A welcome is sent until the joiner has acknowledged all of it, even if later decrees are installed here
    /// meanwhile. The joiner gets those afterwards, like any member that missed them.
    pub(super) fn send_welcome_parts(&mut self) {
        let Self { peers, welcomes, directory, reported_decrees, .. } = self;
        welcomes.telling.retain(|to, telling| {
            let Some(peer) = peers.get_mut(*to) else { return false };
            let told = directory.rank(*to).and_then(|rank| reported_decrees.get(rank.index()));
            if told.is_some_and(|told| *told >= telling.decree) {
                return false; // another member sent it
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

    /// Due at once if a channel could send more parts than wait on it.
    pub(super) fn parts_deadline(&self) -> Option<Instant> {
        let mut telling = self.welcomes.telling.iter().filter(|(_, telling)| telling.rest() > 0);
        let goes_on = |to: Incarnation| self.peers.get(to).is_some_and(|peer| peer.control_channel.takes_more());
        telling.any(|(to, _)| goes_on(*to)).then_some(Instant::ZERO)
    }

    /// Handles a part of the welcome that notifies this process that it was taken in.
    pub(super) fn handle_welcome_part(
        &mut self,
        now: Instant,
        from: Incarnation,
        part: WelcomePart,
        fx: &mut dyn Effects,
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

    /// Handles the notice of a member that this process was taken in.
    pub(super) fn handle_welcome(&mut self, now: Instant, welcome: Welcome, fx: &mut dyn Effects) {
        if !matches!(self.stage, Stage::Searching(_)) || welcome.directory.rank(self.me()).is_none() {
            return;
        }
        if !welcome.is_sound() {
            return self.counters.drop(DropReason::Malformed);
        }
        if !self.mark_joined(welcome.instance, &welcome.directory, fx) {
            return;
        }
        self.instance = welcome.instance;
        self.enter(now, welcome.directory, welcome.proposal, fx);
    }
}

#[cfg(test)]
mod tests;
