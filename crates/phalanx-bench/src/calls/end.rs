//! One end of a carrier, whatever the carrier: what it can do, and what it hears.

use std::time::Duration;

use phalanx_runtime::core::Incarnation;
use phalanx_runtime::driver::Driver;
use phalanx_runtime::rpc::{CallId, ClientCallId, HandlerResult, Outcome, Recorded, Service};

use super::role::Place;
use crate::error::BenchError;
use crate::measure::is_kernel_drop;

/// One end of a carrier, client or server.
pub(super) trait End {
    fn place(&self) -> Place;
    /// Learns the address of the other end. Only a carrier without sessions needs this.
    fn meet(&mut self, _other: &Place) {}
    /// Processes what arrived. Returns whether anything did.
    fn poll(&mut self, heard: &mut Heard) -> Result<bool, BenchError>;
    fn sleep(&mut self, most: Duration) -> Result<(), BenchError>;
    /// Calls one of its servers. Returns the call's number, which is one more than that of the previous call. `None`:
    /// the carrier takes no more calls until one has ended.
    fn call(&mut self, server: usize, request: &[u8], heard: &mut Heard) -> Result<Option<u64>, BenchError>;
    /// Replaces the sessions with its servers by new ones.
    fn renew(&mut self, _heard: &mut Heard) {}
    /// Starts to record where calls spend their time.
    fn keep_trace(&mut self) {}
    /// Returns the recorded time trace.
    fn trace(&self) -> Vec<Recorded> {
        Vec::new()
    }
    /// Passes its counters to `_each`, if it has any.
    fn counters(&self, _each: &mut dyn FnMut(&'static str, u64)) {}
    /// Number of packets that the kernel dropped because its receive buffer was full.
    fn kernel_drops(&self) -> u64 {
        0
    }
}

/// What a server answers, and how the calls of a client ended.
#[derive(Default)]
pub(super) struct Heard {
    /// The answer a server gives. `None`: the request itself.
    pub(super) answer: Option<Vec<u8>>,
    /// Calls that ended since this list was last drained.
    pub(super) ended: Vec<Ended>,
    /// The last long answer, reused as the next request. A caller whose message already lies in its own memory need not
    /// copy it.
    pub(super) taken: Vec<u8>,
}

pub(super) struct Ended {
    pub(super) number: u64,
    /// Length of the answer in bytes. `None`: the call failed.
    pub(super) answer_bytes: Option<usize>,
}

impl Heard {
    pub(super) fn take(&mut self, number: u64, outcome: Outcome<'_>) {
        let answer_bytes = match outcome {
            Outcome::Answer(answer) => Some(answer.len()),
            Outcome::Failed(_) => None,
        };
        self.ended.push(Ended { number, answer_bytes });
    }
}

impl Service for Heard {
    #[inline]
    fn request(&mut self, _: CallId, _: Incarnation, request: &[u8], answer: &mut Vec<u8>) -> HandlerResult {
        answer.extend_from_slice(self.answer.as_deref().unwrap_or(request));
        HandlerResult::Answered
    }

    fn long_request(
        &mut self,
        call: CallId,
        from: Incarnation,
        request: &mut Vec<u8>,
        answer: &mut Vec<u8>,
    ) -> HandlerResult {
        if self.answer.is_some() {
            return self.request(call, from, request, answer);
        }
        // The request is returned without a copy, as the TCP carrier does; otherwise the comparison would not be fair.
        std::mem::swap(request, answer);
        HandlerResult::Answered
    }

    #[inline]
    fn outcome(&mut self, call_id: ClientCallId, outcome: Outcome<'_>) {
        self.take(call_id.0, outcome);
    }

    fn long_answer(&mut self, call_id: ClientCallId, answer: &mut Vec<u8>) {
        self.take(call_id.0, Outcome::Answer(answer));
        self.taken = std::mem::take(answer);
    }
}

/// Returns `count` bytes that are not all equal.
pub(super) fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at % 251) as u8).collect()
}

/// Sum of the kernel drops among a driver's counters.
pub(super) fn drops_of(driver: &impl Driver) -> u64 {
    let mut drops = 0;
    driver.counters(&mut |name, value| {
        if is_kernel_drop(name) {
            drops += value;
        }
    });
    drops
}

/// Time between two checks of whether the benchmark goes on.
pub(super) const LOOK: Duration = Duration::from_millis(20);
