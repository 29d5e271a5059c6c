//! Moves datagrams for Phalanx: the [`Driver`] trait, UDP sockets, shared memory, a lossy wrapper for tests, and wake-ups.
#![deny(missing_docs)]

pub mod conformance;
mod doze;
mod driver;
pub mod lossy;
pub mod shm;
mod sync;
pub mod udp;
mod waker;

pub use driver::{Driver, EXTRA_MAX, LossReport, Received, Transmit, Wait, Woken};
pub use lossy::{Faults, Lossy};
pub use shm::{Neighbours, Shm, ShmOptions};
pub use udp::{BindError, Udp, UdpOptions};
pub use waker::Waker;
