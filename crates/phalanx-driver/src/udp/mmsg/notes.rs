//! Control messages: what is said to the kernel, or by it, beside a datagram.

use std::mem::zeroed;
use std::ptr;
use std::slice;

/// Room for what the kernel says about one buffer: the drop count, the length of the segments, and one thing more.
pub(super) type Note = [u64; 9];

/// What the kernel said about one buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// The socket's running count of drops.
    pub(super) overflow: Option<u32>,
    /// The length of the datagrams in the buffer, if it may hold several.
    pub(super) segment: Option<usize>,
}

/// Tells the kernel to cut what is sent into datagrams of a length.
#[repr(C, align(8))]
pub(super) struct SegmentNote([u8; SEGMENT_NOTE_BYTES]);

// SAFETY: it only computes with a length.
const SEGMENT_NOTE_BYTES: usize = unsafe { libc::CMSG_SPACE(size_of::<u16>() as libc::c_uint) } as usize;

impl SegmentNote {
    pub(super) fn new(segment: u16) -> Self {
        let mut note = Self([0; SEGMENT_NOTE_BYTES]);
        // SAFETY: the all-zero pattern is a valid `cmsghdr`.
        let mut head: libc::cmsghdr = unsafe { zeroed() };
        // SAFETY: it only computes with a length.
        head.cmsg_len = unsafe { libc::CMSG_LEN(size_of::<u16>() as libc::c_uint) } as _;
        head.cmsg_level = libc::SOL_UDP;
        head.cmsg_type = libc::UDP_SEGMENT;
        let at: *mut libc::cmsghdr = ptr::from_mut(&mut note).cast();
        // SAFETY: the note has room for a header and is aligned as one.
        unsafe { at.write(head) };
        // SAFETY: a header was just written there, and the note has room for the data behind it.
        let body = unsafe { libc::CMSG_DATA(at) };
        // SAFETY: as above; the write needs no alignment.
        unsafe { body.cast::<u16>().write_unaligned(segment) };
        note
    }
}

/// Reads what the kernel says about a buffer. The header must have come back from the kernel.
pub(super) fn read_heard(header: &libc::msghdr) -> Heard {
    let mut heard = Heard::default();
    each(header, |level, kind, data| {
        let number = || data.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => heard.overflow = number(),
            (libc::SOL_UDP, libc::UDP_GRO) => heard.segment = number().map(|n| n as usize).filter(|n| *n > 0),
            _ => {}
        }
    });
    heard
}

/// Calls `each` with level, kind and data of each control message. The header must have come back from the kernel.
pub(super) fn each(header: &libc::msghdr, mut each: impl FnMut(libc::c_int, libc::c_int, &[u8])) {
    // SAFETY: the control buffer and its length are as the kernel left them, inside the caller's room.
    let mut note = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !note.is_null() {
        // SAFETY: a non-null result points to a whole header inside the control buffer, aligned as its `u64`s.
        let head = unsafe { *note };
        // SAFETY: it only computes with a length.
        let head_bytes = unsafe { libc::CMSG_LEN(0) } as usize;
        let data_bytes = (head.cmsg_len as usize).saturating_sub(head_bytes);
        // SAFETY: `note` points to a header inside the control buffer.
        let data = unsafe { libc::CMSG_DATA(note) };
        // SAFETY: the kernel cuts a message's length to what it wrote, which is inside the control buffer.
        let data = unsafe { slice::from_raw_parts(data, data_bytes) };
        each(head.cmsg_level, head.cmsg_type, data);
        // SAFETY: `note` is inside the control buffer of `header`.
        note = unsafe { libc::CMSG_NXTHDR(header, note) };
    }
}
