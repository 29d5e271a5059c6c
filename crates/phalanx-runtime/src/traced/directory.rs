//! Traces as files in a directory.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use phalanx_core::Incarnation;
use phalanx_trace::{Header, TraceError, TraceWriter};

use super::{OpenTrace, Recorder, TraceFailed};
use crate::clock::clock_name;

impl Recorder {
    /// Records in files of `directory`, which is created if missing. Each incarnation gets a file, named after the process
    /// and the incarnation. Records survive a kill of the process.
    ///
    /// # Errors
    /// When the directory, or a file in it, cannot be created. Later errors go to `failed`.
    pub fn to_directory(cell: &str, directory: &Path, failed: TraceFailed) -> io::Result<Self> {
        prepare(directory)?;
        let (place, name_of_cell) = (directory.to_path_buf(), cell.to_owned());
        let open: OpenTrace<File> = Box::new(move |me| create(&place, &name_of_cell, &me.name, me.incarnation));
        Ok(Self::new(cell, true, open, failed))
    }
}

fn header(cell: &str, name: &str, life: Incarnation) -> Header {
    Header::process(cell, name, life.0, &clock_name()).with_write_ahead()
}

fn trace_path(directory: &Path, name: &str, life: Incarnation) -> PathBuf {
    directory.join(format!("{}-{life}.trace", file_name(name)))
}

/// Starts the trace of one incarnation of the process `name`, in a file named after both.
pub(crate) fn create(
    directory: &Path,
    cell: &str,
    name: &str,
    life: Incarnation,
) -> Result<TraceWriter<File>, TraceError> {
    TraceWriter::create(&trace_path(directory, name, life), &header(cell, name, life))
}

/// Creates the directory if missing, and creates and removes a file in it, so that a write error is reported before the
/// process starts.
fn prepare(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let unique = crate::clock::now().nanos();
    let path = directory.join(format!(".try-{}-{unique}", std::process::id()));
    let mut file = File::create_new(&path)?;
    let written = file.write_all(b"PHXTRACE");
    drop(file);
    fs::remove_file(&path)?;
    written
}

/// A process's name without characters that a file name cannot hold.
fn file_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.chars().map(|c| if plain(c) { c } else { '_' }).take(NAME_CHARS).collect()
}

/// The incarnation distinguishes processes whose names are cut.
const NAME_CHARS: usize = 100;
