//! A name in the kernel for each living process, which no program that empties directories can remove.
//!
//! A process binds an abstract socket to which nothing is ever written. The socket ends with its process, and all
//! processes in the same network namespace see its name in `/proc/net/unix`. So a process that starts after the runtime
//! directory was emptied learns that others live, and waits until they have restored their files.
//!
//! The name holds everything that others need, as numbers. A directory is identified by its path, the user and the
//! mount namespace. Processes in different mount namespaces that share a directory do not see each other's names.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use rustix::process::geteuid;

use super::advert::{Advert, Found};
use super::host::{self, fnv1a};

/// The directories of a cell on this host, as hashed in names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) scope: u64,
    pub(super) state: u64,
}

impl Place {
    pub(super) fn of(scope: &Path, state: &Path) -> Self {
        let (user, mounts) = (geteuid().as_raw().to_le_bytes(), host::namespace("mnt").to_le_bytes());
        let number = |path: &Path| {
            let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
            fnv1a(&[&user, &mounts, path.as_os_str().as_bytes()])
        };
        Self { scope: number(scope), state: number(state) }
    }
}

/// The content of a process's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sign {
    scope: u64,
    state: u64,
    /// Hash of its name in the cell, if it holds that name's lock; else 0.
    founder: u64,
    advert: u32,
    pid_namespace: u64,
    /// The process id, in its own namespace.
    pub pid: u32,
    start_ticks: u64,
    /// Whether it uses the key in the state directory, and restores that file if it is missing.
    keyed: bool,
}

impl Sign {
    pub(super) fn new(place: Place, advert: &Advert, role: Role<'_>) -> Self {
        Self {
            scope: place.scope,
            state: place.state,
            founder: role.founder.map_or(0, founder_number),
            advert: advert_digest(&advert.to_text()),
            pid_namespace: advert.pid_namespace,
            pid: advert.pid,
            start_ticks: advert.start_ticks,
            keyed: role.keyed,
        }
    }

    fn to_name(&self) -> String {
        let Self { scope, state, founder, advert, pid_namespace, pid, start_ticks, keyed } = self;
        let keyed = u8::from(*keyed);
        // 102 bytes at most, of the 107 that an abstract name may have.
        format!(
            "{PREFIX}{scope:016x}-{state:016x}-{founder:016x}-{advert:08x}-{pid_namespace:x}-{pid}-{start_ticks:x}-{keyed}"
        )
    }

    fn from_name(name: &str) -> Option<Self> {
        let parts: Vec<&str> = name.strip_prefix(PREFIX)?.split('-').collect();
        let [scope, state, founder, advert, pid_namespace, pid, start_ticks, keyed] = parts[..] else { return None };
        let hex = |text| u64::from_str_radix(text, 16).ok();
        Some(Self {
            scope: hex(scope)?,
            state: hex(state)?,
            founder: hex(founder)?,
            advert: u32::from_str_radix(advert, 16).ok()?,
            pid_namespace: hex(pid_namespace)?,
            pid: pid.parse().ok()?,
            start_ticks: hex(start_ticks)?,
            keyed: keyed == "1",
        })
    }

    /// Whether the name proves a living process of this user. It does not if its process has ended and only a forked
    /// child holds the socket, or if another user made the name.
    fn counts(&self) -> bool {
        let owner = fs::metadata(format!("/proc/{}", self.pid)).map(|process| process.uid());
        let here = self.pid_namespace == host::namespace("pid");
        // `/proc` shows a process of this user that may not be inspected as user 0's.
        let foreign = owner.is_ok_and(|owner| owner != 0 && owner != geteuid().as_raw());
        // The names of this network namespace are of this boot. A name has no room for the time namespace, so an id that
        // was given again proves nothing here.
        let ended = Found::by(self.pid, self.pid_namespace, self.start_ticks, 0).is_gone();
        !(ended || here && foreign)
    }

    /// Whether it uses that runtime directory and has an advert that is none of these.
    pub(super) fn is_lost(&self, place: Place, mut adverts: impl Iterator<Item = u32>) -> bool {
        self.scope == place.scope && adverts.all(|advert| advert != self.advert)
    }

    /// Whether it has the number of that state directory and, if `key` is set, its key.
    pub(super) fn knows(&self, place: Place, key: bool) -> bool {
        self.state == place.state && (self.keyed || !key)
    }

    /// Whether it is the founder of that name with that state directory.
    pub(super) fn is_founder(&self, place: Place, name: &str) -> bool {
        self.state == place.state && self.founder == founder_number(name)
    }
}

/// A process's part on its host, beside its advert.
#[derive(Clone, Copy, Debug, Default)]
pub struct Role<'a> {
    /// Its name in the cell, if it holds that name's lock.
    pub founder: Option<&'a str>,
    /// Whether it uses the key in the state directory.
    pub keyed: bool,
}

/// The name of this process, for as long as this value lives.
#[derive(Debug)]
pub(super) struct Beacon {
    _socket: UnixDatagram,
}

impl Beacon {
    /// Binds the name. `None`: the system refuses it; then only the files prove that this process lives.
    pub(super) fn light(sign: &Sign) -> Option<Self> {
        let address = SocketAddr::from_abstract_name(sign.to_name()).ok()?;
        Some(Self { _socket: UnixDatagram::bind_addr(&address).ok()? })
    }
}

/// The names of living processes that `wanted` accepts.
pub(super) fn sighted(wanted: impl Fn(&Sign) -> bool) -> Vec<Sign> {
    let table = fs::read("/proc/self/net/unix").unwrap_or_default();
    let table = String::from_utf8_lossy(&table);
    // The kernel shows an abstract name with a leading `@`.
    let names = table.lines().filter_map(|line| line.rsplit(' ').next()?.strip_prefix('@'));
    names.filter_map(Sign::from_name).filter(|sign| wanted(sign) && sign.counts()).collect()
}

/// A digest that distinguishes the texts of liveness lock files.
pub(super) fn advert_digest(text: &str) -> u32 {
    // The lower half, because an abstract name has no room for more.
    let [a, b, c, d, ..] = fnv1a(&[text.as_bytes()]).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

fn founder_number(name: &str) -> u64 {
    fnv1a(&[name.as_bytes()]).max(1)
}

const PREFIX: &str = "phalanx-";
