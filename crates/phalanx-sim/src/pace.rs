//! How slowly a process gives its states away: in short pieces, each of which takes it some time.

use std::cell::Cell;
use std::rc::Rc;

use phalanx_core::Snapshot;

/// States that are given away in small pieces, each of which takes the donor some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// Length of the longest one.
    pub bytes: usize,
    /// Time in which the donor makes one and does nothing else, in nanoseconds.
    pub each_ns: u64,
}

/// The pace of one process.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// All states are given away so.
    pub(crate) pieces: Option<Pieces>,
    spent_ns: Rc<Cell<u64>>,
}

impl Pace {
    /// The state as this process gives it away.
    pub(crate) fn slow(&self, whole: Box<dyn Snapshot>) -> Box<dyn Snapshot> {
        match self.pieces {
            Some(pieces) => Box::new(InPieces { whole, pieces, spent_ns: Rc::clone(&self.spent_ns) }),
            None => whole,
        }
    }

    /// The time that pieces took since the last call.
    pub(crate) fn take_spent_ns(&self) -> u64 {
        self.spent_ns.take()
    }
}

struct InPieces {
    whole: Box<dyn Snapshot>,
    pieces: Pieces,
    spent_ns: Rc<Cell<u64>>,
}

impl Snapshot for InPieces {
    fn len_bytes(&self) -> u64 {
        self.whole.len_bytes()
    }

    fn read(&mut self, offset: u64, max_bytes: usize, out: &mut Vec<u8>) {
        self.spent_ns.set(self.spent_ns.get() + self.pieces.each_ns);
        self.whole.read(offset, max_bytes.min(self.pieces.bytes), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Frozen, State};

    #[test]
    fn a_slow_state_is_the_same_and_takes_its_time() {
        let read = |pace: &Pace| {
            let mut snapshot = pace.slow(Box::new(Frozen::new(&State::brought_by(7), None, 1_000)));
            let (mut bytes, mut reads) = (Vec::new(), 0);
            while (bytes.len() as u64) < snapshot.len_bytes() {
                snapshot.read(bytes.len() as u64, 500, &mut bytes);
                reads += 1;
            }
            (bytes, reads)
        };
        let slow = Pace { pieces: Some(Pieces { bytes: 10, each_ns: 3 }), ..Pace::default() };
        let ((fast, few), (same, many)) = (read(&Pace::default()), read(&slow));
        assert_eq!(fast, same);
        assert!(many > 10 * few, "{many} pieces, and {few}");
        assert_eq!((slow.take_spent_ns(), slow.take_spent_ns()), (3 * many, 0));
    }
}
