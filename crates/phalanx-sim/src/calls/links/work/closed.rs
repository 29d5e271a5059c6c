//! The closed workload: each client keeps a number of calls under way, and makes the next when one has ended.

use super::Rng;
use crate::calls::links::host::Exchange;
use crate::calls::links::setup::Setup;
use crate::calls::links::world::{Ended, Work, World};

/// See [`crate::calls::links::Workload::Closed`].
pub(crate) struct Closed {
    pub(crate) clients: usize,
    pub(crate) servers: usize,
    pub(crate) at_once: usize,
    pub(crate) request_bytes: usize,
    pub(crate) answer_bytes: usize,
    pub(crate) think_ns: u64,
    pub(crate) until_ns: u64,
    /// Calls that each client may still make.
    pub(crate) left: Vec<u64>,
    pub(crate) open: usize,
    pub(crate) rng: Rng,
    pub(crate) done: Vec<Ended>,
}

impl Closed {
    fn call(&mut self, world: &mut World, at_ns: u64, client: usize) {
        if self.left[client] == 0 || at_ns >= self.until_ns {
            return;
        }
        self.left[client] -= 1;
        self.open += 1;
        let server = self.clients + client % self.servers;
        let Self { request_bytes, answer_bytes, .. } = *self;
        world.call_at(at_ns.max(world.now_ns), Exchange { client, server, request_bytes, answer_bytes });
    }

    /// Clients start at different times within this span, so that they do not run in step.
    fn begins_within_ns(&self, setup: &Setup) -> u64 {
        setup.call_ns(self.request_bytes.min(STEP_BYTES), self.answer_bytes.min(STEP_BYTES))
    }
}

impl Work for Closed {
    fn begin(&mut self, world: &mut World) {
        self.until_ns = self.until_ns.saturating_add(world.now_ns);
        let within_ns = self.begins_within_ns(&world.setup);
        for client in 0..self.clients {
            for _ in 0..self.at_once {
                let at_ns = world.now_ns + self.rng.below(within_ns);
                self.call(world, at_ns, client);
            }
        }
    }

    fn ended(&mut self, world: &mut World, ended: &Ended) {
        self.open -= 1;
        self.done.push(*ended);
        self.call(world, ended.ended_ns + self.think_ns, ended.what.client);
    }

    fn is_over(&self) -> bool {
        self.open == 0
    }
}

/// Clients start within the time of a call of this length.
const STEP_BYTES: usize = 10_000;
