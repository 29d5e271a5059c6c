//! A filter on the header touches nothing behind it: the page there cannot be read at all.
#![expect(unsafe_code, reason = "the page behind a header is made unreadable")]

use std::io::Write;
use std::ptr::{self, NonNull};

use phalanx_tap::{Filter, Instruction, Layout, NoNames, Packet, Program, UdpPreamble, opcode};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Two pages, of which the second cannot be read.
struct Pages {
    base: NonNull<u8>,
    page: usize,
}

impl Pages {
    fn new(header: &[u8]) -> Self {
        let page = rustix::param::page_size();
        assert!(header.len() <= page);
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the address is null without `MAP_FIXED`, so the kernel chooses a free range. The length is not zero.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), 2 * page, protection, flags) }.expect("memory");
        let base = NonNull::new(base.cast::<u8>()).expect("not mapped at zero");
        let start = base.as_ptr().wrapping_add(page - header.len());
        // SAFETY: `header` is valid for its length, `start` for as many writes before the end of the first page, and they are distinct.
        unsafe { ptr::copy_nonoverlapping(header.as_ptr(), start, header.len()) };
        let second = base.as_ptr().wrapping_add(page).cast();
        // SAFETY: the second page is this mapping's own, and no reference to it exists.
        unsafe { mprotect(second, page, MprotectFlags::empty()) }.expect("own memory");
        Self { base, page }
    }

    /// A packet of `len` bytes, of which the first `readable` can be read.
    fn packet(&self, readable: usize, len: usize) -> &[u8] {
        assert!(readable <= self.page && len - readable <= self.page);
        let from = self.base.as_ptr().wrapping_add(self.page - readable);
        // SAFETY: the range is mapped, initialised by the kernel and by `new`, and nobody writes it. That a part cannot be
        // read is what this test is for: code that reads it ends with a fault, and does not go on.
        unsafe { std::slice::from_raw_parts(from, len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: it is the mapping of `new`, which nothing else unmaps, and slices of it borrow `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), 2 * self.page) };
    }
}

/// How many bytes can be read.
const READABLE: usize = 64;
/// How long the packet is.
const LEN: usize = 1_514;

#[test]
fn the_second_page_is_out_of_reach() {
    let pages = Pages::new(&[7; READABLE]);
    let packet = pages.packet(READABLE, LEN);
    let mut file = tempfile::tempfile().expect("a file");
    assert_eq!(file.write(&packet[..READABLE]).expect("it can be read"), READABLE);
    // The kernel tells of the fault instead of ending the process.
    let error = file.write(&packet[READABLE..]).expect_err("it cannot be read");
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::FAULT.raw_os_error()));
}

#[test]
fn the_filter_of_the_paper_rejects_by_the_header_alone() {
    let mut header = [0; READABLE];
    header[12..14].copy_from_slice(&[0x88, 0xb5]);
    let (pages, of_ip) = (Pages::new(&header), 0x0800);
    let program = Program::new(&[
        Instruction::new(opcode::LD_HALF, 12),
        Instruction::jump(opcode::JEQ, of_ip, 0, 1),
        Instruction::new(opcode::RET, u32::MAX),
        Instruction::new(opcode::RET, 0),
    ])
    .expect("it jumps forward and returns");
    let packet = Packet::new(&[], [pages.packet(READABLE, LEN), &[], &[]]);
    assert_eq!((packet.held(), program.run(&packet)), (LEN, 0));
}

#[test]
fn a_sealed_tap_reads_the_header_and_copies_the_snapshot_alone() {
    // The header of a packet of data, and what is behind it as far as a snapshot goes.
    let mut header = [0; READABLE];
    header[0] = 0x35;
    let pages = Pages::new(&header);
    let payload = pages.packet(READABLE, LEN);
    let ends = [7_001, 7_002].map(|port| ([10, 0, 0, 1], port).into());
    let preamble = UdpPreamble::new(ends[0], ends[1], payload.len());
    let packet = Packet::new(preamble.bytes(), [payload, &[], &[]]);
    let snap = 28 + READABLE as u32;
    let compile = |text: &str| {
        let filter = Filter::parse(text).expect("a filter");
        filter.compile(Layout::Ipv4, &NoNames, snap).expect("it is of this layout").program
    };
    assert_eq!(compile("type multicast and size > 9 and number > 7").run(&packet), 0);
    let mut kept = [9; LEN];
    let verdict = compile("size = 1514 and dst port 7002").run(&packet);
    assert_eq!((verdict, packet.copy(verdict, &mut kept)), (snap, snap as usize));
    assert_eq!((kept[28], kept[snap as usize]), (0x35, 9));
}
