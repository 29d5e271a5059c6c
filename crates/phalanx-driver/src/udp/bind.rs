//! Opening and configuring one socket.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;

use socket2::{Domain, Protocol, Socket, Type};

use super::mmsg::option;

/// How to open the sockets of a [`Udp`](super::Udp).
#[derive(Clone, Debug)]
pub struct UdpOptions {
    /// Where to receive data. Port 0: the system chooses. Default `127.0.0.1:0`.
    pub data: SocketAddr,
    /// Where to receive control traffic. Port 0: the system chooses. Default `127.0.0.1:0`.
    pub control: SocketAddr,
    /// Receive buffer to request, in bytes. Larger bursts are lost, and retransmitted. Only a privileged process gets
    /// more than the system's limit (`net.core.rmem_max`). Default 8 MiB.
    pub receive_buffer_bytes: usize,
    /// Send buffer to request, in bytes. Default 4 MiB.
    pub send_buffer_bytes: usize,
    /// The longest packet, in bytes. `None`: 32,896 if both addresses are loopback, else 1,432.
    pub packet_bytes_max: Option<u32>,
    /// Whether packets of one length for one destination are sent as one run (`UDP_SEGMENT`), if the kernel can.
    /// Default true.
    pub segment: bool,
    /// Whether packets that arrive together are received as one (`UDP_GRO`), if the kernel can. Default true.
    pub coalesce: bool,
}

impl Default for UdpOptions {
    fn default() -> Self {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            data: any_port,
            control: any_port,
            receive_buffer_bytes: 8 << 20,
            send_buffer_bytes: 4 << 20,
            packet_bytes_max: None,
            segment: true,
            coalesce: true,
        }
    }
}

/// The buffers that the kernel granted a socket. The kernel adds room for its own overhead, so a full grant reads back
/// as twice the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// Receive buffer, in bytes; a datagram takes [`Udp::truesize`](super::Udp::truesize) of it. The kernel may release
    /// up to a quarter of it late, so count on three quarters.
    pub receive_bytes: usize,
    /// Send buffer, in bytes.
    pub send_bytes: usize,
}

/// Why a socket could not be bound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Another socket has this port.
    #[error("port {} of {} is in use: choose another, or 0 to let the system choose; \
             `ss -ulpn 'sport = :{}'` names its owner", address.port(), address.ip(), address.port())]
    PortInUse {
        /// The requested address.
        address: SocketAddr,
    },
    /// No interface of this host has that address.
    #[error("no interface of this host has the address {}: `ip address` lists those it has; \
             0.0.0.0 binds all of them", address.ip())]
    NotAvailable {
        /// The requested address.
        address: SocketAddr,
    },
    /// The system does not permit this user that port.
    #[error("not permitted to bind {address}: ports below 1024 need a privilege; choose a higher one, or 0")]
    NotPermitted {
        /// The requested address.
        address: SocketAddr,
    },
    /// The process or the host has no descriptor left.
    #[error("no file descriptor left for {address}: raise the limit with `ulimit -n`")]
    NoDescriptors {
        /// The requested address.
        address: SocketAddr,
    },
    /// Any other error.
    #[error("cannot bind {address}: {source}")]
    Other {
        /// The requested address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

pub(super) struct Opened {
    pub(super) socket: Socket,
    pub(super) address: SocketAddr,
    pub(super) granted: Buffers,
    pub(super) segments: bool,
    pub(super) coalesces: bool,
}

/// Opens a bound, non-blocking socket with large buffers that reports its losses.
pub(super) fn open(address: SocketAddr, options: &UdpOptions) -> Result<Opened, BindError> {
    try_open(address, options).map_err(|source| explain(address, source))
}

fn try_open(address: SocketAddr, options: &UdpOptions) -> io::Result<Opened> {
    // `socket2` sets close-on-exec: a child program must not keep the port.
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        // Otherwise the socket would take the IPv4 port as well, and see IPv4 senders under mapped addresses.
        socket.set_only_v6(true)?;
    }
    // The kernel silently reduces sizes beyond its limit. The granted sizes are read back below.
    socket.set_recv_buffer_size(options.receive_buffer_bytes)?;
    socket.set_send_buffer_size(options.send_buffer_bytes)?;
    // A full grant reads back as twice the request, see `Buffers`.
    if socket.recv_buffer_size()? < options.receive_buffer_bytes.saturating_mul(2) {
        option::force_buffers(socket.as_fd(), options.receive_buffer_bytes, options.send_buffer_bytes);
    }
    option::report_losses(socket.as_fd(), address.is_ipv6())?;
    option::fragment_what_is_too_long(socket.as_fd(), address.is_ipv6())?;
    let segments = options.segment && option::can_segment(socket.as_fd());
    let coalesces = options.coalesce && option::coalesce(socket.as_fd());
    socket.bind(&address.into())?;
    let bound = socket.local_addr()?.as_socket();
    let bound = bound.ok_or_else(|| io::Error::other("the bound address is not an IP address"))?;
    let granted = Buffers { receive_bytes: socket.recv_buffer_size()?, send_bytes: socket.send_buffer_size()? };
    Ok(Opened { socket, address: bound, granted, segments, coalesces })
}

fn explain(address: SocketAddr, source: io::Error) -> BindError {
    match source.raw_os_error() {
        Some(libc::EADDRINUSE) => BindError::PortInUse { address },
        Some(libc::EADDRNOTAVAIL) => BindError::NotAvailable { address },
        Some(libc::EACCES | libc::EPERM) => BindError::NotPermitted { address },
        Some(libc::EMFILE | libc::ENFILE) => BindError::NoDescriptors { address },
        _ => BindError::Other { address, source },
    }
}
