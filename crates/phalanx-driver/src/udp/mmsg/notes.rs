//! Control messages (`cmsg`): what is passed to the kernel, or by it, beside a datagram.

use std::mem::zeroed;
use std::ptr;
use std::slice;

/// Room for the control messages of one buffer: the drop count, the segment length, and one more.
pub(super) type Note = [u64; 9];

/// The control messages of one received buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// The socket's running count of drops.
    pub(super) overflow: Option<u32>,
    /// The length of the datagrams in the buffer, if it may hold several.
    pub(super) segment: Option<usize>,
}

/// The control message that makes the kernel segment a send into datagrams of one length.
#[repr(C, align(8))]
pub(super) struct SegmentNote([u8; SEGMENT_NOTE_BYTES]);

// SAFETY: `CMSG_SPACE` only computes a size from its argument.
const SEGMENT_NOTE_BYTES: usize = unsafe { libc::CMSG_SPACE(size_of::<u16>() as libc::c_uint) } as usize;

impl SegmentNote {
    pub(super) fn new(segment: u16) -> Self {
        let mut note = Self([0; SEGMENT_NOTE_BYTES]);
        // SAFETY: `cmsghdr` holds integers only, for which zero is valid.
        let mut head: libc::cmsghdr = unsafe { zeroed() };
        // SAFETY: `CMSG_LEN` only computes a size from its argument.
        head.cmsg_len = unsafe { libc::CMSG_LEN(size_of::<u16>() as libc::c_uint) } as _;
        head.cmsg_level = libc::SOL_UDP;
        head.cmsg_type = libc::UDP_SEGMENT;
        let at: *mut libc::cmsghdr = ptr::from_mut(&mut note).cast();
        // SAFETY: `at` points to `note`, a live local of `CMSG_SPACE(2)` bytes, which is at least a `cmsghdr`; its
        // alignment of 8 is at least that of `cmsghdr`.
        unsafe { at.write(head) };
        // SAFETY: `at` points to a whole `cmsghdr`. `CMSG_DATA` gives the address behind it, which is inside `note`
        // because `CMSG_SPACE(2)` bytes include the data.
        let body = unsafe { libc::CMSG_DATA(at) };
        // SAFETY: `note` has at least 2 bytes from `body` on, by the definition of `CMSG_SPACE`. The write needs no
        // alignment.
        unsafe { body.cast::<u16>().write_unaligned(segment) };
        note
    }
}

/// Decodes the control messages of a buffer. The header must have come back from the kernel, which sets the lengths
/// that the decoding trusts.
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
    // SAFETY: `header` is a valid `msghdr`. After the receive its control pointer is the caller's buffer and its
    // control length what the kernel wrote there.
    let mut note = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !note.is_null() {
        // SAFETY: `CMSG_FIRSTHDR` and `CMSG_NXTHDR` return null or the address of a whole header inside the written
        // control bytes. It is aligned: the buffer consists of `u64`s and `CMSG_NXTHDR` advances by multiples of a
        // word.
        let head = unsafe { *note };
        // SAFETY: `CMSG_LEN` only computes a size from its argument.
        let head_bytes = unsafe { libc::CMSG_LEN(0) } as usize;
        let data_bytes = (head.cmsg_len as usize).saturating_sub(head_bytes);
        // SAFETY: `note` points to a whole header inside the control buffer; `CMSG_DATA` only computes the address
        // behind it.
        let data = unsafe { libc::CMSG_DATA(note) };
        // SAFETY: the kernel sets `cmsg_len` to what it wrote, truncated to the control buffer. So `data` is valid for
        // `data_bytes` initialised bytes. They are borrowed only during `each`, while `header` keeps its buffer
        // borrowed by the caller.
        let data = unsafe { slice::from_raw_parts(data, data_bytes) };
        each(head.cmsg_level, head.cmsg_type, data);
        // SAFETY: `note` is a header inside the control buffer of `header`, as `CMSG_NXTHDR` requires.
        note = unsafe { libc::CMSG_NXTHDR(header, note) };
    }
}
