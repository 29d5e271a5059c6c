//! Joins an owned value with a borrowed one for the length of a borrow.
//!
//! A driver hands out its sending half as `&mut Outbox`, a type without a lifetime. The sending half of a driver around
//! another consists of its own part and the inner driver's outbox, which it can only borrow.

use std::fmt;
use std::ptr::NonNull;

/// The value handed out: the own part `M` and the borrowed `T`.
///
/// It is unsized, so that safe code cannot swap two of them. It is reached only through [`Lender::lend`].
pub struct Joined<M, T: ?Sized, Z: ?Sized = [u8]> {
    mine: M,
    lent: Option<NonNull<T>>,
    _unsized: Z,
}

/// Holds the own part between borrows.
pub(super) struct Lender<M, T: ?Sized>(Joined<M, T, [u8; 0]>);

// SAFETY: moving a `Lender` to another thread moves `M`, which is `Send`, and a pointer to `T`. No method of `Lender`
// dereferences that pointer; only `Joined::parts` does, on an unsized `Joined` that `lend` has just given a new
// pointer. `lend` borrows the lender, so it cannot move while that borrow lives.
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

    /// Joins the own part with `other`; both stay borrowed as long as the result lives.
    pub(super) fn lend<'a>(&'a mut self, other: &'a mut T) -> &'a mut Joined<M, T> {
        self.0.lent = Some(NonNull::from(other));
        &mut self.0
    }
}

impl<M, T: ?Sized> Joined<M, T> {
    pub(super) fn parts(&mut self) -> (&mut M, &mut T) {
        let mut lent = self.lent.expect("it is handed out with something lent");
        // SAFETY: `self` is an unsized `Joined`, and only `lend` makes references to one. It sets `lent` from a `&'a
        // mut T` and returns a `&'a mut Joined`, so the pointer is valid and exclusive for `'a`, and `self` is a
        // reborrow within `'a`. Safe code cannot move or swap an unsized value, so no `Joined` outlives its borrow.
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
