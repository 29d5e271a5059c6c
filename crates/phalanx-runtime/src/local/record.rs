//! The record of a process with a name of its own, on disk.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use phalanx_core::member::{End, FounderRecord};
use toml::{Table, Value};

use super::error::LocalError;

/// The file in which a founder of that name keeps its [`FounderRecord`]. A later process of the name reads it, and so
/// does not found a second time a cell that may still live elsewhere.
#[derive(Clone, Debug)]
pub struct RecordFile {
    path: PathBuf,
}

impl RecordFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the record, with the last view that [`Self::note`] wrote if that can be read. `None`: the file is missing.
    ///
    /// # Errors
    /// When it cannot be read, or holds no record.
    pub fn read(&self) -> Result<Option<FounderRecord>, LocalError> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LocalError::io("read the founder's record", &self.path)(error)),
        };
        let mut record = parse(&text).ok_or_else(|| LocalError::BadRecord { path: self.path.clone() })?;
        let noted = fs::read_to_string(self.beside(LAST)).ok().and_then(|text| parse(&text));
        // A note from before the record was written is no newer.
        let view = |record: &FounderRecord| record.last.as_ref().map(|last| last.view);
        if let Some(noted) = noted.filter(|noted| noted.mark == record.mark && view(noted) > view(&record)) {
            record.last = noted.last;
        }
        Ok(Some(record))
    }

    /// Replaces the record, and returns once the new one is on disk.
    ///
    /// # Errors
    /// When it cannot be written; the previous record is unchanged.
    pub fn keep(&self, record: &FounderRecord) -> Result<(), LocalError> {
        self.try_keep(record).map_err(LocalError::io("write the founder's record", &self.path))
    }

    /// Writes the last view of `record` into a separate file, which is not synced. In the record's own file an unsynced
    /// write could lose the whole record in a power cut.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note(&self, record: &FounderRecord) -> Result<(), LocalError> {
        let path = self.beside(LAST);
        let write = || -> std::io::Result<()> {
            self.draft(record)?;
            fs::rename(self.beside(DRAFT), &path)
        };
        write().map_err(LocalError::io("write the founder's last view", &path))
    }

    fn try_keep(&self, record: &FounderRecord) -> std::io::Result<()> {
        // The file and then its directory are synced: a rename is on disk only once the directory is.
        self.draft(record)?.sync_all()?;
        fs::rename(self.beside(DRAFT), &self.path)?;
        self.path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
    }

    fn draft(&self, record: &FounderRecord) -> std::io::Result<File> {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(self.beside(DRAFT))?;
        file.write_all(text(record).as_bytes())?;
        Ok(file)
    }

    /// A file of the same founder with another extension. No record has such a name, because names have no dot.
    pub(super) fn beside(&self, extension: &str) -> PathBuf {
        self.path.with_extension(extension)
    }
}

/// The record, with fields that people look for.
fn text(record: &FounderRecord) -> String {
    let mut table = Table::from_iter([("format".to_owned(), Value::from(FORMAT))]);
    if let Some(mark) = &record.mark {
        table.insert("instance".to_owned(), Value::from(mark.instance.to_string()));
        table.insert("generation".to_owned(), Value::from(i64::from(mark.instance.generation())));
    }
    if let Some(heard) = &record.heard {
        table.insert("heard".to_owned(), Value::from(heard.at.to_string()));
    }
    match &record.end {
        Some(End::Left { .. }) => drop(table.insert("left".to_owned(), Value::from(true))),
        Some(End::Ended(ended)) => {
            let but_for: Vec<Value> = ended.but_for.iter().map(|lost| Value::from(lost.name.as_str())).collect();
            table.insert("ended".to_owned(), Value::from(ended.instance.to_string()));
            table.insert("ended_but_for".to_owned(), Value::from(but_for));
        }
        None => {}
    }
    if let Some(last) = &record.last {
        table.insert("last_view".to_owned(), Value::from(i64::try_from(last.view.0).unwrap_or(i64::MAX)));
        let members: Vec<Value> = last.members.iter().map(|name| Value::from(name.as_str())).collect();
        table.insert("last_members".to_owned(), Value::from(members));
    }
    let hex: String = record.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    table.insert("record".to_owned(), Value::from(hex));
    format!("{HEAD}{table}")
}

fn parse(text: &str) -> Option<FounderRecord> {
    let table: Table = text.parse().ok()?;
    if table.get("format")?.as_integer()? != FORMAT {
        return None;
    }
    let hex = table.get("record")?.as_str()?;
    let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
    FounderRecord::from_bytes(&bytes?).ok()
}

const HEAD: &str =
    "# What a process of this cell must not forget. Without this file a founder may found the cell a second time.\n";

const FORMAT: i64 = 1;

const DRAFT: &str = "draft";
const LAST: &str = "last";
