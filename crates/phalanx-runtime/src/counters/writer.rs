//! Writing a counters file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use phalanx_core::{Incarnation, Instant};
use phalanx_driver::fork::Home;

use super::layout::{
    AT_CHECKSUM, AT_COUNT, AT_COVERED, AT_FILE_BYTES, AT_INCARNATION, AT_NAMES, AT_NAMES_BYTES, AT_PID, AT_REWRITES,
    AT_TEXT, AT_TEXT_BYTES, AT_UPDATED, AT_VALUES, AT_VERSION, COUNTERS_MAX, HEADER_BYTES, MAGIC, TEXT_ROOM_BYTES,
    VERSION,
};
use super::status::Status;
use crate::local::host::fnv1a;
use crate::local::lock::is_at;

/// The counters file of this process; in a forked child it writes nothing.
///
/// The file is written with plain writes and not through a mapping. So a full disk is an error that is counted, not a
/// signal that ends the process.
#[derive(Debug)]
pub struct CountersWriter {
    file: File,
    image: Vec<u8>,
    values_at: usize,
    count: usize,
    text_at: usize,
    rewrites: u64,
    failures: u64,
    home: Home,
}

impl CountersWriter {
    /// Creates the file for counters of these names, in this order.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(path: &Path, names: &[&'static str]) -> io::Result<Self> {
        let names = names.get(..COUNTERS_MAX).unwrap_or(names);
        let mut image = vec![0; HEADER_BYTES];
        let values_at = image.len();
        image.resize(values_at + 8 * names.len(), 0);
        let names_at = image.len();
        for name in names {
            let len = u16::try_from(name.len()).unwrap_or(u16::MAX);
            image.extend_from_slice(&len.to_le_bytes());
            image.extend_from_slice(&name.as_bytes()[..usize::from(len)]);
        }
        let names_bytes = image.len() - names_at;
        let text_at = image.len().next_multiple_of(8);
        image.resize(text_at + TEXT_ROOM_BYTES, 0);
        image[..8].copy_from_slice(&MAGIC);
        let file_bytes = image.len();
        let fields = [
            (AT_VERSION, VERSION as usize),
            (AT_FILE_BYTES, file_bytes),
            (AT_COUNT, names.len()),
            (AT_VALUES, values_at),
            (AT_NAMES, names_at),
            (AT_NAMES_BYTES, names_bytes),
            (AT_TEXT, text_at),
        ];
        for (at, value) in fields {
            put_u32(&mut image, at, value);
        }
        put_u64(&mut image, AT_PID, u64::from(std::process::id()));
        let file = fresh(path)?;
        Ok(Self { file, image, values_at, count: names.len(), text_at, rewrites: 0, failures: 0, home: Home::here() })
    }

    /// Whether the file is still the one at that path.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        is_at(&self.file, path)
    }

    /// Creates the file again at that path and closes the previous one. The next [`Self::update`] fills it.
    ///
    /// # Errors
    /// When it cannot be created; the previous file stays in use.
    pub fn move_to(&mut self, path: &Path) -> io::Result<()> {
        self.file = fresh(path)?;
        Ok(())
    }

    /// Rewrites the file. `values` are in the order of the names; missing ones keep their last value.
    pub fn update(&mut self, now: Instant, incarnation: Incarnation, values: &[u64], status: &Status) {
        if !self.home.is_here() {
            return;
        }
        for (index, value) in values.iter().take(self.count).enumerate() {
            put_u64(&mut self.image, self.values_at + 8 * index, *value);
        }
        let text = status.to_text(TEXT_ROOM_BYTES);
        let text = text.as_bytes().get(..TEXT_ROOM_BYTES).unwrap_or(text.as_bytes());
        self.image[self.text_at..self.text_at + text.len()].copy_from_slice(text);
        // A longer earlier text must leave no rest behind: the checksum covers the whole area.
        self.image[self.text_at + text.len()..].fill(0);
        self.rewrites += 1;
        put_u32(&mut self.image, AT_TEXT_BYTES, text.len());
        put_u64(&mut self.image, AT_INCARNATION, incarnation.0);
        put_u64(&mut self.image, AT_UPDATED, now.nanos());
        put_u64(&mut self.image, AT_REWRITES, self.rewrites);
        let checksum = fnv1a(&[&self.image[AT_COVERED..]]);
        put_u64(&mut self.image, AT_CHECKSUM, checksum);
        if self.file.write_all_at(&self.image, 0).is_err() {
            // A full disk: the file keeps its last content, and readers see by its time that it is old.
            self.failures += 1;
        }
    }

    /// Rewrites that failed.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures
    }
}

fn fresh(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn put_u32(image: &mut [u8], at: usize, value: usize) {
    let value = u32::try_from(value).expect("a counters file is far below 4 GiB");
    image[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_u64(image: &mut [u8], at: usize, value: u64) {
    image[at..at + 8].copy_from_slice(&value.to_le_bytes());
}
