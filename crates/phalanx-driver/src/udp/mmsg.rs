//! System calls that carry many datagrams, `recvmmsg` and `sendmmsg`, and their arguments.
//!
//! The unsafe code relies on these invariants. Every pointer given to the kernel is made for one call, from a buffer
//! that the call borrows and that outlives it. Lengths are those of the buffers. What the kernel wrote is read only up
//! to the lengths that it reported, limited to the buffers' own.

mod clock;
mod name;
mod notes;
pub(super) mod option;
mod reports;
#[cfg(test)]
mod tests;

use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

pub(super) use clock::{Hand, coarse_hand};
pub(super) use name::Name;
use notes::{Note, SegmentNote};
pub(super) use reports::{Cause, read_reports};

/// Converts an argument of a system call to the register type.
///
/// The calls bypass the C library. Its wrappers are cancellation points, which cost a tenth of a microsecond and which
/// no thread here needs.
fn long(value: impl Into<i64>) -> libc::c_long {
    value.into() as libc::c_long
}

/// Most buffers in one receiving call.
pub(super) const RECEIVE_MAX: usize = 32;

/// Most runs in one sending call.
pub(super) const RUNS_MAX: usize = 64;

/// Most pieces of memory in one sending call.
pub(super) const PIECES_MAX: usize = 256;

/// A contiguous part of the bytes to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) start: usize,
    pub(super) len_bytes: usize,
}

/// Packets for one destination that pass the stack as one. All have one length, except that the last may be shorter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// The destination's index in its table.
    pub(super) to: u32,
    /// Index of the first piece; `pieces` is their number.
    pub(super) piece: usize,
    pub(super) pieces: usize,
    pub(super) packets: usize,
    pub(super) bytes: usize,
    /// The length of all packets but the last. `None`: a single packet, sent without a segment length.
    pub(super) segment: Option<u16>,
    /// The packet that follows in the destination's list.
    pub(super) after: u32,
}

