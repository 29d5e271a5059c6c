//! The system calls that carry many datagrams: `recvmmsg`, `sendmmsg`, and what surrounds them.
//!
//! Invariants the unsafe code rests on: every pointer handed to the kernel is made, for one call, from a buffer
//! that outlives the call and is borrowed by it; lengths are those of the buffers; what the kernel wrote is read
//! only up to the lengths it reported, cut to the buffers' own.

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

/// An argument of a system call as the kernel takes it.
///
/// The calls go to the kernel directly: the C library makes each a point at which its thread may be cancelled, which no
/// thread here is, at a tenth of a microsecond.
fn long(value: impl Into<i64>) -> libc::c_long {
    value.into() as libc::c_long
}

/// Most buffers in one receiving call.
pub(super) const RECEIVE_MAX: usize = 32;

/// Most runs in one sending call.
pub(super) const RUNS_MAX: usize = 64;

/// Most pieces of memory in one sending call.
pub(super) const PIECES_MAX: usize = 256;

/// A stretch of the bytes that are sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) start: usize,
    pub(super) len_bytes: usize,
}

/// Packets for one destination that pass the stack as one: all have the same length, but for a shorter last one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// The destination's place in its table.
    pub(super) to: u32,
    /// Where its pieces begin, and how many there are.
    pub(super) piece: usize,
    pub(super) pieces: usize,
    pub(super) packets: usize,
    pub(super) bytes: usize,
    /// The length of all packets but the last; `None`: they are one packet, and the kernel is not told.
    pub(super) segment: Option<u16>,
    /// The packet that follows in the destination's queue.
    pub(super) after: u32,
}

/// Hands as many of `runs`, whose `pieces` lie in `bytes`, to the kernel as it takes in one call; at least one, or
/// an error about the first. `name` gives the address of a run.
pub(super) fn send<'a>(
    socket: BorrowedFd<'_>,
    runs: &[Run],
    pieces: &[Piece],
    name: impl Fn(&Run) -> &'a Name,
    bytes: &[u8],
) -> io::Result<usize> {
    // Only what is used is written: clearing all of it would cost as much as a small packet.
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
        // SAFETY: the all-zero pattern is a valid `mmsghdr` (null pointers and no lengths).
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
    // SAFETY: the first `runs.len()` headers are set up; each points to written slices, as asserted, to a name that
    // `'a` keeps, and at most to a written note; each slice points into `bytes`. All outlive the call, and a send
    // does not write through them but for the headers' lengths.
    let sent = unsafe {
        let headers: *mut libc::mmsghdr = headers.as_mut_ptr().cast();
        libc::syscall(libc::SYS_sendmmsg, long(socket.as_raw_fd()), headers, runs.len(), long(libc::MSG_NOSIGNAL))
    };
    match usize::try_from(sent) {
        Ok(sent) => Ok(sent.min(runs.len())),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// One packet to one destination, as most are that answer something: the kernel has less to read for it.
pub(super) fn send_one(socket: BorrowedFd<'_>, packet: &[u8], name: &Name) -> io::Result<()> {
    // SAFETY: both pointers and lengths are those of borrowed values that outlive the call, which writes through neither.
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

/// One packet to one destination, from where its parts lie; `segment` as [`Run::segment`].
pub(super) fn send_parts(
    socket: BorrowedFd<'_>,
    parts: [&[u8]; 3],
    segment: Option<u16>,
    name: &Name,
) -> io::Result<()> {
    let mut slices = parts.map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
    // SAFETY: the all-zero pattern is a valid `msghdr` (null pointers and no lengths).
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
    // SAFETY: the header points to slices on this stack, which point into `parts`, perhaps to a note there, and to a borrowed
    // name; all outlive the call, and a send writes through none of them.
    let sent = unsafe {
        libc::syscall(libc::SYS_sendmsg, long(socket.as_raw_fd()), ptr::from_ref(&header), long(libc::MSG_NOSIGNAL))
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What the kernel said about one filled buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) from: Option<SocketAddr>,
    pub(super) len_bytes: usize,
    /// It was longer than the buffer.
    pub(super) truncated: bool,
    /// The socket's running count of what was dropped for want of room, when the kernel says it.
    pub(super) overflow: Option<u32>,
    /// The buffer holds datagrams of this length one after the other, the last perhaps shorter.
    pub(super) segment: Option<usize>,
}

/// Fills buffers of `slot_bytes` that begin every `stride` bytes of `room`, at most [`RECEIVE_MAX`] and as many as
/// something waits for, and says in `arrived` what came. `WouldBlock` when nothing waits.
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
        // SAFETY: the all-zero pattern is a valid `mmsghdr`.
        let mut filled: libc::mmsghdr = unsafe { zeroed() };
        filled.msg_hdr.msg_iov = slice;
        filled.msg_hdr.msg_iovlen = 1;
        filled.msg_hdr.msg_namelen = name.len_bytes();
        filled.msg_hdr.msg_name = name.as_mut_ptr();
        // Not cleared: what is read of it is what the kernel wrote.
        filled.msg_hdr.msg_control = note.as_mut_ptr().cast();
        filled.msg_hdr.msg_controllen = size_of::<Note>() as _;
        header.write(filled);
        count += 1;
    }
    // SAFETY: the first `count` headers are set up; each points to its own slice, name and note on this stack, and
    // each slice to its own part of `room`; all outlive the call and nothing else borrows them.
    let received = unsafe {
        let headers: *mut libc::mmsghdr = headers.as_mut_ptr().cast();
        let no_limit = ptr::null::<libc::timespec>();
        libc::syscall(libc::SYS_recvmmsg, long(socket.as_raw_fd()), headers, count, long(libc::MSG_DONTWAIT), no_limit)
    };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?.min(count);
    for (header, name) in headers[..received].iter().zip(&names) {
        // SAFETY: the first `count` were written above, and `received` is no more.
        let header = unsafe { header.assume_init_ref() };
        // SAFETY: likewise.
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
