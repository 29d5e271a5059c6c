//! Reading a counters file, whatever its content.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use phalanx_core::{Incarnation, Instant};
use rustix::fs::OFlags;

use super::layout::{
    AT_CHECKSUM, AT_COUNT, AT_COVERED, AT_FILE_BYTES, AT_INCARNATION, AT_NAMES, AT_NAMES_BYTES, AT_PID, AT_REWRITES,
    AT_TEXT, AT_TEXT_BYTES, AT_UPDATED, AT_VALUES, AT_VERSION, COUNTERS_MAX, FILE_BYTES_MAX, HEADER_BYTES, MAGIC,
    VERSION,
};
use super::status::Status;
use crate::local::host::fnv1a;

/// Why a counters file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CountersError {
    /// The system refused.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It does not begin like a counters file.
    #[error("{} is no counters file", path.display())]
    NotCounters {
        /// The file.
        path: PathBuf,
    },
    /// Written by another version of the program.
    #[error("{} has layout version {found}, this program reads {VERSION}: use the tool of the process's version", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version found.
        found: u32,
    },
    /// Its fields contradict each other, or no read found a valid checksum.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// An open counters file. Reading it does not disturb its process.
#[derive(Debug)]
pub struct CountersFile {
    path: PathBuf,
    file: File,
}

/// The content of a counters file at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The process id.
    pub pid: u64,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The time of the last rewrite, by [`crate::clock::now`].
    pub updated: Instant,
    /// The number of rewrites.
    pub rewrites: u64,
    /// Counters by name, in the file's order.
    pub counters: Vec<(String, u64)>,
    /// The process's state.
    pub status: Status,
}

impl CountersFile {
    /// Opens the file.
    ///
    /// # Errors
    /// When it cannot be opened. [`Self::read`] checks the content.
    pub fn open(path: &Path) -> Result<Self, CountersError> {
        // No symbolic link is followed, and opening a pipe does not block.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
        let file = file.map_err(|source| CountersError::Io { path: path.to_path_buf(), source })?;
        Ok(Self { path: path.to_path_buf(), file })
    }

    /// Reads the present content.
    ///
    /// # Errors
    /// When it is no valid counters file.
    pub fn read(&self) -> Result<Reading, CountersError> {
        let mut image = Vec::new();
        for _ in 0..TRIES {
            self.load(&mut image)?;
            self.check_kind(&image)?;
            if u64_at(&image, AT_CHECKSUM) == Some(fnv1a(&[&image[AT_COVERED..]])) {
                return parse(&image).ok_or_else(|| self.damaged("its fields contradict each other"));
            }
            // Most likely the writer was rewriting it.
            std::thread::yield_now();
        }
        Err(self.damaged("its checksum is wrong"))
    }

    fn load(&self, image: &mut Vec<u8>) -> Result<(), CountersError> {
        image.resize(FILE_BYTES_MAX + 1, 0);
        let mut len = 0;
        while len < image.len() {
            match self.file.read_at(&mut image[len..], len as u64) {
                Ok(0) => break,
                Ok(count) => len += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(CountersError::Io { path: self.path.clone(), source }),
            }
        }
        image.truncate(len);
        Ok(())
    }

    fn check_kind(&self, image: &[u8]) -> Result<(), CountersError> {
        if image.len() < HEADER_BYTES || image.len() > FILE_BYTES_MAX || image[..8] != MAGIC {
            return Err(CountersError::NotCounters { path: self.path.clone() });
        }
        match u32_at(image, AT_VERSION) {
            Some(VERSION) => {}
            found => return Err(CountersError::Version { path: self.path.clone(), found: found.unwrap_or(0) }),
        }
        if usize_at(image, AT_FILE_BYTES) == Some(image.len()) { Ok(()) } else { Err(self.damaged("it is cut short")) }
    }

    fn damaged(&self, what: &'static str) -> CountersError {
        CountersError::Damaged { path: self.path.clone(), what }
    }
}

/// Decodes an image. `None`: an offset points outside the file, or a text is not UTF-8.
fn parse(image: &[u8]) -> Option<Reading> {
    let count = usize_at(image, AT_COUNT).filter(|count| *count <= COUNTERS_MAX)?;
    let mut names = part(image, usize_at(image, AT_NAMES)?, usize_at(image, AT_NAMES_BYTES)?)?;
    let values = part(image, usize_at(image, AT_VALUES)?, count * 8)?;
    let mut counters = Vec::with_capacity(count);
    for value in values.chunks_exact(8) {
        let (len, rest) = names.split_at_checked(2)?;
        let len = usize::from(u16::from_le_bytes(len.try_into().ok()?));
        let (name, rest) = rest.split_at_checked(len)?;
        names = rest;
        counters.push((std::str::from_utf8(name).ok()?.to_owned(), u64::from_le_bytes(value.try_into().ok()?)));
    }
    let text = part(image, usize_at(image, AT_TEXT)?, usize_at(image, AT_TEXT_BYTES)?)?;
    Some(Reading {
        pid: u64_at(image, AT_PID)?,
        incarnation: Incarnation(u64_at(image, AT_INCARNATION)?),
        updated: Instant(u64_at(image, AT_UPDATED)?),
        rewrites: u64_at(image, AT_REWRITES)?,
        counters,
        status: Status::from_text(std::str::from_utf8(text).ok()?)?,
    })
}

fn part(image: &[u8], at: usize, len: usize) -> Option<&[u8]> {
    image.get(at..at.checked_add(len)?)
}

fn u32_at(image: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(part(image, at, 4)?.try_into().ok()?))
}

fn usize_at(image: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32_at(image, at)?).ok()
}

fn u64_at(image: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(part(image, at, 8)?.try_into().ok()?))
}

/// A rewrite takes some microseconds, ten times a second, so that a few tries are plenty.
const TRIES: usize = 20;
