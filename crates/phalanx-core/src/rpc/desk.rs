//! The parts of an endpoint that its sessions share, as each of them is handed them.

use super::api::Limits;
use super::path::Net;
use crate::rng::Rng;
use crate::time::Instant;

/// What a session needs of its endpoint.
pub(super) struct Desk<'a, F> {
    pub(super) now: Instant,
    pub(super) net: &'a mut Net,
    pub(super) budget: &'a mut Budget,
    pub(super) held: &'a mut Held,
    /// What each client may have under way to this endpoint.
    pub(super) share: u64,
    pub(super) rng: &'a mut Rng,
    pub(super) limits: &'a Limits,
    pub(super) fx: &'a mut F,
}

/// What all servers together may send unasked, in bytes as the receive buffer is charged.
#[derive(Debug)]
pub(super) struct Budget {
    free: u64,
    /// Calls hold allowances, and nothing goes beyond the buffer.
    is_kept: bool,
    /// Answers wait that could not be asked for, as nothing was free.
    pub(super) starved: bool,
}

impl Budget {
    pub(super) fn new(bytes: u64, is_kept: bool) -> Self {
        Self { free: bytes, is_kept, starved: false }
    }

    pub(super) fn free(&self) -> u64 {
        self.free
    }

    /// Takes `wanted` or, if less is free, what is free, but not less than `least`: then nothing.
    pub(super) fn take(&mut self, wanted: u64, least: u64) -> u64 {
        if !self.is_kept {
            return u64::from(u32::MAX);
        }
        let got = if self.free < least { 0 } else { wanted.min(self.free) };
        self.free -= got;
        got
    }

    /// Lets `wanted` packets come, or as many as are free, each charged with `each`. Gives how many, and what is reserved for them.
    pub(super) fn take_packets(&mut self, wanted: u32, each: u64) -> (u32, u64) {
        if !self.is_kept {
            return (wanted, 0);
        }
        let packets = wanted.min(u32::try_from(self.free / each.max(1)).unwrap_or(u32::MAX));
        let reserved = u64::from(packets) * each;
        self.free -= reserved;
        (packets, reserved)
    }

    pub(super) fn give(&mut self, back: u64) {
        if self.is_kept {
            self.free += back;
        }
    }
}

/// What all sessions hold together, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    /// Of requests that are not complete.
    pub(super) requests: usize,
    /// Of answers that are kept.
    pub(super) answers: usize,
}
