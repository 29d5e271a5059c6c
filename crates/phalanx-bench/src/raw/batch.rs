//! Batches of datagrams in one system call, segmented datagrams, and socket options that the standard library lacks.

use std::io;
use std::mem::zeroed;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::ptr;

/// Datagrams in one call.
pub(crate) const BATCH: usize = 64;

/// Reusable buffers for a batch.
pub(crate) struct Batch {
    bytes: Vec<u8>,
    size: usize,
}

impl Batch {
    pub(crate) fn new(size: usize) -> Self {
        Self { bytes: vec![0; size.max(1) * BATCH], size: size.max(1) }
    }

    /// Sends a batch of datagrams to the socket's peer in one system call. Returns how many the kernel took.
    pub(crate) fn send(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.call(|headers| {
            // SAFETY: `headers` is an array of `BATCH` headers, exclusively borrowed for the call. `call` below
            // initialised each: it points to one `iovec`, which points to its own chunk of `self.bytes`, valid for
            // `iov_len` bytes. All of them outlive the call. Name and control pointers are null with length zero.
            unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), BATCH as libc::c_uint, 0) }
        })
    }

    /// Waits for one datagram, and takes those that already wait behind it.
    pub(crate) fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.call(|headers| {
            let (flags, limit) = (libc::MSG_WAITFORONE, ptr::null_mut());
            let headers = headers.as_mut_ptr();
            // SAFETY: `headers` is an array of `BATCH` headers, exclusively borrowed for the call. `call` below
            // initialised each: its `iovec` points to its own chunk of `self.bytes`, valid for writes of `iov_len`
            // bytes, and chunks do not overlap. `self` stays mutably borrowed during the call. A null timeout is
            // allowed.
            unsafe { libc::recvmmsg(socket.as_raw_fd(), headers, BATCH as libc::c_uint, flags as _, limit) }
        })
    }

    fn call(&mut self, call: impl FnOnce(&mut [libc::mmsghdr; BATCH]) -> libc::c_int) -> io::Result<usize> {
        // SAFETY: `iovec` is a C struct of a pointer and a `usize`; null and 0 are valid values of these.
        let mut slices: [libc::iovec; BATCH] = unsafe { zeroed() };
        // SAFETY: `mmsghdr` is a C struct of pointers and integers; null and 0 are valid values of these.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        let rooms = self.bytes.chunks_exact_mut(self.size);
        for ((header, slice), room) in headers.iter_mut().zip(&mut slices).zip(rooms) {
            slice.iov_base = room.as_mut_ptr().cast();
            slice.iov_len = room.len();
            header.msg_hdr.msg_iov = slice;
            header.msg_hdr.msg_iovlen = 1;
        }
        usize::try_from(call(&mut headers)).map_err(|_negative| io::Error::last_os_error())
    }
}

/// Requests large socket buffers: beyond the system's limit if this process may, else up to it.
pub(crate) fn enlarge(socket: &UdpSocket) {
    for name in [libc::SO_RCVBUF, libc::SO_RCVBUFFORCE, libc::SO_SNDBUF, libc::SO_SNDBUFFORCE] {
        // `SO_RCVBUFFORCE` and `SO_SNDBUFFORCE` need `CAP_NET_ADMIN`; without it the other two still apply.
        let _ = set(socket, libc::SOL_SOCKET, name, BUFFER_BYTES);
    }
}

/// Has the kernel split each send on the socket into datagrams of `size` bytes (`UDP_SEGMENT`).
pub(crate) fn segment(socket: &UdpSocket, size: usize) -> io::Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, libc::c_int::try_from(size).unwrap_or(libc::c_int::MAX))
}

/// Lets the kernel merge datagrams of one sender into one receive (`UDP_GRO`).
pub(crate) fn merge(socket: &UdpSocket) -> io::Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_GRO, 1)
}

fn set(socket: &UdpSocket, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the pointer is valid for reads of `len` bytes: it refers to `value`, whose size `len` is, and which lives
    // until the function returns. The kernel copies the value and keeps no pointer.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, ptr::from_ref(&value).cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Buffer size that the library requests as well.
const BUFFER_BYTES: libc::c_int = 4 << 20;
