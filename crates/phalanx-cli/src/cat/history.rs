//! The last lines of a group, kept by every member for later joiners.

use std::collections::VecDeque;

use super::text::Text;

/// Lines every member keeps for joiners, whatever `--history` it was started with.
pub(super) const LINES_KEPT: usize = 1_000;

/// Bound on the kept bytes, because lines may be long.
const BYTES_MAX: usize = 16 << 20;

/// Bound on the bytes taken from a donor: the bytes that a donor may keep, and its bookkeeping.
const STATE_BYTES_MAX: usize = 2 * BYTES_MAX;

const MAGIC: [u8; 8] = *b"PHXCAT01";

/// A text in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    from: String,
    start: u64,
    number: u64,
    continues: bool,
    bytes: Vec<u8>,
}

impl Kept {
    pub(super) fn text(&self) -> Text<'_> {
        let (start, number, continues) = (self.start, self.number, self.continues);
        Text { from: &self.from, start, number, continues, ends: false, bytes: &self.bytes }
    }
}

impl From<Text<'_>> for Kept {
    fn from(text: Text<'_>) -> Self {
        let (start, number, continues) = (text.start, text.number, text.continues);
        Self { from: text.from.to_owned(), start, number, continues, bytes: text.bytes.to_vec() }
    }
}

/// The last texts of a group, oldest first. Bounded by lines and bytes.
#[derive(Debug)]
pub(super) struct History {
    texts: VecDeque<Kept>,
    lines: usize,
    bytes: usize,
    lines_max: usize,
}

impl History {
    /// An empty history that keeps at least the last `lines` lines, within the bound on bytes.
    pub(super) fn new(lines: usize) -> Self {
        Self { texts: VecDeque::new(), lines: 0, bytes: 0, lines_max: lines.max(LINES_KEPT) }
    }

    pub(super) fn push(&mut self, text: Text<'_>) {
        if text.ends {
            return;
        }
        let text = Kept::from(text);
        self.lines += lines_in(&text.bytes);
        self.bytes += text.bytes.len();
        self.texts.push_back(text);
        while let Some(oldest) = self.texts.front() {
            let lines = lines_in(&oldest.bytes);
            if self.lines - lines < self.lines_max && self.bytes <= BYTES_MAX {
                break;
            }
            self.lines -= lines;
            self.bytes -= oldest.bytes.len();
            self.texts.pop_front();
        }
    }

    /// All texts, oldest first.
    pub(super) fn all(&self) -> Vec<Kept> {
        self.texts.iter().cloned().collect()
    }

    /// Encodes the history for a joiner.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let mut payload = Vec::new();
        for text in self.texts.iter().map(Kept::text) {
            payload.clear();
            text.encode(&mut payload);
            let len = u32::try_from(payload.len()).expect("a kept text is far shorter than 4 GiB");
            out.extend_from_slice(&len.to_le_bytes());
            out.extend_from_slice(&payload);
        }
        out
    }

    /// Replaces the history by a donor's. False: the bytes are malformed, and the history is then empty.
    pub(super) fn decode(&mut self, state: &[u8]) -> bool {
        self.clear();
        let Some(mut rest) = state.strip_prefix(&MAGIC) else { return false };
        while !rest.is_empty() {
            let Some(payload) = take(&mut rest) else {
                self.clear();
                return false;
            };
            let Some(text) = Text::decode(payload) else {
                self.clear();
                return false;
            };
            self.push(text);
        }
        true
    }

    pub(super) fn clear(&mut self) {
        self.texts.clear();
        self.lines = 0;
        self.bytes = 0;
    }
}

/// The last `lines` lines of `texts`. The first returned text may lack its beginning.
pub(super) fn last(texts: &[Kept], lines: usize) -> Vec<Kept> {
    let all: usize = texts.iter().map(|text| lines_in(&text.bytes)).sum();
    let mut surplus = all.saturating_sub(lines);
    let mut last = Vec::new();
    for text in texts {
        let here = lines_in(&text.bytes);
        if surplus >= here {
            surplus -= here;
            continue;
        }
        let skip: usize = text.text().lines().take(surplus).map(<[u8]>::len).sum();
        let continues = text.continues && surplus == 0;
        surplus = 0;
        let bytes = text.bytes.get(skip..).unwrap_or_default().to_vec();
        last.push(Kept { continues, bytes, ..text.clone() });
    }
    last
}

