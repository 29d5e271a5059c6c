//! How a reader is attached.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use phalanx_tap::{Filter, Form};

use super::ring::RingWriter;

/// How a reader is attached.
#[derive(Debug)]
pub struct Attachment {
    /// Names it towards the tap.
    pub number: u64,
    /// The packets that it takes.
    pub filter: Filter,
    /// What it sees of them.
    pub form: Form,
    /// The most bytes that it gets of a packet, preamble included.
    pub snap: u32,
    /// Where they go.
    pub ring: RingWriter,
}

/// An address that is not known: memory tells none.
pub(super) const UNKNOWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
