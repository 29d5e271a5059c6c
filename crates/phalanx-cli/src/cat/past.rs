//! The texts that this member has printed.

use std::collections::BTreeMap;

use super::text::Text;

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
}
