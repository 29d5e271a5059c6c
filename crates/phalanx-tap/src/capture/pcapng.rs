//! Blocks of a pcapng file (draft-ietf-opsawg-pcapng), little endian: a section header, interfaces and packets.

use std::io::{self, Write};
use std::time::Duration;

/// Raw IP. One type (101) is for both versions, but libpcap 1.10 refuses a file with two interfaces of it, because it
/// compares that number with its own one for the same type.
pub(super) const LINK_IPV4: u16 = 228;
pub(super) const LINK_IPV6: u16 = 229;
/// What two parties agreed on: here packets in clear.
pub(super) const LINK_USER0: u16 = 147;
/// The most bytes of one packet. Wireshark and libpcap refuse longer ones.
pub(super) const SNAP_MAX: usize = 262_144;

const SECTION: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

const OPTIONS_END: u16 = 0;
const COMMENT: u16 = 1;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_RESOLUTION: u16 = 9;
const PACKET_FLAGS: u16 = 2;
const PACKET_MISSED: u16 = 4;

const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;
/// Times are multiples of 10^-9 s.
const NANOSECONDS: u8 = 9;

/// What a packet's block says besides its bytes.
pub(super) struct Packet {
    pub(super) interface: u32,
    pub(super) time: Duration,
    /// The length of the whole packet, in bytes.
    pub(super) whole: u32,
    pub(super) is_sent: bool,
    pub(super) missed: u64,
}

/// Writes whole blocks.
#[derive(Debug)]
pub(super) struct BlockWriter<W> {
    out: W,
    block: Vec<u8>,
    /// A write failed, maybe within a block. What followed would not be read.
    is_torn: bool,
}

impl<W: Write> BlockWriter<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, block: Vec::new(), is_torn: false }
    }

    pub(super) fn section(&mut self) -> io::Result<()> {
        self.begin(SECTION);
        self.put(&BYTE_ORDER.to_le_bytes());
        self.put(&1_u16.to_le_bytes());
        self.put(&0_u16.to_le_bytes());
        // Its length is not known in advance.
        self.put(&u64::MAX.to_le_bytes());
        self.option(SECTION_APPLICATION, concat!("phalanx ", env!("CARGO_PKG_VERSION")).as_bytes());
        self.end()
    }

    pub(super) fn interface(&mut self, link_type: u16, name: &str) -> io::Result<()> {
        self.begin(INTERFACE);
        self.put(&link_type.to_le_bytes());
        self.put(&0_u16.to_le_bytes());
        self.put(&word(SNAP_MAX).to_le_bytes());
        self.option(INTERFACE_NAME, name.as_bytes());
        self.option(INTERFACE_RESOLUTION, &[NANOSECONDS]);
        self.end()
    }

    pub(super) fn packet<'a>(
        &mut self,
        packet: &Packet,
        bytes: &[u8],
        comments: impl Iterator<Item = &'a str>,
    ) -> io::Result<()> {
        let time = u64::try_from(packet.time.as_nanos()).unwrap_or(u64::MAX).to_le_bytes();
        self.begin(ENHANCED_PACKET);
        self.put(&packet.interface.to_le_bytes());
        // The upper half goes first.
        self.put(&time[4..]);
        self.put(&time[..4]);
        self.put(&word(bytes.len()).to_le_bytes());
        self.put(&packet.whole.to_le_bytes());
        self.put(bytes);
        self.pad();
        self.option(PACKET_FLAGS, &if packet.is_sent { OUTBOUND } else { INBOUND }.to_le_bytes());
        if packet.missed > 0 {
            self.option(PACKET_MISSED, &packet.missed.to_le_bytes());
        }
        for comment in comments {
            self.option(COMMENT, comment.as_bytes());
        }
        self.end()
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.check()?;
        self.out.flush()
    }

    pub(super) fn into_inner(self) -> W {
        self.out
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.put(&kind.to_le_bytes());
        // The length, which `end` knows.
        self.put(&[0; 4]);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
    }

    /// Up to the next multiple of 4 bytes.
    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.put(&code.to_le_bytes());
        self.put(&len.to_le_bytes());
        self.put(value.get(..usize::from(len)).unwrap_or(value));
        self.pad();
    }

    fn end(&mut self) -> io::Result<()> {
        self.put(&OPTIONS_END.to_le_bytes());
        self.put(&0_u16.to_le_bytes());
        let len = word(self.block.len() + 4).to_le_bytes();
        self.put(&len);
        self.block[4..8].copy_from_slice(&len);
        self.check()?;
        let written = self.out.write_all(&self.block);
        self.is_torn = written.is_err();
        written
    }

    fn check(&self) -> io::Result<()> {
        if self.is_torn {
            return Err(io::Error::other("the capture file ended with an earlier error"));
        }
        Ok(())
    }
}

/// A length in a block. All are bounded far below 4 GiB.
fn word(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
