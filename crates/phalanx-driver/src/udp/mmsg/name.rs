//! Socket addresses in the kernel's format.

use std::ffi::c_void;
use std::fmt;
use std::mem::zeroed;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ptr;

/// An IP socket address in the kernel's format. All its bytes are always initialised.
#[derive(Clone, Copy)]
pub(in crate::udp) struct Name {
    raw: Raw,
    len_bytes: libc::socklen_t,
}

#[derive(Clone, Copy)]
#[repr(C)]
union Raw {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Name {
    pub(in crate::udp) fn encode(address: SocketAddr) -> Self {
        let mut name = Self::unwritten();
        match address {
            SocketAddr::V4(a) => {
                name.raw.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: a.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(a.ip().octets()) },
                    sin_zero: [0; 8],
                };
                name.len_bytes = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            }
            SocketAddr::V6(a) => {
                name.raw.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: a.port().to_be(),
                    sin6_flowinfo: a.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: a.ip().octets() },
                    sin6_scope_id: a.scope_id(),
                };
                name.len_bytes = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            }
        }
        name
    }

    /// Room for the kernel to write an address.
    pub(super) fn unwritten() -> Self {
        // SAFETY: each variant of `Raw` holds integers only, for which zero is valid.
        Self { raw: unsafe { zeroed() }, len_bytes: size_of::<Raw>() as libc::socklen_t }
    }

    pub(super) fn as_ptr(&self) -> *const c_void {
        ptr::from_ref(&self.raw).cast()
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut c_void {
        ptr::from_mut(&mut self.raw).cast()
    }

    /// The length of the address, or of the room for one.
    pub(super) fn len_bytes(&self) -> libc::socklen_t {
        self.len_bytes
    }

    /// Decodes an address of which the kernel wrote `len_bytes`. `None`: it is not an IP address.
    pub(super) fn decode(&self, len_bytes: libc::socklen_t) -> Option<SocketAddr> {
        // SAFETY: all bytes of the union are initialised (it starts zeroed), and any bits are a valid integer.
        let family = libc::c_int::from(unsafe { self.raw.family });
        let len_bytes = len_bytes as usize;
        if family == libc::AF_INET && len_bytes >= size_of::<libc::sockaddr_in>() {
            // SAFETY: all bytes of the union are initialised, and `sockaddr_in` holds integers only, so any bits are
            // valid.
            let a = unsafe { self.raw.v4 };
            let ip = Ipv4Addr::from(a.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(a.sin_port)).into())
        } else if family == libc::AF_INET6 && len_bytes >= size_of::<libc::sockaddr_in6>() {
            // SAFETY: all bytes of the union are initialised, and `sockaddr_in6` holds integers only, so any bits are
            // valid.
            let a = unsafe { self.raw.v6 };
            let ip = Ipv6Addr::from(a.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(a.sin6_port), a.sin6_flowinfo, a.sin6_scope_id).into())
        } else {
            None
        }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.decode(self.len_bytes))
    }
}
