//! A socket of messages between processes of one host, with descriptors beside them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    recvmsg, sendmsg, socket_with,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::message::MESSAGE_BYTES_MAX;

/// One end of a connection, or a socket that listens. Never waits.
#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

/// What was received.
#[derive(Debug)]
pub(super) enum Taken<M> {
    /// A message, and the descriptor that came with it.
    Message(M, Option<OwnedFd>),
    /// Not a message that this build knows.
    Unknown(String),
    /// Nothing waits.
    Nothing,
    /// The other end is closed.
    Over,
}

/// The other end's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) pid: u32,
    pub(super) user: u32,
}

impl Socket {
    /// Listens at a path that nothing else has.
    pub(super) fn listen(path: &Path) -> io::Result<Self> {
        let socket = Self::new()?;
        // It has its name only when it listens: until then it looks like that of a dead process.
        let unnamed = path.with_extension("new");
        let _ = std::fs::remove_file(&unnamed);
        at(&unnamed, |address| bind(&socket.0, address))?;
        rustix::fs::chmod(&unnamed, Mode::RUSR | Mode::WUSR)?;
        listen(&socket.0, BACKLOG)?;
        std::fs::rename(&unnamed, path)?;
        Ok(socket)
    }

    /// Connects to a socket that listens at that path.
    pub(super) fn connect(path: &Path) -> io::Result<Self> {
        let socket = Self::new()?;
        at(path, |address| connect(&socket.0, address))?;
        Ok(socket)
    }

    fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(Self(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?))
    }

    /// The next connection; `None` if none waits.
    pub(super) fn accept(&self) -> Option<Self> {
        accept_with(&self.0, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok().map(Self)
    }

    pub(super) fn peer(&self) -> io::Result<Peer> {
        let peer = rustix::net::sockopt::socket_peercred(&self.0)?;
        Ok(Peer { pid: peer.pid.as_raw_nonzero().get().unsigned_abs(), user: peer.uid.as_raw() })
    }

    /// Sends a message, with a descriptor.
    ///
    /// # Errors
    /// The other end is closed, or takes no more now. Nothing was sent.
    pub(super) fn send(&self, message: &impl Serialize, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        let files = file.map(|file| [file]);
        if let Some(files) = &files {
            beside.push(SendAncillaryMessage::ScmRights(files));
        }
        sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut beside, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The next message.
    pub(super) fn take<M: DeserializeOwned>(&self) -> Taken<M> {
        let mut bytes = vec![0; MESSAGE_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let taken = loop {
            match recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut beside, RecvFlags::CMSG_CLOEXEC) {
                // The other end closed before it had read everything. What it said before that comes next.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                Err(Errno::AGAIN) => return Taken::Nothing,
                Err(_) => return Taken::Over,
                Ok(taken) => break taken,
            }
        };
        let file = beside.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        // Messages of this socket are never empty.
        if taken.bytes == 0 {
            return Taken::Over;
        }
        if taken.flags.contains(ReturnFlags::TRUNC) {
            return Taken::Unknown(format!("a message of more than {MESSAGE_BYTES_MAX} bytes"));
        }
        match serde_json::from_slice(&bytes[..taken.bytes]) {
            Ok(message) => Taken::Message(message, file),
            Err(error) => Taken::Unknown(error.to_string()),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Calls `act` with an address for `path`. The system takes addresses of at most 108 bytes, so the directory goes by its
/// descriptor.
fn at(path: &Path, act: impl FnOnce(&SocketAddrUnix) -> rustix::io::Result<()>) -> io::Result<()> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let directory = open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let near = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
    Ok(act(&SocketAddrUnix::new(&near)?)?)
}

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 16;
