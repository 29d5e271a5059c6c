//! When to poll the control socket although nothing indicates that it has packets.

use super::mmsg::{Hand, coarse_hand};

/// A receive on an empty socket is a system call, and delays the next data packet. So control is polled, before data,
/// in these cases only:
///
/// - a wait has reported traffic;
/// - the last receive took control packets, or many packets;
/// - in every [`EVERY`]th receive;
/// - the coarse clock has advanced, which it does every few milliseconds, so that a caller that receives rarely polls
///   each time.
///
/// The first data packet after a silence is handed up without that poll. Control packets that came with it wait for the
/// next receive.
#[derive(Debug)]
pub(super) struct ControlPoll {
    due: bool,
    skipped: u32,
    hand: Hand,
}

impl ControlPoll {
    pub(super) fn new() -> Self {
        Self { due: true, skipped: 0, hand: (0, 0) }
    }

    /// Makes the next receive poll control, because it has packets or probably has.
    pub(super) fn expect(&mut self) {
        self.due = true;
    }

    /// Whether this receive polls control.
    pub(super) fn is_due(&mut self) -> bool {
        self.skipped += 1;
        let hand = coarse_hand();
        let due = self.due || self.skipped >= EVERY || hand != self.hand;
        if due {
            *self = Self { due: false, skipped: 0, hand };
        }
        due
    }
}

/// Receives for one poll of control.
const EVERY: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Control is polled after traffic, and otherwise in every n-th receive; the coarse clock may add some.
    #[test]
    fn no_long_row_of_receives_leaves_control_alone() {
        let mut control_poll = ControlPoll::new();
        assert!(control_poll.is_due(), "the first look");
        control_poll.expect();
        assert!(control_poll.is_due(), "after traffic");
        let mut looks = 0;
        for _ in 0..10 {
            assert!((0..EVERY).any(|_| control_poll.is_due()), "one in {EVERY}");
            looks += 1;
        }
        assert_eq!(looks, 10);
    }

    #[test]
    fn most_empty_receives_are_spared_the_look() {
        let mut control_poll = ControlPoll::new();
        let mut looks = 0;
        for _ in 0..EVERY * 1_000 {
            looks += u32::from(control_poll.is_due());
        }
        // Most receives skip control, unless each took milliseconds.
        assert!(looks >= 1_000, "{looks}");
    }
}
