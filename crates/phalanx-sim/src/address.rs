//! Addresses of simulated processes. An address encodes its process slot and the number of address changes of the slot
//! before it, so the receiver of a packet is found without a table.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use phalanx_core::TrafficClass;

const DATA_PORT: u16 = 7000;
const CONTROL_PORT: u16 = 7001;

/// One socket of one process slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) slot: u16,
    /// Number of address changes of the slot before this address.
    pub(crate) moves: u8,
    pub(crate) class: TrafficClass,
}

impl Endpoint {
    pub(crate) fn new(slot: usize, moves: u8, class: TrafficClass) -> Self {
        let slot = u16::try_from(slot).expect("a world has at most 65,536 slots");
        Self { slot, moves, class }
    }

    /// The slot as an index.
    pub(crate) fn index(self) -> usize {
        usize::from(self.slot)
    }

    pub(crate) fn address(self) -> SocketAddr {
        let [high, low] = self.slot.to_be_bytes();
        let port = match self.class {
            TrafficClass::Data => DATA_PORT,
            TrafficClass::Control => CONTROL_PORT,
        };
        SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, self.moves, high, low)), port)
    }

    /// The inverse of [`Self::address`]; `None` for any other address.
    pub(crate) fn of(address: SocketAddr) -> Option<Self> {
        let IpAddr::V4(v4) = address.ip() else { return None };
        let [10, moves, high, low] = v4.octets() else {
            return None;
        };
        let class = match address.port() {
            DATA_PORT => TrafficClass::Data,
            CONTROL_PORT => TrafficClass::Control,
            _ => return None,
        };
        let slot = u16::from_be_bytes([high, low]);
        Some(Self { slot, moves, class })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_back_to_its_endpoint() {
        for slot in [0, 1, 255, 256, 60_000] {
            for class in [TrafficClass::Data, TrafficClass::Control] {
                let endpoint = Endpoint::new(slot, 3, class);
                assert_eq!(Endpoint::of(endpoint.address()), Some(endpoint));
            }
        }
        assert_eq!(Endpoint::of("127.0.0.1:7000".parse().expect("literal")), None);
        assert_eq!(Endpoint::of("10.0.0.1:1".parse().expect("literal")), None);
    }
}