/// Assembles the pieces of a donor's state, up to [`STATE_BYTES_MAX`].
#[derive(Debug, Default)]
pub(super) struct Incoming {
    bytes: Vec<u8>,
    too_long: bool,
}

impl Incoming {
    pub(super) fn push(&mut self, piece: &[u8]) {
        if self.bytes.len() + piece.len() > STATE_BYTES_MAX {
            self.too_long = true;
            self.bytes.clear();
        }
        if !self.too_long {
            self.bytes.extend_from_slice(piece);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && !self.too_long
    }

    /// Returns the assembled state, or `None` if it exceeded the bound.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        let whole = std::mem::take(self);
        (!whole.too_long).then_some(whole.bytes)
    }
}

/// Number of lines; a last line without a newline counts.
fn lines_in(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count() + usize::from(!bytes.ends_with(b"\n"))
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, after) = rest.split_first_chunk::<4>()?;
    let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
    let (bytes, after) = after.split_at_checked(len)?;
    *rest = after;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(history: &mut History, number: u64, bytes: &str) {
        let bytes = bytes.as_bytes();
        history.push(Text { from: "a", start: 1, number, continues: false, ends: false, bytes });
    }

    fn joined(texts: &[Kept]) -> String {
        texts.iter().map(|t| String::from_utf8_lossy(&t.bytes).into_owned()).collect()
    }

    #[test]
    fn the_last_lines_are_cut_inside_a_text() {
        let mut history = History::new(5);
        push(&mut history, 1, "1\n2\n3\n");
        push(&mut history, 2, "4\n5\n");
        assert_eq!(joined(&last(&history.all(), 0)), "");
        assert_eq!(joined(&last(&history.all(), 2)), "4\n5\n");
        assert_eq!(joined(&last(&history.all(), 3)), "3\n4\n5\n");
        assert_eq!(joined(&last(&history.all(), 99)), "1\n2\n3\n4\n5\n");
    }

    #[test]
    fn old_lines_are_forgotten_and_bytes_are_bounded() {
        let mut history = History::new(0);
        for i in 0..3 * LINES_KEPT {
            push(&mut history, i as u64, &format!("{i}\n"));
        }
        assert_eq!(history.lines, LINES_KEPT);
        assert!(joined(&last(&history.all(), LINES_KEPT)).starts_with("2000\n"));
        let long = "x".repeat(BYTES_MAX / 4) + "\n";
        for i in 0..9 {
            push(&mut history, i, &long);
        }
        assert!(history.bytes <= BYTES_MAX);
        assert_eq!(history.bytes, history.texts.iter().map(|t| t.bytes.len()).sum::<usize>());
    }

    #[test]
    fn a_state_reads_back_and_damage_is_refused() {
        let mut donor = History::new(10);
        push(&mut donor, 1, "1\n");
        donor.push(Text { from: "b", start: 2, number: 1, continues: true, ends: false, bytes: b"\xff\x00" });
        donor.push(Text { from: "b", start: 2, number: 2, continues: false, ends: true, bytes: b"" });
        let state = donor.encode();
        let mut joiner = History::new(10);
        assert!(joiner.decode(&state));
        assert_eq!(joiner.texts, donor.texts);
        assert_eq!(joiner.texts.len(), 2, "an end is not kept");
        for cut in 0..state.len() - 1 {
            // A cut between two texts yields a shorter state. A cut inside a text either shortens it or is refused.
            let whole = joiner.decode(&state[..cut]);
            assert!(!whole || joiner.encode() == state[..cut]);
        }
        assert!(!joiner.decode(b"something else"));
        let mut huge = MAGIC.to_vec();
        huge.extend_from_slice(&u32::MAX.to_le_bytes());
        assert!(!joiner.decode(&huge));
        assert_eq!(joiner.lines, 0);
    }

    #[test]
    fn what_comes_in_is_bounded() {
        let mut incoming = Incoming::default();
        for _ in 0..=STATE_BYTES_MAX >> 20 {
            incoming.push(&vec![0; 1 << 20]);
        }
        assert_eq!(incoming.take(), None);
        incoming.push(b"again");
        assert_eq!(incoming.take(), Some(b"again".to_vec()));
    }
}
