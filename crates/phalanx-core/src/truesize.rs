//! Buffer accounting: how many bytes of a socket's receive buffer a packet takes until it is read (the kernel's
//! `truesize`).

/// The most bytes that the kernel accounts to a receive buffer for a packet of this length. It is the memory that holds
/// the packet, and so more than its bytes. `docs/udp.md` has the figures.
#[must_use]
#[inline]
pub fn truesize(packet_bytes: u64) -> u64 {
    if packet_bytes <= SHORT {
        return TRUESIZE_MIN;
    }
    let linear = packet_bytes + AROUND;
    let block = if linear <= BLOCK_MAX { linear.next_power_of_two() } else { packet_bytes + PAGED };
    block + RECORD
}

/// Packets up to this length fit into the smallest block, with what surrounds them.
const SHORT: u64 = TRUESIZE_MIN - RECORD - AROUND;
/// Bytes before and behind the packet in its block of memory: headers of all layers, and the list of its pages.
const AROUND: u64 = 384;
/// Longer packets lie in pages of their own, and only what surrounds them lies in a block.
const BLOCK_MAX: u64 = 16 << 10;
const PAGED: u64 = 1_024;
/// The kernel's record of a packet.
const RECORD: u64 = 256;
/// The least that the kernel accounts for a packet: a network driver sets aside a fixed buffer for each, mostly half a
/// page.
pub const TRUESIZE_MIN: u64 = 2_048 + RECORD;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_one_block_is_charged_as_one_and_what_does_not_by_its_pages() {
        assert_eq!(truesize(BLOCK_MAX - AROUND), BLOCK_MAX + RECORD);
        assert_eq!(truesize(BLOCK_MAX - AROUND + 1), BLOCK_MAX - AROUND + 1 + PAGED + RECORD);
        assert!(truesize(1 << 40) > 1 << 40, "never less than the bytes");
    }
}
