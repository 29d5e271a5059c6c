//! The system calls that carry many datagrams: `recvmmsg`, `sendmmsg`, and the socket options around them.
//!
//! Invariants the unsafe code rests on: every pointer handed to the kernel is made, for one call, from a buffer
//! that outlives the call and is borrowed by it; lengths are those of the buffers; what the kernel wrote is read
//! only up to the lengths it reported, cut to the buffers' own.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Most datagrams in one receiving call.
pub(super) const BATCH: usize = 32;

/// Most datagrams in one sending call.
const SEND_BATCH: usize = 64;

/// An IP socket address in the kernel's form.
#[derive(Clone, Copy)]
#[repr(C)]
union Name {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Name {
    fn encode(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(a) => Self {
                v4: libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: a.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(a.ip().octets()) },
                    sin_zero: [0; 8],
                },
            },
            SocketAddr::V6(a) => Self {
                v6: libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: a.port().to_be(),
                    sin6_flowinfo: a.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: a.ip().octets() },
                    sin6_scope_id: a.scope_id(),
                },
            },
        }
    }

    /// `self` must be fully initialised, which every `Name` here is: zeroed first, or encoded.
    fn decode(&self, len_bytes: libc::socklen_t) -> Option<SocketAddr> {
        // SAFETY: all bytes are initialised (zeroed before the kernel wrote), and any bits are a valid family.
        let family = libc::c_int::from(unsafe { self.family });
        let len_bytes = len_bytes as usize;
        if family == libc::AF_INET && len_bytes >= size_of::<libc::sockaddr_in>() {
            // SAFETY: all bytes are initialised, and any bits are a valid `sockaddr_in`.
            let a = unsafe { self.v4 };
            let ip = Ipv4Addr::from(a.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(a.sin_port)).into())
        } else if family == libc::AF_INET6 && len_bytes >= size_of::<libc::sockaddr_in6>() {
            // SAFETY: all bytes are initialised, and any bits are a valid `sockaddr_in6`.
            let a = unsafe { self.v6 };
            let ip = Ipv6Addr::from(a.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(a.sin6_port), a.sin6_flowinfo, a.sin6_scope_id).into())
        } else {
            None
        }
    }
}

/// A queued packet: where it goes and where its bytes lie in the queue's buffer.
#[derive(Clone, Copy)]
pub(super) struct Outgoing {
    name: Name,
    name_bytes: libc::socklen_t,
    start: usize,
    len_bytes: usize,
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes to {:?}", self.len_bytes, self.name.decode(self.name_bytes))
    }
}

impl Outgoing {
    pub(super) fn new(to: SocketAddr, start: usize, len_bytes: usize) -> Self {
        let name_bytes = match to {
            SocketAddr::V4(_) => size_of::<libc::sockaddr_in>(),
            SocketAddr::V6(_) => size_of::<libc::sockaddr_in6>(),
        };
        Self { name: Name::encode(to), name_bytes: name_bytes as libc::socklen_t, start, len_bytes }
    }

    pub(super) fn start(&self) -> usize {
        self.start
    }

    pub(super) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// The buffer lost its first `by` bytes.
    pub(super) fn shift(&mut self, by: usize) {
        self.start -= by;
    }
}

/// Hands as many of `packets`, whose bytes lie in `bytes`, to the kernel as it takes in one call; at least one, or
/// an error about the first.
pub(super) fn send(socket: BorrowedFd<'_>, packets: &[Outgoing], bytes: &[u8]) -> io::Result<usize> {
    let count = packets.len().min(SEND_BATCH);
    // SAFETY: the all-zero pattern is a valid `iovec` (a null pointer and no length).
    let mut slices: [libc::iovec; SEND_BATCH] = unsafe { zeroed() };
    // SAFETY: the all-zero pattern is a valid `mmsghdr` (null pointers and no lengths).
    let mut headers: [libc::mmsghdr; SEND_BATCH] = unsafe { zeroed() };
    for ((header, slice), packet) in headers.iter_mut().zip(&mut slices).zip(&packets[..count]) {
        let payload = &bytes[packet.start..packet.start + packet.len_bytes];
        slice.iov_base = payload.as_ptr().cast_mut().cast();
        slice.iov_len = payload.len();
        header.msg_hdr.msg_iov = slice;
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_name = ptr::from_ref(&packet.name).cast_mut().cast();
        header.msg_hdr.msg_namelen = packet.name_bytes;
    }
    // SAFETY: `count` headers are set up; each points to one slice in `slices` and a name in `packets`, and each
    // slice into `bytes`. All outlive the call, and a send does not write through them.
    let sent =
        unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count as libc::c_uint, libc::MSG_NOSIGNAL) };
    match usize::try_from(sent) {
        Ok(sent) => Ok(sent.min(count)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Room for one batch of datagrams, used again and again.
#[derive(Debug)]
pub(super) struct ReceiveBuffers {
    bytes: Vec<u8>,
    packet_bytes: usize,
    arrived: Vec<Arrived>,
}

/// What the kernel said about one datagram of the last batch.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    from: Option<SocketAddr>,
    len_bytes: usize,
    truncated: bool,
    overflow: Option<u32>,
}

/// One datagram, in place.
pub(super) struct Datagram<'a> {
    pub(super) from: Option<SocketAddr>,
    pub(super) bytes: &'a mut [u8],
    /// It was longer than the buffer.
    pub(super) truncated: bool,
    /// The socket's running count of datagrams dropped for want of room, when the kernel says it.
    pub(super) overflow: Option<u32>,
}

