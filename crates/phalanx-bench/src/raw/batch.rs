//! Many datagrams in one system call, segmented ones, and the settings of sockets that the standard library lacks.

use std::io;
use std::mem::zeroed;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::ptr;

/// Datagrams in one call.
pub(crate) const BATCH: usize = 64;

/// Room for a batch, used again and again.
pub(crate) struct Batch {
    bytes: Vec<u8>,
    size: usize,
}

impl Batch {
    pub(crate) fn new(size: usize) -> Self {
        Self { bytes: vec![0; size.max(1) * BATCH], size: size.max(1) }
    }

    /// Sends as many datagrams of the length as the kernel takes at once to the socket's peer.
    pub(crate) fn send(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.call(|headers| {
            // SAFETY: each header points to one slice of `self.bytes` that outlives the call; none has a name.
            unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), BATCH as libc::c_uint, 0) }
        })
    }

    /// Waits for a datagram and takes what else is there.
    pub(crate) fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.call(|headers| {
            let (flags, limit) = (libc::MSG_WAITFORONE, ptr::null_mut());
            let headers = headers.as_mut_ptr();
            // SAFETY: each header points to its own slice of `self.bytes`, borrowed mutably until the call is over.
            unsafe { libc::recvmmsg(socket.as_raw_fd(), headers, BATCH as libc::c_uint, flags as _, limit) }
        })
    }

    fn call(&mut self, call: impl FnOnce(&mut [libc::mmsghdr; BATCH]) -> libc::c_int) -> io::Result<usize> {
        // SAFETY: the all-zero pattern is a valid `iovec` (a null pointer and no length).
        let mut slices: [libc::iovec; BATCH] = unsafe { zeroed() };
        // SAFETY: the all-zero pattern is a valid `mmsghdr` (null pointers and no lengths).
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        let rooms = self.bytes.chunks_exact_mut(self.size);
        for ((header, slice), room) in headers.iter_mut().zip(&mut slices).zip(rooms) {
            slice.iov_base = room.as_mut_ptr().cast();
            slice.iov_len = room.len();
            header.msg_hdr.msg_iov = slice;
            header.msg_hdr.msg_iovlen = 1;
        }
        usize::try_from(call(&mut headers)).map_err(|_| io::Error::last_os_error())
    }
}

/// Asks for large buffers: beyond the system's limit if this process may, else up to it.
pub(crate) fn enlarge(socket: &UdpSocket) {
    for name in [libc::SO_RCVBUF, libc::SO_RCVBUFFORCE, libc::SO_SNDBUF, libc::SO_SNDBUFFORCE] {
        // Refusal is no error.
        let _ = set(socket, libc::SOL_SOCKET, name, BUFFER_BYTES);
    }
}

/// What is sent to it in one call leaves in datagrams of `size` bytes.
pub(crate) fn segment(socket: &UdpSocket, size: usize) -> io::Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, libc::c_int::try_from(size).unwrap_or(libc::c_int::MAX))
}

/// Datagrams of one sender may be received as one.
pub(crate) fn merge(socket: &UdpSocket) -> io::Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_GRO, 1)
}

fn set(socket: &UdpSocket, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the pointer and length describe `value`, which outlives the call.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, ptr::from_ref(&value).cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What the library asks for as well.
const BUFFER_BYTES: libc::c_int = 4 << 20;
