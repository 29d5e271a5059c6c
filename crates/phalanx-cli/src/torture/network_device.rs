//! TAP devices: an interface in a network namespace whose other end is a descriptor here.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::ioctl::{Opcode, Setter, ioctl};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// `TUNSETIFF` of `linux/if_tun.h`.
const SET_INTERFACE: Opcode = 0x4004_54ca;
/// `IFF_TAP | IFF_NO_PI`: whole Ethernet frames and nothing before them.
const WHOLE_FRAMES: u16 = 0x0002 | 0x1000;

/// The part of `struct ifreq` of `linux/if.h` that the kernel reads, padded to its size.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: u16,
    _rest: [u8; 22],
}

/// Makes `eth0` in the network namespace of that name. The device is removed when the descriptor is closed.
pub(super) fn open(namespace: &str) -> io::Result<File> {
    let path = format!("/run/netns/{namespace}");
    // `setns` moves the calling thread, so a thread of its own enters the namespace.
    let work = move || {
        let place = File::open(path)?;
        move_into_link_name_space(place.as_fd(), Some(LinkNameSpaceType::Network))?;
        let flags = OFlags::NONBLOCK.bits() as i32;
        let device = OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/net/tun")?;
        let mut name = [0; 16];
        name[..4].copy_from_slice(b"eth0");
        attach(&device, InterfaceRequest { name, flags: WHOLE_FRAMES, _rest: [0; 22] })?;
        Ok(device)
    };
    std::thread::Builder::new()
        .name("tap".to_owned())
        .spawn(work)?
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("the thread that makes the device panicked")))
}

fn attach(device: &File, request: InterfaceRequest) -> io::Result<()> {
    // SAFETY: `TUNSETIFF` takes a pointer to a `struct ifreq`. `InterfaceRequest` is `repr(C)` and has its size of 40
    // bytes: 16 for the name, 2 for the flags, 22 for the rest. The kernel copies it and keeps no pointer.
    let setter = unsafe { Setter::<SET_INTERFACE, InterfaceRequest>::new(request) };
    // SAFETY: `setter` pairs the opcode with the argument type that it expects (above), and outlives the call. `device`
    // is an open descriptor of `/dev/net/tun`, whose driver implements the opcode.
    unsafe { ioctl(device, setter) }?;
    Ok(())
}
