//! Replicated objects of a group. Every member holds a copy, and only totally ordered, uniform multicasts change it.
//! Each copy is a function of those multicasts in their order. So the answer of the copy that delivers a process's own
//! multicast is the answer of one shared object.

mod bank;
mod command;
mod lock;
mod register;

use phalanx_core::{Delivery, Order, ViewNumber};
use phalanx_trace::{Action, Outcome};

pub(crate) use bank::{ACCOUNTS, Bank};
pub(crate) use command::Command;
pub(crate) use lock::{LOCKS, LockHolder, Locks};
pub(crate) use register::{KEYS, Registers};

/// One copy of a group's objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Objects {
    pub(crate) registers: Registers,
    pub(crate) locks: Locks,
    pub(crate) bank: Bank,
}

/// Words of a copy, as sent to a joiner.
pub(crate) const WORDS: usize = KEYS + 2 * LOCKS + ACCOUNTS;

impl Objects {
    /// Applies a delivery, if it is an operation. Returns the operation's number at its sender and its outcome.
    /// `generation` is that of the cell instance.
    pub(crate) fn apply(&mut self, delivery: &Delivery<'_>, generation: u16) -> Option<(u64, Outcome)> {
        if delivery.order != Order::Total || !delivery.uniformity.is_uniform() {
            return None;
        }
        let position = delivery.position?;
        let Command { op, action, gone } = Command::parse(delivery.payload)?;
        let sender = delivery.sender.0;
        let outcome = match action {
            Action::Read { .. } | Action::Write { .. } | Action::Cas { .. } => self.registers.apply(action),
            Action::Acquire { lock } => {
                self.locks.acquire(lock, sender, token(generation, delivery.group.0, delivery.view, position), gone)
            }
            Action::Release { lock, token } => self.locks.release(lock, sender, token),
            Action::Transfer { from, to, amount } => self.bank.transfer(from, to, amount),
        };
        Some((op, outcome))
    }

    pub(crate) fn words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        let parts = self.registers.0.iter().chain(self.locks.words()).chain(&self.bank.0);
        for (word, part) in words.iter_mut().zip(parts) {
            *word = *part;
        }
        words
    }

    pub(crate) fn of_words(words: &[u64; WORDS]) -> Self {
        let mut words = words.iter().copied();
        let mut next = || words.next().unwrap_or(0);
        Self {
            registers: Registers(std::array::from_fn(|_| next())),
            locks: Locks::of_words(&mut next),
            bank: Bank(std::array::from_fn(|_| next())),
        }
    }
}

/// The fencing token of a grant. Group numbers, views and positions only grow in a cell instance, and no two messages
/// share all three. A later instance has a later generation. It skips numbers of groups and of views, and skips the
/// same view numbers in all groups that it took over.
fn token(generation: u16, group: u32, view: ViewNumber, position: u64) -> u64 {
    let (skipped, group, view) = (group >> 16, group & 0xffff, view.0 & u64::from(u32::MAX));
    debug_assert!(
        generation < 1 << 4 && skipped < 1 << 4 && group < 1 << 12 && view < 1 << 22 && position < 1 << 22,
        "a simulated run is shorter"
    );
    u64::from(generation) << 60 | u64::from(skipped) << 56 | u64::from(group) << 44 | view << 22 | position
}

#[cfg(test)]
mod tests {
    use phalanx_core::{GroupId, Incarnation, Sequence, Uniformity};

    use super::*;

    fn delivery(payload: &[u8], uniformity: Uniformity) -> Delivery<'_> {
        Delivery {
            group: GroupId(2),
            view: ViewNumber(3),
            sender: Incarnation(7),
            seq: Sequence::FIRST,
            order: Order::Total,
            uniformity,
            position: Some(4),
            replayed: false,
            asked: None,
            domain: None,
            payload,
        }
    }

    #[test]
    fn a_copy_travels_whole() {
        let mut objects = Objects::default();
        for (op, action) in (1..).zip([
            Action::Write { key: 3, value: 9 },
            Action::Acquire { lock: 1 },
            Action::Transfer { from: 7, to: 0, amount: 5 },
        ]) {
            let payload = Command { op, action, gone: 0 }.payload();
            assert_eq!(objects.apply(&delivery(&payload, Uniformity::Uniform), 1).map(|(number, _)| number), Some(op));
        }
        assert_eq!(Objects::of_words(&objects.words()), objects);
        assert_eq!(objects.locks.holder(1), Some(LockHolder { holder: 7, token: 1 << 60 | 2 << 44 | 3 << 22 | 4 }));
        assert_ne!(objects, Objects::default());
        assert!(
            token(2, 1, ViewNumber((1 << 32) + 6), 2) < token(2, (1 << 16) + 2, ViewNumber(3), 1),
            "a group that is made after a reform"
        );
    }

    #[test]
    fn only_uniform_operations_count() {
        let mut objects = Objects::default();
        let payload = Command { op: 1, action: Action::Write { key: 0, value: 9 }, gone: 0 }.payload();
        assert_eq!(objects.apply(&delivery(&payload, Uniformity::Plain), 1), None);
        assert_eq!(objects.apply(&delivery(&payload[1..], Uniformity::Uniform), 1), None);
        assert_eq!(objects, Objects::default());
    }
}
