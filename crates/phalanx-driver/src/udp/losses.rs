//! What the sockets dropped, and how full they are.

use std::os::fd::BorrowedFd;

use phalanx_core::truesize;

use super::mmsg::option;

/// What is known of the drops and the room of one socket.
///
/// The kernel says its running count of drops with each datagram that it queues after a drop; the drops after which
/// nothing more came, and the room left, cost a system call. A socket drops when its buffer is full, and a full buffer
/// is emptied by taking all of it: so it is enough to ask whenever a quarter of the buffer was taken. An ask after
/// the last drop is then certain, and a socket with little traffic is never asked. News of a drop is a reason to ask
/// too: the buffer may be smaller than it was.
#[derive(Debug)]
pub(super) struct Losses {
    /// The count of drops as last heard.
    drops: u32,
    /// Drops not yet reported.
    lost: u64,
    capacity_bytes: u64,
    /// Charged for what was taken since the kernel was last asked.
    taken_bytes: u64,
    held_bytes: u64,
    /// A datagram told of a drop since the kernel was last asked.
    alarmed: bool,
}

impl Losses {
    pub(super) fn new(capacity_bytes: usize) -> Self {
        Self { drops: 0, lost: 0, capacity_bytes: capacity_bytes as u64, taken_bytes: 0, held_bytes: 0, alarmed: false }
    }

    pub(super) fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// What waited in the socket when the kernel was last asked, or nothing if it was found empty since.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// A buffer of this length was taken; `drops` is what the kernel said with it. Gives the drops not heard before.
    pub(super) fn take(&mut self, len_bytes: usize, drops: Option<u32>) -> u64 {
        self.taken_bytes += truesize(len_bytes as u64);
        let news = drops.map_or(0, |drops| self.hear(drops));
        self.alarmed |= news > 0;
        news
    }

    /// Nothing waits in the socket.
    pub(super) fn note_empty(&mut self) {
        self.held_bytes = 0;
    }

    /// Counts are taken at different moments: one that was queued before the last ask is old.
    fn hear(&mut self, drops: u32) -> u64 {
        let news = drops.wrapping_sub(self.drops);
        if news == 0 || news > u32::MAX / 2 {
            return 0;
        }
        self.drops = drops;
        self.lost += u64::from(news);
        u64::from(news)
    }

    /// Asks the kernel if it is time to. Gives the drops not heard before.
    pub(super) fn ask(&mut self, socket: BorrowedFd<'_>) -> Option<u64> {
        if !self.alarmed && self.taken_bytes < self.capacity_bytes / 4 {
            return None;
        }
        (self.taken_bytes, self.alarmed) = (0, false);
        let memory = option::memory(socket).ok()?;
        self.capacity_bytes = u64::from(memory.capacity_bytes);
        self.held_bytes = u64::from(memory.held_bytes);
        Some(self.hear(memory.drops))
    }

    /// The drops since this was last called.
    pub(super) fn report(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}

#[cfg(test)]
mod tests;
