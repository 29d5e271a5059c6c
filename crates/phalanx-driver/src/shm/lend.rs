//! Joins what one value owns with what another lends, for the length of a borrow.
//!
//! The sending half of a driver is handed out as `&mut Outbox`, a type without a lifetime. The sending half of a
//! driver around another is made of its own part and the inner driver's outbox, which it can only borrow.

use std::fmt;
use std::ptr::NonNull;

/// What is handed out: the own part `M` and the borrowed `T`.
///
/// It has no size, so that two of them cannot be swapped: a value of it is reached through [`Lender::lend`] only.
pub struct Joined<M, T: ?Sized, Z: ?Sized = [u8]> {
    mine: M,
    lent: Option<NonNull<T>>,
    _unsized: Z,
}

/// Keeps the own part while nothing is lent.
pub(super) struct Lender<M, T: ?Sized>(Joined<M, T, [u8; 0]>);

// SAFETY: what was lent is only reached through a `&mut Joined`, which is not sent along with the lender: it borrows it.
unsafe impl<M: Send, T: ?Sized> Send for Lender<M, T> {}

impl<M, T: ?Sized> Lender<M, T> {
    pub(super) fn new(mine: M) -> Self {
        Self(Joined { mine, lent: None, _unsized: [] })
    }

    pub(super) fn mine(&self) -> &M {
        &self.0.mine
    }

    pub(super) fn mine_mut(&mut self) -> &mut M {
        &mut self.0.mine
    }

    /// Both together, for as long as both are borrowed.
    pub(super) fn lend<'a>(&'a mut self, other: &'a mut T) -> &'a mut Joined<M, T> {
        self.0.lent = Some(NonNull::from(other));
        &mut self.0
    }
}

impl<M, T: ?Sized> Joined<M, T> {
    pub(super) fn parts(&mut self) -> (&mut M, &mut T) {
        let mut lent = self.lent.expect("it is handed out with something lent");
        // SAFETY: a `&mut Joined` without a size comes from `lend` alone, where it and what is lent are borrowed
        // mutably for the same time; being without a size, it cannot be moved or swapped out of there. So what is
        // lent lives and nobody else reaches it while `self` is borrowed.
        (&mut self.mine, unsafe { lent.as_mut() })
    }
}

impl<M: fmt::Debug, T: ?Sized, Z: ?Sized> fmt::Debug for Joined<M, T, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").field("mine", &self.mine).finish_non_exhaustive()
    }
}

impl<M: fmt::Debug, T: ?Sized> fmt::Debug for Lender<M, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_are_changed_through_the_joined() {
        let (mut lender, mut a, mut b) = (Lender::new(vec![0]), 1, 2);
        for (i, other) in [&mut a, &mut b].into_iter().enumerate() {
            let joined = lender.lend(other);
            for _ in 0..2 {
                let (mine, lent) = joined.parts();
                mine.push(i);
                *lent += 10;
            }
        }
        assert_eq!((lender.mine(), a, b), (&vec![0, 0, 0, 1, 1], 21, 22));
    }
}
