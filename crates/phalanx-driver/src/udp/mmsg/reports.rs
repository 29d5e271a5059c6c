//! The kernel's reports on packets sent earlier.

use std::mem::zeroed;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::name::Name;
use super::notes;

/// Why a packet did not arrive, as reported by this host or another on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::udp) enum Cause {
    /// No socket has that port.
    Refused,
    /// No route to that host or network.
    Unreachable,
    /// Longer than the path's MTU, which is this many bytes with the headers of IP and UDP; 0: not reported.
    TooLong {
        path_bytes: u32,
    },
    Other,
}

/// Reads waiting reports, at most [`REPORTS_MAX`], and calls `each` with the packet's destination and the cause.
pub(in crate::udp) fn read_reports(socket: BorrowedFd<'_>, mut each: impl FnMut(Option<SocketAddr>, Cause)) {
    // Bounded, because other hosts cause the reports and could keep the queue from running empty.
    for _ in 0..REPORTS_MAX {
        let mut name = Name::unwritten();
        let mut note = [0_u64; NOTE_WORDS];
        // SAFETY: `msghdr` holds integers and raw pointers only, for which zero is valid.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_namelen = name.len_bytes();
        header.msg_name = name.as_mut_ptr();
        header.msg_control = ptr::from_mut(&mut note).cast();
        header.msg_controllen = size_of_val(&note) as _;
        // SAFETY: `header` points to `name` and `note`, both live locals that nothing else borrows, with their sizes.
        // `msg_iov` is null with length 0, so the kernel truncates the packet's payload and writes no other memory. A
        // name or note that is longer than its room is truncated too.
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

/// Decodes a `sock_extended_err`: the error, four bytes on its origin, and the path's MTU.
pub(super) fn read_cause(data: &[u8]) -> Cause {
    let word = |at: usize| data.get(at..).and_then(|d| d.first_chunk()).map_or(0, |b| u32::from_ne_bytes(*b));
    match libc::c_int::try_from(word(0)) {
        Ok(libc::ECONNREFUSED) => Cause::Refused,
        Ok(libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN | libc::ENETDOWN) => Cause::Unreachable,
        Ok(libc::EMSGSIZE) => Cause::TooLong { path_bytes: word(8) },
        _ => Cause::Other,
    }
}

/// Room for a report with the reporter's IPv6 address, twice over.
const NOTE_WORDS: usize = 16;

/// Most reports read in one call.
const REPORTS_MAX: usize = 64;
