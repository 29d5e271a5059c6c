//! The kernel's reports of what became of packets sent earlier.

use std::mem::zeroed;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::name::Name;
use super::notes;

/// Why a packet did not arrive, as a host or router on the way said, or this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::udp) enum Cause {
    /// Nobody has that port.
    Refused,
    /// No way to that host or network.
    Unreachable,
    /// Longer than the path takes, which is this many bytes with all headers of IP and UDP; 0 if unsaid.
    TooLong {
        path_bytes: u32,
    },
    Other,
}

/// Reads the reports that wait, at most [`REPORTS_MAX`], and calls `each` with the destination of the packet.
pub(in crate::udp) fn read_reports(socket: BorrowedFd<'_>, mut each: impl FnMut(Option<SocketAddr>, Cause)) {
    for _ in 0..REPORTS_MAX {
        let mut name = Name::unwritten();
        let mut note = [0_u64; NOTE_WORDS];
        // SAFETY: the all-zero pattern is a valid `msghdr`.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_namelen = name.len_bytes();
        header.msg_name = name.as_mut_ptr();
        header.msg_control = ptr::from_mut(&mut note).cast();
        header.msg_controllen = size_of_val(&note) as _;
        // SAFETY: the header points to a name and a note on this stack and has no other buffers; the packet's own
        // bytes, of which the kernel gives a part, are cut away.
        let result =
            unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
        if result < 0 {
            return;
        }
        let mut cause = Cause::Other;
        notes::each(&header, |level, kind, data| {
            if matches!((level, kind), (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)) {
                cause = read_cause(data);
            }
        });
        each(name.decode(header.msg_namelen), cause);
    }
}

/// Reads a `sock_extended_err`: the error, four bytes on its origin, and the path's length.
pub(super) fn read_cause(data: &[u8]) -> Cause {
    let word = |at: usize| data.get(at..).and_then(|d| d.first_chunk()).map_or(0, |b| u32::from_ne_bytes(*b));
    match libc::c_int::try_from(word(0)) {
        Ok(libc::ECONNREFUSED) => Cause::Refused,
        Ok(libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN | libc::ENETDOWN) => Cause::Unreachable,
        Ok(libc::EMSGSIZE) => Cause::TooLong { path_bytes: word(8) },
        _ => Cause::Other,
    }
}

/// Room for a report with the address of who made it, over IPv6, and as much again.
const NOTE_WORDS: usize = 16;

/// Reports read in one go.
const REPORTS_MAX: usize = 64;
