//! The front of a packet in clear (`docs/captures.md`, *Clear packets*).

use std::net::IpAddr;

use phalanx_core::id::TrafficClass;
use phalanx_core::wire::Header;

use super::seen::Seen;

const VERSION: u8 = 1;
/// The length of the front, in bytes.
pub(super) const FRONT_BYTES: usize = 24;
/// Where the incarnation that the packet is for stands in the file: behind the front and the packet's header.
pub(super) const DEST_AT: usize = FRONT_BYTES + Header::LEN;

const SENT: u8 = 1;
const CONTROL: u8 = 2;
const MEMORY: u8 = 4;

/// The front of this packet.
pub(super) fn front(seen: &Seen<'_>) -> [u8; FRONT_BYTES] {
    let mut front = [0; FRONT_BYTES];
    let flag = |bit: u8, set: bool| if set { bit } else { 0 };
    let is_control = seen.class == TrafficClass::Control;
    front[0] = VERSION;
    front[1] = u8::try_from(FRONT_BYTES).unwrap_or(u8::MAX);
    front[2] = flag(SENT, seen.is_sent) | flag(CONTROL, is_control) | flag(MEMORY, seen.is_memory);
    let peer = seen.peer.ip().to_canonical();
    if !peer.is_unspecified() {
        front[4..6].copy_from_slice(&seen.peer.port().to_le_bytes());
        match peer {
            IpAddr::V4(address) => {
                front[3] = 4;
                front[8..12].copy_from_slice(&address.octets());
            }
            IpAddr::V6(address) => {
                front[3] = 6;
                front[8..].copy_from_slice(&address.octets());
            }
        }
    }
    front
}
