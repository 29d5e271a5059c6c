//! The socket of a process, and the readers that asked at it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

use phalanx_core::{Incarnation, Instant};
use phalanx_driver::fork::Home;
use phalanx_driver::tap::Form;
use phalanx_tap::{Filter, NoNames};
use rustix::process::geteuid;

use super::message::{Ask, Attach, Point, Reply};
use super::socket::{Socket, Taken};

/// One socket, for all points of a process in one cell's directory.
#[derive(Debug)]
pub(super) struct Service {
    home: Home,
    path: PathBuf,
    /// Grows with each change that concerns the points.
    version: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    listener: Socket,
    points: Vec<Point>,
    connections: Vec<Connection>,
    next_number: u64,
    /// When the socket is looked at again.
    next: Instant,
    /// How often it was.
    turns: u32,
}

/// A reader, or somebody who only looks.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) number: u64,
    socket: Socket,
    pub(super) wish: Option<Wish>,
    is_over: bool,
}

/// How a reader is to be attached.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// Grows with each change.
    pub(super) version: u64,
    pub(super) filter: Filter,
    pub(super) attach: Attach,
}

/// The sockets of this process.
static SERVICES: Mutex<Vec<Weak<Service>>> = Mutex::new(Vec::new());

/// A forked child may have inherited the lock as a thread held it that is not there any more, so nobody waits for it for
/// long.
fn services() -> io::Result<MutexGuard<'static, Vec<Weak<Service>>>> {
    for _ in 0..LOCK_TRIES {
        match SERVICES.try_lock() {
            Ok(services) => return Ok(services),
            Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "another thread makes one, or did when this process was forked"))
}

impl Service {
    /// The process's socket in `directory`, made if there is none. `first`: the incarnation of its first point.
    pub(super) fn of(directory: &Path, first: Incarnation) -> io::Result<Arc<Self>> {
        let mut services = services()?;
        // A forked child makes its own: its parent answers at the one that it inherited.
        services.retain(|service| service.upgrade().is_some_and(|service| service.home.is_here()));
        let here = services.iter().filter_map(Weak::upgrade).find(|service| service.path.parent() == Some(directory));
        if let Some(service) = here {
            return Ok(service);
        }
        // What killed processes left.
        drop(connected(directory)?);
        let path = directory.join(format!("{PREFIX}{}-{:016x}", std::process::id(), first.0));
        let inner = Inner {
            listener: Socket::listen(&path)?,
            points: Vec::new(),
            connections: Vec::new(),
            next_number: 1,
            next: Instant::ZERO,
            turns: 0,
        };
        let service = Arc::new(Self { home: Home::here(), path, version: AtomicU64::new(1), inner: Mutex::new(inner) });
        services.push(Arc::downgrade(&service));
        Ok(service)
    }

    /// Adds a point, and returns its number.
    pub(super) fn enter(&self, point: Point) -> u64 {
        let mut inner = self.lock();
        let number = inner.number();
        inner.points.push(Point { number, ..point });
        drop(inner);
        self.change();
        number
    }

    /// Removes a point, and tells its readers.
    pub(super) fn leave(&self, number: u64) {
        if !self.home.is_here() {
            return;
        }
        let mut inner = self.lock();
        inner.points.retain(|point| point.number != number);
        inner.tell_all(&Reply::Ended { number, why: "it ended".to_owned() });
    }