impl ReceiveBuffers {
    pub(super) fn new(packet_bytes: usize) -> Self {
        Self {
            // Zeroed pages come from the system untouched: only what traffic fills becomes resident.
            bytes: vec![0; packet_bytes.max(1) * BATCH],
            packet_bytes: packet_bytes.max(1),
            arrived: Vec::with_capacity(BATCH),
        }
    }

    /// Takes up to `max` waiting datagrams. `WouldBlock` when none waits.
    pub(super) fn fill<'a>(
        &'a mut self,
        socket: BorrowedFd<'_>,
        max: usize,
    ) -> io::Result<impl ExactSizeIterator<Item = Datagram<'a>> + use<'a>> {
        let count = max.min(BATCH);
        // SAFETY: the all-zero pattern is a valid `iovec`.
        let mut slices: [libc::iovec; BATCH] = unsafe { zeroed() };
        // SAFETY: the all-zero pattern is a valid `mmsghdr`.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        // SAFETY: the all-zero pattern is a valid `Name`: integers only.
        let mut names: [Name; BATCH] = unsafe { zeroed() };
        let mut notes = [[0_u64; NOTE_WORDS]; BATCH];
        let room = self.bytes.chunks_exact_mut(self.packet_bytes);
        let parts = headers.iter_mut().zip(&mut slices).zip(&mut names).zip(&mut notes).zip(room);
        for ((((header, slice), name), note), room) in parts.take(count) {
            slice.iov_base = room.as_mut_ptr().cast();
            slice.iov_len = room.len();
            header.msg_hdr.msg_iov = slice;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = ptr::from_mut(name).cast();
            header.msg_hdr.msg_namelen = size_of::<Name>() as libc::socklen_t;
            header.msg_hdr.msg_control = note.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of_val(note) as _;
        }
        // SAFETY: `count` headers are set up; each points to its own slice, name and note on this stack, and each
        // slice to its own part of `self.bytes`; all outlive the call and nothing else borrows them.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?.min(count);
        self.arrived.clear();
        for (header, name) in headers[..received].iter().zip(&names) {
            self.arrived.push(Arrived {
                from: name.decode(header.msg_hdr.msg_namelen),
                len_bytes: (header.msg_len as usize).min(self.packet_bytes),
                truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                overflow: overflow(&header.msg_hdr),
            });
        }
        let packets = self.bytes.chunks_exact_mut(self.packet_bytes);
        Ok(self.arrived.iter().zip(packets).map(|(arrived, room)| Datagram {
            from: arrived.from,
            bytes: &mut room[..arrived.len_bytes],
            truncated: arrived.truncated,
            overflow: arrived.overflow,
        }))
    }
}

/// Reads the drop count from a header's control messages. The header must have come back from `recvmmsg`.
fn overflow(header: &libc::msghdr) -> Option<u32> {
    // SAFETY: the control buffer and its length are as the kernel left them, inside `notes` of the caller.
    let mut note = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !note.is_null() {
        // SAFETY: a non-null result points to a whole header inside the control buffer, aligned as its `u64`s.
        let head = unsafe { *note };
        if head.cmsg_level == libc::SOL_SOCKET && head.cmsg_type == libc::SO_RXQ_OVFL {
            // SAFETY: the kernel writes this message with four bytes of data behind its header.
            let data = unsafe { libc::CMSG_DATA(note) }.cast::<u32>();
            // SAFETY: as above; the read needs no alignment.
            return Some(unsafe { data.read_unaligned() });
        }
        // SAFETY: `note` is inside the control buffer of `header`.
        note = unsafe { libc::CMSG_NXTHDR(header, note) };
    }
    None
}

/// Reads and drops the error reports the kernel keeps for the socket. Returns how many there were.
pub(super) fn drain_errors(socket: BorrowedFd<'_>) -> u64 {
    let mut drained = 0;
    while drained < REPORTS_MAX {
        // SAFETY: the all-zero pattern is a valid `msghdr`; without buffers the kernel only drops the report.
        let mut header: libc::msghdr = unsafe { zeroed() };
        // SAFETY: the header has no buffers and outlives the call.
        let result =
            unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
        if result < 0 {
            break;
        }
        drained += 1;
    }
    drained
}

/// Asks the kernel to say what it drops: on receive by a running count, on send by an error.
pub(super) fn report_losses(socket: BorrowedFd<'_>, ipv6: bool) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)?;
    if ipv6 {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)
    } else {
        set(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1)
    }
}

/// Tries for buffers beyond the system's limit, which a privileged process may have. Refusal is no error.
pub(super) fn force_buffers(socket: BorrowedFd<'_>, receive_bytes: usize, send_bytes: usize) {
    let clamp = |bytes: usize| libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, clamp(receive_bytes));
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, clamp(send_bytes));
}

fn set(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            ptr::from_ref(&value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Words of control buffer per datagram: room for the drop count and one more message.
const NOTE_WORDS: usize = 8;

/// Error reports dropped in one go.
const REPORTS_MAX: u64 = 64;

#[cfg(test)]
mod tests;
