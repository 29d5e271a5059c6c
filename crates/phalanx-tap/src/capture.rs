//! Capture files: packets as a tap saw them, in pcapng. `docs/captures.md` specifies every byte.
//!
//! ```
//! use std::net::SocketAddr;
//! use std::time::Duration;
//! use phalanx_core::id::{Incarnation, ViewNumber};
//! use phalanx_core::wire::Space;
//! use phalanx_tap::capture::{Capture, Seen};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut capture = Capture::new(Vec::new())?;
//! let (me, other): (SocketAddr, SocketAddr) = ("10.0.0.1:7000".parse()?, "10.0.0.2:7000".parse()?);
//! capture.member(Incarnation(7), "m1", &[me]);
//! capture.view(Space(12), ViewNumber(1), "ledger", &[Incarnation(7)]);
//!
//! let (header, frames) = ([0x36; 24], [1, 2, 0]);
//! let seen = Seen::new(Duration::from_secs(1), me, other, [&header, &frames, &[]]);
//! capture.sealed(&Seen { is_sent: true, ..seen })?;
//! capture.clear(&Seen { is_memory: true, ..seen })?;
//! assert_eq!(capture.into_inner()?[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
//! # Ok(())
//! # }
//! ```

mod clear;
mod datagram;
mod interfaces;
mod name_line;
mod names;
mod pcapng;
mod seen;

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use phalanx_core::id::{Incarnation, ViewNumber};
use phalanx_core::member::Directory;
use phalanx_core::wire::Space;

pub use name_line::NameLine;
pub use names::NameTexts;
pub use seen::Seen;

use clear::{DEST_AT, FRONT_BYTES};
use datagram::Headers;
use interfaces::{Form, Interface, Interfaces};
use pcapng::{BlockWriter, Packet, SNAP_MAX};

/// Writes packets to a capture file, in the order of the calls.
///
/// Each block goes out in one write. After a write failed the file may end within a block. Every later call then fails,
/// and writes nothing.
#[derive(Debug)]
pub struct Capture<W> {
    blocks: BlockWriter<W>,
    interfaces: Interfaces,
    names: NameTexts,
    /// What [`Self::names`] brought: an incarnation, or a space and its line.
    learned: BTreeSet<(u64, Option<usize>)>,
    /// Of the packet written last. Times in a file do not go back.
    latest: Duration,
    late: u64,
    /// A packet as the file has it, in one piece.
    packet: Vec<u8>,
}

impl Capture<BufWriter<File>> {
    /// Begins a new file that only its owner can read and write (mode 0600). A packet in clear shows what the members
    /// say to each other.
    ///
    /// ```
    /// use phalanx_tap::capture::Capture;
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("cell.pcapng");
    /// Capture::create(&path)?.flush()?;
    /// assert!(Capture::create(&path).is_err(), "a file that is there is left as it is");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of the file system. [`io::ErrorKind::AlreadyExists`]: something is at this path, and was not touched.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::new(BufWriter::new(new_file(path)?))
    }
}

/// Makes a new file that only its owner can read and write, as [`Capture::create`] does.
///
/// # Errors
/// Those of the file system. [`io::ErrorKind::AlreadyExists`]: something is at this path, and was not touched.
pub fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

impl<W: Write> Capture<W> {
    /// Begins a file: writes its section header.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn new(out: W) -> io::Result<Self> {
        let mut blocks = BlockWriter::new(out);
        blocks.section()?;
        Ok(Self {
            blocks,
            interfaces: Interfaces::default(),
            names: NameTexts::default(),
            learned: BTreeSet::new(),
            latest: Duration::ZERO,
            late: 0,
            packet: Vec::new(),
        })
    }

    /// Names an incarnation, and the addresses of its sockets. Readers learn it with the next packet.
    pub fn member(&mut self, who: Incarnation, name: &str, addresses: &[SocketAddr]) {
        self.names.member(who, name, addresses);
    }

    /// Names the packet-number space of a group's view, and its members by rank. Readers learn it with the next packet.
    pub fn view(&mut self, space: Space, view: ViewNumber, group: &str, members: &[Incarnation]) {
        self.names.view(space, view, group, members);
    }

    /// The members and groups of a cell, as a member of it knows them. Readers learn them with the next packet.
    pub fn directory(&mut self, directory: &Directory) {
        self.names.directory(directory);
    }

    /// Names in the form that [`NameTexts`] gives. Readers learn them with the next packet. What such a text brought
    /// before, and lines that this build does not know, are left out.
    pub fn names(&mut self, text: &str) {
        for (line, known) in NameLine::with_lines(text) {
            let key = match known {
                NameLine::Member { incarnation, .. } => (incarnation.0, None),
                NameLine::View { space, first_rank, .. } => (u64::from(space.0), Some(first_rank)),
            };
            if self.learned.insert(key) {
                self.names.line(line);
            }
        }
    }

    /// Writes a packet as a datagram: an IP and a UDP header, and the packet's bytes as they are. [`Seen::to`] does not
    /// matter.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn sealed(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        let headers = Headers::of(seen);
        let whole = headers.bytes().len().saturating_add(seen.whole_bytes());
        self.take([headers.bytes(), seen.parts[0], seen.parts[1], seen.parts[2]], kept(seen, headers.longest()));
        self.write(headers.form(), seen, whole)
    }

    /// Writes a packet in clear. The parts hold its header of 24 bytes and its frames, without a tag. [`Seen::to`] goes
    /// between them.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn clear(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        let (front, to) = (clear::front(seen), seen.to.0.to_le_bytes());
        let most = kept(seen, SNAP_MAX);
        self.take([&front, seen.parts[0], seen.parts[1], seen.parts[2]], most.max(DEST_AT));
        // A packet that ends within its header has no room for it.
        if self.packet.len() >= DEST_AT {
            self.packet.splice(DEST_AT..DEST_AT, to);
        }
        self.packet.truncate(most);
        self.write(Form::Clear, seen, FRONT_BYTES.saturating_add(to.len()).saturating_add(seen.whole_bytes()))
    }

    /// Packets whose time was before that of the packet written before them. They have that packet's time in the file.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Hands all that was written to the writer's own destination.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.blocks.flush()
    }

    /// Flushes and returns the writer.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn into_inner(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.blocks.into_inner())
    }

    /// Joins the parts, up to `most` bytes.
    fn take(&mut self, parts: [&[u8]; 4], most: usize) {
        self.packet.clear();
        for part in parts {
            let room = most.saturating_sub(self.packet.len());
            self.packet.extend_from_slice(part.get(..room).unwrap_or(part));
        }
    }

    fn write(&mut self, form: Form, seen: &Seen<'_>, whole: usize) -> io::Result<()> {
        let interface = Interface { form, class: seen.class, is_memory: seen.is_memory, local: seen.local };
        let interface = self.interfaces.number(interface, &mut self.blocks)?;
        if seen.time < self.latest {
            self.late += 1;
        }
        self.latest = self.latest.max(seen.time);
        let packet = Packet {
            interface,
            time: self.latest,
            whole: u32::try_from(whole).unwrap_or(u32::MAX),
            is_sent: seen.is_sent,
            missed: seen.missed,
        };
        self.blocks.packet(&packet, &self.packet, self.names.next())?;
        self.names.written();
        Ok(())
    }
}

/// How many bytes of a packet go into the file, front included.
fn kept(seen: &Seen<'_>, most: usize) -> usize {
    usize::try_from(seen.snap).unwrap_or(usize::MAX).min(most)
}

#[cfg(test)]
mod tests;
