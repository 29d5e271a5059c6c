//! The suites.

mod asks;
pub(crate) mod core_loop;
mod flow;
mod interface;
pub(crate) mod late_sink;
mod latency;
mod layers;
mod limits;
mod peers;
mod rpc;
mod stream;
mod tap;
mod to_one;
mod views;

use crate::bench::Case;
use crate::request::{Request, Suite};

/// The cases of a suite.
pub(crate) fn cases(suite: Suite, request: &Request) -> Vec<Case> {
    match suite {
        Suite::Limits => limits::cases(request),
        Suite::Stream => stream::cases(request),
        Suite::Latency => latency::cases(request).into_iter().chain(to_one::cases(request)).collect(),
        Suite::Flow => flow::cases(request),
        Suite::Views => views::cases(request),
        Suite::Core => core_loop::cases(request),
        Suite::Interface => interface::cases(request),
        Suite::Asks => asks::cases(request),
        Suite::Rpc => rpc::cases(request),
        Suite::Tap => tap::cases(request),
        Suite::Peers => peers::cases(request),
    }
}
