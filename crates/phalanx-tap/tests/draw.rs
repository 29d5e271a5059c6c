//! Random choices of the tests that compare.

use std::net::{IpAddr, SocketAddr};

use phalanx_core::rng::Rng;
use phalanx_tap::Packet;

/// Draws for the purpose `label`, from `PHALANX_SEED`; without it in the environment, always the same.
pub(crate) fn rng(label: &str) -> Rng {
    let seed = std::env::var("PHALANX_SEED").map_or(1, |text| text.parse().expect("PHALANX_SEED is a number"));
    eprintln!("the draws of {label}: PHALANX_SEED={seed}");
    Rng::new(seed).fork(label)
}

/// One of `choices`.
pub(crate) fn one<'c, T>(rng: &mut Rng, choices: &'c [T]) -> &'c T {
    &choices[index(rng, choices.len())]
}

/// A number below `bound`.
pub(crate) fn index(rng: &mut Rng, bound: usize) -> usize {
    usize::try_from(rng.below(bound as u64)).expect("it is below a usize")
}

/// So many random bytes.
pub(crate) fn bytes(rng: &mut Rng, count: usize) -> Vec<u8> {
    // Small ones are frequent, so that comparisons with small numbers hold now and then.
    (0..count).map(|_| if rng.below(2) == 0 { rng.below(4) as u8 } else { rng.next_u64() as u8 }).collect()
}

/// The addresses that filters and packets have in common.
pub(crate) const HOSTS: [&str; 6] = ["10.0.0.1", "10.0.0.2", "10.7.0.1", "fd00::1", "fd00::2", "fe80::7:1"];
/// The same for ports.
pub(crate) const PORTS: [u16; 4] = [53, 80, 7000, 7001];

/// Two addresses of one family.
pub(crate) fn addresses(rng: &mut Rng) -> (SocketAddr, SocketAddr) {
    let family = &HOSTS[if rng.below(2) == 0 { 0..3 } else { 3..6 }];
    let mut address = || {
        let ip: IpAddr = one(rng, family).parse().expect("an address");
        SocketAddr::new(ip, *one(rng, &PORTS))
    };
    (address(), address())
}

/// The bytes, cut into a packet at random places.
pub(crate) fn cut<'b>(rng: &mut Rng, bytes: &'b [u8]) -> Packet<'b> {
    let mut at = [(); 3].map(|()| index(rng, bytes.len() + 1));
    at.sort_unstable();
    let [a, b, c] = at;
    Packet::new(&bytes[..a], [&bytes[a..b], &bytes[b..c], &bytes[c..]])
}
