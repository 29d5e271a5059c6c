//! The payload of a multicast of `phalanx cat`: one or more whole lines, or a piece of a line.
//!
//! A payload is a head (see [`Text::encode`]) followed by the bytes as they were read. A line ends with a newline and
//! contains no other. So lines need no further framing, and millions of lines a second pass uncopied.

use std::io::{self, Read};

/// First byte of a payload: identifies this program and the format's version.
const TAG: u8 = 0xC1;

/// Flag: this text continues the sender's previous one, which had no newline at its end.
const CONTINUES: u8 = 1;

/// Flag: the sender's input has ended and no text of this start follows. The text has no bytes.
const END: u8 = 2;

/// A decoded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Text<'a> {
    /// The sender's name.
    pub(super) from: &'a str,
    /// Random number of the sender's start. A process of the same name may start again and count from one.
    pub(super) start: u64,
    /// Its number among the texts of this start, from 1.
    pub(super) number: u64,
    /// See [`CONTINUES`].
    pub(super) continues: bool,
    /// See [`END`].
    pub(super) ends: bool,
    pub(super) bytes: &'a [u8],
}

impl<'a> Text<'a> {
    /// Decodes a payload. `None`: this program did not write it.
    pub(super) fn decode(payload: &'a [u8]) -> Option<Self> {
        let (&[TAG, flags, name_len], rest) = payload.split_first_chunk()? else { return None };
        let (start, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (name, bytes) = rest.split_at_checked(usize::from(name_len))?;
        let ends = flags & END != 0;
        let sound = flags <= CONTINUES | END && ends == bytes.is_empty() && name_len > 0;
        Some(Self {
            from: std::str::from_utf8(name).ok().filter(|_| sound)?,
            start: u64::from_le_bytes(*start),
            number: u64::from_le_bytes(*number),
            continues: flags & CONTINUES != 0,
            ends,
            bytes,
        })
    }

    /// The length of the payload.
    pub(super) fn encoded_bytes(&self) -> usize {
        HEAD_BYTES + self.from.len() + self.bytes.len()
    }

    /// Appends the payload.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let flags = if self.continues { CONTINUES } else { 0 } | if self.ends { END } else { 0 };
        let name_len = u8::try_from(self.from.len()).expect("a process's name has at most 200 bytes");
        out.extend_from_slice(&[TAG, flags, name_len]);
        out.extend_from_slice(&self.start.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(self.from.as_bytes());
        out.extend_from_slice(self.bytes);
    }

    /// The lines in it. The last may lack its newline.
    pub(super) fn lines(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.bytes.split_inclusive(|byte| *byte == b'\n')
    }
}

/// Tag, flags, the name's length, start and number.
const HEAD_BYTES: usize = 3 + 8 + 8;

/// Bytes requested from standard input in one read.
const READ_BYTES: usize = 256 << 10;

/// Length in bytes up to which a line is sent as one text. A longer one is sent in pieces.
pub(super) const LINE_BYTES_MAX: usize = 16 << 20;

/// A part of the input: whole lines, or a piece of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cutting<'a> {
    /// The previous part had no newline at its end.
    pub(super) continues: bool,
    pub(super) bytes: &'a [u8],
}

/// Splits the input into texts at newlines.
#[derive(Debug)]
pub(super) struct Splitter {
    /// Bytes read and not yet returned are in `buffer[..len]`.
    buffer: Vec<u8>,
    len: usize,
    /// `buffer[..searched]` contains no newline.
    searched: usize,
    /// Bytes returned and still in the buffer are `buffer[..taken]`.
    taken: usize,
    /// The last part returned had no newline at its end.
    open: bool,
    at_end: bool,
    line_bytes_max: usize,
}

impl Splitter {
    pub(super) fn new() -> Self {
        Self::with_longest_line(LINE_BYTES_MAX)
    }

    fn with_longest_line(line_bytes_max: usize) -> Self {
        Self { buffer: Vec::new(), len: 0, searched: 0, taken: 0, open: false, at_end: false, line_bytes_max }
    }

