//! Remote procedure calls: the cost of their guarantees, their behaviour under load, and the common alternatives.

mod clients;
mod incast;
mod loss;
mod mixed;
mod one;
mod open;
pub(super) mod pair;
mod peer;
mod sweep;

use crate::Request;
use crate::bench::Case;

pub(super) fn cases(request: &Request) -> Vec<Case> {
    let mut cases = one::cases(request);
    for more in [open::cases, clients::cases, incast::cases, loss::cases, mixed::cases, sweep::cases, peer::cases] {
        cases.extend(more());
    }
    if request.is_sketch() {
        const FEW: [&str; 5] =
            ["open-spin-two-64", "clients-16x64", "incast-8x65536", "mixed-8-slots", "sweep-window-65536"];
        cases.retain(|case| case.name.starts_with(one::PREFIX) || FEW.contains(&case.name.as_str()));
    }
    cases
}
