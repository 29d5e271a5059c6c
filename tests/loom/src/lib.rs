//! The lock-free parts of Phalanx, compiled with loom's atomics. Loom tries every
//! interleaving of a test's threads, with every result of a load that the memory model allows.
//!
//! The files are the shipped ones, included by path. Loom treats sequentially consistent loads and stores as acquire
//! and release; it models fences and read-modify-write operations as they are.
#![cfg(test)]

mod sync {
    pub(crate) mod atomic {
        pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};
    }

    /// Copied one by one, so that loom can track each word.
    pub(crate) mod words {
        use super::atomic::{AtomicU64, Ordering};

        pub(crate) fn load(from: &[AtomicU64], to: &mut [[u8; 8]]) {
            from.iter().zip(to).for_each(|(from, to)| *to = from.load(Ordering::Relaxed).to_ne_bytes());
        }

        pub(crate) fn store(from: &[[u8; 8]], to: &[AtomicU64]) {
            to.iter().zip(from).for_each(|(to, from)| to.store(u64::from_ne_bytes(*from), Ordering::Relaxed));
        }
    }
}

#[path = "../../../crates/phalanx-driver/src/doze.rs"]
mod doze;
// These modules are `pub(super)` in the shipped crate. Functions that only the driver calls are unused here.
#[allow(dead_code)]
mod shm {
    #[path = "../../../../crates/phalanx-driver/src/shm/parked.rs"]
    pub(super) mod parked;
    #[path = "../../../../crates/phalanx-driver/src/memory/ring.rs"]
    pub(super) mod ring;

    mod parked_tests;
    mod ring_tests;
}
mod doze_tests;
#[path = "../../../crates/phalanx/src/readiness.rs"]
mod readiness;
mod readiness_tests;
