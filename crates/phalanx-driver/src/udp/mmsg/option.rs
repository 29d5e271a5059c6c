//! Socket options that no wrapper library offers.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// The use of a socket's receive buffer, as the kernel accounts it.
#[derive(Clone, Copy, Debug)]
pub(in crate::udp) struct Memory {
    /// Memory in use, in bytes.
    pub(in crate::udp) held_bytes: u32,
    /// The limit, in bytes.
    pub(in crate::udp) capacity_bytes: u32,
    /// The socket's running count of datagrams dropped on receive.
    pub(in crate::udp) drops: u32,
}

/// Makes the kernel report losses: on receive by a running count (`SO_RXQ_OVFL`), on send by an error and a later
/// report (`IP_RECVERR`).
pub(in crate::udp) fn report_losses(socket: BorrowedFd<'_>, ipv6: bool) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)?;
    if ipv6 {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)
    } else {
        set(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1)
    }
}

/// Makes the kernel fragment a packet that is longer than the known path MTU. Shorter ones carry "don't fragment", so
/// that routers report a smaller MTU. This is the kernel's default, but an administrator may have chosen another for
/// sockets that do not set it.
pub(in crate::udp) fn fragment_what_is_too_long(socket: BorrowedFd<'_>, ipv6: bool) -> io::Result<()> {
    if ipv6 {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_WANT)
    } else {
        set(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_WANT)
    }
}

/// Whether the kernel can segment a long send into datagrams (`UDP_SEGMENT`).
pub(in crate::udp) fn can_segment(socket: BorrowedFd<'_>) -> bool {
    let mut segment: libc::c_int = 0;
    let mut len_bytes = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value pointer is to `segment`, a live local, and `len_bytes` holds its size, so the call writes
    // inside it. Both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            ptr::from_mut(&mut segment).cast(),
            &raw mut len_bytes,
        )
    };
    result == 0
}

/// Lets the kernel coalesce datagrams of one length into one buffer (`UDP_GRO`). False: it cannot.
pub(in crate::udp) fn coalesce(socket: BorrowedFd<'_>) -> bool {
    set(socket, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok()
}

/// Tries to set buffers beyond the system's limit, which `CAP_NET_ADMIN` permits. A refusal is ignored: the granted
/// sizes are read back later.
pub(in crate::udp) fn force_buffers(socket: BorrowedFd<'_>, receive_bytes: usize, send_bytes: usize) {
    let clamp = |bytes: usize| libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, clamp(receive_bytes));
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, clamp(send_bytes));
}

/// Reads the receive buffer's use and the count of drops.
pub(in crate::udp) fn memory(socket: BorrowedFd<'_>) -> io::Result<Memory> {
    let mut words = [0_u32; MEMORY_WORDS];
    let mut len_bytes = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the value pointer is to `words`, a live local, and `len_bytes` holds its size, so the call writes inside
    // it. Both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            ptr::from_mut(&mut words).cast(),
            &raw mut len_bytes,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if (len_bytes as usize) < size_of_val(&words) {
        return Err(io::ErrorKind::Unsupported.into()); // kernels before 4.12 do not report the drops
    }
    Ok(Memory { held_bytes: words[0], capacity_bytes: words[1], drops: words[MEMORY_WORDS - 1] })
}

pub(in crate::udp) fn set(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of `value`, which outlives the call. The kernel only reads it.
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

/// Words of `SO_MEMINFO` up to the drops: receive memory and its limit, send memory and its limit, and five more.
const MEMORY_WORDS: usize = 9;
