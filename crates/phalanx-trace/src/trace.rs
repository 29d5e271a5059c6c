//! A complete trace in memory.

use std::io::Write;
use std::path::Path;

use crate::{Event, Header, Record, TraceError, TraceReader, TraceWriter};

/// A trace as a value: for programs that keep theirs in memory, like a simulator, and for tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The header.
    pub header: Header,
    /// The records, oldest first.
    pub records: Vec<Record>,
    /// Whether the file it came from ended inside a record.
    pub truncated: bool,
}

impl Trace {
    /// A trace without records. Traces built in memory lose nothing, so [`Header::write_ahead`] is set.
    #[must_use]
    pub fn new(header: Header) -> Self {
        Self { header: header.with_write_ahead(), records: Vec::new(), truncated: false }
    }

    /// Appends a record.
    pub fn push(&mut self, at_ns: u64, event: Event) {
        self.records.push(Record { at_ns, event });
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`TraceError`] if it cannot be read or is malformed.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let mut reader = TraceReader::open(path)?;
        let records = reader.by_ref().collect::<Result<_, _>>()?;
        Ok(Self { header: reader.header().clone(), records, truncated: reader.truncated() })
    }

    /// Writes it to a new file at `path`.
    ///
    /// # Errors
    /// [`TraceError`] if the file exists or cannot be written; a partial file may be left.
    pub fn save(&self, path: &Path) -> Result<(), TraceError> {
        self.write_all(TraceWriter::create(path, &self.header)?)
    }

    /// Writes the trace to `to`.
    ///
    /// # Errors
    /// [`TraceError`] if a write fails.
    pub fn write(&self, to: impl Write) -> Result<(), TraceError> {
        self.write_all(TraceWriter::new(to, self.header.node.clone(), &self.header)?)
    }

    fn write_all<W: Write>(&self, mut writer: TraceWriter<W>) -> Result<(), TraceError> {
        for record in &self.records {
            writer.write(record.at_ns, &record.event)?;
        }
        writer.flush()
    }
}
