//! Sockets and addresses.

use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use phalanx::config::{Config, show_duration};

use super::Finding;

/// The longest packet the UDP driver sends on the loopback interface.
const PACKET_BYTES: usize = 32_768;

pub(super) fn loopback() -> Finding {
    match round_trip() {
        Ok(took) => {
            let took = Duration::from_micros(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
            Finding::ok(
                "loopback",
                format!("a datagram of {PACKET_BYTES} bytes and its answer took {}", show_duration(took)),
            )
        }
        Err(error) => Finding::fail(
            "loopback",
            format!("UDP over 127.0.0.1 does not work: {error}"),
            "bring the interface up (ip link set lo up) and let the firewall pass UDP on it",
        ),
    }
}

fn round_trip() -> std::io::Result<Duration> {
    let here = UdpSocket::bind("127.0.0.1:0")?;
    let there = UdpSocket::bind("127.0.0.1:0")?;
    for socket in [&here, &there] {
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    }
    let mut buffer = vec![0_u8; PACKET_BYTES];
    let began = Instant::now();
    here.send_to(&buffer, there.local_addr()?)?;
    let (took, from) = there.recv_from(&mut buffer)?;
    there.send_to(buffer.get(..took).unwrap_or_default(), from)?;
    let (back, _) = here.recv_from(&mut buffer)?;
    if back != PACKET_BYTES {
        return Err(std::io::Error::other(format!("{back} of {PACKET_BYTES} bytes came back")));
    }
    Ok(began.elapsed())
}

pub(super) fn bind(config: &Config) -> Finding {
    for (lane, port) in [("data", config.data_port), ("control", config.control_port)] {
        let address = SocketAddr::new(config.bind, port);
        if let Err(error) = UdpSocket::bind(address) {
            let remedy = match error.kind() {
                std::io::ErrorKind::AddrInUse => format!("choose another {lane}_port, or 0 to let the system choose"),
                std::io::ErrorKind::PermissionDenied => format!("choose a {lane}_port above 1023"),
                _ => "set bind to one of the addresses that `ip address` lists".to_owned(),
            };
            return Finding::fail("bind", format!("{address} for {lane}: {error}"), remedy);
        }
    }
    let port = |port: u16| if port == 0 { "any".to_owned() } else { port.to_string() };
    let found =
        format!("{}, data port {}, control port {}", config.bind, port(config.data_port), port(config.control_port));
    if config.bind.is_unspecified() {
        return Finding::fail(
            "bind",
            format!("{found}: others cannot be told this address"),
            "set bind to the address by which the other members reach this host",
        );
    }
    Finding::ok("bind", found)
}

pub(super) fn seeds(config: &Config) -> Vec<Finding> {
    let look = |seed: &String| match seed.to_socket_addrs() {
        Ok(addresses) => {
            let addresses: Vec<String> = addresses.map(|address| address.to_string()).collect();
            Finding::ok("seed", format!("{seed} is {}", addresses.join(", ")))
        }
        Err(error) => Finding::warn(
            "seed",
            format!("{seed} cannot be resolved: {error}"),
            "write the address as a number, or put the name into DNS or /etc/hosts",
        ),
    };
    config.seeds.iter().map(look).collect()
}
