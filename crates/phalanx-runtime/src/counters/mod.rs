//! A process's counters, in a file that any tool can read without disturbing the process.
//!
//! `docs/counters.md` describes the layout. The writer rewrites the file's fixed-size image in place, about ten times a
//! second and never per message. A checksum lets a reader detect that it read across a rewrite.

mod layout;
mod reader;
mod status;
#[cfg(test)]
mod tests;
mod writer;

pub use layout::{FILE_BYTES_MAX, MAGIC, VERSION};
pub use reader::{CountersError, CountersFile, Reading};
pub use status::{
    DEPARTED_SHOWN, DepartedStatus, GroupStatus, HOLDERS_SHOWN, HolderStatus, ORPHANS_SHOWN, OrphanStatus, RANKS_SHOWN,
    Status,
};
pub use writer::CountersWriter;
