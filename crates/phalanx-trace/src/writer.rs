//! Writing a trace.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde::Serialize;

use crate::codec::put_prefix;
use crate::{Event, FORMAT_VERSION, Header, MAGIC, RECORD_BYTES_MAX, TraceError};

/// Bytes buffered before they are written out. Large enough that system calls do not show in a run's speed.
const BUFFER_BYTES: usize = 64 << 10;

/// Appends records to a trace. It buffers: [`Self::flush`] writes the buffer out, and so does dropping it.
#[derive(Debug)]
pub struct TraceWriter<W: Write> {
    to: W,
    name: String,
    buffer: Vec<u8>,
    scratch: Vec<u8>,
    records: u64,
    /// A write failed. The buffered records are lost and the file may be cut, so nothing more is appended.
    failed: bool,
}

impl TraceWriter<File> {
    /// Creates the file at `path`, which must not exist, and writes its header through to the file.
    ///
    /// # Errors
    /// [`TraceError`] if the file exists or cannot be created or written.
    pub fn create(path: &Path, header: &Header) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let file = File::create_new(path).map_err(|source| TraceError::Io { file: name.clone(), source })?;
        let mut writer = Self::new(file, name, header)?;
        writer.flush()?;
        Ok(writer)
    }
}

impl<W: Write> TraceWriter<W> {
    /// A writer to `to`, called `name` in errors. The header is only buffered.
    ///
    /// # Errors
    /// [`TraceError::TooLong`] if the header's texts exceed the longest record.
    pub fn new(to: W, name: impl Into<String>, header: &Header) -> Result<Self, TraceError> {
        let mut writer = Self {
            to,
            name: name.into(),
            buffer: Vec::with_capacity(BUFFER_BYTES + 1024),
            scratch: Vec::with_capacity(256),
            records: 0,
            failed: false,
        };
        writer.buffer.extend_from_slice(&MAGIC);
        writer.buffer.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        writer.append(header)?;
        Ok(writer)
    }

    /// Appends one record.
    ///
    /// # Errors
    /// [`TraceError::TooLong`]: nothing was appended. [`TraceError::Io`]: buffered records could not be written; they
    /// are lost, and every later call fails too.
    pub fn write(&mut self, at_ns: u64, event: &Event) -> Result<(), TraceError> {
        self.append(&(at_ns, event))?;
        self.records += 1;
        if self.buffer.len() >= BUFFER_BYTES { self.hand_on() } else { Ok(()) }
    }

    /// Writes all buffered records to the file and flushes it.
    ///
    /// # Errors
    /// [`TraceError::Io`] if that fails; see [`Self::write`].
    pub fn flush(&mut self) -> Result<(), TraceError> {
        self.hand_on()?;
        self.to.flush().map_err(|source| self.failure(source))
    }

    /// Records written so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Whether records are buffered.
    #[must_use]
    pub fn has_unflushed(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Discards the buffer and writes nothing any more. For a copy of the writer in a forked child, whose parent writes
    /// the same records to the same file.
    pub fn abandon(&mut self) {
        self.buffer.clear();
        self.failed = true;
    }

    fn append(&mut self, value: &impl Serialize) -> Result<(), TraceError> {
        if self.failed {
            return Err(self.failure(std::io::Error::other("an earlier write failed")));
        }
        self.scratch.clear();
        // Serializing into memory fails only for sequences of unknown length, which no record has.
        self.scratch =
            postcard::to_extend(value, std::mem::take(&mut self.scratch)).expect("records have known lengths");
        if self.scratch.len() > RECORD_BYTES_MAX {
            return Err(TraceError::TooLong { file: self.name.clone(), len_bytes: self.scratch.len() });
        }
        put_prefix(&mut self.buffer, self.scratch.len());
        self.buffer.extend_from_slice(&self.scratch);
        Ok(())
    }

    fn hand_on(&mut self) -> Result<(), TraceError> {
        let result = self.to.write_all(&self.buffer);
        self.buffer.clear();
        result.map_err(|source| self.failure(source))
    }

    fn failure(&mut self, source: std::io::Error) -> TraceError {
        self.failed = true;
        TraceError::Io { file: self.name.clone(), source }
    }
}

impl<W: Write> Drop for TraceWriter<W> {
    fn drop(&mut self) {
        if !self.failed && !self.buffer.is_empty() {
            // A drop cannot report the error. The reader will find a file without its end.
            let _ = self.flush();
        }
    }
}