    #[inline]
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Accepts, and handles what readers ask, if that is due. `None`: another thread does it.
    pub(super) fn serve(&self, now: Instant) -> Option<MutexGuard<'_, Inner>> {
        if !self.home.is_here() {
            return None;
        }
        let mut inner = match self.inner.try_lock() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if now >= inner.next {
            inner.next = now + SERVE_EVERY;
            inner.turns = inner.turns.wrapping_add(1);
            if inner.turns.is_multiple_of(RESTORE_TURNS) {
                inner.restore(&self.path);
            }
            if inner.serve() {
                self.change();
            }
        }
        Some(inner)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) {
        self.version.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if self.home.is_here() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Inner {
    pub(super) fn connections(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.connections.iter_mut()
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Makes the socket again if its directory was emptied.
    fn restore(&mut self, path: &Path) {
        if std::fs::exists(path).is_ok_and(|there| !there)
            && let Ok(listener) = Socket::listen(path)
        {
            self.listener = listener;
        }
    }

    /// Whether a reader came, changed its wish, or went.
    fn serve(&mut self) -> bool {
        let mut changed = false;
        while self.connections.len() < CONNECTIONS_MAX
            && let Some(socket) = self.listener.accept()
        {
            if socket.peer().is_ok_and(|peer| peer.user == geteuid().as_raw()) {
                let number = self.number();
                self.connections.push(Connection { number, socket, wish: None, is_over: false });
            }
        }
        let points = &self.points;
        let mut readers = self.connections.iter().filter(|connection| connection.wish.is_some()).count();
        for connection in &mut self.connections {
            changed |= connection.serve(points, &mut readers);
        }
        self.connections.retain(|connection| !connection.is_over);
        changed
    }

    fn tell_all(&mut self, reply: &Reply) {
        self.connections
            .iter_mut()
            .filter(|connection| connection.wish.is_some())
            .for_each(|one| one.tell(reply, None));
    }
}

impl Connection {
    /// Sends a reply. A reader that takes none is dropped.
    pub(super) fn tell(&mut self, reply: &Reply, file: Option<std::os::fd::BorrowedFd<'_>>) {
        self.is_over |= self.socket.send(reply, file).is_err();
    }

    /// `readers`: how many are attached, those included that want to be.
    fn serve(&mut self, points: &[Point], readers: &mut usize) -> bool {
        let mut changed = false;
        for _ in 0..ASKS_PER_TURN {
            match self.socket.take() {
                Taken::Nothing => break,
                Taken::Over => {
                    self.is_over = true;
                    return true;
                }
                Taken::Unknown(what) => {
                    self.tell(&Reply::Refused(format!("this build does not know that: {what}")), None);
                }
                Taken::Message(Ask::Look {}, _) => self.tell(&Reply::Points(points.to_vec()), None),
                Taken::Message(Ask::Attach(_), _) if self.wish.is_none() && *readers >= READERS_MAX => {
                    let many = format!("{READERS_MAX} readers are attached to this process already: stop one of them");
                    self.tell(&Reply::Refused(many), None);
                }
                Taken::Message(Ask::Attach(attach), _) => match self.wish(attach, points) {
                    Ok(points) => {
                        *readers += usize::from(self.is_first());
                        changed = true;
                        self.tell(&Reply::Attached { points }, None);
                    }
                    Err(why) => self.tell(&Reply::Refused(why), None),
                },
            }
        }
        // A reader that was dropped meanwhile has to be detached, too.
        changed | self.is_over
    }

    /// Whether it has the first wish that it had.
    fn is_first(&self) -> bool {
        self.wish.as_ref().is_some_and(|wish| wish.version == 1)
    }

    /// Notes how the reader wants to be attached. Returns how many points will do it.
    fn wish(&mut self, attach: Attach, points: &[Point]) -> Result<usize, String> {
        let filter = Filter::parse(&attach.filter).map_err(|error| error.to_string())?;
        for layout in attach.form.layouts() {
            filter.compile(*layout, &NoNames, attach.snap.max(1)).map_err(|error| error.to_string())?;
        }
        let count = points.iter().filter(|point| attach.form == Form::Sealed || point.is_clear).count();
        if count == 0 {
            return Err(match attach.form {
                Form::Sealed => "nothing of this process shows packets".to_owned(),
                Form::Clear => {
                    "this process shows sealed packets only. For packets in clear set tap = \"clear\" in its \
                                configuration (PHALANX_TAP=clear), and start it again"
                        .to_owned()
                }
            });
        }
        let version = self.wish.as_ref().map_or(1, |wish| wish.version + 1);
        let first = self.wish.as_ref().map(|wish| wish.attach.clone());
        let attach = match first {
            // Its ring stays as it is.
            Some(Attach { form, ring_bytes, .. }) => Attach { form, ring_bytes, ..attach },
            None => attach,
        };
        self.wish = Some(Wish { version, filter, attach });
        Ok(count)
    }
}

/// Connections to the sockets in a directory. Those of dead processes are removed.
pub(super) fn connected(directory: &Path) -> io::Result<Vec<(PathBuf, Socket)>> {
    let mut connected = Vec::new();
    for entry in std::fs::read_dir(directory)?.flatten() {
        let path = entry.path();
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) || path.extension().is_some() {
            continue;
        }
        match Socket::connect(&path) {
            Ok(socket) => connected.push((path, socket)),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = std::fs::remove_file(&path);
            }
            // It is being made, or cannot be reached from here.
            Err(_) => {}
        }
    }
    Ok(connected)
}

/// What the names of sockets begin with.
const PREFIX: &str = "tap-";

/// How often a socket is looked at.
pub(super) const SERVE_EVERY: Duration = Duration::from_millis(50);

/// Looks at the socket between two looks at its file: a second.
const RESTORE_TURNS: u32 = 20;

/// The most readers of a process.
const READERS_MAX: usize = 8;

/// The most connections of a process, those who only look included. More wait to be accepted.
const CONNECTIONS_MAX: usize = 64;

/// Attempts, a millisecond apart, to take the lock of the process's sockets.
const LOCK_TRIES: u32 = 100;

/// The most messages of one reader that are handled in a turn.
const ASKS_PER_TURN: usize = 8;
