//! Datagrams that a socket dropped, and how full its buffer is.

use std::os::fd::BorrowedFd;

use phalanx_core::truesize;

use super::mmsg::option;

/// What is known of one socket's drops and free room.
///
/// The kernel attaches its running count of drops to each datagram that it queues after a drop. Drops that no later
/// datagram follows, and the free room, cost a system call to learn. A socket drops when its buffer is full, and a full
/// buffer empties only by receiving all of it. So it is enough to ask after each quarter of the buffer received: after
/// the last drop, one query is certain, and a socket with little traffic is never queried. A reported drop also
/// triggers a query, because the buffer may be smaller than it was.
#[derive(Debug)]
pub(super) struct Losses {
    /// The count of drops as last reported.
    drops: u32,
    /// Drops not yet passed on by [`Self::report`].
    lost: u64,
    capacity_bytes: u64,
    /// Truesize of what was received since the last query.
    taken_bytes: u64,
    held_bytes: u64,
    /// A datagram reported a drop since the last query.
    alarmed: bool,
}

impl Losses {
    pub(super) fn new(capacity_bytes: usize) -> Self {
        Self { drops: 0, lost: 0, capacity_bytes: capacity_bytes as u64, taken_bytes: 0, held_bytes: 0, alarmed: false }
    }

    pub(super) fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Bytes in the socket's buffer at the last query; 0 if it was found empty since.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Records a received buffer of this length, and the count of drops that came with it. Returns the drops not known
    /// before.
    pub(super) fn take(&mut self, len_bytes: usize, drops: Option<u32>) -> u64 {
        self.taken_bytes += truesize(len_bytes as u64);
        let news = drops.map_or(0, |drops| self.hear(drops));
        self.alarmed |= news > 0;
        news
    }

    /// Records that nothing waits in the socket.
    pub(super) fn note_empty(&mut self) {
        self.held_bytes = 0;
    }

    /// Takes over a count of drops and returns the new ones. Counts arrive out of order: one in a datagram that was
    /// queued before the last query is older than the query's, and is ignored.
    fn hear(&mut self, drops: u32) -> u64 {
        let news = drops.wrapping_sub(self.drops);
        // The count wraps, so a difference of more than half of its range means an older count.
        if news == 0 || news > u32::MAX / 2 {
            return 0;
        }
        self.drops = drops;
        self.lost += u64::from(news);
        u64::from(news)
    }

    /// Queries the kernel if that is due. Returns the drops not known before; `None` if no query succeeded.
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

    /// Takes the drops since the last call.
    pub(super) fn report(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}

#[cfg(test)]
mod tests;
