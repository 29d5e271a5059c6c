//! O2, causal order: let the past of `m'` be all messages that its sender sent or delivered in the view before it sent
//! `m'`. If `q` delivers a causal `m'` then `q` delivered all of its past before.
//!
//! Fifo messages are in the past of others, but wait only for earlier ones of their own sender. Messages of earlier
//! views precede by S1 and S3. Total messages are evaluated by O4.
//!
//! Instances: deliveries, away from their sender, of causal messages whose past holds a message of a third stream.
//! Source: Birman, Schiper, Stephenson 1991 (cbcast); Lamport, "Time, Clocks" (CACM 21:7, 1978).

use phalanx_trace::Order;

use super::{Run, past};
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    past::check_order(run, Order::Causal, out);
}
