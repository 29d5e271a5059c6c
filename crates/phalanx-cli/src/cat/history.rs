//! The last lines of a group, kept by every member for later joiners.

use std::collections::VecDeque;
use std::sync::OnceLock;

use phalanx::{Bytes, DecodeError, Message, Piece, Snapshot, State};

use super::text::Text;

/// Lines every member keeps for joiners, whatever `--history` it was started with.
pub(super) const LINES_KEPT: usize = 1_000;

/// Bound on the kept bytes, because lines may be long.
const BYTES_MAX: usize = 16 << 20;

/// What `--history` of this process asks for. A state that is restored knows nothing but bytes.
static WANTED: OnceLock<usize> = OnceLock::new();

/// The first bytes of a history that a build before this one sends.
const MAGIC: [u8; 8] = *b"PHXCAT01";

/// A text in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    from: String,
    start: u64,
    number: u64,
    continues: bool,
    bytes: Bytes,
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
        Self { from: text.from.to_owned(), start, number, continues, bytes: Bytes::copy_from_slice(text.bytes) }
    }
}

/// The last texts of a group, oldest first. Bounded by lines and bytes.
#[derive(Debug)]
pub(super) struct History {
    texts: VecDeque<Kept>,
    lines: usize,
    bytes: usize,
    lines_max: usize,
    /// How many texts came after those of a transfer.
    since: usize,
    /// Another member's history had texts that make no sense.
    refused: bool,
}

impl History {
    /// An empty history that keeps at least the last `lines` lines, within the bound on bytes.
    pub(super) fn new(lines: usize) -> Self {
        let lines_max = lines.max(LINES_KEPT);
        Self { texts: VecDeque::new(), lines: 0, bytes: 0, lines_max, since: 0, refused: false }
    }

    /// The history of this process. It keeps at least the last `lines` lines, as do those that it takes from others.
    pub(super) fn of_process(lines: usize) -> Self {
        Self::new(*WANTED.get_or_init(|| lines))
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

    /// The texts that were there when this process had taken another member's history, oldest first. `Err`: some of them made
    /// no sense, and none is given.
    pub(super) fn taken(&self) -> Result<Vec<Kept>, ()> {
        let count = self.texts.len().saturating_sub(self.since);
        if self.refused { Err(()) } else { Ok(self.texts.iter().take(count).cloned().collect()) }
    }

    /// Takes a text from another member.
    fn take(&mut self, payload: &[u8]) {
        match Text::decode(payload) {
            Some(text) => self.push(text),
            None => self.refused = true,
        }
    }

    fn encode_each(&self) -> impl Iterator<Item = Vec<u8>> + use<> {
        // The texts are shared, so that this is cheap.
        let texts = self.texts.clone();
        texts.into_iter().map(|kept| {
            let mut payload = Vec::new();
            kept.text().encode(&mut payload);
            payload
        })
    }

    /// The history that a build before this one sends.
    fn decode_unframed(&mut self, state: &[u8]) {
        let Some(mut rest) = state.strip_prefix(&MAGIC) else {
            self.refused = true;
            return;
        };
        while !rest.is_empty() {
            match take(&mut rest) {
                Some(payload) => self.take(payload),
                None => {
                    self.refused = true;
                    return;
                }
            }
        }
    }
}

/// A history that makes no sense is left out, and the group goes on with this member.
impl State for History {
    fn apply(&mut self, message: &Message) {
        if let Some(text) = Text::decode(&message.payload) {
            self.since += usize::from(!message.replayed && !text.ends);
            self.push(text);
        }
    }

    fn snapshot(&self) -> Snapshot {
        let bytes = |kept: &Kept| kept.text().encoded_bytes() as u64 + Snapshot::FRAME_BYTES;
        Snapshot::pieces(self.texts.iter().map(bytes).sum(), self.encode_each())
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        let mut history = Self::of_process(0);
        snapshot.into_pieces().for_each(|payload| history.take(&payload));
        Ok(history)
    }