/// Sends as many of `runs`, whose `pieces` lie in `bytes`, as the kernel takes in one call, and returns their number.
/// `name` gives the address of a run.
///
/// # Errors
/// The error of the first run; no run was sent.
pub(super) fn send<'a>(
    socket: BorrowedFd<'_>,
    runs: &[Run],
    pieces: &[Piece],
    name: impl Fn(&Run) -> &'a Name,
    bytes: &[u8],
) -> io::Result<usize> {
    // Left uninitialised where unused: clearing all of it would cost as much as a small packet.
    let mut slices = [const { MaybeUninit::<libc::iovec>::uninit() }; PIECES_MAX];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; RUNS_MAX];
    let mut notes = [const { MaybeUninit::<SegmentNote>::uninit() }; RUNS_MAX];
    assert!(pieces.len() <= PIECES_MAX, "a plan fits one call");
    assert!(runs.len() <= RUNS_MAX, "a plan fits one call");
    for (slice, piece) in slices.iter_mut().zip(pieces) {
        let payload = &bytes[piece.start..piece.start + piece.len_bytes];
        slice.write(libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() });
    }
    let first: *mut libc::iovec = slices.as_mut_ptr().cast();
    for ((header, note), run) in headers.iter_mut().zip(&mut notes).zip(runs) {
        assert!(run.piece + run.pieces <= pieces.len(), "a run's pieces are among those of the plan");
        let name = name(run);
        // SAFETY: `mmsghdr` holds integers and raw pointers only, for which zero is valid.
        let mut filled: libc::mmsghdr = unsafe { zeroed() };
        filled.msg_hdr.msg_iov = first.wrapping_add(run.piece);
        filled.msg_hdr.msg_iovlen = run.pieces as _;
        filled.msg_hdr.msg_name = name.as_ptr().cast_mut();
        filled.msg_hdr.msg_namelen = name.len_bytes();
        if let Some(segment) = run.segment {
            let note = note.write(SegmentNote::new(segment));
            filled.msg_hdr.msg_control = ptr::from_mut(note).cast();
            filled.msg_hdr.msg_controllen = size_of_val(note) as _;
        }
        header.write(filled);
    }
    // SAFETY: the kernel reads the first `runs.len()` headers, all written above (at most `RUNS_MAX`, as asserted).
    // Each points to its run's slices, which are written because `run.piece + run.pieces <= pieces.len()`, as asserted.
    // It also points to a name borrowed for `'a`, and to a written note or none. Each slice points into `bytes`. All of
    // these outlive the call. The kernel writes only the headers' `msg_len`.
    let sent = unsafe {
        let headers: *mut libc::mmsghdr = headers.as_mut_ptr().cast();
        libc::syscall(libc::SYS_sendmmsg, long(socket.as_raw_fd()), headers, runs.len(), long(libc::MSG_NOSIGNAL))
    };
    match usize::try_from(sent) {
        Ok(sent) => Ok(sent.min(runs.len())),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Sends one packet to one destination, the usual form of an answer. `sendto` has fewer structures for the kernel to
/// read.
pub(super) fn send_one(socket: BorrowedFd<'_>, packet: &[u8], name: &Name) -> io::Result<()> {
    // SAFETY: `packet` and `name` are borrowed for the call, and each length is that of its value. The kernel only
    // reads both.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_sendto,
            long(socket.as_raw_fd()),
            packet.as_ptr(),
            packet.len(),
            long(libc::MSG_NOSIGNAL),
            name.as_ptr(),
            long(name.len_bytes()),
        )
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends one packet to one destination from separate parts; for `segment` see [`Run::segment`].
pub(super) fn send_parts(
    socket: BorrowedFd<'_>,
    parts: [&[u8]; 3],
    segment: Option<u16>,
    name: &Name,
) -> io::Result<()> {
    let mut slices = parts.map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
    // SAFETY: `msghdr` holds integers and raw pointers only, for which zero is valid.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = slices.as_mut_ptr();
    header.msg_iovlen = slices.len() as _;
    header.msg_name = name.as_ptr().cast_mut();
    header.msg_namelen = name.len_bytes();
    let mut note = segment.map(SegmentNote::new);
    if let Some(note) = &mut note {
        header.msg_control = ptr::from_mut(note).cast();
        header.msg_controllen = size_of_val(note) as _;
    }
    // SAFETY: `header` points to `slices` (3 entries, which point into the borrowed `parts`), to the borrowed `name`,
    // and to `note` or null, each with its length. All are locals or borrows that outlive the call. The kernel only
    // reads them.
    let sent = unsafe {
        libc::syscall(libc::SYS_sendmsg, long(socket.as_raw_fd()), ptr::from_ref(&header), long(libc::MSG_NOSIGNAL))
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The kernel's description of one filled buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) from: Option<SocketAddr>,
    pub(super) len_bytes: usize,
    /// The datagram was longer than the buffer.
    pub(super) truncated: bool,
    /// The socket's running count of datagrams dropped for lack of room, if the kernel reports it.
    pub(super) overflow: Option<u32>,
    /// The buffer holds datagrams of this length one after another; the last may be shorter.
    pub(super) segment: Option<usize>,
}

/// Receives into buffers of `slot_bytes` that start every `stride` bytes of `room`, at most [`RECEIVE_MAX`], and
/// describes the filled ones in `arrived`.
///
/// # Errors
/// `WouldBlock` if nothing waits. On any error `arrived` is empty.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    room: &mut [u8],
    stride: usize,
    slot_bytes: usize,
    arrived: &mut Vec<Arrived>,
) -> io::Result<()> {
    arrived.clear();
    let mut slices = [const { MaybeUninit::<libc::iovec>::uninit() }; RECEIVE_MAX];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; RECEIVE_MAX];
    let mut names = [const { MaybeUninit::<Name>::uninit() }; RECEIVE_MAX];
    let mut notes = [const { MaybeUninit::<Note>::uninit() }; RECEIVE_MAX];
    let mut count = 0;
    let parts = headers.iter_mut().zip(&mut slices).zip(&mut names).zip(&mut notes);
    for ((((header, slice), name), note), room) in parts.zip(room.chunks_exact_mut(stride)) {
        let room = &mut room[..slot_bytes];
        let slice = slice.write(libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() });
        let name = name.write(Name::unwritten());
        // SAFETY: `mmsghdr` holds integers and raw pointers only, for which zero is valid.
        let mut filled: libc::mmsghdr = unsafe { zeroed() };
        filled.msg_hdr.msg_iov = slice;
        filled.msg_hdr.msg_iovlen = 1;
        filled.msg_hdr.msg_namelen = name.len_bytes();
        filled.msg_hdr.msg_name = name.as_mut_ptr();
        // Left uninitialised: only what the kernel writes of it is read.
        filled.msg_hdr.msg_control = note.as_mut_ptr().cast();
        filled.msg_hdr.msg_controllen = size_of::<Note>() as _;
        header.write(filled);
        count += 1;
    }
    // SAFETY: the first `count` headers are written. Each points to its own slice, name and note on this stack, with
    // their sizes, and each slice to its own chunk of `room`, which is borrowed mutably. All outlive the call, and
    // nothing else borrows them while the kernel writes to them.
    let received = unsafe {
        let headers: *mut libc::mmsghdr = headers.as_mut_ptr().cast();
        let no_limit = ptr::null::<libc::timespec>();
        libc::syscall(libc::SYS_recvmmsg, long(socket.as_raw_fd()), headers, count, long(libc::MSG_DONTWAIT), no_limit)
    };
    let received = usize::try_from(received).map_err(|_negative| io::Error::last_os_error())?.min(count);
    for (header, name) in headers[..received].iter().zip(&names) {
        // SAFETY: the first `count` headers were written above, and `received <= count`.
        let header = unsafe { header.assume_init_ref() };
        // SAFETY: the first `count` names were written above, and `received <= count`.
        let name = unsafe { name.assume_init_ref() };
        let heard = notes::read_heard(&header.msg_hdr);
        arrived.push(Arrived {
            from: name.decode(header.msg_hdr.msg_namelen),
            len_bytes: (header.msg_len as usize).min(slot_bytes),
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            overflow: heard.overflow,
            segment: heard.segment,
        });
    }
    Ok(())
}
