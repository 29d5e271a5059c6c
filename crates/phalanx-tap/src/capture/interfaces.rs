//! The interfaces of a file: one for each form of packets, traffic class, way and address of this end.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;

use phalanx_core::id::TrafficClass;

use super::names::written;
use super::pcapng::{BlockWriter, LINK_IPV4, LINK_IPV6, LINK_USER0};

/// How a file holds a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    SealedIpv4,
    SealedIpv6,
    Clear,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    pub(super) form: Form,
    pub(super) class: TrafficClass,
    pub(super) is_memory: bool,
    pub(super) local: SocketAddr,
}

impl Interface {
    fn key(&self) -> (Form, bool, bool, SocketAddr) {
        (self.form, self.class == TrafficClass::Control, self.is_memory, self.local)
    }

    fn link_type(&self) -> u16 {
        match self.form {
            Form::SealedIpv4 => LINK_IPV4,
            Form::SealedIpv6 => LINK_IPV6,
            Form::Clear => LINK_USER0,
        }
    }

    /// For people, and for filters in Wireshark (`frame.interface_name`).
    fn name(&self) -> String {
        let form = match self.form {
            Form::SealedIpv4 | Form::SealedIpv6 => "sealed",
            Form::Clear => "clear",
        };
        let class = match self.class {
            TrafficClass::Data => "data",
            TrafficClass::Control => "control",
        };
        let way = if self.is_memory { " memory" } else { "" };
        format!("{class}{way} {form} {}", written(self.local))
    }
}

/// The interfaces that a file has so far.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    numbers: BTreeMap<(Form, bool, bool, SocketAddr), u32>,
}

impl Interfaces {
    /// The interface's number in the file. Writes its block if it is new, so a file has no interface without packets:
    /// libpcap reads only files whose interfaces all have one link type.
    pub(super) fn number<W: Write>(&mut self, interface: Interface, blocks: &mut BlockWriter<W>) -> io::Result<u32> {
        if let Some(number) = self.numbers.get(&interface.key()) {
            return Ok(*number);
        }
        let number = u32::try_from(self.numbers.len()).map_err(io::Error::other)?;
        blocks.interface(interface.link_type(), &interface.name())?;
        self.numbers.insert(interface.key(), number);
        Ok(number)
    }
}