    fn restore_unframed(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut history = Self::of_process(0);
        history.decode_unframed(bytes);
        Ok(history)
    }

    fn restore_begin() -> Option<Self> {
        Some(Self::of_process(0))
    }

    fn restore_piece(&mut self, piece: Piece<'_>) -> Result<(), DecodeError> {
        self.take(piece.bytes());
        Ok(())
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
        let bytes = text.bytes.slice(skip.min(text.bytes.len())..);
        last.push(Kept { continues, bytes, ..text.clone() });
    }
    last
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

    fn all(history: &History) -> Vec<Kept> {
        history.texts.iter().cloned().collect()
    }

    #[test]
    fn the_last_lines_are_cut_inside_a_text() {
        let mut history = History::new(5);
        push(&mut history, 1, "1\n2\n3\n");
        push(&mut history, 2, "4\n5\n");
        assert_eq!(joined(&last(&all(&history), 0)), "");
        assert_eq!(joined(&last(&all(&history), 2)), "4\n5\n");
        assert_eq!(joined(&last(&all(&history), 3)), "3\n4\n5\n");
        assert_eq!(joined(&last(&all(&history), 99)), "1\n2\n3\n4\n5\n");
    }

    #[test]
    fn old_lines_are_forgotten_and_bytes_are_bounded() {
        let mut history = History::new(0);
        for i in 0..3 * LINES_KEPT {
            push(&mut history, i as u64, &format!("{i}\n"));
        }
        assert_eq!(history.lines, LINES_KEPT);
        assert!(joined(&last(&all(&history), LINES_KEPT)).starts_with("2000\n"));
        let long = "x".repeat(BYTES_MAX / 4) + "\n";
        for i in 0..9 {
            push(&mut history, i, &long);
        }
        assert!(history.bytes <= BYTES_MAX);
        assert_eq!(history.bytes, history.texts.iter().map(|t| t.bytes.len()).sum::<usize>());
    }

    /// What a build before this one sends.
    fn unframed(history: &History) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for payload in history.encode_each() {
            out.extend_from_slice(&u32::try_from(payload.len()).expect("short").to_le_bytes());
            out.extend_from_slice(&payload);
        }
        out
    }

    fn donor() -> History {
        let mut donor = History::new(10);
        push(&mut donor, 1, "1\n");
        donor.push(Text { from: "b", start: 2, number: 1, continues: true, ends: false, bytes: b"\xff\x00" });
        donor.push(Text { from: "b", start: 2, number: 2, continues: false, ends: true, bytes: b"" });
        assert_eq!(donor.texts.len(), 2, "an end is not kept");
        donor
    }

    #[test]
    fn a_state_reads_back() {
        let donor = donor();
        let whole = History::restore(donor.snapshot()).expect("it is taken");
        assert_eq!((whole.texts, whole.refused), (donor.texts.clone(), false));
        let earlier = History::restore_unframed(&unframed(&donor)).expect("it is taken");
        assert_eq!((earlier.texts, earlier.refused), (donor.texts, false));
    }

    #[test]
    fn what_makes_no_sense_is_left_out() {
        let state = unframed(&donor());
        for cut in 0..state.len() {
            let taken = History::restore_unframed(&state[..cut]).expect("it is taken");
            // A cut between two texts yields a shorter state.
            assert!(taken.refused || unframed(&taken) == state[..cut]);
            assert_eq!(taken.taken().is_err(), taken.refused);
        }
        let mut huge = MAGIC.to_vec();
        huge.extend_from_slice(&u32::MAX.to_le_bytes());
        for nonsense in [&b"something else"[..], &huge] {
            assert!(History::restore_unframed(nonsense).is_ok_and(|history| history.refused && history.lines == 0));
        }
        let pieces = Snapshot::pieces(100, [b"no text".to_vec()]);
        assert!(History::restore(pieces).is_ok_and(|history| history.refused));
    }
}
