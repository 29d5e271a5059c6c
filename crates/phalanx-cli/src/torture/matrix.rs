//! The order of faults and roles.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use phalanx_runtime::core::rng::Rng;

use super::fault::{Fabric, Fault, Role};
use super::limits::Quota;

/// All pairs of a fault and a role, in an order drawn from the seed. Begins anew after the last one.
#[derive(Debug)]
pub(super) struct Matrix {
    pairs: Vec<(Fault, Role)>,
    queue: VecDeque<(Fault, Role)>,
    rng: Rng,
    /// Faults that this machine cannot perform, and why.
    pub(super) skipped: Vec<(Fault, String)>,
}

impl Matrix {
    /// Pairs of the given faults and roles; an empty list means all.
    pub(super) fn new(faults: &[Fault], roles: &[Role], seed: u64) -> Self {
        let asked = |fault: &&Fault| faults.is_empty() || faults.contains(fault);
        let (mut able, mut skipped) = (Vec::new(), Vec::new());
        for fault in Fault::value_variants().iter().filter(asked) {
            match possible(*fault) {
                Ok(()) => able.push(*fault),
                Err(why) => skipped.push((*fault, why)),
            }
        }
        let roles: Vec<Role> = if roles.is_empty() { Role::value_variants().to_vec() } else { roles.to_vec() };
        let pairs = able.iter().flat_map(|fault| roles.iter().map(|role| (*fault, *role)));
        let pairs = pairs.filter(|(fault, role)| fault.meets(*role)).collect();
        Self { pairs, queue: VecDeque::new(), rng: Rng::new(seed).fork("matrix"), skipped }
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.pairs.iter().any(|(of, _)| *of == fault)
    }

    /// The fabric of the next fault. `None`: no fault can be performed at all.
    pub(super) fn next_fabric(&mut self) -> Option<Fabric> {
        self.begin_anew_if_through();
        self.queue.front().map(|(fault, _)| fault.fabric())
    }

    fn begin_anew_if_through(&mut self) {
        if self.queue.is_empty() {
            let mut rest = self.pairs.clone();
            while !rest.is_empty() {
                let spot = usize::try_from(self.rng.below(rest.len() as u64)).unwrap_or(0);
                self.queue.push_back(rest.swap_remove(spot));
            }
        }
    }

    /// The next fault for this fabric. `None`: faults of the other fabric come first, before the matrix begins anew.
    pub(super) fn take(&mut self, fabric: Fabric) -> Option<(Fault, Role)> {
        self.begin_anew_if_through();
        let at = self.queue.iter().position(|(fault, _)| fault.fabric() == fabric)?;
        self.queue.remove(at)
    }
}

fn possible(fault: Fault) -> Result<(), String> {
    if fault.fabric() == Fabric::Switch {
        let device = std::fs::File::options().read(true).write(true).open("/dev/net/tun");
        return device.map(drop).map_err(|error| format!("needs TAP devices (/dev/net/tun): {error}"));
    }
    match fault {
        Fault::CpuQuota => Quota::possible(),
        Fault::WallClock if faketime().is_none() => {
            Err("needs libfaketime. On Debian or Ubuntu: apt-get install faketime".to_owned())
        }
        _ => Ok(()),
    }
}

/// Path of the library (`libfaketime`) that makes a program's wall clock jump.
pub(super) fn faketime() -> Option<PathBuf> {
    let places = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    places.iter().map(|place| Path::new(place).join("faketime/libfaketime.so.1")).find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_the_order_and_each_pair_comes_once_a_round() {
        let faults = [Fault::Kill, Fault::Loss5, Fault::CutIn];
        let draw = |seed| {
            let mut matrix = Matrix::new(&faults, &[], seed);
            let mut all = Vec::new();
            for _ in 0..12 {
                let fabric = matrix.next_fabric().expect("faults of the bridge need nothing");
                all.extend(matrix.take(fabric));
            }
            all
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let mut all = draw(1);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 12);
    }

    #[test]
    fn one_pair_comes_again_and_again_on_its_own_fabric() {
        let mut matrix = Matrix::new(&[Fault::Kill], &[Role::Joiner], 1);
        assert_eq!(matrix.next_fabric(), Some(Fabric::Bridge));
        assert_eq!(matrix.take(Fabric::Switch), None);
        for _ in 0..3 {
            assert_eq!(matrix.take(Fabric::Bridge), Some((Fault::Kill, Role::Joiner)));
        }
    }
}
