//! A bank: transfers move money between accounts, and its sum never changes.

use phalanx_trace::Outcome;

/// Number of accounts.
pub(crate) const ACCOUNTS: usize = 8;
/// Initial balance of each account.
const OPENING: u64 = 100;

/// Balance of each account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bank(pub(crate) [u64; ACCOUNTS]);

impl Default for Bank {
    fn default() -> Self {
        Self([OPENING; ACCOUNTS])
    }
}

impl Bank {
    pub(super) fn transfer(&mut self, from: u32, to: u32, amount: u64) -> Outcome {
        let (from, to) = (from as usize, to as usize);
        let rest = self.0.get(from).and_then(|held| held.checked_sub(amount));
        let (Some(rest), true) = (rest, to < ACCOUNTS) else { return Outcome::Nothing };
        self.0[from] = rest;
        self.0[to] = self.0[to].wrapping_add(amount);
        Outcome::Done
    }

    /// Sum of all balances.
    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, held| sum.wrapping_add(*held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_moves_and_is_never_made() {
        let mut bank = Bank::default();
        let sum = bank.sum();
        assert_eq!(bank.transfer(0, 1, 60), Outcome::Done);
        assert_eq!(bank.transfer(0, 1, 60), Outcome::Nothing, "not enough left");
        assert_eq!(bank.transfer(1, 1, 160), Outcome::Done, "to itself");
        assert_eq!(bank.transfer(1, 99, 1), Outcome::Nothing, "no such account");
        assert_eq!(bank.0[..2], [40, 160]);
        assert_eq!(bank.sum(), sum);
    }
}
