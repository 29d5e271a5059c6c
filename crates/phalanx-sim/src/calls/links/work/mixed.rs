//! The mixed workload: times and lengths of calls are drawn beforehand and do not depend on earlier calls.

use super::Rng;
use super::sizes::{draw_gap_ns, draw_len};
use crate::calls::links::host::Exchange;
use crate::calls::links::setup::{Long, SMALL_BYTES, Setup};
use crate::calls::links::world::{Ended, Work, World};

/// See [`crate::calls::links::Workload::Mixed`].
pub(crate) struct Mixed {
    /// Time of each call after the begin, and the call.
    plan: Vec<(u64, Exchange)>,
    open: usize,
    pub(crate) done: Vec<Ended>,
}

impl Mixed {
    pub(crate) fn new(
        setup: &Setup,
        (clients, servers): (usize, usize),
        long: Long,
        load_permille: u64,
        calls: u64,
        rng: &mut Rng,
    ) -> Self {
        let lens: Vec<usize> = (0..calls).map(|_| draw_len(rng)).collect();
        let wire_bytes: u64 = lens.iter().map(|len| setup.message_wire_bytes(*len)).sum();
        // Time that all calls take at the requested load.
        let bps = u128::from(setup.link_bps) * servers as u128 * u128::from(load_permille.max(1)) / 1_000;
        let all_ns = u128::from(wire_bytes) * 8_000_000_000 / bps.max(1);
        let mean_ns = (all_ns / u128::from(calls.max(1))) as u64;
        let mut at_ns = 0;
        let plan = lens.into_iter().map(|len| {
            at_ns += draw_gap_ns(rng, mean_ns);
            let client = rng.below(clients as u64) as usize;
            let server = clients + rng.below(servers as u64) as usize;
            let (request_bytes, answer_bytes) = match long {
                Long::Requests => (len, SMALL_BYTES),
                Long::Answers => (SMALL_BYTES, len),
            };
            (at_ns, Exchange { client, server, request_bytes, answer_bytes })
        });
        let plan: Vec<_> = plan.collect();
        Self { open: plan.len(), plan, done: Vec::new() }
    }
}

impl Work for Mixed {
    fn begin(&mut self, world: &mut World) {
        for (after_ns, what) in self.plan.drain(..) {
            world.call_at(world.now_ns + after_ns, what);
        }
    }

    fn ended(&mut self, _world: &mut World, ended: &Ended) {
        self.open -= 1;
        self.done.push(*ended);
    }

    fn is_over(&self) -> bool {
        self.open == 0
    }
}
