//! Reading a trace, one record at a time.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::codec::{Prefix, take_prefix};
use crate::{FORMAT_VERSION, FORMAT_VERSION_MIN, Header, MAGIC, RECORD_BYTES_MAX, Record, TraceError};

/// Bytes requested from the file at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// Reads a trace. An iterator over its records; it ends after the first error.
///
/// A file that ends inside a record, as a killed writer leaves it, is read up to the last complete record and marked as
/// [`truncated`](Self::truncated). Anything else that is not a record is an error.
#[derive(Debug)]
pub struct TraceReader<R: Read> {
    from: R,
    name: String,
    header: Header,
    /// Bytes read and not yet decoded: `buffer[start..]`. At most a record and a chunk.
    buffer: Vec<u8>,
    start: usize,
    /// The file offset of `buffer[start]`.
    offset: u64,
    at_end: bool,
    over: bool,
    truncated: bool,
}

impl TraceReader<File> {
    /// Opens the file at `path` and reads its header.
    ///
    /// # Errors
    /// [`TraceError`] if it cannot be read or is no trace of a known format version.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|source| TraceError::Io { file: name.clone(), source })?;
        Self::new(file, name)
    }
}

impl<R: Read> TraceReader<R> {
    /// A reader of `from`, called `name` in errors. It reads the header at once.
    ///
    /// # Errors
    /// [`TraceError`] if it cannot be read or is no trace of a known format version.
    pub fn new(from: R, name: impl Into<String>) -> Result<Self, TraceError> {
        let mut reader = Self {
            from,
            name: name.into(),
            header: Header::harness("", ""),
            buffer: Vec::new(),
            start: 0,
            offset: 0,
            at_end: false,
            over: false,
            truncated: false,
        };
        reader.read_header()?;
        Ok(reader)
    }

    /// The header of the trace.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The name of this reader in errors.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the file ended inside a record. Meaningful only after the last record.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.truncated
    }

    /// Reads the next record; `None` at the end.
    ///
    /// # Errors
    /// [`TraceError`] if the file cannot be read or the following bytes are no record. Every later call returns `None`.
    pub fn read(&mut self) -> Result<Option<Record>, TraceError> {
        if self.over {
            return Ok(None);
        }
        let result = self.read_value::<Record>();
        if !matches!(result, Ok(Some(_))) {
            self.over = true;
        }
        result
    }

    fn read_header(&mut self) -> Result<(), TraceError> {
        const FIXED: usize = MAGIC.len() + 2;
        while self.buffer.len() < FIXED && !self.at_end {
            self.fill()?;
        }
        let magic = &self.buffer[..self.buffer.len().min(MAGIC.len())];
        if magic != &MAGIC[..magic.len()] {
            return Err(TraceError::NotATrace { file: self.name.clone() });
        }
        let &[low, high, ..] = &self.buffer[magic.len()..] else { return Err(self.empty()) };
        let found = u16::from_le_bytes([low, high]);
        if !(FORMAT_VERSION_MIN..=FORMAT_VERSION).contains(&found) {
            return Err(TraceError::Version { file: self.name.clone(), found });
        }
        self.advance(FIXED);
        self.header = self.read_value()?.ok_or_else(|| self.empty())?;
        self.header.format = found;
        Ok(())
    }

    /// Decodes one length-prefixed value; `None` at the end, whether the value is missing or cut.
    fn read_value<T: serde::de::DeserializeOwned>(&mut self) -> Result<Option<T>, TraceError> {
        let (len, prefix) = loop {
            match take_prefix(&self.buffer[self.start..]) {
                Prefix::Len(len, prefix) => break (len, prefix),
                Prefix::Bad => return Err(self.malformed("a record length beyond the bound")),
                Prefix::Cut if self.at_end => {
                    self.truncated = self.start < self.buffer.len();
                    return Ok(None);
                }
                Prefix::Cut => self.fill()?,
            }
        };
        debug_assert!(len <= RECORD_BYTES_MAX);
        while self.buffer.len() - self.start < prefix + len {
            if self.at_end {
                self.truncated = true;
                return Ok(None);
            }
            self.fill()?;
        }
        let body = &self.buffer[self.start + prefix..self.start + prefix + len];
        match postcard::take_from_bytes::<T>(body) {
            Ok((value, [])) => {
                self.advance(prefix + len);
                Ok(Some(value))
            }
            Ok(_) => Err(self.malformed("a record shorter than its length says")),
            Err(_) => Err(self.malformed("a record that cannot be decoded")),
        }
    }

    fn fill(&mut self) -> Result<(), TraceError> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let held = self.buffer.len();
        self.buffer.resize(held + CHUNK_BYTES, 0);
        let got = loop {
            match self.from.read(&mut self.buffer[held..]) {
                Ok(n) => break n.min(CHUNK_BYTES),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(TraceError::Io { file: self.name.clone(), source }),
            }
        };
        self.buffer.truncate(held + got);
        self.at_end = got == 0;
        Ok(())
    }

    fn advance(&mut self, len: usize) {
        self.start += len;
        self.offset += len as u64;
    }

    fn malformed(&self, what: &'static str) -> TraceError {
        TraceError::Malformed { file: self.name.clone(), offset: self.offset, what }
    }

    fn empty(&self) -> TraceError {
        TraceError::Empty { file: self.name.clone() }
    }
}

impl<R: Read> Iterator for TraceReader<R> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
