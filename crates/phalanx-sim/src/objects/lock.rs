//! Locks with fencing tokens. A lock is free, or a process holds it with the token of its grant.
//!
//! A holder that leaves the view loses the lock. Views are not part of the state, because a joiner that takes the state
//! does not see every view that its donor sees. So a request for the lock names the grant that its sender knows to be
//! void.

use phalanx_trace::Outcome;

/// Number of locks.
pub(crate) const LOCKS: usize = 2;

/// Holder and token of each lock. A holder of 0 means that it is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Locks([[u64; 2]; LOCKS]);

/// Who holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockHolder {
    /// The incarnation.
    pub(crate) holder: u64,
    /// The token of its grant.
    pub(crate) token: u64,
}

impl Locks {
    /// The holder of a lock, and its token.
    pub(crate) fn holder(&self, lock: usize) -> Option<LockHolder> {
        self.0.get(lock).filter(|[holder, _]| *holder != 0).map(|&[holder, token]| LockHolder { holder, token })
    }

    /// Applies a request. `gone`: the token of a grant that is void, because its holder was in a view and then was not;
    /// 0: none is.
    pub(super) fn acquire(&mut self, lock: u32, who: u64, token: u64, gone: u64) -> Outcome {
        let index = lock as usize;
        match self.holder(index) {
            Some(LockHolder { holder, token }) if token != gone => return Outcome::Held { holder, token },
            _ => {}
        }
        let Some(entry) = self.0.get_mut(index) else { return Outcome::Nothing };
        *entry = [who, token];
        Outcome::Granted { token }
    }

    pub(super) fn release(&mut self, lock: u32, who: u64, token: u64) -> Outcome {
        match self.0.get_mut(lock as usize) {
            Some(entry) if *entry == [who, token] => {
                *entry = [0, token];
                Outcome::Done
            }
            _ => Outcome::Nothing,
        }
    }

    pub(super) fn words(&self) -> impl Iterator<Item = &u64> {
        self.0.iter().flatten()
    }

    pub(super) fn of_words(mut next: impl FnMut() -> u64) -> Self {
        Self(std::array::from_fn(|_| [next(), next()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_until_it_is_released_or_its_holder_is_known_to_be_gone() {
        let mut locks = Locks::default();
        assert_eq!(locks.acquire(0, 7, 10, 0), Outcome::Granted { token: 10 });
        assert_eq!(locks.acquire(0, 8, 11, 9), Outcome::Held { holder: 7, token: 10 });
        assert_eq!(locks.release(0, 8, 10), Outcome::Nothing, "another's");
        assert_eq!(locks.acquire(0, 8, 12, 10), Outcome::Granted { token: 12 }, "7 has left");
        assert_eq!(locks.release(0, 7, 10), Outcome::Nothing, "no longer");
        assert_eq!(locks.release(0, 8, 12), Outcome::Done);
        assert_eq!(locks.holder(0), None);
        assert_eq!(locks.acquire(0, 7, 13, 0), Outcome::Granted { token: 13 });
    }
}
