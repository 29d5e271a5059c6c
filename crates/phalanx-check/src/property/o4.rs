//! O4, compatibility: the total order extends the causal one. If `q` delivers a total `m'` then `q` delivered all of
//! its past (as in O2) before; with O3 this places every total message after the total messages of its past.
//!
//! Instances: deliveries, away from their sender, of total messages whose past holds a message of a third stream.
//! Source: Birman, Schiper, Stephenson 1991 (abcast on top of cbcast).

use phalanx_trace::Order;

use super::{Run, past};
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    past::check_order(run, Order::Total, out);
}
