//! What the processes of a seed send, in a capture file (`docs/captures.md`).

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use phalanx_core::member::Directory;
use phalanx_core::wire::Header;
use phalanx_core::{DecreeNumber, Incarnation, TrafficClass};
use phalanx_tap::capture::{Capture, Seen};

/// A capture file that the first seed that runs fills. Clones are the same file.
#[derive(Clone)]
pub struct TapFile {
    form: TapForm,
    inner: Arc<Mutex<Inner>>,
}

/// How packets stand in a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapForm {
    /// As datagrams, sealed if the cell's are. Of what goes through memory the header alone.
    Sealed,
    /// The header and the frames in clear.
    Clear,
}

struct Inner {
    capture: Capture<BufWriter<File>>,
    is_taken: bool,
    packets: u64,
    failure: Option<io::Error>,
}

impl TapFile {
    /// Makes the file.
    ///
    /// # Errors
    /// Those of the file system. [`io::ErrorKind::AlreadyExists`]: something is at this path, and was not touched.
    pub fn create(path: &Path, form: TapForm) -> io::Result<Self> {
        let capture = Capture::create(path)?;
        let inner = Inner { capture, is_taken: false, packets: 0, failure: None };
        Ok(Self { form, inner: Arc::new(Mutex::new(inner)) })
    }

    /// The number of packets in the file, all of which are written.
    ///
    /// # Errors
    /// The first error of the file system. What came after it is not in the file.
    pub fn finish(&self) -> io::Result<u64> {
        let mut inner = self.lock();
        if let Some(failure) = inner.failure.take() {
            return Err(failure);
        }
        inner.capture.flush()?;
        Ok(inner.packets)
    }

    /// The file, for one run. `None`: another run has it.
    pub(crate) fn take(&self) -> Option<Self> {
        (!std::mem::replace(&mut self.lock().is_taken, true)).then(|| self.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // After a panic in a run the file is as good as it was.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TapFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TapFile").field("form", &self.form).finish_non_exhaustive()
    }
}

impl PartialEq for TapFile {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for TapFile {}

/// The hook of one process: it shows each packet and destination once.
#[derive(Debug)]
pub(crate) struct Tap {
    file: TapFile,
    /// Indexed by [`TrafficClass`].
    locals: [SocketAddr; 2],
    time: Duration,
    /// Whose names the file has.
    named: Option<Named>,
}

/// Where a packet goes, and how.
#[derive(Clone, Copy)]
struct Hop {
    class: TrafficClass,
    to: SocketAddr,
    is_memory: bool,
}

impl Tap {
    pub(crate) fn new(file: TapFile, data: SocketAddr, control: SocketAddr) -> Self {
        Self { file, locals: [data, control], time: Duration::ZERO, named: None }
    }

    pub(crate) fn at(&mut self, now_ns: u64) {
        self.time = Duration::from_nanos(now_ns);
    }

    /// A packet before it is sealed. `head`: its header, and the incarnation that it is for. `is_memory`: whether it
    /// reaches that address through memory.
    pub(crate) fn opened(
        &self,
        class: TrafficClass,
        to: &[SocketAddr],
        parts: [&[u8]; 3],
        is_memory: impl Fn(&SocketAddr) -> bool,
    ) {
        let [head, frames, rest] = parts;
        let Some((header, dest)) = head.split_at_checked(Header::LEN) else { return };
        let dest = dest.first_chunk().map_or(Incarnation::NONE, |bytes| Incarnation(u64::from_le_bytes(*bytes)));
        for to in to {
            let path = Hop { class, to: *to, is_memory: is_memory(to) };
            match self.file.form {
                TapForm::Clear => self.show(path, [header, frames, rest], dest, 0),
                TapForm::Sealed if path.is_memory => {
                    self.show(path, [header, &[], &[]], dest, header.len() + frames.len() + rest.len());
                }
                // It is shown when it is sealed.
                TapForm::Sealed => {}
            }
        }
    }

    /// A datagram.
    pub(crate) fn datagram(&self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        if self.file.form == TapForm::Sealed {
            for to in to {
                self.show(Hop { class, to: *to, is_memory: false }, [packet, &[], &[]], Incarnation::NONE, 0);
            }
        }
    }

    fn show(&self, path: Hop, parts: [&[u8]; 3], to: Incarnation, packet_bytes: usize) {
        let Hop { class, to: peer, is_memory } = path;
        let seen = Seen::new(self.time, self.locals[class as usize], peer, parts);
        let seen = Seen { is_sent: true, class, is_memory, to, packet_bytes, ..seen };
        let mut inner = self.file.lock();
        if inner.failure.is_some() {
            return;
        }
        let written = match self.file.form {
            TapForm::Sealed => inner.capture.sealed(&seen),
            TapForm::Clear => inner.capture.clear(&seen),
        };
        match written {
            Ok(()) => inner.packets += 1,
            Err(failure) => inner.failure = Some(failure),
        }
    }
}

/// What a process knows the names of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    incarnation: Incarnation,
    decree: DecreeNumber,
}

impl Named {
    pub(crate) fn new(incarnation: Incarnation, directory: &Directory) -> Self {
        Self { incarnation, decree: directory.decree }
    }
}

impl Tap {
    /// Whether the file has these names already.
    pub(crate) fn knows(&self, named: Named) -> bool {
        self.named == Some(named)
    }

    /// Gives the file the names that the process `name` knows now.
    pub(crate) fn learn(&mut self, named: Named, name: &str, directory: &Directory) {
        self.named = Some(named);
        let mut inner = self.file.lock();
        inner.capture.member(named.incarnation, name, &self.locals);
        inner.capture.directory(directory);
    }
}
