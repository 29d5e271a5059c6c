//! Moves datagrams for Phalanx: the [`Driver`] trait, UDP sockets, shared memory, a lossy wrapper for tests, and wake-ups.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]
#![deny(missing_docs)]

pub mod conformance;
mod doze;
mod driver;
pub mod fork;
pub mod lossy;
mod memory;
pub mod shm;
mod sync;
pub mod tap;
#[allow(unsafe_code)]
mod ticks;
pub mod udp;
mod waker;
#[allow(unsafe_code)]
mod words;

pub use driver::{Driver, EXTRA_MAX, LossReport, Received, Transmit, Wait, Woken};
pub use lossy::{Faults, Lossy};
pub use shm::{Neighbours, Shm, ShmOptions};
pub use ticks::ticks;
pub use udp::{BindError, Udp, UdpOptions};
pub use waker::Waker;
