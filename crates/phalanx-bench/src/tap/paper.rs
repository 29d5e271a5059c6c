//! What was printed: figures of *The BSD Packet Filter*, USENIX Winter 1993, by the authors of tcpdump, measured on a
//! workstation of Sun under its system of release 4.1.1; and the four filters of that paper.

use phalanx_tap::{Instruction, Program, opcode};

use super::fit::Line;

/// What the filter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetUp {
    /// Everything, and whole.
    Accept,
    /// Nothing.
    Reject,
}

impl SetUp {
    pub(crate) const ALL: [Self; 2] = [Self::Accept, Self::Reject];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept all",
            Self::Reject => "reject all",
        }
    }

    /// The filter. To take everything needs one instruction. To reject, it is the paper's filter of four, all IP packets,
    /// and packets are of another protocol.
    pub(crate) fn program(self) -> Program {
        let accept = [Instruction::new(opcode::RET, u32::MAX)];
        let reject = ip();
        let instructions = match self {
            Self::Accept => &accept[..],
            Self::Reject => &reject[..],
        };
        Program::new(instructions).expect("it jumps forward and returns")
    }
}

/// What a figure that was printed is called where it stands beside one of today.
pub(crate) const PRINTED: &str = "as printed";

/// Lines of time against length, in nanoseconds.
pub(crate) struct Printed {
    /// NIT, which was built on STREAMS.
    pub(crate) streams: Line,
    /// BPF.
    pub(crate) in_place: Line,
}

pub(crate) fn printed(set_up: SetUp) -> Printed {
    let line = |intercept, slope| Line { intercept, slope };
    match set_up {
        SetUp::Accept => Printed { streams: line(89_200.0, 216.0), in_place: line(5_700.0, 148.0) },
        SetUp::Reject => Printed { streams: line(136_000.0, 210.0), in_place: line(4_600.0, 0.0) },
    }
}

/// The factor that the posting of 1995 gives. It divides accepting by rejecting.
pub(crate) const POSTED_FACTOR: f64 = 19.6;
/// The share of NIT's time in which the posting saw bytes copied: less than 2 of more than 100 us.
pub(crate) const COPY_SHARE: f64 = 2.0;
/// Bytes of the two descriptors that are written and read again.
pub(crate) const DESCRIPTOR_BYTES: f64 = 48.0;
/// The mean length of packets in the posting.
pub(crate) const MEAN_BYTES: f64 = 100.0;
/// At that length, the least share of the time that the posting holds to be linkage.
pub(crate) const LINKAGE_SHARE: f64 = 50.0;
/// Bytes of state that Solaris 2 added when it made one allocation of two.
pub(crate) const ADDED_BYTES: f64 = 8.0;
/// Bytes that the allocation of an mbuf touches.
pub(crate) const MBUF_BYTES: f64 = 16.0;

/// A filter of the paper, with the processor's instructions for a packet that it printed: those of BPF and of the filter
/// with a stack.
pub(crate) struct PaperFilter {
    pub(crate) name: &'static str,
    pub(crate) program: Program,
    pub(crate) printed: [f64; 2],
}

pub(crate) fn filters() -> Vec<PaperFilter> {
    let of = |name, instructions: &[Instruction], printed| {
        let program = Program::new(instructions).expect("it jumps forward and returns");
        PaperFilter { name, program, printed }
    };
    vec![
        of("ip", &ip(), [62.0, 96.0]),
        of("host", &host(), [160.0, 549.0]),
        of("ports", &ports(), [222.0, 971.0]),
        of("pair", &pair(), [129.0, 2_330.0]),
    ]
}

/// All IP packets.
pub(crate) fn ip() -> [Instruction; 4] {
    [half(PROTOCOL), equal(IP, 0, 1), ret(SNAP), ret(0)]
}

/// IP packets of one host.
fn host() -> [Instruction; 8] {
    [half(PROTOCOL), equal(IP, 0, 5), word(26), equal(HOST_A, 2, 0), word(30), equal(HOST_A, 0, 1), ret(SNAP), ret(0)]
}