    /// Waits for input and returns the next text; `None` at the end. All whole lines that are available are returned
    /// together.
    pub(super) fn next(&mut self, from: &mut impl Read) -> io::Result<Option<Cutting<'_>>> {
        self.buffer.copy_within(self.taken..self.len, 0);
        self.len -= self.taken;
        self.searched = self.searched.saturating_sub(self.taken);
        self.taken = 0;
        let upto = loop {
            let fresh = self.buffer.get(self.searched..self.len).unwrap_or_default();
            if let Some(at) = fresh.iter().rposition(|byte| *byte == b'\n') {
                break self.searched + at + 1;
            }
            self.searched = self.len;
            if self.at_end || self.len >= self.line_bytes_max {
                break self.len;
            }
            self.fill(from)?;
        };
        if upto == 0 {
            return Ok(None);
        }
        let continues = self.open;
        let bytes = self.buffer.get(..upto).unwrap_or_default();
        self.open = !bytes.ends_with(b"\n");
        self.taken = upto;
        self.searched = self.searched.max(upto);
        Ok(Some(Cutting { continues, bytes }))
    }

    fn fill(&mut self, from: &mut impl Read) -> io::Result<()> {
        if self.buffer.len() < self.len + READ_BYTES {
            self.buffer.resize(self.len + READ_BYTES, 0);
        }
        loop {
            match from.read(self.buffer.get_mut(self.len..).unwrap_or_default()) {
                Ok(0) => self.at_end = true,
                Ok(count) => self.len += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns one of its pieces for each read.
    struct Pieces<'a>(Vec<&'a [u8]>);

    impl Read for Pieces<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let piece = self.0.remove(0);
            to[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    fn split(pieces: &[&[u8]], longest: usize) -> Vec<(bool, Vec<u8>)> {
        let mut from = Pieces(pieces.to_vec());
        let mut splitter = Splitter::with_longest_line(longest);
        let mut texts = Vec::new();
        while let Some(text) = splitter.next(&mut from).expect("no error is made") {
            texts.push((text.continues, text.bytes.to_vec()));
        }
        texts
    }

    #[test]
    fn whole_lines_go_together_and_a_rest_waits_for_its_end() {
        let texts = split(&[b"a\nb\nc", b"d", b"\n", b"e\n"], 100);
        assert_eq!(texts, [(false, b"a\nb\n".to_vec()), (false, b"cd\n".to_vec()), (false, b"e\n".to_vec())]);
    }

    #[test]
    fn a_last_line_without_newline_stays_without() {
        assert_eq!(split(&[b"a\nb"], 100), [(false, b"a\n".to_vec()), (false, b"b".to_vec())]);
        assert_eq!(split(&[], 100), []);
        assert_eq!(split(&[b"\n"], 100), [(false, b"\n".to_vec())]);
    }

    #[test]
    fn a_line_beyond_the_bound_goes_in_pieces() {
        let texts = split(&[b"abcd", b"efgh", b"ij\nk\n"], 4);
        let want: [(bool, &[u8]); 3] = [(false, b"abcd"), (true, b"efgh"), (true, b"ij\nk\n")];
        assert_eq!(texts, want.map(|(continues, bytes)| (continues, bytes.to_vec())));
    }

    #[test]
    fn what_is_split_joins_to_what_was_read() {
        let input: Vec<u8> = (0..20_000_u32).map(|i| if i % 37 == 0 { b'\n' } else { (i % 251) as u8 }).collect();
        for size in [1, 7, 100, 4096] {
            let pieces: Vec<&[u8]> = input.chunks(size).collect();
            let joined: Vec<u8> = split(&pieces, 64).into_iter().flat_map(|(_, bytes)| bytes).collect();
            assert!(joined == input, "pieces of {size}");
        }
    }

    #[test]
    fn payloads_read_back_and_others_are_refused() {
        let text = Text { from: "a", start: 7, number: 9, continues: true, ends: false, bytes: b"x\ny" };
        let end = Text { ends: true, bytes: b"", ..text };
        for text in [text, end] {
            let mut payload = Vec::new();
            text.encode(&mut payload);
            assert_eq!(Text::decode(&payload), Some(text));
            for cut in 0..20 {
                assert_eq!(Text::decode(&payload[..cut]), None);
            }
        }
        assert_eq!(text.lines().collect::<Vec<_>>(), [b"x\n".as_slice(), b"y"]);
        let mut empty = Vec::new();
        Text { bytes: b"", ..text }.encode(&mut empty);
        assert_eq!(Text::decode(&empty), None);
        assert_eq!(Text::decode(&[0; 40]), None);
    }
}
