//! What needs no socket: addresses in the kernel's form, and its notes. These run under Miri, system calls do not.

use super::*;

#[test]
fn addresses_come_back_from_the_kernels_form() {
    let v6 = SocketAddrV6::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 1, 2, 3, 4), 7001, 5, 6);
    for address in [SocketAddr::from(([127, 0, 0, 1], 7000)), v6.into()] {
        let packet = Outgoing::new(address, 10, 20);
        assert_eq!(packet.name.decode(packet.name_bytes), Some(address));
        assert_eq!(packet.name.decode(packet.name_bytes - 1), None, "an address cut short");
        assert_eq!(format!("{packet:?}"), format!("20 bytes to {:?}", Some(address)));
    }
}

#[test]
fn a_name_the_kernel_did_not_write_is_none() {
    // SAFETY: the all-zero pattern is a valid `Name`: integers only.
    let name: Name = unsafe { zeroed() };
    assert_eq!(name.decode(0), None);
    assert_eq!(name.decode(size_of::<Name>() as libc::socklen_t), None);
}

/// The drop count in control messages of this level, kind and data, one after the other.
fn count_in(messages: &[(libc::c_int, libc::c_int, u32)]) -> Option<u32> {
    let mut notes = [0_u64; NOTE_WORDS];
    let data_bytes = size_of::<u32>() as libc::c_uint;
    // SAFETY: it only computes with a length.
    let whole = unsafe { libc::CMSG_LEN(data_bytes) };
    // SAFETY: likewise.
    let padded = unsafe { libc::CMSG_SPACE(data_bytes) } as usize;
    assert!(messages.len() * padded <= size_of_val(&notes));
    let base = notes.as_mut_ptr().cast::<u8>();
    for (i, &(level, kind, data)) in messages.iter().enumerate() {
        // SAFETY: the all-zero pattern is a valid `cmsghdr`.
        let mut head: libc::cmsghdr = unsafe { zeroed() };
        head.cmsg_len = whole as _;
        head.cmsg_level = level;
        head.cmsg_type = kind;
        // SAFETY: `i * padded` lies inside `notes`, as asserted, and is a multiple of a word.
        let at = unsafe { base.add(i * padded) };
        // SAFETY: a whole padded message fits from there on, and words are aligned as a header is.
        unsafe { at.cast::<libc::cmsghdr>().write(head) };
        // SAFETY: a header was just written there.
        let body = unsafe { libc::CMSG_DATA(at.cast()) };
        // SAFETY: the data stands behind the header, inside the padded message.
        unsafe { body.cast::<u32>().write_unaligned(data) };
    }
    // SAFETY: the all-zero pattern is a valid `msghdr`.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_control = base.cast();
    header.msg_controllen = (messages.len() * padded) as _;
    overflow(&header)
}

#[test]
fn the_drop_count_is_found_among_other_notes() {
    let count = (libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 42);
    let other = (libc::SOL_SOCKET, libc::SO_TIMESTAMP, 7);
    assert_eq!(count_in(&[]), None);
    assert_eq!(count_in(&[count]), Some(42));
    assert_eq!(count_in(&[other]), None);
    assert_eq!(count_in(&[other, count]), Some(42));
}

#[test]
fn a_queued_packet_moves_with_its_buffer() {
    let mut packet = Outgoing::new(SocketAddr::from(([10, 0, 0, 1], 9)), 100, 50);
    packet.shift(60);
    assert_eq!((packet.start(), packet.len_bytes()), (40, 50));
}
