//! The tap's side: which processes can be looked at, and the packets of one.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use phalanx_core::TrafficClass;
use phalanx_driver::tap::Form;
use phalanx_driver::tap::ring::{RecordHeader, RecordKind, RingReader};
use phalanx_tap::Flags;
use phalanx_tap::capture::Seen;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::geteuid;

use super::error::TapError;
use super::message::{Ask, Attach, Point, Reply};
use super::service::connected;
use super::socket::{Socket, Taken};
use crate::config::Config;
use crate::local::{LocalCell, LocalError};

/// A process of this user that can be looked at.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its socket.
    pub socket: PathBuf,
    /// The process.
    pub pid: u32,
    /// Its threads that show packets. Empty: it does not answer.
    pub points: Vec<Point>,
}

/// How a process is to be looked at.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Which packets (`docs/tap.md`); empty: all.
    pub filter: String,
    /// What of them.
    pub form: Form,
    /// The most bytes of each, with the headers or the front that a capture file has before a packet.
    pub snap: u32,
    /// The memory of each point for what was not fetched yet, from 256 KiB to 64 MiB.
    pub ring_bytes: usize,
}

/// What a reader gets.
#[derive(Clone, Copy, Debug)]
pub enum Shown<'a> {
    /// Lines of names, in the form of `docs/captures.md`. They come before packets that need them.
    Names(&'a str),
    /// A packet. Its time counts from the Unix epoch.
    Packet(Seen<'a>, Form),
}

/// Packets so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Shown to the filter. Up to 50 ms old.
    pub seen: u64,
    /// Taken by it, likewise.
    pub matched: u64,
    /// Taken by it, and overwritten before they were read.
    pub lost: u64,
}

/// Finds the processes of a cell that can be looked at, in this network namespace. Sockets of dead processes are removed.
/// A process has a second to answer.
///
/// # Errors
/// [`TapError::Local`] if the runtime directory cannot be used.
pub fn places(config: &Config) -> Result<Vec<Place>, TapError> {
    let local = LocalCell::open(config.runtime_dir.as_deref(), config.state_dir.as_deref(), &config.cell)?;
    places_in(local.scope())
}

fn places_in(directory: &Path) -> Result<Vec<Place>, TapError> {
    let mut asked = Vec::new();
    for (path, socket) in connected(directory).map_err(LocalError::io("read", directory))? {
        let Ok(peer) = socket.peer() else { continue };
        let _ = socket.send(&Ask::Look {}, None);
        asked.push((Place { socket: path, pid: peer.pid, points: Vec::new() }, socket));
    }
    let until = Instant::now() + PATIENCE;
    let mut places: Vec<Place> = asked
        .into_iter()
        .map(|(place, socket)| {
            let points = match answer(&socket, until) {
                Some(Taken::Message(Reply::Points(points), _)) => points,
                _ => Vec::new(),
            };
            Place { points, ..place }
        })
        .collect();
    places.sort_by(|a, b| (a.pid, &a.socket).cmp(&(b.pid, &b.socket)));
    Ok(places)
}

/// The next message, as long as `until` is not over.
fn answer(socket: &Socket, until: Instant) -> Option<Taken<Reply>> {
    loop {
        match socket.take() {
            Taken::Nothing => {}
            taken => return Some(taken),
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        let limit =
            Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or(0), tv_nsec: i64::from(left.subsec_nanos()) };
        let _ = poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&limit));
    }
}

/// A reader that is attached to all points of a process. Dropped, it is detached.
#[derive(Debug)]
pub struct Reader {
    pid: u32,
    socket: Socket,
    wanted: Wanted,
    points: Vec<Point>,
    /// The names in the filter that a point does not know, by the point's number.
    unbound: Vec<(u64, String)>,
    rings: Vec<Ring>,
    /// Of points that ended.
    earlier: Stats,
    notices: Vec<String>,
    is_over: bool,
    /// The record that is shown.
    shown: Record,
}

#[derive(Debug)]
struct Ring {
    point: u64,
    ring: RingReader,
    /// The oldest record that was not shown yet.
    waiting: Option<Record>,
    /// Losses that were told with a packet.
    told: u64,
    is_over: bool,
}

#[derive(Clone, Debug, Default)]
struct Record {
    head: Option<RecordHeader>,
    bytes: Vec<u8>,
    missed: u64,
}

