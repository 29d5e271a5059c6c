//! Packets as a small network has them, drawn by a fixed seed: no record of real ones comes with this program.

use super::fit::Draw;
use super::paper::{ARP, HOST_A, HOST_B, IP, TCP};

/// A packet of an Ethernet.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub(crate) bytes: Vec<u8>,
    /// What of it a filter may ask for.
    #[cfg(test)]
    pub(crate) kind: Kind,
    #[cfg(test)]
    pub(crate) hosts: [u32; 2],
    #[cfg(test)]
    pub(crate) port: u16,
}

/// What is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tcp,
    Udp,
    Arp,
}

/// Draws packets: of 20, one is ARP, three are UDP, and the others TCP. Three in four have the least length. The mean is
/// near 100 bytes, as in the posting of 1995.
pub(crate) fn traffic(count: usize) -> Vec<Drawn> {
    let mut draw = Draw(1_993);
    (0..count).map(|_| packet(&mut draw)).collect()
}

fn packet(draw: &mut Draw) -> Drawn {
    let len = match draw.below(20) {
        0..15 => SHORTEST,
        15..19 => SHORTEST + draw.below(100),
        _ => 400 + draw.below(400),
    };
    let kind = match draw.below(20) {
        0 => Kind::Arp,
        1..4 => Kind::Udp,
        _ => Kind::Tcp,
    };
    let host = |draw: &mut Draw| [HOST_A, HOST_B, 0x8003_7003, 0x0a00_0001, 0xc0a8_0001][draw.below(5)];
    let hosts = [host(draw), host(draw)];
    let port: u16 = [20, 23, 25, 53, 79, 119, 513, 1_023, 2_049, 6_000][draw.below(10)];
    let mut bytes = vec![0; len];
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    let protocol = if kind == Kind::Arp { ARP } else { IP } as u16;
    put(12, &protocol.to_be_bytes());
    if kind == Kind::Arp {
        put(28, &hosts[0].to_be_bytes());
        put(38, &hosts[1].to_be_bytes());
    } else {
        put(14, &[0x45]);
        put(23, &[if kind == Kind::Tcp { TCP as u8 } else { 17 }]);
        put(26, &hosts[0].to_be_bytes());
        put(30, &hosts[1].to_be_bytes());
        put(36, &port.to_be_bytes());
    }
    Drawn {
        bytes,
        #[cfg(test)]
        kind,
        #[cfg(test)]
        hosts,
        #[cfg(test)]
        port,
    }
}

/// The shortest packet of an Ethernet.
const SHORTEST: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_have_the_mean_length_of_the_posting() {
        let packets = traffic(10_000);
        let mean = packets.iter().map(|packet| packet.bytes.len()).sum::<usize>() as f64 / 1e4;
        assert!((90.0..110.0).contains(&mean), "{mean}");
        let of = |kind| packets.iter().filter(|packet| packet.kind == kind).count();
        assert!(of(Kind::Arp) > 300 && of(Kind::Udp) > 1_000 && of(Kind::Tcp) > 7_000);
    }
}
