//! Workloads of hosts, one file each.

mod closed;
mod incast;
mod mixed;
mod sizes;

use phalanx_core::rng::Rng;

pub(super) use closed::Closed;
pub(super) use incast::Incast;
pub(super) use mixed::Mixed;
pub(super) use sizes::CLASS_BYTES;
