//! A process's identity: its name, its addresses, its random numbers.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

use phalanx_core::rng::Rng;
use phalanx_core::{BadName, TrafficClass, check_name};
use phalanx_driver::Driver;

use super::error::StartError;
use crate::config::Config;
use crate::node::Entropy;

/// The addresses at which others reach this process.
pub(super) struct Reachable {
    pub(super) data: SocketAddr,
    pub(super) control: SocketAddr,
}

/// The system's random generator, after one trial draw.
pub(crate) fn entropy() -> Result<Entropy, StartError> {
    let first = getrandom::u64().map_err(|error| StartError::Entropy(error.into()))?;
    // If the generator fails later, the draws still differ from each other and from other processes'.
    let mut reserve = Rng::new(first).fork("reserve");
    Ok(Box::new(move || getrandom::u64().unwrap_or(0) ^ reserve.next_u64()))
}

/// The configured name, or one made from the host's name and the process id.
pub(crate) fn name(config: &Config) -> Result<String, StartError> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let name = config.name.clone().unwrap_or_else(|| {
        let host = rustix::system::uname();
        let host: String = host.nodename().to_string_lossy().chars().take(64).collect();
        let pid = std::process::id();
        // One process may run several members.
        match MADE.fetch_add(1, Ordering::Relaxed) {
            0 => format!("{host}-{pid}"),
            more => format!("{host}-{pid}-{}", more + 1),
        }
    });
    match check_name(&name) {
        Ok(()) => Ok(name),
        Err(BadName) => Err(StartError::BadName { what: "process", name }),
    }
}

/// Resolves seeds to addresses; a host with several addresses gives all of them.
pub(super) fn resolve(seeds: &[String]) -> Result<Vec<SocketAddr>, StartError> {
    let mut addresses = Vec::new();
    for seed in seeds {
        let found = seed.to_socket_addrs().map_err(|source| StartError::Seed { seed: seed.clone(), source })?;
        addresses.extend(found);
    }
    Ok(addresses)
}

/// The addresses to announce to others.
pub(super) fn reachable(driver: &impl Driver, seeds: &[SocketAddr]) -> Result<Reachable, StartError> {
    let (mut data, mut control) =
        (driver.local_address(TrafficClass::Data), driver.local_address(TrafficClass::Control));
    if control.ip().is_unspecified() {
        let bind = control.ip();
        let towards = seeds.iter().find(|seed| seed.is_ipv4() == bind.is_ipv4());
        let ip = towards.and_then(|seed| source_towards(*seed).ok()).ok_or(StartError::NoAddress { bind })?;
        data.set_ip(ip);
        control.set_ip(ip);
    }
    Ok(Reachable { data, control })
}

/// The address this host uses towards another. `connect` on a UDP socket sends nothing; it only selects the route.
fn source_towards(peer: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = if peer.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(peer)?;
    Ok(socket.local_addr()?.ip())
}
