//! Traces of the endpoints' applications, one for each life. The checker evaluates each run a second time from them,
//! and knows nothing of this simulator or its judge.

use std::net::SocketAddr;

use phalanx_check::{Options, Property, Require, check};
use phalanx_core::id::Incarnation;
use phalanx_core::rpc::{CallOptions, Failure};
use phalanx_trace::{CallOutcome, Event, Header, Trace, payload_hash};

use super::judge::seconds;

/// The traces of a run.
#[derive(Debug, Default)]
pub(super) struct Records {
    traces: Vec<Trace>,
    /// Numbers of calls made and runs begun, for each trace.
    counts: Vec<(u64, u64)>,
    /// Trace of the current life of each node.
    current: Vec<Option<usize>>,
    /// Trace and number of each call and run, by the judge's numbers.
    calls: Vec<(usize, u64)>,
    runs: Vec<(usize, u64)>,
}

impl Records {
    /// Begins a life of a process.
    pub(super) fn begin(&mut self, at_ns: u64, at: usize, me: Incarnation, address: SocketAddr) {
        let mut trace = Trace::new(Header::process("calls", &format!("node {at}"), me.0.max(1), "simulated"));
        trace.push(at_ns, Event::Start);
        trace.push(at_ns, Event::Endpoint { address: address.to_string() });
        if self.current.len() <= at {
            self.current.resize(at + 1, None);
        }
        self.current[at] = Some(self.traces.len());
        self.traces.push(trace);
        self.counts.push((0, 0));
    }

    /// Records the acceptance of the judge's next call.
    pub(super) fn made(
        &mut self,
        at_ns: u64,
        (client, server): (usize, SocketAddr),
        options: &CallOptions,
        request: &[u8],
    ) {
        let Some(trace) = self.current[client] else { return };
        self.counts[trace].0 += 1;
        let call = self.counts[trace].0;
        self.calls.push((trace, call));
        let (to, hash) = (server.to_string(), payload_hash(request));
        self.traces[trace].push(at_ns, Event::CallMade { call, to, idempotent: options.idempotent, hash });
        let within_ns = u64::try_from(options.deadline.as_nanos()).unwrap_or(u64::MAX);
        self.traces[trace].push(at_ns, Event::CallDeadline { call, within_ns });
    }

    /// Records the begin of the judge's next run.
    pub(super) fn ran(&mut self, at_ns: u64, server: usize, from: Incarnation, request: &[u8]) {
        let Some(trace) = self.current[server] else { return };
        self.counts[trace].1 += 1;
        let run = self.counts[trace].1;
        self.runs.push((trace, run));
        self.traces[trace].push(at_ns, Event::CallRan { run, from: from.0, hash: payload_hash(request) });
    }

    /// Records a handler's answer, or its report that it did nothing.
    pub(super) fn said(&mut self, at_ns: u64, run: usize, answer: Option<&[u8]>) {
        let (trace, run) = self.runs[run];
        self.traces[trace].push(at_ns, Event::CallAnswered { run, answer: answer.map(payload_hash) });
    }

    /// Records the outcome that a caller learned.
    pub(super) fn told(&mut self, at_ns: u64, call: usize, outcome: &Result<Vec<u8>, Failure>) {
        let (trace, call) = self.calls[call];
        let outcome = match outcome {
            Ok(answer) => CallOutcome::Answer { hash: payload_hash(answer) },
            Err(Failure::NotExecuted(_)) => CallOutcome::NotExecuted,
            Err(Failure::Unknown(_)) => CallOutcome::Unknown,
        };
        self.traces[trace].push(at_ns, Event::CallEnded { call, outcome });
    }

    /// Ends the traces of the lives that lasted to the end of the run.
    pub(super) fn end(&mut self, now_ns: u64) {
        for trace in self.current.iter().flatten() {
            self.traces[*trace].push(now_ns, Event::End);
        }
    }

    /// The checker's findings in the judge's format, and how often properties of calls were put to the test.
    /// `call_bound_ns`: the longest time after its deadline until a call's caller is told. Stops are not recorded.
    pub(super) fn verdict(&self, now_ns: u64, call_bound_ns: u64) -> (Vec<String>, u64) {
        let options = Options { require: Require::Nothing, clock_slack_ns: 0, call_bound_ns, ..Options::default() };
        let report = check(&self.traces, &options);
        let broken = report.properties.iter().filter(|property| property.violations > 0);
        let tell =
            |code: Property, text: &str| format!("{code} at {} s: found by the checker: {text}", seconds(now_ns));
        let found = broken.flat_map(|broken| broken.first.iter().map(|first| tell(broken.property, &first.summary)));
        (found.collect(), Property::OF_CALLS.iter().map(|property| report.instances(*property)).sum())
    }
}