/// TCP packets to one of four ports: finger, domain, login, shell.
fn ports() -> [Instruction; 14] {
    [
        half(PROTOCOL),
        equal(IP, 0, 11),
        Instruction::new(opcode::LD_BYTE, 23),
        equal(TCP, 0, 9),
        half(20),
        Instruction::jump(opcode::JSET, 0x1fff, 7, 0),
        Instruction::new(opcode::LDX_MSH, 14),
        Instruction::new(opcode::LD_HALF_AT_X, 16),
        equal(79, 3, 0),
        equal(53, 2, 0),
        equal(513, 1, 0),
        equal(514, 0, 1),
        ret(SNAP),
        ret(0),
    ]
}

/// IP, ARP and reverse ARP packets between two hosts.
fn pair() -> [Instruction; 20] {
    [
        half(PROTOCOL),
        equal(IP, 0, 7),
        word(26),
        equal(HOST_A, 0, 2),
        word(30),
        equal(HOST_B, 12, 13),
        equal(HOST_B, 0, 12),
        word(30),
        equal(HOST_A, 9, 10),
        equal(ARP, 1, 0),
        equal(REVERSE_ARP, 0, 8),
        word(28),
        equal(HOST_A, 0, 2),
        word(38),
        equal(HOST_B, 3, 4),
        equal(HOST_B, 0, 3),
        word(38),
        equal(HOST_A, 0, 1),
        ret(SNAP),
        ret(0),
    ]
}

const fn half(at: u32) -> Instruction {
    Instruction::new(opcode::LD_HALF, at)
}

const fn word(at: u32) -> Instruction {
    Instruction::new(opcode::LD_WORD, at)
}

const fn equal(value: u32, yes: u8, no: u8) -> Instruction {
    Instruction::jump(opcode::JEQ, value, yes, no)
}

const fn ret(snap: u32) -> Instruction {
    Instruction::new(opcode::RET, snap)
}

/// Where an Ethernet packet has the type of its protocol.
const PROTOCOL: u32 = 12;
pub(crate) const IP: u32 = 0x0800;
pub(crate) const ARP: u32 = 0x0806;
const REVERSE_ARP: u32 = 0x8035;
/// What an IP packet says that TCP is inside.
pub(crate) const TCP: u32 = 6;
pub(crate) const HOST_A: u32 = 0x8003_7001;
pub(crate) const HOST_B: u32 = 0x8003_7002;
/// The bytes of a packet that tcpdump kept.
const SNAP: u32 = 96;

#[cfg(test)]
mod tests {
    use phalanx_tap::Packet;

    use super::*;
    use crate::tap::traffic::{Kind, traffic};

    #[test]
    fn the_filters_take_what_they_are_for() {
        let packets = traffic(2_000);
        for filter in filters() {
            let mut taken = 0;
            for packet in &packets {
                let expected = match filter.name {
                    "ip" => packet.kind != Kind::Arp,
                    "host" => packet.kind != Kind::Arp && packet.hosts.contains(&HOST_A),
                    "ports" => packet.kind == Kind::Tcp && [79, 53, 513, 514].contains(&packet.port),
                    _ => packet.hosts.contains(&HOST_A) && packet.hosts.contains(&HOST_B),
                };
                let verdict = filter.program.run(&Packet::new(&[], [&packet.bytes, &[], &[]]));
                assert_eq!(verdict, if expected { SNAP } else { 0 }, "{} {packet:?}", filter.name);
                taken += u32::from(expected);
            }
            assert!(taken > 20 && taken < 2_000, "{}: {taken}", filter.name);
        }
    }

    #[test]
    fn the_ratios_of_1993_are_like_for_like_16_and_30() {
        let ratio = |set_up| printed(set_up).streams.intercept / printed(set_up).in_place.intercept;
        assert_eq!(SetUp::ALL.map(|set_up| (10.0_f64 * ratio(set_up)).round()), [156.0, 296.0]);
        let posted = 90_000.0 / printed(SetUp::Reject).in_place.intercept;
        assert!((posted - POSTED_FACTOR).abs() < 0.05);
        let long = |line: Line| line.at(1_500.0) / 1_000.0;
        let reject = printed(SetUp::Reject);
        assert!((long(reject.streams) - 450.0).abs() < 2.0 && (long(reject.in_place) - 5.0).abs() < 0.5);
    }
}
