//! What needs no socket: addresses in the kernel's format, and control messages. These run under Miri, system calls do
//! not.

use std::net::{Ipv6Addr, SocketAddrV6};

use super::notes::{Heard, each, read_heard};
use super::*;

#[test]
fn addresses_come_back_from_the_kernels_form() {
    let v6 = SocketAddrV6::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 1, 2, 3, 4), 7001, 5, 6);
    for address in [SocketAddr::from(([127, 0, 0, 1], 7000)), v6.into()] {
        let name = Name::encode(address);
        assert_eq!(name.decode(name.len_bytes()), Some(address));
        assert_eq!(name.decode(name.len_bytes() - 1), None, "an address cut short");
        assert_eq!(format!("{name:?}"), format!("{:?}", Some(address)));
    }
}

#[test]
fn a_name_the_kernel_did_not_write_is_none() {
    let name = Name::unwritten();
    assert_eq!(name.decode(0), None);
    assert_eq!(name.decode(name.len_bytes()), None);
}

/// The decoding of consecutive control messages of these levels, kinds and data.
fn heard_in(messages: &[(libc::c_int, libc::c_int, u32)]) -> Heard {
    let mut notes = Note::default();
    let data_bytes = size_of::<u32>() as libc::c_uint;
    // SAFETY: `CMSG_LEN` only computes a size from its argument.
    let whole = unsafe { libc::CMSG_LEN(data_bytes) };
    // SAFETY: `CMSG_SPACE` only computes a size from its argument.
    let padded = unsafe { libc::CMSG_SPACE(data_bytes) } as usize;
    assert!(messages.len() * padded <= size_of_val(&notes));
    let base = notes.as_mut_ptr().cast::<u8>();
    for (i, &(level, kind, data)) in messages.iter().enumerate() {
        // SAFETY: `cmsghdr` holds integers only, for which zero is valid.
        let mut head: libc::cmsghdr = unsafe { zeroed() };
        head.cmsg_len = whole as _;
        head.cmsg_level = level;
        head.cmsg_type = kind;
        // SAFETY: `i * padded` lies inside `notes`, because `messages.len() * padded` does, as asserted.
        let at = unsafe { base.add(i * padded) };
        // SAFETY: `padded` bytes of `notes`, at least a `cmsghdr`, start at `at`. It is aligned: `notes` consists of
        // `u64`s and `padded` is a multiple of a word.
        unsafe { at.cast::<libc::cmsghdr>().write(head) };
        // SAFETY: `at` points to the whole header just written; `CMSG_DATA` only computes the address behind it.
        let body = unsafe { libc::CMSG_DATA(at.cast()) };
        // SAFETY: the data lies behind the header and inside the `padded` bytes. The write needs no alignment.
        unsafe { body.cast::<u32>().write_unaligned(data) };
    }
    // SAFETY: `msghdr` holds integers and raw pointers only, for which zero is valid.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_control = base.cast();
    header.msg_controllen = (messages.len() * padded) as _;
    read_heard(&header)
}

#[test]
fn the_kernels_messages_are_found_among_others() {
    let count = (libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 42);
    let segment = (libc::SOL_UDP, libc::UDP_GRO, 1_432);
    let other = (libc::SOL_SOCKET, libc::SO_TIMESTAMP, 7);
    let nonsense = (libc::SOL_UDP, libc::UDP_GRO, 0);
    assert_eq!(heard_in(&[]), Heard::default());
    assert_eq!(heard_in(&[count]), Heard { overflow: Some(42), segment: None });
    assert_eq!(heard_in(&[other]), Heard::default());
    assert_eq!(heard_in(&[other, segment, count]), Heard { overflow: Some(42), segment: Some(1_432) });
    assert_eq!(heard_in(&[nonsense]), Heard::default(), "datagrams of no length would never end");
}

#[test]
fn the_segment_length_is_encoded_as_the_kernel_reads_it() {
    let mut note = SegmentNote::new(1_432);
    // SAFETY: `msghdr` holds integers and raw pointers only, for which zero is valid.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_control = ptr::from_mut(&mut note).cast();
    header.msg_controllen = size_of_val(&note) as _;
    let mut said = Vec::new();
    each(&header, |level, kind, data| said.push((level, kind, data.to_vec())));
    assert_eq!(said, [(libc::SOL_UDP, libc::UDP_SEGMENT, 1_432_u16.to_ne_bytes().to_vec())]);
}

#[test]
fn reports_say_why() {
    let report = |errno: libc::c_int, info: u32| {
        let mut data = errno.to_ne_bytes().to_vec();
        data.extend([2, 3, 4, 0]);
        data.extend(info.to_ne_bytes());
        data.extend([0; 4]);
        reports::read_cause(&data)
    };
    assert_eq!(report(libc::ECONNREFUSED, 9), Cause::Refused);
    assert_eq!(report(libc::ENETUNREACH, 0), Cause::Unreachable);
    assert_eq!(report(libc::EMSGSIZE, 1_280), Cause::TooLong { path_bytes: 1_280 });
    assert_eq!(report(libc::EPROTO, 0), Cause::Other);
    assert_eq!(reports::read_cause(&[]), Cause::Other, "cut short");
}
