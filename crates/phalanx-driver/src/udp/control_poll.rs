//! When the control socket is looked at although nothing says that something waits there.

use super::mmsg::{Hand, coarse_hand};

/// A look that finds nothing is a system call, and delays the next packet of data. So control is looked at, before
/// data,
///
/// - when a wait has told that something is there;
/// - in the receive after one that took control, or many packets;
/// - in every [`EVERY`]th receive;
/// - when the clock's coarse hand has moved, every few milliseconds, so that who receives rarely looks each time.
///
/// A data packet that ends a time in which nothing came is handed up without that look. Control that came with it waits
/// for the next receive.
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

    /// Control is there, or may well be: look the next time.
    pub(super) fn expect(&mut self) {
        self.due = true;
    }

    /// Whether this receive looks at control.
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

/// Receives for one look at control.
const EVERY: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// A receive is due after traffic, and at the latest every so often; the clock's hand may add some.
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
        // Unless each took milliseconds, most are skipped.
        assert!(looks >= 1_000, "{looks}");
    }
}
