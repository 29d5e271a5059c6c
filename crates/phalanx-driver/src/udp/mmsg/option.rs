//! Socket options that no library has a name for.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// What a socket's memory holds, as the kernel counts it.
#[derive(Clone, Copy, Debug)]
pub(in crate::udp) struct Memory {
    /// Charged for what waits.
    pub(in crate::udp) held_bytes: u32,
    /// What may be charged.
    pub(in crate::udp) capacity_bytes: u32,
    /// The running count of what was dropped on receive.
    pub(in crate::udp) drops: u32,
}

/// Asks the kernel to say what it drops: on receive by a running count, on send by an error, later by a report.
pub(in crate::udp) fn report_losses(socket: BorrowedFd<'_>, ipv6: bool) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)?;
    if ipv6 {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)
    } else {
        set(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1)
    }
}

/// A packet longer than the path takes, as far as known, goes out in fragments and without the mark that forbids to
/// fragment it further; a shorter one carries the mark, so that the path tells its length. It is the kernel's usual
/// way, but an administrator may have chosen another for sockets that do not ask.
pub(in crate::udp) fn fragment_what_is_too_long(socket: BorrowedFd<'_>, ipv6: bool) -> io::Result<()> {
    if ipv6 {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_WANT)
    } else {
        set(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_WANT)
    }
}

/// Whether the kernel knows how to cut what is sent into datagrams.
pub(in crate::udp) fn can_segment(socket: BorrowedFd<'_>) -> bool {
    let mut segment: libc::c_int = 0;
    let mut len_bytes = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointers and the length describe `segment`, which outlives the call.
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

/// Asks for datagrams that arrive together in one buffer. False: the kernel cannot do it.
pub(in crate::udp) fn coalesce(socket: BorrowedFd<'_>) -> bool {
    set(socket, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok()
}

/// Tries for buffers beyond the system's limit, which a privileged process may have. Refusal is no error.
pub(in crate::udp) fn force_buffers(socket: BorrowedFd<'_>, receive_bytes: usize, send_bytes: usize) {
    let clamp = |bytes: usize| libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, clamp(receive_bytes));
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, clamp(send_bytes));
}

/// What waits in the socket, and what it dropped.
pub(in crate::udp) fn memory(socket: BorrowedFd<'_>) -> io::Result<Memory> {
    let mut words = [0_u32; MEMORY_WORDS];
    let mut len_bytes = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the pointers and the length describe `words`, which outlives the call.
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
        return Err(io::ErrorKind::Unsupported.into()); // kernels before 4.12 do not tell the drops
    }
    Ok(Memory { held_bytes: words[0], capacity_bytes: words[1], drops: words[MEMORY_WORDS - 1] })
}

pub(in crate::udp) fn set(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
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

/// Words of `SO_MEMINFO` up to the drops: what is received, its bound, the same for sending, and five more.
const MEMORY_WORDS: usize = 9;
