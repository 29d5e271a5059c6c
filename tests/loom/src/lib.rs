//! The lock-free parts of Phalanx, compiled with loom's atomics, locks and condition variables: every order in which
//! the threads of a test can meet is tried, with what the memory model lets each of them see.
//!
//! The files are those that are shipped, by their path. Loom treats sequentially consistent loads and stores as
//! acquire and release; fences and changes in one step (read-modify-write) are modelled as they are.
#![cfg(test)]

mod sync {
    pub(crate) use std::sync::PoisonError;

    pub(crate) use loom::sync::{Condvar, Mutex};

    pub(crate) mod atomic {
        pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
    }

    /// One by one, as loom can follow them.
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
// They are `pub(super)` where they are shipped.
mod cell {
    #[path = "../../../../crates/phalanx/src/cell/room.rs"]
    pub(super) mod room;
    #[path = "../../../../crates/phalanx/src/cell/signal.rs"]
    pub(super) mod signal;

    mod room_tests;
    mod signal_tests;
}
// What only the driver calls is not called here.
#[allow(dead_code)]
mod shm {
    #[path = "../../../../crates/phalanx-driver/src/shm/parked.rs"]
    pub(super) mod parked;
    #[path = "../../../../crates/phalanx-driver/src/shm/ring.rs"]
    pub(super) mod ring;

    mod parked_tests;
    mod ring_tests;
}
mod doze_tests;
