//! Texts in the subset of tcpdump's language.

use phalanx_core::rng::Rng;

use crate::draw::{self, HOSTS, PORTS};

/// The examples of pcap-filter(7) that fall in the subset, with addresses for its names and `udp` for `tcp`, and others that
/// show a rule of the language each.
pub(super) const MANUAL: [&str; 40] = [
    "",
    "host 10.0.0.1",
    "host 10.0.0.1 and (10.0.0.2 or 10.7.0.1)",
    "host fd00::1 and not (fd00::2 or fe80::7:1)",
    "ip host 10.0.0.1 and not 10.0.0.2",
    "net 10.0.0.0/8",
    "net 10.0.0.0/24 and (port 53 or 80)",
    "ip and not net 10.7.0.0/16",
    "not src and dst net 10.0.0.0/24",
    "udp port 80 and (((ip[2:2] - ((ip[0]&0xf)<<2)) - ((udp[4]&0xf0)>>2)) != 0)",
    "udp[4] & (4|1) != 0 and not src and dst net 10.0.0.0/24",
    "udp[8] & (0x4|0x10) == (0x4|0x10)",
    "port 53 and ip[2:2] > 76",
    "ip[16] >= 10",
    "udp[8] != 8 and udp[8] != 0",
    "ip[0] & 0xf != 5",
    "ip[6:2] & 0x1fff = 0",
    "not host 10.0.0.1 and 10.0.0.2",
    "not (host 10.0.0.1 or 10.0.0.2)",
    "udp port 53",
    "udp src port 7000",
    "udp dst port 7000 or 7001",
    "src or dst port 80",
    "dst and src port 80",
    "src 10.0.0.1",
    "dst fd00::1",
    "ip src host 10.0.0.1",
    "ip6 net fd00::/16",
    "portrange 7000-7001",
    "src portrange 81-53",
    "less 100",
    "greater 100",
    "len = 100 or len > 120 and ip6",
    "! ip && port 53 || 80",
    "udp[8:2] = 0x0100 or udp[8:4] > 0x02000000",
    "ip6[6] = 17",
    "ip6[40:2] = 53 or ip6[48] < 2",
    "udp[udp[4:2] - 1] < 4",
    "ip[len - 1] & 1 = 1",
    "udp[8] * len > 900 and not udp[9] % 2 = 1",
];

/// A random filter.
pub(super) fn filter(rng: &mut Rng) -> String {
    expr(rng, 3)
}

fn expr(rng: &mut Rng, depth: usize) -> String {
    if depth == 0 || rng.below(4) == 0 {
        return test(rng);
    }
    let not = if rng.below(4) == 0 { "not " } else { "" };
    match rng.below(5) {
        0 => format!("{not}({})", expr(rng, depth - 1)),
        1 | 2 => {
            let joint = draw::one(rng, &["and", "&&", "or", "||"]);
            format!("{not}({}) {joint} {}", expr(rng, depth - 1), expr(rng, depth - 1))
        }
        _ => format!("{not}{} {} {}", expr(rng, depth - 1), draw::one(rng, &["and", "or"]), expr(rng, depth - 1)),
    }
}

fn test(rng: &mut Rng) -> String {
    let end = *draw::one(rng, &["", "", "src ", "dst ", "src or dst ", "src and dst ", "dst or src ", "dst and src "]);
    match rng.below(12) {
        0 | 1 => {
            let (protocol, hosts) = *draw::one(rng, &[("", &HOSTS[..]), ("ip ", &HOSTS[..3]), ("ip6 ", &HOSTS[3..])]);
            let host = *draw::one(rng, hosts);
            // Without a word of its own a value takes that of the one before.
            match rng.below(3) {
                0 => format!("{protocol}{end}host ({host} or {})", draw::one(rng, hosts)),
                1 => format!("{protocol}{end}host {host} or not {}", draw::one(rng, hosts)),
                _ => format!("{protocol}{end}host {host}"),
            }
        }
        2 => {
            let nets =
                ["10.0.0.0/24", "10.0.0.0/8", "0.0.0.0/0", "10.0.0.1/32", "10.4.0.0/14", "fd00::/16", "fe80::/64"];
            let nets = [&nets[..], &["fd00::1/128", "fe80::7:0/112", "8000::/1"]].concat();
            format!("{end}net {}", draw::one(rng, &nets))
        }
        3 | 4 => {
            let protocol = draw::one(rng, &["", "udp "]);
            let port = *draw::one(rng, &PORTS);
            match rng.below(3) {
                0 => format!("{protocol}{end}port ({port} or {})", draw::one(rng, &PORTS)),
                _ => format!("{protocol}{end}port {port}"),
            }
        }
        5 => format!("{end}portrange {}-{}", draw::one(rng, &PORTS), draw::one(rng, &PORTS)),
        6 => (*draw::one(rng, &["ip", "ip6", "udp"])).to_owned(),
        7 => format!("{} {}", draw::one(rng, &["less", "greater"]), 28 + rng.below(160)),
        _ => {
            let relation = *draw::one(rng, &["=", "==", "!=", "<", "<=", ">", ">="]);
            let right = if rng.below(4) == 0 { number(rng, 1) } else { rng.below(300).to_string() };
            format!("{} {relation} {right}", number(rng, 2))
        }
    }
}

/// A number that is computed from the packet.
///
/// Bytes of a protocol mean that the packet is of that protocol. libpcap forgets that of an operand that is not the first one.
/// So all bytes of a number are of one protocol here, and its first operand has some.
fn number(rng: &mut Rng, depth: usize) -> String {
    if rng.below(8) == 0 {
        return "len".to_owned();
    }
    let protocol = *draw::one(rng, &["ip", "ip6", "udp"]);
    operation(rng, protocol, depth)
}

fn operation(rng: &mut Rng, protocol: &str, depth: usize) -> String {
    if depth == 0 || rng.below(3) == 0 {
        return load(rng, protocol);
    }
    let left = operation(rng, protocol, depth - 1);
    // Constants are never such that the result does not depend on the other side: the optimiser would leave its loads out.
    match rng.below(8) {
        0 => format!("(-{left})"),
        1 => format!("({left} << {})", 1 + rng.below(9)),
        2 => format!("({left} >> {})", 1 + rng.below(9)),
        3 => format!("({left} / {})", 2 + rng.below(9)),
        4 => format!("({left} % {})", 2 + rng.below(9)),
        _ => {
            let operator = *draw::one(rng, &["+", "-", "*", "&", "|", "^", "/", "%"]);
            let right = match rng.below(5) {
                0 => "len".to_owned(),
                1 | 2 => operation(rng, protocol, depth - 1),
                _ => (1 + rng.below(255)).to_string(),
            };
            format!("({left} {operator} {right})")
        }
    }
}

fn load(rng: &mut Rng, protocol: &str) -> String {
    let index = match rng.below(8) {
        0 => format!("{protocol}[{}]", rng.below(60)),
        1 => format!("len - {}", 1 + rng.below(50)),
        2 => format!("{protocol}[{}] - {}", rng.below(60), rng.below(50)),
        _ => rng.below(100).to_string(),
    };
    match rng.below(4) {
        0 => format!("{protocol}[{index}]"),
        _ => format!("{protocol}[{index}:{}]", draw::one(rng, &[1, 2, 4])),
    }
}