impl Reader {
    /// Attaches to a process. Points that do not poll attach when they do; see [`Self::points`].
    ///
    /// # Errors
    /// [`TapError::Refused`], [`TapError::OtherUser`], [`TapError::Silent`], [`TapError::Ended`]. Nothing is attached.
    pub fn attach(place: &Place, wanted: &Wanted) -> Result<Self, TapError> {
        let pid = place.pid;
        let socket = Socket::connect(&place.socket).map_err(|source| match source.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => TapError::Ended { pid },
            _ => TapError::System { what: "connect to the process", source },
        })?;
        let peer = socket.peer().map_err(TapError::system("see whose process it is"))?;
        if peer.user != geteuid().as_raw() {
            return Err(TapError::OtherUser { pid, owner: peer.user });
        }
        let mut reader = Self {
            pid,
            socket,
            wanted: wanted.clone(),
            points: Vec::new(),
            unbound: Vec::new(),
            rings: Vec::new(),
            earlier: Stats::default(),
            notices: Vec::new(),
            is_over: false,
            shown: Record::default(),
        };
        reader.ask()?;
        Ok(reader)
    }

    /// Changes the filter, from a packet that is sent or received soon on.
    ///
    /// # Errors
    /// As for [`Self::attach`]. The process goes on with the filter that it has.
    pub fn change(&mut self, filter: &str) -> Result<(), TapError> {
        let before = std::mem::replace(&mut self.wanted.filter, filter.to_owned());
        self.ask().inspect_err(|_| self.wanted.filter = before)
    }

    /// Asks, and waits for as many points as the process says, for a second.
    fn ask(&mut self) -> Result<(), TapError> {
        let Wanted { filter, form, snap, ring_bytes } = self.wanted.clone();
        let ask = Ask::Attach(Attach { filter, form, snap, ring_bytes });
        self.socket.send(&ask, None).map_err(TapError::system("ask the process"))?;
        let until = Instant::now() + PATIENCE;
        let (mut left, mut is_taken) = (0, false);
        while !is_taken || left > 0 {
            let Some(taken) = answer(&self.socket, until) else { break };
            match taken {
                Taken::Message(Reply::Attached { points }, _) => (left, is_taken) = (points, true),
                Taken::Message(Reply::Refused(why), _) => return Err(TapError::Refused(why)),
                Taken::Over => return Err(TapError::Ended { pid: self.pid }),
                taken => {
                    if let Taken::Message(Reply::Ring { .. } | Reply::Ended { .. }, _) = &taken {
                        left = left.saturating_sub(1);
                    }
                    self.note(taken)?;
                }
            }
        }
        if is_taken { Ok(()) } else { Err(TapError::Silent { pid: self.pid }) }
    }

    /// The points that are attached. More may come.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Names in the filter that a point does not know, in words.
    pub fn unbound(&self) -> impl Iterator<Item = &str> {
        self.unbound.iter().map(|(_, text)| text.as_str())
    }

    /// What happened since the last call, in words: points that came or ended.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The next packet, or names, if any wait. Never waits. Of several points that which is oldest comes first.
    ///
    /// # Errors
    /// [`TapError::System`] if the process wrote what no correct one writes, or is of another build.
    pub fn read(&mut self) -> Result<Option<Shown<'_>>, TapError> {
        self.listen()?;
        for ring in &mut self.rings {
            ring.fetch()?;
        }
        let time = |ring: &Ring| ring.waiting.as_ref()?.head.map(|head| head.time_ns);
        let oldest = self.rings.iter_mut().filter(|ring| ring.waiting.is_some()).min_by_key(|ring| time(ring));
        let Some(record) = oldest.and_then(|ring| ring.waiting.take()) else {
            self.drop_ended();
            return Ok(None);
        };
        self.shown = record;
        let Record { head: Some(head), bytes, missed } = &self.shown else { return Ok(None) };
        Ok(Some(shown(head, bytes, *missed)))
    }

    /// Sleeps until the process says something, or for `most`. Packets wake nobody, because the process makes no system call
    /// for them.
    pub fn rest(&self, most: Duration) {
        let limit =
            Timespec { tv_sec: i64::try_from(most.as_secs()).unwrap_or(1), tv_nsec: i64::from(most.subsec_nanos()) };
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&limit));
    }

    /// Whether the process ended or detached this reader, and all that it showed was read.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over && self.rings.iter().all(|ring| ring.waiting.is_none())
    }

    /// The numbers so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.rings.iter().fold(self.earlier, |sum, ring| sum.and(ring.stats()))
    }

    fn listen(&mut self) -> Result<(), TapError> {
        while !self.is_over {
            match self.socket.take() {
                Taken::Nothing => break,
                taken => self.note(taken)?,
            }
        }
        Ok(())
    }

    fn note(&mut self, taken: Taken<Reply>) -> Result<(), TapError> {
        match taken {
            Taken::Nothing => {}
            Taken::Over => self.is_over = true,
            Taken::Unknown(what) => return Err(TapError::Unknown { pid: self.pid, what }),
            Taken::Message(Reply::Ring { point, unbound }, file) => {
                self.unbound.retain(|(number, _)| *number != point.number);
                self.unbound.extend(unbound.into_iter().map(|text| (point.number, text)));
                if let Some(file) = file {
                    let ring = RingReader::open(file).map_err(TapError::system("map the memory of the process"))?;
                    self.rings.push(Ring { point: point.number, ring, waiting: None, told: 0, is_over: false });
                    self.points.push(point);
                }
            }
            Taken::Message(Reply::Ended { number, why }, _) => {
                if let Some(at) = self.points.iter().position(|point| point.number == number) {
                    let point = self.points.remove(at);
                    self.notices.push(format!("{} of process {}: {why}", point.name, self.pid));
                } else {
                    self.notices.push(format!("process {}: {why}", self.pid));
                }
                self.rings.iter_mut().filter(|ring| ring.point == number).for_each(|ring| ring.is_over = true);
            }
            // Answers to what was asked are taken where it is asked.
            Taken::Message(Reply::Points(_) | Reply::Attached { .. }, _) => {}
            Taken::Message(Reply::Refused(why), _) => return Err(TapError::Refused(why)),
        }
        Ok(())
    }

    /// Forgets the rings of points that ended, when all of them was read.
    fn drop_ended(&mut self) {
        let earlier = &mut self.earlier;
        self.rings.retain(|ring| {
            if ring.is_over {
                *earlier = earlier.and(ring.stats());
            }
            !ring.is_over
        });
    }
}

