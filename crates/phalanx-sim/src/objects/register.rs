//! Registers: read, write, compare-and-swap.

use phalanx_trace::{Action, Outcome};

/// Number of registers.
pub(crate) const KEYS: usize = 4;

/// Value of each register, initially 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Registers(pub(crate) [u64; KEYS]);

impl Registers {
    pub(crate) fn apply(&mut self, action: Action) -> Outcome {
        let (Action::Read { key } | Action::Write { key, .. } | Action::Cas { key, .. }) = action else {
            return Outcome::Nothing;
        };
        let Some(register) = self.0.get_mut(key as usize) else { return Outcome::Nothing };
        let before = *register;
        match action {
            Action::Write { value, .. } => {
                *register = value;
                Outcome::Done
            }
            Action::Cas { expected, value, .. } => {
                if before == expected {
                    *register = value;
                }
                Outcome::Value(before)
            }
            _ => Outcome::Value(before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_needs_what_it_expects() {
        let mut registers = Registers::default();
        let swap = |expected, value| Action::Cas { key: 1, expected, value };
        assert_eq!(registers.apply(swap(0, 5)), Outcome::Value(0));
        assert_eq!(registers.apply(swap(0, 6)), Outcome::Value(5), "another value stands there");
        assert_eq!(registers.apply(Action::Read { key: 1 }), Outcome::Value(5));
        assert_eq!(registers.apply(Action::Write { key: 1, value: 7 }), Outcome::Done);
        assert_eq!(registers.0, [0, 7, 0, 0]);
        assert_eq!(registers.apply(Action::Read { key: 99 }), Outcome::Nothing);
    }
}
