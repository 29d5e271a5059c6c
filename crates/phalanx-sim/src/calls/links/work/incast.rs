//! The incast workload: one client calls all servers at once, round after round.

use crate::calls::links::host::Exchange;
use crate::calls::links::setup::SMALL_BYTES;
use crate::calls::links::world::{Ended, Work, World};

/// See [`crate::calls::links::Workload::Incast`].
pub(crate) struct Incast {
    pub(crate) servers: usize,
    pub(crate) answer_bytes: usize,
    pub(crate) left: u64,
    pub(crate) open: usize,
    pub(crate) round_began_ns: u64,
    /// Duration of each round.
    pub(crate) rounds_ns: Vec<u64>,
    pub(crate) done: Vec<Ended>,
}

impl Incast {
    fn round(&mut self, world: &mut World, at_ns: u64) {
        self.left -= 1;
        self.open = self.servers;
        self.round_began_ns = at_ns;
        for server in 1..=self.servers {
            let answer_bytes = self.answer_bytes;
            world.call(at_ns, Exchange { client: 0, server, request_bytes: SMALL_BYTES, answer_bytes });
        }
    }
}

impl Work for Incast {
    fn begin(&mut self, world: &mut World) {
        let now_ns = world.now_ns;
        self.round(world, now_ns);
    }

    fn ended(&mut self, world: &mut World, ended: &Ended) {
        self.done.push(*ended);
        self.open -= 1;
        if self.open > 0 {
            return;
        }
        self.rounds_ns.push(ended.ended_ns - self.round_began_ns);
        if self.left > 0 {
            self.round(world, ended.ended_ns);
        }
    }

    fn is_over(&self) -> bool {
        self.open == 0 && self.left == 0
    }
}