impl AsFd for Reader {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Ring {
    fn fetch(&mut self) -> Result<(), TapError> {
        if self.waiting.is_some() {
            return Ok(());
        }
        let lost = {
            let Some(record) = self.ring.read().map_err(TapError::system("read what the process shows"))? else {
                return Ok(());
            };
            self.waiting = Some(Record { head: Some(record.head), bytes: record.bytes.to_vec(), missed: 0 });
            self.ring.lost()
        };
        if let Some(waiting) = &mut self.waiting {
            waiting.missed = lost - self.told;
        }
        // Told with a packet, not with names.
        if self.waiting.as_ref().and_then(|record| record.head).is_some_and(|head| head.kind != RecordKind::Names) {
            self.told = lost;
        }
        Ok(())
    }

    fn stats(&self) -> Stats {
        let (seen, matched) = self.ring.published();
        Stats { seen, matched, lost: self.ring.lost() }
    }
}

impl Stats {
    fn and(self, other: Self) -> Self {
        Self {
            seen: self.seen.saturating_add(other.seen),
            matched: self.matched.saturating_add(other.matched),
            lost: self.lost.saturating_add(other.lost),
        }
    }
}

fn shown<'a>(head: &RecordHeader, bytes: &'a [u8], missed: u64) -> Shown<'a> {
    let form = match head.kind {
        // Whatever it is that another build wrote: lines that nobody knows are ignored.
        RecordKind::Names => return Shown::Names(std::str::from_utf8(bytes).unwrap_or_default()),
        RecordKind::Sealed => Form::Sealed,
        RecordKind::Clear => Form::Clear,
    };
    let flags = u32::from(head.flags);
    let has = |flag: Flags| flags & flag.bits() != 0;
    let (header, frames) = bytes.split_at(bytes.len().min(phalanx_core::wire::Header::LEN));
    let seen = Seen::new(Duration::from_nanos(head.time_ns), head.local, head.peer, [header, frames, &[]]);
    let class = if has(Flags::new().control()) { TrafficClass::Control } else { TrafficClass::Data };
    let seen = Seen {
        is_sent: has(Flags::new().sent()),
        class,
        is_memory: has(Flags::new().through_memory()),
        to: head.to,
        packet_bytes: usize::try_from(head.len).unwrap_or(usize::MAX),
        snap: head.snap,
        missed,
        ..seen
    };
    Shown::Packet(seen, form)
}

/// How long a process has to answer. It looks at its socket 20 times a second.
const PATIENCE: Duration = Duration::from_secs(1);
