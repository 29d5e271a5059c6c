//! The layout of a counters file. All numbers are little-endian.

/// The first eight bytes.
pub const MAGIC: [u8; 8] = *b"PHXCOUNT";

/// The version of the layout described here.
pub const VERSION: u32 = 1;

/// The longest counters file, in bytes. A reader refuses longer ones.
pub const FILE_BYTES_MAX: usize = 256 << 10;

/// Offsets of the header's fields.
pub(super) const AT_VERSION: usize = 8;
pub(super) const AT_FILE_BYTES: usize = 12;
pub(super) const AT_CHECKSUM: usize = 16;
/// The checksum covers the bytes from here to the end of the file.
pub(super) const AT_COVERED: usize = 24;
pub(super) const AT_PID: usize = 24;
pub(super) const AT_INCARNATION: usize = 32;
pub(super) const AT_UPDATED: usize = 40;
pub(super) const AT_REWRITES: usize = 48;
pub(super) const AT_COUNT: usize = 56;
pub(super) const AT_VALUES: usize = 60;
pub(super) const AT_NAMES: usize = 64;
pub(super) const AT_NAMES_BYTES: usize = 68;
pub(super) const AT_TEXT: usize = 72;
pub(super) const AT_TEXT_BYTES: usize = 76;
pub(super) const HEADER_BYTES: usize = 80;

/// Most counters in a file.
pub(super) const COUNTERS_MAX: usize = 4_096;

/// Room for the status text. A longer text is cut at a line's end.
pub(super) const TEXT_ROOM_BYTES: usize = 32 << 10;
