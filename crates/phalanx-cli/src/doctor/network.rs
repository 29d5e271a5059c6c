//! Checks sockets and addresses.

use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use phalanx_runtime::config::{Config, show_duration};

use super::{Check, Finding};

/// Length of the longest packet that the UDP driver sends over the loopback interface.
const PACKET_BYTES: usize = 32_768;

/// Bound on a round trip over loopback. The default ack delay is as long; a slower loopback causes needless
/// retransmissions.
const TRIP_MAX: Duration = Duration::from_millis(2);

/// Bound on name resolution. A join waits for the names of its seed addresses; a longer wait exceeds
/// `timing.suspect_after`.
const RESOLVE_MAX: Duration = Duration::from_millis(900);

/// Round trips over the loopback interface, of which the fastest counts. A busy machine delays some of them.
const TRIPS: usize = 20;

pub(super) fn loopback() -> Finding {
    let check = Check::new(
        "loopback",
        format!("{} for a round trip: the longest that an acknowledgement is held back", show_duration(TRIP_MAX)),
    );
    let trips: std::io::Result<Vec<Duration>> = (0..TRIPS).map(|_| round_trip()).collect();
    match trips.map(|trips| trips.into_iter().min().unwrap_or(Duration::MAX)) {
        Ok(took) => {
            let took = Duration::from_micros(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
            let found = format!(
                "a datagram of {PACKET_BYTES} bytes and its answer took {}, the fastest of {TRIPS}",
                show_duration(took)
            );
            if took <= TRIP_MAX {
                check.ok(found)
            } else {
                check.warn(found, "give this process more processor time; look for filters on the loopback interface")
            }
        }
        Err(error) => check.fail(
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
    let check = Check::new("bind", "an address of this host with free ports: other members send to it");
    for (lane, port) in [("data", config.data_port), ("control", config.control_port)] {
        let address = SocketAddr::new(config.bind, port);
        if let Err(error) = UdpSocket::bind(address) {
            let remedy = match error.kind() {
                std::io::ErrorKind::AddrInUse => format!("choose another {lane}_port, or 0 to let the system choose"),
                std::io::ErrorKind::PermissionDenied => format!("choose a {lane}_port above 1023"),
                _ => "set bind to one of the addresses that `ip address` lists".to_owned(),
            };
            return check.fail(format!("{address} for {lane}: {error}"), remedy);
        }
    }
    let port = |port: u16| if port == 0 { "any".to_owned() } else { port.to_string() };
    let found =
        format!("{}, data port {}, control port {}", config.bind, port(config.data_port), port(config.control_port));
    if config.bind.is_unspecified() {
        return check.fail(
            format!("{found}: this address cannot be announced to others"),
            "set bind to the address by which the other members reach this host",
        );
    }
    check.ok(found)
}

pub(super) fn seeds(config: &Config) -> Vec<Finding> {
    let check = Check::new(
        "seed",
        format!(
            "resolved within {}: a join waits for it, and others suspect who waits longer",
            show_duration(RESOLVE_MAX)
        ),
    );
    let look = |seed: &String| {
        let began = Instant::now();
        let resolved = seed.to_socket_addrs();
        judge_seed(&check, seed, resolved, began.elapsed())
    };
    config.seeds.iter().map(look).collect()
}

fn judge_seed(
    check: &Check,
    seed: &str,
    resolved: std::io::Result<std::vec::IntoIter<SocketAddr>>,
    took: Duration,
) -> Finding {
    match resolved {
        Ok(addresses) => {
            let addresses: Vec<String> = addresses.map(|address| address.to_string()).collect();
            let found = format!("{seed} is {}", addresses.join(", "));
            if took <= RESOLVE_MAX {
                check.ok(found)
            } else {
                let found = format!("{found}; the resolver took {} ms", took.as_millis());
                check.warn(found, "write the address as a number, or put the name into /etc/hosts")
            }
        }
        Err(error) => check.warn(
            format!("{seed} cannot be resolved: {error}"),
            "write the address as a number, or put the name into DNS or /etc/hosts",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn a_slow_resolver_is_found() {
        let check = Check::new("seed", "threshold: reason");
        let verdict = |took| judge_seed(&check, "127.0.0.1:1", "127.0.0.1:1".to_socket_addrs(), took).verdict;
        assert_eq!(verdict(RESOLVE_MAX), Verdict::Ok);
        assert_eq!(verdict(RESOLVE_MAX + Duration::from_millis(1)), Verdict::Warn);
    }
}
