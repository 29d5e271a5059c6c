//! The group's past: the history that members share, and the texts that this one has printed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use phalanx_runtime::core::{Delivery, Snapshot};
use phalanx_runtime::state::{Frozen, State};

use super::history::{History, Incoming, Kept};
use super::text::Text;

/// The history, kept by the protocol thread, and its messages to the printing thread.
#[derive(Clone, Debug)]
pub(super) struct Past {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    history: History,
    incoming: Incoming,
    /// A history just taken from another member.
    taken: Option<Vec<Kept>>,
    /// The donor's bytes were malformed.
    refused: bool,
}

impl Past {
    pub(super) fn new(lines: usize) -> Self {
        let shared =
            Shared { history: History::new(lines), incoming: Incoming::default(), taken: None, refused: false };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A poisoned lock is usable: no update leaves the history in a state that printing cannot handle.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a history taken from another member, once. `Err`: it was malformed.
    pub(super) fn taken(&self) -> Result<Vec<Kept>, ()> {
        let mut shared = self.lock();
        let taken = shared.taken.take().unwrap_or_default();
        if std::mem::take(&mut shared.refused) { Err(()) } else { Ok(taken) }
    }
}

impl Shared {
    /// Completes a state transfer. The donor's state is complete as soon as any other event follows it.
    fn take_over(&mut self) {
        if self.incoming.is_empty() {
            return;
        }
        let state = self.incoming.take();
        self.refused |= !state.is_some_and(|state| self.history.decode(&state));
    }
}

impl State for Past {
    fn apply(&mut self, message: &Delivery<'_>) {
        let mut shared = self.lock();
        shared.take_over();
        if let Some(text) = Text::decode(message.payload) {
            shared.history.push(text);
        }
    }

    fn snapshot(&mut self) -> Box<dyn Snapshot> {
        Box::new(Frozen::new(self.lock().history.encode()))
    }

    fn clear(&mut self) {
        let mut shared = self.lock();
        shared.history.clear();
        shared.incoming = Incoming::default();
    }

    fn restore(&mut self, chunk: &[u8]) {
        self.lock().incoming.push(chunk);
    }

    fn restored(&mut self) {
        let mut shared = self.lock();
        shared.take_over();
        shared.taken = Some(shared.history.all());
    }
}

/// Numbers of the last printed text of each start of each sender.
#[derive(Debug, Default)]
pub(super) struct Printed {
    last: BTreeMap<(String, u64), u64>,
}

impl Printed {
    /// Records that a text was printed. Returns how many earlier texts of its sender never were.
    pub(super) fn note(&mut self, text: Text<'_>) -> u64 {
        if self.last.len() >= SENDERS_MAX {
            // The table is bounded. A forgotten sender's texts may be printed twice after an exclusion.
            self.last.clear();
        }
        match self.last.insert((text.from.to_owned(), text.start), text.number) {
            Some(last) => text.number.saturating_sub(last + 1),
            None => 0,
        }
    }

    /// Whether the text was printed before.
    pub(super) fn has(&self, text: Text<'_>) -> bool {
        self.last.get(&(text.from.to_owned(), text.start)).is_some_and(|last| *last >= text.number)
    }
}

/// Bound on the number of remembered starts.
const SENDERS_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(start: u64, number: u64) -> Text<'static> {
        Text { from: "a", start, number, continues: false, ends: false, bytes: b"x\n" }
    }

    #[test]
    fn gaps_are_counted_and_old_texts_known() {
        let mut printed = Printed::default();
        assert_eq!(printed.note(text(1, 5)), 0, "what was before this member came is not missed");
        assert_eq!(printed.note(text(1, 6)), 0);
        assert_eq!(printed.note(text(1, 9)), 2);
        assert!(printed.has(text(1, 8)));
        assert!(!printed.has(text(1, 10)));
        assert!(!printed.has(text(2, 1)), "another start counts anew");
    }

    #[test]
    fn a_state_is_taken_with_what_follows_it() {
        let mut donor = Past::new(10);
        donor.lock().history.push(text(1, 1));
        let mut snapshot = donor.snapshot();
        let mut bytes = Vec::new();
        snapshot.read(0, usize::MAX, &mut bytes);
        let mut joiner = Past::new(10);
        joiner.clear();
        bytes.chunks(3).for_each(|chunk| joiner.restore(chunk));
        joiner.restored();
        let taken = joiner.taken().expect("it made sense");
        assert_eq!(taken.iter().map(Kept::text).collect::<Vec<_>>(), [text(1, 1)]);
        joiner.clear();
        joiner.restore(b"nonsense");
        joiner.restored();
        assert_eq!(joiner.taken(), Err(()));
    }
}
