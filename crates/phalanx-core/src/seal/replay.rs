//! The replay window: which packet numbers were received in a space without retransmission.

use crate::wire::PacketNumber;

/// The last [`Self::SPAN`] packet numbers of one space, each accepted once.
///
/// The caller asks only about packets whose tag verified: a forged number must not move the window. Bit `n % SPAN`
/// stands for number `n`, for the numbers in `(highest - SPAN, highest]`.
#[derive(Clone, Debug, Default)]
pub struct ReplayWindow {
    /// The highest number accepted; `None` before the first packet.
    highest: Option<u64>,
    seen: [u64; WORDS],
}

impl ReplayWindow {
    /// How far a packet may lie behind the highest number.
    pub const SPAN: u64 = 1024;

    /// A window that has accepted nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts `number` if it is new. False if it was accepted before, or is too old to tell.
    pub fn check_and_set(&mut self, PacketNumber(number): PacketNumber) -> bool {
        match self.highest {
            Some(highest) if number <= highest => {
                // Its bit stands for a later number, so nobody knows whether it was seen. A packet that is too old is
                // dropped.
                if highest - number >= Self::SPAN {
                    return false;
                }
            }
            Some(highest) => {
                if number - highest >= Self::SPAN {
                    self.seen = [0; WORDS];
                } else {
                    // These bits stood for numbers that now fall behind the window.
                    for fresh in highest + 1..=number {
                        *self.word(fresh) &= !mask(fresh);
                    }
                }
                self.highest = Some(number);
            }
            None => self.highest = Some(number),
        }
        let word = self.word(number);
        let first = *word & mask(number) == 0;
        *word |= mask(number);
        first
    }

    /// The highest number accepted.
    #[must_use]
    pub fn highest(&self) -> Option<u64> {
        self.highest
    }

    fn word(&mut self, number: u64) -> &mut u64 {
        // The quotient is below the array's length.
        &mut self.seen[(number % Self::SPAN / WORD_BITS) as usize]
    }
}

fn mask(number: u64) -> u64 {
    1 << (number % WORD_BITS)
}

const WORD_BITS: u64 = u64::BITS as u64;
const WORDS: usize = (ReplayWindow::SPAN / WORD_BITS) as usize;
const _: () = assert!(WORDS as u64 * WORD_BITS == ReplayWindow::SPAN);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::ReplayWindow;
    use crate::wire::PacketNumber;

    #[test]
    fn edges() {
        let mut window = ReplayWindow::new();
        assert!(window.check_and_set(PacketNumber(0)));
        assert!(!window.check_and_set(PacketNumber(0)));
        assert!(window.check_and_set(PacketNumber(1023)));
        assert!(!window.check_and_set(PacketNumber(0)), "still in the window, and seen");
        assert!(window.check_and_set(PacketNumber(1)));
        assert!(window.check_and_set(PacketNumber(1025)));
        assert!(!window.check_and_set(PacketNumber(1)), "1 fell out of the window");
        assert!(window.check_and_set(PacketNumber(2)), "the oldest the window holds");
        assert!(window.check_and_set(PacketNumber(1024)), "skipped, not seen, though 0 used its bit");
        assert!(window.check_and_set(PacketNumber(u64::MAX)));
        assert!(!window.check_and_set(PacketNumber(u64::MAX)));
        assert!(window.check_and_set(PacketNumber(u64::MAX - 1023)));
        assert!(!window.check_and_set(PacketNumber(u64::MAX - 1024)));
        assert_eq!(window.highest(), Some(u64::MAX));
    }

    /// Numbers as a network delivers them: mostly ascending, some late, some twice, a leap now and then.
    fn arrivals() -> impl Strategy<Value = Vec<u64>> {
        let step = prop_oneof![
            8 => (0i64..4).prop_map(|s| s),
            4 => (-40i64..40).prop_map(|s| s),
            2 => (-1100i64..1100).prop_map(|s| s),
            1 => (-5000i64..5000).prop_map(|s| s),
        ];
        let start = prop_oneof![Just(0), any::<u64>(), Just(u64::MAX - 500)];
        (start, proptest::collection::vec(step, 1..400)).prop_map(|(start, steps)| {
            let mut at = start;
            steps
                .into_iter()
                .map(|step| {
                    at = at.saturating_add_signed(step);
                    at
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(numbers in arrivals()) {
            let mut window = ReplayWindow::new();
            let mut seen = BTreeSet::<u64>::new();
            for number in numbers {
                let highest = seen.last().copied().unwrap_or(0);
                let too_old = highest.saturating_sub(number) >= ReplayWindow::SPAN;
                let expected = !too_old && seen.insert(number);
                prop_assert_eq!(window.check_and_set(PacketNumber(number)), expected, "number {}, highest {}", number, highest);
            }
        }
    }
}
